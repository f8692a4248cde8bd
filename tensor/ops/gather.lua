-- tensor/ops/gather.lua: reading and writing along one dimension at positions. Positions count from
-- 1; one that is out of range is an error that names it and the size.

op { "gather(Tensor x, Dim dim, Positions index) -> Tensor",
     vmap = "all", linear = true, kind = "structured", dtypes = "any",
     grad = { x = "formulas::added_grad_x(g, index, sizes_of(x), dim)" },
     doc = [[For each entry of `index`, the element of `x` at that position along `dim`; the result has
the shape of `index`.]],
     sample = { "randn(3, 4), 2, tensor({{1, 3}, {2, 2}, {4, 1}})" } }

op { "scatter(Tensor! x, Dim dim, Positions index, Tensor src) -> Tensor",
     vmap = "all", kind = "update", out = true, dtypes = "any",
     grad = { x = "scatter_value(g, dim, index, 0)",
              src = "formulas::scatter_grad_src(g, dim, index, sizes_of(src))" },
     doc = [[Writes each element of `src` to the position along `dim` that `index`, of no larger shape,
holds at its position. Where a position comes twice, the last one stays. A number can stand for `src`;
with `reduce` ("add" or "multiply") it is added to, or multiplied with, what is there.]],
     sample = { "randn(3, 4), 2, tensor({{1, 3}, {2, 4}, {4, 1}}), randn(3, 2)",
                "randn(3, 4), 1, tensor({{1, 3}, {2, 1}}), randn(3, 3)",
                "randn(4), -1, tensor({4, 2}), randn(3)" } }

op { "scatter_value(Tensor! x, Dim dim, Positions index, Scalar value) -> Tensor",
     vmap = "all", kind = "update", out = true, dtypes = "any", overload_of = "scatter",
     grad = { x = "scatter_value(g, dim, index, 0)" },
     doc = [[The same of one number.]],
     sample = { "randn(3, 4), 2, tensor({{1, 3}, {2, 4}, {4, 4}}), 2.5" },
     torch = "torch.scatter(*args)" }

op { [[scatter_with(Tensor x, Dim dim, Positions index, Operand src, string reduce) -> Tensor]],
     kind = "composite", inplace = true, dtypes = "real", overload_of = "scatter",
     doc = [[The same added to, or multiplied with, what is there.]],
     sample = { "randn(3, 4), 2, tensor({{1, 3}, {2, 4}, {4, 4}}), 2.5, {reduce = \"multiply\"}",
                "randn(3, 4), 2, tensor({{1, 3}, {2, 4}, {4, 4}}), randn(3, 2), {reduce = \"add\"}" },
     torch = "torch.scatter(*args, **kw)", check = { dtypes = "the number is a float" } }

op { "scatter_add(Tensor! x, Dim dim, Positions index, Tensor src) -> Tensor",
     vmap = "all", kind = "update", out = true, autocast = { cuda = "promote" }, dtypes = "all",
     grad = { x = "g", src = "formulas::scatter_grad_src(g, dim, index, sizes_of(src))" },
     doc = [[Adds each element of `src` at the position along `dim` that `index`, of no larger shape,
holds at its position. Sums are made in the order of `src`, whatever the number of threads.]],
     sample = { "randn(3, 4), 2, tensor({{1, 3}, {2, 2}, {4, 1}}), randn(3, 2)",
                "randn(3, 4), 1, tensor({{1, 3}, {3, 3}}), randn(3, 3)" } }

op { [[scatter_reduce(Tensor x, Dim dim, Positions index, Tensor src, string reduce,
                      bool include_self=true) -> Tensor]],
     kind = "composite", inplace = true, out = true, dtypes = "real",
     doc = [[Brings together, as `reduce` says ("sum", "prod", "mean", "amax", "amin"), the elements of
`src` that `index`, of no larger shape, sends to one position along `dim`, and what `x` has there
unless `include_self` is false. Positions that `index` does not name stay as they are. Among equal
extremes the gradient is shared evenly.]],
     sample = { 'randn(3, 4), 2, tensor({{1, 3}, {2, 2}, {4, 1}}), randn(3, 2), "sum"',
                'randn(3, 4), 2, tensor({{1, 3}, {2, 2}, {4, 1}}), randn(3, 2), "sum", false',
                'randn(4), 1, tensor({1, 3, 3, 1, 1}), randn(5), "mean"',
                'randn(4), 1, tensor({1, 3, 3, 1, 1}), randn(5), "mean", false',
                'randn(4), 1, tensor({1, 3, 3, 1, 1}), randn(5), "prod"',
                'randn(4), 1, tensor({1, 3, 3, 1, 1}), tensor({2.0, 0.0, 3.0, 1.5, -1.0}), "prod", false',
                'randn(3, 4), 1, tensor({{1, 3, 1}, {1, 2, 3}}), randn(2, 3), "amax"',
                'randn(3, 4), 1, tensor({{1, 3, 1}, {1, 2, 3}}), randn(3, 4), "amin", false' },
     torch = "torch.scatter_reduce(*args[:5], include_self=(args + [True])[5])",
     check = { gradgrad = "where a factor is 0 the second derivative leaves it out" } }

