-- tensor/ops/activation.lua: the activation functions of networks. Samples keep away from kinks.

local rows = require "tensor.ops.gen.pointwise_rows"

local function activation(signature, doc, grad, extra)
  local row = { signature, kind = "pointwise", dtypes = "floating", grad = { x = grad }, doc = doc,
    sample = { "randn(3, 4)" }, torch = ("F.%s(*args)"):format(signature:match "^[%w_]+") }
  for key, value in pairs(extra or {}) do row[key] = value end
  op(row)
end

-- The gradient of an op as an op of its own, which saves a pass over memory.
-- `saved` names the tensor it reads besides and, behind a comma, its numbers.
local function gradient(name, saved, grads, torch, extra)
  local row = { ("%s(Tensor grad, Tensor %s) -> Tensor"):format(name, saved),
    kind = "pointwise", dtypes = "floating", keeps_dtype = saved:find "," and true or nil,
    inplace = false, internal = true, grad = grads,
    doc = ("The gradient of `%s` from that of its result."):format(name:gsub("_grad_x$", "")),
    sample = { "randn(3, 4), randn(3, 4)" }, torch = torch }
  for key, value in pairs(extra or {}) do row[key] = value end
  op(row)
end

-- Both sides of the positions where a piecewise op changes.
local function pieces(...)
  local out = {}
  for i, numbers in ipairs { ... } do out[i] = "randn(3, 4), randn(3, 4) * 3" .. numbers end
  return { sample = out }
end

local complex = { dtypes = "floating + complex",
  sample = rows.with_complex("randn(3, 4), randn(3, 4)",
    "complex(randn(3, 4), randn(3, 4)), complex(randn(3, 4), randn(3, 4))") }

activation("relu(Tensor x) -> Tensor", { "Rectified linear unit: `x` where it is positive, else 0. The gradient at 0 is 0.",
    formula = "y = max(x, 0)",
    source = 'Nair and Hinton 2010, "Rectified Linear Units Improve Restricted Boltzmann Machines"',
    example = "ml.relu(ml.tensor {-1.5, 0, 2})",
    gives = [[
{0., 0., 2.}
Tensor (3,) float32]] }, "relu_grad_x(g, y)", { dtypes = "real" })
gradient("relu_grad_x", "result", { grad = "relu_grad_x(g, result)" }, "args[0] * (args[1] > 0)")
activation("relu6(Tensor x) -> Tensor", { "Rectified linear unit limited to 6, as in networks for fixed-point arithmetic.",
    formula = "y = min(max(x, 0), 6)",
    source = 'Krizhevsky 2010, "Convolutional Deep Belief Networks on CIFAR-10"',
    example = "ml.relu6(ml.tensor {-1.0, 4, 8})",
    gives = [[
{0., 4., 6.}
Tensor (3,) float32]] },
  "hardtanh_grad_x(g, x, 0.0, 6.0)", { dtypes = "real", sample = { "randn(3, 4) * 4" } })
activation("leaky_relu(Tensor x, Scalar negative_slope=0.01) -> Tensor",
  { "Leaky rectified linear unit: `x` where it is positive, else `negative_slope * x`.",
    args = { negative_slope = "the factor of negative elements" },
    formula = "y = max(x, 0) + negative_slope * min(x, 0)",
    source = 'Maas et al. 2013, "Rectifier Nonlinearities Improve Neural Network Acoustic Models"',
    example = "ml.leaky_relu(ml.tensor {-2.0, 3}, 0.1)",
    gives = [[
{-0.2000,  3.0000}
Tensor (2,) float32]] },
  "leaky_relu_grad_x(g, x, negative_slope)", { keeps_dtype = true, sample = { "randn(3, 4)", "randn(3, 4), 0.2" } })
gradient("leaky_relu_grad_x", "x, Scalar negative_slope", { grad = "leaky_relu_grad_x(g, x, negative_slope)" },
  "torch.ops.aten.leaky_relu_backward(*args, False)", pieces(", 0.2"))
