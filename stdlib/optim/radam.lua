-- stdlib/optim/radam.lua: RAdam.

local define = require "moonlet.optim.define"

--- RAdam (Liu et al., 2020), Adam whose first steps are rectified, in place of a warm-up:
--- `optim.RAdam(net:parameters(), { lr = 1e-3 })`. Options: `lr` (0.001), `betas` ({0.9, 0.999}),
--- `eps` (1e-8), `weight_decay` (0), `decoupled_weight_decay`, `maximize` (go up the gradient), and
--- `foreach`, `capturable` and `differentiable` as of all optimisers.
local RAdam = define.elementwise("RAdam", "number>=0|OneNumber lr=0.001, "
  .. "number[2] betas={0.9, 0.999}, number>=0 eps=1e-8, number>=0 weight_decay=0, "
  .. "bool decoupled_weight_decay=false, bool? foreach=nil, bool maximize=false, "
  .. "bool capturable=false, bool differentiable=false", "radam")

return RAdam
