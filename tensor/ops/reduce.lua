-- tensor/ops/reduce.lua: sums, averages, extremes, norms and running sums.

op { "sum(Tensor x, Dim[*] dim={}, bool keepdim=false, DType? dtype=nil) -> Tensor",
     vmap = "dims", linear = true, kind = "structured", autocast = { device = "float32" }, dtypes = "all",
     grad = { x = "expand(restore_dims(g, sizes_of(x), dim, keepdim), sizes_of(x))" },
     doc = [[The sum over `dim`, or over all dimensions. Bools and integers are summed in int64.
Floats are summed in blocks, so that the error grows with the logarithm of the count, and the result
does not depend on the number of threads. An empty sum is 0.]],
     sample = { "randn(3, 4)", "randn(3, 4, 2), 2", "randn(3, 4, 2), {1, 3}, true", "randn(3, 4), {}" } }

op { "mean(Tensor x, Dim[*] dim={}, bool keepdim=false, DType? dtype=nil) -> Tensor",
     vmap = "dims", linear = true, kind = "structured", dtypes = "all",
     grad = { x = "mean_grad_x(g, sizes_of(x), dim, keepdim)" },
     doc = [[The average over `dim`, or over all dimensions. Integers need a floating `dtype`. The
average of nothing is NaN.]],
     sample = { "randn(3, 4)", "randn(3, 4, 2), 2", "randn(3, 4, 2), {1, 3}, true", "randn(3, 4), {}" },
     check = { dtypes = "integers need a dtype" } }

op { "prod(Tensor x, Dim? dim=nil, bool keepdim=false, DType? dtype=nil) -> Tensor",
     vmap = "dims", kind = "structured", autocast = "float32", dtypes = "all",
     grad = { x = "prod_grad_x(g, x, y, dim, keepdim)" },
     doc = [[The product along `dim`, or of all elements. Bools and integers are multiplied in int64. An
empty product is 1.]],
     sample = { "randn(3, 4)", "randn(3, 4, 2), 2", "randn(3, 4), 1, true", "tensor({{2, 0, 3}, {0, 4, 0}}), 2",
                "view_as_complex(randn(3, 4, 2)), 2", "view_as_complex(randn(3, 2))" } }

for _, pair in ipairs { { "amax", "largest" }, { "amin", "smallest" } } do
  local name, word = pair[1], pair[2]
  op { name .. "(Tensor x, Dim[*] dim={}, bool keepdim=false) -> Tensor",
       vmap = "dims", kind = "structured", dtypes = "boolean+real",
       grad = { x = "extreme_grad_x(g, x, y, dim, keepdim)" },
       doc = ([[The %s element over `dim`, or of all. NaN wins. Among equal extremes the gradient is
shared evenly.]]):format(word),
       sample = { "randn(3, 4)", "randn(3, 4, 2), 2", "randn(3, 4, 2), {1, 3}, true", "randn(3, 4), {}" } }
end

for _, pair in ipairs { { "max", "largest" }, { "min", "smallest" } } do
  local name, word = pair[1], pair[2]
  op { name .. "(Tensor x) -> Tensor",
       out = true, kind = "composite", dtypes = "boolean+real",
       doc = ([[The %s element. With a dimension, `values, indices = x:%s(dim)`.]]):format(word, name),
       sample = { "randn(3, 4)" } }

  op { name .. "_dim(Tensor x, Dim dim, bool keepdim=false) -> (Tensor values, Tensor indices)",
       vmap = "dims", kind = "structured", dtypes = "boolean+real", overload_of = name,
       nodiff = { "indices" },
       grad = { x = "selected_grad_x(g_values, indices, sizes_of(x), dim, keepdim)" },
       doc = ([[The %s element along `dim` and its position, the first where several are equal.
NaN wins.]]):format(word),
       sample = { "randn(3, 4), 2", "randn(3, 4, 2), 1, true" },
       torch = ("positions(torch.%s(*args))"):format(name) }

  op { ("arg%s(Tensor x, Dim? dim=nil, bool keepdim=false) -> Tensor"):format(name),
       vmap = "dims", kind = "structured", dtypes = "boolean+real",
       doc = ([[The position (from 1) of the %s element along `dim`; without `dim`, its position among
all elements in row order. The first where several are equal; NaN wins.]]):format(word),
       sample = { "randn(3, 4)", "randn(3, 4, 2), 2", "randn(3, 4), 1, true" },
       torch = ("torch.arg%s(*args) + 1"):format(name) }
end

