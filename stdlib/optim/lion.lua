-- stdlib/optim/lion.lua: Lion.

local define = require "moonlet.optim.define"

--- Lion (Chen et al., 2023), which moves by the sign of a momentum and keeps that alone:
--- `optim.Lion(net:parameters(), { lr = 1e-4 })`. Options: `lr` (1e-4), `betas` ({0.9, 0.99}),
--- `weight_decay` (0, decoupled), `maximize` (go up the gradient), and `foreach`, `capturable` and
--- `differentiable` as of all optimisers.
local Lion = define.elementwise("Lion", "number>=0|OneNumber lr=1e-4, "
  .. "number[2] betas={0.9, 0.99}, number>=0 weight_decay=0, bool maximize=false, "
  .. "bool? foreach=nil, bool capturable=false, bool differentiable=false", "lion")

Lion.decoupled = true

return Lion
