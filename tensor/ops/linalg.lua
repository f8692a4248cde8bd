-- tensor/ops/linalg.lua: products of matrices and vectors.

op { "mm(Tensor a, Tensor b) -> Tensor",
     vmap = "mm", linear = true, kind = "structured", autocast = "lower_precision", dtypes = "real + complex",
     grad = { a = "mm(g, adjoint(b))", b = "mm(adjoint(a), g)" },
     doc = "Matrix product of two matrices, without broadcasting; see `matmul`.",
     args = { a = "the left factor", b = "the right factor" },
     shapes = "a (n, k), b (k, m) -> (n, m)",
     formula = "y_ij = sum_l a_il * b_lj",
     errors = "inner sizes that differ",
     source = "BLAS: gemm",
     example = "ml.mm(ml.tensor {{1, 2}, {3, 4}}, ml.tensor {{5}, {6}})",
     gives = [[
{{17},
 {39}}
Tensor (2, 1) int64]],
     sample = { "randn(3, 4), randn(4, 2)", "randn(5, 3):t(), randn(5, 4)" } }

op { "bmm(Tensor a, Tensor b) -> Tensor",
     vmap = "mm", linear = true, kind = "structured", autocast = "lower_precision", dtypes = "real + complex",
     grad = { a = "bmm(g, adjoint(b))", b = "bmm(adjoint(a), g)" },
     doc = "Batched matrix product: one for each pair of matrices, without broadcasting.",
     args = { a = "the left factors", b = "the right factors" },
     shapes = "a (b, n, k), b (b, k, m) -> (b, n, m)",
     formula = "y_tij = sum_l a_til * b_tlj",
     example = "ml.bmm(ml.ones(2, 1, 3), ml.ones(2, 3, 1))",
     gives = [[
{{{3.}},

 {{3.}}}
Tensor (2, 1, 1) float32]],
     sample = { "randn(2, 3, 4), randn(2, 4, 2)" } }

op { "addmm(Tensor input, Tensor a, Tensor b, Scalar beta=1, Scalar alpha=1) -> Tensor",
     inplace = true, vmap = "addmm", kind = "structured", autocast = "lower_precision", dtypes = "real + complex",
     grad = { input = "mul(g, beta)", a = "mul(mm(g, adjoint(b)), alpha)",
              b = "mul(mm(adjoint(a), g), alpha)" },
     doc = [[Matrix product added to a matrix. With `beta` 0 the elements of `input` are not read, so
NaN in it does not spread.]],
     args = { input = "what is added; it broadcasts to the product",
              a = "the left factor",
              b = "the right factor",
              beta = "the factor of `input`",
              alpha = "the factor of the product" },
     shapes = "input (n, m), a (n, k), b (k, m) -> (n, m)",
     formula = "y = beta * input + alpha * a b",
     example = "ml.addmm(ml.ones(1, 1), ml.tensor {{1.0, 2}}, ml.tensor {{3.0}, {4}})",
     gives = [[
{{12.}}
Tensor (1, 1) float32]],
     sample = { "randn(3, 2), randn(3, 4), randn(4, 2)", "randn(2), randn(3, 4), randn(4, 2)" } }

op { "baddbmm(Tensor input, Tensor a, Tensor b, Scalar beta=1, Scalar alpha=1) -> Tensor",
     inplace = true, vmap = "baddbmm", kind = "structured", autocast = "lower_precision", dtypes = "real + complex",
     grad = { input = "mul(g, beta)", a = "mul(bmm(g, adjoint(b)), alpha)",
              b = "mul(bmm(adjoint(a), g), alpha)" },
     doc = [[Batched matrix product added to a batch of matrices. With `beta` 0 the elements of `input`
are not read.]],
     args = { input = "what is added; it broadcasts to the products",
              a = "the left factors",
              b = "the right factors",
              beta = "the factor of `input`",
              alpha = "the factor of the products" },
     shapes = "input (b, n, m), a (b, n, k), b (b, k, m) -> (b, n, m)",
     formula = "y = beta * input + alpha * a b",
     example = "ml.baddbmm(ml.ones(1, 1, 1), ml.ones(2, 1, 3), ml.ones(2, 3, 1))",
     gives = [[
{{{4.}},

 {{4.}}}
Tensor (2, 1, 1) float32]],
     sample = { "randn(2, 3, 2), randn(2, 3, 4), randn(2, 4, 2)" } }

