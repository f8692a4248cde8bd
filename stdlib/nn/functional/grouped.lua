-- stdlib/nn/functional/grouped.lua: products of several groups of rows or columns at once, as a
-- mixture of experts has them.

local declare = require "moonlet.nn.functional.declare"
local ml = require "moonlet"
local fail = require("moonlet.options").fail

local grouped = {}

-- Where each group of the dimension of that size begins and ends.
local function ranges(offs, size)
  local out, first = {}, 1
  for i, last in ipairs(offs:tolist()) do
    if last < first - 1 or last > size then
      fail("grouped_mm: 'offs' must rise from 0 to at most %d, got %d at position %d", size, last,
        i)
    end
    out[i], first = { first, last }, last + 1
  end
  return out
end

local function check(a, b, offs)
  local function bad() fail("grouped_mm: shapes %s and %s do not fit", tostring(a.shape),
    tostring(b.shape)) end
  if (a.ndim ~= 2 and a.ndim ~= 3) or (b.ndim ~= 2 and b.ndim ~= 3) then bad() end
  if a:size(-1) ~= b:size(-2) then bad() end
  if a.dtype ~= b.dtype then
    fail("grouped_mm: 'mat_a' is %s, 'mat_b' %s; one dtype is expected", a.dtype, b.dtype)
  end
  if (offs == nil) ~= (a.ndim == 3 and b.ndim == 3) then
    fail "grouped_mm: 'offs' is expected where a matrix has 2 dimensions, and only there"
  end
  if not offs then return a:size(1) == b:size(1) or bad() end
  if offs.ndim ~= 1 or (offs.dtype ~= ml.int32 and offs.dtype ~= ml.int64) then
    fail("grouped_mm: 'offs' must be int32 or int64 of one dimension, got %s of shape %s",
      offs.dtype, tostring(offs.shape))
  end
  local groups = a.ndim == 3 and a:size(1) or b.ndim == 3 and b:size(1)
  if groups and groups ~= #offs then
    fail("grouped_mm: %d matrices for %d groups in 'offs'", groups, #offs)
  end
end

-- The products of the groups along `dim`, with zeros for what no group has.
local function joined(parts, dim, missing, a, b)
  if missing > 0 or #parts == 0 then
    local shape = dim == 1 and { missing, b:size(-1) } or { a:size(-2), missing }
    parts[#parts + 1] = ml.zeros(shape, { dtype = a.dtype, device = a.device })
  end
  return ml.cat(parts, dim)
end

local read = declare.reader("grouped_mm(Tensor mat_a, Tensor mat_b, Tensor? offs=nil, "
  .. "Tensor? bias=nil, string? out_dtype=nil)")

local function products(a, b, offs)
  if not offs then return ml.bmm(a, b) end
  local parts, size = {}, a.ndim == 2 and b.ndim == 3 and a:size(1) or b.ndim == 2 and a.ndim == 3
    and b:size(2) or a:size(2)
  local groups = ranges(offs, size)
  local last = #groups > 0 and groups[#groups][2] or 0
  for i, range in ipairs(groups) do
    if a.ndim == 3 then
      parts[i] = ml.mm(a[i], b[{ {}, range }])
    else
      parts[i] = b.ndim == 3 and ml.mm(a[{ range }], b[i]) or ml.mm(a[{ {}, range }], b[{ range }])
    end
  end
  if a.ndim == 2 and b.ndim == 2 then
    return #parts > 0 and ml.stack(parts)
      or ml.zeros({ 0, a:size(1), b:size(2) }, { dtype = a.dtype, device = a.device })
  end
  return joined(parts, a.ndim == 3 and 2 or 1, size - last, a, b)
end

--- Matrix products of groups whose sizes differ, as a mixture of experts has them. `offs` holds
--- where each group ends. Two matrices with a batch each are `bmm` and have no `offs`. What lies
--- behind the last group is 0.
--- > experts = ml.ones(2, 3, 4)
--- > ml.nn.functional.grouped_mm(ml.ones(5, 3), experts, ml.tensor { 2, 5 }).shape
---   (5, 4)
---@param mat_a the first matrices
---@param mat_b the second matrices
---@param offs the index, from 1, of the last row or column of each group
---@param bias not supported, as in PyTorch: nil
---@param out_dtype the dtype of the result, which must be that of the matrices
---@return Tensor
---@shape mat_a (rows, k), mat_b (groups, k, n) -> (rows, n): each group of rows by its matrix
---@shape mat_a (groups, m, k), mat_b (k, columns) -> (m, columns): each matrix by its group of
---   columns
---@shape mat_a (m, k), mat_b (k, n) -> (groups, m, n): a product for each group along k
function grouped.grouped_mm(...)
  local a, b, offs, bias, out_dtype = read(...)
  check(a, b, offs)
  if bias then fail "grouped_mm: 'bias' is not supported; add it to the result" end
  if out_dtype and out_dtype ~= a.dtype then
    fail("grouped_mm: 'out_dtype' must be that of the matrices, %s, got %s", a.dtype, out_dtype)
  end
  return products(a, b, offs)
end

return grouped
