-- stdlib/torch7/nn/images.lua: layers of images and sequences: convolutions, pooling, padding and
-- enlarging, by THNN's functions.

local THNN = require "moonlet.torch7.thnn"
local nn = _G.nn
local torch = require "moonlet.torch7"

local kernels = THNN.kernels["torch.DoubleTensor"]

-- --- convolutions --------------------------------------------------------------------------------

local SpatialConvolution, parent = torch.class("nn.SpatialConvolution", "nn.Module")

local function weights(self, first, second, kW, kH, outputs)
  self.weight, self.gradWeight = torch.Tensor(first, second, kH, kW),
    torch.zeros(first, second, kH, kW)
  self.bias, self.gradBias = torch.Tensor(outputs), torch.zeros(outputs)
end

function SpatialConvolution:__init(inputs, outputs, kW, kH, dW, dH, padW, padH)
  parent.__init(self)
  self.nInputPlane, self.nOutputPlane, self.kW, self.kH = inputs, outputs, kW, kH
  self.dW, self.dH, self.padW = dW or 1, dH or 1, padW or 0
  self.padH = padH or self.padW
  weights(self, outputs, inputs, kW, kH, outputs)
  self:reset()
end

function SpatialConvolution:noBias()
  self.bias, self.gradBias = nil, nil
  return self
end

function SpatialConvolution:reset(deviation)
  local bound = deviation and deviation * math.sqrt(3)
    or 1 / math.sqrt(self.kW * self.kH * self.nInputPlane)
  self.weight:uniform(-bound, bound)
  if self.bias then self.bias:uniform(-bound, bound) end
end

local function window(self) return self.kW, self.kH, self.dW, self.dH, self.padW, self.padH end

function SpatialConvolution:updateOutput(input)
  kernels.SpatialConvolutionMM_updateOutput(input, self.output, self.weight, self.bias, nil, nil,
    window(self))
  return self.output
end

function SpatialConvolution:updateGradInput(input, gradOutput)
  if not self.gradInput then return nil end
  kernels.SpatialConvolutionMM_updateGradInput(input, gradOutput, self.gradInput, self.weight, nil,
    nil,
    window(self))
  return self.gradInput
end

function SpatialConvolution:accGradParameters(input, gradOutput, scale)
  kernels.SpatialConvolutionMM_accGradParameters(input, gradOutput, self.gradWeight, self.gradBias,
    nil,
    nil, self.kW, self.kH, self.dW, self.dH, self.padW, self.padH, scale or 1)
end

SpatialConvolution.__tostring__ = function(self)
  return ("%s(%d -> %d, %dx%d, %d,%d, %d,%d)"):format(self.__typename, self.nInputPlane,
    self.nOutputPlane, window(self))
end

torch.class("nn.SpatialConvolutionMM", "nn.SpatialConvolution")

local SpatialFullConvolution = torch.class("nn.SpatialFullConvolution", "nn.SpatialConvolution")

function SpatialFullConvolution:__init(inputs, outputs, kW, kH, dW, dH, padW, padH, adjW, adjH)
  SpatialConvolution.__init(self, inputs, outputs, kW, kH, dW, dH, padW, padH)
  self.adjW, self.adjH = adjW or 0, adjH or 0
  weights(self, inputs, outputs, kW, kH, outputs)
  self:reset()
end

function SpatialFullConvolution:updateOutput(input)
  kernels.SpatialFullConvolution_updateOutput(input, self.output, self.weight, self.bias, nil, nil,
    self.kW, self.kH, self.dW, self.dH, self.padW, self.padH, self.adjW, self.adjH)
  return self.output
end

function SpatialFullConvolution:updateGradInput(input, gradOutput)
  if not self.gradInput then return nil end
  kernels.SpatialFullConvolution_updateGradInput(input, gradOutput, self.gradInput, self.weight,
    nil,
    self.kW, self.kH, self.dW, self.dH, self.padW, self.padH, self.adjW, self.adjH)
  return self.gradInput
end

function SpatialFullConvolution:accGradParameters(input, gradOutput, scale)
  kernels.SpatialFullConvolution_accGradParameters(input, gradOutput, self.gradWeight,
    self.gradBias,
    nil, nil, self.kW, self.kH, self.dW, self.dH, self.padW, self.padH, self.adjW, self.adjH,
    scale or 1)
end

local TemporalConvolution, module = torch.class("nn.TemporalConvolution", "nn.Module")

function TemporalConvolution:__init(inputs, outputs, kW, dW)
  module.__init(self)
  self.inputFrameSize, self.outputFrameSize, self.kW, self.dW = inputs, outputs, kW, dW or 1
  self.weight, self.gradWeight = torch.Tensor(outputs, inputs * kW), torch.zeros(outputs,
    inputs * kW)
  self.bias, self.gradBias = torch.Tensor(outputs), torch.zeros(outputs)
  self:reset()
end

function TemporalConvolution:reset(deviation)
  local bound = deviation and deviation * math.sqrt(3)
    or 1 / math.sqrt(self.kW * self.inputFrameSize)
  self.weight:uniform(-bound, bound)
  self.bias:uniform(-bound, bound)
end

function TemporalConvolution:updateOutput(input)
  kernels.TemporalConvolution_updateOutput(input, self.output, self.weight, self.bias, self.kW,
    self.dW,
    self.inputFrameSize, self.outputFrameSize)
  return self.output
end

function TemporalConvolution:updateGradInput(input, gradOutput)
  kernels.TemporalConvolution_updateGradInput(input, gradOutput, self.gradInput, self.weight,
    self.kW,
    self.dW)
  return self.gradInput
