-- tests/lua/autograd/written_test.lua: arguments that an op writes to besides the tensor it is called on:
-- changes are counted, and what cannot be written to is refused.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

local x = ml.arange(1.0, 12.0):reshape(4, 3)

local function normed(mean, var) return ml._internal.native_batch_norm(x, nil, nil, mean, var) end

test("running statistics that the tape kept count as changed", function()
  for _, name in ipairs { "mean", "var" } do
    local kept, other = ml.zeros(3), ml.ones(3)
    local w = ml.ones { 3, requires_grad = true }
    local y = w * kept
    if name == "mean" then normed(kept, other) else normed(other, kept) end
    expect.error(function() y:sum():backward() end, "native_batch_norm")
  end
end)

test("the state of an optimiser that the tape kept counts as changed", function()
  local w = ml.ones { 3, requires_grad = true }
  local state, p = ml.zeros(3), ml.ones(3)
  local y = w * state
  ml._internal.sgd_step({ p }, { ml.ones(3) }, { state }, 0.1, 0.9)
  expect.error(function() y:sum():backward() end, "sgd_step")
end)

test("expanded, overlapping and shared statistics are refused", function()
  expect.error(function() normed(ml.zeros(1):expand(3), ml.ones(3)) end,
    "native_batch_norm: several elements of running_mean")
  expect.error(function() normed(ml.zeros(3), ml.ones(1):expand(3)) end, "running_var")
  local both = ml.ones(3)
  expect.error(function() normed(both, both) end, "native_batch_norm: two of the tensors")
  local columns = ml.zeros(3, 2)
  local mean = columns[{ {}, 1 }]
  normed(mean, columns[{ {}, 2 }])
  expect.near(mean:tolist(), (x:mean(1) * 0.1):tolist())
end)

test("a written argument that requires grad is refused while recording", function()
  local leaf = ml.zeros { 3, requires_grad = true }
  expect.error(function() normed(leaf, ml.ones(3)) end, "native_batch_norm: running_mean.*no_grad")
  expect.error(function() normed(ml.zeros(3), leaf * 1) end, "native_batch_norm: running_var.*no_grad")
  ml.no_grad(function() normed(leaf, ml.ones(3)) end)
  expect.near(leaf:tolist(), (x:mean(1) * 0.1):tolist())
  expect.error(function() ml._internal.sgd_step({ ml.ones(3) }, { ml.ones(3) }, { leaf }, 0.1, 0.9) end, "momentum_buffer")
end)

test("an in-place change through an overlapping view is refused", function()
  local windows = ml.arange(1.0, 4.0):unfold(1, 2, 1)
  expect.error(function() windows:mul_(2) end, "overlapping.*clone")
  expect.error(function() windows:zero_() end, "overlapping.*clone")
end)

test("an update reads what it overwrites as it was", function()
  local index = ml.tensor { 2, 3, 4 }
  for _, op in ipairs { "scatter_", "scatter_add_", "index_add_" } do
    local a = ml.arange(1.0, 4.0)
    local b = a:clone()
    a[op](a, 1, index, a[{ { 1, 3 } }])
    b[op](b, 1, index, b[{ { 1, 3 } }]:clone())
    expect.near(a:tolist(), b:tolist())
  end
  local positions = ml.tensor { 3, 1, 2 }
  expect.equal(positions:scatter_(1, positions, ml.tensor { 7, 8, 9 }):tolist(), { 8, 9, 7 })
end)

test("scripts see plain types", function()
  local one = ml.ones(1)
  for _, f in ipairs { ml._internal.native_batch_norm, ml._internal.sgd_step, one.fill_ } do
    local message = expect.error(function() f(one, one, one, one, one, one, one, one, one, one) end, "use")
    expect.truthy(not message:find "!", message)
  end
end)

harness.run()
