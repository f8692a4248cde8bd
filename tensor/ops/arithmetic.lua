-- tensor/ops/arithmetic.lua: sums, products, powers, roots, limits, rounding. Derivatives follow
-- PyTorch's, written in public ops so that they can be differentiated again.

local rows = require "tensor.ops.gen.pointwise_rows"

local function unary(...) op(rows.unary(...)) end
local function binary(...) op(rows.binary(...)) end

local complex = { dtypes = "floating + complex" }
local pair = { "randn(3, 4), randn(3, 4)", "randn(3, 4), randn(4)", "randn(3, 4), 2.5" }
local divisors = { "randn(3, 4), rand(3, 4) + 0.5", "randn(3, 4), rand(4) + 0.5", "randn(3, 4), 2.5" }
local positive = "rand(3, 4) + 0.5"

-- Arithmetic.
binary("add", "`x + other`, element by element; shapes broadcast.", { x = "g", other = "g" }, pair, { meta = "__add" })
binary("sub", "`x - other`, element by element; shapes broadcast.", { x = "g", other = "neg(g)" }, pair,
  { dtypes = "real + complex", meta = "__sub" })
binary("mul", "`x * other`, element by element; shapes broadcast.",
  { x = "mul(g, conj(other))", other = "mul(g, conj(x))" }, pair, { meta = "__mul" })
binary("div", "`x / other`, element by element; integers divide as float32.",
  { x = "div(g, conj(other))", other = "neg(mul(g, conj(div(y, other))))" }, divisors,
  { dtypes = "floating + complex", int_to_float = true, meta = "__div" })
op { "div_mode(Operand x, Operand other, string rounding_mode) -> Tensor",
     out = true, kind = "composite", dtypes = "real", overload_of = "div", method = false,
     doc = [[`x / other` rounded: `rounding_mode` is "floor" (as `floor_divide`) or "trunc" (toward zero).]],
     torch = "torch.div(args[0], args[1], rounding_mode=args[2])",
     sample = { 'randn(3, 4), rand(4) + 0.5, "floor"', 'randn(3, 4), rand(4) + 0.5, "trunc"' } }
binary("floor_divide", "`x / other` rounded toward minus infinity. Integer division by zero is an error.",
  { x = "zero", other = "zero" }, divisors,
  { dtypes = "real", meta = "__idiv", divides = true })
binary("trunc_divide", "`x / other` rounded toward zero. Integer division by zero is an error.",
  { x = "zero", other = "zero" }, divisors,
  { dtypes = "real", torch = 'torch.div(*args, rounding_mode="trunc")', divides = true })
binary("remainder", "The remainder of `x / other` with the sign of `other`, as Lua's `%`.",
  { x = "g", other = "neg(mul(g, floor_divide(x, other)))" }, divisors,
  { dtypes = "real", meta = "__mod", divides = true })
binary("fmod", "The remainder of `x / other` with the sign of `x`.",
  { x = "g", other = "neg(mul(g, trunc_divide(x, other)))" }, divisors,
  { dtypes = "real", divides = true })
binary("pow", [[`x` to the power `other`. Integers stay integers; a negative integer power of an
integer other than 1 and -1 is 0.]],
  { x = "pow_grad_x(g, x, other)", other = "pow_grad_other(g, x, other, y)" },
  { "rand(3, 4) + 0.5, randn(3, 4)", "rand(3, 4) + 0.5, randn(4)", "randn(3, 4), 2", "2.5, randn(3, 4)" },
  rows.widened { dtypes = "real + complex", meta = "__pow" })
unary("neg", "The negative: `-x`.", "neg(g)", nil, { dtypes = "real + complex", int_to_float = false, meta = "__unm" })
unary("abs", "The absolute value; the modulus of a complex element.", "mul(g, sgn(x))", nil,
  { dtypes = "real + complex", int_to_float = false, result = "real", inplace = "stored", alias = { "absolute" } })
unary("sign", "-1, 0 or 1 with the sign of each element.", "zero", nil, { dtypes = "real", int_to_float = false })
unary("sgn", "The sign; for a complex element, the element divided by its modulus.", "sgn_grad_x(g, x)", nil,
  { dtypes = "real + complex", int_to_float = false, check = { gradgrad = "its derivative is checked once" } })
