-- interp/gen/load_stdlib.lua: loads the modules of stdlib/ in the plain Lua of the build, to see
-- which functions and classes they have. Module moonlet and all else that is C++ are stood in for
-- by tables that answer to anything.

local load_stdlib = {}

-- What stands for `ml.NAME`: it can be indexed and called, and knows its name.
local names = setmetatable({}, { __mode = "k" })
local stand_in = {}
local function make(name)
  local value = setmetatable({}, stand_in)
  names[value] = name
  return value
end
function stand_in.__index(self, key)
  if type(key) == "number" then return nil end  -- as a list it is empty
  local value = make(names[self] .. "." .. tostring(key))
  rawset(self, key, value)
  return value
end
-- What C++ wraps around a function stands for that function.
function stand_in.__call(self, first)
  return type(first) == "function" and first or make(names[self] .. "()")
end
stand_in.__close = function() end

--- The name of a stand-in, such as "ml.exp", or nil.
---@param value any
---@return string?
function load_stdlib.stand_in_name(value) return type(value) == "table" and names[value] or nil end

-- Stands for the reader of arguments: what is called while modules are loaded gets them by position,
-- or in one table.
local reader = { asides = {} }
function reader.read(_, ...) return ... end
function reader.table(declaration, ...)
  local out, given = {}, { ... }
  for i, name in ipairs(declaration.names) do out[name] = given[i] end
  if type(given[1]) ~= "table" then return out end
  for key, value in pairs(given[1]) do out[key] = value end
  for _, parameter in ipairs(declaration.parameters) do
    if out[parameter.name] == nil and parameter.make_default then
      out[parameter.name] = parameter.make_default()
    end
  end
  return out
end

local function add_searcher(root)
  table.insert(package.searchers, 2, function(name)
    local rest = name:match "^moonlet%.(.*)$"
    if not rest then return nil end
    local path = ("%s/stdlib/%s.lua"):format(root, (rest:gsub("%.", "/")))
    -- Embedded beside stdlib/: what the core is generated from as well.
    if rest == "optimizers" then path = root .. "/tensor/functors/optimizers.lua" end
    local chunk = loadfile(path)
    if chunk then return chunk, path end
    if io.open(path) then return assert(loadfile(path)) end
    return function() return make(rest) end
  end)
end

-- The stack of a call: where a class was made, from the inside out.
local function frames()
  local out, level = {}, 3
  while true do
    local info = debug.getinfo(level, "Sl")
    if not info then return out end
    if info.currentline > 0 then
      out[#out + 1] = { path = info.source:gsub("^@", ""), line = info.currentline }
    end
    level = level + 1
  end
end

-- Notes where each class is made.
local function watch_classes(found)
  local class = require "moonlet.class"
  local meta = getmetatable(class)
  local make_class = meta.__call
  meta.__call = function(...)
    local cls = make_class(...)
    found[cls] = frames()
    return cls
  end
  return class
end

-- A namespace with the names in it that the library loads at their first use.
local function with_late_names(_, module, late)
  for name, path in pairs(late or {}) do
    local part = require(path)
    local field = type(part) == "table" and rawget(part, name)
    module[name] = field or part
  end
  return module
end

-- nn.Module with the methods that come with their first call.
local function with_methods(module) require("moonlet.nn." .. module) end

--- Loads modules by name ("nn", "optim"). `ops` are the names of the ops, which module moonlet has.
---@param root string
---@param ops string[]
---@param modules string[]
---@return table loaded { modules, class, frames of each class, signatures, facade }
function load_stdlib.load(root, ops, modules)
  local ml = make "ml"
  for _, name in ipairs(ops) do rawset(ml, name, make("ml." .. name)) end
  package.loaded.moonlet = ml
  package.loaded["moonlet.namespace"] = with_late_names
  package.loaded["moonlet.nn.late_methods"] = with_methods
  package.loaded["moonlet.signature_reader"] = reader
  add_searcher(root)
  local out = { modules = {}, frames = {}, signatures = require("moonlet.signature").all }
  out.class = watch_classes(out.frames)
  out.modules.class = out.class
  for _, name in ipairs(modules) do
    out.modules[name] = require("moonlet." .. name)
    rawset(ml, name, out.modules[name])
  end
  out.facade = dofile(root .. "/stdlib/init.lua")
  return out
end

return load_stdlib
