-- stdlib/onnx/read/microsoft_attention.lua: attention as onnxruntime's domain com.microsoft has it.

local attention = require "moonlet.onnx.read.attention"
local common = require "moonlet.onnx.read.common"
local ml = require "moonlet"
local fail = common.fail
local split_heads, merge_heads = attention._split_heads, attention._merge_heads

local read = {}

-- --- masks ------------------------------------------------------------------------------------

-- 0 where a mask of integers has a 1, else what is added to hide.
local function hiding(mask, value, q)
  return (1 - mask:ne(0):to(q.dtype)) * value
end

-- What a mask adds to the scores (batch, heads, queries, keys): it is the number of keys of each
-- row, their ends and beginnings, or one number for each key, for each query and key.
local function added_mask(n, mask, q, keys)
  if not mask then return nil end
  local batch, queries = q.shape[1], q.shape[3]
  local value = n.attributes.mask_filter_value or -10000.0
  mask = select(2, common.together(q, mask))
  if mask.ndim == 1 then
    local at = common.range(0, keys, q.device)
    local function part(first) return mask:narrow(1, first, batch):to("int64"):unsqueeze(2) end
    local count = mask:numel()
    if count ~= batch and count ~= 2 * batch then
      fail("the mask has %d elements for a batch of %d", count, batch)
    end
    local shown = at:lt(part(1))
    if count == 2 * batch then shown = shown:logical_and(at:ge(part(batch + 1))) end
    return hiding(shown, value, q):reshape(batch, 1, 1, keys)
  end
  local wanted = mask.ndim == 2 and { batch, keys } or mask.ndim == 3 and { batch, queries, keys }
  if mask.ndim == 4 then
    if mask.shape[3] < keys or mask.shape[4] < keys then
      fail("the mask has the shape %s for %d keys", tostring(mask.shape), keys)
    end
    mask = mask:narrow(3, keys - queries + 1, queries):narrow(4, 1, keys)
    return hiding(mask, value, q)
  end
  for d, size in ipairs(wanted or fail("a mask of %d dimensions", mask.ndim)) do
    if mask.shape[d] ~= size and mask.shape[d] ~= 1 then
      fail("the mask has the shape %s, expected (%s)", tostring(mask.shape),
        table.concat(wanted, ", "))
    end
  end
  mask = mask:unsqueeze(2)
  return hiding(mask.ndim == 3 and mask:unsqueeze(2) or mask, value, q)
end

local function plus(a, b) return a and b and a + b or a or b end

-- What both ops do with (batch, heads, steps, size), behind what came before.
local function attended(n, q, k, v, mask, bias, past)
  local o, keys = n.attributes, k.shape[3]
  local before = past and past.shape[past.ndim - 1] or 0
  local window = o.unidirectional == 1
    and attention._window(q.shape[3], keys, before, -1, 0, q.device)
  local added = plus(added_mask(n, mask, q, keys), bias)
  local scale = (o.scale or 0) ~= 0 and o.scale or nil
  return merge_heads((attention._attend(q, k, v, { scale = scale, bias = added,
    masks = window and { window } or nil })))
end

-- --- Attention --------------------------------------------------------------------------------

local function check_plain(n, shared)
  local o = n.attributes
  if (o.do_rotary or 0) ~= 0 then fail "do_rotary is not read" end
  if (o.past_present_share_buffer or 0) ~= 0 or shared then
    fail "a past that shares the memory of the present is not read"
  end
end

