-- stdlib/nn/attention.lua: MultiheadAttention.

local functions = require "moonlet.nn.functional.attention"
local init = require "moonlet.nn.init"
local layer = require "moonlet.nn.layer"
local linear = require "moonlet.nn.linear"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"

local layers = {}

local FIELDS = { "embed_dim", "num_heads", "dropout", "batch_first", "add_zero_attn" }

local function make_weights(self, o)
  local e, k, v = o.embed_dim, self.kdim, self.vdim
  if k == e and v == e then
    self.in_proj_weight = layer.parameter({ 3 * e, e }, o)
  else
    self.q_proj_weight = layer.parameter({ e, e }, o)
    self.k_proj_weight = layer.parameter({ e, k }, o)
    self.v_proj_weight = layer.parameter({ e, v }, o)
  end
  if o.bias then self.in_proj_bias = layer.parameter({ 3 * e }, o) end
  if o.add_bias_kv then
    self.bias_k, self.bias_v = layer.parameter({ 1, 1, e }, o), layer.parameter({ 1, 1, e }, o)
  end
end

--- Multi-head attention: queries attend to keys and receive a mean of their values. It is called as
--- `local y, weights = attention(query, key, value, options)` with the options `key_padding_mask`
--- (n, s), `need_weights` (true), `attn_mask` (l, s) or (n num_heads, l, s), `average_attn_weights`
--- (true) and `is_causal` (false, says that `attn_mask` is causal). Boolean masks are true where a
--- key is hidden, other masks are added to the scores. Without `need_weights` it is faster and
--- `weights` is nil. The input projections start by Xavier's uniform initialisation, biases from 0.
--- > attention = ml.nn.MultiheadAttention(8, 2, { batch_first = true })
--- > x = ml.ones(3, 5, 8)
--- > attention(x, x, x, { need_weights = false }).shape
---   (3, 5, 8)
---@param embed_dim the size of queries and results, a multiple of `num_heads`
---@param num_heads how many heads there are; each has embed_dim / num_heads features
---@param dropout the probability of dropout on the attention weights in training mode, from 0 to 1
---@param bias whether the projections have biases
---@param add_bias_kv whether a learned key and value are appended to those of the input
---@param add_zero_attn whether a key and value of zeros are appended to those of the input
---@param kdim the size of keys: `embed_dim` unless given
---@param vdim the size of values: `embed_dim` unless given
---@param batch_first whether the batch is the first dimension
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape query (l, n, embed_dim), key (s, n, kdim), value (s, n, vdim) -> y (l, n, embed_dim)
---@shape with batch_first (n, l, embed_dim) and so on; or all without n
---@shape weights (n, l, s), or (n, num_heads, l, s) without average_attn_weights
---@formula y = concat(head_1, ..., head_h) W_o
---@formula head_i = softmax(Q W_i^Q (K W_i^K)^T / sqrt(embed_dim / num_heads)) V W_i^V
---@source Vaswani et al., 2017: Attention is all you need
---@field in_proj_weight moonlet.Tensor? Of query, key and value, (3 * embed_dim, embed_dim).
---@field in_proj_bias moonlet.Tensor? Their biases, (3 * embed_dim,).
---@field out_proj moonlet.nn.Linear The layer behind the heads.
layers.MultiheadAttention = layer.define("MultiheadAttention", "int>=1 embed_dim, "
  .. "int>=1 num_heads, number>=0<=1 dropout=0.0, bool bias=true, bool add_bias_kv=false, "
  .. "bool add_zero_attn=false, int>=1? kdim=nil, int>=1? vdim=nil, bool batch_first=false"
  .. layer.factory,
  function(self, o)
    if o.embed_dim % o.num_heads ~= 0 then
      options.fail("nn.MultiheadAttention: 'embed_dim' %d is not divisible by %d heads",
        o.embed_dim, o.num_heads)
    end
    for _, field in ipairs(FIELDS) do self[field] = o[field] end
    self.kdim, self.vdim = o.kdim or o.embed_dim, o.vdim or o.embed_dim
    self.head_dim = o.embed_dim // o.num_heads
    make_weights(self, o)
    self.out_proj = linear.Linear(o.embed_dim, o.embed_dim,
      { bias = o.bias, device = o.device, dtype = o.dtype })
    self:reset_parameters()
  end)
local MultiheadAttention = layers.MultiheadAttention

--- Draws the input projections anew by Xavier's uniform initialisation and sets the biases to 0.
function MultiheadAttention:reset_parameters()
  for _, name in ipairs { "in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight" } do
    if self[name] then init.xavier_uniform_(self[name]) end
  end
  if self.in_proj_bias then
    init.zeros_(self.in_proj_bias)
    init.zeros_(self.out_proj.bias)
  end
  if self.bias_k then
    init.xavier_normal_(self.bias_k)
    init.xavier_normal_(self.bias_v)
  end
end

-- The arguments of nn.functional.multi_head_attention_forward.
local function arguments(self, query, key, value, o)
  return { query = query, key = key, value = value, embed_dim_to_check = self.embed_dim,
    num_heads = self.num_heads, in_proj_weight = self.in_proj_weight,
    in_proj_bias = self.in_proj_bias, bias_k = self.bias_k, bias_v = self.bias_v,
    add_zero_attn = self.add_zero_attn, dropout_p = self.dropout,
    out_proj_weight = self.out_proj.weight, out_proj_bias = self.out_proj.bias,
    training = self.training, key_padding_mask = o.key_padding_mask,
    need_weights = o.need_weights, attn_mask = o.attn_mask,
    use_separate_proj_weight = self.q_proj_weight ~= nil, q_proj_weight = self.q_proj_weight,
    k_proj_weight = self.k_proj_weight, v_proj_weight = self.v_proj_weight,
    average_attn_weights = o.average_attn_weights, is_causal = o.is_causal }
end

local read_forward = signature("MultiheadAttention:forward(Tensor query, Tensor key, Tensor value, "
  .. "Tensor? key_padding_mask=nil, bool need_weights=true, Tensor? attn_mask=nil, "
  .. "bool average_attn_weights=true, bool is_causal=false)", "MultiheadAttention")

MultiheadAttention._inputs = nil

-- For layers that compute some of the heads.
layers._read_forward = read_forward

function MultiheadAttention:forward(...)
  local o = read_forward:table(...)
  local query, key, value = o.query, o.key, o.value
  local turned = self.batch_first and query.ndim == 3
  if turned then
    -- What is the same tensor stays so: its projections are one product then.
    local q, k, v = query, key, value
    query = q:transpose(1, 2)
    key = k == q and query or k:transpose(1, 2)
    value = v == q and query or v == k and key or v:transpose(1, 2)
  end
  local y, weights = layer.run(self, functions._multi_head_attention,
    arguments(self, query, key, value, o))
  return turned and y:transpose(1, 2) or y, weights
end

function MultiheadAttention:extra_repr()
  return ("%d, %d heads%s"):format(self.embed_dim, self.num_heads,
    self.batch_first and ", batch_first" or "")
end

--- The mask of a causal attention over `size` positions: minus infinity above the diagonal, zero
--- elsewhere.
function layers._causal_mask(size, o)
  return ml.full({ size, size }, -math.huge, { dtype = o.dtype, device = o.device }):triu(1)
end

return layers
