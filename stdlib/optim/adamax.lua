-- stdlib/optim/adamax.lua: Adamax.

local define = require "moonlet.optim.define"

--- Adamax: Adam with the infinity norm of the gradients.
--- > w = ml.nn.Parameter(ml.tensor { 1.0, 2 })
--- > opt = ml.optim.Adamax({ w }, { lr = 0.1 })
--- > w:pow(2):sum():backward() opt:step()
--- > w
---   {0.9000, 1.9000}
---   Tensor (2,) float32 requires_grad
---@param params an array of parameters, or of groups { params = ..., lr = ... } with options of
---   their own
---@param lr the learning rate: a number, or a tensor of one element
---@param betas the decay rates beta_1 and beta_2 of the running means of the gradient and its
---   square
---@param eps what is added to the gradient's absolute value
---@param weight_decay the factor of the parameters that is added to their gradients (L2 penalty)
---@param foreach false changes the parameters one by one; true or nil changes all in one pass
---@param maximize whether the objective is maximised: gradients count with the opposite sign
---@param differentiable whether the tape records the step
---@param capturable whether what is counted is a tensor on the parameters' CUDA device, as CUDA
---   graphs need
---@formula g = grad f(theta) + weight_decay theta
---@formula m = beta_1 m + (1 - beta_1) g
---@formula u = max(beta_2 u, |g| + eps)
---@formula theta = theta - lr m / ((1 - beta_1^t) u)
---@source Kingma and Ba, 2015: Adam: a method for stochastic optimization
local Adamax = define.elementwise("Adamax", "number>=0|OneNumber lr=0.002, "
  .. "number[2] betas={0.9, 0.999}, number>=0 eps=1e-8, number>=0 weight_decay=0, "
  .. "bool? foreach=nil, bool maximize=false, bool differentiable=false, bool capturable=false",
  "adamax")

return Adamax
