-- stdlib/onnx/write/pointwise.lua: arithmetic and functions of each element as ONNX nodes.

local dtypes = require "moonlet.onnx.dtypes"
local trace = require "moonlet.onnx.trace"

local write = {}

-- The dtype that the elements are computed in: the result's.
local function dtype_of(call) return call.results[1].dtype end

-- --- one argument -----------------------------------------------------------------------------

local UNARY = { abs = "Abs", acos = "Acos", acosh = "Acosh", asin = "Asin", asinh = "Asinh",
  atan = "Atan", atanh = "Atanh", cos = "Cos", cosh = "Cosh", erf = "Erf", exp = "Exp",
  log = "Log", neg = "Neg", reciprocal = "Reciprocal", sigmoid = "Sigmoid", sign = "Sign",
  sgn = "Sign", sin = "Sin", sinh = "Sinh", sqrt = "Sqrt", tan = "Tan", tanh = "Tanh",
  positive = "Identity", conj_physical = "Identity", expit = "Sigmoid" }
for name, op in pairs(UNARY) do
  write[name] = function(g, a, call) return g:node(op, { g:operand(a.x, dtype_of(call)) }) end
end

-- Whole numbers are what they are.
local ROUNDING = { ceil = "Ceil", floor = "Floor", round = "Round" }
for name, op in pairs(ROUNDING) do
  write[name] = function(g, a, call)
    local dtype = dtype_of(call)
    local x = g:operand(a.x, dtype)
    return dtypes.is_float(dtype) and g:node(op, { x }) or g:node("Identity", { x })
  end
end

function write.round_decimals(g, a, call)
  local dtype = dtype_of(call)
  local scale = g:float(10.0 ^ g:int(a.decimals, "decimals"), dtype)
  local x = g:node("Round", { g:node("Mul", { g:operand(a.x, dtype), scale }) })
  return g:node("Div", { x, scale })
end

local function trunc(g, x)
  return g:node("Mul", { g:node("Sign", { x }), g:node("Floor", { g:node("Abs", { x }) }) })
end

-- Each takes the graph, the operand and its dtype.
local COMPOSED = {
  rsqrt = function(g, x) return g:node("Reciprocal", { g:node("Sqrt", { x }) }) end,
  square = function(g, x) return g:node("Mul", { x, x }) end,
  exp2 = function(g, x, dtype) return g:node("Pow", { g:float(2, dtype), x }) end,
  expm1 = function(g, x, dtype)
    return g:node("Sub", { g:node("Exp", { x }), g:float(1, dtype) })
  end,
  log1p = function(g, x, dtype)
    return g:node("Log", { g:node("Add", { x, g:float(1, dtype) }) })
  end,
  log2 = function(g, x, dtype)
    return g:node("Div", { g:node("Log", { x }), g:float(math.log(2), dtype) })
  end,
  log10 = function(g, x, dtype)
    return g:node("Div", { g:node("Log", { x }), g:float(math.log(10), dtype) })
  end,
  erfc = function(g, x, dtype)
    return g:node("Sub", { g:float(1, dtype), g:node("Erf", { x }) })
  end,
  sinc = function(g, x, dtype)
    local scaled = g:node("Mul", { x, g:float(math.pi, dtype) })
    local one = g:float(1, dtype)
    local zero = g:node("Equal", { scaled, g:float(0, dtype) })
    local safe = g:node("Where", { zero, one, scaled })
    return g:node("Where", { zero, one, g:node("Div", { g:node("Sin", { safe }), safe }) })
  end,
  logit = function(g, x, dtype)
    return g:node("Log", { g:node("Div", { x, g:node("Sub", { g:float(1, dtype), x }) }) })
  end,
  trunc = function(g, x, dtype)
    return dtypes.is_float(dtype) and trunc(g, x) or g:node("Identity", { x })
  end,
  frac = function(g, x) return g:node("Sub", { x, trunc(g, x) }) end,
  signbit = function(g, x, dtype)
    -- 1 / -0 is below 0 too.
    if not dtypes.is_float(dtype) then return g:node("Less", { x, g:constant(0, dtype) }) end
    local zero = g:float(0, dtype)
    local is_zero = g:node("Equal", { x, zero })
    local side = g:node("Where", { is_zero, g:node("Reciprocal", { x }), x })
    return g:node("Less", { side, zero })
  end,
  special_entr = function(g, x, dtype)
    local zero = g:float(0, dtype)
    local positive = g:node("Greater", { x, zero })
    local safe = g:node("Where", { positive, x, g:float(1, dtype) })
    local y = g:node("Neg", { g:node("Mul", { safe, g:node("Log", { safe }) }) })
    local below = g:node("Where", { g:node("Less", { x, zero }), g:float(-math.huge, dtype), y })
    return g:node("Where", { g:node("IsNaN", { x }), x, below })
  end,
  special_ndtr = function(g, x, dtype)
    local erf = g:node("Erf", { g:node("Mul", { x, g:float(math.sqrt(0.5), dtype) }) })
    return g:node("Mul", { g:node("Add", { erf, g:float(1, dtype) }), g:float(0.5, dtype) })
  end,
  special_spherical_bessel_j0 = function(g, x, dtype)
    local zero, one = g:node("Equal", { x, g:float(0, dtype) }), g:float(1, dtype)
    local safe = g:node("Where", { zero, one, x })
    return g:node("Where", { zero, one, g:node("Div", { g:node("Sin", { safe }), safe }) })
  end,
}
for name, make in pairs(COMPOSED) do
  write[name] = function(g, a, call)
    local dtype = dtype_of(call)
    if dtype == "bool" then dtype = a.x.dtype end
    return make(g, g:operand(a.x, dtype), dtype)
  end
