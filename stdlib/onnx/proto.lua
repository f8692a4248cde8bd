-- stdlib/onnx/proto.lua: ONNX's messages, read from a file part by part: the elements of a tensor
-- go from the file straight into their storage, and what nobody asks for is passed over.
-- libprotobuf reads whole messages of at most 2 GiB into memory of its own first.

local Budget = require "moonlet.files.budget"
local io = require "moonlet.io"
local ml = require "moonlet"

local proto = {}

-- Messages nest by graphs inside nodes; those of real models nest less than twenty levels deep.
local MOST_LEVELS = 100
local WINDOW = 1 << 18
-- Numbers that are decoded at once.
local PIECE = 1 << 13

-- --- the messages -----------------------------------------------------------------------------

-- By the number of a field: { name, kind, is repeated }. A kind is that of a number, "bytes", the
-- dtype of a tensor's elements, or the name of a message. Fields that are not here are passed over.
local MESSAGES = {}

local function message(name, fields)
  local out = {}
  for number, field in pairs(fields) do
    local text, many = field:gsub("%*$", "")
    local key, kind = text:match "^(%S+) (%S+)$"
    out[number] = { key, kind, many == 1 }
  end
  MESSAGES[name] = out
end

message("Model", { "ir_version int", "producer_name bytes", "producer_version bytes",
  "domain bytes", "model_version int", "doc_string bytes", "graph Graph",
  "opset_import OperatorSet*",
  [14] = "metadata_props Entry*", [25] = "functions Function*" })
message("OperatorSet", { "domain bytes", "version int" })
message("Entry", { "key bytes", "value bytes" })
message("Graph", { "node Node*", "name bytes", [5] = "initializer Tensor*", [11] = "input Value*",
  [12] = "output Value*", [15] = "sparse_initializer SparseTensor*" })
message("Node", { "input bytes*", "output bytes*", "name bytes", "op_type bytes",
  "attribute Attribute*", [7] = "domain bytes", [8] = "overload bytes" })
message("Attribute", { "name bytes", "f float", "i int", "s bytes", "t Tensor", "g Graph",
  "floats float*", "ints int*", "strings bytes*", "tensors Tensor*", "graphs Graph*",
  [14] = "tp Type", [15] = "type_protos Type*", [20] = "type int32", [21] = "ref_attr_name bytes",
  [22] = "sparse_tensor SparseTensor", [23] = "sparse_tensors SparseTensor*" })
message("Tensor", { "dims int*", "data_type int32", "segment Segment", "float_data float32",
  "int32_data int32_list", "string_data bytes*", "int64_data int64_list", "name bytes",
  "raw_data uint8", "double_data float64", "uint64_data int64_list",
  [13] = "external_data Entry*", [14] = "data_location int32" })
message("Segment", {})
message("SparseTensor", { "values Tensor", "indices Tensor", "dims int*" })
message("Value", { "name bytes", "type Type" })
message("Type", { "tensor_type TensorType", [4] = "sequence_type ElementType",
  [5] = "map_type MapType", [8] = "sparse_tensor_type TensorType",
  [9] = "optional_type ElementType" })
message("TensorType", { "elem_type int32", "shape Shape" })
message("ElementType", { "elem_type Type" })
message("MapType", { "key_type int32", "value_type Type" })
message("Shape", { "dim Dimension*" })
message("Dimension", { "dim_value int", "dim_param bytes" })
message("Function", { "name bytes", [4] = "input bytes*", [5] = "output bytes*",
  [6] = "attribute bytes*", [7] = "node Node*", [9] = "opset_import OperatorSet*",
  [10] = "domain bytes", [11] = "attribute_proto Attribute*", [13] = "overload bytes" })
-- The files of onnx's own tests hold these by themselves.
message("Sequence", { "name bytes", "elem_type int32", "tensor_values Tensor*",
  [4] = "sparse_tensor_values SparseTensor*", [5] = "sequence_values Sequence*" })
message("Optional", { "name bytes", "elem_type int32", "tensor_value Tensor",
  [4] = "sparse_tensor_value SparseTensor", [5] = "sequence_value Sequence" })

-- --- bytes ------------------------------------------------------------------------------------

local Reader = {}
Reader.__index = Reader

-- Positions count from 0. The window is the part of the file that is in memory.
local function damaged(at)
  error(("it is no ONNX model, or damaged or cut off, near byte %d"):format(at), 0)
