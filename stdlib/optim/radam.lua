-- stdlib/optim/radam.lua: RAdam.

local define = require "moonlet.optim.define"

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
  .. "bool capturable=false, bool differentiable=false", "radam")

return RAdam