for _, pair in ipairs { { "any", "some", "false" }, { "all", "every", "true" } } do
  local name, word, none = table.unpack(pair)
  op { name .. "(Tensor x, Dim[]? dim=nil, bool keepdim=false) -> Tensor",
       vmap = "dims", kind = "structured", dtypes = "all",
       doc = ([[Whether %s element over `dim` (`{}`: none, each element alone) is not zero: a bool
tensor, of uint8 a uint8 one. Of nothing: %s.]]):format(word, none),
       sample = { "tensor({{0, 1}, {0, 0}})", "tensor({{1, 1}, {0, 1}}), 2", "tensor({{0, 1}, {0, 0}}), {}",
                  "tensor({{0, 1}, {0, 0}}):to(\"uint8\"), 1, true", "randn(2, 3, 2):gt(0), {1, 3}" } }
end

op { "count_nonzero(Tensor x, Dim[*] dim={}) -> Tensor",
     vmap = "dims", kind = "structured", dtypes = "all",
     doc = [[How many elements over `dim` are not zero.]],
     sample = { "tensor({{0, 1}, {2, 3}})", "tensor({{0, 1}, {2, 3}}), 1", "randn(2, 3, 2):gt(0), {1, 3}" } }

op { "aminmax(Tensor x, Dim[*] dim={}, bool keepdim=false) -> (Tensor min, Tensor max)",
     vmap = "dims", kind = "structured", dtypes = "boolean+real",
     grad = { x = [[add(extreme_grad_x(g_min, x, min, dim, keepdim),
                        extreme_grad_x(g_max, x, max, dim, keepdim))]] },
     doc = [[The smallest and the largest element over `dim`, or of all, in one pass. NaN wins. Among equal extremes
the gradient is shared evenly.]],
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
     doc = [[The variance over `dim`, or over all dimensions: the squared distances from the mean,
summed and divided by count - `correction`. `unbiased = true` stands for a correction of 1, `false`
for 0. That of complex numbers is real. Two passes over the data.]],
     sample = spreads, torch = spread_call:format "var" }

op { "std(Tensor x, Dim[*] dim={}, float correction=1, bool keepdim=false) -> Tensor",
     vmap = "dims", kind = "structured", dtypes = "floating+complex",
     grad = { x = "std_grad_x(g, x, y, dim, correction, keepdim)" },
     doc = [[The standard deviation over `dim`: the square root of `var`, also where that is too large or too small
for the dtype. The gradient where it is 0 is 0.]],
     sample = spreads, torch = spread_call:format "std" }

for _, pair in ipairs { { "var", "variance" }, { "std", "standard deviation" } } do
  local name, word = pair[1], pair[2]
  op { name .. [[_mean(Tensor x, Dim[*] dim={}, float correction=1,
              bool keepdim=false) -> (Tensor spread, Tensor mean)]],
       kind = "composite", dtypes = "floating+complex",
       doc = ([[The %s over `dim`, as `%s` gives it, and the mean.]]):format(word, name),
       sample = spreads, torch = spread_call:format(name .. "_mean") }
end

for _, name in ipairs { "var", "std", "var_mean", "std_mean" } do
  local out = name:find "_mean" and "(Tensor spread, Tensor mean)" or "Tensor"
  local stored = not name:find "_mean" or nil
  op { name .. "_unbiased(Tensor x, Dim[*] dim, bool unbiased, bool keepdim=false) -> " .. out,
       overload_of = name, out = stored, gather = false, kind = "composite", dtypes = "floating+complex",
       doc = ([[`%s` with a correction of 1, or of 0 where `unbiased` is false.]]):format(name),
       sample = { "randn(3, 4), 2, false", "randn(3, 4), {1, 2}, true, true" },
       torch = ("torch.%s(*args)"):format(name) }
  op { name .. "_all(Tensor x, bool unbiased) -> " .. out,
       overload_of = name, out = stored, kind = "composite", dtypes = "floating+complex",
       doc = ([[`%s` of all elements with a correction of 1, or of 0 where `unbiased` is false.]]):format(name),
       sample = { "randn(3, 4), false", "randn(3, 4), true" }, torch = ("torch.%s(*args)"):format(name) }
end

op { "norm(Tensor x, float p=2, Dim[*] dim={}, bool keepdim=false, DType? dtype=nil) -> Tensor",
     vmap = "dims", kind = "structured", autocast = { device = "float32" }, dtypes = "floating+complex",
     grad = { x = "norm_grad_x(g, x, y, p, dim, keepdim)" },
     doc = [[The `p`-norm over `dim`, or over all dimensions: the `p`-th root of the sum of
`abs(x)^p`. `p = 0` counts the elements that are not zero; infinity gives the largest magnitude. With
`dtype` the elements are converted to it first. The norm of complex numbers is real. The gradient
where the norm is 0 is 0.]],
     sample = { "randn(3, 4)", "randn(3, 4), 1", "randn(3, 4, 2), 3, 2", "randn(3, 4), 2, 1, true",
                "randn(3, 4), 1 / 0, 2", "randn(3, 4), -1 / 0, 2", "randn(3, 4), -1.5, 1", "randn(3, 4), 0, 1",
                "view_as_complex(randn(3, 4, 2)), 2, 1", "view_as_complex(randn(3, 4, 2)), 1, 1",
                "view_as_complex(randn(3, 4, 2)), 1 / 0", "view_as_complex(randn(3, 4, 2)), 2.5, 2" } }

