-- stdlib/nn.lua: ml.nn: modules, layers, losses, initialisers and helpers for neural networks. Most
-- scripts use few of them, so each part is loaded when one of its names is first used.

local class = require "moonlet.class"
local Module = require "moonlet.nn.module"
local late_methods = require "moonlet.nn.late_methods"
local options = require "moonlet.options"
local parameter = require "moonlet.nn.parameter"
require "moonlet.nn.call"
require "moonlet.nn.show"

late_methods("state", { "get_extra_state", "set_extra_state", "_save_to_state_dict", "state_dict",
  "_load_from_state_dict", "load_state_dict", "register_state_dict_pre_hook",
  "register_state_dict_post_hook", "register_load_state_dict_pre_hook",
  "register_load_state_dict_post_hook" })
late_methods("convert", { "to", "type", "to_empty", "cuda", "cpu", "float", "double", "half",
  "bfloat16" })
late_methods("hooks", { "register_forward_hook", "register_forward_pre_hook",
  "register_full_backward_hook", "register_full_backward_pre_hook" })
late_methods("copy", { "deepcopy" })
late_methods("lookup", { "get_submodule", "set_submodule", "get_parameter", "get_buffer" })
late_methods("summary", { "summary" })

local nn = { Module = Module, Parameter = parameter.new, Buffer = parameter.buffer,
  UninitializedParameter = parameter.uninitialized_parameter,
  UninitializedBuffer = parameter.uninitialized_buffer,
  is_parameter = parameter.is_parameter, is_lazy = parameter.is_uninitialized }

--- Class of modules: `local Net = nn.class("Net")`, then `function Net:init(...)` and `function
--- Net:forward(x)`.
--- > Twice = ml.nn.class "Twice"
--- > function Twice:forward(x) return x * 2 end
--- > Twice()(ml.ones(2))
---   {2., 2.}
---   Tensor (2,) float32
---@param name string the name, as the module prints
---@param parent? table the class that it inherits from: `nn.Module` unless given
---@return table
function nn.class(name, parent)
  return class(name, parent or Module)
end

return options.namespace("nn", nn, options.late {
  ["nn.linear"] = { "Linear", "Identity" },
  ["nn.embedding"] = { "Embedding", "EmbeddingBag" },
  ["nn.conv"] = { "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
    "ConvTranspose3d" },
  ["nn.pool"] = { "MaxPool1d", "MaxPool2d", "MaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d",
    "LPPool1d", "LPPool2d", "LPPool3d", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d",
    "FractionalMaxPool2d", "FractionalMaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d" },
  ["nn.padding"] = { "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "ZeroPad1d", "ZeroPad2d",
    "ZeroPad3d", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d",
    "ReplicationPad2d", "ReplicationPad3d", "CircularPad1d", "CircularPad2d", "CircularPad3d" },
  ["nn.norm"] = { "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "GroupNorm", "LayerNorm", "RMSNorm", "LocalResponseNorm", "CrossMapLRN2d" },
  ["nn.dropout"] = { "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout",
    "FeatureAlphaDropout" },
  ["nn.activation"] = { "ReLU", "ReLU6", "Sigmoid", "Tanh", "SiLU", "Mish", "SELU", "Softsign",
    "Hardsigmoid", "Hardswish", "LogSigmoid", "GELU", "ELU", "CELU", "LeakyReLU", "Hardtanh",
    "Softplus", "Threshold", "GLU", "Softmax", "Softmin", "LogSoftmax", "Softmax2d", "Hardshrink",
    "Softshrink", "Tanhshrink", "RReLU", "Flatten", "Unflatten", "PReLU" },
  ["nn.image"] = { "Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d", "PixelShuffle",
    "PixelUnshuffle", "ChannelShuffle", "Unfold", "Fold" },
  ["nn.distance"] = { "Bilinear", "CosineSimilarity", "PairwiseDistance" },
  ["nn.recurrent"] = { "RNNBase", "RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell" },
  ["nn.attention"] = { "MultiheadAttention" },
  ["nn.transformer"] = { "Transformer", "TransformerEncoder", "TransformerEncoderLayer",
    "TransformerDecoder", "TransformerDecoderLayer" },
  ["nn.loss"] = { "CrossEntropyLoss", "NLLLoss", "NLLLoss2d", "MSELoss", "L1Loss", "SmoothL1Loss",
    "HuberLoss", "BCELoss", "BCEWithLogitsLoss", "KLDivLoss", "PoissonNLLLoss", "GaussianNLLLoss",
    "CTCLoss", "MarginRankingLoss", "HingeEmbeddingLoss", "SoftMarginLoss", "CosineEmbeddingLoss",
    "TripletMarginLoss", "TripletMarginWithDistanceLoss", "MultiMarginLoss",
    "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss" },
  ["nn.softmax_loss"] = { "AdaptiveLogSoftmaxWithLoss", "LinearCrossEntropyLoss" },
  ["nn.lazy"] = { "LazyLinear", "LazyConv1d", "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d",
    "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyBatchNorm1d", "LazyBatchNorm2d",
    "LazyBatchNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d" },
  ["nn.containers"] = { "Sequential", "ModuleList", "ParameterList" },
  ["nn.dicts"] = { "ModuleDict", "ParameterDict" },
  ["nn.hooks"] = { "register_module_forward_hook", "register_module_forward_pre_hook",
    "register_module_full_backward_hook", "register_module_full_backward_pre_hook" },
  ["nn.init"] = { "init" },
  ["nn.functional"] = { "functional" },
  ["nn.static_cache"] = { "StaticCache" },
  ["nn.sync_norm"] = { "SyncBatchNorm" },
  ["nn.parallel"] = { "parallel", "DataParallel" },
  ["nn.utils"] = { "utils" },
})
