-- stdlib/optim/nadam.lua: NAdam.

local define = require "moonlet.optim.define"

--- NAdam (Dozat, 2016), Adam with Nesterov's momentum: `optim.NAdam(net:parameters(), { lr = 2e-3
--- })`. Options: `lr` (0.002), `betas` ({0.9, 0.999}), `eps` (1e-8), `weight_decay` (0),
--- `momentum_decay` (0.004), `decoupled_weight_decay`, `maximize` (go up the gradient), and
--- `foreach`, `capturable` and `differentiable` as of all optimisers.
local NAdam = define.elementwise("NAdam", "number>=0|OneNumber lr=0.002, "
  .. "number[2] betas={0.9, 0.999}, number>=0 eps=1e-8, number>=0 weight_decay=0, "
  .. "number>=0 momentum_decay=0.004, bool decoupled_weight_decay=false, bool? foreach=nil, "
  .. "bool maximize=false, bool capturable=false, bool differentiable=false",
  "nadam")

return NAdam
