-- stdlib/optim/adagrad.lua: Adagrad.

local define = require "moonlet.optim.define"
local ml = require "moonlet"
local options = require "moonlet.options"

--- Adagrad (Duchi et al., 2011): `optim.Adagrad(net:parameters(), { lr = 0.01 })`. Options: `lr`
--- (0.01), `lr_decay` (0), `weight_decay` (0), `initial_accumulator_value` (0), `eps` (1e-10),
--- `maximize` (go up the gradient). Of a sparse gradient it changes the rows that were used.
local Adagrad = define.own("Adagrad", "number>=0 lr=0.01, number>=0 lr_decay=0, "
  .. "number>=0 weight_decay=0, number>=0 initial_accumulator_value=0, number>=0 eps=1e-10, "
  .. "bool? foreach=nil, bool maximize=false, bool differentiable=false, bool? fused=nil")

function Adagrad:_check_state(_, state)
  if next(state) ~= nil and not (state.step and ml.is_tensor(state.sum)) then
    options.fail("load_state_dict: the state of a parameter has no 'step' or no 'sum'")
  end
end

-- Counts the step; returns its rate.
local function next_rate(p, state, group)
  if not state.step then
    local value = group.initial_accumulator_value
    state.step = 0
    state.sum = ml.full_like(p, p:is_complex() and ml.complex(value, value) or value)
  end
  state.step = state.step + 1
  return group.lr / (1 + (state.step - 1) * group.lr_decay)
end

--- Changes one parameter by its gradient, with the state kept for it and the options of its group.
---@param p Tensor
---@param gradient Tensor
---@param state table
---@param group table
function Adagrad:update(p, gradient, state, group)
  local rate = next_rate(p, state, group)
  local sum = state.sum
  if group.maximize then gradient = -gradient end
  if group.weight_decay ~= 0 then gradient = gradient + p * group.weight_decay end
  if p:is_complex() then  -- the parts are numbers of their own
    p, gradient, sum = ml.view_as_real(p), ml.view_as_real(gradient), ml.view_as_real(sum)
  end
  sum:addcmul_(gradient, gradient)
  p:addcdiv_(gradient, sum:sqrt():add_(group.eps), { value = -rate })
end

--- The same of a sparse gradient: the rows that are not in it stay.
---@param p Tensor
---@param gradient SparseRows
---@param state table
---@param group table
function Adagrad:update_rows(p, gradient, state, group)
  if group.weight_decay ~= 0 then
    options.fail("%s: 'weight_decay' is not for sparse gradients", self.name)
  end
  local rate = next_rate(p, state, group)
  gradient = gradient:coalesce()
  local at, values = gradient:indices()[1], gradient:values()
  if group.maximize then values = -values end
  state.sum:index_add_(1, at, values * values)
  local scale = state.sum:index_select(1, at):sqrt_():add_(group.eps)
  p:index_add_(1, at, (values / scale):mul_(-rate))
end

return Adagrad
