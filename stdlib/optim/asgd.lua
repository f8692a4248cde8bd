-- stdlib/optim/asgd.lua: averaged stochastic gradient descent.

local define = require "moonlet.optim.define"

--- Averaged stochastic gradient descent (Polyak and Juditsky, 1992): the mean of a parameter's
--- values since step `t0` is `state[p].ax`. `optim.ASGD(net:parameters(), { lr = 0.01 })`; options:
--- `lr` (0.01), `lambd` (1e-4, the decay), `alpha` (0.75, the power of the rate), `t0` (1e6),
--- `weight_decay` (0), `maximize` (go up the gradient).
local ASGD = define.elementwise("ASGD", "number>=0 lr=0.01, number>=0 lambd=1e-4, "
  .. "number>=0 alpha=0.75, number t0=1e6, number>=0 weight_decay=0, bool? foreach=nil, "
  .. "bool maximize=false, bool differentiable=false, bool capturable=false", { "ax" })

ASGD.numbers = { step = true, eta = true, mu = true }

--- What a state begins with: the rate, and the part of a value in the mean.
---@param state table
---@param _ Tensor
---@param group table
function ASGD:begin(state, _, group) state.eta, state.mu = group.lr, 1.0 end

--- Moves one parameter.
---@param p Tensor
---@param gradient Tensor
---@param kept table<string, Tensor>
---@param group table
---@param state table
function ASGD:move(p, gradient, kept, group, state)
  p:mul_(1 - group.lambd * state.eta):add_(gradient, { alpha = -state.eta })
  if state.mu == 1 then
    kept.ax:copy_(p)
  else
    kept.ax:add_(p - kept.ax, { alpha = state.mu })
  end
  state.eta = group.lr / (1 + group.lambd * group.lr * state.step) ^ group.alpha
  state.mu = 1 / math.max(1, state.step - group.t0)
end

return ASGD
