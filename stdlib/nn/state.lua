-- stdlib/nn/state.lua: Module: the state dict, loading it, and the hooks of both.

local Module = require "moonlet.nn.module"
local class = require "moonlet.class"
local hooks = require "moonlet.hooks"
local ml = require "moonlet"
local notes = require "moonlet.files.notes"
local options = require "moonlet.options"
local parameter = require "moonlet.nn.parameter"
local signature = require "moonlet.signature"
local fail = options.fail

local EXTRA = "_extra_state"

local function class_name(self) return class.name(class.of(self)) end

-- Whether the module says itself what more its state is.
local function has_extra(self, method) return class.lookup(self, method) ~= Module[method] end

--- The state of this module beside parameters and buffers; modules that have such state define it,
--- with `set_extra_state`. What it returns stands in the state dict under "_extra_state".
--- > Counter = ml.nn.class "Counter"
--- > function Counter:get_extra_state() return 42 end
--- > Counter():state_dict()
---   {_extra_state = 42}
---@return any
---@error the class does not define it
function Module:get_extra_state()
  fail("%s: has no method get_extra_state", class_name(self))
end

--- Takes the state that `get_extra_state` gave; modules that have such state define it.
--- > Counter = ml.nn.class "Counter"
--- > function Counter:get_extra_state() return self.count or 0 end
--- > function Counter:set_extra_state(state) self.count = state end
--- > counter = Counter()
--- > counter:load_state_dict { _extra_state = 42 }
---   <All keys matched successfully>
--- > counter.count
---   42
---@param state any what `get_extra_state` returned
---@error the class does not define it
function Module:set_extra_state(state)
  fail("%s: has no method set_extra_state, got %s", class_name(self), signature.describe(state))
end

-- Keys are noted, so that they are saved in the order of the modules.
local function put(destination, key, value)
  if destination[key] == nil then notes.add_key(destination, key) end
  destination[key] = value
end

--- Puts the parameters and persistent buffers of this module alone into `destination`, each name
--- after `prefix`. A class may do more here.
function Module:_save_to_state_dict(destination, prefix, keep_vars)
  self:each_field(function(name, value, kind, key)
    if kind == "parameter" or kind == "buffer" and not self._registry.transient[key] then
      local whole = keep_vars or parameter.is_uninitialized(value)
      put(destination, prefix .. name, whole and value or value:detach())
    end
  end)
  if has_extra(self, "get_extra_state") then
    put(destination, prefix .. EXTRA, self:get_extra_state())
  end
end

local function save(self, destination, prefix, keep_vars, above)
  if above[self] then fail("%s: the module contains itself", class_name(self)) end
  above[self] = true
  for _, hook in hooks.each(rawget(self, "_state_dict_pre_hooks")) do
    hook(self, prefix, keep_vars)
  end
  self:_save_to_state_dict(destination, prefix, keep_vars)
  self:each_field(function(name, value, kind)
    if kind == "module" then
      save(value, destination, prefix .. name .. ".", keep_vars, above)
    end
  end)
  for _, hook in hooks.each(rawget(self, "_state_dict_hooks")) do
    hook(self, destination, prefix, { version = self._version or 1 })
  end
  above[self] = nil
  return destination
end

local read_state_dict = signature(
  "Module:state_dict(string prefix=\"\", bool keep_vars=false, dict? destination=nil)")

--- All parameters and persistent buffers by name, on the memory of the module. The names are
--- PyTorch's: the first module of a Sequential is named "0". `ml.items(state)` goes through them in
--- the order of the modules, and `ml.save` to a `.pt` file keeps it.
--- > ml.nn.Linear(2, 1):state_dict()
---   name    shape   dtype
---   bias    (1,)    float32
---   weight  (1, 2)  float32
---@param prefix? string what comes before each name
---@param keep_vars? boolean whether the values are the parameters themselves, which require
---   gradients
---@param destination? table the table to put them into, a new one unless given
---@return table<string, Tensor>
function Module:state_dict(...)
  local prefix, keep_vars, destination = read_state_dict(...)
  return save(self, destination or {}, prefix, keep_vars, {})
end

-- What is wrong with `value` for the tensor `own`, or nil.
local function misfit(own, value)
  if not ml.is_tensor(value) then return ("a %s, expected a tensor"):format(type(value)) end
  if parameter.is_uninitialized(own) or value.shape == own.shape then return nil end
  return ("%s, expected %s"):format(tostring(value.shape), tostring(own.shape))
end

-- Puts the tensor `value` in the place of the module's own, which has the same kind.
local function replace(self, key, own, value, kind)
  if kind == "parameter" and not parameter.is_parameter(value) then
    value = parameter.new(value, own.requires_grad)
  else
    value:requires_grad_(own.requires_grad)
  end
  rawset(self, key, value)
end

