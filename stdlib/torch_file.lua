-- stdlib/torch_file.lua: reads what `torch.save` wrote (since PyTorch 1.6): a zip archive with a
-- pickle of tables and tensors and one entry of bytes for each storage.

local io = require "moonlet.io"
local ml = require "moonlet"
local pickle = require "moonlet.pickle"
local zip = require "moonlet.zip"

local torch_file = {}

local function fail(format, ...) error(format:format(...), 0) end

-- Python's names of storages and of dtypes.
local STORAGES = { FloatStorage = "float32", DoubleStorage = "float64", HalfStorage = "float16",
  BFloat16Storage = "bfloat16", LongStorage = "int64", IntStorage = "int32", ShortStorage = "int16",
  CharStorage = "int8", ByteStorage = "uint8", BoolStorage = "bool",
  ComplexFloatStorage = "complex64", ComplexDoubleStorage = "complex128", UntypedStorage = "uint8" }
local DTYPES = { float = "float32", double = "float64", half = "float16" }
for _, dtype in pairs(STORAGES) do DTYPES[dtype] = dtype end

-- Tensors on one storage share it.
local function storage_of(archive, id)
  local kind, dtype, key, _, count = table.unpack(type(id) == "table" and id or {}, 1, 5)
  if kind ~= "storage" or type(dtype) ~= "table" or type(key) ~= "string" then
    fail "a storage is damaged"
  end
  local entry = archive.entries[archive.folder .. "data/" .. key]
    or fail("the storage '%s' is missing", key)
  return { entry = entry, dtype = dtype.dtype, count = count }
end

local function elements(archive, storage, dtype)
  local made = archive.made[storage.entry] or {}
  archive.made[storage.entry] = made
  if not made[dtype] then
    made[dtype] = ml.from_bytes(zip.read(archive.file, storage.entry), dtype):storage()
  end
  return made[dtype]
end

local function rebuild(archive, storage, offset, size, stride, requires_grad, dtype)
  if not storage.entry or type(size) ~= "table"
    or type(stride) ~= "table" or not math.tointeger(offset) then
    fail "a tensor is damaged"
  end
  local memory = elements(archive, storage, dtype)
  local tensor = ml.empty({ 0 }, { dtype = dtype }):set_(memory, offset, size, stride)
  return requires_grad == true and tensor:requires_grad_() or tensor
end

-- What a pickle may call or name; other names are objects of Python's.
local function names_of(archive)
  local names = {}
  names["collections.OrderedDict"] = function(items)
    local out = {}
    for _, item in ipairs(items or {}) do out[item[1]] = item[2] end
    return out
  end
  names["torch.Size"] = function(sizes) return sizes end
  -- The storage, offset, size, stride, whether a gradient is required, hooks, and in newer files
  -- the dtype, which otherwise is the storage's.
  local function tensor(storage, offset, size, stride, requires_grad, _, dtype)
    if type(storage) ~= "table" then fail "a tensor is damaged" end
    return rebuild(archive, storage, offset, size, stride, requires_grad,
      dtype and dtype.dtype or storage.dtype)
  end
  names["torch._utils._rebuild_tensor_v2"] = tensor
  names["torch._utils._rebuild_tensor_v3"] = tensor
  names["torch._utils._rebuild_parameter"] = function(data, requires_grad)
    return data:requires_grad_(requires_grad == true)
  end
  names["torch._tensor._rebuild_from_type_v2"] = function(f, _, arguments)
    return f(table.unpack(arguments))
  end
  for name, dtype in pairs(STORAGES) do
    names["torch." .. name], names["torch.storage." .. name] = { dtype = dtype }, { dtype = dtype }
  end
  for name, dtype in pairs(DTYPES) do names["torch." .. name] = { dtype = dtype } end
  names["torch.Tensor"], names["torch.nn.parameter.Parameter"] = {}, {}
  return names
end

local function read_value(archive)
  local found = archive.entries[archive.folder .. "data.pkl"]
  local names = names_of(archive)
  return pickle.read(zip.read(archive.file, found), function(module, name)
    return names[module .. "." .. name]
      or fail("it holds a Python object of class %s.%s; save its state_dict() instead", module,
        name)
  end, function(id) return storage_of(archive, id) end)
end

local function open_archive(file)
  local entries = zip.entries(file)
  for name in pairs(entries) do
    local folder = name:match "^(.*/)data%.pkl$" or name == "data.pkl" and ""
    if folder then
      local order = entries[folder .. "byteorder"]
      if order and zip.read(file, order) ~= "little" then fail "its numbers are big-endian" end
      return { file = file, entries = entries, folder = folder, made = {} }
    end
  end
  fail "it is a zip archive without a data.pkl: no file of torch.save"
end

--- Whether a file begins as those of `torch.save` do.
---@param path string
---@return boolean
function torch_file.is_one(path)
  return (io.read_bytes(path, 0, 4)) == "PK\3\4"
end

--- What `torch.save` wrote to a file: dicts, lists and tuples as tables, None as nil.
---@param path string
---@return any
function torch_file.read(path)
  local _, size = io.read_bytes(path, 0, 0)
  return read_value(open_archive { path = path, size = size })
end

return torch_file
