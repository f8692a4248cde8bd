-- tensor/ops/decomposition.lua: factorizations of matrices and what is solved with them. The kernels
-- are LAPACK's, on CUDA those of cuSOLVER and cuBLAS.

local ANY = "floating + complex"
local SIGNS = "unique up to signs; tests/lua/ops/linalg_test.lua puts the matrix together again"
local DEVICE_SIGNS = "unique up to signs; tests/lua/cuda/cuda_linalg_test.lua puts the matrix together again"
local SYMMETRIC = "reads one triangle; tests/lua/ops/linalg_test.lua differentiates with symmetric matrices"
-- Sample matrices far from singular, so that every dtype computes nearly the same.
local A, BATCH = "randn(3, 3) * 0.4 + eye(3) * 2", "randn(2, 3, 3) * 0.4 + eye(3) * 2"

local POSITIVE = "tensor{{3, 0.5, 0.2}, {0.5, 2, -0.3}, {0.2, -0.3, 1.5}}"

local function rows(list)
  for _, row in ipairs(list) do
    row.dtypes = row.dtypes or ANY
    op(row)
  end
end

-- LU.
rows {
  { [[linalg_lu_factor_ex(Tensor A, bool pivot=true,
        bool check_errors=false) -> (Tensor LU, Tensor pivots, Tensor info)]],
    module = "linalg", vmap = "dims", kind = "structured",
    grad = { A = "lu_factor_grad_A(g_LU, LU, pivots)" },
    doc = [[The factorization `A = P L U` of matrices (..., m, n) by Gaussian elimination: `L` below the
diagonal of `LU` (its own diagonal is 1) and `U` on and above it. `pivots` (..., min(m, n)), int32, says
for each row the row that it was swapped with. `info` (int32) is 0, or the first position of a zero on the
diagonal of `U`; with `check_errors` that is an error. `pivot` must be true.]],
    sample = { A, BATCH, "randn(2, 4)", "randn(4, 2)" } },
  { "linalg_lu_factor(Tensor A, bool pivot=true) -> (Tensor LU, Tensor pivots)",
    module = "linalg", out = true, kind = "composite",
    doc = [[`lu_factor_ex` without `info`: for `lu_solve`. A singular matrix is an error.]],
    sample = { A } },
  { "linalg_lu(Tensor A, bool pivot=true) -> (Tensor P, Tensor L, Tensor U)",
    module = "linalg", out = true, kind = "composite", nodiff = { "P" },
    doc = [[The factorization `A = P L U` of matrices (..., m, n): a permutation (m, m), a lower
trapezoidal matrix with ones on its diagonal (m, k) and an upper one (k, n), where k is the smaller size.]],
    sample = { A, "randn(2, 4, 3)", "randn(2, 4)" } },
  { "pivot_matrix(Tensor pivots, int n, DType dtype) -> Tensor",
    vmap = "dims", kind = "structured", dtypes = "integral", internal = true, steady = "pivots",
    torch = "torch.lu_unpack(torch.eye(args[1]).expand(*args[0].shape[:-1], -1, -1), args[0], unpack_data=False)[0]",
    doc = [[The permutation (..., n, n) of the row swaps `pivots`, as `lu_factor` gives them.]],
    sample = { 'tensor({2, 3, 3}, {dtype = "int32"}), 3, "float32"' }, check = { dtypes = "int32 only" } },
  { [[lu_unpack(Tensor LU, Tensor pivots, bool unpack_data=true,
        bool unpack_pivots=true) -> (Tensor P, Tensor L, Tensor U)]],
    out = true, mixed = true, kind = "composite", nodiff = { "P" },
    doc = [[`P`, `L` and `U` from what `linalg.lu_factor` gives. What is not asked for is an empty
tensor.]],
    torch = "torch.lu_unpack(args[0], args[1])",
    sample = { "randn(3, 3), tensor({2, 3, 3}, {dtype = 'int32'})", "randn(2, 4), tensor({2, 2}, {dtype = 'int32'})" },
    check = { dtypes = "pivots stay int32" } },
  { [[linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, bool left=true,
        bool adjoint=false) -> Tensor]],
    module = "linalg", out = true, mixed = true, kind = "composite",
    doc = [[The solution of `A X = B` (`X A = B` with `left` false) for the matrix that
`linalg.lu_factor` factorized; with `adjoint`, for its conjugate transpose.]],
    torch = "torch.linalg.lu_solve(*args[:3], **dict(zip(('left', 'adjoint'), args[3:])))",
    sample = { A .. ", tensor({2, 3, 3}, {dtype = 'int32'}), randn(3, 2)",
               A .. ", tensor({3, 2, 3}, {dtype = 'int32'}), randn(2, 3), false, true" },
    check = { dtypes = "pivots stay int32" } },
  { "det(Tensor A) -> Tensor",
    alias = { "linalg.det" }, vmap = "dims", kind = "structured",
    grad = { A = "det_grad_A(g, A)" },
    doc = [[The determinant of square matrices (..., n, n), by LU.]],
    sample = { A, BATCH, "zeros(0, 0)" } },
  { "det_grad_A(Tensor grad, Tensor A) -> Tensor",
    vmap = "all", kind = "structured", internal = true,
    grad = { grad = "det_grad_A_grad_grad(g, A)", A = "det_grad_A_grad_A(g, grad, A, y)" },
    torch = "args[0][..., None, None] * torch.linalg.det(args[1])[..., None, None] * torch.linalg.inv(args[1]).mT",
    doc = [[The gradient of `det`: the matrix of cofactors, conjugated, times `grad`. Where `A` is nearly
singular it comes from its singular values.]],
    sample = { "randn(2), " .. BATCH } },
  { "slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)",
    alias = { "linalg.slogdet" }, vmap = "dims", kind = "structured",
    grad = { A = "slogdet_grad_A(g_sign, g_logabsdet, A, sign)" },
    doc = [[The sign of the determinant of square matrices (for complex ones a number of magnitude 1) and
the logarithm of its magnitude, which neither overflow nor underflow. Singular: 0 and -inf.]],
    sample = { A, BATCH } },
  { "logdet(Tensor A) -> Tensor",
    kind = "composite", doc = [[The logarithm of the determinant; NaN where that is negative.]],
    sample = { A, BATCH } },
}

