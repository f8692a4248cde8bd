-- tensor/ops/pointwise.lua: arithmetic, rounding, exponentials, logarithms, trigonometry, bits.
-- Derivatives follow PyTorch's, written in public ops so that they can be differentiated again.

-- Half types lose too much in these: autocast widens them on CUDA, as PyTorch does.
local widened = {}
for name in ("acos asin cosh exp expm1 log log10 log1p log2 pow reciprocal rsqrt sinh tan"):gmatch "%w+" do
  widened[name] = { cuda = "float32" }
end

local function with(row, extra)
  row.autocast = widened[row[1]:match "^%w+"]
  for key, value in pairs(extra or {}) do row[key] = value end
  op(row)
end

-- A function of one tensor; integers compute in float32.
local function unary(name, doc, grad, sample, extra)
  with({ ("%s(Tensor x) -> Tensor"):format(name),
    kind = "pointwise", dtypes = "floating", int_to_float = true,
    grad = grad and { x = grad } or nil, doc = doc, sample = { sample or "randn(3, 4)" } }, extra)
end

-- A function of two tensors or numbers that broadcast.
local function binary(name, doc, grad, samples, extra)
  with({ ("%s(Operand x, Operand other) -> Tensor"):format(name),
    kind = "pointwise", dtypes = "all", grad = grad, doc = doc, sample = samples }, extra)
end

local complex = { dtypes = "floating + complex" }
local pair = { "randn(3, 4), randn(3, 4)", "randn(3, 4), randn(4)", "randn(3, 4), 2.5" }
local divisors = { "randn(3, 4), rand(3, 4) + 0.5", "randn(3, 4), rand(4) + 0.5", "randn(3, 4), 2.5" }
local positive = "rand(3, 4) + 0.5"
local inside = "rand(3, 4) * 1.6 - 0.8"

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
  { x = "zero", other = "zero" }, divisors, { dtypes = "real", meta = "__idiv" })
binary("trunc_divide", "`x / other` rounded toward zero. Integer division by zero is an error.",
  { x = "zero", other = "zero" }, divisors,
  { dtypes = "real", torch = 'torch.div(*args, rounding_mode="trunc")' })
binary("remainder", "The remainder of `x / other` with the sign of `other`, as Lua's `%`.",
  { x = "g", other = "neg(mul(g, floor_divide(x, other)))" }, divisors, { dtypes = "real", meta = "__mod" })
binary("fmod", "The remainder of `x / other` with the sign of `x`.",
  { x = "g", other = "neg(mul(g, trunc_divide(x, other)))" }, divisors, { dtypes = "real" })
binary("pow", [[`x` to the power `other`. Integers stay integers; a negative integer power of an
integer other than 1 and -1 is 0.]],
  { x = "pow_grad_base(g, x, other)", other = "pow_grad_exponent(g, x, other, y)" },
  { "rand(3, 4) + 0.5, randn(3, 4)", "rand(3, 4) + 0.5, randn(4)", "randn(3, 4), 2", "2.5, randn(3, 4)" },
  { dtypes = "real + complex", meta = "__pow" })
unary("neg", "The negative: `-x`.", "neg(g)", nil, { dtypes = "real + complex", int_to_float = false, meta = "__unm" })
unary("abs", "The absolute value; the modulus of a complex element.", "mul(g, sgn(x))", nil,
  { dtypes = "real + complex", int_to_float = false, result = "real", inplace = "stored" })
unary("sign", "-1, 0 or 1 with the sign of each element.", "zero", nil, { dtypes = "real", int_to_float = false })
unary("sgn", "The sign; for a complex element, the element divided by its modulus.", "sgn_grad(g, x)", nil,
  { dtypes = "real + complex", int_to_float = false, check = { gradgrad = "its derivative is checked once" } })
