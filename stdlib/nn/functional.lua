-- stdlib/nn/functional.lua: nn.functional: PyTorch's functions of networks under its names and with
-- its arguments. Dimensions and positions count from 1 here as everywhere.

local declare = require "moonlet.nn.functional.declare"
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

--- `max(input, 0)` plus `weight` times `min(input, 0)`; the weight has one element, or one for each
--- channel (the second dimension).
functional.prelu = op "prelu(Tensor input, Tensor weight)"
--- `leaky_relu` with, in training, a slope drawn for each element from `lower` to `upper`, else
--- their mean.
functional.rrelu = activation("rrelu(Tensor input, number lower=0.125, "
  .. "number upper=0.3333333333333333, bool training=false, bool inplace=false)")
--- `rrelu` in place.
functional.rrelu_ = in_place("rrelu_(Tensor input, number lower=0.125, "
  .. "number upper=0.3333333333333333, bool training=false)")
--- `input`, but 0 from `-lambd` to `lambd`.
functional.hardshrink = op "hardshrink(Tensor input, number lambd=0.5)"
--- `input` moved towards 0 by `lambd`, 0 from `-lambd` to `lambd`.
functional.softshrink = op "softshrink(Tensor input, number>=0 lambd=0.5)"
--- `input - tanh(input)`.
functional.tanhshrink = op "tanhshrink(Tensor input)"
--- `input` times the normal distribution function of `input`; its tanh form with `approximate =
--- "tanh"`.
functional.gelu = op 'gelu(Tensor input, string approximate="none")'
--- `log(sigmoid(input))`, without overflow.
functional.logsigmoid = op "logsigmoid(Tensor input)"
--- `log(1 + exp(beta * input)) / beta`; `input` itself where `beta * input` passes `threshold`.
functional.softplus = op "softplus(Tensor input, number beta=1.0, number threshold=20.0)"
local read_softsign = declare.reader "softsign(Tensor input)"

--- `input / (1 + |input|)`, of complex numbers too.
---@return Tensor
function functional.softsign(...)
  local input = read_softsign(...)
  if input:is_complex() then return input / (input:abs() + 1) end
  return ml.softsign(input)
end
--- `1 / (1 + exp(-input))`.
functional.sigmoid = op "sigmoid(Tensor input)"
--- The hyperbolic tangent.
functional.tanh = op "tanh(Tensor input)"
--- The first half along `dim` times the sigmoid of the second.
functional.glu = op "glu(Tensor input, int dim=-1)"

-- The softmax ops. Without `dim` PyTorch takes the channels of a batch, or what it takes for them.
-- A dtype is told from a dimension, so that it may come first.
local function softmax_of(name)
  local read = declare.reader(name .. "(Tensor input, int|string? dim=nil, string|int? dtype=nil)")
  local call = ml[name]
  return function(...)
    local input, dim, dtype = read(...)
    if type(dim) == "string" then dim, dtype = dtype, dim end
    dim = dim or (input.ndim <= 1 or input.ndim == 3) and 1 or 2
    if dtype then return call(input, dim, dtype) end
    return call(input, dim)
  end
end

--- `exp(input)` along `dim`, divided by its sum. With `dtype` the input is converted first. Say
--- which `dim`: left out, it is 2, but 1 for a tensor of 0, 1 or 3 dimensions.
functional.softmax = softmax_of "softmax"
--- The softmax of `-input`.
functional.softmin = softmax_of "softmin"
--- The logarithm of the softmax.
functional.log_softmax = softmax_of "log_softmax"

local read_linear = declare.reader "linear(Tensor input, Tensor weight, Tensor? bias=nil)"

--- `input` times the transposed `weight` (out, in), plus `bias` (out). A `weight` (in) leaves out
--- the last dimension.
---@return Tensor
function functional.linear(...)
  local input, weight, bias = read_linear(...)
  if weight.ndim ~= 1 then return ml.linear(input, weight, bias) end
  local y = ml.matmul(input, weight)
  return bias and y + bias or y
end

--- `x1^T weight[k] x2 + bias[k]` for each k: `input1` (..., i), `input2` (..., j), `weight` (o, i,
--- j), `bias` (o).
functional.bilinear = op(
  "bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=nil)")

