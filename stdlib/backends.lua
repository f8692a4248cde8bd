-- stdlib/backends.lua: ml.backends: the libraries that ops go to, and what can be said about them.

local options = require "moonlet.options"

return options.namespace("backends", {}, options.late { ["backends.cudnn"] = { "cudnn" } })
