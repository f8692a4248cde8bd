-- stdlib/torch7/arithmetic.lua: elementwise functions of Torch7's tensors, in place as methods, and
-- the operators of tensors.

local calls = require "moonlet.torch7.calls"
local core = require "moonlet.torch7.core"
local ml = require "moonlet"
local namespace = require "moonlet.torch7.namespace"
local tensors = require "moonlet.torch7.tensor"

local M, like, into, number = core.methods, core.like, core.into, core.number

local floating = core.of("float16", "float32", "float64")
local integers = core.of("uint8", "int8", "int16", "int32", "int64")

local function define(name, spec, f, kinds)
  kinds = kinds or {}
  if kinds.inplace == nil then kinds.inplace = true end
  calls.define(kinds.classes, name, spec, f, kinds)
end

-- f(x, ...) into r, by the form of f in place where r is x.
local function apply(r, name, x, ...)
  if r == x then return M[name .. "_"](x, ...) end
  return into(r, M[name](x, ...))
end

-- --- with a number or a tensor ---------------------------------------------------------------

-- Adds scale * y in place. Where elements share memory, what is added to each of them adds up.
local function add_in_place(x, y, scale)
  local ok, problem = pcall(M.add_, x, y, scale)
  if ok then return x end
  local memory, positions = tensors.shared_memory(x, problem)
  if type(y) == "number" then y = M.full_like(x, y) end
  M.index_add_(memory, 1, positions, M.reshape(core.native(y), { -1 }), scale)
  return x
end

-- A method for the common calls with one number or one tensor; the others go to the general one.
local function quick(name, general_of)
  local in_place = M[name .. "_"]
  return function(mt, general)
    local is_float = core.is_floating(mt)
    return function(x, value, ...)
      if select("#", ...) == 0 and M.is_contiguous(x) then
        if is_float and type(value) == "number" then return in_place(x, value) end
        if general_of == "tensor" and getmetatable(value) == mt then
          return in_place(x, like(x, value, name))
        end
      end
      return general(x, value, ...)
    end
  end
end

local function add_number(sign)
  return function(mt, r, x, value)
    value = sign * number(mt, value)
    if r == x then return add_in_place(r, value, 1) end
    return apply(r, "add", x, value)
  end
end

local function add_scaled(sign)
  return function(mt, r, x, scale, y)
    y = like(x, y, "add")
    scale = number(mt, sign * scale)
    if r == x then return add_in_place(r, y, scale) end
    if scale == 1 then return apply(r, "add", x, y) end
    return apply(r, "add", x, y, scale)
  end
end

define("add", "r t=r n|r t=r n=1 t", { add_number(1), add_scaled(1) },
  { own = quick("add", "tensor") })
define("csub", "r t=r n|r t=r n=1 t", { add_number(-1), add_scaled(-1) })

define("mul", "r t=r n", function(mt, r, x, value)
  return apply(r, "mul", x, number(mt, value))
end, { own = quick "mul" })

-- Numbers of integers lose their fraction when they are divided.
local function divide(mt, r, x, value)
  if core.is_floating(mt) then return apply(r, "div", x, value) end
  if value == 0 then core.fail "torch.div: division of integers by zero" end
  return apply(r, "div", x, value, "trunc")
end

define("div", "r t=r n", function(mt, r, x, value)
  return divide(mt, r, x, number(mt, value))
end, { own = quick "div" })

define("cdiv", "r t=r t", function(mt, r, x, y)
  y = like(x, y, "cdiv")
  if core.is_floating(mt) then return apply(r, "div", x, y) end
  return apply(r, "div", x, y, "trunc")
end)

define("cmul", "r t=r t", function(_, r, x, y) return apply(r, "mul", x, like(x, y, "cmul")) end)
define("cpow", "r t=r t", function(mt, r, x, y)
  return into(r, core.as(M.pow(x, like(x, y, "cpow")), mt))
end)

