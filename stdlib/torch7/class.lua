-- stdlib/torch7/class.lua: Torch7's classes: metatables known by name, `torch.class`, and what
-- tells the class of a value.

local class = {}

-- The metatable of each class by its name.
local metatables = {}

-- Of each metatable: how an empty object is made, and what its name calls.
local weak = { __mode = "k" }
local factories, constructors = setmetatable({}, weak), setmetatable({}, weak)
local is_class, is_constructor = setmetatable({}, weak), setmetatable({}, weak)

local function fail(format, ...) error(format:format(...), 3) end

-- Operators of a class are methods with the name in underscores, `__add__`, so that they can be
-- inherited.
local OPERATORS = { "tostring", "add", "sub", "mul", "div", "mod", "pow", "unm", "concat", "len",
  "eq", "lt", "le", "idiv" }

local function operator(name)
  local method = "__" .. name .. "__"
  return function(a, b, ...)
    for _, value in pairs { a, b } do
      local mt = getmetatable(value)
      local f = is_class[mt] and mt[method]
      if f then return f(a, b, ...) end
    end
    error(("%s has no %s operator"):format(class.typename(a) or type(a), name), 2)
  end
end

-- Without a method of their own these do what they do for any table.
local PLAIN = {
  tostring = function(self)
    local name = class.typename(self)
    return ("%s [%s]"):format(name, (rawget(self, 1) == nil) and "object" or #self)
  end,
  len = function(self) return rawlen(self) end,
  eq = function(a, b) return rawequal(a, b) end,
}

local operators = {}
for _, name in ipairs(OPERATORS) do
  local plain, general = PLAIN[name], operator(name)
  local method = "__" .. name .. "__"
  operators["__" .. name] = plain and function(a, b)
    local mt = getmetatable(a)
    local f = is_class[mt] and mt[method]
    if f then return f(a, b) end
    return plain(a, b)
  end or general
end

local function all(...) return ... end

-- A call passes on how many arguments there were. It is no tail call: nngraph looks for the line of
-- the script as many levels up as there are in Torch7.
function operators.__call(self, ...)
  local mt = getmetatable(self)
  local f = is_class[mt] and mt.__call__
  if f then return all(f(self, ...)) end
  error(("%s has no call operator"):format(class.typename(self) or type(self)), 2)
end

-- What `object.key` finds in a class that has an `__index__`, which says with a second result
-- whether it found something.
local function index_by_method(object, key)
  local mt = getmetatable(object)
  local value, found = mt.__index__(object, key)
  if found then return value end
  return mt[key]
end

local function assign(object, key, value)
  if is_class[object] then
    rawset(object, key, value)
    if key == "__index__" then class.update_index() end
    return
  end
  local f = getmetatable(object).__newindex__
  if f and f(object, key, value) then return end
  rawset(object, key, value)
end

-- The metatable of classes without a parent.
local Root = {
  __newindex = function(mt, key, value)
    rawset(mt, key, value)
    if key == "__index__" then class.update_index() end
  end,
}

-- A metatable is also where its children look for what they do not have themselves.
local function lookup_in(mt)
  return function(object, key)
    if is_class[object] then return mt[key] end
    return index_by_method(object, key)
  end
end

local function has_index_method(mt)
  return mt.__index__ ~= nil
end

-- Classes without `__index__`, nearly all, are looked up without a call.
function class.update_index()
  for mt in pairs(is_class) do
    if rawget(mt, "__index") == mt and has_index_method(mt) then
      rawset(mt, "__index", lookup_in(mt))
    end
  end
end

-- The table and the last part of "nn.Linear", which is the global `nn` and "Linear".
local function position_of(name, module)
  local path, last = name:match "^(.*)%.([^.]*)$"
  if module then return module, last or name end
  if not path then return _G, name end
  local container = _G
  for part in path:gmatch "[^.]+" do
    container = container and container[part]
  end
  if type(container) ~= "table" then
    fail("while creating metatable %s: bad argument #1 (%s is an invalid module name)", name, path)
  end
  return container, last
end

-- What a class is called by: `nn.Linear`. Its fields are the class's.
local function constructor_table(mt, new)
  local constructor = {}
  is_constructor[constructor] = true
  return setmetatable(constructor, {
    __index = mt,
    __newindex = mt,
    __call = function(_, ...) return (new(...)) end,  -- no tail call, as above
    __typename = mt.__typename,
    __metatable = mt,
    __tostring = function() return mt.__typename end,
  })
end

--- Makes the metatable of a class. `new` is what its constructor calls, `factory` makes an empty
--- object for files.
---@param name string such as "nn.Linear"
---@param parent string? the class that it extends
---@param new function?
---@param factory function?
---@param module table? where the constructor is put instead of the global that the name says
---@return table metatable
function class.newmetatable(name, parent, new, factory, module)
  local mt = metatables[name]
  if type(mt) ~= "table" or not is_class[mt] then
    mt = { __typename = name, __version = 1 }
    is_class[mt] = true
    for key, f in pairs(operators) do mt[key] = f end
    mt.__index, mt.__newindex = mt, assign
    metatables[name] = mt
    setmetatable(mt, Root)
  end
  if parent then
    local parent_mt = class.getmetatable(parent)
      or fail("class %s: the parent class %s is not known", name, parent)
    local known = getmetatable(mt)
    if known ~= Root and known ~= parent_mt then
      fail("class %s has been already assigned a parent class", name)
    end
    setmetatable(mt, parent_mt)
    if has_index_method(mt) then mt.__index = lookup_in(mt) end
  end
  factories[mt] = factory
  if new then
    local container, last = position_of(name, module)
    constructors[mt] = constructor_table(mt, new)
    rawset(container, last, constructors[mt])
    if rawget(mt, "new") == nil then rawset(mt, "new", new) end
  end
  return mt
end

function class.getmetatable(name)
  local mt = metatables[name]
  return is_class[mt] and mt or nil
end

function class.setmetatable(object, name)
  local mt = class.getmetatable(name) or fail("setmetatable: the class %s is not known", name)
  return setmetatable(object, mt)
end

--- The name of a value's class; nil for values of Lua's own types.
function class.typename(value)
  local kind = type(value)
  if kind ~= "table" and kind ~= "userdata" then return nil end
  local mt = getmetatable(value)
  if not is_class[mt] or is_constructor[value] then return nil end
  return rawget(mt, "__typename")
end

function class.type(value) return class.typename(value) or type(value) end

function class.factory(name)
  local mt = class.getmetatable(name)
  return mt and factories[mt] or nil
end

function class.getconstructortable(name)
  local mt = class.getmetatable(name)
  return mt and constructors[mt] or nil
end

function class.metatype(name)
  return class.getmetatable(name) and "table" or nil
end

function class.version(value)
  local mt = getmetatable(value)
  return is_class[mt] and mt.__version or nil
end

local function names_of(a, ...)
  local name, parent, module = a, ...
  if type(parent) == "table" and module == nil then parent, module = nil, parent end
  local fits = type(name) == "string" and (parent == nil or type(parent) == "string")
    and (module == nil or type(module) == "table")
  if not fits then fail "<class name> [<parent class name>] [<module table>] expected" end
  return name, parent, module
end

--- Makes a class: `local Linear, parent = torch.class("nn.Linear", "nn.Module")`. Objects are made
--- by calling what the name then is, which calls `__init`.
function class.class(...)
  local name, parent, module = names_of(...)
  local mt
  local function new(...)
    local self = setmetatable({}, mt)
    local init = self.__init
    if init then init(self, ...) end
    return self
  end
  mt = class.newmetatable(name, parent, new, function() return setmetatable({}, mt) end, module)
  return mt, parent and class.getmetatable(parent) or nil
end

--- Whether a value is of a class or of one that extends it: by name, Lua pattern or constructor.
function class.isTypeOf(value, spec)
  if type(spec) ~= "string" then
    local mt = getmetatable(spec)
    spec = type(mt) == "table" and mt.__typename
    if type(spec) ~= "string" then fail "type must be provided as [regexp] string, or factory" end
  end
  local mt = getmetatable(value)
  while is_class[mt] do
    local name = mt.__typename
    local match = name:match(spec)
    if match and (match ~= spec or match == name) then return true end
    mt = getmetatable(mt)
  end
  return false
end

-- Environments of objects, which files keep their notes in.
local environments = setmetatable({}, { __mode = "k" })

function class.getenv(object)
  local kept = environments[object]
  if not kept then
    kept = {}
    environments[object] = kept
  end
  return kept
end

function class.setenv(object, environment) environments[object] = environment end

--- What stands for Lua's registry in Torch7's scripts, which take a class away by setting its name
--- to nil there: the metatables by name.
function class.registry() return metatables end

function class.add_to(torch)
  for _, name in ipairs { "class", "newmetatable", "getmetatable", "setmetatable", "typename",
    "type", "factory", "getconstructortable", "metatype", "version", "isTypeOf", "getenv",
    "setenv" } do
    torch[name] = class[name]
  end
  -- (name, parent, constructor, finalizer, factory, module), as Torch7 has them.
  torch.newmetatable = function(name, parent, new, _, factory, module)
    return class.newmetatable(name, parent, new, factory, module)
  end
end

return class
