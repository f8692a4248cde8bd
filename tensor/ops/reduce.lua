-- tensor/ops/reduce.lua: sums, averages, extremes, norms and running sums.

op { "sum(Tensor x, Dim[*] dim={}, bool keepdim=false, DType? dtype=nil) -> Tensor",
     vmap = "dims", linear = true, kind = "structured", autocast = { device = "float32" }, dtypes = "all",
     grad = { x = "expand(restore_dims(g, sizes_of(x), dim, keepdim), sizes_of(x))" },
     doc = [[Sum of the elements over some dimensions, or over all. Bools and integers are summed in
int64. Floats are summed in blocks, so that the rounding error grows with the logarithm of the count,
and the result does not depend on the number of threads. An empty sum is 0.]],
     formula = "y = sum_i x_i",
     example = "ml.sum(ml.tensor {{1, 2}, {3, 4}}, 1)",
     gives = [[
{4, 6}
Tensor (2,) int64]],
     sample = { "randn(3, 4)", "randn(3, 4, 2), 2", "randn(3, 4, 2), {1, 3}, true", "randn(3, 4), {}" } }

op { "mean(Tensor x, Dim[*] dim={}, bool keepdim=false, DType? dtype=nil) -> Tensor",
     vmap = "dims", linear = true, kind = "structured", dtypes = "all",
     grad = { x = "mean_grad_x(g, sizes_of(x), dim, keepdim)" },
     doc = [[Arithmetic mean of the elements over some dimensions, or over all. Integers need a floating
`dtype`. The mean of nothing is NaN.]],
     formula = "y = sum_i x_i / n",
     example = "ml.mean(ml.tensor {{1.0, 2}, {3, 4}}, 2)",
     gives = [[
{1.5000, 3.5000}
Tensor (2,) float32]],
     sample = { "randn(3, 4)", "randn(3, 4, 2), 2", "randn(3, 4, 2), {1, 3}, true", "randn(3, 4), {}" },
     check = { dtypes = "integers need a dtype" } }

op { "prod(Tensor x, Dim? dim=nil, bool keepdim=false, DType? dtype=nil) -> Tensor",
     vmap = "dims", kind = "structured", autocast = "float32", dtypes = "all",
     grad = { x = "prod_grad_x(g, x, y, dim, keepdim)" },
     doc = [[Product of the elements along a dimension, or of all. Bools and integers are multiplied in
int64. An empty product is 1.]],
     args = { dim = "the dimension; all elements unless given" },
     formula = "y = prod_i x_i",
     example = "ml.prod(ml.tensor {{1, 2}, {3, 4}}, 1)",
     gives = [[
{3, 8}
Tensor (2,) int64]],
     sample = { "randn(3, 4)", "randn(3, 4, 2), 2", "randn(3, 4), 1, true", "tensor({{2, 0, 3}, {0, 4, 0}}), 2",
                "view_as_complex(randn(3, 4, 2)), 2", "view_as_complex(randn(3, 2))" } }