activation("elu(Tensor x, Scalar alpha=1.0) -> Tensor",
  { "Exponential linear unit: `x` where it is positive, else an exponential that tends to `-alpha`.",
    args = { alpha = "the limit at minus infinity is `-alpha`" },
    formula = "y = max(x, 0) + alpha * (exp(min(x, 0)) - 1)",
    source = "Clevert et al. 2015, arXiv:1511.07289",
    example = "ml.elu(ml.tensor {-2.0, 0, 3})",
    gives = [[
{-0.8647,  0.0000,  3.0000}
Tensor (3,) float32]] },
  "elu_grad_x(g, x, alpha)", { keeps_dtype = true, sample = { "randn(3, 4)", "randn(3, 4), 0.7" } })
gradient("elu_grad_x", "x, Scalar alpha",
  { grad = "elu_grad_x(g, x, alpha)", x = "where(gt(x, 0.0), 0.0, elu_grad_x(mul(widened(g), grad), x, alpha))" },
  "torch.ops.aten.elu_backward(args[0], args[2], 1, 1, False, args[1])", pieces(", 0.7"))
activation("celu(Tensor x, Scalar alpha=1.0) -> Tensor",
  { [[Continuously differentiable exponential linear unit: as `elu`, with a gradient of 1 at 0 for
every `alpha`.]],
    args = { alpha = "the limit at minus infinity is `-alpha`" },
    formula = "y = max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1)",
    source = "Barron 2017, arXiv:1704.07483",
    example = "ml.celu(ml.tensor {-2.0, 0, 3}, 0.5)",
    gives = [[
{-0.4908,  0.0000,  3.0000}
Tensor (3,) float32]] },
  "celu_grad_x(g, x, alpha)", { keeps_dtype = true, sample = { "randn(3, 4)", "randn(3, 4), 0.7" } })
gradient("celu_grad_x", "x, Scalar alpha",
  { grad = "celu_grad_x(g, x, alpha)",
    x = "where(gt(x, 0.0), 0.0, celu_grad_x(div(mul(widened(g), grad), alpha), x, alpha))" },
  "torch.ops.aten.elu_backward(args[0], args[2], 1, 1 / args[2], False, args[1])", pieces(", 0.7"))
activation("selu(Tensor x) -> Tensor",
  { [[Scaled exponential linear unit: `scale * elu(x, alpha)` with the constants that keep mean 0
and variance 1 from layer to layer.]],
    formula = [[
y = scale * (max(x, 0) + alpha * (exp(min(x, 0)) - 1))
scale = 1.0507009873554805, alpha = 1.6732632423543772]],
    source = "Klambauer et al. 2017, arXiv:1706.02515",
    example = "ml.selu(ml.tensor {-2.0, 0, 3})",
    gives = [[
{-1.5202,  0.0000,  3.1521}
Tensor (3,) float32]] },
  "selu_grad_x(g, x)")
gradient("selu_grad_x", "x",
  { grad = "selu_grad_x(g, x)", x = "where(gt(x, 0.0), 0.0, selu_grad_x(mul(widened(g), grad), x))" },
  "torch.ops.aten.elu_backward(args[0], 1.6732632423543772, 1.0507009873554805, 1, False, args[1])", pieces "")
activation("sigmoid(Tensor x) -> Tensor", { "Logistic sigmoid, from 0 to 1. Does not overflow for large `|x|`.",
    formula = "y = 1 / (1 + exp(-x))",
    example = "ml.sigmoid(ml.tensor {-2.0, 0, 2})",
    gives = [[
{0.1192, 0.5000, 0.8808}
Tensor (3,) float32]] }, "sigmoid_grad_x(g, y)",
  { int_to_float = true, dtypes = "floating + complex", sample = rows.with_complex(), alias = { "special.expit" } })
gradient("sigmoid_grad_x", "result",
  { grad = "sigmoid_grad_x(g, conj(result))",
    result = "mul(mul(conj(g), grad), sub(1.0, mul(conj(result), 2.0)))" },
  "torch.ops.aten.sigmoid_backward(*args)", complex)
