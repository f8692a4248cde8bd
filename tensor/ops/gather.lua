-- tensor/ops/gather.lua: reading and writing along one dimension by indices. Indices count from
-- 1; one that is out of range is an error that names it and the size.

op { "gather(Tensor x, Dim dim, Positions index) -> Tensor",
     vmap = "all", linear = true, kind = "structured", dtypes = "any",
     grad = { x = "formulas::added_grad_x(g, index, sizes_of(x), dim)" },
     doc = [[Gathers elements along a dimension: for each entry of `index` the element of `x` at that
index.]],
     args = { index = "the indices, from 1, of the dimensions of `x` and of no larger sizes except along `dim`" },
     shapes = "x (*, n, *), index (*, k, *) -> (*, k, *)",
     formula = "y_ij = x_(i, index_ij) for dim = 2",
     errors = "an index out of range",
     example = "ml.gather(ml.tensor {{1, 2}, {3, 4}}, 2, ml.tensor {{2}, {1}})",
     gives = [[
{{2},
 {3}}
Tensor (2, 1) int64]],
     sample = { "randn(3, 4), 2, tensor({{1, 3}, {2, 2}, {4, 1}})" } }

op { "scatter(Tensor! x, Dim dim, Positions index, Tensor src) -> Tensor",
     vmap = "all", kind = "update", out = true, dtypes = "any",
     grad = { x = "scatter_value(g, dim, index, 0)",
              src = "formulas::scatter_grad_src(g, dim, index, sizes_of(src))" },
     doc = [[Scatters elements along a dimension: writes each element of `src` to the index that `index`
holds at its position. Where an index comes twice, the last one stays. With `reduce` ("add" or
"multiply") the elements are added to, or multiplied with, what is there.]],
     args = { index = "the indices, from 1, of no larger sizes than `src`", src = "a tensor, or a number" },
     shapes = "x (*, n, *), index (*, k, *), src (*, k, *) -> (*, n, *)",
     formula = "x_(i, index_ij) = src_ij for dim = 2",
     errors = "an index out of range",
     example = "ml.scatter(ml.zeros(3), 1, ml.tensor {3, 1}, ml.tensor {5.0, 6})",
     gives = [[
{6., 0., 5.}
Tensor (3,) float32]],
     sample = { "randn(3, 4), 2, tensor({{1, 3}, {2, 4}, {4, 1}}), randn(3, 2)",
                "randn(3, 4), 1, tensor({{1, 3}, {2, 1}}), randn(3, 3)",
                "randn(4), -1, tensor({4, 2}), randn(3)" } }

op { "scatter_value(Tensor! x, Dim dim, Positions index, Scalar value) -> Tensor",
     vmap = "all", kind = "update", out = true, dtypes = "any", overload_of = "scatter",
     grad = { x = "scatter_value(g, dim, index, 0)" },
     doc = "Scatters one number along a dimension: writes it to each index that `index` holds.",
     args = { index = "the indices, from 1", value = "the number that is written" },
     shapes = "x (*, n, *), index (*, k, *) -> (*, n, *)",
     example = "ml.scatter(ml.zeros(3), 1, ml.tensor {3, 1}, 7)",
     gives = [[
{7., 0., 7.}
Tensor (3,) float32]],
     sample = { "randn(3, 4), 2, tensor({{1, 3}, {2, 4}, {4, 4}}), 2.5" },
     torch = "torch.scatter(*args)" }

op { [[scatter_with(Tensor x, Dim dim, Positions index, Operand src, string reduce) -> Tensor]],
     kind = "composite", inplace = true, dtypes = "real", overload_of = "scatter",
     doc = "Scatters elements along a dimension and adds them to, or multiplies them with, what is there.",
     args = { index = "the indices, from 1", src = "a tensor, or a number", reduce = '"add" or "multiply"' },
     shapes = "x (*, n, *), index (*, k, *), src (*, k, *) -> (*, n, *)",
     example = 'ml.scatter(ml.ones(3), 1, ml.tensor {3, 3}, ml.tensor {5.0, 6}, {reduce = "add"})',
     gives = [[
{ 1.,  1., 12.}
Tensor (3,) float32]],
     sample = { "randn(3, 4), 2, tensor({{1, 3}, {2, 4}, {4, 4}}), 2.5, {reduce = \"multiply\"}",
                "randn(3, 4), 2, tensor({{1, 3}, {2, 4}, {4, 4}}), randn(3, 2), {reduce = \"add\"}" },
     torch = "torch.scatter(*args, **kw)", check = { dtypes = "the number is a float" } }

