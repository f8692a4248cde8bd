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

--- `max(x, 0)`. As all activations that take `inplace`, it changes its argument with that.
layers.ReLU = define("ReLU", "relu", "bool inplace=false")
--- `min(max(x, 0), 6)`.
layers.ReLU6 = define("ReLU6", "relu6", "bool inplace=false")
--- `1 / (1 + exp(-x))`.
layers.Sigmoid = define("Sigmoid", "sigmoid")
--- The hyperbolic tangent.
layers.Tanh = define("Tanh", "tanh")
--- `x * sigmoid(x)`.
layers.SiLU = define("SiLU", "silu", "bool inplace=false")
--- `x * tanh(softplus(x))` (Misra, 2019).
layers.Mish = define("Mish", "mish", "bool inplace=false")
--- The scaled ELU that keeps mean and variance (Klambauer et al., 2017).
layers.SELU = define("SELU", "selu", "bool inplace=false")
--- `x / (1 + |x|)`, element by element.
layers.Softsign = define("Softsign", "softsign")
--- 0 up to -3, 1 from 3, `x / 6 + 1 / 2` between.
layers.Hardsigmoid = define("Hardsigmoid", "hardsigmoid", "bool inplace=false")
--- `x * hardsigmoid(x)` (Howard et al., 2019).
layers.Hardswish = define("Hardswish", "hardswish", "bool inplace=false")
--- `log(sigmoid(x))`, without overflow.
layers.LogSigmoid = define("LogSigmoid", "logsigmoid")
--- `x` times the normal distribution function of `x` (Hendrycks and Gimpel, 2016); its tanh form
--- with `approximate = "tanh"`.
layers.GELU = define("GELU", "gelu", 'string approximate="none"')
--- `x` where positive, else `alpha * (exp(x) - 1)` (Clevert et al., 2015).
layers.ELU = define("ELU", "elu", "number alpha=1.0, bool inplace=false")
--- `x` where positive, else `alpha * (exp(x / alpha) - 1)` (Barron, 2017).
layers.CELU = define("CELU", "celu", "number alpha=1.0, bool inplace=false")
--- `x` where positive, else `negative_slope * x`.
layers.LeakyReLU = define("LeakyReLU", "leaky_relu",
  "number negative_slope=0.01, bool inplace=false")
--- `x` limited to the range from `min_val` to `max_val`.
layers.Hardtanh = define("Hardtanh", "hardtanh",
  "number min_val=-1.0, number max_val=1.0, bool inplace=false")
--- `log(1 + exp(beta * x)) / beta`; `x` itself where `beta * x` passes `threshold`.
layers.Softplus = define("Softplus", "softplus", "number beta=1.0, number threshold=20.0")
--- `x` where it is above `threshold`, else `value`.
layers.Threshold = define("Threshold", "threshold",
  "number threshold, number value, bool inplace=false")
--- The first half along `dim` times the sigmoid of the second (Dauphin et al., 2016).
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

--- `exp(x)` along `dim`, divided by its sum.
layers.Softmax = define_softmax("Softmax", "softmax")
--- The softmax of `-x` along `dim`.
layers.Softmin = define_softmax("Softmin", "softmin")
--- The logarithm of the softmax along `dim`.
layers.LogSoftmax = define_softmax("LogSoftmax", "log_softmax")
--- The softmax over the channels of images (n, c, h, w) or (c, h, w).
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

--- `x`, but 0 from `-lambd` to `lambd`.
layers.Hardshrink = define("Hardshrink", "hardshrink", "number lambd=0.5")
--- `x` moved towards 0 by `lambd`, 0 from `-lambd` to `lambd`.
layers.Softshrink = define("Softshrink", "softshrink", "number>=0 lambd=0.5")
--- `x - tanh(x)`.
layers.Tanhshrink = define("Tanhshrink", "tanhshrink")
--- `x` where positive, else `x` times a slope: while training one drawn for each element from
--- `lower` to `upper`, else their mean (Xu et al., 2015).
layers.RReLU = layer.functional("RReLU", "rrelu",
  "number lower=0.125, number upper=0.3333333333333333, bool inplace=false")
--- Makes the dimensions from `start_dim` to `end_dim` one. Dimensions count from 1: what follows
--- the batch starts at 2.
layers.Flatten = define("Flatten", "flatten", "int start_dim=2, int end_dim=-1")
--- Makes dimension `dim` several, of sizes `unflattened_size`.
layers.Unflatten = define("Unflatten", "unflatten", "int dim, int[] unflattened_size")

--- `max(x, 0)` plus a learned slope times `min(x, 0)` (He et al., 2015), one for all channels or
--- one for each.
---@field weight moonlet.Tensor The slopes, a parameter of shape (num_parameters,).
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
