-- stdlib/optim/adadelta.lua: Adadelta.

local define = require "moonlet.optim.define"

--- Adadelta (Zeiler, 2012): `optim.Adadelta(net:parameters(), { lr = 1, rho = 0.9 })`. Options:
--- `lr` (1), `rho` (0.9), `eps` (1e-6), `weight_decay` (0), `maximize` (go up the gradient), and
--- `foreach`, `capturable` and `differentiable` as of all optimisers.
local Adadelta = define.elementwise("Adadelta", "number>=0|OneNumber lr=1.0, "
  .. "number>=0<=1 rho=0.9, number>=0 eps=1e-6, number>=0 weight_decay=0, bool? foreach=nil, "
  .. "bool capturable=false, bool maximize=false, bool differentiable=false",
  "adadelta")

return Adadelta