op { "scatter_add(Tensor! x, Dim dim, Positions index, Tensor src) -> Tensor",
     vmap = "all", kind = "update", out = true, autocast = { device = "promote" }, dtypes = "all",
     grad = { x = "g", src = "formulas::scatter_grad_src(g, dim, index, sizes_of(src))" },
     doc = [[Adds each element of `src` at the index along a dimension that `index` holds at its
position. Sums are made in the order of `src`, whatever the number of threads.]],
     args = { index = "the indices, from 1, of no larger sizes than `src`", src = "what is added" },
     shapes = "x (*, n, *), index (*, k, *), src (*, k, *) -> (*, n, *)",
     formula = "x_(i, index_ij) = x_(i, index_ij) + src_ij for dim = 2",
     errors = "an index out of range",
     example = "ml.scatter_add(ml.zeros(3), 1, ml.tensor {1, 3, 3}, ml.tensor {5.0, 6, 7})",
     gives = [[
{ 5.,  0., 13.}
Tensor (3,) float32]],
     sample = { "randn(3, 4), 2, tensor({{1, 3}, {2, 2}, {4, 1}}), randn(3, 2)",
                "randn(3, 4), 1, tensor({{1, 3}, {3, 3}}), randn(3, 3)" } }

op { [[scatter_reduce(Tensor x, Dim dim, Positions index, Tensor src, string reduce,
                      bool include_self=true) -> Tensor]],
     kind = "composite", inplace = true, out = true, dtypes = "real",
     doc = [[Reduces the elements of `src` that `index` sends to one index along a dimension. Elements
of `x` that `index` does not name stay as they are. Among equal extremes the gradient is shared evenly.]],
     args = { index = "the indices, from 1, of no larger sizes than `src`",
              src = "what is reduced",
              reduce = '"sum", "prod", "mean", "amax" or "amin"',
              include_self = "whether the element of `x` takes part" },
     shapes = "x (*, n, *), index (*, k, *), src (*, k, *) -> (*, n, *)",
     example = 'ml.scatter_reduce(ml.zeros(3), 1, ml.tensor {1, 3, 3}, ml.tensor {5.0, 6, 8}, "mean", false)',
     gives = [[
{5., 0., 7.}
Tensor (3,) float32]],
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
     doc = "Slices of `x` along a dimension at the given indices, as a copy.",
     args = { index = "a vector of indices, from 1" },
     shapes = "x (*, n, *), index (k) -> (*, k, *)",
     errors = "an index out of range",
     example = "ml.index_select(ml.tensor {{1, 2}, {3, 4}}, 1, ml.tensor {2, 2})",
     gives = [[
{{3, 4},
 {3, 4}}
Tensor (2, 2) int64]],
     sample = { "randn(3, 4), 2, tensor({1, 3, 3})", "randn(3, 4), 1, tensor({2, 1})" } }

op { "index_add(Tensor! x, Dim dim, Positions index, Tensor source) -> Tensor",
     vmap = "indexed", kind = "update", out = true, dtypes = "all",
     grad = { x = "g", source = "index_select(g, dim, index)" },
     doc = "Adds the slices of `source` to those of `x` along a dimension at the given indices.",
     args = { index = "a vector of indices, from 1; one may come several times",
              source = "the slices that are added" },
     shapes = "x (*, n, *), index (k), source (*, k, *) -> (*, n, *)",
     errors = "an index out of range",
     example = "ml.index_add(ml.zeros(3), 1, ml.tensor {1, 3, 3}, ml.tensor {5.0, 6, 7})",
     gives = [[
{ 5.,  0., 13.}
Tensor (3,) float32]],
     sample = { "randn(3, 4), 2, tensor({1, 3, 3}), randn(3, 3)" } }

op { "index_add_scaled(Tensor! x, Dim dim, Positions index, Tensor source, Scalar alpha) -> Tensor",
     vmap = "indexed", kind = "update", out = true, dtypes = "real + complex", overload_of = "index_add",
     grad = { x = "g", source = "mul(index_select(g, dim, index), conj(alpha))" },
     doc = "Adds `alpha` times the slices of `source` to those of `x` along a dimension at the given indices.",
     args = { index = "a vector of indices, from 1",
              source = "the slices that are added",
              alpha = "the factor, by name" },
     shapes = "x (*, n, *), index (k), source (*, k, *) -> (*, n, *)",
     example = "ml.index_add(ml.zeros(3), 1, ml.tensor {1}, ml.tensor {5.0}, {alpha = 2})",
     gives = [[
{10.,  0.,  0.}
Tensor (3,) float32]],
     sample = { "randn(3, 4), 2, tensor({1, 3, 3}), randn(3, 3), {alpha = 2}" },
     torch = "torch.index_add(*args, **kw)" }