unary("square", "The square of each element: `x * x`.", "mul(g, mul(conj(x), 2.0))", nil, { dtypes = "real + complex", int_to_float = false })
unary("sqrt", "The square root.", "div(g, mul(conj(y), 2.0))", positive, complex)
unary("rsqrt", "`1 / sqrt(x)`.", "mul(g, mul(mul(y, square(y)), -0.5))", positive)
unary("reciprocal", "The reciprocal: `1 / x`.", "neg(mul(g, square(conj(y))))", positive, complex)
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
unary("round", "Rounds to the nearest whole number, halves to the even one.", "zero", nil, rounding)
unary("trunc", "Rounds toward zero.", "zero", nil, rounding)
unary("frac", "What `trunc` takes away.", "g", nil, { int_to_float = false })

-- Exponentials and logarithms.
unary("exp", "e raised to each element.", "mul(g, conj(y))", nil, complex)
unary("exp2", "2 raised to each element.", "mul(g, mul(y, 0.6931471805599453))")
unary("expm1", "`exp(x) - 1`, exact for small `x`.", "mul(g, add(y, 1.0))")
unary("log", "The natural logarithm.", "div(g, conj(x))", positive, complex)
unary("log2", "The logarithm to base 2.", "div(g, mul(x, 0.6931471805599453))", positive)
unary("log10", "The logarithm to base 10.", "div(g, mul(x, 2.302585092994046))", positive)
unary("log1p", "`log(1 + x)`, exact for small `x`.", "div(g, add(x, 1.0))", positive)
op { "logaddexp(Tensor x, Tensor other) -> Tensor",
     kind = "pointwise", dtypes = "floating",
     grad = { x = "mul(g, sigmoid(sub(x, other)))", other = "mul(g, sigmoid(sub(other, x)))" },
     doc = "`log(exp(x) + exp(other))` without overflow: for adding two probabilities.",
     sample = { pair[1], pair[2] } }

-- Trigonometry, in radians.
unary("sin", "The sine.", "mul(g, conj(cos(x)))", nil, complex)
unary("cos", "The cosine.", "neg(mul(g, conj(sin(x))))", nil, complex)
unary("tan", "The tangent.", "mul(g, add(square(y), 1.0))", inside)
unary("asin", "The arc sine.", "mul(g, rsqrt(sub(1.0, square(x))))", inside)
unary("acos", "The arc cosine.", "neg(mul(g, rsqrt(sub(1.0, square(x)))))", inside)
unary("atan", "The arc tangent.", "div(g, add(square(x), 1.0))")
unary("sinh", "The hyperbolic sine.", "mul(g, cosh(x))")
unary("cosh", "The hyperbolic cosine.", "mul(g, sinh(x))")
unary("tanh", "The hyperbolic tangent.", "tanh_backward(g, y)")
op { "tanh_backward(Tensor grad, Tensor result) -> Tensor",
     kind = "pointwise", dtypes = "floating", inplace = false, method = false,
     grad = { grad = "tanh_backward(g, result)", result = "mul(mul(g, grad), mul(result, -2.0))" },
     doc = "The gradient of `tanh` from that of its result.", sample = { "randn(3, 4), randn(3, 4)" },
     torch = "torch.ops.aten.tanh_backward(*args)" }
unary("asinh", "The inverse hyperbolic sine.", "mul(g, rsqrt(add(square(x), 1.0)))")
unary("acosh", "The inverse hyperbolic cosine.", "mul(g, rsqrt(sub(square(x), 1.0)))", "rand(3, 4) + 1.5")
unary("atanh", "The inverse hyperbolic tangent.", "div(g, sub(1.0, square(x)))", inside)
op { "atan2(Tensor x, Tensor other) -> Tensor",
     kind = "pointwise", autocast = { cuda = "promote" }, dtypes = "floating", int_to_float = true,
     grad = { x = "mul(g, div(other, add(square(x), square(other))))",
              other = "neg(mul(g, div(x, add(square(x), square(other)))))" },
     doc = "The angle of the point (`other`, `x`), from -pi to pi.", sample = { pair[1], pair[2] } }
op { "hypot(Tensor x, Tensor other) -> Tensor",
     kind = "pointwise", dtypes = "floating",
     grad = { x = "mul(g, div(x, y))", other = "mul(g, div(other, y))" },
     doc = "`sqrt(x^2 + other^2)` without overflow.", sample = { pair[1], pair[2] } }