local function load_one(self, key, own, value, kind, metadata)
  if parameter.is_uninitialized(value) then return nil end
  -- Tensors without dimensions had one of size 1 once.
  if ml.is_tensor(value) and own.ndim == 0 and value.ndim == 1 and #value > 0 then
    value = value[1]
  end
  local wrong = misfit(own, value)
  if wrong then return wrong end
  table.insert(metadata.plan, function()
    if metadata.assign_to_params_buffers then
      return replace(self, key, own, value, kind)
    elseif parameter.is_uninitialized(own) then
      parameter.materialize(own, value.shape:totable())
    end
    own:copy_(value:to(own.device))
  end)
end

local function starts_with(text, prefix) return text:sub(1, #prefix) == prefix end

-- Names in the state under `prefix` that neither a tensor nor a child of this module has.
local function find_unexpected(state, prefix, own, children, unexpected)
  for key in pairs(state) do
    if type(key) ~= "string" then
      if prefix == "" then unexpected[#unexpected + 1] = tostring(key) end
    elseif starts_with(key, prefix) and key ~= prefix .. EXTRA then
      local name = key:sub(#prefix + 1)
      local child = name:match "^([^.]*)%."
      if child and not children[child] or not child and not own[name] then
        unexpected[#unexpected + 1] = key
      end
    end
  end
end

local function load_extra(self, state, prefix, metadata, missing, unexpected)
  local key = prefix .. EXTRA
  local value = state[key]
  if not has_extra(self, "set_extra_state") then
    if value ~= nil then unexpected[#unexpected + 1] = key end
  elseif value == nil then
    missing[#missing + 1] = key
  else
    table.insert(metadata.plan, function() self:set_extra_state(value) end)
  end
end

--- Takes the tensors of this module alone, which stand after `prefix` in `state`, and notes names
--- that are missing or unexpected. A class that does more calls this one as well. What is to be
--- done when all fits is put into `local_metadata.plan`, an array of functions.
function Module:_load_from_state_dict(state, prefix, local_metadata, strict, missing, unexpected,
    errors)
  for _, hook in hooks.each(rawget(self, "_load_state_dict_pre_hooks")) do
    hook(self, state, prefix, local_metadata, strict, missing, unexpected, errors)
  end
  local own, children = {}, {}
  self:each_field(function(name, value, kind, field)
    if kind == "module" then
      children[name] = true
    elseif kind == "parameter" or not self._registry.transient[field] then
      own[name] = true
      local key = prefix .. name
      if state[key] == nil then
        missing[#missing + 1] = key
      else
        local wrong = load_one(self, field, value, state[key], kind, local_metadata)
        if wrong then
          table.insert(local_metadata.mismatched, ("%s (%s)"):format(key, wrong))
        end
      end
    end
  end)
  load_extra(self, state, prefix, local_metadata, missing, unexpected)
  find_unexpected(state, prefix, own, children, unexpected)
end

local function part_of(state, prefix)
  local out = {}
  for key, value in pairs(state) do
    if type(key) == "string" and starts_with(key, prefix) then out[key] = value end
  end
  return out
end

-- Goes through the module and those below it; hooks that run after are noted in `after`.
local function visit(self, state, prefix, report, after, above)
  if above[self] then fail("%s: the module contains itself", class_name(self)) end
  above[self] = true
  local metadata = { version = report.version, plan = report.plan, mismatched = report.mismatched,
    assign_to_params_buffers = report.assign }
  self:_load_from_state_dict(state, prefix, metadata, report.strict, report.missing,
    report.unexpected, report.errors)
  self:each_field(function(name, child, kind)
    if kind == "module" then
      local below = prefix .. name .. "."
      visit(child, part_of(state, below), below, report, after, above)
    end
  end)
  for _, hook in hooks.each(rawget(self, "_load_state_dict_post_hooks")) do
    after[#after + 1] = { self, hook }
  end
  above[self] = nil
end

local function refuse(self, report)
  local lines = { ("load_state_dict: the state does not fit %s"):format(class_name(self)) }
  local function add(title, list)
    if #list > 0 then lines[#lines + 1] = ("  %s: %s"):format(title, table.concat(list, ", ")) end
  end
  if report.strict then
    add("missing", report.missing)
    add("unexpected", report.unexpected)
  end
  add("of another shape", report.mismatched)
  for _, message in ipairs(report.errors) do lines[#lines + 1] = "  " .. tostring(message) end
  fail("%s", table.concat(lines, "\n"))
end

local function copy_of(state)
  local out = {}
  for key, value in pairs(state) do out[key] = value end
  return out
end

-- What load_state_dict gives: a table like any other, but for its text.
local IncompatibleKeys = { __name = "IncompatibleKeys", __metatable = false }

local function names_text(names)
  local parts = {}
  for i, name in ipairs(names) do parts[i] = ("'%s'"):format(name) end
  return "[" .. table.concat(parts, ", ") .. "]"
end

function IncompatibleKeys.__tostring(keys)
  if #keys.missing_keys == 0 and #keys.unexpected_keys == 0 then
    return "<All keys matched successfully>"
  end
  return ("_IncompatibleKeys(missing_keys=%s, unexpected_keys=%s)"):format(
    names_text(keys.missing_keys), names_text(keys.unexpected_keys))
end

local read_load = signature(
  "Module:load_state_dict(dict state_dict, bool strict=true, bool assign=false)")

--- Loads parameters and buffers from a state dict. Tensors are copied into the module's own, which
--- keep their dtype and device. Keys that are missing, unexpected or of another shape are an error
--- that lists them all, and nothing is loaded. To load a part, as for a network with a new last
--- layer, set the other keys of `state_dict` to nil and `strict` to false.
--- > net = ml.nn.Linear(2, 1)
--- > net:load_state_dict(ml.nn.Linear(2, 1):state_dict())
---   <All keys matched successfully>
---@param state_dict table<string, Tensor> tensors by name
---@param strict? boolean whether missing and unexpected keys are an error; their names are in the
---   result
---@param assign? boolean whether the tensors take the place of the module's own, as they are
---@return table { missing_keys = string[], unexpected_keys = string[] }
---@error keys do not fit, or a tensor has another shape
function Module:load_state_dict(...)
  local state, strict, assign = read_load(...)
  local report = { strict = strict, assign = assign, plan = {}, missing = {}, unexpected = {},
    mismatched = {}, errors = {} }
  local after = {}
  visit(self, copy_of(state), "", report, after, {})
  for _, list in ipairs { report.missing, report.unexpected, report.mismatched } do
    table.sort(list)
  end
  local keys = setmetatable({ missing_keys = report.missing,
    unexpected_keys = report.unexpected }, IncompatibleKeys)
  local function strangers() return strict and #report.missing + #report.unexpected > 0 end
  -- Hooks may forgive names, when the rest is loaded.
  local wrong = #report.mismatched + #report.errors > 0
  if wrong or #after == 0 and strangers() then refuse(self, report) end
  do
    local _ <close> = ml.no_grad()
    for _, act in ipairs(report.plan) do act() end
  end
  for _, entry in ipairs(after) do entry[2](entry[1], keys) end
  if strangers() then refuse(self, report) end
  return keys
end

local function registrar(name, field)
  local read = signature(("Module:%s(function hook)"):format(name))
  return function(self, ...) return hooks.add(self, field, (read(...))) end
end

local add_pre = registrar("register_state_dict_pre_hook", "_state_dict_pre_hooks")

--- Registers a hook that runs before this module's part of a state dict is gathered. Returns a
--- handle: `handle:remove()`.
--- > net = ml.nn.Linear(2, 3)
--- > handle = net:register_state_dict_pre_hook(function(module) module.bias = nil end)
--- > net:state_dict()
---   name    shape   dtype
---   weight  (3, 2)  float32
---@param hook fun(module: table, prefix: string, keep_vars: boolean) called as `hook(module,
---   prefix, keep_vars)`
---@return table handle
function Module:register_state_dict_pre_hook(...) return add_pre(self, ...) end

local add_post = registrar("register_state_dict_post_hook", "_state_dict_hooks")

--- Registers a hook that runs when a state dict has this module's part and those below it. The hook
--- may change the state dict. Returns a handle: `handle:remove()`.
--- > net = ml.nn.Linear(2, 3)
--- > handle = net:register_state_dict_post_hook(function(_, state) state.bias = nil end)
--- > net:state_dict()
---   name    shape   dtype
---   weight  (3, 2)  float32
---@param hook fun(module: table, state_dict: table, prefix: string, local_metadata: table) called
---   as `hook(module, state_dict, prefix, local_metadata)`
---@return table handle
function Module:register_state_dict_post_hook(...) return add_post(self, ...) end

local add_load_pre = registrar("register_load_state_dict_pre_hook", "_load_state_dict_pre_hooks")

--- Registers a hook that runs before a state dict is loaded into this module. The hook may change
--- the state dict, a copy of the one given. Returns a handle: `handle:remove()`.
--- > net = ml.nn.Linear(2, 3)
--- > handle = net:register_load_state_dict_pre_hook(function(_, state) state.old = nil end)
--- > state = net:state_dict()
--- > state.old = ml.zeros(1)
--- > net:load_state_dict(state)
---   <All keys matched successfully>
---@param hook fun(module: table, state_dict: table, ...) called as `hook(module, state_dict,
---   prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)`
---@return table handle
function Module:register_load_state_dict_pre_hook(...) return add_load_pre(self, ...) end

local add_load_post = registrar("register_load_state_dict_post_hook",
  "_load_state_dict_post_hooks")

--- Registers a hook that runs when it is known which keys do not fit. The hook may remove names
--- from the arrays `missing_keys` and `unexpected_keys`, so that they are no errors. Returns a
--- handle: `handle:remove()`.
--- > net = ml.nn.Linear(2, 3)
--- > forgive = function(_, keys) keys.missing_keys = {} end
--- > handle = net:register_load_state_dict_post_hook(forgive)
--- > handle:remove()
---@param hook fun(module: table, incompatible_keys: table) called as `hook(module,
---   incompatible_keys)`
---@return table handle
function Module:register_load_state_dict_post_hook(...) return add_load_post(self, ...) end

return Module
