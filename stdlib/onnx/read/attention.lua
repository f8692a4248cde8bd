-- stdlib/onnx/read/attention.lua: ONNX's attention and rotary embeddings, and what those of
-- onnxruntime share with them.

local common = require "moonlet.onnx.read.common"
local kept = require "moonlet.onnx.kept"
local ml = require "moonlet"
local fail = common.fail

local read = {}

-- --- heads ------------------------------------------------------------------------------------

--- (batch, steps, heads * size) as (batch, heads, steps, size).
local function split_heads(t, heads, what)
  if not heads or heads < 1 or t.ndim ~= 3 or t.shape[3] % heads ~= 0 then
    fail("%s has the shape %s, expected (batch, steps, hidden) with hidden a multiple of %s heads",
      what, tostring(t.shape), tostring(heads))
  end
  return t:reshape(t.shape[1], t.shape[2], heads, -1):transpose(2, 3)
end
read._split_heads = split_heads

--- (batch, heads, steps, size) as (batch, steps, heads * size).
function read._merge_heads(t)
  return t:transpose(2, 3):reshape(t.shape[1], t.shape[3], t.shape[2] * t.shape[4])
end

-- A key or value for each head of the query: each stands for several of them.
local function repeated(t, heads, what)
  local own = t.shape[2]
  if own == heads then return t end
  if own == 0 or heads % own ~= 0 then fail("%s has %d heads, the query %d", what, own, heads) end
  return t:repeat_interleave(heads // own, 2)
end

-- --- masks ------------------------------------------------------------------------------------

--- Where a query may look: not behind itself, nor further before than a window. `offset` is the
--- number of keys before the first query, or a tensor (batch, 1, 1, 1) of it; a side of -1 has no
--- end.
---@return Tensor bool, that broadcasts to (batch, heads, queries, keys)
function read._window(queries, keys, offset, left, right, device)
  local at, key = common.range(1, queries, device):unsqueeze(2), common.range(1, keys, device)
  local distance = at + offset - key
  local mask
  if right >= 0 then mask = distance:ge(-right) end
  if left >= 0 then
    local near = distance:le(left)
    mask = mask and mask:logical_and(near) or near
  end
  return mask
end

-- A mask that ends before the keys hides those behind it.
local function full_mask(mask, keys)
  local missing = keys - mask.shape[mask.ndim]
  if missing == 0 then return mask end
  if missing < 0 then
    if mask.shape[mask.ndim] == 1 then return mask end
    fail("the mask has %d keys, there are %d", mask.shape[mask.ndim], keys)
  end
  if mask.shape[mask.ndim] == 1 and mask.dtype ~= ml.bool then return mask end
  local shape = {}
  for d, size in ipairs(mask.shape) do shape[d] = size end
  shape[mask.ndim] = missing
  local rest = ml.full(shape, mask.dtype ~= ml.bool and -math.huge or false,
    { dtype = mask.dtype, device = mask.device })
  return ml.cat({ mask, rest }, mask.ndim)
end

-- --- the product ------------------------------------------------------------------------------

-- A sink takes part of the weight, and gives nothing.
local function softmax_of(scores, o)
  if o.precision then scores = scores:to(o.precision) end
  if not o.sink then return scores:softmax(4) end
  local sink = o.sink:to(scores.dtype):expand(scores.shape[1], scores.shape[2], scores.shape[3], 1)
  return ml.cat({ scores, sink }, 4):softmax(4):narrow(4, 1, scores.shape[4])
end

--- Attention of (batch, heads, steps, size): the result, and the weights at the stage that
--- `o.stage` names. `o` has scale, softcap, bias (added), masks (a list of bools), precision, and a
--- sink.
---@return Tensor y
---@return Tensor? stage 0 the scores, 1 capped, 2 with the mask, 3 the softmax
function read._attend(q, k, v, o)
  local heads = q.shape[2]
  if q.shape[4] ~= k.shape[4] or k.shape[3] ~= v.shape[3] then
    fail("the query has the shape %s, the key %s, the value %s", tostring(q.shape),
      tostring(k.shape), tostring(v.shape))
  end
  k, v = repeated(k, heads, "the key"), repeated(v, heads, "the value")
  local scale = o.scale or 1 / math.sqrt(q.shape[4])
  -- Each takes half of the scale: products of half floats overflow less.
  local root = math.sqrt(math.abs(scale))
  local scores = ml.matmul(q * root, (k * (scale < 0 and -root or root)):transpose(3, 4))
  local stages = { [0] = scores }
  if (o.softcap or 0) > 0 then scores = (scores / o.softcap):tanh() * o.softcap end
  stages[1] = scores
  if o.bias then scores = scores + o.bias end
  local hidden
  for _, mask in ipairs(o.masks or {}) do
    local out = mask:logical_not()
    hidden = hidden and hidden:logical_or(out) or out
  end
  if hidden then scores = scores:masked_fill(hidden, o.fill or -math.huge) end
  stages[2] = scores
  local weights = softmax_of(scores, o):to(q.dtype)
  -- What may look at nothing has zeros.
  if o.bias or hidden then
    local nothing = scores:detach():amax(4, true):eq(-math.huge)
    weights = weights:masked_fill(nothing, 0)
  end
  stages[3] = weights
  return ml.matmul(weights, v), o.stage and stages[o.stage]
end

--- Keys or values behind those of earlier steps.
function read._joined(past, new)
  if not past then return new end
  if past.ndim ~= 4 or past.shape[1] ~= new.shape[1] or past.shape[2] ~= new.shape[2]
      or past.shape[4] ~= new.shape[4] then
    fail("the past has the shape %s, what follows %s", tostring(past.shape), tostring(new.shape))
  end
  return ml.cat({ past, new }, 3)
end

-- --- the ops ----------------------------------------------------------------------------------

local function masks_of(n, q, k, mask, past, lengths)
  local a, masks, bias = n.attributes, {}, nil
  local queries, keys = q.shape[3], k.shape[3]
  local offset = past and past.shape[3] or 0
  if lengths then
    local length = lengths:to("int64"):reshape(-1, 1, 1, 1):to(q.device)
    if length:numel() ~= q.shape[1] then
      fail("nonpad_kv_seqlen has %d elements for a batch of %d", length:numel(), q.shape[1])
    end
    if not past then offset = length - queries end
    masks[1] = common.range(1, keys, q.device):le(length)
  end
  local right = a.is_causal == 1 and 0 or a.right_window_size or -1
  local window = read._window(queries, keys, offset, a.left_window_size or -1, right, q.device)
  if window then masks[#masks + 1] = window end
  if mask then
    mask = full_mask(select(2, common.together(q, mask)), keys)
    if mask.dtype == ml.bool then masks[#masks + 1] = mask else bias = mask:to(q.dtype) end
  end
  return bias, masks
end

function read.Attention(n, q, k, v, mask, past_k, past_v, lengths)
  local a = n.attributes
  local flat = q.ndim == 3
  if flat then
    q = split_heads(q, a.q_num_heads, "Q")
    k, v = split_heads(k, a.kv_num_heads, "K"), split_heads(v, a.kv_num_heads, "V")
  elseif q.ndim ~= 4 or k.ndim ~= 4 or v.ndim ~= 4 then
    fail("inputs of %d, %d and %d dimensions, expected 3 or 4", q.ndim, k.ndim, v.ndim)
  end
  if (past_k == nil) ~= (past_v == nil) then fail "only one of past_key and past_value is given" end
  k, v = read._joined(past_k, k), read._joined(past_v, v)
  local stage = a.qk_matmul_output_mode or 0
  if stage < 0 or stage > 3 then fail("qk_matmul_output_mode is %d, expected 0 to 3", stage) end
  local bias, masks = masks_of(n, q, k, mask, past_k, lengths)
  local y, weights = read._attend(q, k, v, { scale = a.scale, softcap = a.softcap, bias = bias,
    masks = masks, stage = stage,
    precision = a.softmax_precision and kept.carrier(kept.name_of(a.softmax_precision)) })
  return flat and read._merge_heads(y) or y, k, v, weights
end

--- Turns pairs of (batch, heads, steps, size) by angles: (batch or 1, 1, steps, pairs) of cosines
--- and sines. Pairs are neighbours, or an element of each half.
function read._rotated(x, cos, sin, interleaved)
  local pairs_count = cos.shape[4]
  local width, size = 2 * pairs_count, x.shape[4]
  if width > size then fail("%d pairs to rotate in %d elements", pairs_count, size) end
  local turned, rest = x:narrow(4, 1, width), nil
  if width < size then rest = x:narrow(4, width + 1, size - width) end
  cos, sin = cos:to(x.dtype), sin:to(x.dtype)
  local a, b
  if interleaved then
    local both = turned:reshape(x.shape[1], x.shape[2], x.shape[3], pairs_count, 2)
    a, b = both:select(5, 1), both:select(5, 2)
  else
    a, b = turned:narrow(4, 1, pairs_count), turned:narrow(4, pairs_count + 1, pairs_count)
  end
  local real, imaginary = a * cos - b * sin, a * sin + b * cos
  if interleaved then
    turned = ml.stack({ real, imaginary }, 5):reshape(turned.shape)
  else
    turned = ml.cat({ real, imaginary }, 4)
  end
  return rest and ml.cat({ turned, rest }, 4) or turned
end

--- The rows of a cache (positions, pairs) at positions (batch, steps), counted from 0.
function read._angles(cache, positions, pairs_count)
  if cache.ndim ~= 2 then fail("a cache of %d dimensions, expected 2", cache.ndim) end
  local at = common.positions(positions:to("int64"):to(cache.device), cache.shape[1])
  local rows = cache:index_select(1, at:flatten())
  rows = rows:reshape(at.shape[1], 1, at.shape[2], cache.shape[2])
  return pairs_count and rows:narrow(4, 1, pairs_count) or rows
end

function read.RotaryEmbedding(n, x, cos, sin, positions)
  local a = n.attributes
  local flat = x.ndim == 3
  local y = flat and split_heads(x, a.num_heads, "X") or x
  if y.ndim ~= 4 then fail("an input of %d dimensions, expected 3 or 4", x.ndim) end
  local pairs_count = (a.rotary_embedding_dim or 0) > 0 and a.rotary_embedding_dim // 2 or nil
  if positions then
    cos, sin = read._angles(cos, positions, pairs_count), read._angles(sin, positions, pairs_count)
  else
    if cos.ndim ~= 3 or sin.ndim ~= 3 then
      fail("caches of %d and %d dimensions, expected 3", cos.ndim, sin.ndim)
    end
    cos, sin = cos:unsqueeze(2), sin:unsqueeze(2)
  end
  y = read._rotated(y, cos, sin, a.interleaved == 1)
  return flat and read._merge_heads(y) or y
end

return read