for name, op in pairs { fmod = "fmod", mod = "fmod", remainder = "remainder" } do
  define(name, "r t=r n", function(mt, r, x, value)
    return into(r, core.as(M[op](x, number(mt, value)), mt))
  end)
  define("c" .. name, "r t=r t", function(_, r, x, y)
    return apply(r, op, x, like(x, y, "c" .. name))
  end)
end

-- --- bits ---------------------------------------------------------------------------------------

for name, op in pairs { bitand = "bitwise_and", bitor = "bitwise_or", bitxor = "bitwise_xor" } do
  define(name, "r t=r n", function(mt, r, x, value)
    return into(r, M[op](x, number(mt, value)))
  end, { classes = integers })
  define("c" .. name, "r t=r t", function(_, r, x, y)
    return into(r, M[op](x, like(x, y, "c" .. name)))
  end, { classes = integers })
end

-- A shift of floats multiplies or divides by a power of two.
for name, op in pairs { lshift = "bitwise_left_shift", rshift = "bitwise_right_shift" } do
  local sign = name == "lshift" and 1 or -1
  define(name, "r t=r n", function(mt, r, x, value)
    if core.is_floating(mt) then return apply(r, "mul", x, 2.0 ^ (sign * value)) end
    return into(r, M[op](x, number(mt, value)))
  end)
  define("c" .. name, "r t=r t", function(mt, r, x, y)
    y = like(x, y, "c" .. name)
    if core.is_floating(mt) then return into(r, M.mul(x, M.exp2(M.mul(y, sign)))) end
    return into(r, M[op](x, y))
  end)
end

-- --- of one tensor ------------------------------------------------------------------------------

-- Those of floats also take a number and give one: by Lua's function, or by the op.
local function real(name, f)
  f = f or function(value) return M.item(M[name](ml.tensor(value, { dtype = "float64" }))) end
  define(name, "r t=r|n", {
    function(_, r, x) return apply(r, name, x) end,
    function(_, value) return f(value) end,
  }, { classes = floating, own = function(_, general)
    local in_place = M[name .. "_"]
    return function(x, ...)
      if select("#", ...) == 0 and type(x) == "userdata" then return in_place(x) end
      return general(x, ...)
    end
  end })
end

for name in ("log exp cos acos sin asin tan atan sqrt"):gmatch "%S+" do real(name, math[name]) end
for name in ("log1p cosh sinh tanh round ceil floor trunc frac rsqrt sigmoid"):gmatch "%S+" do
  real(name)
end

define("abs", "r t=r|n", {
  function(_, r, x) return apply(r, "abs", x) end,
  function(_, value) return math.abs(value) end,
})
define("neg", "r t=r", function(_, r, x) return apply(r, "neg", x) end)
define("sign", "r t=r", function(_, r, x) return apply(r, "sign", x) end)
define("cinv", "r t=r", function(_, r, x) return apply(r, "reciprocal", x) end,
  { classes = floating })

-- --- of more ------------------------------------------------------------------------------------

define("clamp", "r t=r n n", function(mt, r, x, least, most)
  return apply(r, "clamp", x, number(mt, least), number(mt, most))
end)

define("pow", "r t=r n|r n t=r|n n", {
  function(_, r, x, exponent) return apply(r, "pow", x, exponent) end,
  function(mt, r, base, x)
    return into(r, M.pow(core.wrap(ml.full({}, base, mt.__options), mt), x))
  end,
  function(_, base, exponent) return base ^ exponent end,
}, { classes = floating })

define("lerp", "r t=r t n|n n n", {
  function(_, r, x, y, weight) return apply(r, "lerp", x, like(x, y, "lerp"), weight) end,
  function(_, a, b, weight) return a + weight * (b - a) end,
}, { classes = floating })

define("atan2", "r t=r t|n n", {
  function(_, r, x, y) return apply(r, "atan2", x, like(x, y, "atan2")) end,
  function(_, y, x) return math.atan(y, x) end,
}, { classes = floating })

