-- tensor/ops/sort.lua: sorting, the largest or smallest elements, medians, and elements once each. NaN
-- counts as the largest.

op { [[sort(Tensor x, Dim dim=-1, bool descending=false,
            bool stable=false) -> (Tensor values, Tensor indices)]],
     vmap = "dims", kind = "structured", dtypes = "boolean+real", steady = "x",
     nodiff = { "indices" },
     grad = { x = "placed_grad_x(g_values, indices, sizes_of(x), dim)" },
     doc = [[The elements along `dim` in order, and the position (from 1) each came from. Equal
elements keep their order, with or without `stable`. NaN counts as the largest.]],
     sample = { "randn(3, 4)", "randn(3, 4), 1, true" },
     torch = "positions(torch.sort(args[0], dim=args[1] if len(args) > 1 else -1, descending=args[2] if len(args) > 2 else False, stable=True))" }

op { "argsort(Tensor x, Dim dim=-1, bool descending=false, bool stable=false) -> Tensor",
     kind = "composite", differentiable = false, dtypes = "boolean+real",
     doc = [[The positions (from 1) that put the elements along `dim` in order.]],
     sample = { "randn(3, 4)", "randn(3, 4), 1, true" },
     torch = "torch.argsort(*args) + 1" }

op { [[topk(Tensor x, int k, Dim dim=-1, bool largest=true,
            bool sorted=true) -> (Tensor values, Tensor indices)]],
     vmap = "dims", kind = "structured", dtypes = "boolean+real", steady = "x",
     nodiff = { "indices" },
     grad = { x = "placed_grad_x(g_values, indices, sizes_of(x), dim)" },
     doc = [[The `k` largest (or smallest) elements along `dim` and their positions (from 1), in order;
of equal elements those that come first. NaN counts as the largest.]],
     sample = { "randn(3, 6), 2", "randn(4, 3), 2, 1, false" },
     torch = "positions(torch.topk(*args))" }

op { "msort(Tensor x) -> Tensor",
     out = true, kind = "composite", dtypes = "boolean+real",
     doc = [[The elements of `x` in order along the first dimension.]],
     sample = { "randn(4, 3)", "randn(5)" } }

-- One element of the order.

op { "kthvalue(Tensor x, int k, Dim dim=-1, bool keepdim=false) -> (Tensor values, Tensor indices)",
     vmap = "dims", kind = "structured", dtypes = "real", steady = "x",
     nodiff = { "indices" },
     grad = { x = "selected_grad_x(g_values, indices, sizes_of(x), dim, keepdim)" },
     doc = [[The `k`-th smallest element along `dim` and its position (from 1); of equal elements those
that come first are the smaller. NaN counts as the largest.]],
     sample = { "randn(3, 5), 2", "randn(4, 3), 4, 1, true", "randn(2, 4, 3), 3, 2", "tensor({3, 1, 3, 1, 2}), 4" },
     torch = "with_positions(torch.kthvalue(*args))" }

for _, pair in ipairs {
  { "median", "NaN when one is there" }, { "nanmedian", "NaN is passed over" },
} do
  local name, nan = pair[1], pair[2]
  op { name .. "(Tensor x) -> Tensor",
       vmap = "median", kind = "structured", dtypes = "real", steady = "x",
       grad = { x = "extreme_grad_x(g, x, y, all_dims(x.dim()), false)" },
       doc = ([[The median of all elements, the lower of the two in the middle of an even number; %s.
Among elements equal to it the gradient is shared evenly. With a dimension, `values, indices =
x:%s(dim)`.]]):format(nan, name),
       sample = { "randn(3, 5)", "randn(3, 4)", "tensor({3, 1, 4, 1, 5, 9, 2, 6})" } }

  op { name .. "_dim(Tensor x, Dim dim, bool keepdim=false) -> (Tensor values, Tensor indices)",
       vmap = "dims", kind = "structured", dtypes = "real", steady = "x", overload_of = name,
       nodiff = { "indices" },
       grad = { x = "selected_grad_x(g_values, indices, sizes_of(x), dim, keepdim)" },
       doc = ([[The median along `dim`, the lower of the two in the middle of an even number, and its
position (from 1); %s.]]):format(nan),
       sample = { "randn(3, 5), 2", "randn(4, 3), 1, true", "randn(2, 3, 4), 2", "tensor({{3, 4, 1, 2}, {7, 2, 5, 6}}), 2" },
       torch = ("with_positions(torch.%s(*args))"):format(name) }
end

-- What is there, once each.

op { [[unique(Tensor x, bool sorted=true, bool return_inverse=false, bool return_counts=false,
              Dim? dim=nil) -> (Tensor values, Tensor inverse_indices, Tensor counts)]],
     kind = "composite", differentiable = false, dtypes = "boolean+real",
     doc = [[The different elements of `x`, or the different slices along `dim`, in order (with `sorted =
false` too). With `return_inverse` also the position among them (from 1) of each element or slice;
with `return_counts` also how often each comes. NaN differs from NaN.]],
     sample = { "tensor({{3, 1, 2}, {1, 3, 3}})", "tensor({{3, 1, 2}, {1, 3, 3}}), true, true",
                "tensor({{3, 1, 2}, {1, 3, 3}}), true, false, true", "tensor({2, 0 / 0, 1, 0 / 0, 2}), true, true, true",
                "tensor({{1, 2, 1}, {0, 5, 0}, {1, 2, 1}}), true, true, true, 1",
                "tensor({{1, 2, 1}, {0, 5, 0}, {1, 2, 1}}), true, true, true, 2" },
     torch = "unique_1based(torch.unique, args, 1)" }

op { [[unique_consecutive(Tensor x, bool return_inverse=false, bool return_counts=false,
                          Dim? dim=nil) -> (Tensor values, Tensor inverse_indices, Tensor counts)]],
     kind = "composite", dtypes = "boolean+real",
     doc = [[`x`, or its slices along `dim`, without those that equal the one before; the other results
are those of `unique`.]],
     sample = { "tensor({1, 1, 2, 2, 3, 1, 1})", "tensor({{1, 1, 2}, {2, 3, 1}}), true, true",
                "tensor({1, 1, 2, 2, 3, 1, 1}), false, true", "tensor({{1, 2}, {1, 2}, {0, 2}, {1, 2}}), true, true, 1" },
     torch = "unique_1based(torch.unique_consecutive, args, 0)" }
