-- tests/lua/torch7/nn_checks.lua: checks of layers and criteria of Torch7's nn by finite
-- differences.

local harness = require "harness"
local torch = require "torch"
local expect = harness.expect

local checks = {}

local STEP = 1e-5

--- Numbers that are equal but for rounding.
function checks.close(got, wanted, tolerance, detail)
  expect.near(got, wanted, tolerance or 1e-12, detail)
end

-- Calls f(tensor) for each tensor of a value that may be a table.
local function each_tensor(value, f)
  if torch.isTensor(value) then return f(value) end
  for _, item in ipairs(value) do each_tensor(item, f) end
end

local function dot(a, b)
  if torch.isTensor(a) then return torch.dot(a:double(), b:double()) end
  local sum = 0
  for i, item in ipairs(a) do sum = sum + dot(item, b[i]) end
  return sum
end

local function random_like(value)
  if torch.isTensor(value) then return torch.randn(value:size()):type(value:type()) end
  local out = {}
  for i, item in ipairs(value) do out[i] = random_like(item) end
  return out
end

-- Compares `gradient` with the differences of f() when elements of x change.
local function compare(name, x, gradient, f, tolerance)
  expect.equal(x:nElement(), gradient:nElement(), name)
  local flat = x:view(-1)
  local g = gradient:contiguous():view(-1)
  for i = 1, flat:size(1) do
    local value = flat[i]
    flat[i] = value + STEP
    local above = f()
    flat[i] = value - STEP
    local below = f()
    flat[i] = value
    local quotient = (above - below) / (2 * STEP)
    if math.abs(quotient - g[i]) > (tolerance or 1e-5) * math.max(1, math.abs(quotient)) then
      error(("%s: the gradient of element %d is %g, differences give %g"):format(name, i, g[i],
        quotient))
    end
  end
end

--- The gradients of a layer's input and parameters. Without `smooth` the input has no gradient.
function checks.layer(name, module, input, options)
  options = options or {}
  local weights = random_like(module:forward(input))
  local function loss() return dot(module:forward(input), weights) end
  loss()
  module:zeroGradParameters()
  local back = module:backward(input, weights)
  local list, gradients = module:parameters()
  local kept = {}
  for i, g in ipairs(gradients or {}) do kept[i] = g:clone() end
  if not options.no_input then
    local flat = {}
    each_tensor(back, function(g) flat[#flat + 1] = g:clone() end)
    local at = 0
    each_tensor(input, function(x)
      at = at + 1
      compare(name .. ", input", x, flat[at], loss, options.tolerance)
    end)
  end
  for i, p in ipairs(list or {}) do
    compare(("%s, parameter %d"):format(name, i), p, kept[i], loss, options.tolerance)
  end
  -- A second backward adds to the gradients; a scale multiplies what is added.
  module:forward(input)
  module:accGradParameters(input, weights, 2)
  for i, g in ipairs(gradients or {}) do
    checks.close((g - kept[i] * 3):abs():max(), 0, 1e-8, name)
  end
end

--- A layer of float32 gives what that of float64 gives.
function checks.float(name, module, input, tolerance)
  local narrow = module:clone():float()
  local y = module:forward(input)
  local weights = random_like(y)
  local g = module:backward(input, weights)
  local z = narrow:forward(input:float())
  local h = narrow:backward(input:float(), weights:float())
  expect.equal(z:type(), "torch.FloatTensor", name)
  expect.equal(h:type(), "torch.FloatTensor", name)
  checks.close((z:double() - y):abs():max(), 0, tolerance or 1e-4, name)
  checks.close((h:double() - g):abs():max(), 0, tolerance or 1e-4, name)
end

--- The gradient of a criterion, of its input.
function checks.criterion(name, criterion, input, target)
  criterion:forward(input, target)
  local back = criterion:backward(input, target)
  local flat = {}
  each_tensor(back, function(g) flat[#flat + 1] = g:clone() end)
  local at = 0
  each_tensor(input, function(x)
    at = at + 1
    compare(name, x, flat[at], function() return criterion:forward(input, target) end)
  end)
end

return checks
