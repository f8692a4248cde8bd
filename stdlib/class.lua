-- stdlib/class.lua: classes with single inheritance, the base of modules, optimisers and data sets.
-- A class is the metatable of its objects, so metamethods are ordinary class fields; they are
-- copied to subclasses, now and when the parent gets them later.

local class = {}

-- What the module knows of each class; weak so that classes can be collected.
local info = setmetatable({}, { __mode = "k" })

local function is_metamethod(key)
  return type(key) == "string" and key:sub(1, 2) == "__" and key ~= "__name"
end

-- The default `__index` of a class is the class itself, so a subclass gets itself, not its parent.
local function inherited(parent, key, cls)
  local value = rawget(parent, key)
  if key == "__index" and value == parent then return cls end
  return value
end

local function inherit_metamethod(cls, key)
  for child in pairs(info[cls].children) do
    if not info[child].own[key] then
      rawset(child, key, inherited(cls, key, child))
      inherit_metamethod(child, key)
    end
  end
end

local function assign(cls, key, value)
  if not is_metamethod(key) then
    rawset(cls, key, value)
    return
  end
  local entry = info[cls]
  entry.own[key] = value ~= nil or nil
  if value == nil and entry.parent then value = inherited(entry.parent, key, cls) end
  if value == nil and key == "__index" then value = cls end
  entry.metamethods[key] = value
  rawset(cls, key, value)
  inherit_metamethod(cls, key)
end

local function construct(cls, ...)
  local alloc = rawget(cls, "__alloc")
  local object = setmetatable(alloc and alloc(cls) or {}, cls)
  local init = cls.init
  if init then
    init(object, ...)
  elseif select("#", ...) > 0 then
    error(("%s: takes no arguments, got %d"):format(cls.name, select("#", ...)), 2)
  end
  return object
end

local function describe(cls)
  return "class " .. info[cls].name
end

local function is_a(self, cls)
  return class.is_instance(self, cls)
end

local function define(name, parent)
  local cls = { name = name, super = parent, __name = name }
  local own = {}
  info[cls] = {
    name = name,
    parent = parent,
    own = own,
    children = setmetatable({}, { __mode = "k" }),
  }
  cls.__index = cls
  if parent then
    for key in pairs(parent) do
      if is_metamethod(key) then cls[key] = inherited(parent, key, cls) end
    end
    info[parent].children[cls] = true
  else
    cls.is_a = is_a
  end
  return cls
end

-- Metamethods of a class live in a shadow key set: an assignment to an existing raw field would
-- not reach `__newindex`, so later changes of a metamethod go through `class.set`.
local function new_class(_, name, parent)
  if type(name) ~= "string" or name == "" then
    error(("class: the name must be a non-empty string, got %s"):format(type(name)), 2)
  end
  if parent ~= nil and not info[parent] then
    error(("class %s: the parent must be a class, got %s"):format(name, type(parent)), 2)
  end
  local cls = define(name, parent)
  return setmetatable(cls, {
    __call = construct,
    __index = parent,
    __newindex = assign,
    __tostring = describe,
  })
end

return class, new_class, is_a
