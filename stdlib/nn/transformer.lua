-- stdlib/nn/transformer.lua: the transformer (Vaswani et al., 2017): layers of its encoder and
-- decoder, stacks of them, and both together.

local attention = require "moonlet.nn.attention"
local containers = require "moonlet.nn.containers"
local dropouts = require "moonlet.nn.dropout"
local functional = require "moonlet.nn.functional"
local init = require "moonlet.nn.init"
local layer = require "moonlet.nn.layer"
local linear = require "moonlet.nn.linear"
local ml = require "moonlet"
local norm = require "moonlet.nn.norm"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
require "moonlet.nn.copy"

local layers = {}

local function activation_of(where, given)
  if type(given) ~= "string" then return given end
  if given == "relu" or given == "gelu" then return functional[given] end
  options.fail("%s: 'activation' must be \"relu\", \"gelu\" or a function, got %q", where, given)
end

local LAYER = "int>=1 d_model, int>=1 nhead, int>=1 dim_feedforward=2048, "
  .. "number>=0<=1 dropout=0.1, string|function activation=\"relu\", "
  .. "number>=0 layer_norm_eps=1e-5, bool batch_first=false, bool norm_first=false, "
  .. "bool bias=true" .. layer.factory

-- What layers of encoder and decoder are made of: attentions by name, then the products, norms and
-- dropouts.
local function set_up(self, where, o, attentions)
  local factory = { device = o.device, dtype = o.dtype, bias = o.bias }
  for _, name in ipairs(attentions) do
    self[name] = attention.MultiheadAttention(o.d_model, o.nhead, { dropout = o.dropout,
      batch_first = o.batch_first, bias = o.bias, device = o.device, dtype = o.dtype })
  end
  self.linear1 = linear.Linear(o.d_model, o.dim_feedforward, factory)
  self.dropout = dropouts.Dropout(o.dropout)
  self.linear2 = linear.Linear(o.dim_feedforward, o.d_model, factory)
  self.norm_first = o.norm_first
  for i = 1, #attentions + 1 do
    self["norm" .. i] = norm.LayerNorm(o.d_model, { eps = o.layer_norm_eps, bias = o.bias,
      device = o.device, dtype = o.dtype })
  end
  for i = 1, #attentions + 1 do self["dropout" .. i] = dropouts.Dropout(o.dropout) end
  self.activation = activation_of(where, o.activation)
end

-- `x` plus what `block` makes of it, normalised before or after: part `i` of a layer.
local function residual(self, i, x, block, ...)
  local normalise = self["norm" .. i]
  if self.norm_first then return x + self["dropout" .. i](block(self, normalise(x), ...)) end
  return normalise(x + self["dropout" .. i](block(self, x, ...)))
end

local function self_attention(self, x, mask, padding, is_causal)
  return (self.self_attn(x, x, x, { attn_mask = mask, key_padding_mask = padding,
    need_weights = false, is_causal = is_causal }))
end

local function cross_attention(self, x, memory, mask, padding, is_causal)
  return (self.multihead_attn(x, memory, memory, { attn_mask = mask, key_padding_mask = padding,
    need_weights = false, is_causal = is_causal }))
end

local function feed_forward(self, x)
  return self.linear2(self.dropout(self.activation(self.linear1(x))))
end

