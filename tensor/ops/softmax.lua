-- tensor/ops/softmax.lua: softmax, its logarithm, and their gradients.

op { "softmax(Tensor x, Dim dim) -> Tensor",
     vmap = "dims", kind = "structured", autocast = { device = "float32" }, dtypes = "floating", alias = { "special.softmax" },
     grad = { x = "softmax_grad_x(g, y, dim)" },
     doc = [[Softmax along a dimension: positive numbers that sum to 1. Computed from `x - max(x)`, so
it does not overflow. A slice of minus infinities gives NaN.]],
     args = { dim = "the dimension along which the result sums to 1" },
     shapes = "x (*) -> (*)",
     formula = "y_i = exp(x_i) / sum_j exp(x_j)",
     example = "ml.softmax(ml.tensor {1.0, 2, 3}, 1)",
     gives = [[
{0.0900, 0.2447, 0.6652}
Tensor (3,) float32]],
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
     doc = "Logarithm of the softmax along a dimension, computed without overflow or loss of precision.",
     args = { dim = "the dimension along which the exponentials of the result sum to 1" },
     shapes = "x (*) -> (*)",
     formula = "y_i = x_i - ln(sum_j exp(x_j))",
     example = "ml.log_softmax(ml.tensor {1.0, 2, 3}, 1)",
     gives = [[
{-2.4076, -1.4076, -0.4076}
Tensor (3,) float32]],
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
     doc = "Softmin along a dimension: the softmax of `-x`.",
     args = { dim = "the dimension along which the result sums to 1" },
     shapes = "x (*) -> (*)",
     formula = "y_i = exp(-x_i) / sum_j exp(-x_j)",
     example = "ml.softmin(ml.tensor {1.0, 2, 3}, 1)",
     gives = [[
{0.6652, 0.2447, 0.0900}
Tensor (3,) float32]],
     sample = { "randn(3, 4), 2" } }

local with_dtype = {
  softmax = { "Softmax of `x` converted to a floating dtype first.",
    args = { dim = "the dimension along which the result sums to 1", dtype = "a floating dtype" },
    shapes = "x (*) -> (*)",
    example = "ml.softmax(ml.tensor {1, 2, 3}, 1, ml.float64)",
    gives = [[
{0.0900, 0.2447, 0.6652}
Tensor (3,) float64]] },
  log_softmax = { "Logarithm of the softmax of `x` converted to a floating dtype first.",
    args = { dim = "the dimension along which the exponentials of the result sum to 1",
             dtype = "a floating dtype" },
    shapes = "x (*) -> (*)",
    example = "ml.log_softmax(ml.tensor {1, 2, 3}, 1, ml.float64)",
    gives = [[
{-2.4076, -1.4076, -0.4076}
Tensor (3,) float64]] },
  softmin = { "Softmin of `x` converted to a floating dtype first.",
    args = { dim = "the dimension along which the result sums to 1", dtype = "a floating dtype" },
    shapes = "x (*) -> (*)",
    example = "ml.softmin(ml.tensor {1, 2, 3}, 1, ml.float64)",
    gives = [[
{0.6652, 0.2447, 0.0900}
Tensor (3,) float64]] },
}

for _, name in ipairs { "softmax", "log_softmax", "softmin" } do
  op { name .. "_dtype(Tensor x, Dim dim, DType dtype) -> Tensor",
       overload_of = name, out = name ~= "softmin" or nil, kind = "composite", dtypes = "boolean+real",
       doc = with_dtype[name],
       sample = { "randn(3, 4), 2, \"float64\"", "tensor({{1, 2}, {3, 5}}), 1, \"float64\"" },
       torch = ("F.%s(args[0], args[1], dtype=getattr(torch, args[2]))"):format(name) }
end