-- Solving.
rows {
  { "linalg_inv_ex(Tensor A, bool check_errors=false) -> (Tensor inverse, Tensor info)",
    module = "linalg", vmap = "dims", kind = "structured", autocast = { host = "float32" },
    grad = { A = "inv_grad_A(g_inverse, inverse)" },
    doc = [[The inverse of square matrices (..., n, n), and `info` (int32): 0, or the first zero on the
diagonal of `U` of a singular one, whose inverse is NaN here, or an error with `check_errors`.]],
    sample = { A, BATCH } },
  { "inverse(Tensor A) -> Tensor",
    out = true, alias = { "linalg.inv" }, kind = "composite", autocast = { host = "float32" },
    doc = [[The inverse of square matrices (..., n, n). A singular one is an error; `linalg.solve` is
faster and more accurate than multiplying with the inverse.]],
    sample = { A, BATCH, "zeros(2, 0, 0)" } },
  { "native_solve(Tensor A, Tensor B, bool check_errors) -> (Tensor X, Tensor info)",
    vmap = "all", kind = "structured", internal = true,
    grad = { ["A, B"] = "native_solve_grads(g_X, A, X)" },
    torch = "[torch.linalg.solve(args[0], args[1]), torch.zeros(args[0].shape[:-2], dtype=torch.int32)]",
    doc = [[`linalg.solve` of matrices with equal batches, and what LAPACK says of each.]],
    sample = { A .. ", randn(3, 2), true", BATCH .. ", randn(2, 3, 1), false" } },
  { "linalg_solve_ex(Tensor A, Tensor B, bool left=true, bool check_errors=false) -> (Tensor result, Tensor info)",
    module = "linalg", out = true, kind = "composite",
    doc = [[`linalg.solve`, and `info` (int32): 0, or the first zero on the diagonal of `U` of a singular
matrix, whose solution is NaN here, or an error with `check_errors`.]],
    sample = { A .. ", randn(3, 2)", BATCH .. ", randn(3, 2)" } },
  { "linalg_solve(Tensor A, Tensor B, bool left=true) -> Tensor",
    module = "linalg", out = true, kind = "composite", autocast = { host = "float32" },
    doc = [[The solution `X` of `A X = B` (`X A = B` with `left` false) for square matrices `A` (..., n, n)
and `B` (..., n, k), or one vector (n) for each matrix. Batches broadcast. A singular matrix is an error.]],
    torch = "torch.linalg.solve(args[0], args[1], left=(list(args) + [True])[2])",
    sample = { A .. ", randn(3, 2)", A .. ", randn(3)", BATCH .. ", randn(2, 3)", BATCH .. ", randn(4, 1, 3, 2)",
               A .. ", randn(2, 3), false", BATCH .. ", randn(3, 2)", "zeros(0, 0), zeros(0, 2)" } },
  { "native_solve_triangular(Tensor A, Tensor B, bool upper, bool unitriangular) -> Tensor",
    vmap = "all", kind = "structured", internal = true,
    grad = { ["A, B"] = "native_solve_triangular_grads(g, A, y, upper, unitriangular)" },
    torch = "torch.linalg.solve_triangular(args[0], args[1], upper=args[2], unitriangular=args[3])",
    doc = [[`linalg.solve_triangular` from the left, of matrices with equal batches.]],
    sample = { A .. ", randn(3, 2), true, false", BATCH .. ", randn(2, 3, 2), false, true" } },
  { [[linalg_solve_triangular(Tensor A, Tensor B, bool upper, bool left=true,
        bool unitriangular=false) -> Tensor]],
    module = "linalg", out = true, kind = "composite",
    torch = "torch.linalg.solve_triangular(args[0], args[1], upper=args[2], left=(list(args) + [True, False])[3] if len(args) > 3 else True, unitriangular=args[4] if len(args) > 4 else False)",
    doc = [[The solution `X` of `A X = B` (`X A = B` with `left` false) for triangular matrices, of which
only the `upper` or else the lower triangle is read, and with `unitriangular` not its diagonal, taken as
1. Batches broadcast; a zero on the diagonal gives infinities or NaN.]],
    sample = { A .. ", randn(3, 2), true", BATCH .. ", randn(3, 2), false", A .. ", randn(2, 3), false, false",
               A .. ", randn(2, 3), true, false, true" } },
  { "native_pinv(Tensor A, float atol, float rtol) -> Tensor",
    vmap = "dims", kind = "structured", internal = true,
    grad = { A = "pinv_grad_A(g, A, y)" },
    torch = "torch.linalg.pinv(args[0], atol=args[1], rtol=args[2])",
    doc = [[`linalg.pinv` with both tolerances.]],
    sample = { "randn(4, 3), 0, 1e-6", "randn(2, 2, 3), 0, 1e-6" } },
  { "linalg_pinv(Tensor A, float? atol=nil, float? rtol=nil, bool hermitian=false) -> Tensor",
    module = "linalg", out = true, kind = "composite",
    torch = "torch.linalg.pinv(args[0], atol=args[1] if len(args) > 1 else None, rtol=args[2] if len(args) > 2 else None, hermitian=args[3] if len(args) > 3 else False)",
    doc = [[The pseudoinverse (n, m) of matrices (..., m, n), by singular values; those up to
`max(atol, rtol * largest)` count as 0. `rtol` is by default the dtype's epsilon times the larger size, or
0 where `atol` is given. With `hermitian`, only the lower triangle is read.]],
    sample = { "randn(4, 3)", "randn(2, 2, 3)", POSITIVE .. ", nil, nil, true", "tensor{{1.5, 3}, {2, 4}}, 1e-3" } },
  { "native_pinv_by(Tensor A, Tensor atol, Tensor rtol) -> Tensor",
    vmap = "all", kind = "composite", mixed = true, internal = true, constant = { "atol", "rtol" },
    grad = { A = "pinv_grad_A(g, A, y)" },
    doc = [[`linalg.pinv` with both tolerances for each matrix.]],
    sample = { "randn(2, 6, 3), tensor{0.01, 0.02}, tensor{0, 0.001}", "randn(2, 3), tensor(0.0), tensor(0.006)" },
    check = { value = "linalg.pinv has the values", dtypes = "tolerances are real" } },
  { "linalg_pinv_by(Tensor A, Tensor? atol=nil, Tensor? rtol=nil, bool hermitian=false) -> Tensor",
    module = "linalg", overload_of = "linalg_pinv", kind = "composite", constant = { "atol", "rtol" },
    torch = "torch.linalg.pinv(args[0], atol=args[1] if len(args) > 1 else None, rtol=args[2] if len(args) > 2 else None)",
    doc = [[With tensors of tolerances, which expand to the batch.]],
    sample = { "randn(2, 4, 3), tensor{0.01, 0.02}", "randn(4, 3), nil, tensor(0.006)",
               "randn(2, 3, 2), tensor(0.01), tensor{0.002, 0.009}" },
    check = { dtypes = "tolerances are real" } },
  { "pinverse(Tensor A, float rcond=1e-15) -> Tensor",
    kind = "composite", autocast = { host = "float32" }, doc = [[`linalg.pinv` with `rtol = rcond`.]], sample = { "randn(4, 3)" } },
  { [[native_lstsq(Tensor A, Tensor B, float rcond,
        string driver) -> (Tensor X, Tensor rank, Tensor singular_values)]],
    vmap = "all", kind = "structured", internal = true, nodiff = { "singular_values" },
    grad = { ["A, B"] = "native_lstsq_grads(g_X, A, B, X, rcond)" },
    torch = "[torch.linalg.lstsq(args[0], args[1]).solution, torch.tensor([2]).expand(args[0].shape[:-2]).int().squeeze(), torch.zeros(args[0].shape[:-2] + (0,))]",
    doc = [[`linalg.lstsq` of matrices with equal batches; `rank` is int64, the singular values those that
the driver computes.]],
    sample = { 'randn(4, 2), randn(4, 3), 1e-6, "gelsy"' }, check = { value = "linalg.lstsq has the values" } },
  { [[linalg_lstsq(Tensor A, Tensor B, float? rcond=nil, string driver="gelsy")
        -> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)]],
    module = "linalg", kind = "composite", nodiff = { "singular_values" }, autocast = { host = "float32" },
    torch = "list(torch.linalg.lstsq(*args[:2], driver=(list(args) + [None, 'gelsy'])[3] if len(args) > 3 else None))",
    doc = [[The `X` that makes the sum of squares of `A X - B` smallest, for `A` (..., m, n) and `B`
(..., m, k), or one vector (m) for each matrix; of several, the one of smallest norm. `driver` is
`"gelsy"` (QR with pivoting), `"gelsd"` or `"gelss"` (singular values, which are results then), or
`"gels"` (for matrices of full rank). `rank` counts what is above `rcond` (by default the dtype's epsilon
times the larger size); `"gels"` has none. `residuals` are the sums of squares where m > n, all ranks are
full and the driver is not `"gelsy"`. What a driver does not give is an empty tensor.]],
    sample = { "randn(4, 2), randn(4, 3)", "randn(2, 4, 2), randn(2, 4), nil, 'gelsd'", "randn(2, 4), randn(2, 1)",
               "randn(4, 2), randn(4, 3), nil, 'gels'" } },
}