--- Layer of a transformer's encoder: self-attention, then a feed-forward network. It is called as
--- `layer(src, options)` with the options `src_mask`, `src_key_padding_mask` and `is_causal`, as of
--- `MultiheadAttention`.
--- > ml.nn.TransformerEncoderLayer(8, 2, { dim_feedforward = 16 })(ml.ones(5, 3, 8)).shape
---   (5, 3, 8)
---@param d_model the size of each position, a multiple of `nhead`
---@param nhead how many heads attention has
---@param dim_feedforward the size between the two linear layers
---@param dropout the probability of dropout in training mode, from 0 to 1
---@param activation "relu", "gelu" "relu", "gelu" or a function of a tensor, between the two linear
---   layers
---@param layer_norm_eps what the layer norms add to the variance
---@param batch_first whether the batch is the first dimension
---@param norm_first whether norms stand before attention and linear layers, or after the sum
---@param bias whether linear layers and norms have biases
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape src (l, n, d_model), or (n, l, d_model) with batch_first -> as src
---@formula x = norm1(x + attention(x, x, x))
---@formula x = norm2(x + W_2 activation(W_1 x + b_1) + b_2)
---@formula norm_first: x = x + attention(norm1(x)), x = x + feedforward(norm2(x))
---@source Vaswani et al., 2017: Attention is all you need
layers.TransformerEncoderLayer = layer.define("TransformerEncoderLayer", LAYER, function(self, o)
  set_up(self, "nn.TransformerEncoderLayer", o, { "self_attn" })
end)

local read_encoder_layer = signature("TransformerEncoderLayer:forward(Tensor src, "
  .. "Tensor? src_mask=nil, Tensor? src_key_padding_mask=nil, bool is_causal=false)",
  "TransformerEncoderLayer")

layers.TransformerEncoderLayer._inputs = nil

function layers.TransformerEncoderLayer:forward(...)
  local x, mask, padding, is_causal = read_encoder_layer(...)
  x = residual(self, 1, x, self_attention, mask, padding, is_causal)
  return residual(self, 2, x, feed_forward)
end

--- Layer of a transformer's decoder: self-attention, attention to the encoder's output, then a
--- feed-forward network. It is called as `layer(tgt, memory, options)` with the options `tgt_mask`,
--- `memory_mask`, `tgt_key_padding_mask`, `memory_key_padding_mask`, `tgt_is_causal` and
--- `memory_is_causal`, as of `MultiheadAttention`.
--- > ml.nn.TransformerDecoderLayer(8, 2, { dim_feedforward = 16 })(ml.ones(4, 3, 8),
---   ml.ones(5, 3, 8)).shape
---   (4, 3, 8)
---@param d_model the size of each position, a multiple of `nhead`
---@param nhead how many heads attention has
---@param dim_feedforward the size between the two linear layers
---@param dropout the probability of dropout in training mode, from 0 to 1
---@param activation "relu", "gelu" "relu", "gelu" or a function of a tensor, between the two linear
---   layers
---@param layer_norm_eps what the layer norms add to the variance
---@param batch_first whether the batch is the first dimension
---@param norm_first whether norms stand before attention and linear layers, or after the sum
---@param bias whether linear layers and norms have biases
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape tgt (t, n, d_model), memory (s, n, d_model) -> (t, n, d_model); n first with batch_first
---@formula x = norm1(x + attention(x, x, x))
---@formula x = norm2(x + attention(x, memory, memory))
---@formula x = norm3(x + W_2 activation(W_1 x + b_1) + b_2)
---@source Vaswani et al., 2017: Attention is all you need
layers.TransformerDecoderLayer = layer.define("TransformerDecoderLayer", LAYER, function(self, o)
  set_up(self, "nn.TransformerDecoderLayer", o, { "self_attn", "multihead_attn" })
end)

local MASKS = "Tensor? tgt_mask=nil, Tensor? memory_mask=nil, Tensor? tgt_key_padding_mask=nil, "
  .. "Tensor? memory_key_padding_mask=nil, bool? tgt_is_causal=nil, bool memory_is_causal=false)"
local read_decoder_layer = signature("TransformerDecoderLayer:forward(Tensor tgt, Tensor memory, "
  .. MASKS, "TransformerDecoderLayer")

layers.TransformerDecoderLayer._inputs = nil

function layers.TransformerDecoderLayer:forward(...)
  local o = read_decoder_layer:table(...)
  local x = residual(self, 1, o.tgt, self_attention, o.tgt_mask, o.tgt_key_padding_mask,
    o.tgt_is_causal)
  x = residual(self, 2, x, cross_attention, o.memory, o.memory_mask, o.memory_key_padding_mask,
    o.memory_is_causal)
  return residual(self, 3, x, feed_forward)
