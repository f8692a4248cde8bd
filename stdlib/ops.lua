-- stdlib/ops.lua: ml.ops: the ops as values, and ops that scripts define.

local ml = require "moonlet"
local options = require "moonlet.options"

-- What C++ gives is there at once.
local ops = {}
for name, value in pairs(ml._ops) do ops[name] = value end

return options.namespace("ops", ops, options.late {
  ["ops.define"] = { "define" },
  ["ops.check"] = { "check" },
})
