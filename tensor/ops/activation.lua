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

activation("relu(Tensor x) -> Tensor", "`max(x, 0)`.", "relu_grad_x(g, y)", { dtypes = "real" })
gradient("relu_grad_x", "result", { grad = "relu_grad_x(g, result)" }, "args[0] * (args[1] > 0)")
activation("relu6(Tensor x) -> Tensor", "`min(max(x, 0), 6)`.",
  "hardtanh_grad_x(g, x, 0.0, 6.0)", { dtypes = "real", sample = { "randn(3, 4) * 4" } })
activation("leaky_relu(Tensor x, Scalar negative_slope=0.01) -> Tensor",
  "`x` where positive, else `negative_slope * x`.",
  "leaky_relu_grad_x(g, x, negative_slope)", { keeps_dtype = true, sample = { "randn(3, 4)", "randn(3, 4), 0.2" } })
gradient("leaky_relu_grad_x", "x, Scalar negative_slope", { grad = "leaky_relu_grad_x(g, x, negative_slope)" },
  "torch.ops.aten.leaky_relu_backward(*args, False)", pieces(", 0.2"))
activation("elu(Tensor x, Scalar alpha=1.0) -> Tensor",
  "`x` where positive, else `alpha * (exp(x) - 1)`. Clevert et al. 2015, arXiv:1511.07289.",
  "elu_grad_x(g, x, alpha)", { keeps_dtype = true, sample = { "randn(3, 4)", "randn(3, 4), 0.7" } })
gradient("elu_grad_x", "x, Scalar alpha",
  { grad = "elu_grad_x(g, x, alpha)", x = "where(gt(x, 0.0), 0.0, elu_grad_x(mul(widened(g), grad), x, alpha))" },
  "torch.ops.aten.elu_backward(args[0], args[2], 1, 1, False, args[1])", pieces(", 0.7"))
activation("celu(Tensor x, Scalar alpha=1.0) -> Tensor",
  "`x` where positive, else `alpha * (exp(x / alpha) - 1)`. Barron 2017, arXiv:1704.07483.",
  "celu_grad_x(g, x, alpha)", { keeps_dtype = true, sample = { "randn(3, 4)", "randn(3, 4), 0.7" } })
gradient("celu_grad_x", "x, Scalar alpha",
  { grad = "celu_grad_x(g, x, alpha)",
    x = "where(gt(x, 0.0), 0.0, celu_grad_x(div(mul(widened(g), grad), alpha), x, alpha))" },
  "torch.ops.aten.elu_backward(args[0], args[2], 1, 1 / args[2], False, args[1])", pieces(", 0.7"))
activation("selu(Tensor x) -> Tensor",
  "The scaled `elu` that keeps mean and variance. Klambauer et al. 2017, arXiv:1706.02515.",
  "selu_grad_x(g, x)")
gradient("selu_grad_x", "x",
  { grad = "selu_grad_x(g, x)", x = "where(gt(x, 0.0), 0.0, selu_grad_x(mul(widened(g), grad), x))" },
  "torch.ops.aten.elu_backward(args[0], 1.6732632423543772, 1.0507009873554805, 1, False, args[1])", pieces "")
activation("sigmoid(Tensor x) -> Tensor", "`1 / (1 + exp(-x))`.", "sigmoid_grad_x(g, y)",
  { int_to_float = true, dtypes = "floating + complex", sample = rows.with_complex(), alias = { "special.expit" } })
gradient("sigmoid_grad_x", "result",
  { grad = "sigmoid_grad_x(g, conj(result))",
    result = "mul(mul(conj(g), grad), sub(1.0, mul(conj(result), 2.0)))" },
  "torch.ops.aten.sigmoid_backward(*args)", complex)
activation("logsigmoid(Tensor x) -> Tensor", "`log(sigmoid(x))`, without overflow.", "logsigmoid_grad_x(g, x)")
gradient("logsigmoid_grad_x", "x",
  { grad = "logsigmoid_grad_x(g, x)", x = "neg(sigmoid_grad_x(mul(widened(g), grad), sigmoid(widened(x))))" },
  "args[0] * torch.sigmoid(-args[1])")
op { "gelu(Tensor x, string approximate=\"none\") -> Tensor",
     kind = "composite", dtypes = "floating",
     doc = [[`x` times the normal distribution function of `x`; `approximate = "tanh"` uses its tanh form.
Hendrycks and Gimpel 2016, arXiv:1606.08415.]],
     sample = { "randn(3, 4)", 'randn(3, 4), "tanh"' },
     torch = 'F.gelu(args[0], approximate=args[1] if len(args) > 1 else "none")' }