unary("erf", "The error function.", "mul(g, mul(exp(neg(square(x))), 1.1283791670955126))")
unary("erfc", "`1 - erf(x)`, exact for large `x`.", "mul(g, mul(exp(neg(square(x))), -1.1283791670955126))")

-- Complex numbers.
op { "conj(Tensor x) -> Tensor", kind = "composite", dtypes = "all",
     doc = "The complex conjugate; a real tensor is returned as it is.", sample = { "randn(3, 4)" } }
op { "conj_physical(Tensor x) -> Tensor",
     kind = "pointwise", functor = "Conj", dtypes = "complex", grad = { x = "conj_physical(g)" },
     doc = "The complex conjugate of a complex tensor.", sample = { "view_as_complex(randn(3, 4, 2))" } }
op { "real(Tensor x) -> Tensor",
     kind = "composite", dtypes = "all",
     doc = "The real parts of a complex tensor, as a view; a real tensor is returned as it is.",
     sample = { "view_as_complex(randn(3, 4, 2))", "randn(3, 4)" } }
op { "imag(Tensor x) -> Tensor",
     kind = "composite", dtypes = "complex",
     doc = "The imaginary parts of a complex tensor, as a view.", sample = { "view_as_complex(randn(3, 4, 2))" } }
op { "angle(Tensor x) -> Tensor",
     kind = "pointwise", dtypes = "floating + complex", int_to_float = true, result = "real", inplace = false,
     grad = { x = "angle_grad(g, x)" },
     doc = "The angle of each element in the complex plane, from -pi to pi: 0 or pi for a real one.",
     sample = { "view_as_complex(randn(3, 4, 2))", "randn(3, 4)", "tensor({-2, 0, 3})" } }

-- Bits.
local bits = { "randint(0, 50, {3, 4}), randint(0, 50, {3, 4})", "randint(0, 50, {3, 4}), 6" }
local function bitwise(name, meta, symbol, dtypes)
  binary(name, ("`x %s other` on the bits of integers."):format(symbol), nil, bits, { dtypes = dtypes, meta = meta })
end
bitwise("bitwise_and", "__band", "&", "integral + boolean")
bitwise("bitwise_or", "__bor", "|", "integral + boolean")
bitwise("bitwise_xor", "__bxor", "~", "integral + boolean")
local shifts = { "randint(0, 50, {3, 4}), randint(0, 5, {3, 4})", "randint(0, 50, {3, 4}), 2" }
binary("bitwise_left_shift", "`x << other`; 0 when no bit is left.", nil, shifts, { dtypes = "integral", meta = "__shl" })
binary("bitwise_right_shift", "`x >> other`, keeping the sign.", nil, shifts, { dtypes = "integral", meta = "__shr" })
op { "bitwise_not(Tensor x) -> Tensor", inplace = true, out = true, kind = "composite", dtypes = "integral + boolean", meta = "__bnot",
     doc = "`~x` on the bits of integers; for bool, `not`.", sample = { "randint(0, 50, {3, 4})" } }
op { "bitwise_invert(Tensor x) -> Tensor",
     kind = "pointwise", dtypes = "integral",
     doc = "`~x` on the bits of integers.", sample = { "randint(0, 50, {3, 4})" }, torch = "torch.bitwise_not(*args)" }

-- Truth values: zero is false, everything else true.
local truths = { "randint(0, 2, {3, 4}), randint(0, 2, {3, 4})", "randint(0, 2, {3, 4}), randint(0, 2, {4})" }
local function logical(name, word)
  op { ("%s(Tensor x, Tensor other) -> Tensor"):format(name),
       kind = "pointwise", dtypes = "all", result = "bool", inplace = "stored",
       doc = ("True where `x` %s `other` is true; zero is false."):format(word), sample = truths }
end
logical("logical_and", "and")
logical("logical_or", "or")
logical("logical_xor", "or, but not both, ")
op { "logical_not(Tensor x) -> Tensor",
     kind = "pointwise", dtypes = "all", result = "bool", inplace = "stored",
     doc = "True where `x` is zero or false.", sample = { "randint(0, 2, {3, 4})" } }
