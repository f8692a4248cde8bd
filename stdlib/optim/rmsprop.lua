-- stdlib/optim/rmsprop.lua: RMSprop.

local define = require "moonlet.optim.define"
local ml = require "moonlet"

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
  { "square_avg", "momentum_buffer if momentum", "grad_avg if centered" })

--- Moves all parameters of a list at once.
---@param list table
---@param o table
function RMSprop:step_all(list, o, _, ...)
  local kept = list.kept
  ml._internal.rmsprop_step(list.x, list.g, kept.square_avg, kept.momentum_buffer or {},
    kept.grad_avg or {}, o.lr, o.alpha, o.eps, o.momentum, ...)
end

--- The parameter after a step.
---@param p Tensor
---@param gradient Tensor
---@param kept table<string, Tensor>
---@param o table
---@return Tensor
function RMSprop:move(p, gradient, kept, o)
  kept.square_avg = kept.square_avg * o.alpha + gradient * gradient * (1 - o.alpha)
  local square = kept.square_avg
  if o.centered then
    kept.grad_avg = kept.grad_avg:lerp(gradient, 1 - o.alpha)
    square = square - kept.grad_avg * kept.grad_avg
  end
  local change = gradient / (square:sqrt() + o.eps)
  if o.momentum ~= 0 then
    change = kept.momentum_buffer * o.momentum + change
    kept.momentum_buffer = change
  end
  return p - change * o.lr
end

return RMSprop
