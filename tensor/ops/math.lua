-- tensor/ops/math.lua: exponentials, logarithms, trigonometry, the error function.

local rows = require "tensor.ops.gen.pointwise_rows"

local function unary(...) op(rows.unary(...)) end

local complex = { dtypes = "floating + complex" }
local pair = { "randn(3, 4), randn(3, 4)", "randn(3, 4), randn(4)", "randn(3, 4), 2.5" }
local both = rows.with_complex
local positive = both "rand(3, 4) + 0.5"
local inside = both "rand(3, 4) * 1.6 - 0.8"

-- `extra` with another name of the op.
local function also(alias, extra)
  local out = { alias = { alias } }
  for key, value in pairs(extra) do out[key] = value end
  return out
end

-- Exponentials and logarithms.
unary("exp", { "Exponential function of each element.",
    formula = "y = e^x",
    example = "ml.exp(ml.tensor {0.0, 1, -1})",
    gives = [[
{1.0000, 2.7183, 0.3679}
Tensor (3,) float32]] }, "mul(g, conj(y))", both(), rows.widened(complex))
unary("exp2", { "Power of 2 with each element as exponent.",
    formula = "y = 2^x",
    example = "ml.exp2(ml.tensor {0.0, 3, -1})",
    gives = [[
{1.0000, 8.0000, 0.5000}
Tensor (3,) float32]] }, "mul(g, mul(conj(y), 0.6931471805599453))", both(),
  also("special.exp2", complex))
unary("expm1", { "Exponential function less 1, accurate for small `x`.",
    formula = "y = e^x - 1",
    example = "ml.expm1(ml.tensor {0.0, 1e-6, 1})",
    gives = [[
{0.0000e+00, 1.0000e-06, 1.7183e+00}
Tensor (3,) float32]] }, "mul(g, conj(add(y, 1.0)))", both(),
  also("special.expm1", rows.widened(complex)))
unary("log", { [[Natural logarithm of each element; minus infinity at 0, NaN below. Of complex elements the
principal value.]],
    formula = "y = ln(x)",
    example = "ml.log(ml.tensor {1.0, 2, 0})",
    gives = [[
{0.0000, 0.6931,   -inf}
Tensor (3,) float32]] }, "div(g, conj(x))", positive, rows.widened(complex))
unary("log2", { "Logarithm to base 2 of each element; minus infinity at 0, NaN below.",
    formula = "y = log_2(x)",
    example = "ml.log2(ml.tensor {1.0, 3, 8})",
    gives = [[
{0.0000, 1.5850, 3.0000}
Tensor (3,) float32]] }, "div(g, mul(conj(x), 0.6931471805599453))", positive, rows.widened(complex))
unary("log10", { "Logarithm to base 10 of each element; minus infinity at 0, NaN below.",
    formula = "y = log_10(x)",
    example = "ml.log10(ml.tensor {1.0, 2, 1000})",
    gives = [[
{0.0000, 0.3010, 3.0000}
Tensor (3,) float32]] }, "div(g, mul(conj(x), 2.302585092994046))", positive, rows.widened(complex))
unary("log1p", { "Natural logarithm of `1 + x`, accurate for small `x`; minus infinity at -1, NaN below.",
    formula = "y = ln(1 + x)",
    example = "ml.log1p(ml.tensor {0.0, 1e-6, 1})",
    gives = [[
{0.0000e+00, 1.0000e-06, 6.9315e-01}
Tensor (3,) float32]] }, "div(g, conj(add(x, 1.0)))", positive,
  also("special.log1p", rows.widened(complex)))
op { "logaddexp(Tensor x, Tensor other) -> Tensor",
     kind = "pointwise", dtypes = "floating + complex",
     grad = { x = "mul(g, conj(sigmoid(masked_fill(sub(x, other), eq(y, -HUGE_VAL), -HUGE_VAL))))",
              other = "mul(g, conj(sigmoid(masked_fill(sub(other, x), eq(y, -HUGE_VAL), -HUGE_VAL))))" },
     doc = [[Logarithm of the sum of two exponentials, without overflow: adds two probabilities given by
their logarithms. Shapes broadcast. The gradient where the result is minus infinity is 0.]],
     formula = "y = ln(exp(x) + exp(other))",
     example = "ml.logaddexp(ml.tensor {1000.0}, ml.tensor {1000.0})",
     gives = [[
{1000.6932}
Tensor (1,) float32]],
     sample = { pair[1], pair[2], "complex(randn(3, 4), rand(3, 4)), complex(randn(4), rand(4))" } }
