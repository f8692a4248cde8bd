-- stdlib/files/pickle.lua: reads Python's pickles of plain values, protocols 2 to 5. A pickle is a
-- program for a machine with a stack; here it can make numbers, strings, lists, tuples, sets and
-- dicts, and call what the reader of the file offers by name, nothing else: other classes are
-- names, and what they make is left out. The opcodes are those of Python's pickletools. What it
-- makes, and each opcode, is within the budget of the file: few bytes can ask for much, as values
-- that are noted can be used any number of times.

local Budget = require "moonlet.files.budget"
local Keys = require "moonlet.files.keys"
local notes = require "moonlet.files.notes"
local python = require "moonlet.files.python"

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
  local value = self:peek()
  self.stack[self.top] = nil
  self.top = self.top - 1
  return value
end

function Machine:peek()
  local value = self.stack[self.top]
  if value == nil or value == MARK then fail "a value is missing" end
  return value
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

-- --- lists, tuples, sets and dicts -------------------------------------------------------------

-- A value as it stands in a table: what stands for None is nil there, and classes that have a value
-- of their own, as dtypes, are that.
local function held(value)
  if type(value) ~= "table" then return value end
  if value == NONE then return nil end
  if getmetatable(value) == python.Global and value.value ~= nil then return value.value end
  return value
end

-- Lists, tuples and sets are tables from 1. None is nil in them, so their lengths are kept aside.
function Machine:make_list(values, kind)
  self.budget:take(LIST)
  local list = {}
  self.lengths[list], self.kinds[list] = 0, kind
  self:append(list, values, kind)
  return list
end

function Machine:append(list, values, kind)
  local length = self.lengths[list]
  self.budget:take(Budget.ITEM * values.n)
  if getmetatable(list) == python.Object then return end
  if not length or self.kinds[list] ~= kind then fail("a %s is expected", kind or "list") end
  for i = 1, values.n do
    local value = held(values[i])
    if value == nil then self.holes[list] = true end
    list[length + i] = value
  end
  self.lengths[list] = length + values.n
end

-- A key of a dict: an object that is left out where it can be none in Lua.
local function key_of(m, value)
  local key = held(value)
  if key == nil then return python.object(m.budget, "None") end
  if key ~= key then return python.object(m.budget, "nan") end
  return key
end