op { "index_copy(Tensor! x, Dim dim, Positions index, Tensor source) -> Tensor",
     vmap = "indexed", kind = "update", out = true, autocast = { host = "promote" }, dtypes = "any",
     grad = { x = "index_fill(g, dim, index, 0)", source = "index_select(g, dim, index)" },
     doc = [[Writes the slices of `source` over those of `x` along a dimension at the given indices.
Where an index comes twice, the last one stays.]],
     args = { index = "a vector of indices, from 1", source = "the slices that are written" },
     shapes = "x (*, n, *), index (k), source (*, k, *) -> (*, n, *)",
     errors = "an index out of range",
     example = "ml.index_copy(ml.zeros(3), 1, ml.tensor {3, 1}, ml.tensor {5.0, 6})",
     gives = [[
{6., 0., 5.}
Tensor (3,) float32]],
     sample = { "randn(3, 4), 2, tensor({1, 4, 3}), randn(3, 3)", "randn(3, 4), 1, tensor({2}), randn(1, 4)" } }

op { "index_fill(Tensor! x, Dim dim, Positions index, Scalar value) -> Tensor",
     vmap = "indexed", kind = "update", dtypes = "any",
     grad = { x = "index_fill(g, dim, index, 0)" },
     doc = "Sets the slices of `x` along a dimension at the given indices to `value`.",
     args = { index = "a vector of indices, from 1", value = "a number, or a tensor without dimensions" },
     shapes = "x (*, n, *), index (k) -> (*, n, *)",
     errors = "an index out of range",
     example = "ml.index_fill(ml.zeros(3), 1, ml.tensor {3, 1}, 7)",
     gives = [[
{7., 0., 7.}
Tensor (3,) float32]],
     sample = { "randn(3, 4), 2, tensor({1, 4, 4}), 2.5", "randn(3, 4), 1, tensor({2}), 3" } }

op { "index_fill_tensor(Tensor x, Dim dim, Positions index, Tensor value) -> Tensor",
     kind = "composite", inplace = true, dtypes = "any", overload_of = "index_fill",
     doc = "Sets the slices of `x` along a dimension at the given indices to the element of a 0-d tensor.",
     args = { index = "a vector of indices, from 1", value = "a tensor without dimensions" },
     shapes = "x (*, n, *), index (k), value () -> (*, n, *)",
     example = "ml.index_fill(ml.zeros(3), 1, ml.tensor {3, 1}, ml.tensor(7.0))",
     gives = [[
{7., 0., 7.}
Tensor (3,) float32]],
     sample = { "randn(3, 4), 2, tensor({1, 4, 2}), tensor(2.5)" },
     torch = "torch.index_fill(*args)" }

op { [[index_reduce(Tensor! x, Dim dim, Positions index, Tensor source, string reduce,
                    bool include_self=true) -> Tensor]],
     vmap = "indexed", kind = "update", out = true, dtypes = "real",
     grad = { ["x, source"] = "formulas::index_reduce_grads(g, x, dim, index, source, reduce, include_self, y)" },
     doc = [[Reduces the slices of `source` that `index` sends to one index along a dimension. Slices of
`x` that `index` does not name stay as they are. Among equal extremes the gradient is shared evenly.]],
     args = { index = "a vector of indices, from 1",
              source = "the slices that are reduced",
              reduce = '"prod", "mean", "amax" or "amin"',
              include_self = "whether the slice of `x` takes part" },
     shapes = "x (*, n, *), index (k), source (*, k, *) -> (*, n, *)",
     example = 'ml.index_reduce(ml.ones(3), 1, ml.tensor {1, 3, 3}, ml.tensor {5.0, 6, 8}, "amax")',
     gives = [[
{5., 1., 8.}
Tensor (3,) float32]],
     sample = { 'randn(3, 4), 1, tensor({1, 3, 1}), randn(3, 4), "prod"',
                'randn(3, 4), 1, tensor({1, 3, 1}), randn(3, 4), "prod", false',
                'randn(3, 4), 1, tensor({1, 3, 1}), randn(3, 4), "mean"',
                'randn(3, 4), 2, tensor({1, 3, 1}), randn(3, 3), "mean", false',
                'randn(3, 4), 2, tensor({1, 3, 1}), randn(3, 3), "amax"',
                'randn(3, 4), 1, tensor({1, 1}), randn(2, 4), "amin", false' },
     torch = "torch.index_reduce(*args[:5], include_self=(args + [True])[5])" }

op { "take(Tensor x, Positions index) -> Tensor",
     kind = "composite", dtypes = "any",
     doc = "Elements of `x`, counted in row-major order, at the given indices.",
     args = { index = "the indices, from 1; negative count from the end" },
     shapes = "x (*), index (k) -> (k)",
     errors = "an index out of range",
     example = "ml.take(ml.tensor {{1, 2}, {3, 4}}, ml.tensor {4, 1})",
     gives = [[
{4, 1}
Tensor (2,) int64]],
     sample = { "randn(3, 4), tensor({{1, 12}, {5, 5}})", "randn(3, 4), tensor({-1, 2})" } }

