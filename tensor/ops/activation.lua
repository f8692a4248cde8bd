-- tensor/ops/activation.lua: the activation functions of networks. Samples keep away from kinks.

local rows = require "tensor.ops.gen.pointwise_rows"

local function activation(signature, doc, grad, extra)
  local row = { signature, kind = "pointwise", dtypes = "floating", grad = { x = grad }, doc = doc,
    sample = { "randn(3, 4)" }, torch = ("F.%s(*args)"):format(signature:match "^[%w_]+") }
  for key, value in pairs(extra or {}) do row[key] = value end
  op(row)
end

-- The gradient of an op as an op of its own, which saves a pass over memory.
local function gradient(name, saved, grads, torch, extra)
  op { ("%s(Tensor grad, Tensor %s) -> Tensor"):format(name, saved),
       kind = "pointwise", dtypes = extra and extra.dtypes or "floating", inplace = false, internal = true, grad = grads,
       doc = ("The gradient of `%s` from that of its result."):format(name:gsub("_grad_x$", "")),
       sample = extra and extra.sample or { "randn(3, 4), randn(3, 4)" }, torch = torch }
end

local complex = { dtypes = "floating + complex",
  sample = rows.with_complex("randn(3, 4), randn(3, 4)",
    "complex(randn(3, 4), randn(3, 4)), complex(randn(3, 4), randn(3, 4))") }

activation("relu(Tensor x) -> Tensor", "`max(x, 0)`.", "relu_grad_x(g, y)", { dtypes = "real" })
gradient("relu_grad_x", "result", { grad = "relu_grad_x(g, result)" }, "args[0] * (args[1] > 0)")
activation("relu6(Tensor x) -> Tensor", "`min(max(x, 0), 6)`.",
  "where(logical_and(gt(x, 0.0), lt(x, 6.0)), g, 0.0)", { dtypes = "real", sample = { "randn(3, 4) * 4" } })
activation("leaky_relu(Tensor x, Scalar negative_slope=0.01) -> Tensor",
  "`x` where positive, else `negative_slope * x`.",
  "where(gt(x, 0.0), g, mul(g, negative_slope))", { keeps_dtype = true, sample = { "randn(3, 4)", "randn(3, 4), 0.2" } })
activation("elu(Tensor x, Scalar alpha=1.0) -> Tensor",
  "`x` where positive, else `alpha * (exp(x) - 1)`. Clevert et al. 2015, arXiv:1511.07289.",
  "where(gt(x, 0.0), g, mul(g, add(elu(minimum(widened(x), 0.0), alpha), alpha)))",
  { keeps_dtype = true, sample = { "randn(3, 4)", "randn(3, 4), 0.7" } })
activation("celu(Tensor x, Scalar alpha=1.0) -> Tensor",
  "`x` where positive, else `alpha * (exp(x / alpha) - 1)`. Barron 2017, arXiv:1704.07483.",
  "where(gt(x, 0.0), g, mul(g, exp(div(minimum(widened(x), 0.0), alpha))))",
  { keeps_dtype = true, sample = { "randn(3, 4)", "randn(3, 4), 0.7" } })
activation("selu(Tensor x) -> Tensor",
  "The scaled `elu` that keeps mean and variance. Klambauer et al. 2017, arXiv:1706.02515.",
  "where(gt(x, 0.0), mul(g, 1.0507009873554805), mul(g, mul(exp(minimum(widened(x), 0.0)), 1.7580993408473766)))")
activation("sigmoid(Tensor x) -> Tensor", "`1 / (1 + exp(-x))`.", "sigmoid_grad_x(g, y)",
  { int_to_float = true, dtypes = "floating + complex", sample = rows.with_complex(), alias = { "special.expit" } })
gradient("sigmoid_grad_x", "result",
  { grad = "sigmoid_grad_x(g, conj(result))",
    result = "mul(mul(conj(g), grad), sub(1.0, mul(conj(result), 2.0)))" },
  "torch.ops.aten.sigmoid_backward(*args)", complex)
activation("logsigmoid(Tensor x) -> Tensor", "`log(sigmoid(x))`, without overflow.", "mul(g, sigmoid(neg(widened(x))))")
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
    x = "mul(mul(g, grad), mul(exp(mul(square(x), -0.5)), mul(sub(2.0, square(x)), 0.3989422804014327)))" },
  "torch.ops.aten.gelu_backward(*args)")
activation("gelu_tanh(Tensor x) -> Tensor", "`gelu` in its tanh form.", "gelu_tanh_grad_x(g, x)",
  { torch = 'F.gelu(args[0], approximate="tanh")' })
activation("silu(Tensor x) -> Tensor", "`x * sigmoid(x)`.", "silu_grad_x(g, x)",
  { dtypes = "floating + complex", sample = rows.with_complex() })
