-- tests/lua/cuda/pinned_test.lua: page-locked memory: tensors, and the batches of loaders. What needs a
-- CUDA device, a real or an emulated one, is skipped without.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local data = ml.data

local CUDA = ml.cuda.is_available()

local function test_cuda(name, body)
  test(name, function()
    if not CUDA then harness.skip "there is no CUDA device" end
    body()
  end)
end

test("without a device nothing is pinned", function()
  expect.equal(ml.ones(3):is_pinned(), false)
  expect.error(function() ml.ones(3):is_pinned(3) end, "is_pinned")
  if CUDA then return end
  expect.error(function() ml.ones(3):pin_memory() end, "pin_memory: CUDA is not available")
  local said = {}
  local loader = data.DataLoader({ 1, 2 }, { pin_memory = true })
  for x in loader do said[#said + 1] = x:is_pinned() end
  expect.equal(said, { false, false })
end)

test("options of loaders", function()
  expect.error(function() data.DataLoader({ 1 }, { pin_memory_device = "cuda" }) end,
    "'pin_memory_device' is for 'pin_memory = true'")
  expect.error(function() data.DataLoader({ 1 }, { pin_memory = true, pin_memory_device = "cpu" }) end,
    "'pin_memory_device' must be a CUDA device, got 'cpu'")
  expect.error(function() data.DataLoader({ 1 }, { pin_memory = 1 }) end, "pin_memory")
end)

test_cuda("a pinned copy", function()
  local x = ml.arange(6):float():view(2, 3)
  for _, source in ipairs { x, x:t(), x:narrow(2, 2, 2), ml.ones(1):expand(4, 2), ml.tensor(5), x:half() } do
    local y = source:pin_memory()
    expect.truthy(y:is_pinned() and not source:is_pinned() and y:pin_memory():is_set_to(y))
    expect.equal(y:totable(), source:totable())
    expect.equal({ y.dtype, tostring(y.shape) }, { source.dtype, tostring(source.shape) })
    expect.equal(y:cuda():cpu():totable(), source:totable())
  end
  expect.truthy(x:pin_memory()[1]:is_pinned())
  expect.equal(ml.zeros(0):pin_memory():is_pinned(), false)
  expect.error(function() x:cuda():pin_memory() end, "pin_memory: only tensors on the CPU are pinned")
  local w = ml.ones { 2, requires_grad = true }
  w:pin_memory():sum():backward()
  expect.equal(w.grad:totable(), { 1, 1 })
  for _ = 1, 50 do ml.empty(100000):pin_memory() end
end)

test_cuda("batches are pinned, in tables too, with and without workers", function()
  local set = { { ml.ones(2), { a = ml.zeros(3), b = "text" } }, { ml.ones(2), { a = ml.ones(3), b = "more" } } }
  for _, n in ipairs { 0, 2 } do
    local loader = data.DataLoader(set, { batch_size = 2, num_workers = n, pin_memory = true,
      pin_memory_device = "cuda:0" })
    local seen = 0
    for x, named in loader do
      seen = seen + 1
      expect.truthy(x:is_pinned() and named.a:is_pinned())
      expect.equal(named.b, { "text", "more" })
      expect.equal(x:cuda():sum():item(), 4)
    end
    expect.equal(seen, 1)
  end
  expect.error(function()
    data.DataLoader(set, { pin_memory = true, pin_memory_device = "cuda:90" })
  end, "no device 90")
end)

harness.run()
