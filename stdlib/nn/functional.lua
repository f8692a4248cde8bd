-- stdlib/nn/functional.lua: nn.functional: PyTorch's functions of networks under its names and with
-- its arguments. Dimensions and positions count from 1 here as everywhere.

local declare = require "moonlet.nn.functional.declare"
local layer = require "moonlet.nn.layer"
local ml = require "moonlet"
local options = require "moonlet.options"

local functional = {}

local op, activation, in_place = declare.op, declare.activation, declare.in_place

--- `max(input, 0)`. As all activations that take `inplace`, it changes `input` with that.
functional.relu = activation "relu(Tensor input, bool inplace=false)"
--- `min(max(input, 0), 6)`.
functional.relu6 = activation "relu6(Tensor input, bool inplace=false)"
--- `input` where positive, else `alpha * (exp(input) - 1)`.
functional.elu = activation "elu(Tensor input, number alpha=1.0, bool inplace=false)"
--- The scaled `elu` that keeps mean and variance.
functional.selu = activation "selu(Tensor input, bool inplace=false)"
--- `input` where positive, else `alpha * (exp(input / alpha) - 1)`.
functional.celu = activation "celu(Tensor input, number alpha=1.0, bool inplace=false)"
--- `input` where positive, else `negative_slope * input`.
functional.leaky_relu = activation(
  "leaky_relu(Tensor input, number negative_slope=0.01, bool inplace=false)")
--- `input` limited to the range from `min_val` to `max_val`.
functional.hardtanh = activation(
  "hardtanh(Tensor input, number min_val=-1.0, number max_val=1.0, bool inplace=false)")
--- 0 up to -3, 1 from 3, `input / 6 + 1 / 2` between.
functional.hardsigmoid = activation "hardsigmoid(Tensor input, bool inplace=false)"
--- `input * hardsigmoid(input)`.
functional.hardswish = activation "hardswish(Tensor input, bool inplace=false)"
--- `input * sigmoid(input)`.
functional.silu = activation "silu(Tensor input, bool inplace=false)"
--- `input * tanh(softplus(input))`.
functional.mish = activation "mish(Tensor input, bool inplace=false)"
--- `input` where it is above `threshold`, else `value`.
functional.threshold = activation(
  "threshold(Tensor input, number threshold, number value, bool inplace=false)")

--- `relu` in place.
functional.relu_ = in_place "relu_(Tensor input)"
--- `elu` in place.
functional.elu_ = in_place "elu_(Tensor input, number alpha=1.0)"
--- `selu` in place.
functional.selu_ = in_place "selu_(Tensor input)"
--- `celu` in place.
functional.celu_ = in_place "celu_(Tensor input, number alpha=1.0)"
--- `leaky_relu` in place.
functional.leaky_relu_ = in_place "leaky_relu_(Tensor input, number negative_slope=0.01)"
--- `hardtanh` in place.
functional.hardtanh_ = in_place(
  "hardtanh_(Tensor input, number min_val=-1.0, number max_val=1.0)")
--- `threshold` in place.
functional.threshold_ = in_place "threshold_(Tensor input, number threshold, number value)"

local read_prelu = declare.reader "prelu(Tensor input, Tensor weight)"

--- `max(input, 0)` plus `weight` times `min(input, 0)`; the weight has one element, or one for each
--- channel (the second dimension).
---@param input Tensor
---@param weight Tensor
---@return Tensor
function functional.prelu(...) return layer.prelu(read_prelu(...)) end

--- `input` times the normal distribution function of `input`; its tanh form with `approximate =
--- "tanh"`.
functional.gelu = op 'gelu(Tensor input, string approximate="none")'
--- `log(sigmoid(input))`, without overflow.
functional.logsigmoid = op "logsigmoid(Tensor input)"
--- `log(1 + exp(beta * input)) / beta`; `input` itself where `beta * input` passes `threshold`.
functional.softplus = op "softplus(Tensor input, number beta=1.0, number threshold=20.0)"
--- `input / (1 + |input|)`.
functional.softsign = op "softsign(Tensor input)"
--- `1 / (1 + exp(-input))`.
functional.sigmoid = op "sigmoid(Tensor input)"
--- The hyperbolic tangent.
functional.tanh = op "tanh(Tensor input)"
--- The first half along `dim` times the sigmoid of the second.
functional.glu = op "glu(Tensor input, int dim=-1)"

-- The softmax ops: with `dtype` the input is converted first.
local function softmax_of(name)
  local read, call = declare.reader(name .. "(Tensor input, int dim, string? dtype=nil)"), ml[name]
  return function(...)
    local input, dim, dtype = read(...)
    return call(dtype and input:to(dtype) or input, dim)
  end
end

--- `exp(input)` along `dim`, divided by its sum. With `dtype` the input is converted first.
functional.softmax = softmax_of "softmax"
--- The softmax of `-input`.
functional.softmin = softmax_of "softmin"
--- The logarithm of the softmax.
functional.log_softmax = softmax_of "log_softmax"

--- `input` times the transposed `weight` (out, in), plus `bias` (out).
functional.linear = op "linear(Tensor input, Tensor weight, Tensor? bias=nil)"

--- Normalises each channel, by the batch's statistics with `training` (which the running ones then
--- follow by `momentum`, in place), else by the running ones.
functional.batch_norm = op("batch_norm(Tensor input, Tensor? running_mean=nil, "
  .. "Tensor? running_var=nil, Tensor? weight=nil, Tensor? bias=nil, bool training=false, "
  .. "number>=0<=1 momentum=0.1, number>=0 eps=1e-5)")

--- Normalises over the last dimensions, whose sizes are `normalized_shape`.
functional.layer_norm = op("layer_norm(Tensor input, int[]>=1 normalized_shape, "
  .. "Tensor? weight=nil, Tensor? bias=nil, number>=0 eps=1e-5)")