-- The sizes of query, key and value among `width` columns.
local function parts_of(n, width)
  local sizes = n.attributes.qkv_hidden_sizes
  if not sizes or #sizes == 0 then
    if width % 3 ~= 0 then fail("a weight of %d columns, expected a multiple of 3", width) end
    return { width // 3, width // 3, width // 3 }
  end
  if #sizes ~= 3 or sizes[1] + sizes[2] + sizes[3] ~= width then
    fail("qkv_hidden_sizes does not sum to the %d columns", width)
  end
  return sizes
end

--- The rest of Attention, of query, key and value side by side.
function read._attention_of(n, all, mask, past, bias)
  local heads = n.attributes.num_heads
  local parts = all:split(parts_of(n, all.shape[3]), 3)
  local q = split_heads(parts[1], heads, "the query")
  local k, v = split_heads(parts[2], heads, "the key"), split_heads(parts[3], heads, "the value")
  if past then
    if past.ndim ~= 5 or past.shape[1] ~= 2 then
      fail("the past has the shape %s, expected (2, batch, heads, steps, size)",
        tostring(past.shape))
    end
    k, v = attention._joined(past[1], k), attention._joined(past[2], v)
  end
  local y = attended(n, q, k, v, mask, bias, past)
  if (n.outputs[2] or "") == "" then return y end
  return y, ml.stack({ k, v }, 1)
end

function read.Attention(n, x, weight, bias, mask, past, added, shared)
  check_plain(n, shared)
  if x.ndim ~= 3 or weight.ndim ~= 2 then
    fail("inputs of %d and %d dimensions, expected 3 and 2", x.ndim, weight.ndim)
  end
  local all = ml.matmul(x, weight)
  return read._attention_of(n, bias and all + bias or all, mask, past, added)
end

-- --- MultiHeadAttention -----------------------------------------------------------------------

-- Query, key and value by heads: each for itself, or side by side in one tensor.
local function three_of(n, query, key, value, bias)
  local heads = n.attributes.num_heads
  if query.ndim == 5 then
    query = query:transpose(2, 3)
    return query:select(4, 1), query:select(4, 2), query:select(4, 3)
  end
  if not key then fail "its key is missing" end
  if query.ndim ~= 3 or key.ndim < 3 or key.ndim > 5 or value and value.ndim ~= key.ndim then
    fail("a query of %d dimensions, a key of %d, a value of %s", query.ndim, key.ndim,
      value and tostring(value.ndim) or "none")
  end
  local packed = key.ndim == 5
  local widths = { query.shape[3], packed and key.shape[3] * key.shape[5] or key.shape[3],
    packed and key.shape[3] * key.shape[5] or value and value.shape[3] }
  local function of(t, part, what)
    if bias and t.ndim == 3 then
      local first = 1
      for i = 1, part - 1 do first = first + widths[i] end
      t = t + bias:narrow(1, first, widths[part])
    end
    return t.ndim == 3 and split_heads(t, heads, what) or t
  end
  local q = of(query, 1, "the query")
  if packed then
    key = key:transpose(2, 3)
    return q, key:select(4, 1), key:select(4, 2)
  end
  if not value then fail "its value is missing" end
  if key.ndim == 4 then widths[2], widths[3] = widths[1], widths[1] end
  return q, of(key, 2, "the key"), of(value, 3, "the value")
end

function read.MultiHeadAttention(n, query, key, value, bias, mask, added, past_k, past_v, shared)
  if shared then fail "a past that shares the memory of the present is not read" end
  local q, k, v = three_of(n, query, key, value, bias)
  k, v = attention._joined(past_k, k), attention._joined(past_v, v)
  return attended(n, q, k, v, mask, added, past_k), k, v
end

-- --- GroupQueryAttention ----------------------------------------------------------------------

-- Entries at their own place of each row, behind those of before: (batch, heads, size, width).
local function cached(past, new, starts, size)
  local batch, heads, count, width = table.unpack(new.shape)
  local cache = past
  if not cache then
    cache = ml.zeros({ batch, heads, size, width }, { dtype = new.dtype, device = new.device })
  elseif cache.shape[3] < size then
    cache = ml.cat({ cache, ml.zeros({ batch, heads, size - cache.shape[3], width },
      { dtype = new.dtype, device = new.device }) }, 3)
  end
  -- What stands behind the place of new entries is none of the row's.
  local place = common.range(0, size, new.device):reshape(1, 1, size, 1)
  cache = cache:masked_fill(place:ge(starts), 0)
  local at = starts + common.range(1, count, new.device):reshape(1, 1, count, 1)
  return cache:scatter(3, at:expand(batch, heads, count, width), new)
end

local function grouped_heads(n, query, key, value)
  local heads, own = n.attributes.num_heads or 0, n.attributes.kv_num_heads or 0
  if heads < 1 or own < 1 or query.ndim ~= 3 then
    fail("%d heads and %d of keys, of a query of %d dimensions", heads, own, query.ndim)
  end
  if key then
    if not value then fail "its value is missing" end
    return split_heads(query, heads, "the query"), split_heads(key, own, "the key"),
      split_heads(value, own, "the value")
  end
  local width = query.shape[3] // (heads + 2 * own)
  if query.shape[3] ~= width * (heads + 2 * own) then
    fail("a query of %d elements for %d heads and %d of keys and of values", query.shape[3], heads,
      own)
  end
  local parts = query:split({ heads * width, own * width, own * width }, 3)
  return split_heads(parts[1], heads, "the query"), split_heads(parts[2], own, "the key"),
    split_heads(parts[3], own, "the value")
end

local function check_past(past, new, what)
  local batch, heads, _, width = table.unpack(new.shape)
  local fits = not past or past.ndim == 4 and past.shape[1] == batch and past.shape[2] == heads
    and past.shape[4] == width
  if not fits then
    fail("%s has shape %s, expected (%d, %d, length, %d)", what, tostring(past.shape), batch, heads,
      width)
  end
end

-- `lengths` has for each row the number of keys, less one, and `total` the greatest number.
function read.GroupQueryAttention(n, query, key, value, past_k, past_v, lengths, total, cos, sin,
    positions, added, sinks, ...)
  local o = n.attributes
  for i = 1, select("#", ...) do
    if select(i, ...) ~= nil then fail("its input %d is not read", 12 + i) end
  end
  if (o.kv_cache_bit_width or 0) ~= 0 then fail "a quantized cache is not read" end
  local q, k, v = grouped_heads(n, query, key, value)
  check_past(past_k, k, "past_key")
  check_past(past_v, v, "past_value")
  local batch, steps = q.shape[1], q.shape[3]
  if not lengths or lengths:numel() ~= batch then
    fail("seqlens_k has %d elements for %d rows", lengths and lengths:numel() or 0, batch)
  end
  local whole = common.number(total or fail "its total_sequence_length is missing",
    "total_sequence_length")
  if math.type(whole) ~= "integer" then
    fail("total_sequence_length must be an integer, got %s", tostring(whole))
  end
  local starts = (lengths:to("int64"):to(q.device):reshape(-1, 1, 1, 1) + 1 - steps)
  if whole == steps then starts = ml.zeros_like(starts) end
  local size = math.max(whole, past_k and past_k.shape[3] or 0)
  if whole < steps or starts:numel() > 0 and (starts:amin():item() < 0
      or starts:amax():item() + steps > size) then
    fail("%d keys in all, with %d new ones and seqlens_k %s", whole, steps,
      tostring(lengths:flatten()))
  end
  common.check_room(n, batch * k.shape[2] * size, 4 * math.max(k.shape[4], 1))
  if o.do_rotary == 1 then
    if not cos or not sin then fail "do_rotary is 1, cos_cache or sin_cache is missing" end
    local at = positions and positions:to("int64"):reshape(batch, steps)
      or common.range(0, steps, q.device) + starts:reshape(batch, 1)
    local a, b = attention._angles(cos, at), attention._angles(sin, at)
    q = attention._rotated(q, a, b, o.rotary_interleaved == 1)
    k = attention._rotated(k, a, b, o.rotary_interleaved == 1)
  end
  k, v = cached(past_k, k, starts, size), cached(past_v, v, starts, size)
  local keys, values = k:narrow(3, 1, whole), v:narrow(3, 1, whole)
  local left = (o.local_window_size or -1) > 0 and o.local_window_size - 1 or -1
  local sink = sinks and sinks:reshape(1, -1, 1, 1)
    or o.smooth_softmax == 1 and ml.zeros({ 1, 1, 1, 1 }, { dtype = q.dtype, device = q.device })
  local y = attention._attend(q, keys, values, { sink = sink or nil, softcap = o.softcap,
    scale = (o.scale or 0) ~= 0 and o.scale or nil, bias = added,
    masks = { attention._window(steps, whole, starts, left, 0, q.device) } })
  return merge_heads(y), k, v
end

return read