local extremes = {
  amax = { [[Largest element over some dimensions, or of all. NaN wins. Among equal extremes the gradient
is shared evenly.]],
    formula = "y = max_i x_i",
    example = "ml.amax(ml.tensor {{1, 5}, {7, 3}}, 2)",
    gives = [[
{5, 7}
Tensor (2,) int64]] },
  amin = { [[Smallest element over some dimensions, or of all. NaN wins. Among equal extremes the gradient
is shared evenly.]],
    formula = "y = min_i x_i",
    example = "ml.amin(ml.tensor {{1, 5}, {7, 3}}, 2)",
    gives = [[
{1, 3}
Tensor (2,) int64]] },
  max = { [[Largest element of all; NaN wins. With a dimension the largest elements along it and their
indices, `values, indices = x:max(dim)`; with another tensor `maximum`.]],
    shapes = "x (*) -> ()",
    formula = "y = max_i x_i",
    example = "ml.max(ml.tensor {{1, 5}, {7, 3}})", gives = "7  Tensor () int64" },
  max_dim = { [[Largest elements along a dimension and their indices (from 1), the first where several are
equal. NaN wins.]],
    shapes = "x (*, n, *) -> values (*, *), indices (*, *)",
    example = "ml.max(ml.tensor {{1, 5}, {7, 3}}, 2)",
    gives = [[
{5, 7}
Tensor (2,) int64
{2, 1}
Tensor (2,) int64]] },
  argmax = { "Index (from 1) of the largest element along a dimension, the first where several are equal; NaN wins.",
    args = { dim = "the dimension; without it the index is that among all elements in row-major order" },
    example = "ml.argmax(ml.tensor {{1, 5}, {7, 3}}, 2)",
    gives = [[
{2, 1}
Tensor (2,) int64]] },
  min = { [[Smallest element of all; NaN wins. With a dimension the smallest elements along it and their
indices, `values, indices = x:min(dim)`; with another tensor `minimum`.]],
    shapes = "x (*) -> ()",
    formula = "y = min_i x_i",
    example = "ml.min(ml.tensor {{1, 5}, {7, 3}})", gives = "1  Tensor () int64" },
  min_dim = { [[Smallest elements along a dimension and their indices (from 1), the first where several are
equal. NaN wins.]],
    shapes = "x (*, n, *) -> values (*, *), indices (*, *)",
    example = "ml.min(ml.tensor {{1, 5}, {7, 3}}, 2)",
    gives = [[
{1, 3}
Tensor (2,) int64
{1, 2}
Tensor (2,) int64]] },
  argmin = { "Index (from 1) of the smallest element along a dimension, the first where several are equal; NaN wins.",
    args = { dim = "the dimension; without it the index is that among all elements in row-major order" },
    example = "ml.argmin(ml.tensor {{1, 5}, {7, 3}}, 2)",
    gives = [[
{1, 2}
Tensor (2,) int64]] },
}

for _, name in ipairs { "amax", "amin" } do
  op { name .. "(Tensor x, Dim[*] dim={}, bool keepdim=false) -> Tensor",
       vmap = "dims", kind = "structured", dtypes = "boolean+real",
       grad = { x = "extreme_grad_x(g, x, y, dim, keepdim)" },
       doc = extremes[name],
       sample = { "randn(3, 4)", "randn(3, 4, 2), 2", "randn(3, 4, 2), {1, 3}, true", "randn(3, 4), {}" } }
end

for _, name in ipairs { "max", "min" } do
  op { name .. "(Tensor x) -> Tensor",
       out = true, kind = "composite", dtypes = "boolean+real",
       doc = extremes[name],
       sample = { "randn(3, 4)" } }

  op { name .. "_dim(Tensor x, Dim dim, bool keepdim=false) -> (Tensor values, Tensor indices)",
       vmap = "dims", kind = "structured", dtypes = "boolean+real", overload_of = name,
       nodiff = { "indices" },
       grad = { x = "selected_grad_x(g_values, indices, sizes_of(x), dim, keepdim)" },
       doc = extremes[name .. "_dim"],
       sample = { "randn(3, 4), 2", "randn(3, 4, 2), 1, true" },
       torch = ("positions(torch.%s(*args))"):format(name) }

  op { ("arg%s(Tensor x, Dim? dim=nil, bool keepdim=false) -> Tensor"):format(name),
       vmap = "dims", kind = "structured", dtypes = "boolean+real",
       doc = extremes["arg" .. name],
       sample = { "randn(3, 4)", "randn(3, 4, 2), 2", "randn(3, 4), 1, true" },
       torch = ("torch.arg%s(*args) + 1"):format(name) }
end

local quantifiers = {
  any = { [[Whether some element over the given dimensions is not 0: a bool tensor, of uint8 a uint8 one.
Of nothing it is false.]],
    args = { dim = "the dimensions, one or a table; all unless given, and `{}` is none: each element alone" },
    example = "ml.any(ml.tensor {{0, 1}, {0, 0}}, 2)",
    gives = [[
{ true, false}
Tensor (2,) bool]] },
  all = { [[Whether every element over the given dimensions is not 0: a bool tensor, of uint8 a uint8 one.
Of nothing it is true.]],
    args = { dim = "the dimensions, one or a table; all unless given, and `{}` is none: each element alone" },
    example = "ml.all(ml.tensor {{1, 1}, {0, 1}}, 2)",
    gives = [[
{ true, false}
Tensor (2,) bool]] },
}