op { "mv(Tensor a, Tensor x) -> Tensor",
     vmap = "mv", linear = true, kind = "structured", autocast = { device = "lower_precision" }, dtypes = "real + complex",
     grad = { a = "outer(g, conjugate(x))", x = "mv(adjoint(a), g)" },
     doc = "Product of a matrix and a vector.",
     args = { a = "the matrix", x = "the vector" },
     shapes = "a (n, k), x (k) -> (n)",
     formula = "y_i = sum_j a_ij * x_j",
     source = "BLAS: gemv",
     example = "ml.mv(ml.tensor {{1, 2}, {3, 4}}, ml.tensor {1, 1})",
     gives = [[
{3, 7}
Tensor (2,) int64]],
     sample = { "randn(3, 4), randn(4)" } }

op { "dot(Tensor a, Tensor b) -> Tensor",
     vmap = "dot", linear = true, kind = "structured", autocast = { device = "promote" }, dtypes = "real + complex",
     grad = { a = "mul(g, conjugate(b))", b = "mul(g, conjugate(a))" },
     doc = "Dot product of two vectors of one size. Complex elements are not conjugated; see `vdot`.",
     args = { a = "a vector", b = "a vector" },
     shapes = "a (n), b (n) -> ()",
     formula = "y = sum_i a_i * b_i",
     example = "ml.dot(ml.tensor {1, 2, 3}, ml.tensor {4, 5, 6})", gives = "32  Tensor () int64",
     sample = { "randn(5), randn(5)" } }

op { "outer(Tensor a, Tensor b) -> Tensor",
     vmap = "outer", linear = true, kind = "structured", alias = { "ger" }, dtypes = "all", mixed = true,
     grad = { a = "mv(g, conjugate(to(b, options_of_(g).dtype)))",
              b = "mv(transpose(g, 0, 1), conjugate(to(a, options_of_(g).dtype)))" },
     doc = "Outer product of two vectors, in the dtype that both promote to.",
     args = { a = "a vector", b = "a vector" },
     shapes = "a (n), b (m) -> (n, m)",
     formula = "y_ij = a_i * b_j",
     example = "ml.outer(ml.tensor {1, 2}, ml.tensor {3, 4, 5})",
     gives = [[
{{ 3,  4,  5},
 { 6,  8, 10}}
Tensor (2, 3) int64]],
     sample = { "randn(3), randn(4)", "randn(3), tensor({1, 2})", "tensor({true, false}), tensor({true, true})" } }

op { "linear(Tensor x, Tensor weight, Tensor? bias=nil) -> Tensor",
     vmap = "linear", linear = true, kind = "structured", autocast = "lower_precision", dtypes = "real + complex",
     grad = { x = "matmul(g, conjugate(weight))", weight = "linear_grad_weight(g, x)", bias = "g" },
     torch = "F.linear(*args)",
     doc = "Affine map of the vectors along the last dimension.",
     args = { x = "the inputs",
              weight = "the matrix, a row for each output",
              bias = "a number for each output" },
     shapes = "x (*, in), weight (out, in), bias (out) -> (*, out)",
     formula = "y = x weight^T + bias",
     example = "ml.linear(ml.tensor {{1.0, 2}}, ml.tensor {{3.0, 4}, {5, 6}}, ml.tensor {0.5, 0.5})",
     gives = [[
{{11.5000, 17.5000}}
Tensor (1, 2) float32]],
     sample = { "randn(3, 4), randn(2, 4), randn(2)", "randn(2, 3, 4), randn(5, 4)" } }

op { "matmul(Tensor a, Tensor b) -> Tensor",
     out = true, kind = "composite", alias = { "linalg.matmul" }, autocast = "lower_precision", dtypes = "real + complex",
     doc = [[Matrix product by the number of dimensions: of two vectors their dot product; of a matrix
and a vector, or a vector and a matrix, a vector; of two matrices a matrix; of more dimensions the
leading ones are batches and broadcast.]],
     args = { a = "the left factor", b = "the right factor" },
     shapes = "a (*, n, k), b (*, k, m) -> (*, n, m)",
     formula = "y_ij = sum_l a_il * b_lj",
     errors = "inner sizes that differ",
     example = "ml.matmul(ml.tensor {{1, 2}, {3, 4}}, ml.tensor {5, 6})",
     gives = [[
{17, 39}
Tensor (2,) int64]],
     sample = { "randn(3, 4), randn(4, 2)", "randn(4), randn(4)", "randn(3, 4), randn(4)",
                "randn(4), randn(4, 2)", "randn(2, 3, 4), randn(4, 2)",
                "randn(2, 1, 3, 4), randn(2, 4, 2)", "randn(2, 3, 4), randn(4)",
                "randn(4), randn(2, 4, 3)" } }