unary("square", "The square of each element: `x * x`.", "mul(g, mul(conj(x), 2.0))", nil, { dtypes = "real + complex", int_to_float = false })
unary("sqrt", "The square root.", "div(g, mul(conj(y), 2.0))", positive, complex)
unary("rsqrt", "`1 / sqrt(x)`.", "mul(g, mul(mul(y, square(y)), -0.5))", positive, rows.widened())
unary("reciprocal", "The reciprocal: `1 / x`.", "neg(mul(g, square(conj(y))))", positive, rows.widened(complex))
binary("maximum", "The larger of two elements; NaN if either is.",
  { x = "mul(g, add(mul(gt(x, other), 1.0), mul(eq(x, other), 0.5)))",
    other = "mul(g, add(mul(lt(x, other), 1.0), mul(eq(x, other), 0.5)))" },
  { pair[1], pair[2] }, { dtypes = "real + boolean", chooses = true })
binary("minimum", "The smaller of two elements; NaN if either is.",
  { x = "mul(g, add(mul(lt(x, other), 1.0), mul(eq(x, other), 0.5)))",
    other = "mul(g, add(mul(gt(x, other), 1.0), mul(eq(x, other), 0.5)))" },
  { pair[1], pair[2] }, { dtypes = "real + boolean", chooses = true })
op { "clamp_min(Tensor x, Scalar min) -> Tensor",
     kind = "pointwise", chooses = { min = "lower" }, dtypes = "real", grad = { x = "where(ge(x, min), g, 0.0)" },
     doc = "`x`, but at least `min`.", sample = { "randn(3, 4), -0.3" } }
op { "clamp_max(Tensor x, Scalar max) -> Tensor",
     kind = "pointwise", chooses = { max = "upper" }, dtypes = "real", grad = { x = "where(le(x, max), g, 0.0)" },
     doc = "`x`, but at most `max`.", sample = { "randn(3, 4), 0.3" } }
op { "clamp(Tensor x, Scalar? min=nil, Scalar? max=nil) -> Tensor",
     inplace = true, out = true, kind = "composite", dtypes = "real",
     doc = "`x` limited to the range from `min` to `max`; either may be left out.",
     sample = { "randn(3, 4), -0.3, 0.4", "randn(3, 4), nil, 0.2" } }
op { "lerp(Tensor x, Tensor end, Operand weight) -> Tensor",
     kind = "pointwise", dtypes = "floating",
     grad = { x = "sub(g, mul(g, weight))", ["end"] = "mul(g, weight)", weight = "mul(g, sub(end, x))" },
     doc = "From `x` to `end`: `x + weight * (end - x)`.",
     sample = { "randn(3, 4), randn(3, 4), 0.3", "randn(3, 4), randn(4), rand(3, 4)" } }
op { "addcmul(Tensor x, Tensor a, Tensor b, Scalar value=1) -> Tensor",
     kind = "pointwise", autocast = { cuda = "promote" }, dtypes = "real + complex", keeps_dtype = true,
     grad = { x = "g", a = "mul(g, conj(mul(b, value)))", b = "mul(g, conj(mul(a, value)))" },
     doc = "`x + value * a * b`.", sample = { "randn(3, 4), randn(3, 4), randn(4), 0.5" },
     torch = "torch.addcmul(args[0], args[1], args[2], value=args[3])" }
op { "addcdiv(Tensor x, Tensor a, Tensor b, Scalar value=1) -> Tensor",
     kind = "pointwise", autocast = { cuda = "promote" }, dtypes = "floating", keeps_dtype = true,
     grad = { x = "g", a = "mul(g, div(value, b))", b = "neg(mul(g, div(mul(a, value), square(b))))" },
     doc = "`x + value * a / b`.", sample = { "randn(3, 4), randn(3, 4), rand(4) + 0.5, 0.5" },
     torch = "torch.addcdiv(args[0], args[1], args[2], value=args[3])" }

-- Rounding.
local rounding = { dtypes = "real", int_to_float = false }
unary("floor", "Rounds down.", "zero", nil, rounding)
unary("ceil", "Rounds up.", "zero", nil, rounding)
unary("round", "Rounds to the nearest whole number, halves to the even one.", "zero", nil,
  { dtypes = "real", int_to_float = false, alias = { "special.round" } })
unary("trunc", "Rounds toward zero.", "zero", nil, rounding)
unary("frac", "What `trunc` takes away.", "g", nil, { int_to_float = false })