end

-- Bytes that are not kept: the budget has room for a window of them.
function Reader:passing(at, count)
  local file = self.file
  file:need(at, count)
  if count > WINDOW then file.budget:take_string(count) end
  local bytes = io.read_bytes(file.path, at, count, file.op)
  if #bytes < count then error("the file has become shorter", 0) end
  return bytes
end

-- Where `count` bytes from `at` begin in the window, from 1.
function Reader:place(at, count)
  local from = at - self.base
  if from < 0 or from + count > #self.window then
    if count > self.file.size - at then damaged(at) end
    self.window = self:passing(at, math.min(math.max(count, WINDOW), self.file.size - at))
    self.base, from = at, 0
  end
  return from + 1
end

-- A number of seven bits in a byte, and where the next thing is.
function Reader:varint(at, stop)
  local place = self:place(at, math.min(10, stop - at))
  local window, value, shift = self.window, 0, 0
  for i = place, place + math.min(10, stop - at) - 1 do
    local byte = window:byte(i)
    value = value | (byte & 0x7f) << shift
    if byte < 0x80 then return value, at + (i - place) + 1 end
    shift = shift + 7
  end
  damaged(at)
end

local FORMATS = { float = "<f", double = "<d" }

function Reader:fixed(at, stop, kind, width)
  if width > stop - at then damaged(at) end
  return string.unpack(FORMATS[kind], self.window, self:place(at, width)), at + width
end

function Reader:string(at, size)
  self.file.budget:take_string(size)
  if size == 0 then return "" end
  local place = self:place(at, size)
  return self.window:sub(place, place + size - 1)
end

-- --- lists of numbers -------------------------------------------------------------------------

-- How many varints end in a string.
local function count_ends(bytes) return (select(2, bytes:gsub("[%z\1-\127]", ""))) end

local function signed32(value) return ((value & 0xffffffff) ~ 0x80000000) - 0x80000000 end

-- Calls f(numbers, count) for pieces of the numbers in a run of varints.
function Reader:pieces(at, stop, f)
  while at < stop do
    local list, count = {}, 0
    while at < stop and count < PIECE do
      count = count + 1
      list[count], at = self:varint(at, stop)
    end
    f(list, count)
  end
end

-- By the number of a tensor's type what its elements in int32_data are kept in, their bits, and
-- the bit of the sign.
local SMALL = { [2] = { "uint8", 0xff, 0 }, [3] = { "int8", 0xff, 0x80 },
  [5] = { "int16", 0xffff, 0x8000 }, [9] = { "uint8", 0xff, 0 },
  [10] = { "int16", 0xffff, 0x8000 }, [16] = { "int16", 0xffff, 0x8000 } }
local WHOLE = { "int32", 0xffffffff, 0x80000000 }

-- The elements of a tensor that are stored as varints.
function Reader:varints(at, stop, dtype, type)
  local small = dtype == "int32" and (SMALL[type] or WHOLE)
  local budget, total = self.file.budget, 0
  for from = at, stop - 1, WINDOW do
    total = total + count_ends(self:passing(from, math.min(WINDOW, stop - from)))
  end
  if small then dtype = small[1] end
  budget:take(Budget.TENSOR + total * (small and 4 or 8))
  local out, done = ml.empty({ total }, { dtype = dtype }), 0
  self:pieces(at, stop, function(list, count)
    if small then
      local mask, sign = small[2], small[3]
      for i = 1, count do list[i] = ((list[i] & mask) ~ sign) - sign end
    end
    out:narrow(1, done + 1, count):copy_(ml.tensor(list, { dtype = dtype }))
    done = done + count
  end)
  return out
end

local WIDTHS = { float32 = 4, float64 = 8, uint8 = 1 }

function Reader:elements(kind, at, stop, type)
  if kind == "int32_list" then return self:varints(at, stop, "int32", type) end
  if kind == "int64_list" then return self:varints(at, stop, "int64") end
  if (stop - at) % WIDTHS[kind] ~= 0 then damaged(at) end
  return self.file:tensor(at, stop - at, kind)
end

local IS_ELEMENTS = { int32_list = true, int64_list = true, float32 = true, float64 = true,
  uint8 = true }
