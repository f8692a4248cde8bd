-- stdlib/nn/functional/activation.lua: activations under PyTorch's arguments, with their in-place
-- forms, and the softmax ops.

local declare = require "moonlet.nn.functional.declare"
local ml = require "moonlet"

local activations = {}

local op, activation, in_place = declare.op, declare.activation, declare.in_place

--- Rectified linear unit.
--- > ml.nn.functional.relu(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {0.0000, 0.0000, 0.0000, 0.5000, 2.0000}
---   Tensor (5,) float32
---@param input the tensor to compute from
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = max(x, 0)
---@source Nair and Hinton, 2010: Rectified linear units improve restricted Boltzmann machines
activations.relu = activation "relu(Tensor input, bool inplace=false)"
--- Rectified linear unit that is cut off at 6.
--- > ml.nn.functional.relu6(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {0.0000, 0.0000, 0.0000, 0.5000, 2.0000}
---   Tensor (5,) float32
---@param input the tensor to compute from
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = min(max(x, 0), 6)
---@source Howard et al., 2017: MobileNets
activations.relu6 = activation "relu6(Tensor input, bool inplace=false)"
--- Exponential linear unit (ELU).
--- > ml.nn.functional.elu(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-0.8647, -0.3935,  0.0000,  0.5000,  2.0000}
---   Tensor (5,) float32
---@param input the tensor to compute from
---@param alpha minus the limit for inputs far below 0
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = max(x, 0) + min(0, alpha (exp(x) - 1))
---@source Clevert et al., 2015: Fast and accurate deep network learning by exponential linear units
activations.elu = activation "elu(Tensor input, number alpha=1.0, bool inplace=false)"
--- Scaled exponential linear unit (SELU). In networks of linear layers that start from weights of
--- mean 0 and variance 1 / fan_in, it keeps the activations near mean 0 and variance 1.
--- > ml.nn.functional.selu(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-1.5202, -0.6918,  0.0000,  0.5254,  2.1014}
---   Tensor (5,) float32
---@param input the tensor to compute from
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = scale (max(0, x) + min(0, alpha (exp(x) - 1)))
---@formula scale = 1.0507009873554805, alpha = 1.6732632423543772
---@source Klambauer et al., 2017: Self-normalizing neural networks
activations.selu = activation "selu(Tensor input, bool inplace=false)"
--- Continuously differentiable exponential linear unit (CELU).
--- > ml.nn.functional.celu(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-0.8647, -0.3935,  0.0000,  0.5000,  2.0000}
---   Tensor (5,) float32
---@param input the tensor to compute from
---@param alpha minus the limit for inputs far below 0
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = max(x, 0) + min(0, alpha (exp(x / alpha) - 1))
---@source Barron, 2017: Continuously differentiable exponential linear units
activations.celu = activation "celu(Tensor input, number alpha=1.0, bool inplace=false)"
--- Leaky rectified linear unit.
--- > ml.nn.functional.leaky_relu(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-0.0200, -0.0050,  0.0000,  0.5000,  2.0000}
---   Tensor (5,) float32
---@param input the tensor to compute from
---@param negative_slope the factor of inputs below 0
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = max(x, 0) + negative_slope min(x, 0)
---@source Maas et al., 2013: Rectifier nonlinearities improve neural network acoustic models
activations.leaky_relu = activation(
  "leaky_relu(Tensor input, number negative_slope=0.01, bool inplace=false)")
--- Clamps the input to the range from `min_val` to `max_val`.
--- > ml.nn.functional.hardtanh(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-1.0000, -0.5000,  0.0000,  0.5000,  1.0000}
---   Tensor (5,) float32
---@param input the tensor to compute from
---@param min_val the lower bound
---@param max_val the upper bound, at least `min_val`
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = min(max(x, min_val), max_val)
activations.hardtanh = activation(
  "hardtanh(Tensor input, number min_val=-1.0, number max_val=1.0, bool inplace=false)")
--- Piecewise linear approximation of the sigmoid.
--- > ml.nn.functional.hardsigmoid(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {0.1667, 0.4167, 0.5000, 0.5833, 0.8333}
---   Tensor (5,) float32
---@param input the tensor to compute from
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = min(max(x / 6 + 1 / 2, 0), 1)
activations.hardsigmoid = activation "hardsigmoid(Tensor input, bool inplace=false)"
--- Piecewise approximation of the swish activation.
--- > ml.nn.functional.hardswish(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-0.3333, -0.2083,  0.0000,  0.2917,  1.6667}
---   Tensor (5,) float32
---@param input the tensor to compute from
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = x min(max(x / 6 + 1 / 2, 0), 1)
---@source Howard et al., 2019: Searching for MobileNetV3
activations.hardswish = activation "hardswish(Tensor input, bool inplace=false)"
--- Sigmoid linear unit (SiLU), also called swish.
--- > ml.nn.functional.silu(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-0.2384, -0.1888,  0.0000,  0.3112,  1.7616}
---   Tensor (5,) float32
---@param input the tensor to compute from
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = x / (1 + exp(-x))
---@source Hendrycks and Gimpel, 2016: Gaussian error linear units
activations.silu = activation "silu(Tensor input, bool inplace=false)"
--- Mish, a smooth activation that is not monotonic.
--- > ml.nn.functional.mish(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-0.2525, -0.2207,  0.0000,  0.3752,  1.9440}
---   Tensor (5,) float32
---@param input the tensor to compute from
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = x tanh(log(1 + exp(x)))
---@source Misra, 2019: Mish: a self regularized non-monotonic activation function
activations.mish = activation "mish(Tensor input, bool inplace=false)"
--- Replaces the elements that are not above a threshold.
--- > ml.nn.functional.threshold(ml.tensor { -2, -0.5, 0, 0.5, 2 }, 0.1, -1)
---   {-1.0000, -1.0000, -1.0000,  0.5000,  2.0000}
---   Tensor (5,) float32
---@param input the tensor to compute from
---@param threshold the bound
---@param value what stands for the elements that are not above it
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = x if x > threshold, else value
activations.threshold = activation(
  "threshold(Tensor input, number threshold, number value, bool inplace=false)")

--- Rectified linear unit, in place: `relu` that writes its result into `input`.
--- > x = ml.tensor { -2, -0.5, 0, 0.5, 2 }
--- > ml.nn.functional.relu_(x)
---   {0.0000, 0.0000, 0.0000, 0.5000, 2.0000}
---   Tensor (5,) float32
---@param input the tensor that is changed
---@shape input (*) -> (*)
---@formula y = max(x, 0)
---@source Nair and Hinton, 2010: Rectified linear units improve restricted Boltzmann machines
activations.relu_ = in_place "relu_(Tensor input)"
--- Exponential linear unit (ELU), in place: `elu` that writes its result into `input`.
--- > x = ml.tensor { -2, -0.5, 0, 0.5, 2 }
--- > ml.nn.functional.elu_(x)
---   {-0.8647, -0.3935,  0.0000,  0.5000,  2.0000}
---   Tensor (5,) float32
---@param input the tensor that is changed
---@param alpha minus the limit for inputs far below 0
---@shape input (*) -> (*)
---@formula y = max(x, 0) + min(0, alpha (exp(x) - 1))
---@source Clevert et al., 2015: Fast and accurate deep network learning by exponential linear units
activations.elu_ = in_place "elu_(Tensor input, number alpha=1.0)"
--- Scaled exponential linear unit (SELU), in place: `selu` that writes its result into `input`.
--- > x = ml.tensor { -2, -0.5, 0, 0.5, 2 }
--- > ml.nn.functional.selu_(x)
---   {-1.5202, -0.6918,  0.0000,  0.5254,  2.1014}
---   Tensor (5,) float32
---@param input the tensor that is changed
---@shape input (*) -> (*)
---@formula y = scale (max(0, x) + min(0, alpha (exp(x) - 1)))
---@formula scale = 1.0507009873554805, alpha = 1.6732632423543772
---@source Klambauer et al., 2017: Self-normalizing neural networks
activations.selu_ = in_place "selu_(Tensor input)"
--- Continuously differentiable exponential linear unit (CELU), in place: `celu` that writes its
--- result into `input`.
--- > x = ml.tensor { -2, -0.5, 0, 0.5, 2 }
--- > ml.nn.functional.celu_(x)
---   {-0.8647, -0.3935,  0.0000,  0.5000,  2.0000}
---   Tensor (5,) float32
---@param input the tensor that is changed
---@param alpha minus the limit for inputs far below 0
---@shape input (*) -> (*)
---@formula y = max(x, 0) + min(0, alpha (exp(x / alpha) - 1))
---@source Barron, 2017: Continuously differentiable exponential linear units
activations.celu_ = in_place "celu_(Tensor input, number alpha=1.0)"
--- Leaky rectified linear unit, in place: `leaky_relu` that writes its result into `input`.
--- > x = ml.tensor { -2, -0.5, 0, 0.5, 2 }
--- > ml.nn.functional.leaky_relu_(x)
---   {-0.0200, -0.0050,  0.0000,  0.5000,  2.0000}
---   Tensor (5,) float32
---@param input the tensor that is changed
---@param negative_slope the factor of inputs below 0
---@shape input (*) -> (*)
---@formula y = max(x, 0) + negative_slope min(x, 0)
---@source Maas et al., 2013: Rectifier nonlinearities improve neural network acoustic models
activations.leaky_relu_ = in_place "leaky_relu_(Tensor input, number negative_slope=0.01)"
--- Clamps the input to the range from `min_val` to `max_val`, in place: `hardtanh` that writes its
--- result into `input`.
--- > x = ml.tensor { -2, -0.5, 0, 0.5, 2 }
--- > ml.nn.functional.hardtanh_(x)
---   {-1.0000, -0.5000,  0.0000,  0.5000,  1.0000}
---   Tensor (5,) float32
---@param input the tensor that is changed
---@param min_val the lower bound
---@param max_val the upper bound, at least `min_val`
---@shape input (*) -> (*)
---@formula y = min(max(x, min_val), max_val)
activations.hardtanh_ = in_place(
  "hardtanh_(Tensor input, number min_val=-1.0, number max_val=1.0)")
--- Replaces the elements that are not above a threshold, in place: `threshold` that writes its
--- result into `input`.
--- > x = ml.tensor { -2, -0.5, 0, 0.5, 2 }
--- > ml.nn.functional.threshold_(x, 0.1, -1)
---   {-1.0000, -1.0000, -1.0000,  0.5000,  2.0000}
---   Tensor (5,) float32
---@param input the tensor that is changed
---@param threshold the bound
---@param value what stands for the elements that are not above it
---@shape input (*) -> (*)
---@formula y = x if x > threshold, else value
activations.threshold_ = in_place "threshold_(Tensor input, number threshold, number value)"

--- Parametric rectified linear unit: a leaky ReLU whose factors are a tensor.
--- > ml.nn.functional.prelu(ml.tensor { -2.0, 0, 2 }, ml.tensor { 0.25 })
---   {-0.5000,  0.0000,  2.0000}
---   Tensor (3,) float32
---@param input the tensor to compute from
---@param weight the factors of elements below 0: one, or one for each channel
---@shape input (n, c, *), weight (1) or (c) -> (n, c, *)
---@formula y = max(x, 0) + weight min(x, 0)
---@source He et al., 2015: Delving deep into rectifiers
activations.prelu = op "prelu(Tensor input, Tensor weight)"
--- Randomized leaky rectified linear unit. With `training` each element below 0 is multiplied by a
--- factor of its own, drawn from the uniform distribution from `lower` to `upper`.
--- > ml.nn.functional.rrelu(ml.tensor { -2.0, 0, 2 })
---   {-0.4583,  0.0000,  2.0000}
---   Tensor (3,) float32
---@param input the tensor to compute from
---@param lower the least factor of elements below 0
---@param upper the greatest factor of elements below 0
---@param training whether factors are drawn; false takes (lower + upper) / 2
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = max(x, 0) + a min(x, 0)
---@formula a ~ U(lower, upper)
---@source Xu et al., 2015: Empirical evaluation of rectified activations in convolutional network
activations.rrelu = activation("rrelu(Tensor input, number lower=0.125, "
  .. "number upper=0.3333333333333333, bool training=false, bool inplace=false)")
--- Randomized leaky rectified linear unit, in place: `rrelu` that writes its result into `input`.
--- > x = ml.tensor { -2.0, 0, 2 }
--- > ml.nn.functional.rrelu_(x)
---   {-0.4583,  0.0000,  2.0000}
---   Tensor (3,) float32
---@param input the tensor that is changed
---@param lower the least factor of elements below 0
---@param upper the greatest factor of elements below 0
---@param training whether factors are drawn; false takes (lower + upper) / 2
---@shape input (*) -> (*)
---@formula y = max(x, 0) + a min(x, 0)
---@formula a ~ U(lower, upper)
---@source Xu et al., 2015: Empirical evaluation of rectified activations in convolutional network
activations.rrelu_ = in_place("rrelu_(Tensor input, number lower=0.125, "
  .. "number upper=0.3333333333333333, bool training=false)")
--- Hard shrinkage: sets elements near 0 to 0.
--- > ml.nn.functional.hardshrink(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-2.,  0.,  0.,  0.,  2.}
---   Tensor (5,) float32
---@param input the tensor to compute from
---@param lambd half the width of the range around 0 that becomes 0
---@shape input (*) -> (*)
---@formula y = x if |x| > lambd, else 0
activations.hardshrink = op "hardshrink(Tensor input, number lambd=0.5)"
--- Soft shrinkage: moves elements towards 0 by `lambd`.
--- > ml.nn.functional.softshrink(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-1.5000, -0.0000,  0.0000,  0.0000,  1.5000}
---   Tensor (5,) float32
---@param input the tensor to compute from
---@param lambd how far elements move, at least 0
---@shape input (*) -> (*)
---@formula y = x - lambd if x > lambd, x + lambd if x < -lambd, else 0
activations.softshrink = op "softshrink(Tensor input, number>=0 lambd=0.5)"
--- The input minus its hyperbolic tangent.
--- > ml.nn.functional.tanhshrink(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-1.0360, -0.0379,  0.0000,  0.0379,  1.0360}
---   Tensor (5,) float32
---@param input the tensor to compute from
---@shape input (*) -> (*)
---@formula y = x - tanh(x)
activations.tanhshrink = op "tanhshrink(Tensor input)"
--- Gaussian error linear unit (GELU).
--- > ml.nn.functional.gelu(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-0.0455, -0.1543,  0.0000,  0.3457,  1.9545}
---   Tensor (5,) float32
---@param input the tensor to compute from
---@param approximate "none" "none" for the exact form, or "tanh" for the approximation by tanh
---@shape input (*) -> (*)
---@formula y = x Phi(x)
---@formula Phi(x) = (1 + erf(x / sqrt(2))) / 2
---@formula tanh: y = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
---@source Hendrycks and Gimpel, 2016: Gaussian error linear units
activations.gelu = op 'gelu(Tensor input, string approximate="none")'
--- Logarithm of the sigmoid, computed without overflow.
--- > ml.nn.functional.logsigmoid(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-2.1269, -0.9741, -0.6931, -0.4741, -0.1269}
---   Tensor (5,) float32
---@param input the tensor to compute from
---@shape input (*) -> (*)
---@formula y = log(1 / (1 + exp(-x)))
activations.logsigmoid = op "logsigmoid(Tensor input)"
--- Softplus, a smooth approximation of ReLU: results are above 0.
--- > ml.nn.functional.softplus(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {0.1269, 0.4741, 0.6931, 0.9741, 2.1269}
---   Tensor (5,) float32
---@param input the tensor to compute from
---@param beta the sharpness: the greater, the nearer to ReLU
---@param threshold where `beta * x` exceeds it, the result is `x` itself
---@shape input (*) -> (*)
---@formula y = log(1 + exp(beta x)) / beta
activations.softplus = op "softplus(Tensor input, number beta=1.0, number threshold=20.0)"
local read_softsign = declare.reader "softsign(Tensor input)"

--- Softsign, of complex numbers too: results are of absolute value below 1.
--- > ml.nn.functional.softsign(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-0.6667, -0.3333,  0.0000,  0.3333,  0.6667}
---   Tensor (5,) float32
---@param input the tensor to compute from
---@return Tensor
---@shape input (*) -> (*)
---@formula y = x / (1 + |x|)
function activations.softsign(...)
  local input = read_softsign(...)
  if input:is_complex() then return input / (input:abs() + 1) end
  return ml.softsign(input)
end
--- Logistic sigmoid: results are between 0 and 1.
--- > ml.nn.functional.sigmoid(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {0.1192, 0.3775, 0.5000, 0.6225, 0.8808}
---   Tensor (5,) float32
---@param input the tensor to compute from
---@shape input (*) -> (*)
---@formula y = 1 / (1 + exp(-x))
activations.sigmoid = op "sigmoid(Tensor input)"
--- Hyperbolic tangent: results are between -1 and 1.
--- > ml.nn.functional.tanh(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-0.9640, -0.4621,  0.0000,  0.4621,  0.9640}
---   Tensor (5,) float32
---@param input the tensor to compute from
---@shape input (*) -> (*)
---@formula y = tanh(x)
activations.tanh = op "tanh(Tensor input)"
--- Gated linear unit (GLU): one half of the input times the sigmoid of the other. The size of `dim`
--- must be even.
--- > ml.nn.functional.glu(ml.tensor { 1, 2, 0, 100 })
---   {0, 2}
---   Tensor (2,) int64
---@param input the tensor to compute from
---@param dim the dimension that is halved, from 1; negative numbers count from the last
---@shape input (*, 2 n, *) -> (*, n, *)
---@formula y = a / (1 + exp(-b)), where a and b are the halves of x along dim
---@source Dauphin et al., 2016: Language modeling with gated convolutional networks
activations.glu = op "glu(Tensor input, int dim=-1)"

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
---   {0.0900, 0.2447, 0.6652}
---   Tensor (3,) float32
---@param input the tensor to compute from
---@param dim the dimension along which the sum is taken, from 1; see above for what stands for nil
---@param dtype the dtype to convert the input to first: its own unless given
---@shape input (*) -> (*)
---@formula y_i = exp(x_i) / sum_j exp(x_j)
activations.softmax = softmax_of "softmax"
--- Softmin along a dimension: the softmax of the negated input. Say which `dim`: without it that is
--- 1 for inputs of 0, 1 or 3 dimensions and 2 for others.
--- > ml.nn.functional.softmin(ml.tensor { 1.0, 2, 3 }, 1)
---   {0.6652, 0.2447, 0.0900}
---   Tensor (3,) float32
---@param input the tensor to compute from
---@param dim the dimension along which the sum is taken, from 1; see above for what stands for nil
---@param dtype the dtype to convert the input to first: its own unless given
---@shape input (*) -> (*)
---@formula y_i = exp(-x_i) / sum_j exp(-x_j)
activations.softmin = softmax_of "softmin"
--- Logarithm of the softmax along a dimension, computed without overflow. Say which `dim`: without
--- it that is 1 for inputs of 0, 1 or 3 dimensions and 2 for others. Results are at most 0;
--- `NLLLoss` takes them.
--- > ml.nn.functional.log_softmax(ml.tensor { 1.0, 2, 3 }, 1)
---   {-2.4076, -1.4076, -0.4076}
---   Tensor (3,) float32
---@param input the tensor to compute from
---@param dim the dimension along which the sum is taken, from 1; see above for what stands for nil
---@param dtype the dtype to convert the input to first: its own unless given
---@shape input (*) -> (*)
---@formula y_i = x_i - log(sum_j exp(x_j))
activations.log_softmax = softmax_of "log_softmax"

return activations