end

function TemporalConvolution:accGradParameters(input, gradOutput, scale)
  kernels.TemporalConvolution_accGradParameters(input, gradOutput, self.gradWeight, self.gradBias,
    self.kW, self.dW, scale or 1)
end

-- --- pooling -------------------------------------------------------------------------------------

local SpatialMaxPooling = torch.class("nn.SpatialMaxPooling", "nn.Module")

function SpatialMaxPooling:__init(kW, kH, dW, dH, padW, padH)
  module.__init(self)
  self.kW, self.kH, self.dW, self.dH = kW, kH, dW or kW, dH or kH
  self.padW, self.padH, self.ceil_mode = padW or 0, padH or 0, false
  self.indices = torch.LongTensor()
end

local function set_ceil(value)
  return function(self)
    self.ceil_mode = value
    return self
  end
end
SpatialMaxPooling.ceil, SpatialMaxPooling.floor = set_ceil(true), set_ceil(false)

function SpatialMaxPooling:updateOutput(input)
  self.indices = nn.utils.positions(self.indices, input)
  kernels.SpatialMaxPooling_updateOutput(input, self.output, self.indices, self.kW, self.kH,
    self.dW,
    self.dH, self.padW, self.padH, self.ceil_mode)
  return self.output
end

function SpatialMaxPooling:updateGradInput(input, gradOutput)
  kernels.SpatialMaxPooling_updateGradInput(input, gradOutput, self.gradInput, self.indices)
  return self.gradInput
end

function SpatialMaxPooling:clearState()
  self.indices:set()
  return module.clearState(self)
end

local SpatialAveragePooling = torch.class("nn.SpatialAveragePooling", "nn.Module")

function SpatialAveragePooling:__init(kW, kH, dW, dH, padW, padH)
  module.__init(self)
  self.kW, self.kH, self.dW, self.dH = kW, kH, dW or 1, dH or 1
  self.padW, self.padH, self.ceil_mode = padW or 0, padH or 0, false
  self.count_include_pad, self.divide = true, true
end

SpatialAveragePooling.ceil, SpatialAveragePooling.floor = set_ceil(true), set_ceil(false)

local function set_count(value)
  return function(self)
    self.count_include_pad = value
    return self
  end
end
SpatialAveragePooling.setCountIncludePad = set_count(true)
SpatialAveragePooling.setCountExcludePad = set_count(false)

function SpatialAveragePooling:updateOutput(input)
  kernels.SpatialAveragePooling_updateOutput(input, self.output, self.kW, self.kH, self.dW, self.dH,
    self.padW, self.padH, self.ceil_mode, self.count_include_pad)
  if not self.divide then self.output:mul(self.kW * self.kH) end
  return self.output
end

function SpatialAveragePooling:updateGradInput(input, gradOutput)
  kernels.SpatialAveragePooling_updateGradInput(input, gradOutput, self.gradInput, self.kW, self.kH,
    self.dW, self.dH, self.padW, self.padH, self.ceil_mode, self.count_include_pad)
  if not self.divide then self.gradInput:mul(self.kW * self.kH) end
  return self.gradInput
end

-- --- enlarging and padding -----------------------------------------------------------------------

local SpatialUpSamplingNearest = torch.class("nn.SpatialUpSamplingNearest", "nn.Module")

function SpatialUpSamplingNearest:__init(scale)
  module.__init(self)
  self.scale_factor = scale
end

function SpatialUpSamplingNearest:updateOutput(input)
  kernels.SpatialUpSamplingNearest_updateOutput(input, self.output, self.scale_factor)
  return self.output
end

function SpatialUpSamplingNearest:updateGradInput(input, gradOutput)
  kernels.SpatialUpSamplingNearest_updateGradInput(input, gradOutput, self.gradInput,
    self.scale_factor)
  return self.gradInput
end

local SpatialZeroPadding = torch.class("nn.SpatialZeroPadding", "nn.Module")

function SpatialZeroPadding:__init(left, right, top, bottom)
  module.__init(self)
  self.pad_l, self.pad_r = left, right or left
  self.pad_t, self.pad_b = top or left, bottom or left
end

-- The part of the padded tensor and that of the plain one that hold the same.
local function overlap(self, padded, plain)
  local before = { self.pad_t, self.pad_l }
  for i = 1, 2 do
    local d = plain:dim() - 2 + i
    local size = plain:size(d) + math.min(before[i], 0)
      + math.min(i == 1 and self.pad_b or self.pad_r, 0)
    if size < 1 then
      error(("SpatialZeroPadding: nothing is left of a size of %d"):format(plain:size(d)), 3)
    end
    padded = padded:narrow(d, math.max(before[i], 0) + 1, size)
    plain = plain:narrow(d, math.max(-before[i], 0) + 1, size)
  end
  return padded, plain
end

function SpatialZeroPadding:updateOutput(input)
  local sizes = input:size()
  local d = #sizes
  sizes[d - 1] = sizes[d - 1] + self.pad_t + self.pad_b
  sizes[d] = sizes[d] + self.pad_l + self.pad_r
  self.output:resize(sizes):zero()
  local padded, plain = overlap(self, self.output, input)
  padded:copy(plain)
  return self.output
end

function SpatialZeroPadding:updateGradInput(input, gradOutput)
  self.gradInput:resizeAs(input):zero()
  local padded, plain = overlap(self, gradOutput, self.gradInput)
  plain:copy(padded)
  return self.gradInput
end
