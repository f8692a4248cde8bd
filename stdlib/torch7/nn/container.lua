-- stdlib/torch7/nn/container.lua: modules that hold modules: in a row, side by side on one input,
-- or
-- each on its own.

local nn = _G.nn
local torch = require "moonlet.torch7"

local Container, parent = torch.class("nn.Container", "nn.Module")

function Container:__init()
  parent.__init(self)
  self.modules = {}
end

function Container:add(module)
  table.insert(self.modules, module)
  return self
end

function Container:get(index) return self.modules[index] end
function Container:size() return #self.modules end

function Container:applyToModules(f)
  for _, module in ipairs(self.modules) do f(module) end
end

-- Calls a method of the module at `index`; an error says which module it was.
function Container:rethrowErrors(module, index, method, ...)
  local ok, value = xpcall(module[method], debug.traceback, module, ...)
  if ok then return value end
  local text = ("In %d module of %s:\n%s"):format(index, torch.typename(self), tostring(value))
  error(text, 0)
end

for _, name in ipairs { "training", "evaluate", "reset", "clearState" } do
  Container[name] = function(self, ...)
    parent[name](self)
    for _, module in ipairs(self.modules) do module[name](module, ...) end
    return self
  end
end

function Container:zeroGradParameters()
  for _, module in ipairs(self.modules) do module:zeroGradParameters() end
end

function Container:updateParameters(rate)
  for _, module in ipairs(self.modules) do module:updateParameters(rate) end
end

function Container:share(other, ...)
  for i, module in ipairs(self.modules) do module:share(other.modules[i], ...) end
  return self
end

function Container:parameters()
  local parameters, gradients = {}, {}
  for _, module in ipairs(self.modules) do
    local p, g = module:parameters()
    for i, value in ipairs(p or {}) do
      parameters[#parameters + 1], gradients[#gradients + 1] = value, g[i]
    end
  end
  return parameters, gradients
end

Container.__tostring__ = function(self)
  local lines = { self.__typename .. " {" }
  for i, module in ipairs(self.modules) do
    lines[#lines + 1] = ("  (%d): %s"):format(i, (tostring(module):gsub("\n", "\n  ")))
  end
  lines[#lines + 1] = "}"
  return table.concat(lines, "\n")
end

-- --- in a row ------------------------------------------------------------------------------------

local Sequential = torch.class("nn.Sequential", "nn.Container")

function Sequential:add(module)
  if #self.modules == 0 then self.gradInput = module.gradInput end
  self.output = module.output
  return Container.add(self, module)
end

function Sequential:insert(module, index)
  index = index or #self.modules + 1
  if index < 1 or index > #self.modules + 1 then
    error(("insert: a position from 1 to %d is expected, got %s"):format(#self.modules + 1,
      tostring(index)), 2)
  end
  table.insert(self.modules, index, module)
end

function Sequential:remove(index)
  return table.remove(self.modules, index)
end

function Sequential:updateOutput(input)
  for i, module in ipairs(self.modules) do
    input = self:rethrowErrors(module, i, "updateOutput", input)
  end
  self.output = input
  return input
end

-- Calls a method of each from the last to the first with its input and its output's gradient.
local function in_reverse(self, method, input, gradOutput, ...)
  for i = #self.modules, 1, -1 do
    local module = self.modules[i]
    local before = i > 1 and self.modules[i - 1].output or input
    self:rethrowErrors(module, i, method, before, gradOutput, ...)
    gradOutput = module.gradInput
  end
  return gradOutput
end

function Sequential:updateGradInput(input, gradOutput)
  self.gradInput = in_reverse(self, "updateGradInput", input, gradOutput)
  return self.gradInput
end

function Sequential:accGradParameters(input, gradOutput, scale)
  in_reverse(self, "accGradParameters", input, gradOutput, scale or 1)
end

function Sequential:accUpdateGradParameters(input, gradOutput, rate)
  in_reverse(self, "accUpdateGradParameters", input, gradOutput, rate)
end

function Sequential:backward(input, gradOutput, scale)
  self.gradInput = in_reverse(self, "backward", input, gradOutput, scale or 1)
  return self.gradInput
end

-- --- side by side --------------------------------------------------------------------------------

-- Adds what came back from modules that had the same input.
local function add_up(sum, x)
  if torch.isTensor(x) then
    sum:add(x)
    return sum
  end
  for key, item in pairs(x) do add_up(sum[key], item) end
  return sum
end

local Concat = torch.class("nn.Concat", "nn.Container")

--- The outputs of modules on one input, joined along a dimension.
function Concat:__init(dimension)
  parent.__init(self)
  self.modules, self.dimension = {}, dimension
end

function Concat:updateOutput(input)
  local outputs = {}
  for i, module in ipairs(self.modules) do
    outputs[i] = self:rethrowErrors(module, i, "updateOutput", input)
  end
  self.output = torch.cat(outputs, self.dimension)
  return self.output
end

-- Calls a method of each with its part of the gradient.
local function each_part(self, method, input, gradOutput, ...)
  local at = 1
  for i, module in ipairs(self.modules) do
    local size = module.output:size(self.dimension)
    local part = gradOutput:narrow(self.dimension, at, size):contiguous()
    self:rethrowErrors(module, i, method, input, part, ...)
    at = at + size
  end
end

local function sum_of_gradients(self)
  for i, module in ipairs(self.modules) do
    if i == 1 then
      self.gradInput = nn.utils.recursiveCopy(self.gradInput, module.gradInput)
    else
      add_up(self.gradInput, module.gradInput)
    end
  end
  return self.gradInput
end

function Concat:updateGradInput(input, gradOutput)
  each_part(self, "updateGradInput", input, gradOutput)
  return sum_of_gradients(self)
end

function Concat:accGradParameters(input, gradOutput, scale)
  each_part(self, "accGradParameters", input, gradOutput, scale or 1)
end

function Concat:backward(input, gradOutput, scale)
  each_part(self, "backward", input, gradOutput, scale or 1)
  return sum_of_gradients(self)
end

-- What ConcatTable and ParallelTable have in common: `input_of(input, i)` is the i-th module's.
local function table_container(name, input_of, gradients)
  local class = torch.class(name, "nn.Container")
  function class:__init()
    parent.__init(self)
    self.modules, self.output = {}, {}
    if name == "nn.ParallelTable" then self.gradInput = {} end
  end
  function class:updateOutput(input)
    for i, module in ipairs(self.modules) do
      self.output[i] = self:rethrowErrors(module, i, "updateOutput", input_of(input, i))
    end
    return self.output
  end
  local function each(self, method, input, gradOutput, ...)
    for i, module in ipairs(self.modules) do
      self:rethrowErrors(module, i, method, input_of(input, i), gradOutput[i], ...)
    end
  end
  function class:updateGradInput(input, gradOutput)
    each(self, "updateGradInput", input, gradOutput)
    return gradients(self)
  end
  function class:accGradParameters(input, gradOutput, scale)
    each(self, "accGradParameters", input, gradOutput, scale or 1)
  end
  function class:backward(input, gradOutput, scale)
    each(self, "backward", input, gradOutput, scale or 1)
    return gradients(self)
  end
end

table_container("nn.ConcatTable", function(input) return input end, sum_of_gradients)
table_container("nn.ParallelTable", function(input, i) return input[i] end, function(self)
  for i, module in ipairs(self.modules) do self.gradInput[i] = module.gradInput end
  return self.gradInput
end)
