-- stdlib/utils.lua: ml.utils: activation checkpointing and TensorBoard.

-- Each part is loaded when a name of it is first used.

local options = require "moonlet.options"

return options.namespace("utils", {}, options.late {
  ["utils.checkpoint"] = { "checkpoint" },
  ["utils.tensorboard"] = { "tensorboard" },
})
