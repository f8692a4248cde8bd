-- stdlib/distributed/checkpoint/index.lua: the index of a checkpoint in a folder: the tree of its
-- values, and for each tensor which file has which part of it. It is what makes the files around it
-- a checkpoint: it is written last, and by a rename.

local json = require "moonlet.json"
local budget = require "moonlet.files.budget"
local ml = require "moonlet"
local options = require "moonlet.options"
local system = require "moonlet.system"
local tree = require "moonlet.files.tree"
local fail = options.fail

local index = {}

local NAME = "index.json"
local FORMAT, VERSION = "moonlet.distributed.checkpoint", 1
local MOST_BYTES = 1 << 30
-- Parts of a tensor that are not rows alone are compared in pairs.
local MOST_PARTS = 4096
-- The names of files; nothing else is read or removed.
local FILE = "^shard%-(%d+)%-%d+%.safetensors$"

--- The file of a rank in the checkpoint of that number.
---@param number integer
---@param rank integer
---@return string
function index.file_name(number, rank)
  return ("shard-%06d-%05d.safetensors"):format(number, rank)
end

--- A number that no file of the folder has.
---@param folder string
---@return integer
function index.next_number(folder)
  local highest = 0
  for _, name in ipairs(system.list(folder)) do
    highest = math.max(highest, math.tointeger(tonumber(name:match(FILE))) or 0)
  end
  return highest + 1
end

--- Whether a folder has an index.
---@param folder string
---@return boolean
function index.is_there(folder) return system.exists(folder .. "/" .. NAME) == "file" end

--- Makes the files of a folder a checkpoint, and removes those of earlier ones.
---@param folder string
---@param text string the tree of values
---@param tensors table<string, table> by name: dtype, shape and parts, each { file, key, first,
---   shape }
function index.write(op, folder, text, tensors)
  local bytes = json.encode { format = FORMAT, version = VERSION, tree = text, tensors = tensors }
  system.write_file(folder .. "/" .. NAME, { bytes, "\n" }, op)
  local used = {}
  for _, tensor in pairs(tensors) do
    for _, part in ipairs(tensor.parts) do used[part.file] = true end
  end
  for _, name in ipairs(system.list(folder)) do
    if name:match(FILE) and not used[name] then os.remove(folder .. "/" .. name) end
  end
end

-- --- reading ------------------------------------------------------------------------------------

-- An array of integers from `low` on, of that length where it is given.
local function is_sizes(value, low, length)
  if type(value) ~= "table" or length and #value ~= length or #value > 64 then return false end
  local count = 0
  for _, size in pairs(value) do
    if math.type(size) ~= "integer" or size < low or size > 1 << 53 then return false end
    count = count + 1
  end
  return count == #value
end

local function numel(shape)
  local out = 1
  for _, size in ipairs(shape) do
    if size ~= 0 and out > (1 << 53) // size then error("a tensor has too many elements", 0) end
    out = out * size
  end
  return out
end

local function check_part(name, tensor, part)
  if type(part) ~= "table" or type(part.key) ~= "string" or type(part.file) ~= "string"
      or not part.file:find(FILE) then
    error(("a part of '%s' names no file of a checkpoint"):format(name), 0)
  elseif not is_sizes(part.shape, 0, #tensor.shape)
      or not is_sizes(part.first, 1, #tensor.shape) then
    error(("a part of '%s' has no position"):format(name), 0)
  end
  for dim, size in ipairs(tensor.shape) do
    if part.first[dim] - 1 + part.shape[dim] > size then
      error(("a part of '%s' lies outside of it"):format(name), 0)
    end
  end
end

local function overlap(a, b)
  for dim = 1, #a.first do
    if a.first[dim] >= b.first[dim] + b.shape[dim]
        or b.first[dim] >= a.first[dim] + a.shape[dim] then
      return false
    end
  end
  return true
end

-- Parts that have no element in common, and as many as the whole, are the whole.
local function check_cover(name, tensor)
  local parts, total = {}, 0
  for _, part in ipairs(tensor.parts) do
    local count = numel(part.shape)
    total = total + count
    if count > 0 then parts[#parts + 1] = part end
  end
  if total ~= numel(tensor.shape) then
    error(("the parts of '%s' have %d elements, it has %d"):format(name, total,
      numel(tensor.shape)), 0)
  end
  table.sort(parts, function(a, b) return (a.first[1] or 1) < (b.first[1] or 1) end)
  local in_rows = true
  for i = 2, #parts do
    in_rows = in_rows and parts[i].first[1] >= parts[i - 1].first[1] + parts[i - 1].shape[1]
  end
  if in_rows then return end
  if #parts > MOST_PARTS then error(("'%s' has too many parts"):format(name), 0) end
  for i = 1, #parts do
    for j = i + 1, #parts do
      if overlap(parts[i], parts[j]) then
        error(("two parts of '%s' have elements in common"):format(name), 0)
      end
    end
  end
end

local function check_tensor(name, tensor)
  if type(name) ~= "string" or type(tensor) ~= "table" or type(tensor.dtype) ~= "string"
      or not pcall(ml.empty, 0, { dtype = tensor.dtype }) then
    error(("'%s' is no tensor of a known dtype"):format(tostring(name)), 0)
  elseif not is_sizes(tensor.shape, 0) or type(tensor.parts) ~= "table" then
    error(("'%s' has no shape or no parts"):format(name), 0)
  end
  for _, part in ipairs(tensor.parts) do check_part(name, tensor, part) end
  check_cover(name, tensor)
end

-- Stands for a tensor in the tree: its entry in the index.
local Leaf = {}

--- Whether a value of the tree stands for a tensor.
---@param value any
---@return boolean
function index.is_tensor(value) return getmetatable(value) == Leaf end

local function decode(text)
  local found = json.decode(text, budget.new(#text):rest())
  if type(found) ~= "table" or found.format ~= FORMAT then
    error("it is none of a checkpoint", 0)
  end
  if found.version ~= VERSION then
    error(("it has version %s, this library reads version %d"):format(tostring(found.version),
      VERSION), 0)
  elseif type(found.tensors) ~= "table" or type(found.tree) ~= "string" then
    error("it has no tensors or no tree", 0)
  end
  for name, tensor in pairs(found.tensors) do
    check_tensor(name, tensor)
    tensor.name = name
    setmetatable(tensor, Leaf)
  end
  return tree.decode(found.tree, found.tensors, budget.new(#found.tree))
end

--- The tree of values of a folder's checkpoint, checked; for tensors it has their entries: name,
--- dtype, shape and parts.
---@param op string
---@param folder string
---@return table
function index.read(op, folder)
  local path = folder .. "/" .. NAME
  if not index.is_there(folder) then
    fail("%s: '%s' has no checkpoint: there is no %s", op, folder, NAME)
  end
  local ok, found = pcall(decode, system.read_file(path, op, MOST_BYTES))
  if not ok then fail("%s: '%s': %s", op, path, (tostring(found):gsub("^[^\n]-:%d+: ", ""))) end
  return found
end

return index