end

local function set_up_stack(self, first, count, norm_layer)
  self.layers = containers.ModuleList()
  for _ = 1, count do self.layers:append(first:deepcopy()) end
  self.num_layers = count
  self.norm = norm_layer
end

-- Whether PyTorch would leave hidden positions out of the work of such layers in eval mode.
local function leaves_out(first)
  local own = first.self_attn
  local plain = first.activation == functional.relu or first.activation == functional.gelu
  return first:is_a(layers.TransformerEncoderLayer) and not first.norm_first and own.batch_first
    and own.in_proj_weight ~= nil and own.in_proj_bias ~= nil and plain
    and first.norm1.eps == first.norm2.eps and own.num_heads % 2 == 0
end

--- Encoder of a transformer: a stack of copies of a layer. It is called as `encoder(src, options)`
--- with the options `mask`, `src_key_padding_mask` and `is_causal`. In eval mode, where no gradient
--- is recorded, positions that the padding mask hides come out of the layers as zeros, as in
--- PyTorch: for layers with the batch first and norms after the sums, without `mask`, where each
--- sequence is hidden from some position on.
--- > layer = ml.nn.TransformerEncoderLayer(8, 2, { dim_feedforward = 16 })
--- > ml.nn.TransformerEncoder(layer, 2)(ml.ones(5, 3, 8)).shape
---   (5, 3, 8)
---@param encoder_layer the layer that is copied
---@param num_layers how many copies there are
---@param norm a layer for the result, such as a `LayerNorm`
---@param enable_nested_tensor whether hidden positions may come out as zeros in eval mode
---@param mask_check whether that needs each sequence to be hidden from some position on, or not
---@shape src (l, n, d_model), or (n, l, d_model) with batch_first -> as src
---@formula y = norm(layer_N(... layer_1(src)))
---@source Vaswani et al., 2017: Attention is all you need
---@field layers moonlet.nn.ModuleList The copies.
layers.TransformerEncoder = layer.define("TransformerEncoder", "Module encoder_layer, "
  .. "int>=0 num_layers, Module? norm=nil, bool enable_nested_tensor=true, bool mask_check=true",
  function(self, o)
    set_up_stack(self, o.encoder_layer, o.num_layers, o.norm)
    self.enable_nested_tensor, self.mask_check = o.enable_nested_tensor, o.mask_check
    self.use_nested_tensor = o.enable_nested_tensor and leaves_out(o.encoder_layer)
  end)

-- Whether each row of a bool mask (n, l) stays true from where it first is.
local function hides_ends(padding)
  local length = padding.shape[2]
  if length < 2 then return true end
  local before, after = padding:narrow(2, 1, length - 1), padding:narrow(2, 2, length - 1)
  return not before:logical_and(after:logical_not()):any():item()
end

local function asks_for_gradient(module)
  if not ml.is_grad_enabled() then return false end
  for _, p in ipairs(module:parameters()) do
    if p.requires_grad then return true end
  end
  return false
end

-- Where the results of the layers are zeros: a bool mask (n, l, 1), or nil.
local function zeros_of(self, x, mask, padding)
  if not (self.use_nested_tensor and padding and mask == nil and x.ndim == 3) then return nil end
  local first = self.layers[1]
  if not first or first.training or ml.is_autocast_enabled() or x.requires_grad
      and ml.is_grad_enabled() or asks_for_gradient(first) then
    return nil
  end
  if padding.dtype ~= "bool" then padding = padding:ne(0) end
  if self.mask_check and not hides_ends(padding) then return nil end
  return padding:unsqueeze(3)
end

local read_encoder = signature("TransformerEncoder:forward(Tensor src, Tensor? mask=nil, "
  .. "Tensor? src_key_padding_mask=nil, bool? is_causal=nil)", "TransformerEncoder")

layers.TransformerEncoder._inputs = nil

