-- tensor/ops/sort.lua: sorting, the largest or smallest elements, medians, and elements once each. NaN
-- counts as the largest.

op { [[sort(Tensor x, Dim dim=-1, bool descending=false,
            bool stable=false) -> (Tensor values, Tensor indices)]],
     vmap = "dims", kind = "structured", dtypes = "boolean+real", steady = "x",
     nodiff = { "indices" },
     grad = { x = "placed_grad_x(g_values, indices, sizes_of(x), dim)" },
     doc = [[Elements along a dimension in ascending or descending order, and the index (from 1) each
came from. Equal elements keep their order, with or without `stable`. NaN counts as the largest.]],
     args = { descending = "whether the largest comes first",
              stable = "whether equal elements keep their order, which they always do" },
     shapes = "x (*) -> values (*), indices (*)",
     example = "ml.sort(ml.tensor {3, 1, 2})",
     gives = [[
{1, 2, 3}
Tensor (3,) int64
{2, 3, 1}
Tensor (3,) int64]],
     sample = { "randn(3, 4)", "randn(3, 4), 1, true" },
     torch = "positions(torch.sort(args[0], dim=args[1] if len(args) > 1 else -1, descending=args[2] if len(args) > 2 else False, stable=True))" }

op { "argsort(Tensor x, Dim dim=-1, bool descending=false, bool stable=false) -> Tensor",
     kind = "composite", differentiable = false, dtypes = "boolean+real",
     doc = [[Indices (from 1) that sort the elements along a dimension. Equal elements keep their order;
NaN counts as the largest.]],
     args = { descending = "whether the largest comes first",
              stable = "whether equal elements keep their order, which they always do" },
     shapes = "x (*) -> (*)",
     example = "ml.argsort(ml.tensor {3, 1, 2})",
     gives = [[
{2, 3, 1}
Tensor (3,) int64]],
     sample = { "randn(3, 4)", "randn(3, 4), 1, true" },
     torch = "torch.argsort(*args) + 1" }

op { [[topk(Tensor x, int k, Dim dim=-1, bool largest=true,
            bool sorted=true) -> (Tensor values, Tensor indices)]],
     vmap = "dims", kind = "structured", dtypes = "boolean+real", steady = "x",
     nodiff = { "indices" },
     grad = { x = "placed_grad_x(g_values, indices, sizes_of(x), dim)" },
     doc = [[The `k` largest (or smallest) elements along a dimension and their indices (from 1); of
equal elements those that come first. NaN counts as the largest.]],
     args = { k = "how many elements",
              largest = "whether the largest are taken, else the smallest",
              sorted = "whether they come in order, which they always do" },
     shapes = "x (*, n, *) -> values (*, k, *), indices (*, k, *)",
     example = "ml.topk(ml.tensor {3, 1, 4, 2}, 2)",
     gives = [[
{4, 3}
Tensor (2,) int64
{3, 1}
Tensor (2,) int64]],
     sample = { "randn(3, 6), 2", "randn(4, 3), 2, 1, false" },
     torch = "positions(torch.topk(*args))" }

op { "msort(Tensor x) -> Tensor",
     out = true, kind = "composite", dtypes = "boolean+real",
     doc = "Elements in ascending order along the first dimension. NaN counts as the largest.",
     shapes = "x (*) -> (*)",
     example = "ml.msort(ml.tensor {{3, 1}, {2, 4}})",
     gives = [[
{{2, 1},
 {3, 4}}
Tensor (2, 2) int64]],
     sample = { "randn(4, 3)", "randn(5)" } }

-- One element of the order.

op { "kthvalue(Tensor x, int k, Dim dim=-1, bool keepdim=false) -> (Tensor values, Tensor indices)",
     vmap = "dims", kind = "structured", dtypes = "real", steady = "x",
     nodiff = { "indices" },
     grad = { x = "selected_grad_x(g_values, indices, sizes_of(x), dim, keepdim)" },
     doc = [[The `k`-th smallest element along a dimension and its index (from 1); of equal elements
those that come first are the smaller. NaN counts as the largest.]],
     args = { k = "its number in ascending order, from 1" },
     shapes = "x (*, n, *) -> values (*, *), indices (*, *)",
     example = "ml.kthvalue(ml.tensor {3, 1, 4, 2}, 2)", gives = "2  Tensor () int64	4  Tensor () int64",
     sample = { "randn(3, 5), 2", "randn(4, 3), 4, 1, true", "randn(2, 4, 3), 3, 2", "tensor({3, 1, 3, 1, 2}), 4" },
     torch = "with_positions(torch.kthvalue(*args))" }

