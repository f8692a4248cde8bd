-- tensor/ops/index.lua: reading and writing with tensors of positions or masks between brackets,
-- and the positions of what is not zero.

op { "nonzero(Tensor x) -> Tensor",
     vmap = "nonzero", kind = "allocating", dtypes = "all", steady = "x", alias = { "argwhere" },
     doc = [[The positions (from 1) of the elements that are not zero, in row order: int64 of shape
`(count, rank of x)`. With `as_tuple = true` a table of one tensor of positions for each dimension,
which indexes `x`.]],
     sample = { "tensor({{0, 1}, {2, 0}})" }, torch = "torch.nonzero(args[0]) + 1" }

op { "masked_select(Tensor x, Mask mask) -> Tensor",
     out = true, kind = "composite", dtypes = "any",
     doc = [[The elements of `x` where `mask` is true, in row order, as one dimension. The two
broadcast.]],
     sample = { "tensor({1.5, 2.5, 3.5}), tensor({true, false, true})" } }

op { "nonzero_as_rows(Tensor x, false as_tuple) -> Tensor",
     kind = "composite", dtypes = "all", overload_of = "nonzero",
     doc = [[The same as without `as_tuple`.]],
     sample = { "tensor({{0, 1}, {2, 0}}), false" }, torch = "torch.nonzero(args[0], as_tuple=False) + 1" }

op { "nonzero_as_tuple(Tensor x, bool as_tuple) -> Tensor[]",
     kind = "composite", dtypes = "all", overload_of = "nonzero",
     doc = [[The same as a tensor for each dimension.]],
     sample = { "tensor({{0, 1}, {2, 0}}), true", "tensor(3), true" },
     torch = "[r + 1 for r in torch.nonzero(args[0], as_tuple=True)]" }

op { "nonzero_static(Tensor x, int size, int fill_value=-1) -> Tensor",
     kind = "composite", dtypes = "all",
     doc = [[As `nonzero`, but with `size` rows: those too many are left out, and those too few filled
with `fill_value`.]],
     sample = { "tensor({{0, 1}, {2, 0}}), 1", "tensor({{0, 1}, {2, 0}}), 3", "tensor({0, 5}), 2, 9" },
     torch = "torch.nonzero_static(args[0], size=args[1], fill_value=args[2] - 1 if len(args) > 2 else -2) + 1" }

op { "masked_scatter(Tensor x, Mask mask, Tensor source) -> Tensor",
     inplace = true, kind = "composite", dtypes = "any",
     doc = [[A copy of `x` where the elements that `mask` marks are, in row order, the first of `source`,
which has at least so many. `x` and `mask` broadcast.]],
     sample = { "randn(2, 3), tensor({{true, false, true}, {false, true, true}}), randn(5)",
                "randn(2, 3), tensor({true, false, true}), randn(2, 2)" },
     check = { empty = "source must have enough elements" } }

op { "index(Tensor x, Indices indices) -> Tensor",
     vmap = "index", linear = true, kind = "structured", dtypes = "any", method = false, func = false,
     grad = { x = "formulas::index_grad_x(g, indices, sizes_of(x))" },
     doc = [[What `x[{...}]` with tensors of positions reads: one tensor, or none for a whole dimension,
per dimension. The tensors broadcast; negative positions count from the end.]] }

op { "index_put(Tensor! x, Indices indices, Tensor values, bool accumulate=false) -> Tensor",
     vmap = "index_put", kind = "update", autocast = { cuda = "promote" }, dtypes = "any",
     grad = { x = "index_put_grad_x(g, indices, accumulate)", values = "index(g, indices)" },
     doc = [[What `x[{...}] = values` with tensors of positions, or masks, writes; `values` broadcasts.
`indices` is a table of such tensors, with `false` for a whole dimension. With `accumulate` it adds,
in row order; else the last value for a position stays.]],
     sample = { "randn(3, 4), {tensor({1, 3}), tensor({2, -1})}, randn(2)",
                "randn(3, 4), {false, tensor({2, 1, 2})}, randn(3, 3), true",
                "randn(3, 4), {tensor({true, false, true})}, tensor(1.5)" },
     torch = "index_put_ref(*args)",
     check = { empty = "the positions must exist" } }

op { [[searchsorted(Tensor sorted_sequence, Tensor x, bool out_int32=false, bool right=false,
                    string? side=nil, Tensor? sorter=nil) -> Tensor]],
     vmap = "searchsorted", kind = "structured", dtypes = "real", mixed = true, steady = "sorter",
     doc = [[For each element of `x` the position (from 1) along the last dimension of
`sorted_sequence`, in rising order, where it would be put in: before equal ones, or behind them with
`right` or `side = "right"` (`side = "left"` with `right` is an error); the size plus 1 behind all. The other dimensions of the two agree, or
the sequence is 1-D. `sorter` holds the positions that put an unsorted sequence in order, as
`argsort` gives them. `x` may be a number. int64, or int32 with `out_int32`.]],
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
     doc = [[The same of one number.]],
     sample = { "tensor({1.0, 2.0, 2.0, 4.0}), 2" }, torch = "torch.searchsorted(*args) + 1",
     check = { noncontiguous = "of one number" } }

op { "bucketize(Tensor x, Tensor boundaries, bool out_int32=false, bool right=false) -> Tensor",
     kind = "composite", differentiable = false, dtypes = "real", mixed = true,
     doc = [[For each element of `x` the number (from 1) of the bucket it falls in: `boundaries`, 1-D and in
rising order, end the buckets, each in its own, or with `right` begin them.]],
     sample = { "tensor({{0.5, 2.0}, {3.0, 9.0}}), tensor({1.0, 2.0, 4.0})",
                "tensor({1, 3, 5}), tensor({1, 3, 4}), true, true" },
     torch = "torch.bucketize(args[0], args[1], **dict(zip(('out_int32', 'right'), args[2:]))) + 1" }

op { "unravel_index(Positions indices, int[] shape) -> Tensor[]",
     kind = "composite",
     doc = [[The positions in each dimension of a tensor of that shape, all from 1, of elements counted in
row order.]],
     sample = { "tensor({{1, 7}, {12, 5}}), {3, 4}", "tensor({24}), {2, 3, 4}" },
     torch = "[r + 1 for r in torch.unravel_index(args[0], args[1])]" }
