-- stdlib/optim/asgd.lua: averaged stochastic gradient descent.

local define = require "moonlet.optim.define"

--- Averaged stochastic gradient descent. The average of a parameter's values since step `t0` is
--- `optimizer.state[p].ax`.
--- > w = ml.nn.Parameter(ml.tensor { 1.0, 2 })
--- > opt = ml.optim.ASGD({ w }, { lr = 0.1 })
--- > w:pow(2):sum():backward() opt:step()
--- > w
---   {0.8000, 1.6000}
---   Tensor (2,) float32 requires_grad
---@param params an array of parameters, or of groups { params = ..., lr = ... } with options of
---   their own
---@param lr the learning rate: a number, or a tensor of one element
---@param lambd the decay of the parameters
---@param alpha the exponent of the learning rate's decay
---@param t0 the step from which values are averaged
---@param weight_decay the factor of the parameters that is added to their gradients (L2 penalty)
---@param foreach false changes the parameters one by one; true or nil changes all in one pass
---@param maximize whether the objective is maximised: gradients count with the opposite sign
---@param differentiable whether the tape records the step
---@param capturable whether what is counted is a tensor on the parameters' CUDA device, as CUDA
---   graphs need
---@formula g = grad f(theta) + weight_decay theta
---@formula eta_0 = lr
---@formula theta = theta (1 - lambd eta_(t-1)) - eta_(t-1) g
---@formula eta_t = lr / (1 + lambd lr t)^alpha
---@formula ax = ax + (theta - ax) mu_(t-1), mu_t = 1 / max(1, t - t0), mu_0 = 1
---@source Polyak and Juditsky, 1992: Acceleration of stochastic approximation by averaging
local ASGD = define.elementwise("ASGD", "number>=0|OneNumber lr=0.01, number>=0 lambd=1e-4, "
  .. "number>=0 alpha=0.75, number t0=1e6, number>=0 weight_decay=0, bool? foreach=nil, "
  .. "bool maximize=false, bool differentiable=false, bool capturable=false", "asgd")

return ASGD
