-- stdlib/files/tree.lua: nested tables of tensors and plain values as text for the metadata of a
-- safetensors file; each tensor's name is its path, "model/fc.weight".

local Keys = require "moonlet.files.keys"
local json = require "moonlet.json"
local ml = require "moonlet"
local options = require "moonlet.options"
local fail = options.fail

local tree = {}

local MAX_DEPTH = 60

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

--- The text that stands for a value, whose tensors are put into `tensors` by their paths.
---@param value table
---@param tensors table<string, Tensor>
---@return string
function tree.encode(value, tensors) return json.encode(encode_node(value, "", tensors, 1)) end

local FLOATS = { nan = 0 / 0, inf = math.huge, ["-inf"] = -math.huge }
local decode_node

local function decode_table(nodes, tensors, depth, keys)
  local out = {}
  for _, entry in ipairs(nodes) do
    local key = type(entry) == "table" and entry[1]
    if type(key) ~= "string" and math.type(key) ~= "integer" then error("a bad key", 0) end
    if type(key) == "number" then keys:add(out, key) end
    if out[key] ~= nil then error(("key '%s' comes twice"):format(tostring(key)), 0) end
    out[key] = decode_node(entry[2], tensors, depth + 1, keys)
  end
  return out
end

function decode_node(node, tensors, depth, keys)
  if type(node) ~= "table" or depth > MAX_DEPTH + 1 then error("a bad value", 0) end
  if type(node.t) == "table" then return decode_table(node.t, tensors, depth, keys) end
  if node.x ~= nil then
    return tensors[node.x] or error(("tensor '%s' is missing"):format(tostring(node.x)), 0)
  end
  if node.f ~= nil then return FLOATS[node.f] or error("a bad number", 0) end
  local plain = type(node.v)
  if plain ~= "string" and plain ~= "number" and plain ~= "boolean" then error("a bad value", 0) end
  return node.v
end

--- The value that a text stands for.
---@param text string
---@param tensors table<string, Tensor>
---@param budget table a moonlet.files.budget
---@return any
function tree.decode(text, tensors, budget)
  -- The values stand in the tables of the text, and in those that are made of these.
  return decode_node(json.decode(text, budget:rest(2)), tensors, 1, Keys.new())
end

return tree
