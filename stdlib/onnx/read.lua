-- stdlib/onnx/read.lua: what each op of ONNX computes: a function (node, inputs ...) of tensors
-- that gives the op's outputs; an input that is left out is nil. Positions count from 0 in here.

local read = {}

for _, family in ipairs { "elementwise", "shape", "index", "reduce", "linear", "pool", "norm",
  "recurrent", "image", "resize", "detection", "quantization", "attention", "signal", "random",
  "control", "sequence", "cast", "text" } do
  for name, run in pairs(require("moonlet.onnx.read." .. family)) do
    -- What stands behind a line is shared between families.
    if not name:find "^_" then read[name] = run end
  end
end

-- Without a domain only onnxruntime knows these.
for name, run in pairs(require("moonlet.onnx.read.microsoft")._plain) do read[name] = run end

-- How many inputs an op must have, where that is not one.
read._least = require "moonlet.onnx.read.inputs"

-- Ops as opsets of before have them.
local legacy = require "moonlet.onnx.read.legacy"
read._older = legacy.older(read)
for name, run in pairs(legacy.gone) do read[name] = run end

-- Ops of other domains.
local microsoft = {}
for _, family in ipairs { "microsoft", "microsoft_attention", "microsoft_quantized" } do
  for name, run in pairs(require("moonlet.onnx.read." .. family)) do
    if not name:find "^_" then microsoft[name] = run end
  end
end
read._domains = { ["com.microsoft"] = microsoft,
  ["ai.onnx.preview.training"] = require "moonlet.onnx.read.training" }

return read
