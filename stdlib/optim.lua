-- stdlib/optim.lua: ml.optim: optimisers and learning-rate schedules.

local adam = require "moonlet.optim.adam"

return require("moonlet.options").namespace("optim", {
  Optimizer = require "moonlet.optim.optimizer",
  SGD = require "moonlet.optim.sgd",
  Adam = adam.Adam,
  AdamW = adam.AdamW,
  lr_scheduler = require "moonlet.optim.lr_scheduler",
})
