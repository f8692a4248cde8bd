-- stdlib/nn/parameter.lua: parameters: tensors that modules hold and optimisers change. A tensor
-- is a parameter because it was made one, not because it requires a gradient.

local options = require "moonlet.options"
local ml = require "moonlet"

local parameter = {}

local marks = setmetatable({}, { __mode = "k" })

--- Whether `value` was made by `nn.Parameter`.
---@param value any
---@return boolean
function parameter.is_parameter(value)
  return value ~= nil and marks[value] == true
end

--- A parameter on the memory of `tensor`, outside its graph.
---@param tensor Tensor
---@param requires_grad? boolean (default true)
---@return Tensor
function parameter.new(tensor, requires_grad)
  if not ml.is_tensor(tensor) then
    options.fail("Parameter: a tensor is wanted, got %s", type(tensor))
  end
  local result = tensor:detach()
  result:requires_grad_(requires_grad ~= false)
  marks[result] = true
  return result
end

return parameter