op { "addmv(Tensor input, Tensor mat, Tensor vec, Scalar beta=1, Scalar alpha=1) -> Tensor",
     inplace = true, out = true, kind = "composite", autocast = { device = "lower_precision" }, dtypes = "real + complex",
     torch = "torch.addmv(args[0], args[1], args[2], **dict(zip(('beta', 'alpha'), args[3:])))",
     doc = [[Product of a matrix and a vector added to a vector. With `beta` 0 the elements of `input`
are not read.]],
     args = { input = "what is added; it broadcasts to the product",
              mat = "the matrix",
              vec = "the vector",
              beta = "the factor of `input`",
              alpha = "the factor of the product" },
     shapes = "input (n), mat (n, k), vec (k) -> (n)",
     formula = "y = beta * input + alpha * mat vec",
     example = "ml.addmv(ml.ones(2), ml.tensor {{1.0, 2}, {3, 4}}, ml.tensor {1.0, 1})",
     gives = [[
{4., 8.}
Tensor (2,) float32]],
     sample = { "randn(3), randn(3, 4), randn(4)", "randn(3), randn(3, 4), randn(4), 0.5, 2" } }

op { "addr(Tensor input, Tensor vec1, Tensor vec2, Scalar beta=1, Scalar alpha=1) -> Tensor",
     inplace = true, out = true, kind = "composite", autocast = { device = "lower_precision" }, dtypes = "real + complex",
     torch = "torch.addr(args[0], args[1], args[2], **dict(zip(('beta', 'alpha'), args[3:])))",
     doc = "Outer product added to a matrix. With `beta` 0 the elements of `input` are not read.",
     args = { input = "what is added; it broadcasts to the product",
              vec1 = "the column vector",
              vec2 = "the row vector",
              beta = "the factor of `input`",
              alpha = "the factor of the product" },
     shapes = "input (n, m), vec1 (n), vec2 (m) -> (n, m)",
     formula = "y = beta * input + alpha * vec1 vec2^T",
     example = "ml.addr(ml.ones(2, 2), ml.tensor {1.0, 2}, ml.tensor {3.0, 4})",
     gives = [[
{{4., 5.},
 {7., 9.}}
Tensor (2, 2) float32]],
     sample = { "randn(3, 4), randn(3), randn(4)", "randn(3, 4), randn(3), randn(4), 0.5, -2",
                "randn(4), randn(3), randn(4), 0" } }

op { "addbmm(Tensor input, Tensor batch1, Tensor batch2, Scalar beta=1, Scalar alpha=1) -> Tensor",
     inplace = true, out = true, kind = "composite", autocast = "lower_precision", dtypes = "real + complex",
     torch = "torch.addbmm(args[0], args[1], args[2], **dict(zip(('beta', 'alpha'), args[3:])))",
     doc = "Sum of a batch of matrix products added to a matrix.",
     args = { input = "what is added; it broadcasts to the product",
              batch1 = "the left factors",
              batch2 = "the right factors",
              beta = "the factor of `input`",
              alpha = "the factor of the sum" },
     shapes = "input (n, m), batch1 (b, n, k), batch2 (b, k, m) -> (n, m)",
     formula = "y = beta * input + alpha * sum_t batch1_t batch2_t",
     example = "ml.addbmm(ml.zeros(1, 1), ml.ones(2, 1, 3), ml.ones(2, 3, 1))",
     gives = [[
{{6.}}
Tensor (1, 1) float32]],
     sample = { "randn(3, 2), randn(5, 3, 4), randn(5, 4, 2)",
                "randn(2), randn(5, 3, 4), randn(5, 4, 2), 0.5, 2" } }

