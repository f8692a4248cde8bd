-- stdlib/nn/activation.lua: activations as layers, and layers that only change the shape. Each
-- activation is the op of its name with the layer's options as further arguments; with `inplace`
-- the op's in-place form.

local layer = require "moonlet.nn.layer"
local ml = require "moonlet"
local options = require "moonlet.options"

local layers = {}

local function show(value)
  if math.type(value) == "float" then return ("%g"):format(value) end
  return type(value) == "table" and "(" .. table.concat(value, ", ") .. ")" or tostring(value)
end

-- The layer's options in the order of its declaration, which are the op's further arguments. Looked
-- at when a layer is used: most are not.
local function values_of(self, read)
  local values, count = {}, 0
  for _, field in ipairs(read.names) do
    if field ~= "inplace" then
      count = count + 1
      values[count] = self[field]
    end
  end
  return values, count
end

-- The class of layers that call the op of that name; `parameters` are the options it is given.
local function define(name, op, parameters)
  local in_place = op .. "_"
  local cls, read = layer.define(name, parameters or "", function(self, o)
    for field, value in pairs(o) do self[field] = value end
  end)
  function cls:forward(x)
    local values, count = values_of(self, read)
    if not self.inplace then return layer.run(self, ml[op], x, table.unpack(values, 1, count)) end
    layer.check_input(self, x)
    return layer.run(self, function() return x[in_place](x, table.unpack(values, 1, count)) end)
  end
  function cls:extra_repr()
    local values, count = values_of(self, read)
    for i = 1, count do values[i] = show(values[i]) end
    if self.inplace then values[count + 1] = "inplace" end
    return table.concat(values, ", ")
  end
  return cls
end

