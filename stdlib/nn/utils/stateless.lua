-- stdlib/nn/utils/stateless.lua: nn.utils.stateless: a module called with other tensors, the older
-- name of func.functional_call.

local options = require "moonlet.options"
local modules = require "moonlet.func.modules"
local signature = require "moonlet.signature"

local stateless = {}

local read = signature([[nn.utils.stateless.functional_call(Module module,
    table parameters_and_buffers, any args=nil, dict? kwargs=nil, bool tie_weights=true,
    bool strict=false)]])

--- Calls a module with other tensors instead of its parameters and buffers: the older name of
--- `func.functional_call`.
--- > net = ml.nn.Linear(2, 1)
--- > tensors = { weight = ml.ones(1, 2), bias = ml.zeros(1) }
--- > ml.nn.utils.stateless.functional_call(net, tensors, ml.ones(1, 2))
---   {{2.}}
---   Tensor (1, 1) float32
---@see func.functional_call
---@see func.functional_call
---@see func.functional_call
---@see func.functional_call
---@see func.functional_call
---@see func.functional_call
---@see func.functional_call
---@param module table the module
---@param parameters_and_buffers table<string, moonlet.Tensor> tensors by name; the module's own
---   stand for names that are not in it
---@param args? any an array of arguments, or one argument
---@param kwargs arguments by name
---@param tie_weights whether tensors that are tied in the module are all replaced by one name
---@param strict whether unknown and missing names are an error
---@return any ... its results
---@shape args as the module takes them -> as the module gives them
---@see func.functional_call
function stateless.functional_call(...)
  local module, tensors, args, kwargs, tie_weights, strict = read(...)
  return modules.functional_call(module, tensors, args,
    { kwargs = kwargs, tie_weights = tie_weights, strict = strict })
end

return options.namespace("nn.utils.stateless", stateless)
