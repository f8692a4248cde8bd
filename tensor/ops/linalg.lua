-- tensor/ops/linalg.lua: products of matrices and vectors.

op { "mm(Tensor a, Tensor b) -> Tensor",
     vmap = "mm", linear = true, kind = "structured", autocast = "lower_precision", dtypes = "real + complex",
     grad = { a = "mm(g, adjoint(b))", b = "mm(adjoint(a), g)" },
     doc = [[The matrix product of `a` (n, k) and `b` (k, m): (n, m). No broadcasting; see `matmul`.]],
     sample = { "randn(3, 4), randn(4, 2)", "randn(5, 3):t(), randn(5, 4)" } }

op { "bmm(Tensor a, Tensor b) -> Tensor",
     vmap = "mm", linear = true, kind = "structured", autocast = "lower_precision", dtypes = "real + complex",
     grad = { a = "bmm(g, adjoint(b))", b = "bmm(adjoint(a), g)" },
     doc = [[One matrix product per batch entry: (b, n, k) times (b, k, m) gives (b, n, m).]],
     sample = { "randn(2, 3, 4), randn(2, 4, 2)" } }

op { "addmm(Tensor input, Tensor a, Tensor b, Scalar beta=1, Scalar alpha=1) -> Tensor",
     inplace = true, vmap = "addmm", kind = "structured", autocast = "lower_precision", dtypes = "real + complex",
     grad = { input = "mul(g, beta)", a = "mul(mm(g, adjoint(b)), alpha)",
              b = "mul(mm(adjoint(a), g), alpha)" },
     doc = [[`beta * input + alpha * a b` for `a` (n, k), `b` (k, m) and an `input` that broadcasts to
(n, m). With `beta` 0 the contents of `input` are not read, so NaN in it does not spread.]],
     sample = { "randn(3, 2), randn(3, 4), randn(4, 2)", "randn(2), randn(3, 4), randn(4, 2)" } }

op { "baddbmm(Tensor input, Tensor a, Tensor b, Scalar beta=1, Scalar alpha=1) -> Tensor",
     inplace = true, vmap = "baddbmm", kind = "structured", autocast = "lower_precision", dtypes = "real + complex",
     grad = { input = "mul(g, beta)", a = "mul(bmm(g, adjoint(b)), alpha)",
              b = "mul(bmm(adjoint(a), g), alpha)" },
     doc = [[`beta * input + alpha * a b` per batch entry, for `a` (b, n, k), `b` (b, k, m) and an
`input` that broadcasts to (b, n, m).]],
     sample = { "randn(2, 3, 2), randn(2, 3, 4), randn(2, 4, 2)" } }

op { "mv(Tensor a, Tensor x) -> Tensor",
     vmap = "mv", linear = true, kind = "structured", autocast = { device = "lower_precision" }, dtypes = "real + complex",
     grad = { a = "outer(g, conjugate(x))", x = "mv(adjoint(a), g)" },
     doc = [[The product of a matrix (n, k) and a vector (k): (n).]],
     sample = { "randn(3, 4), randn(4)" } }

op { "dot(Tensor a, Tensor b) -> Tensor",
     vmap = "dot", linear = true, kind = "structured", autocast = { device = "promote" }, dtypes = "real + complex",
     grad = { a = "mul(g, conjugate(b))", b = "mul(g, conjugate(a))" },
     doc = [[The sum of the products of two vectors of one size; 0-d. Complex values are not conjugated.]],
     sample = { "randn(5), randn(5)" } }

op { "outer(Tensor a, Tensor b) -> Tensor",
     vmap = "outer", linear = true, kind = "structured", alias = { "ger" }, dtypes = "all", mixed = true,
     grad = { a = "mv(g, conjugate(to(b, options_of_(g).dtype)))",
              b = "mv(transpose(g, 0, 1), conjugate(to(a, options_of_(g).dtype)))" },
     doc = [[All products of the elements of two vectors (n) and (m), in the dtype that both promote to:
(n, m).]],
     sample = { "randn(3), randn(4)", "randn(3), tensor({1, 2})", "tensor({true, false}), tensor({true, true})" } }