function layers.TransformerEncoder:forward(...)
  local x, mask, padding, is_causal = read_encoder(...)
  local zeros = zeros_of(self, x, mask, padding)
  for _, one in ipairs(self.layers) do
    x = one(x, { src_mask = mask, src_key_padding_mask = padding, is_causal = is_causal })
  end
  if zeros then x = x:masked_fill(zeros, 0) end
  return self.norm and self.norm(x) or x
end

--- Decoder of a transformer: a stack of copies of a layer. It is called as `decoder(tgt, memory,
--- options)`, as a `TransformerDecoderLayer` is.
--- > layer = ml.nn.TransformerDecoderLayer(8, 2, { dim_feedforward = 16 })
--- > ml.nn.TransformerDecoder(layer, 2)(ml.ones(4, 3, 8), ml.ones(5, 3, 8)).shape
---   (4, 3, 8)
---@param decoder_layer the layer that is copied
---@param num_layers how many copies there are
---@param norm a layer for the result, such as a `LayerNorm`
---@shape tgt (t, n, d_model), memory (s, n, d_model) -> (t, n, d_model); n first with batch_first
---@formula y = norm(layer_N(... layer_1(tgt, memory), memory))
---@source Vaswani et al., 2017: Attention is all you need
---@field layers moonlet.nn.ModuleList The copies.
layers.TransformerDecoder = layer.define("TransformerDecoder", "Module decoder_layer, "
  .. "int>=0 num_layers, Module? norm=nil", function(self, o)
    set_up_stack(self, o.decoder_layer, o.num_layers, o.norm)
  end)

local read_decoder = signature("TransformerDecoder:forward(Tensor tgt, Tensor memory, " .. MASKS,
  "TransformerDecoder")

layers.TransformerDecoder._inputs = nil

function layers.TransformerDecoder:forward(...)
  local o = read_decoder:table(...)
  local x, memory = o.tgt, o.memory
  o.tgt, o.memory = nil, nil
  for _, one in ipairs(self.layers) do x = one(x, memory, o) end
  return self.norm and self.norm(x) or x
end

local function make_stack(o, kind, count)
  local first = layers[("Transformer%sLayer"):format(kind)](o.d_model, o.nhead, {
    dim_feedforward = o.dim_feedforward, dropout = o.dropout, activation = o.activation,
    layer_norm_eps = o.layer_norm_eps, batch_first = o.batch_first, norm_first = o.norm_first,
    bias = o.bias, device = o.device, dtype = o.dtype })
  local last = norm.LayerNorm(o.d_model, { eps = o.layer_norm_eps, bias = o.bias,
    device = o.device, dtype = o.dtype })
  return layers["Transformer" .. kind](first, count, last)
end

--- Transformer: an encoder and a decoder, without embeddings and positions. It is called as
--- `net(src, tgt, options)` with the options `src_mask`, `tgt_mask`, `memory_mask`,
--- `src_key_padding_mask`, `tgt_key_padding_mask`, `memory_key_padding_mask`, `src_is_causal`,
--- `tgt_is_causal` and `memory_is_causal`, as of `MultiheadAttention`. Weights start by Xavier's
--- uniform initialisation.
--- > net = ml.nn.Transformer(8, 2, 1, 1, 16)
--- > mask = ml.nn.Transformer.generate_square_subsequent_mask(4)
--- > net(ml.ones(5, 3, 8), ml.ones(4, 3, 8), { tgt_mask = mask }).shape
---   (4, 3, 8)
---@param d_model the size of each position, a multiple of `nhead`
---@param nhead how many heads attention has
---@param num_encoder_layers how many layers the encoder has
---@param num_decoder_layers how many layers the decoder has
---@param dim_feedforward the size between the two linear layers
---@param dropout the probability of dropout in training mode, from 0 to 1
---@param activation "relu", "gelu" "relu", "gelu" or a function of a tensor, between the two linear
---   layers
---@param custom_encoder a module in the place of the encoder
---@param custom_decoder a module in the place of the decoder
---@param layer_norm_eps what the layer norms add to the variance
---@param batch_first whether the batch is the first dimension
---@param norm_first whether norms stand before attention and linear layers, or after the sum
---@param bias whether linear layers and norms have biases
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape src (s, n, d_model), tgt (t, n, d_model) -> (t, n, d_model); n first with batch_first
---@formula y = decoder(tgt, encoder(src))
---@source Vaswani et al., 2017: Attention is all you need
layers.Transformer = layer.define("Transformer", "int>=1 d_model=512, int>=1 nhead=8, "
  .. "int>=0 num_encoder_layers=6, int>=0 num_decoder_layers=6, int>=1 dim_feedforward=2048, "
  .. "number>=0<=1 dropout=0.1, string|function activation=\"relu\", Module? custom_encoder=nil, "
  .. "Module? custom_decoder=nil, number>=0 layer_norm_eps=1e-5, bool batch_first=false, "
  .. "bool norm_first=false, bool bias=true" .. layer.factory, function(self, o)
    self.encoder = o.custom_encoder or make_stack(o, "Encoder", o.num_encoder_layers)
    self.decoder = o.custom_decoder or make_stack(o, "Decoder", o.num_decoder_layers)
    self.d_model, self.nhead, self.batch_first = o.d_model, o.nhead, o.batch_first
    self:_reset_parameters()
  end)
