-- stdlib/optim/radam.lua: RAdam.

local define = require "moonlet.optim.define"

--- RAdam (Liu et al., 2020), Adam whose first steps are rectified, in place of a warm-up:
--- `optim.RAdam(net:parameters(), { lr = 1e-3 })`. Options: `lr` (0.001), `betas` ({0.9, 0.999}),
--- `eps` (1e-8), `weight_decay` (0), `decoupled_weight_decay`, `maximize` (go up the gradient).
local RAdam = define.elementwise("RAdam", "number>=0 lr=0.001, number[2] betas={0.9, 0.999}, "
  .. "number>=0 eps=1e-8, number>=0 weight_decay=0, bool decoupled_weight_decay=false, "
  .. "bool? foreach=nil, bool maximize=false, bool capturable=false, bool differentiable=false",
  { "exp_avg", "exp_avg_sq" })

function RAdam:check(group) self:check_betas(group) end

-- The factor by which the variance of the step is rectified, or nil while it cannot be known.
local function rectification(beta2, step)
  local most = 2 / (1 - beta2) - 1
  local length = most - 2 * step * beta2 ^ step / (1 - beta2 ^ step)
  if length <= 5 then return nil end
  return math.sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length))
end

--- Moves one parameter.
---@param p Tensor
---@param gradient Tensor
---@param kept table<string, Tensor>
---@param group table
---@param state table
function RAdam:move(p, gradient, kept, group, state)
  local beta1, beta2, step = group.betas[1], group.betas[2], state.step
  kept.exp_avg:lerp_(gradient, 1 - beta1)
  kept.exp_avg_sq:mul_(beta2):addcmul_(gradient, gradient, { value = 1 - beta2 })
  local rate, factor = group.lr / (1 - beta1 ^ step), rectification(beta2, step)
  if not factor then
    p:add_(kept.exp_avg, { alpha = -rate })
    return
  end
  local scale = kept.exp_avg_sq:sqrt():add_(group.eps)
  p:addcdiv_(kept.exp_avg, scale, { value = -rate * factor * math.sqrt(1 - beta2 ^ step) })
end

return RAdam
