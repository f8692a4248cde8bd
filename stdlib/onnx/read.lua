-- stdlib/onnx/read.lua: what each op of ONNX computes: a function (node, inputs ...) of tensors
-- that gives the op's outputs; an input that is left out is nil. Positions count from 0 in here.

local read = {}

for _, family in ipairs { "elementwise", "shape", "index", "reduce", "linear", "pool", "norm",
  "recurrent", "image", "quantization", "detection",
  "resize", "signal", "random",
  "control", "sequence", "cast", "text" } do
  for name, run in pairs(require("moonlet.onnx.read." .. family)) do
    -- What stands behind a line is shared between families.
    if not name:find "^_" then read[name] = run end
  end
end

-- How many inputs an op must have, where that is not one.
local least = { Constant = 0, Loop = 0, Scan = 0, SequenceEmpty = 0, Optional = 0,
  OptionalHasElement = 0, RandomUniform = 0, RandomNormal = 0, MelWeightMatrix = 5, ConstantFill = 0 }
for count, names in ipairs { "", "Add Sub Mul Div Pow Mod Equal Less Greater LessOrEqual "
    .. "GreaterOrEqual And Or Xor BitwiseAnd BitwiseOr BitwiseXor BitShift PRelu CastLike Expand "
    .. "Tile Gather GatherElements GatherND Compress NegativeLogLikelihoodLoss CumSum CumProd MatMul Gemm "
    .. "Conv ConvTranspose LayerNormalization RMSNormalization GridSample SequenceAt SequenceInsert "
    .. "SoftmaxCrossEntropyLoss ReverseSequence StringConcat STFT",
    "Where Range ScatterND ScatterElements Scatter OneHot InstanceNormalization GroupNormalization "
    .. "LSTM GRU RNN", "", "BatchNormalization" } do
  for name in names:gmatch "%S+" do least[name] = count end
end
for name in ("Concat Max Min Sum Mean Einsum"):gmatch "%S+" do least[name] = "all" end
read._least = least

-- Ops as opsets of before have them.
local legacy = require "moonlet.onnx.read.legacy"
read._older = legacy.older(read)
for name, run in pairs(legacy.gone) do read[name] = run end

-- Ops of other domains.
read._domains = read._domains or {}
read._domains["ai.onnx.preview.training"] = require "moonlet.onnx.read.training"
for _, name in ipairs { "Adagrad", "Adam", "Momentum" } do
  least["ai.onnx.preview.training:" .. name] = 5
end

return read
