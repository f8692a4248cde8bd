-- stdlib/torch7/optim/adaptive.lua: steps with a rate for each parameter by what its gradients
-- were: adagrad, rmsprop, adadelta, adam and adamax.

local step = require "moonlet.torch7.optim.step"

local method, zeros = step.method, step.zeros

local adaptive = {}

--- Duchi et al. 2011.
adaptive.adagrad = method(function(x, g, config, state)
  state.evalCounter = state.evalCounter or 0
  if not state.paramVariance then
    state.paramVariance, state.paramStd = zeros(g), zeros(g)
  end
  state.paramVariance:addcmul(1, g, g)
  state.paramStd:sqrt(state.paramVariance)
  x:addcdiv(-step.rate(config, 1e-3, state.evalCounter), g, state.paramStd:add(1e-10))
  state.evalCounter = state.evalCounter + 1
end)

--- Tieleman and Hinton 2012.
adaptive.rmsprop = method(function(x, g, config, state)
  if not state.m then
    state.m, state.tmp = zeros(g):fill(config.initialMean or 0), zeros(g)
  end
  local keep = config.alpha or 0.99
  state.m:mul(keep):addcmul(1 - keep, g, g)
  state.tmp:sqrt(state.m):add(config.epsilon or 1e-8)
  x:addcdiv(-(config.learningRate or 1e-2), g, state.tmp)
end)

--- Zeiler 2012.
adaptive.adadelta = method(function(x, g, config, state)
  local keep, eps = config.rho or 0.9, config.eps or 1e-6
  state.evalCounter = (state.evalCounter or 0) + 1
  if not state.paramVariance then
    state.paramVariance, state.paramStd = zeros(g), zeros(g)
    state.delta, state.accDelta = zeros(g), zeros(g)
  end
  state.paramVariance:mul(keep):addcmul(1 - keep, g, g)
  state.paramStd:add(state.paramVariance, eps):sqrt()
  state.delta:add(state.accDelta, eps):sqrt():cdiv(state.paramStd):cmul(g)
  x:add(-1, state.delta)
  state.accDelta:mul(keep):addcmul(1 - keep, state.delta, state.delta)
end)

--- Kingma and Ba 2015.
adaptive.adam = method(function(x, g, config, state)
  local b1, b2, eps = config.beta1 or 0.9, config.beta2 or 0.999, config.epsilon or 1e-8
  if not state.m then
    state.m, state.v, state.denom = zeros(g), zeros(g), zeros(g)
  end
  state.t = (state.t or 0) + 1
  local rate = step.rate(config, 1e-3, state.t - 1)
  state.m:mul(b1):add(1 - b1, g)
  state.v:mul(b2):addcmul(1 - b2, g, g)
  state.denom:sqrt(state.v):add(eps)
  x:addcdiv(-rate * math.sqrt(1 - b2 ^ state.t) / (1 - b1 ^ state.t), state.m, state.denom)
end)

--- Adam by the largest gradients, of the same paper.
adaptive.adamax = method(function(x, g, config, state)
  local b1, b2 = config.beta1 or 0.9, config.beta2 or 0.999
  if not state.m then state.m, state.u = zeros(g), zeros(g) end
  state.t = (state.t or 0) + 1
  state.m:mul(b1):add(1 - b1, g)
  state.u:mul(b2):cmax(g:clone():abs():add(config.epsilon or 1e-38))
  x:addcdiv(-(config.learningRate or 2e-3) / (1 - b1 ^ state.t), state.m, state.u)
end)

return adaptive
