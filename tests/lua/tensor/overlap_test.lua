-- tests/lua/tensor/overlap_test.lua: ops whose inputs share memory with what they write, and writes to
-- tensors that overlap themselves.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

local function list(x) return x:tolist() end

test("updates read their inputs before they write", function()
  local function numbers() return ml.arange(1, 6):float() end
  local index = ml.tensor { 2, 3, 4, 5 }
  local x = numbers()
  x:scatter_(1, index, x[{ { 1, 4 } }])
  expect.equal(list(x), { 1.0, 1.0, 2.0, 3.0, 4.0, 6.0 })
  x = numbers()
  x:scatter_add_(1, index, x[{ { 1, 4 } }])
  expect.equal(list(x), { 1.0, 3.0, 5.0, 7.0, 9.0, 6.0 })
  x = numbers()
  x:index_add_(1, index, x[{ { 1, 4 } }])
  expect.equal(list(x), { 1.0, 3.0, 5.0, 7.0, 9.0, 6.0 })
  x = numbers()
  x[{ index }] = x[{ { 1, 4 } }]
  expect.equal(list(x), { 1.0, 1.0, 2.0, 3.0, 4.0, 6.0 })
  x = numbers()
  x[{ { 2, 6 } }]:copy_(x[{ { 1, 5 } }])
  expect.equal(list(x), { 1.0, 1.0, 2.0, 3.0, 4.0, 5.0 })
  x = ml.tensor { 2, 1, 3 }
  x:scatter_(1, x, x)
  expect.equal(list(x), { 1, 2, 3 })
  x = ml.tensor { 2, 3, 1 }
  x:index_add_(1, x, ml.tensor { 10, 20, 30 })
  expect.equal(list(x), { 32, 13, 21 })
  local momentum = numbers()
  local shifted = momentum[{ { 2, 6 } }]
  local function step() ml._internal.sgd_step({ shifted }, { ml.ones(5) }, { momentum[{ { 1, 5 } }] }, 1, 0.5) end
  expect.error(step, "share memory")
  x = numbers()
  ml._internal.sgd_step({ x[{ { 2, 6 } }] }, { x[{ { 1, 5 } }] }, {}, 1)
  expect.equal(list(x), { 1.0, 1.0, 1.0, 1.0, 1.0, 1.0 })
  x = numbers()
  ml.cumsum(x[{ { 1, 5 } }], 1, { out = x[{ { 2, 6 } }] })
  expect.equal(list(x), { 1.0, 1.0, 3.0, 6.0, 10.0, 15.0 })
end)

test("writes to windows that overlap are refused, to interleaved ones not", function()
  local windows = ml.zeros(6):unfold(1, 3, 1)
  for _, write in ipairs {
    function() windows:add_(1) end, function() windows:fill_(1) end,
    function() windows:copy_(ml.ones(4, 3)) end,
    function() ml.add(ml.ones(4, 3), 1, { out = windows }) end,
  } do
    expect.error(write, "share one position in memory")
  end
  ml.zeros(6):unfold(1, 3, 3):add_(1)
  local s = ml.Storage(9)
  local woven = ml.empty(0):set_(s, 0, { 2, 3 }, { 3, 2 }) -- 0 2 4 and 3 5 7
  woven:copy_(ml.arange(1, 6):float():view(2, 3))
  expect.equal(s:tolist(), { 1.0, 0.0, 2.0, 4.0, 3.0, 5.0, 0.0, 6.0, 0.0 })
  local met = ml.empty(0):set_(s, 0, { 2, 3 }, { 4, 2 }) -- 4 twice
  expect.error(function() met:add_(1) end, "share one position in memory")
end)

harness.run()
