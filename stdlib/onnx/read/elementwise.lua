-- stdlib/onnx/read/elementwise.lua: ONNX's ops of each element, with its activations.

local Strings = require "moonlet.onnx.strings"
local common = require "moonlet.onnx.read.common"
local ml = require "moonlet"
local F = require "moonlet.nn.functional"
local text = require "moonlet.onnx.read.text"
local fail, together = common.fail, common.together

local read = {}

-- --- one input --------------------------------------------------------------------------------

-- Those whose names differ by capitals only.
for name in ("Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor IsNaN Log Neg "
  .. "Reciprocal Relu Round Sigmoid Sign Sin Sinh Sqrt Tan Tanh"):gmatch "%S+" do
  local call = ml[name:lower()]
  read[name] = function(_, x) return call(x) end
end
function read.Not(_, x) return x:logical_not() end

local FUNCTIONS = { HardSwish = F.hardswish, Mish = F.mish, Softplus = F.softplus,
  Softsign = F.softsign }
for name, call in pairs(FUNCTIONS) do
  read[name] = function(_, x) return call(x) end
end

local function attribute(n, name, default)
  local value = n.attributes[name]
  if value == nil then return default end
  return value
end

function read.Identity(_, x) return x end
function read.Elu(n, x) return F.elu(x, attribute(n, "alpha", 1.0)) end
function read.Celu(n, x) return F.celu(x, attribute(n, "alpha", 1.0)) end
function read.LeakyRelu(n, x) return F.leaky_relu(x, attribute(n, "alpha", 0.01)) end
function read.ThresholdedRelu(n, x) return F.threshold(x, attribute(n, "alpha", 1.0), 0) end

function read.Selu(n, x)
  local alpha = attribute(n, "alpha", 1.67326319217681884765625)
  return attribute(n, "gamma", 1.05070102214813232421875) * F.elu(x, alpha)
end

function read.HardSigmoid(n, x)
  return (x * attribute(n, "alpha", 0.2) + attribute(n, "beta", 0.5)):clamp(0, 1)
end

function read.Swish(n, x) return x * (x * attribute(n, "alpha", 1.0)):sigmoid() end
function read.Gelu(n, x) return F.gelu(x, attribute(n, "approximate", "none")) end

function read.Shrink(n, x)
  local lambd, bias = attribute(n, "lambd", 0.5), attribute(n, "bias", 0.0)
  local zero = ml.zeros_like(x)
  return ml.where(x:lt(-lambd), x + bias, ml.where(x:gt(lambd), x - bias, zero)):to(x.dtype)
end

function read.IsInf(n, x)
  local out = x:isinf()
  if attribute(n, "detect_positive", 1) == 0 then out = out:logical_and(x:lt(0)) end
  if attribute(n, "detect_negative", 1) == 0 then out = out:logical_and(x:gt(0)) end
  return out
end

function read.Clip(n, x, low, high)
  local least, most = low or n.attributes.min, high or n.attributes.max
  if ml.is_tensor(least) then least = common.number(least, "min") end
  if ml.is_tensor(most) then most = common.number(most, "max") end
  -- The greatest number wins where they cross, and no bound is no change.
  if least then x = x:clamp { min = least } end
  if most then x = x:clamp { max = most } end
  return x
end

-- --- two inputs -------------------------------------------------------------------------------

local function check_same(x, y)
  if x.dtype ~= y.dtype then
    fail("its inputs are of the dtypes %s and %s", tostring(x.dtype), tostring(y.dtype))
  end
  return together(x, y)
end

local BINARY = { Add = ml.add, Sub = ml.sub, Mul = ml.mul, Equal = ml.eq, Less = ml.lt,
  Greater = ml.gt, LessOrEqual = ml.le, GreaterOrEqual = ml.ge, And = ml.logical_and,
  Or = ml.logical_or, Xor = ml.logical_xor, BitwiseAnd = ml.bitwise_and,
  BitwiseOr = ml.bitwise_or, BitwiseXor = ml.bitwise_xor }
for name, call in pairs(BINARY) do
  read[name] = function(_, x, y) return call(check_same(x, y)) end
end
local equal = read.Equal
function read.Equal(n, x, y)
  if Strings.is(x) or Strings.is(y) then return text._equal(x, y) end
  return equal(n, x, y)
end

function read.BitwiseNot(_, x) return x:bitwise_not() end

function read.BitShift(n, x, y)
  x, y = check_same(x, y)
  if n.attributes.direction == "LEFT" then return ml.bitwise_left_shift(x, y) end
  return ml.bitwise_right_shift(x, y)
end

-- Integers are divided towards 0.
function read.Div(_, x, y)
  x, y = check_same(x, y)
  if x:is_floating_point() then return x / y end
  return ml.div(x, y, { rounding_mode = "trunc" })
end

function read.Mod(n, x, y)
  x, y = check_same(x, y)
  return (n.attributes.fmod == 1 and ml.fmod or ml.remainder)(x, y)
end

-- The dtype is that of the first. Whole numbers have whole powers, or zero, of negative exponents.
function read.Pow(_, x, y)
  x, y = together(x, y)
  if not x:is_floating_point() and not y:is_floating_point() and y:lt(0):any():item() then
    return ml.pow(x:double(), y):trunc():to(x.dtype)
  end
  return ml.pow(x, y):to(x.dtype)
end

function read.PRelu(_, x, slope)
  x, slope = together(x, slope)
  return ml.where(x:lt(0), x * slope, x)
end

function read.Where(_, condition, x, y)
  x, y = check_same(x, y)
  condition, x = together(condition, x)
  condition, y = together(condition, y)
  return ml.where(condition, x, y)
end

-- --- any number of inputs ---------------------------------------------------------------------

local function fold(call)
  return function(_, x, ...)
    for i = 1, select("#", ...) do x = call(check_same(x, (select(i, ...)))) end
    return x
  end
end
read.Max, read.Min, read.Sum = fold(ml.maximum), fold(ml.minimum), fold(ml.add)
function read.Mean(n, ...) return read.Sum(n, ...) / select("#", ...) end

-- --- along an axis ----------------------------------------------------------------------------

-- Before opset 13 all from the axis on is one dimension.
local function soft(call)
  return function(n, x)
    if n.version >= 13 then
      if x.ndim == 0 then return call(x:unsqueeze(1), 1):squeeze(1) end
      return call(x, common.dim(attribute(n, "axis", -1), x.ndim))
    end
    local dim = common.dim(attribute(n, "axis", 1), x.ndim)
    return call(x:flatten(dim), dim):view_as(x)
  end
end
read.Softmax, read.LogSoftmax = soft(ml.softmax), soft(ml.log_softmax)

-- One for the first of the greatest, else zero.
read.Hardmax = soft(function(x, dim)
  local place = x:argmax(dim, true)
  return ml.zeros_like(x):scatter(dim, place, ml.ones_like(place):to(x.dtype))
end)

return read
