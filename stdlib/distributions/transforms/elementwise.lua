-- stdlib/distributions/transforms/elementwise.lua: transforms of each number for itself.

local base = require "moonlet.distributions.transforms.base"
local class = require "moonlet.class"
local constraints = require "moonlet.distributions.constraints"
local ml = require "moonlet"
local properties = require "moonlet.distributions.properties"
local shapes = require "moonlet.distributions.shapes"
local define = base.define

local elementwise = {}

-- Makes a class one of bijective transforms that rise, of real numbers to `codomain`.
local function rising(cls, codomain)
  cls.domain, cls.codomain, cls.bijective, cls.sign = constraints.real, codomain, true, 1
  base.all_equal(cls)
end

--- Exponential of each element, from the real numbers to the positive ones.
--- > ml.distributions.ExpTransform()(ml.tensor { 0.0, 1.0 })
---   {1.0000, 2.7183}
---   Tensor (2,) float32
---@param cache_size? integer 1 keeps the last argument and result, so that inverting that
---   result is exact; 0 nothing
---@shape (*) -> (*)
---@formula y = exp(x)
local Exp = define("ExpTransform", "")
elementwise.ExpTransform = Exp
rising(Exp, constraints.positive)

function Exp:_call(x) return x:exp() end
function Exp:_inverse(y) return y:log() end
function Exp:_log_det(x) return x end

--- Power of each element of the positive numbers.
--- > ml.distributions.PowerTransform(2)(ml.tensor { 1.0, 3.0 })
---   {1., 9.}
---   Tensor (2,) float32
---@param exponent moonlet.Tensor|number the exponent a, a number or a tensor
---@param cache_size? integer 1 keeps the last argument and result, so that inverting that
---   result is exact; 0 nothing
---@shape (*) -> (*)
---@formula y = x^a
local Power = define("PowerTransform", "Tensor|number exponent", function(self, o)
  self.exponent = shapes.broadcast_all(base.where(self), { "exponent" }, { o.exponent })[1]
end)
elementwise.PowerTransform = Power
Power.domain, Power.codomain, Power.bijective = constraints.positive, constraints.positive, true

local get = properties.of(Power)
function get:sign() return self.exponent:sign() end

Power.__eq = function(a, b)
  return class.is_instance(a, Power) and class.is_instance(b, Power)
    and a.exponent:eq(b.exponent):all():item()
end

function Power:_call(x) return x:pow(self.exponent) end
function Power:_inverse(y) return y:pow(1 / self.exponent) end
function Power:_log_det(x, y) return (self.exponent * y / x):abs():log() end

