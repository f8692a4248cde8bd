-- tensor/ops/index.lua: reading and writing with tensors of positions or masks between brackets,
-- and the positions of what is not zero.

op { "nonzero(Tensor x) -> Tensor",
     kind = "allocating", dtypes = "all",
     doc = [[The positions (from 1) of the elements that are not zero, in row order: int64 of shape
`(count, rank of x)`.]],
     sample = { "tensor({{0, 1}, {2, 0}})" }, torch = "torch.nonzero(args[0]) + 1" }

op { "masked_select(Tensor x, Mask mask) -> Tensor",
     out = true, kind = "composite", dtypes = "all",
     doc = [[The elements of `x` where `mask` is true, in row order, as one dimension. The two
broadcast.]],
     sample = { "tensor({1.5, 2.5, 3.5}), tensor({true, false, true})" } }

op { "index(Tensor x, Tensor?[] indices) -> Tensor",
     kind = "structured", dtypes = "all", method = false, func = false,
     grad = { x = "index_put(zeros(sizes_of(x), Options{g.dtype(), g.device()}), indices, g, true)" },
     doc = [[What `x[{...}]` with tensors of positions reads: one tensor, or none for a whole dimension,
per dimension. The tensors broadcast; negative positions count from the end.]] }

op { "index_put(Tensor! x, Tensor?[] indices, Tensor values, bool accumulate=false) -> Tensor",
     kind = "update", autocast = { cuda = "promote" }, dtypes = "all", method = false, func = false,
     grad = { x = "index_put_grad_x(g, indices, accumulate)", values = "index(g, indices)" },
     doc = [[What `x[{...}] = values` with tensors of positions writes; `values` broadcasts. With
`accumulate` it adds, in row order; else the last value for a position stays.]] }
