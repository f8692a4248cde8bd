-- stdlib/optim/adagrad.lua: Adagrad.

local define = require "moonlet.optim.define"
local ml = require "moonlet"
local numbers = require "moonlet.optim.numbers"

--- Adagrad (Duchi et al., 2011): `optim.Adagrad(net:parameters(), { lr = 0.01 })`. Options: `lr`
--- (0.01), `lr_decay` (0), `weight_decay` (0), `initial_accumulator_value` (0), `eps` (1e-10),
--- `maximize` (go up the gradient), and `foreach`, `differentiable` and `fused` as of all
--- optimisers. Of a sparse gradient it changes the rows that were used.
local Adagrad = define.elementwise("Adagrad", "number>=0|OneNumber lr=0.01, number>=0 lr_decay=0, "
  .. "number>=0 weight_decay=0, number>=0 initial_accumulator_value=0, number>=0 eps=1e-10, "
  .. "bool? foreach=nil, bool maximize=false, bool differentiable=false, bool? fused=nil",
  { "sum" })

--- What a state begins with.
---@param state table
---@param p Tensor
---@param group table
function Adagrad:begin(state, p, group)
  local value = group.initial_accumulator_value
  state.sum = ml.full_like(p, p:is_complex() and ml.complex(value, value) or value)
end

local function rate_of(o, step) return o.lr / (1 + (step - 1) * o.lr_decay) end

--- Moves all parameters of a list at once.
---@param list table
---@param o table
---@param now table
function Adagrad:step_all(list, o, now, ...)
  ml._internal.adagrad_step(list.x, list.g, list.kept.sum, rate_of(o, now.step), o.eps, ...)
end

--- The parameter after a step.
---@param p Tensor
---@param gradient Tensor
---@param kept table<string, Tensor>
---@param o table
---@param now table
---@return Tensor
function Adagrad:move(p, gradient, kept, o, now)
  kept.sum = kept.sum + gradient * gradient
  return p - gradient / (kept.sum:sqrt() + o.eps) * rate_of(o, now.step)
end

--- Changes one parameter by a sparse gradient: the rows that are not in it stay.
---@param p Tensor
---@param gradient SparseRows
---@param state table
---@param group table
function Adagrad:update_rows(p, gradient, state, group)
  if not state.step then
    state.step = 0
    self:begin(state, p, group)
  end
  state.step = state.step + 1
  gradient = gradient:coalesce()
  local at, values = gradient:indices()[1], gradient:values()
  if group.maximize then values = -values end
  state.sum:index_add_(1, at, values * values)
  local scale = state.sum:index_select(1, at):sqrt_():add_(group.eps)
  p:index_add_(1, at, (values / scale):mul_(-rate_of(numbers.options(group, self), state.step)))
end

return Adagrad
