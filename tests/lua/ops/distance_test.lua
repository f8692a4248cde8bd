-- tests/lua/ops/distance_test.lua: distances between the rows of matrices, and their gradients, against
-- those made of differences.

local here = arg[0]:match("^(.*)/") or "."
package.path = here .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect

test("distances around whole vectors and tiles of points", function()
  ml.manual_seed(4)
  local function own(a, b, p)
    return ml.linalg.vector_norm(a:unsqueeze(2):double() - b:unsqueeze(1):double(), p, -1)
  end
  for _, sizes in ipairs { { 3, 1, 2 }, { 7, 9, 3 }, { 2, 63, 33 }, { 5, 65, 1100 }, { 3, 200, 70 } } do
    local a, b = ml.randn(sizes[1], sizes[3]), ml.randn(sizes[2], sizes[3])
    for _, p in ipairs { 0, 0.5, 1, 2, 3, math.huge } do
      local y = ml.cdist(a, b, p, "donot_use_mm_for_euclid_dist"):double()
      local z = own(a, b, p)
      expect.truthy((y - z):abs():le(z * 2e-6 + 1e-30):all():item(), p)
      local pairs, whole = ml.nn.functional.pdist(b, p), own(b, b, p)
      local at = ml.triu_indices(sizes[2], sizes[2], 1)
      expect.near(pairs:tolist(), whole[{ at[1], at[2] }]:tolist(), 1e-3)
    end
  end
end)

test("distances of NaN, of equal points and of nothing", function()
  local x = ml.tensor { { 1.0, 2 }, { 0 / 0, 1 }, { 3, 4 } }
  for _, p in ipairs { 1, 2, 3, math.huge } do
    local y = ml.cdist(x, x, p, "donot_use_mm_for_euclid_dist")
    expect.equal(y:isnan():sum():item(), 5)
    expect.near(y[1][3]:item(), p == math.huge and 2 or (2 ^ p + 2 ^ p) ^ (1 / p), 1e-6)
    local w = ml.ones(3, 4, { requires_grad = true })
    ml.cdist(w, w, p, "donot_use_mm_for_euclid_dist"):sum():backward()
    expect.equal(w.grad:abs():sum():item(), 0)
    w = ml.ones(3, 4, { requires_grad = true })
    ml.nn.functional.pdist(w, p):sum():backward()
    expect.equal(w.grad:abs():sum():item(), 0)
  end
  expect.equal(ml.cdist(ml.randn(0, 3), ml.randn(4, 3)).shape, { 0, 4 })
  expect.equal(ml.cdist(ml.randn(2, 0), ml.randn(3, 0)):tolist(), { { 0, 0, 0 }, { 0, 0, 0 } })
  expect.equal(ml.nn.functional.pdist(ml.randn(3, 0)):tolist(), { 0, 0, 0 })
  expect.error(function() return ml.cdist(ml.randn(2, 3), ml.randn(2, 3):double(), 1) end, "dtypes differ")
end)

test("gradients of distances by vectors are those by differences", function()
  ml.manual_seed(5)
  for _, p in ipairs { 1, 1.5, 2, 3, math.huge } do
    local function grads(f, ...)
      local leaves = {}
      for i, x in ipairs { ... } do leaves[i] = x:clone():requires_grad_() end
      local y = f(table.unpack(leaves))
      return ml.grad((y * ml.linspace(0.5, 2, y:numel()):reshape(y.shape):double()):sum(), leaves)
    end
    local a, b = ml.randn(5, 70):double(), ml.randn(67, 70):double()
    local got = grads(function(x, y) return ml.cdist(x, y, p, "donot_use_mm_for_euclid_dist") end, a, b)
    local want = grads(function(x, y) return ml.linalg.vector_norm(x:unsqueeze(2) - y:unsqueeze(1), p, -1) end, a, b)
    for k = 1, 2 do expect.truthy(ml.allclose(got[k], want[k], { rtol = 1e-9, atol = 1e-9 }), p) end
    local at = ml.triu_indices(67, 67, 1)
    got = grads(function(x) return ml.nn.functional.pdist(x, p) end, b)
    want = grads(function(x) return ml.linalg.vector_norm(x[at[1]] - x[at[2]], p, -1) end, b)
    expect.truthy(ml.allclose(got[1], want[1], { rtol = 1e-9, atol = 1e-9 }), p)
  end
end)

harness.run()
