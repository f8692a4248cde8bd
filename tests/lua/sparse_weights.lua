-- tests/lua/sparse_weights.lua: the weight that tests of sparse gradients train, and how its numbers
-- are compared.

local harness = require "harness"
local ml = require "moonlet"
local expect = harness.expect

local sparse = { ROWS = 6, FEATURES = 3 }

--- A leaf of those sizes with the same numbers each time; options: `dtype`, `device`, `requires_grad`.
function sparse.weight(options)
  local rows = {}
  for i = 1, sparse.ROWS do
    rows[i] = {}
    for j = 1, sparse.FEATURES do rows[i][j] = (3 * (i - 1) + j - 1) % 7 * 0.25 - 0.5 end
  end
  options = options or {}
  local w = ml.tensor(rows, { dtype = options.dtype or ml.float64, device = options.device })
  w.requires_grad = options.requires_grad ~= false
  return w
end

--- Fails unless a tensor has the shape of a nested table and its numbers within `tolerance`.
function sparse.same(got, want, tolerance, what)
  expect.equal(got.shape, ml.tensor(want).shape)
  local apart = (got:double():to "cpu" - ml.tensor(want, { dtype = ml.float64 })):abs()
  expect.truthy(apart:numel() == 0 or apart:max():item() <= tolerance,
    ("%s: got %s"):format(what or "values", tostring(got)))
end

return sparse
