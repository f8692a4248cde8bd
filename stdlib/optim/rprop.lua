-- stdlib/optim/rprop.lua: resilient backpropagation.

local define = require "moonlet.optim.define"
local ml = require "moonlet"
local options = require "moonlet.options"

--- Resilient backpropagation (Riedmiller and Braun, 1993), which looks at the signs of gradients
--- alone and is for whole data sets: `optim.Rprop(net:parameters(), { lr = 0.01 })`. Options: `lr`
--- (0.01, the first step), `etas` ({0.5, 1.2}, the factors of a step after a change of sign and
--- without one), `step_sizes` ({1e-6, 50}, its bounds), `maximize` (go up the gradient).
local Rprop = define.elementwise("Rprop", "number>=0 lr=0.01, number[2] etas={0.5, 1.2}, "
  .. "number[2] step_sizes={1e-6, 50}, bool capturable=false, bool? foreach=nil, "
  .. "bool maximize=false, bool differentiable=false", { "prev", "step_size" })

function Rprop:check(group)
  local less, more = group.etas[1], group.etas[2]
  if not (0 < less and less < 1 and 1 < more) then
    options.fail("%s: 'etas' must be a number between 0 and 1 and one above 1, got %g and %g",
      self.name, less, more)
  end
end

--- What a state begins with: steps of the size `lr`.
---@param state table
---@param p Tensor
---@param group table
function Rprop:begin(state, p, group)
  state.step_size = ml.full_like(p, p:is_complex() and ml.complex(group.lr, group.lr) or group.lr)
end

--- Moves one parameter.
---@param p Tensor
---@param gradient Tensor
---@param kept table<string, Tensor>
---@param group table
function Rprop:move(p, gradient, kept, group)
  local less, more = group.etas[1], group.etas[2]
  local turn = gradient * kept.prev
  local turned = turn:lt(0)
  local factor = ml.ones_like(turn):masked_fill_(turn:gt(0), more):masked_fill_(turned, less)
  kept.step_size:mul_(factor):clamp_(group.step_sizes[1], group.step_sizes[2])
  kept.prev:copy_(gradient):masked_fill_(turned, 0)
  p:addcmul_(kept.prev:sign(), kept.step_size, { value = -1 })
end

return Rprop
