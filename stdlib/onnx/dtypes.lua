-- stdlib/onnx/dtypes.lua: ONNX's types of elements, and tensors as its files hold them.

local Strings = require "moonlet.onnx.strings"
local ml = require "moonlet"

local dtypes = {}

--- The number that stands for a dtype in ONNX files.
dtypes.codes = { float32 = 1, uint8 = 2, int8 = 3, int16 = 5, int32 = 6, int64 = 7, bool = 9,
  float16 = 10, float64 = 11, complex64 = 14, complex128 = 15, bfloat16 = 16 }

-- Those without a dtype here.
local OTHERS = { [4] = "uint16", [8] = "string", [12] = "uint32", [13] = "uint64",
  [17] = "float8e4m3fn", [18] = "float8e4m3fnuz", [19] = "float8e5m2", [20] = "float8e5m2fnuz",
  [21] = "uint4", [22] = "int4", [23] = "float4e2m1", [24] = "float8e8m0", [25] = "uint2",
  [26] = "int2" }

--- The dtypes by those numbers.
dtypes.names = {}
for name, code in pairs(dtypes.codes) do dtypes.names[code] = name end

dtypes.widths = { float32 = 4, uint8 = 1, int8 = 1, int16 = 2, int32 = 4, int64 = 8, bool = 1,
  float16 = 2, float64 = 8, complex64 = 8, complex128 = 16, bfloat16 = 2 }

--- The dtype of a number of ONNX; an error says what there is not.
---@param code any
---@param what string what has it, for messages
---@return string
function dtypes.of(code, what)
  local name = dtypes.names[code]
  if name then return name end
  error(("%s has the type of elements %s, which does not exist here"):format(what,
    OTHERS[code] or tostring(code)), 0)
end

function dtypes.is_float(name) return name:find "^b?float" ~= nil end
function dtypes.is_integer(name) return name:find "^u?int" ~= nil end

--- A tensor as ONNX's TensorProto.
---@param tensor Tensor
---@param name string
---@return table
function dtypes.proto(tensor, name)
  local dims = {}
  for i, size in ipairs(tensor.shape) do dims[i] = size end
  return { name = name, dims = dims, data_type = dtypes.codes[tostring(tensor.dtype)],
    raw_data = tensor:detach():cpu():contiguous() }
end

-- The field of a TensorProto that has the elements of a type where there is no raw_data.
local FIELDS = { float32 = "float_data", complex64 = "float_data", float64 = "double_data",
  complex128 = "double_data", int64 = "int64_data" }

-- The number of elements of a shape, which fit a file of `bytes` bytes.
local function count_of(proto, what, width, most)
  local count, empty = 1, false
  for i, size in ipairs(proto.dims or {}) do
    if size < 0 then error(("%s has the size %d in dimension %d"):format(what, size, i), 0) end
    empty = empty or size == 0
  end
  if empty then return 0 end
  for _, size in ipairs(proto.dims or {}) do
    if count > most // width // size then
      error(("%s says that it has more elements than the file holds"):format(what), 0)
    end
    count = count * size
  end
  return count
end

