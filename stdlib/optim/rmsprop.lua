-- stdlib/optim/rmsprop.lua: RMSprop.

local define = require "moonlet.optim.define"

--- RMSprop: divides steps by the root of the running mean of squared gradients.
--- > w = ml.nn.Parameter(ml.tensor { 1.0, 2 })
--- > opt = ml.optim.RMSprop({ w }, { lr = 0.01 })
--- > w:pow(2):sum():backward() opt:step()
--- > w
---   {0.9000, 1.9000}
---   Tensor (2,) float32 requires_grad
---@param params an array of parameters, or of groups { params = ..., lr = ... } with options of
---   their own
---@param lr the learning rate: a number, or a tensor of one element
---@param alpha the decay rate of the running means
---@param eps what is added to the denominator, so that nothing is divided by 0
---@param weight_decay the factor of the parameters that is added to their gradients (L2 penalty)
---@param momentum the factor of the earlier steps
---@param centered whether gradients are divided by their standard deviation
---@param capturable whether what is counted is a tensor on the parameters' CUDA device, as CUDA
---   graphs need
---@param foreach false changes the parameters one by one; true or nil changes all in one pass
---@param maximize whether the objective is maximised: gradients count with the opposite sign
---@param differentiable whether the tape records the step
---@formula g = grad f(theta) + weight_decay theta
---@formula v = alpha v + (1 - alpha) g^2
---@formula centered: a = alpha a + (1 - alpha) g, v' = v - a^2, otherwise v' = v
---@formula b = momentum b + g / (sqrt(v') + eps)
---@formula theta = theta - lr b
---@source Hinton, 2012: Neural networks for machine learning, lecture 6
---@source Graves, 2013, for centered: Generating sequences with recurrent neural networks
local RMSprop = define.elementwise("RMSprop", "number>=0|OneNumber lr=0.01, number>=0 alpha=0.99, "
  .. "number>=0 eps=1e-8, number>=0 weight_decay=0, number>=0 momentum=0, bool centered=false, "
  .. "bool capturable=false, bool? foreach=nil, bool maximize=false, bool differentiable=false",
  "rmsprop")

return RMSprop
