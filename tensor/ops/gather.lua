-- tensor/ops/gather.lua: reading and writing along one dimension at positions. Positions count from
-- 1; one that is out of range is an error that names it and the size.

op { "gather(Tensor x, Dim dim, Positions index) -> Tensor",
     kind = "structured", dtypes = "all",
     grad = { x = "scatter_add(zeros(sizes_of(x), Options{g.dtype(), g.device()}), dim, index, g)" },
     doc = [[For each entry of `index`, the element of `x` at that position along `dim`; the result has
the shape of `index`.]],
     sample = { "randn(3, 4), 2, tensor({{1, 3}, {2, 2}, {4, 1}})" } }

op { "scatter(Tensor! x, Dim dim, Positions index, Tensor source) -> Tensor",
     kind = "update", dtypes = "all",
     grad = { x = "scatter(g, dim, index, zeros(index.sizes(), Options{g.dtype(), g.device()}))",
              source = "gather(g, dim, index)" },
     doc = [[Writes each element of `source` to the position along `dim` that `index`, of the same
shape, holds. Where a position comes twice, the last one stays.]],
     sample = { "randn(3, 4), 2, tensor({{1, 3}, {2, 4}, {4, 1}}), randn(3, 2)" } }

op { "scatter_add(Tensor! x, Dim dim, Positions index, Tensor source) -> Tensor",
     kind = "update", autocast = { cuda = "promote" }, dtypes = "all",
     grad = { x = "g", source = "gather(g, dim, index)" },
     doc = [[Adds each element of `source` at the position along `dim` that `index`, of the same shape,
holds. Sums are made in the order of `source`, whatever the number of threads.]],
     sample = { "randn(3, 4), 2, tensor({{1, 3}, {2, 2}, {4, 1}}), randn(3, 2)" } }

op { "index_select(Tensor x, Dim dim, Positions index) -> Tensor",
     kind = "structured", dtypes = "all",
     grad = { x = "index_add(zeros(sizes_of(x), Options{g.dtype(), g.device()}), dim, index, g)" },
     doc = [[The slices of `x` along `dim` at the positions in the 1-D `index`.]],
     sample = { "randn(3, 4), 2, tensor({1, 3, 3})", "randn(3, 4), 1, tensor({2, 1})" } }

op { "index_add(Tensor! x, Dim dim, Positions index, Tensor source) -> Tensor",
     kind = "update", dtypes = "all",
     grad = { x = "g", source = "index_select(g, dim, index)" },
     doc = [[Adds the slices of `source` to those of `x` along `dim` at the positions in `index`.]],
     sample = { "randn(3, 4), 2, tensor({1, 3, 3}), randn(3, 3)" } }

op { [[embedding(Tensor weight, Positions index, int padding_idx=0,
                 bool scale_grad_by_freq=false) -> Tensor]],
     kind = "structured", dtypes = "all",
     grad = { weight = "embedding_grad_weight(formulas::by_frequency(g, index, sizes_of(weight)[0], scale_grad_by_freq), index, sizes_of(weight)[0], padding_idx)" },
     doc = [[The rows of `weight`, `(rows, features)`, at the positions in `index`: the result is
`(..., features)`. The row at position `padding_idx` gets no gradient; 0 is no such row.
`scale_grad_by_freq` divides the gradient of each row by how often it comes.]],
     sample = { "randn(4, 3), tensor({{1, 4}, {2, 2}})" },
     torch = "F.embedding(args[1], args[0])" }

op { "embedding_grad_weight(Tensor grad, Positions index, int rows, int padding_idx=0) -> Tensor",
     kind = "structured", dtypes = "all", internal = true,
     grad = { grad = "embedding_grad_weight_grad_grad(g, index, padding_idx)" },
     doc = [[The gradient of `embedding`: the rows of `grad` added up at their positions, in order.]],
     sample = { "randn(2, 2, 3), tensor({{1, 4}, {2, 2}}), 4" },
     torch = "torch.zeros(args[2], args[0].shape[-1], dtype=args[0].dtype).index_add(0, args[1].flatten(), args[0].flatten(0, -2))" }

op { "bincount(Positions x, Tensor? weights=nil, int minlength=0) -> Tensor",
     kind = "composite",
     doc = [[How often each position (from 1) comes in the 1-D `x`, or the sum of its `weights`; at least
`minlength` long.]],
     sample = { "tensor({1, 3, 3})" } }
