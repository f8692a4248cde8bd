-- stdlib/data.lua: ml.data: data sets, samplers, loaders, readers and writers of files, tokenizers,
-- and transforms of images and sound.

-- Each part is loaded when one of its names is first used.

local options = require "moonlet.options"

return options.namespace("data", {}, options.late {
  ["data.dataset"] = { "Dataset", "TensorDataset", "Subset", "StackDataset", "ConcatDataset",
    "random_split" },
  ["data.iterable"] = { "IterableDataset", "ChainDataset" },
  ["data.sampler"] = { "Sampler", "SequentialSampler", "RandomSampler", "SubsetRandomSampler",
    "WeightedRandomSampler", "BatchSampler", "DistributedSampler" },
  ["data.collate"] = { "default_collate", "default_convert" },
  ["data.loader"] = { "DataLoader" },
  ["data.worker"] = { "get_worker_info" },
  ["data.io"] = { "read_idx" },
  ["data.csv"] = { "read_csv", "read_table", "write_csv", "date_fields" },
  ["data.image_file"] = { "read_image", "write_png", "write_jpeg" },
  ["data.wav"] = { "read_wav", "write_wav" },
  ["data.vision"] = { "MNIST", "FashionMNIST", "CIFAR10", "CIFAR100", "ImageFolder" },
  ["data.text"] = { "CharDataset", "TextLines", "TokenFile", "write_tokens" },
  ["data.audio"] = { "audio" },
  ["data.bpe"] = { "ByteLevelBPE", "read_tokenizer" },
  ["data.tokenizer"] = { "Tokenizer" },
  ["data.bpe_train"] = { "train_tokenizer" },
  ["data.transforms"] = { "transforms" },
  ["data.table"] = { "Table", "Categories" },
})
