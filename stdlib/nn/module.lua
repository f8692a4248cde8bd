-- stdlib/nn/module.lua: nn.Module: finds its parameters, buffers and submodules by assignment, in
-- the order of assignment, and does with them what all models need.

local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"
local parameter = require "moonlet.nn.parameter"
local signature = require "moonlet.signature"
local fail = options.fail
local is_callable = options.is_callable
local is_parameter = parameter.is_parameter

--- Base class of layers and models. A model is a class of its own, `local Net = nn.class("Net")`,
--- with `Net:init(...)`, which assigns parameters and modules to fields of `self`, and
--- `Net:forward(...)`, which computes. Parameters, buffers and modules are found by these
--- assignments, in their order. An object is called: `net(x)` runs `forward` with its hooks.
--- Printing a module shows its tree with the number of parameters.
--- > Net = ml.nn.class("Net", ml.nn.Module)
--- > function Net:init(hidden) self.first = ml.nn.Linear(2, hidden) end
--- > function Net:forward(x) return self.first(x):tanh() end
--- > Net(8)(ml.ones(3, 2)).shape
---   (3, 8)
---@param ... what the `init` of the class takes
---@shape input and output as `forward` has them
---@field training boolean Whether it is in training mode: see `train` and `eval`.
local Module = class("Module")

--- Whether a value is a module: an object of a class that inherits from `nn.Module`.
--- > ml.nn.Module.is_module(ml.nn.ReLU())
---   true
---@param value any any value
---@return boolean
local function is_module(value)
  return type(value) == "table" and class.is_instance(value, Module)
end

signature.add_type("Module", "a module", function(value)
  return is_module(value) and value or nil
end)

-- The module that a field holds: a value that is one, or the one that `ml.compile` made it of.
local function module_of(value)
  if is_module(value) then return value end
  local meta = type(value) == "table" and getmetatable(value)
  local original = type(meta) == "table" and rawget(meta, "_compile_another")
    and rawget(value, "_original")
  return is_module(original) and original or nil
end

local function kind_of(value)
  if is_parameter(value) then return "parameter" end
  if module_of(value) then return "module" end
  return parameter.is_buffer(value) and "buffer" or nil
end

-- An object is a raw table, so that reading a field costs one lookup; the registry remembers the
-- order of the fields that matter and which of them are buffers.
function Module.__alloc()
  return { training = true, _registry = { order = {}, kind = {}, transient = {} } }
end

--- There is nothing that it must do: own modules may call `Net.super.init(self)` or not.
function Module:init(...)
  if select("#", ...) > 0 then
    fail("%s: takes no arguments, got %d", class.name(class.of(self)), select("#", ...))
  end
end

local function check_name(self, key)
  local name = class.name(class.of(self))
  if type(key) == "string" and (key == "" or key:find(".", 1, true)) then
    fail("%s: the name '%s' is empty or has a dot", name, key)
  elseif type(key) ~= "string" and not (math.type(key) == "integer" and key >= 1) then
    fail("%s: modules, parameters and buffers have names or positions from 1, got %s", name,
      tostring(key))
  elseif class.lookup(self, key) ~= nil then
    fail("%s: the name '%s' is taken by a method or class field", name, tostring(key))
  end
end

-- The child at position 1 is named "0" in state dicts, so beside net[1] neither net["1"], which
-- reads alike, nor net["0"] can stand.
local function check_twins(self, key)
  local number = math.tointeger(tonumber(key))
  if not number or tostring(number) ~= tostring(key) then return end
  local others = { number, number + 1 }
  if type(key) == "number" then others = { tostring(number), tostring(number - 1) } end
  for _, other in ipairs(others) do
    if rawget(self, other) ~= nil then
      local position = type(key) == "number" and key or other
      local name = type(key) == "number" and other or key
      fail("%s: position %d, which is named \"%d\" in state dicts, and the name \"%s\" are too "
        .. "alike to stand side by side", class.name(class.of(self)), position, position - 1, name)
    end
  end
end

local function register(self, key, kind, value)
  check_name(self, key)
  local registry = self._registry
  local is_buffer, persistent = parameter.is_buffer(value)
  if is_buffer then registry.transient[key] = not persistent or nil end
  if not registry.kind[key] then
    check_twins(self, key)
    table.insert(registry.order, key)
  end
  registry.kind[key] = kind
end

function Module.__newindex(self, key, value)
  local registry = rawget(self, "_registry")
  if registry then
    -- A field that was deleted and comes back goes to the end; a buffer may come later.
    local awaited = registry.kind[key] == "buffer" and ml.is_tensor(value)
    if registry.kind[key] and rawget(self, key) == nil and not awaited then
      registry.kind[key] = nil
      for i, name in ipairs(registry.order) do
        if name == key then table.remove(registry.order, i) break end
      end
    end
    local kind = kind_of(value)
    if kind then register(self, key, kind, value) end
  end
  rawset(self, key, value)