op { "logaddexp2(Tensor x, Tensor other) -> Tensor",
     kind = "pointwise", dtypes = "floating",
     grad = { x = [[mul(g, sigmoid(mul(masked_fill(sub(x, other), eq(y, -HUGE_VAL), -HUGE_VAL),
                               0.6931471805599453)))]],
              other = [[mul(g, sigmoid(mul(masked_fill(sub(other, x), eq(y, -HUGE_VAL), -HUGE_VAL),
                               0.6931471805599453)))]] },
     doc = [[Logarithm to base 2 of the sum of two powers of 2, without overflow. Shapes broadcast. The
gradient where the result is minus infinity is 0.]],
     formula = "y = log_2(2^x + 2^other)",
     example = "ml.logaddexp2(ml.tensor {0.0, 10}, ml.tensor {0.0, 9})",
     gives = [[
{ 1.0000, 10.5850}
Tensor (2,) float32]],
     sample = { pair[1], pair[2], "tensor{1 / 0, -1 / 0, 500.0}, tensor{1 / 0, -1 / 0, 2.0}" },
     check = { grad = "a sample has infinities" } }

-- Trigonometry, in radians.
unary("sin", { "Sine of each element, an angle in radians.",
    formula = "y = sin(x)",
    example = "ml.sin(ml.tensor {0, math.pi / 6, 1.0})",
    gives = [[
{0.0000, 0.5000, 0.8415}
Tensor (3,) float32]] }, "mul(g, conj(cos(x)))", both(), complex)
unary("cos", { "Cosine of each element, an angle in radians.",
    formula = "y = cos(x)",
    example = "ml.cos(ml.tensor {0, math.pi / 6, 1.0})",
    gives = [[
{1.0000, 0.8660, 0.5403}
Tensor (3,) float32]] }, "neg(mul(g, conj(sin(x))))", both(), complex)
unary("tan", { "Tangent of each element, an angle in radians.",
    formula = "y = tan(x)",
    example = "ml.tan(ml.tensor {0, math.pi / 6, 1.0})",
    gives = [[
{0.0000, 0.5774, 1.5574}
Tensor (3,) float32]] }, "mul(g, conj(add(square(y), 1.0)))", inside, rows.widened(complex))
unary("asin", { "Inverse sine of each element, in radians from -pi / 2 to pi / 2; NaN outside of -1 to 1.",
    formula = "y = arcsin(x)",
    example = "ml.asin(ml.tensor {0.0, 0.5, 2})",
    gives = [[
{0.0000, 0.5236,    nan}
Tensor (3,) float32]] }, "mul(g, conj(rsqrt(sub(1.0, square(x)))))", inside,
  also("arcsin", rows.widened(complex)))
unary("acos", { "Inverse cosine of each element, in radians from 0 to pi; NaN outside of -1 to 1.",
    formula = "y = arccos(x)",
    example = "ml.acos(ml.tensor {1.0, 0.5, 2})",
    gives = [[
{0.0000, 1.0472,    nan}
Tensor (3,) float32]] }, "neg(mul(g, conj(rsqrt(sub(1.0, square(x))))))", inside,
  also("arccos", rows.widened(complex)))
unary("atan", { "Inverse tangent of each element, in radians from -pi / 2 to pi / 2.",
    formula = "y = arctan(x)",
    example = "ml.atan(ml.tensor {0.0, 1, -1e9})",
    gives = [[
{ 0.0000,  0.7854, -1.5708}
Tensor (3,) float32]] }, "div(g, conj(add(square(x), 1.0)))", both(), also("arctan", complex))
unary("sinh", { "Hyperbolic sine of each element.",
    formula = "y = (exp(x) - exp(-x)) / 2",
    example = "ml.sinh(ml.tensor {0.0, 1, -1})",
    gives = [[
{ 0.0000,  1.1752, -1.1752}
Tensor (3,) float32]] }, "mul(g, conj(cosh(x)))", both(), rows.widened(complex))
unary("cosh", { "Hyperbolic cosine of each element.",
    formula = "y = (exp(x) + exp(-x)) / 2",
    example = "ml.cosh(ml.tensor {0.0, 1, -1})",
    gives = [[
{1.0000, 1.5431, 1.5431}
Tensor (3,) float32]] }, "mul(g, conj(sinh(x)))", both(), rows.widened(complex))
unary("tanh", { "Hyperbolic tangent of each element, from -1 to 1.",
    formula = "y = (exp(x) - exp(-x)) / (exp(x) + exp(-x))",
    example = "ml.tanh(ml.tensor {0.0, 1, -20})",
    gives = [[
{ 0.0000,  0.7616, -1.0000}
Tensor (3,) float32]] }, "tanh_grad_x(g, y)", both(), complex)
op { "tanh_grad_x(Tensor grad, Tensor result) -> Tensor",
     kind = "pointwise", dtypes = "floating + complex", inplace = false, internal = true,
     grad = { grad = "tanh_grad_x(g, conj(result))", result = "mul(conj(g), mul(mul(conj(result), -2.0), grad))" },
     doc = "The gradient of `tanh` from that of its result.", sample = both(pair[1], "complex(randn(3, 4), randn(3, 4)), complex(randn(3, 4), randn(3, 4))"),
     torch = "torch.ops.aten.tanh_backward(*args)" }
