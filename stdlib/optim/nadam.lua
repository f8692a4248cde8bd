-- stdlib/optim/nadam.lua: NAdam.

local define = require "moonlet.optim.define"

--- NAdam: Adam with Nesterov's momentum.
--- > w = ml.nn.Parameter(ml.tensor { 1.0, 2 })
--- > opt = ml.optim.NAdam({ w }, { lr = 0.1 })
--- > w:pow(2):sum():backward() opt:step()
--- > w
---   {0.8944, 1.8944}
---   Tensor (2,) float32 requires_grad
---@param params an array of parameters, or of groups { params = ..., lr = ... } with options of
---   their own
---@param lr the learning rate: a number, or a tensor of one element
---@param betas the decay rates beta_1 and beta_2 of the running means of the gradient and its
---   square
---@param eps what is added to the denominator, so that nothing is divided by 0
---@param weight_decay the factor of the parameters that is added to their gradients (L2 penalty)
---@param momentum_decay how fast the momentum approaches beta_1
---@param decoupled_weight_decay whether weight decay is decoupled, as of AdamW
---@param foreach false changes the parameters one by one; true or nil changes all in one pass
---@param maximize whether the objective is maximised: gradients count with the opposite sign
---@param capturable whether what is counted is a tensor on the parameters' CUDA device, as CUDA
---   graphs need
---@param differentiable whether the tape records the step
---@formula g = grad f(theta) + weight_decay theta
---@formula mu_t = beta_1 (1 - 0.96^(t momentum_decay) / 2)
---@formula m = beta_1 m + (1 - beta_1) g
---@formula v = beta_2 v + (1 - beta_2) g^2, v' = v / (1 - beta_2^t)
---@formula m' = mu_(t+1) m / (1 - prod_{i <= t+1} mu_i) + (1 - mu_t) g / (1 - prod_{i <= t} mu_i)
---@formula theta = theta - lr m' / (sqrt(v') + eps)
---@source Dozat, 2016: Incorporating Nesterov momentum into Adam
local NAdam = define.elementwise("NAdam", "number>=0|OneNumber lr=0.002, "
  .. "number[2] betas={0.9, 0.999}, number>=0 eps=1e-8, number>=0 weight_decay=0, "
  .. "number>=0 momentum_decay=0.004, bool decoupled_weight_decay=false, bool? foreach=nil, "
  .. "bool maximize=false, bool capturable=false, bool differentiable=false",
  "nadam")

return NAdam
