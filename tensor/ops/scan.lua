-- tensor/ops/scan.lua: running sums, products and extremes; differences and integrals of samples.

op { "cumsum(Tensor x, Dim dim, DType? dtype=nil) -> Tensor",
     inplace = true, vmap = "dims", linear = true, kind = "structured", autocast = { device = "float32" }, dtypes = "all",
     grad = { x = "flip(cumsum(flip(g, Dims{dim}), dim), Dims{dim})" },
     doc = [[Running sums along `dim`. Bools and integers are summed in int64.]],
     sample = { "randn(3, 4), 2", "randn(3, 4), 1" } }

op { "cumprod(Tensor x, Dim dim, DType? dtype=nil) -> Tensor",
     inplace = true, vmap = "dims", kind = "structured", autocast = { device = "float32" }, dtypes = "all",
     grad = { x = "cumprod_grad_x(g, x, y, dim)" },
     doc = [[Running products along `dim`. Bools and integers are multiplied in int64.]],
     sample = { "randn(3, 4), 2", "randn(3, 4), 1", "tensor({{2, 0, 3}, {0, 4, 0}}), 2", "view_as_complex(randn(3, 4, 2)), 2" } }

for _, pair in ipairs { { "cummax", "largest" }, { "cummin", "smallest" } } do
  local name, word = pair[1], pair[2]
  op { name .. "(Tensor x, Dim dim) -> (Tensor values, Tensor indices)",
       vmap = "dims", kind = "structured", dtypes = "boolean+real",
       nodiff = { "indices" },
       grad = { x = "added_grad_x(g_values, indices, sizes_of(x), dim)" },
       doc = ([[The %s element so far along `dim` and its position (from 1), the last where several are
equal. NaN wins.]]):format(word),
       sample = { "randn(3, 4), 2", "randn(3, 4), 1", "tensor({3, 1, 1, 2, 3}), 1", "randn(2, 3, 4), -2" },
       torch = ("with_positions(torch.%s(*args))"):format(name) }
end

op { "logcumsumexp(Tensor x, Dim dim) -> Tensor",
     vmap = "dims", kind = "structured", dtypes = "floating+complex",
     grad = { x = "logcumsumexp_grad_x(g, x, y, dim)" },
     doc = [[The logarithm of the running sums of `exp(x)` along `dim`, without overflow.]],
     sample = { "randn(3, 4), 2", "randn(3, 4), 1", "view_as_complex(randn(3, 4, 2)), 2", "tensor({-30.5, 30, 31, 29}), 1" } }

op { [[diff(Tensor x, int n=1, Dim dim=-1, Tensor? prepend=nil, Tensor? append=nil) -> Tensor]],
     out = true, kind = "composite", dtypes = "all",
     doc = [[The `n`-th differences of neighbours along `dim`. What is in `prepend` and `append` is put
before and after `x` first, unless `n` is 0. Bools are compared.]],
     sample = { "randn(3, 5)", "randn(3, 5), 2, 1", "randn(3, 5), 1, 2, randn(3, 1), randn(3, 2)",
                "randn(3, 5), 7", "randn(3, 5), 0", "randn(3, 5):gt(0)" } }

op { "trapezoid(Tensor y, Tensor? x=nil, float dx=1, Dim dim=-1) -> Tensor",
     kind = "composite", dtypes = "integral+floating+complex", method = false, alias = { "trapz" },
     doc = [[The integral of samples `y` along `dim` by the trapezoidal rule. `x` holds where they were
taken, in one dimension or in a shape that broadcasts to `y`; without it they are `dx` apart.]],
     sample = { "randn(3, 5)", "randn(3, 5), nil, 0.5, 1", "randn(3, 5), tensor({1, 2, 4, 7, 8})",
                "randn(3, 5), randn(3, 5), 1, 1", "randn(2, 3, 4), randn(3), 1, 2" },
     torch = "torch.trapezoid(args[0], args[1], dim=args[3] if len(args) > 3 else -1) if len(args) > 1 and args[1] is not None else torch.trapezoid(args[0], dx=args[2] if len(args) > 2 else 1, dim=args[3] if len(args) > 3 else -1)" }

op { "cumulative_trapezoid(Tensor y, Tensor? x=nil, float dx=1, Dim dim=-1) -> Tensor",
     kind = "composite", dtypes = "integral+floating+complex", method = false,
     doc = [[The running integrals of samples `y` along `dim` by the trapezoidal rule, one for each
sample but the first. `x` and `dx` are those of `trapezoid`.]],
     sample = { "randn(3, 5)", "randn(3, 5), nil, 0.5, 1", "randn(3, 5), tensor({1, 2, 4, 7, 8})" },
     torch = "torch.cumulative_trapezoid(args[0], args[1], dim=args[3] if len(args) > 3 else -1) if len(args) > 1 and args[1] is not None else torch.cumulative_trapezoid(args[0], dx=args[2] if len(args) > 2 else 1, dim=args[3] if len(args) > 3 else -1)" }

-- Gradients: samples at even distances, or at coordinates.
for _, form in ipairs {
  { "", "float spacing=1", "`spacing` apart",
    { "randn(5)", "randn(4, 5), 0.5", "randn(4, 5), 2, 1", "randn(4, 5), 1, {2, 1}, 2", "tensor({1, 4, 9, 16})", "randn(2, 3), 1, 1" } },
  { "_by", "float[*] spacing", "as far apart as `spacing` says for each of the dimensions",
    { "randn(4, 5), {0.5, 2}", "randn(4, 5), {2}, 1", "randn(4, 5), {1, 3}, {2, 1}, 2" } },
  { "_at", "Tensor[] spacing", "at the coordinates that `spacing` holds for each dimension, in 1-D tensors",
    { "randn(4), {tensor({0, 1, 3, 3.5})}", "randn(3, 4), {tensor({0, 1, 3}), tensor({0, 1, 3, 3.5})}, nil, 2",
      "randn(3, 4), {tensor({0, 1, 3, 3.5})}, 2" } },
} do
  op { ("gradient%s(Tensor x, %s, Dim[]? dim=nil, int edge_order=1) -> Tensor[]"):format(form[1], form[2]),
       overload_of = form[1] ~= "" and "gradient" or nil, method = false,
       kind = "composite", dtypes = "integral+floating+complex",
       doc = ([[The gradients of samples `x` along each of `dim`, a table of tensors of the shape of `x`:
second-order central differences inside, and at both ends differences of first or second order, by
`edge_order`. The samples lie %s.]]):format(form[3]),
       sample = form[4],
       torch = "torch_gradient(args)" }
end