op { "take_along_dim(Tensor x, Positions indices, Dim? dim=nil) -> Tensor",
     kind = "composite", dtypes = "any",
     doc = [[Gathers elements along a dimension, as `gather`, but the other dimensions broadcast:
`x:take_along_dim(x:argsort(d), d)` is sorted.]],
     args = { indices = "the indices, from 1", dim = "the dimension; flattened `x` unless given" },
     shapes = "x (*, n, *), indices (*, k, *) -> (*, k, *)",
     example = "x = ml.tensor {{3, 1, 2}}; x:take_along_dim(x:argsort(2), 2)",
     gives = [[
{{1, 2, 3}}
Tensor (1, 3) int64]],
     sample = { "randn(3, 4), tensor({{1, 3}, {2, 2}, {4, 1}}), 2", "randn(3, 4), tensor({{2, 1, 1, 3}}), 1",
                "randn(3, 4), tensor({12, 1, 7})", "randn(1, 4), tensor({{1}, {2}, {4}}), -1" } }

op { "put(Tensor x, Positions index, Tensor source, bool accumulate=false) -> Tensor",
     kind = "composite", inplace = true, dtypes = "all",
     doc = "Copy of `x` with the elements of `source` at the given indices, counted in row-major order.",
     args = { index = "the indices, from 1",
              source = "the elements, as many as indices",
              accumulate = "whether they are added to what is there" },
     shapes = "x (*), index (k), source (k) -> (*)",
     errors = "an index out of range",
     example = "ml.put(ml.zeros(2, 2), ml.tensor {4, 1}, ml.tensor {5.0, 6})",
     gives = [[
{{6., 0.},
 {0., 5.}}
Tensor (2, 2) float32]],
     sample = { "randn(3, 4), tensor({1, 12, 5}), randn(3)", "randn(3, 4), tensor({{1, 5}, {5, 5}}), randn(2, 2), true" } }

op { [[embedding(Tensor weight, Positions index, int padding_idx=0,
                 bool scale_grad_by_freq=false, bool sparse=false) -> Tensor]],
     vmap = "embedding", kind = "structured", dtypes = "all",
     grad = { weight = "formulas::embedding_grad(rows_taker, g, index, sizes_of(weight), padding_idx, scale_grad_by_freq, sparse)" },
     doc = [[Embedding: the rows of `weight` at the given indices. With `sparse` the gradient of a leaf
`weight` is `SparseRows`, the rows that were used, for `optim.SGD`, `optim.Adagrad` and
`optim.SparseAdam`.]],
     args = { weight = "a row for each index",
              index = "the indices, from 1",
              padding_idx = "the row that gets no gradient; 0 is none",
              scale_grad_by_freq = "whether the gradient of each row is divided by how often its index comes",
              sparse = "whether the gradient holds only the rows that were used" },
     shapes = "weight (rows, features), index (*) -> (*, features)",
     errors = "an index out of range",
     example = "ml.embedding(ml.tensor {{1, 2}, {3, 4}}, ml.tensor {2, 1, 2})",
     gives = [[
{{3, 4},
 {1, 2},
 {3, 4}}
Tensor (3, 2) int64]],
     sample = { "randn(4, 3), tensor({{1, 4}, {2, 2}})" },
     torch = "F.embedding(args[1], args[0])" }

op { "embedding_grad_weight(Tensor grad, Positions index, int rows, int padding_idx=0) -> Tensor",
     vmap = "embedding_grad_weight", kind = "structured", dtypes = "all", internal = true,
     grad = { grad = "embedding_grad_weight_grad_grad(g, index, padding_idx)" },
     doc = [[The gradient of `embedding`: the rows of `grad` added up at their indices, in order.]],
     sample = { "randn(2, 2, 3), tensor({{1, 4}, {2, 2}}), 4" },
     torch = "torch.zeros(args[2], args[0].shape[-1], dtype=args[0].dtype).index_add(0, args[1].flatten(), args[0].flatten(0, -2))" }

op { "bincount(Positions x, Tensor? weights=nil, int minlength=0) -> Tensor",
     kind = "composite",
     doc = "Number of times that each index comes, or the sum of its weights.",
     args = { x = "a vector of indices, from 1",
              weights = "a number for each index, which is added instead of 1",
              minlength = "the least length of the result; inside `vmap` its length" },
     shapes = "x (n), weights (n) -> (max(max(x), minlength))",
     example = "ml.bincount(ml.tensor {1, 3, 3})",
     gives = [[
{1, 0, 2}
Tensor (3,) int64]],
     sample = { "tensor({1, 3, 3})" } }
