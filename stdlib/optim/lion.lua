-- stdlib/optim/lion.lua: Lion.

local define = require "moonlet.optim.define"
local ml = require "moonlet"

--- Lion (Chen et al., 2023), which moves by the sign of a momentum and keeps that alone:
--- `optim.Lion(net:parameters(), { lr = 1e-4 })`. Options: `lr` (1e-4), `betas` ({0.9, 0.99}),
--- `weight_decay` (0, decoupled), `maximize` (go up the gradient), and `foreach`, `capturable` and
--- `differentiable` as of all optimisers.
local Lion = define.elementwise("Lion", "number>=0|OneNumber lr=1e-4, "
  .. "number[2] betas={0.9, 0.99}, number>=0 weight_decay=0, bool maximize=false, "
  .. "bool? foreach=nil, bool capturable=false, bool differentiable=false", { "exp_avg" })

Lion.decoupled = true

function Lion:check(group) self:check_betas(group) end

--- Moves all parameters of a list at once.
---@param list table
---@param o table
function Lion:step_all(list, o, _, ...)
  ml._internal.lion_step(list.x, list.g, list.kept.exp_avg, o.lr, o.betas[1], o.betas[2], ...)
end

--- The parameter after a step.
---@param p Tensor
---@param gradient Tensor
---@param kept table<string, Tensor>
---@param o table
---@return Tensor
function Lion:move(p, gradient, kept, o)
  local change = kept.exp_avg:lerp(gradient, 1 - o.betas[1]):sign()
  kept.exp_avg = kept.exp_avg:lerp(gradient, 1 - o.betas[2])
  return p - change * o.lr
end

return Lion
