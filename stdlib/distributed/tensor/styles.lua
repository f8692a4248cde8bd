-- stdlib/distributed/tensor/styles.lua: how the ranks of a group share the work of a layer: by the
-- columns or the rows of its matrix, or by positions of its input.

local class = require "moonlet.class"
local layer = require "moonlet.nn.layer"
local layouts = require "moonlet.distributed.tensor.layouts"
local ml = require "moonlet"
local nn = require "moonlet.nn"
local options = require "moonlet.options"
local parts = require "moonlet.distributed.tensor.parts"
local redistribute = require "moonlet.distributed.tensor.redistribute"
local signature = require "moonlet.signature"
local streams = require "moonlet.distributed.tensor.streams"
local fail = options.fail

local styles = {}

-- What all styles are: `apply(module, group, context)` changes one module.
local ParallelStyle = class "ParallelStyle"
styles._ParallelStyle = ParallelStyle

signature.add_type("ParallelStyle", "a parallel style", function(value)
  return class.is_instance(value, ParallelStyle) and value or nil
end)

local function name_of(self) return class.name(class.of(self)) end

-- Which of the classes the module is of, with that class's own forward.
local function kind_of(module, kinds)
  for _, name in ipairs(kinds) do
    if class.is_instance(module, nn[name]) and module.forward == nn[name].forward then
      return name
    end
  end
end

local function check_kind(self, module, context, kinds)
  local kind = kind_of(module, kinds)
  if not kind then
    fail("%s: '%s' is %s, expected nn.%s with its own forward", name_of(self), context.name,
      signature.describe(module), table.concat(kinds, ", nn."))
  end
  return kind
end

-- Puts a function in the place of the module's forward. It gets the module as an argument, so
-- that copies of the module work.
local function set_forward(module, forward) rawset(module, "forward", forward) end

