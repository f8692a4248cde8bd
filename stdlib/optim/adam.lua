-- stdlib/optim/adam.lua: Adam and AdamW.

local define = require "moonlet.optim.define"
local ml = require "moonlet"
local options = require "moonlet.options"

local OPTIONS = "number>=0 lr=0.001, number[2] betas={0.9, 0.999}, number>=0 eps=1e-8, "
  .. "number>=0 weight_decay=%s, bool amsgrad=false, bool? foreach=nil, bool maximize=false, "
  .. "bool capturable=false, bool differentiable=false, bool? fused=nil%s"
local KEPT = { "exp_avg", "exp_avg_sq", "max_exp_avg_sq if amsgrad" }

--- Adam (Kingma and Ba, 2015): `optim.Adam(net:parameters(), { lr = 1e-3 })`. Options: `lr`
--- (0.001), `betas` ({0.9, 0.999}), `eps` (1e-8), `weight_decay` (0), `amsgrad` (Reddi et al.,
--- 2018), `maximize` (go up the gradient), `decoupled_weight_decay` (as AdamW).
local Adam = define.elementwise("Adam",
  OPTIONS:format("0", ", bool decoupled_weight_decay=false"), KEPT)

Adam.has_fused_step = true

function Adam:check(group) self:check_betas(group) end

--- The gradient as it is: the weight decay is part of the step.
---@param _ Tensor
---@param gradient Tensor
---@return Tensor
function Adam:decay(_, gradient) return gradient end

--- Moves one parameter, in one pass over its memory.
---@param p Tensor
---@param gradient Tensor
---@param kept table<string, Tensor>
---@param group table
---@param state table
function Adam:move(p, gradient, kept, group, state)
  ml._internal.adam_step_(p, gradient, kept.exp_avg, kept.exp_avg_sq, kept.max_exp_avg_sq,
    state.step, group.lr, group.betas[1], group.betas[2], group.eps, group.weight_decay,
    group.decoupled_weight_decay)
end

--- Adam with decoupled weight decay (Loshchilov and Hutter, 2019); `weight_decay` is 0.01 unless
--- given.
local AdamW = define.elementwise("AdamW", OPTIONS:format("0.01", ""), KEPT, Adam)

-- What PyTorch's groups hold too.
AdamW.own_note = "decoupled_weight_decay"

function AdamW:check(group)
  self:check_betas(group)
  if group.decoupled_weight_decay == nil then group.decoupled_weight_decay = true end
  if group.decoupled_weight_decay ~= true then
    options.fail("AdamW: 'decoupled_weight_decay' must be true; Adam has it as an option")
  end
end

return { Adam = Adam, AdamW = AdamW }