for _, name in ipairs { "any", "all" } do
  op { name .. "(Tensor x, Dim[]? dim=nil, bool keepdim=false) -> Tensor",
       vmap = "dims", kind = "structured", dtypes = "all",
       doc = quantifiers[name],
       sample = { "tensor({{0, 1}, {0, 0}})", "tensor({{1, 1}, {0, 1}}), 2", "tensor({{0, 1}, {0, 0}}), {}",
                  "tensor({{0, 1}, {0, 0}}):to(\"uint8\"), 1, true", "randn(2, 3, 2):gt(0), {1, 3}" } }
end

op { "count_nonzero(Tensor x, Dim[*] dim={}) -> Tensor",
     vmap = "dims", kind = "structured", dtypes = "all",
     doc = "Number of elements over some dimensions, or of all, that are not 0.",
     shapes = "x (*) -> (*) without the dimensions `dim`, all unless given",
     example = "ml.count_nonzero(ml.tensor {{0, 1}, {2, 3}}, 1)",
     gives = [[
{1, 2}
Tensor (2,) int64]],
     sample = { "tensor({{0, 1}, {2, 3}})", "tensor({{0, 1}, {2, 3}}), 1", "randn(2, 3, 2):gt(0), {1, 3}" } }

op { "aminmax(Tensor x, Dim[*] dim={}, bool keepdim=false) -> (Tensor min, Tensor max)",
     vmap = "dims", kind = "structured", dtypes = "boolean+real",
     grad = { x = [[add(extreme_grad_x(g_min, x, min, dim, keepdim),
                        extreme_grad_x(g_max, x, max, dim, keepdim))]] },
     doc = [[Smallest and largest element over some dimensions, or of all, in one pass. NaN wins. Among
equal extremes the gradient is shared evenly.]],
     shapes = "x (*) -> min (*), max (*)",
     example = "ml.aminmax(ml.tensor {{1, 5}, {7, 3}})", gives = "1  Tensor () int64	7  Tensor () int64",
     sample = { "randn(3, 4)", "randn(3, 4, 2), 2", "randn(3, 4), 1, true" },
     torch = [[torch.aminmax(args[0], dim=args[1] if len(args) > 1 else None,
keepdim=args[2] if len(args) > 2 else False)]] }

-- Spreads: the form with `correction`, and PyTorch's older ones with `unbiased`.
local spreads = { "randn(3, 4)", "randn(3, 4, 2), 2", "randn(3, 4, 2), {1, 3}, 0, true",
  "randn(3, 4), 2, 1.5", "view_as_complex(randn(3, 4, 2)), 1" }
local spread_call = [[torch.%s(args[0], dim=args[1] if len(args) > 1 else None,
correction=args[2] if len(args) > 2 else 1, keepdim=args[3] if len(args) > 3 else False)]]

op { "var(Tensor x, Dim[*] dim={}, float correction=1, bool keepdim=false) -> Tensor",
     vmap = "dims", kind = "structured", dtypes = "floating+complex",
     grad = { x = "var_grad_x(g, x, dim, correction, keepdim)" },
     doc = [[Variance over some dimensions, or of all elements, in two passes over the data. `unbiased =
true` stands for a correction of 1, `false` for 0. That of complex numbers is real.]],
     args = { correction = "what is subtracted from the number of elements: 1 for the unbiased estimate, 0 for " ..
                "that of the whole population" },
     formula = "y = sum_i abs(x_i - mean(x))^2 / (n - correction)",
     example = "ml.var(ml.tensor {1.0, 2, 3, 4})", gives = "1.6667  Tensor () float32",
     sample = spreads, torch = spread_call:format "var" }

op { "std(Tensor x, Dim[*] dim={}, float correction=1, bool keepdim=false) -> Tensor",
     vmap = "dims", kind = "structured", dtypes = "floating+complex",
     grad = { x = "std_grad_x(g, x, y, dim, correction, keepdim)" },
     doc = [[Standard deviation over some dimensions, or of all elements: the square root of `var`, also
where that overflows or underflows the dtype. The gradient where it is 0 is 0.]],
     args = { correction = "what is subtracted from the number of elements: 1 for the unbiased estimate of the " ..
                "variance, 0 for that of the whole population" },
     formula = "y = sqrt(sum_i abs(x_i - mean(x))^2 / (n - correction))",
     example = "ml.std(ml.tensor {1.0, 2, 3, 4})", gives = "1.2910  Tensor () float32",
     sample = spreads, torch = spread_call:format "std" }

