-- stdlib/nn/utils/stateless.lua: nn.utils.stateless: a module called with other tensors, the older
-- name of func.functional_call.

local options = require "moonlet.options"
local modules = require "moonlet.func.modules"
local signature = require "moonlet.signature"

local stateless = {}

local read = signature([[nn.utils.stateless.functional_call(Module module,
    table parameters_and_buffers, any args=nil, dict? kwargs=nil, bool tie_weights=true,
    bool strict=false)]])

--- Calls `module` with other tensors in the place of its parameters and buffers:
--- `func.functional_call` under its older name.
---@param module table
---@param parameters_and_buffers table<string, moonlet.Tensor>
---@param args? any
---@param options? {kwargs?: table, tie_weights?: boolean, strict?: boolean}
---@return any ... its results
function stateless.functional_call(...)
  local module, tensors, args, kwargs, tie_weights, strict = read(...)
  return modules.functional_call(module, tensors, args,
    { kwargs = kwargs, tie_weights = tie_weights, strict = strict })
end

return options.namespace("nn.utils.stateless", stateless)
