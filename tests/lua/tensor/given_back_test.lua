-- tests/lua/tensor/given_back_test.lua: memory that goes while tensors, and the tape, are on it.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

test("memory that is given back while tensors are on it, and taken from another tensor", function()
  local before = ml.memory.live_bytes()
  local x = ml.ones(1000)
  local view = x:narrow(1, 2, 3)
  local w = ml.ones(1000, { requires_grad = true })
  local y = (w * x):sum()
  local version = x._version
  ml._give_back_memory(x)
  ml._give_back_memory(view)
  expect.equal(x._version, version)
  expect.truthy(ml.memory.live_bytes() < before + 3 * 4000)
  for _, use in ipairs { function() return x:sum() end, function() return tostring(view) end,
      function() y:backward() end, function() return x:storage():tolist() end,
      function() x:storage():resize(5) end, function() view:fill_(1) end,
      function() return ml.save_string("npy", x) end, function() return x:data_ptr() end } do
    expect.error(use, "has been given back")
  end
  expect.equal(x.shape:totable(), { 1000 })
  local fresh = ml.full({ 1000 }, 3.0)
  local alias = fresh:detach()
  ml._take_memory(x, fresh)
  expect.equal(view:tolist(), { 3, 3, 3 })
  expect.error(function() return alias:sum() end, "has been given back")
  y = (w * x):sum()
  y:backward()
  expect.equal(w.grad:narrow(1, 1, 2):tolist(), { 3, 3 })
  expect.error(function() ml._take_memory(x, ml.ones(1000)) end, "a tensor without memory")
  ml._give_back_memory(x)
  expect.error(function() ml._take_memory(x, ml.ones(10)) end, "one with as much")
  expect.error(function() ml._give_back_memory(3) end, "tensor")
end)

harness.run()
