-- stdlib/torch7/lapack.lua: torch.gesv to torch.ormqr. Matrices that LAPACK would write column by
-- column lie in memory that way, so they are not contiguous.

local calls = require "moonlet.torch7.calls"
local core = require "moonlet.torch7.core"
local ml = require "moonlet"

local M, into, fail = core.methods, core.into, core.fail
local classes = ml._classes
local linalg = ml.linalg
local real = core.of("float32", "float64")

local function define(name, spec, f)
  calls.define(real, name, spec, f, { function_only = true })
end

local function check_matrix(x, name)
  if core.dim(x) ~= 2 then
    fail("torch.%s: a 2D tensor is expected, got %dD", name, core.dim(x))
  end
end

local function check_square(x, name)
  check_matrix(x, name)
  if M.size(x, 1) ~= M.size(x, 2) then
    fail("torch.%s: a square matrix is expected, got %dx%d", name, M.size(x, 1), M.size(x, 2))
  end
end

local function check_option(value, options, name)
  for option in options:gmatch "." do
    if value == option then return end
  end
  fail("torch.%s: one of %s is expected, got '%s'", name, options, value)
end

-- A native matrix into r, column by column where r may lie so.
local function columns(r, y, mt)
  local turned = M.contiguous(M.transpose(core.as(y, mt), 1, 2))
  if r == nil then return M.transpose(turned, 1, 2) end
  local rows, count = M.size(y, 1), M.size(y, 2)
  local is_view = not M.is_contiguous(r) and M.dim(r) == 2
    and M.size(r, 1) == rows and M.size(r, 2) == count
  if is_view then return M.copy_(r, M.transpose(turned, 1, 2)) end
  M.resize_(r, { count, rows })
  M.set_(r, M.storage(r), M.storage_offset(r), { rows, count }, { 1, rows })
  return M.copy_(r, M.transpose(turned, 1, 2))
end

local function as_matrix(x) return core.dim(x) == 1 and M.reshape(x, { -1, 1 }) or x end

-- --- systems ------------------------------------------------------------------------------------

define("gesv", "r r t t|t t", {
  function(mt, r, s, b, a)
    check_square(a, "gesv")
    local lu = linalg.lu_factor(a)
    return columns(r, linalg.solve(a, as_matrix(b)), mt), columns(s, lu, mt)
  end,
  function(mt, b, a)
    check_square(a, "gesv")
    return columns(nil, linalg.solve(a, as_matrix(b)), mt), columns(nil, linalg.lu_factor(a), mt)
  end,
})

local function least_squares(mt, r, s, b, a)
  check_matrix(a, "gels")
  local x, factors = linalg.lstsq(a, as_matrix(b)), M.geqrf(a)
  return columns(r, x, mt), columns(s, factors, mt)
end

define("gels", "r r t t|t t", {
  least_squares, function(mt, b, a) return least_squares(mt, nil, nil, b, a) end,
})

local function triangular(mt, r, s, b, a, side, turned, unit)
  check_square(a, "trtrs")
  check_option(side, "UL", "trtrs")
  check_option(turned, "NT", "trtrs")
  check_option(unit, "NU", "trtrs")
  local upper, matrix = side == "U", a
  if turned == "T" then upper, matrix = not upper, M.transpose(a, 1, 2) end
  local x = linalg.solve_triangular(matrix, as_matrix(b),
    { upper = upper, unitriangular = unit == "U" })
  return columns(r, x, mt), columns(s, M.clone(a), mt)
end

define("trtrs", "r r t t s=U s=N s=N|t t s=U s=N s=N", {
  triangular, function(mt, ...) return triangular(mt, nil, nil, ...) end,
})

define("inverse", "r t|t", {
  function(mt, r, a)
    check_square(a, "inverse")
    return columns(r, linalg.inv(a), mt)
  end,
  function(mt, a)
    check_square(a, "inverse")
    return columns(nil, linalg.inv(a), mt)
  end,
})

-- --- Cholesky -----------------------------------------------------------------------------------

-- The factor of the symmetric matrix whose triangle `side` is read.
local function cholesky(a, side, name)
  check_square(a, name)
  check_option(side, "UL", name)
  local lower = side == "L" and M.tril(a) or M.transpose(M.triu(a), 1, 2)
  local whole = M.add(lower, M.transpose(M.tril(lower, -1), 1, 2))
  local factor = linalg.cholesky(whole)
  return side == "L" and factor or M.transpose(factor, 1, 2)
end

define("potrf", "r t s=U|t s=U", {
  function(mt, r, a, side) return columns(r, cholesky(a, side, "potrf"), mt) end,
  function(mt, a, side) return columns(nil, cholesky(a, side, "potrf"), mt) end,
})

local function cholesky_solve(mt, r, b, factor, side)
  check_square(factor, "potrs")
  check_option(side, "UL", "potrs")
  return columns(r, M.cholesky_solve(as_matrix(b), factor, side == "U"), mt)
end
define("potrs", "r t t s=U|t t s=U", {
  cholesky_solve, function(mt, ...) return cholesky_solve(mt, nil, ...) end,
})

local function cholesky_inverse(mt, r, factor, side)
  check_square(factor, "potri")
  check_option(side, "UL", "potri")
  return columns(r, M.cholesky_inverse(factor, side == "U"), mt)
end
define("potri", "r t s=U|t s=U", {
  cholesky_inverse, function(mt, ...) return cholesky_inverse(mt, nil, ...) end,
})

