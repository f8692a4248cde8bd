-- stdlib/files/pickle_writer.lua: writes Python's pickles of plain values, protocol 2. A table
-- whose keys are 1 to n becomes a list, another one a dict; one that stands at two places is
-- written once.

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

local function is_list(value)
  local count = 0
  for _ in pairs(value) do count = count + 1 end
  return count > 0 and count == #value and value[1] ~= nil
end

local function sorted_keys(value, path)
  local keys = {}
  for key in pairs(value) do
    local kind = type(key)
    if kind ~= "string" and kind ~= "number" and kind ~= "boolean" then
      fail("'%s' has a key that is a %s", path, kind)
    end
    keys[#keys + 1] = key
  end
  table.sort(keys, function(a, b)
    if type(a) ~= type(b) then return type(a) == "number" or type(b) == "string" end
    if type(a) == "boolean" then return b and not a end
    return a < b
  end)
  return keys
end

local function path_of(path, key)
  return path == "" and tostring(key) or path .. "/" .. tostring(key)
end

-- The state of an optimiser is numbered, and a dict also where its numbers are 1 to n.
local function is_numbered(value, key)
  return key == "state" and type(rawget(value, "param_groups")) == "table"
end

function Writer:table(value, path, depth, as_dict)
  if depth > MAX_DEPTH then fail("'%s' nests too deeply", path) end
  if getmetatable(value) ~= nil then fail("'%s' is an object; save its state_dict()", path) end
  local list = not as_dict and is_list(value)
  self:put(list and "]" or "}")
  self:note(value)
  if list then
    self:put "("
    for i, item in ipairs(value) do self:value(item, path_of(path, i), depth + 1) end
    return self:put "e"
  end
  self:put "("
  for _, key in ipairs(sorted_keys(value, path)) do
    self:value(key, path, depth)
    self:value(value[key], path_of(path, key), depth + 1, is_numbered(value, key))
  end
  self:put "u"
end

--- Writes a value; `path` says where it is, for messages.
function Writer:value(value, path, depth, as_dict)
  local kind = type(value)
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
  local writer = setmetatable({ out = { "\x80\2" }, memo = {}, noted = 0, object = object }, Writer)
  writer:value(value, "", 1)
  writer:put "."
  return table.concat(writer.out)
end

return pickle_writer
