-- stdlib/optim/rmsprop.lua: RMSprop.

local define = require "moonlet.optim.define"

--- RMSprop (Hinton's lectures, 2012; centred: Graves, 2013): `optim.RMSprop(net:parameters(), { lr
--- = 0.01 })`. Options: `lr` (0.01), `alpha` (0.99), `eps` (1e-8), `weight_decay` (0), `momentum`
--- (0), `centered` (divide by the deviation), `maximize` (go up the gradient).
local RMSprop = define.elementwise("RMSprop", "number>=0 lr=0.01, number>=0 alpha=0.99, "
  .. "number>=0 eps=1e-8, number>=0 weight_decay=0, number>=0 momentum=0, bool centered=false, "
  .. "bool capturable=false, bool? foreach=nil, bool maximize=false, bool differentiable=false",
  { "square_avg", "momentum_buffer if momentum", "grad_avg if centered" })

--- Moves one parameter.
---@param p Tensor
---@param gradient Tensor
---@param kept table<string, Tensor>
---@param group table
function RMSprop:move(p, gradient, kept, group)
  local alpha = group.alpha
  kept.square_avg:mul_(alpha):addcmul_(gradient, gradient, { value = 1 - alpha })
  local mean = group.centered and kept.grad_avg:lerp_(gradient, 1 - alpha)
  local square = mean and kept.square_avg:addcmul(mean, mean, { value = -1 }) or kept.square_avg
  local scale = square:sqrt():add_(group.eps)
  if group.momentum ~= 0 then
    kept.momentum_buffer:mul_(group.momentum):addcdiv_(gradient, scale)
    p:add_(kept.momentum_buffer, { alpha = -group.lr })
  else
    p:addcdiv_(gradient, scale, { value = -group.lr })
  end
end

return RMSprop
