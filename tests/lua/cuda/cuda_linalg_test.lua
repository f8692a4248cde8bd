-- tests/lua/cuda/cuda_linalg_test.lua: factorizations on a CUDA device, compared with the CPU where they
-- are unique and put together again where not; errors, batches, views, derivatives. Skips without a
-- device; with MOONLET_CUDA_WITHOUT=cusolver the same must hold.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect
local linalg = ml.linalg

local CUDA = { device = "cuda" }
local DTYPES = { "float32", "float64", "complex64", "complex128" }
local TOLERANCE = { float32 = 1e-4, float64 = 1e-11, complex64 = 1e-4, complex128 = 1e-11 }
-- By what library a batch is done depends on its size and that of the matrices.
local SHAPES = { { 3, 3 }, { 1, 4, 4 }, { 5, 3, 3 }, { 2, 2, 6, 6 }, { 2, 140, 140 } }

local function on_device(name, body)
  test(name, function()
    if not ml.cuda.is_available() then harness.skip "no CUDA device" end
    ml.manual_seed(3)
    body()
  end)
end

local function each_dtype(name, body)
  for _, dtype in ipairs(DTYPES) do
    on_device(name .. ", " .. dtype, function() body(dtype, TOLERANCE[dtype]) end)
  end
end

local function adjoint(x) return x:transpose(-2, -1):conj() end

local function near(got, want, tolerance, what)
  expect.equal(tostring(got.shape), tostring(want.shape), what)
  expect.equal(tostring(got.dtype), tostring(want.dtype), what)
  if want:numel() == 0 then return end
  got, want = got:cpu(), want:cpu()
  if not want:is_floating_point() and not want:is_complex() then
    if not got:equal(want) then error(what .. ": differs", 2) end
    return
  end
  local worst = (got - want):abs():amax():item()
  local size = math.max(1, want:abs():amax():item())
  if not (worst <= tolerance * size) then error(("%s: differs by %g"):format(what, worst), 2) end
end