op { "linear(Tensor x, Tensor weight, Tensor? bias=nil) -> Tensor",
     vmap = "linear", linear = true, kind = "structured", autocast = "lower_precision", dtypes = "real + complex",
     grad = { x = "matmul(g, conjugate(weight))", weight = "linear_grad_weight(g, x)", bias = "g" },
     torch = "F.linear(*args)",
     doc = [[`x` times the transposed `weight`, plus `bias`: `x` (..., in), `weight` (out, in), `bias`
(out) give (..., out).]],
     sample = { "randn(3, 4), randn(2, 4), randn(2)", "randn(2, 3, 4), randn(5, 4)" } }

op { "matmul(Tensor a, Tensor b) -> Tensor",
     out = true, kind = "composite", alias = { "linalg.matmul" }, autocast = "lower_precision", dtypes = "real + complex",
     doc = [[The product by rank: two vectors give their dot product (0-d); a matrix and a vector, or the
other way round, a vector; two matrices a matrix; with more dimensions the leading ones are a batch
and broadcast: (j, 1, n, k) times (b, k, m) gives (j, b, n, m).]],
     sample = { "randn(3, 4), randn(4, 2)", "randn(4), randn(4)", "randn(3, 4), randn(4)",
                "randn(4), randn(4, 2)", "randn(2, 3, 4), randn(4, 2)",
                "randn(2, 1, 3, 4), randn(2, 4, 2)", "randn(2, 3, 4), randn(4)",
                "randn(4), randn(2, 4, 3)" } }

op { "addmv(Tensor input, Tensor mat, Tensor vec, Scalar beta=1, Scalar alpha=1) -> Tensor",
     inplace = true, out = true, kind = "composite", autocast = { device = "lower_precision" }, dtypes = "real + complex",
     torch = "torch.addmv(args[0], args[1], args[2], **dict(zip(('beta', 'alpha'), args[3:])))",
     doc = [[`beta * input + alpha * mat vec` for `mat` (n, k), `vec` (k) and an `input` that broadcasts to
(n). With `beta` 0 the contents of `input` are not read.]],
     sample = { "randn(3), randn(3, 4), randn(4)", "randn(3), randn(3, 4), randn(4), 0.5, 2" } }

op { "addr(Tensor input, Tensor vec1, Tensor vec2, Scalar beta=1, Scalar alpha=1) -> Tensor",
     inplace = true, out = true, kind = "composite", autocast = { device = "lower_precision" }, dtypes = "real + complex",
     torch = "torch.addr(args[0], args[1], args[2], **dict(zip(('beta', 'alpha'), args[3:])))",
     doc = [[`beta * input + alpha * outer(vec1, vec2)` for vectors (n) and (m) and an `input` that
broadcasts to (n, m). With `beta` 0 the contents of `input` are not read.]],
     sample = { "randn(3, 4), randn(3), randn(4)", "randn(3, 4), randn(3), randn(4), 0.5, -2",
                "randn(4), randn(3), randn(4), 0" } }

op { "addbmm(Tensor input, Tensor batch1, Tensor batch2, Scalar beta=1, Scalar alpha=1) -> Tensor",
     inplace = true, out = true, kind = "composite", autocast = "lower_precision", dtypes = "real + complex",
     torch = "torch.addbmm(args[0], args[1], args[2], **dict(zip(('beta', 'alpha'), args[3:])))",
     doc = [[`beta * input` plus `alpha` times the sum over the batch of the products of `batch1` (b, n, k)
and `batch2` (b, k, m); `input` broadcasts to (n, m).]],
     sample = { "randn(3, 2), randn(5, 3, 4), randn(5, 4, 2)",
                "randn(2), randn(5, 3, 4), randn(5, 4, 2), 0.5, 2" } }

