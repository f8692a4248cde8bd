-- stdlib/optim/sgd.lua: stochastic gradient descent with momentum.

local define = require "moonlet.optim.define"
local numbers = require "moonlet.optim.numbers"
local options = require "moonlet.options"

--- Stochastic gradient descent, with momentum. It takes sparse gradients too, without momentum only
--- of the rows that were used.
--- > w = ml.nn.Parameter(ml.tensor { 1.0, 2 })
--- > opt = ml.optim.SGD({ w }, { lr = 0.1, momentum = 0.9 })
--- > w:pow(2):sum():backward() opt:step()
--- > w
---   {0.8000, 1.6000}
---   Tensor (2,) float32 requires_grad
---@param params an array of parameters, or of groups { params = ..., lr = ... } with options of
---   their own
---@param lr the learning rate: a number, or a tensor of one element
---@param momentum the factor of the earlier steps
---@param dampening which part of the gradient does not enter the momentum
---@param weight_decay the factor of the parameters that is added to their gradients (L2 penalty)
---@param nesterov whether Nesterov's momentum is used, which needs a momentum and no dampening
---@param maximize whether the objective is maximised: gradients count with the opposite sign
---@param foreach false changes the parameters one by one; true or nil changes all in one pass
---@param differentiable whether the tape records the step
---@param fused as `foreach`, of which only one may be true
---@formula g = grad f(theta) + weight_decay theta
---@formula b = momentum b + (1 - dampening) g, in the first step b = g
---@formula nesterov: g = g + momentum b, otherwise with a momentum: g = b
---@formula theta = theta - lr g
---@error `nesterov` without a momentum, or with a dampening
---@source Sutskever et al., 2013: On the importance of initialization and momentum in deep learning
local SGD = define.elementwise("SGD", "number>=0|OneNumber lr=0.001, number>=0 momentum=0, "
  .. "number dampening=0, number>=0|OneNumber weight_decay=0, bool nesterov=false, "
  .. "bool maximize=false, bool? foreach=nil, bool differentiable=false, bool? fused=nil",
  "sgd")

-- Checks a group's options.
function SGD:check(group)
  if group.nesterov and (group.momentum == 0 or group.dampening ~= 0) then
    options.fail("%s: 'nesterov' wants a momentum and no dampening", self.name)
  end
end

-- A buffer that is not there begins with the next gradient.
function SGD:_check_state() end

-- A momentum moves the rows of earlier steps too.
function SGD:_wants_dense(group) return group.momentum ~= 0 end

--- Changes the rows of one parameter that a sparse gradient has.
---@param p moonlet.Tensor the parameter
---@param gradient moonlet.SparseRows its gradient
---@param _state table what is kept of the parameter
---@param group table the options of its group
---@shape p (rows, *), gradient (k rows of p, *)
function SGD:update_rows(p, gradient, _state, group)
  local rate = numbers.value(group.lr)
  p:index_add_(1, gradient:indices()[1], gradient:values() * (group.maximize and rate or -rate))
end

return SGD
