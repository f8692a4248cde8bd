-- stdlib/files/torch.lua: reads what `torch.save` wrote: since PyTorch 1.6 a zip archive with a
-- pickle of tables and tensors and one entry of bytes for each storage; before, pickles one after
-- the other and the bytes of the storages behind them.

local Budget = require "moonlet.files.budget"
local Source = require "moonlet.files.source"
local foreign = require "moonlet.files.foreign"
local ml = require "moonlet"
local pickle = require "moonlet.files.pickle"
local pickle_numpy = require "moonlet.files.pickle_numpy"
local python = require "moonlet.files.python"
local torch_tensors = require "moonlet.files.torch_tensors"
local zip = require "moonlet.files.zip"

local torch_file = {}

local function fail(format, ...) error(format:format(...), 0) end

-- --- Python's own types -----------------------------------------------------------------------

-- What is in a list, tuple or set of the file, for a call; nothing stands for an empty one.
local function items_of(m, value, what)
  if value == nil then return { n = 0 } end
  local count = m:length(value) or fail("a %s is damaged", what)
  m.budget:take(Budget.TABLE + 16 * count)
  return table.pack(table.unpack(value, 1, count))
end

local function dict(m, items)
  local out = m:make_dict()
  if items == nil then return out end
  if m.dicts[items] then
    for _, key in ipairs(m.dicts[items].keys) do
      m:set_items(out, { key, items[key], n = 2 })
    end
    return out
  end
  for i = 1, m:length(items) or fail "a dict is damaged" do
    local pair = items[i]
    if m:length(pair) ~= 2 then fail "a dict is damaged" end
    m:set_items(out, { pair[1], pair[2], n = 2 })
  end
  return out
end

-- The characters from 128 to 255, in UTF-8, by their bytes.
local WIDE = {}
for code = 128, 255 do WIDE[utf8.char(code)] = string.char(code) end

