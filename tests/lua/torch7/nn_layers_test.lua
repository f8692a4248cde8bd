-- tests/lua/torch7/nn_layers_test.lua: layers and containers of `require "nn"` without upstream's:
-- their
-- gradients by finite differences, and what Torch7's scripts do with modules.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
package.path = (arg[0]:match("^(.*)/") or ".") .. "/?.lua;" .. package.path
local harness = require "harness"
local torch = require "torch"
local nn = require "moonlet.torch7.nn"
local checks = require "nn_checks"
local test, expect = harness.test, harness.expect

torch.manualSeed(3)

-- Numbers away from 0, where gradients change, and all different.
local function apart(...)
  local x = torch.randn(...)
  return x:add(torch.sign(x):mul(0.05))
end

local images = function() return apart(2, 3, 6, 5) end

local LAYERS = {
  { "Abs", nn.Abs(), apart(3, 4) }, { "Square", nn.Square(), apart(3, 4) },
  { "Sqrt", nn.Sqrt(), torch.rand(3, 4):add(0.5) }, { "Tanh", nn.Tanh(), apart(3, 4) },
  { "Sigmoid", nn.Sigmoid(), apart(3, 4) }, { "LogSigmoid", nn.LogSigmoid(), apart(3, 4) },
  { "SoftMax", nn.SoftMax(), apart(3, 4) }, { "LogSoftMax", nn.LogSoftMax(), apart(3, 4) },
  { "SpatialLogSoftMax", nn.SpatialLogSoftMax(), images() },
  { "SoftPlus", nn.SoftPlus(2), apart(3, 4) }, { "ELU", nn.ELU(0.7), apart(3, 4) },
  { "LeakyReLU", nn.LeakyReLU(0.2), apart(3, 4) }, { "HardTanh", nn.HardTanh(), apart(3,
    4):mul(0.9) },
  { "HardShrink", nn.HardShrink(0.01), apart(3, 4) }, { "SoftShrink", nn.SoftShrink(0.01), apart(3,
    4) },
  { "Threshold", nn.Threshold(0.01, -3), apart(3, 4) }, { "ReLU", nn.ReLU(), apart(3, 4) },
  { "ReLU6", nn.ReLU6(), apart(3, 4) }, { "Clamp", nn.Clamp(-0.7, 0.8), apart(3, 4) },
  { "Exp", nn.Exp(), apart(3, 4) }, { "Log", nn.Log(), torch.rand(3, 4):add(0.5) },
  { "Power", nn.Power(3), apart(3, 4) }, { "MulConstant", nn.MulConstant(3), apart(3, 4) },
  { "AddConstant", nn.AddConstant(3), apart(3, 4) }, { "SoftSign", nn.SoftSign(), apart(3, 4) },
  { "Linear", nn.Linear(4, 3), apart(2, 4) }, { "Linear of a vector", nn.Linear(4, 3), apart(4) },
  { "Linear without bias", nn.Linear(4, 3, false), apart(2, 4) },
  { "Mul", nn.Mul(), apart(2, 4) }, { "CMul", nn.CMul(4), apart(3, 4) }, { "Add", nn.Add(4),
    apart(3, 4) },
  { "SpatialConvolution", nn.SpatialConvolution(3, 2, 3, 2, 2, 1, 1, 1), images() },
  { "SpatialConvolution of one image", nn.SpatialConvolution(3, 2, 3, 3), apart(3, 5, 5) },
  { "SpatialFullConvolution", nn.SpatialFullConvolution(3, 2, 3, 3, 2, 2, 1, 1, 1, 1), apart(1, 3,
    3, 4) },
  { "TemporalConvolution", nn.TemporalConvolution(3, 4, 2, 2), apart(2, 7, 3) },
  { "SpatialMaxPooling", nn.SpatialMaxPooling(2, 2), images() },
  { "SpatialMaxPooling, ceil", nn.SpatialMaxPooling(3, 3, 2, 2, 1, 1):ceil(), images() },
  { "SpatialAveragePooling", nn.SpatialAveragePooling(2, 3, 1, 2), images() },
  { "SpatialAveragePooling, padding", nn.SpatialAveragePooling(3, 3, 2, 2, 1,
    1):setCountExcludePad(),
    images() },
  { "SpatialUpSamplingNearest", nn.SpatialUpSamplingNearest(2), apart(1, 2, 3, 2) },
  { "SpatialZeroPadding", nn.SpatialZeroPadding(1, -1, 2, 0), images() },
  { "Identity", nn.Identity(), apart(2, 3) }, { "Reshape", nn.Reshape(6), apart(2, 2, 3) },
  { "View", nn.View(-1, 6), apart(2, 2, 3) }, { "Narrow", nn.Narrow(2, 2, -2), apart(3, 4) },
  { "Select", nn.Select(2, -1), apart(3, 4) }, { "Transpose", nn.Transpose({ 1, 2 }, { 2, 3 }),
    apart(2, 3, 4) },
  { "Squeeze", nn.Squeeze(2), apart(2, 1, 3) }, { "Unsqueeze", nn.Unsqueeze(2), apart(2, 3) },
  { "Sum", nn.Sum(2), apart(3, 4) }, { "Mean", nn.Mean(1, 1), apart(3, 4) },
  { "Max", nn.Max(2), apart(3, 4) }, { "Min", nn.Min(-1), apart(3, 4) },
}

