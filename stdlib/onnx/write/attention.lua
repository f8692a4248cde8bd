-- stdlib/onnx/write/attention.lua: scaled dot-product attention as ONNX nodes.

local fail = require("moonlet.options").fail
local sizes = require "moonlet.onnx.sizes"

local write = {}

-- With fewer heads of keys and values each stands for several of the query.
local function repeated(g, name, value, times)
  local shape, rank = {}, #value.shape
  table.move(value.shape, 1, rank - 2, 1, shape)
  shape[rank - 1] = times
  shape[rank], shape[rank + 1] = value.shape[rank - 1], value.shape[rank]
  local whole = {}
  table.move(value.shape, 1, rank, 1, whole)
  whole[rank - 2] = value.shape[rank - 2] * times
  local spread = g:node("Expand", { g:unsqueeze(name, { rank - 2 }), g:ints(shape) })
  return g:reshape(spread, whole)
end

local function swap_last(g, name, rank)
  local perm = {}
  for d = 1, rank do perm[d] = d - 1 end
  perm[rank], perm[rank - 1] = perm[rank - 1], perm[rank]
  return g:transpose(name, perm)
end

-- (l, s): minus infinity above the diagonal.
local function causal_mask(g, a, dtype)
  local l, s = a.query.shape[#a.query.shape - 1], a.key.shape[#a.key.shape - 1]
  local full = g:node("Expand", { g:float(-math.huge, dtype), g:ints { l, s } })
  return g:node("Trilu", { full, g:constant(1, "int64") }, { upper = 1 })
end

local function masked(g, scores, a, dtype)
  if a.is_causal then scores = g:node("Add", { scores, causal_mask(g, a, dtype) }) end
  local mask = a.attn_mask
  if not mask then return scores end
  if mask.dtype == "bool" then
    return g:node("Where", { g:plain(mask), scores, g:float(-math.huge, dtype) })
  end
  return g:node("Add", { scores, g:operand(mask, dtype) })
end

function write.scaled_dot_product_attention(g, a, call)
  if a.dropout_p and a.dropout_p > 0 then
    fail("onnx.export: scaled_dot_product_attention with dropout draws random numbers, which a "
      .. "graph for inference cannot%s", call.place)
  end
  local dtype, rank = call.results[1].dtype, #a.query.shape
  local query, key, value = g:operand(a.query, dtype), g:operand(a.key, dtype),
    g:operand(a.value, dtype)
  if a.enable_gqa then
    local heads = g:int(a.query.shape[rank - 2], "the number of heads")
    key = repeated(g, key, a.key, heads // g:int(a.key.shape[rank - 2], "the number of heads"))
    value = repeated(g, value, a.value, heads // a.value.shape[rank - 2])
  end
  local scale = a.scale or 1 / math.sqrt(g:int(a.query.shape[rank], "the size of a head"))
  local scaled = g:node("Mul", { query, g:float(sizes.at(scale, 1), dtype) })
  local scores = g:node("MatMul", { scaled, swap_last(g, key, #a.key.shape) })
  scores = masked(g, scores, a, dtype)
  local weights = g:node("Softmax", { scores }, { axis = -1 })
  if a.attn_mask and a.attn_mask.dtype == "bool" then
    -- What may see nothing gives zeros.
    weights = g:node("Where", { g:node("IsNaN", { weights }), g:float(0, dtype), weights })
  end
  return g:node("MatMul", { weights, value })
end

return write