local Transformer = layers.Transformer

function Transformer:_reset_parameters()
  for _, p in ipairs(self:parameters()) do
    if p.ndim > 1 then init.xavier_uniform_(p) end
  end
end

local read_mask = signature("nn.Transformer.generate_square_subsequent_mask(int>=1 sz, "
  .. "string? device=nil, string? dtype=nil)")

--- Causal mask by which no position attends to those after it: minus infinity above the diagonal, 0
--- elsewhere.
--- > ml.nn.Transformer.generate_square_subsequent_mask(3)
---   {{  0., -inf, -inf},
---    {  0.,   0., -inf},
---    {  0.,   0.,   0.}}
---   Tensor (3, 3) float32
---@param ... by name: `device`, and `dtype` of the mask
---@param sz integer how many positions there are
---@return moonlet.Tensor
---@shape -> (sz, sz)
function Transformer.generate_square_subsequent_mask(...)
  local size, device, dtype = read_mask(...)
  return attention._causal_mask(size, { device = device, dtype = dtype })
end

local read_forward = signature("Transformer:forward(Tensor src, Tensor tgt, Tensor? src_mask=nil, "
  .. "Tensor? tgt_mask=nil, Tensor? memory_mask=nil, Tensor? src_key_padding_mask=nil, "
  .. "Tensor? tgt_key_padding_mask=nil, Tensor? memory_key_padding_mask=nil, "
  .. "bool? src_is_causal=nil, bool? tgt_is_causal=nil, bool memory_is_causal=false)",
  "Transformer")

local function check_shapes(self, src, tgt)
  local batch = self.batch_first and 1 or 2
  if src.ndim == 3 and src.shape[batch] ~= (tgt.shape[batch] or 0) then
    options.fail("Transformer: 'src' %s and 'tgt' %s have batches of other sizes",
      tostring(src.shape), tostring(tgt.shape))
  end
  for name, x in pairs { src = src, tgt = tgt } do
    if x.ndim < 1 or x.shape[x.ndim] ~= self.d_model then
      options.fail("Transformer: '%s' has shape %s, %d features are expected", name,
        tostring(x.shape), self.d_model)
    end
  end
end

Transformer._inputs = nil

function Transformer:forward(...)
  local o = read_forward:table(...)
  check_shapes(self, o.src, o.tgt)
  local memory = self.encoder(o.src, { mask = o.src_mask,
    src_key_padding_mask = o.src_key_padding_mask, is_causal = o.src_is_causal })
  return self.decoder(o.tgt, memory, { tgt_mask = o.tgt_mask, memory_mask = o.memory_mask,
    tgt_key_padding_mask = o.tgt_key_padding_mask,
    memory_key_padding_mask = o.memory_key_padding_mask, tgt_is_causal = o.tgt_is_causal,
    memory_is_causal = o.memory_is_causal })
end

return layers
