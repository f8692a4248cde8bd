-- stdlib/files/numpy.lua: NumPy's arrays (.npy, versions 1 to 3) and archives of them (.npz).
-- Format: numpy.lib.format. An array is a head, in Python's notation, and its elements in C's or
-- Fortran's order.

local Archive = require "moonlet.files.zip_writer"
local Source = require "moonlet.files.source"
local io = require "moonlet.io"
local ml = require "moonlet"
local zip = require "moonlet.files.zip"

local numpy = {}

local function fail(format, ...) error(format:format(...), 0) end

local MAGIC = "\x93NUMPY"
local MOST_HEAD = 1 << 20
-- The elements begin at a multiple of this.
local ALIGNMENT = 64

-- NumPy's names of dtypes, without the order of their bytes.
local DTYPES = { b1 = "bool", u1 = "uint8", u2 = "uint16", u4 = "uint32", u8 = "uint64",
  i1 = "int8", i2 = "int16", i4 = "int32", i8 = "int64",
  f2 = "float16", f4 = "float32", f8 = "float64", c8 = "complex64", c16 = "complex128" }
local NAMES = {}
for name, dtype in pairs(DTYPES) do NAMES[dtype] = name end

-- What other types NumPy has.
local OTHERS = { O = "Python objects", S = "strings of bytes", a = "strings of bytes",
  U = "strings", V = "raw bytes", M = "dates", m = "time spans", T = "strings" }

-- --- reading ----------------------------------------------------------------------------------

--- The dtype of a name of NumPy's without the order of its bytes, `f4`; else nothing, and what
--- elements of it are.
---@param name string
---@return string?
---@return string?
function numpy.dtype_of_name(name)
  local kind = OTHERS[name:sub(1, 1)]
  if kind then return nil, "its elements are " .. kind end
  if DTYPES[name] then return DTYPES[name] end
  return nil, ("its dtype '%s' is not known here"):format(name)
end

local function dtype_of(text)
  if text:find "^%[" then fail "its elements are records of several fields" end
  local order, name = text:match "^['\"]([<>|=]?)(%w+)['\"]"
  if not order then fail "its dtype is damaged" end
  local dtype, reason = numpy.dtype_of_name(name)
  return dtype or fail("%s", reason), order == ">"
end

