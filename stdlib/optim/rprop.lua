-- stdlib/optim/rprop.lua: resilient backpropagation.

local define = require "moonlet.optim.define"
local options = require "moonlet.options"

--- Resilient backpropagation (Riedmiller and Braun, 1993), which looks at the signs of gradients
--- alone and is for whole data sets: `optim.Rprop(net:parameters(), { lr = 0.01 })`. Options: `lr`
--- (0.01, the first step), `etas` ({0.5, 1.2}, the factors of a step after a change of sign and
--- without one), `step_sizes` ({1e-6, 50}, its bounds), `maximize` (go up the gradient),
--- and `capturable`, `foreach` and `differentiable` as of all optimisers.
local Rprop = define.elementwise("Rprop", "number>=0|OneNumber lr=0.01, "
  .. "number[2] etas={0.5, 1.2}, number[2] step_sizes={1e-6, 50}, bool capturable=false, "
  .. "bool? foreach=nil, bool maximize=false, bool differentiable=false", "rprop")

--- Checks a group's options.
---@param group table
function Rprop:check(group)
  local less, more = group.etas[1], group.etas[2]
  if not (0 < less and less < 1 and 1 < more) then
    options.fail("%s: 'etas' must be a number between 0 and 1 and one above 1, got %g and %g",
      self.name, less, more)
  end
end

return Rprop