local medians = {
  median = { [[Median of all elements, the lower of the two in the middle of an even number; NaN where one is
there. Among elements equal to it the gradient is shared evenly. With a dimension the medians along it
and their indices, `values, indices = x:median(dim)`.]],
    shapes = "x (*) -> ()",
    example = "ml.median(ml.tensor {5.0, 1, 3, 9})", gives = "3.  Tensor () float32" },
  median_dim = { [[Medians along a dimension, the lower of the two in the middle of an even number, and their
indices (from 1); NaN where one is there.]],
    shapes = "x (*, n, *) -> values (*, *), indices (*, *)",
    example = "ml.median(ml.tensor {{5.0, 1, 3}}, 2)",
    gives = [[
{3.}
Tensor (1,) float32
{3}
Tensor (1,) int64]] },
  nanmedian = { [[Median of all elements, the lower of the two in the middle of an even number; NaN is passed
over. Among elements equal to it the gradient is shared evenly. With a dimension the medians along it
and their indices, `values, indices = x:nanmedian(dim)`.]],
    shapes = "x (*) -> ()",
    example = "ml.nanmedian(ml.tensor {5.0, 1, 3, 9})", gives = "3.  Tensor () float32" },
  nanmedian_dim = { [[Medians along a dimension, the lower of the two in the middle of an even number, and their
indices (from 1); NaN is passed over.]],
    shapes = "x (*, n, *) -> values (*, *), indices (*, *)",
    example = "ml.nanmedian(ml.tensor {{5.0, 1, 3}}, 2)",
    gives = [[
{3.}
Tensor (1,) float32
{3}
Tensor (1,) int64]] },
}

for _, name in ipairs { "median", "nanmedian" } do
  op { name .. "(Tensor x) -> Tensor",
       vmap = "median", kind = "structured", dtypes = "real", steady = "x",
       grad = { x = "extreme_grad_x(g, x, y, all_dims(x.dim()), false)" },
       doc = medians[name],
       sample = { "randn(3, 5)", "randn(3, 4)", "tensor({3, 1, 4, 1, 5, 9, 2, 6})" } }

  op { name .. "_dim(Tensor x, Dim dim, bool keepdim=false) -> (Tensor values, Tensor indices)",
       vmap = "dims", kind = "structured", dtypes = "real", steady = "x", overload_of = name,
       nodiff = { "indices" },
       grad = { x = "selected_grad_x(g_values, indices, sizes_of(x), dim, keepdim)" },
       doc = medians[name .. "_dim"],
       sample = { "randn(3, 5), 2", "randn(4, 3), 1, true", "randn(2, 3, 4), 2", "tensor({{3, 4, 1, 2}, {7, 2, 5, 6}}), 2" },
       torch = ("with_positions(torch.%s(*args))"):format(name) }
end

-- What is there, once each.

op { [[unique(Tensor x, bool sorted=true, bool return_inverse=false, bool return_counts=false,
              Dim? dim=nil) -> (Tensor values, Tensor inverse_indices, Tensor counts)]],
     kind = "composite", differentiable = false, dtypes = "boolean+real",
     doc = [[Unique elements of `x`, or unique slices along a dimension, in ascending order, with
`sorted` false too. NaN differs from NaN.]],
     args = { sorted = "whether the result is in order, which it always is",
              return_inverse = "whether to return also the index (from 1) of each element, or slice, among the " ..
                "unique ones",
              return_counts = "whether to return also how often each comes",
              dim = "the dimension of the slices; elements unless given" },
     shapes = "x (*) -> values (k), inverse_indices (*), counts (k)",
     example = "ml.unique(ml.tensor {3, 1, 3, 2}, {return_counts = true})",
     gives = [[
{1, 2, 3}
Tensor (3,) int64
{1, 1, 2}
Tensor (3,) int64]],
     sample = { "tensor({{3, 1, 2}, {1, 3, 3}})", "tensor({{3, 1, 2}, {1, 3, 3}}), true, true",
                "tensor({{3, 1, 2}, {1, 3, 3}}), true, false, true", "tensor({2, 0 / 0, 1, 0 / 0, 2}), true, true, true",
                "tensor({{1, 2, 1}, {0, 5, 0}, {1, 2, 1}}), true, true, true, 1",
                "tensor({{1, 2, 1}, {0, 5, 0}, {1, 2, 1}}), true, true, true, 2" },
     torch = "unique_1based(torch.unique, args, 1)" }

op { [[unique_consecutive(Tensor x, bool return_inverse=false, bool return_counts=false,
                          Dim? dim=nil) -> (Tensor values, Tensor inverse_indices, Tensor counts)]],
     kind = "composite", dtypes = "boolean+real",
     doc = "Elements of `x`, or slices along a dimension, without those that equal the one before.",
     args = { return_inverse = "whether to return also the index (from 1) of each element, or slice, in the result",
              return_counts = "whether to return also how often each comes in a row",
              dim = "the dimension of the slices; elements unless given" },
     shapes = "x (*) -> values (k), inverse_indices (*), counts (k)",
     example = "ml.unique_consecutive(ml.tensor {1, 1, 2, 2, 1})",
     gives = [[
{1, 2, 1}
Tensor (3,) int64]],
     sample = { "tensor({1, 1, 2, 2, 3, 1, 1})", "tensor({{1, 1, 2}, {2, 3, 1}}), true, true",
                "tensor({1, 1, 2, 2, 3, 1, 1}), false, true", "tensor({{1, 2}, {1, 2}, {0, 2}, {1, 2}}), true, true, 1" },
     torch = "unique_1based(torch.unique_consecutive, args, 0)" }