--- `input` divided by its `p`-norm along `dim` (the second), or by `eps` where that is greater.
functional.normalize = op "normalize(Tensor input, number p=2, int dim=2, number eps=1e-12)"

--- The cosine of the angle between `x1` and `x2` along `dim` (the second).
functional.cosine_similarity = op(
  "cosine_similarity(Tensor x1, Tensor x2, int dim=2, number eps=1e-8)")

local read_dropout = declare.reader(
  "dropout(Tensor input, number>=0<=1 p=0.5, bool training=true, bool inplace=false)")

--- With `training` sets elements to 0 with probability `p` and scales the others by 1 / (1 - p).
---@return Tensor
function functional.dropout(...)
  local input, p, training, inplace = read_dropout(...)
  if training and inplace then return input:mul_(ml.dropout_mask(input, p)) end
  return ml.dropout(input, p, training)
end

local read_embedding = declare.reader(
  "embedding(Tensor input, Tensor weight, int? padding_idx=nil)")

--- The rows of `weight` at the positions in `input`, from 1. The row at `padding_idx` gets no
--- gradient.
---@return Tensor
function functional.embedding(...)
  local input, weight, padding_idx = read_embedding(...)
  local rows = weight.shape[1] or 0
  return ml.embedding(weight, input, layer.row("embedding", padding_idx, rows) or 0)
end

local read_one_hot = declare.reader "one_hot(Tensor tensor, int num_classes=-1)"

--- Rows of zeros with a 1 at the positions in `tensor`, from 1; as many as the highest position
--- unless `num_classes` is given.
---@return Tensor
function functional.one_hot(...)
  local tensor, num_classes = read_one_hot(...)
  return ml.one_hot(tensor, num_classes == -1 and 0 or num_classes)
end

local read_pad = declare.reader(
  'pad(Tensor input, int[] pad, string mode="constant", number? value=nil)')

--- `input` with a border: pairs (before, after) for the last dimension, the one before it, and so
--- on; negative numbers cut. `mode` is "constant" (of `value`), "reflect", "replicate" or
--- "circular".
---@return Tensor
function functional.pad(...)
  local input, pad, mode, value = read_pad(...)
  return ml.pad(input, pad, mode, value or 0)
end

--- `softmax(query key^T * scale + attn_mask) value`: attention.
functional.scaled_dot_product_attention = op("scaled_dot_product_attention(Tensor query, "
  .. "Tensor key, Tensor value, Tensor? attn_mask=nil, number>=0<=1 dropout_p=0, "
  .. "bool is_causal=false, number? scale=nil)")

local CLASSES = "(Tensor input, Tensor target, Tensor? weight=nil, int ignore_index=-100, "
  .. 'Reduction reduction="mean"'
local read_cross_entropy = declare.reader("cross_entropy" .. CLASSES
  .. ", number>=0<=1 label_smoothing=0.0)")

--- The negative log likelihood of classes, from 1, or of class probabilities, under the softmax of
--- scores (n, classes, ...).
---@return Tensor
function functional.cross_entropy(...)
  local input, target, weight, ignore_index, reduction, label_smoothing = read_cross_entropy(...)
  return ml.cross_entropy(input, target, weight, reduction, ignore_index, label_smoothing)
end

local read_nll_loss = declare.reader("nll_loss" .. CLASSES .. ")")

--- Minus the log probability, of (n, classes, ...), of each target class, from 1.
---@return Tensor
function functional.nll_loss(...)
  local input, target, weight, ignore_index, reduction = read_nll_loss(...)
  return ml.nll_loss(input, target, weight, reduction, ignore_index)
end

local PAIR = '(Tensor input, Tensor target, Reduction reduction="mean"'

--- The squared difference.
functional.mse_loss = op("mse_loss" .. PAIR .. ")")
--- The absolute difference.
functional.l1_loss = op("l1_loss" .. PAIR .. ")")
--- `d^2 / (2 beta)` where the difference d is below `beta`, `|d| - beta / 2` elsewhere.
functional.smooth_l1_loss = op("smooth_l1_loss" .. PAIR .. ", number>=0 beta=1.0)")
--- `d^2 / 2` where the difference d is below `delta`, `delta (|d| - delta / 2)` elsewhere.
functional.huber_loss = op("huber_loss" .. PAIR .. ", number>0 delta=1.0)")
--- The cross entropy of probabilities, for targets from 0 to 1 in the same shape.
functional.binary_cross_entropy = op("binary_cross_entropy(Tensor input, Tensor target, "
  .. 'Tensor? weight=nil, Reduction reduction="mean")')

local read_bce_logits = declare.reader(
  "binary_cross_entropy_with_logits(Tensor input, Tensor target, "
  .. 'Tensor? weight=nil, Reduction reduction="mean", Tensor? pos_weight=nil)')

--- `binary_cross_entropy` of the sigmoid of scores, without overflow. `pos_weight` multiplies the
--- part of the positive targets.
---@return Tensor
function functional.binary_cross_entropy_with_logits(...)
  local input, target, weight, reduction, pos_weight = read_bce_logits(...)
  return ml.binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction)
end

--- The Kullback-Leibler divergence of log probabilities from the target's probabilities, or its
--- logarithms with `log_target`.
functional.kl_div = op("kl_div(Tensor input, Tensor target, "
  .. 'KLReduction reduction="mean", bool log_target=false)')

local function add(part)
  for name, f in pairs(part) do functional[name] = f end
end
add(require "moonlet.nn.functional.conv")
add(require "moonlet.nn.functional.image")
add(require "moonlet.nn.functional.pool")

return options.namespace("nn.functional", functional)