end

-- `eps` keeps what it is of away from 0 and 1.
local function logit(g, a, call)
  local dtype = dtype_of(call)
  local x = g:operand(a.x, dtype)
  if a.eps then
    x = g:node("Clip", { x, g:float(a.eps, dtype), g:float(1 - a.eps, dtype) })
  end
  return COMPOSED.logit(g, x, dtype)
end
write.logit, write.logit_within = logit, logit

-- --- two arguments ----------------------------------------------------------------------------

-- Of truth values sums are "or" and products "and".
local function binary(op, op_of_bools)
  return function(g, a, call)
    local dtype = dtype_of(call)
    local node = dtype == "bool" and op_of_bools or op
    return g:node(node, { g:operand(a.x, dtype), g:operand(a.other or a.exponent, dtype) })
  end
end

write.add = binary("Add", "Or")
write.mul = binary("Mul", "And")
write.sub = binary "Sub"
write.pow = binary "Pow"
write.div = binary "Div"
write.maximum = binary("Max", "Or")
write.minimum = binary("Min", "And")

-- NaN gives way to what it is compared with.
local function ignoring_nan(op)
  return function(g, a, call)
    local dtype = dtype_of(call)
    local x, y = g:operand(a.x, dtype), g:operand(a.other, dtype)
    local best = g:node(op, { x, y })
    if not dtypes.is_float(dtype) then return best end
    best = g:node("Where", { g:node("IsNaN", { y }), x, best })
    return g:node("Where", { g:node("IsNaN", { x }), y, best })
  end
end
write.fmax, write.fmin = ignoring_nan "Max", ignoring_nan "Min"

function write.add_scaled(g, a, call)
  local dtype = dtype_of(call)
  local other = g:node("Mul", { g:operand(a.other, dtype), g:operand(a.alpha, dtype) })
  return g:node("Add", { g:operand(a.x, dtype), other })
end

function write.sub_scaled(g, a, call)
  local dtype = dtype_of(call)
  local other = g:node("Mul", { g:operand(a.other, dtype), g:operand(a.alpha, dtype) })
  return g:node("Sub", { g:operand(a.x, dtype), other })
end

-- ONNX's Mod has the divisor's sign for integers, the dividend's with `fmod`.
function write.remainder(g, a, call)
  local dtype = dtype_of(call)
  local x, y = g:operand(a.x, dtype), g:operand(a.other, dtype)
  if not dtypes.is_float(dtype) then return g:node("Mod", { x, y }) end
  local quotient = g:node("Floor", { g:node("Div", { x, y }) })
  return g:node("Sub", { x, g:node("Mul", { quotient, y }) })
end

function write.fmod(g, a, call)
  local dtype = dtype_of(call)
  return g:node("Mod", { g:operand(a.x, dtype), g:operand(a.other, dtype) }, { fmod = 1 })
end

function write.floor_divide(g, a, call)
  local dtype = dtype_of(call)
  local x, y = g:operand(a.x, dtype), g:operand(a.other, dtype)
  if dtypes.is_float(dtype) then return g:node("Floor", { g:node("Div", { x, y }) }) end
  return g:node("Div", { g:node("Sub", { x, g:node("Mod", { x, y }) }), y })
end

function write.trunc_divide(g, a, call)
  local dtype = dtype_of(call)
  local quotient = g:node("Div", { g:operand(a.x, dtype), g:operand(a.other, dtype) })
  return dtypes.is_float(dtype) and trunc(g, quotient) or quotient
end

