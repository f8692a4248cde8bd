-- tensor/ops/scan.lua: running sums, products and extremes; differences and integrals of samples.

op { "cumsum(Tensor x, Dim dim, DType? dtype=nil) -> Tensor",
     inplace = true, vmap = "dims", linear = true, kind = "structured", autocast = { device = "float32" }, dtypes = "all",
     grad = { x = "flip(cumsum(flip(g, Dims{dim}), dim), Dims{dim})" },
     doc = "Cumulative sum along a dimension. Bools and integers are summed in int64.",
     shapes = "x (*) -> (*)",
     formula = "y_i = sum_(j <= i) x_j",
     example = "ml.cumsum(ml.tensor {1, 2, 3}, 1)",
     gives = [[
{1, 3, 6}
Tensor (3,) int64]],
     sample = { "randn(3, 4), 2", "randn(3, 4), 1" } }

op { "cumprod(Tensor x, Dim dim, DType? dtype=nil) -> Tensor",
     inplace = true, vmap = "dims", kind = "structured", autocast = { device = "float32" }, dtypes = "all",
     grad = { x = "cumprod_grad_x(g, x, y, dim)" },
     doc = "Cumulative product along a dimension. Bools and integers are multiplied in int64.",
     shapes = "x (*) -> (*)",
     formula = "y_i = prod_(j <= i) x_j",
     example = "ml.cumprod(ml.tensor {1, 2, 3, 4}, 1)",
     gives = [[
{ 1,  2,  6, 24}
Tensor (4,) int64]],
     sample = { "randn(3, 4), 2", "randn(3, 4), 1", "tensor({{2, 0, 3}, {0, 4, 0}}), 2", "view_as_complex(randn(3, 4, 2)), 2" } }

local running_extremes = {
  cummax = { [[Cumulative maximum along a dimension: the largest element so far and its index (from 1), the
last where several are equal. NaN wins.]],
    shapes = "x (*) -> values (*), indices (*)",
    formula = "y_i = max_(j <= i) x_j",
    example = "ml.cummax(ml.tensor {1, 3, 2, 5}, 1)",
    gives = [[
{1, 3, 3, 5}
Tensor (4,) int64
{1, 2, 2, 4}
Tensor (4,) int64]] },
  cummin = { [[Cumulative minimum along a dimension: the smallest element so far and its index (from 1), the
last where several are equal. NaN wins.]],
    shapes = "x (*) -> values (*), indices (*)",
    formula = "y_i = min_(j <= i) x_j",
    example = "ml.cummin(ml.tensor {4, 3, 5, 1}, 1)",
    gives = [[
{4, 3, 3, 1}
Tensor (4,) int64
{1, 2, 2, 4}
Tensor (4,) int64]] },
}

for _, name in ipairs { "cummax", "cummin" } do
  op { name .. "(Tensor x, Dim dim) -> (Tensor values, Tensor indices)",
       vmap = "dims", kind = "structured", dtypes = "boolean+real",
       nodiff = { "indices" },
       grad = { x = "added_grad_x(g_values, indices, sizes_of(x), dim)" },
       doc = running_extremes[name],
       sample = { "randn(3, 4), 2", "randn(3, 4), 1", "tensor({3, 1, 1, 2, 3}), 1", "randn(2, 3, 4), -2" },
       torch = ("with_positions(torch.%s(*args))"):format(name) }
end

op { "logcumsumexp(Tensor x, Dim dim) -> Tensor",
     vmap = "dims", kind = "structured", dtypes = "floating+complex",
     grad = { x = "logcumsumexp_grad_x(g, x, y, dim)" },
     doc = "Logarithm of the cumulative sum of exponentials along a dimension, without overflow.",
     shapes = "x (*) -> (*)",
     formula = "y_i = ln(sum_(j <= i) exp(x_j))",
     example = "ml.logcumsumexp(ml.tensor {1000.0, 1000, 1000}, 1)",
     gives = [[
{1000.0000, 1000.6932, 1001.0986}
Tensor (3,) float32]],
     sample = { "randn(3, 4), 2", "randn(3, 4), 1", "view_as_complex(randn(3, 4, 2)), 2", "tensor({-30.5, 30, 31, 29}), 1" } }

op { [[diff(Tensor x, int n=1, Dim dim=-1, Tensor? prepend=nil, Tensor? append=nil) -> Tensor]],
     out = true, kind = "composite", dtypes = "all",
     doc = "Differences of neighbours along a dimension, `n` times. Of bools, whether they differ.",
     args = { n = "how many times differences are taken",
              prepend = "what is put before `x` first, unless `n` is 0",
              append = "what is put after `x` first, unless `n` is 0" },
     shapes = "x (*, m, *) -> (*, max(m - n, 0), *)",
     formula = "y_i = x_(i + 1) - x_i",
     example = "ml.diff(ml.tensor {1, 4, 9, 16})",
     gives = [[
{3, 5, 7}
Tensor (3,) int64]],
     sample = { "randn(3, 5)", "randn(3, 5), 2, 1", "randn(3, 5), 1, 2, randn(3, 1), randn(3, 2)",
                "randn(3, 5), 7", "randn(3, 5), 0", "randn(3, 5):gt(0)" } }

