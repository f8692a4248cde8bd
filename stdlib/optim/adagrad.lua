-- stdlib/optim/adagrad.lua: Adagrad.

local define = require "moonlet.optim.define"
local expressions = require "moonlet.optim.expressions"
local numbers = require "moonlet.optim.numbers"

--- Adagrad: divides steps by the root of the sum of all squared gradients. Of a sparse gradient it
--- changes the rows that were used.
--- > w = ml.nn.Parameter(ml.tensor { 1.0, 2 })
--- > opt = ml.optim.Adagrad({ w }, { lr = 0.1 })
--- > w:pow(2):sum():backward() opt:step()
--- > w
---   {0.9000, 1.9000}
---   Tensor (2,) float32 requires_grad
---@param params an array of parameters, or of groups { params = ..., lr = ... } with options of
---   their own
---@param lr the learning rate: a number, or a tensor of one element
---@param lr_decay how fast the learning rate falls
---@param weight_decay the factor of the parameters that is added to their gradients (L2 penalty)
---@param initial_accumulator_value what the sum of squares starts from
---@param eps what is added to the denominator, so that nothing is divided by 0
---@param foreach false changes the parameters one by one; true or nil changes all in one pass
---@param maximize whether the objective is maximised: gradients count with the opposite sign
---@param differentiable whether the tape records the step
---@param fused as `foreach`, of which only one may be true
---@formula g = grad f(theta) + weight_decay theta
---@formula s = s + g^2
---@formula theta = theta - lr g / ((1 + (t - 1) lr_decay) (sqrt(s) + eps))
---@source Duchi et al., 2011: Adaptive subgradient methods for online learning
local Adagrad = define.elementwise("Adagrad", "number>=0|OneNumber lr=0.01, number>=0 lr_decay=0, "
  .. "number>=0 weight_decay=0, number>=0 initial_accumulator_value=0, number>=0 eps=1e-10, "
  .. "bool? foreach=nil, bool maximize=false, bool differentiable=false, bool? fused=nil",
  "adagrad")

--- Changes one parameter by a sparse gradient: the rows that are not in it stay.
---@param p moonlet.Tensor the parameter
---@param gradient moonlet.SparseRows its gradient
---@param state table what is kept of the parameter
---@param group table the options of its group
---@shape p (rows, *), gradient (k rows of p, *)
function Adagrad:update_rows(p, gradient, state, group)
  if not state.step then self:_begin(state, p, group) end
  local now = expressions.numbers(self.row, numbers.options(group, self), state)
  state.step = now.step
  gradient = gradient:coalesce()
  local at, values = gradient:indices()[1], gradient:values()
  if group.maximize then values = -values end
  state.sum:index_add_(1, at, values * values)
  local scale = state.sum:index_select(1, at):sqrt_():add_(group.eps)
  p:index_add_(1, at, (values / scale):mul_(-now.rate))
end

return Adagrad