-- Exchanges two rows of a matrix.
local function exchange(a, i, k)
  if i == k then return end
  local row = M.clone(M.select(a, 1, i))
  M.copy_(M.select(a, 1, i), M.select(a, 1, k))
  M.copy_(M.select(a, 1, k), row)
end

-- Cholesky with the largest pivot first (LAPACK's pstrf): the factor's columns, the order of rows.
local function pivoted(a, tolerance)
  local n = M.size(a, 1)
  local rest, lower, order = M.clone(a), M.zero_(M.clone(a)), {}
  for i = 1, n do order[i] = i end
  if tolerance < 0 then
    local digits = a.__dtype == "float64" and 2.0 ^ -53 or 2.0 ^ -24
    tolerance = n * digits * core.item(M.max(M.diagonal(a)))
  end
  for k = 1, n do
    local pivot, at = M.max(M.diagonal(rest):narrow(1, k, n - k + 1), 1)
    pivot, at = core.item(pivot), core.item(at) + k - 1
    if pivot <= tolerance then break end
    order[k], order[at] = order[at], order[k]
    exchange(rest, k, at)
    exchange(M.transpose(rest, 1, 2), k, at)
    exchange(lower, k, at)
    local column = M.div(M.select(rest, 2, k), math.sqrt(pivot))
    if k > 1 then M.zero_(M.narrow(column, 1, 1, k - 1)) end
    M.copy_(M.select(lower, 2, k), column)
    M.sub_(rest, M.outer(column, column))
  end
  return lower, order
end

local function pivoted_cholesky(mt, r, p, a, side, tolerance)
  check_square(a, "pstrf")
  check_option(side, "UL", "pstrf")
  local lower, order = pivoted(core.wrap(core.native(a), mt), tolerance)
  local factor = side == "L" and lower or M.transpose(lower, 1, 2)
  return columns(r, factor, mt), into(p, mt.__family.int32.new(order))
end
define("pstrf", "r I t s=U n=-1|t s=U n=-1", {
  pivoted_cholesky, function(mt, ...) return pivoted_cholesky(mt, nil, nil, ...) end,
})

-- --- spectra ------------------------------------------------------------------------------------

local function symmetric(mt, r, v, a, job, side)
  check_square(a, "symeig")
  check_option(job, "NV", "symeig")
  check_option(side, "UL", "symeig")
  local values, vectors = linalg.eigh(a, side)
  if job == "N" then vectors = M.clone(a) end
  return into(r, core.as(values, mt)), columns(v, vectors, mt)
end
define("symeig", "r r t s=N s=U|t s=N s=U", {
  symmetric, function(mt, ...) return symmetric(mt, nil, nil, ...) end,
})

-- Eigenvectors as LAPACK keeps them: those of a pair have the real part and the imaginary part as
-- columns.
local function packed(vectors, imaginary)
  local re, im = ml.real(vectors):clone(), ml.imag(vectors)
  local at, parts = 1, imaginary:tolist()
  while at <= #parts do
    if parts[at] ~= 0 and at < #parts then
      re:select(2, at + 1):copy_(im:select(2, at))
      at = at + 1
    end
    at = at + 1
  end
  return re
end

local function general(mt, r, v, a, job)
  check_square(a, "eig")
  check_option(job, "NV", "eig")
  local values, vectors = linalg.eig(core.native(a))
  local pairs_of = ml.view_as_real(values)
  local out = into(r, core.wrap(pairs_of, mt))
  if job == "N" then return out, v or core.empty(mt) end
  return out, columns(v, core.wrap(packed(vectors, pairs_of:select(2, 2)), mt), mt)
end
define("eig", "r r t s=N|t s=N", {
  general, function(mt, ...) return general(mt, nil, nil, ...) end,
})

local function singular(mt, u, s, v, a, job)
  check_matrix(a, "svd")
  check_option(job, "AS", "svd")
  local left, values, right = linalg.svd(a, job == "A")
  return columns(u, left, mt), into(s, core.as(values, mt)),
    columns(v, M.transpose(right, 1, 2), mt)
end
define("svd", "r r r t s=S|t s=S", {
  singular, function(mt, ...) return singular(mt, nil, nil, nil, ...) end,
})

-- --- QR -----------------------------------------------------------------------------------------

local function qr(mt, q, r, a)
  check_matrix(a, "qr")
  local left, right = linalg.qr(a)
  return columns(q, left, mt), columns(r, right, mt)
end
define("qr", "r r t|t", { qr, function(mt, a) return qr(mt, nil, nil, a) end })

local function geqrf(mt, r, tau, a)
  check_matrix(a, "geqrf")
  local factors, scales = M.geqrf(a)
  return columns(r, factors, mt), into(tau, core.as(scales, mt))
end
define("geqrf", "r r t|t", { geqrf, function(mt, a) return geqrf(mt, nil, nil, a) end })

local function orgqr(mt, r, a, tau)
  check_matrix(a, "orgqr")
  local size = classes.sizes(a)
  if size[2] > size[1] then a = M.narrow(a, 2, 1, size[1]) end
  return columns(r, M.orgqr(a, tau), mt)
end
define("orgqr", "r t t|t t", { orgqr, function(mt, ...) return orgqr(mt, nil, ...) end })

local function ormqr(mt, r, a, tau, c, side, turned)
  check_option(side, "LR", "ormqr")
  check_option(turned, "NT", "ormqr")
  return columns(r, M.ormqr(a, tau, c, side == "L", turned == "T"), mt)
end
define("ormqr", "r t t t s=L s=N|t t t s=L s=N", {
  ormqr, function(mt, ...) return ormqr(mt, nil, ...) end,
})
