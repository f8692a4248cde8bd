-- stdlib/nn/utils/computed.lua: tensors of a module that are computed from others before each call:
-- what the older weight_norm and spectral_norm, and pruning, have in common.

local hooks = require "moonlet.hooks"
local options = require "moonlet.options"
local fail = options.fail
require "moonlet.nn.module"

local computed = {}

--- Checks that the module has a parameter of that name and returns it.
---@param where string
---@param module table
---@param name string
---@return moonlet.Tensor
function computed.parameter_of(where, module, name)
  if module._registry.kind[name] ~= "parameter" or rawget(module, name) == nil then
    fail("%s: %s has no parameter '%s'", where, module:describe(), name)
  end
  return rawget(module, name)
end

--- What computes that field of the module, or nil. `kind` says what sort is looked for.
---@param module table
---@param name string
---@param kind string
---@return table?
function computed.find(module, name, kind)
  local all = rawget(module, "_computed")
  local found = all and all[name]
  return found and found.kind == kind and found or nil
end

--- Lets `record.compute(module, record)` give the field `name` before each call, and at once unless
--- there is a `record.first` to start with.
---@param module table
---@param name string
---@param record table { kind, compute, first?, ... }
function computed.install(module, name, record)
  local all = rawget(module, "_computed") or {}
  if all[name] then
    fail("nn.utils.%s: '%s' has %s already", record.kind, name, all[name].kind)
  end
  all[name] = record
  rawset(module, "_computed", all)
  -- Its record is that of the module that is called, which may be a copy.
  record.hook = function(self)
    local own = rawget(self, "_computed")[name]
    rawset(self, name, own.compute(self, own))
  end
  if record.first then rawset(module, name, record.first) else record.hook(module) end
  record.first = nil
  module:register_forward_pre_hook(record.hook)
end

--- Ends that and returns the record; the field is gone.
---@param where string
---@param module table
---@param name string
---@param kind string
---@return table
function computed.remove(where, module, name, kind)
  local record = computed.find(module, name, kind)
  if not record then fail("%s: '%s' of %s has none", where, name, module:describe()) end
  hooks.remove(module, "_pre_hooks", record.hook)
  rawget(module, "_computed")[name] = nil
  rawset(module, name, nil)
  return record
end

return computed