-- Cholesky and LDL.
rows {
  { "linalg_cholesky_ex(Tensor A, bool upper=false, bool check_errors=false) -> (Tensor L, Tensor info)",
    module = "linalg", vmap = "dims", kind = "structured", autocast = { host = "float32" },
    grad = { A = "cholesky_grad_A(g_L, L, upper)" },
    doc = [[The lower triangular `L` with `A = L L^H` of Hermitian positive definite matrices
(..., n, n), of which the lower triangle is read; with `upper`, `L^H` from the upper one. `info` (int32) is
0, or the order of the first leading minor that is not positive; with `check_errors` that is an error.]],
    torch = "torch.linalg.cholesky_ex(args[0], upper=len(args) > 1 and args[1])",
    sample = { POSITIVE, POSITIVE .. ", true", "stack{" .. POSITIVE .. ", eye(3)}" },
    check = { grad = SYMMETRIC } },
  { "cholesky(Tensor A, bool upper=false) -> Tensor",
    alias = { "linalg.cholesky" }, out = true, kind = "composite", autocast = { host = "float32" },
    torch = "torch.linalg.cholesky(args[0], upper=len(args) > 1 and args[1])",
    doc = [[The lower triangular `L` with `A = L L^H` of Hermitian positive definite matrices
(..., n, n); with `upper`, `L^H`. A matrix that is not positive definite is an error.]],
    sample = { POSITIVE, POSITIVE .. ", true", "zeros(0, 3, 3)" }, check = { grad = SYMMETRIC } },
  { "cholesky_solve(Tensor B, Tensor L, bool upper=false) -> Tensor",
    out = true, kind = "composite", autocast = { host = "float32" },
    doc = [[The solution of `A X = B` where `A = L L^H`, or `L^H L` with `upper`, for `B` (..., n, k).]],
    sample = { "randn(3, 2), " .. A, "randn(2, 3, 1), " .. A .. ", true" } },
  { "cholesky_inverse(Tensor L, bool upper=false) -> Tensor",
    out = true, kind = "composite", autocast = { host = "float32" },
    doc = [[The inverse of `L L^H`, or of `L^H L` with `upper`.]], sample = { A, BATCH .. ", true" } },
  { [[linalg_ldl_factor_ex(Tensor A, bool hermitian=false,
        bool check_errors=false) -> (Tensor LD, Tensor pivots, Tensor info)]],
    module = "linalg", vmap = "dims", kind = "structured",
    torch = "torch.linalg.ldl_factor_ex(args[0], hermitian=len(args) > 1 and args[1])",
    doc = [[The factorization `A = L D L^T` (`L D L^H` with `hermitian`) of symmetric matrices by
the method of Bunch and Kaufman (1977), in LAPACK's form: for `ldl_solve`. Only the lower triangle is read.
`info` (int32) is 0, or the position of a zero in `D`; with `check_errors` that is an error.]],
    sample = { POSITIVE, "stack{" .. POSITIVE .. ", eye(3)}, true" } },
  { "linalg_ldl_factor(Tensor A, bool hermitian=false) -> (Tensor LD, Tensor pivots)",
    module = "linalg", kind = "composite", differentiable = false,
    torch = "torch.linalg.ldl_factor(args[0], hermitian=len(args) > 1 and args[1])",
    doc = [[`ldl_factor_ex` without `info`; a singular matrix is an error.]], sample = { POSITIVE } },
  { "linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, bool hermitian=false) -> Tensor",
    module = "linalg", mixed = true, vmap = "all", kind = "structured", steady = "pivots",
    torch = "torch.linalg.ldl_solve(args[0], args[1], args[2], hermitian=len(args) > 3 and args[3])",
    doc = [[The solution (..., n, k) of `A X = B` for the matrix that `ldl_factor` factorized; the batches
are equal.]],
    sample = { POSITIVE .. ", tensor({1, 2, 3}, {dtype = 'int32'}), randn(3, 2)" },
    check = { dtypes = "pivots stay int32" } },
}

