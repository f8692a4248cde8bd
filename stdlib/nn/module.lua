-- stdlib/nn/module.lua: nn.Module: finds its parameters, buffers and submodules by assignment, in
-- the order of assignment, and does with them what all models need.

local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"
local parameter = require "moonlet.nn.parameter"
local fail = options.fail
local is_parameter = parameter.is_parameter

local Module = class("Module")

local function is_module(value)
  return type(value) == "table" and class.is_instance(value, Module)
end

local function kind_of(value)
  if is_parameter(value) then return "parameter" end
  return is_module(value) and "module" or nil
end

-- An object is a raw table, so that reading a field costs one lookup; the registry remembers the
-- order of the fields that matter and which of them are buffers.
function Module.__alloc()
  return { training = true, _registry = { order = {}, kind = {}, transient = {} } }
end

local function check_name(self, key)
  if type(key) == "string" and (key == "" or key:find(".", 1, true)) then
    fail("%s: the name '%s' is empty or has a dot", class.name(class.of(self)), key)
  elseif class.lookup(self, key) ~= nil then
    fail("%s: the name '%s' is taken by a method or class field", class.name(class.of(self)),
      tostring(key))
  end
end

local function register(self, key, kind)
  check_name(self, key)
  local registry = self._registry
  if not registry.kind[key] then table.insert(registry.order, key) end
  registry.kind[key] = kind
end

function Module.__newindex(self, key, value)
  local registry = rawget(self, "_registry")
  if registry then
    -- A field that was deleted and comes back goes to the end.
    if registry.kind[key] and rawget(self, key) == nil then
      registry.kind[key] = nil
      for i, name in ipairs(registry.order) do
        if name == key then table.remove(registry.order, i) break end
      end
    end
    local kind = kind_of(value)
    if kind then register(self, key, kind) end
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
  table.sort(late, function(a, b) return tostring(a) < tostring(b) end)
  for _, key in ipairs(late) do register(self, key, kind_of(self[key])) end
end

-- Calls visit(name, value, kind) for each registered field that has a value.
local function each_field(self, visit)
  register_late(self)
  local registry = self._registry
  for _, key in ipairs(registry.order) do
    local value = rawget(self, key)
    local kind = value ~= nil and (kind_of(value) or registry.kind[key])
    if kind == "parameter" and not is_parameter(value) then
      fail("%s: '%s' was a parameter and now holds a %s; assign nn.Parameter(...) or nil",
        class.name(class.of(self)), tostring(key), ml.is_tensor(value) and "plain tensor"
        or type(value))
    elseif kind == "buffer" and not ml.is_tensor(value) then
      fail("%s: '%s' was a buffer and now holds a %s", class.name(class.of(self)), tostring(key),
        type(value))
    elseif kind and (kind ~= "module" or is_module(value)) then
      visit(tostring(key), value, kind)
    end
  end
end

local function join(prefix, name)
  return prefix == "" and name or prefix .. "." .. name
end