for _, name in ipairs { "addcmul", "addcdiv" } do
  define(name, "r t=r n=1 t t", function(mt, r, x, value, a, b)
    a, b = like(x, a, name), like(x, b, name)
    if name == "addcdiv" and not core.is_floating(mt) then
      return apply(r, "add", x, M.div(M.mul(a, number(mt, value)), b, "trunc"))
    end
    return apply(r, name, x, a, b, number(mt, value))
  end)
end

for name, op in pairs { cmax = "maximum", cmin = "minimum" } do
  local bound = name == "cmax" and "clamp_min" or "clamp_max"
  define(name, "r t=r t|r t=r n", {
    function(_, r, x, y) return into(r, M[op](x, like(x, y, name))) end,
    function(mt, r, x, value) return into(r, M[bound](x, number(mt, value))) end,
  })
end

-- --- filling ------------------------------------------------------------------------------------

-- Elements that share memory get one number.
local function fill(x, value)
  if M.is_contiguous(x) then return M.fill_(x, value) end
  local ok, problem = pcall(M.fill_, x, value)
  if not ok then
    local memory, positions = tensors.shared_memory(x, problem)
    M.index_fill_(memory, 1, positions, value)
  end
  return x
end

define("fill", "r n", function(mt, r, value) return fill(r, number(mt, value)) end,
  { own = function(mt, general)
    local is_float = core.is_floating(mt)
    return function(x, value, ...)
      if is_float and type(value) == "number" then return fill(x, value) end
      return general(x, value, ...)
    end
  end })
local function zero(x) return fill(x, 0) end
define("zero", "r", function(_, r) return zero(r) end, { own = function() return zero end })

-- --- operators ----------------------------------------------------------------------------------

local function tensors_of(a, b, symbol)
  local first, second = core.is_tensor(a), core.is_tensor(b)
  local known = (first or type(a) == "number") and (second or type(b) == "number")
  if not known or first and second and getmetatable(a) ~= getmetatable(b) then
    core.fail("%s: two tensors of one type, or a tensor and a number are expected", symbol)
  end
  return first, second
end

local function product(a, b)
  local first, second = tensors_of(a, b, "*")
  if not first then return M.mul(b, number(getmetatable(b), a)) end
  if not second then return M.mul(a, number(getmetatable(a), b)) end
  local left, right = core.dim(a), core.dim(b)
  if left == 1 and right == 1 then return a:dot(b) end
  if left == 2 and right == 1 then return M.mv(a, b) end
  if left == 2 and right == 2 then return M.mm(a, b) end
  core.fail("*: the product of a %dD and a %dD tensor is not defined", left, right)
end

local function sum(a, b)
  local first, second = tensors_of(a, b, "+")
  if not first then a, b, second = b, a, false end
  if second then return M.add(a, like(a, b, "add")) end
  return M.add(a, number(getmetatable(a), b))
end

local function difference(a, b)
  local first, second = tensors_of(a, b, "-")
  if not second then return M.sub(a, number(getmetatable(a), b)) end
  if not first then return M.add(M.neg(b), number(getmetatable(b), a)) end
  return M.sub(a, like(a, b, "csub"))
end

local function quotient(a, b)
  local first, second = tensors_of(a, b, "/")
  if not first then core.fail "/: a number is divided by a tensor; use torch.cinv" end
  return second and namespace.cdiv(a, b) or divide(getmetatable(a), nil, a,
    number(getmetatable(a), b))
end

local function modulus(a, b)
  local _, second = tensors_of(a, b, "%")
  return second and namespace.cremainder(a, b) or namespace.remainder(a, b)
end

local OPERATORS = { add = sum, sub = difference, mul = product, div = quotient, mod = modulus,
  unm = function(a) return M.neg(a) end }

core.each_class(function(mt)
  for name, f in pairs(OPERATORS) do mt["__" .. name], mt["__" .. name .. "__"] = f, f end
end)