activation("logsigmoid(Tensor x) -> Tensor", { "Natural logarithm of the sigmoid, without underflow for very negative `x`.",
    formula = "y = -log(1 + exp(-x))",
    example = "ml.logsigmoid(ml.tensor {-20.0, 0, 2})",
    gives = [[
{-20.0000,  -0.6931,  -0.1269}
Tensor (3,) float32]] }, "logsigmoid_grad_x(g, x)")
gradient("logsigmoid_grad_x", "x",
  { grad = "logsigmoid_grad_x(g, x)", x = "neg(sigmoid_grad_x(mul(widened(g), grad), sigmoid(widened(x))))" },
  "args[0] * torch.sigmoid(-args[1])")
op { "gelu(Tensor x, string approximate=\"none\") -> Tensor",
     kind = "composite", dtypes = "floating",
     doc = [[Gaussian error linear unit: `x` times the distribution function of the standard normal
distribution.]],
     args = { approximate = '"none" for the exact function, "tanh" for its approximation by a hyperbolic tangent' },
     shapes = "x (*) -> (*)",
     formula = [[
y = x / 2 * (1 + erf(x / sqrt(2)))
y = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))]],
     source = "Hendrycks and Gimpel 2016, arXiv:1606.08415",
     example = "ml.gelu(ml.tensor {-1.0, 0, 1})",
     gives = [[
{-0.1587,  0.0000,  0.8413}
Tensor (3,) float32]],
     sample = { "randn(3, 4)", 'randn(3, 4), "tanh"' },
     torch = 'F.gelu(args[0], approximate=args[1] if len(args) > 1 else "none")' }
activation("gelu_erf(Tensor x) -> Tensor", { "Gaussian error linear unit in its exact form, as `gelu` without `approximate`.",
    formula = "y = x / 2 * (1 + erf(x / sqrt(2)))",
    example = "ml.gelu_erf(ml.tensor {-1.0, 0, 1})",
    gives = [[
{-0.1587,  0.0000,  0.8413}
Tensor (3,) float32]] }, "gelu_erf_grad_x(g, x)",
  { torch = "F.gelu(*args)" })
gradient("gelu_erf_grad_x", "x",
  { grad = "gelu_erf_grad_x(g, x)",
    x = "gelu_erf_grad_x_grad_x(g, grad, x)" },
  "torch.ops.aten.gelu_backward(*args)")
activation("gelu_tanh(Tensor x) -> Tensor", { [[Gaussian error linear unit in its tanh form, as `gelu` with `approximate = "tanh"`.]],
    formula = "y = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))",
    example = "ml.gelu_tanh(ml.tensor {-1.0, 0, 1})",
    gives = [[
{-0.1588,  0.0000,  0.8412}
Tensor (3,) float32]] }, "gelu_tanh_grad_x(g, x)",
  { torch = 'F.gelu(args[0], approximate="tanh")' })
gradient("gelu_tanh_grad_x", "x", { grad = "gelu_tanh_grad_x(g, x)", x = "gelu_tanh_grad_x_grad_x(g, grad, x)" },
  'torch.ops.aten.gelu_backward(*args, approximate="tanh")')
activation("silu(Tensor x) -> Tensor", { "Sigmoid linear unit, also called swish.",
    formula = "y = x / (1 + exp(-x))",
    source = "Elfwing et al. 2017, arXiv:1702.03118",
    example = "ml.silu(ml.tensor {-1.0, 0, 1})",
    gives = [[
{-0.2689,  0.0000,  0.7311}
Tensor (3,) float32]] }, "silu_grad_x(g, x)",
  { dtypes = "floating + complex", sample = rows.with_complex() })
gradient("silu_grad_x", "x", { grad = "silu_grad_x(g, conj(x))", x = "silu_grad_x_grad_x(conj(g), grad, x)" },
  "args[0] * (torch.sigmoid(args[1]) * (1 + args[1] * (1 - torch.sigmoid(args[1])))).conj()", complex)
