-- stdlib/optim/sgd.lua: stochastic gradient descent with momentum.

local define = require "moonlet.optim.define"
local numbers = require "moonlet.optim.numbers"
local options = require "moonlet.options"

--- Stochastic gradient descent; `optim.SGD(net:parameters(), { lr = 0.1, momentum = 0.9 })`.
--- Options: `lr` (0.001), `momentum`, `dampening`, `weight_decay`, `nesterov` (Sutskever et al.,
--- 2013), `maximize` (go up the gradient), `foreach`, `differentiable` and `fused` as of all
--- optimisers. It takes sparse gradients too.
local SGD = define.elementwise("SGD", "number>=0|OneNumber lr=0.001, number>=0 momentum=0, "
  .. "number dampening=0, number>=0|OneNumber weight_decay=0, bool nesterov=false, "
  .. "bool maximize=false, bool? foreach=nil, bool differentiable=false, bool? fused=nil",
  "sgd")

--- Checks a group's options.
---@param group table
function SGD:check(group)
  if group.nesterov and (group.momentum == 0 or group.dampening ~= 0) then
    options.fail("%s: 'nesterov' wants a momentum and no dampening", self.name)
  end
end

-- A buffer that is not there begins with the next gradient.
function SGD:_check_state() end

--- A momentum moves the rows of earlier steps too.
---@param group table
---@return boolean
function SGD:wants_dense(group) return group.momentum ~= 0 end

--- Changes the rows of one parameter that a sparse gradient has.
---@param p Tensor
---@param gradient SparseRows
---@param _ table
---@param group table
function SGD:update_rows(p, gradient, _, group)
  local rate = numbers.value(group.lr)
  p:index_add_(1, gradient:indices()[1], gradient:values() * (group.maximize and rate or -rate))
end

return SGD
