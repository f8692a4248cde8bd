-- stdlib/optim/asgd.lua: averaged stochastic gradient descent.

local define = require "moonlet.optim.define"

--- Averaged stochastic gradient descent (Polyak and Juditsky, 1992): the mean of a parameter's
--- values since step `t0` is `state[p].ax`. `optim.ASGD(net:parameters(), { lr = 0.01 })`; options:
--- `lr` (0.01), `lambd` (1e-4, the decay), `alpha` (0.75, the power of the rate), `t0` (1e6),
--- `weight_decay` (0), `maximize` (go up the gradient), and `foreach`, `differentiable` and
--- `capturable` as of all optimisers.
local ASGD = define.elementwise("ASGD", "number>=0|OneNumber lr=0.01, number>=0 lambd=1e-4, "
  .. "number>=0 alpha=0.75, number t0=1e6, number>=0 weight_decay=0, bool? foreach=nil, "
  .. "bool maximize=false, bool differentiable=false, bool capturable=false", "asgd")

return ASGD