activation("mish(Tensor x) -> Tensor", { "Mish activation: `x` times the tanh of its softplus.",
    formula = "y = x * tanh(log(1 + exp(x)))",
    source = "Misra 2019, arXiv:1908.08681",
    example = "ml.mish(ml.tensor {-1.0, 0, 1})",
    gives = [[
{-0.3034,  0.0000,  0.8651}
Tensor (3,) float32]] }, "mish_grad_x(g, x)")
gradient("mish_grad_x", "x", { grad = "mish_grad_x(g, x)", x = "mish_grad_x_grad_x(g, grad, x)" },
  "torch.ops.aten.mish_backward(*args)")
activation("softplus(Tensor x, Scalar beta=1.0, Scalar threshold=20.0) -> Tensor",
  { [[Softplus, a smooth approximation of `relu`. Where `beta * x` is above `threshold` the result
is `x` itself.]],
    args = { beta = "the sharpness: the larger, the nearer to `relu`",
             threshold = "the value of `beta * x` above which the function is linear" },
    formula = "y = log(1 + exp(beta * x)) / beta",
    source = 'Dugas et al. 2001, "Incorporating Second-Order Functional Knowledge for Better Option Pricing"',
    example = "ml.softplus(ml.tensor {-1.0, 0, 1})",
    gives = [[
{0.3133, 0.6931, 1.3133}
Tensor (3,) float32]] },
  "softplus_grad_x(g, x, beta, threshold)",
  { keeps_dtype = true, autocast = { device = "float32" }, sample = { "randn(3, 4)", "randn(3, 4), 2.0, 3.0" } })
gradient("softplus_grad_x", "x, Scalar beta, Scalar threshold",
  { grad = "softplus_grad_x(g, x, beta, threshold)",
    x = "softplus_grad_x_grad_x(g, grad, x, beta, threshold)" },
  "torch.ops.aten.softplus_backward(*args)", pieces(", 2.0, 3.0"))
activation("hardtanh(Tensor x, Scalar min_val=-1.0, Scalar max_val=1.0) -> Tensor",
  { [[`x` limited to the range from `min_val` to `max_val`. The gradient outside the range and at
its ends is 0.]],
    args = { min_val = "the lower end of the range", max_val = "the upper end of the range" },
    formula = "y = min(max(x, min_val), max_val)",
    example = "ml.hardtanh(ml.tensor {-3.0, 0.5, 3})",
    gives = [[
{-1.0000,  0.5000,  1.0000}
Tensor (3,) float32]] },
  "hardtanh_grad_x(g, x, min_val, max_val)",
  { dtypes = "real", keeps_dtype = true, chooses = { min_val = "lower", max_val = "upper" },
    sample = { "randn(3, 4)", "randn(3, 4), -0.5, 2.0" } })
gradient("hardtanh_grad_x", "x, Scalar min_val, Scalar max_val",
  { grad = "hardtanh_grad_x(g, x, min_val, max_val)" }, "torch.ops.aten.hardtanh_backward(*args)",
  pieces(", -0.5, 2.0"))
activation("hardsigmoid(Tensor x) -> Tensor", { "Piecewise linear approximation of the sigmoid: 0 up to -3, 1 from 3 on.",
    formula = "y = min(max(x / 6 + 1 / 2, 0), 1)",
    source = "Courbariaux et al. 2015, arXiv:1511.00363",
    example = "ml.hardsigmoid(ml.tensor {-4.0, 0, 1})",
    gives = [[
{0.0000, 0.5000, 0.6667}
Tensor (3,) float32]] },
  "hardsigmoid_grad_x(g, x)", { sample = { "randn(3, 4) * 3" } })
gradient("hardsigmoid_grad_x", "x", { grad = "hardsigmoid_grad_x(g, x)" },
  "torch.ops.aten.hardsigmoid_backward(*args)", pieces "")
