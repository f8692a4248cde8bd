-- stdlib/autograd.lua: ml.autograd: checks of derivatives, and derivatives of functions. Each part
-- is loaded when one of its names is first used.

local options = require "moonlet.options"

return options.namespace("autograd", {}, options.late {
  ["autograd.checks"] = { "gradcheck", "gradgradcheck" },
  ["autograd.functional"] = { "functional" },
})