-- QR.
rows {
  { 'linalg_qr(Tensor A, string mode="reduced") -> (Tensor Q, Tensor R)',
    module = "linalg", vmap = "dims", kind = "structured", autocast = { host = "float32" },
    grad = { A = "qr_grad_A(given_Q, given_R, Q, R, mode)" },
    doc = [[The factorization `A = Q R` of matrices (..., m, n) with orthonormal columns in `Q` and an
upper triangular `R`, by Householder's reflections. `mode` is `"reduced"`: `Q` (m, k), `R` (k, n) with k
the smaller size; `"complete"`: `Q` (m, m), `R` (m, n); or `"r"`: an empty `Q` and the reduced `R`, without
gradient. The gradient with m < n takes the first m columns to be independent.]],
    sample = { "randn(4, 3)", "randn(2, 3, 3)", "randn(3, 5)", "randn(2, 4), 'complete'" } },
  { "qr(Tensor A, bool some=true) -> (Tensor Q, Tensor R)",
    kind = "composite", doc = [[`linalg.qr`: reduced, or complete with `some` false.]],
    torch = "torch.linalg.qr(args[0], mode='complete' if len(args) > 1 else 'reduced')",
    sample = { "randn(4, 3)", "randn(2, 3), false" } },
  { "geqrf(Tensor A) -> (Tensor a, Tensor tau)",
    vmap = "dims", kind = "structured", autocast = { host = "float32" },
    doc = [[`R` of the QR factorization, and below it the reflections that make `Q`, with their factors
`tau` (..., k), as LAPACK stores them: for `orgqr` and `ormqr`.]],
    sample = { "randn(4, 3)", "randn(2, 2, 3)" } },
  { "orgqr(Tensor A, Tensor tau) -> Tensor",
    out = true, alias = { "linalg.householder_product" }, kind = "composite", autocast = { host = "float32" },
    doc = [[The first n columns of the product of the reflections `I - tau v v^H` whose `v` are the columns
of `A` (..., m, n) below the diagonal, with 1 on it.]],
    sample = { "randn(4, 3), randn(3)", "randn(2, 4, 3), randn(2, 2)" } },
  { "ormqr(Tensor A, Tensor tau, Tensor other, bool left=true, bool transpose=false) -> Tensor",
    out = true, kind = "composite", autocast = { host = "float32" },
    doc = [[`Q other` (`other Q` with `left` false) for the product `Q` (m, m) of those reflections;
with `transpose`, its conjugate transpose.]],
    sample = { "randn(4, 3), randn(3), randn(4, 2)", "randn(4, 2), randn(2), randn(3, 4), false, true" } },
}

