-- stdlib/data/transforms.lua: ml.data.transforms: transforms of images, for preprocessing and
-- augmentation.

-- Each part is loaded when one of its names is first used.

local options = require "moonlet.options"

return options.namespace("data.transforms", {}, options.late {
  ["data.transforms.basic"] = { "Compose", "Lambda", "RandomApply", "RandomChoice", "Normalize",
    "ToTensor", "ConvertImageDtype" },
  ["data.transforms.geometry"] = { "Resize", "CenterCrop", "RandomCrop", "RandomResizedCrop", "Pad",
    "RandomHorizontalFlip", "RandomVerticalFlip", "RandomRotation" },
  ["data.transforms.color"] = { "Grayscale", "RandomGrayscale", "ColorJitter", "RandomErasing" },
})
