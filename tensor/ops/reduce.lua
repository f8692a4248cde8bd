-- tensor/ops/reduce.lua: sums, averages, extremes, norms and running sums.

op { "sum(Tensor x, Dim[*] dim={}, bool keepdim=false, DType? dtype=nil) -> Tensor",
     kind = "structured", autocast = { cuda = "float32" }, dtypes = "all",
     grad = { x = "expand(restore_dims(g, sizes_of(x), dim, keepdim), sizes_of(x))" },
     doc = [[The sum over `dim`, or over all dimensions. Bools and integers are summed in int64.
Floats are summed in blocks, so that the error grows with the logarithm of the count, and the result
does not depend on the number of threads. An empty sum is 0.]],
     sample = { "randn(3, 4)", "randn(3, 4, 2), 2", "randn(3, 4, 2), {1, 3}, true", "randn(3, 4), {}" } }

op { "mean(Tensor x, Dim[*] dim={}, bool keepdim=false, DType? dtype=nil) -> Tensor",
     kind = "structured", dtypes = "all",
     grad = { x = "mean_grad_x(g, sizes_of(x), dim, keepdim)" },
     doc = [[The average over `dim`, or over all dimensions. Integers need a floating `dtype`. The
average of nothing is NaN.]],
     sample = { "randn(3, 4)", "randn(3, 4, 2), 2", "randn(3, 4, 2), {1, 3}, true", "randn(3, 4), {}" },
     check = { dtypes = "integers need a dtype" } }

op { "prod(Tensor x, Dim? dim=nil, bool keepdim=false, DType? dtype=nil) -> Tensor",
     kind = "structured", autocast = "float32", dtypes = "boolean+real",
     grad = { x = "prod_grad_x(g, x, dim, keepdim)" },
     doc = [[The product along `dim`, or of all elements. An empty product is 1.]],
     sample = { "randn(3, 4)", "randn(3, 4, 2), 2", "randn(3, 4), 1, true" } }

for _, pair in ipairs { { "amax", "largest" }, { "amin", "smallest" } } do
  local name, word = pair[1], pair[2]
  op { name .. "(Tensor x, Dim[*] dim={}, bool keepdim=false) -> Tensor",
       kind = "structured", dtypes = "boolean+real",
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
       kind = "structured", dtypes = "boolean+real", overload_of = name,
       nodiff = { "indices" },
       grad = { x = "selected_grad_x(g_values, indices, sizes_of(x), dim, keepdim)" },
       doc = ([[The %s element along `dim` and its position, the first where several are equal.
NaN wins.]]):format(word),
       sample = { "randn(3, 4), 2", "randn(3, 4, 2), 1, true" },
       torch = ("positions(torch.%s(*args))"):format(name) }

  op { ("arg%s(Tensor x, Dim? dim=nil, bool keepdim=false) -> Tensor"):format(name),
       kind = "structured", dtypes = "boolean+real",
       doc = ([[The position (from 1) of the %s element along `dim`; without `dim`, its position among
all elements in row order. The first where several are equal; NaN wins.]]):format(word),
       sample = { "randn(3, 4)", "randn(3, 4, 2), 2", "randn(3, 4), 1, true" },
       torch = ("torch.arg%s(*args) + 1"):format(name) }
end

op { "any(Tensor x, Dim[]? dim=nil, bool keepdim=false) -> Tensor",
     kind = "structured", dtypes = "all",
     doc = [[Whether some element over `dim` (`{}`: none, each element alone) is not zero. Of nothing: false.]],
     sample = { "tensor({{0, 1}, {0, 0}})", "tensor({{0, 1}, {0, 0}}), 2", "tensor({{0, 1}, {0, 0}}), {}" } }

op { "all(Tensor x, Dim[]? dim=nil, bool keepdim=false) -> Tensor",
     kind = "structured", dtypes = "all",
     doc = [[Whether every element over `dim` (`{}`: none, each element alone) is not zero. Of nothing: true.]],
     sample = { "tensor({{1, 1}, {0, 1}})", "tensor({{1, 1}, {0, 1}}), 2", "tensor({{1, 1}, {0, 1}}), {}" } }

op { "count_nonzero(Tensor x, Dim[*] dim={}) -> Tensor",
     kind = "structured", dtypes = "all",
     doc = [[How many elements over `dim` are not zero.]],
     sample = { "tensor({{0, 1}, {2, 3}})", "tensor({{0, 1}, {2, 3}}), 1" } }

op { "var(Tensor x, Dim[*] dim={}, int correction=1, bool keepdim=false) -> Tensor",
     kind = "structured", dtypes = "floating",
     grad = { x = "var_grad_x(g, x, dim, correction, keepdim)" },
     doc = [[The variance over `dim`, or over all dimensions: the squared distances from the mean,
summed and divided by count - `correction`. Two passes over the data.]],
     sample = { "randn(3, 4)", "randn(3, 4, 2), 2", "randn(3, 4, 2), {1, 3}, 0, true" },
     torch = [[torch.var(args[0], dim=args[1] if len(args) > 1 else None,
correction=args[2] if len(args) > 2 else 1, keepdim=args[3] if len(args) > 3 else False)]] }

op { "std(Tensor x, Dim[*] dim={}, int correction=1, bool keepdim=false) -> Tensor",
     out = true, kind = "composite", dtypes = "floating",
     doc = [[The standard deviation over `dim`: the square root of `var`.]],
     sample = { "randn(3, 4)", "randn(3, 4, 2), 2", "randn(3, 4, 2), {1, 3}, 0, true" },
     torch = [[torch.std(args[0], dim=args[1] if len(args) > 1 else None,
correction=args[2] if len(args) > 2 else 1, keepdim=args[3] if len(args) > 3 else False)]] }

op { "norm(Tensor x, float p=2, Dim[*] dim={}, bool keepdim=false) -> Tensor",
     kind = "structured", autocast = { cuda = "float32" }, dtypes = "floating",
     grad = { x = "norm_grad_x(g, x, y, p, dim, keepdim)" },
     doc = [[The `p`-norm over `dim`, or over all dimensions: the `p`-th root of the sum of
`abs(x)^p`. `p = 0` counts the elements that are not zero; infinity gives the largest magnitude. The
gradient where the norm is 0 is 0.]],
     sample = { "randn(3, 4)", "randn(3, 4), 1", "randn(3, 4, 2), 3, 2", "randn(3, 4), 2, 1, true" } }

op { "logsumexp(Tensor x, Dim[*] dim, bool keepdim=false) -> Tensor",
     kind = "structured", autocast = { cuda = "float32" }, dtypes = "floating", alias = { "special.logsumexp" },
     grad = { x = "logsumexp_grad_x(g, x, y, dim, keepdim)" },
     doc = [[The logarithm of the sum of `exp(x)` over `dim`, without overflow.]],
     sample = { "randn(3, 4), 2", "randn(3, 4, 2), {1, 3}, true" } }
