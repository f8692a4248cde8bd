-- stdlib/files/pickle_writer.lua: writes Python's pickles of plain values, protocol 2. A table
-- whose keys are 1 to n becomes a list, another one a dict, unless moonlet.files.notes says what it
-- is; one that stands at two positions is written once.

local notes = require "moonlet.files.notes"

local pickle_writer = {}

local MAX_DEPTH = 1000

local function fail(format, ...) error(format:format(...), 0) end

local Writer = {}
Writer.__index = Writer

function Writer:put(...) self.out[#self.out + 1] = table.concat { ... } end

-- Notes what is on the top of the stack as `value`, which may come again.
function Writer:note(value)
  local number = self.noted
  self.noted, self.memo[value] = number + 1, number
  self:put(number < 256 and ("q" .. string.char(number)) or ("r" .. ("<I4"):pack(number)))
end

-- Whether `value` was written, and if it was, puts it on the stack.
function Writer:known(value)
  local number = self.memo[value]
  if number then
    self:put(number < 256 and ("h" .. string.char(number)) or ("j" .. ("<I4"):pack(number)))
  end
  return number ~= nil
end

--- A name of Python: a function or class of a module.
function Writer:name(module, name) self:put("c", module, "\n", name, "\n") end

function Writer:integer(value)
  if value >= 0 and value < 256 then
    self:put("K", string.char(value))
  elseif value >= -(1 << 31) and value < 1 << 31 then
    self:put("J", ("<i4"):pack(value))
  else
    self:put("\x8a\8", ("<i8"):pack(value))
  end
end

-- A string that is no UTF-8 is bytes, which protocol 2 has as a call on characters up to 255.
function Writer:string(text)
  if utf8.len(text) then return self:put("X", ("<s4"):pack(text)) end
  self:name("_codecs", "encode")
  local characters = text:gsub("[\x80-\xff]", function(byte) return utf8.char(byte:byte()) end)
  self:put("X", ("<s4"):pack(characters), "X", ("<s4"):pack "latin1", "\x86R")
end

--- A tuple of integers.
function Writer:integers(values)
  self:put "("
  for _, value in ipairs(values) do self:integer(value) end
  self:put "t"
end

-- The length of a table as a list, or nothing where it is none: its keys are 1 to n, but for those
-- that are noted as None.
local function length_of(value, noted)
  local count, last = 0, noted or 0
  for key in next, value do
    if math.type(key) ~= "integer" or key < 1 then return nil end
    count, last = count + 1, math.max(last, key)
  end
  return (count == last or last == noted) and last or nil
end

-- What a table becomes, and its length where that is no dict.
local function kind_of(value, as_dict)
  local note = notes.of(value)
  if as_dict or note and note.kind == "dict" then return "dict" end
  local length = length_of(value, note and note.n)
  if not length or length == 0 and not note then return "dict" end
  return note and note.kind or "list", length
end

local function check_key(key, path)
  local kind = type(key)
  if kind == "table" and getmetatable(key) == nil and kind_of(key) == "tuple" then return end
  if kind ~= "string" and kind ~= "number" and kind ~= "boolean" then
    fail("'%s' has a key that is a %s", path, kind)
  end
end

local function path_of(path, key)
  if type(key) == "table" then key = "a tuple" end
  return path == "" and tostring(key) or path .. "/" .. tostring(key)
end

-- The state of an optimiser is numbered, and a dict also where its numbers are 1 to n.
local function is_numbered(value, key)
  return key == "state" and type(rawget(value, "param_groups")) == "table"
end

-- The items of a list, which stands on the stack, or between a mark and what follows.
function Writer:items(value, length, path, depth)
  self:put "("
  for i = 1, length do self:value(value[i], path_of(path, i), depth + 1) end
end

-- Those that are made of their items: they are noted behind these, and cannot contain themselves.
function Writer:tuple(value, kind, length, path, depth)
  if self.open[value] then fail("'%s' is a tuple or set that contains itself", path) end
  self.open[value] = true
  if kind == "Size" then
    self:name("torch", "Size")
  elseif kind ~= "tuple" then
    self:name("builtins", kind)
  end
  if kind == "set" or kind == "frozenset" then self:put "]" end
  self:items(value, length, path, depth)
  self:put((kind == "set" or kind == "frozenset") and "e" or "t", kind ~= "tuple" and "\x85R" or "")
  self.open[value] = nil
  self:note(value)
end

function Writer:dict(value, path, depth)
  self:put "}"
  self:note(value)
  self:put "("
  for _, key in ipairs(notes.keys(value)) do
    check_key(key, path)
    self:value(key, path, depth)
    self:value(value[key], path_of(path, key), depth + 1, is_numbered(value, key))
  end
  self:put "u"
end

function Writer:table(value, path, depth, as_dict)
  if depth > MAX_DEPTH then fail("'%s' nests too deeply", path) end
  if getmetatable(value) ~= nil then fail("'%s' is an object; save its state_dict()", path) end
  local kind, length = kind_of(value, as_dict)
  if kind == "dict" then return self:dict(value, path, depth) end
  if kind ~= "list" then return self:tuple(value, kind, length, path, depth) end
  self:put "]"
  self:note(value)
  self:items(value, length, path, depth)
  self:put "e"
end

--- Writes a value; `path` says where it is, for messages.
function Writer:value(value, path, depth, as_dict)
  local kind = type(value)
  if value == nil then return self:put "N" end
  if kind == "boolean" then return self:put(value and "\x88" or "\x89") end
  if kind == "string" then return self:string(value) end
  if math.type(value) == "integer" then return self:integer(value) end
  if kind == "number" then return self:put("G", (">d"):pack(value)) end
  if kind ~= "table" and kind ~= "userdata" then
    fail("'%s' is a %s, which cannot be saved", path, kind)
  end
  if self:known(value) then return end
  if self.object(self, value, path) then return self:note(value) end
  if kind == "userdata" then fail("'%s' is an object, which cannot be saved", path) end
  self:table(value, path, depth, as_dict)
end

--- The pickle of a value. `object(writer, value, path)` writes what is no plain value, as a tensor,
--- and says whether it did.
---@param value any
---@param object fun(writer: table, value: any, path: string): boolean
---@return string
function pickle_writer.write(value, object)
  local writer = setmetatable({ out = { "\x80\2" }, memo = {}, noted = 0, open = {},
    object = object }, Writer)
  writer:value(value, "", 1)
  writer:put "."
  return table.concat(writer.out)
end

return pickle_writer
