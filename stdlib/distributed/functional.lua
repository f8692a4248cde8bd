-- stdlib/distributed/functional.lua: collectives whose results are new tensors, with gradients: ops
-- of ml.ops.distributed under the names that ml.distributed.functional has for them.

local collectives = require "moonlet.distributed.collectives"
local ml = require "moonlet"
local options = require "moonlet.options"
local run_rule = require "moonlet.autograd.vmap_rule"
local signature = require "moonlet.signature"
local state = require "moonlet.distributed.state"
local work = require "moonlet.distributed.work"
local fail = options.fail

local functional = {}

local definitions = {}
local op = work.ops(definitions)

-- Each of these is linear in its tensor, so a tangent goes the way of the tensor: `again` calls the
-- op with the other arguments of a call. A batch of vmap is one tensor to all ranks.
local function define(schema, forward, gradient, again, by_rows)
  local function in_rows(_, dims, x, ...)
    if not dims[1] then return op[by_rows](x, ...), false end
    x = x:movedim(dims[1], -1)
    local y = op[by_rows](x:dim() == 1 and x:unsqueeze(1) or x, ...)
    return y, y:dim()
  end
  local name = schema:match "^[%w_]+"
  local rule = { name = "distributed.functional." .. name,
    vmap = by_rows and in_rows or function(_, dims, x, ...)
      return op[name](x, ...), dims[1] or false
    end }
  -- Where forward mode is inside vmap, it is the batch that comes here.
  local function run(x, ...)
    local level, size, randomness = ml._vmap_enclosing(x)
    if not level then return forward(x, ...) end
    return run_rule(rule, level, size, randomness, x, ...)[1]
  end
  return { schema, forward = run, grad = { x = gradient }, vmap = rule.vmap,
    jvp = function(ctx, tangent) return again(tangent, ctx.arguments) end }
end

local function check_linear(name, reduction, avg)
  if reduction == "sum" or avg and reduction == "avg" then return end
  fail("distributed.functional.%s: '%s' has no gradient, only 'sum' %s", name, reduction,
    avg and "and 'avg' have one" or "has one")
end

local function group_of(values) return state.groups[values.group] end

local function cat_shape(x, group)
  local shape = table.move(x.shape, 1, x:dim(), 1, {})
  shape[1] = (shape[1] or 1) * group.size
  return shape
end

definitions.all_reduce = define("all_reduce(Tensor x, string op, int group) -> Tensor",
  function(x, reduction, group)
    local y = x:clone()
    collectives.all_reduce(y, reduction, { group = state.groups[group] })
    return y
  end,
  function(g, values)
    check_linear("all_reduce", values.op, true)
    return op.all_reduce(g, values.op, values.group)
  end,
  function(tangent, values)
    check_linear("all_reduce", values.op, true)
    return op.all_reduce(tangent, values.op, values.group)
  end)

definitions.all_gather = define("all_gather(Tensor x, int group) -> Tensor",
  function(x, group)
    group = state.groups[group]
    local y = ml.empty(cat_shape(x, group), { dtype = x.dtype, device = x.device })
    collectives.all_gather_into_tensor(y, x, { group = group })
    return y
  end,
  function(g, values) return op.reduce_scatter(g, "sum", values.group) end,
  function(tangent, values) return op.all_gather(tangent, values.group) end, "all_gather")

definitions.reduce_scatter = define("reduce_scatter(Tensor x, string op, int group) -> Tensor",
  function(x, reduction, group)
    group = state.groups[group]
    local shape = table.move(x.shape, 1, x:dim(), 1, {})
    if shape[1] == nil or shape[1] % group.size ~= 0 then
      fail("distributed.functional.reduce_scatter: the first dimension must be a multiple of the "
        .. "%d ranks, got %s", group.size, shape[1] and tostring(shape[1]) or "no dimension")
    end
    shape[1] = shape[1] // group.size
    local y = ml.empty(shape, { dtype = x.dtype, device = x.device })
    collectives.reduce_scatter_tensor(y, x, reduction, { group = group })
    return y
  end,
  function(g, values)
    check_linear("reduce_scatter", values.op, true)
    local all = op.all_gather(g, values.group)
    if values.op == "avg" then all = all / group_of(values).size end
    return all
  end,
  function(tangent, values)
    check_linear("reduce_scatter", values.op, true)
    return op.reduce_scatter(tangent, values.op, values.group)
  end, "reduce_scatter")

