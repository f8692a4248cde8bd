-- stdlib/nn.lua: ml.nn: modules, layers, losses, initialisers and helpers for neural networks. Most
-- scripts use few of them, so each part is loaded when one of its names is first used.

local class = require "moonlet.class"
local Module = require "moonlet.nn.module"
local options = require "moonlet.options"
local parameter = require "moonlet.nn.parameter"
require "moonlet.nn.hooks"
require "moonlet.nn.state"
require "moonlet.nn.show"

local nn = { Module = Module, Parameter = parameter.new, is_parameter = parameter.is_parameter }

--- A class of modules: `local Net = nn.class("Net")`, then `function Net:init(...)` and
--- `function Net:forward(x)`.
---@param name string
---@param parent? table (default nn.Module)
---@return table
function nn.class(name, parent)
  return class(name, parent or Module)
end

return options.namespace("nn", nn, options.late {
  ["nn.linear"] = { "Linear", "Identity" },
  ["nn.embedding"] = { "Embedding", "EmbeddingBag" },
  ["nn.conv"] = { "Conv1d", "Conv2d", "MaxPool2d", "AvgPool2d", "AdaptiveAvgPool2d" },
  ["nn.norm"] = { "BatchNorm1d", "BatchNorm2d", "LayerNorm", "Dropout" },
  ["nn.activation"] = { "ReLU", "ReLU6", "Sigmoid", "Tanh", "SiLU", "Mish", "SELU", "Softsign",
    "Hardsigmoid", "Hardswish", "LogSigmoid", "GELU", "ELU", "CELU", "LeakyReLU", "Hardtanh",
    "Softplus", "Threshold", "GLU", "Softmax", "Softmin", "LogSoftmax", "Flatten", "Unflatten",
    "PReLU" },
  ["nn.loss"] = { "CrossEntropyLoss", "NLLLoss", "MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss",
    "BCELoss", "BCEWithLogitsLoss", "KLDivLoss" },
  ["nn.containers"] = { "Sequential", "ModuleList", "ModuleDict", "ParameterList" },
  ["nn.init"] = { "init" },
  ["nn.functional"] = { "functional" },
  ["nn.utils"] = { "utils" },
})
