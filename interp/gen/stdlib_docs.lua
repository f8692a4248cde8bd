-- interp/gen/stdlib_docs.lua: the public functions, classes and methods of stdlib/ as entries of
-- the reference. What there is comes from the loaded modules; what it does from the doc comments
-- above the lines that made it.

local doc_comments = require "interp.gen.doc_comments"
local load_stdlib = require "interp.gen.load_stdlib"
local signatures = require "interp.gen.signatures"

local stdlib_docs = {}

--- The modules that scripts use; the others serve these.
stdlib_docs.modules = { "nn", "optim", "autograd", "func", "amp", "utils", "data", "distributions",
  "args", "class", "plot", "progress", "random", "help", "metrics", "train", "onnx",
  "cuda", "backends", "ops", "ext", "distributed" }

local Walk = {}
Walk.__index = Walk

function Walk:lines_of(path)
  self.files[path] = self.files[path] or doc_comments.lines_of(path)
  return self.files[path]
end

function Walk:doc_at(path, line) return doc_comments.above(self:lines_of(path), line) end

function Walk:doc_of_function(f)
  local info = debug.getinfo(f, "S")
  if info.what == "C" then return nil end
  return self:doc_at(info.source:gsub("^@", ""), info.linedefined)
end

-- The comment above the line that made the class, or above one that called it.
function Walk:doc_of_class(cls)
  for _, frame in ipairs(self.loaded.frames[cls] or {}) do
    local doc = frame.path:find "/stdlib/" and self:doc_at(frame.path, frame.line)
    if doc and doc.text ~= "" then return doc end
  end
end

