-- tests/lua/torch7/torch7_cuda_test.lua: cutorch: torch.CudaTensor and its like, on a device or its emulation.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local torch = require "torch"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect

-- A test that needs a device.
local function on_device(name, f)
  test(name, function()
    if not ml.cuda.is_available() then return harness.skip(ml.cuda.unavailable_reason()) end
    f(require "cutorch")
  end)
end

test("the names come with cutorch", function()
  expect.equal({ torch.CudaTensor, torch.Tensor().cuda }, {})
  require "cutorch"
  expect.equal(tostring(torch.CudaTensor), "torch.CudaTensor")
  expect.equal(tostring(torch.CudaLongStorage), "torch.CudaLongStorage")
end)

on_device("tensors move and stay of their class", function()
  local x = torch.FloatTensor { { 1, 2 }, { 3, 4 } }:cuda()
  expect.equal({ x:type(), x:tensor().is_cuda, x:getDevice() }, { "torch.CudaTensor", true, 1 })
  x:add(1):mul(2)
  expect.equal(x:float():totable(), { { 4.0, 6.0 }, { 8.0, 10.0 } })
  expect.equal({ x[2][1], x:sum(), (x * x):type(), x:t():clone():type() },
    { 8.0, 28.0, "torch.CudaTensor", "torch.CudaTensor" })
  x[1] = 0
  expect.equal(x:sum(), 18.0)
  expect.equal({ x:gt(1):type(), x:double():type(), x:cudaDouble():type(), x:long():type() },
    { "torch.CudaByteTensor", "torch.DoubleTensor", "torch.CudaDoubleTensor", "torch.LongTensor" })
  local values, positions = x:max(2)
  expect.equal({ values:totable(), positions:type() },
    { { { 0.0 }, { 10.0 } }, "torch.CudaLongTensor" })
  expect.equal(x[x:gt(8)]:totable(), { 10.0 })
end)

on_device("positions may be of the class of the tensor", function()
  local x, at = torch.CudaTensor { { 1, 2 }, { 3, 4 } }, torch.CudaTensor { 2 }
  expect.equal(x:index(1, at):totable(), { { 3.0, 4.0 } })
  expect.equal(x:gather(2, torch.CudaTensor { { 2 }, { 1 } }):totable(), { { 2.0 }, { 3.0 } })
  expect.equal(torch.CudaTensor(1, 2):zero():scatter(2, torch.CudaTensor { { 2 } }, 5):totable(), { { 0.0, 5.0 } })
  expect.equal(x:clone():indexFill(2, at, 0):totable(), { { 1.0, 0.0 }, { 3.0, 0.0 } })
  expect.error(function() torch.FloatTensor(2, 2):index(1, torch.FloatTensor { 1 }) end, "LongTensor")
end)

on_device("new tensors and storages are on the device", function()
  local x = torch.CudaTensor(2, 3):fill(2)
  expect.equal({ x:storage():type(), #x:storage(), x:storage()[6] },
    { "torch.CudaStorage", 6, 2.0 })
  x:resize(4, 2)
  expect.equal(x:size():totable(), { 4, 2 })
  expect.equal(torch.CudaTensor { 1, 2 }:totable(), { 1.0, 2.0 })
  expect.equal(x.new(3):type(), "torch.CudaTensor")
  expect.equal(torch.zeros(torch.CudaTensor(), 2):tensor().is_cuda, true)
  expect.equal(torch.range(torch.CudaTensor(), 1, 3):totable(), { 1.0, 2.0, 3.0 })
  expect.equal(x:uniform():lt(1):all(), true)
end)

on_device("tensors of two devices do not mix", function()
  expect.error(function() return torch.CudaTensor(2) + torch.FloatTensor(2) end,
    "two tensors of one type")
  expect.error(function() torch.add(torch.CudaTensor(2), torch.FloatTensor(2)) end,
    "got CudaTensor FloatTensor")
end)

on_device("files", function()
  local back = torch.deserialize(torch.serialize { torch.CudaTensor { 1, 2 } })[1]
  expect.equal({ back:type(), back:totable() }, { "torch.CudaTensor", { 1.0, 2.0 } })
end)

on_device("devices count from 1", function(cutorch)
  expect.equal(cutorch.getDevice(), 1)
  expect.truthy(cutorch.getDeviceCount() >= 1)
  expect.error(function() cutorch.setDevice(cutorch.getDeviceCount() + 1) end, "is outside 1 to")
  expect.equal(cutorch.withDevice(cutorch.getDeviceCount(), cutorch.getDevice),
    cutorch.getDeviceCount())
  expect.equal(cutorch.getDevice(), 1)
  cutorch.synchronize()
  local free, total = cutorch.getMemoryUsage(1)
  expect.truthy(free <= total)
  expect.truthy(cutorch.getDeviceProperties(1).totalGlobalMem > 0)
end)

harness.run()
