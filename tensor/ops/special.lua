-- tensor/ops/special.lua: special functions: gamma, error, Bessel, Airy, orthogonal polynomials.

local rows = require "tensor.ops.gen.pointwise_rows"

-- A function of one tensor. `module` is set for the names that only ml.special has; they work on no
-- tensor in place.
local function unary(name, doc, grad, samples, extra)
  local row = rows.unary(name, doc, grad, nil, extra)
  row.sample = samples
  if name:find "^special_" then row.module, row.inplace = "special", false end
  op(row)
end

-- A function of two tensors or numbers, slow unless `extra` says not.
local function binary(name, signature, doc, grad, samples, extra)
  local row = rows.binary(name, doc, grad, samples, extra)
  row[1] = ("%s(%s) -> Tensor"):format(name, signature)
  row.dtypes, row.int_to_float = "floating", true
  row.slow = row.slow == nil and true or nil
  if name:find "^special_" then row.module, row.inplace = "special", false end
  op(row)
end

local real_line = { "randn(3, 4) * 3", "linspace(-40, 40, 17)", "tensor(2)" }
local positive_line = { "rand(3, 4) * 3 + 0.05", "linspace(0.25, 60, 17)" }

-- The gamma function.
unary("lgamma", "The logarithm of the gamma function's absolute value.", "mul(g, digamma(x))",
  { "rand(3, 4) * 3 + 0.1", "linspace(-3.6, 20, 20)" }, { alias = { "special.gammaln" } })
unary("digamma", "The derivative of `lgamma`. Minus infinity at 0, infinity at -0.0, NaN at negative whole numbers.",
  "mul(g, polygamma(x, 1))", { "rand(3, 4) * 3 + 0.1", "linspace(-3.6, 20, 20)" },
  { alias = { "special.digamma", "special.psi" } })
op { "polygamma(Tensor x, int n) -> Tensor",
     kind = "composite", dtypes = "floating", inplace = true, out = true, alias = { "special.polygamma" },
     doc = "The derivative of order `n` of `digamma`. `ml.polygamma(n, x)` is the same.",
     torch = "torch.polygamma(args[1], args[0])",
     sample = { "rand(3, 4) * 3 + 0.1, 0", "rand(3, 4) * 3 + 0.3, 1", "linspace(-3.6, 20, 20), 2", "rand(3, 4) + 1, 5" } }
op { "polygamma_of_order(int n, Tensor x) -> Tensor",
     kind = "composite", dtypes = "floating", out = true, overload_of = "polygamma", method = false,
     doc = "The derivative of order `n` of `digamma`.",
     torch = "torch.polygamma(*args)", sample = { "2, rand(3, 4) * 3 + 0.3" } }
op { "polygamma_above_0(Tensor x, Scalar n) -> Tensor",
     kind = "pointwise", slow = true, dtypes = "floating", int_to_float = true, keeps_dtype = true,
     inplace = false, internal = true, grad = { x = "mul(g, polygamma_above_0(x, n.to_double() + 1))" },
     doc = "`polygamma` of an order above 0.", torch = "torch.polygamma(args[1], args[0])",
     sample = { "rand(3, 4) * 3 + 0.3, 1", "rand(3, 4) * 4 - 3.5, 3", "rand(3, 4) * 3 + 0.5, 4" } }
op { "mvlgamma(Tensor x, int p) -> Tensor",
     kind = "composite", dtypes = "floating", inplace = true, out = true, alias = { "special.multigammaln" },
     doc = [[The logarithm of the multivariate gamma function of dimension `p`: `p * (p - 1) / 4 * log(pi)`
and the sum of `lgamma(x - k / 2)` for `k` from 0 to `p - 1`.]],
     sample = { "rand(3, 4) * 3 + 1.2, 3", "rand(3, 4) + 0.5, 1" } }
op { "igamma(Tensor x, Tensor other) -> Tensor",
     kind = "pointwise", slow = true, dtypes = "floating", alias = { "special.gammainc" }, constant = { "x" },
     grad = { x = 'not_differentiable("igamma", "x")', other = "igamma_grad_other(g, x, other)" },
     doc = [[The regularised lower incomplete gamma function: the integral of `t^(x - 1) * exp(-t)` from 0 to
`other`, divided by gamma of `x`. Both are at least 0. Differentiable by `other` only.]],
     sample = { "rand(3, 4) * 3 + 0.1, rand(3, 4) * 4 + 0.1", "rand(3, 4) * 300 + 50, rand(4) * 300 + 100",
       "tensor{0.01, 2, 150, 150, 1000}, tensor{0.3, 0.02, 100, 160, 980}" } }