function Walk:add(entry, doc)
  doc_comments.describe(entry, doc or doc_comments.new "")
  entry.origin = "stdlib"
  self.entries[#self.entries + 1] = entry
  return entry
end

local function parameters_of(f, first)
  local info, out = debug.getinfo(f, "u"), {}
  for i = first, info.nparams do out[#out + 1] = debug.getlocal(f, i) end
  if info.isvararg then out[#out + 1] = "..." end
  return out
end

-- The arguments that a function declares to the reader of arguments, or else those of its
-- definition: their names, and how each is shown in a call.
local function declared(signature)
  local names, shown = {}, {}
  for i, parameter in ipairs(signature.parameters) do
    names[i] = parameter.variadic and "..." or parameter.name
    local default = parameter.default and "=" .. parameter.default or ""
    shown[i] = names[i] .. default
  end
  return names, shown
end

-- How each type of a declaration is called in editors.
local lua_types = { Tensor = "moonlet.Tensor", bool = "boolean", int = "integer",
  dict = "table", any = "any", number = "number", string = "string", table = "table",
  ["function"] = "function", Generator = "moonlet.Generator", Module = "moonlet.nn.Module",
  Size = "integer[]", Distribution = "moonlet.distributions.Distribution",
  Stream = "moonlet.cuda.Stream", Event = "moonlet.cuda.Event",
  Transform = "moonlet.distributions.Transform", Constraint = "moonlet.distributions.constraints.Constraint" }

local function lua_type(kind)
  local out = {}
  for part in kind:gsub("[?.]+$", ""):gmatch "[^|]+" do
    local name, list, count = part:match "^(%a+)(%[?(%d*)%]?)"
    name = lua_types[name] or "any"
    out[#out + 1] = list == "" and name or count ~= "" and ("%s|%s[]"):format(name, name) or name .. "[]"
  end
  return table.concat(out, "|")
end

-- The declared parameters, with what the comment says of them.
local function merged_params(doc, signature)
  local out, known, fields = {}, {}, {}
  for _, param in ipairs(doc and doc.params or {}) do
    if param.field_of then fields[#fields + 1] = param else known[param.name] = param end
  end
  for i, parameter in ipairs(signature.parameters) do
    local name = parameter.variadic and "..." or parameter.name
    local said = known[name] or { type = "any", text = "" }
    out[i] = { name = name, optional = not parameter.required or nil,
      default = parameter.default ~= "nil" and parameter.default or nil,
      type = said.type ~= "any" and said.type or lua_type(parameter.type), text = said.text }
  end
  table.move(fields, 1, #fields, #out + 1, out)
  return out
end

-- Adds a function, method or class whose arguments are declared, or else called `plain`.
function Walk:add_call(entry, doc, call, signature, plain)
  local names, shown
  if signature then
    names, shown = declared(signature)
    entry.calls = { ("%s(%s)"):format(signatures.receiver(call), table.concat(shown, ", ")) }
  else
    names = plain
    entry.calls = { signatures.call(call, names, doc) }
  end
  entry.names = names
  self:add(entry, doc)
  if signature then entry.params = merged_params(doc, signature) end
end

-- The declaration of a method, by the class or by one that it inherits from.
function Walk:signature_of_method(cls, name)
  while cls do
    local found = self.loaded.signatures[self.loaded.class.name(cls) .. ":" .. name]
    if found then return found end
    cls = cls.super
  end
end

local function sorted_names(t)
  local names = {}
  for name in pairs(t) do if type(name) == "string" then names[#names + 1] = name end end
  table.sort(names)
  return names
end

-- What samples call an object of a class.
local receivers = { ["^nn%."] = "net:", ["^optim%.lr_"] = "scheduler:", ["^optim%."] = "opt:",
  ["Loader$"] = "loader:", ["Sampler$"] = "sampler:", ["Dataset$"] = "set:", ["Figure$"] = "fig:",
  ["GradScaler$"] = "scaler:", ["^metrics%."] = "metric:", ["CSVLog$"] = "log:",
  ["Writer$"] = "writer:", ["EarlyStopping$"] = "stopper:", ["^distributions%."] = "d:",
  ["^distributions%..*Transform$"] = "t:", ["^distributions%.constraints%."] = "constraint:",
  ["^distributions%.ConstraintRegistry"] = "registry:" }
local function receiver(owner)
  local best
  for pattern in pairs(receivers) do
    if owner:find(pattern) and (not best or #pattern > #best) then best = pattern end
  end
  return best and receivers[best] or owner:match("[^.]+$"):lower() .. ":"
end

function Walk:method(owner, cls, name, f)
  local doc = self:doc_of_function(f)
  if not doc or doc.text == "" then return end
  local entry = { name = owner .. "." .. name, owner = owner, results = signatures.results(doc) }
  if debug.getlocal(f, 1) == "self" then
    entry.kind = "method"
    self:add_call(entry, doc, receiver(owner) .. name, self:signature_of_method(cls, name),
      parameters_of(f, 2))
  else
    entry.kind = "function"
    self:add_call(entry, doc, entry.name, nil, parameters_of(f, 1))
  end
end

-- The methods of a class, and those that it has from classes without a public name.
function Walk:methods(owner, cls)
  local seen, at = {}, cls
  repeat
    for _, name in ipairs(sorted_names(at)) do
      local f = rawget(at, name)
      if type(f) == "function" and not name:find "^_" and name ~= "init" and not seen[name] then
        seen[name] = true
        self:method(owner, cls, name, f)
      end
    end
    at = at.super
  until not at or self.public[at]
end

-- Notes the classes that have a public name.
function Walk:find_public(value)
  if type(value) ~= "table" or self.public[value] then return end
  self.public[value] = true
  local class = self.loaded.class
  if class.is_class(value) or class.of(value) or load_stdlib.stand_in_name(value) then return end
  for _, key in ipairs(sorted_names(value)) do self:find_public(value[key]) end
end

-- The declaration of a constructor, of the class or of one whose `init` it inherits.
function Walk:signature_of_class(name, cls)
  local space = name:match "^(.*%.)[^.]+$" or ""
  while cls do
    local found = self.loaded.signatures[space .. self.loaded.class.name(cls)]
    if found or rawget(cls, "init") then return found end
    cls = cls.super
  end
end

function Walk:class(name, cls)
  if self.names[cls] then
    return self:add { name = name, kind = "class", same_as = self.names[cls], calls = {} }
  end
  self.names[cls] = name
  local doc = self:doc_of_class(cls)
  self:add_call({ name = name, kind = "class", parent_class = cls.super, results = name }, doc, name,
    self:signature_of_class(name, cls), cls.init and parameters_of(cls.init, 2) or {})
  self:fields(name, doc or { fields = {} })
  self:methods(name, cls)
end

-- The comment above `NAMESPACE.KEY = ...`, for functions that others make and for objects: in the
-- module's file, or in one that it requires, or loads late, and whose name begins with the module's.
function Walk:doc_of_assignment(path, owner, key)
  local lines = self:lines_of(path)
  for number, line in ipairs(lines) do
    local assigned = line:match "^[%w_]+%.([%w_]+) = "
    if assigned == key then return doc_comments.above(lines, number) end
    local part = line:match 'require "moonlet%.([%w_.]+)"' or line:match '^  %["([%w_.]+)"%] = {'
    if part and owner and part:sub(1, #owner + 1) == owner .. "." then
      local doc = self:doc_of_assignment(("%s/stdlib/%s.lua"):format(self.root, (part:gsub("%.", "/"))), nil, key)
      if doc then return doc end
    end
  end
end

function Walk:func(name, f, path)
  local owner = name:match "^(.*)%.[^.]+$"
  local doc = self:doc_of_assignment(path, owner, name:match "[^.]+$") or self:doc_of_function(f)
  self:add_call({ name = name, kind = "function", owner = owner,
    results = signatures.results(doc) }, doc, name, self.loaded.signatures[name],
    parameters_of(f, 1))
end

-- An object of a class that a namespace holds: a constant.
function Walk:object(name, value, path)
  if self.names[value] then
    return self:add { name = name, kind = "constant", same_as = self.names[value], calls = {} }
  end
  self.names[value] = name
  local owner, key = name:match "^(.*)%.([^.]+)$"
  self:add({ name = name, kind = "constant", calls = {}, object_of = self.loaded.class.of(value) },
    self:doc_of_assignment(path, owner, key))
end

-- A table that ops, functions, classes and further tables are fields of.
function Walk:namespace(name, value, path)
  local text = doc_comments.purpose(self:lines_of(path))
  self:add({ name = name, kind = "namespace", calls = {} },
    doc_comments.new(text))
  local call = getmetatable(value) and getmetatable(value).__call
  local doc = type(call) == "function" and not self.loaded.class.is_class(value)
    and self:doc_of_function(call)
  if doc then
    table.remove(doc.params, 1)
    local last = self.entries[#self.entries]
    last.calls = { signatures.call("ml." .. name, parameters_of(call, 2), doc) }
    doc.text = last.doc .. "\n\n" .. doc.text
    doc_comments.describe(last, doc)
  end
  for _, key in ipairs(sorted_names(value)) do
    if not key:find "^_" then self:value(name .. "." .. key, value[key], path) end
  end
end

function Walk:value(name, value, path)
  local op = load_stdlib.stand_in_name(value)
  if op then
    self:add { name = name, kind = "function", same_as = op:gsub("^ml%.", ""), calls = {} }
  elseif type(value) == "function" then
    self:func(name, value, path)
  elseif self.loaded.class.is_class(value) then
    self:class(name, value)
  elseif self.loaded.class.of(value) then
    self:object(name, value, path)
  elseif type(value) == "table" and rawget(value, "__index") ~= value then
    local own = ("%s/stdlib/%s.lua"):format(self.root, (name:gsub("%.", "/")))
    self:namespace(name, value, io.open(own) and own or path)
  elseif type(value) ~= "table" then
    error(("%s: the reference has no form for a %s"):format(name, type(value)), 0)
  end
end

-- Objects whose class is a plain table: `---@class moonlet.NAME` above `local X = {}`.
function Walk:plain_classes(path)
  local lines, names = self:lines_of(path), {}
  for number, line in ipairs(lines) do
    local variable = line:match "^local ([%w_]+) = {" or line:match "^local ([%w_]+) = setmetatable"
    local doc = variable and doc_comments.above(lines, number)
    if doc and doc.class and doc.class:find "^moonlet%." then
      local name = doc.class:gsub("^moonlet%.", "")
      names[variable] = name
      self:add({ name = name, kind = "class", calls = {} }, doc)
      self:fields(name, doc)
    end
    local owner, method, arguments = line:match "^function ([%w_]+):([%w_]+)%((.-)%)"
    doc = names[owner] and doc_comments.above(lines, number)
    if doc then
      local list = {}
      for argument in arguments:gmatch "[%w_%.]+" do list[#list + 1] = argument end
      self:add_call({ name = names[owner] .. "." .. method, kind = "method", owner = names[owner],
        results = signatures.results(doc) }, doc, receiver(names[owner]) .. method,
        self.loaded.signatures[owner .. ":" .. method], list)
    end
  end
end

function Walk:fields(owner, doc)
  for _, field in ipairs(doc.fields) do
    self:add({ name = owner .. "." .. field.name, kind = "field", owner = owner, calls = {},
      results = field.type }, doc_comments.new(field.text))
  end
end

-- The public name of a class, or of the nearest that it inherits from.
local function name_of_class(walk, cls)
  while cls and not walk.names[cls] do cls = cls.super end
  return cls and walk.names[cls]
end

local function set_parents(walk)
  for _, entry in ipairs(walk.entries) do
    if entry.parent_class then
      entry.parent = name_of_class(walk, entry.parent_class)
      entry.parent_class = nil
    elseif entry.object_of then
      entry.results = "moonlet." .. name_of_class(walk, entry.object_of)
      entry.object_of = nil
    end
  end
end

--- The entries of all public modules.
---@param root string the source folder
---@param ops string[] names of the ops
---@return table[]
function stdlib_docs.entries(root, ops)
  local modules = table.move(stdlib_docs.modules, 1, #stdlib_docs.modules, 1, {})
  local loaded = load_stdlib.load(root, ops, modules)
  local walk = setmetatable({ root = root, loaded = loaded, entries = {}, files = {}, names = {},
    public = {} }, Walk)
  for _, name in ipairs(modules) do walk:find_public(loaded.modules[name]) end
  for _, name in ipairs(modules) do
    local path = ("%s/stdlib/%s.lua"):format(root, name)
    walk:value(name, loaded.modules[name], path)
    walk:plain_classes(path)
  end
  for _, name in ipairs(sorted_names(loaded.facade)) do
    local module = loaded.facade[name]
    local path = ("%s/stdlib/%s.lua"):format(root, module)
    if module == "json" then  -- a module of C++, described in interp/meta/
      goto next
    elseif loaded.modules[module] then  -- it has a text under the name of the module
      walk:add { name = name, kind = "function", same_as = module .. "." .. name, calls = {} }
    else
      walk:func(name, require("moonlet." .. module)[name], path)
    end
    if name == module or module == "profiler" then
      walk:plain_classes(path)
    end
    ::next::
  end
  set_parents(walk)
  return walk.entries
end

return stdlib_docs
