-- tensor/ops/math.lua: exponentials, logarithms, trigonometry, the error function.

local rows = require "tensor.ops.gen.pointwise_rows"

local function unary(...) op(rows.unary(...)) end

local complex = { dtypes = "floating + complex" }
local pair = { "randn(3, 4), randn(3, 4)", "randn(3, 4), randn(4)", "randn(3, 4), 2.5" }
local positive = "rand(3, 4) + 0.5"
local inside = "rand(3, 4) * 1.6 - 0.8"

-- Exponentials and logarithms.
unary("exp", "e raised to each element.", "mul(g, conj(y))", nil, rows.widened(complex))
unary("exp2", "2 raised to each element.", "mul(g, mul(y, 0.6931471805599453))", nil, { alias = { "special.exp2" } })
unary("expm1", "`exp(x) - 1`, exact for small `x`.", "mul(g, add(y, 1.0))", nil,
  rows.widened { alias = { "special.expm1" } })
unary("log", "The natural logarithm.", "div(g, conj(x))", positive, rows.widened(complex))
unary("log2", "The logarithm to base 2.", "div(g, mul(x, 0.6931471805599453))", positive, rows.widened())
unary("log10", "The logarithm to base 10.", "div(g, mul(x, 2.302585092994046))", positive, rows.widened())
unary("log1p", "`log(1 + x)`, exact for small `x`.", "div(g, add(x, 1.0))", positive,
  rows.widened { alias = { "special.log1p" } })
op { "logaddexp(Tensor x, Tensor other) -> Tensor",
     kind = "pointwise", dtypes = "floating",
     grad = { x = "mul(g, sigmoid(sub(x, other)))", other = "mul(g, sigmoid(sub(other, x)))" },
     doc = "`log(exp(x) + exp(other))` without overflow: for adding two probabilities.",
     sample = { pair[1], pair[2] } }

-- Trigonometry, in radians.
unary("sin", "The sine.", "mul(g, conj(cos(x)))", nil, complex)
unary("cos", "The cosine.", "neg(mul(g, conj(sin(x))))", nil, complex)
unary("tan", "The tangent.", "mul(g, add(square(y), 1.0))", inside, rows.widened())
unary("asin", "The arc sine.", "mul(g, rsqrt(sub(1.0, square(x))))", inside, rows.widened())
unary("acos", "The arc cosine.", "neg(mul(g, rsqrt(sub(1.0, square(x)))))", inside, rows.widened())
unary("atan", "The arc tangent.", "div(g, add(square(x), 1.0))")
unary("sinh", "The hyperbolic sine.", "mul(g, cosh(x))", nil, rows.widened())
unary("cosh", "The hyperbolic cosine.", "mul(g, sinh(x))", nil, rows.widened())
unary("tanh", "The hyperbolic tangent.", "tanh_grad_x(g, y)")
op { "tanh_grad_x(Tensor grad, Tensor result) -> Tensor",
     kind = "pointwise", dtypes = "floating", inplace = false, internal = true,
     grad = { grad = "tanh_grad_x(g, result)", result = "mul(mul(g, grad), mul(result, -2.0))" },
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
unary("erf", "The error function.", "mul(g, mul(exp(neg(square(x))), 1.1283791670955126))", nil,
  { alias = { "special.erf" } })
unary("erfc", "`1 - erf(x)`, exact for large `x`.", "mul(g, mul(exp(neg(square(x))), -1.1283791670955126))",
  nil, { alias = { "special.erfc" } })
