-- stdlib/nn/utils/fusion.lua: nn.utils.fuse_*: batch normalisation in eval mode as part of the
-- layer before it.

local ml = require "moonlet"
local options = require "moonlet.options"
local parameter = require "moonlet.nn.parameter"
local signature = require "moonlet.signature"
local fail = options.fail

local fusion = {}

local TENSORS = ", Tensor bn_rm, Tensor bn_rv, number bn_eps, Tensor? bn_w=nil, Tensor? bn_b=nil"

-- The weight and bias of a layer whose outputs are dimension `dim` of the weight, with the
-- normalisation in them.
local function fuse(weight, bias, mean, var, eps, bn_weight, bn_bias, dim)
  local _ <close> = ml.no_grad()
  local trained, bias_trained = weight.requires_grad, bias ~= nil and bias.requires_grad
  local scale = (var + eps):rsqrt()
  if bn_weight then scale = scale * bn_weight end
  local shape = {}
  for d = 1, weight.ndim do shape[d] = d == dim and -1 or 1 end
  local shift = -mean * scale
  if bias then shift = shift + bias * scale end
  if bn_bias then shift = shift + bn_bias end
  local fused = (weight * scale:reshape(shape)):to { dtype = weight.dtype }
  if bias == nil then bias_trained = trained end
  return parameter.new(fused, trained),
    parameter.new(shift:to { dtype = bias and bias.dtype or weight.dtype }, bias_trained)
end

local read_conv_weights = signature("nn.utils.fuse_conv_bn_weights(Tensor conv_w, "
  .. "Tensor? conv_b=nil" .. TENSORS .. ", bool transpose=false)")

--- Weight and bias of a convolution with the batch normalisation after it folded in. Of the
--- normalisation m and v are the running mean and variance, e is `bn_eps`, g and s are factors and
--- shift.
--- > ml.nn.utils.fuse_conv_bn_weights(ml.ones(1, 1, 1), nil, ml.ones(1), ml.tensor { 4.0 }, 0)
---   {{{0.5000}}}
---   Tensor (1, 1, 1) float32
---   {-0.5000}
---   Tensor (1,) float32
---@param conv_w the weight of the convolution
---@param conv_b its bias: 0 unless given
---@param bn_rm the running mean of the normalisation
---@param bn_rv the running variance
---@param bn_eps what is added to the variance
---@param bn_w the factors of the normalisation: 1 unless given
---@param bn_b what the normalisation adds: 0 unless given
---@param transpose whether it is a transposed convolution
---@return moonlet.Tensor weight
---@return moonlet.Tensor bias
---@shape conv_w (o, c, *), the others (o) -> weight (o, c, *), bias (o)
---@formula W' = g W / sqrt(v + e)
---@formula b' = g (b - m) / sqrt(v + e) + s
function fusion.fuse_conv_bn_weights(...)
  local w, b, mean, var, eps, bn_w, bn_b, transpose = read_conv_weights(...)
  return fuse(w, b, mean, var, eps, bn_w, bn_b, transpose and 2 or 1)
end

local read_linear_weights = signature("nn.utils.fuse_linear_bn_weights(Tensor linear_w, "
  .. "Tensor? linear_b=nil" .. TENSORS .. ")")

--- Weight and bias of a linear layer with the batch normalisation after it folded in. Of the
--- normalisation m and v are the running mean and variance, e is `bn_eps`, g and s are factors and
--- shift.
--- > ml.nn.utils.fuse_linear_bn_weights(ml.ones(1, 2), nil, ml.ones(1), ml.tensor { 4.0 }, 0)
---   {{0.5000, 0.5000}}
---   Tensor (1, 2) float32
---   {-0.5000}
---   Tensor (1,) float32
---@param linear_w the weight of the layer
---@param linear_b its bias: 0 unless given
---@param bn_rm the running mean of the normalisation
---@param bn_rv the running variance
---@param bn_eps what is added to the variance
---@param bn_w the factors of the normalisation: 1 unless given
---@param bn_b what the normalisation adds: 0 unless given
---@return moonlet.Tensor weight
---@return moonlet.Tensor bias
---@shape linear_w (o, i), the others (o) -> weight (o, i), bias (o)
---@formula W' = g W / sqrt(v + e)
---@formula b' = g (b - m) / sqrt(v + e) + s
function fusion.fuse_linear_bn_weights(...)
  local w, b, mean, var, eps, bn_w, bn_b = read_linear_weights(...)
  return fuse(w, b, mean, var, eps, bn_w, bn_b, 1)
end

-- A copy of `first` with `bn` in it.
local function fused_copy(where, first, bn, dim)
  if first.training or bn.training then
    fail("%s: both modules must be in eval mode", where)
  elseif not (bn.running_mean and bn.running_var) then
    fail("%s: the normalisation has no running statistics", where)
  end
  local copy = first:deepcopy()
  copy.weight, copy.bias = fuse(copy.weight, copy.bias, bn.running_mean, bn.running_var, bn.eps,
    bn.weight, bn.bias, dim)
  return copy
end

local read_conv = signature(
  "nn.utils.fuse_conv_bn_eval(Module conv, Module bn, bool transpose=false)")

--- Copy of a convolution with the batch normalisation after it folded in.
--- > conv, bn = ml.nn.Conv2d(1, 2, 3):eval(), ml.nn.BatchNorm2d(2):eval()
--- > ml.nn.utils.fuse_conv_bn_eval(conv, bn)
---   Conv2d(1 -> 2, kernel 3)        20
---   20 parameters
---@param conv table the convolution, in eval mode
---@param bn table the batch normalisation, in eval mode
---@param transpose? boolean whether it is a transposed convolution
---@return table
---@error a module is in training mode
function fusion.fuse_conv_bn_eval(...)
  local conv, bn, transpose = read_conv(...)
  return fused_copy("nn.utils.fuse_conv_bn_eval", conv, bn, transpose and 2 or 1)
end

local read_linear = signature "nn.utils.fuse_linear_bn_eval(Module linear, Module bn)"

--- Copy of a linear layer with the batch normalisation after it folded in.
--- > linear, bn = ml.nn.Linear(3, 2):eval(), ml.nn.BatchNorm1d(2):eval()
--- > ml.nn.utils.fuse_linear_bn_eval(linear, bn)
---   Linear(3 -> 2)         8
---   8 parameters
---@param linear table the layer, in eval mode
---@param bn table the batch normalisation, in eval mode
---@return table
---@error a module is in training mode
function fusion.fuse_linear_bn_eval(...)
  local linear, bn = read_linear(...)
  if linear.out_features ~= bn.num_features and bn.num_features ~= 1 then
    fail("nn.utils.fuse_linear_bn_eval: the layer gives %s features, the normalisation has %s",
      tostring(linear.out_features), tostring(bn.num_features))
  end
  return fused_copy("nn.utils.fuse_linear_bn_eval", linear, bn, 1)
end

return fusion
