-- tests/lua/ops/linalg_test.lua: what the samples of ml.linalg and of products cannot show: factors that
-- are unique only up to signs, derivatives with symmetric matrices, errors, edge cases.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect
local linalg = ml.linalg

local DTYPES = { "float32", "float64", "complex64", "complex128" }
local TOLERANCE = { float32 = 2e-5, float64 = 1e-11, complex64 = 2e-5, complex128 = 1e-11 }

local function random(shape, dtype)
  if not dtype:find "^complex" then return ml.randn(shape, { dtype = dtype }) end
  local parts = table.move(shape, 1, #shape, 1, {})
  parts[#parts + 1] = 2
  return ml.view_as_complex(ml.randn(parts, { dtype = dtype == "complex64" and "float32" or "float64" }))
end

local function adjoint(x) return x:transpose(-2, -1):conj() end
local function eye(n, x) return ml.eye(n):to(x.dtype) end

local function near(got, want, tolerance, what)
  expect.equal(tostring(got.shape), tostring(want.shape), what)
  if got:numel() == 0 then return end
  local worst = (got - want):abs():amax():item()
  local size = math.max(1, want:abs():amax():item())
  if not (worst <= tolerance * size) then error(("%s: differs by %g"):format(what or "values", worst), 2) end
end

-- f(dtype, tolerance) for each dtype.
local function each_dtype(name, f)
  for _, dtype in ipairs(DTYPES) do
    test(name .. ", " .. dtype, function()
      ml.manual_seed(11)
      f(dtype, TOLERANCE[dtype])
    end)
  end
end

each_dtype("svd puts the matrix together", function(dtype, tolerance)
  for _, shape in ipairs { { 4, 3 }, { 2, 3, 5 }, { 3, 3 }, { 2, 2, 1, 4 } } do
    local A = random(shape, dtype)
    local U, S, Vh = linalg.svd(A, false)
    near(U:matmul(S:unsqueeze(-1) * Vh), A, tolerance * 10)
    near(adjoint(U):matmul(U), eye(S:size(-1), A):expand(adjoint(U):matmul(U).shape), tolerance * 10)
    near(linalg.svdvals(A), S, tolerance * 10)
    local full_U, full_S, full_Vh = linalg.svd(A)
    expect.equal(full_U:size(-1), A:size(-2))
    near(full_U:matmul(adjoint(full_U)), eye(A:size(-2), A):expand(full_U.shape), tolerance * 10)
    near(full_Vh:matmul(adjoint(full_Vh)), eye(A:size(-1), A):expand(full_Vh.shape), tolerance * 10)
    near(full_S, S, tolerance)
    local U1, S1, V1 = ml.svd(A)
    near(U1:matmul(S1:unsqueeze(-1) * adjoint(V1)), A, tolerance * 10)
  end
end)

each_dtype("eigh and eig satisfy A V = V diag(L)", function(dtype, tolerance)
  local A = random({ 2, 4, 4 }, dtype)
  local H = A + adjoint(A)
  for _, half in ipairs { "L", "U" } do
    local given = half == "L" and H:tril() or H:triu()
    local L, V = linalg.eigh(given, half)
    near(H:matmul(V), V * L:unsqueeze(-2), tolerance * 20)
    near(adjoint(V):matmul(V), eye(4, A):expand(2, 4, 4), tolerance * 10)
    near(linalg.eigvalsh(given, half), L, tolerance * 10)
  end
  local L, V = linalg.eig(A)
  near(A:to(L.dtype):matmul(V), V * L:unsqueeze(-2), tolerance * 20)
  near((V:abs() ^ 2):sum(-2), ml.ones(2, 4, { dtype = V.real.dtype }), tolerance * 20)
  near(linalg.eigvals(A):sum(-1), A:diagonal(0, -2, -1):sum(-1):to(L.dtype), tolerance * 20)
end)

each_dtype("qr, lu, ldl and cholesky put the matrix together", function(dtype, tolerance)
  for _, shape in ipairs { { 5, 3 }, { 2, 3, 5 }, { 3, 3 } } do
    local A = random(shape, dtype)
    local Q, R = linalg.qr(A)
    near(Q:matmul(R), A, tolerance * 10)
    near(adjoint(Q):matmul(Q), eye(Q:size(-1), A):expand(adjoint(Q):matmul(Q).shape), tolerance * 10)
    local full_Q, full_R = linalg.qr(A, "complete")
    near(full_Q:matmul(full_R), A, tolerance * 10)
    local none, only_R = linalg.qr(A, "r")
    expect.equal(none:numel(), 0)
    near(only_R, R, tolerance * 10)
    local P, L, U = linalg.lu(A)
    near(P:matmul(L):matmul(U), A, tolerance * 10)
    if A:size(-2) >= A:size(-1) then
      local a, tau = ml.geqrf(A)
      near(linalg.householder_product(a, tau), Q, tolerance * 10)
      local b = random({ 5, 2 }, dtype):narrow(1, 1, A:size(-2))
      near(ml.ormqr(a, tau, b), full_Q:matmul(b), tolerance * 10)
      near(ml.ormqr(a, tau, b, true, true), adjoint(full_Q):matmul(b), tolerance * 10)
      near(ml.ormqr(a, tau, adjoint(b), false), adjoint(b):matmul(full_Q), tolerance * 10)
    end
  end
  local A = random({ 2, 3, 3 }, dtype)
  local H = A:matmul(adjoint(A)) + eye(3, A)
  near(linalg.cholesky(H):matmul(adjoint(linalg.cholesky(H))), H, tolerance * 10)
  near(adjoint(H:cholesky(true)):matmul(H:cholesky(true)), H, tolerance * 10)
  near(linalg.matrix_sqrth(H):matmul(linalg.matrix_sqrth(H)), H, tolerance * 10)
  local U, square_root = linalg.polar(A)
  near(U:matmul(square_root), A, tolerance * 10)
  near(adjoint(U):matmul(U), eye(3, A):expand(2, 3, 3), tolerance * 10)
  local b = random({ 2, 3, 2 }, dtype)
  near(ml.cholesky_solve(b, linalg.cholesky(H)), linalg.solve(H, b), tolerance * 100)
  near(ml.cholesky_inverse(H:cholesky(true), true), linalg.inv(H), tolerance * 100)
  local LD, pivots = linalg.ldl_factor(A + A:transpose(-2, -1))
  near((A + A:transpose(-2, -1)):matmul(linalg.ldl_solve(LD, pivots, b)), b, tolerance * 100)
  LD, pivots = linalg.ldl_factor(A + adjoint(A), true)
  near((A + adjoint(A)):matmul(linalg.ldl_solve(LD, pivots, b, true)), b, tolerance * 100)
end)

each_dtype("solvers solve", function(dtype, tolerance)
  local A, B = random({ 2, 4, 4 }, dtype), random({ 4, 3 }, dtype)
  near(A:matmul(linalg.solve(A, B)), B:expand(2, 4, 3), tolerance * 100)
  near(linalg.solve(A, adjoint(B), false):matmul(A), adjoint(B):expand(2, 3, 4), tolerance * 100)
  near(A:matmul(linalg.inv(A)), eye(4, A):expand(2, 4, 4), tolerance * 100)
  local LU, pivots = linalg.lu_factor(A)
  local batch = B:expand(2, 4, 3)
  near(linalg.lu_solve(LU, pivots, batch), linalg.solve(A, B), tolerance * 100)
  near(linalg.lu_solve(LU, pivots, batch, true, true), linalg.solve(adjoint(A), B), tolerance * 100)
  near(linalg.lu_solve(LU, pivots, adjoint(batch), false), linalg.solve(A, adjoint(B), false), tolerance * 100)
  local L = A:tril() + eye(4, A) * 3
  near(L:matmul(linalg.solve_triangular(L + A:triu(1), B, false)), B:expand(2, 4, 3), tolerance * 10)
  local sign, log = ml.slogdet(A)
  near(sign * log:exp(), A:det(), tolerance * 10)
  near(ml.matrix_power(A, -2):matmul(ml.matrix_power(A, 2)), eye(4, A):expand(2, 4, 4), tolerance * 1000)
  local P = linalg.pinv(random({ 5, 3 }, dtype))
  expect.equal(tostring(P.shape), "(3, 5)")
  near(linalg.matrix_exp(A * 3):matmul(linalg.matrix_exp(A * -3)), eye(4, A):expand(2, 4, 4), tolerance * 1e5)
end)

-- d sum(w f(A)) / dA along a direction, against a central difference; then the gradient's own.
local function check_derivative(what, f, A, direction)
  ml.manual_seed(5)
  local function total(a)
    ml.manual_seed(6)
    local y = f(a)
    if y.dtype:find "^complex" then y = ml.view_as_real(y) end
    return (y * (ml.rand(y.shape, { dtype = "float64" }) + 0.2)):sum()
  end
  local function gradient(a, create)
    local leaf = a:detach():clone():requires_grad_(true)
    local g = ml.grad(total(leaf), leaf, { create_graph = create })
    return g, leaf
  end
  local function parts(x) return ml.view_as_real(x:to "complex128") end
  local function inner(g) return (parts(g) * parts(direction)):sum() end
  local eps = 1e-6
  local got = inner((gradient(A)))
  local want = (total(A + direction * eps) - total(A - direction * eps)):item() / (2 * eps)
  expect.near(got:item(), want, 1e-6, what)
  local g, leaf = gradient(A, true)
  local second = ml.grad(inner(g), leaf)
  local far = inner((gradient(A + direction * 1e-5))) - inner((gradient(A - direction * 1e-5)))
  expect.near(inner(second):item(), far:item() / 2e-5, 1e-5, what .. ", second")
end

for _, dtype in ipairs { "float64", "complex128" } do
  test("derivatives, " .. dtype, function()
    ml.manual_seed(3)
    local square = random({ 3, 3 }, dtype) + eye(3, random({ 1 }, dtype)) * 2
    local H, D = square + adjoint(square), random({ 3, 3 }, dtype)
    local symmetric = D + adjoint(D)
    local positive = square:matmul(adjoint(square)) + eye(3, square)
    check_derivative("cholesky", function(a) return linalg.cholesky(a) end, positive, symmetric)
    check_derivative("cholesky upper", function(a) return linalg.cholesky(a, true) end, positive, symmetric)
    check_derivative("matrix_sqrth", function(a) return linalg.matrix_sqrth(a) end, positive, symmetric)
    check_derivative("polar", function(a)
      local U, root = linalg.polar(a)
      return U:abs() + root:abs() * 0.3
    end, square, D)
    check_derivative("eigvalsh", function(a) return linalg.eigvalsh(a) end, H, symmetric)
    check_derivative("eigh", function(a)
      local L, V = linalg.eigh(a)
      return (V * L:exp():unsqueeze(-2)):matmul(adjoint(V)):abs() + V:abs()
    end, H, symmetric)
    check_derivative("svd", function(a)
      local U, S, Vh = linalg.svd(a, false)
      return U:abs():sum(-2) * 0.3 + Vh:abs():sum(-1) + (U * S:sin():unsqueeze(-2)):matmul(Vh):abs():sum(-1)
    end, square, D)
    local wide, wide_D = random({ 2, 3 }, dtype), random({ 2, 3 }, dtype)
    for name, case in pairs { wide = { wide, wide_D }, tall = { adjoint(wide), adjoint(wide_D) } } do
      check_derivative("svd " .. name, function(a)
        local U, S, Vh = linalg.svd(a)
        local k = S:size(-1)
        U, Vh = U:narrow(-1, 1, k), Vh:narrow(-2, 1, k)
        return (U * S:exp():unsqueeze(-2)):matmul(Vh):abs() + U:abs():sum() + Vh:abs():sum()
      end, case[1], case[2])
      check_derivative("qr " .. name, function(a)
        local Q, R = linalg.qr(a)
        return (R * 0.7):matmul(ml.ones(R:size(-1), 2):to(R.dtype)):abs():sum() + Q:abs()
      end, case[1], case[2])
      check_derivative("lu " .. name, function(a)
        local _, L, U = linalg.lu(a)
        return L:abs():sum() + U:abs()
      end, case[1], case[2])
      check_derivative("pinv " .. name, function(a) return linalg.pinv(a) end, case[1], case[2])
    end
    check_derivative("eigvals", function(a) return linalg.eigvals(a):exp():sum() end, square, D)
    check_derivative("eig", function(a)
      local L, V = linalg.eig(a)
      return (V * L:exp():unsqueeze(-2)):matmul(linalg.inv(V)) + V:abs():sum()
    end, square, D)
  end)

  test("derivatives of determinants and solutions, " .. dtype, function()
    ml.manual_seed(4)
    local square, D = random({ 3, 3 }, dtype) + eye(3, random({ 1 }, dtype)) * 2, random({ 3, 3 }, dtype)
    local tall, tall_D = random({ 3, 2 }, dtype), random({ 3, 2 }, dtype)
    check_derivative("det", function(a) return ml.det(a) end, square, D)
    check_derivative("logabsdet", function(a) return (select(2, ml.slogdet(a))) end, square, D)
    check_derivative("sign", function(a)
      local sign, log = ml.slogdet(a)
      return sign * log
    end, square, D)
    check_derivative("inv", function(a) return linalg.inv(a) end, square, D)
    check_derivative("solve", function(a) return linalg.solve(a, a:narrow(-1, 1, 2) * 2) end, square, D)
    check_derivative("solve right", function(a) return linalg.solve(a, a:narrow(-2, 1, 2) * 2, false) end, square, D)
    check_derivative("matrix_exp", function(a) return linalg.matrix_exp(a) end, square, D)
    check_derivative("lstsq", function(a)
      return (linalg.lstsq(a, a:narrow(-1, 1, 1) * 2 + 1))
    end, tall, tall_D)
    check_derivative("householder_product", function(a)
      return linalg.householder_product(a, a[1] * 0.3)
    end, square, D)
  end)
end

test("the gradient of det where the matrix is singular", function()
  local A = ml.tensor({ { 1, 2 }, { 2, 4 } }, { dtype = "float64", requires_grad = true })
  expect.near(A:det():item(), 0)
  expect.near(ml.grad(A:det(), A):tolist(), { { 4, -2 }, { -2, 1 } }, 1e-12)
end)

test("singular and indefinite matrices are errors that name the batch entry", function()
  local A = ml.stack { ml.eye(2), ml.eye(2), ml.ones(2, 2) }
  expect.error(function() linalg.inv(A) end, "inverse: the matrix is singular %(batch entry 3%)")
  expect.error(function() ml.inverse(ml.ones(2, 2)) end, "the matrix is singular: U%(2, 2%) is zero")
  expect.error(function() linalg.solve(A, ml.ones(2, 1)) end, "linalg.solve: the matrix is singular %(batch entry 3%)")
  expect.error(function() linalg.lu_factor(A) end, "linalg.lu_factor: .*batch entry 3")
  expect.error(function() linalg.cholesky(ml.stack { ml.eye(2), -ml.eye(2) }) end,
    "cholesky: the matrix is not positive definite %(batch entry 2%): its leading minor of order 1")
  expect.error(function() linalg.ldl_factor(ml.zeros(2, 2)) end, "linalg.ldl_factor: the matrix is singular")
  local _, info = linalg.inv_ex(A)
  expect.equal(info:tolist(), { 0, 0, 2 })
  _, info = linalg.solve_ex(A, ml.ones(2, 1))
  expect.equal(info:tolist(), { 0, 0, 2 })
  _, info = linalg.cholesky_ex(ml.stack { ml.eye(2), -ml.eye(2) })
  expect.equal(info:tolist(), { 0, 1 })
  expect.equal(linalg.cond(A, 1):tolist(), { 1, 1, math.huge })
end)

test("norms of matrices: dims and keepdim", function()
  local A = ml.arange(1, 24):to("float64"):reshape(2, 3, 4)
  for _, ord in ipairs { 1, -1, 2, -2, math.huge, "fro", "nuc" } do
    local plain = linalg.matrix_norm(A, ord)
    expect.equal(tostring(linalg.matrix_norm(A, ord, { -2, -1 }, true).shape), "(2, 1, 1)")
    near(linalg.matrix_norm(A, ord, { 2, -1 }, true):reshape(2), plain, 1e-12, tostring(ord))
    near(linalg.matrix_norm(A:transpose(1, 3), ord, { 2, 1 }):reshape(2), plain, 1e-9, tostring(ord))
    near(linalg.norm(A, ord, { 2, 3 }), plain, 1e-12, tostring(ord))
  end
  expect.near(linalg.norm(A):item(), 70, 1e-12)
  expect.equal(linalg.matrix_norm(A:float(), "fro", { 2, 3 }, false, "float64").dtype, "float64")
  expect.error(function() linalg.matrix_norm(A, 1, { 2, 2 }) end, "matrix_norm")
end)

test("shapes, dtypes and values that do not fit are errors", function()
  expect.error(function() linalg.inv(ml.ones(2, 3)) end, "inverse: A has shape %(2, 3%), square")
  expect.error(function() linalg.eigvals(ml.ones(3)) end, "linalg.eigvals: A has shape %(3,%)")
  expect.error(function() ml.det(ml.ones(3)) end, "det: A has shape %(3,%)")
  expect.error(function() linalg.inv(ml.ones(2, 2, { dtype = "int64" })) end, "int64")
  expect.error(function() linalg.solve(ml.eye(2), ml.ones(3, 1)) end, "B has shape %(3, 1%)")
  expect.error(function() linalg.solve(ml.eye(2), ml.ones(2, 1, { dtype = "float64" })) end, "dtype")
  expect.error(function() linalg.svd(ml.full({ 2, 2 }, math.huge)) end, "infinities or NaN")
  expect.error(function() linalg.eig(ml.full({ 2, 2 }, 0 / 0)) end, "infinities or NaN")
  expect.error(function() linalg.qr(ml.eye(2), "full") end, "mode")
  expect.error(function() linalg.eigh(ml.eye(2), "X") end, "UPLO")
  expect.error(function() linalg.lstsq(ml.eye(2), ml.eye(2), nil, "qr") end, "driver")
  expect.error(function() linalg.matrix_norm(ml.eye(2), "l2") end, "ord")
  expect.error(function() linalg.matrix_norm(ml.eye(2), 3) end, "ord")
  expect.error(function() linalg.norm(ml.ones(2, 2, 2), 2) end, "one dim or two")
  expect.error(function() linalg.lu_factor(ml.eye(2), false) end, "pivot")
  local wrong = ml.tensor({ 1, 5 }, { dtype = "int32" })
  expect.error(function() ml.lu_unpack(ml.eye(2), wrong) end, "pivot 5")
  expect.error(function() linalg.lu_solve(ml.eye(2), wrong, ml.eye(2)) end, "pivot 5")
  expect.error(function() linalg.ldl_solve(ml.eye(2), wrong, ml.eye(2)) end, "pivot 5")
  expect.error(function() linalg.ldl_solve(ml.eye(2), ml.tensor({ 1, -1 }, { dtype = "int32" }), ml.eye(2)) end, "pairs")
  expect.error(function() ml.trace(ml.ones(3)) end, "trace: x has shape")
  expect.error(function() ml.tensordot(ml.ones(2, 3), ml.ones(2, 3), 1) end, "tensordot: the sizes to sum over differ")
  expect.error(function() ml.cross(ml.ones(2), ml.ones(2)) end, "size 3")
  expect.error(function() linalg.multi_dot { ml.ones(2, 3), ml.ones(2, 3) } end, "inner sizes differ")
end)

test("empty matrices and batches", function()
  expect.equal(ml.det(ml.ones(0, 0)):item(), 1)
  expect.equal(tostring(linalg.inv(ml.ones(0, 3, 3)).shape), "(0, 3, 3)")
  expect.equal(tostring(linalg.solve(ml.ones(2, 0, 0), ml.ones(2, 0, 4)).shape), "(2, 0, 4)")
  local U, S, Vh = linalg.svd(ml.ones(0, 3))
  expect.equal({ tostring(U.shape), tostring(S.shape), tostring(Vh.shape) }, { "(0, 0)", "(0,)", "(3, 3)" })
  expect.equal(Vh:tolist(), ml.eye(3):tolist())
  local Q, R = linalg.qr(ml.ones(3, 0), "complete")
  expect.equal(Q:tolist(), ml.eye(3):tolist())
  expect.equal(tostring(R.shape), "(3, 0)")
  expect.equal(tostring(linalg.pinv(ml.ones(0, 3)).shape), "(3, 0)")
  expect.equal(tostring(linalg.eigvals(ml.ones(2, 0, 0)).shape), "(2, 0)")
  expect.equal(linalg.matrix_rank(ml.ones(2, 0, 3)):tolist(), { 0, 0 })
  expect.equal(tostring(linalg.cholesky(ml.ones(0, 0)).shape), "(0, 0)")
  expect.equal(tostring(ml.matrix_exp(ml.ones(0, 2, 2)).shape), "(0, 2, 2)")
end)

test("einsum: equations", function()
  local a, b = ml.arange(1, 6):reshape(2, 3), ml.arange(1, 12):reshape(3, 4)
  expect.equal(ml.einsum("ij,jk", a, b):tolist(), a:matmul(b):tolist())
  expect.equal(ml.einsum(" i j , j k -> k i ", { a, b }):tolist(), a:matmul(b):t():tolist())
  expect.equal(ml.einsum("ij->", a):item(), 21)
  expect.equal(ml.einsum("...j->...", a):tolist(), { 6, 15 })
  expect.equal(ml.einsum("ij,ij->ij", a, a):tolist(), (a * a):tolist())
  expect.equal(ml.einsum("i...->...", a):tolist(), { 5, 7, 9 })
  expect.equal(ml.einsum("ij,kj->ik", a, ml.ones(4, 1, { dtype = a.dtype })):tolist(),
    { { 6, 6, 6, 6 }, { 15, 15, 15, 15 } })
  expect.equal(ml.einsum("iii->i", ml.arange(1, 8):reshape(2, 2, 2)):tolist(), { 1, 8 })
  expect.equal(ml.einsum("bA,Ac", ml.ones(2, 3), ml.ones(3, 4)):tolist(), ml.full({ 2, 4 }, 3.0):tolist())
  expect.equal(tostring(ml.einsum("ij,jk->ik", ml.ones(2, 0), ml.ones(0, 3)).shape), "(2, 3)")
end)

test("einsum: errors", function()
  local a = ml.ones(2, 3)
  expect.error(function() ml.einsum("ij,jk", a) end, "2 operands, and 1 came")
  expect.error(function() ml.einsum("ijk", a) end, "operand 1 has shape %(2, 3%)")
  expect.error(function() ml.einsum("ij,ij", a, a:t()) end, "i has size 2 in one operand and 3")
  expect.error(function() ml.einsum("ii", a) end, "the sizes of i differ")
  expect.error(function() ml.einsum("ij->k", a) end, "k of the result is in no operand")
  expect.error(function() ml.einsum("ij->ii", a) end, "i occurs twice in the result")
  expect.error(function() ml.einsum("i1->i", a) end, "in the equation")
  expect.error(function() ml.einsum("......->", a) end, "second")
  expect.error(function() ml.einsum("ij->i->j", a) end, "in the equation")
end)

test("cdist agrees between its ways, and by rows", function()
  ml.manual_seed(2)
  local a, b = ml.randn(40, 6, { dtype = "float64" }), ml.randn(30, 6, { dtype = "float64" })
  local direct = ml.cdist(a, b, 2, "donot_use_mm_for_euclid_dist")
  near(ml.cdist(a, b), direct, 1e-12)
  expect.equal(ml.cdist(a, a):diagonal():amax():item() < 1e-6, true)
  expect.equal(tostring(ml.cdist(ml.ones(0, 2), ml.ones(3, 2)).shape), "(0, 3)")
  expect.equal(ml.cdist(ml.ones(2, 0), ml.ones(3, 0)):amax():item(), 0)
  expect.error(function() ml.cdist(a, b, -1) end, "p is %-1")
  expect.error(function() ml.cdist(a, b, 2, "mm") end, "compute_mode")
end)

each_dtype("svd_lowrank and pca_lowrank of matrices of low rank", function(dtype, tolerance)
  for _, shape in ipairs { { 12, 7 }, { 7, 12 } } do
    local A = random({ shape[1], 2 }, dtype):matmul(random({ 2, shape[2] }, dtype))
    local U, S, V = ml.svd_lowrank(A, 3)
    near((U * S:unsqueeze(-2)):matmul(adjoint(V)), A, tolerance * 100)
    near(S:narrow(1, 1, 2), linalg.svdvals(A):narrow(1, 1, 2), tolerance * 100)
    U, S, V = ml.svd_lowrank(A, 2, 2, A * 0.5)
    near((U * S:unsqueeze(-2)):matmul(adjoint(V)), A * 0.5, tolerance * 100)
    U, S, V = ml.pca_lowrank(A, 3)
    near((U * S:unsqueeze(-2)):matmul(adjoint(V)), A - A:mean(1, true), tolerance * 100)
  end
  expect.error(function() ml.svd_lowrank(ml.ones(3, 3), 4) end, "q is 4")
end)

test("beta 0 does not read the input", function()
  local nan = ml.full({ 2 }, 0 / 0)
  expect.equal(ml.addmv(nan, ml.ones(2, 3), ml.ones(3), 0):tolist(), { 3, 3 })
  expect.equal(ml.addr(nan, ml.ones(2), ml.ones(2), 0, 2):tolist(), { { 2, 2 }, { 2, 2 } })
  local x = ml.ones(2)
  expect.equal(x:addmv_(ml.ones(2, 3), ml.ones(3)):tolist(), { 4, 4 })
  expect.equal(x:tolist(), { 4, 4 })
end)

test("matrix_exp of large, nilpotent and bad matrices", function()
  local N = ml.tensor { { 0, 1e4 }, { 0, 0 } }
  expect.near(ml.matrix_exp(N):tolist(), { { 1, 1e4 }, { 0, 1 } }, 1e-5)
  expect.near(ml.matrix_exp(ml.eye(2, { dtype = "float64" }) * 100):diagonal():log():tolist(), { 100, 100 }, 1e-12)
  local bad = ml.matrix_exp(ml.full({ 2, 2 }, math.huge))
  expect.truthy(bad:isnan():all():item())
end)

test("einsum with lists of labels", function()
  local a, b = ml.randn(2, 3), ml.randn(3, 4)
  local product = a:matmul(b):tolist()
  expect.equal(ml.einsum(a, { 1, 2 }, b, { 2, 3 }, { 1, 3 }):tolist(), product)
  expect.equal(ml.einsum(a, { 1, 2 }, b, { 2, 30 }):tolist(), product)
  expect.equal(ml.einsum(a, { 52, 51 }):tolist(), a:t():tolist())
  local batch = ml.randn(5, 2, 3)
  expect.equal(ml.einsum(batch, { "...", 2 }, { 2, "..." }):tolist(), batch:permute(3, 1, 2):tolist())
  local out = ml.empty(2, 4)
  ml.einsum(a, { 1, 2 }, b, { 2, 3 }, { 1, 3 }, { out = out })
  expect.equal(out:tolist(), product)
  expect.error(function() ml.einsum(a, { 0, 1 }) end, "einsum: a label is an integer from 1 to 52")
  expect.error(function() ml.einsum(a, { 1, "x" }) end, "einsum: a label is an integer")
  expect.error(function() ml.einsum(a, b) end, "einsum: a list of labels is expected after each operand")
  expect.error(function() ml.einsum(a, { 1, 2 }, b) end, "einsum: a list of labels is expected")
end)

test("tensordot with a pair of lists", function()
  local x, y = ml.randn(2, 3, 4), ml.randn(4, 5, 2)
  local want = ml.tensordot(x, y, { 3, 1 }, { 1, 3 }):tolist()
  expect.equal(ml.tensordot(x, y, { { 3, 1 }, { 1, 3 } }):tolist(), want)
  expect.equal(ml.tensordot(x, y, { dims = { { 3, 1 }, { 1, 3 } } }):tolist(), want)
  expect.equal(ml.tensordot(x, ml.ones(3, 4, 5), { dims = 2 }):size(2), 5)
  expect.error(function() ml.tensordot(x, y, { { 1 }, { 2 }, { 3 } }) end, "two lists of dims")
end)

test("drivers of cuSOLVER are refused", function()
  expect.error(function() linalg.svd(ml.eye(2), true, "gesvd") end, 'linalg.svd: driver "gesvd"')
  expect.error(function() linalg.svdvals(ml.eye(2), { driver = "gesvdj" }) end, "linalg.svdvals: driver")
end)

test("tolerances as tensors", function()
  local A = ml.stack { ml.diag(ml.tensor { 4.0, 1.0 }), ml.diag(ml.tensor { 4.0, 1.0 }) }
  expect.equal(linalg.matrix_rank(A, ml.tensor { 0.5, 2 }):tolist(), { 2, 1 })
  expect.equal(linalg.matrix_rank(A, { rtol = ml.tensor { 0.5, 0.1 } }):tolist(), { 1, 2 })
  expect.near(linalg.pinv(A, ml.tensor { 0.5, 2 }):tolist(),
    { { { 0.25, 0 }, { 0, 1 } }, { { 0.25, 0 }, { 0, 0 } } }, 1e-6)
  expect.equal(tostring(linalg.pinv(ml.zeros(0, 3, 2), ml.tensor(0.1)).shape), "(0, 2, 3)")
  expect.error(function() linalg.pinv(A, ml.ones(3)) end, "linalg.pinv")
end)

-- x, and the same numbers in other layouts.
local function layouts(x)
  local wide = ml.zeros { x.shape[1], 2 * x.shape[2], dtype = x.dtype }
  local spread = wide[{ {}, { 1, 2 * x.shape[2], 2 } }]
  spread:copy_(x)
  return { x, x:t():contiguous():t(), spread }
end

test("products of integers and 16-bit floats of any size and layout", function()
  for _, sizes in ipairs { { 3, 5, 2 }, { 70, 300, 37 }, { 130, 65, 1 }, { 1, 65, 130 }, { 9, 1, 40 }, { 1, 3000, 1 } } do
    local m, k, n = table.unpack(sizes)
    ml.manual_seed(m)
    local a, b = ml.randint(-9, 9, { m, k }):to "float64", ml.randint(-9, 9, { k, n }):to "float64"
    local c = ml.randint(-9, 9, { m, n }):to "float64"
    local wanted, more = ml.mm(a, b), ml.addmm(c, a, b, 2, -3)
    for _, dtype in ipairs { "int64", "int32", "int8", "bfloat16", "float16" } do
      -- Small whole numbers are exact in each type up to the rounding, or wrapping, of the result.
      for _, left in ipairs(layouts(a:to(dtype))) do
        for _, right in ipairs(layouts(b:to(dtype))) do
          expect.equal(ml.mm(left, right):tolist(), wanted:to "int64":to(dtype):tolist())
          local sum = ml.addmm(c:to(dtype), left, right, 2, -3)
          expect.equal(sum:tolist(), more:to "int64":to(dtype):tolist())
        end
      end
    end
  end
end)

test("batches of bfloat16 matrices", function()
  ml.manual_seed(1)
  for _, sizes in ipairs { { 40, 16, 16, 16 }, { 3, 2, 5, 4 }, { 5, 60, 70, 80 } } do
    local count, m, k, n = table.unpack(sizes)
    local a, b = ml.randint(-9, 9, { count, m, k }):to "float32", ml.randint(-9, 9, { count, k, n }):to "float32"
    local wanted = ml.bmm(a, b):to "bfloat16":tolist()
    local half_a, half_b = a:to "bfloat16", b:to "bfloat16"
    local flipped = half_b:transpose(2, 3):contiguous():transpose(2, 3)
    expect.equal(ml.bmm(half_a, half_b):tolist(), wanted)
    expect.equal(ml.bmm(half_a, flipped):tolist(), wanted)
    expect.equal(ml.bmm(half_a[{ { 1, 1 } }]:expand(count, m, k), half_b):tolist(),
      ml.bmm(a[{ { 1, 1 } }]:expand(count, m, k), b):to "bfloat16":tolist())
  end
end)

each_dtype("factorizations of small and larger matrices, by rows and by columns", function(dtype, tolerance)
  for _, n in ipairs { 1, 2, 5, 8, 16, 17, 40 } do
    local A, B = random({ 3, n, n }, dtype), random({ 3, n, 4 }, dtype)
    local flipped = adjoint(adjoint(A):contiguous())
    for _, x in ipairs { A, flipped } do
      local P, L, U = linalg.lu(x)
      near(P:matmul(L):matmul(U), A, tolerance * 10, "lu")
      -- Pivots of complex numbers are the largest sums of parts.
      expect.truthy(L:abs():amax():item() <= (dtype:find "^complex" and 1.42 or 1), "pivots")
      local off = (eye(n, A) * n):expand(3, n, n)
      local regular = x + off
      near(regular:matmul(linalg.solve(regular, B)), B, tolerance * 10, "solve")
      near(regular:matmul(linalg.inv(regular)), eye(n, A):expand(3, n, n), tolerance * 10, "inverse")
      local sign, log = linalg.slogdet(regular / n)
      near(sign * log:exp():to(A.dtype), linalg.det(regular / n), tolerance * 100, "det")
      for _, upper in ipairs { true, false } do
        local triangle = upper and ml.triu(regular) or ml.tril(regular)
        near(triangle:matmul(linalg.solve_triangular(regular, B, upper)), B, tolerance * 100, "triangular")
        local positive = x:matmul(adjoint(x)) + off
        local factor = linalg.cholesky(positive, upper)
        near(upper and adjoint(factor):matmul(factor) or factor:matmul(adjoint(factor)), positive,
          tolerance * 10, "cholesky")
        local LD, pivots = linalg.ldl_factor(positive, true)
        near(positive:matmul(linalg.ldl_solve(LD, pivots, B, true)), B, tolerance * 100, "ldl")
        expect.equal((upper and ml.tril(factor, -1) or ml.triu(factor, 1)):abs():amax():item(), 0)
      end
    end
  end
end)

each_dtype("singular and indefinite matrices say where", function(dtype)
  for _, n in ipairs { 4, 20 } do
    local A = ml.eye(n):to(dtype)
    A[{ 3, 3 }] = 0
    local _, _, info = linalg.lu_factor_ex(A)
    expect.equal(info:item(), 3)
    expect.equal(linalg.det(A):abs():item(), 0)
    A[{ 3, 3 }] = -1
    for _, upper in ipairs { true, false } do
      _, info = linalg.cholesky_ex(A, upper)
      expect.equal(info:item(), 3)
    end
  end
end)

each_dtype("qr of small and larger matrices of any magnitude", function(dtype, tolerance)
  local tiny = dtype:find "64$" and dtype ~= "complex64" and 1e-300 or 1e-36
  for _, shape in ipairs { { 1, 1 }, { 8, 8 }, { 16, 3 }, { 3, 16 }, { 20, 8 }, { 2, 5, 4 } } do
    for _, scale in ipairs { 1, tiny, 1 / tiny } do
      local A = random(shape, dtype)
      for _, mode in ipairs { "reduced", "complete" } do
        local Q, R = linalg.qr(A * scale, mode)
        near(Q:matmul(R / scale), A, tolerance * 10, "product")
        near(adjoint(Q):matmul(Q), eye(Q:size(-1), A):expand(adjoint(Q):matmul(Q).shape), tolerance * 10, "Q")
      end
    end
  end
  local Q, R = linalg.qr(ml.zeros(3, 2, { dtype = dtype }))
  near(Q, ml.eye(3, 2):to(dtype), 0, "no reflection")
  near(R, ml.zeros(2, 2, { dtype = dtype }), 0, "zeros")
end)

each_dtype("spectra of small and larger matrices of any magnitude", function(dtype, tolerance)
  local tiny = TOLERANCE[dtype] < 1e-6 and 1e-300 or 1e-36
  for _, shape in ipairs { { 1, 1 }, { 8, 8 }, { 2, 16, 3 }, { 3, 16 }, { 20, 8 }, { 2, 5, 4 }, { 40, 40 } } do
    for _, scale in ipairs { 1, tiny, 1 / tiny } do
      local A = random(shape, dtype)
      local values, wanted = linalg.svdvals(A * scale) / scale, select(2, linalg.svd(A, false))
      near(values, wanted, tolerance * 10, "svdvals")
      local square = A:matmul(adjoint(A))
      for _, side in ipairs { "L", "U" } do
        -- What is not read is not looked at.
        local half = (side == "L" and ml.tril(square) or ml.triu(square)) * scale
        local L, V = linalg.eigh(half, side)
        near(square:matmul(V), V * (L / scale):unsqueeze(-2), tolerance * 100, "eigh")
        near(adjoint(V):matmul(V), eye(V:size(-1), A):expand(V.shape), tolerance * 10, "V")
        near(linalg.eigvalsh(half, side), L, tolerance * 10, "eigvalsh")
      end
    end
  end
  local zeros = ml.zeros(3, 3, { dtype = dtype })
  near(linalg.svdvals(zeros), ml.zeros(3):to(linalg.svdvals(zeros).dtype), 0, "zeros")
  near(linalg.eigh(zeros), ml.zeros(3):to(linalg.svdvals(zeros).dtype), 0, "zeros")
end)

test("addr in one op and of products, with numbers of other kinds", function()
  ml.manual_seed(4)
  for _, dtype in ipairs { "float32", "bfloat16", "int64", "int8", "complex64" } do
    local a, b = ml.randint(-9, 9, { 40 }):to(dtype), ml.randint(-9, 9, { 300 }):to(dtype)
    for _, input in ipairs { ml.randint(-9, 9, { 40, 300 }):to(dtype), ml.randint(-9, 9, { 300 }):to(dtype),
      ml.randint(-9, 9, { 300, 40 }):to(dtype):t() } do
      for _, alpha in ipairs { 1, -3, 0.5 } do
        local want = input + ml.outer(a, b) * alpha
        local got = ml.addr(input, a, b, 1, alpha)
        expect.equal(got.dtype, want.dtype)
        local worst = (got - want):abs():amax():item()
        expect.truthy(worst <= (dtype == "bfloat16" and 2 or 0), ("%s, alpha %s: %s"):format(dtype, alpha, worst))
      end
    end
  end
  expect.error(function() ml.addr(ml.ones(3, 2), ml.ones(2), ml.ones(3)) end, "addr: input has shape")
end)

test("cross of any layout and size", function()
  ml.manual_seed(1)
  local a, b = ml.randint(-9, 9, { 2, 3, 50000 }), ml.randint(-9, 9, { 2, 3, 50000 })
  local function wanted(dtype)
    local x, y = a:to(dtype), b:to(dtype)
    local parts = {}
    for k = 1, 3 do
      local i, j = k % 3 + 1, (k + 1) % 3 + 1
      parts[k] = x:select(2, i) * y:select(2, j) - x:select(2, j) * y:select(2, i)
    end
    return ml.stack(parts, 2)
  end
  for _, dtype in ipairs { "float32", "float64", "int64", "int8", "complex64" } do
    local x, y, want = a:to(dtype), b:to(dtype), wanted(dtype)
    expect.truthy(ml.equal(linalg.cross(x, y, 2), want), dtype)
    local rows, other = x:transpose(2, 3):contiguous(), y:transpose(2, 3)
    expect.truthy(ml.equal(linalg.cross(rows, other), want:transpose(2, 3)), dtype .. ", by rows")
    expect.truthy(ml.equal(linalg.cross(x[{ { 1, 1 } }], y[{ { 1, 1 }, {}, { 2, 2 } }], 2),
      linalg.cross(x[{ { 1, 1 } }], y[{ { 1, 1 }, {}, { 2, 2 } }]:expand(1, 3, 50000), 2)), dtype .. ", broadcast")
  end
end)

harness.run()
