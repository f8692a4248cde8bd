-- stdlib/optim/adagrad.lua: Adagrad.

local define = require "moonlet.optim.define"
local expressions = require "moonlet.optim.expressions"
local numbers = require "moonlet.optim.numbers"

--- Adagrad (Duchi et al., 2011): `optim.Adagrad(net:parameters(), { lr = 0.01 })`. Options: `lr`
--- (0.01), `lr_decay` (0), `weight_decay` (0), `initial_accumulator_value` (0), `eps` (1e-10),
--- `maximize` (go up the gradient), and `foreach`, `differentiable` and `fused` as of all
--- optimisers. Of a sparse gradient it changes the rows that were used.
local Adagrad = define.elementwise("Adagrad", "number>=0|OneNumber lr=0.01, number>=0 lr_decay=0, "
  .. "number>=0 weight_decay=0, number>=0 initial_accumulator_value=0, number>=0 eps=1e-10, "
  .. "bool? foreach=nil, bool maximize=false, bool differentiable=false, bool? fused=nil",
  "adagrad")

--- Changes one parameter by a sparse gradient: the rows that are not in it stay.
---@param p Tensor
---@param gradient SparseRows
---@param state table
---@param group table
function Adagrad:update_rows(p, gradient, state, group)
  if not state.step then self:begin(state, p, group) end
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