definitions.broadcast = define("broadcast(Tensor x, int src, int group) -> Tensor",
  function(x, src, group)
    local y = x:clone()
    collectives.broadcast(y, src, { group = state.groups[group] })
    return y
  end,
  function(g, values) return op.reduce(g, values.src, "sum", values.group) end,
  function(tangent, values) return op.broadcast(tangent, values.src, values.group) end)

-- What others than `dst` have is of no use: it is 0, and so is its gradient.
definitions.reduce = define("reduce(Tensor x, int dst, string op, int group) -> Tensor",
  function(x, dst, reduction, group)
    local y = x:clone()
    collectives.reduce(y, dst, reduction, { group = state.groups[group] })
    if state.world.rank ~= dst then y:zero_() end
    return y
  end,
  function(g, values)
    check_linear("reduce", values.op)
    return op.broadcast(g, values.dst, values.group)
  end,
  function(tangent, values)
    check_linear("reduce", values.op)
    return op.reduce(tangent, values.dst, values.op, values.group)
  end)

definitions.all_to_all_single = define(
  "all_to_all_single(Tensor x, int[*] received, int[*] sent, int group) -> Tensor",
  function(x, received, sent, group)
    local shape, rows = table.move(x.shape, 1, x:dim(), 1, {}), 0
    for _, size in ipairs(received) do rows = rows + size end
    shape[1] = rows
    local y = ml.empty(shape, { dtype = x.dtype, device = x.device })
    collectives.all_to_all_single(y, x, received, sent, { group = state.groups[group] })
    return y
  end,
  function(g, values)
    return op.all_to_all_single(g, values.sent, values.received, values.group)
  end,
  function(tangent, values)
    return op.all_to_all_single(tangent, values.received, values.sent, values.group)
  end, "all_to_all_single")

local read_all_reduce = signature('distributed.functional.all_reduce(Tensor tensor, '
  .. 'ReduceOp op="sum", Group? group=nil)')

--- The reduction of a tensor over all ranks as a new one. The gradient of "sum" is the sum of the
--- gradients of all ranks.
--- > ml.distributed.init_process_group()
--- > ml.distributed.functional.all_reduce(ml.ones(2))
---   {1., 1.}
---   Tensor (2,) float32
--- > ml.distributed.destroy_process_group()
---@param tensor moonlet.Tensor this rank's
---@param op? string the reduction, as of `ml.distributed.all_reduce`
---@param group? table the group; all ranks unless given
---@return moonlet.Tensor
---@shape tensor (*) -> (*)
---@formula y = sum_r x_r
function functional.all_reduce(...)
  local x, reduction, group = read_all_reduce(...)
  group = state.group_of("distributed.functional.all_reduce", group)
  return op.all_reduce(x, reduction, group.number)
end

local read_all_gather = signature('distributed.functional.all_gather(Tensor tensor, '
  .. 'Group? group=nil)')

--- The tensors of all ranks joined along the first dimension.
--- > ml.distributed.init_process_group()
--- > ml.distributed.functional.all_gather(ml.ones(2))
---   {1., 1.}
---   Tensor (2,) float32
--- > ml.distributed.destroy_process_group()
---@param tensor moonlet.Tensor this rank's, of one shape on all ranks
---@param group? table the group; all ranks unless given
---@return moonlet.Tensor
---@shape tensor (n, *) -> (ranks n, *)
function functional.all_gather(...)
  local x, group = read_all_gather(...)
  group = state.group_of("distributed.functional.all_gather", group)
  return op.all_gather(x, group.number)
end

local read_scatter = signature('distributed.functional.reduce_scatter(Tensor tensor, '
  .. 'ReduceOp op="sum", Group? group=nil)')

