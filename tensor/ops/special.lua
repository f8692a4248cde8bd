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
unary("lgamma", { "Natural logarithm of the absolute value of the gamma function. Infinite at 0 and at negative integers.",
    formula = "y = ln(abs(gamma(x)))",
    example = "ml.lgamma(ml.tensor {0.5, 1, 5})",
    gives = [[
{0.5724, 0.0000, 3.1781}
Tensor (3,) float32]] }, "mul(g, digamma(x))",
  { "rand(3, 4) * 3 + 0.1", "linspace(-3.6, 20, 20)" }, { alias = { "special.gammaln" } })
unary("digamma", { [[Digamma function, the derivative of `lgamma`. Minus infinity at 0, infinity at -0.0, NaN at
negative integers.]],
    formula = "y = d/dx ln(gamma(x))",
    example = "ml.digamma(ml.tensor {0.5, 1, 5})",
    gives = [[
{-1.9635, -0.5772,  1.5061}
Tensor (3,) float32]] },
  "mul(g, polygamma(x, 1))", { "rand(3, 4) * 3 + 0.1", "linspace(-3.6, 20, 20)" },
  { alias = { "special.digamma", "special.psi" } })
op { "polygamma(Tensor x, int n) -> Tensor",
     kind = "composite", dtypes = "floating", inplace = true, out = true, alias = { "special.polygamma" },
     doc = "Polygamma function: the derivative of order `n` of `digamma`. `ml.polygamma(n, x)` is the same.",
     args = { n = "the order, not negative" },
     shapes = "x (*) -> (*)",
     errors = "a negative order",
     example = "ml.polygamma(ml.tensor {1.0, 2}, 1)",
     gives = [[
{1.6449, 0.6449}
Tensor (2,) float32]],
     torch = "torch.polygamma(args[1], args[0])",
     sample = { "rand(3, 4) * 3 + 0.1, 0", "rand(3, 4) * 3 + 0.3, 1", "linspace(-3.6, 20, 20), 2", "rand(3, 4) + 1, 5" } }
op { "polygamma_of_order(int n, Tensor x) -> Tensor",
     kind = "composite", dtypes = "floating", out = true, overload_of = "polygamma", method = false,
     doc = "Polygamma function with the order as the first argument, as in PyTorch.",
     args = { n = "the order, not negative" },
     shapes = "x (*) -> (*)",
     example = "ml.polygamma(1, ml.tensor {1.0, 2})",
     gives = [[
{1.6449, 0.6449}
Tensor (2,) float32]],
     torch = "torch.polygamma(*args)", sample = { "2, rand(3, 4) * 3 + 0.3" } }
op { "polygamma_above_0(Tensor x, Scalar n) -> Tensor",
     kind = "pointwise", slow = true, dtypes = "floating", int_to_float = true, keeps_dtype = true,
     inplace = false, internal = true, grad = { x = "mul(g, polygamma_above_0(x, n.to_double() + 1))" },
     doc = "`polygamma` of an order above 0.", torch = "torch.polygamma(args[1], args[0])",
     sample = { "rand(3, 4) * 3 + 0.3, 1", "rand(3, 4) * 4 - 3.5, 3", "rand(3, 4) * 3 + 0.5, 4" } }
op { "mvlgamma(Tensor x, int p) -> Tensor",
     kind = "composite", dtypes = "floating", inplace = true, out = true, alias = { "special.multigammaln" },
     doc = "Natural logarithm of the multivariate gamma function; `x` is greater than `(p - 1) / 2`.",
     args = { p = "the dimension, at least 1" },
     shapes = "x (*) -> (*)",
     formula = "y = p * (p - 1) / 4 * ln(pi) + sum_(k = 0)^(p - 1) ln(gamma(x - k / 2))",
     example = "ml.mvlgamma(ml.tensor {2.0, 3}, 2)",
     gives = [[
{0.4516, 1.5502}
Tensor (2,) float32]],
     sample = { "rand(3, 4) * 3 + 1.2, 3", "rand(3, 4) + 0.5, 1" } }