-- Eigenvalues and singular values.
rows {
  { "native_svd(Tensor A, bool full_matrices, bool vectors) -> (Tensor U, Tensor S, Tensor Vh)",
    vmap = "dims", kind = "structured", internal = true,
    grad = { A = "svd_grad_A(given_U, given_S, given_Vh, A, U, S, Vh)" },
    doc = [[`linalg.svd`; without `vectors`, `U` and `Vh` are empty.]],
    sample = { "randn(3, 2), false, true", "randn(3, 2), false, false" },
    check = { value = SIGNS, grad = "the phase of vectors is free", dtypes = SIGNS, device = DEVICE_SIGNS } },
  { [[linalg_svd(Tensor A, bool full_matrices=true, string driver="") -> (Tensor U, Tensor S, Tensor Vh)]],
    module = "linalg", out = true, kind = "composite", autocast = { host = "float32" },
    doc = [[The singular value decomposition `A = U diag(S) Vh` of matrices (..., m, n): `S` real,
descending; `U` (m, m) and `Vh` (n, n) unitary, or, with `full_matrices` false, their first columns and
rows (m, k) and (k, n). The gradient is that of the first k vectors; where singular values are equal (or 0, unless m = n) it is NaN or infinite, as in PyTorch, but for what uses `S` alone.
`driver` names a routine of cuSOLVER in PyTorch; there is none here to choose.]],
    sample = { "randn(3, 2), false", "randn(2, 2, 3)" },
    check = { value = SIGNS, grad = SIGNS, dtypes = SIGNS, device = DEVICE_SIGNS } },
  { [[linalg_svdvals(Tensor A, string driver="") -> Tensor]],
    module = "linalg", out = true, kind = "composite", autocast = { host = "float32" },
    doc = [[The singular values of matrices, descending; equal ones have a gradient too. `driver` as of `linalg.svd`.]], sample = { "randn(3, 2)", "randn(2, 2, 3)" } },
  { "svd(Tensor A, bool some=true, bool compute_uv=true) -> (Tensor U, Tensor S, Tensor V)",
    kind = "composite", autocast = { host = "float32" },
    doc = [[`linalg.svd`, with its gradient, and `V` instead of its conjugate transpose; `some` gives the first k columns.
Without `compute_uv`, `U` and `V` are zeros.]],
    sample = { "randn(3, 2), true, false" }, check = { grad = "tested as linalg.svdvals" } },
  { "native_eigh(Tensor A, string UPLO, bool vectors) -> (Tensor eigenvalues, Tensor eigenvectors)",
    vmap = "dims", kind = "structured", internal = true,
    grad = { A = "eigh_grad_A(given_eigenvalues, given_eigenvectors, A, eigenvalues, eigenvectors, UPLO)" },
    doc = [[`linalg.eigh`; without `vectors`, they are empty.]],
    sample = { POSITIVE .. ", 'L', true", POSITIVE .. ", 'U', false" },
    check = { value = SIGNS, grad = SYMMETRIC, dtypes = SIGNS, device = DEVICE_SIGNS } },
  { 'linalg_eigh(Tensor A, string UPLO="L") -> (Tensor eigenvalues, Tensor eigenvectors)',
    module = "linalg", out = true, kind = "composite", autocast = { host = "float32" },
    doc = [[The real eigenvalues of Hermitian matrices (..., n, n), ascending, and orthonormal
eigenvectors as columns. The lower triangle is read, or with `UPLO` `"U"` the upper one. The gradient of the vectors is
NaN or infinite where eigenvalues are equal, as in PyTorch.]],
    sample = { POSITIVE }, check = { value = SIGNS, grad = SYMMETRIC, dtypes = SIGNS, device = DEVICE_SIGNS } },
  { 'linalg_eigvalsh(Tensor A, string UPLO="L") -> Tensor',
    module = "linalg", out = true, kind = "composite", autocast = { host = "float32" },
    doc = [[The real eigenvalues of Hermitian matrices (..., n, n), ascending; see `linalg.eigh`.]],
    sample = { POSITIVE, POSITIVE .. ", 'U'" }, check = { grad = SYMMETRIC } },
  { "native_eig(Tensor A, bool vectors) -> (Tensor eigenvalues, Tensor eigenvectors)",
    vmap = "dims", kind = "structured", internal = true,
    grad = { A = "eig_grad_A(given_eigenvalues, given_eigenvectors, A, eigenvalues, eigenvectors)" },
    doc = [[`linalg.eig`; without `vectors`, they are empty.]],
    sample = { "tensor{{1, 2}, {0.5, 3}}, true", "tensor{{1, 2.5}, {-2, 1}}, false" },
    check = { value = SIGNS, grad = "the phase of vectors is free", dtypes = SIGNS } },
  { "linalg_eig(Tensor A) -> (Tensor eigenvalues, Tensor eigenvectors)",
    module = "linalg", out = true, kind = "composite", autocast = { host = "float32" },
    doc = [[The eigenvalues of square matrices (..., n, n) and eigenvectors of norm 1 as columns, both
complex and in no particular order. The gradient wants distinct eigenvalues.]],
    sample = { "tensor{{1, 2}, {0.5, 3}}" }, check = { value = SIGNS, grad = SIGNS, dtypes = SIGNS } },
  { "linalg_eigvals(Tensor A) -> Tensor",
    module = "linalg", out = true, kind = "composite", autocast = { host = "float32" },
    doc = [[The eigenvalues of square matrices, complex, in no particular order.]],
    sample = { "tensor{{1, 2}, {0.5, 3}}", "tensor{{1, 2.5}, {-2, 1}}" } },
  { "linalg_matrix_sqrth(Tensor A) -> Tensor",
    module = "linalg", vmap = "dims", kind = "structured", autocast = { host = "float32" },
    grad = { A = "matrix_sqrth_grad_A(g, y)" },
    doc = [[The Hermitian square root of Hermitian positive definite matrices (..., n, n), of which the lower
triangle is read. Negative eigenvalues count as 0.]],
    sample = { POSITIVE, "stack{" .. POSITIVE .. ", eye(3)}" }, check = { grad = SYMMETRIC } },
  { "linalg_polar(Tensor A) -> (Tensor U, Tensor H)",
    module = "linalg", out = true, kind = "composite",
    doc = [[The polar decomposition `A = U H` of matrices (..., m, n) with m at least n: orthonormal
columns (m, n), and a Hermitian positive semidefinite matrix (n, n). The gradient wants distinct singular
values.]],
    sample = { "randn(3, 3) + eye(3) * 2", "randn(2, 4, 2)" } },
  { [[svd_lowrank(Tensor A, int q=6, int niter=2, Tensor? M=nil,
        Generator? generator=nil) -> (Tensor U, Tensor S, Tensor V)]],
    random = true, kind = "composite", method = false,
    doc = [[About the `q` largest singular values of `A` (minus `M`, where given) and their vectors, from
random products: `niter` times it multiplies with `A` and its conjugate transpose (Halko, Martinsson and
Tropp, 2009). Faster than `svd` for large matrices of low rank.]],
    sample = { "matmul(randn(8, 2), randn(2, 7)), 2" },
    check = { value = "random", grad = "the vectors are unique up to signs", dtypes = SIGNS, device = DEVICE_SIGNS } },
  { [[pca_lowrank(Tensor A, int? q=nil, bool center=true, int niter=2,
        Generator? generator=nil) -> (Tensor U, Tensor S, Tensor V)]],
    random = true, kind = "composite", method = false,
    doc = [[`svd_lowrank` of `A` (..., m, n) less the means of its columns, unless `center` is false: the
columns of `V` are the principal directions. `q` is by default 6, or the smaller size.]],
    sample = { "matmul(randn(8, 2), randn(2, 7)), 2" },
    check = { value = "random", grad = "the vectors are unique up to signs", dtypes = SIGNS, device = DEVICE_SIGNS } },
  { "matrix_exp(Tensor A) -> Tensor",
    alias = { "linalg.matrix_exp" }, vmap = "dims", kind = "structured",
    grad = { A = "matrix_exp_grad_A(g, A)" },
    doc = [[The exponential of square matrices (..., n, n), by Padé approximation of degree 13 with
scaling and squaring (Higham, 2005).]],
    sample = { "randn(3, 3)", "randn(2, 3, 3) * 0.1", "randn(2, 2) * 8" } },
}

