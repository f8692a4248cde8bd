-- stdlib/nn/functional/attention.lua: attention under PyTorch's arguments: of one head, and the
-- whole computation of nn.MultiheadAttention.

local declare = require "moonlet.nn.functional.declare"
local ml = require "moonlet"
local options = require "moonlet.options"

local attention = {}

--- Scaled dot-product attention: means of the values, weighted by the softmax of query-key
--- products.
--- > ml.nn.functional.scaled_dot_product_attention(ml.zeros(1, 1, 2), ml.ones(1, 2, 2),
---   ml.tensor { { { 1.0 }, { 3.0 } } })
---   {{{2.}}}
---   Tensor (1, 1, 1) float32
---@param query the queries
---@param key the keys
---@param value the values
---@param attn_mask boolean, true boolean, true where a key takes part, or a tensor that is added to
---   the scores
---@param dropout_p the probability of dropout on the weights, from 0 to 1
---@param is_causal whether each position attends only to keys up to its own
---@param scale the factor of the scores: 1 / sqrt(e) unless given
---@param enable_gqa whether several heads of the query share one head of keys and values
---@shape query (*, l, e), key (*, s, e), value (*, s, v), attn_mask (l, s) -> (*, l, v)
---@formula y = softmax(scale Q K^T + mask) V
---@source Vaswani et al., 2017: Attention is all you need
attention.scaled_dot_product_attention = declare.op("scaled_dot_product_attention(Tensor query, "
  .. "Tensor key, Tensor value, Tensor? attn_mask=nil, number>=0<=1 dropout_p=0, "
  .. "bool is_causal=false, number? scale=nil, bool enable_gqa=false)")

local function refuse(format, ...)
  options.fail("multi_head_attention_forward: " .. format, ...)
end

local function expect(condition, format, ...)
  if not condition then refuse(format, ...) end
end

-- A mask as what is added to scores: of `dtype`, minus infinity where a bool mask is true.
local function added(mask, dtype)
  if mask == nil or mask.dtype ~= "bool" then return mask end
  return ml.zeros(mask.shape, { dtype = dtype, device = mask.device })
    :masked_fill_(mask, -math.huge)
end

local function check_shapes(o)
  local rank = o.query.ndim
  expect(rank == 2 or rank == 3, "'query' has shape %s, (l, n, e) or (l, e) is expected",
    tostring(o.query.shape))
  expect(o.key.ndim == rank and o.value.ndim == rank,
    "'key' %s and 'value' %s must have the rank of 'query' %s", tostring(o.key.shape),
    tostring(o.value.shape), tostring(o.query.shape))
  if o.key_padding_mask then
    expect(o.key_padding_mask.ndim == rank - 1, "'key_padding_mask' has shape %s",
      tostring(o.key_padding_mask.shape))
  end
  local features = o.query.shape[rank]
  expect(features == o.embed_dim_to_check, "'query' has %d features, %d are expected", features,
    o.embed_dim_to_check)
  expect(features % o.num_heads == 0, "%d features are not divisible by %d heads", features,
    o.num_heads)
  expect((o.bias_k == nil) == (o.bias_v == nil), "'bias_k' and 'bias_v' belong together")
  expect(not o.is_causal or o.attn_mask, "'is_causal' wants an 'attn_mask'")
end

-- The bias of each of query, key and value.
local function biases(o)
  if not o.in_proj_bias then return end
  return table.unpack(o.in_proj_bias:chunk(3))
end

-- Query, key and value as (length, n, e) after the input projection.
local function project(o)
  if o.use_separate_proj_weight then
    expect(o.q_proj_weight and o.k_proj_weight and o.v_proj_weight,
      "'q_proj_weight', 'k_proj_weight' and 'v_proj_weight' are expected")
    local q, k, v = biases(o)
    return ml.linear(o.query, o.q_proj_weight, q), ml.linear(o.key, o.k_proj_weight, k),
      ml.linear(o.value, o.v_proj_weight, v)
  end
  expect(o.in_proj_weight, "'in_proj_weight' is missing")
  expect(o.key.shape == o.value.shape, "'key' %s and 'value' %s differ", tostring(o.key.shape),
    tostring(o.value.shape))
  if o.query == o.key and o.key == o.value then
    return table.unpack(ml.linear(o.query, o.in_proj_weight, o.in_proj_bias):chunk(3, -1))
  end
  local weights, q, k, v = o.in_proj_weight:chunk(3), biases(o)
  return ml.linear(o.query, weights[1], q), ml.linear(o.key, weights[2], k),
    ml.linear(o.value, weights[3], v)