local function shape_of(text)
  local shape = {}
  for size in text:gmatch "[^,%s]+" do
    size = size:match "^(%d+)L?$" or fail "its shape is damaged"
    shape[#shape + 1] = math.tointeger(tonumber(size)) or fail "its shape is too large"
  end
  return shape
end

-- What a head says, as `{ dtype, big, fortran, shape }`.
local function parse_head(text)
  local inside = text:match "^%s*(%b{})%s*$" or fail "its head is damaged"
  local descr = inside:match "['\"]descr['\"]%s*:%s*(.*)"
  local fortran = inside:match "['\"]fortran_order['\"]%s*:%s*(%a+)"
  local shape = inside:match "['\"]shape['\"]%s*:%s*%(([^()]*)%)"
  if not descr or not shape or (fortran ~= "True" and fortran ~= "False") then
    fail "its head is damaged"
  end
  local dtype, big = dtype_of(descr)
  return { dtype = dtype, big = big, fortran = fortran == "True", shape = shape_of(shape) }
end

-- What the head of an array says, and the position behind it; `bytes(at, count)` gives bytes.
local function read_head(bytes)
  local start = bytes(0, 10)
  if start:sub(1, 6) ~= MAGIC then fail "it does not begin as a NumPy array does" end
  local version = start:byte(7)
  if version < 1 or version > 3 then fail("version %d of the format is not known", version) end
  local at, length = 10, ("<I2"):unpack(start, 9)
  if version > 1 then at, length = 12, ("<I4"):unpack(bytes(8, 4)) end
  if length > MOST_HEAD then fail "its head is too long" end
  return parse_head(bytes(at, length)), at + length
end

--- A tensor of the elements: those of Fortran's order are the other way round in memory.
---@param elements Tensor of one dimension
---@param shape integer[]
---@param fortran boolean
---@return Tensor
function numpy.shaped(elements, shape, fortran)
  if not fortran or #shape < 2 then return elements:view(shape) end
  local sizes, dims, rank = {}, {}, #shape
  for i = 1, rank do sizes[i], dims[i] = shape[rank + 1 - i], rank + 1 - i end
  return elements:view(sizes):permute(dims)
end

local function shaped(file, elements, head)
  if head.big then elements = file:swapped(elements) end
  return numpy.shaped(elements, head.shape, head.fortran)
end

local function size_of(head, available)
  return Source.count(head.shape, head.dtype, available) * Source.width(head.dtype)
end

--- The tensor of a .npy file.
---@param file table a moonlet.files.source
---@return Tensor
function numpy.read(file)
  local head, at = read_head(function(from, count) return file:bytes(from, count) end)
  return shaped(file, file:tensor(at, size_of(head, file.size - at), head.dtype), head)
end

local function read_entry(file, entry)
  local bytes = zip.tensor(file, entry, "uint8")
  local head, at = read_head(function(from, count)
    if count > bytes:numel() - from then fail "it is cut off" end
    file.budget:take_string(count)
    return count == 0 and "" or bytes:narrow(1, from + 1, count):to_bytes()
  end)
  local size = size_of(head, bytes:numel() - at)
  if size == 0 then return shaped(file, ml.empty({ 0 }, { dtype = head.dtype }), head) end
  return shaped(file, file:typed(bytes:narrow(1, at + 1, size), head.dtype), head)
end

--- The tensors of a .npz file by name, and why others are left out, by name, if any are.
---@param file table a moonlet.files.source
---@param entries table<string, table>
---@param names string[]
---@return table<string, Tensor>
---@return nil
---@return table<string, string>?
function numpy.read_archive(file, entries, names)
  local tensors, left_out = {}, {}
  for _, name in ipairs(names) do
    local key = name:match "^(.*)%.npy$"
    if key then
      local ok, value = pcall(read_entry, file, entries[name])
      if ok then
        tensors[key] = value
      else
        local reason = Source.reason(value)
        local known = reason:find "^its elements are" or reason:find "is not known here$"
        if not known then fail("the array '%s': %s", key, reason) end
        left_out[key] = reason
      end
    end
  end
  return tensors, nil, next(left_out) and left_out or nil
end

-- --- writing ----------------------------------------------------------------------------------

-- The tensor in the order of its elements in memory, and whether that is Fortran's.
local function in_order(tensor)
  if tensor:is_contiguous() or tensor.ndim < 2 then return tensor, false end
  local dims = {}
  for i = 1, tensor.ndim do dims[i] = tensor.ndim + 1 - i end
  local turned = tensor:permute(dims)
  if turned:is_contiguous() then return turned, true end
  return tensor, false
end

local function shape_text(shape)
  local sizes = {}
  for i, size in ipairs(shape) do sizes[i] = ("%d"):format(size) end
  return "(" .. table.concat(sizes, ", ") .. (#sizes == 1 and ",)" or ")")
end

local function parts_of(tensor, what)
  local name = NAMES[tensor.dtype]
    or fail("%s is %s, which NumPy has not; convert it to float32", what, tensor.dtype)
  local rows, fortran = in_order(tensor:detach())
  local head = ("{'descr': '%s%s', 'fortran_order': %s, 'shape': %s, }"):format(
    Source.width(tensor.dtype) == 1 and "|" or "<", name, fortran and "True" or "False",
    shape_text(tensor.shape))
  head = head .. (" "):rep(-(10 + #head + 1) % ALIGNMENT) .. "\n"
  return { MAGIC .. "\1\0" .. ("<s2"):pack(head), rows }
end

--- Writes a tensor as a .npy file.
---@param path string
---@param tensor Tensor
function numpy.write(path, tensor)
  if not ml.is_tensor(tensor) then
    fail("a tensor is expected, got a %s; a .npz file holds several", type(tensor))
  end
  io.write_parts(path, parts_of(tensor, "the tensor"), "save")
end

--- Writes tensors by name as a .npz file.
---@param path string
---@param tensors table<string, Tensor>
---@param compressed boolean
function numpy.write_archive(path, tensors, compressed)
  local archive, names = Archive.new(), {}
  if type(tensors) ~= "table" or getmetatable(tensors) ~= nil then
    fail("a table of tensors by name is expected, got %s", ml.is_tensor(tensors) and "a tensor"
      or "an object or a plain value")
  end
  for name, tensor in pairs(tensors) do
    if type(name) ~= "string" or not utf8.len(name) or not ml.is_tensor(tensor) then
      fail("a table of tensors by name is expected; '%s' is a %s", tostring(name), type(tensor))
    end
    names[#names + 1] = name
  end
  table.sort(names)
  for _, name in ipairs(names) do
    archive:add(name .. ".npy", parts_of(tensors[name], ("'%s'"):format(name)),
      { align = ALIGNMENT, deflate = compressed })
  end
  io.write_parts(path, archive:finish(), "save")
end

return numpy
