-- stdlib/torch7/nn/images.lua: layers of images and sequences: convolutions, pooling, padding and
-- enlarging, by THNN's functions.

local by_kernels = require "moonlet.torch7.nn.by_kernels"
local nn = _G.nn
local torch = require "moonlet.torch7"

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

by_kernels(SpatialConvolution, "SpatialConvolutionMM", function(self)
  return self.weight, self.bias, nil, nil, window(self)
end, function(self)
  return self.weight, nil, nil, window(self)
end, function(self, scale)
  return self.gradWeight, self.gradBias, nil, nil, self.kW, self.kH, self.dW, self.dH, self.padW,
    self.padH, scale
end)

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

by_kernels(SpatialFullConvolution, "SpatialFullConvolution", function(self)
  return self.weight, self.bias, nil, nil, self.kW, self.kH, self.dW, self.dH, self.padW, self.padH,
    self.adjW, self.adjH
end, function(self)
  return self.weight, nil, window(self)
end, function(self, scale)
  return self.gradWeight, self.gradBias, nil, nil, self.kW, self.kH, self.dW, self.dH, self.padW,
    self.padH, self.adjW, self.adjH, scale
end)

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

by_kernels(TemporalConvolution, "TemporalConvolution", function(self)
  return self.weight, self.bias, self.kW, self.dW, self.inputFrameSize, self.outputFrameSize
end, function(self)
  return self.weight, self.kW, self.dW
end, function(self, scale)
  return self.gradWeight, self.gradBias, self.kW, self.dW, scale
end)

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

by_kernels(SpatialMaxPooling, "SpatialMaxPooling", function(self)
  self.indices = nn.utils.positions(self.indices, self.output)
  return self.indices, self.kW, self.kH, self.dW, self.dH, self.padW, self.padH, self.ceil_mode
end, function(self)
  return self.indices
end)

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

local function average_window(self)
  return self.kW, self.kH, self.dW, self.dH, self.padW, self.padH, self.ceil_mode,
    self.count_include_pad
end

by_kernels(SpatialAveragePooling, "SpatialAveragePooling", average_window, average_window)

-- Without a division the windows are sums.
for method, field in pairs { updateOutput = "output", updateGradInput = "gradInput" } do
  local mean = SpatialAveragePooling[method]
  SpatialAveragePooling[method] = function(self, ...)
    mean(self, ...)
    if not self.divide then self[field]:mul(self.kW * self.kH) end
    return self[field]
  end
end

-- --- enlarging and padding -----------------------------------------------------------------------

local SpatialUpSamplingNearest = torch.class("nn.SpatialUpSamplingNearest", "nn.Module")

function SpatialUpSamplingNearest:__init(scale)
  module.__init(self)
  self.scale_factor = scale
end

local function scale_of(self) return self.scale_factor end
by_kernels(SpatialUpSamplingNearest, "SpatialUpSamplingNearest", scale_of, scale_of)

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