for _, case in ipairs(LAYERS) do
  local name, module, input = case[1], case[2], case[3]
  test(name .. ": gradients", function() checks.layer(name, module, input) end)
  test(name .. ": float32", function() checks.float(name, module, input) end)
end

test("BatchNormalization: gradients, and running statistics in evaluation", function()
  for _, case in ipairs { { nn.BatchNormalization(3), apart(5, 3) },
    { nn.SpatialBatchNormalization(3), images() } } do
    local module, input = case[1], case[2]
    checks.layer("BatchNormalization", module, input, { tolerance = 1e-4 })
    module.running_mean:fill(0.5)
    module.running_var:fill(4)
    module:evaluate()
    checks.layer("BatchNormalization, evaluation", module, input)
    local x = input:select(2, 1)
    local expected = (x - 0.5):div(math.sqrt(4 + module.eps)):mul(module.weight[1]):add(module.bias[1])
    checks.close((module:forward(input):select(2, 1) - expected):abs():max(), 0, 1e-9)
    checks.close(module.running_mean[1], 0.5)
  end
end)

test("BatchNormalization: running statistics move by the momentum", function()
  local module, x = nn.BatchNormalization(2, 1e-5, 0.25), apart(6, 2)
  module:forward(x)
  checks.close(module.running_mean[1], 0.25 * x:select(2, 1):mean(), 1e-9)
  checks.close(module.running_var[2], 0.75 + 0.25 * x:select(2, 2):var(), 1e-9)
end)

test("LookupTable: rows, gradients of rows that come more than once, padding", function()
  local module = nn.LookupTable(5, 3)
  local at = torch.LongTensor { { 1, 3 }, { 3, 5 } }
  checks.layer("LookupTable", module, at, { no_input = true })
  checks.close((module:forward(at)[2][1] - module.weight[3]):abs():max(), 0)
  module:setPadding(3)
  module:zeroGradParameters()
  module:backward(at, torch.ones(2, 2, 3))
  checks.close(module.gradWeight[3]:sum(), 0)
  checks.close(module.gradWeight[5]:sum(), 3)
  module:setPadding(0):scaleGradByFreq():zeroGradParameters()
  module:backward(at, torch.ones(2, 2, 3))
  checks.close(module.gradWeight[3]:sum(), 3)
  expect.error(function() module:forward(torch.LongTensor { 6 }) end, "6")
end)

test("Dropout: zeroes in training, keeps the mean, does nothing in evaluation", function()
  local module, x = nn.Dropout(0.25), torch.ones(4000)
  local y = module:forward(x)
  checks.close(y:mean(), 1, 0.05)
  checks.close(y:max(), 1 / 0.75, 1e-9)
  expect.equal((module:backward(x, x) - y):abs():max(), 0)
  module:evaluate()
  expect.equal((module:forward(x) - x):abs():max(), 0)
  expect.error(function() nn.Dropout(1.5) end, "probability")
end)

test("tables: gradients", function()
  local pair = function() return { apart(2, 3), apart(2, 3):add(4) } end
  for _, name in ipairs { "CAddTable", "CSubTable", "CMulTable", "CDivTable" } do
    checks.layer(name, nn[name](), pair())
  end
  checks.layer("JoinTable", nn.JoinTable(1, 1), { apart(2, 3), apart(2, 4) })
  checks.layer("SplitTable", nn.SplitTable(2), apart(2, 3))
  checks.layer("SelectTable", nn.SelectTable(-1), pair())
  checks.layer("FlattenTable", nn.FlattenTable(), { apart(2), { apart(3), apart(1) } })
  checks.layer("MM", nn.MM(false, true), { apart(2, 3), apart(4, 3) })
  checks.layer("MM of batches", nn.MM(true), { apart(2, 3, 2), apart(2, 3, 4) })
end)

