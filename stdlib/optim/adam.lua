-- stdlib/optim/adam.lua: Adam and AdamW.

local define = require "moonlet.optim.define"
local ml = require "moonlet"
local numbers = require "moonlet.optim.numbers"
local options = require "moonlet.options"

local OPTIONS = "number>=0|OneNumber lr=0.001, number[2]|TwoNumbers betas={0.9, 0.999}, "
  .. "number>=0 eps=1e-8, number>=0 weight_decay=%s, bool amsgrad=false, bool? foreach=nil, "
  .. "bool maximize=false, bool capturable=false, bool differentiable=false, bool? fused=nil%s"
local KEPT = { "exp_avg", "exp_avg_sq", "max_exp_avg_sq if amsgrad" }

--- Adam (Kingma and Ba, 2015): `optim.Adam(net:parameters(), { lr = 1e-3 })`. Options: `lr`
--- (0.001), `betas` ({0.9, 0.999}), `eps` (1e-8), `weight_decay` (0), `amsgrad` (Reddi et al.,
--- 2018), `maximize` (go up the gradient), `decoupled_weight_decay` (as AdamW), and `foreach`,
--- `capturable`, `differentiable` and `fused` as of all optimisers.
local Adam = define.elementwise("Adam",
  OPTIONS:format("0", ", bool decoupled_weight_decay=false"), KEPT)

local function check_tensors(self, group)
  if not group.foreach or group.capturable then return end
  for name, value in pairs { lr = group.lr, betas = group.betas[1] } do
    if ml.is_tensor(value) then
      options.fail("%s: '%s' must be of numbers where 'foreach' is true and 'capturable' is not",
        self.name, name)
    end
  end
end

function Adam:check(group)
  self:check_betas(group)
  check_tensors(self, group)
end

-- How fast, and the root of what the second moment still lacks.
local function rates(o, step)
  return o.lr / (1 - o.betas[1] ^ step), numbers.root(1 - o.betas[2] ^ step)
end

--- Moves all parameters of a list at once.
---@param list table
---@param o table
---@param now table
function Adam:step_all(list, o, now, ...)
  local rate, correction = rates(o, now.step)
  local kept = list.kept
  ml._internal.adam_step(list.x, list.g, kept.exp_avg, kept.exp_avg_sq, kept.max_exp_avg_sq or {},
    rate, correction, o.betas[1], o.betas[2], o.eps, ...)
end

--- The parameter after a step.
---@param p Tensor
---@param gradient Tensor
---@param kept table<string, Tensor>
---@param o table
---@param now table
---@return Tensor
function Adam:move(p, gradient, kept, o, now)
  local rate, correction = rates(o, now.step)
  kept.exp_avg = kept.exp_avg:lerp(gradient, 1 - o.betas[1])
  kept.exp_avg_sq = kept.exp_avg_sq * o.betas[2] + gradient * gradient * (1 - o.betas[2])
  local square = kept.exp_avg_sq
  if kept.max_exp_avg_sq then
    square = ml.maximum(kept.max_exp_avg_sq, square)
    kept.max_exp_avg_sq = square
  end
  return p - kept.exp_avg / (square:sqrt() / correction + o.eps) * rate
end

--- Adam with decoupled weight decay (Loshchilov and Hutter, 2019); `weight_decay` is 0.01 unless
--- given.
local AdamW = define.elementwise("AdamW", OPTIONS:format("0.01", ""), KEPT, Adam)

-- What PyTorch's groups hold too.
AdamW.own_note = "decoupled_weight_decay"

function AdamW:check(group)
  Adam.check(self, group)
  if group.decoupled_weight_decay == nil then group.decoupled_weight_decay = true end
  if group.decoupled_weight_decay ~= true then
    options.fail("AdamW: 'decoupled_weight_decay' must be true; Adam has it as an option")
  end
end

return { Adam = Adam, AdamW = AdamW }