-- Norms and what follows from singular values.
rows {
  { "linalg_vector_norm(Tensor x, float ord=2, Dim[*] dim={}, bool keepdim=false, DType? dtype=nil) -> Tensor",
    module = "linalg", out = true, kind = "composite", autocast = { device = "float32" },
    doc = [[The norm of vectors along `dim`, or of all elements: the `ord`-th root of the sum of
`abs(x)^ord`; 0 counts what is not zero, infinity gives the largest magnitude, -infinity the smallest. With
`dtype` the elements are converted first.]],
    torch = "torch.linalg.vector_norm(args[0], *[a if i != 1 or a != [] else None for i, a in enumerate(args[1:])])",
    sample = { "randn(3, 4)", "randn(3, 4), 1, 2", "randn(3, 4), 3, {1, 2}, true", "randn(3, 4), -math.huge, 1",
               "randn(3, 4), 0", "view_as_complex(randn(3, 4, 2)), 2, 1" } },
  { 'linalg_matrix_norm(Tensor A, string ord="fro", Dim[] dim={-2, -1}, bool keepdim=false, DType? dtype=nil) -> Tensor',
    module = "linalg", out = true, kind = "composite", autocast = { device = "float32" },
    doc = [[The norm of the matrices in two dimensions: `"fro"`, the root of the sum of squares; `"nuc"`, the
sum of singular values; 1 or infinity, the largest sum of magnitudes in a column or row; 2, the largest
singular value; -1, -infinity and -2, the smallest.]],
    sample = { "randn(3, 4)", "randn(3, 4), 'nuc'", "randn(2, 3, 4), 'nuc', {1, 3}, true" } },
  { "linalg_matrix_norm_p(Tensor A, float ord, Dim[] dim={-2, -1}, bool keepdim=false, DType? dtype=nil) -> Tensor",
    module = "linalg", overload_of = "linalg_matrix_norm", kind = "composite", autocast = { device = "float32" },
    doc = [[The matrix norm of that number.]], torch = "torch.linalg.matrix_norm(*args)",
    sample = { "randn(3, 4), 1", "randn(3, 4), -math.huge", "randn(2, 3, 4), 2, {1, 2}", "randn(3, 4), -2",
               "randn(3, 4), math.huge, {1, 2}, true" } },
  { "linalg_norm(Tensor A, float? ord=nil, Dim[]? dim=nil, bool keepdim=false, DType? dtype=nil) -> Tensor",
    module = "linalg", out = true, kind = "composite",
    doc = [[`linalg.vector_norm` where `dim` is one dimension (or `A` has one) and `linalg.matrix_norm`
where it is two; without `ord`, the root of the sum of squares over `dim` or all elements.]],
    sample = { "randn(3, 4)", "randn(3, 4), 1", "randn(3, 4), 1, 2", "randn(5), 3", "randn(2, 3, 4), 2, {2, 3}, true" } },
  { "linalg_norm_named(Tensor A, string ord, Dim[]? dim=nil, bool keepdim=false, DType? dtype=nil) -> Tensor",
    module = "linalg", overload_of = "linalg_norm", kind = "composite",
    doc = [[The matrix norm of that name.]], torch = "torch.linalg.norm(*args)",
    sample = { "randn(3, 4), 'fro'", "randn(2, 3, 4), 'nuc', {2, 3}" } },
  { "linalg_cond(Tensor A, float? p=nil) -> Tensor",
    module = "linalg", out = true, kind = "composite", autocast = { host = "float32" },
    doc = [[The condition number of matrices: the largest singular value by the smallest (`p` nil or 2; -2
the inverse), or the norm `p` (a number or a name of `linalg.matrix_norm`) of the matrix times that of its
inverse, infinite for a singular one.]],
    sample = { "randn(3, 4)", A .. ", 1", "randn(2, 3, 3), -2" },
    check = { dtypes = "what is singular depends on rounding" } },
  { "linalg_cond_named(Tensor A, string p) -> Tensor",
    module = "linalg", overload_of = "linalg_cond", kind = "composite", torch = "torch.linalg.cond(*args)",
    doc = [[The condition number by the matrix norm of that name.]], sample = { A .. ", 'fro'", A .. ", 'nuc'" } },
  { "linalg_matrix_rank(Tensor A, float? atol=nil, float? rtol=nil, bool hermitian=false) -> Tensor",
    module = "linalg", out = true, kind = "composite", differentiable = false, autocast = { host = "float32" },
    torch = "torch.linalg.matrix_rank(args[0], atol=args[1] if len(args) > 1 else None, rtol=args[2] if len(args) > 2 else None, hermitian=args[3] if len(args) > 3 else False)",
    doc = [[How many singular values of matrices are above `max(atol, rtol * largest)`, with defaults as
in `linalg.pinv`; with `hermitian`, of the magnitudes of eigenvalues.]],
    sample = { "ones(3, 4)", "randn(2, 3, 3)", "eye(3), 2", POSITIVE .. ", nil, 0.9, true" } },
  { "linalg_matrix_rank_by(Tensor A, Tensor? atol=nil, Tensor? rtol=nil, bool hermitian=false) -> Tensor",
    module = "linalg", overload_of = "linalg_matrix_rank", kind = "composite", differentiable = false,
    torch = "torch.linalg.matrix_rank(args[0], atol=args[1] if len(args) > 1 else None, rtol=args[2] if len(args) > 2 else None)",
    doc = [[With tensors of tolerances, which expand to the batch.]],
    sample = { "randn(2, 3, 3), tensor{0.1, 1.5}", "randn(4, 3), nil, tensor(0.6)" },
    check = { dtypes = "tolerances are real" } },
  { "linalg_tensorinv(Tensor A, int ind=2) -> Tensor",
    module = "linalg", out = true, kind = "composite", autocast = { host = "float32" },
    doc = [[The inverse for `tensordot`: of `A` as a matrix from its last dimensions to its first `ind`
ones, whose sizes have one product.]],
    sample = { "randn(2, 3, 6) + eye(6):reshape(2, 3, 6) * 4", "randn(4, 2, 2) + eye(4):reshape(4, 2, 2) * 4, 1" } },
  { "linalg_tensorsolve(Tensor A, Tensor B, int[*] dims={}) -> Tensor",
    module = "linalg", out = true, kind = "composite", autocast = { host = "float32" },
    torch = "torch.linalg.tensorsolve(args[0], args[1], None if len(args) < 3 else tuple(d - 1 for d in args[2]))",
    doc = [[The `X` with `tensordot(A, X, X.ndim) = B`. The dimensions `dims` of `A` are moved to its end
first.]],
    sample = { "randn(2, 3, 6) + eye(6):reshape(2, 3, 6) * 4, randn(2, 3)",
               "randn(6, 2, 3) + eye(6):reshape(6, 2, 3) * 4, randn(2, 3), {1}" } },
  { "linalg_vander(Tensor x, int? N=nil) -> Tensor",
    module = "linalg", kind = "composite", dtypes = "real + complex",
    doc = [[The powers 0 to `N - 1` (by default as many as elements) of each element of `x` (..., n):
(..., n, N).]],
    torch = "torch.linalg.vander(args[0], N=args[1] if len(args) > 1 else None)",
    sample = { "randn(3)", "randn(2, 3), 4", "randn(2), 9" } },
}
