-- stdlib/onnx/read/shape.lua: ONNX's ops of shapes, orders and parts, and tensors made of sizes.

local Strings = require "moonlet.onnx.strings"
local common = require "moonlet.onnx.read.common"
local ml = require "moonlet"
local fail, dim_of, integers = common.fail, common.dim, common.integers

local read = {}

local function sizes_of(x)
  local out = {}
  for d, size in ipairs(x.shape) do out[d] = size end
  return out
end

function read.Shape(n, x)
  local sizes, rank = sizes_of(x), x.ndim
  local first, last = n.attributes.start or 0, n.attributes["end"] or rank
  if first < 0 then first = math.max(first + rank, 0) end
  if last < 0 then last = last + rank end
  local part = table.move(sizes, first + 1, math.min(last, rank), 1, {})
  return #part > 0 and ml.tensor(part, { dtype = ml.int64 })
    or ml.empty({ 0 }, { dtype = ml.int64 })
end

function read.Size(_, x) return ml.tensor(x:numel(), { dtype = ml.int64 }) end

function read.Reshape(n, x, shape)
  local wanted = shape and integers(shape, "the shape") or n.attributes.shape or {}
  if n.attributes.allowzero ~= 1 then
    for d, size in ipairs(wanted) do
      if size == 0 then
        if d > x.ndim then fail("the size 0 stands at dimension %d, which x does not have", d) end
        wanted[d] = x.shape[d]
      end
    end
  end
  return x:reshape(wanted)
end

function read.Flatten(n, x)
  local axis = n.attributes.axis or 1
  if axis < 0 then axis = axis + x.ndim end
  if axis < 0 or axis > x.ndim then
    fail("the axis %d is not one of %d dimensions", axis, x.ndim)
  end
  local rows, columns = 1, 1
  for d, size in ipairs(x.shape) do
    if d <= axis then rows = rows * size else columns = columns * size end
  end
  return x:reshape(rows, columns)
end

