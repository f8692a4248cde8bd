-- tensor/ops/text/decomposition.lua: the help of the rows in tensor/ops/decomposition.lua, which would
-- grow too long with it: a text for each op, as the field `doc` of a row takes it.

return {
  linalg_lu_factor_ex = { [[LU factorization with partial pivoting of each matrix of a batch, in LAPACK's compact form,
with a status instead of an error. `LU` holds `L` below its diagonal (that of `L` itself is 1) and `U`
on and above it; `pivots`, int32, says for each row which row it was exchanged with.]],
    args = { A = "the matrices",
             pivot = "whether rows are exchanged; must be true",
             check_errors = "whether a zero on the diagonal of `U` is an error" },
    shapes = "A (*, m, n) -> LU (*, m, n), pivots (*, min(m, n)), info (*)",
    formula = "A = P L U",
    errors = "`pivot` false; with `check_errors` a singular matrix",
    source = "LAPACK: getrf",
    example = "ml.linalg.lu_factor_ex(ml.tensor {{4.0, 3}, {6, 3}})",
    gives = [[
{{6.0000, 3.0000},
 {0.6667, 1.0000}}
Tensor (2, 2) float32
{2, 2}
Tensor (2,) int32
0  Tensor () int32]] },
  linalg_lu_factor = { [[LU factorization with partial pivoting of each matrix of a batch, in the compact form that
`linalg.lu_solve` and `lu_unpack` take.]],
    args = { A = "the matrices", pivot = "whether rows are exchanged; must be true" },
    shapes = "A (*, m, n) -> LU (*, m, n), pivots (*, min(m, n))",
    formula = "A = P L U",
    errors = "a singular matrix",
    source = "LAPACK: getrf",
    example = "ml.linalg.lu_factor(ml.tensor {{4.0, 3}, {6, 3}})",
    gives = [[
{{6.0000, 3.0000},
 {0.6667, 1.0000}}
Tensor (2, 2) float32
{2, 2}
Tensor (2,) int32]] },
  linalg_lu = { [[LU factorization with partial pivoting of each matrix of a batch, as three matrices: a
permutation, a lower trapezoidal matrix with ones on its diagonal and an upper trapezoidal one.]],
    args = { A = "the matrices", pivot = "whether rows are exchanged; must be true" },
    shapes = "A (*, m, n) -> P (*, m, m), L (*, m, k), U (*, k, n) with k = min(m, n)",
    formula = "A = P L U",
    source = "LAPACK: getrf",
    example = "ml.linalg.lu(ml.tensor {{4.0, 3}, {6, 3}})",
    gives = [[
{{0., 1.},
 {1., 0.}}
Tensor (2, 2) float32
{{1.0000, 0.0000},
 {0.6667, 1.0000}}
Tensor (2, 2) float32
{{6., 3.},
 {0., 1.}}
Tensor (2, 2) float32]] },
  lu_unpack = { [[Matrices `P`, `L` and `U` of a factorization that `linalg.lu_factor` made. What is not asked
for is an empty tensor.]],
    args = { LU = "the compact factors",
             pivots = "the exchanged rows, int32",
             unpack_data = "whether `L` and `U` are made",
             unpack_pivots = "whether `P` is made" },
    shapes = "LU (*, m, n), pivots (*, k) -> P (*, m, m), L (*, m, k), U (*, k, n) with k = min(m, n)",
    example = [[
P, L, U = ml.lu_unpack(ml.linalg.lu_factor(ml.tensor {{4.0, 3}, {6, 3}}))
ml.mm(P, ml.mm(L, U))]],
    gives = [[
{{4., 3.},
 {6., 3.}}
Tensor (2, 2) float32]] },
  linalg_lu_solve = { "Solution of linear systems with a matrix that `linalg.lu_factor` factorized.",
    args = { LU = "the compact factors",
             pivots = "the exchanged rows, int32",
             B = "the right-hand sides",
             left = "whether `A X = B` is solved, else `X A = B`",
             adjoint = "whether the conjugate transpose of `A` stands in its place" },
    shapes = "LU (*, n, n), pivots (*, n), B (*, n, k) -> X (*, n, k)",
    formula = "A X = B",
    source = "LAPACK: getrs",
    example = [[
LU, pivots = ml.linalg.lu_factor(ml.tensor {{2.0, 0}, {0, 4}})
ml.linalg.lu_solve(LU, pivots, ml.ones(2, 1))]],
    gives = [[
{{0.5000},
 {0.2500}}
Tensor (2, 1) float32]] },
  det = { "Determinant of each square matrix of a batch, by LU factorization; that of a matrix of size 0 is 1.",
    args = { A = "the matrices" },
    shapes = "A (*, n, n) -> (*)",
    formula = "y = det(A)",
    example = "ml.det(ml.tensor {{2.0, 1}, {4, 3}})", gives = "2.  Tensor () float32" },
  slogdet = { [[Sign and logarithm of the absolute value of the determinant of each square matrix, which
neither overflow nor underflow. Of complex matrices the sign is a number of modulus 1. Of a singular
matrix they are 0 and minus infinity.]],
    args = { A = "the matrices" },
    shapes = "A (*, n, n) -> sign (*), logabsdet (*)",
    formula = "det(A) = sign * exp(logabsdet)",
    example = "ml.slogdet(ml.tensor {{2.0, 1}, {4, 3}})",
    gives = "1.  Tensor () float32	0.6931  Tensor () float32" },
  logdet = { [[Logarithm of the determinant of each square matrix; NaN where that is negative, minus infinity
where it is 0.]],
    args = { A = "the matrices" },
    shapes = "A (*, n, n) -> (*)",
    formula = "y = log(det(A))",
    example = "ml.logdet(ml.tensor {{2.0, 0}, {0, 3}})", gives = "1.7918  Tensor () float32" },
  linalg_inv_ex = { [[Inverse of each square matrix of a batch, with a status instead of an error: `info`, int32, is
0, or the number of the first zero on the diagonal of `U` of a singular matrix, whose inverse is then
NaN.]],
    args = { A = "the matrices", check_errors = "whether a singular matrix is an error" },
    shapes = "A (*, n, n) -> inverse (*, n, n), info (*)",
    formula = "A inverse = I",
    errors = "with `check_errors` a singular matrix",
    example = "ml.linalg.inv_ex(ml.tensor {{2.0, 0}, {0, 4}})",
    gives = [[
{{0.5000, 0.0000},
 {0.0000, 0.2500}}
Tensor (2, 2) float32
0  Tensor () int32]] },
  inverse = { [[Inverse of each square matrix of a batch, by LU factorization.
`linalg.solve` is faster and more accurate than a product with the inverse.]],
    args = { A = "the matrices" },
    shapes = "A (*, n, n) -> (*, n, n)",
    formula = "A y = I",
    errors = "a singular matrix",
    example = "ml.inverse(ml.tensor {{2.0, 0}, {0, 4}})",
    gives = [[
{{0.5000, 0.0000},
 {0.0000, 0.2500}}
Tensor (2, 2) float32]] },
  linalg_solve_ex = { [[Solution of linear systems, with a status instead of an error: `info`, int32, is 0, or the
number of the first zero on the diagonal of `U` of a singular matrix, whose solution is then NaN.]],
    args = { A = "square matrices",
             B = "the right-hand sides, matrices or vectors",
             left = "whether `A X = B` is solved, else `X A = B`",
             check_errors = "whether a singular matrix is an error" },
    shapes = "A (*, n, n), B (*, n, k) -> result (*, n, k), info (*)",
    formula = "A X = B",
    errors = "with `check_errors` a singular matrix",
    example = "ml.linalg.solve_ex(ml.tensor {{2.0, 0}, {0, 4}}, ml.tensor {2.0, 2})",
    gives = [[
{1.0000, 0.5000}
Tensor (2,) float32
0  Tensor () int32]] },
  linalg_solve = { [[Solution of linear systems with square matrices, by LU factorization with partial pivoting.
Batches broadcast.]],
    args = { A = "square matrices",
             B = "the right-hand sides: matrices, or one vector (n) for each matrix",
             left = "whether `A X = B` is solved, else `X A = B`" },
    shapes = "A (*, n, n), B (*, n, k) -> X (*, n, k)",
    formula = "A X = B",
    errors = "a singular matrix",
    source = "LAPACK: getrf, getrs",
    example = "ml.linalg.solve(ml.tensor {{2.0, 1}, {1, 3}}, ml.tensor {3.0, 5})",
    gives = [[
{0.8000, 1.4000}
Tensor (2,) float32]] },
  linalg_solve_triangular = { [[Solution of linear systems with triangular matrices, of which one triangle is read. Batches
broadcast; a zero on the diagonal gives infinities or NaN.]],
    args = { A = "square matrices",
             B = "the right-hand sides",
             upper = "whether the upper triangle is read, else the lower one",
             left = "whether `A X = B` is solved, else `X A = B`",
             unitriangular = "whether the diagonal is taken as 1 and not read" },
    shapes = "A (*, n, n), B (*, n, k) -> X (*, n, k)",
    formula = "A X = B",
    source = "BLAS: trsm",
    example = "ml.linalg.solve_triangular(ml.tensor {{2.0, 1}, {0, 4}}, ml.tensor {{4.0}, {8}}, true)",
    gives = [[
{{1.},
 {2.}}
Tensor (2, 1) float32]] },
  linalg_pinv = { [[Moore-Penrose pseudoinverse of each matrix of a batch, by its singular values: those up to
`max(atol, rtol * largest)` count as 0.]],
    args = { A = "the matrices",
             atol = "the absolute tolerance; 0 unless given",
             rtol = "the relative tolerance; unless given the dtype's epsilon times `max(m, n)`, or 0 where " ..
               "`atol` is given",
             hermitian = "whether `A` is Hermitian; then only the lower triangle is read" },
    shapes = "A (*, m, n) -> (*, n, m)",
    formula = "y = V diag(1 / S) U^H",
    example = "ml.linalg.pinv(ml.tensor {{2.0, 0}, {0, 4}, {0, 0}})",
    gives = [[
{{0.5000, 0.0000, 0.0000},
 {0.0000, 0.2500, 0.0000}}
Tensor (2, 3) float32]] },
  linalg_pinv_by = { "Pseudoinverse of each matrix of a batch with tensors of tolerances, which expand to the batch.",
    args = { A = "the matrices",
             atol = "the absolute tolerances",
             rtol = "the relative tolerances",
             hermitian = "whether `A` is Hermitian; then only the lower triangle is read" },
    shapes = "A (*, m, n), atol (*), rtol (*) -> (*, n, m)",
    example = "ml.linalg.pinv(ml.tensor {{2.0, 0}, {0, 4}}, ml.tensor(3.0))",
    gives = [[
{{0.0000, 0.0000},
 {0.0000, 0.2500}}
Tensor (2, 2) float32]] },
  pinverse = { "Pseudoinverse of each matrix of a batch: `linalg.pinv` with `rtol = rcond`.",
    args = { A = "the matrices", rcond = "the relative tolerance below which singular values count as 0" },
    shapes = "A (*, m, n) -> (*, n, m)",
    example = "ml.pinverse(ml.tensor {{2.0, 0}, {0, 4}, {0, 0}})",
    gives = [[
{{0.5000, 0.0000, 0.0000},
 {0.0000, 0.2500, 0.0000}}
Tensor (2, 3) float32]] },
  linalg_lstsq = { [[Least squares solution of linear systems; of several solutions the one of smallest norm.
`rank` counts the singular values above `rcond` times the largest; "gels" gives none. `residuals` are
the sums of squares where `m > n`, all ranks are full and the driver is not "gelsy". What a driver does
not compute is an empty tensor.]],
    args = { A = "the matrices",
             B = "the right-hand sides: matrices, or one vector (m) for each matrix",
             rcond = "the relative tolerance of the rank; the dtype's epsilon times `max(m, n)` unless given",
             driver = '"gelsy" (QR with column pivoting), "gelsd" or "gelss" (singular values, which are results then), "gels" (QR, for matrices of full rank)' },
    shapes = "A (*, m, n), B (*, m, k) -> solution (*, n, k), residuals (*, k), rank (*), singular_values (*, " ..
      "min(m, n))",
    formula = "solution = argmin_X norm(A X - B)^2",
    source = "LAPACK: gelsy, gelsd, gelss, gels",
    example = "(ml.linalg.lstsq(ml.tensor {{1.0, 1}, {1, 2}, {1, 3}}, ml.tensor {1.0, 2, 2}))",
    gives = [[
{0.6667, 0.5000}
Tensor (2,) float32]] },
  linalg_cholesky_ex = { [[Cholesky factorization of each Hermitian positive definite matrix of a batch, with a status
instead of an error: `info`, int32, is 0, or the order of the first leading minor that is not positive.
Only one triangle is read.]],
    args = { A = "the matrices",
             upper = "whether the upper factor `L^H` is computed, from the upper triangle",
             check_errors = "whether a matrix that is not positive definite is an error" },
    shapes = "A (*, n, n) -> L (*, n, n), info (*)",
    formula = "A = L L^H",
    errors = "with `check_errors` a matrix that is not positive definite",
    source = "LAPACK: potrf",
    example = "ml.linalg.cholesky_ex(ml.tensor {{4.0, 2}, {2, 5}})",
    gives = [[
{{2., 0.},
 {1., 2.}}
Tensor (2, 2) float32
0  Tensor () int32]] },
  cholesky = { [[Cholesky factorization of each Hermitian positive definite matrix of a batch: the lower
triangular `L`. Only the lower triangle is read.]],
    args = { A = "the matrices",
             upper = "whether the upper factor `L^H` is computed, from the upper triangle" },
    shapes = "A (*, n, n) -> (*, n, n)",
    formula = "A = L L^H",
    errors = "a matrix that is not positive definite",
    source = "LAPACK: potrf",
    example = "ml.cholesky(ml.tensor {{4.0, 2}, {2, 5}})",
    gives = [[
{{2., 0.},
 {1., 2.}}
Tensor (2, 2) float32]] },
  cholesky_solve = { "Solution of linear systems with a matrix given by its Cholesky factor.",
    args = { B = "the right-hand sides",
             L = "the triangular factors",
             upper = "whether `L` is the upper factor, so that `A = L^H L`" },
    shapes = "B (*, n, k), L (*, n, n) -> X (*, n, k)",
    formula = "L L^H X = B",
    source = "LAPACK: potrs",
    example = "ml.cholesky_solve(ml.tensor {{4.0}, {4}}, ml.tensor {{2.0, 0}, {0, 1}})",
    gives = [[
{{1.},
 {4.}}
Tensor (2, 1) float32]] },
  cholesky_inverse = { "Inverse of a matrix given by its Cholesky factor.",
    args = { L = "the triangular factors",
             upper = "whether `L` is the upper factor, so that the matrix is `L^H L`" },
    shapes = "L (*, n, n) -> (*, n, n)",
    formula = "y = (L L^H)^(-1)",
    example = "ml.cholesky_inverse(ml.tensor {{2.0, 0}, {0, 1}})",
    gives = [[
{{0.2500, 0.0000},
 {0.0000, 1.0000}}
Tensor (2, 2) float32]] },
  linalg_ldl_factor_ex = { [[LDL factorization of each symmetric matrix of a batch by the method of Bunch and Kaufman
(1977), in LAPACK's form for `linalg.ldl_solve`, with a status instead of an error: `info`, int32, is 0,
or the number of a zero in `D`. Only the lower triangle is read.]],
    args = { A = "the matrices",
             hermitian = "whether `A` is Hermitian, not symmetric",
             check_errors = "whether a singular matrix is an error" },
    shapes = "A (*, n, n) -> LD (*, n, n), pivots (*, n), info (*)",
    formula = "A = L D L^T",
    errors = "with `check_errors` a singular matrix",
    source = "LAPACK: sytrf, hetrf",
    example = "ml.linalg.ldl_factor_ex(ml.tensor {{2.0, 1}, {1, 3}})",
    gives = [[
{{2.0000, 0.0000},
 {0.5000, 2.5000}}
Tensor (2, 2) float32
{1, 2}
Tensor (2,) int32
0  Tensor () int32]] },
  linalg_ldl_factor = { [[LDL factorization of each symmetric matrix of a batch by the method of Bunch and Kaufman
(1977), in LAPACK's form for `linalg.ldl_solve`. Only the lower triangle is read.]],
    args = { A = "the matrices", hermitian = "whether `A` is Hermitian, not symmetric" },
    shapes = "A (*, n, n) -> LD (*, n, n), pivots (*, n)",
    formula = "A = L D L^T",
    errors = "a singular matrix",
    source = "LAPACK: sytrf, hetrf",
    example = "ml.linalg.ldl_factor(ml.tensor {{2.0, 1}, {1, 3}})",
    gives = [[
{{2.0000, 0.0000},
 {0.5000, 2.5000}}
Tensor (2, 2) float32
{1, 2}
Tensor (2,) int32]] },
  linalg_ldl_solve = { "Solution of linear systems with a matrix that `linalg.ldl_factor` factorized; the batches are equal.",
    args = { LD = "the factors",
             pivots = "the exchanged rows, int32",
             B = "the right-hand sides",
             hermitian = "what `linalg.ldl_factor` was given" },
    shapes = "LD (*, n, n), pivots (*, n), B (*, n, k) -> X (*, n, k)",
    formula = "A X = B",
    source = "LAPACK: sytrs, hetrs",
    example = [[
LD, pivots = ml.linalg.ldl_factor(ml.tensor {{2.0, 1}, {1, 3}})
ml.linalg.ldl_solve(LD, pivots, ml.tensor {{3.0}, {4}})]],
    gives = [[
{{1.},
 {1.}}
Tensor (2, 1) float32]] },
  linalg_qr = { [[QR factorization of each matrix of a batch by Householder reflections: `Q` with orthonormal
columns, `R` upper triangular. The gradient with `m < n` takes the first m columns to be independent.]],
    args = { A = "the matrices",
             mode = '"reduced": `Q` (m, k), `R` (k, n) with k = min(m, n); "complete": `Q` (m, m), `R` (m, n); "r": an empty `Q` and the reduced `R`, without a gradient' },
    shapes = "A (*, m, n) -> Q (*, m, k), R (*, k, n)",
    formula = "A = Q R",
    source = "LAPACK: geqrf, orgqr",
    example = "Q, R = ml.linalg.qr(ml.tensor {{3.0, 1}, {4, 2}}); R",
    gives = [[
{{-5.0000, -2.2000},
 { 0.0000,  0.4000}}
Tensor (2, 2) float32]] },
  qr = { "QR factorization of each matrix of a batch, as `linalg.qr` gives it.",
    args = { A = "the matrices", some = "whether the reduced factors are computed, else the complete ones" },
    shapes = "A (*, m, n) -> Q (*, m, k), R (*, k, n)",
    formula = "A = Q R",
    example = "Q, R = ml.qr(ml.tensor {{3.0, 1}, {4, 2}}); R",
    gives = [[
{{-5.0000, -2.2000},
 { 0.0000,  0.4000}}
Tensor (2, 2) float32]] },
  geqrf = { [[Compact QR factorization of each matrix of a batch: `R` on and above the diagonal of `a`, the
vectors of the Householder reflections that make `Q` below it, their factors in `tau`: for `orgqr` and
`ormqr`.]],
    args = { A = "the matrices" },
    shapes = "A (*, m, n) -> a (*, m, n), tau (*, min(m, n))",
    formula = "Q = prod_i (I - tau_i v_i v_i^H)",
    source = "LAPACK: geqrf",
    example = "ml.geqrf(ml.tensor {{3.0, 1}, {4, 2}})",
    gives = [[
{{-5.0000, -2.2000},
 { 0.5000,  0.4000}}
Tensor (2, 2) float32
{1.6000, 0.0000}
Tensor (2,) float32]] },
  orgqr = { "First n columns of the product of Householder reflections.",
    args = { A = "the vectors of the reflections below the diagonal of each matrix, where 1 is taken",
             tau = "the factors of the reflections" },
    shapes = "A (*, m, n), tau (*, k) -> (*, m, n)",
    formula = "Q = prod_i (I - tau_i v_i v_i^H)",
    source = "LAPACK: orgqr, ungqr",
    example = "a, tau = ml.geqrf(ml.tensor {{3.0, 1}, {4, 2}}); ml.orgqr(a, tau)",
    gives = [[
{{-0.6000, -0.8000},
 {-0.8000,  0.6000}}
Tensor (2, 2) float32]] },
  ormqr = { "Product of the matrix `Q` of Householder reflections with another matrix, without forming `Q`.",
    args = { A = "the vectors of the reflections below the diagonal of each matrix, where 1 is taken",
             tau = "the factors of the reflections",
             other = "the other factor",
             left = "whether `Q other` is computed, else `other Q`",
             transpose = "whether the conjugate transpose of `Q` stands in its place" },
    shapes = "A (*, m, k), tau (*, k), other (*, m, n) -> (*, m, n)",
    formula = "y = Q other",
    source = "LAPACK: ormqr, unmqr",
    example = "a, tau = ml.geqrf(ml.tensor {{3.0, 1}, {4, 2}}); ml.ormqr(a, tau, ml.eye(2))",
    gives = [[
{{-0.6000, -0.8000},
 {-0.8000,  0.6000}}
Tensor (2, 2) float32]] },
  linalg_svd = { [[Singular value decomposition of each matrix of a batch: `S` real and descending, `U` and `Vh`
unitary. The gradient is that of the first k vectors; where singular values are equal (or 0, unless m =
n) it is NaN or infinite, except for what uses `S` alone.]],
    args = { A = "the matrices",
             full_matrices = "whether `U` and `Vh` are square, else (m, k) and (k, n)",
             driver = "a routine of cuSOLVER in PyTorch; there is none to choose here" },
    shapes = "A (*, m, n) -> U (*, m, m), S (*, k), Vh (*, n, n) with k = min(m, n)",
    formula = "A = U diag(S) Vh",
    source = "LAPACK: gesdd",
    example = "U, S, Vh = ml.linalg.svd(ml.tensor {{3.0, 0}, {4, 5}}); S",
    gives = [[
{6.7082, 2.2361}
Tensor (2,) float32]] },
  linalg_svdvals = { "Singular values of each matrix of a batch, descending. Equal ones have a gradient too.",
    args = { A = "the matrices", driver = "a routine of cuSOLVER in PyTorch; there is none to choose here" },
    shapes = "A (*, m, n) -> (*, min(m, n))",
    source = "LAPACK: gesdd",
    example = "ml.linalg.svdvals(ml.tensor {{3.0, 0}, {4, 5}})",
    gives = [[
{6.7082, 2.2361}
Tensor (2,) float32]] },
  svd = { "Singular value decomposition of each matrix of a batch, with `V` instead of its conjugate transpose.",
    args = { A = "the matrices",
             some = "whether `U` and `V` have the first k columns only",
             compute_uv = "whether `U` and `V` are computed; else they are zeros" },
    shapes = "A (*, m, n) -> U (*, m, k), S (*, k), V (*, n, k) with k = min(m, n)",
    formula = "A = U diag(S) V^H",
    example = "U, S, V = ml.svd(ml.tensor {{3.0, 0}, {4, 5}, {0, 0}}); U.shape, S.shape, V.shape",
    gives = "(3, 2)	(2,)	(2, 2)" },
  linalg_eigh = { [[Eigenvalues and eigenvectors of each Hermitian (or real symmetric) matrix of a batch: real
eigenvalues, ascending, and orthonormal eigenvectors as columns. One triangle is read. The gradient of
the vectors is NaN or infinite where eigenvalues are equal.]],
    args = { A = "the matrices", UPLO = 'the triangle that is read: "L" lower, "U" upper' },
    shapes = "A (*, n, n) -> eigenvalues (*, n), eigenvectors (*, n, n)",
    formula = "A v_i = lambda_i v_i",
    source = "LAPACK: syevd, heevd",
    example = "values, vectors = ml.linalg.eigh(ml.tensor {{2.0, 1}, {1, 3}}); values",
    gives = [[
{1.3820, 3.6180}
Tensor (2,) float32]] },
  linalg_eigvalsh = { "Eigenvalues of each Hermitian (or real symmetric) matrix of a batch, real and ascending.",
    args = { A = "the matrices", UPLO = 'the triangle that is read: "L" lower, "U" upper' },
    shapes = "A (*, n, n) -> (*, n)",
    source = "LAPACK: syevd, heevd",
    example = "ml.linalg.eigvalsh(ml.tensor {{2.0, 1}, {1, 3}})",
    gives = [[
{1.3820, 3.6180}
Tensor (2,) float32]] },
  linalg_eig = { [[Eigenvalues and eigenvectors of each square matrix of a batch, complex and in no particular
order; the eigenvectors are columns of norm 1. The gradient takes the eigenvalues to be distinct.]],
    args = { A = "the matrices" },
    shapes = "A (*, n, n) -> eigenvalues (*, n), eigenvectors (*, n, n)",
    formula = "A v_i = lambda_i v_i",
    source = "LAPACK: geev",
    example = "values, vectors = ml.linalg.eig(ml.tensor {{0.0, 1}, {-1, 0}}); values",
    gives = [[
{0.+1.i, 0.-1.i}
Tensor (2,) complex64]] },
  linalg_eigvals = { "Eigenvalues of each square matrix of a batch, complex and in no particular order.",
    args = { A = "the matrices" },
    shapes = "A (*, n, n) -> (*, n)",
    source = "LAPACK: geev",
    example = "ml.linalg.eigvals(ml.tensor {{0.0, 1}, {-1, 0}})",
    gives = [[
{0.+1.i, 0.-1.i}
Tensor (2,) complex64]] },
  linalg_matrix_sqrth = { [[Hermitian square root of each Hermitian positive definite matrix of a batch, of which the
lower triangle is read. Negative eigenvalues count as 0.]],
    args = { A = "the matrices" },
    shapes = "A (*, n, n) -> (*, n, n)",
    formula = "y y = A",
    example = "ml.linalg.matrix_sqrth(ml.tensor {{2.0, 0}, {0, 3}})",
    gives = [[
{{1.4142, 0.0000},
 {0.0000, 1.7321}}
Tensor (2, 2) float32]] },
  linalg_polar = { [[Polar decomposition of each matrix of a batch with m at least n: orthonormal columns times a
Hermitian positive semidefinite matrix. The gradient takes the singular values to be distinct.]],
    args = { A = "the matrices" },
    shapes = "A (*, m, n) -> U (*, m, n), H (*, n, n)",
    formula = "A = U H",
    example = "U, H = ml.linalg.polar(ml.tensor {{0.0, -2.5}, {1.5, 0}}); H",
    gives = [[
{{1.5000, 0.0000},
 {0.0000, 2.5000}}
Tensor (2, 2) float32]] },
  svd_lowrank = { [[Randomized singular value decomposition: approximations of the `q` largest singular values and
their vectors. Faster than `svd` for large matrices of low rank.]],
    args = { A = "the matrices",
             q = "how many singular values",
             niter = "how many power iterations, each a product with `A` and its conjugate transpose",
             M = "what is subtracted from `A` first" },
    shapes = "A (*, m, n), M (*, m, n) -> U (*, m, q), S (*, q), V (*, n, q)",
    formula = "A - M = U diag(S) V^H",
    source = 'Halko, Martinsson and Tropp 2009, "Finding Structure with Randomness"',
    example = "U, S, V = ml.svd_lowrank(ml.ones(4, 3), 1); S",
    gives = [[
{3.4641}
Tensor (1,) float32]] },
  pca_lowrank = { [[Principal component analysis by a randomized singular value decomposition of `A` with centred
columns: the columns of `V` are the principal directions.]],
    args = { A = "the matrices, a row for each sample",
             q = "how many components; `min(6, m, n)` unless given",
             center = "whether the means of the columns are subtracted",
             niter = "how many power iterations" },
    shapes = "A (*, m, n) -> U (*, m, q), S (*, q), V (*, n, q)",
    source = 'Halko, Martinsson and Tropp 2009, "Finding Structure with Randomness"',
    example = "U, S, V = ml.pca_lowrank(ml.tensor {{1.0, 2}, {2, 4}, {3, 6}}, 1); S",
    gives = [[
{3.1623}
Tensor (1,) float32]] },
  matrix_exp = { [[Matrix exponential of each square matrix of a batch, by a Padé approximation of degree 13 with
scaling and squaring.]],
    args = { A = "the matrices" },
    shapes = "A (*, n, n) -> (*, n, n)",
    formula = "y = sum_k A^k / k!",
    source = 'Higham 2005, "The Scaling and Squaring Method for the Matrix Exponential Revisited"',
    example = "ml.matrix_exp(ml.tensor {{1.0, 1}, {0, 1}})",
    gives = [[
{{2.7183, 2.7183},
 {0.0000, 2.7183}}
Tensor (2, 2) float32]] },
  linalg_vector_norm = { [[Norm of vectors along `dim`, or of all elements as one vector. Order 0 counts the elements
that are not 0; infinity gives the largest magnitude, minus infinity the smallest.]],
    args = { ord = "the order of the norm" },
    shapes = "x (*) -> (*) without `dim`",
    formula = "y = (sum_i abs(x_i)^ord)^(1 / ord)",
    example = "ml.linalg.vector_norm(ml.tensor {3.0, 4})", gives = "5.  Tensor () float32" },
  linalg_matrix_norm = { [[Norm of the matrices in two dimensions: "fro" is the Frobenius norm, the root of the sum of
squares; "nuc" the nuclear norm, the sum of the singular values. By number: 1 and infinity are the
largest sum of magnitudes in a column or row, 2 the largest singular value; -1, minus infinity and -2
the smallest.]],
    args = { A = "the matrices",
             ord = '"fro", "nuc" or a number',
             dim = "the two dimensions of the matrices" },
    shapes = "A (*, m, n) -> (*)",
    formula = "y = sqrt(sum_ij abs(A_ij)^2)",
    example = "ml.linalg.matrix_norm(ml.tensor {{1.0, 2}, {3, 4}})", gives = "5.4772  Tensor () float32" },
  linalg_matrix_norm_p = { "Matrix norm by its order: 1, infinity, 2, -1, minus infinity or -2.",
    args = { A = "the matrices", ord = "the order of the norm", dim = "the two dimensions of the matrices" },
    shapes = "A (*, m, n) -> (*)",
    example = "ml.linalg.matrix_norm(ml.tensor {{1.0, 2}, {3, 4}}, 1)", gives = "6.  Tensor () float32" },
  linalg_norm = { [[Norm of vectors or matrices: `linalg.vector_norm` where `dim` is one dimension or `A` has one,
`linalg.matrix_norm` where `dim` is two or `A` has two. Without `ord` the root of the sum of squares
over `dim` or all elements.]],
    args = { A = "the vectors or matrices",
             ord = "the order of the norm, a number, or the name of a matrix norm",
             dim = "one dimension or two" },
    shapes = "A (*) -> (*) without `dim`",
    example = "ml.linalg.norm(ml.tensor {{1.0, 2}, {3, 4}}, 1)", gives = "6.  Tensor () float32" },
  linalg_norm_named = { [[Matrix norm by its name: "fro" or "nuc".]],
    args = { A = "the matrices", ord = "the name of the norm", dim = "the two dimensions of the matrices" },
    shapes = "A (*, m, n) -> (*)",
    example = 'ml.linalg.norm(ml.tensor {{1.0, 2}, {3, 4}}, "fro")', gives = "5.4772  Tensor () float32" },
  linalg_cond = { [[Condition number of each matrix of a batch with respect to a norm, infinite for a singular
one. With `p` nil or 2 it is the largest singular value divided by the smallest, with -2 the reciprocal.]],
    args = { A = "the matrices", p = "the norm, as of `linalg.matrix_norm`" },
    shapes = "A (*, n, n) -> (*)",
    formula = "y = norm(A, p) * norm(A^(-1), p)",
    example = "ml.linalg.cond(ml.tensor {{1.0, 0}, {0, 4}})", gives = "4.  Tensor () float32" },
  linalg_cond_named = { [[Condition number with respect to a matrix norm by its name: "fro" or "nuc".]],
    args = { A = "the matrices", p = "the name of the norm" },
    shapes = "A (*, n, n) -> (*)",
    example = 'ml.linalg.cond(ml.tensor {{1.0, 0}, {0, 4}}, "fro")', gives = "4.2500  Tensor () float32" },
  linalg_matrix_rank = { "Rank of each matrix of a batch: how many singular values are above `max(atol, rtol * largest)`.",
    args = { A = "the matrices",
             atol = "the absolute tolerance; 0 unless given",
             rtol = "the relative tolerance; unless given the dtype's epsilon times `max(m, n)`, or 0 where " ..
               "`atol` is given",
             hermitian = "whether `A` is Hermitian; then the magnitudes of its eigenvalues count" },
    shapes = "A (*, m, n) -> (*)",
    example = "ml.linalg.matrix_rank(ml.ones(3, 4))", gives = "1  Tensor () int64" },
  linalg_matrix_rank_by = { "Rank of each matrix of a batch with tensors of tolerances, which expand to the batch.",
    args = { A = "the matrices",
             atol = "the absolute tolerances",
             rtol = "the relative tolerances",
             hermitian = "whether `A` is Hermitian" },
    shapes = "A (*, m, n), atol (*), rtol (*) -> (*)",
    example = "ml.linalg.matrix_rank(ml.tensor {{2.0, 0}, {0, 4}}, ml.tensor(3.0))",
    gives = "1  Tensor () int64" },
  linalg_tensorinv = { [[Inverse for `tensordot`: of `A` as a matrix from its last dimensions to its first `ind` ones,
whose sizes have one product.]],
    args = { A = "the tensor", ind = "how many dimensions come first" },
    shapes = "A (s1, s2) -> (s2, s1) with prod(s1) = prod(s2)",
    example = "ml.linalg.tensorinv(ml.eye(4):reshape(2, 2, 4) * 2).shape", gives = "(4, 2, 2)" },
  linalg_tensorsolve = { "Solution `X` of `tensordot(A, X, X.ndim) = B`.",
    args = { A = "the tensor",
             B = "the right-hand side",
             dims = "the dimensions of `A` that are moved to its end first" },
    shapes = "A (s1, s2), B (s1) -> (s2) with prod(s1) = prod(s2)",
    example = "ml.linalg.tensorsolve(ml.eye(4):reshape(2, 2, 4) * 2, ml.ones(2, 2))",
    gives = [[
{0.5000, 0.5000, 0.5000, 0.5000}
Tensor (4,) float32]] },
  linalg_vander = { "Vandermonde matrix: the powers 0 to `N - 1` of each element of a vector, as columns.",
    args = { N = "how many powers; as many as there are elements unless given" },
    shapes = "x (*, n) -> (*, n, N)",
    formula = "y_ij = x_i^(j - 1)",
    example = "ml.linalg.vander(ml.tensor {1, 2, 3})",
    gives = [[
{{1, 1, 1},
 {1, 2, 4},
 {1, 3, 9}}
Tensor (3, 3) int64]] },
}