op { "vdot(Tensor x, Tensor other) -> Tensor",
     out = true, kind = "composite", autocast = { device = "promote" }, dtypes = "real + complex",
     doc = "Dot product of two vectors, of which the first is conjugated.",
     args = { x = "a vector, conjugated where it is complex", other = "a vector" },
     shapes = "x (n), other (n) -> ()",
     formula = "y = sum_i conj(x_i) * other_i",
     example = "ml.vdot(ml.tensor {1, 2, 3}, ml.tensor {4, 5, 6})", gives = "32  Tensor () int64",
     sample = { "randn(5), randn(5)", "view_as_complex(randn(4, 2)), view_as_complex(randn(4, 2))" } }

op { "linalg_vecdot(Tensor x, Tensor y, Dim dim=-1) -> Tensor",
     module = "linalg", out = true, kind = "composite", autocast = "lower_precision", dtypes = "real + complex",
     torch = "torch.linalg.vecdot(args[0], args[1], dim=(list(args) + [-1])[2])",
     doc = "Dot products of the vectors along a dimension, those of `x` conjugated. The tensors broadcast.",
     args = { x = "vectors, conjugated where they are complex", y = "vectors" },
     shapes = "x (*, n), y (*, n) -> (*)",
     formula = "result = sum_i conj(x_i) * y_i",
     example = "ml.linalg.vecdot(ml.tensor {{1.0, 2}, {3, 4}}, ml.tensor {1.0, 1})",
     gives = [[
{3., 7.}
Tensor (2,) float32]],
     sample = { "randn(3, 4), randn(3, 4)", "randn(3, 4), randn(4)", "randn(3, 4), randn(3, 4), 1",
                "view_as_complex(randn(3, 4, 2)), view_as_complex(randn(3, 4, 2))" } }

op { "inner(Tensor x, Tensor other) -> Tensor",
     out = true, kind = "composite", dtypes = "real + complex",
     doc = [[Inner products of the vectors along the last dimensions of two tensors, each with each.
With a 0-d tensor, the product with it.]],
     args = { other = "the second tensor, with a last dimension of the same size" },
     shapes = "x (n, k), other (m, k) -> (n, m)",
     formula = "y_ij = sum_l x_il * other_jl",
     example = "ml.inner(ml.tensor {1, 2, 3}, ml.tensor {4, 5, 6})", gives = "32  Tensor () int64",
     sample = { "randn(4), randn(4)", "randn(2, 3, 4), randn(5, 4)", "randn(3, 4), randn(3, 1)[1][1]" } }

op { "tensordot(Tensor a, Tensor b, int dims=2) -> Tensor",
     out = true, forms = "tensordot_pair", kind = "composite", autocast = { device = "promote" }, dtypes = "real + complex",
     doc = [[Tensor contraction: the sums of products over the last `dims` dimensions of `a` and the
first of `b`. With two lists, `tensordot(a, b, dims_a, dims_b)` or `tensordot(a, b, {dims_a, dims_b})`,
over those dimensions, in pairs.]],
     args = { a = "the left factor",
              b = "the right factor",
              dims = "over how many dimensions the sums are, or which ones" },
     shapes = "a (n, k), b (k, m) -> (n, m)",
     formula = "y_ij = sum_l a_il * b_lj",
     example = "ml.tensordot(ml.ones(2, 3, 4), ml.ones(3, 4, 5)).shape", gives = "(2, 5)",
     sample = { "randn(2, 3, 4), randn(3, 4, 5)", "randn(2, 3), randn(3, 4), 1", "randn(2), randn(3), 0" } }

op { "tensordot_dims(Tensor a, Tensor b, int[*] dims_a, int[*] dims_b) -> Tensor",
     overload_of = "tensordot", kind = "composite", autocast = { device = "promote" }, dtypes = "real + complex",
     doc = [[Tensor contraction over named dimensions, in pairs; the other dimensions of `a` come first,
then those of `b`.]],
     args = { a = "the left factor",
              b = "the right factor",
              dims_a = "the dimensions of `a`",
              dims_b = "the dimensions of `b`" },
     shapes = "a (k, n), b (m, k) -> (n, m)",
     example = "ml.tensordot(ml.ones(2, 3, 4), ml.ones(4, 5, 2), {3, 1}, {1, 3}).shape", gives = "(3, 5)",
     torch = "torch.tensordot(args[0], args[1], ([d - 1 if d > 0 else d for d in args[2]], [d - 1 if d > 0 else d for d in args[3]]))",
     sample = { "randn(2, 3, 4), randn(4, 5, 2), {3, 1}, {1, 3}", "randn(2, 3), randn(2, 4), {-2}, {1}" } }

