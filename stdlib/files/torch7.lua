-- stdlib/files/torch7.lua: reads what Torch7's `torch.save` wrote, binary or as text. Format:
-- File.lua and DiskFile.c of torch/torch7. A value is the number of its type and what belongs to
-- it; what may stand at several positions has a number, and is written where it stands first.

local Budget = require "moonlet.files.budget"
local Cursor = require "moonlet.files.cursor"
local Keys = require "moonlet.files.keys"
local Source = require "moonlet.files.source"
local ml = require "moonlet"

local torch7 = {}

local function fail(format, ...) error(format:format(...), 0) end

local NIL, NUMBER, STRING, TABLE, TORCH, BOOLEAN, FUNCTION = 0, 1, 2, 3, 4, 5, 6
local OLD_CLOSURE, CLOSURE = 7, 8

local DTYPES = { Byte = "uint8", Char = "int8", Short = "int16", Int = "int32", Long = "int64",
  Half = "float16", Float = "float32", Double = "float64" }
for _, name in ipairs { "Byte", "Char", "Short", "Int", "Long", "Half", "Double" } do
  DTYPES["Cuda" .. name] = DTYPES[name]
end
DTYPES.Cuda = "float32"

local MAX_DEPTH, MOST_DIMS, MOST_NAME = 5000, 16, 1000
-- A value, for the time that it takes; and how much of a key stands in the place of a value.
local VALUE, MOST_KEY = 48, 100

-- --- numbers and characters -------------------------------------------------------------------

-- Both readers have `int`, `long` and `double`, `longs(n)`, `chars(n)` and `elements(dtype, n)`.

local Binary = {}
Binary.__index = Binary

local function binary(file, long_size)
  return setmetatable({ cursor = Cursor.new(file, 0), file = file, long_size = long_size }, Binary)
end

function Binary:chars(count) return self.cursor:chars(count) end
function Binary:int() return self.cursor:number("<i4", 4) end
function Binary:double() return self.cursor:number("<d", 8) end
function Binary:long() return self.cursor:number("<i" .. self.long_size, self.long_size) end

function Binary:longs(count)
  local out = {}
  for i = 1, count do out[i] = self:long() end
  return out
end

function Binary:elements(dtype, count)
  local narrow = dtype == "int64" and self.long_size == 4
  if narrow then dtype = "int32" end
  local width = Source.width(dtype)
  if count < 0 or count > self.file.size // width then fail "the file is cut off" end
  local cursor = self.cursor
  local out = self.file:tensor(cursor.at, count * width, dtype)
  cursor.at = cursor.at + count * width
  return narrow and out:to "int64" or out
end

local Text = {}
Text.__index = Text

local function text(file)
  return setmetatable({ bytes = file:bytes(0, file.size), at = 1, file = file }, Text)
end

function Text:token()
  local _, last, token = self.bytes:find("^%s*(%S+)", self.at)
  if not last then fail "the file is cut off" end
  self.at = last + 1
  return token
end

-- A line ends behind each group of numbers or characters.
function Text:end_line()
  if self.bytes:byte(self.at) == 10 then self.at = self.at + 1 end
end

local WORDS = { nan = 0 / 0, ["-nan"] = 0 / 0, inf = math.huge, ["-inf"] = -math.huge }

function Text:number()
  local token = self:token()
  return tonumber(token) or WORDS[token:lower()] or fail("'%s' is no number", token:sub(1, 20))
end

function Text:int()
  local value = math.tointeger(self:number()) or fail "a whole number is expected"
  self:end_line()
  return value
end
Text.long = Text.int

function Text:double()
  local value = self:number() + 0.0
  self:end_line()
  return value
end

function Text:chars(count)
  if count > #self.bytes - self.at + 1 then fail "the file is cut off" end
  local out = self.bytes:sub(self.at, self.at + count - 1)
  self.at = self.at + count
  if count > 0 then self:end_line() end
  return out
end

function Text:longs(count)
  local out = {}
  for i = 1, count do
    out[i] = math.tointeger(self:number()) or fail "a whole number is expected"
  end
  if count > 0 then self:end_line() end
  return out
end

function Text:elements(dtype, count)
  if count < 0 or count > #self.bytes then fail "the file is cut off" end
  if dtype == "uint8" or dtype == "int8" then return ml.from_bytes(self:chars(count), dtype) end
  local out, budget = {}, self.file.budget
  for i = 1, count do
    budget:take(VALUE)
    out[i] = self:number()
  end
  if count > 0 then self:end_line() end
  return ml.tensor(out, { dtype = dtype })
end

-- --- values -----------------------------------------------------------------------------------

local Reader = {}
Reader.__index = Reader