op { "norm_named(Tensor x, string p, Dim[*] dim={}, bool keepdim=false, DType? dtype=nil) -> Tensor",
     overload_of = "norm", out = true, kind = "composite", dtypes = "floating+complex",
     doc = [[The norm with a name: "fro", the root of the sum of squares, or "nuc", the sum of the
singular values of matrices, which two dims hold.]],
     sample = { "randn(3, 4), \"fro\"", "randn(3, 4, 2), \"fro\", {1, 3}, true", "randn(3, 4), \"nuc\"",
                "randn(3, 4, 2), \"nuc\", {1, 3}, true" },
     torch = "torch.norm(*args)" }

op { "scaled_exp(Tensor scale, Tensor x, Tensor shift) -> Tensor",
     kind = "pointwise", dtypes = "floating", inplace = false, internal = true,
     grad = { scale = "scaled_exp(g, x, shift)", x = "mul(g, y)", shift = "neg(mul(g, y))" },
     torch = "args[0] * torch.exp(args[1] - args[2])",
     doc = "`scale * exp(x - shift)`: with the right ones the gradient of `logsumexp`.",
     sample = { "randn(3, 4), randn(3, 4), randn(3, 4)", "randn(3, 1), randn(3, 4), randn(3, 1)" } }

op { "logsumexp(Tensor x, Dim[*] dim, bool keepdim=false) -> Tensor",
     vmap = "dims", kind = "structured", autocast = { device = "float32" }, dtypes = "all", alias = { "special.logsumexp" },
     grad = { x = "logsumexp_grad_x(g, x, y, dim, keepdim)" },
     doc = [[The logarithm of the sum of `exp(x)` over `dim`, without overflow. Bools and integers give
the default dtype.]],
     sample = { "randn(3, 4), 2", "randn(3, 4, 2), {1, 3}, true", "tensor({{1, 2}, {3, 40}}), 2",
                "view_as_complex(randn(3, 4, 2)), 2" } }

op { "nansum(Tensor x, Dim[*] dim={}, bool keepdim=false, DType? dtype=nil) -> Tensor",
     vmap = "dims", kind = "structured", dtypes = "boolean+real",
     grad = { x = "masked_fill(expand(restore_dims(g, sizes_of(x), dim, keepdim), sizes_of(x)), isnan(x), 0.0)" },
     doc = [[`sum` with every NaN as 0.]],
     sample = { "tensor({{1, 0 / 0, 3}, {4, 5, 0 / 0}})", "tensor({{1, 0 / 0, 3}, {0 / 0, 5, 0 / 0}}), 1",
                "randn(3, 4, 2), {1, 3}, true", "randn(3, 4), 2, false, \"float64\"" },
     torch = "torch.nansum(*args[:3], dtype=args[3] if len(args) > 3 else None)" }

op { "nanmean(Tensor x, Dim[*] dim={}, bool keepdim=false, DType? dtype=nil) -> Tensor",
     out = true, kind = "composite", dtypes = "floating",
     doc = [[The average of what is not NaN, over `dim` or all dimensions; NaN where nothing is left.]],
     sample = { "tensor({{1, 0 / 0, 3}, {4, 5, 0 / 0}})", "tensor({{1, 0 / 0, 7}, {0 / 0, 5, 2}}), 1",
                "randn(3, 4, 2), {1, 3}, true", "randn(3, 4), 2, false, \"float64\"" },
     torch = "torch.nanmean(*args[:3], dtype=args[3] if len(args) > 3 else None)" }

op { "sum_to_size(Tensor x, int[] size) -> Tensor",
     func = false, kind = "composite", dtypes = "all",
     doc = [[The sum of `x` over what broadcasting added to `size`: the result has that shape, which must
broadcast to that of `x`.]],
     sample = { "randn(3, 4, 2), {4, 1}", "randn(3, 4), {3, 4}", "randn(3, 4), {}", "randn(3, 4), {1, 1}" },
     torch = "args[0].sum_to_size(args[1])" }

op { "renorm(Tensor x, float p, Dim dim, float maxnorm) -> Tensor",
     inplace = true, out = true, kind = "composite", autocast = { device = "float32" }, dtypes = "floating+complex",
     doc = [[`x` with each slice along `dim` whose `p`-norm exceeds `maxnorm` scaled down to it (divided
by its norm + 1e-7).]],
     sample = { "randn(3, 4), 2, 1, 1.5", "randn(3, 4, 2), 1, 2, 5", "view_as_complex(randn(3, 4, 2)), 2, 2, 1",
                "randn(3, 4), 1 / 0, -1, 0.5" } }
