-- stdlib/files/python.lua: what stands for Python's classes, functions and objects while a pickle
-- is read, and how they leave the value that is read: as plain values where they have one, and else
-- left out, with a reason. Nothing of them is run.

local Budget = require "moonlet.files.budget"
local notes = require "moonlet.files.notes"

local python = {}

-- Of what a message shows.
local MOST_NAME = 100

-- What an object and a module take as they are read.
local OBJECT_BYTES = Budget.TABLE + 3 * Budget.KEY

--- A class or function by its name, "torch.Size". `call(machine, ...)` makes what a call of it
--- makes, where that is known here; `value` is what stands for it in the value that is read.
local Global = {}
Global.__index = Global
python.Global = Global

--- An object that is left out: of the class of that name, with the state that it was given; or for
--- the `reason`, with a `value` that is in its place, if there is any.
local Object = {}
Object.__index = Object
python.Object = Object

--- What `value` stands for where it is one of the tables made here or by the file's reader, whose
--- metatables have a method `settle`; nothing for any other value.
---@param value any
---@return table?
function python.stand_in(value)
  local meta = type(value) == "table" and getmetatable(value)
  return meta and meta.settle and meta or nil
end

--- A class or function of Python's that can be called, or stands for a value.
---@param name string
---@param call? fun(machine: table, ...): any
---@param value? any
---@return table
function python.global(name, call, value)
  return setmetatable({ name = name, call = call, value = value }, Global)
end

--- One that is known by its name alone.
---@param module string
---@param name string
---@return table
function python.unknown(module, name)
  -- Its name in Python 2, which pickles of protocol 2 have.
  if module == "__builtin__" then module = "builtins" end
  local full = module:sub(1, MOST_NAME) .. "." .. name:sub(1, MOST_NAME)
  return python.global((full:gsub("%c", "?")))
end

function Global:settle()
  if self.value ~= nil then return self.value end
  return nil, "the Python class or function " .. self.name
end

--- An object of a class, or one that is left out for a reason.
---@param budget table
---@param class string
---@param reason? string
---@param value? any
---@return table
function python.object(budget, class, reason, value)
  budget:take(OBJECT_BYTES)
  return setmetatable({ class = class, reason = reason, value = value, state = nil, made = nil },
    Object)
end

--- BUILD: the attributes of an object.
function Object:build(state)
  if type(state) == "table" then self.state = state end
end

-- --- modules ----------------------------------------------------------------------------------

local MOST_DEPTH = 100

local function is_table(value) return type(value) == "table" and getmetatable(value) == nil end

local function is_module(object)
  local state = object.state
  return is_table(state) and is_table(state._parameters) and is_table(state._buffers)
    and is_table(state._modules)
end

