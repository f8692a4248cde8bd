-- stdlib/data.lua: ml.data: data sets, samplers, loaders, and files of numbers, pictures and sound.
-- Each part is loaded when one of its names is first used.

local options = require "moonlet.options"

return options.namespace("data", {}, options.late {
  ["data.dataset"] = { "Dataset", "TensorDataset", "Subset", "ConcatDataset", "random_split" },
  ["data.sampler"] = { "Sampler", "SequentialSampler", "RandomSampler", "WeightedRandomSampler",
    "BatchSampler" },
  ["data.loader"] = { "DataLoader", "default_collate" },
  ["data.io"] = { "read_csv", "write_csv", "read_idx" },
  ["data.image_file"] = { "read_image", "write_png", "write_jpeg" },
  ["data.wav"] = { "read_wav", "write_wav" },
  ["data.table"] = { "Table", "read_table", "Categories" },
})
