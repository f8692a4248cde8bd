-- stdlib/optim/adam.lua: Adam and AdamW.

local Optimizer = require "moonlet.optim.optimizer"
local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"

--- Adam (Kingma and Ba, 2015): `optim.Adam(net:parameters(), { lr = 1e-3 })`. Options: `lr`
--- (0.001), `betas` ({0.9, 0.999}), `eps` (1e-8), `weight_decay` (0), `amsgrad` (Reddi et al.,
--- 2018).
local Adam = class("Adam", Optimizer)

Adam.defaults = { lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0,
  amsgrad = false }
Adam.decoupled = false

local function check_beta(name, value)
  if type(value) ~= "number" or not (value >= 0 and value < 1) then
    options.fail("%s: 'betas' must be two numbers from 0 to below 1, got %s", name, tostring(value))
  end
end

function Adam:check(group)
  Optimizer.check(self, group)
  options.number(self.name, "eps", group.eps, 0)
  options.boolean(self.name, "amsgrad", group.amsgrad)
  if type(group.betas) ~= "table" then check_beta(self.name, group.betas) end
  check_beta(self.name, group.betas[1])
  check_beta(self.name, group.betas[2])
end

function Adam:update(p, gradient, state, group)
  if not state.step then
    state.step = 0
    state.exp_avg = ml.zeros_like(p)
    state.exp_avg_sq = ml.zeros_like(p)
  end
  if group.amsgrad and not state.max_exp_avg_sq then state.max_exp_avg_sq = ml.zeros_like(p) end
  state.step = state.step + 1
  local betas = group.betas
  p:adam_step_(gradient, state.exp_avg, state.exp_avg_sq,
    group.amsgrad and state.max_exp_avg_sq or nil, state.step, group.lr, betas[1], betas[2],
    group.eps, group.weight_decay, self.decoupled)
end

--- Adam with decoupled weight decay (Loshchilov and Hutter, 2019); `weight_decay` is 0.01 unless
--- given.
local AdamW = class("AdamW", Adam)

AdamW.defaults = { lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 1e-2,
  amsgrad = false }
AdamW.decoupled = true

return { Adam = Adam, AdamW = AdamW }