op { "kron(Tensor x, Tensor other) -> Tensor",
     out = true, kind = "composite", dtypes = "all",
     doc = [[Kronecker product: a block matrix of the multiples of `other` by the elements of `x`.
Missing leading dimensions count as 1.]],
     args = { other = "the second factor" },
     shapes = "x (n, m), other (k, l) -> (n * k, m * l)",
     example = "ml.kron(ml.tensor {1, 10}, ml.tensor {1, 2, 3})",
     gives = [[
{ 1,  2,  3, 10, 20, 30}
Tensor (6,) int64]],
     sample = { "randn(2, 3), randn(3, 2)", "randn(3), randn(2, 2)", "randn(2, 1, 3), randn(2, 2)" } }

op { "cross(Tensor x, Tensor other, Dim? dim=nil) -> Tensor",
     out = true, kind = "composite", autocast = { device = "promote" }, dtypes = "real + complex",
     doc = "Cross product of vectors of size 3. The tensors broadcast.",
     args = { other = "the second factors",
              dim = "the dimension of the vectors; the first one of size 3 unless given" },
     shapes = "x (*, 3), other (*, 3) -> (*, 3)",
     formula = "y = (x_2 * o_3 - x_3 * o_2, x_3 * o_1 - x_1 * o_3, x_1 * o_2 - x_2 * o_1)",
     errors = "no dimension of size 3",
     example = "ml.cross(ml.tensor {1, 0, 0}, ml.tensor {0, 1, 0})",
     gives = [[
{0, 0, 1}
Tensor (3,) int64]],
     sample = { "randn(4, 3), randn(4, 3)", "randn(3, 3), randn(3, 3), 2", "randn(3), randn(3)" } }

op { "linalg_cross(Tensor x, Tensor other, Dim dim=-1) -> Tensor",
     module = "linalg", vmap = "all", kind = "structured", dtypes = "real + complex",
     grad = { x = "linalg_cross(conjugate(other), g, dim)", other = "linalg_cross(g, conjugate(x), dim)" },
     torch = "torch.linalg.cross(args[0], args[1], dim=(list(args) + [-1])[2])",
     doc = "Cross product of vectors of size 3 along a dimension, by default the last. The tensors broadcast.",
     args = { other = "the second factors" },
     shapes = "x (*, 3), other (*, 3) -> (*, 3)",
     formula = "y = (x_2 * o_3 - x_3 * o_2, x_3 * o_1 - x_1 * o_3, x_1 * o_2 - x_2 * o_1)",
     example = "ml.linalg.cross(ml.tensor {1, 0, 0}, ml.tensor {0, 1, 0})",
     gives = [[
{0, 0, 1}
Tensor (3,) int64]],
     sample = { "randn(4, 3), randn(4, 3)", "randn(3, 2), randn(3, 1), 1" } }

op { "trace(Tensor x) -> Tensor",
     kind = "composite", autocast = { host = "float32" }, dtypes = "all",
     doc = "Trace of a matrix: the sum of its diagonal.",
     args = { x = "a matrix" },
     shapes = "x (n, m) -> ()",
     formula = "y = sum_i x_ii",
     example = "ml.trace(ml.tensor {{1, 2}, {3, 4}})", gives = "5  Tensor () int64",
     sample = { "randn(3, 3)", "randn(2, 4)" } }

op { "linalg_diagonal(Tensor A, int offset=0, Dim dim1=-2, Dim dim2=-1) -> Tensor",
     module = "linalg", kind = "composite", dtypes = "all",
     torch = "torch.linalg.diagonal(args[0], **dict(zip(('offset', 'dim1', 'dim2'), args[1:])))",
     doc = "Diagonals of a batch of matrices, as the last dimension: a view.",
     args = { A = "the matrices",
              offset = "the number of the diagonal: 0 is the main one, 1 the next above it, -1 the next below",
              dim1 = "the dimension of the rows",
              dim2 = "the dimension of the columns" },
     shapes = "A (*, n, m) -> (*, k)",
     example = "ml.linalg.diagonal(ml.tensor {{1, 2}, {3, 4}})",
     gives = [[
{1, 4}
Tensor (2,) int64]],
     sample = { "randn(2, 3, 4)", "randn(2, 3, 4), 1", "randn(2, 3, 4), 0, 1, 2" } }