op { [[scatter_fold(Tensor! x, Dim dim, Positions index, Tensor src, string reduce) -> Tensor]],
     vmap = "all", kind = "update", dtypes = "boolean+real", internal = true,
     grad = { ["x, src"] = "formulas::scatter_fold_grads(g, x, dim, index, src, reduce, y)" },
     doc = [[Multiplies ("prod") the elements of `x` with those of `src` that `index` sends to them along
`dim`, or keeps the largest ("amax") or smallest ("amin"); NaN wins.]],
     sample = { 'randn(3, 4), 2, tensor({{1, 3}, {2, 2}, {4, 1}}), randn(3, 2), "prod"',
                'randn(3, 4), 1, tensor({{1, 3}, {3, 3}}), randn(2, 2), "amax"',
                'randn(4), 1, tensor({1, 3, 3, 1}), tensor({0.5, math.huge, 0/0, -math.huge}), "amin"' },
     torch = "torch.scatter_reduce(*args)", check = { grad = "tested by scatter_reduce, as NaN has none" } }

op { "index_select(Tensor x, Dim dim, Positions index) -> Tensor",
     vmap = "index_select", linear = true, kind = "structured", dtypes = "any",
     grad = { x = "formulas::index_select_grad_x(g, dim, index, sizes_of(x))" },
     doc = [[The slices of `x` along `dim` at the positions in the 1-D `index`.]],
     sample = { "randn(3, 4), 2, tensor({1, 3, 3})", "randn(3, 4), 1, tensor({2, 1})" } }

op { "index_add(Tensor! x, Dim dim, Positions index, Tensor source) -> Tensor",
     vmap = "indexed", kind = "update", out = true, dtypes = "all",
     grad = { x = "g", source = "index_select(g, dim, index)" },
     doc = [[Adds the slices of `source` (`alpha` times them, where it is given) to those of `x` along
`dim` at the positions in `index`.]],
     sample = { "randn(3, 4), 2, tensor({1, 3, 3}), randn(3, 3)" } }

op { "index_add_scaled(Tensor! x, Dim dim, Positions index, Tensor source, Scalar alpha) -> Tensor",
     vmap = "indexed", kind = "update", out = true, dtypes = "real + complex", overload_of = "index_add",
     grad = { x = "g", source = "mul(index_select(g, dim, index), conj(alpha))" },
     doc = [[The same of `alpha` times the slices.]],
     sample = { "randn(3, 4), 2, tensor({1, 3, 3}), randn(3, 3), {alpha = 2}" },
     torch = "torch.index_add(*args, **kw)" }

op { "index_copy(Tensor! x, Dim dim, Positions index, Tensor source) -> Tensor",
     vmap = "indexed", kind = "update", out = true, autocast = { cpu = "promote" }, dtypes = "any",
     grad = { x = "index_fill(g, dim, index, 0)", source = "index_select(g, dim, index)" },
     doc = [[Writes the slices of `source` over those of `x` along `dim` at the positions in `index`.
Where a position comes twice, the last one stays.]],
     sample = { "randn(3, 4), 2, tensor({1, 4, 3}), randn(3, 3)", "randn(3, 4), 1, tensor({2}), randn(1, 4)" } }

op { "index_fill(Tensor! x, Dim dim, Positions index, Scalar value) -> Tensor",
     vmap = "indexed", kind = "update", dtypes = "any",
     grad = { x = "index_fill(g, dim, index, 0)" },
     doc = [[Sets the slices of `x` along `dim` at the positions in `index` to `value`, a number or a
tensor of one.]],
     sample = { "randn(3, 4), 2, tensor({1, 4, 4}), 2.5", "randn(3, 4), 1, tensor({2}), 3" } }

op { "index_fill_tensor(Tensor x, Dim dim, Positions index, Tensor value) -> Tensor",
     kind = "composite", inplace = true, dtypes = "any", overload_of = "index_fill",
     doc = [[The same of a tensor of no dimensions.]],
     sample = { "randn(3, 4), 2, tensor({1, 4, 2}), tensor(2.5)" },
     torch = "torch.index_fill(*args)" }

