-- stdlib/torch7/nn/elementwise.lua: layers of single elements, most of them by THNN's functions.

local by_kernels = require "moonlet.torch7.nn.by_kernels"
local torch = require "moonlet.torch7"

-- A layer by THNN's functions `name`. `fields` are those given to its constructor, with their
-- values
-- where they are left out; `of_output` says that the gradient reads the output.
local function define(name, fields, of_output, kernel)
  local class, parent = torch.class("nn." .. name, "nn.Module")
  local count = #fields
  function class:__init(...)
    parent.__init(self)
    local given = { ... }
    for i, field in ipairs(fields) do
      local value = given[i]
      if value == nil then value = field[2] end
      self[field[1]] = value
    end
  end
  local function numbers(self)
    local values = {}
    for i, field in ipairs(fields) do values[i] = self[field[1]] end
    return table.unpack(values, 1, count)
  end
  by_kernels(class, kernel or name, numbers, of_output and function(self)
    return self.output, numbers(self)
  end or numbers)
end

define("Abs", {})
define("Square", {})
define("Sqrt", {}, true)
define("Tanh", {}, true)
define("Sigmoid", {}, true)
define("LogSigmoid", {})
define("SoftMax", {}, true)
define("LogSoftMax", {}, true)
define("SoftPlus", { { "beta", 1 }, { "threshold", 20 } }, true)
define("ELU", { { "alpha", 1 }, { "inplace", false } }, true)
define("LeakyReLU", { { "negval", 0.01 }, { "inplace", false } })
define("HardTanh", { { "min_val", -1 }, { "max_val", 1 }, { "inplace", false } })
define("HardShrink", { { "lambda", 0.5 } })
define("SoftShrink", { { "lambda", 0.5 } })
define("Threshold", { { "threshold", 0 }, { "val", 0 }, { "inplace", false } })
define("SpatialSoftMax", {}, true, "SoftMax")
define("SpatialLogSoftMax", {}, true, "LogSoftMax")

local ReLU, threshold = torch.class("nn.ReLU", "nn.Threshold")
function ReLU:__init(inplace) threshold.__init(self, 0, 0, inplace or false) end

local Clamp, hard_tanh = torch.class("nn.Clamp", "nn.HardTanh")
function Clamp:__init(least, most) hard_tanh.__init(self, least, most) end

local ReLU6 = torch.class("nn.ReLU6", "nn.HardTanh")
function ReLU6:__init(inplace) hard_tanh.__init(self, 0, 6, inplace or false) end

-- --- by torch's own functions -----------------------------------------------------------------

-- forward(self, output, input) and backward(self, gradInput, input, gradOutput) change what they
-- get.
local function simple(name, fields, forward, backward)
  local class, parent = torch.class("nn." .. name, "nn.Module")
  function class:__init(...)
    parent.__init(self)
    for i, field in ipairs(fields) do self[field] = (select(i, ...)) end
  end
  function class:updateOutput(input)
    forward(self, self.output:resizeAs(input), input)
    return self.output
  end
  function class:updateGradInput(input, gradOutput)
    backward(self, self.gradInput:resizeAs(input), input, gradOutput)
    return self.gradInput
  end
end

simple("Exp", {}, function(_, y, x) y:exp(x) end,
  function(self, g, _, grad) g:cmul(self.output, grad) end)
simple("Log", {}, function(_, y, x) y:log(x) end, function(_, g, x, grad) g:cdiv(grad, x) end)
simple("Power", { "pow" }, function(self, y, x) y:pow(x, self.pow) end, function(self, g, x, grad)
  g:pow(x, self.pow - 1):mul(self.pow):cmul(grad)
end)
simple("MulConstant", { "constant_scalar" }, function(self, y, x)
  y:mul(x, self.constant_scalar)
end, function(self, g, _, grad) g:mul(grad, self.constant_scalar) end)
simple("AddConstant", { "constant_scalar" }, function(self, y, x)
  y:add(x, self.constant_scalar)
end, function(_, g, _, grad) g:copy(grad) end)
simple("SoftSign", {}, function(_, y, x) y:abs(x):add(1):cinv():cmul(x) end,
  function(_, g, x, grad) g:abs(x):add(1):pow(-2):cmul(grad) end)
simple("GradientReversal", { "lambda" }, function(_, y, x) y:copy(x) end,
  function(self, g, _, grad) g:mul(grad, -(self.lambda or 1)) end)

-- --- drops ---------------------------------------------------------------------------------------

local Dropout, module = torch.class("nn.Dropout", "nn.Module")

--- Zeroes elements with probability `p` in training and scales the others, so that the mean stays.
function Dropout:__init(p)
  module.__init(self)
  self.p = p or 0.5
  if not (self.p >= 0 and self.p < 1) then
    error(("Dropout: a probability from 0 to below 1 is expected, got %s"):format(tostring(p)), 2)
  end
  self.noise = torch.Tensor()
end

-- The factors of elements, drawn for each forward pass.
function Dropout:draw(input)
  return self.noise:resizeAs(input):bernoulli(1 - self.p):div(1 - self.p)
end

function Dropout:updateOutput(input)
  self.output:resizeAs(input)
  if self.train and self.p > 0 then
    self.output:cmul(input, self:draw(input))
  else
    self.output:copy(input)
  end
  return self.output
end

function Dropout:updateGradInput(input, gradOutput)
  self.gradInput:resizeAs(input)
  if self.train and self.p > 0 then
    self.gradInput:cmul(gradOutput, self.noise:expandAs(gradOutput))
  else
    self.gradInput:copy(gradOutput)
  end
  return self.gradInput
end

function Dropout:clearState()
  self.noise:set()
  return module.clearState(self)
end

Dropout.__tostring__ = function(self) return ("%s(%g)"):format(self.__typename, self.p) end

-- Whole planes are zeroed.
local SpatialDropout = torch.class("nn.SpatialDropout", "nn.Dropout")

function SpatialDropout:draw(input)
  local sizes = input:size():totable()
  sizes[#sizes], sizes[#sizes - 1] = 1, 1
  self.noise:resize(torch.LongStorage(sizes)):bernoulli(1 - self.p):div(1 - self.p)
  return self.noise:expandAs(input)
end