function read.Squeeze(n, x, axes)
  local list = common.list(n, "axes", axes)
  if not list then return x:squeeze() end
  local out, gone = {}, {}
  for _, d in ipairs(common.dims(list, x.ndim)) do
    if x.shape[d] ~= 1 then fail("dimension %d has %d elements, not 1", d, x.shape[d]) end
    gone[d] = true
  end
  for d, size in ipairs(x.shape) do
    if not gone[d] then out[#out + 1] = size end
  end
  return x:reshape(out)
end

function read.Unsqueeze(n, x, axes)
  local list = common.list(n, "axes", axes) or fail "it has no axes"
  local rank, new, out, from = x.ndim + #list, {}, {}, 0
  for _, d in ipairs(common.dims(list, rank)) do
    if new[d] then fail "an axis stands twice" end
    new[d] = true
  end
  for d = 1, rank do
    if new[d] then
      out[d] = 1
    else
      from = from + 1
      out[d] = x.shape[from]
    end
  end
  return x:reshape(out)
end

function read.Transpose(n, x)
  local perm = {}
  if n.attributes.perm then
    perm = common.dims(n.attributes.perm, x.ndim)
  else
    for d = 1, x.ndim do perm[d] = x.ndim - d + 1 end
  end
  return #perm > 0 and x:permute(perm) or x
end

-- Both shapes are ones in front, and a 1 takes the other's size.
function read.Expand(_, x, shape)
  local wanted = integers(shape, "the shape")
  local rank, out = math.max(#wanted, x.ndim), {}
  for d = 1, rank do
    local mine, new = d - rank + x.ndim, wanted[d - rank + #wanted] or 1
    local old = mine >= 1 and x.shape[mine] or 1
    out[d] = new == 1 and old or new
  end
  return x:expand(out)
end

function read.Tile(_, x, repeats)
  local times = integers(repeats, "repeats")
  if #times ~= x.ndim then fail("%d repeats for %d dimensions", #times, x.ndim) end
  return #times > 0 and x:tile(times) or x
end

function read.Concat(n, ...)
  local list = { ... }
  for i = 2, #list do list[i] = select(2, common.together(list[1], list[i])) end
  return ml.cat(list, dim_of(n.attributes.axis or 1, list[1].ndim))
end

local function equal_parts(size, count, outputs)
  if count ~= outputs then fail("%d parts for %d outputs", count, outputs) end
  local most, out = (size + count - 1) // count, {}
  for i = 1, count do out[i] = math.max(math.min(most, size - (i - 1) * most), 0) end
  return out
end

function read.Split(n, x, split)
  local dim = dim_of(n.attributes.axis or 0, x.ndim)
  local lengths = common.list(n, "split", split)
    or equal_parts(x.shape[dim], n.attributes.num_outputs or #n.outputs, #n.outputs)
  local total = 0
  for _, length in ipairs(lengths) do
    if length < 0 then fail("a part of %d", length) end
    total = total + length
  end
  if total ~= x.shape[dim] or #lengths ~= #n.outputs then
    fail("%d parts of %d in all, for %d outputs of %d", #lengths, total, #n.outputs, x.shape[dim])
  end
  return table.unpack(x:split(lengths, dim))
end

-- Python's slices: from `start` until before `stop`, both clamped.
local function sliced(x, dim, start, stop, step)
  local size = x.shape[dim]
  if step == 0 then fail "a step of 0" end
  local function clamp(at)
    if at < 0 then at = math.max(at, -size - 1) + size end
    if step > 0 then return math.min(math.max(at, 0), size) end
    return math.min(math.max(at, -1), size - 1)
  end
  start, stop = clamp(start), clamp(stop)
  if step > 0 then
    if stop <= start then return x:narrow(dim, 1, 0) end
    local part = x:narrow(dim, start + 1, stop - start)
    if step == 1 then return part end
    return part:index_select(dim, ml.arange(1, stop - start, step):to(x.device))
  end
  if start <= stop then return x:narrow(dim, 1, 0) end
  local places = ml.arange(start + 1, stop + 2, step):to "int64"
  return x:index_select(dim, places:to(x.device))
end

function read.Slice(n, x, starts, ends, axes, steps)
  local from = common.list(n, "starts", starts) or fail "it has no starts"
  local to = common.list(n, "ends", ends) or fail "it has no ends"
  local along = common.list(n, "axes", axes)
  local by = steps and integers(steps, "steps")
  for i, start in ipairs(from) do
    local dim = dim_of(along and along[i] or i - 1, x.ndim)
    if not to[i] then fail "it has more starts than ends" end
    x = sliced(x, dim, start, to[i], by and by[i] or 1)
  end
  return x
end

function read.Trilu(n, x, k)
  local diagonal = k and common.number(k, "k") or 0
  return (n.attributes.upper == 0 and ml.tril or ml.triu)(x, diagonal)
end

-- --- made of sizes ----------------------------------------------------------------------------

function read.Constant(n)
  local a = n.attributes
  if a.value then return a.value end
  if a.value_string then return Strings.new({ a.value_string }, {}) end
  if a.value_strings then return Strings.new(a.value_strings, { #a.value_strings }) end
  if a.value_float then return ml.tensor(a.value_float, { dtype = ml.float32 }) end
  if a.value_int then return ml.tensor(a.value_int, { dtype = ml.int64 }) end
  local list = a.value_floats or a.value_ints
  if not list then fail "its value is of a kind that is not read" end
  local dtype = a.value_floats and ml.float32 or ml.int64
  return #list > 0 and ml.tensor(list, { dtype = dtype }) or ml.empty({ 0 }, { dtype = dtype })
end

function read.ConstantOfShape(n, shape)
  local value = n.attributes.value
  local number = 0.0
  if value and value.dtype == ml.bool then
    number = value:any():item()
  elseif value then
    number = common.number(value, "value")
  end
  return ml.full(integers(shape, "the shape"), number,
    { dtype = value and value.dtype or ml.float32 })
end

function read.Range(n, start, limit, delta)
  local from, to = common.number(start, "start"), common.number(limit, "limit")
  local step = common.number(delta, "delta")
  if step == 0 then fail "a step of 0" end
  local count = math.max(math.ceil((to - from) / step), 0)
  if count == 0 then return ml.empty({ 0 }, { dtype = start.dtype }) end
  common.check_room(n, count, 8)
  return (ml.arange(0, count - 1):to(start.dtype) * step + from):to(start.dtype)
end

function read.EyeLike(n, x)
  if x.ndim ~= 2 then fail("a matrix is expected, got %d dimensions", x.ndim) end
  local code, k = n.attributes.dtype, n.attributes.k or 0
  local dtype = code and require("moonlet.onnx.dtypes").of(code, "the result") or x.dtype
  local rows, columns = x.shape[1], x.shape[2]
  if k == 0 then return ml.eye(rows, columns, { dtype = dtype, device = x.device }) end
  local row = ml.arange(1, math.max(rows, 1)):to(x.device):unsqueeze(2)
  local column = ml.arange(1, math.max(columns, 1)):to(x.device)
  return (row + k):eq(column):narrow(1, 1, rows):narrow(2, 1, columns):to(dtype)
end

return read