function Machine:set_item(dict, key, value)
  local note = self.dicts[dict]
  if type(key) == "number" then self.keys:add(dict, key) end
  local old_none = note.none and note.none[key]
  if dict[key] == nil and not old_none then note.keys[#note.keys + 1] = key end
  if old_none then note.none[key] = nil end
  dict[key] = held(value)
  if dict[key] == nil then
    note.none = note.none or {}
    note.none[key] = true
  end
end

function Machine:set_items(dict, values)
  self.budget:take((Budget.KEY + Budget.ITEM) * values.n // 2)
  if getmetatable(dict) == python.Object then return end
  local fits = type(dict) == "table" and self.dicts[dict] and values.n % 2 == 0
  if not fits then fail "a dict is expected" end
  for i = 1, values.n, 2 do self:set_item(dict, key_of(self, values[i]), values[i + 1]) end
end

function Machine:make_dict()
  self.budget:take(LIST + Budget.TABLE)
  local dict = {}
  self.dicts[dict] = notes.set(dict, { kind = "dict", keys = {}, none = nil })
  return dict
end

-- The length of a list, tuple or set, or nothing for any other value.
function Machine:length(value) return type(value) == "table" and self.lengths[value] or nil end

-- Notes of lists what their items do not say.
local function note_lists(m)
  for list, length in next, m.lengths do
    local kind, holes = m.kinds[list], m.holes[list]
    if kind or holes or length == 0 then
      notes.set(list, { kind = kind or "list", n = (holes or length == 0) and length or nil })
    end
  end
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
literal(0x96, "<s8")  -- a bytearray
op(0x98, function() end)  -- what can no longer be written to

-- Floats have no integers of more bytes.
local MOST_INTEGER = 128

-- The digits of an integer in hexadecimal, without its sign, and whether it is negative.
local function digits_of(bytes)
  local negative, carry, parts = bytes:byte(-1) >= 0x80, 1, {}
  for i = 1, #bytes do
    local byte = bytes:byte(i)
    if negative then
      byte = (0xff - byte) + carry
      carry, byte = byte >> 8, byte & 0xff
    end
    parts[#bytes + 1 - i] = ("%02x"):format(byte)
  end
  return table.concat(parts):match "^0*(.*)$", negative
end

-- Whether a float has all the bits between the first and the last one that is set.
local function is_exact(digits)
  local some = digits:gsub("0*$", "")
  local first, last, bits = tonumber(some:sub(1, 1), 16), tonumber(some:sub(-1), 16), 4 * #some
  while first < 8 do first, bits = first << 1, bits - 1 end
  while last & 1 == 0 do last, bits = last >> 1, bits - 1 end
  return bits <= 53
end

-- An integer of more than 64 bits: a float where that is the same number, and else left out for the
-- nearest one.
local function large(m, size)
  if size > #m.bytes - m.at + 1 then fail "the pickle has no end" end
  m.at = m.at + size
  local value
  if size <= MOST_INTEGER then
    m.budget:take(64 * size)
    local digits, negative = digits_of(m.bytes:sub(m.at - size, m.at - 1))
    if #digits < 16 then
      return (negative and -1 or 1) * (digits == "" and 0 or math.tointeger(tonumber(digits, 16)))
    end
    value = tonumber("0x" .. digits .. "p0") * (negative and -1 or 1)
    if is_exact(digits) then return value end
  end
  return python.object(m.budget, "int", ("an integer of %d bytes%s"):format(size,
    value and "; the nearest float is in its place" or ""), value)
end

local function long(code, format)
  op(code, function(m)
    local size = m:read(format)
    if size > 8 then return m:push(large(m, size)) end
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
op(")", function(m) m:push(m:make_list({ n = 0 }, "tuple")) end)
op("}", function(m) m:push(m:make_dict()) end)
op("l", function(m) m:push(m:make_list(m:pop_marked())) end)
op("t", function(m) m:push(m:make_list(m:pop_marked(), "tuple")) end)
op(0x8f, function(m) m:push(m:make_list({ n = 0 }, "set")) end)
op(0x91, function(m) m:push(m:make_list(m:pop_marked(), "frozenset")) end)
op(0x90, function(m)
  local values = m:pop_marked()
  m:append(m:peek(), values, "set")
end)
op("d", function(m)
  local values, dict = m:pop_marked(), m:make_dict()
  m:set_items(dict, values)
  m:push(dict)
end)
for count = 1, 3 do
  op(0x84 + count, function(m)
    local values = { n = count }
    for i = count, 1, -1 do values[i] = m:pop() end
    m:push(m:make_list(values, "tuple"))
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

op("0", function(m)
  if m.top == 0 then fail "a value is missing" end
  m.stack[m.top], m.top = nil, m.top - 1
end)
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
  if type(name) ~= "string" or type(module) ~= "string" then fail "a name is expected" end
  m:push(m.find(module, name))
end)

--- What a call gives: of what the reader of the file offers its result, and of others an object
--- that is left out. `arguments` is a tuple.
function Machine:called(callee, arguments)
  local meta, count = python.stand_in(callee), self:length(arguments)
  if meta == python.Global and callee.call and count then
    self.budget:take(Budget.TABLE + 16 * count)
    local result = callee.call(self, table.unpack(arguments, 1, count))
    if result == nil then return NONE end
    return result
  elseif meta ~= python.Global and meta ~= python.Object then
    fail "a call of what cannot be called"
  end
  return python.object(self.budget, callee.name or callee.class)
end

local function call(m)
  local arguments, callee = m:pop(), m:pop()
  m:push(m:called(callee, arguments))
end
op("R", call)
op(0x81, call)
-- With arguments by name, which nothing that is known here takes.
op(0x92, function(m)
  m:pop()
  call(m)
end)
-- Attributes of an object: a table has none.
op("b", function(m)
  local state, value = m:pop(), m:peek()
  local meta = python.stand_in(value)
  if meta and meta.build then meta.build(value, state, m) end
end)
op("Q", function(m)
  m.budget:take(Budget.TENSOR)
  m:push(m.load(m:pop()))
end)

--- The value of a pickle, the position behind it, and why parts of it are left out, by their paths,
--- if any are. None is nil, lists, tuples and sets are tables from 1, dicts are tables; what else
--- they were is noted by moonlet.files.notes.
---@param bytes string
---@param find fun(module: string, name: string): table what stands for a class or function: a
--- moonlet.files.python
---@param load fun(id: any): any what a persistent id stands for
---@param budget table a moonlet.files.budget
---@param at? integer where the pickle begins (default 1)
---@return any
---@return integer
---@return table<string, string>?
function pickle.read(bytes, find, load, budget, at)
  local m = setmetatable({ bytes = bytes, at = at or 1, stack = {}, top = 0, memo = {}, noted = 0,
    lengths = {}, kinds = {}, holes = {}, dicts = {}, find = find, load = load, budget = budget,
    keys = Keys.new() }, Machine)
  while true do
    budget:take(OPCODE)
    local code = m:read "B"
    if code == (".") :byte() then break end
    local run = opcodes[code] or fail("opcode %d is not known", code)
    run(m)
  end
  local value = held(m:pop())
  note_lists(m)
  local emptied, left_out
  value, left_out, emptied = python.settle(value, budget)
  for list in next, emptied do m.holes[list] = m.lengths[list] and true or nil end
  note_lists(m)
  return value, m.at, left_out
end

return pickle
