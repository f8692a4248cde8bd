-- tests/lua/tensor/backend_test.lua: a kind of device that a module registers (tests/backends/) is one as
-- good as any other: named, used by ops, the tape, autocast and vmap, and refused where it lacks something.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect
require "host2"
local nn, optim = ml.nn, ml.optim

local there = { device = "host2" }
local function same(a, b) expect.truthy(a:to "cpu":equal(b:to "cpu"), tostring(a)) end

test("devices by name", function()
  expect.equal(ml.ones(3, there).device, "host2:0")
  expect.equal(ml.ones(3, { device = "host2:1" }).device, "host2:1")
  expect.equal(ml.ones(3, there).is_cuda, false)
  expect.equal(ml.ones(3, there):get_device(), 0)
  expect.error(function() ml.ones(3, { device = "host2:2" }) end, "there is no device host2:2; this machine has 2 host2")
  expect.error(function() ml.ones(3, { device = "host3" }) end, 'no device is named \'host3\'; a device is "cpu", "cuda"')
  expect.error(function() ml.ones(3, { device = "host2:x" }) end, "no device is named 'host2:x'")
  expect.error(function() ml.ones(3, { device = "cpu:0" }) end, "no device is named 'cpu:0'")
end)

test("copies", function()
  local x = ml.randn(4, 5)
  same(x:to "host2", x)
  same(x:to "host2":to "host2:1", x)
  same(x:t():to "host2", x:t())
  same(x:to("host2", "float64"), x:double())
  same(x:to "host2":t():to("cpu", "float16"), x:t():half())
  expect.equal(x:to "host2":to(ml.zeros(1, { device = "host2:1" })).device, "host2:1")
  local y = ml.zeros(4, 5, there)
  y:copy_(x)
  same(y, x)
  y[{ 2, {} }] = x[1]
  same(y[2], x[1])
  expect.equal(y[{ 2, 3 }]:item(), x[{ 1, 3 }]:item())
  expect.truthy(tostring(ml.ones(2, there)):find("host2:0", 1, true))
end)

test("copies between two backends go through the host", function()
  if not ml.cuda.is_available() then harness.skip "no CUDA device" end
  local x = ml.randn(4, 5)
  same(x:to "cuda":to "host2", x)
  same(x:to "host2":to "cuda", x)
  same(x:to "cuda":t():to("host2", "float64"), x:t():double())
  local y = ml.zeros(4, 5, there)
  same(y:copy_(x:to "cuda"), x)
  same(ml.zeros(4, 5, { device = "cuda" }):copy_(x:to "host2"), x)
  local leaf = x:clone():requires_grad_(true)
  leaf:to "cuda":to "host2":sum():backward()
  same(leaf.grad, ml.ones(4, 5))
end)

test("tensors of two devices", function()
  expect.error(function() return ml.ones(2, there) + ml.ones(2) end, "host2:0.*cpu")
  expect.error(function() return ml.mm(ml.ones(2, 2), ml.ones(2, 2, there)) end, "cpu")
end)

test("training", function()
  local function trained(device)
    ml.manual_seed(3)
    local net = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)):to(device)
    local opt = optim.Adam(net:parameters(), { lr = 0.01 })
    local x, y = ml.randn(16, 4):to(device), ml.randint(1, 3, { 16 }):to(device)
    for _ = 1, 3 do
      opt:zero_grad()
      nn.functional.cross_entropy(net(x), y):backward()
      opt:step()
    end
    return net(x):to "cpu"
  end
  expect.truthy(ml.allclose(trained "host2", trained "cpu", { rtol = 1e-5, atol = 1e-6 }))
end)

test("random numbers are those of the CPU", function()
  ml.manual_seed(5)
  local want = ml.randn(10)
  ml.manual_seed(5)
  same(ml.randn(10, there), want)
  expect.error(function() ml.Generator "host2:7" end, "Generator: there is no device host2:7")
end)

test("autocast", function()
  local _ <close> = ml.autocast("host2", { dtype = "bfloat16" })
  expect.equal(ml.mm(ml.ones(2, 2, there), ml.ones(2, 2, there)).dtype, "bfloat16")
  expect.equal(ml.mm(ml.ones(2, 2), ml.ones(2, 2)).dtype, "float32")
end)

test("inside vmap", function()
  local seen = {}
  local y = ml.func.vmap(function(x)
    seen = { x.device, x.is_cuda }
    return x * 2
  end)(ml.ones(3, 2, there))
  expect.equal(seen[1], "host2:0")
  expect.equal(seen[2], false)
  same(y, ml.full({ 3, 2 }, 2))
end)

test("what it lacks is said", function()
  expect.error(function() ml.ones(2, there):record_stream {} end, "record_stream: the tensor is on host2:0")
end)

test("its memory is counted", function()
  local before = ml.memory.live_bytes()
  local x = ml.ones(1024, there)
  expect.equal(ml.memory.live_bytes() - before, 4096)
  x:free()
  expect.equal(ml.memory.live_bytes(), before)
end)

test("as the default device", function()
  ml.set_default_device "host2"
  local x = ml.zeros(2)
  ml.set_default_device "cpu"
  expect.equal(x.device, "host2:0")
end)

harness.run()
