-- stdlib/optim/adadelta.lua: Adadelta.

local define = require "moonlet.optim.define"

--- Adadelta (Zeiler, 2012): `optim.Adadelta(net:parameters(), { lr = 1, rho = 0.9 })`. Options:
--- `lr` (1), `rho` (0.9), `eps` (1e-6), `weight_decay` (0), `maximize` (go up the gradient).
local Adadelta = define.elementwise("Adadelta", "number>=0 lr=1.0, number>=0<=1 rho=0.9, "
  .. "number>=0 eps=1e-6, number>=0 weight_decay=0, bool? foreach=nil, bool capturable=false, "
  .. "bool maximize=false, bool differentiable=false", { "square_avg", "acc_delta" })

--- Moves one parameter.
---@param p Tensor
---@param gradient Tensor
---@param kept table<string, Tensor>
---@param group table
function Adadelta:move(p, gradient, kept, group)
  local rho, eps = group.rho, group.eps
  kept.square_avg:mul_(rho):addcmul_(gradient, gradient, { value = 1 - rho })
  local scale = kept.square_avg:add(eps):sqrt_()
  local delta = kept.acc_delta:add(eps):sqrt_():div_(scale):mul_(gradient)
  kept.acc_delta:mul_(rho):addcmul_(delta, delta, { value = 1 - rho })
  p:add_(delta, { alpha = -group.lr })
end

return Adadelta