--- Rectified linear unit.
--- > ml.nn.ReLU()(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {0.0000, 0.0000, 0.0000, 0.5000, 2.0000}
---   Tensor (5,) float32
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = max(x, 0)
---@source Nair and Hinton, 2010: Rectified linear units improve restricted Boltzmann machines
layers.ReLU = define("ReLU", "relu", "bool inplace=false")
--- Rectified linear unit that is cut off at 6.
--- > ml.nn.ReLU6()(ml.tensor { -1, 3, 8 })
---   {0, 3, 6}
---   Tensor (3,) int64
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = min(max(x, 0), 6)
---@source Howard et al., 2017: MobileNets
layers.ReLU6 = define("ReLU6", "relu6", "bool inplace=false")
--- Logistic sigmoid: results are between 0 and 1.
--- > ml.nn.Sigmoid()(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {0.1192, 0.3775, 0.5000, 0.6225, 0.8808}
---   Tensor (5,) float32
---@shape input (*) -> (*)
---@formula y = 1 / (1 + exp(-x))
layers.Sigmoid = define("Sigmoid", "sigmoid")
--- Hyperbolic tangent: results are between -1 and 1.
--- > ml.nn.Tanh()(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-0.9640, -0.4621,  0.0000,  0.4621,  0.9640}
---   Tensor (5,) float32
---@shape input (*) -> (*)
---@formula y = tanh(x)
layers.Tanh = define("Tanh", "tanh")
--- Sigmoid linear unit (SiLU), also called swish.
--- > ml.nn.SiLU()(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-0.2384, -0.1888,  0.0000,  0.3112,  1.7616}
---   Tensor (5,) float32
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = x / (1 + exp(-x))
---@source Hendrycks and Gimpel, 2016: Gaussian error linear units
layers.SiLU = define("SiLU", "silu", "bool inplace=false")
--- Mish, a smooth activation that is not monotonic.
--- > ml.nn.Mish()(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-0.2525, -0.2207,  0.0000,  0.3752,  1.9440}
---   Tensor (5,) float32
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = x tanh(log(1 + exp(x)))
---@source Misra, 2019: Mish: a self regularized non-monotonic activation function
layers.Mish = define("Mish", "mish", "bool inplace=false")
--- Scaled exponential linear unit (SELU). In networks of linear layers that start from weights of
--- mean 0 and variance 1 / fan_in, it keeps the activations near mean 0 and variance 1.
--- > ml.nn.SELU()(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-1.5202, -0.6918,  0.0000,  0.5254,  2.1014}
---   Tensor (5,) float32
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = scale (max(0, x) + min(0, alpha (exp(x) - 1)))
---@formula scale = 1.0507009873554805, alpha = 1.6732632423543772
---@source Klambauer et al., 2017: Self-normalizing neural networks
layers.SELU = define("SELU", "selu", "bool inplace=false")
--- Softsign: results are between -1 and 1.
--- > ml.nn.Softsign()(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-0.6667, -0.3333,  0.0000,  0.3333,  0.6667}
---   Tensor (5,) float32
---@shape input (*) -> (*)
---@formula y = x / (1 + |x|)
layers.Softsign = define("Softsign", "softsign")
--- Piecewise linear approximation of the sigmoid.
--- > ml.nn.Hardsigmoid()(ml.tensor { -4, -1.5, 0, 1.5, 4 })
---   {0.0000, 0.2500, 0.5000, 0.7500, 1.0000}
---   Tensor (5,) float32
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = min(max(x / 6 + 1 / 2, 0), 1)
layers.Hardsigmoid = define("Hardsigmoid", "hardsigmoid", "bool inplace=false")
--- Piecewise approximation of the swish activation.
--- > ml.nn.Hardswish()(ml.tensor { -4, -1.5, 0, 1.5, 4 })
---   {-0.0000, -0.3750,  0.0000,  1.1250,  4.0000}
---   Tensor (5,) float32
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = x min(max(x / 6 + 1 / 2, 0), 1)
---@source Howard et al., 2019: Searching for MobileNetV3
layers.Hardswish = define("Hardswish", "hardswish", "bool inplace=false")
--- Logarithm of the sigmoid, computed without overflow.
--- > ml.nn.LogSigmoid()(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-2.1269, -0.9741, -0.6931, -0.4741, -0.1269}
---   Tensor (5,) float32
---@shape input (*) -> (*)
---@formula y = log(1 / (1 + exp(-x)))
layers.LogSigmoid = define("LogSigmoid", "logsigmoid")
--- Gaussian error linear unit (GELU).
--- > ml.nn.GELU()(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-0.0455, -0.1543,  0.0000,  0.3457,  1.9545}
---   Tensor (5,) float32
---@param approximate "none" "none" for the exact form, or "tanh" for the approximation by tanh
---@shape input (*) -> (*)
---@formula y = x Phi(x)
---@formula Phi(x) = (1 + erf(x / sqrt(2))) / 2
---@formula tanh: y = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
---@source Hendrycks and Gimpel, 2016: Gaussian error linear units
layers.GELU = define("GELU", "gelu", 'string approximate="none"')
--- Exponential linear unit (ELU).
--- > ml.nn.ELU()(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-0.8647, -0.3935,  0.0000,  0.5000,  2.0000}
---   Tensor (5,) float32
---@param alpha minus the limit for inputs far below 0
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = max(x, 0) + min(0, alpha (exp(x) - 1))
---@source Clevert et al., 2015: Fast and accurate deep network learning by exponential linear units
layers.ELU = define("ELU", "elu", "number alpha=1.0, bool inplace=false")
--- Continuously differentiable exponential linear unit (CELU).
--- > ml.nn.CELU(2)(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-1.2642, -0.4424,  0.0000,  0.5000,  2.0000}
---   Tensor (5,) float32
---@param alpha minus the limit for inputs far below 0
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = max(x, 0) + min(0, alpha (exp(x / alpha) - 1))
---@source Barron, 2017: Continuously differentiable exponential linear units
layers.CELU = define("CELU", "celu", "number alpha=1.0, bool inplace=false")
--- Leaky rectified linear unit.
--- > ml.nn.LeakyReLU()(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-0.0200, -0.0050,  0.0000,  0.5000,  2.0000}
---   Tensor (5,) float32
---@param negative_slope the factor of inputs below 0
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = max(x, 0) + negative_slope min(x, 0)
---@source Maas et al., 2013: Rectifier nonlinearities improve neural network acoustic models
layers.LeakyReLU = define("LeakyReLU", "leaky_relu",
  "number negative_slope=0.01, bool inplace=false")
--- Clamps the input to the range from `min_val` to `max_val`.
--- > ml.nn.Hardtanh()(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-1.0000, -0.5000,  0.0000,  0.5000,  1.0000}
---   Tensor (5,) float32
---@param min_val the lower bound
---@param max_val the upper bound, at least `min_val`
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = min(max(x, min_val), max_val)
layers.Hardtanh = define("Hardtanh", "hardtanh",
  "number min_val=-1.0, number max_val=1.0, bool inplace=false")
--- Softplus, a smooth approximation of ReLU: results are above 0.
--- > ml.nn.Softplus()(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {0.1269, 0.4741, 0.6931, 0.9741, 2.1269}
---   Tensor (5,) float32
---@param beta the sharpness: the greater, the nearer to ReLU
---@param threshold where `beta * x` exceeds it, the result is `x` itself
---@shape input (*) -> (*)
---@formula y = log(1 + exp(beta x)) / beta
layers.Softplus = define("Softplus", "softplus", "number beta=1.0, number threshold=20.0")
--- Replaces the elements that are not above a threshold.
--- > ml.nn.Threshold(0.1, -1)(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-1.0000, -1.0000, -1.0000,  0.5000,  2.0000}
---   Tensor (5,) float32
---@param threshold the bound
---@param value what stands for the elements that are not above it
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = x if x > threshold, else value
layers.Threshold = define("Threshold", "threshold",
  "number threshold, number value, bool inplace=false")
--- Gated linear unit (GLU): one half of the input times the sigmoid of the other. The size of `dim`
--- must be even.
--- > ml.nn.GLU()(ml.tensor { 1, 2, 0, 100 })
---   {0, 2}
---   Tensor (2,) int64
---@param dim the dimension that is halved, from 1; negative numbers count from the last
---@shape input (*, 2 n, *) -> (*, n, *)
---@formula y = a / (1 + exp(-b)), where a and b are the halves of x along dim
---@source Dauphin et al., 2016: Language modeling with gated convolutional networks
layers.GLU = define("GLU", "glu", "int dim=-1")
-- The class of a softmax; with `dim` it calls the op itself.
local function define_softmax(name, called)
  local cls = layer.functional(name, called, "int? dim=nil")
  local general, op = cls.forward, ml[called]
  function cls:forward(x, ...)
    if self.dim == nil or select("#", ...) > 0 then return general(self, x, ...) end
    return layer.run(self, op, x, self.dim)
  end
  return cls
end

--- Softmax along a dimension: elements between 0 and 1 that sum to 1. Say which `dim`: without it
--- that is 1 for inputs of 0, 1 or 3 dimensions and 2 for others. For a loss use `CrossEntropyLoss`
--- on the scores themselves, which has the softmax in it.
--- > ml.nn.Softmax(1)(ml.tensor { 1.0, 2, 3 })
---   {0.0900, 0.2447, 0.6652}
---   Tensor (3,) float32
---@param dim the dimension along which the sum is taken, from 1; see above for what stands for nil
---@shape input (*) -> (*)
---@formula y_i = exp(x_i) / sum_j exp(x_j)
layers.Softmax = define_softmax("Softmax", "softmax")
--- Softmin along a dimension: the softmax of the negated input. Say which `dim`: without it that is
--- 1 for inputs of 0, 1 or 3 dimensions and 2 for others.
--- > ml.nn.Softmin(1)(ml.tensor { 1.0, 2, 3 })
---   {0.6652, 0.2447, 0.0900}
---   Tensor (3,) float32
---@param dim the dimension along which the sum is taken, from 1; see above for what stands for nil
---@shape input (*) -> (*)
---@formula y_i = exp(-x_i) / sum_j exp(-x_j)
layers.Softmin = define_softmax("Softmin", "softmin")
--- Logarithm of the softmax along a dimension, computed without overflow. Say which `dim`: without
--- it that is 1 for inputs of 0, 1 or 3 dimensions and 2 for others. Results are at most 0;
--- `NLLLoss` takes them.
--- > ml.nn.LogSoftmax(1)(ml.tensor { 1.0, 2, 3 })
---   {-2.4076, -1.4076, -0.4076}
---   Tensor (3,) float32
---@param dim the dimension along which the sum is taken, from 1; see above for what stands for nil
---@shape input (*) -> (*)
---@formula y_i = x_i - log(sum_j exp(x_j))
layers.LogSoftmax = define_softmax("LogSoftmax", "log_softmax")
--- Softmax over the channels at each pixel of images.
--- > ml.nn.Softmax2d()(ml.tensor { { { 1.0 } }, { { 2.0 } } })
---   {{{0.2689}},
---
---    {{0.7311}}}
---   Tensor (2, 1, 1) float32
---@shape input (n, c, h, w) or (c, h, w) -> as input
---@formula y_c = exp(x_c) / sum_k exp(x_k)
layers.Softmax2d = layer.define("Softmax2d", "", function() end)

function layers.Softmax2d:forward(x)
  layer.check_input(self, x)
  return layer.run(self, function()
    if x.ndim ~= 3 and x.ndim ~= 4 then
      options.fail("expected (n, c, h, w) or (c, h, w), got shape %s", tostring(x.shape))
    end
    return ml.softmax(x, -3)
  end)
end

--- Hard shrinkage: sets elements near 0 to 0.
--- > ml.nn.Hardshrink()(ml.tensor { -1, -0.2, 0.2, 1 })
---   {-1.,  0.,  0.,  1.}
---   Tensor (4,) float32
---@param lambd half the width of the range around 0 that becomes 0
---@shape input (*) -> (*)
---@formula y = x if |x| > lambd, else 0
layers.Hardshrink = define("Hardshrink", "hardshrink", "number lambd=0.5")
--- Soft shrinkage: moves elements towards 0 by `lambd`.
--- > ml.nn.Softshrink()(ml.tensor { -1, -0.2, 0.2, 1 })
---   {-0.5000, -0.0000,  0.0000,  0.5000}
---   Tensor (4,) float32
---@param lambd how far elements move, at least 0
---@shape input (*) -> (*)
---@formula y = x - lambd if x > lambd, x + lambd if x < -lambd, else 0
layers.Softshrink = define("Softshrink", "softshrink", "number>=0 lambd=0.5")
--- The input minus its hyperbolic tangent.
--- > ml.nn.Tanhshrink()(ml.tensor { -2, -0.5, 0, 0.5, 2 })
---   {-1.0360, -0.0379,  0.0000,  0.0379,  1.0360}
---   Tensor (5,) float32
---@shape input (*) -> (*)
---@formula y = x - tanh(x)
layers.Tanhshrink = define("Tanhshrink", "tanhshrink")
--- Randomized leaky rectified linear unit. In training mode each element below 0 is multiplied by a
--- factor of its own, drawn from the uniform distribution from `lower` to `upper`; in eval mode all
--- are by (lower + upper) / 2.
--- > ml.nn.RReLU():eval()(ml.tensor { -2.0, 0, 2 })
---   {-0.4583,  0.0000,  2.0000}
---   Tensor (3,) float32
---@param lower the least factor of elements below 0
---@param upper the greatest factor of elements below 0
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = max(x, 0) + a min(x, 0)
---@formula a ~ U(lower, upper)
---@source Xu et al., 2015: Empirical evaluation of rectified activations in convolutional network
layers.RReLU = layer.functional("RReLU", "rrelu",
  "number lower=0.125, number upper=0.3333333333333333, bool inplace=false")
--- Flattens a range of dimensions into one. With the defaults all dimensions but the first, the
--- batch, become one: as between convolutions and linear layers.
--- > ml.nn.Flatten()(ml.ones(2, 3, 4)).shape
---   (2, 12)
---@param start_dim the first dimension to flatten, from 1
---@param end_dim the last dimension to flatten; negative numbers count from the last
---@shape input (*, s_start, ..., s_end, *) -> (*, s_start ... s_end, *)
layers.Flatten = define("Flatten", "flatten", "int start_dim=2, int end_dim=-1")
--- Splits a dimension into several: the inverse of `Flatten`.
--- > ml.nn.Unflatten(2, { 3, 4 })(ml.ones(2, 12)).shape
---   (2, 3, 4)
---@param dim the dimension to split, from 1
---@param unflattened_size the new sizes, whose product is the size of `dim`; one of them may be -1
---@shape input (*, s_dim, *) -> (*, u_1, ..., u_k, *)
layers.Unflatten = define("Unflatten", "unflatten", "int dim, int[] unflattened_size")

--- Parametric rectified linear unit: a leaky ReLU whose factor is learned. There is one factor for
--- all elements below 0, or one for each channel, the second dimension. Weight decay should not be
--- used on it.
--- > ml.nn.PReLU()(ml.tensor { -2.0, 0, 2 })
---   {-0.5000,  0.0000,  2.0000}
---   Tensor (3,) float32 grad_fn=PreluByBackward
---@param num_parameters how many factors are learned: 1, or as many as there are channels
---@param init what the factors start from
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape input (*) or (n, num_parameters, *) -> as input
---@formula y = max(x, 0) + weight min(x, 0)
---@source He et al., 2015: Delving deep into rectifiers
---@field weight moonlet.Tensor The factors, a parameter of shape (num_parameters,).
layers.PReLU = layer.define("PReLU", "int>=1 num_parameters=1, number init=0.25" .. layer.factory,
  function(self, o)
    self.num_parameters = o.num_parameters
    self.weight = layer.parameter({ o.num_parameters }, o)
    self.weight:detach():fill_(o.init)
  end)

function layers.PReLU:forward(x)
  return layer.run(self, ml.prelu, x, self.weight)
end

function layers.PReLU:extra_repr() return tostring(self.weight:numel()) end

return layers
