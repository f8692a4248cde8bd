-- tests/lua/random_test.lua: the ends of random integers.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

-- The least and the greatest of enough draws to meet each of a few numbers.
local function ends(x) return { x:amin():item(), x:amax():item() } end

test("randint includes both ends", function()
  ml.manual_seed(1)
  expect.near(ends(ml.randint(6, { 500 })), { 1, 6 })
  expect.near(ends(ml.randint(1, 6, { 500 })), { 1, 6 })
  expect.near(ends(ml.randint(0, 1, { 10, 10 })), { 0, 1 })
  expect.near(ends(ml.randint(-2, 2, { 500 }, { dtype = "float32" })), { -2, 2 })
  expect.near(ends(ml.randint { 3, { 100 } }), { 1, 3 })
  expect.near(ends(ml.randint { low = 2, high = 4, size = { 100 }, dtype = "int8" }), { 2, 4 })
  expect.near(ends(ml.randint { high = 4, size = { 100 } }), { 1, 4 })
  expect.near(ends(ml.randint(7, 7, { 5 })), { 7, 7 })
  expect.equal(ml.randint(1, { 5 }):sum():item(), 5)
  expect.equal(tostring(ml.randint(3, ml.zeros(2, 3).shape).shape), "(2, 3)")
  expect.near(ends(ml.randint(1, 3, { 100 }, { generator = ml.Generator { seed = 1 } })), { 1, 3 })
  expect.near(ends(ml.randint(3, { 100 }, { generator = ml.Generator { seed = 1 } })), { 1, 3 })
  expect.equal(ml.randint(3, { 4 }).dtype, "int64")
end)

test("random_ includes both ends", function()
  ml.manual_seed(1)
  local x = ml.zeros(500)
  expect.near(ends(x:random_(6)), { 1, 6 })
  expect.near(ends(x:random_(0, 1)), { 0, 1 })
  expect.near(ends(x:random_ { low = 3, high = 5 }), { 3, 5 })
  expect.near(ends(x:random_(6, { generator = ml.Generator { seed = 1 } })), { 1, 6 })
  expect.equal(ml.zeros(9, { dtype = "bool" }):random_(1, 1):all():item(), true)
  local wide = ml.zeros(2000, { dtype = "int64" }):random_(math.mininteger, math.maxinteger)
  expect.truthy(wide:amin():item() < -(1 << 62) and wide:amax():item() > 1 << 62)
end)

test("what is no range, or has no size, is refused", function()
  expect.error(function() return ml.randint(5, 4, { 2 }) end, "randint: no integer from 5 to 4")
  expect.error(function() return ml.randint(0, { 2 }) end, "randint: no integer from 1 to 0")
  expect.error(function() return ml.randint(1, 6) end, "randint: argument 'size' is missing")
  expect.error(function() return ml.randint(6) end, "randint: argument '%w+' is missing")
  expect.error(function() return ml.randint() end, "randint: argument '%w+' is missing")
  expect.error(function() return ml.randint(1.5, { 2 }) end, "randint: ")
  expect.error(function() return ml.randint(1, 6, nil) end, "'size' is nil")
  expect.error(function() return ml.zeros(2):random_() end, "random_: argument 'low' is missing")
  expect.error(function() return ml.zeros(2, { dtype = "uint8" }):random_(0, 256) end, "uint8 holds 0 to 255, not 0 to 256")
end)

test("samplers draw every position", function()
  local data = ml.data
  ml.manual_seed(1)
  local set = data.TensorDataset(ml.arange(3))
  local seen = {}
  for batch in data.DataLoader(set, { sampler = data.RandomSampler(set, { replacement = true, num_samples = 60 }) }) do
    seen[batch:item()] = true
  end
  expect.truthy(seen[1] and seen[2] and seen[3] and not seen[0] and not seen[4])
end)

harness.run()
