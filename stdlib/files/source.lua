-- stdlib/files/source.lua: a file that is read in parts: bytes as strings and as tensors, from
-- positions that the file itself names, so each is checked. Nothing is reserved that the file has
-- not, and all that is made is within the file's budget.

local Budget = require "moonlet.files.budget"
local io = require "moonlet.io"
local ml = require "moonlet"

local Source = {}
Source.__index = Source

local function fail(format, ...) error(format:format(...), 0) end

-- The bytes of an element of each dtype that was asked for.
local WIDTHS = setmetatable({}, { __index = function(widths, dtype)
  widths[dtype] = ml.empty({ 0 }, { dtype = dtype }).itemsize
  return widths[dtype]
end })

--- Opens a file. With `mmap` tensors are views of the mapped file where their elements are aligned.
--- `op` is what errors call the function that reads.
---@param path string
---@param mmap? boolean
---@param op? string (default "load")
---@param max_bytes? integer what may be made of the file (default: by its size)
---@return table
function Source.open(path, mmap, op, max_bytes)
  op = op or "load"
  local _, size = io.read_bytes(path, 0, 0, op)
  local self = setmetatable({ path = path, size = size, op = op }, Source)
  if mmap then
    local storage = ml.Storage { file = path, dtype = "uint8" }
    self.mapped = ml.empty({ 0 }, { dtype = "uint8" }):set_(storage, 0, { #storage }, { 1 })
    self.size = #storage
  end
  self.budget = Budget.new(self.size, max_bytes)
  return self
end

--- The size in bytes of an element of a dtype.
---@param dtype string
---@return integer
function Source.width(dtype) return WIDTHS[dtype] end

--- The number of elements of a shape whose bytes are in `available` bytes, with every size checked.
---@param shape integer[]
---@param dtype string
---@param available integer
---@return integer
function Source.count(shape, dtype, available)
  local most, count, empty = available // WIDTHS[dtype], 1, false
  for _, size in ipairs(shape) do
    if math.type(size) ~= "integer" or size < 0 then fail("%s is no size", tostring(size)) end
    empty = empty or size == 0
  end
  if empty then return 0 end
  for _, size in ipairs(shape) do
    if size > most // count then fail "a shape wants more bytes than the file has" end
    count = count * size
  end
  if count > most then fail "a shape wants more bytes than the file has" end
  return count
end

--- Fails where there are fewer than `count` bytes from position `at`, which counts from 0.
---@param at integer
---@param count integer
function Source:need(at, count)
  if at < 0 or count < 0 or at > self.size or count > self.size - at then
    fail "the file is cut off"
  end
end

--- The `count` bytes from position `at`.
---@param at integer
---@param count integer
---@return string
function Source:bytes(at, count)
  self:need(at, count)
  self.budget:take_string(count)
  local bytes = io.read_bytes(self.path, at, count, self.op)
  if #bytes < count then fail "the file has become shorter" end
  return bytes
end

--- At most `count` bytes from position `at`.
---@param at integer
---@param count integer
---@return string
function Source:some(at, count)
  return self:bytes(at, math.max(0, math.min(count, self.size - at)))
end

--- Bytes read as elements of a dtype: on the same memory where they are aligned.
---@param bytes Tensor uint8, of one dimension
---@param dtype string
---@return Tensor
function Source:typed(bytes, dtype)
  local width, count = WIDTHS[dtype], bytes:numel()
  if count % width ~= 0 then fail("%d bytes are no whole number of %s", count, dtype) end
  self.budget:take(Budget.TENSOR + (dtype == "bool" and count or 0))
  if dtype == "bool" and not bytes:le(1):all():item() then fail "bool data are neither 0 nor 1" end
  if dtype == "uint8" then return bytes end
  if bytes:storage_offset() % width ~= 0 then
    self.budget:take(count)
    bytes = bytes:clone()
  end
  return bytes:view(dtype)
end

--- The `count` bytes from position `at` as a tensor of one dimension.
---@param at integer
---@param count integer
---@param dtype string
---@return Tensor
function Source:tensor(at, count, dtype)
  self:need(at, count)
  if count % WIDTHS[dtype] ~= 0 then fail("%d bytes are no whole number of %s", count, dtype) end
  if not self.mapped or count == 0 then
    self.budget:take(count + Budget.TENSOR)
    return io.read_tensor(self.path, at, count, dtype, self.op)
  end
  return self:typed(self.mapped:narrow(1, at + 1, count), dtype)
end

-- Fails where a tensor reaches outside `count` elements.
local function check_reach(size, stride, offset, count)
  local last = math.tointeger(offset)
  if not last or last < 0 or last > count or #size ~= #stride then fail "a tensor is damaged" end
  local empty, reaches = false, false
  for i = 1, #size do
    local n, step = math.tointeger(size[i]), math.tointeger(stride[i])
    if not n or not step or n < 0 or step < 0 then fail "a tensor is damaged" end
    empty = empty or n == 0
    if n > 1 and step > 0 and not reaches then
      reaches = n - 1 > count // step
      last = reaches and last or last + (n - 1) * step
      reaches = reaches or last >= count
    end
  end
  if not empty and (reaches or last >= count) then fail "a tensor reaches outside its storage" end
end

--- A tensor on the memory of elements, which it must not reach outside of.
---@param elements Tensor of one dimension
---@param offset integer
---@param size integer[]
---@param stride integer[]
---@return Tensor
function Source:strided(elements, offset, size, stride)
  self.budget:take(Budget.TENSOR + 16 * #size)
  check_reach(size, stride, offset, elements:numel())
  return ml.empty({ 0 }, { dtype = elements.dtype })
    :set_(elements:storage(), elements:storage_offset() + offset, size, stride)
end

--- What an error says, without its position in the library; one that is no text is raised again.
---@param problem any
---@return string
function Source.reason(problem)
  if type(problem) ~= "string" then error(problem, 0) end
  -- What string.unpack says of bytes that end too early.
  if problem:find "bad argument #%d to 'unpack'" then return "the file is cut off" end
  return (problem:gsub("^[^\n:]*stdlib/[%w_/]+%.lua:%d+: ", ""))
end

--- Elements with their bytes in the other order.
---@param tensor Tensor of one dimension
---@return Tensor
function Source:swapped(tensor)
  local dtype = tensor.dtype
  local width = WIDTHS[dtype] // (tensor:is_complex() and 2 or 1)
  if width == 1 or tensor:numel() == 0 then return tensor end
  -- Flipped, and then once more in a row.
  self.budget:take(2 * WIDTHS[dtype] * tensor:numel())
  local bytes = tensor:view "uint8":view(-1, width)
  return bytes:flip { dims = { 2 } }:contiguous():view(-1):view(dtype)
end

return Source
