-- stdlib/nn/functional.lua: nn.functional: PyTorch's functions of networks under its names and with
-- its arguments. Dimensions and positions count from 1 here as everywhere.

local layer = require "moonlet.nn.layer"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"

local functional = {}

local function declare(text) return signature("nn.functional." .. text) end

-- The op of that name, whose arguments come in the declared order. Where there are none by name it
-- reads them itself, which is faster.
local function op(text)
  local read, call = declare(text), ml[text:match "^[%w_]+"]
  return function(...)
    if select("#", ...) > 0 and type((select(-1, ...))) ~= "table" then return call(...) end
    return call(read(...))
  end
end

-- An op whose last declared argument, `inplace`, asks for its in-place form.
local function activation(text)
  local name = text:match "^[%w_]+"
  local read, call, change = declare(text), ml[name], ml._methods[name .. "_"]
  return function(...)
    if select("#", ...) == 1 and ml.is_tensor((...)) then return call(...) end
    local values, count = { read(...) }, #read.names - 1
    if values[count + 1] then return change(table.unpack(values, 1, count)) end
    return call(table.unpack(values, 1, count))
  end
end

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

-- The in-place forms that PyTorch has names for.
local function in_place(text)
  local name = text:match "^[%w_]+"
  local read, change = declare(text), ml._methods[name]
  return function(...) return change(read(...)) end
end

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

local read_prelu = declare "prelu(Tensor input, Tensor weight)"

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
  local read, call = declare(name .. "(Tensor input, int dim, string? dtype=nil)"), ml[name]
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

local function convolution(dims)
  local name = ("conv%dd"):format(dims)
  local read = declare((name .. "(Tensor input, Tensor weight, Tensor? bias=nil, "
    .. "int[N]>=1 stride=1, int[N]>=0|string padding=0, int[N]>=1 dilation=1, int>=1 groups=1)")
    :gsub("N", tostring(dims)))
  return function(...)
    local input, weight, bias, stride, padding, dilation, groups = read(...)
    local kernel = {}
    for i = 1, dims do kernel[i] = weight.shape[2 + i] or 1 end
    padding = layer.padding(name, padding, kernel, stride, dilation)
    if dims == 1 then stride, padding, dilation = stride[1], padding[1], dilation[1] end
    return ml[name](input, weight, bias, stride, padding, dilation, groups)
  end
end

--- Cross-correlation of `input` (n, c, l) with filters `weight` (o, c / groups, k), plus `bias` (o)
--- per channel. `padding` may be "same" or "valid".
functional.conv1d = convolution(1)
--- Cross-correlation of images `input` (n, c, h, w) with filters `weight` (o, c / groups, kh, kw),
--- plus `bias` (o) per channel. `padding` may be "same" or "valid".
functional.conv2d = convolution(2)

local read_max_pool = declare("max_pool2d(Tensor input, int[2]>=1 kernel_size, "
  .. "int[2]>=1? stride=nil, int[2]>=0 padding=0, int[2]>=1 dilation=1, bool ceil_mode=false, "
  .. "bool return_indices=false)")

--- The greatest element of each window; the stride is the window's size unless given. With
--- `return_indices` the second result is each maximum's position in its flattened plane.
---@return Tensor values
---@return Tensor? indices
function functional.max_pool2d(...)
  local x, kernel, stride, padding, dilation, ceil_mode, return_indices = read_max_pool(...)
  local pool = return_indices and ml.max_pool2d_with_indices or ml.max_pool2d
  return pool(x, kernel, stride or kernel, padding, dilation, ceil_mode)
end

local read_max_pool_with_indices = declare("max_pool2d_with_indices(Tensor input, "
  .. "int[2]>=1 kernel_size, int[2]>=1? stride=nil, int[2]>=0 padding=0, int[2]>=1 dilation=1, "
  .. "bool ceil_mode=false)")

--- `max_pool2d` with the position of each maximum in its flattened plane as the second result.
---@return Tensor values
---@return Tensor indices
function functional.max_pool2d_with_indices(...)
  local x, kernel, stride, padding, dilation, ceil_mode = read_max_pool_with_indices(...)
  return ml.max_pool2d_with_indices(x, kernel, stride or kernel, padding, dilation, ceil_mode)
end

local read_avg_pool = declare("avg_pool2d(Tensor input, int[2]>=1 kernel_size, "
  .. "int[2]>=1? stride=nil, int[2]>=0 padding=0, bool ceil_mode=false, "
  .. "bool count_include_pad=true)")

--- The mean of each window; the stride is the window's size unless given.
---@return Tensor
function functional.avg_pool2d(...)
  local x, kernel, stride, padding, ceil_mode, count_include_pad = read_avg_pool(...)
  return ml.avg_pool2d(x, kernel, stride or kernel, padding, ceil_mode, count_include_pad)