--- Normalises each channel, by the batch's statistics with `training` (which the running ones then
--- follow by `momentum`, in place), else by the running ones.
functional.batch_norm = op("batch_norm(Tensor input, Tensor? running_mean=nil, "
  .. "Tensor? running_var=nil, Tensor? weight=nil, Tensor? bias=nil, bool training=false, "
  .. "number>=0<=1 momentum=0.1, number>=0 eps=1e-5)")

--- Normalises over the last dimensions, whose sizes are `normalized_shape`.
functional.layer_norm = op("layer_norm(Tensor input, int[]>=1 normalized_shape, "
  .. "Tensor? weight=nil, Tensor? bias=nil, number>=0 eps=1e-5)")

local read_group_norm = declare.reader("group_norm(Tensor input, int>=1 num_groups, "
  .. "Tensor? weight=nil, Tensor? bias=nil, number>=0 eps=1e-5)")

--- Normalises each of `num_groups` groups of channels of each entry, then scales and shifts
--- channels.
---@return Tensor
function functional.group_norm(...)
  local input, groups, weight, bias, eps = read_group_norm(...)
  if input:numel() > 0 and input.ndim >= 2 and input:numel() == groups then
    options.fail("group_norm: one value in a group of shape %s", tostring(input.shape))
  end
  return ml.group_norm(input, groups, weight, bias, eps)
end

local read_instance_norm = declare.reader("instance_norm(Tensor input, Tensor? running_mean=nil, "
  .. "Tensor? running_var=nil, Tensor? weight=nil, Tensor? bias=nil, bool use_input_stats=true, "
  .. "number>=0<=1 momentum=0.1, number>=0 eps=1e-5)")

--- Normalises each channel of each entry, then scales and shifts channels. Running statistics
--- follow by `momentum`, in place, and are used instead without `use_input_stats`.
---@return Tensor
function functional.instance_norm(...)
  local input, mean, var, weight, bias, use_input_stats, momentum, eps = read_instance_norm(...)
  local size = input.ndim >= 2 and (input.shape[1] or 0) * (input.shape[2] or 0) or 0
  if use_input_stats and size > 0 and input:numel() == size then
    options.fail("instance_norm: one value in a channel of shape %s", tostring(input.shape))
  end
  return ml.instance_norm(input, mean, var, weight, bias, use_input_stats, momentum, eps)
end

--- Divides by the root of the mean square over the last dimensions, whose sizes are
--- `normalized_shape`, then scales.
functional.rms_norm = op("rms_norm(Tensor input, int[]>=1 normalized_shape, Tensor? weight=nil, "
  .. "number>=0? eps=nil)")
--- Divides by a power of the mean square of `size` neighbouring channels.
functional.local_response_norm = op("local_response_norm(Tensor input, int>=1 size, "
  .. "number alpha=1e-4, number beta=0.75, number k=1)")

--- `input` divided by its `p`-norm along `dim` (the second), or by `eps` where that is greater.
functional.normalize = op "normalize(Tensor input, number p=2, int dim=2, number eps=1e-12)"

--- The cosine of the angle between `x1` and `x2` along `dim` (the second).
functional.cosine_similarity = op(
  "cosine_similarity(Tensor x1, Tensor x2, int dim=2, number eps=1e-8)")

--- The `p`-norm of `x1 - x2 + eps` over the last dimension.
functional.pairwise_distance = op("pairwise_distance(Tensor x1, Tensor x2, number p=2, "
  .. "number eps=1e-6, bool keepdim=false)")

local read_one_hot = declare.reader "one_hot(Tensor tensor, int num_classes=-1)"

--- Rows of zeros with a 1 at the positions in `tensor`, from 1; as many as the highest position
--- unless `num_classes` is given.
---@return Tensor
function functional.one_hot(...)
  local tensor, num_classes = read_one_hot(...)
  return ml.one_hot(tensor, num_classes)
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

--- The `p`-norms of the differences of each two rows of `input`.
functional.pdist = op "pdist(Tensor input, number>=0 p=2)"

local function add(part)
  for name, f in pairs(part) do functional[name] = f end
end
add(require "moonlet.nn.functional.attention")
add(require "moonlet.nn.functional.conv")
add(require "moonlet.nn.functional.dropout")
add(require "moonlet.nn.functional.embedding")
add(require "moonlet.nn.functional.grouped")
add(require "moonlet.nn.functional.image")
add(require "moonlet.nn.functional.loss")
add(require "moonlet.nn.functional.pool")

return options.namespace("nn.functional", functional)
