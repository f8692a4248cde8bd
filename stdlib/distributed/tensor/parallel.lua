-- stdlib/distributed/tensor/parallel.lua: ml.distributed.tensor.parallel: layers whose work the
-- ranks of a group share.

local options = require "moonlet.options"

return options.namespace("distributed.tensor.parallel", {}, options.late {
  ["distributed.tensor.parallelize"] = { "parallelize_module" },
  ["distributed.tensor.styles"] = { "ColwiseParallel", "RowwiseParallel", "SequenceParallel" },
  ["distributed.tensor.attention"] = { "AttentionParallel" },
  ["distributed.tensor.prepare"] = { "PrepareModuleInput", "PrepareModuleOutput" },
  ["distributed.tensor.loss"] = { "loss_parallel" },
})
