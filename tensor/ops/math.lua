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
unary("exp", "e raised to each element.", "mul(g, conj(y))", both(), rows.widened(complex))
unary("exp2", "2 raised to each element.", "mul(g, mul(conj(y), 0.6931471805599453))", both(),
  also("special.exp2", complex))
unary("expm1", "`exp(x) - 1`, exact for small `x`.", "mul(g, conj(add(y, 1.0)))", both(),
  also("special.expm1", rows.widened(complex)))
unary("log", "The natural logarithm.", "div(g, conj(x))", positive, rows.widened(complex))
unary("log2", "The logarithm to base 2.", "div(g, mul(conj(x), 0.6931471805599453))", positive, rows.widened(complex))
unary("log10", "The logarithm to base 10.", "div(g, mul(conj(x), 2.302585092994046))", positive, rows.widened(complex))
unary("log1p", "`log(1 + x)`, exact for small `x`.", "div(g, conj(add(x, 1.0)))", positive,
  also("special.log1p", rows.widened(complex)))
op { "logaddexp(Tensor x, Tensor other) -> Tensor",
     kind = "pointwise", dtypes = "floating + complex",
     grad = { x = "mul(g, conj(sigmoid(masked_fill(sub(x, other), eq(y, -HUGE_VAL), -HUGE_VAL))))",
              other = "mul(g, conj(sigmoid(masked_fill(sub(other, x), eq(y, -HUGE_VAL), -HUGE_VAL))))" },
     doc = [[`log(exp(x) + exp(other))` without overflow: for adding two probabilities. The gradient where both
are 0, and the result is minus infinity, is 0.]],
     sample = { pair[1], pair[2], "complex(randn(3, 4), rand(3, 4)), complex(randn(4), rand(4))" } }
op { "logaddexp2(Tensor x, Tensor other) -> Tensor",
     kind = "pointwise", dtypes = "floating",
     grad = { x = [[mul(g, sigmoid(mul(masked_fill(sub(x, other), eq(y, -HUGE_VAL), -HUGE_VAL),
                               0.6931471805599453)))]],
              other = [[mul(g, sigmoid(mul(masked_fill(sub(other, x), eq(y, -HUGE_VAL), -HUGE_VAL),
                               0.6931471805599453)))]] },
     doc = "`log2(2^x + 2^other)` without overflow. The gradient where it is minus infinity is 0.",
     sample = { pair[1], pair[2], "tensor{1 / 0, -1 / 0, 500.0}, tensor{1 / 0, -1 / 0, 2.0}" },
     check = { grad = "a sample has infinities" } }

-- Trigonometry, in radians.
unary("sin", "The sine.", "mul(g, conj(cos(x)))", both(), complex)
unary("cos", "The cosine.", "neg(mul(g, conj(sin(x))))", both(), complex)
unary("tan", "The tangent.", "mul(g, conj(add(square(y), 1.0)))", inside, rows.widened(complex))
unary("asin", "The arc sine.", "mul(g, conj(rsqrt(sub(1.0, square(x)))))", inside,
  also("arcsin", rows.widened(complex)))
unary("acos", "The arc cosine.", "neg(mul(g, conj(rsqrt(sub(1.0, square(x))))))", inside,
  also("arccos", rows.widened(complex)))
unary("atan", "The arc tangent.", "div(g, conj(add(square(x), 1.0)))", both(), also("arctan", complex))
unary("sinh", "The hyperbolic sine.", "mul(g, conj(cosh(x)))", both(), rows.widened(complex))
unary("cosh", "The hyperbolic cosine.", "mul(g, conj(sinh(x)))", both(), rows.widened(complex))
unary("tanh", "The hyperbolic tangent.", "tanh_grad_x(g, y)", both(), complex)
op { "tanh_grad_x(Tensor grad, Tensor result) -> Tensor",
     kind = "pointwise", dtypes = "floating + complex", inplace = false, internal = true,
     grad = { grad = "tanh_grad_x(g, conj(result))", result = "mul(conj(g), mul(mul(conj(result), -2.0), grad))" },
     doc = "The gradient of `tanh` from that of its result.", sample = both(pair[1], "complex(randn(3, 4), randn(3, 4)), complex(randn(3, 4), randn(3, 4))"),
     torch = "torch.ops.aten.tanh_backward(*args)" }
unary("asinh", "The inverse hyperbolic sine.", "mul(g, conj(rsqrt(add(square(x), 1.0))))", both(),
  also("arcsinh", complex))
unary("acosh", "The inverse hyperbolic cosine.", "div(g, conj(mul(sqrt(sub(x, 1.0)), sqrt(add(x, 1.0)))))", both "rand(3, 4) + 1.5", also("arccosh", complex))
unary("atanh", "The inverse hyperbolic tangent.", "div(g, conj(sub(1.0, square(x))))", inside, also("arctanh", complex))
op { "deg2rad(Tensor x) -> Tensor", inplace = true, out = true, kind = "composite", dtypes = "all",
     doc = "Degrees as radians.", sample = { "randn(3, 4) * 90", "randint(0, 360, {3, 4})" } }
op { "rad2deg(Tensor x) -> Tensor", inplace = true, out = true, kind = "composite", dtypes = "all",
     doc = "Radians as degrees.", sample = { "randn(3, 4)", "randint(0, 6, {3, 4})" } }
op { "atan2(Tensor x, Tensor other) -> Tensor",
     kind = "pointwise", autocast = { device = "promote" }, dtypes = "floating", int_to_float = true,
     grad = { x = [[atan2_grad_x(where(logical_or(x, other), g, 0.0), x, where(logical_or(x, other), other, 1.0))]],
              other = [[neg(atan2_grad_x(where(logical_or(x, other), g, 0.0), other,
                            where(logical_or(x, other), x, 1.0)))]] },
     alias = { "arctan2" },
     doc = "The angle of the point (`other`, `x`), from -pi to pi. The gradients at (0, 0) are 0.", sample = { pair[1], pair[2] } }
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
     doc = "`sqrt(x^2 + other^2)` without overflow. The gradient where it is 0 is 0.", sample = { pair[1], pair[2] } }
unary("erf", "The error function.", "erf_grad_x(g, x)", nil,
  { alias = { "special.erf" } })
unary("erfc", "`1 - erf(x)`, exact for large `x`.", "neg(erf_grad_x(g, x))",
  nil, { alias = { "special.erfc" } })
op { "erf_grad_x(Tensor grad, Tensor x) -> Tensor",
     kind = "pointwise", dtypes = "floating", inplace = false, internal = true,
     grad = { grad = "erf_grad_x(g, x)", x = "mul(erf_grad_x(mul(g, grad), x), mul(clamp(x, -200.0, 200.0), -2.0))" },
     doc = "The gradient of `erf` from that of its result.", sample = { pair[1] },
     torch = "args[0] * torch.exp(-args[1] ** 2) * 1.1283791670955126" }

-- The floats of a dtype.
op { "nextafter(Tensor x, Tensor other) -> Tensor",
     inplace = true, out = true, kind = "composite", dtypes = "floating",
     doc = "The number of the dtype next to `x` in the direction of `other`.",
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
     doc = [[`nextafter` in a narrow format with that many digits behind the leading one and that smallest
positive number.]],
     sample = { "randn(3, 4), randn(4), 23, 1e-45" }, torch = "torch.nextafter(args[0], args[1])",
     check = { grad = "a difference of the rounding error", gradgrad = "a difference of the rounding error",
               dtypes = "each dtype has its own steps" } }
