-- stdlib/optim/adamax.lua: Adamax.

local define = require "moonlet.optim.define"
local ml = require "moonlet"

--- Adamax (Kingma and Ba, 2015), Adam with the largest gradient in place of their mean square:
--- `optim.Adamax(net:parameters(), { lr = 2e-3 })`. Options: `lr` (0.002), `betas` ({0.9, 0.999}),
--- `eps` (1e-8), `weight_decay` (0), `maximize` (go up the gradient), and `foreach`,
--- `differentiable` and `capturable` as of all optimisers.
local Adamax = define.elementwise("Adamax", "number>=0|OneNumber lr=0.002, "
  .. "number[2] betas={0.9, 0.999}, number>=0 eps=1e-8, number>=0 weight_decay=0, "
  .. "bool? foreach=nil, bool maximize=false, bool differentiable=false, bool capturable=false",
  { "exp_avg", "exp_inf" })

function Adamax:check(group) self:check_betas(group) end

local function rate_of(o, step) return o.lr / (1 - o.betas[1] ^ step) end

--- Moves all parameters of a list at once.
---@param list table
---@param o table
---@param now table
function Adamax:step_all(list, o, now, ...)
  ml._internal.adamax_step(list.x, list.g, list.kept.exp_avg, list.kept.exp_inf,
    rate_of(o, now.step), o.betas[1], o.betas[2], o.eps, ...)
end

--- The parameter after a step.
---@param p Tensor
---@param gradient Tensor
---@param kept table<string, Tensor>
---@param o table
---@param now table
---@return Tensor
function Adamax:move(p, gradient, kept, o, now)
  kept.exp_avg = kept.exp_avg:lerp(gradient, 1 - o.betas[1])
  kept.exp_inf = ml.maximum(kept.exp_inf * o.betas[2], gradient:abs() + o.eps)
  return p - kept.exp_avg / kept.exp_inf * rate_of(o, now.step)
end

return Adamax
