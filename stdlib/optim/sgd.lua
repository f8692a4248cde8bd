-- stdlib/optim/sgd.lua: stochastic gradient descent with momentum.

local define = require "moonlet.optim.define"
local ml = require "moonlet"
local options = require "moonlet.options"

--- Stochastic gradient descent; `optim.SGD(net:parameters(), { lr = 0.1, momentum = 0.9 })`.
--- Options: `lr` (0.001), `momentum`, `dampening`, `weight_decay`, `nesterov` (Sutskever et al.,
--- 2013), `maximize` (go up the gradient). It takes sparse gradients too.
local SGD = define.own("SGD", "number>=0 lr=0.001, number>=0 momentum=0, number dampening=0, "
  .. "number>=0 weight_decay=0, bool nesterov=false, bool maximize=false, bool? foreach=nil, "
  .. "bool differentiable=false, bool? fused=nil")

SGD.has_fused_step = true

function SGD:check(group)
  if group.nesterov and (group.momentum == 0 or group.dampening ~= 0) then
    options.fail("%s: 'nesterov' wants a momentum and no dampening", self.name)
  end
end

--- Changes one parameter by its gradient, with the state kept for it and the options of its group.
---@param p Tensor
---@param gradient Tensor
---@param state table
---@param group table
function SGD:update(p, gradient, state, group)
  local buffer = state.momentum_buffer
  local first = buffer == nil
  if group.momentum ~= 0 and first then
    buffer = ml.zeros_like(p)
    state.momentum_buffer = buffer
  end
  if group.momentum == 0 then buffer = nil end
  if group.maximize then gradient = -gradient end
  if p:is_complex() then  -- the parts are numbers of their own
    p, gradient = ml.view_as_real(p), ml.view_as_real(gradient)
    buffer = buffer and ml.view_as_real(buffer)
  end
  ml._internal.sgd_step_(p, gradient, buffer, group.lr, group.momentum, group.dampening,
    group.weight_decay, group.nesterov, first)
end

--- The same of a sparse gradient. A momentum moves the rows of earlier steps too, as it does where
--- the gradient is dense.
---@param p Tensor
---@param gradient SparseRows
---@param state table
---@param group table
function SGD:update_rows(p, gradient, state, group)
  if group.weight_decay ~= 0 then
    options.fail("%s: 'weight_decay' is not for sparse gradients", self.name)
  elseif group.momentum ~= 0 then
    return self:update(p, gradient:to_dense(), state, group)
  end
  local rate = group.maximize and group.lr or -group.lr
  p:index_add_(1, gradient:indices()[1], gradient:values() * rate)
end

return SGD
