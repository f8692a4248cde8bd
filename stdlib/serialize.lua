-- stdlib/serialize.lua: ml.save and ml.load: tensors in safetensors files, and what torch.save
-- wrote. A flat table of tensors is a plain safetensors file; in nested tables each tensor's name
-- is its path, "model/fc.weight", and the other values are JSON in the metadata.

local io = require "moonlet.io"
local json = require "moonlet.json"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local serialize = {}

local MAX_DEPTH = 60
local TREE_KEY = "moonlet.tree"

-- The tree that stands for nested tables in the metadata: a table is { t = { {key, node}, .. } },
-- a tensor { x = name }, a plain value { v = value }, a float without a JSON form { f = text }.
-- Keys keep their type that way.
local encode_node

local function path_of(path, key)
  return path == "" and tostring(key) or path .. "/" .. tostring(key)
end

local function sorted_keys(value, path)
  local keys = {}
  for key in pairs(value) do
    if type(key) ~= "string" and math.type(key) ~= "integer" then
      fail("save: '%s' has a key that is neither a string nor an integer: %s", path, tostring(key))
    end
    keys[#keys + 1] = key
  end
  table.sort(keys, function(a, b)
    if type(a) == type(b) then return a < b end
    return type(a) == "number"
  end)
  return keys
end

local function encode_table(value, path, tensors, depth)
  if depth > MAX_DEPTH then fail("save: '%s' nests too deeply or contains itself", path) end
  if getmetatable(value) ~= nil then
    fail("save: '%s' is an object; save its state_dict()", path)
  end
  local nodes = {}
  for i, key in ipairs(sorted_keys(value, path)) do
    nodes[i] = { key, encode_node(value[key], path_of(path, key), tensors, depth + 1) }
  end
  return { t = nodes }
end

function encode_node(value, path, tensors, depth)
  local kind = type(value)
  if ml.is_tensor(value) then
    if tensors[path] then fail("save: two tensors have the path '%s'", path) end
    tensors[path] = value
    return { x = path }
  elseif kind == "table" then
    return encode_table(value, path, tensors, depth)
  elseif kind == "number" and (value ~= value or value == math.huge or value == -math.huge) then
    return { f = value ~= value and "nan" or value > 0 and "inf" or "-inf" }
  elseif kind == "number" or kind == "boolean" or kind == "string" then
    return { v = value }
  end
  if kind == "userdata" and getmetatable(value) == "SparseRows" then
    kind = "sparse gradient"
  end
  fail("save: '%s' is a %s, which cannot be saved", path, kind)
end

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

local read_save = signature "save(string path, any value, table? metadata=nil)"

-- A value is a table of names itself: an empty one behind it keeps it from being read as arguments
-- by name. The metadata that `ml.load` returned behind its value are saved.
local function save_arguments(path, value, given, ...)
  if value == nil and given == nil then return path end
  if signature.asides[given] then given = { metadata = given } end
  return path, value, given or {}, ...
end

--- Writes a table of tensors to a safetensors file, whole or not at all. Nested tables of tensors,
--- numbers, strings and booleans work too: `ml.save(path, { model = net:state_dict(), epoch = 3 })`
--- and the like. Option `metadata`: a table of strings to store beside them. What `ml.load` returns
--- is saved as it is by `ml.save(path, ml.load(other))`.
---@param path string
---@param value table
---@param metadata? table<string, string>
function serialize.save(...)
  local path, value, given = read_save(save_arguments(...))
  if type(value) ~= "table" then
    fail("save: a table of tensors is wanted, got %s", ml.is_tensor(value) and "a tensor"
      or type(value))
  elseif getmetatable(value) ~= nil then
    fail("save: this is an object; save its state_dict()")
  end
  local metadata = {}
  check_metadata(given or {})
  for key, text in pairs(given or {}) do metadata[key] = text end
  if is_flat(value) then return io.write_safetensors(path, value, metadata) end
  local tensors = {}
  metadata[TREE_KEY] = json.encode(encode_node(value, "", tensors, 1))
  io.write_safetensors(path, tensors, metadata)
end

local FLOATS = { nan = 0 / 0, inf = math.huge, ["-inf"] = -math.huge }
local decode_node

local function decode_table(nodes, tensors, depth)
  local out = {}
  for _, entry in ipairs(nodes) do
    local key = type(entry) == "table" and entry[1]
    if type(key) ~= "string" and math.type(key) ~= "integer" then error("a bad key", 0) end
    if out[key] ~= nil then error(("key '%s' comes twice"):format(tostring(key)), 0) end
    out[key] = decode_node(entry[2], tensors, depth + 1)
  end
  return out
end

function decode_node(node, tensors, depth)
  if type(node) ~= "table" or depth > MAX_DEPTH + 1 then error("a bad value", 0) end
  if type(node.t) == "table" then return decode_table(node.t, tensors, depth) end
  if node.x ~= nil then
    return tensors[node.x] or error(("tensor '%s' is missing"):format(tostring(node.x)), 0)
  end
  if node.f ~= nil then return FLOATS[node.f] or error("a bad number", 0) end
  local plain = type(node.v)
  if plain ~= "string" and plain ~= "number" and plain ~= "boolean" then error("a bad value", 0) end
  return node.v
end

local function decode_tree(path, text, tensors)
  local ok, result = pcall(function() return decode_node(json.decode(text), tensors, 1) end)
  if not ok then fail("load: '%s': the tree of values is damaged: %s", path, tostring(result)) end
  return result
end

local read_load = signature(
  'load(string path, string device="cpu", bool mmap=false, string? map_location=nil)')

-- All tensors of a value on another device; those that are one stay one.
local function moved(value, device, seen)
  if seen[value] == nil then
    if ml.is_tensor(value) then
      seen[value] = value:to(device)
    elseif type(value) == "table" then
      seen[value] = value
      for key, item in pairs(value) do value[key] = moved(item, device, seen) end
    end
  end
  if seen[value] ~= nil then return seen[value] end
  return value
end

local function load_torch(path, mmap)
  if mmap then
    fail("load: '%s' was written by torch.save; 'mmap' is for safetensors files", path)
  end
  local ok, value = pcall(require("moonlet.torch_file").read, path)
  if not ok then fail("load: '%s': %s", path, tostring(value)) end
  return value, {}
end

local function load_safetensors(path, mmap)
  local tensors, metadata = io.read_safetensors(path, mmap)
  local tree = metadata[TREE_KEY]
  if not tree then return tensors, metadata end
  metadata[TREE_KEY] = nil
  return decode_tree(path, tree, tensors), metadata
end

--- Reads what `ml.save`, or any writer of safetensors, wrote: the table, and the metadata, which
--- `net:load_state_dict(ml.load(path))` leaves aside. Also what PyTorch's `torch.save` wrote:
--- tensors, parameters, numbers and strings in dicts, lists and tuples, which become tables (None
--- is nil); nothing in such a file is run, and objects of other classes are errors. Options:
--- `device`, or under PyTorch's name `map_location`, where the tensors go ("cpu"); `mmap` (false),
--- true to map a safetensors file instead of copying it: loading is instant and memory is used as
--- tensors are read, but who writes into the file changes the tensors, and reading what was cut off
--- the file ends the process. `ml.save` to the same path is safe, as it makes a new file. Changes
--- to the tensors stay in this process.
---@param path string
---@param device? string
---@param mmap? boolean
---@param map_location? string
---@return table value
---@return table<string, string> metadata
function serialize.load(...)
  local path, device, mmap, map_location = read_load(...)
  if map_location and device ~= "cpu" then
    fail("load: 'device' and 'map_location' are two names of one option")
  end
  device = map_location or device
  local load_file = require("moonlet.torch_file").is_one(path) and load_torch or load_safetensors
  local value, metadata = load_file(path, mmap)
  signature.asides[metadata] = true
  if device ~= "cpu" then value = moved(value, device, {}) end
  return value, metadata
end

return options.namespace("serialize", serialize)