test("containers: gradients", function()
  local function branches(container)
    return container:add(nn.Linear(3, 2)):add(nn.Sequential():add(nn.Linear(3, 4)):add(nn.Tanh()))
  end
  checks.layer("Concat", branches(nn.Concat(2)), apart(2, 3))
  checks.layer("ConcatTable", branches(nn.ConcatTable()), apart(2, 3))
  checks.layer("ParallelTable", branches(nn.ParallelTable()), { apart(2, 3), apart(2, 3) })
  local net = nn.Sequential():add(branches(nn.ConcatTable())):add(nn.JoinTable(2)):add(nn.Linear(6,
    1))
  checks.layer("Sequential", net, apart(2, 3))
end)

test("getParameters: one vector for all, shared weights once", function()
  local a = nn.Linear(3, 3)
  local b = a:clone("weight", "gradWeight")
  local net = nn.Sequential():add(a):add(nn.Tanh()):add(b):add(nn.Linear(3, 2))
  local before = net:forward(torch.ones(1, 3)):clone()
  local p, g = net:getParameters()
  expect.equal(p:nElement(), 9 + 3 + 3 + 6 + 2)
  expect.equal(g:nElement(), p:nElement())
  checks.close((net:forward(torch.ones(1, 3)) - before):abs():max(), 0)
  p:fill(2)
  expect.equal(b.weight[2][3], 2)
  expect.equal(a.weight:storage() == b.weight:storage(), true)
  net:zeroGradParameters()
  net:backward(torch.ones(1, 3), torch.ones(1, 2))
  checks.close(g:sum(), a.gradWeight:sum() + a.gradBias:sum() + b.gradBias:sum()
    + net:get(4).gradWeight:sum() + net:get(4).gradBias:sum(), 1e-9)
end)

test("modules: clone, apply, findModules, replace, type, training and evaluate", function()
  local net = nn.Sequential():add(nn.Linear(2, 2)):add(nn.Concat(2):add(nn.Linear(2,
    1)):add(nn.Dropout()))
  local copy = net:clone()
  copy:get(1).weight:fill(7)
  expect.equal(net:get(1).weight[1][1] ~= 7, true)
  local found, holders = net:findModules "nn.Linear"
  expect.equal(#found, 2)
  expect.equal(holders[2], net:get(2))
  expect.equal(#net:listModules(), 5)
  net:evaluate()
  expect.equal(net:get(2):get(2).train, false)
  net:training()
  expect.equal(net:get(2):get(2).train, true)
  net:replace(function(module)
    return torch.typename(module) == "nn.Dropout" and nn.Identity() or module
  end)
  expect.equal(torch.typename(net:get(2):get(2)), "nn.Identity")
  net:float()
  expect.equal(net:get(1).gradBias:type(), "torch.FloatTensor")
  expect.equal(net:type(), "torch.FloatTensor")
  net:forward(torch.FloatTensor(1, 2):fill(1))
  net:clearState()
  expect.equal(net:get(1).output:nElement(), 0)
end)

test("modules: what was shared is shared after a change of type", function()
  local net = nn.Sequential():add(nn.Linear(2, 2)):add(nn.Linear(2, 2))
  net:getParameters()
  net:float()
  expect.equal(net:get(1).weight:storage() == net:get(2).bias:storage(), true)
end)

test("updateParameters and a step at once", function()
  local net = nn.Linear(2, 1)
  local other = net:clone()
  local x, g = torch.ones(1, 2), torch.ones(1, 1)
  net:zeroGradParameters()
  net:forward(x)
  net:backward(x, g)
  net:updateParameters(0.5)
  other:forward(x)
  other:backwardUpdate(x, g, 0.5)
  checks.close((net.weight - other.weight):abs():max(), 0)
  checks.close(net.bias[1], other.bias[1])
end)

test("errors name the module and what was expected", function()
  local net = nn.Sequential():add(nn.Identity()):add(nn.Linear(3, 2))
  expect.error(function() net:forward(torch.ones(2, 4)) end, "In 2 module of nn.Sequential")
  expect.error(function() nn.SpatialBatchNormalization(3):forward(torch.ones(2, 3)) end,
      "4 dimensions")
  expect.error(function() nn.View(4):forward(torch.ones(3)) end, "3 elements do not fit")
  expect.error(function() nn.SelectTable(3):forward({ torch.ones(1) }) end, "no element 3")
end)

test("modules print their layers", function()
  local text = tostring(nn.Sequential():add(nn.Linear(3, 2)):add(nn.Concat(2):add(nn.ReLU())))
  expect.equal(text,
    "nn.Sequential {\n  (1): nn.Linear(3 -> 2)\n  (2): nn.Concat {\n    (1): nn.ReLU\n  }\n}")
end)

harness.run()