-- Matrices far from singular, as views of others so that they lie in another order, too.
local function matrices(shape, dtype)
  local n = shape[#shape]
  local x = ml.randn(shape, { dtype = dtype }) / math.sqrt(n) + ml.eye(n):to(dtype) * 3
  return x, x:transpose(-2, -1):contiguous():transpose(-2, -1)
end

-- f on the device gives what it gives on the CPU.
local function agree(what, tolerance, f, ...)
  local host, device = table.pack(...), table.pack(...)
  for i = 1, device.n do device[i] = ml.is_tensor(host[i]) and host[i]:cuda() or host[i] end
  local want = table.pack(f(table.unpack(host, 1, host.n)))
  local got = table.pack(f(table.unpack(device, 1, device.n)))
  for i = 1, want.n do near(got[i], want[i], tolerance, ("%s, result %d"):format(what, i)) end
end

each_dtype("LU, solutions, inverses and determinants", function(dtype, tolerance)
  for _, shape in ipairs(SHAPES) do
    for _, A in ipairs { matrices(shape, dtype) } do
      local what = table.concat(shape, " x ")
      local right = table.move(shape, 1, #shape, 1, {})
      right[#right] = 2
      local B = ml.randn(right, { dtype = dtype })
      agree("lu_factor_ex " .. what, tolerance, linalg.lu_factor_ex, A)
      agree("lu " .. what, tolerance, linalg.lu, A)
      agree("solve_ex " .. what, tolerance, linalg.solve_ex, A, B)
      agree("solve from the right " .. what, tolerance, function(a, b)
        return linalg.solve(a, adjoint(b), false)
      end, A, B)
      agree("inv_ex " .. what, tolerance, linalg.inv_ex, A)
      agree("slogdet " .. what, tolerance, linalg.slogdet, A)
      if shape[#shape] < 100 then agree("det " .. what, tolerance, linalg.det, A) end
    end
  end
end)

each_dtype("LU of matrices that are not square", function(dtype, tolerance)
  for _, shape in ipairs { { 4, 2 }, { 2, 5 }, { 3, 2, 5 }, { 3, 40, 7 } } do
    agree("lu_factor_ex", tolerance, linalg.lu_factor_ex, ml.randn(shape, { dtype = dtype }))
    agree("lu", tolerance, linalg.lu, ml.randn(shape, { dtype = dtype }))
  end
end)

each_dtype("Cholesky factors, of either triangle", function(dtype, tolerance)
  for _, shape in ipairs(SHAPES) do
    local x = matrices(shape, dtype)
    local A = x:matmul(adjoint(x))
    for _, upper in ipairs { false, true } do
      local what = ("cholesky_ex %s %s"):format(table.concat(shape, " x "), upper)
      agree(what, tolerance, linalg.cholesky_ex, A, upper)
      -- Of which the other triangle is not read.
      local half = upper and A:triu() or A:tril()
      agree(what .. ", a triangle", tolerance, linalg.cholesky_ex, half, upper)
    end
  end
end)

each_dtype("triangular matrices", function(dtype, tolerance)
  for _, shape in ipairs { { 3, 3 }, { 4, 5, 5 }, { 2, 2, 3, 3 }, { 2, 300, 300 } } do
    for _, A in ipairs { matrices(shape, dtype) } do
      -- Else ones on the diagonal with so large numbers beside them give huge solutions.
      A = A / 3
      local right = table.move(shape, 1, #shape, 1, {})
      right[#right] = 2
      local B = ml.randn(right, { dtype = dtype })
      for _, upper in ipairs { false, true } do
        for _, unit in ipairs { false, true } do
          agree("solve_triangular", tolerance, function(a, b)
            return linalg.solve_triangular(a, b, upper, true, unit)
          end, A, B)
          agree("solve_triangular from the right", tolerance, function(a, b)
            return linalg.solve_triangular(a, b:transpose(-2, -1), upper, false, unit)
          end, A, B)
        end
      end
    end
  end
end)

on_device("empty batches and matrices", function()
  for _, shape in ipairs { { 0, 0 }, { 0, 3, 3 }, { 2, 0, 0 } } do
    local A = ml.zeros(shape)
    for _, name in ipairs { "lu_factor_ex", "inv_ex", "cholesky_ex", "det", "slogdet" } do
      agree(name, 0, linalg[name], A)
    end
    local right = table.move(shape, 1, #shape, 1, {})
    right[#right] = 2
    agree("solve_ex", 0, linalg.solve_ex, A, ml.zeros(right))
    agree("solve_triangular", 0, linalg.solve_triangular, A, ml.zeros(right), true)
    right[#right] = 0
    agree("solve_ex of nothing", 0, linalg.solve_ex, A, ml.zeros(right))
  end
  agree("lu_factor_ex", 0, linalg.lu_factor_ex, ml.zeros(2, 3, 0))
end)

on_device("singular matrices: the errors and the words of the CPU", function()
  local bad = ml.eye(3):expand(4, 3, 3):clone()
  bad[3][2][2] = 0
  local indefinite = ml.eye(3):expand(4, 3, 3):clone()
  indefinite[4][3][3] = -1
  local one = ml.zeros(2, 2)
  local cases = {
    { linalg.inv, bad }, { linalg.inv, one }, { linalg.lu_factor, bad }, { linalg.solve, bad, ml.ones(4, 3, 1) },
    { linalg.solve, one, ml.ones(2, 1) }, { linalg.cholesky, indefinite }, { linalg.cholesky, one },
  }
  for _, case in ipairs(cases) do
    local f, host, device = case[1], { table.unpack(case, 2) }, {}
    for i, x in ipairs(host) do device[i] = x:cuda() end
    local results = {}
    for i, arguments in ipairs { host, device } do
      results[i] = table.pack(pcall(function() return f(table.unpack(arguments)) end))
      expect.equal(results[i][1], false)
    end
    expect.equal(results[2][2], results[1][2])
  end
  expect.error(function() linalg.inv(bad:cuda()) end, "batch entry 3%): U%(2, 2%) is zero")
  expect.error(function() linalg.cholesky(indefinite:cuda()) end, "minor of order 3 is not positive")
  local inverse, info = linalg.inv_ex(bad:cuda())
  expect.equal(tostring(info:cpu():equal(ml.tensor({ 0, 0, 2, 0 }, { dtype = "int32" }))), "true")
  local lost = inverse:cpu():isnan():flatten(2):all(2)
  expect.equal(lost:equal(ml.tensor { false, false, true, false }), true)
  local X = linalg.solve_ex(bad:cuda(), ml.ones(4, 3, 2):cuda()):cpu()
  expect.equal(X:isnan():flatten(2):all(2):equal(ml.tensor { false, false, true, false }), true)
  agree("det", 0, linalg.det, bad)
  local sign, log = linalg.slogdet(one:cuda())
  expect.equal(sign:item(), 0)
  expect.equal(log:item(), -math.huge)
end)

on_device("nothing waits unless an error may come of it", function()
  if (os.getenv "MOONLET_CUDA_SYNC" or "0") ~= "0" then harness.skip "every kernel is waited for" end
  if (os.getenv "MOONLET_CUDA_WITHOUT" or "") ~= "" then harness.skip "a library is left out" end
  if not ml.cuda.get_device_name():find "mulated" then harness.skip "cuSOLVER may be missing" end
  local A, B = ml.eye(3, CUDA):expand(2, 3, 3):clone(), ml.ones(2, 3, 1, CUDA)
  local before = ml.cuda.wait_count()
  linalg.cholesky_ex(A)
  linalg.lu_factor_ex(A)
  linalg.inv_ex(A)
  linalg.solve_ex(A, B)
  linalg.solve_triangular(A, B, true)
  linalg.det(A)
  linalg.slogdet(A)
  expect.equal(ml.cuda.wait_count(), before)
  linalg.inv(A)
  expect.equal(ml.cuda.wait_count(), before + 1)
end)

on_device("pivots that are none", function()
  agree("lu_unpack", 0, ml.lu_unpack, ml.randn(2, 3, 3), ml.tensor({ { 2, 3, 3 }, { 3, 2, 3 } }, { dtype = "int32" }))
  expect.error(function()
    ml.lu_unpack(ml.randn(3, 3):cuda(), ml.tensor({ 9, 2, 3 }, { dtype = "int32", device = "cuda" }))
    ml.cuda.synchronize()
  end, "rows from 1 to 3 are expected")
end)

on_device("out forms into memory of another order", function()
  local A = matrices({ 3, 4, 4 }, "float32")
  local out = ml.empty(4, 4, 3, CUDA):permute(3, 2, 1)
  linalg.inv(A:cuda(), { out = out })
  near(out, linalg.inv(A), 1e-5, "inv")
  local B = ml.randn(3, 4, 2)
  out = ml.empty(3, 2, 4, CUDA):transpose(2, 3)
  linalg.solve(A:cuda(), B:cuda(), { out = out })
  near(out, linalg.solve(A, B), 1e-5, "solve")
end)

local WIDTHS = { { 40, 5, 3 }, { 3, 2, 32, 32 }, { 3, 4, 33 }, { 6, 2, 7 }, { 2, 1, 1 }, { 4, 4 },
  { 6, 3 }, { 3, 6 }, { 1, 4 }, { 4, 1 }, { 3, 5, 4 }, { 2, 2, 3, 5 }, { 2, 40, 33 }, { 2, 33, 40 } }

local function is_unitary(what, Q, tolerance)
  local n = Q:size(-1)
  near(adjoint(Q):matmul(Q), ml.eye(n, CUDA):to(Q.dtype):expand(adjoint(Q):matmul(Q).shape), tolerance, what)
end

each_dtype("QR puts the matrix together", function(dtype, tolerance)
  for _, shape in ipairs(WIDTHS) do
    local A = ml.randn(shape, { dtype = dtype })
    for _, mode in ipairs { "reduced", "complete" } do
      local Q, R = linalg.qr(A:cuda(), mode)
      local like_Q, like_R = linalg.qr(A, mode)
      expect.equal(tostring(Q.shape), tostring(like_Q.shape))
      expect.equal(tostring(R.shape), tostring(like_R.shape))
      near(Q:matmul(R), A, tolerance, mode)
      is_unitary(mode, Q, tolerance)
      expect.equal(R:triu():equal(R), true)
    end
    local _, R = linalg.qr(A:cuda(), "r")
    local _, want = linalg.qr(A:cuda(), "reduced")
    near(R, want:cpu(), tolerance, "r")
    local a, tau = ml.geqrf(A:cuda())
    if shape[#shape - 1] >= shape[#shape] then
      local Q = linalg.householder_product(a, tau)
      near(Q:matmul(a:triu()[{ "...", { 1, shape[#shape] }, {} }]), A, tolerance, "geqrf")
    end
  end
end)

each_dtype("singular values and vectors", function(dtype, tolerance)
  for _, shape in ipairs(WIDTHS) do
    local A = ml.randn(shape, { dtype = dtype })
    local k = math.min(shape[#shape], shape[#shape - 1])
    for _, full in ipairs { false, true } do
      local U, S, Vh = linalg.svd(A:cuda(), full)
      local like_U, want, like_Vh = linalg.svd(A, full)
      expect.equal(tostring(U.shape), tostring(like_U.shape))
      expect.equal(tostring(Vh.shape), tostring(like_Vh.shape))
      near(S, want, tolerance, "values")
      local first, last = U:narrow(-1, 1, k), Vh:narrow(-2, 1, k)
      near(first:matmul(S:unsqueeze(-1) * last), A, tolerance, "svd")
      is_unitary("U", U, tolerance)
      is_unitary("Vh", adjoint(Vh), tolerance)
    end
    agree("svdvals", tolerance, linalg.svdvals, A)
    agree("pinv", tolerance * 10, linalg.pinv, A)
    agree("pinv of low rank", tolerance * 10, function(x)
      return linalg.pinv(x:narrow(-1, 1, 1):matmul(x:narrow(-2, 1, 1)))
    end, A)
    agree("matrix_rank", 0, linalg.matrix_rank, A)
  end
end)

-- Batches of matrices above 32 x 32 are the work of our own kernel (Jacobi's rotations).
local function puts_together(what, A, full, tolerance)
  local m, n = A:size(-2), A:size(-1)
  local k = math.min(m, n)
  local U, S, Vh = linalg.svd(A:cuda(), full)
  near(S, linalg.svdvals(A), tolerance, what .. ": values")
  near(U:narrow(-1, 1, k):matmul(S:unsqueeze(-1) * Vh:narrow(-2, 1, k)), A, tolerance, what)
  is_unitary(what .. ": U", U, tolerance)
  is_unitary(what .. ": Vh", adjoint(Vh), tolerance)
end

each_dtype("singular values in batches: low ranks, equal values, all sizes of numbers", function(dtype, tolerance)
  local function random(...) return ml.randn({ ... }, { dtype = dtype }) end
  -- They share the kernel with wide ones of few columns, which the emulation is quick with.
  local low = random(2, 36, 3):matmul(random(2, 3, 8))
  for _, full in ipairs { false, true } do
    puts_together("rank 3", low, full, tolerance)
    puts_together("rank 3, wide", low:transpose(-2, -1), full, tolerance)
    puts_together("zeros beside others", ml.stack { ml.zeros(35, 7):to(dtype), random(35, 7) }, full, tolerance)
  end
  puts_together("equal values", linalg.qr(random(2, 34, 34)), true, tolerance)
  puts_together("a column alone", random(3, 70, 1), true, tolerance)
  puts_together("two of 9 columns", ml.cat({ random(2, 34, 2), ml.zeros(2, 34, 7):to(dtype) }, 3), true, tolerance)
  -- Squares of the elements would overflow, or vanish.
  for _, size in ipairs { 1e30, 1e-30 } do
    local A = random(2, 34, 6)
    near(linalg.svdvals((A * size):cuda()) / size, linalg.svdvals(A), tolerance, "values times " .. size)
    local U = linalg.svd((A * size):cuda(), false)
    is_unitary("vectors times " .. size, U, tolerance)
  end
end)

on_device("singular values in batches repeat bit by bit, alone and among others", function()
  local A = ml.randn(3, 40, 9, CUDA)
  local _, S = linalg.svd(A, false)
  local _, again = linalg.svd(A:clone(), false)
  local _, last = linalg.svd(A:narrow(1, 2, 2):contiguous(), false)
  expect.equal(S:equal(again), true)
  expect.equal(S:narrow(1, 2, 2):equal(last), true)
  -- Small values beside large ones keep their digits: rotations do not mix them.
  local scales = ml.logspace(0, -12, 13, { dtype = "float64" })
  local B = linalg.qr(ml.randn(2, 33, 13, { dtype = "float64" })) * scales
  local values = linalg.svdvals(B:cuda()):cpu()
  expect.equal(((values - scales):abs() / scales):amax():item() < 1e-9, true)
end)

each_dtype("eigenvalues and vectors of Hermitian matrices", function(dtype, tolerance)
  for _, shape in ipairs(SHAPES) do
    local x = ml.randn(shape, { dtype = dtype })
    local A = x + adjoint(x)
    for _, triangle in ipairs { "L", "U" } do
      local half = triangle == "U" and A:triu() or A:tril()
      local L, V = linalg.eigh(half:cuda(), triangle)
      near(L, (linalg.eigh(A)), tolerance, "values")
      near((V * L:unsqueeze(-2)):matmul(adjoint(V)), A, tolerance, "eigh")
      is_unitary("V", V, tolerance)
      agree("eigvalsh", tolerance, function(h) return linalg.eigvalsh(h, triangle) end, half)
    end
    local square = x:matmul(adjoint(x))
    local root = linalg.matrix_sqrth(square:cuda())
    near(root:matmul(root), square, tolerance * 10, "matrix_sqrth")
  end
end)

on_device("matrices without rows, columns or entries", function()
  for _, shape in ipairs { { 0, 3 }, { 3, 0 }, { 0, 3, 3 }, { 2, 3, 0 }, { 2, 0, 0 } } do
    local A = ml.zeros(shape)
    for _, mode in ipairs { "reduced", "complete", "r" } do
      agree("qr", 0, function(x) return linalg.qr(x, mode) end, A)
    end
    agree("svd", 0, linalg.svd, A)
    agree("pinv", 0, linalg.pinv, A)
    if shape[#shape] == shape[#shape - 1] then agree("eigh", 0, linalg.eigh, A) end
  end
end)

on_device("infinities and NaN are errors", function()
  local A = ml.eye(3):expand(2, 3, 3):clone()
  for _, wrong in ipairs { math.huge, 0 / 0 } do
    A[2][1][3] = wrong
    for _, name in ipairs { "svd", "svdvals", "eigh", "pinv" } do
      local x = name == "eigh" and A:transpose(2, 3):contiguous() or A
      expect.error(function() return linalg[name](x:cuda()) end, "holds infinities or NaN")
    end
  end
end)

-- The sum of what f makes, weighted, and the gradient of that.
local function gradient(f, x, device)
  x = x:to(device):detach():requires_grad_()
  local y = f(x)
  local weight = ml.arange(1, y:numel()):to(device):view(y.shape):to(y.dtype)
  local sum = (y * weight):sum()
  sum:backward()
  return x.grad
end

on_device("derivatives", function()
  local A = matrices({ 2, 3, 3 }, "float64")
  local positive = A:matmul(adjoint(A))
  local B = ml.randn(2, 3, 2, { dtype = "float64" })
  local functions = {
    inv = linalg.inv, det = linalg.det,
    slogdet = function(x) return select(2, linalg.slogdet(x)) end,
    solve = function(x) return linalg.solve(x, B:to(x.device)) end,
    triangular = function(x) return linalg.solve_triangular(x, B:to(x.device), true) end,
    cholesky = function(x) return linalg.cholesky(x) end,
    lu = function(x) return linalg.lu_factor(x) end,
    svdvals = linalg.svdvals, pinv = linalg.pinv,
    eigvalsh = function(x) return linalg.eigvalsh(x) end,
    qr = function(x)
      local Q, R = linalg.qr(x)
      -- Whatever the signs are.
      return Q:square():matmul(R:square())
    end,
    svd = function(x)
      local U, S, Vh = linalg.svd(x)
      return U:square() * S:unsqueeze(-2) + Vh:square()
    end,
  }
  for name, f in pairs(functions) do
    local x = name == "cholesky" and positive or A
    near(gradient(f, x, "cuda"), gradient(f, x, "cpu"), 1e-9, name)
  end
end)

harness.run()
