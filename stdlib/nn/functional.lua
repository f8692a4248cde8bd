-- stdlib/nn/functional.lua: nn.functional: PyTorch's functions of networks under its names and with
-- its arguments. Dimensions and positions count from 1 here as everywhere.

local declare = require "moonlet.nn.functional.declare"
local ml = require "moonlet"
local options = require "moonlet.options"

local functional = {}

local op, activation, in_place = declare.op, declare.activation, declare.in_place

--- Rectified linear unit.
--- > ml.nn.functional.relu(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---@param input the tensor to compute from
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = max(x, 0)
---@source Nair and Hinton, 2010: Rectified linear units improve restricted Boltzmann machines
functional.relu = activation "relu(Tensor input, bool inplace=false)"
--- Rectified linear unit that is cut off at 6.
--- > ml.nn.functional.relu6(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---@param input the tensor to compute from
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = min(max(x, 0), 6)
---@source Howard et al., 2017: MobileNets
functional.relu6 = activation "relu6(Tensor input, bool inplace=false)"
--- Exponential linear unit (ELU).
--- > ml.nn.functional.elu(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---@param input the tensor to compute from
---@param alpha minus the limit for inputs far below 0
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = max(x, 0) + min(0, alpha (exp(x) - 1))
---@source Clevert et al., 2015: Fast and accurate deep network learning by exponential linear units
functional.elu = activation "elu(Tensor input, number alpha=1.0, bool inplace=false)"
--- Scaled exponential linear unit (SELU). In networks of linear layers that start from weights of
--- mean 0 and variance 1 / fan_in, it keeps the activations near mean 0 and variance 1.
--- > ml.nn.functional.selu(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---@param input the tensor to compute from
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = scale (max(0, x) + min(0, alpha (exp(x) - 1)))
---@formula scale = 1.0507009873554805, alpha = 1.6732632423543772
---@source Klambauer et al., 2017: Self-normalizing neural networks
functional.selu = activation "selu(Tensor input, bool inplace=false)"
--- Continuously differentiable exponential linear unit (CELU).
--- > ml.nn.functional.celu(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---@param input the tensor to compute from
---@param alpha minus the limit for inputs far below 0
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = max(x, 0) + min(0, alpha (exp(x / alpha) - 1))
---@source Barron, 2017: Continuously differentiable exponential linear units
functional.celu = activation "celu(Tensor input, number alpha=1.0, bool inplace=false)"
--- Leaky rectified linear unit.
--- > ml.nn.functional.leaky_relu(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---@param input the tensor to compute from
---@param negative_slope the factor of inputs below 0
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = max(x, 0) + negative_slope min(x, 0)
---@source Maas et al., 2013: Rectifier nonlinearities improve neural network acoustic models
functional.leaky_relu = activation(
  "leaky_relu(Tensor input, number negative_slope=0.01, bool inplace=false)")
--- Clamps the input to the range from `min_val` to `max_val`.
--- > ml.nn.functional.hardtanh(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---@param input the tensor to compute from
---@param min_val the lower bound
---@param max_val the upper bound, at least `min_val`
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = min(max(x, min_val), max_val)
functional.hardtanh = activation(
  "hardtanh(Tensor input, number min_val=-1.0, number max_val=1.0, bool inplace=false)")
--- Piecewise linear approximation of the sigmoid.
--- > ml.nn.functional.hardsigmoid(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---@param input the tensor to compute from
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = min(max(x / 6 + 1 / 2, 0), 1)
functional.hardsigmoid = activation "hardsigmoid(Tensor input, bool inplace=false)"
--- Piecewise approximation of the swish activation.
--- > ml.nn.functional.hardswish(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---@param input the tensor to compute from
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = x min(max(x / 6 + 1 / 2, 0), 1)
---@source Howard et al., 2019: Searching for MobileNetV3
functional.hardswish = activation "hardswish(Tensor input, bool inplace=false)"
--- Sigmoid linear unit (SiLU), also called swish.
--- > ml.nn.functional.silu(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---@param input the tensor to compute from
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = x / (1 + exp(-x))
---@source Hendrycks and Gimpel, 2016: Gaussian error linear units
functional.silu = activation "silu(Tensor input, bool inplace=false)"
--- Mish, a smooth activation that is not monotonic.
--- > ml.nn.functional.mish(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---@param input the tensor to compute from
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = x tanh(log(1 + exp(x)))
---@source Misra, 2019: Mish: a self regularized non-monotonic activation function
functional.mish = activation "mish(Tensor input, bool inplace=false)"
--- Replaces the elements that are not above a threshold.
--- > ml.nn.functional.threshold(ml.tensor { -2, -0.5, 0, 0.5, 2 }, 0.1, -1)
---@param input the tensor to compute from
---@param threshold the bound
---@param value what stands for the elements that are not above it
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = x if x > threshold, else value
functional.threshold = activation(
  "threshold(Tensor input, number threshold, number value, bool inplace=false)")

--- Rectified linear unit, in place: `relu` that writes its result into `input`.
--- > x = ml.tensor { -2, -0.5, 0, 0.5, 2 }
--- > ml.nn.functional.relu_(x)
---@param input the tensor that is changed
---@shape input (*) -> (*)
---@formula y = max(x, 0)
---@source Nair and Hinton, 2010: Rectified linear units improve restricted Boltzmann machines
functional.relu_ = in_place "relu_(Tensor input)"
--- Exponential linear unit (ELU), in place: `elu` that writes its result into `input`.
--- > x = ml.tensor { -2, -0.5, 0, 0.5, 2 }
--- > ml.nn.functional.elu_(x)
---@param input the tensor that is changed
---@param alpha minus the limit for inputs far below 0
---@shape input (*) -> (*)
---@formula y = max(x, 0) + min(0, alpha (exp(x) - 1))
---@source Clevert et al., 2015: Fast and accurate deep network learning by exponential linear units
functional.elu_ = in_place "elu_(Tensor input, number alpha=1.0)"
--- Scaled exponential linear unit (SELU), in place: `selu` that writes its result into `input`.
--- > x = ml.tensor { -2, -0.5, 0, 0.5, 2 }
--- > ml.nn.functional.selu_(x)
---@param input the tensor that is changed
---@shape input (*) -> (*)
---@formula y = scale (max(0, x) + min(0, alpha (exp(x) - 1)))
---@formula scale = 1.0507009873554805, alpha = 1.6732632423543772
---@source Klambauer et al., 2017: Self-normalizing neural networks
functional.selu_ = in_place "selu_(Tensor input)"
--- Continuously differentiable exponential linear unit (CELU), in place: `celu` that writes its
--- result into `input`.
--- > x = ml.tensor { -2, -0.5, 0, 0.5, 2 }
--- > ml.nn.functional.celu_(x)
---@param input the tensor that is changed
---@param alpha minus the limit for inputs far below 0
---@shape input (*) -> (*)
---@formula y = max(x, 0) + min(0, alpha (exp(x / alpha) - 1))
---@source Barron, 2017: Continuously differentiable exponential linear units
functional.celu_ = in_place "celu_(Tensor input, number alpha=1.0)"
--- Leaky rectified linear unit, in place: `leaky_relu` that writes its result into `input`.
--- > x = ml.tensor { -2, -0.5, 0, 0.5, 2 }
--- > ml.nn.functional.leaky_relu_(x)
---@param input the tensor that is changed
---@param negative_slope the factor of inputs below 0
---@shape input (*) -> (*)
---@formula y = max(x, 0) + negative_slope min(x, 0)
---@source Maas et al., 2013: Rectifier nonlinearities improve neural network acoustic models
functional.leaky_relu_ = in_place "leaky_relu_(Tensor input, number negative_slope=0.01)"
--- Clamps the input to the range from `min_val` to `max_val`, in place: `hardtanh` that writes its
--- result into `input`.
--- > x = ml.tensor { -2, -0.5, 0, 0.5, 2 }
--- > ml.nn.functional.hardtanh_(x)
---@param input the tensor that is changed
---@param min_val the lower bound
---@param max_val the upper bound, at least `min_val`
---@shape input (*) -> (*)
---@formula y = min(max(x, min_val), max_val)
functional.hardtanh_ = in_place(
  "hardtanh_(Tensor input, number min_val=-1.0, number max_val=1.0)")
--- Replaces the elements that are not above a threshold, in place: `threshold` that writes its
--- result into `input`.
--- > x = ml.tensor { -2, -0.5, 0, 0.5, 2 }
--- > ml.nn.functional.threshold_(x, 0.1, -1)
---@param input the tensor that is changed
---@param threshold the bound
---@param value what stands for the elements that are not above it
---@shape input (*) -> (*)
---@formula y = x if x > threshold, else value
functional.threshold_ = in_place "threshold_(Tensor input, number threshold, number value)"

--- Parametric rectified linear unit: a leaky ReLU whose factors are a tensor.
--- > ml.nn.functional.prelu(ml.tensor { -2.0, 0, 2 }, ml.tensor { 0.25 })
---@param input the tensor to compute from
---@param weight the factors of elements below 0: one, or one for each channel
---@shape input (n, c, *), weight (1) or (c) -> (n, c, *)
---@formula y = max(x, 0) + weight min(x, 0)
---@source He et al., 2015: Delving deep into rectifiers
functional.prelu = op "prelu(Tensor input, Tensor weight)"
--- Randomized leaky rectified linear unit. With `training` each element below 0 is multiplied by a
--- factor of its own, drawn from the uniform distribution from `lower` to `upper`.
--- > ml.nn.functional.rrelu(ml.tensor { -2.0, 0, 2 })
---@param input the tensor to compute from
---@param lower the least factor of elements below 0
---@param upper the greatest factor of elements below 0
---@param training whether factors are drawn; false takes (lower + upper) / 2
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = max(x, 0) + a min(x, 0)
---@formula a ~ U(lower, upper)
---@source Xu et al., 2015: Empirical evaluation of rectified activations in convolutional network
functional.rrelu = activation("rrelu(Tensor input, number lower=0.125, "
  .. "number upper=0.3333333333333333, bool training=false, bool inplace=false)")
--- Randomized leaky rectified linear unit, in place: `rrelu` that writes its result into `input`.
--- > x = ml.tensor { -2.0, 0, 2 }
--- > ml.nn.functional.rrelu_(x)
---@param input the tensor that is changed
---@param lower the least factor of elements below 0
---@param upper the greatest factor of elements below 0
---@param training whether factors are drawn; false takes (lower + upper) / 2
---@shape input (*) -> (*)
---@formula y = max(x, 0) + a min(x, 0)
---@formula a ~ U(lower, upper)
---@source Xu et al., 2015: Empirical evaluation of rectified activations in convolutional network
functional.rrelu_ = in_place("rrelu_(Tensor input, number lower=0.125, "
  .. "number upper=0.3333333333333333, bool training=false)")
--- Hard shrinkage: sets elements near 0 to 0.
--- > ml.nn.functional.hardshrink(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---@param input the tensor to compute from
---@param lambd half the width of the range around 0 that becomes 0
---@shape input (*) -> (*)
---@formula y = x if |x| > lambd, else 0
functional.hardshrink = op "hardshrink(Tensor input, number lambd=0.5)"
--- Soft shrinkage: moves elements towards 0 by `lambd`.
--- > ml.nn.functional.softshrink(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---@param input the tensor to compute from
---@param lambd how far elements move, at least 0
---@shape input (*) -> (*)
---@formula y = x - lambd if x > lambd, x + lambd if x < -lambd, else 0
functional.softshrink = op "softshrink(Tensor input, number>=0 lambd=0.5)"
--- The input minus its hyperbolic tangent.
--- > ml.nn.functional.tanhshrink(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---@param input the tensor to compute from
---@shape input (*) -> (*)
---@formula y = x - tanh(x)
functional.tanhshrink = op "tanhshrink(Tensor input)"
--- Gaussian error linear unit (GELU).
--- > ml.nn.functional.gelu(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---@param input the tensor to compute from
---@param approximate "none" for the exact form, or "tanh" for the approximation by tanh
---@shape input (*) -> (*)
---@formula y = x Phi(x)
---@formula Phi(x) = (1 + erf(x / sqrt(2))) / 2
---@formula tanh: y = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
---@source Hendrycks and Gimpel, 2016: Gaussian error linear units
functional.gelu = op 'gelu(Tensor input, string approximate="none")'
--- Logarithm of the sigmoid, computed without overflow.
--- > ml.nn.functional.logsigmoid(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---@param input the tensor to compute from
---@shape input (*) -> (*)
---@formula y = log(1 / (1 + exp(-x)))
functional.logsigmoid = op "logsigmoid(Tensor input)"
--- Softplus, a smooth approximation of ReLU: results are above 0.
--- > ml.nn.functional.softplus(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---@param input the tensor to compute from
---@param beta the sharpness: the greater, the nearer to ReLU
---@param threshold where `beta * x` exceeds it, the result is `x` itself
---@shape input (*) -> (*)
---@formula y = log(1 + exp(beta x)) / beta
functional.softplus = op "softplus(Tensor input, number beta=1.0, number threshold=20.0)"
local read_softsign = declare.reader "softsign(Tensor input)"

--- Softsign, of complex numbers too: results are of absolute value below 1.
--- > ml.nn.functional.softsign(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---@param input the tensor to compute from
---@return Tensor
---@shape input (*) -> (*)
---@formula y = x / (1 + |x|)
function functional.softsign(...)
  local input = read_softsign(...)
  if input:is_complex() then return input / (input:abs() + 1) end
  return ml.softsign(input)
end
--- Logistic sigmoid: results are between 0 and 1.
--- > ml.nn.functional.sigmoid(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---@param input the tensor to compute from
---@shape input (*) -> (*)
---@formula y = 1 / (1 + exp(-x))
functional.sigmoid = op "sigmoid(Tensor input)"
--- Hyperbolic tangent: results are between -1 and 1.
--- > ml.nn.functional.tanh(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---@param input the tensor to compute from
---@shape input (*) -> (*)
---@formula y = tanh(x)
functional.tanh = op "tanh(Tensor input)"
--- Gated linear unit (GLU): one half of the input times the sigmoid of the other. The size of `dim`
--- must be even.
--- > ml.nn.functional.glu(ml.tensor { 1, 2, 0, 100 })
---@param input the tensor to compute from
---@param dim the dimension that is halved, from 1; negative numbers count from the last
---@shape input (*, 2 n, *) -> (*, n, *)
---@formula y = a / (1 + exp(-b)), where a and b are the halves of x along dim
---@source Dauphin et al., 2016: Language modeling with gated convolutional networks
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

--- Softmax along a dimension: elements between 0 and 1 that sum to 1. Say which `dim`: without it
--- that is 1 for inputs of 0, 1 or 3 dimensions and 2 for others. For a loss use `CrossEntropyLoss`
--- on the scores themselves, which has the softmax in it.
--- > ml.nn.functional.softmax(ml.tensor { 1.0, 2, 3 }, 1)
---@param input the tensor to compute from
---@param dim the dimension along which the sum is taken, from 1; see above for what stands for nil
---@param dtype the dtype to convert the input to first: its own unless given
---@shape input (*) -> (*)
---@formula y_i = exp(x_i) / sum_j exp(x_j)
functional.softmax = softmax_of "softmax"
--- Softmin along a dimension: the softmax of the negated input. Say which `dim`: without it that is
--- 1 for inputs of 0, 1 or 3 dimensions and 2 for others.
--- > ml.nn.functional.softmin(ml.tensor { 1.0, 2, 3 }, 1)
---@param input the tensor to compute from
---@param dim the dimension along which the sum is taken, from 1; see above for what stands for nil
---@param dtype the dtype to convert the input to first: its own unless given
---@shape input (*) -> (*)
---@formula y_i = exp(-x_i) / sum_j exp(-x_j)
functional.softmin = softmax_of "softmin"
--- Logarithm of the softmax along a dimension, computed without overflow. Say which `dim`: without
--- it that is 1 for inputs of 0, 1 or 3 dimensions and 2 for others. Results are at most 0;
--- `NLLLoss` takes them.
--- > ml.nn.functional.log_softmax(ml.tensor { 1.0, 2, 3 }, 1)
---@param input the tensor to compute from
---@param dim the dimension along which the sum is taken, from 1; see above for what stands for nil
---@param dtype the dtype to convert the input to first: its own unless given
---@shape input (*) -> (*)
---@formula y_i = x_i - log(sum_j exp(x_j))
functional.log_softmax = softmax_of "log_softmax"

local read_linear = declare.reader "linear(Tensor input, Tensor weight, Tensor? bias=nil)"

--- Affine map of the last dimension.
--- > ml.nn.functional.linear(ml.tensor { 1.0, 2 }, ml.eye(3, 2), ml.ones(3))
---@param input the tensor to compute from
---@param weight W, a row for each output; without rows, (in_features), it leaves out the last
---   dimension
---@param bias b, one for each output
---@return Tensor
---@shape input (*, in_features), weight (out_features, in_features), bias (out_features) -> (*,
---   out_features)
---@formula y = x W^T + b
function functional.linear(...)
  local input, weight, bias = read_linear(...)
  if weight.ndim ~= 1 then return ml.linear(input, weight, bias) end
  local y = ml.matmul(input, weight)
  return bias and y + bias or y
end

--- Bilinear form of two inputs, one for each output.
--- > ml.nn.functional.bilinear(ml.ones(2), ml.ones(3), ml.ones(4, 2, 3))
---@param input1 the first input
---@param input2 the second input
---@param weight W, a matrix for each output
---@param bias b, one for each output
---@shape input1 (*, i), input2 (*, j), weight (o, i, j), bias (o) -> (*, o)
---@formula y_k = x1^T W_k x2 + b_k
functional.bilinear = op(
  "bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=nil)")

--- Batch normalisation: normalises each channel over the batch and the positions. With `training`
--- the mean and the variance are those of the batch, which the running statistics follow, in place;
--- without, the running statistics are used and must be given.
--- > ml.nn.functional.batch_norm(ml.tensor { { 1.0, 10 }, { 3.0, 30 } }, nil, nil,
---   { training = true })
---@param input the tensor to compute from
---@param running_mean the mean of each channel; changed in training
---@param running_var the variance of each channel; changed in training
---@param weight the factor of each channel: 1 unless given
---@param bias what is added to each channel: 0 unless given
---@param training whether the batch's statistics are used
---@param momentum the weight of the batch in the running statistics, from 0 to 1
---@param eps what is added to the variance, so that nothing is divided by 0
---@shape input (n, c, *), the others (c) -> (n, c, *)
---@formula y = (x - E[x]) / sqrt(Var[x] + eps) weight + bias
---@formula running = (1 - momentum) running + momentum batch
---@error training on a batch with one value per channel
---@source Ioffe and Szegedy, 2015: Batch normalization
functional.batch_norm = op("batch_norm(Tensor input, Tensor? running_mean=nil, "
  .. "Tensor? running_var=nil, Tensor? weight=nil, Tensor? bias=nil, bool training=false, "
  .. "number>=0<=1 momentum=0.1, number>=0 eps=1e-5)")

--- Layer normalisation: normalises over the last dimensions, whose sizes are `normalized_shape`.
--- > ml.nn.functional.layer_norm(ml.tensor { { 1.0, 2, 3, 4 } }, { 4 })
---@param input the tensor to compute from
---@param normalized_shape the sizes of the last dimensions: one number, or an array
---@param weight the factors, of `normalized_shape`: 1 unless given
---@param bias what is added, of `normalized_shape`: 0 unless given
---@param eps what is added to the variance, so that nothing is divided by 0
---@shape input (*, normalized_shape) -> (*, normalized_shape)
---@formula y = (x - E[x]) / sqrt(Var[x] + eps) weight + bias
---@source Ba et al., 2016: Layer normalization
functional.layer_norm = op("layer_norm(Tensor input, int[]>=1 normalized_shape, "
  .. "Tensor? weight=nil, Tensor? bias=nil, number>=0 eps=1e-5)")

local read_group_norm = declare.reader("group_norm(Tensor input, int>=1 num_groups, "
  .. "Tensor? weight=nil, Tensor? bias=nil, number>=0 eps=1e-5)")

--- Group normalisation: normalises groups of channels of each entry of the batch.
--- > ml.nn.functional.group_norm(ml.tensor { { 1.0, 2, 3, 4 } }, 1)
---@param input the tensor to compute from
---@param num_groups how many groups the channels are divided into
---@param weight the factor of each channel: 1 unless given
---@param bias what is added to each channel: 0 unless given
---@param eps what is added to the variance, so that nothing is divided by 0
---@return Tensor
---@shape input (n, c, *), weight and bias (c) -> (n, c, *)
---@formula y = (x - E[x]) / sqrt(Var[x] + eps) weight + bias
---@source Wu and He, 2018: Group normalization
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

--- Instance normalisation: normalises each channel of each entry of the batch by itself.
--- > ml.nn.functional.instance_norm(ml.tensor { { { 1.0, 2, 3 } } })
---@param input the tensor to compute from
---@param running_mean the mean of each channel; changed with `use_input_stats`
---@param running_var the variance of each channel; changed with `use_input_stats`
---@param weight the factor of each channel: 1 unless given
---@param bias what is added to each channel: 0 unless given
---@param use_input_stats whether the input's own statistics are used, or the running ones
---@param momentum the weight of the batch in the running statistics, from 0 to 1
---@param eps what is added to the variance, so that nothing is divided by 0
---@return Tensor
---@shape input (n, c, *), the others (c) -> (n, c, *)
---@formula y = (x - E[x]) / sqrt(Var[x] + eps) weight + bias
---@error training on a channel with one element
---@source Ulyanov et al., 2016: Instance normalization
function functional.instance_norm(...)
  local input, mean, var, weight, bias, use_input_stats, momentum, eps = read_instance_norm(...)
  local size = input.ndim >= 2 and (input.shape[1] or 0) * (input.shape[2] or 0) or 0
  if use_input_stats and size > 0 and input:numel() == size then
    options.fail("instance_norm: one value in a channel of shape %s", tostring(input.shape))
  end
  return ml.instance_norm(input, mean, var, weight, bias, use_input_stats, momentum, eps)
end

--- Root mean square normalisation: divides by the root mean square over the last dimensions.
--- > ml.nn.functional.rms_norm(ml.tensor { { 1.0, 2, 3, 4 } }, { 4 })
---@param input the tensor to compute from
---@param normalized_shape the sizes of the last dimensions: one number, or an array
---@param weight the factors, of `normalized_shape`: 1 unless given
---@param eps what is added to the mean square: the machine epsilon of the dtype unless given
---@shape input (*, normalized_shape) -> (*, normalized_shape)
---@formula y = x / sqrt(mean(x^2) + eps) weight
---@source Zhang and Sennrich, 2019: Root mean square layer normalization
functional.rms_norm = op("rms_norm(Tensor input, int[]>=1 normalized_shape, Tensor? weight=nil, "
  .. "number>=0? eps=nil)")
--- Local response normalisation: divides by a power of the mean square over neighbouring channels.
--- > ml.nn.functional.local_response_norm(ml.tensor { { { 1.0 }, { 2.0 }, { 3.0 } } }, 2,
---   { alpha = 1 })
---@param input the tensor to compute from
---@param size how many neighbouring channels take part
---@param alpha the factor of the mean square
---@param beta the exponent
---@param k what is added to the mean square
---@shape input (n, c, *) -> (n, c, *)
---@formula y_c = x_c / (k + alpha / size sum_i x_i^2)^beta
---@formula i from c - floor(size / 2) to c + floor((size - 1) / 2)
---@source Krizhevsky et al., 2012: ImageNet classification with deep convolutional neural networks
functional.local_response_norm = op("local_response_norm(Tensor input, int>=1 size, "
  .. "number alpha=1e-4, number beta=0.75, number k=1)")

--- Scales vectors along a dimension to p-norm 1.
--- > ml.nn.functional.normalize(ml.tensor { { 3.0, 4 } })
---@param input the vectors
---@param p the exponent of the norm
---@param dim the dimension of the vectors, from 1
---@param eps the least norm that is divided by, so that zeros stay zeros
---@shape input (*) -> (*)
---@formula y = x / max(||x||_p, eps)
functional.normalize = op "normalize(Tensor input, number p=2, int dim=2, number eps=1e-12)"

--- Cosine similarity of two tensors along a dimension, from -1 to 1.
--- > ml.nn.functional.cosine_similarity(ml.tensor { 1.0, 0 }, ml.tensor { 1.0, 1 }, 1)
---@param x1 the first vectors
---@param x2 the second vectors, broadcast with the first
---@param dim the dimension of the vectors, from 1
---@param eps the least norm that a vector counts as, so that nothing is divided by 0
---@shape x1 (*, n, *), x2 (*, n, *) -> (*, *) without dim
---@formula y = x1 . x2 / (max(||x1||, eps) max(||x2||, eps))
functional.cosine_similarity = op(
  "cosine_similarity(Tensor x1, Tensor x2, int dim=2, number eps=1e-8)")

--- Distance of vectors in the p-norm, over the last dimension.
--- > ml.nn.functional.pairwise_distance(ml.tensor { { 0, 0 } }, ml.tensor { { 3, 4 } })
---@param x1 the first vectors
---@param x2 the second vectors
---@param p the exponent of the norm
---@param eps what is added to each difference, so that the gradient of the norm exists
---@param keepdim whether the last dimension stays, with size 1
---@shape x1 (*, n), x2 (*, n) -> (*), or (*, 1) with keepdim
---@formula y = (sum_i |x1_i - x2_i + eps|^p)^(1/p)
functional.pairwise_distance = op("pairwise_distance(Tensor x1, Tensor x2, number p=2, "
  .. "number eps=1e-6, bool keepdim=false)")

local read_one_hot = declare.reader "one_hot(Tensor tensor, int num_classes=-1)"

--- One-hot vectors of classes from 1: zeros with a 1 at the class.
--- > ml.nn.functional.one_hot(ml.tensor { 1, 3 })
---@param tensor the classes, integers from 1
---@param num_classes how many classes there are: as many as the greatest one unless given
---@return Tensor
---@shape tensor (*) -> (*, num_classes) int64
---@error a class below 1 or above `num_classes`
function functional.one_hot(...)
  local tensor, num_classes = read_one_hot(...)
  return ml.one_hot(tensor, num_classes)
end

local read_pad = declare.reader(
  'pad(Tensor input, int[] pad, string mode="constant", number? value=nil)')

--- Pads a tensor at both ends of its last dimensions. `pad` has pairs (before, after): for the last
--- dimension, then the one before it, and so on. Negative numbers cut elements off.
--- > ml.nn.functional.pad(ml.tensor { { 1, 2 } }, { 1, 1, 0, 1 })
---@param input the tensor
---@param pad how much to add before and after: a pair for each dimension, the last first
---@param mode "constant", "reflect", "replicate" or "circular"
---@param value what the border is filled with in the mode "constant": 0 unless given
---@return Tensor
---@shape input (*, h, w) -> (*, h + pad_3 + pad_4, w + pad_1 + pad_2)
function functional.pad(...)
  local input, pad, mode, value = read_pad(...)
  return ml.pad(input, pad, mode, value or 0)
end

--- Distances of all pairs of rows in the p-norm.
--- > ml.nn.functional.pdist(ml.tensor { { 0.0, 0 }, { 3.0, 4 }, { 0.0, 1 } })
---@param input the rows
---@param p the exponent of the norm, at least 0
---@shape input (n, d) -> (n (n - 1) / 2)
---@formula y = ||x_i - x_j||_p for all i < j
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
