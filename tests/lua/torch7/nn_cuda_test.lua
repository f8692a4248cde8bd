-- tests/lua/torch7/nn_cuda_test.lua: cunn: layers and criteria of our own nn of Torch7's on a device or its emulation
-- give what they give on the CPU.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local torch = require "torch"
local test, expect = harness.test, harness.expect

local nn

local function on_device(name, f)
  test(name, function()
    if not ml.cuda.is_available() then return harness.skip(ml.cuda.unavailable_reason()) end
    require "cunn"
    nn = require "nn"
    torch.manualSeed(1)
    f()
  end)
end

local function close(name, got, wanted)
  expect.truthy(got:type():find "^torch%.Cuda", name)
  expect.near((got:double() - wanted:double()):abs():max(), 0, 1e-4, name)
end

test("cunn loads where there is a device alone", function()
  local ok, problem = pcall(require, "cunn")
  expect.equal(ok, ml.cuda.is_available(), tostring(problem))
end)

-- Layers that are made by make(), so that none is copied.
local function same_layer(name, make, input)
  torch.manualSeed(2)
  local plain = make()
  torch.manualSeed(2)
  local moved = make():cuda()
  local y = plain:forward(input)
  close(name, moved:forward(input:cuda()), y)
  local g = torch.randn(y:size())
  plain:zeroGradParameters()
  moved:zeroGradParameters()
  close(name, moved:backward(input:cuda(), g:cuda()), plain:backward(input, g))
  local _, wanted = plain:parameters()
  local _, got = moved:parameters()
  for i, gradient in ipairs(wanted or {}) do close(name, got[i], gradient) end
end

on_device("layers", function()
  local image, matrix = torch.randn(2, 2, 6, 6), torch.randn(3, 4)
  for name, arguments in pairs { SpatialConvolution = { 2, 3, 3, 3 }, SpatialFullConvolution = { 2, 3, 3, 3 },
    SpatialMaxPooling = { 2, 2 }, SpatialAveragePooling = { 2, 2, 2, 2 }, SpatialBatchNormalization = { 2 },
    SpatialUpSamplingNearest = { 2 }, SpatialZeroPadding = { 1, 1, 1, 1 }, View = { 72 } } do
    same_layer(name, function() return nn[name](table.unpack(arguments)) end, image)
  end
  for name, arguments in pairs { Linear = { 4, 3 }, CMul = { 4 }, Sum = { 2 }, Max = { 2 }, Narrow = { 2, 1, 2 },
    ReLU = {}, Tanh = {}, Sigmoid = {}, LogSoftMax = {}, SoftMax = {}, ELU = {}, SoftPlus = {}, LeakyReLU = {},
    HardTanh = {}, Abs = {} } do
    same_layer(name, function() return nn[name](table.unpack(arguments)) end, matrix)
  end
  same_layer("TemporalConvolution", function() return nn.TemporalConvolution(3, 4, 2) end, torch.randn(2, 5, 3))
  same_layer("containers", function()
    return nn.Sequential():add(nn.Concat(2):add(nn.Linear(4, 3)):add(nn.Linear(4, 2))):add(nn.ReLU())
  end, matrix)
end)

on_device("rows of a table, by positions of any type", function()
  local plain, moved = nn.LookupTable(5, 3), nn.LookupTable(5, 3):cuda()
  moved.weight:copy(plain.weight)
  local at = torch.LongTensor { { 1, 2 }, { 5, 1 } }
  for _, by_frequency in ipairs { false, true } do
    if by_frequency then plain:scaleGradByFreq() moved:scaleGradByFreq() end
    local y = plain:forward(at)
    plain:zeroGradParameters()
    plain:backward(at, y)
    for _, positions in ipairs { at:cuda(), at:cudaLong(), at } do
      close("LookupTable", moved:forward(positions), y)
      moved:zeroGradParameters()
      moved:backward(positions, moved.output)
      close("LookupTable", moved.gradWeight, plain.gradWeight)
    end
  end
end)

local function same_criterion(name, input, target, moved_target)
  local plain, moved = nn[name](), nn[name]():cuda()
  local loss = plain:forward(input, target)
  expect.near(moved:forward(input:cuda(), moved_target), loss, 1e-5, name)
  close(name, moved:backward(input:cuda(), moved_target), plain:backward(input, target))
end

on_device("criteria", function()
  local input, target, at = torch.randn(3, 4), torch.randn(3, 4), torch.LongTensor { 1, 3, 2 }
  for _, name in ipairs { "MSECriterion", "AbsCriterion", "SmoothL1Criterion" } do
    same_criterion(name, input, target, target:cuda())
  end
  same_criterion("BCECriterion", torch.rand(3, 4), torch.ones(3, 4), torch.ones(3, 4):cuda())
  for _, name in ipairs { "ClassNLLCriterion", "CrossEntropyCriterion", "MultiMarginCriterion" } do
    for _, classes in ipairs { at:cuda(), at:cudaLong(), at } do same_criterion(name, input, at, classes) end
  end
end)

on_device("a net learns, goes back and keeps its parameters in one vector", function()
  local net = nn.Sequential():add(nn.Linear(2, 8)):add(nn.Tanh()):add(nn.Linear(8, 1)):cuda()
  local criterion = nn.MSECriterion():cuda()
  local x = torch.CudaTensor { { 0, 0 }, { 0, 1 }, { 1, 0 }, { 1, 1 } }
  local t = torch.CudaTensor { { 0 }, { 1 }, { 1 }, { 0 } }
  local parameters, gradients = net:getParameters()
  expect.equal({ parameters:type(), parameters:nElement(), net:type() }, { "torch.CudaTensor", 33, "torch.CudaTensor" })
  local first, last
  for _ = 1, 200 do
    gradients:zero()
    last = criterion:forward(net:forward(x), t)
    first = first or last
    net:backward(x, criterion:backward(net.output, t))
    parameters:add(-0.3, gradients)
  end
  expect.truthy(last < first / 2)
  expect.equal(net:float():forward(x:float()):type(), "torch.FloatTensor")
  local dropout = nn.Dropout(0.5):cuda()
  expect.equal(dropout:forward(torch.ones(50):cuda()):type(), "torch.CudaTensor")
end)

harness.run()