op { "igamma(Tensor x, Tensor other) -> Tensor",
     kind = "pointwise", slow = true, dtypes = "floating", alias = { "special.gammainc" }, constant = { "x" },
     grad = { x = 'not_differentiable("igamma", "x")', other = "igamma_grad_other(g, x, other)" },
     doc = [[Regularized lower incomplete gamma function. Both arguments are at least 0, else NaN.
Differentiable with respect to `other` only.]],
     args = { x = "the parameter", other = "the upper limit of the integral" },
     formula = "y = int_0^other t^(x - 1) * exp(-t) dt / gamma(x)",
     source = "Abramowitz and Stegun, 6.5.1",
     example = "ml.igamma(ml.tensor {1.0, 2}, ml.tensor {1.0, 2})",
     gives = [[
{0.6321, 0.5940}
Tensor (2,) float32]],
     sample = { "rand(3, 4) * 3 + 0.1, rand(3, 4) * 4 + 0.1", "rand(3, 4) * 300 + 50, rand(4) * 300 + 100",
       "tensor{0.01, 2, 150, 150, 1000}, tensor{0.3, 0.02, 100, 160, 980}" } }
op { "igammac(Tensor x, Tensor other) -> Tensor",
     kind = "pointwise", slow = true, dtypes = "floating", alias = { "special.gammaincc" }, constant = { "x" },
     grad = { x = 'not_differentiable("igammac", "x")', other = "neg(igamma_grad_other(g, x, other))" },
     doc = [[Regularized upper incomplete gamma function: `1 - igamma(x, other)`, accurate where that is
small. Differentiable with respect to `other` only.]],
     args = { x = "the parameter", other = "the lower limit of the integral" },
     formula = "y = int_other^inf t^(x - 1) * exp(-t) dt / gamma(x)",
     source = "Abramowitz and Stegun, 6.5.3",
     example = "ml.igammac(ml.tensor {1.0, 2}, ml.tensor {1.0, 20})",
     gives = [[
{3.6788e-01, 4.3284e-08}
Tensor (2,) float32]],
     sample = { "rand(3, 4) * 3 + 0.1, rand(3, 4) * 4 + 0.1", "rand(3, 4) * 300 + 50, rand(4) * 300 + 100",
       "tensor{0.01, 2, 150, 150, 1000}, tensor{0.3, 0.02, 100, 160, 980}" } }