op { "matrix_power(Tensor A, int n) -> Tensor",
     out = true, alias = { "linalg.matrix_power" }, kind = "composite", dtypes = "real + complex",
     doc = [[Power of each square matrix of a batch, by repeated squaring; a negative one is that of the
inverse.]],
     args = { A = "the matrices", n = "the exponent" },
     shapes = "A (*, m, m) -> (*, m, m)",
     formula = "y = A^n",
     example = "ml.matrix_power(ml.tensor {{1, 1}, {0, 1}}, 5)",
     gives = [[
{{1, 5},
 {0, 1}}
Tensor (2, 2) int64]],
     sample = { "randn(3, 3), 3", "randn(2, 3, 3), 0", "randn(3, 3), 1" } }

op { "chain_matmul(Tensor[] matrices) -> Tensor",
     out = true, alias = { "linalg.multi_dot" }, kind = "composite", autocast = { device = "lower_precision" }, dtypes = "real + complex",
     torch = "torch.linalg.multi_dot(*args)",
     doc = [[Product of two or more matrices in the order of fewest multiplications, found by dynamic
programming.]],
     args = { matrices = "the factors in order; the first and the last may be vectors" },
     shapes = "matrices (n_i, n_(i + 1)) -> (n_1, n_last)",
     source = 'Cormen et al., "Introduction to Algorithms"',
     example = "ml.chain_matmul({ml.ones(2, 3), ml.ones(3, 4), ml.ones(4, 1)})",
     gives = [[
{{12.},
 {12.}}
Tensor (2, 1) float32]],
     sample = { "{ randn(2, 10), randn(10, 3), randn(3, 5), randn(5, 4) }", "{ randn(3), randn(3, 4), randn(4) }",
                "{ randn(2, 3), randn(3, 2) }" } }

op { "einsum(string equation, Tensor[] operands) -> Tensor",
     out = true, forms = "einsum_lists", kind = "composite", autocast = { device = "lower_precision" }, dtypes = "real + complex",
     torch = "torch.einsum(args[0], *args[1])",
     doc = [[Sum of products by the Einstein convention: each letter names a dimension, and letters that
the result does not have are summed over: "ij,jk->ik" is the matrix product. Without "->" the result has
the letters that occur once, in alphabetical order. A letter twice in one operand takes its diagonal;
"..." stands for further dimensions, which broadcast. More than two operands are multiplied in pairs,
the cheapest first. Instead of an equation each operand may be followed by a list of labels, integers
from 1 to 52 or "...", and a last list names those of the result: `einsum(a, {1, 2}, b, {2, 3}, {1,
3})`.]],
     args = { equation = "the letters of the operands and of the result", operands = "the tensors" },
     shapes = "operands (...) -> (dimensions of the result's letters)",
     errors = "a letter that has several sizes",
     example = 'ml.einsum("ij,j->i", {ml.tensor {{1, 2}, {3, 4}}, ml.tensor {1, 1}})',
     gives = [[
{3, 7}
Tensor (2,) int64]],
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
     doc = [[Distances of each row of `x1` and each row of `x2`: the `p`-norms of their differences.
Leading dimensions broadcast.]],
     args = { x1 = "vectors as rows",
              x2 = "vectors as rows",
              p = "the order of the norm, which may be 0 or infinite",
              compute_mode = 'whether Euclidean distances come from a matrix product, which is faster and loses digits of small ones: "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist", or by default where there are more than 25 rows' },
     shapes = "x1 (*, n, d), x2 (*, m, d) -> (*, n, m)",
     formula = "y_ij = (sum_k abs(x1_ik - x2_jk)^p)^(1 / p)",
     example = "ml.cdist(ml.tensor {{0.0, 0}}, ml.tensor {{3.0, 4}, {0, 1}})",
     gives = [[
{{5., 1.}}
Tensor (1, 2) float32]],
     sample = { "randn(3, 4), randn(5, 4)", "randn(2, 3, 2), randn(2, 4, 2), 1", "randn(3, 4), randn(2, 5, 4), 3",
                "randn(3, 4), randn(2, 4), math.huge", "randn(3, 4), randn(2, 4), 0",
                'randn(30, 2), randn(4, 2), 2, "use_mm_for_euclid_dist"' } }