local spread_texts = {
  var_mean = { "Variance over some dimensions, or of all elements, as `var` computes it, and the mean.",
    args = { correction = "what is subtracted from the number of elements: 1 for the unbiased estimate, 0 for " ..
               "that of the whole population" },
    shapes = "x (*) -> spread (*), mean (*)",
    example = "ml.var_mean(ml.tensor {1.0, 2, 3, 4})",
    gives = "1.6667  Tensor () float32	2.5000  Tensor () float32" },
  std_mean = { "Standard deviation over some dimensions, or of all elements, as `std` computes it, and the mean.",
    args = { correction = "what is subtracted from the number of elements: 1 for the unbiased estimate, 0 for " ..
               "that of the whole population" },
    shapes = "x (*) -> spread (*), mean (*)",
    example = "ml.std_mean(ml.tensor {1.0, 2, 3, 4})",
    gives = "1.2910  Tensor () float32	2.5000  Tensor () float32" },
  var_unbiased = { "Variance with a correction of 1 where `unbiased`, else of 0.",
    args = { unbiased = "whether the estimate is the unbiased one" },
    shapes = "x (*) -> (*)",
    example = "ml.var(ml.tensor {{1.0, 2, 3, 4}}, 2, false)",
    gives = [[
{1.2500}
Tensor (1,) float32]] },
  var_all = { "Variance of all elements with a correction of 1 where `unbiased`, else of 0.",
    args = { unbiased = "whether the estimate is the unbiased one" },
    shapes = "x (*) -> ()",
    example = "ml.var(ml.tensor {1.0, 2, 3, 4}, false)", gives = "1.2500  Tensor () float32" },
  var_mean_unbiased = { "Variance with a correction of 1 where `unbiased`, else of 0, and mean.",
    args = { unbiased = "whether the estimate is the unbiased one" },
    shapes = "x (*) -> spread (*), mean (*)",
    example = "ml.var_mean(ml.tensor {{1.0, 2, 3, 4}}, 2, false)",
    gives = [[
{1.2500}
Tensor (1,) float32
{2.5000}
Tensor (1,) float32]] },
  var_mean_all = { "Variance of all elements with a correction of 1 where `unbiased`, else of 0, and mean.",
    args = { unbiased = "whether the estimate is the unbiased one" },
    shapes = "x (*) -> spread (), mean ()",
    example = "ml.var_mean(ml.tensor {1.0, 2, 3, 4}, false)",
    gives = "1.2500  Tensor () float32	2.5000  Tensor () float32" },
  std_unbiased = { "Standard deviation with a correction of 1 where `unbiased`, else of 0.",
    args = { unbiased = "whether the estimate is the unbiased one" },
    shapes = "x (*) -> (*)",
    example = "ml.std(ml.tensor {{1.0, 2, 3, 4}}, 2, false)",
    gives = [[
{1.1180}
Tensor (1,) float32]] },
  std_all = { "Standard deviation of all elements with a correction of 1 where `unbiased`, else of 0.",
    args = { unbiased = "whether the estimate is the unbiased one" },
    shapes = "x (*) -> ()",
    example = "ml.std(ml.tensor {1.0, 2, 3, 4}, false)", gives = "1.1180  Tensor () float32" },
  std_mean_unbiased = { "Standard deviation with a correction of 1 where `unbiased`, else of 0, and mean.",
    args = { unbiased = "whether the estimate is the unbiased one" },
    shapes = "x (*) -> spread (*), mean (*)",
    example = "ml.std_mean(ml.tensor {{1.0, 2, 3, 4}}, 2, false)",
    gives = [[
{1.1180}
Tensor (1,) float32
{2.5000}
Tensor (1,) float32]] },
  std_mean_all = { "Standard deviation of all elements with a correction of 1 where `unbiased`, else of 0, and mean.",
    args = { unbiased = "whether the estimate is the unbiased one" },
    shapes = "x (*) -> spread (), mean ()",
    example = "ml.std_mean(ml.tensor {1.0, 2, 3, 4}, false)",
    gives = "1.1180  Tensor () float32	2.5000  Tensor () float32" },
}

for _, name in ipairs { "var", "std" } do
  op { name .. [[_mean(Tensor x, Dim[*] dim={}, float correction=1,
              bool keepdim=false) -> (Tensor spread, Tensor mean)]],
       kind = "composite", dtypes = "floating+complex",
       doc = spread_texts[name .. "_mean"],
       sample = spreads, torch = spread_call:format(name .. "_mean") }
end