-- The sizes of a dimension of a parameter that has several pieces.
local function piece_sizes(self, context, total, pieces, group)
  if total % pieces ~= 0 then
    fail("%s: '%s': %d features are not %d pieces of one size", name_of(self), context.name, total,
      pieces)
  end
  return layouts.chunk_sizes(total // pieces, group.size)
end

-- --- columns ------------------------------------------------------------------------------------

local read_colwise = signature('distributed.tensor.parallel.ColwiseParallel('
  .. 'Layout? input_layouts=nil, Layout? output_layouts=nil, int>=1 parts=1)')

--- Style of an `nn.Linear` of which each rank computes some of the features, and of an
--- `nn.Embedding` of which each has some columns. The input is what all ranks have, and the
--- results are the features of each rank, unless layouts say something else. The features need not
--- be a multiple of the ranks: the last ones then have fewer.
--- > mesh = ml.distributed.init_device_mesh("cpu", { 1 })
--- > tp = ml.distributed.tensor.parallel
--- > net = tp.parallelize_module(ml.nn.Linear(4, 6), mesh, tp.ColwiseParallel())
--- > net(ml.ones(2, 4)).shape
---   (2, 6)
--- > ml.distributed.destroy_process_group()
---@param input_layouts? table what comes in: `Replicate()` unless given; with `Shard(dim)` the
---   parts are gathered
---@param output_layouts? table what goes out: `Shard(-1)` unless given; with `Replicate()` the
---   features of all ranks are gathered
---@param parts? integer how many layers the matrix is made of, one above the other, such as 3 of
---   query, key and value: each is sharded
---@see distributed.tensor.parallel.RowwiseParallel
---@source Shoeybi et al., 2019: Megatron-LM, training multi-billion parameter language models
local ColwiseParallel = class("ColwiseParallel", ParallelStyle)
styles.ColwiseParallel = ColwiseParallel

function ColwiseParallel:init(...)
  local from, to, pieces = read_colwise(...)
  self.from, self.to = from or layouts.Replicate(), to or layouts.Shard(-1)
  self.pieces = pieces
  if pieces > 1 and not (class.is_instance(self.to, layouts.Shard) and self.to.dim == -1) then
    fail("ColwiseParallel: with 'parts' %d the results stay where they are: 'output_layouts' must "
      .. "be Shard(-1), got %s", pieces, tostring(self.to))
  end
end

local LAST = layouts.Shard(-1)

local function colwise_linear(self, group, context)
  local from, to, where = self.from, self.to, ("ColwiseParallel '%s'"):format(context.name)
  return function(module, x)
    layer.check_input(module, x)
    x = redistribute.enter(where, x, from, group, module.in_features)
    local y = layer.run(module, ml.linear, x, module.weight, module.bias)
    return redistribute.change(where, y, LAST, to, group, module.out_features)
  end
end

local function check_ids(self, ids)
  if not ml.is_tensor(ids) or ids:is_floating_point() or ids:numel() == 0 then return end
  local low, high = ids:min():item(), ids:max():item()
  if low < 1 or high > self.num_embeddings then
    fail("%s: index %d is out of range; there are %d rows, counted from 1", self:describe(),
      low < 1 and low or high, self.num_embeddings)
  end
end

-- What an embedding that is sharded cannot do: what needs whole rows, or the counts of all.
local function check_embedding(self, module, context, counts)
  if module.max_norm then
    fail("%s: '%s': an embedding with 'max_norm' cannot be sharded", name_of(self), context.name)
  elseif counts and module.scale_grad_by_freq then
    fail("%s: '%s': an embedding with 'scale_grad_by_freq' cannot be sharded by rows",
      name_of(self), context.name)
  end
end

-- What comes in are integers, which need no gradient.
local function ids_of(where, ids, from, group)
  return redistribute.change(where, ids, from, layouts.Replicate(), group)
end

local function colwise_embedding(self, group, context)
  local from, to, where = self.from, self.to, ("ColwiseParallel '%s'"):format(context.name)
  return function(module, ids)
    layer.check_input(module, ids)
    local y = layer.run(module, ml.embedding, module.weight, ids_of(where, ids, from, group),
      module.padding_idx or 0, module.scale_grad_by_freq, module.sparse)
    return redistribute.change(where, y, LAST, to, group, module.embedding_dim)
  end
end

function ColwiseParallel:apply(module, group, context)
  local kind = check_kind(self, module, context, { "Linear", "Embedding" })
  if kind == "Embedding" then
    check_embedding(self, module, context)
    local sizes = piece_sizes(self, context, module.embedding_dim, self.pieces, group)
    parts.part(module, "weight", { dim = 2, sizes = sizes, pieces = self.pieces, group = group },
      context)
    return set_forward(module, colwise_embedding(self, group, context))
  end
  local sizes = piece_sizes(self, context, module.out_features, self.pieces, group)
  for _, field in ipairs { "weight", "bias" } do
    if module[field] then
      parts.part(module, field, { dim = 1, sizes = sizes, pieces = self.pieces, group = group },
        context)
    end
  end
  set_forward(module, colwise_linear(self, group, context))
end

-- --- rows ---------------------------------------------------------------------------------------

local read_rowwise = signature('distributed.tensor.parallel.RowwiseParallel('
  .. 'Layout? input_layouts=nil, Layout? output_layouts=nil)')

--- Style of an `nn.Linear` of which each rank takes some of the features that come in, and of an
--- `nn.Embedding` of which each has some rows. The results of the ranks are added up. Behind
--- `ColwiseParallel` it takes what each rank has, without a message in between. The features, or
--- rows, need not be a multiple of the ranks: the last ones then have fewer.
--- > mesh = ml.distributed.init_device_mesh("cpu", { 1 })
--- > tp = ml.distributed.tensor.parallel
--- > net = ml.nn.Sequential(ml.nn.Linear(4, 6), ml.nn.ReLU(), ml.nn.Linear(6, 4))
--- > plan = { ["0"] = tp.ColwiseParallel(), ["2"] = tp.RowwiseParallel() }
--- > tp.parallelize_module(net, mesh, plan)(ml.ones(2, 4)).shape
---   (2, 4)
--- > ml.distributed.destroy_process_group()
---@param input_layouts? table what comes in: of a linear layer `Shard(-1)` unless given, of an
---   embedding `Replicate()`
---@param output_layouts? table what goes out: `Replicate()` unless given; with `Shard(dim)` each
---   rank gets a part of the sum
---@see distributed.tensor.parallel.ColwiseParallel
---@source Shoeybi et al., 2019: Megatron-LM, training multi-billion parameter language models
local RowwiseParallel = class("RowwiseParallel", ParallelStyle)
styles.RowwiseParallel = RowwiseParallel

function RowwiseParallel:init(...)
  local from, to = read_rowwise(...)
  self.from, self.to = from, to or layouts.Replicate()
end

-- The bias for what goes out: of parts of the features its part; else all of it, whose gradient is
-- the sum of all ranks' where they have parts.
local function bias_of(where, bias, y, to, group)
  local dim = layouts.dim_of(where, to, y:dim())
  if dim == y:dim() then
    return redistribute.change(where, bias, layouts.Replicate(), LAST, group, bias:numel())
  end
  return dim and redistribute.copy(bias, group) or bias
end

local function rowwise_linear(self, group, context)
  local from, to = self.from or LAST, self.to
  local where = ("RowwiseParallel '%s'"):format(context.name)
  return function(module, x)
    layer.check_input(module, x)
    x = redistribute.change(where, x, from, LAST, group, module.in_features)
    local y = layer.run(module, ml.linear, x, module.weight)
    y = redistribute.leave(where, y, to, group, module.out_features)
    return module.bias and y + bias_of(where, module.bias, y, to, group) or y
  end
end

-- The rows that this rank has, zeros for the others.
local function own_rows(module, ids, before, count)
  local local_ids = ids - before
  local elsewhere = local_ids:lt(1):logical_or(local_ids:gt(count))
  local own = module.padding_idx and module.padding_idx - before or 0
  if own < 1 or own > count then own = 0 end
  local y = layer.run(module, ml.embedding, module.weight, local_ids:masked_fill(elsewhere, 1), own,
    false, module.sparse)
  return y:masked_fill(elsewhere:unsqueeze(-1), 0)
end

local function rowwise_embedding(self, group, context, sizes)
  local from, to = self.from or layouts.Replicate(), self.to
  local where = ("RowwiseParallel '%s'"):format(context.name)
  local before, count = layouts.range(sizes, group.rank)
  return function(module, ids)
    layer.check_input(module, ids)
    check_ids(module, ids)
    local y = own_rows(module, ids_of(where, ids, from, group), before, count)
    return redistribute.leave(where, y, to, group, module.embedding_dim)
  end
end

function RowwiseParallel:apply(module, group, context)
  local kind = check_kind(self, module, context, { "Linear", "Embedding" })
  if kind == "Linear" then
    local sizes = layouts.chunk_sizes(module.in_features, group.size)
    parts.part(module, "weight", { dim = 2, sizes = sizes, pieces = 1, group = group }, context)
    return set_forward(module, rowwise_linear(self, group, context))
  end
  check_embedding(self, module, context, true)
  local sizes = layouts.chunk_sizes(module.num_embeddings, group.size)
  if sizes[group.size] == 0 then
    fail("RowwiseParallel: '%s': of %d rows the last of %d ranks would have none", context.name,
      module.num_embeddings, group.size)
  end
  parts.part(module, "weight", { dim = 1, sizes = sizes, pieces = 1, group = group }, context)
  set_forward(module, rowwise_embedding(self, group, context, sizes))
end

-- --- positions ----------------------------------------------------------------------------------

local NORMS = { "LayerNorm", "RMSNorm" }
local DROPOUTS = { "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout",
  "FeatureAlphaDropout" }

local read_sequence = signature('distributed.tensor.parallel.SequenceParallel('
  .. 'int sequence_dim=2)')

--- Style of an `nn.LayerNorm`, `nn.RMSNorm` or a dropout of which each rank has some of the
--- positions of the input, in and out. The gradients of its parameters are the sums of all ranks',
--- and each rank drops elements of its own. A dropout between `ColwiseParallel` and
--- `RowwiseParallel`, where each rank has some of the features, needs it too.
--- > mesh = ml.distributed.init_device_mesh("cpu", { 1 })
--- > tp = ml.distributed.tensor.parallel
--- > norm = tp.parallelize_module(ml.nn.LayerNorm(4), mesh, tp.SequenceParallel())
--- > norm(ml.ones(2, 3, 4)).shape
---   (2, 3, 4)
--- > ml.distributed.destroy_process_group()
---@param sequence_dim? integer the dimension of which each rank has a part; negative numbers count
---   from the last
---@source Korthikanti et al., 2022: Reducing activation recomputation in large transformer models
local SequenceParallel = class("SequenceParallel", ParallelStyle)
styles.SequenceParallel = SequenceParallel

function SequenceParallel:init(...)
  self.layout = layouts.Shard((read_sequence(...)))
end

-- The module with other values in some fields, for one call.
local function with_fields(module, fields)
  return setmetatable(fields, { __index = module })
end

local function check_norm(where, module, layout, x)
  local dim = layouts.dim_of(where, layout, x:dim())
  if dim > x:dim() - #module.normalized_shape then
    fail("%s: dimension %d is normalised over, so ranks cannot share it", where, dim)
  end
end

function SequenceParallel:apply(module, group, context)
  local kinds = table.move(DROPOUTS, 1, #DROPOUTS, #NORMS + 1, table.move(NORMS, 1, #NORMS, 1, {}))
  local kind = check_kind(self, module, context, kinds)
  local forward, layout = module.forward, self.layout
  local where = ("SequenceParallel '%s'"):format(context.name)
  if kind:find "Dropout" then
    return set_forward(module, function(own, x)
      layer.check_input(own, x)
      layouts.dim_of(where, layout, x:dim())
      if not own.training then return forward(own, x) end
      return streams.apart(group, forward, own, x)
    end)
  end
  set_forward(module, function(own, x)
    layer.check_input(own, x)
    check_norm(where, own, layout, x)
    return forward(with_fields(own, {
      weight = own.weight and redistribute.copy(own.weight, group),
      bias = own.bias and redistribute.copy(own.bias, group) }), x)
  end)
end

-- For the style of attention.
styles._check_kind, styles._set_forward = check_kind, set_forward
styles._with_fields, styles._bias_of = with_fields, bias_of

return styles
