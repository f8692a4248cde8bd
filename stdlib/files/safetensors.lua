-- stdlib/files/safetensors.lua: safetensors files, also a model in several of them with an index.
-- A flat table of tensors is a plain file; for nested tables the metadata have the tree of values.

local Source = require "moonlet.files.source"
local foreign = require "moonlet.files.foreign"
local io = require "moonlet.io"
local json = require "moonlet.json"
local ml = require "moonlet"
local options = require "moonlet.options"
local system = require "moonlet.system"
local tree = require "moonlet.files.tree"
local fail = options.fail

local safetensors = {}

local TREE_KEY = "moonlet.tree"
local MOST_INDEX = 100000000

-- --- one file ---------------------------------------------------------------------------------

local function is_flat(value)
  for key, item in pairs(value) do
    if type(key) ~= "string" or not ml.is_tensor(item) then return false end
  end
  return true
end

local function check_metadata(metadata)
  for key, value in pairs(metadata) do
    if type(key) ~= "string" or type(value) ~= "string" then
      fail("save: metadata is a table of strings by name; '%s' is a %s", tostring(key),
        type(value))
    elseif key == TREE_KEY then
      fail("save: the metadata name '%s' is taken", key)
    end
  end
end

-- The format's names of dtypes that moonlet.files.foreign makes others of.
local FOREIGN = { F8_E8M0 = "float8_e8m0fnu", F8_E4M3FNUZ = "float8_e4m3fnuz",
  F8_E5M2FNUZ = "float8_e5m2fnuz" }

-- The tensor of an entry whose dtype is one of those.
local function read_foreign(file, entry, start)
  local name = FOREIGN[entry.dtype]
  local from, to = table.unpack(entry.data_offsets, 1, 2)
  local elements = file:tensor(start + from, to - from, foreign.carrier(name))
  return foreign.convert(name, elements, file.budget):view(entry.shape)
end

-- Reads the tensors whose types, by their names, are those of `codes`, as far as that can be; says
-- why others are left out. The header has been checked.
local function add_foreign(file, tensors, codes)
  local left_out, header, start = {}, nil, nil
  for name, code in pairs(codes) do
    if not FOREIGN[code] then
      left_out[name] = ("its dtype %s is not known here"):format(code)
    else
      if not header then
        local length = ("<i8"):unpack(file:bytes(0, 8))
        header, start = json.decode(file:bytes(8, length), file.budget:rest()), 8 + length
      end
      tensors[name] = read_foreign(file, header[name], start)
    end
  end
  return next(left_out) and left_out or nil
end

-- What the tensors and the metadata of a file stand for, and why others are left out.
local function decode(file, tensors, metadata, codes)
  local left_out = add_foreign(file, tensors, codes)
  local text = metadata[TREE_KEY]
  if not text then return tensors, metadata, left_out end
  metadata[TREE_KEY] = nil
  local ok, result = pcall(tree.decode, text, tensors, file.budget)
  if not ok then error("the tree of values is damaged: " .. Source.reason(result), 0) end
  return result, metadata, left_out
end

--- The tensors of a file, or the nested tables that were saved, the metadata, and why tensors are
--- left out, by name, if any are.
---@param file table a moonlet.files.source
---@return table
---@return table<string, string>
---@return table<string, string>?
function safetensors.read(file)
  return decode(file, io.read_safetensors(file.path, file.mapped ~= nil, file.budget:rest()))
end

-- --- several files ----------------------------------------------------------------------------

local UNITS = { B = 1, KB = 10 ^ 3, MB = 10 ^ 6, GB = 10 ^ 9, TB = 10 ^ 12, KIB = 2 ^ 10,
  MIB = 2 ^ 20, GIB = 2 ^ 30, TIB = 2 ^ 40 }

