-- stdlib/torch7/nn/module.lua: nn.Module, what all layers have: forward and backward, parameters
-- and
-- their gradients, copies that share, and conversion to another type.

local nn = _G.nn
local torch = require "moonlet.torch7"

nn.utils = {}

-- --- values in tables ----------------------------------------------------------------------------

local FLOATING = {}
for _, name in ipairs { "Float", "Double", "Half", "Cuda", "CudaDouble", "CudaHalf" } do
  FLOATING["torch." .. name .. "Tensor"] = true
end

-- A tensor as one of another type; those that shared a storage share one again.
local function converted(x, type_name, cache)
  if not FLOATING[x:type()] or x:type() == type_name then return x end
  if x:nElement() == 0 then return torch.Tensor():type(type_name) end
  local storage = x:storage()
  local key = torch.pointer(storage)
  if not cache[key] then
    cache[key] = storage:type((type_name:gsub("Tensor$", "Storage")))
  end
  return torch.getmetatable(type_name).new():set(cache[key], x:storageOffset(), x:size(),
    x:stride())
end

--- A value with all floating tensors in it of another type: tensors, tables and modules.
function nn.utils.recursiveType(value, type_name, cache)
  cache = cache or {}
  if torch.isTensor(value) then return converted(value, type_name, cache) end
  if type(value) ~= "table" then return value end
  if cache[value] then return value end
  cache[value] = true
  if torch.isTypeOf(value, "nn.Module") or torch.isTypeOf(value, "nn.Criterion") then
    return value:type(type_name, cache)
  end
  for key, item in pairs(value) do
    value[key] = nn.utils.recursiveType(item, type_name, cache)
  end
  return value
end

--- Gives `r` the shape of `x`, a tensor or a table of them, and copies x into it.
function nn.utils.recursiveCopy(r, x)
  if torch.isTensor(x) then
    r = torch.isTensor(r) and r or x.new()
    r:resizeAs(x):copy(x)
    return r, x
  end
  r = type(r) == "table" and r or {}
  for key, item in pairs(x) do r[key] = nn.utils.recursiveCopy(r[key], item) end
  for key in pairs(r) do
    if x[key] == nil then r[key] = nil end
  end
  return r, x
end

--- Makes tensors of a module empty, and its tables without elements.
function nn.utils.clear(self, ...)
  for _, name in ipairs { ... } do
    local value = self[name]
    if torch.isTensor(value) then value:set() elseif type(value) == "table" then self[name] = {} end
  end
  return self
end

--- Positions as the LongTensor of the device that another tensor is on.
function nn.utils.positions(x, other)
  return x:type(getmetatable(other).__family.int64.__typename)
end

-- --- the class -----------------------------------------------------------------------------------

local Module = torch.class "nn.Module"

function Module:__init()
  self.output, self.gradInput = torch.Tensor(), torch.Tensor()
  self._type = self.output:type()
  self.train = true
end

--- The parameters and their gradients, as two lists; nothing without any.
function Module:parameters()
  if not self.weight then return nil end
  if not self.bias then return { self.weight }, { self.gradWeight } end
  return { self.weight, self.bias }, { self.gradWeight, self.gradBias }
end

function Module:updateOutput() return self.output end
function Module:forward(input) return self:updateOutput(input) end
function Module:updateGradInput() return self.gradInput end
function Module:accGradParameters() end

function Module:backward(input, gradOutput, scale)
  self:updateGradInput(input, gradOutput)
  self:accGradParameters(input, gradOutput, scale or 1)
  return self.gradInput
end

function Module:backwardUpdate(input, gradOutput, rate)
  self:updateGradInput(input, gradOutput)
  self:accUpdateGradParameters(input, gradOutput, rate)
  return self.gradInput
end

--- A step of gradient descent at once, without keeping the gradients.
function Module:accUpdateGradParameters(input, gradOutput, rate)
  local _, kept = self:parameters()
  local saved = {}
  for i, g in ipairs(kept or {}) do saved[i] = g:clone() end
  self:zeroGradParameters()
  self:accGradParameters(input, gradOutput, 1)
  self:updateParameters(rate)
  for i, g in ipairs(kept or {}) do g:copy(saved[i]) end
end

function Module:zeroGradParameters()
  local _, gradients = self:parameters()
  for _, g in ipairs(gradients or {}) do g:zero() end
end

function Module:updateParameters(rate)
  local parameters, gradients = self:parameters()
  for i, p in ipairs(parameters or {}) do p:add(-rate, gradients[i]) end
end

function Module:training() self.train = true end
function Module:evaluate() self.train = false end
function Module:reset() end