op { "standard_gamma_grad_concentration(Tensor grad, Tensor concentration, Tensor result) -> Tensor",
     kind = "pointwise", slow = true, dtypes = "floating", inplace = false, internal = true,
     constant = { "concentration", "result" },
     grad = { grad = "standard_gamma_grad_concentration(g, concentration, result)",
              concentration = 'not_differentiable("standard_gamma_grad", "concentration")',
              result = 'not_differentiable("standard_gamma_grad", "result")' },
     doc = [[The gradient of samples of the gamma distribution with respect to their concentration: they move so
that each keeps the probability of a number below it (Figurnov, Mohamed and Mnih, "Implicit
Reparameterization Gradients", 2018).]],
     torch = "standard_gamma_grad_ref(*args)",
     sample = { "randn(3, 4), rand(3, 4) * 3 + 0.05, rand(3, 4) * 4 + 0.05",
       "linspace(1, 2, 17), linspace(0.1, 60, 17), linspace(0.4, 55, 17)",
       "ones(6), tensor{0.05, 2, 30, 900, 8000, 50000}, tensor{0.2, 14, 70, 850, 8200, 50300}" } }
binary("special_zeta", "Operand x, Operand other",
  { [[Hurwitz zeta function. `x` is at least 1, else NaN; a negative `other` takes a whole `x`.
Differentiable with respect to `other` only.]],
    args = { x = "the exponent, a tensor or a number", other = "the shift, a tensor or a number" },
    formula = "y = sum_(k = 0)^inf 1 / (other + k)^x",
    example = "ml.special.zeta(ml.tensor {2.0, 4}, 1)",
    gives = [[
{1.6449, 1.0823}
Tensor (2,) float32]] },
  { x = 'not_differentiable("special.zeta", "x")', other = "special_zeta_grad_other(g, x, other)" },
  { "rand(3, 4) * 3 + 1.2, rand(3, 4) * 4 + 0.2", "rand(3, 4) * 3 + 1.2, 1.5", "3, rand(4) + 0.5" },
  { constant = { "x" } })

-- The error function and the normal distribution.
unary("erfinv", { "Inverse of the error function; infinite at -1 and 1, NaN outside.",
    formula = "erf(y) = x",
    example = "ml.erfinv(ml.tensor {0.0, 0.5, 1})",
    gives = [[
{0.0000, 0.4769,    inf}
Tensor (3,) float32]] }, "mul(g, mul(exp(square(y)), 0.886226925452758))",
  { "rand(3, 4) * 1.8 - 0.9", "linspace(-0.95, 0.95, 9)" }, rows.widened { alias = { "special.erfinv" } })
unary("special_erfcx", { "Scaled complementary error function, without overflow for large `x`.",
    formula = "y = exp(x^2) * erfc(x)",
    example = "ml.special.erfcx(ml.tensor {0.0, 1, 100})",
    gives = [[
{1.0000, 0.4276, 0.0056}
Tensor (3,) float32]] },
  "mul(g, sub(mul(mul(x, y), 2.0), 1.1283791670955126))", { "randn(3, 4)", "linspace(-1.5, 40, 17)" })
unary("special_ndtr", { "Distribution function of the standard normal distribution: the probability of a value up to `x`.",
    formula = "y = (1 + erf(x / sqrt(2))) / 2",
    example = "ml.special.ndtr(ml.tensor {0.0, 1.96})",
    gives = [[
{0.5000, 0.9750}
Tensor (2,) float32]] },
  "mul(g, mul(exp(mul(square(x), -0.5)), 0.3989422804014327))", real_line)
unary("special_log_ndtr", { [[Natural logarithm of the distribution function of the standard normal distribution, without
underflow for very negative `x`.]],
    formula = "y = ln((1 + erf(x / sqrt(2))) / 2)",
    example = "ml.special.log_ndtr(ml.tensor {-40.0, -20})",
    gives = [[
{-804.6085, -203.9172}
Tensor (2,) float32]] },
  "special_log_ndtr_grad_x(g, x)", real_line)
op { "special_log_ndtr_grad_x(Tensor grad, Tensor x) -> Tensor",
     kind = "pointwise", dtypes = "floating", int_to_float = true, inplace = false, internal = true,
     grad = { grad = "special_log_ndtr_grad_x(g, x)",
              x = "neg(mul(special_log_ndtr_grad_x(mul(g, grad), x), add(x, special_log_ndtr_grad_x(ones_like(x), x))))" },
     doc = "The gradient of `log_ndtr` from that of its result: the normal density over `ndtr`.",
     sample = { "randn(3, 4), randn(3, 4) * 3", "linspace(1, 2, 17), linspace(-40, 40, 17)" },
     torch = "args[0] * 0.7978845608028654 / torch.special.erfcx(args[1] * -0.7071067811865476)" }
unary("special_ndtri", { [[Quantile function of the standard normal distribution: the inverse of `ml.special.ndtr`.
Infinite at 0 and 1, NaN outside.]],
    formula = "y = sqrt(2) * erfinv(2 * x - 1)",
    example = "ml.special.ndtri(ml.tensor {0.5, 0.975})",
    gives = [[
{0.0000, 1.9600}
Tensor (2,) float32]] },
  "mul(g, mul(exp(mul(square(y), 0.5)), 2.5066282746310002))",
  { "rand(3, 4) * 0.9 + 0.05", "tensor{0.03, 0.24, 0.25, 0.26, 0.5, 0.74, 0.75, 0.76, 0.97}" })
op { "logit(Tensor x, float? eps=nil) -> Tensor",
     kind = "composite", dtypes = "floating", inplace = true, out = true, alias = { "special.logit" },
     doc = "Logit function, the inverse of `sigmoid`; infinite at 0 and 1, NaN outside.",
     args = { eps = "where given, `x` is first limited to the range from `eps` to `1 - eps`" },
     shapes = "x (*) -> (*)",
     formula = "y = ln(x / (1 - x))",
     example = "ml.logit(ml.tensor {0.5, 0.9})",
     gives = [[
{0.0000, 2.1972}
Tensor (2,) float32]],
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
binary("xlogy", "Operand x, Operand other", { [[Product of `x` and the natural logarithm of `other`, 0 where `x` is 0 and `other` is not NaN;
shapes broadcast.]],
    formula = "y = x * ln(other)",
    example = "ml.xlogy(ml.tensor {0.0, 2}, ml.tensor {0.0, 3})",
    gives = [[
{0.0000, 2.1972}
Tensor (2,) float32]] },
  { x = "xlogy_grad_x(g, x, other)", other = "xlogy_grad_other(g, x, other)" },
  { "randn(3, 4), rand(3, 4) + 0.2", "rand(3, 4) + 0.2, 2.5", "2, rand(4) + 0.5" },
  { slow = false, alias = { "special.xlogy" } })
binary("special_xlog1py", "Operand x, Operand other", { [[Product of `x` and the natural logarithm of `1 + other`, 0 where `x` is 0 and `other` is not
NaN; shapes broadcast.]],
    formula = "y = x * ln(1 + other)",
    example = "ml.special.xlog1py(ml.tensor {0.0, 2}, ml.tensor {-1.0, 3})",
    gives = [[
{0.0000, 2.7726}
Tensor (2,) float32]] },
  { x = "special_xlog1py_grad_x(g, x, other)", other = "special_xlog1py_grad_other(g, x, other)" },
  { "randn(3, 4), rand(3, 4) - 0.5", "rand(3, 4) + 0.2, 2.5", "2, rand(4) + 0.5" }, { slow = false })
unary("special_entr", { "Entropy term of a probability: 0 at 0, minus infinity below.",
    formula = "y = -x * ln(x)",
    example = "ml.special.entr(ml.tensor {0.0, 0.5, 1})",
    gives = [[
{ 0.0000,  0.3466, -0.0000}
Tensor (3,) float32]] }, "mul(g, sub(-1.0, log(x)))",
  { "rand(3, 4) * 3 + 0.1" })
unary("sinc", { "Normalized sinc function: 1 at 0.",
    formula = "y = sin(pi * x) / (pi * x)",
    example = "ml.sinc(ml.tensor {0.0, 0.5, 1.5})",
    gives = [[
{ 1.0000,  0.6366, -0.2122}
Tensor (3,) float32]] }, "sinc_grad_x(g, x, y)",
  { "randn(3, 4)", "tensor{-2.5, -1, -0.25, 0.5, 30.25}", "view_as_complex(randn(3, 4, 2))" },
  { dtypes = "floating + complex", alias = { "special.sinc" } })

-- Bessel and Airy functions.
unary("i0", { "Modified Bessel function of the first kind of order 0.",
    formula = "y = I_0(x)",
    example = "ml.i0(ml.tensor {0.0, 1, 3})",
    gives = [[
{1.0000, 1.2661, 4.8808}
Tensor (3,) float32]] }, "mul(g, special_i1(x))",
  { "randn(3, 4) * 3", "linspace(-9, 9, 17)" }, { alias = { "special.i0", "special.modified_bessel_i0" } })
unary("special_i0e", { "Exponentially scaled modified Bessel function of the first kind of order 0.",
    formula = "y = exp(-abs(x)) * I_0(x)",
    example = "ml.special.i0e(ml.tensor {0.0, 1, 300})",
    gives = [[
{1.0000, 0.4658, 0.0230}
Tensor (3,) float32]] }, "mul(g, sub(special_i1e(x), mul(sgn(x), y)))",
  { "randn(3, 4) * 3", "linspace(-40, 40, 16)" })
unary("special_i1", { "Modified Bessel function of the first kind of order 1.",
    formula = "y = I_1(x)",
    example = "ml.special.i1(ml.tensor {0.0, 1, 3})",
    gives = [[
{0.0000, 0.5652, 3.9534}
Tensor (3,) float32]] }, "special_i1_grad_x(g, x, y)",
  { "randn(3, 4) * 3", "linspace(-9, 9, 17)" }, { alias = { "special.modified_bessel_i1" } })
unary("special_i1e", { "Exponentially scaled modified Bessel function of the first kind of order 1.",
    formula = "y = exp(-abs(x)) * I_1(x)",
    example = "ml.special.i1e(ml.tensor {0.0, 1, 300})",
    gives = [[
{0.0000, 0.2079, 0.0230}
Tensor (3,) float32]] }, "special_i1e_grad_x(g, x, y)",
  { "randn(3, 4) * 3", "linspace(-40, 40, 16)" })
unary("special_modified_bessel_k0", { "Modified Bessel function of the second kind of order 0: infinite at 0, NaN below.",
    formula = "y = K_0(x)",
    example = "ml.special.modified_bessel_k0(ml.tensor {0.5, 1, 3})",
    gives = [[
{0.9244, 0.4210, 0.0347}
Tensor (3,) float32]] },
  "neg(mul(g, special_modified_bessel_k1(x)))", positive_line)
unary("special_modified_bessel_k1", { "Modified Bessel function of the second kind of order 1: infinite at 0, NaN below.",
    formula = "y = K_1(x)",
    example = "ml.special.modified_bessel_k1(ml.tensor {0.5, 1, 3})",
    gives = [[
{1.6564, 0.6019, 0.0402}
Tensor (3,) float32]] },
  "neg(mul(g, add(special_modified_bessel_k0(x), div(y, x))))", positive_line)
unary("special_scaled_modified_bessel_k0", { "Exponentially scaled modified Bessel function of the second kind of order 0; NaN below 0.",
    formula = "y = exp(x) * K_0(x)",
    example = "ml.special.scaled_modified_bessel_k0(ml.tensor {0.5, 1, 300})",
    gives = [[
{1.5241, 1.1445, 0.0723}
Tensor (3,) float32]] }, nil, positive_line)
unary("special_scaled_modified_bessel_k1", { "Exponentially scaled modified Bessel function of the second kind of order 1; NaN below 0.",
    formula = "y = exp(x) * K_1(x)",
    example = "ml.special.scaled_modified_bessel_k1(ml.tensor {0.5, 1, 300})",
    gives = [[
{2.7310, 1.6362, 0.0725}
Tensor (3,) float32]] }, nil, positive_line)
unary("special_bessel_j0", { "Bessel function of the first kind of order 0.",
    formula = "y = J_0(x)",
    example = "ml.special.bessel_j0(ml.tensor {0.0, 1, 10})",
    gives = [[
{ 1.0000,  0.7652, -0.2459}
Tensor (3,) float32]] },
  "neg(mul(g, special_bessel_j1(x)))", real_line)
unary("special_bessel_j1", { "Bessel function of the first kind of order 1.",
    formula = "y = J_1(x)",
    example = "ml.special.bessel_j1(ml.tensor {0.0, 1, 10})",
    gives = [[
{0.0000, 0.4401, 0.0435}
Tensor (3,) float32]] },
  "special_bessel_j1_grad_x(g, x, y)", { "randn(3, 4) * 3", "linspace(-40, 40, 16)" })
unary("special_bessel_y0", { "Bessel function of the second kind of order 0: minus infinity at 0, NaN below.",
    formula = "y = Y_0(x)",
    example = "ml.special.bessel_y0(ml.tensor {0.5, 1, 10})",
    gives = [[
{-0.4445,  0.0883,  0.0557}
Tensor (3,) float32]] },
  "neg(mul(g, special_bessel_y1(x)))", positive_line)
unary("special_bessel_y1", { "Bessel function of the second kind of order 1: minus infinity at 0, NaN below.",
    formula = "y = Y_1(x)",
    example = "ml.special.bessel_y1(ml.tensor {0.5, 1, 10})",
    gives = [[
{-1.4715, -0.7812,  0.2490}
Tensor (3,) float32]] },
  "mul(g, sub(special_bessel_y0(x), div(y, x)))", positive_line)
unary("special_spherical_bessel_j0", { "Spherical Bessel function of the first kind of order 0: 1 at 0.",
    formula = "y = sin(x) / x",
    example = "ml.special.spherical_bessel_j0(ml.tensor {0.0, 1, 10})",
    gives = [[
{ 1.0000,  0.8415, -0.0544}
Tensor (3,) float32]] },
  nil, real_line)
unary("special_airy_ai", { "Airy function Ai, the solution of `y'' = x y` that vanishes at infinity.",
    formula = "y = 1 / pi * int_0^inf cos(t^3 / 3 + x * t) dt",
    example = "ml.special.airy_ai(ml.tensor {-2.0, 0, 2})",
    gives = [[
{0.2274, 0.3550, 0.0349}
Tensor (3,) float32]] }, nil, { "randn(3, 4) * 3", "linspace(-40, 12, 27)" })

-- Orthogonal polynomials.
local POLYNOMIAL = {
  x = "a tensor or a number",
  n = "the order, a tensor or a number, which is rounded towards 0; a negative one gives 0",
}
local samples = { "randn(3, 4), 3",
  "rand(3, 4) * 2 - 1, tensor{0, 1, 7, 20}", "linspace(-1.5, 1.5, 13), 11", "0.3, tensor{-1, 2, 12}" }
local chebyshev = {
  t = { "Chebyshev polynomial of the first kind; shapes broadcast.",
    args = POLYNOMIAL,
    formula = "T_0 = 1, T_1 = x, T_n = 2 * x * T_(n - 1) - T_(n - 2)",
    example = "ml.special.chebyshev_polynomial_t(ml.tensor {0.5, 1, 2}, 3)",
    gives = [[
{-1.,  1., 26.}
Tensor (3,) float32]] },
  shifted_t = { [[Shifted Chebyshev polynomial of the first kind, that at `2 * x - 1`, for `x` from 0 to 1;
shapes broadcast.]],
    args = POLYNOMIAL,
    formula = "y = T_n(2 * x - 1)",
    example = "ml.special.shifted_chebyshev_polynomial_t(ml.tensor {0.5, 0.75, 1}, 3)",
    gives = [[
{-0., -1.,  1.}
Tensor (3,) float32]] },
  u = { "Chebyshev polynomial of the second kind; shapes broadcast.",
    args = POLYNOMIAL,
    formula = "U_0 = 1, U_1 = 2 * x, U_n = 2 * x * U_(n - 1) - U_(n - 2)",
    example = "ml.special.chebyshev_polynomial_u(ml.tensor {0.5, 1, 2}, 3)",
    gives = [[
{-1.,  4., 56.}
Tensor (3,) float32]] },
  shifted_u = { [[Shifted Chebyshev polynomial of the second kind, that at `2 * x - 1`, for `x` from 0 to 1;
shapes broadcast.]],
    args = POLYNOMIAL,
    formula = "y = U_n(2 * x - 1)",
    example = "ml.special.shifted_chebyshev_polynomial_u(ml.tensor {0.5, 0.75, 1}, 3)",
    gives = [[
{-0., -1.,  4.}
Tensor (3,) float32]] },
  v = { "Chebyshev polynomial of the third kind; shapes broadcast.",
    args = POLYNOMIAL,
    formula = "V_0 = 1, V_1 = 2 * x - 1, V_n = 2 * x * V_(n - 1) - V_(n - 2)",
    example = "ml.special.chebyshev_polynomial_v(ml.tensor {0.5, 1, 2}, 3)",
    gives = [[
{-1.,  1., 41.}
Tensor (3,) float32]] },
  shifted_v = { [[Shifted Chebyshev polynomial of the third kind, that at `2 * x - 1`, for `x` from 0 to 1;
shapes broadcast.]],
    args = POLYNOMIAL,
    formula = "y = V_n(2 * x - 1)",
    example = "ml.special.shifted_chebyshev_polynomial_v(ml.tensor {0.5, 0.75, 1}, 3)",
    gives = [[
{ 1., -1.,  1.}
Tensor (3,) float32]] },
  w = { "Chebyshev polynomial of the fourth kind; shapes broadcast.",
    args = POLYNOMIAL,
    formula = "W_0 = 1, W_1 = 2 * x + 1, W_n = 2 * x * W_(n - 1) - W_(n - 2)",
    example = "ml.special.chebyshev_polynomial_w(ml.tensor {0.5, 1, 2}, 3)",
    gives = [[
{-1.,  7., 71.}
Tensor (3,) float32]] },
  shifted_w = { [[Shifted Chebyshev polynomial of the fourth kind, that at `2 * x - 1`, for `x` from 0 to 1;
shapes broadcast.]],
    args = POLYNOMIAL,
    formula = "y = W_n(2 * x - 1)",
    example = "ml.special.shifted_chebyshev_polynomial_w(ml.tensor {0.5, 0.75, 1}, 3)",
    gives = [[
{-1., -1.,  7.}
Tensor (3,) float32]] },
}

for _, letter in ipairs { "t", "u", "v", "w" } do
  binary("special_chebyshev_polynomial_" .. letter, "Operand x, Operand n",
    chebyshev[letter], nil, samples)
  binary("special_shifted_chebyshev_polynomial_" .. letter, "Operand x, Operand n",
    chebyshev["shifted_" .. letter], nil,
    { "rand(3, 4), tensor{0, 1, 7, 10}", "linspace(-0.25, 1.25, 13), 9", "0.3, tensor{2, 12}" })
end
local low = { "randn(3, 4), 3",
  "rand(3, 4) * 2 - 1, tensor{0, 1, 3, 6}", "linspace(-1.5, 1.5, 13), 5", "0.3, tensor{2, 4, 6}" }
binary("special_hermite_polynomial_h", "Operand x, Operand n",
  { "Hermite polynomial of the physicists, of order at most 512: more gives NaN. Shapes broadcast.",
    args = POLYNOMIAL,
    formula = "H_0 = 1, H_1 = 2 * x, H_n = 2 * x * H_(n - 1) - 2 * (n - 1) * H_(n - 2)",
    example = "ml.special.hermite_polynomial_h(ml.tensor {0.5, 1, 2}, 3)",
    gives = [[
{-5., -4., 40.}
Tensor (3,) float32]] }, nil, low)
binary("special_hermite_polynomial_he", "Operand x, Operand n",
  { "Hermite polynomial of the probabilists, of order at most 512: more gives NaN. Shapes broadcast.",
    args = POLYNOMIAL,
    formula = "H_0 = 1, H_1 = x, H_n = x * H_(n - 1) - (n - 1) * H_(n - 2)",
    example = "ml.special.hermite_polynomial_he(ml.tensor {0.5, 1, 2}, 3)",
    gives = [[
{-1.3750, -2.0000,  2.0000}
Tensor (3,) float32]] }, nil, low)
binary("special_laguerre_polynomial_l", "Operand x, Operand n",
  { "Laguerre polynomial, of order at most 65536: more gives NaN. Shapes broadcast.",
    args = POLYNOMIAL,
    formula = "L_0 = 1, L_1 = 1 - x, n * L_n = (2 * n - 1 - x) * L_(n - 1) - (n - 1) * L_(n - 2)",
    example = "ml.special.laguerre_polynomial_l(ml.tensor {0.5, 1, 2}, 3)",
    gives = [[
{-0.1458, -0.6667, -0.3333}
Tensor (3,) float32]] }, nil, samples)
binary("special_legendre_polynomial_p", "Operand x, Operand n",
  { "Legendre polynomial, of order at most 65536: more gives NaN. Shapes broadcast.",
    args = POLYNOMIAL,
    formula = "P_0 = 1, P_1 = x, n * P_n = (2 * n - 1) * x * P_(n - 1) - (n - 1) * P_(n - 2)",
    example = "ml.special.legendre_polynomial_p(ml.tensor {0.5, 1, 2}, 3)",
    gives = [[
{-0.4375,  1.0000, 17.0000}
Tensor (3,) float32]] }, nil, samples)
