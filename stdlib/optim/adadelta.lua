-- stdlib/optim/adadelta.lua: Adadelta.

local define = require "moonlet.optim.define"

--- Adadelta: Adagrad with running means, whose steps have the unit of the parameters.
--- > w = ml.nn.Parameter(ml.tensor { 1.0, 2 })
--- > opt = ml.optim.Adadelta({ w }, { lr = 1 })
--- > w:pow(2):sum():backward() opt:step()
--- > w
---   {0.9968, 1.9968}
---   Tensor (2,) float32 requires_grad
---@param params an array of parameters, or of groups { params = ..., lr = ... } with options of
---   their own
---@param lr the factor of the steps
---@param rho the decay rate of the running means of squares, from 0 to 1
---@param eps what is added to the squares before their root is taken
---@param weight_decay the factor of the parameters that is added to their gradients (L2 penalty)
---@param foreach false changes the parameters one by one; true or nil changes all in one pass
---@param capturable whether what is counted is a tensor on the parameters' CUDA device, as CUDA
---   graphs need
---@param maximize whether the objective is maximised: gradients count with the opposite sign
---@param differentiable whether the tape records the step
---@formula g = grad f(theta) + weight_decay theta
---@formula v = rho v + (1 - rho) g^2
---@formula d = g sqrt(u + eps) / sqrt(v + eps)
---@formula u = rho u + (1 - rho) d^2
---@formula theta = theta - lr d
---@source Zeiler, 2012: Adadelta: an adaptive learning rate method
local Adadelta = define.elementwise("Adadelta", "number>=0|OneNumber lr=1.0, "
  .. "number>=0<=1 rho=0.9, number>=0 eps=1e-6, number>=0 weight_decay=0, bool? foreach=nil, "
  .. "bool capturable=false, bool maximize=false, bool differentiable=false",
  "adadelta")

return Adadelta
