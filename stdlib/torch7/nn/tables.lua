-- stdlib/torch7/nn/tables.lua: layers whose input or output is a table of tensors.

local torch = require "moonlet.torch7"

-- --- one result of a table of tensors ----------------------------------------------------------

-- forward(output, inputs) fills a tensor of the first one's shape, backward(i, inputs, gradOutput,
-- output) gives the gradient of the i-th.
local function combine(name, forward, backward)
  local class, parent = torch.class("nn." .. name, "nn.Module")
  function class:__init()
    parent.__init(self)
    self.gradInput = {}
  end
  function class:updateOutput(inputs)
    forward(self.output:resizeAs(inputs[1]):copy(inputs[1]), inputs)
    return self.output
  end
  function class:updateGradInput(inputs, gradOutput)
    for i, input in ipairs(inputs) do
      self.gradInput[i] = self.gradInput[i] or input.new()
      self.gradInput[i]:resizeAs(input):copy(backward(i, inputs, gradOutput, self.output))
    end
    for i = #inputs + 1, #self.gradInput do self.gradInput[i] = nil end
    return self.gradInput
  end
end

combine("CAddTable", function(y, inputs)
  for i = 2, #inputs do y:add(inputs[i]) end
end, function(_, _, g) return g end)
combine("CSubTable", function(y, inputs) y:csub(inputs[2]) end, function(i, _, g)
  return i == 1 and g or torch.mul(g, -1)
end)
combine("CMulTable", function(y, inputs)
  for i = 2, #inputs do y:cmul(inputs[i]) end
end, function(i, inputs, g)
  local product = g:clone()
  for k, other in ipairs(inputs) do
    if k ~= i then product:cmul(other) end
  end
  return product
end)
combine("CDivTable", function(y, inputs) y:cdiv(inputs[2]) end, function(i, inputs, g, y)
  local part = torch.cdiv(g, inputs[2])
  return i == 1 and part or part:cmul(y):mul(-1)
end)

-- --- joining and splitting -----------------------------------------------------------------------

local JoinTable, module = torch.class("nn.JoinTable", "nn.Module")

--- Joins tensors along a dimension of inputs with `nInputDims` dimensions.
function JoinTable:__init(dimension, nInputDims)
  module.__init(self)
  self.dimension, self.nInputDims, self.gradInput = dimension, nInputDims, {}
end

local function dimension_of(self, x)
  local d = self.dimension < 0 and x:dim() + self.dimension + 1 or self.dimension
  if self.nInputDims and x:dim() > self.nInputDims then d = d + x:dim() - self.nInputDims end
  return d
end

function JoinTable:updateOutput(inputs)
  self.output = torch.cat(inputs, dimension_of(self, inputs[1]))
  return self.output
end

function JoinTable:updateGradInput(inputs, gradOutput)
  local d, at = dimension_of(self, inputs[1]), 1
  self.gradInput = {}
  for i, input in ipairs(inputs) do
    self.gradInput[i] = gradOutput:narrow(d, at, input:size(d)):clone()
    at = at + input:size(d)
  end
  return self.gradInput
end

local SplitTable = torch.class("nn.SplitTable", "nn.Module")

function SplitTable:__init(dimension, nInputDims)
  module.__init(self)
  self.dimension, self.nInputDims = dimension, nInputDims
end

function SplitTable:updateOutput(input)
  local d = dimension_of(self, input)
  self.output = {}
  for i = 1, input:size(d) do self.output[i] = input:select(d, i) end
  return self.output
end

function SplitTable:updateGradInput(input, gradOutputs)
  local d = dimension_of(self, input)
  self.gradInput:resizeAs(input)
  for i = 1, input:size(d) do self.gradInput:select(d, i):copy(gradOutputs[i]) end
  return self.gradInput
end

-- --- parts of tables -----------------------------------------------------------------------------

-- Zeros of a value's shape.
local function zeros_like(value)
  if torch.isTensor(value) then return value.new():resizeAs(value):zero() end
  local out = {}
  for key, item in pairs(value) do out[key] = zeros_like(item) end
  return out
end

local SelectTable = torch.class("nn.SelectTable", "nn.Module")

function SelectTable:__init(index)
  module.__init(self)
  self.index, self.gradInput = index, {}
end

local function key_of(self, inputs)
  local index = self.index
  return type(index) == "number" and index < 0 and #inputs + index + 1 or index
end

function SelectTable:updateOutput(inputs)
  self.output = inputs[key_of(self, inputs)]
  if self.output == nil then
    error(("SelectTable: the input has no element %s"):format(tostring(self.index)), 2)
  end
  return self.output
end

function SelectTable:updateGradInput(inputs, gradOutput)
  self.gradInput = zeros_like(inputs)
  self.gradInput[key_of(self, inputs)] = gradOutput
  return self.gradInput
end

local FlattenTable = torch.class("nn.FlattenTable", "nn.Module")

function FlattenTable:__init()
  module.__init(self)
  self.output, self.gradInput = {}, {}
end

local function flatten(value, into)
  if type(value) ~= "table" then
    into[#into + 1] = value
    return into
  end
  for _, item in ipairs(value) do flatten(item, into) end
  return into
end

function FlattenTable:updateOutput(input)
  self.output = flatten(input, {})
  return self.output
end

function FlattenTable:updateGradInput(input, gradOutputs)
  local at = 0
  local function nested(value)
    if type(value) ~= "table" then
      at = at + 1
      return gradOutputs[at]
    end
    local out = {}
    for i, item in ipairs(value) do out[i] = nested(item) end
    return out
  end
  self.gradInput = nested(input)
  return self.gradInput
end

-- --- products of two tensors ---------------------------------------------------------------------

local MM = torch.class("nn.MM", "nn.Module")

--- The product of two matrices, or of each pair of two batches, transposed where that is said.
function MM:__init(transposed_a, transposed_b)
  module.__init(self)
  self.transA, self.transB, self.gradInput = transposed_a or false, transposed_b or false, {}
end

local function turned(x, turn)
  return turn and x:transpose(x:dim() - 1, x:dim()) or x
end

local function multiplied(a, b) return a:dim() == 3 and torch.bmm(a, b) or torch.mm(a, b) end

function MM:updateOutput(inputs)
  self.output = multiplied(turned(inputs[1], self.transA), turned(inputs[2], self.transB))
  return self.output
end

function MM:updateGradInput(inputs, gradOutput)
  local a, b = turned(inputs[1], self.transA), turned(inputs[2], self.transB)
  self.gradInput = {
    turned(multiplied(gradOutput, turned(b, true)), self.transA):contiguous(),
    turned(multiplied(turned(a, true), gradOutput), self.transB):contiguous(),
  }
  return self.gradInput
end