--- Makes this module's fields of these names share the memory of another's.
function Module:share(other, ...)
  for _, name in ipairs { ... } do
    if self[name] then
      self[name]:set(other[name])
      self.accUpdateGradParameters = other.accUpdateGradParameters
    end
  end
  return self
end

--- A copy; with names, as `net:clone("weight", "bias")`, those are shared with it.
function Module:clone(...)
  local file = torch.MemoryFile "rw"
  file:writeObject(self)
  file:seek(1)
  local copy = file:readObject()
  file:close()
  if select("#", ...) > 0 then copy:share(self, ...) end
  return copy
end

function Module:type(type_name, cache)
  if not type_name then return self._type end
  cache = cache or {}
  cache[self] = true
  for key, value in pairs(self) do
    self[key] = nn.utils.recursiveType(value, type_name, cache)
  end
  self._type = type_name
  return self
end

function Module:float(...) return self:type("torch.FloatTensor", ...) end
function Module:double(...) return self:type("torch.DoubleTensor", ...) end
function Module:cuda(...) return self:type("torch.CudaTensor", ...) end

function Module:clearState() return nn.utils.clear(self, "output", "gradInput") end

--- Calls f(module) for this module and all in it.
function Module:apply(f)
  f(self)
  for _, module in ipairs(self.modules or {}) do module:apply(f) end
end

function Module:listModules()
  local list, seen = {}, {}
  self:apply(function(module)
    if not seen[module] then list[#list + 1], seen[module] = module, true end
  end)
  return list
end

--- All modules of a class in this one, and the containers that each is in.
function Module:findModules(name, container)
  local found, holders = {}, {}
  if torch.typename(self) == name then found[1], holders[1] = self, container end
  for _, module in ipairs(self.modules or {}) do
    local inner, of = module:findModules(name, self)
    for i = 1, #inner do found[#found + 1], holders[#holders + 1] = inner[i], of[i] end
  end
  return found, holders
end

--- This module with each in it replaced by f(module).
function Module:replace(f)
  local out = f(self)
  for i, module in ipairs(self.modules or {}) do self.modules[i] = module:replace(f) end
  return out
end

function Module:read(file)
  for key, value in pairs(file:readObject()) do self[key] = value end
end

function Module:write(file)
  local fields = {}
  for key, value in pairs(self) do fields[key] = value end
  file:writeObject(fields)
end

Module.__call__ = function(self, input, gradOutput)
  self:forward(input)
  if not gradOutput then return self.output end
  self:backward(input, gradOutput)
  return self.output, self.gradInput
end

Module.__tostring__ = function(self) return (self.__typename) end

-- --- all parameters as one vector ----------------------------------------------------------------

-- The last element of a storage that a tensor shows.
local function last_of(x)
  local last = x:storageOffset()
  for d = 1, x:dim() do last = last + (x:size(d) - 1) * x:stride(d) end
  return last
end

-- The spans of storages that tensors show, each once: those that overlap are one.
local function spans_of(tensors)
  local by_storage, order = {}, {}
  for _, x in ipairs(tensors) do
    local key = torch.pointer(x:storage())
    if not by_storage[key] then
      by_storage[key] = { storage = x:storage() }
      order[#order + 1] = key
    end
    table.insert(by_storage[key], { first = x:storageOffset(), last = last_of(x), tensors = { x } })
  end
  local spans = {}
  for _, key in ipairs(order) do
    local parts, storage, span = by_storage[key], by_storage[key].storage, nil
    table.sort(parts, function(a, b) return a.first < b.first end)
    for _, part in ipairs(parts) do
      if span and part.first <= span.last then
        span.last = math.max(span.last, part.last)
        table.insert(span.tensors, part.tensors[1])
      else
        span = part
        span.storage = storage
        spans[#spans + 1] = span
      end
    end
  end
  return spans
end

-- Moves tensors into one vector, in their order, and gives it; those that shared memory still do.
local function flatten(tensors)
  if #tensors == 0 then return torch.Tensor() end
  local spans, total = spans_of(tensors), 0
  for _, span in ipairs(spans) do total = total + span.last - span.first + 1 end
  local flat = tensors[1].new(total)
  local storage, at = flat:storage(), 1
  for _, span in ipairs(spans) do
    local size = span.last - span.first + 1
    flat:narrow(1, at, size):copy(flat.new(span.storage, span.first, size))
    for _, x in ipairs(span.tensors) do
      x:set(storage, at + x:storageOffset() - span.first, x:size(), x:stride())
    end
    at = at + size
  end
  return flat
end

Module._flatten = flatten

--- All parameters and all gradients as two vectors, of which the modules' tensors are parts from
--- then
--- on.
function Module:getParameters()
  local parameters, gradients = self:parameters()
  return flatten(parameters or {}), flatten(gradients or {})
end
