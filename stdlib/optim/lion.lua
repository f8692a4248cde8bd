-- stdlib/optim/lion.lua: Lion.

local define = require "moonlet.optim.define"

--- Lion: steps by the sign of a momentum, which is all that it keeps. Its learning rate should be
--- three to ten times less than that of AdamW.
--- > w = ml.nn.Parameter(ml.tensor { 1.0, 2 })
--- > opt = ml.optim.Lion({ w }, { lr = 0.1 })
--- > w:pow(2):sum():backward() opt:step()
--- > w
---   {0.9000, 1.9000}
---   Tensor (2,) float32 requires_grad
---@param params an array of parameters, or of groups { params = ..., lr = ... } with options of
---   their own
---@param lr the learning rate: a number, or a tensor of one element
---@param betas the weights beta_1 and beta_2 of the momentum in the step and in its running mean
---@param weight_decay the factor by which parameters shrink in each step, times `lr`
---@param maximize whether the objective is maximised: gradients count with the opposite sign
---@param foreach false changes the parameters one by one; true or nil changes all in one pass
---@param capturable whether what is counted is a tensor on the parameters' CUDA device, as CUDA
---   graphs need
---@param differentiable whether the tape records the step
---@formula theta = theta - lr weight_decay theta
---@formula theta = theta - lr sign(beta_1 m + (1 - beta_1) g)
---@formula m = beta_2 m + (1 - beta_2) g
---@source Chen et al., 2023: Symbolic discovery of optimization algorithms
local Lion = define.elementwise("Lion", "number>=0|OneNumber lr=1e-4, "
  .. "number[2] betas={0.9, 0.99}, number>=0 weight_decay=0, bool maximize=false, "
  .. "bool? foreach=nil, bool capturable=false, bool differentiable=false", "lion")

Lion.decoupled = true

return Lion
