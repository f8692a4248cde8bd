-- tests/lua/tensor/data_field_test.lua: `x.data = y`, which makes x show another tensor's memory.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect

local function list(x) return x:totable() end

test("x.data = y makes x show y's memory, and keeps its position on the tape", function()
  local x, y = ml.ones(2), ml.arange(3)
  x.data = y
  expect.equal({ x.dtype, list(x) }, { "int64", { 1, 2, 3 } })
  y[1] = 9
  expect.equal(x[1]:item(), 9)
  local leaf = ml.ones(2, { requires_grad = true })
  leaf:square():sum():backward()
  leaf.data = ml.full({ 2 }, 3.0)
  leaf:square():sum():backward()
  expect.equal({ list(leaf.grad), leaf.is_leaf, leaf.requires_grad }, { { 8.0, 8.0 }, true, true })
  leaf.data = ml.ones(3, { dtype = ml.float64 })
  expect.error(function() leaf:sum():backward() end, "has a gradient of shape")
  leaf.grad = nil
  leaf:sum():backward()
  expect.equal({ leaf.grad.dtype, list(leaf.grad) }, { "float64", { 1.0, 1.0, 1.0 } })
end)

test("x.data = y: what the tape finds, and what is refused", function()
  local x = ml.ones(2, { requires_grad = true })
  local y = x * x
  x.data = ml.full({ 2 }, 5.0)
  expect.error(function() y:sum():backward() end, "changed")
  local used = x + 1
  x.data = ml.ones(2, { dtype = ml.float64 })
  expect.error(function() used:sum():backward() end, "backward: a leaf of")
  local z = (x * 2):to(ml.float32)
  z.data = ml.zeros(2)
  z:sum():backward()
  expect.equal({ list(z), list(x.grad) }, { { 0.0, 0.0 }, { 2.0, 2.0 } })
  expect.error(function() z.data = ml.zeros(3) end, "computed from others")
  expect.error(function() x.data = ml.tensor { 1, 2 } end, "cannot become int64")
  expect.error(function() (x * 1)[1].data = ml.ones(1) end, "view of one that requires grad")
  expect.error(function() x.data = 5 end, "data")
  expect.error(function() ml.vmap(function(s) s.data = ml.ones(1) return s end)(ml.ones(2)) end,
    "inside vmap")
  local whole = ml.zeros(2)
  local part = whole[1]
  part.data = ml.ones({})
  part:add_(1)
  expect.equal({ part:item(), list(whole) }, { 2.0, { 0.0, 0.0 } })
end)

harness.run()
