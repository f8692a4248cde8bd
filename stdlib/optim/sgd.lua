-- stdlib/optim/sgd.lua: stochastic gradient descent with momentum.

local Optimizer = require "moonlet.optim.optimizer"
local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"

--- Stochastic gradient descent; `optim.SGD(net:parameters(), { lr = 0.1, momentum = 0.9 })`.
--- Options: `lr` (0.001), `momentum`, `dampening`, `weight_decay`, `nesterov` (Sutskever et al.,
--- 2013).
local SGD = class("SGD", Optimizer)

SGD.defaults = { lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0, nesterov = false }

function SGD:check(group)
  Optimizer.check(self, group)
  options.number(self.name, "momentum", group.momentum, 0)
  options.number(self.name, "dampening", group.dampening)
  options.boolean(self.name, "nesterov", group.nesterov)
  if group.nesterov and (group.momentum == 0 or group.dampening ~= 0) then
    options.fail("%s: 'nesterov' wants a momentum and no dampening", self.name)
  end
end

function SGD:update(p, gradient, state, group)
  local buffer = state.momentum_buffer
  local first = buffer == nil
  if group.momentum ~= 0 and first then
    buffer = ml.zeros_like(p)
    state.momentum_buffer = buffer
  end
  if group.momentum == 0 then buffer = nil end
  p:sgd_step_(gradient, buffer, group.lr, group.momentum, group.dampening, group.weight_decay,
    group.nesterov, first)
end

return SGD
