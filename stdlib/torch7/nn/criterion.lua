-- stdlib/torch7/nn/criterion.lua: losses: `criterion:forward(input, target)` is a number,
-- `criterion:backward(input, target)` the gradient of the input.

local THNN = require "moonlet.torch7.thnn"
local nn = _G.nn
local torch = require "moonlet.torch7"

local kernels = THNN.kernels["torch.DoubleTensor"]

local Criterion = torch.class "nn.Criterion"

function Criterion:__init()
  self.gradInput = torch.Tensor()
  self.output = 0
  self.sizeAverage = true
end

function Criterion:updateOutput() return self.output end
function Criterion:updateGradInput() return self.gradInput end
function Criterion:forward(input, target) return self:updateOutput(input, target) end
function Criterion:backward(input, target) return self:updateGradInput(input, target) end

Criterion.clone = nn.Module.clone
Criterion.share = nn.Module.share
Criterion.float, Criterion.double = nn.Module.float, nn.Module.double
Criterion.cuda = nn.Module.cuda

function Criterion:type(type_name, cache)
  if not type_name then return self.gradInput:type() end
  cache = cache or {}
  cache[self] = true
  for key, value in pairs(self) do self[key] = nn.utils.recursiveType(value, type_name, cache) end
  return self
end

Criterion.__call__ = function(self, input, target)
  self.output = self:forward(input, target)
  self.gradInput = self:backward(input, target)
  return self.output, self.gradInput
end

Criterion.__tostring__ = function(self) return (self.__typename) end

-- --- by THNN's functions ----------------------------------------------------------------------

-- rest(self) gives what the functions get besides whether to average; prepared(target, input) the
-- target as they take it.
local function define(name, init, rest, prepared)
  local class, parent = torch.class("nn." .. name, "nn.Criterion")
  function class:__init(...)
    parent.__init(self)
    self.output_tensor = torch.zeros(1)
    init(self, ...)
  end
  local function target_of(input, target) return prepared and prepared(target, input) or target end
  function class:updateOutput(input, target)
    kernels[name .. "_updateOutput"](input, target_of(input, target), self.output_tensor,
      self.sizeAverage, rest(self))
    self.output = self.output_tensor[1]
    return self.output
  end
  function class:updateGradInput(input, target)
    kernels[name .. "_updateGradInput"](input, target_of(input, target), self.gradInput,
      self.sizeAverage, rest(self))
    return self.gradInput
  end
end

local function average(self, value)
  if value ~= nil then self.sizeAverage = value end
end
local function nothing() end

for _, name in ipairs { "MSECriterion", "AbsCriterion", "SmoothL1Criterion", "SoftMarginCriterion",
  "DistKLDivCriterion" } do
  define(name, average, nothing)
end

define("MarginCriterion", function(self, margin) self.margin = margin or 1 end,
  function(self) return self.margin end)

define("BCECriterion", function(self, weights, size_average)
  self.weights = weights
  average(self, size_average)
end, function(self) return self.weights end)

-- A class as a number is that of a single input.
local function classes(target, input)
  if type(target) == "number" then target = torch.LongTensor { target } end
  return nn.utils.positions(target, input)
end

define("ClassNLLCriterion", function(self, weights, size_average, ignored)
  self.weights, self.ignoreIndex = weights, ignored or -100
  self.total_weight_tensor = torch.ones(1)
  average(self, size_average)
end, function(self) return self.weights, self.total_weight_tensor, self.ignoreIndex end, classes)

define("SpatialClassNLLCriterion", function(self, weights, size_average)
  self.weights, self.total_weight_tensor = weights, torch.ones(1)
  average(self, size_average)
end, function(self) return self.weights, self.total_weight_tensor end, classes)

define("MultiMarginCriterion", function(self, p, weights, margin)
  self.p, self.weights, self.margin = p or 1, weights, margin or 1
end, function(self) return self.p, self.weights, self.margin end, classes)

-- --- of others -----------------------------------------------------------------------------------

local CrossEntropyCriterion, parent = torch.class("nn.CrossEntropyCriterion", "nn.Criterion")

function CrossEntropyCriterion:__init(weights, size_average)
  parent.__init(self)
  self.lsm = nn.LogSoftMax()
  self.nll = nn.ClassNLLCriterion(weights, size_average)
end

local function squeezed(x, target)
  if type(target) == "number" then return x:squeeze(), target end
  return x:dim() > 2 and x:view(x:size(1), -1) or x, target:dim() > 1 and target:view(-1) or target
end

function CrossEntropyCriterion:updateOutput(input, target)
  local x, t = squeezed(input, target)
  self.output = self.nll:updateOutput(self.lsm:updateOutput(x), t)
  return self.output
end

function CrossEntropyCriterion:updateGradInput(input, target)
  local x, t = squeezed(input, target)
  local g = self.lsm:updateGradInput(x, self.nll:updateGradInput(self.lsm.output, t))
  self.gradInput = g:view(input:size())
  return self.gradInput
end

local MultiCriterion = torch.class("nn.MultiCriterion", "nn.Criterion")

--- The weighted sum of criteria on one input and target.
function MultiCriterion:__init()
  parent.__init(self)
  self.criterions, self.weights = {}, {}
end

function MultiCriterion:add(criterion, weight)
  table.insert(self.criterions, criterion)
  table.insert(self.weights, weight or 1)
  return self
end

function MultiCriterion:updateOutput(input, target)
  self.output = 0
  for i, criterion in ipairs(self.criterions) do
    self.output = self.output + self.weights[i] * criterion:updateOutput(input, target)
  end
  return self.output
end

function MultiCriterion:updateGradInput(input, target)
  self.gradInput:resizeAs(input):zero()
  for i, criterion in ipairs(self.criterions) do
    self.gradInput:add(self.weights[i], criterion:updateGradInput(input, target))
  end
  return self.gradInput
end

local ParallelCriterion = torch.class("nn.ParallelCriterion", "nn.Criterion")

--- The weighted sum of criteria, each on its part of a table of inputs and of targets.
function ParallelCriterion:__init(repeat_target)
  parent.__init(self)
  self.criterions, self.weights, self.gradInput = {}, {}, {}
  self.repeatTarget = repeat_target or false
end

ParallelCriterion.add = MultiCriterion.add

function ParallelCriterion:updateOutput(inputs, targets)
  self.output = 0
  for i, criterion in ipairs(self.criterions) do
    local target = self.repeatTarget and targets or targets[i]
    self.output = self.output + self.weights[i] * criterion:updateOutput(inputs[i], target)
  end
  return self.output
end

function ParallelCriterion:updateGradInput(inputs, targets)
  for i, criterion in ipairs(self.criterions) do
    local target = self.repeatTarget and targets or targets[i]
    self.gradInput[i] = torch.mul(criterion:updateGradInput(inputs[i], target), self.weights[i])
  end
  return self.gradInput
end