-- By the arc tangent of the quotient, moved by half a turn where x is negative.
function write.atan2(g, a, call)
  local dtype = dtype_of(call)
  local y, x = g:operand(a.x, dtype), g:operand(a.other, dtype)
  local zero, pi = g:float(0, dtype), g:float(math.pi, dtype)
  local is_zero = g:node("Equal", { x, zero })
  local safe = g:node("Where", { is_zero, g:float(1, dtype), x })
  local base = g:node("Atan", { g:node("Div", { y, safe }) })
  local sign = g:node("Sign", { y })
  local turn = g:node("Where", { g:node("Less", { y, zero }), g:float(-math.pi, dtype), pi })
  local turned = g:node("Add", { base, turn })
  local behind = g:node("Where", { g:node("Less", { x, zero }), turned, base })
  local upright = g:node("Mul", { sign, g:float(math.pi / 2, dtype) })
  return g:node("Where", { is_zero, upright, behind })
end

-- Of real numbers: 0, or half a turn for negative ones.
function write.angle(g, a, call)
  local dtype = dtype_of(call)
  local x = g:operand(a.x, dtype)
  local negative = g:node("Less", { x, g:float(0, dtype) })
  local y = g:node("Where", { negative, g:float(math.pi, dtype), g:float(0, dtype) })
  return g:node("Where", { g:node("IsNaN", { x }), x, y })
end

function write.hypot(g, a, call)
  local dtype = dtype_of(call)
  local x, y = g:operand(a.x, dtype), g:operand(a.other, dtype)
  return g:node("Sqrt", { g:node("Add", { g:node("Mul", { x, x }), g:node("Mul", { y, y }) }) })
end

-- x times a logarithm, 0 where x is.
local function x_log(log)
  return function(g, a, call)
    local dtype = dtype_of(call)
    local x, y = g:operand(a.x, dtype), g:operand(a.other, dtype)
    local product = g:node("Mul", { x, log(g, y, dtype) })
    local none = g:node("And", { g:node("Equal", { x, g:float(0, dtype) }),
      g:node("Not", { g:node("IsNaN", { y }) }) })
    return g:node("Where", { none, g:float(0, dtype), product })
  end
end
write.xlogy = x_log(function(g, y) return g:node("Log", { y }) end)
write.special_xlog1py = x_log(COMPOSED.log1p)

function write.copysign(g, a, call)
  local dtype = dtype_of(call)
  local size = g:node("Abs", { g:operand(a.x, dtype) })
  local negative = COMPOSED.signbit(g, g:operand(a.other, dtype), dtype)
  return g:node("Where", { negative, g:node("Neg", { size }), size })
end

function write.heaviside(g, a, call)
  local dtype = dtype_of(call)
  local x, zero = g:operand(a.x, dtype), g:constant(0, dtype)
  local step = g:node("Where", { g:node("Greater", { x, zero }), g:constant(1, dtype), zero })
  return g:node("Where", { g:node("Equal", { x, zero }), g:operand(a.values, dtype), step })
end

-- --- three arguments --------------------------------------------------------------------------

local function scaled(g, name, value, dtype)
  if value == 1 then return name end
  return g:node("Mul", { name, g:operand(value, dtype) })
end

function write.addcmul(g, a, call)
  local dtype = dtype_of(call)
  local product = g:node("Mul", { g:operand(a.tensor1, dtype), g:operand(a.tensor2, dtype) })
  return g:node("Add", { g:operand(a.x, dtype), scaled(g, product, a.value, dtype) })
end

function write.addcdiv(g, a, call)
  local dtype = dtype_of(call)
  local quotient = g:node("Div", { g:operand(a.tensor1, dtype), g:operand(a.tensor2, dtype) })
  return g:node("Add", { g:operand(a.x, dtype), scaled(g, quotient, a.value, dtype) })
end

function write.lerp(g, a, call)
  local dtype = dtype_of(call)
  local x = g:operand(a.x, dtype)
  local way = g:node("Sub", { g:operand(a["end"], dtype), x })
  return g:node("Add", { x, g:node("Mul", { way, g:operand(a.weight, dtype) }) })
end

local function limited(g, x, low, high, dtype)
  if low ~= nil then x = g:node("Max", { x, g:operand(low, dtype) }) end
  if high ~= nil then x = g:node("Min", { x, g:operand(high, dtype) }) end
  return x
end

local function clamp(low, high)
  return function(g, a, call)
    local dtype = dtype_of(call)
    return limited(g, g:operand(a.x, dtype), low and a[low], high and a[high], dtype)
  end
end

write.clamp_between, write.clamp_within = clamp("min", "max"), clamp("min", "max")
write.clamp_min, write.clamp_min_tensor = clamp("min"), clamp("min")
write.clamp_max, write.clamp_max_tensor = clamp(nil, "max"), clamp(nil, "max")
write.clamp, write.clamp_tensor = clamp("min", "max"), clamp("min", "max")

function write.where(g, a, call)
  local dtype = dtype_of(call)
  return g:node("Where", { g:operand(a.condition, "bool"), g:operand(a.x, dtype),
    g:operand(a.other, dtype) })
