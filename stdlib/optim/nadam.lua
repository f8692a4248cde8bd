-- stdlib/optim/nadam.lua: NAdam.

local define = require "moonlet.optim.define"

--- NAdam (Dozat, 2016), Adam with Nesterov's momentum: `optim.NAdam(net:parameters(), { lr = 2e-3
--- })`. Options: `lr` (0.002), `betas` ({0.9, 0.999}), `eps` (1e-8), `weight_decay` (0),
--- `momentum_decay` (0.004), `decoupled_weight_decay`, `maximize` (go up the gradient).
local NAdam = define.elementwise("NAdam", "number>=0 lr=0.002, number[2] betas={0.9, 0.999}, "
  .. "number>=0 eps=1e-8, number>=0 weight_decay=0, number>=0 momentum_decay=0.004, "
  .. "bool decoupled_weight_decay=false, bool? foreach=nil, bool maximize=false, "
  .. "bool capturable=false, bool differentiable=false", { "exp_avg", "exp_avg_sq" })

NAdam.numbers = { step = true, mu_product = true }

function NAdam:check(group) self:check_betas(group) end

--- What a state begins with: the product of the momenta so far.
---@param state table
function NAdam:begin(state) state.mu_product = 1.0 end

--- Moves one parameter.
---@param p Tensor
---@param gradient Tensor
---@param kept table<string, Tensor>
---@param group table
---@param state table
function NAdam:move(p, gradient, kept, group, state)
  local beta1, beta2, step = group.betas[1], group.betas[2], state.step
  local function momentum(at) return beta1 * (1 - 0.5 * 0.96 ^ (at * group.momentum_decay)) end
  local mu, mu_next = momentum(step), momentum(step + 1)
  state.mu_product = state.mu_product * mu
  kept.exp_avg:lerp_(gradient, 1 - beta1)
  kept.exp_avg_sq:mul_(beta2):addcmul_(gradient, gradient, { value = 1 - beta2 })
  local scale = (kept.exp_avg_sq / (1 - beta2 ^ step)):sqrt_():add_(group.eps)
  p:addcdiv_(gradient, scale, { value = -group.lr * (1 - mu) / (1 - state.mu_product) })
  p:addcdiv_(kept.exp_avg, scale,
    { value = -group.lr * mu_next / (1 - state.mu_product * mu_next) })
end

return NAdam