for _, name in ipairs { "var", "std", "var_mean", "std_mean" } do
  local out = name:find "_mean" and "(Tensor spread, Tensor mean)" or "Tensor"
  local stored = not name:find "_mean" or nil
  op { name .. "_unbiased(Tensor x, Dim[*] dim, bool unbiased, bool keepdim=false) -> " .. out,
       overload_of = name, out = stored, gather = false, kind = "composite", dtypes = "floating+complex",
       doc = spread_texts[name .. "_unbiased"],
       sample = { "randn(3, 4), 2, false", "randn(3, 4), {1, 2}, true, true" },
       torch = ("torch.%s(*args)"):format(name) }
  op { name .. "_all(Tensor x, bool unbiased) -> " .. out,
       overload_of = name, out = stored, kind = "composite", dtypes = "floating+complex",
       doc = spread_texts[name .. "_all"],
       sample = { "randn(3, 4), false", "randn(3, 4), true" }, torch = ("torch.%s(*args)"):format(name) }
end

op { "norm(Tensor x, float p=2, Dim[*] dim={}, bool keepdim=false, DType? dtype=nil) -> Tensor",
     vmap = "dims", kind = "structured", autocast = { device = "float32" }, dtypes = "floating+complex",
     grad = { x = "norm_grad_x(g, x, y, p, dim, keepdim)" },
     doc = [[Norm over some dimensions, or of all elements as one vector. Order 0 counts the elements
that are not 0; infinity gives the largest magnitude, minus infinity the smallest. The norm of complex
numbers is real. The gradient where the norm is 0 is 0.]],
     args = { p = 'the order of the norm, a number, or the name of a matrix norm: "fro" or "nuc"' },
     formula = "y = (sum_i abs(x_i)^p)^(1 / p)",
     example = "ml.norm(ml.tensor {3.0, 4})", gives = "5.  Tensor () float32",
     sample = { "randn(3, 4)", "randn(3, 4), 1", "randn(3, 4, 2), 3, 2", "randn(3, 4), 2, 1, true",
                "randn(3, 4), 1 / 0, 2", "randn(3, 4), -1 / 0, 2", "randn(3, 4), -1.5, 1", "randn(3, 4), 0, 1",
                "view_as_complex(randn(3, 4, 2)), 2, 1", "view_as_complex(randn(3, 4, 2)), 1, 1",
                "view_as_complex(randn(3, 4, 2)), 1 / 0", "view_as_complex(randn(3, 4, 2)), 2.5, 2" } }

op { "norm_named(Tensor x, string p, Dim[*] dim={}, bool keepdim=false, DType? dtype=nil) -> Tensor",
     overload_of = "norm", out = true, kind = "composite", dtypes = "floating+complex",
     doc = [[Matrix norm by its name: "fro", the Frobenius norm, is the root of the sum of squares;
"nuc", the nuclear norm, the sum of the singular values of matrices, which two dimensions hold.]],
     args = { p = '"fro" or "nuc"' },
     shapes = "x (*) -> (*)",
     example = 'ml.norm(ml.tensor {{1.0, 2}, {3, 4}}, "fro")', gives = "5.4772  Tensor () float32",
     sample = { "randn(3, 4), \"fro\"", "randn(3, 4, 2), \"fro\", {1, 3}, true", "randn(3, 4), \"nuc\"",
                "randn(3, 4, 2), \"nuc\", {1, 3}, true" },
     torch = "torch.norm(*args)" }

op { "scaled_exp(Tensor scale, Tensor x, Tensor shift) -> Tensor",
     kind = "pointwise", dtypes = "floating", inplace = false, internal = true,
     grad = { scale = "scaled_exp(g, x, shift)", x = "mul(g, y)", shift = "neg(mul(g, y))" },
     torch = "args[0] * torch.exp(args[1] - args[2])",
     doc = "`scale * exp(x - shift)`, of which the gradient of `logsumexp` is made.",
     sample = { "randn(3, 4), randn(3, 4), randn(3, 4)", "randn(3, 1), randn(3, 4), randn(3, 1)" } }