activation("gelu_erf(Tensor x) -> Tensor", "`gelu` in its exact form.", "gelu_erf_grad_x(g, x)",
  { torch = "F.gelu(*args)" })
gradient("gelu_erf_grad_x", "x",
  { grad = "gelu_erf_grad_x(g, x)",
    x = "gelu_erf_grad_x_grad_x(g, grad, x)" },
  "torch.ops.aten.gelu_backward(*args)")
activation("gelu_tanh(Tensor x) -> Tensor", "`gelu` in its tanh form.", "gelu_tanh_grad_x(g, x)",
  { torch = 'F.gelu(args[0], approximate="tanh")' })
gradient("gelu_tanh_grad_x", "x", { grad = "gelu_tanh_grad_x(g, x)", x = "gelu_tanh_grad_x_grad_x(g, grad, x)" },
  'torch.ops.aten.gelu_backward(*args, approximate="tanh")')
activation("silu(Tensor x) -> Tensor", "`x * sigmoid(x)`.", "silu_grad_x(g, x)",
  { dtypes = "floating + complex", sample = rows.with_complex() })
gradient("silu_grad_x", "x", { grad = "silu_grad_x(g, conj(x))", x = "silu_grad_x_grad_x(conj(g), grad, x)" },
  "args[0] * (torch.sigmoid(args[1]) * (1 + args[1] * (1 - torch.sigmoid(args[1])))).conj()", complex)
activation("mish(Tensor x) -> Tensor", "`x * tanh(softplus(x))`. Misra 2019, arXiv:1908.08681.", "mish_grad_x(g, x)")
gradient("mish_grad_x", "x", { grad = "mish_grad_x(g, x)", x = "mish_grad_x_grad_x(g, grad, x)" },
  "torch.ops.aten.mish_backward(*args)")
activation("softplus(Tensor x, Scalar beta=1.0, Scalar threshold=20.0) -> Tensor",
  "`log(1 + exp(beta * x)) / beta`; `x` itself where `beta * x` passes `threshold`.",
  "softplus_grad_x(g, x, beta, threshold)",
  { keeps_dtype = true, autocast = { device = "float32" }, sample = { "randn(3, 4)", "randn(3, 4), 2.0, 3.0" } })
gradient("softplus_grad_x", "x, Scalar beta, Scalar threshold",
  { grad = "softplus_grad_x(g, x, beta, threshold)",
    x = "softplus_grad_x_grad_x(g, grad, x, beta, threshold)" },
  "torch.ops.aten.softplus_backward(*args)", pieces(", 2.0, 3.0"))
activation("hardtanh(Tensor x, Scalar min_val=-1.0, Scalar max_val=1.0) -> Tensor",
  "`x` limited to the range from `min_val` to `max_val`.",
  "hardtanh_grad_x(g, x, min_val, max_val)",
  { dtypes = "real", keeps_dtype = true, chooses = { min_val = "lower", max_val = "upper" },
    sample = { "randn(3, 4)", "randn(3, 4), -0.5, 2.0" } })
gradient("hardtanh_grad_x", "x, Scalar min_val, Scalar max_val",
  { grad = "hardtanh_grad_x(g, x, min_val, max_val)" }, "torch.ops.aten.hardtanh_backward(*args)",
  pieces(", -0.5, 2.0"))
activation("hardsigmoid(Tensor x) -> Tensor", "0 up to -3, 1 from 3, `x / 6 + 1 / 2` between.",
  "hardsigmoid_grad_x(g, x)", { sample = { "randn(3, 4) * 3" } })
gradient("hardsigmoid_grad_x", "x", { grad = "hardsigmoid_grad_x(g, x)" },
  "torch.ops.aten.hardsigmoid_backward(*args)", pieces "")
activation("hardswish(Tensor x) -> Tensor", "`x * hardsigmoid(x)`. Howard et al. 2019, arXiv:1905.02244.",
  "hardswish_grad_x(g, x)", { sample = { "randn(3, 4) * 3" } })
gradient("hardswish_grad_x", "x",
  { grad = "hardswish_grad_x(g, x)", x = "mul(hardsigmoid_grad_x(mul(widened(g), grad), x), 2.0)" },
  "torch.ops.aten.hardswish_backward(*args)", pieces "")