unary("asinh", { "Inverse hyperbolic sine of each element.",
    formula = "y = ln(x + sqrt(x^2 + 1))",
    example = "ml.asinh(ml.tensor {0.0, 1, -1})",
    gives = [[
{ 0.0000,  0.8814, -0.8814}
Tensor (3,) float32]] }, "mul(g, conj(rsqrt(add(square(x), 1.0))))", both(),
  also("arcsinh", complex))
unary("acosh", { "Inverse hyperbolic cosine of each element; NaN below 1.",
    formula = "y = ln(x + sqrt(x^2 - 1))",
    example = "ml.acosh(ml.tensor {1.0, 2, 0})",
    gives = [[
{0.0000, 1.3170,    nan}
Tensor (3,) float32]] }, "div(g, conj(mul(sqrt(sub(x, 1.0)), sqrt(add(x, 1.0)))))", both "rand(3, 4) + 1.5", also("arccosh", complex))
unary("atanh", { "Inverse hyperbolic tangent of each element; infinite at -1 and 1, NaN outside.",
    formula = "y = ln((1 + x) / (1 - x)) / 2",
    example = "ml.atanh(ml.tensor {0.0, 0.5, 1})",
    gives = [[
{0.0000, 0.5493,    inf}
Tensor (3,) float32]] }, "div(g, conj(sub(1.0, square(x))))", inside, also("arctanh", complex))
op { "deg2rad(Tensor x) -> Tensor", inplace = true, out = true, kind = "composite", dtypes = "all",
     doc = "Angles in degrees as radians.",
     args = { x = "angles in degrees" },
     shapes = "x (*) -> (*)",
     formula = "y = x * pi / 180",
     example = "ml.deg2rad(ml.tensor {90.0, 180})",
     gives = [[
{1.5708, 3.1416}
Tensor (2,) float32]],
     sample = { "randn(3, 4) * 90", "randint(0, 360, {3, 4})" } }
op { "rad2deg(Tensor x) -> Tensor", inplace = true, out = true, kind = "composite", dtypes = "all",
     doc = "Angles in radians as degrees.",
     args = { x = "angles in radians" },
     shapes = "x (*) -> (*)",
     formula = "y = x * 180 / pi",
     example = "ml.rad2deg(ml.tensor {1.0, math.pi / 2})",
     gives = [[
{57.2958, 90.0000}
Tensor (2,) float32]],
     sample = { "randn(3, 4)", "randint(0, 6, {3, 4})" } }
op { "atan2(Tensor x, Tensor other) -> Tensor",
     kind = "pointwise", autocast = { device = "promote" }, dtypes = "floating", int_to_float = true,
     grad = { x = [[atan2_grad_x(where(logical_or(x, other), g, 0.0), x, where(logical_or(x, other), other, 1.0))]],
              other = [[neg(atan2_grad_x(where(logical_or(x, other), g, 0.0), other,
                            where(logical_or(x, other), x, 1.0)))]] },
     alias = { "arctan2" },
     doc = [[Angle of the point (`other`, `x`) in the plane, in radians from -pi to pi; shapes
broadcast. The gradients at (0, 0) are 0.]],
     args = { x = "the ordinates", other = "the abscissas" },
     formula = "y = arctan(x / other)",
     example = "ml.atan2(ml.tensor {1.0, -1}, ml.tensor {1.0, -1})",
     gives = [[
{ 0.7854, -2.3562}
Tensor (2,) float32]],
     sample = { pair[1], pair[2] } }
op { "atan2_grad_x(Tensor grad, Tensor x, Tensor other) -> Tensor",
     kind = "pointwise", dtypes = "floating", int_to_float = true, inplace = false, internal = true,
     grad = { grad = "atan2_grad_x(g, x, other)",
              ["x, other"] = "atan2_grad_x_grads(mul(g, grad), x, other)" },
     doc = "The gradient of `atan2` from that of its result: `grad * other / (x^2 + other^2)`.",
     sample = { "randn(3, 4), randn(3, 4), randn(3, 4)", "randn(3, 4), randn(3, 4), randn(4)" },
     torch = "args[0] * args[2] / (args[1] ** 2 + args[2] ** 2)" }