op { [[index_reduce(Tensor! x, Dim dim, Positions index, Tensor source, string reduce,
                    bool include_self=true) -> Tensor]],
     vmap = "indexed", kind = "update", out = true, dtypes = "real",
     grad = { ["x, source"] = "formulas::index_reduce_grads(g, x, dim, index, source, reduce, include_self, y)" },
     doc = [[Brings together, as `reduce` says ("prod", "mean", "amax", "amin"), the slices of `source`
that `index` sends to one position of `x` along `dim`, and what `x` has there unless `include_self` is
false. Positions that `index` does not name stay as they are. Among equal extremes the gradient is
shared evenly.]],
     sample = { 'randn(3, 4), 1, tensor({1, 3, 1}), randn(3, 4), "prod"',
                'randn(3, 4), 1, tensor({1, 3, 1}), randn(3, 4), "prod", false',
                'randn(3, 4), 1, tensor({1, 3, 1}), randn(3, 4), "mean"',
                'randn(3, 4), 2, tensor({1, 3, 1}), randn(3, 3), "mean", false',
                'randn(3, 4), 2, tensor({1, 3, 1}), randn(3, 3), "amax"',
                'randn(3, 4), 1, tensor({1, 1}), randn(2, 4), "amin", false' },
     torch = "torch.index_reduce(*args[:5], include_self=(args + [True])[5])" }

op { "take(Tensor x, Positions index) -> Tensor",
     kind = "composite", dtypes = "any",
     doc = [[The elements of `x`, counted in row order, at the positions in `index`, of whose shape the
result is.]],
     sample = { "randn(3, 4), tensor({{1, 12}, {5, 5}})", "randn(3, 4), tensor({-1, 2})" } }

op { "take_along_dim(Tensor x, Positions indices, Dim? dim=nil) -> Tensor",
     kind = "composite", dtypes = "any",
     doc = [[As `gather`, but the other dimensions broadcast; without `dim` from flattened `x`.
`x:take_along_dim(x:argsort(d), d)` is sorted.]],
     sample = { "randn(3, 4), tensor({{1, 3}, {2, 2}, {4, 1}}), 2", "randn(3, 4), tensor({{2, 1, 1, 3}}), 1",
                "randn(3, 4), tensor({12, 1, 7})", "randn(1, 4), tensor({{1}, {2}, {4}}), -1" } }

op { "put(Tensor x, Positions index, Tensor source, bool accumulate=false) -> Tensor",
     kind = "composite", inplace = true, dtypes = "all",
     doc = [[A copy of `x` with the elements of `source` at the positions in `index`, counted in row
order; added to what is there with `accumulate`.]],
     sample = { "randn(3, 4), tensor({1, 12, 5}), randn(3)", "randn(3, 4), tensor({{1, 5}, {5, 5}}), randn(2, 2), true" } }

op { [[embedding(Tensor weight, Positions index, int padding_idx=0,
                 bool scale_grad_by_freq=false, bool sparse=false) -> Tensor]],
     vmap = "embedding", kind = "structured", dtypes = "all",
     grad = { weight = "formulas::embedding_grad(rows_taker, g, index, sizes_of(weight), padding_idx, scale_grad_by_freq, sparse)" },
     doc = [[The rows of `weight`, `(rows, features)`, at the positions in `index`: the result is
`(..., features)`. The row at position `padding_idx` gets no gradient; 0 is no such row.
`scale_grad_by_freq` divides the gradient of each row by how often it comes. With `sparse` the
gradient that a leaf `weight` gets is `SparseRows`: the rows that were used, for `optim.SGD`,
`optim.Adagrad` and `optim.SparseAdam`.]],
     sample = { "randn(4, 3), tensor({{1, 4}, {2, 2}})" },
     torch = "F.embedding(args[1], args[0])" }

op { "embedding_grad_weight(Tensor grad, Positions index, int rows, int padding_idx=0) -> Tensor",
     vmap = "embedding_grad_weight", kind = "structured", dtypes = "all", internal = true,
     grad = { grad = "embedding_grad_weight_grad_grad(g, index, padding_idx)" },
     doc = [[The gradient of `embedding`: the rows of `grad` added up at their positions, in order.]],
     sample = { "randn(2, 2, 3), tensor({{1, 4}, {2, 2}}), 4" },
     torch = "torch.zeros(args[2], args[0].shape[-1], dtype=args[0].dtype).index_add(0, args[1].flatten(), args[0].flatten(0, -2))" }

op { "bincount(Positions x, Tensor? weights=nil, int minlength=0) -> Tensor",
     kind = "composite",
     doc = [[How often each position (from 1) comes in the 1-D `x`, or the sum of its `weights`; at least
`minlength` long, and inside `vmap` just so long.]],
     sample = { "tensor({1, 3, 3})" } }