-- The shape with that of tensors among the values.
local function with_shapes_of(self, shape, ...)
  local names, lists = { "shape" }, { shape }
  for _, name in ipairs { ... } do
    if ml.is_tensor(self[name]) then
      names[#names + 1] = name
      lists[#lists + 1] = shapes.of(self[name])
    end
  end
  return shapes.broadcast(base.where(self), names, lists)
end

function Power:_forward_shape(shape) return with_shapes_of(self, shape, "exponent") end
Power._inverse_shape = Power._forward_shape

--- Within the numbers of a dtype that are above 0 and below 1.
local function inside(y)
  local info = ml.finfo(y.dtype)
  return y:clamp(info.tiny, 1 - info.eps)
end

--- The sigmoid, kept from 0 and 1.
---@param x Tensor
---@return Tensor
function elementwise.clipped_sigmoid(x) return inside(x:sigmoid()) end

--- Logistic sigmoid of each element, from the real numbers to (0, 1); results are kept above 0 and
--- below 1.
--- > ml.distributions.SigmoidTransform()(ml.tensor { 0.0, 2.0 })
---   {0.5000, 0.8808}
---   Tensor (2,) float32
---@param cache_size? integer 1 keeps the last argument and result, so that inverting that
---   result is exact; 0 nothing
---@shape (*) -> (*)
---@formula y = 1 / (1 + exp(-x))
local Sigmoid = define("SigmoidTransform", "")
elementwise.SigmoidTransform = Sigmoid
rising(Sigmoid, constraints.unit_interval)

function Sigmoid:_call(x) return elementwise.clipped_sigmoid(x) end
function Sigmoid:_inverse(y)
  y = inside(y)
  return y:log() - (-y):log1p()
end
function Sigmoid:_log_det(x) return -(-x):softplus() - x:softplus() end

--- Softplus of each element, from the real numbers to the positive ones.
--- > ml.distributions.SoftplusTransform()(ml.tensor { 0.0, 2.0 })
---   {0.6931, 2.1269}
---   Tensor (2,) float32
---@param cache_size? integer 1 keeps the last argument and result, so that inverting that
---   result is exact; 0 nothing
---@shape (*) -> (*)
---@formula y = log(1 + exp(x))
local Softplus = define("SoftplusTransform", "")
elementwise.SoftplusTransform = Softplus
rising(Softplus, constraints.positive)

function Softplus:_call(x) return x:softplus() end
function Softplus:_inverse(y) return (-(-y):expm1()):log() + y end
function Softplus:_log_det(x) return -(-x):softplus() end

--- Hyperbolic tangent of each element, from the real numbers to (-1, 1). Inverting results close to
--- -1 or 1 loses precision unless `cache_size` is 1.
--- > ml.distributions.TanhTransform()(ml.tensor { 0.0, 1.0 })
---   {0.0000, 0.7616}
---   Tensor (2,) float32
---@param cache_size? integer 1 keeps the last argument and result, so that inverting that
---   result is exact; 0 nothing
---@shape (*) -> (*)
---@formula y = tanh(x)
local Tanh = define("TanhTransform", "")
elementwise.TanhTransform = Tanh
rising(Tanh, constraints.interval(-1.0, 1.0))

function Tanh:_call(x) return x:tanh() end
function Tanh:_inverse(y) return y:atanh() end
function Tanh:_log_det(x) return 2 * (math.log(2) - x - (-2 * x):softplus()) end

--- Absolute value of each element. It is not bijective; the inverse returns y itself.
--- > ml.distributions.AbsTransform()(ml.tensor { -2.0, 3.0 })
---   {2., 3.}
---   Tensor (2,) float32
---@param cache_size? integer 1 keeps the last argument and result, so that inverting that
---   result is exact; 0 nothing
---@shape (*) -> (*)
---@formula y = |x|
local Abs = define("AbsTransform", "")
elementwise.AbsTransform = Abs
rising(Abs, constraints.positive)
Abs.bijective, Abs.sign = false, nil

function Abs:_call(x) return x:abs() end
function Abs:_inverse(y) return y end

--- Affine function of each element.
--- > ml.distributions.AffineTransform(1, 2)(ml.tensor { 0.0, 3.0 })
---   {1., 7.}
---   Tensor (2,) float32
---@param loc moonlet.Tensor|number the shift a, a number or a tensor
---@param scale moonlet.Tensor|number the factor b, a number or a tensor, not 0
---@param event_dim? integer how many of the last dimensions make one value: 0 for each element
---   by itself
---@param cache_size? integer 1 keeps the last argument and result, so that inverting that
---   result is exact; 0 nothing
---@shape (*) -> (*)
---@formula y = a + b x
local Affine = define("AffineTransform",
  "Tensor|number loc, Tensor|number scale, int>=0 event_dim=0", function(self, o)
    self.loc, self.scale, self.event_dim = o.loc, o.scale, o.event_dim
  end)
elementwise.AffineTransform = Affine
Affine.bijective = true

local function reals(self)
  if self.event_dim == 0 then return constraints.real end
  return constraints.independent(constraints.real, self.event_dim)
end

get = properties.of(Affine)
get.domain, get.codomain = reals, reals
function get:sign()
  local scale = self.scale
  if ml.is_tensor(scale) then return scale:sign() end
  return scale > 0 and 1 or scale < 0 and -1 or 0
end

local function same(a, b)
  if type(a) == "number" and type(b) == "number" then return a == b end
  if type(a) == "number" then a, b = b, a end
  return a:eq(b):all():item()
end

Affine.__eq = function(a, b)
  return class.is_instance(a, Affine) and class.is_instance(b, Affine)
    and same(a.loc, b.loc) and same(a.scale, b.scale)
end

function Affine:_call(x) return self.loc + self.scale * x end
function Affine:_inverse(y) return (y - self.loc) / self.scale end

function Affine:_log_det(x)
  local scale, size, count = self.scale, shapes.of(x), self.event_dim
  local result
  if ml.is_tensor(scale) then
    result = scale:abs():log()
    if result:dim() < count then result = result:expand(size) end
  else
    result = ml.full_like(x, math.log(math.abs(scale)))
  end
  if count > 0 then
    result = shapes.flatten_last(result, count):sum(-1)
    size = shapes.part(size, 1, #size - count)
  end
  return result:expand(size)
end

function Affine:_forward_shape(shape) return with_shapes_of(self, shape, "loc", "scale") end
Affine._inverse_shape = Affine._forward_shape

return elementwise