-- Puts the tensors of a table of a module into `out`, but for those of the names in `transient`.
local function add_tensors(out, from, prefix, transient, budget)
  local names = notes.keys(from)
  budget:take(Budget.TABLE + 2 * Budget.KEY * #names)
  for _, name in ipairs(names) do
    local value = from[name]
    if type(name) == "string" and value ~= nil and not transient[name] then
      budget:take(Budget.KEY + #prefix + #name)
      if out[prefix .. name] == nil then notes.add_key(out, prefix .. name) end
      out[prefix .. name] = value
    end
  end
end

-- As Module.state_dict names them.
local function add_module(out, object, prefix, budget, above)
  if #above > MOST_DEPTH then error("its modules nest too deeply", 0) end
  for _, other in ipairs(above) do
    if other == object then error("a module contains itself", 0) end
  end
  budget:take(OBJECT_BYTES + 64 * #above)
  local state, transient = object.state, {}
  local names = state._non_persistent_buffers_set
  for _, name in ipairs(is_table(names) and names or {}) do
    budget:take(Budget.KEY)
    transient[name] = true
  end
  add_tensors(out, state._parameters, prefix, {}, budget)
  add_tensors(out, state._buffers, prefix, transient, budget)
  above[#above + 1] = object
  local children = notes.keys(state._modules)
  budget:take(Budget.TABLE + 2 * Budget.KEY * #children)
  for _, name in ipairs(children) do
    local child = state._modules[name]
    if type(name) == "string" and getmetatable(child) == Object and is_module(child) then
      budget:take_string(#prefix + #name)
      add_module(out, child, prefix .. name .. ".", budget, above)
    end
  end
  above[#above] = nil
end

function Object:settle(budget)
  if self.reason then return self.value, self.reason end
  if not is_module(self) then return nil, "a Python object of class " .. self.class end
  if not self.made then
    self.made = {}
    add_module(self.made, self, "", budget, {})
  end
  return self.made, ("the module of class %s; its state dict is in its place"):format(self.class)
end

-- --- the value that is read -------------------------------------------------------------------

-- The tables of a value, each once, as they are found, and where each stands: the number of the
-- table above, and a key in it. All are in three lists, as there may be very many.
local Walk = {}
Walk.__index = Walk

-- The keys from the whole to what stands under `key` in the table of that number.
function Walk:path_of(position, key)
  local parts, size = { tostring(key) }, 0
  while self.above[position] ~= 0 do
    parts[#parts + 1] = tostring(self.key[position])
    size = size + #parts[#parts] + 1
    position = self.above[position]
  end
  self.budget:take(#parts * Budget.ITEM)
  self.budget:take_string(2 * size)
  for i = 1, #parts // 2 do
    parts[i], parts[#parts + 1 - i] = parts[#parts + 1 - i], parts[i]
  end
  return table.concat(parts, "/")
end

function Walk:leave(position, key, reason)
  local path = position == 0 and "" or self:path_of(position, key)
  self.budget:take(Budget.KEY + #reason)
  self.left_out = self.left_out or {}
  self.left_out[path] = reason
end

function Walk:push(value, position, key)
  if self.seen[value] then return end
  self.budget:take(2 * Budget.TABLE)
  self.seen[value] = true
  local number = #self.value + 1
  self.value[number], self.above[number], self.key[number] = value, position, key
end

-- What a value becomes, which stands under `key` in the table of the number `position`.
function Walk:settled(value, position, key)
  local meta = python.stand_in(value)
  if not meta then
    if type(value) == "table" then self:push(value, position, key) end
    return value
  end
  local plain, reason = meta.settle(value, self.budget)
  if reason then self:leave(position, key, reason) end
  if type(plain) == "table" then self:push(plain, position, key) end
  return plain
end

-- How a key that is a table reads in a path.
local function key_text(key)
  if type(key) ~= "table" then return key end
  return getmetatable(key) == Object and key.class or "a tuple"
end

function Walk:visit(position)
  local of = self.value[position]
  for key, value in next, of do
    if type(key) == "table" and python.stand_in(key) then
      self:leave(position, key_text(key), "its key is no plain value")
      of[key] = nil
    else
      if type(key) == "table" then self:push(key, position, "a tuple") end
      local new = value
      if type(value) == "table" then new = self:settled(value, position, key_text(key)) end
      if new ~= value then
        of[key] = new
        if new == nil then self.emptied[of] = true end
      end
    end
  end
end

--- Puts plain values in the place of what stands for objects of Python's in `value` and all tables
--- below it. Returns the value, why others are left out by their paths, if any are, and the set of
--- tables in which a position became empty.
---@param value any
---@param budget table
---@return any
---@return table<string, string>?
---@return table<table, boolean>
function python.settle(value, budget)
  local walk = setmetatable({ value = {}, above = {}, key = {}, seen = {}, emptied = {},
    left_out = nil, budget = budget }, Walk)
  local result, position = walk:settled(value, 0, ""), 1
  while walk.value[position] do
    walk:visit(position)
    position = position + 1
  end
  return result, walk.left_out, walk.emptied
end

return python
