-- stdlib/nn/copy.lua: Module:deepcopy: a module with tensors of its own.

local Module = require "moonlet.nn.module"
local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"
local parameter = require "moonlet.nn.parameter"
local signature = require "moonlet.signature"

local function copy_tensor(x)
  if x.grad_fn ~= nil then
    options.fail("deepcopy: a tensor of shape %s that an op recorded has no copy of its own; "
      .. "detach it first", tostring(x.shape))
  end
  local out = parameter.like(x, x:detach():clone())
  out:requires_grad_(x.requires_grad)
  local gradient = x.grad
  if gradient and not gradient.is_sparse then out.grad = gradient:detach():clone() end
  return out
end

local copy

local function copy_table(x, seen)
  local out = setmetatable({}, getmetatable(x))
  seen[x] = out
  for key, value in next, x do rawset(out, copy(key, seen), copy(value, seen)) end
  return out
end

-- What occurs twice is copied once, so that what was shared stays so.
function copy(x, seen)
  if seen[x] ~= nil then return seen[x] end
  if ml.is_tensor(x) then
    seen[x] = copy_tensor(x)
    return seen[x]
  end
  local plain = type(x) == "table" and getmetatable(x) == nil and not class.is_class(x)
  if plain or class.of(x) then return copy_table(x, seen) end
  local module = Module._module_of(x)
  if not module then return x end
  seen[x] = getmetatable(x)._compile_another(copy(module, seen))
  return seen[x]
end

local read = signature "Module:deepcopy()"

--- Copy with tensors of its own, gradients among them, as Python's `copy.deepcopy(net)`. What
--- modules share, such as a tied weight, the copies share too. Functions, classes and generators
--- are those of the original.
--- > net = ml.nn.Linear(2, 2)
--- > net:deepcopy().weight:eq(net.weight):all()
---   true  Tensor () bool
---@return table
---@error a field holds a tensor that an op recorded
function Module:deepcopy(...)
  read(...)
  return copy(self, {})
end

return Module
