-- stdlib/distributed/tensor/attention.lua: nn.MultiheadAttention of which each rank of a group
-- computes some of the heads.

local attention = require "moonlet.nn.attention"
local class = require "moonlet.class"
local layouts = require "moonlet.distributed.tensor.layouts"
local options = require "moonlet.options"
local parts = require "moonlet.distributed.tensor.parts"
local redistribute = require "moonlet.distributed.tensor.redistribute"
local signature = require "moonlet.signature"
local streams = require "moonlet.distributed.tensor.streams"
local styles = require "moonlet.distributed.tensor.styles"
local fail = options.fail

local heads = {}

local read_style = signature('distributed.tensor.parallel.AttentionParallel('
  .. 'Layout? input_layouts=nil, Layout? output_layouts=nil)')

--- Style of an `nn.MultiheadAttention` of which each rank has some of the heads, a divisor of their
--- number: its parts of the input projections, and of the rows of the layer behind the heads, whose
--- results are added up. Dropout of the attention weights differs by rank. For attention of a
--- script's own: `ColwiseParallel` for query, key and value, `RowwiseParallel` for the layer behind
--- the heads, and heads divided by the ranks in `forward`.
--- > mesh = ml.distributed.init_device_mesh("cpu", { 1 })
--- > tp = ml.distributed.tensor.parallel
--- > net = ml.nn.TransformerEncoderLayer(8, 2, { dim_feedforward = 16 })
--- > plan = { self_attn = tp.AttentionParallel(), linear1 = tp.ColwiseParallel(),
---     dropout = tp.SequenceParallel(-1), linear2 = tp.RowwiseParallel() }
--- > tp.parallelize_module(net, mesh, plan)(ml.ones(5, 3, 8)).shape
---   (5, 3, 8)
--- > ml.distributed.destroy_process_group()
---@param input_layouts? table what query, key and value are: `Replicate()` unless given
---@param output_layouts? table what the results are: `Replicate()` unless given
---@source Shoeybi et al., 2019: Megatron-LM, training multi-billion parameter language models
local AttentionParallel = class("AttentionParallel", styles._ParallelStyle)
heads.AttentionParallel = AttentionParallel

function AttentionParallel:init(...)
  local from, to = read_style(...)
  self.from, self.to = from or layouts.Replicate(), to or layouts.Replicate()
end

-- Query, key and value; what is the same tensor stays so.
local function entered(where, o, from, group)
  local function enter(x) return redistribute.enter(where, x, from, group) end
  local query, key, value = o.query, o.key, o.value
  o.query = enter(query)
  o.key = key == query and o.query or enter(key)
  o.value = value == query and o.query or value == key and o.key or enter(value)
end

-- A mask for each head, (n * heads, l, s), of this rank's heads.
local function own_mask(mask, count, group)
  if not mask or mask:dim() ~= 3 or mask:size(1) % (count * group.size) ~= 0 then return mask end
  local by_head = mask:view(-1, count * group.size, mask:size(2), mask:size(3))
  return by_head:narrow(2, group.rank * count + 1, count):flatten(1, 2)
end

-- The attention weights of all heads, or their mean.
local function all_weights(weights, average, batched, group)
  if not weights then return nil end
  local dim = batched and 2 or 1
  if average then
    return redistribute.sum(weights:sum(dim), group) / (weights:size(dim) * group.size)
  end
  return redistribute.change("AttentionParallel", weights, layouts.Shard(dim), layouts.Replicate(),
    group)
end

local function make_forward(self, group, context)
  local where, from, to = ("AttentionParallel '%s'"):format(context.name), self.from, self.to
  local forward = attention.MultiheadAttention.forward
  return function(module, ...)
    local o = attention._read_forward:table(...)
    entered(where, o, from, group)
    local count, average = module.num_heads // group.size, o.average_attn_weights
    o.attn_mask, o.average_attn_weights = own_mask(o.attn_mask, count, group), false
    local batched = o.query:dim() == 3
    local part = styles._with_fields(module, { num_heads = count,
      out_proj = { weight = module.out_proj.weight } })
    local y, weights
    if module.training and module.dropout > 0 then
      y, weights = streams.apart(group, forward, part, o)
    else
      y, weights = forward(part, o)
    end
    y = redistribute.leave(where, y, to, group, module.embed_dim)
    local bias = module.out_proj.bias
    if bias then y = y + styles._bias_of(where, bias, y, to, group) end
    return y, all_weights(weights, average, batched, group)
  end
end

-- The parameters whose rows are features of the heads, in so many pieces.
local PROJECTIONS = { in_proj_weight = 3, in_proj_bias = 3, q_proj_weight = 1, k_proj_weight = 1,
  v_proj_weight = 1 }

function AttentionParallel:apply(module, group, context)
  styles._check_kind(self, module, context, { "MultiheadAttention" })
  if module.num_heads % group.size ~= 0 then
    fail("AttentionParallel: '%s': %d ranks cannot share %d heads evenly", context.name, group.size,
      module.num_heads)
  end
  local sizes = layouts.chunk_sizes(module.embed_dim, group.size)
  local function part(owner, field, dim, pieces)
    if owner[field] == nil then return end
    parts.part(owner, field, { dim = dim, sizes = sizes, pieces = pieces, group = group }, context)
  end
  for _, field in ipairs { "in_proj_weight", "in_proj_bias", "q_proj_weight", "k_proj_weight",
      "v_proj_weight" } do
    part(module, field, 1, PROJECTIONS[field])
  end
  part(module, "bias_k", 3, 1)
  part(module, "bias_v", 3, 1)
  part(module.out_proj, "weight", 2, 1)
  styles._set_forward(module, make_forward(self, group, context))
end

return options.namespace("distributed.tensor.attention", heads)