gradient("silu_grad_x", "x", { grad = "silu_grad_x(g, conj(x))", x = "silu_grad_x_grad_x(conj(g), grad, x)" },
  "args[0] * (torch.sigmoid(args[1]) * (1 + args[1] * (1 - torch.sigmoid(args[1])))).conj()", complex)
activation("mish(Tensor x) -> Tensor", "`x * tanh(softplus(x))`. Misra 2019, arXiv:1908.08681.", "mish_grad_x(g, x)")
activation("softplus(Tensor x, Scalar beta=1.0, Scalar threshold=20.0) -> Tensor",
  "`log(1 + exp(beta * x)) / beta`; `x` itself where `beta * x` passes `threshold`.",
  "where(gt(mul(widened(x), beta), threshold), g, mul(g, sigmoid(mul(widened(x), beta))))",
  { keeps_dtype = true, autocast = { cuda = "float32" }, sample = { "randn(3, 4)", "randn(3, 4), 2.0, 3.0" } })
activation("hardtanh(Tensor x, Scalar min_val=-1.0, Scalar max_val=1.0) -> Tensor",
  "`x` limited to the range from `min_val` to `max_val`.",
  "where(logical_and(gt(x, min_val), lt(x, max_val)), g, 0.0)",
  { dtypes = "real", keeps_dtype = true, chooses = { min_val = "lower", max_val = "upper" },
    sample = { "randn(3, 4)", "randn(3, 4), -0.5, 2.0" } })
activation("hardsigmoid(Tensor x) -> Tensor", "0 up to -3, 1 from 3, `x / 6 + 1 / 2` between.",
  "where(logical_and(gt(x, -3.0), lt(x, 3.0)), div(g, 6.0), 0.0)", { sample = { "randn(3, 4) * 3" } })
activation("hardswish(Tensor x) -> Tensor", "`x * hardsigmoid(x)`. Howard et al. 2019, arXiv:1905.02244.",
  "where(ge(x, 3.0), g, where(le(x, -3.0), 0.0, mul(g, add(div(widened(x), 3.0), 0.5))))",
  { sample = { "randn(3, 4) * 3" } })
activation("softsign(Tensor x) -> Tensor", "`x / (1 + |x|)`, element by element: near `sign(x)` for large ones.", "div(g, square(add(abs(widened(x)), 1.0)))")
activation("threshold(Tensor x, Scalar threshold, Scalar value) -> Tensor",
  "`x` where it is above `threshold`, else `value`.", "where(gt(x, threshold), g, 0.0)",
  { dtypes = "real", keeps_dtype = true, chooses = true, sample = { "randn(3, 4), 0.1, 2.0" } })
op { "prelu(Tensor x, Tensor weight) -> Tensor",
     kind = "composite", dtypes = "floating", autocast = { cuda = "promote" },
     doc = [[`x` where positive, else `weight * x`. `weight` has one element, or one for each channel, the second
dimension of `x`. He et al. 2015, "Delving Deep into Rectifiers".]],
     sample = { "randn(3, 4), randn(1)", "randn(2, 3, 4), randn(3)", "randn(3), randn(3):select(1, 2)",
                "randn(4), randn(1)" } }
op { [[rrelu(Tensor x, float lower=0.125, float upper=0.3333333333333333, bool training=false,
             Generator? generator=nil) -> Tensor]],
     kind = "composite", dtypes = "floating", random = true, inplace = true,
     torch = "F.rrelu(*args)",
     doc = [[`leaky_relu` with, in training, a slope for each element drawn evenly from `lower` to `upper`, else
their mean. Xu et al. 2015, arXiv:1505.00853.]],
     sample = { "randn(3, 4)", "randn(3, 4), 0.2, 0.5, true" } }
activation("hardshrink(Tensor x, Scalar lambd=0.5) -> Tensor", "`x`, but 0 from `-lambd` to `lambd`.",
  "where(logical_and(ge(x, -lambd.to_double()), le(x, lambd)), 0.0, g)",
  { keeps_dtype = true, inplace = false, sample = { "randn(3, 4)", "randn(3, 4), 0.9" } })
op { "softshrink(Tensor x, float lambd=0.5) -> Tensor",
     kind = "composite", dtypes = "floating", out = true,
     doc = "`x` moved towards 0 by `lambd`, 0 from `-lambd` to `lambd`.",
     sample = { "randn(3, 4)", "randn(3, 4), 0.9" }, torch = "F.softshrink(*args)" }
op { "tanhshrink(Tensor x) -> Tensor",
     kind = "composite", dtypes = "floating",
     doc = "`x - tanh(x)`.", sample = { "randn(3, 4)" }, torch = "F.tanhshrink(*args)" }
