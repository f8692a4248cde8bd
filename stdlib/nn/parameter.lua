-- stdlib/nn/parameter.lua: parameters: tensors that modules hold and optimisers change. A tensor
-- is a parameter because it was made one, not because it requires a gradient.

local signature = require "moonlet.signature"
local system = require "moonlet.system"

local parameter = {}

local marks = setmetatable({}, { __mode = "k" })

--- Whether `value` was made by `nn.Parameter`.
---@param value any
---@return boolean
function parameter.is_parameter(value)
  return value ~= nil and marks[value] == true
end

signature.add_type("Parameter", "an nn.Parameter", function(value)
  return parameter.is_parameter(value) and value or nil
end)

local read = signature "nn.Parameter(Tensor data, bool requires_grad=true)"

--- A parameter on the memory of the tensor `data`, outside its graph: `nn.Parameter(t)`, or
--- `nn.Parameter(t, { requires_grad = false })` for one that is not trained.
---@param data Tensor
---@param requires_grad? boolean (default true)
---@return Tensor
function parameter.new(...)
  local data, requires_grad = read(...)
  local result = data:detach()
  result:requires_grad_(requires_grad)
  marks[result] = true
  return result
end

--- Forgets the gradients of an array of parameters, so that their memory is free for the next ones,
--- or fills them with zeros outside their graph; sparse ones then have no rows.
---@param list Tensor[]
---@param set_to_none boolean
function parameter.clear_gradients(list, set_to_none)
  for _, p in ipairs(list) do
    if set_to_none then
      p.grad = nil
    else
      local gradient = p.grad
      if gradient and gradient.is_sparse then
        gradient:zero_()
      elseif gradient then
        p.grad = gradient:detach():fill_(0)
      end
    end
  end
  if set_to_none then system.gradients_dropped() end
end

return parameter
