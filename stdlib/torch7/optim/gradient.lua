-- stdlib/torch7/optim/gradient.lua: steps along the gradient: sgd, nag, asgd and rprop. Each is
-- called as f(opfunc, x, config, state): options are read from config, what is kept from step to
-- step is in state, which is config where it is left out.

local step = require "moonlet.torch7.optim.step"
local torch = require "moonlet.torch7"

local gradient = {}

--- Stochastic gradient descent, with momentum, and rates or decays of single parameters.
gradient.sgd = step.method(function(x, g, config, state)
  local momentum = config.momentum or 0
  local dampening = config.dampening or momentum
  if config.nesterov and (momentum <= 0 or dampening ~= 0) then
    error("sgd: nesterov expects a positive momentum and a dampening of 0", 3)
  end
  state.evalCounter = state.evalCounter or 0
  if config.weightDecays then g:addcmul(1, config.weightDecays, x) end
  if momentum ~= 0 then
    if state.dfdx then
      state.dfdx:mul(momentum):add(1 - dampening, g)
    else
      state.dfdx = g.new():resizeAs(g):copy(g)
    end
    if config.nesterov then g:add(momentum, state.dfdx) else g = state.dfdx end
  end
  local rate = step.rate(config, 1e-3, state.evalCounter)
  if config.learningRates then
    state.deltaParameters = state.deltaParameters or g.new():resizeAs(g)
    x:add(-rate, state.deltaParameters:cmul(g, config.learningRates))
  else
    x:add(-rate, g)
  end
  state.evalCounter = state.evalCounter + 1
end)

--- Nesterov's accelerated gradient: the gradient is that of the point to which momentum leads.
function gradient.nag(opfunc, x, config, state)
  config = config or {}
  state = state or config
  local momentum = config.momentum or 0.9
  if momentum <= 0 then error("nag: a positive momentum is expected", 2) end
  state.evalCounter = state.evalCounter or 0
  local rate = step.rate(config, 1e-3, state.evalCounter)
  if state.dfdx then x:add(-rate * momentum, state.dfdx) end
  local loss, g = step.evaluate(opfunc, x, config)
  if state.dfdx then
    state.dfdx:mul(momentum)
  else
    state.dfdx = step.zeros(g)
  end
  state.dfdx:add(config.dampening and 1 - config.dampening or 1, g)
  if config.learningRates then
    x:addcmul(-rate, g, config.learningRates)
  else
    x:add(-rate, g)
  end
  state.evalCounter = state.evalCounter + 1
  return x, { loss }
end

--- Averaged stochastic gradient descent; the average is the third result.
function gradient.asgd(opfunc, x, config, state)
  config = config or {}
  state = state or config
  local start, decay = config.eta0 or 1e-4, config.lambda or 1e-4
  state.t = state.t or 0
  state.eta_t, state.mu_t = state.eta_t or start, state.mu_t or 1
  local loss, g = opfunc(x)
  x:mul(1 - decay * state.eta_t):add(-state.eta_t, g)
  state.ax = state.ax or x.new():resizeAs(x):zero()
  if state.mu_t ~= 1 then
    state.ax:add(state.mu_t, torch.add(x, -1, state.ax))
  else
    state.ax:copy(x)
  end
  state.t = state.t + 1
  state.eta_t = start / (1 + decay * start * state.t) ^ (config.alpha or 0.75)
  state.mu_t = 1 / math.max(1, state.t - (config.t0 or 1e6))
  return x, { loss }, state.ax
end

--- Resilient propagation: steps by the sign of the gradient, longer while it keeps.
function gradient.rprop(opfunc, x, config, state)
  config = config or {}
  state = state or config
  local longer, shorter = config.etaplus or 1.2, config.etaminus or 0.5
  local losses = {}
  for i = 1, config.niter or 1 do
    local loss, g = opfunc(x)
    losses[i] = loss
    if not state.delta then
      state.delta = g.new(g:size()):zero()
      state.stepsize = g.new(g:size()):fill(config.stepsize or 0.1)
    end
    local product = torch.cmul(g, state.delta)
    local same, turned = product:gt(0), product:lt(0)
    local factor = state.stepsize.new(state.stepsize:size()):fill(1)
    factor[same], factor[turned] = longer, shorter
    state.stepsize:cmul(factor):clamp(config.stepsizemin or 1e-6, config.stepsizemax or 50)
    local kept = g:clone()
    kept[turned] = 0
    x:addcmul(-1, torch.sign(kept), state.stepsize)
    state.delta:copy(kept)
  end
  return x, losses
end

return gradient
