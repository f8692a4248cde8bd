-- tensor/ops/index.lua: reading and writing with tensors of indices or masks between brackets,
-- and the indices of what is not zero.

op { "nonzero(Tensor x) -> Tensor",
     vmap = "nonzero", kind = "allocating", dtypes = "all", steady = "x", alias = { "argwhere" },
     doc = [[Indices (from 1) of the elements that are not 0, in row-major order, int64: a row for each
element. With `as_tuple` a table of a vector of indices for each dimension, which indexes `x`.]],
     shapes = "x (*) -> (count, ndim)",
     example = "ml.nonzero(ml.tensor {{0, 1}, {2, 0}})",
     gives = [[
{{1, 2},
 {2, 1}}
Tensor (2, 2) int64]],
     sample = { "tensor({{0, 1}, {2, 0}})" }, torch = "torch.nonzero(args[0]) + 1" }

op { "masked_select(Tensor x, Mask mask) -> Tensor",
     out = true, kind = "composite", dtypes = "any",
     doc = "Elements of `x` where `mask` is true, in row-major order, as a vector. The two broadcast.",
     args = { mask = "a bool tensor" },
     shapes = "x (*), mask (*) -> (count)",
     example = "ml.masked_select(ml.tensor {1, 2, 3}, ml.tensor {true, false, true})",
     gives = [[
{1, 3}
Tensor (2,) int64]],
     sample = { "tensor({1.5, 2.5, 3.5}), tensor({true, false, true})" } }

op { "nonzero_as_rows(Tensor x, false as_tuple) -> Tensor",
     kind = "composite", dtypes = "all", overload_of = "nonzero",
     doc = "Indices of the elements that are not 0 as rows: with `as_tuple` false the same as without it.",
     args = { as_tuple = "false" },
     shapes = "x (*) -> (count, ndim)",
     example = "ml.nonzero(ml.tensor {0, 5}, false)",
     gives = [[
{{2}}
Tensor (1, 1) int64]],
     sample = { "tensor({{0, 1}, {2, 0}}), false" }, torch = "torch.nonzero(args[0], as_tuple=False) + 1" }

op { "nonzero_as_tuple(Tensor x, bool as_tuple) -> Tensor[]",
     kind = "composite", dtypes = "all", overload_of = "nonzero",
     doc = "Indices (from 1) of the elements that are not 0 as a table of vectors, one for each dimension.",
     args = { as_tuple = "true" },
     shapes = "x (*) -> table of ndim of (count)",
     example = "i, j = table.unpack(ml.nonzero(ml.tensor {{0, 1}, {2, 0}}, true)); i, j",
     gives = [[
{1, 2}
Tensor (2,) int64
{2, 1}
Tensor (2,) int64]],
     sample = { "tensor({{0, 1}, {2, 0}}), true", "tensor(3), true" },
     torch = "[r + 1 for r in torch.nonzero(args[0], as_tuple=True)]" }

op { "nonzero_static(Tensor x, int size, int fill_value=-1) -> Tensor",
     kind = "composite", dtypes = "all",
     doc = [[Indices (from 1) of the elements that are not 0, in a result of a given size: those too
many are left out, and rows too few filled.]],
     args = { size = "how many rows the result has", fill_value = "what missing rows hold" },
     shapes = "x (*) -> (size, ndim)",
     example = "ml.nonzero_static(ml.tensor {0, 5, 6}, 3)",
     gives = [[
{{ 2},
 { 3},
 {-1}}
Tensor (3, 1) int64]],
     sample = { "tensor({{0, 1}, {2, 0}}), 1", "tensor({{0, 1}, {2, 0}}), 3", "tensor({0, 5}), 2, 9" },
     torch = "torch.nonzero_static(args[0], size=args[1], fill_value=args[2] - 1 if len(args) > 2 else -2) + 1" }

