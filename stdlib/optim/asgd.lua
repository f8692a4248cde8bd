-- stdlib/optim/asgd.lua: averaged stochastic gradient descent.

local define = require "moonlet.optim.define"
local ml = require "moonlet"
local numbers = require "moonlet.optim.numbers"

--- Averaged stochastic gradient descent (Polyak and Juditsky, 1992): the mean of a parameter's
--- values since step `t0` is `state[p].ax`. `optim.ASGD(net:parameters(), { lr = 0.01 })`; options:
--- `lr` (0.01), `lambd` (1e-4, the decay), `alpha` (0.75, the power of the rate), `t0` (1e6),
--- `weight_decay` (0), `maximize` (go up the gradient), and `foreach`, `differentiable` and
--- `capturable` as of all optimisers.
local ASGD = define.elementwise("ASGD", "number>=0|OneNumber lr=0.01, number>=0 lambd=1e-4, "
  .. "number>=0 alpha=0.75, number t0=1e6, number>=0 weight_decay=0, bool? foreach=nil, "
  .. "bool maximize=false, bool differentiable=false, bool capturable=false", { "ax" })

ASGD.counted = { "step", "eta", "mu" }

--- What a state begins with: the rate, and the part of a value in the mean.
---@param state table
---@param _ Tensor
---@param group table
function ASGD:begin(state, _, group) state.eta, state.mu = numbers.value(group.lr), 1.0 end

--- The numbers of a state after one more step: the rate and the part are those of the next.
---@param state table
---@param o table
---@return table<string, number|Tensor>
function ASGD:count(state, o)
  local step = state.step + 1
  local behind = step - o.t0
  local steps = ml.is_tensor(behind) and behind:clamp { min = 1 } or math.max(1, behind)
  local lr = ml.is_tensor(step) and o.lr or numbers.value(o.lr)
  return { step = step, eta = lr / (1 + o.lambd * lr * step) ^ o.alpha, mu = 1 / steps }
end

--- Moves all parameters of a list at once.
---@param list table
---@param o table
function ASGD:step_all(list, o, _, ...)
  ml._internal.asgd_step(list.x, list.g, list.kept.ax, list.numbers.eta, o.lambd, list.numbers.mu,
    ...)
end

--- The parameter after a step.
---@param p Tensor
---@param gradient Tensor
---@param kept table<string, Tensor>
---@param o table
---@param _ table
---@param before table
---@return Tensor
function ASGD:move(p, gradient, kept, o, _, before)
  local moved = p * (1 - before.eta * o.lambd) - gradient * before.eta
  local part = before.mu
  kept.ax = part == 1 and moved or kept.ax + (moved - kept.ax) * part
  return moved
end

return ASGD