end

-- (length, n, e) as (n * heads, length, e / heads).
local function by_head(x, o)
  local length, batch, features = table.unpack(x.shape)
  return x:reshape(length, batch * o.num_heads, features // o.num_heads):transpose(1, 2)
end

local function fixed(name, given, x, o)
  if not given then return by_head(x, o) end
  expect(given.shape[1] == o.query.shape[2] * o.num_heads
    and given.shape[3] == o.query.shape[3] // o.num_heads, "'%s' has shape %s", name,
    tostring(given.shape))
  return given
end

-- Keys and values by head, with what is appended to them, and how much that is.
local function keys_and_values(k, v, o)
  local extra, batch = 0, o.query.shape[2]
  if o.bias_k then
    expect(not o.static_k and not o.static_v, "'bias_k' does not go with 'static_k', 'static_v'")
    k = ml.cat({ k, o.bias_k:expand(1, batch, o.bias_k.shape[3]) })
    v = ml.cat({ v, o.bias_v:expand(1, batch, o.bias_v.shape[3]) })
    extra = 1
  end
  k, v = fixed("static_k", o.static_k, k, o), fixed("static_v", o.static_v, v, o)
  if o.add_zero_attn then
    local function with_zero(x)
      local like = { dtype = x.dtype, device = x.device }
      return ml.cat({ x, ml.zeros({ x.shape[1], 1, x.shape[3] }, like) }, 2)
    end
    k, v, extra = with_zero(k), with_zero(v), extra + 1
  end
  return k, v, extra
end

local function check_mask(name, mask, sizes)
  local same = mask.ndim == #sizes
  for i, size in ipairs(sizes) do same = same and mask.shape[i] == size end
  expect(same, "'%s' has shape %s, (%s) is expected", name, tostring(mask.shape),
    table.concat(sizes, ", "))
end

-- Both masks as one that is added to the scores (n * heads, l, s), or nil.
local function merged_mask(o, length, extra)
  local batch, heads, mask = o.query.shape[2], o.num_heads, added(o.attn_mask, o.query.dtype)
  if mask then
    local wanted = mask.ndim == 3 and { batch * heads, o.query.shape[1], length - extra }
      or { o.query.shape[1], length - extra }
    check_mask("attn_mask", mask, wanted)
    mask = ml.pad(mask.ndim == 2 and mask:unsqueeze(1) or mask, { 0, extra })
  end
  local padding = added(o.key_padding_mask, o.query.dtype)
  if not padding then return mask end
  check_mask("key_padding_mask", padding, { batch, length - extra })
  padding = ml.pad(padding, { 0, extra }):reshape(batch, 1, 1, length)
    :expand(batch, heads, 1, length):reshape(batch * heads, 1, length)
  return mask and mask + padding or padding
end

-- (n * heads, l, e / heads), and the weights (n * heads, l, s) where they are wanted.
local function attend(q, k, v, mask, dropout_p, need_weights)
  if not need_weights then
    return ml.scaled_dot_product_attention(q, k, v, mask, dropout_p)
  end
  local scores = ml.bmm(q * (1 / math.sqrt(q.shape[3])), k:transpose(2, 3))
  local weights = ml.softmax(mask and scores + mask or scores, -1)
  if dropout_p > 0 then weights = ml.dropout(weights, dropout_p) end
  return ml.bmm(weights, v), weights
end

local function run(o)
  local length, batch = table.unpack(o.query.shape)
  local q, k, v = project(o)
  local keys, values, extra = keys_and_values(k, v, o)
  local mask = merged_mask(o, keys.shape[2], extra)
  local y, weights = attend(by_head(q, o), keys, values, mask, o.training and o.dropout_p or 0,
    o.need_weights)
  -- The heads may be some of those of a larger layer, and have fewer features than the query.
  y = y:transpose(1, 2):reshape(length, batch, q.shape[3])
  y = ml.linear(y, o.out_proj_weight, o.out_proj_bias)
  if not weights then return y end
  weights = weights:reshape(batch, o.num_heads, length, keys.shape[2])
  return y, o.average_attn_weights and weights:mean(2) or weights
end

-- The computation, of arguments by name that have been read.
local function forward(o)
  check_shapes(o)
  if o.query.ndim == 3 then return run(o) end
  local same = o.query == o.key and o.key == o.value
  o.query = o.query:unsqueeze(2)
  o.key, o.value = same and o.query or o.key:unsqueeze(2), same and o.query or o.value:unsqueeze(2)
  o.key_padding_mask = o.key_padding_mask and o.key_padding_mask:unsqueeze(1)
  local y, weights = run(o)
  return y:squeeze(2), weights and weights:squeeze(1)
end

-- For nn.MultiheadAttention, whose arguments are known.
attention._multi_head_attention = forward

local read_forward = declare.reader("multi_head_attention_forward(Tensor query, Tensor key, "
  .. "Tensor value, int embed_dim_to_check, int>=1 num_heads, Tensor? in_proj_weight=nil, "
  .. "Tensor? in_proj_bias=nil, Tensor? bias_k=nil, Tensor? bias_v=nil, bool add_zero_attn, "
  .. "number>=0<=1 dropout_p, Tensor out_proj_weight, Tensor? out_proj_bias=nil, "
  .. "bool training=true, Tensor? key_padding_mask=nil, bool need_weights=true, "
  .. "Tensor? attn_mask=nil, "
  .. "bool use_separate_proj_weight=false, Tensor? q_proj_weight=nil, Tensor? k_proj_weight=nil, "
  .. "Tensor? v_proj_weight=nil, Tensor? static_k=nil, Tensor? static_v=nil, "
  .. "bool average_attn_weights=true, bool is_causal=false)")

--- Multi-head attention with given weights: what `nn.MultiheadAttention` computes. Boolean masks
--- are true where a key is hidden, other masks are added to the scores. All arguments may be given
--- by name.
--- > x, w = ml.ones(3, 1, 4), ml.eye(4)
--- > ml.nn.functional.multi_head_attention_forward { query = x, key = x, value = x,
---   embed_dim_to_check = 4, num_heads = 2, in_proj_weight = ml.cat { w, w, w },
---   add_zero_attn = false, dropout_p = 0, out_proj_weight = w, need_weights = false }
---   {{{1., 1., 1., 1.}},
---
---    {{1., 1., 1., 1.}},
---
---    {{1., 1., 1., 1.}}}
---   Tensor (3, 1, 4) float32
---@param query the queries
---@param key the keys
---@param value the values
---@param embed_dim_to_check the size that the last dimension of the query must have
---@param num_heads how many heads there are, a divisor of that size
---@param in_proj_weight the projections of query, key and value on top of each other, (3 e, e)
---@param in_proj_bias their biases, (3 e)
---@param bias_k a key that is appended, (1, 1, e)
---@param bias_v its value, (1, 1, e)
---@param add_zero_attn whether a key and value of zeros are appended
---@param dropout_p the probability of dropout on the weights, from 0 to 1
---@param out_proj_weight the projection of the heads' results, (e, e)
---@param out_proj_bias its bias, (e)
---@param training whether there is dropout
---@param key_padding_mask which keys are hidden, (n, s)
---@param need_weights whether the attention weights are a second result
---@param attn_mask which query sees which key, (l, s) or (n num_heads, l, s)
---@param use_separate_proj_weight whether the three projections are given one by one
---@param q_proj_weight the projection of the query, (e, e)
---@param k_proj_weight the projection of the key, (e, k)
---@param v_proj_weight the projection of the value, (e, v)
---@param static_k keys by head in the place of projected ones, (n num_heads, s, e / num_heads)
---@param static_v values by head in the place of projected ones, (n num_heads, s, e / num_heads)
---@param average_attn_weights whether the weights are means over the heads
---@param is_causal says that `attn_mask` is causal
---@return Tensor output
---@return Tensor? weights
---@shape query (l, n, e), key and value (s, n, e) -> (l, n, e); or all without n
---@shape weights (n, l, s), or (n, num_heads, l, s) without average_attn_weights
---@formula y = concat(head_1, ..., head_h) W_o^T + b_o
---@formula head_i = softmax(Q_i K_i^T / sqrt(e / h)) V_i
---@source Vaswani et al., 2017: Attention is all you need
function attention.multi_head_attention_forward(...) return forward(read_forward:table(...)) end

return attention