-- What one element is where each stands by itself.
local SINGLES = { int32_list = { "int32", 0 }, int64_list = { "int64", 0 },
  float32 = { "float", 5, 4, "float32" }, float64 = { "double", 1, 8, "float64" } }

-- --- fields -----------------------------------------------------------------------------------

local NUMBERS = { int = 0, int32 = 0, float = 5 }
local SKIPPED = { [1] = 8, [5] = 4 }

-- Where a field that nobody asks for ends.
function Reader:skip(wire, at, stop)
  if wire == 0 then return (select(2, self:varint(at, stop))) end
  local size = SKIPPED[wire]
  if wire == 2 then size, at = self:varint(at, stop) end
  if not size or size < 0 or size > stop - at then damaged(at) end
  return at + size
end

local function append(out, name, value)
  local list = out[name]
  if not list then
    list = {}
    out[name] = list
  end
  list[#list + 1] = value
end

function Reader:put(out, field, value)
  self.file.budget:take(Budget.ITEM)
  if field[3] then append(out, field[1], value) else out[field[1]] = value end
end

function Reader:number(kind, at, stop)
  if kind == "float" then return self:fixed(at, stop, kind, 4) end
  local value, next_at = self:varint(at, stop)
  return kind == "int32" and signed32(value) or value, next_at
end

-- More elements of a tensor, or its first.
function Reader:put_elements(out, field, value)
  local name = field[1]
  if out[name] and name ~= "raw_data" then
    if out[name].dtype ~= value.dtype then value = value:to(out[name].dtype) end
    self.file.budget:take((out[name]:numel() + value:numel()) * value:element_size())
    value = ml.cat({ out[name], value }, 1)
  end
  out[name] = value
end

function Reader:single(out, field, wire, at, stop)
  local one = SINGLES[field[2]]
  if not one or one[2] ~= wire then return false end
  local value, next_at
  if wire == 0 then
    value, next_at = self:varint(at, stop)
    if one[1] == "int32" then value = signed32(value) end
  else
    value, next_at = self:fixed(at, stop, one[1], one[3])
  end
  self:put_elements(out, field, ml.tensor({ value }, { dtype = one[4] or one[1] }))
  return next_at
end

-- A field of known length.
function Reader:sized(out, field, at, stop, depth)
  local name, kind, repeated = field[1], field[2], field[3]
  if IS_ELEMENTS[kind] then
    self:put_elements(out, field, self:elements(kind, at, stop, out.data_type))
  elseif kind == "bytes" then
    self:put(out, field, self:string(at, stop - at))
  elseif NUMBERS[kind] then
    if not repeated then damaged(at) end
    while at < stop do
      local value
      value, at = self:number(kind, at, stop)
      self:put(out, field, value)
    end
  else
    -- The parts of a message that stands in several are one.
    self.file.budget:take(Budget.TABLE + Budget.KEY)
    local whole = self:message(MESSAGES[kind], at, stop, depth + 1,
      not repeated and out[name] or nil)
    self:put(out, field, whole)
  end
end

function Reader:field(fields, out, at, stop, depth)
  local start = at
  local head
  head, at = self:varint(at, stop)
  local field, wire = fields[head >> 3], head & 7
  if head >> 3 == 0 then damaged(start) end
  if field and wire == 2 then
    local size
    size, at = self:varint(at, stop)
    if size < 0 or size > stop - at then damaged(at) end
    self:sized(out, field, at, at + size, depth)
    return at + size
  elseif field and NUMBERS[field[2]] == wire then
    local value
    value, at = self:number(field[2], at, stop)
    self:put(out, field, value)
    return at
  end
  return field and self:single(out, field, wire, at, stop) or self:skip(wire, at, stop)
end

function Reader:message(fields, at, stop, depth, out)
  if depth > MOST_LEVELS then error("it nests too deeply", 0) end
  out = out or {}
  while at < stop do at = self:field(fields, out, at, stop, depth) end
  return out
end

--- The table of a file's message: by the names of its fields, a repeated field a list, the elements
--- of tensors tensors; errors are texts.
---@param file table a moonlet.files.source
---@param name? string (default "Model") of the message
---@return table
function proto.read(file, name)
  local reader = setmetatable({ file = file, base = 0, window = "" }, Reader)
  file.budget:take_string(math.min(WINDOW, file.size))
  return reader:message(MESSAGES[name or "Model"], 0, file.size, 1)
end

return proto