op { "igammac(Tensor x, Tensor other) -> Tensor",
     kind = "pointwise", slow = true, dtypes = "floating", alias = { "special.gammaincc" }, constant = { "x" },
     grad = { x = 'not_differentiable("igammac", "x")', other = "neg(igamma_grad_other(g, x, other))" },
     doc = [[The regularised upper incomplete gamma function: `1 - igamma(x, other)`, exact where that is
small. Differentiable by `other` only.]],
     sample = { "rand(3, 4) * 3 + 0.1, rand(3, 4) * 4 + 0.1", "rand(3, 4) * 300 + 50, rand(4) * 300 + 100",
       "tensor{0.01, 2, 150, 150, 1000}, tensor{0.3, 0.02, 100, 160, 980}" } }
op { "standard_gamma_grad_concentration(Tensor grad, Tensor concentration, Tensor result) -> Tensor",
     kind = "pointwise", slow = true, dtypes = "floating", inplace = false, internal = true,
     constant = { "concentration", "result" },
     grad = { grad = "standard_gamma_grad_concentration(g, concentration, result)",
              concentration = 'not_differentiable("standard_gamma_grad", "concentration")',
              result = 'not_differentiable("standard_gamma_grad", "result")' },
     doc = [[The gradient of numbers of the gamma distribution by their concentration: they move so that
each keeps the probability of a number below it (Figurnov, Mohamed and Mnih, "Implicit
Reparameterization Gradients", 2018).]],
     torch = "standard_gamma_grad_ref(*args)",
     sample = { "randn(3, 4), rand(3, 4) * 3 + 0.05, rand(3, 4) * 4 + 0.05",
       "linspace(1, 2, 17), linspace(0.1, 60, 17), linspace(0.4, 55, 17)",
       "ones(6), tensor{0.05, 2, 30, 900, 8000, 50000}, tensor{0.2, 14, 70, 850, 8200, 50300}" } }
binary("special_zeta", "Operand x, Operand other",
  [[Hurwitz's zeta function: the sum of `(other + k)^-x` for `k` = 0, 1, ... `x` is at least 1; a negative
`other` takes a whole `x`. Differentiable by `other` only.]],
  { x = 'not_differentiable("special.zeta", "x")', other = "special_zeta_grad_other(g, x, other)" },
  { "rand(3, 4) * 3 + 1.2, rand(3, 4) * 4 + 0.2", "rand(3, 4) * 3 + 1.2, 1.5", "3, rand(4) + 0.5" },
  { constant = { "x" } })

-- The error function and the normal distribution.
unary("erfinv", "The inverse of `erf`.", "mul(g, mul(exp(square(y)), 0.886226925452758))",
  { "rand(3, 4) * 1.8 - 0.9", "linspace(-0.95, 0.95, 9)" }, rows.widened { alias = { "special.erfinv" } })
unary("special_erfcx", "`exp(x^2) * erfc(x)`, without overflow for large `x`.",
  "mul(g, sub(mul(mul(x, y), 2.0), 1.1283791670955126))", { "randn(3, 4)", "linspace(-1.5, 40, 17)" })
unary("special_ndtr", "The normal distribution function: the probability of a value up to `x`.",
  "mul(g, mul(exp(mul(square(x), -0.5)), 0.3989422804014327))", real_line)
unary("special_log_ndtr", "The logarithm of `ndtr`, without underflow.",
  "special_log_ndtr_grad_x(g, x)", real_line)
op { "special_log_ndtr_grad_x(Tensor grad, Tensor x) -> Tensor",
     kind = "pointwise", dtypes = "floating", int_to_float = true, inplace = false, internal = true,
     grad = { grad = "special_log_ndtr_grad_x(g, x)",
              x = "neg(mul(special_log_ndtr_grad_x(mul(g, grad), x), add(x, special_log_ndtr_grad_x(ones_like(x), x))))" },
     doc = "The gradient of `log_ndtr` from that of its result: the normal density over `ndtr`.",
     sample = { "randn(3, 4), randn(3, 4) * 3", "linspace(1, 2, 17), linspace(-40, 40, 17)" },
     torch = "args[0] * 0.7978845608028654 / torch.special.erfcx(args[1] * -0.7071067811865476)" }
unary("special_ndtri", "The inverse of `ndtr`: the quantile of the normal distribution.",
  "mul(g, mul(exp(mul(square(y), 0.5)), 2.5066282746310002))",
  { "rand(3, 4) * 0.9 + 0.05", "tensor{0.03, 0.24, 0.25, 0.26, 0.5, 0.74, 0.75, 0.76, 0.97}" })
op { "logit(Tensor x, float? eps=nil) -> Tensor",
     kind = "composite", dtypes = "floating", inplace = true, out = true, alias = { "special.logit" },
     doc = [[`log(x / (1 - x))`, the inverse of `sigmoid`; NaN outside of 0 to 1. With `eps`, `x` is limited to
`eps` to `1 - eps` before.]],
     sample = { "rand(3, 4) * 0.9 + 0.05", "randn(3, 4), 1e-3", "rand(3, 4), 0.2" } }
op { "logit_within(Tensor x, Scalar eps) -> Tensor",
     kind = "pointwise", functor = "Logit", dtypes = "floating", int_to_float = true, keeps_dtype = true,
     inplace = false, internal = true, grad = { x = "logit_grad_x(g, x, eps)" },
     doc = "`logit` with an `eps`, which limits nothing where it is negative.", torch = "torch.logit(args[0], args[1])",
     sample = { "rand(3, 4) * 0.9 + 0.05, -1.0", "rand(3, 4), 0.25" } }
op { "logit_grad_x(Tensor grad, Tensor x, Scalar eps) -> Tensor",
     kind = "pointwise", dtypes = "floating", keeps_dtype = true, inplace = false, internal = true,
     grad = { grad = "logit_grad_x(g, x, eps)",
              x = "mul(logit_grad_x(mul(g, grad), x, eps), logit_grad_x(sub(mul(x, 2.0), 1.0), x, eps))" },
     doc = "The gradient of `logit_within` from that of its result.",
     torch = "torch.ops.aten.logit_backward(args[0], args[1], args[2] if args[2] >= 0 else None)",
     sample = { "randn(3, 4), rand(3, 4) * 0.9 + 0.05, -1.0", "randn(3, 4), rand(3, 4), 0.25" } }

-- Logarithms with a factor.
binary("xlogy", "Operand x, Operand other", "`x * log(other)`, and 0 where `x` is 0.",
  { x = "xlogy_grad_x(g, x, other)", other = "xlogy_grad_other(g, x, other)" },
  { "randn(3, 4), rand(3, 4) + 0.2", "rand(3, 4) + 0.2, 2.5", "2, rand(4) + 0.5" },
  { slow = false, alias = { "special.xlogy" } })
binary("special_xlog1py", "Operand x, Operand other", "`x * log1p(other)`, and 0 where `x` is 0.",
  { x = "special_xlog1py_grad_x(g, x, other)", other = "special_xlog1py_grad_other(g, x, other)" },
  { "randn(3, 4), rand(3, 4) - 0.5", "rand(3, 4) + 0.2, 2.5", "2, rand(4) + 0.5" }, { slow = false })
unary("special_entr", "`-x * log(x)`: 0 at 0, minus infinity below.", "mul(g, sub(-1.0, log(x)))",
  { "rand(3, 4) * 3 + 0.1" })
unary("sinc", "`sin(pi * x) / (pi * x)`, and 1 at 0.", "sinc_grad_x(g, x, y)",
  { "randn(3, 4)", "tensor{-2.5, -1, -0.25, 0.5, 30.25}", "view_as_complex(randn(3, 4, 2))" },
  { dtypes = "floating + complex", alias = { "special.sinc" } })

-- Bessel and Airy functions.
unary("i0", "The modified Bessel function of the first kind of order 0.", "mul(g, special_i1(x))",
  { "randn(3, 4) * 3", "linspace(-9, 9, 17)" }, { alias = { "special.i0", "special.modified_bessel_i0" } })
unary("special_i0e", "`exp(-|x|) * i0(x)`.", "mul(g, sub(special_i1e(x), mul(sgn(x), y)))",
  { "randn(3, 4) * 3", "linspace(-40, 40, 16)" })
unary("special_i1", "The modified Bessel function of the first kind of order 1.", "special_i1_grad_x(g, x, y)",
  { "randn(3, 4) * 3", "linspace(-9, 9, 17)" }, { alias = { "special.modified_bessel_i1" } })
unary("special_i1e", "`exp(-|x|) * i1(x)`.", "special_i1e_grad_x(g, x, y)",
  { "randn(3, 4) * 3", "linspace(-40, 40, 16)" })
unary("special_modified_bessel_k0", "The modified Bessel function of the second kind of order 0; NaN below 0.",
  "neg(mul(g, special_modified_bessel_k1(x)))", positive_line)
unary("special_modified_bessel_k1", "The modified Bessel function of the second kind of order 1; NaN below 0.",
  "neg(mul(g, add(special_modified_bessel_k0(x), div(y, x))))", positive_line)
unary("special_scaled_modified_bessel_k0", "`exp(x) * modified_bessel_k0(x)`.", nil, positive_line)
unary("special_scaled_modified_bessel_k1", "`exp(x) * modified_bessel_k1(x)`.", nil, positive_line)
unary("special_bessel_j0", "The Bessel function of the first kind of order 0.",
  "neg(mul(g, special_bessel_j1(x)))", real_line)
unary("special_bessel_j1", "The Bessel function of the first kind of order 1.",
  "special_bessel_j1_grad_x(g, x, y)", { "randn(3, 4) * 3", "linspace(-40, 40, 16)" })
unary("special_bessel_y0", "The Bessel function of the second kind of order 0; NaN below 0.",
  "neg(mul(g, special_bessel_y1(x)))", positive_line)
unary("special_bessel_y1", "The Bessel function of the second kind of order 1; NaN below 0.",
  "mul(g, sub(special_bessel_y0(x), div(y, x)))", positive_line)
unary("special_spherical_bessel_j0", "The spherical Bessel function of the first kind of order 0: `sin(x) / x`, and 1 at 0.",
  nil, real_line)
unary("special_airy_ai", "The Airy function Ai.", nil, { "randn(3, 4) * 3", "linspace(-40, 12, 27)" })

-- Orthogonal polynomials.
local orders = " A number as order is rounded toward zero; a negative one gives 0."
local samples = { "randn(3, 4), 3",
  "rand(3, 4) * 2 - 1, tensor{0, 1, 7, 20}", "linspace(-1.5, 1.5, 13), 11", "0.3, tensor{-1, 2, 12}" }
for _, form in ipairs { { "t", "first" }, { "u", "second" }, { "v", "third" }, { "w", "fourth" } } do
  local letter, kind = form[1], form[2]
  binary("special_chebyshev_polynomial_" .. letter, "Operand x, Operand n",
    ("The Chebyshev polynomial of the %s kind of order `n`."):format(kind) .. orders, nil, samples)
  binary("special_shifted_chebyshev_polynomial_" .. letter, "Operand x, Operand n",
    ("The Chebyshev polynomial of the %s kind of order `n`, at `2 * x - 1`."):format(kind) .. orders, nil,
    { "rand(3, 4), tensor{0, 1, 7, 10}", "linspace(-0.25, 1.25, 13), 9", "0.3, tensor{2, 12}" })
end
local low = { "randn(3, 4), 3",
  "rand(3, 4) * 2 - 1, tensor{0, 1, 3, 6}", "linspace(-1.5, 1.5, 13), 5", "0.3, tensor{2, 4, 6}" }
binary("special_hermite_polynomial_h", "Operand x, Operand n",
  "The Hermite polynomial of the physicists of order `n`, at most 512: more gives NaN." .. orders, nil, low)
binary("special_hermite_polynomial_he", "Operand x, Operand n",
  "The Hermite polynomial of the probabilists of order `n`, at most 512: more gives NaN." .. orders, nil, low)
binary("special_laguerre_polynomial_l", "Operand x, Operand n",
  "The Laguerre polynomial of order `n`, at most 65536: more gives NaN." .. orders, nil, samples)
binary("special_legendre_polynomial_p", "Operand x, Operand n",
  "The Legendre polynomial of order `n`, at most 65536: more gives NaN." .. orders, nil, samples)
