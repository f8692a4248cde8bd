-- stdlib/torch7/nn/layers.lua: layers with weights for vectors, sequences and words: Linear, Add,
-- Mul,
-- CMul, LookupTable and BatchNormalization.

local THNN = require "moonlet.torch7.thnn"
local by_kernels = require "moonlet.torch7.nn.by_kernels"
local nn = _G.nn
local torch = require "moonlet.torch7"

local kernels = THNN.kernels["torch.DoubleTensor"]

-- --- Linear --------------------------------------------------------------------------------------

local Linear, parent = torch.class("nn.Linear", "nn.Module")

function Linear:__init(inputs, outputs, bias)
  parent.__init(self)
  self.weight, self.gradWeight = torch.Tensor(outputs, inputs), torch.zeros(outputs, inputs)
  if bias ~= false then self.bias, self.gradBias = torch.Tensor(outputs), torch.zeros(outputs) end
  self:reset()
end

function Linear:noBias()
  self.bias, self.gradBias = nil, nil
  return self
end

--- Draws the weights anew, uniformly; `deviation` is their standard deviation.
function Linear:reset(deviation)
  local bound = deviation and deviation * math.sqrt(3) or 1 / math.sqrt(self.weight:size(2))
  self.weight:uniform(-bound, bound)
  if self.bias then self.bias:uniform(-bound, bound) end
  return self
end

by_kernels(Linear, "Linear", function(self)
  return self.weight, self.bias
end, function(self)
  return self.weight
end, function(self, scale)
  return self.gradInput, self.weight, self.bias, self.gradWeight, self.gradBias, nil, scale
end)

Linear.__tostring__ = function(self)
  return ("%s(%d -> %d)%s"):format(self.__typename, self.weight:size(2), self.weight:size(1),
    self.bias and "" or " without bias")
end

-- --- a number, or one for each element ---------------------------------------------------------

local Mul, module = torch.class("nn.Mul", "nn.Module")

function Mul:__init()
  module.__init(self)
  self.weight, self.gradWeight = torch.Tensor(1), torch.zeros(1)
  self:reset()
end

function Mul:reset(deviation)
  local bound = deviation and deviation * math.sqrt(3) or 1
  self.weight:uniform(-bound, bound)
end

function Mul:updateOutput(input)
  return self.output:resizeAs(input):mul(input, self.weight[1])
end

function Mul:updateGradInput(input, gradOutput)
  return self.gradInput:resizeAs(input):mul(gradOutput, self.weight[1])
end

function Mul:accGradParameters(input, gradOutput, scale)
  self.gradWeight[1] = self.gradWeight[1] + (scale or 1) * input:dot(gradOutput)
end

-- A weight for each element of an input, the same for all entries of a batch.
local function define_each(name, field, forward, grad_input, grad_weight)
  local class, base = torch.class("nn." .. name, "nn.Module")
  local gradient = "grad" .. field:gsub("^%l", string.upper)
  function class:__init(...)
    base.__init(self)
    local sizes = torch.isStorage((...)) and ... or torch.LongStorage { ... }
    self[field], self[gradient] = torch.Tensor(sizes), torch.zeros(sizes)
    self:reset()
  end
  function class:parameters() return { self[field] }, { self[gradient] } end
  function class:reset(deviation)
    local bound = deviation and deviation * math.sqrt(3) or 1 / math.sqrt(self[field]:nElement())
    self[field]:uniform(-bound, bound)
  end
  -- One row for each entry, and the weight as a row that repeats.
  local function rows(self, x)
    local flat = x:contiguous():view(-1, self[field]:nElement())
    return flat, self[field]:view(1, -1):expandAs(flat)
  end
  function class:updateOutput(input)
    local x, w = rows(self, input)
    self.output:resizeAs(input)
    forward(self.output:view(-1, self[field]:nElement()), x, w)
    return self.output
  end
  function class:updateGradInput(input, gradOutput)
    local g, w = rows(self, gradOutput)
    self.gradInput:resizeAs(input)
    grad_input(self.gradInput:view(-1, self[field]:nElement()), g, w)
    return self.gradInput
  end
  function class:accGradParameters(input, gradOutput, scale)
    local sum = grad_weight(rows(self, input), (rows(self, gradOutput))):sum(1)
    self[gradient]:view(-1):add(scale or 1, sum:view(-1))
  end
end

define_each("CMul", "weight", function(y, x, w) y:cmul(x, w) end, function(r, g, w) r:cmul(g,
  w) end,
  function(x, g) return torch.cmul(x, g) end)
define_each("Add", "bias", function(y, x, w) y:add(x, w) end, function(r, g) r:copy(g) end,
  function(_, g) return g end)

-- --- rows of a table -----------------------------------------------------------------------------

local LookupTable = torch.class("nn.LookupTable", "nn.Module")

