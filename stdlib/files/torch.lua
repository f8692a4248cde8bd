-- stdlib/files/torch.lua: reads what `torch.save` wrote: since PyTorch 1.6 a zip archive with a
-- pickle of tables and tensors and one entry of bytes for each storage; before, pickles one after
-- the other and the bytes of the storages behind them.

local Budget = require "moonlet.files.budget"
local Source = require "moonlet.files.source"
local ml = require "moonlet"
local pickle = require "moonlet.files.pickle"
local zip = require "moonlet.files.zip"

local torch_file = {}

local function fail(format, ...) error(format:format(...), 0) end

-- Python's names of storages and of dtypes.
local STORAGES = { FloatStorage = "float32", DoubleStorage = "float64", HalfStorage = "float16",
  BFloat16Storage = "bfloat16", LongStorage = "int64", IntStorage = "int32", ShortStorage = "int16",
  CharStorage = "int8", ByteStorage = "uint8", BoolStorage = "bool",
  ComplexFloatStorage = "complex64", ComplexDoubleStorage = "complex128", UntypedStorage = "uint8" }
local DTYPES = { float = "float32", double = "float64", half = "float16" }
for _, dtype in pairs(STORAGES) do DTYPES[dtype] = dtype end

-- What stands for a storage of the file: `key` names its bytes, and `made` holds its elements by
-- dtype, so that tensors on one storage share it.
local Storage = {}
Storage.__index = Storage

-- What a persistent id says of a storage; `found` has those that were named before, by key.
local function storage_of(id, found)
  local kind, dtype, key, _, count, view = table.unpack(type(id) == "table" and id or {}, 1, 6)
  if kind ~= "storage" or type(dtype) ~= "table" or not dtype.dtype or type(key) ~= "string" then
    fail "a storage is damaged"
  elseif view ~= nil then
    fail "a storage is a view of another, as old versions of PyTorch wrote them"
  end
  found[key] = found[key] or setmetatable({ key = key, made = {} }, Storage)
  return setmetatable({ whole = found[key], dtype = dtype.dtype, count = count }, Storage)
end

local function rebuild(file, read, storage, offset, size, stride, requires_grad, dtype)
  if getmetatable(storage) ~= Storage or type(size) ~= "table" or type(stride) ~= "table"
    or not math.tointeger(offset) or not dtype then
    fail "a tensor is damaged"
  end
  local made = storage.whole.made
  made[dtype] = made[dtype] or read(storage.whole.key, dtype)
  local tensor = file:strided(made[dtype], offset, size, stride)
  return requires_grad == true and tensor:requires_grad_() or tensor
end

local function ordered_dict(budget, items)
  local out = {}
  for _, item in ipairs(items or {}) do
    budget:take(Budget.KEY)
    local key = type(item) == "table" and item[1]
    if key == nil or key ~= key then fail "an OrderedDict is damaged" end
    out[key] = item[2]
  end
  return out
end

-- The characters from 128 to 255, in UTF-8, by their bytes.
local WIDE = {}
for code = 128, 255 do WIDE[utf8.char(code)] = string.char(code) end

