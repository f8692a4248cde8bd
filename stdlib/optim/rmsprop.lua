-- stdlib/optim/rmsprop.lua: RMSprop.

local define = require "moonlet.optim.define"

--- RMSprop (Hinton's lectures, 2012; centred: Graves, 2013): `optim.RMSprop(net:parameters(), { lr
--- = 0.01 })`. Options: `lr` (0.01), `alpha` (0.99), `eps` (1e-8), `weight_decay` (0), `momentum`
--- (0), `centered` (divide by the deviation), `maximize` (go up the gradient), and `capturable`,
--- `foreach` and `differentiable` as of all optimisers.
local RMSprop = define.elementwise("RMSprop", "number>=0|OneNumber lr=0.01, number>=0 alpha=0.99, "
  .. "number>=0 eps=1e-8, number>=0 weight_decay=0, number>=0 momentum=0, bool centered=false, "
  .. "bool capturable=false, bool? foreach=nil, bool maximize=false, bool differentiable=false",
  "rmsprop")

return RMSprop
