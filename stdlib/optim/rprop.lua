-- stdlib/optim/rprop.lua: resilient backpropagation.

local define = require "moonlet.optim.define"
local options = require "moonlet.options"

--- Resilient backpropagation: steps by the signs of gradients alone. It is for gradients of the
--- whole data set; on batches signs change by chance.
--- > w = ml.nn.Parameter(ml.tensor { 1.0, 2 })
--- > opt = ml.optim.Rprop({ w }, { lr = 0.1 })
--- > w:pow(2):sum():backward() opt:step()
--- > w
---   {0.9000, 1.9000}
---   Tensor (2,) float32 requires_grad
---@param params an array of parameters, or of groups { params = ..., lr = ... } with options of
---   their own
---@param lr what all steps start from
---@param etas the factors of a step after a change of the gradient's sign, below 1, and without,
---   above 1
---@param step_sizes the least and the greatest step
---@param capturable whether what is counted is a tensor on the parameters' CUDA device, as CUDA
---   graphs need
---@param foreach false changes the parameters one by one; true or nil changes all in one pass
---@param maximize whether the objective is maximised: gradients count with the opposite sign
---@param differentiable whether the tape records the step
---@formula s = g g_before
---@formula step = min(max(step etas[2], min), max) if s > 0
---@formula step = min(max(step etas[1], min), max) and g = 0 if s < 0
---@formula theta = theta - sign(g) step
---@error `etas` are not a number between 0 and 1 and one above 1
---@source Riedmiller and Braun, 1993: A direct adaptive method for faster backpropagation learning
local Rprop = define.elementwise("Rprop", "number>=0|OneNumber lr=0.01, "
  .. "number[2] etas={0.5, 1.2}, number[2] step_sizes={1e-6, 50}, bool capturable=false, "
  .. "bool? foreach=nil, bool maximize=false, bool differentiable=false", "rprop")

-- Checks a group's options.
function Rprop:check(group)
  local less, more = group.etas[1], group.etas[2]
  if not (0 < less and less < 1 and 1 < more) then
    options.fail("%s: 'etas' must be a number between 0 and 1 and one above 1, got %g and %g",
      self.name, less, more)
  end
end

return Rprop
