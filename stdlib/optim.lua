-- stdlib/optim.lua: ml.optim: optimisers and learning-rate schedules. Each is loaded when its name
-- is first used.

local options = require "moonlet.options"

return options.namespace("optim", {}, options.late {
  ["optim.optimizer"] = { "Optimizer" },
  ["optim.sgd"] = { "SGD" },
  ["optim.adam"] = { "Adam", "AdamW" },
  ["optim.sparse_adam"] = { "SparseAdam" },
  ["optim.adagrad"] = { "Adagrad" },
  ["optim.lr_scheduler"] = { "lr_scheduler" },
})
