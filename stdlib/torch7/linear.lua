-- stdlib/torch7/linear.lua: products of matrices and convolutions of Torch7's tensors.

local calls = require "moonlet.torch7.calls"
local core = require "moonlet.torch7.core"
local ml = require "moonlet"

local M, into, number, fail = core.methods, core.into, core.number, core.fail

-- --- products -----------------------------------------------------------------------------------

-- A product into r, by the form with a result that is given.
local function product(name, r, ...)
  if r == nil or M.numel(r) == 0 then return into(r, M[name](...)) end
  return into(r, M[name](...))
end

local function check_rank(x, rank, name)
  if core.dim(x) ~= rank then
    fail("torch.%s: a %dD tensor is expected, got %dD", name, rank, core.dim(x))
  end
end

for _, op in ipairs { { "mv", "mv", 2, 1 }, { "mm", "mm", 2, 2 }, { "bmm", "bmm", 3, 3 },
  { "ger", "outer", 1, 1 } } do
  local name, native = op[1], op[2]
  calls.define(nil, name, "r t t", function(_, r, a, b)
    check_rank(a, op[3], name)
    check_rank(b, op[4], name)
    return product(native, r, a, b)
  end, { inplace = true })
end

-- That products fit together, in the words that Torch7's scripts look for.
local function check_inner(a, b, name)
  if name == "addr" then return end
  local last = M.dim(a)
  local inner = M.size(b, M.dim(b) == 1 and 1 or M.dim(b) - 1)
  if M.size(a, last) == inner then return end
  core.fail("torch.%s: size mismatch, m1: [%s], m2: [%s]", name, table.concat(core.sizes(a), " x "),
    table.concat(core.sizes(b), " x "))
end

-- beta * m + alpha * (a times b). A beta of 0 leaves out what m holds.
for _, op in ipairs { { "addmv", 1, 2, 1 }, { "addmm", 2, 2, 2 }, { "addr", 2, 1, 1 },
  { "addbmm", 2, 3, 3 }, { "baddbmm", 3, 3, 3 } } do
  local name = op[1]
  local function run(mt, r, beta, m, alpha, a, b)
    check_rank(m, op[2], name)
    check_rank(a, op[3], name)
    check_rank(b, op[4], name)
    check_inner(a, b, name)
    beta, alpha = number(mt, beta), number(mt, alpha)
    if r == m then return M[name .. "_"](m, a, b, beta, alpha) end
    return into(r, M[name](m, a, b, beta, alpha))
  end
  calls.define(nil, name, "r n=1 t n=1 t t", run, { inplace = true, function_only = true })
  calls.define(nil, name, "r t=r n=1 t t|r n t=r n t t", {
    function(mt, r, m, alpha, a, b) return run(mt, r, 1, m, alpha, a, b) end, run,
  }, { inplace = true, method_only = true })
end

-- --- convolutions -------------------------------------------------------------------------------

local function flipped(kernel, rank)
  local dims = {}
  for d = 1, rank do dims[d] = core.dim(kernel) - rank + d end
  return M.flip(kernel, dims)
end

-- The sum over planes of x (planes, ...) under kernels (out, planes, ...).
local function slide(x, kernels, rank, full)
  local padding = {}
  for d = 1, rank do padding[d] = full and M.size(kernels, d + 2) - 1 or 0 end
  local op = rank == 2 and ml.conv2d or ml.conv3d
  local stride = rank == 2 and { 1, 1 } or { 1, 1, 1 }
  return M.squeeze(op(M.unsqueeze(x, 1), kernels, nil, stride, padding), 1)
end

-- One image under one kernel.
local function single(x, kernel, rank, full)
  local lifted = M.unsqueeze(M.unsqueeze(kernel, 1), 1)
  return M.squeeze(slide(M.unsqueeze(x, 1), lifted, rank, full), 1)
end

-- Plane by plane, each with a kernel of its own.
local function each(x, kernels, rank, full)
  if M.size(x, 1) ~= M.size(kernels, 1) then
    fail("a kernel for each of %d planes is expected, got %d", M.size(x, 1), M.size(kernels, 1))
  end
  local out = {}
  for i = 1, M.size(x, 1) do
    out[i] = single(M.select(x, 1, i), M.select(kernels, 1, i), rank, full)
  end
  return ml.stack(out)
end

for _, rank in ipairs { 2, 3 } do
  for _, name in ipairs { "conv" .. rank, "xcorr" .. rank } do
    local turned = name:sub(1, 1) == "c"
    calls.define(nil, name, "r? t t s=V", function(mt, r, x, kernel, kind)
      if kind ~= "V" and kind ~= "F" then
        fail("torch.%s: 'V' or 'F' is expected, got '%s'", name, kind)
      end
      if turned then kernel = flipped(kernel, rank) end
      local full, dim, kernel_dim = kind == "F", core.dim(x), core.dim(kernel)
      local run
      if dim == rank and kernel_dim == rank then run = single
      elseif dim == rank + 1 and kernel_dim == rank + 1 then run = each
      elseif dim == rank + 1 and kernel_dim == rank + 2 then run = slide
      else fail("torch.%s: %dD and %dD tensors do not fit", name, dim, kernel_dim) end
      return into(r, core.as(run(x, kernel, rank, full), mt))
    end)
  end
end
