-- stdlib/optim/lion.lua: Lion.

local define = require "moonlet.optim.define"

--- Lion (Chen et al., 2023), which moves by the sign of a momentum and keeps that alone:
--- `optim.Lion(net:parameters(), { lr = 1e-4 })`. Options: `lr` (1e-4), `betas` ({0.9, 0.99}),
--- `weight_decay` (0, decoupled), `maximize` (go up the gradient).
local Lion = define.elementwise("Lion", "number>=0 lr=1e-4, number[2] betas={0.9, 0.99}, "
  .. "number>=0 weight_decay=0, bool maximize=false", { "exp_avg" })

Lion.decoupled = true

function Lion:check(group) self:check_betas(group) end

--- Moves one parameter.
---@param p Tensor
---@param gradient Tensor
---@param kept table<string, Tensor>
---@param group table
function Lion:move(p, gradient, kept, group)
  local mean = kept.exp_avg
  p:add_(mean:lerp(gradient, 1 - group.betas[1]):sign_(), { alpha = -group.lr })
  mean:lerp_(gradient, 1 - group.betas[2])
end

return Lion
