-- stdlib/train.lua: ml.train: a training loop, and its parts for loops of one's own: early
-- stopping, checkpoints, logs.

-- Each part is loaded when its name is first used.

local options = require "moonlet.options"

return options.namespace("train", {}, options.late {
  ["train.fit"] = { "fit" },
  ["train.early_stopping"] = { "EarlyStopping" },
  ["train.checkpoint"] = { "Checkpoint" },
  ["train.csv_log"] = { "CSVLog" },
})
