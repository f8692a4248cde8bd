-- stdlib/torch7/nn/shape.lua: layers that change the shape of a tensor, take a part of it or
-- reduce a
-- dimension.

local torch = require "moonlet.torch7"

local Identity, parent = torch.class("nn.Identity", "nn.Module")

function Identity:updateOutput(input)
  self.output = input
  return input
end

function Identity:updateGradInput(_, gradOutput)
  self.gradInput = gradOutput
  return gradOutput
end

function Identity:clearState()
  self.output = torch.isTensor(self.output) and self.output.new() or {}
  self.gradInput = torch.isTensor(self.gradInput) and self.gradInput.new() or {}
end

-- --- other shapes --------------------------------------------------------------------------------

local function sizes_of(first, ...)
  if torch.isStorage(first) then return first:totable() end
  return type(first) == "table" and first or { first, ... }
end

local function product(sizes)
  local count = 1
  for _, size in ipairs(sizes) do count = count * size end
  return count
end

local function joined(first, rest)
  local sizes = { first }
  for _, size in ipairs(rest) do sizes[#sizes + 1] = size end
  return torch.LongStorage(sizes)
end

local Reshape = torch.class("nn.Reshape", "nn.Module")

--- Sizes of one input; the last argument says whether inputs are batches, which is found out where
--- it
--- is left out.
function Reshape:__init(...)
  parent.__init(self)
  local arguments = { ... }
  if type(arguments[#arguments]) == "boolean" then
    self.batchMode = table.remove(arguments)
  end
  self.sizes = sizes_of(table.unpack(arguments))
  self.nelement = product(self.sizes)
end

function Reshape:updateOutput(input)
  local single = self.batchMode == false
    or self.batchMode == nil and input:nElement() == self.nelement and input:size(1) ~= 1
  local sizes = single and torch.LongStorage(self.sizes) or joined(input:size(1), self.sizes)
  self.output = input:contiguous():view(sizes)
  return self.output
end

local function back_to_input(self, input, gradOutput)
  self.gradInput = gradOutput:contiguous():view(input:size())
  return self.gradInput
end
Reshape.updateGradInput = back_to_input

Reshape.__tostring__ = function(self)
  return ("%s(%s)"):format(self.__typename, table.concat(self.sizes, "x"))
end

local View = torch.class("nn.View", "nn.Module")

--- Sizes of the result, one of which may be -1; what is left over makes a batch.
function View:__init(...)
  parent.__init(self)
  self.sizes = sizes_of(...)
  self.numElements = 1
  for _, size in ipairs(self.sizes) do
    if size == -1 then self.has_free = true else self.numElements = self.numElements * size end
  end
end

--- How many dimensions an input has without a batch.
function View:setNumInputDims(count)
  self.numInputDims = count
  return self
end

function View:resetSize(...)
  View.__init(self, ...)
  return self
end

local function view_sizes(self, input)
  local count = input:nElement()
  local extra = self.numInputDims and input:dim() - self.numInputDims or 0
  if extra > 0 then
    local batch = 1
    for d = 1, extra do batch = batch * input:size(d) end
    return joined(batch, self.sizes)
  end
  if self.has_free or count == self.numElements then return torch.LongStorage(self.sizes) end
  if count % self.numElements ~= 0 then
    error(("View: %d elements do not fit into %s"):format(count, table.concat(self.sizes, "x")), 3)
  end
  return joined(count // self.numElements, self.sizes)
end

function View:updateOutput(input)
  self.output = input:contiguous():view(view_sizes(self, input))
  return self.output
end
View.updateGradInput = back_to_input

View.__tostring__ = function(self)
  return ("%s(%s)"):format(self.__typename, table.concat(self.sizes, "x"))
end

-- --- views ---------------------------------------------------------------------------------------

-- forward(self, input) gives a view; the gradient goes into the same view of zeros.
local function view_layer(name, fields, forward)
  local class, base = torch.class("nn." .. name, "nn.Module")
  function class:__init(...)
    base.__init(self)
    for i, field in ipairs(fields) do self[field] = (select(i, ...)) end
  end
  function class:updateOutput(input)
    self.output = forward(self, input)
    return self.output
  end
  function class:updateGradInput(input, gradOutput)
    self.gradInput:resizeAs(input):zero()
    forward(self, self.gradInput):copy(gradOutput)
    return self.gradInput
  end
end

-- A position from the end where it is negative.
local function from_end(at, count) return at < 0 and count + at + 1 or at end

view_layer("Narrow", { "dimension", "index", "length" }, function(self, x)
  local d = from_end(self.dimension, x:dim())
  local size, length = x:size(d), self.length or 1
  if length < 0 then length = size - self.index + length + 2 end
  return x:narrow(d, from_end(self.index, size), length)
end)
view_layer("Select", { "dimension", "index" }, function(self, x)
  local d = from_end(self.dimension, x:dim())
  return x:select(d, from_end(self.index, x:size(d)))
end)

local Transpose = torch.class("nn.Transpose", "nn.Module")

--- Pairs of dimensions to exchange, one after the other.
function Transpose:__init(...)
  parent.__init(self)
  self.permutations = { ... }
end

function Transpose:updateOutput(input)
  for _, pair in ipairs(self.permutations) do input = input:transpose(pair[1], pair[2]) end
  self.output = input:contiguous()
  return self.output
end

function Transpose:updateGradInput(_, gradOutput)
  for i = #self.permutations, 1, -1 do
    local pair = self.permutations[i]
    gradOutput = gradOutput:transpose(pair[1], pair[2])
  end
  self.gradInput = gradOutput:contiguous()
  return self.gradInput
end

local Squeeze = torch.class("nn.Squeeze", "nn.Module")

function Squeeze:__init(dimension)
  parent.__init(self)
  self.dim = dimension
end

function Squeeze:updateOutput(input)
  self.output = self.dim and input:squeeze(self.dim) or input:squeeze()
  return self.output
end
Squeeze.updateGradInput = back_to_input

local Unsqueeze = torch.class("nn.Unsqueeze", "nn.Module")

function Unsqueeze:__init(position)
  parent.__init(self)
  self.pos = position
end

function Unsqueeze:updateOutput(input)
  local sizes = input:size():totable()
  table.insert(sizes, self.pos, 1)
  self.output = input:contiguous():view(torch.LongStorage(sizes))
  return self.output
end
Unsqueeze.updateGradInput = back_to_input

-- --- reductions ----------------------------------------------------------------------------------

-- With `counted` dimensions of one input, those of a batch come before.
local function reduced_dimension(self, input)
  local d = from_end(self.dimension, input:dim())
  local extra = self.nInputDims and input:dim() - self.nInputDims or 0
  return d + math.max(extra, 0)
end

local function kept(x, d)
  local sizes = x:size():totable()
  sizes[d] = 1
  return torch.LongStorage(sizes)
end

for name, mean in pairs { Sum = false, Mean = true } do
  local class, base = torch.class("nn." .. name, "nn.Module")
  function class:__init(dimension, nInputDims)
    base.__init(self)
    self.dimension, self.nInputDims = dimension or 1, nInputDims
  end
  function class:updateOutput(input)
    local d = reduced_dimension(self, input)
    local sum = mean and input:mean(d) or input:sum(d)
    self.output = input:dim() > 1 and sum:select(d, 1):contiguous() or sum
    return self.output
  end
  function class:updateGradInput(input, gradOutput)
    local d = reduced_dimension(self, input)
    local g = gradOutput:contiguous():view(kept(input, d)):expandAs(input)
    self.gradInput:resizeAs(input):copy(g)
    if mean then self.gradInput:div(input:size(d)) end
    return self.gradInput
  end
end

for name, method in pairs { Max = "max", Min = "min" } do
  local class, base = torch.class("nn." .. name, "nn.Module")
  function class:__init(dimension, nInputDims)
    base.__init(self)
    self.dimension, self.nInputDims = dimension or 1, nInputDims
  end
  function class:updateOutput(input)
    local d = reduced_dimension(self, input)
    local values, at = input[method](input, d)
    self._indices = at
    self.output = input:dim() > 1 and values:select(d, 1):contiguous() or values
    return self.output
  end
  function class:updateGradInput(input, gradOutput)
    local d = reduced_dimension(self, input)
    self.gradInput:resizeAs(input):zero()
    self.gradInput:scatter(d, self._indices, gradOutput:contiguous():view(kept(input, d)))
    return self.gradInput
  end
end