activation("hardswish(Tensor x) -> Tensor", { "Piecewise approximation of `silu`: `x * hardsigmoid(x)`.",
    formula = "y = x * min(max(x / 6 + 1 / 2, 0), 1)",
    source = "Howard et al. 2019, arXiv:1905.02244",
    example = "ml.hardswish(ml.tensor {-4.0, 1, 4})",
    gives = [[
{-0.0000,  0.6667,  4.0000}
Tensor (3,) float32]] },
  "hardswish_grad_x(g, x)", { sample = { "randn(3, 4) * 3" } })
gradient("hardswish_grad_x", "x",
  { grad = "hardswish_grad_x(g, x)", x = "mul(hardsigmoid_grad_x(mul(widened(g), grad), x), 2.0)" },
  "torch.ops.aten.hardswish_backward(*args)", pieces "")
activation("softsign(Tensor x) -> Tensor", { "Softsign, which tends to -1 and 1 more slowly than `tanh`.",
    formula = "y = x / (1 + abs(x))",
    example = "ml.softsign(ml.tensor {-3.0, 0, 1})",
    gives = [[
{-0.7500,  0.0000,  0.5000}
Tensor (3,) float32]] }, "div(g, square(add(abs(widened(x)), 1.0)))",
  { int_to_float = true })
activation("threshold(Tensor x, Scalar threshold, Scalar value) -> Tensor",
  { "`x` where it is greater than `threshold`, else `value`.",
    args = { threshold = "the number that elements are compared with",
             value = "what stands in the place of the others" },
    example = "ml.threshold(ml.tensor {-1.0, 0.5, 2}, 1, -5)",
    gives = [[
{-5., -5.,  2.}
Tensor (3,) float32]] }, "threshold_grad_x(g, x, threshold)",
  { dtypes = "real", keeps_dtype = true, chooses = true, sample = { "randn(3, 4), 0.1, 2.0" } })
gradient("threshold_grad_x", "x, Scalar threshold", { grad = "threshold_grad_x(g, x, threshold)" },
  "torch.ops.aten.threshold_backward(*args)", pieces(", 0.1"))
op { "prelu(Tensor x, Tensor weight) -> Tensor",
     kind = "composite", autocast = "lower_precision", dtypes = "floating",
     doc = [[Parametric rectified linear unit: `x` where it is positive, else `weight * x` with a
learned `weight`.]],
     args = { weight = "the factors of negative elements: one for all, or one for each channel, the second " ..
                "dimension of `x`" },
     shapes = "x (n, c, *), weight (c) -> (n, c, *)",
     formula = "y = max(x, 0) + weight * min(x, 0)",
     source = 'He et al. 2015, "Delving Deep into Rectifiers"',
     example = "ml.prelu(ml.tensor {{-2.0, -2}}, ml.tensor {0.25, 0.5})",
     gives = [[
{{-0.5000, -1.0000}}
Tensor (1, 2) float32]],
     sample = { "randn(3, 4), randn(1)", "randn(2, 3, 4), randn(3)", "randn(3), randn(3):select(1, 2)",
                "randn(4), randn(1)" } }
op { "prelu_by(Tensor x, Tensor slope) -> Tensor",
     kind = "pointwise", dtypes = "floating", inplace = false, internal = true,
     grad = { x = "prelu_by_grad_x(g, x, slope)", slope = "where(gt(x, 0.0), 0.0, mul(g, x))" },
     doc = "`prelu` with weights that broadcast.", sample = { "randn(3, 4), randn(4)" },
     torch = "torch.where(args[0] > 0, args[0], args[0] * args[1])" }
op { "prelu_by_grad_x(Tensor grad, Tensor x, Tensor slope) -> Tensor",
     kind = "pointwise", dtypes = "floating", inplace = false, internal = true,
     grad = { grad = "prelu_by_grad_x(g, x, slope)", slope = "where(gt(x, 0.0), 0.0, mul(g, grad))" },
     doc = "The gradient of `prelu_by` with respect to `x`.", sample = { "randn(3, 4), randn(3, 4), randn(4)" },
     torch = "torch.where(args[1] > 0, args[0], args[0] * args[2])" }
