-- stdlib/optim/radam.lua: RAdam.

local define = require "moonlet.optim.define"
local ml = require "moonlet"

--- RAdam: Adam whose first steps are rectified, in the stead of a warm-up.
--- > w = ml.nn.Parameter(ml.tensor { 1.0, 2 })
--- > opt = ml.optim.RAdam({ w }, { lr = 0.1 })
--- > w:pow(2):sum():backward() opt:step()
--- > w
---   {0.8000, 1.6000}
---   Tensor (2,) float32 requires_grad
---@param params an array of parameters, or of groups { params = ..., lr = ... } with options of
---   their own
---@param lr the learning rate: a number, or a tensor of one element
---@param betas the decay rates beta_1 and beta_2 of the running means of the gradient and its
---   square
---@param eps what is added to the denominator, so that nothing is divided by 0
---@param weight_decay the factor of the parameters that is added to their gradients (L2 penalty)
---@param decoupled_weight_decay whether weight decay is decoupled, as of AdamW
---@param foreach false changes the parameters one by one; true or nil changes all in one pass
---@param maximize whether the objective is maximised: gradients count with the opposite sign
---@param capturable whether what is counted is a tensor on the parameters' CUDA device, as CUDA
---   graphs need
---@param differentiable whether the tape records the step
---@formula g = grad f(theta) + weight_decay theta
---@formula m = beta_1 m + (1 - beta_1) g, m' = m / (1 - beta_1^t)
---@formula v = beta_2 v + (1 - beta_2) g^2
---@formula rho = 2 / (1 - beta_2) - 1, rho_t = rho - 2 t beta_2^t / (1 - beta_2^t)
---@formula r = sqrt((rho_t - 4) (rho_t - 2) rho / ((rho - 4) (rho - 2) rho_t))
---@formula if rho_t > 5: theta = theta - lr r m' sqrt(1 - beta_2^t) / (sqrt(v) + eps)
---@formula else: theta = theta - lr m'
---@source Liu et al., 2020: On the variance of the adaptive learning rate and beyond
local RAdam = define.elementwise("RAdam", "number>=0|OneNumber lr=0.001, "
  .. "number[2] betas={0.9, 0.999}, number>=0 eps=1e-8, number>=0 weight_decay=0, "
  .. "bool decoupled_weight_decay=false, bool? foreach=nil, bool maximize=false, "
  .. "bool capturable=false, bool differentiable=false", { "exp_avg", "exp_avg_sq" })

function RAdam:check(group) self:check_betas(group) end

-- The square of the factor by which the variance of the step is rectified, and the number that must
-- be above 5 for it to be known.
local function rectification(beta2, step)
  local most = 2 / (1 - beta2) - 1
  local length = most - step * 2 * beta2 ^ step / (1 - beta2 ^ step)
  local square = (length - 4) * (length - 2) * most / (length * ((most - 4) * (most - 2)))
  return square, length
end

-- What the first moment is multiplied by over the root of the second; 0 while that cannot be known.
local function scale_of(o, step)
  local square, length = rectification(o.betas[2], step)
  local rest = 1 - o.betas[2] ^ step
  if not ml.is_tensor(step) then return length > 5 and math.sqrt(square * rest) or 0 end
  return (square * rest):clamp({ min = 0 }):sqrt():masked_fill(length:le(5), 0)
end

local function rate_of(o, step) return o.lr / (1 - o.betas[1] ^ step) end

--- Moves all parameters of a list at once.
---@param list table
---@param o table
---@param now table
function RAdam:step_all(list, o, now, ...)
  ml._internal.radam_step(list.x, list.g, list.kept.exp_avg, list.kept.exp_avg_sq,
    rate_of(o, now.step), scale_of(o, now.step), o.betas[1], o.betas[2], o.eps, ...)
end

--- The parameter after a step.
---@param p Tensor
---@param gradient Tensor
---@param kept table<string, Tensor>
---@param o table
---@param now table
---@return Tensor
function RAdam:move(p, gradient, kept, o, now)
  kept.exp_avg = kept.exp_avg:lerp(gradient, 1 - o.betas[1])
  kept.exp_avg_sq = kept.exp_avg_sq * o.betas[2] + gradient * gradient * (1 - o.betas[2])
  local change, scale = kept.exp_avg * rate_of(o, now.step), scale_of(o, now.step)
  if ml.is_tensor(scale) then
    local known = scale / (kept.exp_avg_sq:sqrt() + o.eps)
    return p - change * ml.where(scale:gt(0), known, 1)
  end
  if scale ~= 0 then change = change * scale / (kept.exp_avg_sq:sqrt() + o.eps) end
  return p - change
end

return RAdam