-- Bytes, which Python 3 writes into pickles of protocol 2 as characters up to 255.
local function bytes_of_text(m, text, encoding)
  if type(text) ~= "string" or (encoding ~= "latin1" and encoding ~= "latin-1") then
    fail "bytes are damaged"
  end
  -- Looked at three times, and made anew.
  m.budget:take(16 * #text)
  if not utf8.len(text) or text:find "[\xc4-\xff]" then fail "bytes are damaged" end
  return (text:gsub("[\xc2\xc3][\x80-\xbf]", WIDE))
end

local MOST_DEVICE = 100

local function device(_, kind, index)
  if type(kind) ~= "string" or #kind > MOST_DEVICE then fail "a device is damaged" end
  return index and ("%s:%s"):format(kind, index) or kind
end

-- Bytes that can be changed, of bytes, of characters, or none.
local function bytearray(m, from, encoding)
  if from == nil then return "" end
  if encoding ~= nil then return bytes_of_text(m, from, encoding) end
  return type(from) == "string" and from or fail "bytes are damaged"
end

local function complex(_, re, im)
  if type(re) ~= "number" or (im ~= nil and type(im) ~= "number") then
    fail "a complex number is damaged"
  end
  return ml.complex(re + 0.0, (im or 0) + 0.0)
end

-- An object of a class that a pickle makes by a function of its own.
local function reconstructed(m, class)
  local known = python.stand_in(class) == python.Global
  return python.object(m.budget, known and class.name or "object")
end

local CALLS = { ["torch.device"] = device, ["collections.OrderedDict"] = dict,
  ["collections.Counter"] = dict, ["_codecs.encode"] = bytes_of_text,
  ["collections.defaultdict"] = function(m, _, items) return dict(m, items) end,
  ["torch.Size"] = function(m, sizes)
    return m:make_list(items_of(m, sizes, "torch.Size"), "Size")
  end,
  ["copyreg._reconstructor"] = reconstructed, ["copy_reg._reconstructor"] = reconstructed }

local BUILTINS = { complex = complex, dict = dict, bytearray = bytearray,
  bytes = function(_, from) return from == nil and "" or fail "bytes are damaged" end,
  list = function(m, items) return m:make_list(items_of(m, items, "list")) end,
  tuple = function(m, items) return m:make_list(items_of(m, items, "tuple"), "tuple") end,
  set = function(m, items) return m:make_list(items_of(m, items, "set"), "set") end,
  frozenset = function(m, items) return m:make_list(items_of(m, items, "set"), "frozenset") end }

-- What a pickle may call or name; other names are those of classes that are left out.
local function names_of(file)
  local names = {}
  for name, call in pairs(CALLS) do names[name] = python.global(name, call) end
  for name, call in pairs(BUILTINS) do
    for _, module in ipairs { "builtins.", "__builtin__." } do
      names[module .. name] = python.global(name, call)
    end
  end
  pickle_numpy.add(names)
  torch_tensors.add_types(names)
  torch_tensors.add(names, file)
  return names
end

-- The value of a pickle of torch.save, where it ends, and what is left out of it. `read(key,
-- dtype)` gives the elements of a storage.
local function read_pickle(file, bytes, at, read)
  local names, found, budget = names_of(file), {}, file.budget
  local value, stop, left_out = pickle.read(bytes, function(module, name)
    return names[module .. "." .. name] or python.unknown(module, name)
  end, function(id)
    if type(id) == "table" and id[1] == "module" then
      -- A class with its source, in files from before PyTorch 1.6.
      return python.stand_in(id[2]) == python.Global and id[2] or fail "a class is damaged"
    end
    return torch_tensors.storage(id, found, budget, read)
  end, budget, at)
  if value == nil and left_out then
    local name = left_out[""]:gsub("^the Python class or function", "a Python object of class")
    fail("it holds %s; save its state_dict() instead", name)
  end
  return value, stop, left_out
end

-- --- zip archives -----------------------------------------------------------------------------

--- What `torch.save` wrote to a zip archive: dicts, lists and tuples as tables, None as nil; and
--- why parts of it are left out, by their paths, if any are.
---@param file table a moonlet.files.source
---@param entries table<string, table> those of the archive
---@param folder string the folder in it that has the pickle
---@return any
---@return nil
---@return table<string, string>?
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
  local value, _, left_out = read_pickle(file, zip.read(file, entries[folder .. "data.pkl"]), 1,
    elements)
  return value, nil, left_out
end

-- --- before PyTorch 1.6 -----------------------------------------------------------------------

-- The pickle of a number that such files begin with, of more than 64 bits.
local MAGIC_SIZE = 15

-- The largest part of such a file that can be pickles.
local MOST_PICKLES = 1 << 26

-- Where the pickle at `at` ends, and the dtypes of the storages that it names.
local function skim(bytes, budget, at)
  local dtypes, found, types = {}, {}, {}
  torch_tensors.add_types(types)
  local _, stop = pickle.read(bytes, function(module, name)
    return types[module .. "." .. name] or python.unknown(module, name)
  end, function(id)
    if type(id) == "table" and id[1] == "module" then return python.unknown("", "") end
    local key, dtype = torch_tensors.position(torch_tensors.storage(id, found, budget))
    -- Of what cannot be read, bytes are passed over.
    dtypes[key] = foreign.is_unknown(dtype) and "uint8" or dtype
    return python.object(budget, "storage")
  end, budget, at)
  return stop, dtypes
end

local function no_storages() fail "a storage is where none can be" end

-- Where the elements of each storage are: a list of keys, then for each a count and the bytes.
local function storage_positions(file, keys, dtypes, at)
  local positions = {}
  for _, key in ipairs(type(keys) == "table" and keys or {}) do
    local dtype = dtypes[key] or fail "a storage is named by no tensor"
    local count = ("<i8"):unpack(file:bytes(at, 8))
    if count < 0 or count > file.size // Source.width(dtype) then fail "the file is cut off" end
    local size = count * Source.width(dtype)
    file:need(at + 8, size)
    positions[key] = { at = at + 8, size = size }
    at = at + 8 + size
  end
  return positions
end

--- What `torch.save` wrote before PyTorch 1.6, and writes still with
--- `_use_new_zipfile_serialization=False`.
---@param file table a moonlet.files.source
---@return any
---@return nil
---@return table<string, string>?
function torch_file.read_legacy(file)
  local bytes, budget = file:some(0, MOST_PICKLES), file.budget
  local protocol, system, at
  protocol, at = pickle.read(bytes, no_storages, no_storages, budget, MAGIC_SIZE + 1)
  if protocol ~= 1001 then fail("its protocol %s is not known", tostring(protocol)) end
  system, at = pickle.read(bytes, no_storages, no_storages, budget, at)
  local big = type(system) == "table" and system.little_endian == false
  local stop, dtypes = skim(bytes, budget, at)
  local keys, data = pickle.read(bytes, no_storages, no_storages, budget, stop)
  local positions = storage_positions(file, keys, dtypes, data - 1)
  local value, _, left_out = read_pickle(file, bytes, at, function(key, dtype)
    local position = positions[key] or fail("the storage '%s' is missing", key)
    local tensor = file:tensor(position.at, position.size, dtype)
    return big and file:swapped(tensor) or tensor
  end)
  return value, nil, left_out
end

return torch_file
