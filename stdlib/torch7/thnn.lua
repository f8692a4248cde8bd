-- stdlib/torch7/thnn.lua: the module `nn.THNN` of Torch7's nn: the functions behind its layers and
-- criteria, `X_updateOutput` and their like, each family loaded when one of its names is first
-- used.

local core = require "moonlet.torch7.core"

local THNN = {}

-- The family of each name before its underscore.
local FAMILIES = {
  activation = "Abs ELU GatedLinear HardShrink HardTanh LeakyReLU LogSigmoid LogSoftMax PReLU "
    .. "RReLU Sigmoid SoftMax SoftPlus SoftShrink Sqrt Square Tanh Threshold",
  criterion = "AbsCriterion BCECriterion ClassNLLCriterion DistKLDivCriterion L1Cost MSECriterion "
    .. "MarginCriterion MultiLabelMarginCriterion MultiMarginCriterion SmoothL1Criterion "
    .. "SoftMarginCriterion SpatialClassNLLCriterion",
  conv = "SpatialConvolutionMM SpatialDepthWiseConvolution SpatialDilatedConvolution "
    .. "SpatialFullConvolution SpatialFullDilatedConvolution TemporalConvolution "
    .. "TemporalRowConvolution VolumetricConvolution VolumetricConvolutionMM "
    .. "VolumetricDilatedConvolution VolumetricFullConvolution VolumetricFullDilatedConvolution",
  maps = "SpatialConvolutionLocal SpatialConvolutionMap SpatialFullConvolutionMap",
  pooling = "SpatialAdaptiveAveragePooling SpatialAdaptiveMaxPooling SpatialAveragePooling "
    .. "SpatialDilatedMaxPooling SpatialFractionalMaxPooling SpatialMaxPooling SpatialMaxUnpooling "
    .. "SpatialSubSampling TemporalMaxPooling TemporalSubSampling VolumetricAveragePooling "
    .. "VolumetricDilatedMaxPooling VolumetricFractionalMaxPooling VolumetricMaxPooling "
    .. "VolumetricMaxUnpooling FeatureLPPooling",
  sampling = "SpatialReflectionPadding SpatialReplicationPadding SpatialUpSamplingBilinear "
    .. "SpatialUpSamplingNearest VolumetricReplicationPadding VolumetricUpSamplingNearest "
    .. "VolumetricUpSamplingTrilinear",
  normalization = "BatchNormalization LookupTable Linear",
  sparse = "IndexLinear SparseLinear",
}

local family_of = {}
for family, names in pairs(FAMILIES) do
  for name in names:gmatch "%S+" do family_of[name] = family end
end

-- Takes a name's family in; nil where there is none.
local function load_name(kernels, key)
  local family = type(key) == "string" and family_of[key:match "^(.-)_" or key]
  if not family then return nil end
  for name, f in pairs(require("moonlet.torch7.thnn." .. family)) do rawset(kernels, name, f) end
  return rawget(kernels, key)
end

local kernels = setmetatable({}, { __index = load_name })

-- One table for all types: the kernels look at what they are given.
THNN.kernels = {}
core.each_class(function(mt)
  if core.is_floating(mt) then
    mt.THNN = kernels
    THNN.kernels[mt.__typename] = kernels
  end
  -- The functions change what they are given, so that a tensor stands for itself.
  mt.cdata = function(x) return x end
end)

-- What stands for a tensor that is left out.
THNN.NULL = nil

function THNN.getState() return nil end
function THNN.optionalTensor(x) return x end

--- Calls a function by name and type of tensors.
function THNN.runKernel(name, type_name, ...)
  local table_of = THNN.kernels[type_name]
    or core.fail("THNN: there are no functions for %s", tostring(type_name))
  local f = table_of[name]
    or core.fail("THNN: there is no function '%s' for %s", tostring(name), type_name)
  return f(...)
end

--- The names before the underscore, in order; what tests count.
function THNN.names()
  local out = {}
  for name in pairs(family_of) do out[#out + 1] = name end
  table.sort(out)
  return out
end

-- Some of nn's files want LuaJIT's ffi.
if not package.preload.ffi then
  package.preload.ffi = function() return require "moonlet.torch7.ffi" end
end

return THNN