op { "vdot(Tensor x, Tensor other) -> Tensor",
     out = true, kind = "composite", autocast = { device = "promote" }, dtypes = "real + complex",
     doc = [[The dot product of two vectors of one size, of which the first is conjugated when complex.]],
     sample = { "randn(5), randn(5)", "view_as_complex(randn(4, 2)), view_as_complex(randn(4, 2))" } }

op { "linalg_vecdot(Tensor x, Tensor y, Dim dim=-1) -> Tensor",
     module = "linalg", out = true, kind = "composite", autocast = "lower_precision", dtypes = "real + complex",
     torch = "torch.linalg.vecdot(args[0], args[1], dim=(list(args) + [-1])[2])",
     doc = [[The dot products of the vectors along `dim` of two tensors that broadcast; those of `x` are
conjugated when complex.]],
     sample = { "randn(3, 4), randn(3, 4)", "randn(3, 4), randn(4)", "randn(3, 4), randn(3, 4), 1",
                "view_as_complex(randn(3, 4, 2)), view_as_complex(randn(3, 4, 2))" } }

op { "inner(Tensor x, Tensor other) -> Tensor",
     out = true, kind = "composite", dtypes = "real + complex",
     doc = [[The sums of products over the last dimensions: (..., k) and (*, k) give (..., *). With a 0-d
tensor, the product with that.]],
     sample = { "randn(4), randn(4)", "randn(2, 3, 4), randn(5, 4)", "randn(3, 4), randn(3, 1)[1][1]" } }

op { "tensordot(Tensor a, Tensor b, int dims=2) -> Tensor",
     out = true, forms = "tensordot_pair", kind = "composite", autocast = { device = "promote" }, dtypes = "real + complex",
     doc = [[The sums of products over the last `dims` dimensions of `a` and the first of `b`. With two
lists, `tensordot(a, b, dims_a, dims_b)` or `tensordot(a, b, {dims_a, dims_b})`, it sums over those
dimensions, in pairs.]],
     sample = { "randn(2, 3, 4), randn(3, 4, 5)", "randn(2, 3), randn(3, 4), 1", "randn(2), randn(3), 0" } }

op { "tensordot_dims(Tensor a, Tensor b, int[*] dims_a, int[*] dims_b) -> Tensor",
     overload_of = "tensordot", kind = "composite", autocast = { device = "promote" }, dtypes = "real + complex",
     doc = [[The sums of products over the dimensions `dims_a` of `a` and `dims_b` of `b`, in pairs; the
other dimensions of `a` come first, then those of `b`.]],
     torch = "torch.tensordot(args[0], args[1], ([d - 1 if d > 0 else d for d in args[2]], [d - 1 if d > 0 else d for d in args[3]]))",
     sample = { "randn(2, 3, 4), randn(4, 5, 2), {3, 1}, {1, 3}", "randn(2, 3), randn(2, 4), {-2}, {1}" } }

op { "kron(Tensor x, Tensor other) -> Tensor",
     out = true, kind = "composite", dtypes = "all",
     doc = [[The Kronecker product: each element of `x` times all of `other`, as blocks. Missing leading
dimensions count as 1.]],
     sample = { "randn(2, 3), randn(3, 2)", "randn(3), randn(2, 2)", "randn(2, 1, 3), randn(2, 2)" } }

op { "cross(Tensor x, Tensor other, Dim? dim=nil) -> Tensor",
     out = true, kind = "composite", autocast = { device = "promote" }, dtypes = "real + complex",
     doc = [[The cross product of the vectors of size 3 along `dim`, by default the first dimension of
size 3. The tensors broadcast.]],
     sample = { "randn(4, 3), randn(4, 3)", "randn(3, 3), randn(3, 3), 2", "randn(3), randn(3)" } }