activation("softsign(Tensor x) -> Tensor", "`x / (1 + |x|)`, element by element: near `sign(x)` for large ones.", "div(g, square(add(abs(widened(x)), 1.0)))",
  { int_to_float = true })
activation("threshold(Tensor x, Scalar threshold, Scalar value) -> Tensor",
  "`x` where it is above `threshold`, else `value`.", "threshold_grad_x(g, x, threshold)",
  { dtypes = "real", keeps_dtype = true, chooses = true, sample = { "randn(3, 4), 0.1, 2.0" } })
gradient("threshold_grad_x", "x, Scalar threshold", { grad = "threshold_grad_x(g, x, threshold)" },
  "torch.ops.aten.threshold_backward(*args)", pieces(", 0.1"))
op { "prelu(Tensor x, Tensor weight) -> Tensor",
     kind = "composite", autocast = "lower_precision", dtypes = "floating",
     doc = [[`x` where positive, else `weight * x`. `weight` has one element, or one for each channel, the second
dimension of `x`. He et al. 2015, "Delving Deep into Rectifiers".]],
     sample = { "randn(3, 4), randn(1)", "randn(2, 3, 4), randn(3)", "randn(3), randn(3):select(1, 2)",
                "randn(4), randn(1)" } }
op { "prelu_by(Tensor x, Tensor slope) -> Tensor",
     kind = "pointwise", dtypes = "floating", inplace = false, internal = true,
     grad = { x = "prelu_by_grad_x(g, x, slope)", slope = "where(gt(x, 0.0), 0.0, mul(g, x))" },
     doc = "`prelu` with slopes that broadcast.", sample = { "randn(3, 4), randn(4)" },
     torch = "torch.where(args[0] > 0, args[0], args[0] * args[1])" }
op { "prelu_by_grad_x(Tensor grad, Tensor x, Tensor slope) -> Tensor",
     kind = "pointwise", dtypes = "floating", inplace = false, internal = true,
     grad = { grad = "prelu_by_grad_x(g, x, slope)", slope = "where(gt(x, 0.0), 0.0, mul(g, grad))" },
     doc = "The gradient of `prelu_by` by x.", sample = { "randn(3, 4), randn(3, 4), randn(4)" },
     torch = "torch.where(args[1] > 0, args[0], args[0] * args[2])" }
op { [[rrelu(Tensor x, float lower=0.125, float upper=0.3333333333333333, bool training=false,
             Generator? generator=nil) -> Tensor]],
     kind = "composite", dtypes = "floating", random = true, inplace = true,
     torch = "F.rrelu(*args)",
     doc = [[`leaky_relu` with, in training, a slope for each element drawn evenly from `lower` to `upper`, else
their mean. Xu et al. 2015, arXiv:1505.00853.]],
     sample = { "randn(3, 4)", "randn(3, 4), 0.2, 0.5, true" } }
activation("hardshrink(Tensor x, Scalar lambd=0.5) -> Tensor", "`x`, but 0 from `-lambd` to `lambd`.",
  "hardshrink_grad_x(g, x, lambd)",
  { keeps_dtype = true, inplace = false, sample = { "randn(3, 4)", "randn(3, 4), 0.9" } })
gradient("hardshrink_grad_x", "x, Scalar lambd", { grad = "hardshrink_grad_x(g, x, lambd)" },
  "torch.ops.aten.hardshrink_backward(*args)", pieces(", 0.9"))
op { "softshrink(Tensor x, float lambd=0.5) -> Tensor",
     kind = "composite", dtypes = "floating", out = true,
     doc = "`x` moved towards 0 by `lambd`, 0 from `-lambd` to `lambd`.",
     sample = { "randn(3, 4)", "randn(3, 4), 0.9" }, torch = "F.softshrink(*args)" }
activation("softshrink_by(Tensor x, Scalar lambd) -> Tensor", "`softshrink` by a number that is not negative.",
  "hardshrink_grad_x(g, x, lambd)",
  { keeps_dtype = true, inplace = false, internal = true, sample = { "randn(3, 4), 0.9" },
    torch = "F.softshrink(*args)" })
activation("tanhshrink(Tensor x) -> Tensor", "`x - tanh(x)`.", "tanhshrink_grad_x(g, x)",
  { inplace = false, int_to_float = true })
gradient("tanhshrink_grad_x", "x",
  { grad = "tanhshrink_grad_x(g, x)",
    x = "mul(tanh_grad_x(mul(widened(g), grad), tanh(widened(x))), mul(tanh(widened(x)), 2.0))" },
  "args[0] * torch.tanh(args[1]) ** 2")
