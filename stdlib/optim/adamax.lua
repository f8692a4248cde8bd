-- stdlib/optim/adamax.lua: Adamax.

local define = require "moonlet.optim.define"

--- Adamax (Kingma and Ba, 2015), Adam with the largest gradient in place of their mean square:
--- `optim.Adamax(net:parameters(), { lr = 2e-3 })`. Options: `lr` (0.002), `betas` ({0.9, 0.999}),
--- `eps` (1e-8), `weight_decay` (0), `maximize` (go up the gradient), and `foreach`,
--- `differentiable` and `capturable` as of all optimisers.
local Adamax = define.elementwise("Adamax", "number>=0|OneNumber lr=0.002, "
  .. "number[2] betas={0.9, 0.999}, number>=0 eps=1e-8, number>=0 weight_decay=0, "
  .. "bool? foreach=nil, bool maximize=false, bool differentiable=false, bool capturable=false",
  "adamax")

return Adamax