op { "masked_scatter(Tensor x, Mask mask, Tensor source) -> Tensor",
     inplace = true, kind = "composite", dtypes = "any",
     doc = [[Copy of `x` whose elements under `mask` are, in row-major order, the first of `source`. `x`
and `mask` broadcast.]],
     args = { mask = "a bool tensor", source = "the elements, at least as many as `mask` has true ones" },
     shapes = "x (*), mask (*), source (...) -> (*)",
     errors = "fewer elements in `source` than `mask` has true ones",
     example = "ml.masked_scatter(ml.zeros(3), ml.tensor {true, false, true}, ml.tensor {5.0, 6})",
     gives = [[
{5., 0., 6.}
Tensor (3,) float32]],
     sample = { "randn(2, 3), tensor({{true, false, true}, {false, true, true}}), randn(5)",
                "randn(2, 3), tensor({true, false, true}), randn(2, 2)" },
     check = { empty = "source must have enough elements" } }

op { "index(Tensor x, Indices indices) -> Tensor",
     vmap = "index", linear = true, kind = "structured", dtypes = "any", method = false, func = false,
     grad = { x = "formulas::index_grad_x(g, indices, sizes_of(x))" },
     doc = [[What `x[{...}]` with tensors of indices reads: one tensor, or none for a whole dimension,
per dimension. The tensors broadcast; negative indices count from the end.]] }

op { "index_put(Tensor! x, Indices indices, Tensor values, bool accumulate=false) -> Tensor",
     vmap = "index_put", kind = "update", autocast = { device = "promote" }, dtypes = "any",
     grad = { x = "index_put_grad_x(g, indices, accumulate)", values = "index(g, indices)" },
     doc = [[Writes values at indices: what `x[{...}] = values` does with tensors of indices or masks.
Where an index comes twice, the last value stays.]],
     args = { indices = "a table of tensors of indices, from 1, or masks, one for each dimension, or `false` for " ..
                "a whole one; they broadcast",
              values = "what is written; it broadcasts to what the indices name",
              accumulate = "whether the values are added to what is there" },
     shapes = "x (*), indices (k), values (k) -> (*)",
     errors = "an index out of range",
     example = "ml.index_put(ml.zeros(3), {ml.tensor {1, 3}}, ml.tensor {5.0, 6})",
     gives = [[
{5., 0., 6.}
Tensor (3,) float32]],
     sample = { "randn(3, 4), {tensor({1, 3}), tensor({2, -1})}, randn(2)",
                "randn(3, 4), {false, tensor({2, 1, 2})}, randn(3, 3), true",
                "randn(3, 4), {tensor({true, false, true})}, tensor(1.5)" },
     torch = "index_put_ref(*args)",
     check = { empty = "the positions must exist" } }

op { [[searchsorted(Tensor sorted_sequence, Tensor x, bool out_int32=false, bool right=false,
                    string? side=nil, Tensor? sorter=nil) -> Tensor]],
     vmap = "searchsorted", kind = "structured", dtypes = "real", mixed = true, steady = "sorter",
     doc = [[Index (from 1) at which each element of `x` would be inserted into a sorted sequence so
that it stays sorted; beyond the end the size plus 1. The other dimensions of the two are equal, or the
sequence is a vector.]],
     args = { sorted_sequence = "sequences in ascending order along the last dimension",
              x = "a tensor, or a number",
              out_int32 = "whether the result is int32, else int64",
              right = "whether an element goes behind equal ones, else before them",
              side = '"left" or "right", the same by name; "left" with `right` is an error',
              sorter = "the indices, from 1, that sort the sequences, as `argsort` gives them, where they are not " ..
                "sorted" },
     shapes = "sorted_sequence (*, n), x (*, k) -> (*, k)",
     errors = '`side = "left"` with `right`',
     example = "ml.searchsorted(ml.tensor {1, 3, 5}, ml.tensor {3, 4, 9})",
     gives = [[
{2, 3, 4}
Tensor (3,) int64]],
     sample = { "tensor({1.0, 2.0, 2.0, 4.0}), tensor({{0.5, 2.0}, {3.0, 9.0}})",
                "tensor({1.0, 2.0, 2.0, 4.0}), tensor({{0.5, 2.0}, {3.0, 0/0}}), true, true",
                "tensor({{1, 3, 5}, {2, 4, 6}}), tensor({{3, 6, 1}, {4, 7, 2}})",
                'tensor({3.0, 1.0, 2.0}), tensor({1.5, 3.0}), false, false, "left", tensor({2, 3, 1})',
                'tensor({1, 2, 3}), tensor({2, 2}), {side = "right"}' },
     torch = "torch.searchsorted(args[0], args[1], **dict(zip(('out_int32', 'right', 'side'), args[2:5])), **({'sorter': args[5] - 1} if len(args) > 5 else {}), **kw) + 1",
     check = { empty = "the other dimensions must agree", dtypes = "a sorter holds positions" } }