op { [[rrelu(Tensor x, float lower=0.125, float upper=0.3333333333333333, bool training=false,
             Generator? generator=nil) -> Tensor]],
     kind = "composite", dtypes = "floating", random = true, inplace = true,
     torch = "F.rrelu(*args)",
     doc = [[Randomized leaky rectified linear unit: in training each negative element is multiplied by
a number drawn uniformly from `lower` to `upper`, otherwise all by their mean.]],
     args = { lower = "the lower end of the range that factors are drawn from",
              upper = "the upper end of that range",
              training = "whether factors are drawn" },
     shapes = "x (*) -> (*)",
     formula = "y = max(x, 0) + a * min(x, 0)",
     source = "Xu et al. 2015, arXiv:1505.00853",
     example = "ml.rrelu(ml.tensor {-2.0, 3}, 0.2, 0.4)",
     gives = [[
{-0.6000,  3.0000}
Tensor (2,) float32]],
     sample = { "randn(3, 4)", "randn(3, 4), 0.2, 0.5, true" } }
activation("hardshrink(Tensor x, Scalar lambd=0.5) -> Tensor", { "Hard shrinkage: 0 from `-lambd` to `lambd`, else `x`.",
    args = { lambd = "half the width of the interval that becomes 0" },
    example = "ml.hardshrink(ml.tensor {-1.0, 0.3, 2})",
    gives = [[
{-1.,  0.,  2.}
Tensor (3,) float32]] },
  "hardshrink_grad_x(g, x, lambd)",
  { keeps_dtype = true, inplace = false, sample = { "randn(3, 4)", "randn(3, 4), 0.9" } })
gradient("hardshrink_grad_x", "x, Scalar lambd", { grad = "hardshrink_grad_x(g, x, lambd)" },
  "torch.ops.aten.hardshrink_backward(*args)", pieces(", 0.9"))
op { "softshrink(Tensor x, float lambd=0.5) -> Tensor",
     kind = "composite", dtypes = "floating", out = true,
     doc = "Soft shrinkage (soft thresholding): `x` moved towards 0 by `lambd`, and 0 from `-lambd` to `lambd`.",
     args = { lambd = "the threshold, not negative" },
     shapes = "x (*) -> (*)",
     formula = "y = sgn(x) * max(abs(x) - lambd, 0)",
     errors = "a negative `lambd`",
     example = "ml.softshrink(ml.tensor {-1.0, 0.3, 2})",
     gives = [[
{-0.5000,  0.0000,  1.5000}
Tensor (3,) float32]],
     sample = { "randn(3, 4)", "randn(3, 4), 0.9" }, torch = "F.softshrink(*args)" }
activation("softshrink_by(Tensor x, Scalar lambd) -> Tensor", "`softshrink` by a number that is not negative.",
  "hardshrink_grad_x(g, x, lambd)",
  { keeps_dtype = true, inplace = false, internal = true, sample = { "randn(3, 4), 0.9" },
    torch = "F.softshrink(*args)" })
activation("tanhshrink(Tensor x) -> Tensor", { "Tanh shrinkage: `x` less its hyperbolic tangent.",
    formula = "y = x - tanh(x)",
    example = "ml.tanhshrink(ml.tensor {-1.0, 0, 3})",
    gives = [[
{-0.2384,  0.0000,  2.0049}
Tensor (3,) float32]] }, "tanhshrink_grad_x(g, x)",
  { inplace = false, int_to_float = true })
gradient("tanhshrink_grad_x", "x",
  { grad = "tanhshrink_grad_x(g, x)",
    x = "mul(tanh_grad_x(mul(widened(g), grad), tanh(widened(x))), mul(tanh(widened(x)), 2.0))" },
  "args[0] * torch.tanh(args[1]) ** 2")
