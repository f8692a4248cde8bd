-- stdlib/distributed/pipelining.lua: ml.distributed.pipelining: a model of which each rank has a
-- part of the layers, through which the parts of a batch go one behind the other.

local options = require "moonlet.options"

return options.namespace("distributed.pipelining", {}, options.late {
  ["distributed.pipelining.stage"] = { "PipelineStage" },
  ["distributed.pipelining.schedules"] = { "ScheduleGPipe", "Schedule1F1B" },
})