-- The path to a value is as long as the keys above it, each time, and is compared with others when
-- the message is made.
function Reader:leave_out(what)
  local length = 0
  for _, key in ipairs(self.keys) do length = length + #key + 1 end
  self.budget:take(8 * length + Budget.KEY + Budget.STRING)
  self.left_out[#self.keys > 0 and table.concat(self.keys, "/") or "the value"] = what
end

function Reader:string()
  local size = self.from:int()
  if size < 0 then fail "a string is damaged" end
  local bytes = self.from:chars(size)
  self.budget:take_string(size)
  return bytes
end

-- A key in the path to a value.
local function shown(key)
  local kind = type(key)
  if kind ~= "string" and kind ~= "number" and kind ~= "boolean" then return "(" .. kind .. ")" end
  local whole = tostring(key)
  return #whole > MOST_KEY and whole:sub(1, MOST_KEY) .. "..." or whole
end

-- The item of a table or object that is read, for what is said of it.
function Reader:item(key)
  self.keys[#self.keys + 1] = shown(key)
  local value = self:value()
  self.keys[#self.keys] = nil
  return value
end

function Reader:table(out)
  local count = self.from:int()
  if count < 0 then fail "a table is damaged" end
  for _ = 1, count do
    local key = self:item "(key)"
    if key == nil or key ~= key then fail "a key of a table is damaged" end
    self.budget:take(Budget.KEY)
    if type(key) == "number" then self.table_keys:add(out, key) end
    out[key] = self:item(key)
  end
end

function Reader:storage(index, dtype)
  self.budget:take(Budget.TENSOR)
  local elements = self.from:elements(dtype, self.from:long())
  local storage = elements:storage()
  self.elements[storage], self.objects[index] = elements, storage
end

function Reader:tensor(index, dtype)
  local rank = self.from:int()
  if rank < 0 or rank > MOST_DIMS then fail "a tensor is damaged" end
  local size, stride = self.from:longs(rank), self.from:longs(rank)
  local offset = self.from:long() - 1
  local storage = self:item "storage"
  local elements = storage ~= nil and self.elements[storage]
  if storage ~= nil and (not elements or elements.dtype ~= dtype) then
    fail "a tensor is damaged"
  end
  if not elements or rank == 0 then
    self.budget:take(Budget.TENSOR)
    self.objects[index] = ml.empty({ 0 }, { dtype = dtype })
  else
    self.objects[index] = self.from.file:strided(elements, offset, size, stride)
  end
end

-- An object of a class of Torch's, or of a script's: its fields, and the name of its class.
function Reader:object(index)
  local name = self:string()
  if name:find "^V %d+$" then name = self:string() end
  if #name > MOST_NAME then fail "the name of a class is damaged" end
  local element, kind = name:match "^torch%.(%w-)(Tensor)$"
  if not element then element, kind = name:match "^torch%.(%w-)(Storage)$" end
  if element and DTYPES[element] then
    return (kind == "Tensor" and self.tensor or self.storage)(self, index, DTYPES[element])
  end
  local out = {}
  self.objects[index] = out
  if self.from:int() ~= TABLE then
    fail("it holds an object of class %s, which is not known here", name)
  end
  self:contents(self.from:int(), out)
  out.__typename = name
end

-- The table of number `index`, which is new: an object's fields are one, filled in for the object.
function Reader:contents(index, out)
  if self.objects[index] ~= nil then fail "an object is damaged" end
  self.objects[index] = out
  self:table(out)
end

-- A function is Lua's code, which is not run; it is nil, and so are the values it holds.
function Reader:closure()
  self:string()
  self:leave_out "it is a function"
  self:item "upvalues"
end

-- What has a number and may come again.
function Reader:shared(kind)
  local index = self.from:int()
  local known = self.objects[index]
  if known ~= nil or self.closures[index] then return known end
  self.budget:take(Budget.TABLE + Budget.KEY)
  self.table_keys:add(self.objects, index)
  if kind == TORCH then
    self:object(index)
  elseif kind == TABLE then
    self:contents(index, {})
  else
    self.closures[index] = true
    self:closure()
  end
  return self.objects[index]
end

-- Torch's numbers are floats; whole ones are integers here.
local function number_of(value)
  if math.abs(value) < 2 ^ 53 then return math.tointeger(value) or value end
  return value
end

function Reader:value()
  self.budget:take(VALUE)
  local kind = self.from:int()
  if kind == NIL then return nil end
  if kind == NUMBER then return number_of(self.from:double()) end
  if kind == STRING then return self:string() end
  if kind == BOOLEAN then return self.from:int() == 1 end
  if kind ~= FUNCTION and kind ~= TABLE and kind ~= TORCH and kind ~= OLD_CLOSURE
    and kind ~= CLOSURE then
    fail("a value has the type %d, which is not known", kind)
  end
  self.depth = self.depth + 1
  if self.depth > MAX_DEPTH then fail "its values nest too deeply" end
  local value
  if kind == FUNCTION then value = self:closure() else value = self:shared(kind) end
  self.depth = self.depth - 1
  return value
end

--- What the module `torch` makes its own reader of: one that reads from `from`, within a budget.
torch7.Reader = Reader
function torch7.new_reader(from, budget)
  return setmetatable({ from = from, objects = {}, elements = {}, closures = {}, keys = {},
    left_out = {}, depth = 0, budget = budget, table_keys = Keys.new() }, Reader)
end

local function read_from(from)
  local reader = torch7.new_reader(from, from.file.budget)
  local value = reader:value()
  return value, nil, next(reader.left_out) and reader.left_out or nil
end

--- The value of a file, and why values are left out, by their position, if any are. A binary file
--- does not say how many bytes its long integers have: 8, or 4 where that does not fit.
---@param file table a moonlet.files.source
---@return any
---@return nil
---@return table<string, string>?
function torch7.read(file)
  if file.mapped then fail "'mmap' is for files whose elements are aligned, not for Torch7's" end
  if file:some(0, 2):find "^%d%s" then return read_from(text(file)) end
  local ok, value, _, left_out = pcall(read_from, binary(file, 8))
  if ok then return value, nil, left_out end
  local short = binary(file, 4)
  local again, other, _, others = pcall(read_from, short)
  if again and short.cursor.at == file.size then return other, nil, others end
  error(value, 0)
end

return torch7