end

--- Means over windows chosen so that the result has the size given.
functional.adaptive_avg_pool2d = op "adaptive_avg_pool2d(Tensor input, int[2]>=1 output_size)"

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

local read_dropout = declare(
  "dropout(Tensor input, number>=0<=1 p=0.5, bool training=true, bool inplace=false)")

--- With `training` sets elements to 0 with probability `p` and scales the others by 1 / (1 - p).
---@return Tensor
function functional.dropout(...)
  local input, p, training, inplace = read_dropout(...)
  if training and inplace then return input:mul_(ml.dropout_mask(input, p)) end
  return ml.dropout(input, p, training)
end

local read_embedding = declare(
  "embedding(Tensor input, Tensor weight, int? padding_idx=nil)")

--- The rows of `weight` at the positions in `input`, from 1. The row at `padding_idx` gets no
--- gradient.
---@return Tensor
function functional.embedding(...)
  local input, weight, padding_idx = read_embedding(...)
  local rows = weight.shape[1] or 0
  return ml.embedding(weight, input, layer.row("embedding", padding_idx, rows) or 0)
end

local read_one_hot = declare "one_hot(Tensor tensor, int num_classes=-1)"

--- Rows of zeros with a 1 at the positions in `tensor`, from 1; as many as the highest position
--- unless `num_classes` is given.
---@return Tensor
function functional.one_hot(...)
  local tensor, num_classes = read_one_hot(...)
  return ml.one_hot(tensor, num_classes)
end

local read_pad = declare(
  'pad(Tensor input, int[] pad, string mode="constant", number? value=nil)')

--- `input` with a border: pairs (before, after) for the last dimension, the one before it, and so
--- on; negative numbers cut. `mode` is "constant" (of `value`), "reflect", "replicate" or
--- "circular".
---@return Tensor
function functional.pad(...)
  local input, pad, mode, value = read_pad(...)
  return ml.pad(input, pad, mode, value or 0)
end

local read_unfold = declare("unfold(Tensor input, int[2]>=1 kernel_size, int[2]>=1 dilation=1, "
  .. "int[2]>=0 padding=0, int[2]>=1 stride=1)")

--- The windows of images (n, c, h, w), or (c, h, w), as columns: (n, c * kh * kw, windows).
---@return Tensor
function functional.unfold(...)
  local input, kernel, dilation, padding, stride = read_unfold(...)
  if input.ndim ~= 3 and input.ndim ~= 4 then
    options.fail("unfold: 'input' must have shape (n, c, h, w) or (c, h, w), got %s",
      tostring(input.shape))
  end
  local x = input.ndim == 3 and input:unsqueeze(1) or input
  x = ml.pad(x, { padding[2], padding[2], padding[1], padding[1] })
  for i = 1, 2 do
    local span = (kernel[i] - 1) * dilation[i] + 1
    if x.shape[2 + i] < span then
      options.fail("unfold: the window spans %d positions of dimension %d, the padded input has %d",
        span, input.ndim - 2 + i, x.shape[2 + i])
    end
    x = x:unfold(2 + i, span, stride[i])
  end
  x = x[{ {}, {}, {}, {}, { 1, -1, dilation[1] }, { 1, -1, dilation[2] } }]
  local n, c, rows, columns = table.unpack(x.shape)
  local out = x:permute(1, 2, 5, 6, 3, 4):reshape(n, c * kernel[1] * kernel[2], rows * columns)
  return input.ndim == 3 and out:squeeze(1) or out
end

--- `softmax(query key^T * scale + attn_mask) value`: attention.
functional.scaled_dot_product_attention = op("scaled_dot_product_attention(Tensor query, "
  .. "Tensor key, Tensor value, Tensor? attn_mask=nil, number>=0<=1 dropout_p=0, "
  .. "bool is_causal=false, number? scale=nil)")

local CLASSES = "(Tensor input, Tensor target, Tensor? weight=nil, int ignore_index=-100, "
  .. 'Reduction reduction="mean"'
local read_cross_entropy = declare("cross_entropy" .. CLASSES
  .. ", number>=0<=1 label_smoothing=0.0)")

--- The negative log likelihood of classes, from 1, or of class probabilities, under the softmax of
--- scores (n, classes, ...).
---@return Tensor
function functional.cross_entropy(...)
  local input, target, weight, ignore_index, reduction, label_smoothing = read_cross_entropy(...)
  return ml.cross_entropy(input, target, weight, reduction, ignore_index, label_smoothing)
end

local read_nll_loss = declare("nll_loss" .. CLASSES .. ")")

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

local read_bce_logits = declare("binary_cross_entropy_with_logits(Tensor input, Tensor target, "
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

return options.namespace("nn.functional", functional)
