-- stdlib/optim.lua: ml.optim: optimisers and learning-rate schedules. Each is loaded when its name
-- is first used.

local options = require "moonlet.options"

return options.namespace("optim", {}, options.late {
  ["optim.optimizer"] = { "Optimizer" },
  ["optim.sgd"] = { "SGD" },
  ["optim.adam"] = { "Adam", "AdamW" },
  ["optim.sparse_adam"] = { "SparseAdam" },
  ["optim.adagrad"] = { "Adagrad" },
  ["optim.adadelta"] = { "Adadelta" },
  ["optim.adamax"] = { "Adamax" },
  ["optim.nadam"] = { "NAdam" },
  ["optim.radam"] = { "RAdam" },
  ["optim.asgd"] = { "ASGD" },
  ["optim.rmsprop"] = { "RMSprop" },
  ["optim.rprop"] = { "Rprop" },
  ["optim.lion"] = { "Lion" },
  ["optim.adafactor"] = { "Adafactor" },
  ["optim.muon"] = { "Muon" },
  ["optim.lbfgs"] = { "LBFGS" },
  ["optim.swa_utils"] = { "swa_utils" },
  ["optim.lr_scheduler"] = { "lr_scheduler" },
})