end

function write.masked_fill(g, a, call)
  local dtype = dtype_of(call)
  return g:node("Where", { g:operand(a.mask, "bool"), g:operand(a.value, dtype),
    g:operand(a.x, dtype) })
end
write.masked_fill_tensor = write.masked_fill

function write.nan_to_num(g, a, call)
  local dtype = dtype_of(call)
  local x = g:operand(a.x, dtype)
  if not dtypes.is_float(dtype) then return g:node("Identity", { x }) end
  local most = ({ float16 = 65504.0, float64 = 1.7976931348623157e308 })[dtype]
    or 3.4028234663852886e38
  local high, low = a.posinf or most, a.neginf or -most
  local out = g:node("Where", { g:node("IsNaN", { x }), g:float(a.nan or 0, dtype), x })
  local function replaced(what, by)
    local is_that = g:node("Equal", { x, g:float(what, dtype) })
    out = g:node("Where", { is_that, g:float(by, dtype), out })
  end
  replaced(math.huge, high)
  replaced(-math.huge, low)
  return out
end

-- --- losses of each element -------------------------------------------------------------------

local function loss(make)
  return function(g, a, call)
    local dtype = dtype_of(call)
    return make(g, g:operand(a.x, dtype), g:operand(a.target, dtype), dtype, a)
  end
end

local function distance(g, x, target)
  return g:node("Abs", { g:node("Sub", { x, target }) })
end

-- Half the square up to `limit`, then straight: d * d / 2, limit * (d - limit / 2).
local function huber(g, x, target, limit, dtype)
  local d = distance(g, x, target)
  local half = g:node("Mul", { g:node("Mul", { d, d }), g:float(0.5, dtype) })
  local straight = g:node("Mul", { g:node("Sub", { d, g:float(limit / 2, dtype) }),
    g:float(limit, dtype) })
  return g:node("Where", { g:node("Less", { d, g:float(limit, dtype) }), half, straight })
end

write.l1_loss_each = loss(distance)
write.mse_loss_each = loss(function(g, x, target)
  local d = g:node("Sub", { x, target })
  return g:node("Mul", { d, d })
end)
write.huber_loss_each = loss(function(g, x, target, dtype, a)
  return huber(g, x, target, a.delta, dtype)
end)
write.smooth_l1_loss_each = loss(function(g, x, target, dtype, a)
  if a.beta == 0 then return distance(g, x, target) end
  return g:node("Div", { huber(g, x, target, a.beta, dtype), g:float(a.beta, dtype) })
end)
write.binary_cross_entropy_with_logits_each = loss(function(g, x, target, dtype)
  -- max(x, 0) - x * target + log(1 + exp(-|x|))
  local small = g:node("Softplus", { g:node("Neg", { g:node("Abs", { x }) }) })
  local large = g:node("Sub", { g:node("Max", { x, g:float(0, dtype) }),
    g:node("Mul", { x, target }) })
  return g:node("Add", { large, small })
end)
write.binary_cross_entropy_each = loss(function(g, x, target, dtype)
  local one, low = g:float(1, dtype), g:float(-100, dtype)
  local yes = g:node("Max", { g:node("Log", { x }), low })
  local no = g:node("Max", { g:node("Log", { g:node("Sub", { one, x }) }), low })
  local sum = g:node("Add", { g:node("Mul", { target, yes }),
    g:node("Mul", { g:node("Sub", { one, target }), no }) })
  return g:node("Neg", { sum })
end)

write.soft_margin_loss_each = loss(function(g, x, target)
  return g:node("Softplus", { g:node("Neg", { g:node("Mul", { target, x }) }) })
end)
write.poisson_nll_loss_each = loss(function(g, x, target)
  return g:node("Sub", { g:node("Exp", { x }), g:node("Mul", { target, x }) })
end)
write.kl_div_each = loss(function(g, x, target, dtype)
  local one = g:float(1, dtype)
  local positive = g:node("Greater", { target, g:float(0, dtype) })
  local log = g:node("Log", { g:node("Where", { positive, target, one }) })
  return g:node("Mul", { target, g:node("Sub", { log, x }) })
end)

-- --- dtypes -----------------------------------------------------------------------------------

-- Positions stay what they are.
local function as_dtype(g, a, call)
  local x, dtype = a.x, dtype_of(call)
  if trace.is_value(x) and x.zero and dtypes.is_integer(dtype) then
    local name = g:cast(g:raw(x), x.dtype, dtype)
    return { zero = g:node("Identity", { name }) }
  end
  return g:node("Identity", { g:operand(x, dtype) })
end
write.to, write.convert, write.clone, write.contiguous = as_dtype, as_dtype, as_dtype, as_dtype
write.detach, write.to_as, write.type_as = as_dtype, as_dtype, as_dtype

return write