local function collect_modules(self, prefix, seen, out)
  if seen[self] then return out end
  seen[self] = true
  out[#out + 1] = { prefix, self }
  each_field(self, function(name, value, kind)
    if kind == "module" then collect_modules(value, join(prefix, name), seen, out) end
  end)
  return out
end

-- { name, tensor } of each parameter or buffer of all modules, each tensor once.
local function collect(self, wanted)
  local out, seen = {}, {}
  for _, entry in ipairs(collect_modules(self, "", {}, {})) do
    each_field(entry[2], function(name, value, kind)
      if kind == wanted and not seen[value] then
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

--- All parameters, each once, in the order of assignment: an array.
---@return Tensor[]
function Module:parameters() return second_of(collect(self, "parameter")) end

--- `for name, parameter in net:named_parameters() do`: the names as in the state dict.
function Module:named_parameters() return iterate(collect(self, "parameter")) end

--- All buffers, each once: an array.
---@return Tensor[]
function Module:buffers() return second_of(collect(self, "buffer")) end

--- `for name, buffer in net:named_buffers() do`.
function Module:named_buffers() return iterate(collect(self, "buffer")) end

--- This module and all below it, each once: an array.
---@return table[]
function Module:modules() return second_of(collect_modules(self, "", {}, {})) end

--- `for name, module in net:named_modules() do`: this module has the name "".
function Module:named_modules() return iterate(collect_modules(self, "", {}, {})) end

local function child_list(self)
  local out = {}
  each_field(self, function(name, value, kind)
    if kind == "module" then out[#out + 1] = { name, value } end
  end)
  return out
end

--- The modules directly below this one: an array.
---@return table[]
function Module:children() return second_of(child_list(self)) end

--- `for name, module in net:named_children() do`.
function Module:named_children() return iterate(child_list(self)) end

--- Makes the tensor `value` (or nil, for one that comes later) a buffer: saved with the module and
--- moved by `to`, but not trained. With `{ persistent = false }` it is not in the state dict.
---@param name string
---@param value? Tensor
---@param given? table
function Module:register_buffer(name, value, given)
  local o = options.read("register_buffer", given, { persistent = true })
  if type(name) ~= "string" then
    fail("register_buffer: the name must be a string, got %s", type(name))
  elseif value ~= nil and not ml.is_tensor(value) then
    fail("register_buffer: '%s' must be a tensor or nil, got %s", name, type(value))
  elseif rawget(self, name) ~= nil and self._registry.kind[name] ~= "buffer" then
    fail("register_buffer: '%s' exists already", name)
  end
  rawset(self, name, value)
  register(self, name, "buffer")
  self._registry.transient[name] = not o.persistent or nil
end

--- The same as `self[name] = parameter`; nil makes a name that may get one later.
function Module:register_parameter(name, value)
  if value ~= nil and not is_parameter(value) then
    fail("register_parameter: '%s' must be an nn.Parameter or nil", tostring(name))
  end
  self[name] = value
end

--- Sets training mode (default true) here and below, for dropout and batch normalisation.
---@param mode? boolean
function Module:train(mode)
  for _, module in ipairs(self:modules()) do module.training = mode ~= false end
  return self
end

--- The same as `train(false)`.
function Module:eval() return self:train(false) end

--- Calls `f` with each module, those below first.
---@param f fun(module: table)
function Module:apply(f)
  for _, child in ipairs(self:children()) do child:apply(f) end
  f(self)
  return self
end

--- Forgets the gradients of all parameters.
function Module:zero_grad()
  for _, p in ipairs(self:parameters()) do p.grad = nil end
end

--- Sets whether the parameters ask for gradients.
---@param value? boolean (default true)
function Module:requires_grad_(value)
  for _, p in ipairs(self:parameters()) do p:requires_grad_(value ~= false) end
  return self
end

--- What the module computes; every module defines it. `net(x)` calls it.
function Module:forward()
  fail("%s: has no method forward", class.name(class.of(self)))
end

local function call_with_hooks(self, ...)
  local inputs = table.pack(...)
  for _, hook in ipairs(self._pre_hooks or {}) do
    local changed = table.pack(hook(self, table.unpack(inputs, 1, inputs.n)))
    if changed.n > 0 and changed[1] ~= nil then inputs = changed end
  end
  local outputs = table.pack(self:forward(table.unpack(inputs, 1, inputs.n)))
  for _, hook in ipairs(self._hooks or {}) do
    local changed = table.pack(hook(self, inputs, table.unpack(outputs, 1, outputs.n)))
    if changed.n > 0 and changed[1] ~= nil then outputs = changed end
  end
  return table.unpack(outputs, 1, outputs.n)
end

function Module.__call(self, ...)
  if self._has_hooks then return call_with_hooks(self, ...) end
  return self:forward(...)
end

local function add_hook(self, field, hook)
  if type(hook) ~= "function" then fail("hook: a function is wanted, got %s", type(hook)) end
  local list = rawget(self, field) or {}
  rawset(self, field, list)
  rawset(self, "_has_hooks", true)
  table.insert(list, hook)
  return function()
    for i, other in ipairs(list) do
      if other == hook then table.remove(list, i) return end
    end
  end
end

--- `hook(module, inputs, ...)` runs after forward with its results; what it returns, if anything,
--- takes their place. Returns a function that removes the hook.
function Module:register_forward_hook(hook) return add_hook(self, "_hooks", hook) end

--- `hook(module, ...)` runs before forward with its arguments; what it returns, if anything, takes
--- their place. Returns a function that removes the hook.
function Module:register_forward_pre_hook(hook) return add_hook(self, "_pre_hooks", hook) end

Module.each_field = each_field
Module.is_module = is_module

return Module