op { "linalg_cross(Tensor x, Tensor other, Dim dim=-1) -> Tensor",
     module = "linalg", vmap = "all", kind = "structured", dtypes = "real + complex",
     grad = { x = "linalg_cross(conjugate(other), g, dim)", other = "linalg_cross(g, conjugate(x), dim)" },
     torch = "torch.linalg.cross(args[0], args[1], dim=(list(args) + [-1])[2])",
     doc = [[The cross product of the vectors of size 3 along `dim`. The tensors broadcast.]],
     sample = { "randn(4, 3), randn(4, 3)", "randn(3, 2), randn(3, 1), 1" } }

op { "trace(Tensor x) -> Tensor",
     kind = "composite", autocast = { host = "float32" }, dtypes = "all",
     doc = [[The sum of the diagonal of a matrix.]],
     sample = { "randn(3, 3)", "randn(2, 4)" } }

op { "linalg_diagonal(Tensor A, int offset=0, Dim dim1=-2, Dim dim2=-1) -> Tensor",
     module = "linalg", kind = "composite", dtypes = "all",
     torch = "torch.linalg.diagonal(args[0], **dict(zip(('offset', 'dim1', 'dim2'), args[1:])))",
     doc = [[The diagonals of the matrices in `dim1` and `dim2` as the last dimension: a view.]],
     sample = { "randn(2, 3, 4)", "randn(2, 3, 4), 1", "randn(2, 3, 4), 0, 1, 2" } }

op { "matrix_power(Tensor A, int n) -> Tensor",
     out = true, alias = { "linalg.matrix_power" }, kind = "composite", dtypes = "real + complex",
     doc = [[The `n`-th power of square matrices (..., m, m), by repeated squaring; a negative `n` takes
that of the inverse.]],
     sample = { "randn(3, 3), 3", "randn(2, 3, 3), 0", "randn(3, 3), 1" } }

op { "chain_matmul(Tensor[] matrices) -> Tensor",
     out = true, alias = { "linalg.multi_dot" }, kind = "composite", autocast = { device = "lower_precision" }, dtypes = "real + complex",
     torch = "torch.linalg.multi_dot(*args)",
     doc = [[The product of two or more matrices, in the order of fewest multiplications (by dynamic
programming). The first and the last may be vectors.]],
     sample = { "{ randn(2, 10), randn(10, 3), randn(3, 5), randn(5, 4) }", "{ randn(3), randn(3, 4), randn(4) }",
                "{ randn(2, 3), randn(3, 2) }" } }

op { "einsum(string equation, Tensor[] operands) -> Tensor",
     out = true, forms = "einsum_lists", kind = "composite", autocast = { device = "lower_precision" }, dtypes = "real + complex",
     torch = "torch.einsum(args[0], *args[1])",
     doc = [[Sums of products by Einstein's convention: each letter names a dimension, `"ij,jk->ik"` is the
matrix product. Letters that the result (after `->`) does not have are summed over; without `->` it has
those that occur once, in order of the alphabet. A letter twice in one operand takes its diagonal;
`...` stands for further dimensions, which broadcast. More than two operands are multiplied in pairs,
the cheapest pair first, each by one batched matrix product. Instead of an equation each operand may be
followed by a list of labels, integers from 1 to 52 or `"..."`, and a last list name those of the result:
`einsum(a, {1, 2}, b, {2, 3}, {1, 3})`.]],
     sample = { '"ij,jk->ik", { randn(2, 3), randn(3, 4) }', '"ii", { randn(3, 3) }', '"ii->i", { randn(3, 3) }',
                '"bij,bjk", { randn(2, 3, 4), randn(2, 4, 2) }', '"...ij,jk->...ki", { randn(2, 2, 3, 4), randn(4, 5) }',
                '"i,j,k->kij", { randn(2), randn(3), randn(4) }', '"ba", { randn(2, 3) }',
                '"ij,kj,kl,l->i", { randn(2, 3), randn(4, 3), randn(4, 5), randn(5) }',
                '"bnd,bmd->bnm", { randn(2, 3, 4), randn(2, 5, 4) }', '"iij,j->i", { randn(3, 3, 2), randn(2) }',
                '"...,...->...", { randn(2, 3), randn(1, 3) }', '"ij->", { randn(2, 3) }' } }

