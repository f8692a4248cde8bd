-- stdlib/torch7/optim/step.lua: what methods of Torch7's optim that take one gradient for a step
-- have in common.

local step = {}

--- The loss and its gradient, with weight decay.
function step.evaluate(opfunc, x, config)
  local loss, g = opfunc(x)
  local decay = config.weightDecay
  if decay and decay ~= 0 then g:add(decay, x) end
  return loss, g
end

function step.zeros(g) return g.new():resizeAs(g):zero() end

--- The learning rate of a step, which decays with how many were before.
function step.rate(config, default, count)
  return (config.learningRate or default) / (1 + count * (config.learningRateDecay or 0))
end

--- A method f(opfunc, x, config, state), whose state is config where it is left out, by
--- change(x, g, config, state), which changes x by the gradient.
function step.method(change)
  return function(opfunc, x, config, state)
    config = config or {}
    state = state or config
    local loss, g = step.evaluate(opfunc, x, config)
    change(x, g, config, state)
    return x, { loss }
  end
end

return step
