-- stdlib/optim/adamax.lua: Adamax.

local define = require "moonlet.optim.define"
local ml = require "moonlet"

--- Adamax (Kingma and Ba, 2015), Adam with the largest gradient in place of their mean square:
--- `optim.Adamax(net:parameters(), { lr = 2e-3 })`. Options: `lr` (0.002), `betas` ({0.9, 0.999}),
--- `eps` (1e-8), `weight_decay` (0), `maximize` (go up the gradient).
local Adamax = define.elementwise("Adamax", "number>=0 lr=0.002, number[2] betas={0.9, 0.999}, "
  .. "number>=0 eps=1e-8, number>=0 weight_decay=0, bool? foreach=nil, bool maximize=false, "
  .. "bool differentiable=false, bool capturable=false", { "exp_avg", "exp_inf" })

function Adamax:check(group) self:check_betas(group) end

--- Moves one parameter.
---@param p Tensor
---@param gradient Tensor
---@param kept table<string, Tensor>
---@param group table
---@param state table
function Adamax:move(p, gradient, kept, group, state)
  local beta1, beta2 = group.betas[1], group.betas[2]
  kept.exp_avg:lerp_(gradient, 1 - beta1)
  kept.exp_inf:copy_(ml.maximum(kept.exp_inf * beta2, gradient:abs():add_(group.eps)))
  p:addcdiv_(kept.exp_avg, kept.exp_inf, { value = -group.lr / (1 - beta1 ^ state.step) })
end

return Adamax
