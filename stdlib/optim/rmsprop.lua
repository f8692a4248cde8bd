-- stdlib/optim/rmsprop.lua: RMSprop.

local define = require "moonlet.optim.define"
local ml = require "moonlet"

--- RMSprop (Hinton's lectures, 2012; centred: Graves, 2013): `optim.RMSprop(net:parameters(), { lr
--- = 0.01 })`. Options: `lr` (0.01), `alpha` (0.99), `eps` (1e-8), `weight_decay` (0), `momentum`
--- (0), `centered` (divide by the deviation), `maximize` (go up the gradient), and `capturable`,
--- `foreach` and `differentiable` as of all optimisers.
local RMSprop = define.elementwise("RMSprop", "number>=0|OneNumber lr=0.01, number>=0 alpha=0.99, "
  .. "number>=0 eps=1e-8, number>=0 weight_decay=0, number>=0 momentum=0, bool centered=false, "
  .. "bool capturable=false, bool? foreach=nil, bool maximize=false, bool differentiable=false",
  { "square_avg", "momentum_buffer if momentum", "grad_avg if centered" })

--- Moves all parameters of a list at once.
---@param list table
---@param o table
function RMSprop:step_all(list, o, _, ...)
  local kept = list.kept
  ml._internal.rmsprop_step(list.x, list.g, kept.square_avg, kept.momentum_buffer or {},
    kept.grad_avg or {}, o.lr, o.alpha, o.eps, o.momentum, ...)
end

--- The parameter after a step.
---@param p Tensor
---@param gradient Tensor
---@param kept table<string, Tensor>
---@param o table
---@return Tensor
function RMSprop:move(p, gradient, kept, o)
  kept.square_avg = kept.square_avg * o.alpha + gradient * gradient * (1 - o.alpha)
  local square = kept.square_avg
  if o.centered then
    kept.grad_avg = kept.grad_avg:lerp(gradient, 1 - o.alpha)
    square = square - kept.grad_avg * kept.grad_avg
  end
  local change = gradient / (square:sqrt() + o.eps)
  if o.momentum ~= 0 then
    change = kept.momentum_buffer * o.momentum + change
    kept.momentum_buffer = change
  end
  return p - change * o.lr
end

return RMSprop