local function from_list(proto, dtype, count, what)
  local list = proto[FIELDS[dtype] or "int32_data"]
  local per = dtype:find "^complex" and 2 or 1
  if (list and list:numel() or 0) ~= count * per then
    error(("%s has %d elements, its shape wants %d"):format(what,
      list and list:numel() // per or 0, count), 0)
  end
  if count == 0 then return ml.empty({ 0 }, { dtype = dtype }) end
  -- Half floats are kept as their bits.
  if dtype == "float16" or dtype == "bfloat16" then return list:to "int16":view(dtype) end
  if per == 2 then return list:view(dtype) end
  return list:to(dtype)
end

local function entries_of(proto)
  local entries = {}
  for _, entry in ipairs(proto.external_data or {}) do entries[entry.key or ""] = entry.value end
  return entries
end

-- Views of a mapped file need not begin where elements of a dtype may.
local function aligned(raw, width)
  return raw:storage_offset() % width == 0 and raw or raw:clone()
end

--- The tensor of a TensorProto. `read_external` gives the bytes of what another file holds.
---@param proto table
---@param what string what it is, for messages
---@param read_external? fun(entries: table<string, string>, size: integer): Tensor
---@return Tensor
function dtypes.tensor(proto, what, read_external)
  local dtype = dtypes.of(proto.data_type, what)
  if proto.segment then error(what .. " is stored in segments", 0) end
  local width, raw = dtypes.widths[dtype], proto.raw_data
  local flat
  if proto.data_location == 1 then
    local count = count_of(proto, what, width, math.maxinteger)
    raw = read_external(entries_of(proto), count * width)
  end
  if raw then
    local count = count_of(proto, what, width, raw:numel())
    if raw:numel() ~= count * width then
      error(("%s has %d bytes, its shape and type want %d"):format(what, raw:numel(),
        count * width), 0)
    end
    if dtype == "bool" then raw = raw:ne(0):to "uint8" end
    flat = count == 0 and ml.empty({ 0 }, { dtype = dtype }) or aligned(raw, width):view(dtype)
  else
    local count = count_of(proto, what, 1, 1 << 40)
    flat = from_list(proto, dtype, count, what)
  end
  return flat:reshape(proto.dims or {})
end

-- The strings of a TensorProto.
local function strings_of(proto, what)
  local list = proto.string_data or {}
  local count = count_of(proto, what, 1, 1 << 40)
  if #list ~= count then
    error(("%s has %d elements, its shape wants %d"):format(what, #list, count), 0)
  end
  return Strings.new(list, proto.dims or {})
end

-- The elements of a type without a dtype, in what they are kept in.
local function kept_of(proto, name, what, read_external)
  local kept, narrow = require "moonlet.onnx.kept", require "moonlet.onnx.narrow"
  local count = count_of(proto, what, 1, 1 << 40)
  local bytes, raw = narrow.bytes(name, count), proto.raw_data
  if proto.data_location == 1 then raw = read_external(entries_of(proto), bytes) end
  if not raw then
    local list = proto.int32_data or proto.uint64_data or ml.empty({ 0 }, { dtype = "uint8" })
    -- A byte or an element in each; the bytes of its integer, the lowest first.
    local width = ({ uint16 = 2, uint32 = 4, uint64 = 8 })[name] or 1
    if list:numel() * width ~= bytes then
      error(("%s has %d elements, its shape wants %d"):format(what, list:numel(), count), 0)
    end
    raw = bytes == 0 and list:view "uint8" or list:view("uint8"):view(list:numel(), -1)
      :narrow(2, 1, width):contiguous():flatten()
  elseif raw:numel() ~= bytes then
    error(("%s has %d bytes, its shape and type want %d"):format(what, raw:numel(), bytes), 0)
  end
  return kept.note(narrow.elements(raw, name, count):reshape(proto.dims or {}), name)
end

--- What a TensorProto holds: a tensor, or strings.
---@param proto table
---@param what string
---@param read_external? fun(entries: table<string, string>, size: integer): Tensor
---@return Tensor|table
function dtypes.value(proto, what, read_external)
  if proto.data_type == 8 then return strings_of(proto, what) end
  if OTHERS[proto.data_type] then
    return kept_of(proto, OTHERS[proto.data_type], what, read_external)
  end
  return dtypes.tensor(proto, what, read_external)
end

--- What a type of elements is kept in, and its own name; an error where there is none.
---@param code any
---@param what string
---@return string dtype "string" for strings
---@return string name
function dtypes.carrier(code, what)
  if code == 8 then return "string", "string" end
  if not OTHERS[code] then return dtypes.of(code, what), dtypes.names[code] end
  return require("moonlet.onnx.kept").carrier(OTHERS[code]), OTHERS[code]
end

return dtypes
