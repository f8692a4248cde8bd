-- stdlib/files/pickle.lua: reads Python's pickles of plain values, protocols 2 to 5. A pickle is a
-- program for a machine with a stack; here it can make numbers, strings, lists, tuples and dicts,
-- and call what the reader of the file offers by name, nothing else. The opcodes are those of
-- Python's pickletools. What it makes, and each opcode, is within the budget of the file: few bytes
-- can ask for much, as values that are noted can be used any number of times.

local Budget = require "moonlet.files.budget"
local Keys = require "moonlet.files.keys"

local pickle = {}

-- An opcode, for the time that it takes; a list or dict, with what is noted of it.
local OPCODE, LIST = 64, Budget.TABLE + 2 * Budget.KEY

local NONE = setmetatable({}, { __name = "None" })
local MARK = {}

local function fail(format, ...) error(format:format(...), 0) end

-- --- the stack --------------------------------------------------------------------------------

local Machine = {}
Machine.__index = Machine

function Machine:push(value)
  self.top = self.top + 1
  self.stack[self.top] = value
end

function Machine:pop()
  if self.top == 0 then fail "a value is missing" end
  local value = self.stack[self.top]
  self.stack[self.top] = nil
  self.top = self.top - 1
  return value
end

function Machine:peek()
  if self.top == 0 then fail "a value is missing" end
  return self.stack[self.top]
end

-- The values above the last mark, which goes too.
function Machine:pop_marked()
  local from = self.top
  while from > 0 and self.stack[from] ~= MARK do from = from - 1 end
  if from == 0 then fail "a mark is missing" end
  self.budget:take(Budget.TABLE + 16 * (self.top - from))
  local values = { n = self.top - from }
  for i = 1, values.n do values[i] = self.stack[from + i] end
  for i = from, self.top do self.stack[i] = nil end
  self.top = from - 1
  return values
end

