-- tensor/ops/softmax.lua: softmax, its logarithm, and their gradients.

op { "softmax(Tensor x, Dim dim) -> Tensor",
     vmap = "dims", kind = "structured", autocast = { device = "float32" }, dtypes = "floating", alias = { "special.softmax" },
     grad = { x = "softmax_grad_x(g, y, dim)" },
     doc = [[`exp(x)` along `dim`, divided by its sum; computed from `x - max(x)`, so it does not overflow.
A slice of minus infinities gives NaN.]],
     sample = { "randn(3, 4), 2", "randn(3, 4), 1", "randn(2, 3, 4), 2" } }

op { "softmax_grad_x(Tensor grad, Tensor result, Dim dim) -> Tensor",
     vmap = "all", kind = "structured", dtypes = "floating", internal = true,
     grad = { grad = "softmax_grad_x(g, result, dim)",
              result = "softmax_grad_x_grad_result(g, grad, result, dim)" },
     torch = "args[1] * (args[0] - (args[0] * args[1]).sum(args[2], True))",
     doc = [[The gradient of `softmax` from its result: `result * (grad - sum(grad * result))`.]],
     sample = { "randn(3, 4), randn(3, 4), 2" } }

op { "log_softmax(Tensor x, Dim dim) -> Tensor",
     vmap = "dims", kind = "structured", autocast = { device = "float32" }, dtypes = "floating", alias = { "special.log_softmax" },
     grad = { x = "log_softmax_grad_x(g, y, dim)" },
     doc = [[The logarithm of `softmax`, computed without its loss of precision.]],
     sample = { "randn(3, 4), 2", "randn(3, 4), 1", "randn(2, 3, 4), 2" } }

op { "log_softmax_grad_x(Tensor grad, Tensor result, Dim dim) -> Tensor",
     vmap = "all", kind = "structured", dtypes = "floating", internal = true,
     grad = { ["grad, result"] = "log_softmax_grad_x_grads(g, grad, result, dim)" },
     torch = "args[0] - args[1].exp() * args[0].sum(args[2], True)",
     doc = [[The gradient of `log_softmax` from its result: `grad - exp(result) * sum(grad)`.]],
     sample = { "randn(3, 4), randn(3, 4), 2" } }

op { "softmin(Tensor x, Dim dim) -> Tensor",
     kind = "composite", dtypes = "floating",
     torch = "F.softmin(args[0], args[1])",
     doc = [[`softmax(-x)` along `dim`.]],
     sample = { "randn(3, 4), 2" } }

for _, name in ipairs { "softmax", "log_softmax", "softmin" } do
  op { name .. "_dtype(Tensor x, Dim dim, DType dtype) -> Tensor",
       overload_of = name, out = name ~= "softmin" or nil, kind = "composite", dtypes = "boolean+real",
       doc = ("`%s` of `x` converted to `dtype`, which is floating."):format(name),
       sample = { "randn(3, 4), 2, \"float64\"", "tensor({{1, 2}, {3, 5}}), 1, \"float64\"" },
       torch = ("F.%s(args[0], args[1], dtype=getattr(torch, args[2]))"):format(name) }
end