-- A number of bytes, or text such as "5GB".
local function bytes_of(size)
  local count = math.tointeger(size)
  if type(size) == "string" then
    local number, unit = size:match "^%s*(%d+%.?%d*)%s*(%a+)%s*$"
    unit = unit and UNITS[unit:upper()]
    count = unit and math.tointeger((tonumber(number) * unit) // 1)
  end
  if not count or count < 1 then
    fail("save: 'max_shard_size' must be a number of bytes or text such as \"5GB\", got %s",
      tostring(size))
  end
  return count
end

local function sorted_names(tensors)
  local names = {}
  for name in pairs(tensors) do names[#names + 1] = name end
  table.sort(names)
  return names
end

-- The tensors in groups of at most `most` bytes each, but for one that is larger by itself, and the
-- bytes of all.
local function shards_of(tensors, most)
  local shards, total, available = {}, 0, 0
  for _, name in ipairs(sorted_names(tensors)) do
    local tensor = tensors[name]
    local size = tensor:numel() * Source.width(tensor.dtype)
    if #shards == 0 or size > available then
      shards[#shards + 1] = {}
      available = most
    end
    shards[#shards][name] = tensor
    total, available = total + size, available - size
  end
  return shards, total
end

local function write_shards(path, shards, total, metadata)
  local stem = path:gsub("%.[^.]*$", "")
  local map = {}
  for i, shard in ipairs(shards) do
    local file = ("%s-%05d-of-%05d.safetensors"):format(stem, i, #shards)
    io.write_safetensors(file, shard, metadata)
    for name in pairs(shard) do map[name] = select(2, system.split(file)) end
  end
  local index = json.encode { metadata = { total_size = total }, weight_map = map }
  io.write_parts(stem .. ".safetensors.index.json", { index, "\n" }, "save")
end

--- Writes a table of tensors, in several files where they have more bytes than `most`.
---@param path string
---@param value table
---@param given? table<string, string> metadata
---@param most? integer|string
function safetensors.write(path, value, given, most)
  local metadata = {}
  check_metadata(given or {})
  for key, text in pairs(given or {}) do metadata[key] = text end
  local flat = is_flat(value)
  if most then
    most = bytes_of(most)
    if not flat then fail "save: 'max_shard_size' is for a table of tensors by name" end
    if not path:lower():find "%.safetensors$" then
      fail "save: 'max_shard_size' is for a path that ends in .safetensors"
    end
    local shards, total = shards_of(value, most)
    if #shards > 1 then return write_shards(path, shards, total, metadata) end
  end
  if flat then return io.write_safetensors(path, value, metadata) end
  local tensors = {}
  metadata[TREE_KEY] = tree.encode(value, tensors)
  io.write_safetensors(path, tensors, metadata)
end

-- The names of tensors by the file that has them.
local function names_by_file(map)
  local files, order = {}, {}
  for name, file in pairs(map) do
    -- A name in the same folder, and no way out of it.
    if type(file) ~= "string" or type(name) ~= "string" or file == "" or file:find "[/\\\0]"
      or file:find "^%a:" or file == "." or file == ".." then
      error(("the weight_map names no file for '%s'"):format(tostring(name)), 0)
    end
    if not files[file] then
      files[file], order[#order + 1] = {}, file
    end
    files[file][name] = true
  end
  table.sort(order)
  return files, order
end

local function index_of(file)
  if file.size > MOST_INDEX then error("the index is too long", 0) end
  local ok, index = pcall(json.decode, file:bytes(0, file.size), file.budget:rest())
  if not ok then error("the index is damaged: " .. Source.reason(index), 0) end
  if type(index) ~= "table" or type(index.weight_map) ~= "table" then
    error("the index has no weight_map", 0)
  end
  return index.weight_map
end

--- The tensors of the files that an index names, the metadata of the files, and why tensors are
--- left out. `load(path)` reads one of the files.
---@param file table a moonlet.files.source
---@param load fun(path: string): table, table, table?
---@return table<string, Tensor>
---@return table<string, string>
---@return table<string, string>?
function safetensors.read_index(file, load)
  local folder = system.split(file.path)
  local files, order = names_by_file(index_of(file))
  local tensors, metadata, left_out = {}, {}, nil
  for _, name in ipairs(order) do
    local found, texts, missing = load(folder .. name)
    if type(found) ~= "table" then error(("'%s' is no table of tensors"):format(name), 0) end
    for key in pairs(files[name]) do
      tensors[key] = found[key]
      if missing and missing[key] then
        left_out = left_out or {}
        left_out[key] = missing[key]
      elseif found[key] == nil then
        error(("'%s' is not in '%s'"):format(key, name), 0)
      end
    end
    for key, text in pairs(texts or {}) do metadata[key] = text end
  end
  return tensors, metadata, left_out
end

return safetensors
