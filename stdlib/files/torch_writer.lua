-- stdlib/files/torch_writer.lua: writes files that `torch.load` reads, also with
-- `weights_only=True`: a zip archive with a pickle, and one entry for each storage, which tensors
-- that share it go on sharing.

local Archive = require "moonlet.files.zip_writer"
local io = require "moonlet.io"
local ml = require "moonlet"
local pickle_writer = require "moonlet.files.pickle_writer"

local torch_writer = {}

local function fail(format, ...) error(format:format(...), 0) end

-- The classes of storages. Dtypes without one are written by their own name, on untyped storages.
local STORAGES = { float32 = "FloatStorage", float64 = "DoubleStorage", float16 = "HalfStorage",
  bfloat16 = "BFloat16Storage", int64 = "LongStorage", int32 = "IntStorage",
  int16 = "ShortStorage", int8 = "CharStorage", uint8 = "ByteStorage", bool = "BoolStorage",
  complex64 = "ComplexFloatStorage", complex128 = "ComplexDoubleStorage" }

-- PyTorch maps storages from files, so they are aligned as in its own.
local ALIGNMENT = 64

-- The elements of a whole storage.
local function elements_of(storage)
  return ml.empty({ 0 }, { dtype = storage.dtype, device = storage.device })
    :set_(storage, 0, { #storage }, { 1 })
end

-- The name in the archive of the storage of a tensor, and its elements.
local function position_of(found, tensor, path)
  local storage = tensor:storage()
  local address = #storage > 0 and ("%s %d"):format(storage.device, storage:data_ptr()) or storage
  local position = found[address]
  if not position then
    position = { key = tostring(#found), storage = storage, path = path }
    found[address], found[#found + 1] = position, position
  elseif position.storage.dtype ~= storage.dtype then
    fail("'%s' is %s on the memory of '%s', which is %s: PyTorch's files cannot hold both; save a "
      .. "clone()", path, storage.dtype, position.path, position.storage.dtype)
  end
  return position.key, storage
end

local function write_tensor(writer, found, tensor, path)
  local key, storage = position_of(found, tensor, path)
  local class = STORAGES[tensor.dtype]
  writer:name("torch._utils", class and "_rebuild_tensor_v2" or "_rebuild_tensor_v3")
  writer:put "(("
  writer:string "storage"
  writer:name(class and "torch" or "torch.storage", class or "UntypedStorage")
  writer:string(key)
  writer:string "cpu"
  writer:integer(class and #storage or storage.nbytes)
  writer:put "tQ"
  writer:integer(tensor:storage_offset())
  writer:integers(tensor.shape)
  writer:integers(tensor:stride())
  writer:put(tensor.requires_grad and "\x88" or "\x89")
  writer:name("collections", "OrderedDict")
  writer:put ")R"
  if not class then writer:name("torch", tensor.dtype) end
  writer:put "tR"
end

local function write_complex(writer, value)
  writer:name("builtins", "complex")
  writer:value(value.real + 0.0, "")
  writer:value(value.imag + 0.0, "")
  writer:put "\x86R"
end

--- Writes a value: tensors, and tables of tensors, numbers, strings and booleans.
---@param path string
---@param value any
function torch_writer.write(path, value)
  local found = {}
  local text = pickle_writer.write(value, function(writer, object, at)
    if ml.is_tensor(object) then
      write_tensor(writer, found, object, at)
    elseif getmetatable(object) == "complex number" then
      write_complex(writer, object)
    elseif getmetatable(object) == "Shape" then
      writer:name("torch", "Size")
      writer:integers(object)
      writer:put "\x85R"
    elseif getmetatable(object) == "SparseRows" then
      fail("'%s' is a sparse gradient, which cannot be saved", at)
    else
      return false
    end
    return true
  end)
  local archive = Archive.new()
  local aligned = { align = ALIGNMENT }
  archive:add("archive/data.pkl", { text }, aligned)
  archive:add("archive/byteorder", { "little" }, aligned)
  for _, position in ipairs(found) do
    archive:add("archive/data/" .. position.key, { elements_of(position.storage) }, aligned)
  end
  archive:add("archive/version", { "3\n" }, aligned)
  io.write_parts(path, archive:finish(), "save")
end

return torch_writer