function Machine:read(format)
  if self.at > #self.bytes then fail "the pickle has no end" end
  local value, after = string.unpack(format, self.bytes, self.at)
  if type(value) == "string" then self.budget:take_string(#value) end
  self.at = after
  return value
end

function Machine:read_line()
  local stop = self.bytes:find("\n", self.at, true) or fail "a name has no end"
  self.budget:take_string(stop - self.at)
  local line = self.bytes:sub(self.at, stop - 1)
  self.at = stop + 1
  return line
end

-- --- lists, tuples and dicts ------------------------------------------------------------------

-- Lists and tuples are tables from 1. None is nil in them, so their lengths are kept aside.
function Machine:make_list(values)
  self.budget:take(LIST)
  local list = {}
  self.lengths[list] = 0
  self:append(list, values)
  return list
end

function Machine:append(list, values)
  local length = self.lengths[list] or fail "a list is wanted"
  self.budget:take(Budget.ITEM * values.n)
  for i = 1, values.n do
    local value = values[i]
    if value ~= NONE then list[length + i] = value end
  end
  self.lengths[list] = length + values.n
end

function Machine:set_items(dict, values)
  local fits = type(dict) == "table" and self.dicts[dict] and values.n % 2 == 0
  if not fits then fail "a dict is wanted" end
  self.budget:take(Budget.KEY * values.n // 2)
  for i = 1, values.n, 2 do
    local key, value = values[i], values[i + 1]
    local kind = type(key)
    if kind ~= "string" and kind ~= "boolean" and (kind ~= "number" or key ~= key) then
      fail "a key of a dict is neither a string nor a number"
    end
    if kind == "number" then self.keys:add(dict, key) end
    if value ~= NONE then dict[key] = value end
  end
end

function Machine:make_dict()
  self.budget:take(LIST)
  local dict = {}
  self.dicts[dict] = true
  return dict
end

-- --- the opcodes ------------------------------------------------------------------------------

local opcodes = {}

local function op(code, run) opcodes[type(code) == "string" and code:byte() or code] = run end

local function literal(code, format)
  op(code, function(m) m:push(m:read(format)) end)
end

local function constant(code, value)
  op(code, function(m) m:push(value) end)
end

constant("N", NONE)
constant(0x88, true)
constant(0x89, false)
constant("(", MARK)
literal("J", "<i4")
literal("K", "B")
literal("M", "<I2")
literal("G", ">d")
literal("X", "<s4")
literal(0x8c, "s1")
literal(0x8d, "<s8")
literal("B", "<s4")
literal("C", "s1")
literal("U", "s1")  -- strings of Python 2
literal("T", "<s4")
literal(0x8e, "<s8")

local function long(code, format)
  op(code, function(m)
    local size = m:read(format)
    if size > 8 then fail "an integer has more than 64 bits" end
    m:push(size == 0 and 0 or m:read("<i" .. size))
  end)
end
long(0x8a, "B")
long(0x8b, "<I4")

op(0x80, function(m)
  local protocol = m:read "B"
  if protocol > 5 then fail("protocol %d is not known", protocol) end
end)
op(0x95, function(m) m:read "<I8" end)  -- how long a frame is

op("]", function(m) m:push(m:make_list { n = 0 }) end)
op(")", function(m) m:push(m:make_list { n = 0 }) end)
op("}", function(m) m:push(m:make_dict()) end)
op("l", function(m) m:push(m:make_list(m:pop_marked())) end)
op("t", function(m) m:push(m:make_list(m:pop_marked())) end)
op("d", function(m)
  local values, dict = m:pop_marked(), m:make_dict()
  m:set_items(dict, values)
  m:push(dict)
end)
for count = 1, 3 do
  op(0x84 + count, function(m)
    local values = { n = count }
    for i = count, 1, -1 do values[i] = m:pop() end
    m:push(m:make_list(values))
  end)
end
op("a", function(m)
  local value = m:pop()
  m:append(m:peek(), { value, n = 1 })
end)
op("e", function(m)
  local values = m:pop_marked()
  m:append(m:peek(), values)
end)
op("s", function(m)
  local value, key = m:pop(), m:pop()
  m:set_items(m:peek(), { key, value, n = 2 })
end)
op("u", function(m)
  local values = m:pop_marked()
  m:set_items(m:peek(), values)
end)

op("0", function(m) m:pop() end)
op("1", function(m) m:pop_marked() end)
op("2", function(m) m:push(m:peek()) end)

local function put(code, format)
  op(code, function(m)
    local key = m:read(format)
    m.budget:take(Budget.KEY)
    m.keys:add(m.memo, key)
    m.memo[key] = m:peek()
  end)
end
local function get(code, format)
  op(code, function(m)
    local value = m.memo[m:read(format)]
    if value == nil then fail "a value that was not noted is asked for" end
    m:push(value)
  end)
end
put("q", "B")
put("r", "<I4")
get("h", "B")
get("j", "<I4")
op(0x94, function(m)
  local count = 0
  while m.memo[m.noted + count] ~= nil do count = count + 1 end
  m.noted = m.noted + count
  m.budget:take(Budget.ITEM)
  m.memo[m.noted] = m:peek()
  m.noted = m.noted + 1
end)

-- --- what the reader offers -------------------------------------------------------------------

op("c", function(m)
  local module = m:read_line()
  m:push(m.find(module, m:read_line()))
end)
op(0x93, function(m)
  local name, module = m:pop(), m:pop()
  if type(name) ~= "string" or type(module) ~= "string" then fail "a name is wanted" end
  m:push(m.find(module, name))
end)

local function call(m)
  local arguments, callee = m:pop(), m:pop()
  local count = m.lengths[arguments]
  if type(callee) ~= "function" or not count then fail "a call of what cannot be called" end
  m.budget:take(Budget.TABLE + 16 * count)
  local result = callee(table.unpack(arguments, 1, count))
  if type(result) == "table" and not m.lengths[result] then m.dicts[result] = true end
  m:push(result == nil and NONE or result)
end
op("R", call)
op(0x81, call)
op("b", function(m) m:pop() end)  -- attributes of an object: what is made here has none
op("Q", function(m)
  m.budget:take(Budget.TENSOR)
  m:push(m.load(m:pop()))
end)

--- The value of a pickle, and the position behind it. None is nil, lists and tuples are tables from
--- 1, dicts are tables.
---@param bytes string
---@param find fun(module: string, name: string): any what stands for a name of Python; errors for
--- names that it does not offer
---@param load fun(id: any): any what a persistent id stands for
---@param budget table a moonlet.files.budget
---@param at? integer where the pickle begins (default 1)
---@return any
---@return integer
function pickle.read(bytes, find, load, budget, at)
  local m = setmetatable({ bytes = bytes, at = at or 1, stack = {}, top = 0, memo = {}, noted = 0,
    lengths = {}, dicts = {}, find = find, load = load, budget = budget, keys = Keys.new() },
    Machine)
  while true do
    budget:take(OPCODE)
    local code = m:read "B"
    if code == (".") :byte() then break end
    local run = opcodes[code] or fail("opcode %d is not known", code)
    run(m)
  end
  local value = m:pop()
  if value == NONE then value = nil end
  return value, m.at
end

return pickle
