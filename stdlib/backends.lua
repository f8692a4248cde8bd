-- stdlib/backends.lua: ml.backends: settings of the libraries that ops run on.

local options = require "moonlet.options"

return options.namespace("backends", {}, options.late {
  ["backends.cuda"] = { "cuda" }, ["backends.cudnn"] = { "cudnn" } })