local cpu_only = "distances are made of differences there"

op { "native_cdist(Tensor x1, Tensor x2, float p) -> Tensor",
     vmap = "all", kind = "structured", dtypes = "floating", internal = true, cpu_only = cpu_only,
     grad = { x1 = "formulas::cdist_grad(g, x1, x2, y, p)",
              x2 = "formulas::cdist_grad(transpose(g, -2, -1), x2, x1, transpose(y, -2, -1), p)" },
     torch = "torch.cdist(*args, 'donot_use_mm_for_euclid_dist')",
     doc = [[The `p`-norm of the difference of each row of `x1` (..., n, d) and each of `x2` (..., m, d):
(..., n, m).]],
     sample = { "randn(3, 4), randn(5, 4), 2", "randn(2, 3, 2), randn(2, 4, 2), 1", "randn(3, 4), randn(70, 4), 3",
                "randn(3, 4), randn(2, 4), math.huge", "randn(3, 4), randn(20, 4), 0.5" } }

op { "cdist_grad_x1(Tensor grad, Tensor x1, Tensor x2, Tensor distance, float p) -> Tensor",
     vmap = "all", kind = "structured", dtypes = "floating", internal = true, cpu_only = cpu_only,
     torch = "torch.ops.aten._cdist_backward(*args[:3], args[4], args[3])",
     doc = [[The gradient of `native_cdist` with respect to `x1`, from its result and the gradient of that.]],
     sample = { "randn(3, 5), randn(3, 4), randn(5, 4), rand(3, 5), 2", "randn(3, 70), randn(3, 4), randn(70, 4), rand(3, 70) + 1, 3" } }

op { "native_pdist(Tensor x, float p) -> Tensor",
     vmap = "native_pdist", kind = "structured", dtypes = "floating", internal = true, cpu_only = cpu_only,
     grad = { x = "formulas::pdist_grad(g, x, y, p)" }, torch = "F.pdist(*args)",
     doc = [[The `p`-norms of the differences of each two rows of `x` (n, d), in the order of `pdist`.]],
     sample = { "randn(4, 3), 2", "randn(3, 2), 1", "randn(70, 4), 3.5", "randn(5, 4), math.huge" } }

op { "pdist_grad_x(Tensor grad, Tensor x, Tensor distance, float p) -> Tensor",
     vmap = "pdist_grad_x", kind = "structured", dtypes = "floating", internal = true, cpu_only = cpu_only,
     torch = "torch.ops.aten._pdist_backward(*args[:2], args[3], args[2])",
     doc = [[The gradient of `native_pdist` from its result and the gradient of that.]],
     sample = { "randn(6), randn(4, 3), rand(6), 2" } }

op { [[cdist(Tensor x1, Tensor x2, float p=2,
             string compute_mode="use_mm_for_euclid_dist_if_necessary") -> Tensor]],
     kind = "composite", autocast = "float32", dtypes = "floating",
     doc = [[The `p`-norm of the difference of each row of `x1` (..., n, d) and each of `x2` (..., m, d):
(..., n, m). Leading dimensions broadcast. `compute_mode` says whether Euclidean distances come from a
matrix product, which is faster and loses digits of small ones: `"use_mm_for_euclid_dist"`,
`"donot_use_mm_for_euclid_dist"`, or by default where there are more than 25 rows.]],
     sample = { "randn(3, 4), randn(5, 4)", "randn(2, 3, 2), randn(2, 4, 2), 1", "randn(3, 4), randn(2, 5, 4), 3",
                "randn(3, 4), randn(2, 4), math.huge", "randn(3, 4), randn(2, 4), 0",
                'randn(30, 2), randn(4, 2), 2, "use_mm_for_euclid_dist"' } }