function LookupTable:__init(count, size, padding, max_norm, norm_type)
  module.__init(self)
  self.weight, self.gradWeight = torch.Tensor(count, size), torch.zeros(count, size)
  self.paddingValue, self.maxNorm, self.normType = padding or 0, max_norm, norm_type or 2
  self.shouldScaleGradByFreq = false
  self._count = torch.IntTensor()
  self:reset()
end

function LookupTable:scaleGradByFreq()
  self.shouldScaleGradByFreq = true
  return self
end

function LookupTable:setPadding(value)
  self.paddingValue = value
  return self
end

function LookupTable:setMaxNorm(value)
  self.maxNorm = value
  return self
end

function LookupTable:reset(deviation)
  self.weight:normal(0, deviation or 1)
end

local function positions(self, input)
  if input:dim() > 2 then
    error(("LookupTable: a vector or a matrix of positions is expected, got %d dimensions"):format(
      input:dim()), 3)
  end
  return nn.utils.positions(input, self.weight):contiguous()
end

function LookupTable:updateOutput(input)
  local at = positions(self, input)
  if self.maxNorm then kernels.LookupTable_renorm(at, self.weight, self.maxNorm, self.normType) end
  self.output = self.weight:index(1, at:view(-1))
  if input:dim() == 2 then
    self.output = self.output:view(input:size(1), input:size(2), self.weight:size(2))
  end
  return self.output
end

-- There is no gradient of positions: zeros of the input's shape.
function LookupTable:updateGradInput(input)
  self.gradInput:resize(input:size()):zero()
  return self.gradInput
end

function LookupTable:accGradParameters(input, gradOutput, scale)
  self._count = self._count:type(getmetatable(self.weight).__family.int32.__typename)
  kernels.LookupTable_accGradParameters(positions(self, input), gradOutput, self.gradWeight,
    self._count, nil, nil, self.shouldScaleGradByFreq, self.paddingValue, scale or 1)
end

-- --- batch normalization -------------------------------------------------------------------------

local BatchNormalization = torch.class("nn.BatchNormalization", "nn.Module")

BatchNormalization.nDim = 2

function BatchNormalization:__init(outputs, eps, momentum, affine)
  module.__init(self)
  self.eps, self.momentum, self.affine = eps or 1e-5, momentum or 0.1, affine ~= false
  self.running_mean, self.running_var = torch.zeros(outputs), torch.ones(outputs)
  self.save_mean, self.save_std = torch.zeros(outputs), torch.zeros(outputs)
  if self.affine then
    self.weight, self.bias = torch.Tensor(outputs), torch.Tensor(outputs)
    self.gradWeight, self.gradBias = torch.zeros(outputs), torch.zeros(outputs)
  end
  self:reset()
end

function BatchNormalization:reset()
  if self.weight then
    self.weight:uniform()
    self.bias:zero()
  end
  self.running_mean:zero()
  self.running_var:fill(1)
end

local function check_input(self, input)
  if input:dim() ~= self.nDim then
    error(("%s: an input of %d dimensions is expected, got %d"):format(self.__typename, self.nDim,
      input:dim()), 3)
  end
  if input:size(2) ~= self.running_mean:nElement() then
    error(("%s: %d features are expected, got %d"):format(self.__typename,
      self.running_mean:nElement(), input:size(2)), 3)
  end
end

function BatchNormalization:updateOutput(input)
  check_input(self, input)
  kernels.BatchNormalization_updateOutput(input, self.output, self.weight, self.bias,
    self.running_mean, self.running_var, self.save_mean, self.save_std, self.train, self.momentum,
    self.eps)
  return self.output
end

local function back(self, input, gradOutput, scale, gradInput, gradWeight, gradBias)
  check_input(self, input)
  kernels.BatchNormalization_backward(input, gradOutput, gradInput, gradWeight, gradBias,
    self.weight,
    self.running_mean, self.running_var, self.save_mean, self.save_std, self.train, scale or 1,
    self.eps)
  return self.gradInput
end

function BatchNormalization:updateGradInput(input, gradOutput)
  return back(self, input, gradOutput, 1, self.gradInput)
end

function BatchNormalization:accGradParameters(input, gradOutput, scale)
  back(self, input, gradOutput, scale, nil, self.gradWeight, self.gradBias)
end

function BatchNormalization:backward(input, gradOutput, scale)
  return back(self, input, gradOutput, scale, self.gradInput, self.gradWeight, self.gradBias)
end

local SpatialBatchNormalization = torch.class("nn.SpatialBatchNormalization",
  "nn.BatchNormalization")
SpatialBatchNormalization.nDim = 4

local VolumetricBatchNormalization = torch.class("nn.VolumetricBatchNormalization",
  "nn.BatchNormalization")
VolumetricBatchNormalization.nDim = 5