-- Bytes, which Python 3 writes into pickles of protocol 2 as characters up to 255.
local function bytes_of_text(budget, text, encoding)
  if type(text) ~= "string" or encoding ~= "latin1" then fail "bytes are damaged" end
  -- Looked at three times, and made anew.
  budget:take(16 * #text)
  if not utf8.len(text) or text:find "[\xc4-\xff]" then fail "bytes are damaged" end
  return (text:gsub("[\xc2\xc3][\x80-\xbf]", WIDE))
end

local MOST_DEVICE = 100

local function device(kind, index)
  if type(kind) ~= "string" or #kind > MOST_DEVICE then fail "a device is damaged" end
  return index and ("%s:%s"):format(kind, index) or kind
end

-- The functions that make tensors; `read(key, dtype)` gives the elements of a storage.
local function tensor_functions(names, file, read)
  -- The storage, offset, size, stride, whether a gradient is required, hooks, and in newer files
  -- the dtype, which otherwise is the storage's.
  local function tensor(storage, offset, size, stride, requires_grad, _, dtype)
    if getmetatable(storage) ~= Storage then fail "a tensor is damaged" end
    return rebuild(file, read, storage, offset, size, stride, requires_grad,
      type(dtype) == "table" and dtype.dtype or storage.dtype)
  end
  names["torch._utils._rebuild_tensor"] = tensor
  names["torch._utils._rebuild_tensor_v2"] = tensor
  names["torch._utils._rebuild_tensor_v3"] = tensor
  names["torch._utils._rebuild_parameter"] = function(data, requires_grad)
    if not ml.is_tensor(data) then fail "a parameter is damaged" end
    return data:requires_grad_(requires_grad == true)
  end
  names["torch._tensor._rebuild_from_type_v2"] = function(f, _, arguments)
    if f ~= tensor or type(arguments) ~= "table" then fail "a tensor is damaged" end
    return tensor(table.unpack(arguments, 1, 7))
  end
end

-- What a pickle may call or name; other names are objects of Python's.
local function names_of(file, read)
  local budget = file.budget
  local names = { ["torch.device"] = device, ["torch.Size"] = function(sizes) return sizes end,
    ["collections.OrderedDict"] = function(items) return ordered_dict(budget, items) end,
    ["_codecs.encode"] = function(...) return bytes_of_text(budget, ...) end,
    ["torch.Tensor"] = {}, ["torch.nn.parameter.Parameter"] = {} }
  for _, module in ipairs { "builtins", "__builtin__" } do
    names[module .. ".complex"] = function(re, im) return ml.complex(re, im) end
  end
  for name, dtype in pairs(STORAGES) do
    names["torch." .. name], names["torch.storage." .. name] = { dtype = dtype }, { dtype = dtype }
  end
  for name, dtype in pairs(DTYPES) do names["torch." .. name] = { dtype = dtype } end
  tensor_functions(names, file, read)
  return names
end

-- Of what a message shows.
local MOST_NAME = 100

-- The value of a pickle of torch.save, and where it ends.
local function read_pickle(file, bytes, at, read)
  local names, found = names_of(file, read), {}
  return pickle.read(bytes, function(module, name)
    return names[module .. "." .. name]
      or fail("it holds a Python object of class %s.%s; save its state_dict() instead",
        module:sub(1, MOST_NAME), name:sub(1, MOST_NAME))
  end, function(id) return storage_of(id, found) end, file.budget, at)
end

-- --- zip archives -----------------------------------------------------------------------------

--- What `torch.save` wrote to a zip archive: dicts, lists and tuples as tables, None as nil.
---@param file table a moonlet.files.source
---@param entries table<string, table> those of the archive
---@param folder string the folder in it that has the pickle
---@return any
function torch_file.read(file, entries, folder)
  local order = entries[folder .. "byteorder"]
  local big = order and zip.read(file, order) == "big"
  if entries[folder .. "constants.pkl"] then
    fail "it is a TorchScript program; save the state_dict() of its module with torch.save"
  end
  local function elements(key, dtype)
    local entry = entries[folder .. "data/" .. key] or fail("the storage '%s' is missing", key)
    local tensor = zip.tensor(file, entry, dtype)
    return big and file:swapped(tensor) or tensor
  end
  return (read_pickle(file, zip.read(file, entries[folder .. "data.pkl"]), 1, elements))
end

-- --- before PyTorch 1.6 -----------------------------------------------------------------------

-- The pickle of a number that such files begin with, of more than 64 bits.
local MAGIC_SIZE = 15

-- The largest part of such a file that can be pickles.
local MOST_PICKLES = 1 << 26

local function nothing() return {} end

-- Where the pickle at `at` ends, and the dtypes of the storages that it names.
local function skim(bytes, budget, at)
  local dtypes = {}
  local _, stop = pickle.read(bytes, function(module, name)
    local dtype = module:find "^torch" and STORAGES[name]
    return dtype and { dtype = dtype } or nothing
  end, function(id)
    local storage = storage_of(id, {})
    dtypes[storage.whole.key] = storage.dtype
    return {}
  end, budget, at)
  return stop, dtypes
end

local function no_storages() fail "a storage is where none can be" end

-- Where the elements of each storage are: a list of keys, then for each a count and the bytes.
local function storage_places(file, keys, dtypes, at)
  local places = {}
  for _, key in ipairs(type(keys) == "table" and keys or {}) do
    local dtype = dtypes[key] or fail "a storage is named by no tensor"
    local count = ("<i8"):unpack(file:bytes(at, 8))
    if count < 0 or count > file.size // Source.width(dtype) then fail "the file is cut off" end
    local size = count * Source.width(dtype)
    file:need(at + 8, size)
    places[key] = { at = at + 8, size = size }
    at = at + 8 + size
  end
  return places
end

--- What `torch.save` wrote before PyTorch 1.6, and writes still with
--- `_use_new_zipfile_serialization=False`.
---@param file table a moonlet.files.source
---@return any
function torch_file.read_legacy(file)
  local bytes, budget = file:some(0, MOST_PICKLES), file.budget
  local protocol, system, at
  protocol, at = pickle.read(bytes, no_storages, no_storages, budget, MAGIC_SIZE + 1)
  if protocol ~= 1001 then fail("its protocol %s is not known", tostring(protocol)) end
  system, at = pickle.read(bytes, no_storages, no_storages, budget, at)
  local big = type(system) == "table" and system.little_endian == false
  local stop, dtypes = skim(bytes, budget, at)
  local keys, data = pickle.read(bytes, no_storages, no_storages, budget, stop)
  local places = storage_places(file, keys, dtypes, data - 1)
  return (read_pickle(file, bytes, at, function(key, dtype)
    local place = places[key] or fail("the storage '%s' is missing", key)
    local tensor = file:tensor(place.at, place.size, dtype)
    return big and file:swapped(tensor) or tensor
  end))
end

return torch_file
