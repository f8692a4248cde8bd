-- stdlib/optim/adam.lua: Adam and AdamW.

local Optimizer = require "moonlet.optim.optimizer"
local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"

--- Adam (Kingma and Ba, 2015): `optim.Adam(net:parameters(), { lr = 1e-3 })`. Options: `lr`
--- (0.001), `betas` ({0.9, 0.999}), `eps` (1e-8), `weight_decay` (0), `amsgrad` (Reddi et al.,
--- 2018), `maximize` (go up the gradient), `decoupled_weight_decay` (as AdamW).
local Adam = class("Adam", Optimizer)

local function declare(name, weight_decay, rest)
  return signature(("optim.%s(Params? params=nil, number>=0 lr=0.001, "
    .. "number[2] betas={0.9, 0.999}, number>=0 eps=1e-8, number>=0 weight_decay=%s, "
    .. "bool amsgrad=false, bool maximize=false%s)")
    :format(name, weight_decay, rest))
end

Adam.reader = declare("Adam", "0", ", bool decoupled_weight_decay=false")

function Adam:init(...)
  local o = self.reader:table(...)
  local params = o.params
  o.params = nil
  Optimizer.init(self, params, o)
end

function Adam:check(group)
  for i = 1, 2 do
    local beta = group.betas[i]
    if type(beta) ~= "number" or not (beta >= 0 and beta < 1) then
      options.fail("%s: 'betas' must be two numbers from 0 to below 1, got %s", self.name,
        beta)
    end
  end
end

--- Changes one parameter by its gradient, with the state kept for it and the options of its group.
---@param p Tensor
---@param gradient Tensor
---@param state table
---@param group table
function Adam:update(p, gradient, state, group)
  if not state.step then
    state.step = 0
    state.exp_avg = ml.zeros_like(p)
    state.exp_avg_sq = ml.zeros_like(p)
  end
  if group.amsgrad and not state.max_exp_avg_sq then state.max_exp_avg_sq = ml.zeros_like(p) end
  if group.maximize then gradient = -gradient end
  state.step = state.step + 1
  local betas = group.betas
  ml._internal.adam_step_(p, gradient, state.exp_avg, state.exp_avg_sq,
    group.amsgrad and state.max_exp_avg_sq or nil, state.step, group.lr, betas[1], betas[2],
    group.eps, group.weight_decay, self.decoupled or group.decoupled_weight_decay == true)
end

--- Adam with decoupled weight decay (Loshchilov and Hutter, 2019); `weight_decay` is 0.01 unless
--- given.
local AdamW = class("AdamW", Adam)

AdamW.reader = declare("AdamW", "0.01", "")
AdamW.decoupled = true
AdamW.settled = { decoupled_weight_decay = true }  -- what PyTorch writes of each group

return { Adam = Adam, AdamW = AdamW }