op { "trapezoid(Tensor y, Tensor? x=nil, float dx=1, Dim dim=-1) -> Tensor",
     kind = "composite", dtypes = "integral+floating+complex", method = false, alias = { "trapz" },
     doc = "Integral of samples along a dimension by the trapezoidal rule.",
     args = { y = "the samples",
              x = "where they were taken, a vector or a tensor that broadcasts to `y`",
              dx = "the distance of the samples, where `x` is not given" },
     shapes = "y (*, n, *), x (n) -> (*, *)",
     formula = "result = sum_i (x_(i + 1) - x_i) * (y_i + y_(i + 1)) / 2",
     example = "ml.trapezoid(ml.tensor {1.0, 2, 3}, ml.tensor {0.0, 1, 3})",
     gives = "6.5000  Tensor () float32",
     sample = { "randn(3, 5)", "randn(3, 5), nil, 0.5, 1", "randn(3, 5), tensor({1, 2, 4, 7, 8})",
                "randn(3, 5), randn(3, 5), 1, 1", "randn(2, 3, 4), randn(3), 1, 2" },
     torch = "torch.trapezoid(args[0], args[1], dim=args[3] if len(args) > 3 else -1) if len(args) > 1 and args[1] is not None else torch.trapezoid(args[0], dx=args[2] if len(args) > 2 else 1, dim=args[3] if len(args) > 3 else -1)" }

op { "cumulative_trapezoid(Tensor y, Tensor? x=nil, float dx=1, Dim dim=-1) -> Tensor",
     kind = "composite", dtypes = "integral+floating+complex", method = false,
     doc = [[Cumulative integrals of samples along a dimension by the trapezoidal rule, one for each
sample but the first.]],
     args = { y = "the samples",
              x = "where they were taken, a vector or a tensor that broadcasts to `y`",
              dx = "the distance of the samples, where `x` is not given" },
     shapes = "y (*, n, *), x (n) -> (*, n - 1, *)",
     formula = "result_k = sum_(i <= k) (x_(i + 1) - x_i) * (y_i + y_(i + 1)) / 2",
     example = "ml.cumulative_trapezoid(ml.tensor {1.0, 2, 3})",
     gives = [[
{1.5000, 4.0000}
Tensor (2,) float32]],
     sample = { "randn(3, 5)", "randn(3, 5), nil, 0.5, 1", "randn(3, 5), tensor({1, 2, 4, 7, 8})" },
     torch = "torch.cumulative_trapezoid(args[0], args[1], dim=args[3] if len(args) > 3 else -1) if len(args) > 1 and args[1] is not None else torch.cumulative_trapezoid(args[0], dx=args[2] if len(args) > 2 else 1, dim=args[3] if len(args) > 3 else -1)" }

local gradients = {
  gradient = { [[Gradients of samples along each dimension: second-order central differences inside, one-sided
differences at both ends. A table of tensors of the shape of `x`.]],
    args = { x = "the samples",
             spacing = "their distance, or a table with a number or a vector of coordinates for each dimension",
             dim = "the dimensions, one or a table; all unless given",
             edge_order = "the order of the differences at the ends, 1 or 2" },
    shapes = "x (*) -> table of (*)",
    formula = "y_i = (x_(i + 1) - x_(i - 1)) / (2 * spacing)",
    example = "ml.gradient(ml.tensor {1.0, 4, 9, 16})[1]",
    gives = [[
{3., 4., 6., 7.}
Tensor (4,) float32]] },
  gradient_by = { "Gradients of samples with a distance for each dimension.",
    args = { x = "the samples",
             spacing = "the distances",
             dim = "the dimensions, one or a table; all unless given",
             edge_order = "the order of the differences at the ends, 1 or 2" },
    shapes = "x (*) -> table of (*)",
    example = "ml.gradient(ml.tensor {1.0, 4, 9, 16}, {0.5}, 1)[1]",
    gives = [[
{ 6.,  8., 12., 14.}
Tensor (4,) float32]] },
  gradient_at = { "Gradients of samples at vectors of coordinates, one for each dimension.",
    args = { x = "the samples",
             spacing = "the coordinates of the samples",
             dim = "the dimensions, one or a table; all unless given",
             edge_order = "the order of the differences at the ends, 1 or 2" },
    shapes = "x (*), spacing (n_i) -> table of (*)",
    example = "ml.gradient(ml.tensor {1.0, 4, 16}, {ml.tensor {1.0, 2, 4}})[1]",
    gives = [[
{3., 4., 6.}
Tensor (3,) float32]] },
}

-- Gradients: samples at even distances, or at coordinates.
for _, form in ipairs {
  { "", "float spacing=1",
    { "randn(5)", "randn(4, 5), 0.5", "randn(4, 5), 2, 1", "randn(4, 5), 1, {2, 1}, 2", "tensor({1, 4, 9, 16})", "randn(2, 3), 1, 1" } },
  { "_by", "float[*] spacing",
    { "randn(4, 5), {0.5, 2}", "randn(4, 5), {2}, 1", "randn(4, 5), {1, 3}, {2, 1}, 2" } },
  { "_at", "Tensor[] spacing",
    { "randn(4), {tensor({0, 1, 3, 3.5})}", "randn(3, 4), {tensor({0, 1, 3}), tensor({0, 1, 3, 3.5})}, nil, 2",
      "randn(3, 4), {tensor({0, 1, 3, 3.5})}, 2" } },
} do
  op { ("gradient%s(Tensor x, %s, Dim[]? dim=nil, int edge_order=1) -> Tensor[]"):format(form[1], form[2]),
       overload_of = form[1] ~= "" and "gradient" or nil, method = false,
       kind = "composite", dtypes = "integral+floating+complex",
       doc = gradients["gradient" .. form[1]],
       sample = form[3],
       torch = "torch_gradient(args)" }
end
