-- stdlib/optim/adadelta.lua: Adadelta.

local define = require "moonlet.optim.define"
local ml = require "moonlet"

--- Adadelta (Zeiler, 2012): `optim.Adadelta(net:parameters(), { lr = 1, rho = 0.9 })`. Options:
--- `lr` (1), `rho` (0.9), `eps` (1e-6), `weight_decay` (0), `maximize` (go up the gradient), and
--- `foreach`, `capturable` and `differentiable` as of all optimisers.
local Adadelta = define.elementwise("Adadelta", "number>=0|OneNumber lr=1.0, "
  .. "number>=0<=1 rho=0.9, number>=0 eps=1e-6, number>=0 weight_decay=0, bool? foreach=nil, "
  .. "bool capturable=false, bool maximize=false, bool differentiable=false",
  { "square_avg", "acc_delta" })

--- Moves all parameters of a list at once.
---@param list table
---@param o table
function Adadelta:step_all(list, o, _, ...)
  local kept = list.kept
  ml._internal.adadelta_step(list.x, list.g, kept.square_avg, kept.acc_delta, o.lr, o.rho, o.eps,
    ...)
end

--- The parameter after a step.
---@param p Tensor
---@param gradient Tensor
---@param kept table<string, Tensor>
---@param o table
---@return Tensor
function Adadelta:move(p, gradient, kept, o)
  local rho = o.rho
  kept.square_avg = kept.square_avg * rho + gradient * gradient * (1 - rho)
  local scale = (kept.square_avg + o.eps):sqrt()
  local delta = (kept.acc_delta + o.eps):sqrt() / scale * gradient
  kept.acc_delta = kept.acc_delta * rho + delta * delta * (1 - rho)
  return p - delta * o.lr
end

return Adadelta