op { "hypot(Tensor x, Tensor other) -> Tensor",
     kind = "pointwise", dtypes = "floating",
     grad = { x = "mul(g, div(x, masked_fill(y, eq(y, 0.0), 1.0)))",
              other = "mul(g, div(other, masked_fill(y, eq(y, 0.0), 1.0)))" },
     doc = [[Length of the hypotenuse of a right triangle, without overflow; shapes broadcast. The
gradient where it is 0 is 0.]],
     formula = "y = sqrt(x^2 + other^2)",
     example = "ml.hypot(ml.tensor {3.0, 3e30}, ml.tensor {4.0, 4e30})",
     gives = [[
{5.0000e+00, 5.0000e+30}
Tensor (2,) float32]],
     sample = { pair[1], pair[2] } }
unary("erf", { "Error function of each element, from -1 to 1.",
    formula = "y = 2 / sqrt(pi) * int_0^x exp(-t^2) dt",
    example = "ml.erf(ml.tensor {0.0, 0.5, 3})",
    gives = [[
{0.0000, 0.5205, 1.0000}
Tensor (3,) float32]] }, "erf_grad_x(g, x)", nil,
  { alias = { "special.erf" } })
unary("erfc", { "Complementary error function of each element, accurate for large `x`.",
    formula = "y = 1 - erf(x)",
    example = "ml.erfc(ml.tensor {0.0, 0.5, 3})",
    gives = [[
{1.0000e+00, 4.7950e-01, 2.2090e-05}
Tensor (3,) float32]] }, "neg(erf_grad_x(g, x))",
  nil, { alias = { "special.erfc" } })
op { "erf_grad_x(Tensor grad, Tensor x) -> Tensor",
     kind = "pointwise", dtypes = "floating", inplace = false, internal = true,
     grad = { grad = "erf_grad_x(g, x)", x = "mul(erf_grad_x(mul(g, grad), x), mul(clamp(x, -200.0, 200.0), -2.0))" },
     doc = "The gradient of `erf` from that of its result.", sample = { pair[1] },
     torch = "args[0] * torch.exp(-args[1] ** 2) * 1.1283791670955126" }

-- The floats of a dtype.
op { "nextafter(Tensor x, Tensor other) -> Tensor",
     inplace = true, out = true, kind = "composite", dtypes = "floating",
     doc = "Next floating-point number of the dtype after `x` in the direction of `other`; shapes broadcast.",
     args = { other = "towards which number" },
     shapes = "x (*), other (*) -> (*)",
     example = "ml.nextafter(ml.tensor {1.0}, ml.tensor {2.0}) - 1",
     gives = [[
{1.1921e-07}
Tensor (1,) float32]],
     sample = { "randn(3, 4), randn(4)", "tensor{0, 1, 1, -1 / 0, 2, 0 / 0}, tensor{-1, 2, 0.5, 0, 2, 1.0}" },
     check = { grad = "a difference of the rounding error", gradgrad = "a difference of the rounding error",
               dtypes = "each dtype has its own steps" } }
op { "nextafter_wide(Tensor x, Tensor other) -> Tensor",
     kind = "pointwise", dtypes = "floating", internal = true,
     grad = { x = "where(ne(x, other), g, 0.0)", other = "zero" },
     doc = "`nextafter` in the dtype of the computation, which for 16-bit floats is float32.",
     sample = { "randn(3, 4), randn(4)" }, torch = "torch.nextafter(*args)",
     check = { grad = "a difference of the rounding error", gradgrad = "a difference of the rounding error",
               dtypes = "each dtype has its own steps" } }
op { "nextafter_by(Tensor x, Tensor other, Scalar digits, Scalar smallest) -> Tensor",
     kind = "pointwise", dtypes = "floating", keeps_dtype = true, internal = true,
     grad = { x = "where(ne(x, other), g, 0.0)", other = "zero" },
     doc = [[`nextafter` in a narrow format with that many bits of mantissa and that smallest positive
number.]],
     sample = { "randn(3, 4), randn(4), 23, 1e-45" }, torch = "torch.nextafter(args[0], args[1])",
     check = { grad = "a difference of the rounding error", gradgrad = "a difference of the rounding error",
               dtypes = "each dtype has its own steps" } }