--- This rank's part of the reduction of a tensor over all ranks.
--- > ml.distributed.init_process_group()
--- > ml.distributed.functional.reduce_scatter(ml.ones(2))
---   {1., 1.}
---   Tensor (2,) float32
--- > ml.distributed.destroy_process_group()
---@param tensor moonlet.Tensor the parts of all ranks, one behind the other
---@param op? string the reduction, as of `ml.distributed.all_reduce`
---@param group? table the group; all ranks unless given
---@return moonlet.Tensor
---@shape tensor (ranks n, *) -> (n, *)
function functional.reduce_scatter(...)
  local x, reduction, group = read_scatter(...)
  group = state.group_of("distributed.functional.reduce_scatter", group)
  return op.reduce_scatter(x, reduction, group.number)
end

local read_broadcast = signature('distributed.functional.broadcast(Tensor tensor, int>=0 src, '
  .. 'Group? group=nil)')

--- The tensor that one rank has, on all. The gradient goes there.
--- > ml.distributed.init_process_group()
--- > ml.distributed.functional.broadcast(ml.ones(2), 0)
---   {1., 1.}
---   Tensor (2,) float32
--- > ml.distributed.destroy_process_group()
---@param tensor moonlet.Tensor what rank `src` has, of one shape on all ranks
---@param src integer the rank, from 0
---@param group? table the group; all ranks unless given
---@return moonlet.Tensor
---@shape tensor (*) -> (*)
function functional.broadcast(...)
  local x, src, group = read_broadcast(...)
  group = state.group_of("distributed.functional.broadcast", group)
  state.position_of("distributed.functional.broadcast", "src", group, src)
  return op.broadcast(x, src, group.number)
end

local read_reduce = signature('distributed.functional.reduce(Tensor tensor, int>=0 dst, '
  .. 'ReduceOp op="sum", Group? group=nil)')

--- The reduction of a tensor over all ranks on one of them; zeros on the others.
--- > ml.distributed.init_process_group()
--- > ml.distributed.functional.reduce(ml.ones(2), 0)
---   {1., 1.}
---   Tensor (2,) float32
--- > ml.distributed.destroy_process_group()
---@param tensor moonlet.Tensor this rank's
---@param dst integer the rank, from 0
---@param op? string the reduction, as of `ml.distributed.all_reduce`
---@param group? table the group; all ranks unless given
---@return moonlet.Tensor
---@shape tensor (*) -> (*)
function functional.reduce(...)
  local x, dst, reduction, group = read_reduce(...)
  group = state.group_of("distributed.functional.reduce", group)
  state.position_of("distributed.functional.reduce", "dst", group, dst)
  return op.reduce(x, dst, reduction, group.number)
end

local read_to_all = signature('distributed.functional.all_to_all_single(Tensor tensor, '
  .. 'int[]>=0? output_split_sizes=nil, int[]>=0? input_split_sizes=nil, Group? group=nil)')

-- The same number of rows for each rank.
local function even(x, group)
  local out = {}
  if x:dim() == 0 or x:size(1) % group.size ~= 0 then
    fail("distributed.functional.all_to_all_single: %d ranks cannot share %s rows evenly; give the "
      .. "split sizes", group.size, x:dim() == 0 and "0" or tostring(x:size(1)))
  end
  for i = 1, group.size do out[i] = x:size(1) // group.size end
  return out
end

--- What all ranks send this one, each a part of its tensor, joined along the first dimension.
--- > ml.distributed.init_process_group()
--- > ml.distributed.functional.all_to_all_single(ml.ones(2))
---   {1., 1.}
---   Tensor (2,) float32
--- > ml.distributed.destroy_process_group()
---@param tensor moonlet.Tensor the parts for all ranks
---@param output_split_sizes? integer[] rows that come from each rank; the same number unless given
---@param input_split_sizes? integer[] rows that go to each rank; the same number unless given
---@param group? table the group; all ranks unless given
---@return moonlet.Tensor
---@shape tensor (n, *) -> (m, *)
function functional.all_to_all_single(...)
  local x, received, sent, group = read_to_all(...)
  group = state.group_of("distributed.functional.all_to_all_single", group)
  return op.all_to_all_single(x, received or even(x, group), sent or even(x, group), group.number)
end

return options.namespace("distributed.functional", functional)
