-- stdlib/distributed/tensor.lua: ml.distributed.tensor: tensors of which each rank has a part, and
-- layers that compute with such parts.

local options = require "moonlet.options"

return options.namespace("distributed.tensor", {}, options.late {
  ["distributed.tensor.layouts"] = { "Shard", "Replicate" },
  ["distributed.tensor.parallel"] = { "parallel" },
})