op { "logsumexp(Tensor x, Dim[*] dim, bool keepdim=false) -> Tensor",
     vmap = "dims", kind = "structured", autocast = { device = "float32" }, dtypes = "all", alias = { "special.logsumexp" },
     grad = { x = "logsumexp_grad_x(g, x, y, dim, keepdim)" },
     doc = [[Logarithm of the sum of exponentials over some dimensions, without overflow. Bools and
integers give the default dtype.]],
     formula = "y = ln(sum_i exp(x_i))",
     example = "ml.logsumexp(ml.tensor {1000.0, 1000}, 1)", gives = "1000.6932  Tensor () float32",
     sample = { "randn(3, 4), 2", "randn(3, 4, 2), {1, 3}, true", "tensor({{1, 2}, {3, 40}}), 2",
                "view_as_complex(randn(3, 4, 2)), 2" } }

op { "nansum(Tensor x, Dim[*] dim={}, bool keepdim=false, DType? dtype=nil) -> Tensor",
     vmap = "dims", kind = "structured", dtypes = "boolean+real",
     grad = { x = "masked_fill(expand(restore_dims(g, sizes_of(x), dim, keepdim), sizes_of(x)), isnan(x), 0.0)" },
     doc = "Sum of the elements over some dimensions, or of all, with NaN as 0.",
     formula = "y = sum_i x_i",
     example = "ml.nansum(ml.tensor {1, 0/0, 3})", gives = "4.  Tensor () float32",
     sample = { "tensor({{1, 0 / 0, 3}, {4, 5, 0 / 0}})", "tensor({{1, 0 / 0, 3}, {0 / 0, 5, 0 / 0}}), 1",
                "randn(3, 4, 2), {1, 3}, true", "randn(3, 4), 2, false, \"float64\"" },
     torch = "torch.nansum(*args[:3], dtype=args[3] if len(args) > 3 else None)" }

op { "nanmean(Tensor x, Dim[*] dim={}, bool keepdim=false, DType? dtype=nil) -> Tensor",
     out = true, kind = "composite", dtypes = "floating",
     doc = [[Arithmetic mean of the elements that are not NaN over some dimensions, or of all; NaN where
none is left.]],
     shapes = "x (*) -> (*)",
     formula = "y = sum_i x_i / n",
     example = "ml.nanmean(ml.tensor {1, 0/0, 3})", gives = "2.  Tensor () float32",
     sample = { "tensor({{1, 0 / 0, 3}, {4, 5, 0 / 0}})", "tensor({{1, 0 / 0, 7}, {0 / 0, 5, 2}}), 1",
                "randn(3, 4, 2), {1, 3}, true", "randn(3, 4), 2, false, \"float64\"" },
     torch = "torch.nanmean(*args[:3], dtype=args[3] if len(args) > 3 else None)" }

op { "sum_to_size(Tensor x, int[] size) -> Tensor",
     func = false, kind = "composite", dtypes = "all",
     doc = [[Sum over the dimensions that broadcasting adds to a shape or expands in it, as the gradient
of `expand` takes it.]],
     args = { size = "the shape of the result, which broadcasts to that of `x`" },
     shapes = "x (*) -> (size)",
     example = "ml.tensor({{1, 2}, {3, 4}}):sum_to_size(2, 1)",
     gives = [[
{{3},
 {7}}
Tensor (2, 1) int64]],
     sample = { "randn(3, 4, 2), {4, 1}", "randn(3, 4), {3, 4}", "randn(3, 4), {}", "randn(3, 4), {1, 1}" },
     torch = "args[0].sum_to_size(args[1])" }

op { "renorm(Tensor x, float p, Dim dim, float maxnorm) -> Tensor",
     inplace = true, out = true, kind = "composite", autocast = { device = "float32" }, dtypes = "floating+complex",
     doc = "`x` with the slices along a dimension scaled down where their norm exceeds `maxnorm`.",
     args = { p = "the order of the norm", dim = "the dimension of the slices", maxnorm = "the largest norm" },
     shapes = "x (*, n, *) -> (*, n, *)",
     formula = "y_i = x_i * min(1, maxnorm / (norm(x_i, p) + 1e-7))",
     example = "ml.renorm(ml.tensor {{3.0, 4}, {0.3, 0.4}}, 2, 1, 1)",
     gives = [[
{{0.6000, 0.8000},
 {0.3000, 0.4000}}
Tensor (2, 2) float32]],
     sample = { "randn(3, 4), 2, 1, 1.5", "randn(3, 4, 2), 1, 2, 5", "view_as_complex(randn(3, 4, 2)), 2, 2, 1",
                "randn(3, 4), 1 / 0, -1, 0.5" } }
