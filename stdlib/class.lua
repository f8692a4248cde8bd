-- stdlib/class.lua: classes with single inheritance, the base of modules, optimisers and data sets.
-- A class is the metatable of its objects, so metamethods (`__call`, `__tostring`, `__len`,
-- `__newindex`, ...) are written as fields of the class; subclasses get copies of them.

local options = require "moonlet.options"

local fail = options.fail

local class = {}

local weak_keys = { __mode = "k" }

-- Of each class its name, its parent, its children and the metatable that these share, both from
-- the first child on; weak so that classes can be collected.
local info = setmetatable({}, weak_keys)

local function is_metamethod(key)
  return type(key) == "string" and key:sub(1, 2) == "__" and key ~= "__name"
end

-- The default `__index` of a class is the class itself, so a subclass gets itself, not its parent.
local function inherited(parent, key, cls)
  local value = rawget(parent, key)
  if key == "__index" and value == parent then return cls end
  return value
end

-- A metamethod that a class gets after subclasses were made reaches those that have none.
local function assign(cls, key, value)
  rawset(cls, key, value)
  if not is_metamethod(key) then return end
  for child in pairs(info[cls].children or {}) do
    if rawget(child, key) == nil then child[key] = value end
  end
end

local function construct(cls, ...)
  local alloc = rawget(cls, "__alloc")
  local object = setmetatable(alloc and alloc(cls) or {}, cls)
  local init = cls.init
  if init then
    init(object, ...)
  elseif select("#", ...) > 0 then
    fail("%s: takes no arguments, got %d", info[cls].name, select("#", ...))
  end
  return object
end

local function describe(cls)
  return "class " .. info[cls].name
end

--- Whether the object is of a class, or of one that inherits from it.
--- > ml.nn.Linear(2, 1):is_a(ml.nn.Module)
---   true
---@param cls table the class
---@return boolean
local function is_a(self, cls)
  return class.is_instance(self, cls)
end

local function define(name, parent)
  local cls = { super = parent, __name = name, is_a = not parent and is_a or nil }
  info[cls] = { name = name, parent = parent }
  cls.__index = cls
  if not parent then return cls end
  local family = info[parent]
  family.children = family.children or setmetatable({}, weak_keys)
  family.children[cls] = true
  for key in pairs(parent) do
    if is_metamethod(key) then cls[key] = inherited(parent, key, cls) end
  end
  return cls
end

--- Whether `value` is a class made here.
---@param value any
---@return boolean
function class.is_class(value)
  return type(value) == "table" and info[value] ~= nil
end

--- The class of `object`, or nil for anything that is not an object of a class.
---@param object any
---@return table?
function class.of(object)
  if type(object) ~= "table" then return nil end
  local cls = getmetatable(object)
  return info[cls] and cls or nil
end

--- The name that a class was made with.
---@param cls table
---@return string
function class.name(cls)
  if not class.is_class(cls) then fail("class.name: expected a class, got %s", type(cls)) end
  return info[cls].name
end

--- Whether class `cls` is `ancestor` or inherits from it.
---@param cls table
---@param ancestor table
---@return boolean
function class.is_subclass(cls, ancestor)
  while cls do
    if cls == ancestor then return true end
    cls = info[cls] and info[cls].parent
  end
  return false
end

--- Whether `object` is an object of class `cls` or of a class that inherits from it.
---@param object any
---@param cls table
---@return boolean
function class.is_instance(object, cls)
  if not class.is_class(cls) then
    fail("is_instance: expected a class, got %s", type(cls))
  end
  return class.is_subclass(class.of(object), cls)
end

--- What the class of `object` says about `key`: methods and class fields, own or inherited. For
--- classes whose `__index` is a function, which is then called for every field not in the object.
---@param object table
---@param key any
---@return any
function class.lookup(object, key)
  return getmetatable(object)[key]
end

-- --- fields of the library's objects ---------------------------------------------------------

-- The classes whose objects have no other fields than the library gives them: for each the set of
-- those that may be nil, `optional`, and `hint`, what it says of other names.
local strict = setmetatable({}, weak_keys)

-- Whether what asks for a field, two calls up, is code of the library or of C++.
local function asked_by_library()
  local source = debug.getinfo(3, "S").source
  return source == "=[C]" or source:find "^@stdlib/" ~= nil
    or source:find "/stdlib/[%w_/]+%.lua$" ~= nil
end

local function unknown_field(object, cls, key)
  local names = {}
  for name in next, object do names[#names + 1] = name end
  local at = cls
  while at do
    for name in next, at do names[#names + 1] = name end
    at = info[at].parent
  end
  local public = {}
  for _, name in ipairs(names) do
    if type(name) == "string" and not name:find "^_" then public[#public + 1] = name end
  end
  for name in pairs(strict[cls].optional) do public[#public + 1] = name end
  table.sort(public)
  local hint = strict[cls].hint
  hint = hint and hint(object, key) or options.did_you_mean(key, public)
  fail("%s has no field '%s'%s", info[cls].name, key, hint)
end

-- Whether the class may have no such field.
local function may_refuse(cls, key)
  return strict[cls] and type(key) == "string" and not key:find "^__"
    and not strict[cls].optional[key]
end

local function strict_index(object, key)
  local cls = getmetatable(object)
  local value = cls[key]
  if value ~= nil or not may_refuse(cls, key) or asked_by_library() then return value end
  unknown_field(object, cls, key)
end

local function strict_newindex(object, key, value)
  local cls = getmetatable(object)
  if may_refuse(cls, key) and cls[key] == nil and not asked_by_library() then
    unknown_field(object, cls, key)
  end
  rawset(object, key, value)
end

--- Makes it an error when a script reads or sets a field that objects of the class do not have: it
--- would be nil, or without an effect. Objects of a script's own subclasses may have any. To be
--- called before the class has children. `optional` are fields that may be nil, and
--- `hint(object, name)` may give the end of the message.
---@param cls table
---@param optional? string[]
---@param hint? fun(object: table, name: string): string?
---@return table cls
function class.strict(cls, optional, hint)
  local set = {}
  for _, name in ipairs(optional or {}) do set[name] = true end
  strict[cls] = { optional = set, hint = hint }
  if rawget(cls, "__index") == cls then cls.__index = strict_index end
  if rawget(cls, "__newindex") == nil then cls.__newindex = strict_newindex end
  return cls
end

local function class_metatable(parent)
  return { __call = construct, __index = parent, __newindex = assign, __tostring = describe }
end

local function metatable_of_children(parent)
  local family = info[parent]
  family.metatable = family.metatable or class_metatable(parent)
  return family.metatable
end

-- `class("Name", Parent?)` makes a class. Calling the class makes an object and passes the
-- arguments to `init`; the class's `__alloc(cls)`, if any, returns the raw table that becomes the
-- object, so that a base class can prepare it even when a subclass forgets `super.init`. In
-- methods write `Net.super.init(self, ...)`: `self.super` would be the object's own class's
-- parent. `obj:is_a(cls)` asks for membership. A class may set `__index` and `__newindex` to
-- functions; see `class.lookup`.
local function new_class(_, name, parent)
  if type(name) ~= "string" or name == "" then
    fail("class: the name must be a non-empty string, got %s", type(name))
  end
  if parent ~= nil and not class.is_class(parent) then
    fail("class: the parent of %s must be a class, got %s", name, type(parent))
  end
  return setmetatable(define(name, parent),
    parent and metatable_of_children(parent) or class_metatable())
end

---@overload fun(name: string, parent?: table): table
return setmetatable(class, { __call = new_class })