end

-- Parameters and modules that took the place of a plain value are not seen by __newindex.
local function register_late(self)
  local registry, late = self._registry, nil
  for key, value in next, self do
    if not registry.kind[key] and kind_of(value) then
      late = late or {}
      late[#late + 1] = key
    end
  end
  if not late then return end
  table.sort(late, function(a, b)
    if type(a) == type(b) then return a < b end
    return type(a) == "number"
  end)
  for _, key in ipairs(late) do register(self, key, kind_of(self[key]), self[key]) end
end

-- The name of a field in state dicts and printed trees: positions count from 0 there, as PyTorch's.
local function name_of(key)
  return math.type(key) == "integer" and tostring(key - 1) or key
end

--- Calls a function for each field of this module that holds a parameter, a buffer or a module, in
--- their order. What `ml.compile` made of a module comes as that module.
--- > kinds = {}
--- > ml.nn.Linear(2, 3):each_field(function(name, _, kind) kinds[name] = kind end)
--- > kinds
---   {bias = "parameter", weight = "parameter"}
---@param visit fun(name: string, value: any, kind: string, key: string|integer) called as
---   `visit(name, value, kind, key)`; `name` is that of state dicts, `key` the field's
local function each_field(self, visit)
  if not is_callable(visit) then
    fail("each_field: a function is expected, got %s", type(visit))
  end
  register_late(self)
  if self._close_gaps then self:_close_gaps() end
  local registry = self._registry
  for _, key in ipairs(registry.order) do
    local value = rawget(self, key)
    local kind = value ~= nil and (kind_of(value) or registry.kind[key])
    if kind == "buffer" and registry.kind[key] == "parameter" then kind = "parameter" end
    if kind == "parameter" and not is_parameter(value) then
      fail("%s: '%s' was a parameter and now holds a %s; assign nn.Parameter(...) or nil",
        class.name(class.of(self)), tostring(key), ml.is_tensor(value) and "plain tensor"
        or type(value))
    elseif kind == "buffer" and not ml.is_tensor(value) then
      fail("%s: '%s' was a buffer and now holds a %s", class.name(class.of(self)), tostring(key),
        type(value))
    elseif kind == "module" then
      local module = module_of(value)
      if module then visit(name_of(key), module, kind, key) end
    elseif kind then
      visit(name_of(key), value, kind, key)
    end
  end
end

local function join(prefix, name)
  return prefix == "" and name or prefix .. "." .. name
end

-- { name, module } of this module and those below it, into `out`. With `once` each module comes
-- once; without, under each of its names.
local function collect_modules(self, prefix, once, out, seen)
  if seen[self] then
    if not once then fail("%s: the module contains itself", class.name(class.of(self))) end
    return out
  end
  seen[self] = true
  out[#out + 1] = { prefix, self }
  each_field(self, function(name, value, kind)
    if kind == "module" then collect_modules(value, join(prefix, name), once, out, seen) end
  end)
  if not once then seen[self] = nil end
  return out
end

-- { name, tensor } of each parameter or buffer of this module and, with `recurse`, those below.
local function collect(self, wanted, prefix, recurse, once)
  local out, seen = {}, {}
  local modules = recurse and collect_modules(self, prefix, once, {}, {}) or { { prefix, self } }
  for _, entry in ipairs(modules) do
    each_field(entry[2], function(name, value, kind)
      if kind == wanted and not (once and seen[value]) then
        seen[value] = true
        out[#out + 1] = { join(entry[1], name), value }
      end
    end)
  end
  return out
end

local function second_of(pairs_list)
  local out = {}
  for i, entry in ipairs(pairs_list) do out[i] = entry[2] end
  return out
end

local function iterate(pairs_list)
  local i = 0
  return function()
    i = i + 1
    local entry = pairs_list[i]
    if entry then return entry[1], entry[2] end
  end
end

local read_parameters = signature "Module:parameters(bool recurse=true)"

--- All parameters, each once, in the order of assignment.
--- > #ml.nn.Linear(2, 3):parameters()
---   2
---@param recurse? boolean whether those of the modules below are in it
---@return Tensor[] parameters
function Module:parameters(...)
  return second_of(collect(self, "parameter", "", read_parameters(...), true))
end

local named_options = "(string prefix=\"\", bool recurse=true, bool remove_duplicate=true)"
local read_named_parameters = signature("Module:named_parameters" .. named_options)

--- Iterator over names and parameters: `for name, parameter in net:named_parameters() do`. The
--- names are those of the state dict.
--- > (ml.nn.Linear(2, 3):named_parameters()())
---   weight
---@param prefix? string what comes before each name, followed by a dot
---@param recurse? boolean whether those of the modules below are in it
---@param remove_duplicate? boolean whether a tensor of several names comes only once
---@return fun(): string, Tensor
function Module:named_parameters(...)
  return iterate(collect(self, "parameter", read_named_parameters(...)))
end

local read_buffers = signature "Module:buffers(bool recurse=true)"

--- All buffers, each once, in the order of assignment.
--- > #ml.nn.BatchNorm1d(3):buffers()
---   3
---@param recurse? boolean whether those of the modules below are in it
---@return Tensor[] buffers
function Module:buffers(...)
  return second_of(collect(self, "buffer", "", read_buffers(...), true))
end

local read_named_buffers = signature("Module:named_buffers" .. named_options)

--- Iterator over names and buffers: `for name, buffer in net:named_buffers() do`.
--- > (ml.nn.BatchNorm1d(3):named_buffers()())
---   running_mean
---@param prefix? string what comes before each name, followed by a dot
---@param recurse? boolean whether those of the modules below are in it
---@param remove_duplicate? boolean whether a tensor of several names comes only once
---@return fun(): string, Tensor
function Module:named_buffers(...)
  return iterate(collect(self, "buffer", read_named_buffers(...)))
end

local read_modules = signature "Module:modules()"

--- This module and all below it, each once.
--- > net = ml.nn.Sequential(ml.nn.Linear(2, 3), ml.nn.ReLU())
--- > #net:modules()
---   3
---@return table[] modules
function Module:modules(...)
  read_modules(...)
  return second_of(collect_modules(self, "", true, {}, {}))
end

local read_named_modules = signature(
  "Module:named_modules(string prefix=\"\", bool remove_duplicate=true)")

--- Iterator over names and modules, this one first, whose name is "": `for name, module in
--- net:named_modules() do`.
--- > net = ml.nn.Sequential(ml.nn.Linear(2, 3), ml.nn.ReLU())
--- > names = {}
--- > for name in net:named_modules() do names[#names + 1] = name end
--- > names
---   {"", "0", "1"}
---@param prefix? string the name of this module
---@param remove_duplicate? boolean whether a module of several names comes only once
---@return fun(): string, table
function Module:named_modules(...)
  local prefix, once = read_named_modules(...)
  return iterate(collect_modules(self, prefix, once, {}, {}))
end

-- { name, module } of each module directly below, each once.
local function child_list(self)
  local out, seen = {}, {}
  each_field(self, function(name, value, kind)
    if kind == "module" and not seen[value] then
      seen[value] = true
      out[#out + 1] = { name, value }
    end
  end)
  return out
end

local read_children = signature "Module:children()"

--- The modules directly below this one, each once.
--- > net = ml.nn.Sequential(ml.nn.Linear(2, 3), ml.nn.ReLU())
--- > #net:children()
---   2
---@return table[] modules
function Module:children(...)
  read_children(...)
  return second_of(child_list(self))
end

local read_named_children = signature "Module:named_children()"

--- Iterator over names and modules directly below this one: `for name, module in
--- net:named_children() do`. The first child of a Sequential is named "0".
--- > net = ml.nn.Sequential(ml.nn.Linear(2, 3), ml.nn.ReLU())
--- > net:named_children()()
---   0
---   Linear(2 -> 3)         9
---   9 parameters
---@return fun(): string, table
function Module:named_children(...)
  read_named_children(...)
  return iterate(child_list(self))
end

local read_register_buffer = signature(
  "Module:register_buffer(string name, Tensor? tensor=nil, bool persistent=true)")

--- Makes a tensor a buffer: part of the module's state, but not trained. Buffers are saved with the
--- module and moved by `to`.
--- > net = ml.nn.Module()
--- > net:register_buffer("steps", ml.zeros(1))
--- > net.steps
---   {0.}
---   Tensor (1,) float32
---@param name string the field
---@param tensor? Tensor the buffer; nil for one that comes later
---@param persistent? boolean whether it is in the state dict
---@error the name is taken by something else
function Module:register_buffer(...)
  local name, tensor, persistent = read_register_buffer(...)
  if rawget(self, name) ~= nil and self._registry.kind[name] ~= "buffer" then
    fail("register_buffer: '%s' exists already", name)
  end
  register(self, name, "buffer")
  rawset(self, name, tensor)
  self._registry.transient[name] = not persistent or nil
end

local function check_free(self, where, name, kind)
  if rawget(self, name) ~= nil and self._registry.kind[name] ~= kind then
    fail("%s: '%s' exists already", where, name)
  end
end

local read_register_parameter = signature(
  "Module:register_parameter(string name, Parameter? param=nil)")

--- Adds a parameter, as `self[name] = param` does.
--- > net = ml.nn.Module()
--- > net:register_parameter("scale", ml.nn.Parameter(ml.ones(2)))
--- > net.scale
---   {1., 1.}
---   Tensor (2,) float32 requires_grad
---@param name string the field
---@param param? Tensor the parameter; nil for one that comes later
---@error the name is taken by something else
function Module:register_parameter(...)
  local name, param = read_register_parameter(...)
  check_name(self, name)
  check_free(self, "register_parameter", name, "parameter")
  self[name] = param
end

local read_add_module = signature "Module:add_module(string name, Module? module=nil)"

--- Adds a module, as `self[name] = module` does.
--- > net = ml.nn.Module()
--- > net:add_module("head", ml.nn.Linear(2, 3))
--- > net.head
---   Linear(2 -> 3)         9
---   9 parameters
---@param name string the field
---@param module? table the module; nil for one that comes later
---@error the name is taken by something else
function Module:add_module(...)
  local name, module = read_add_module(...)
  check_name(self, name)
  check_free(self, "add_module", name, "module")
  self[name] = module
end

--- Adds a module: another name of `add_module`.
--- > net = ml.nn.Module()
--- > net:register_module("head", ml.nn.Linear(2, 3))
--- > net.head
---   Linear(2 -> 3)         9
---   9 parameters
---@param ... the arguments of `add_module`: the name and the module
---@param name string the field
---@param module? table the module; nil for one that comes later
function Module:register_module(...) self:add_module(...) end

local read_train = signature "Module:train(bool mode=true)"

--- Sets training mode here and in all modules below, as dropout and batch normalisation heed.
--- > net = ml.nn.Sequential(ml.nn.Linear(2, 3), ml.nn.ReLU())
--- > net:train().training
---   true
---@param mode? boolean true for training mode, false for eval mode
---@return table self
function Module:train(...)
  local mode = read_train(...)
  for _, module in ipairs(self:modules()) do module.training = mode end
  return self
end

local read_eval = signature "Module:eval()"

--- Sets eval mode here and in all modules below: `train(false)`. It does not stop the recording of
--- gradients: see `ml.no_grad`.
--- > net = ml.nn.Sequential(ml.nn.Linear(2, 3), ml.nn.ReLU())
--- > net:eval().training
---   false
---@return table self
function Module:eval(...)
  read_eval(...)
  return self:train(false)
end

local read_apply = signature "Module:apply(function fn)"

--- Calls a function with each module, those below before those above.
--- > net = ml.nn.Sequential(ml.nn.Linear(2, 2), ml.nn.ReLU())
--- > net:apply(function(m) if m.weight then ml.nn.init.ones_(m.weight) end end)
---   Sequential(                   6
---     (0): Linear(2 -> 2)         6
---     (1): ReLU()
---   )
---   6 parameters
--- > net[1].weight
---   {{1., 1.},
---    {1., 1.}}
---   Tensor (2, 2) float32 requires_grad
---@param fn fun(module: table) called as `fn(module)`
---@return table self
function Module:apply(...)
  local fn = read_apply(...)
  for _, child in ipairs(self:children()) do child:apply(fn) end
  fn(self)
  return self
end

local read_zero_grad = signature "Module:zero_grad(bool set_to_none=true)"

--- Clears the gradients of all parameters.
--- > net = ml.nn.Linear(2, 1)
--- > net(ml.ones(1, 2)):sum():backward()
--- > net:zero_grad()
--- > net.weight.grad
---   nil
---@param set_to_none? boolean whether gradients become nil, which frees their memory, or are filled
---   with zeros
function Module:zero_grad(...)
  parameter.clear_gradients(self:parameters(), read_zero_grad(...))
end

local read_requires_grad = signature "Module:requires_grad_(bool requires_grad=true)"

--- Sets whether the parameters require gradients: `net.body:requires_grad_(false)` freezes a part.
--- > ml.nn.Linear(2, 1):requires_grad_(false).weight.requires_grad
---   false
---@param requires_grad? boolean whether gradients are computed
---@return table self
function Module:requires_grad_(...)
  local value = read_requires_grad(...)
  for _, p in ipairs(self:parameters()) do p:requires_grad_(value) end
  return self
end

--- What the module computes; every module defines it. Call the module itself, `net(x)`, so that
--- hooks run.
--- > ml.nn.ReLU():forward(ml.tensor { -1, 1 })
---   {0, 1}
---   Tensor (2,) int64
function Module:forward()
  fail("%s: has no method forward", class.name(class.of(self)))
end

--- Forgets the field `key` as one that holds a parameter, buffer or module; returns what it held.
---@param key string|integer
---@return any
function Module:_forget(key)
  local value, registry = rawget(self, key), self._registry
  rawset(self, key, nil)
  registry.kind[key], registry.transient[key] = nil, nil
  for i, name in ipairs(registry.order) do
    if name == key then table.remove(registry.order, i) break end
  end
  return value
end

Module.each_field = each_field
Module.is_module = is_module
Module._module_of = module_of

return Module