op { [[searchsorted_number(Tensor sorted_sequence, Scalar x, bool out_int32=false, bool right=false,
                           string? side=nil, Tensor? sorter=nil) -> Tensor]],
     kind = "composite", differentiable = false, dtypes = "real", overload_of = "searchsorted", mixed = true,
     doc = "Index (from 1) at which a number would be inserted into a sorted vector.",
     args = { sorted_sequence = "a vector in ascending order",
              x = "the number",
              out_int32 = "whether the result is int32, else int64",
              right = "whether the number goes behind equal ones, else before them",
              side = '"left" or "right", the same by name',
              sorter = "the indices, from 1, that sort the sequence, where it is not sorted" },
     shapes = "sorted_sequence (n) -> ()",
     example = "ml.searchsorted(ml.tensor {1, 3, 5}, 3)", gives = "2  Tensor () int64",
     sample = { "tensor({1.0, 2.0, 2.0, 4.0}), 2" }, torch = "torch.searchsorted(*args) + 1",
     check = { noncontiguous = "of one number" } }

op { "bucketize(Tensor x, Tensor boundaries, bool out_int32=false, bool right=false) -> Tensor",
     kind = "composite", differentiable = false, dtypes = "real", mixed = true,
     doc = [[Number (from 1) of the bucket that each element falls into, for ascending boundaries:
bucket `i` ends with `boundaries[i]`, or with `right` ends before it.]],
     args = { boundaries = "a vector in ascending order",
              out_int32 = "whether the result is int32, else int64",
              right = "whether a boundary belongs to the bucket above it, else to the one that it ends" },
     shapes = "x (*), boundaries (n) -> (*)",
     example = "ml.bucketize(ml.tensor {0, 3, 4}, ml.tensor {1, 3, 5})",
     gives = [[
{1, 2, 3}
Tensor (3,) int64]],
     sample = { "tensor({{0.5, 2.0}, {3.0, 9.0}}), tensor({1.0, 2.0, 4.0})",
                "tensor({1, 3, 5}), tensor({1, 3, 4}), true, true" },
     torch = "torch.bucketize(args[0], args[1], **dict(zip(('out_int32', 'right'), args[2:]))) + 1" }

op { "unravel_index(Positions indices, int[] shape) -> Tensor[]",
     kind = "composite",
     doc = [[Indices in each dimension of a tensor of a given shape, all from 1, of elements counted in
row-major order.]],
     args = { indices = "the numbers of the elements, from 1", shape = "the shape of the tensor" },
     shapes = "indices (*) -> table of (*)",
     example = "i, j = table.unpack(ml.unravel_index(ml.tensor {6, 2}, {2, 3})); i, j",
     gives = [[
{2, 1}
Tensor (2,) int64
{3, 2}
Tensor (2,) int64]],
     sample = { "tensor({{1, 7}, {12, 5}}), {3, 4}", "tensor({24}), {2, 3, 4}" },
     torch = "[r + 1 for r in torch.unravel_index(args[0], args[1])]" }
