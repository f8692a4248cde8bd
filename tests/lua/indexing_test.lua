-- tests/lua/indexing_test.lua: every way to index a tensor, to read and to assign.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/?.lua;" .. package.path
local harness = require "harness"
local test, expect = harness.test, harness.expect

local function matrix()
  return ml.tensor { { 11, 12, 13, 14 }, { 21, 22, 23, 24 }, { 31, 32, 33, 34 } }
end

local function flat(x) return table.concat(x:reshape(-1):totable(), " ") end

test("positions count from 1 and from the end", function()
  local x = matrix()
  expect.equal(flat(x[2]), "21 22 23 24")
  expect.equal(flat(x[-1]), "31 32 33 34")
  expect.equal(x[{ 2, 3 }]:item(), 23)
  expect.equal(x[2][3]:item(), 23)
end)

test("ranges include both ends", function()
  local x = matrix()
  expect.equal(flat(x[{ { 2, 3 } }]), "21 22 23 24 31 32 33 34")
  expect.equal(flat(x[{ {}, { 1, -1, 2 } }]), "11 13 21 23 31 33")
  expect.equal(tostring(x[{ { 3, 2 } }].shape), "(0, 4)")
  expect.equal(tostring(x[{ { 1, 0 } }].shape), "(0, 4)")
end)

test("strings index as typed", function()
  local x = matrix()
  expect.equal(flat(x["2:3, 1"]), "21 31")
  expect.equal(flat(x["..., -1"]), "14 24 34")
  expect.equal(flat(x[":, 1:4:3"]), "11 14 21 24 31 34")
  expect.equal(tostring(x["newaxis, ..."].shape), "(1, 3, 4)")
  expect.error(function() return x["1:2:3:4"] end, "too many ':'")
  expect.error(function() return x["1,x"] end, "cannot read 'x'")
end)

test("newaxis and ellipsis as values", function()
  local x = matrix()
  expect.equal(tostring(x[{ ml.ellipsis, ml.newaxis }].shape), "(3, 4, 1)")
  expect.equal(flat(x[{ ml.ellipsis, 2 }]), "12 22 32")
  expect.error(function() return x["..., ..."] end, "one ellipsis")
end)

test("basic forms are views", function()
  local x = matrix()
  x[{ {}, 1 }][2] = 0
  expect.equal(x[{ 2, 1 }]:item(), 0)
end)

test("index tensors and masks", function()
  local x = matrix()
  expect.equal(flat(x[ml.tensor { 3, 1 }]), "31 32 33 34 11 12 13 14")
  expect.equal(flat(x[{ {}, ml.tensor { -1, 1 } }]), "14 11 24 21 34 31")
  expect.equal(flat(x[{ ml.tensor { 1, 2 }, ml.tensor { 3, 4 } }]), "13 24")
  expect.equal(flat(x[x:gt(31)]), "32 33 34")
  expect.equal(flat(x[ml.tensor { true, false, true }]), "11 12 13 14 31 32 33 34")
  expect.error(function() return x[ml.tensor { true, false }] end, "mask of shape")
  expect.error(function() return x[ml.tensor { 4 }] end, "4")
  expect.error(function() return x[ml.tensor { 1.5 }] end, "integers or bools")
end)

test("assignment in every form", function()
  local x = matrix()
  x[1] = 0
  expect.equal(flat(x[1]), "0 0 0 0")
  x[{ 2, { 2, 3 } }] = ml.tensor { 5, 6 }
  expect.equal(flat(x[2]), "21 5 6 24")
  x["3, 1:2"] = { 8, 9 }
  expect.equal(flat(x[3]), "8 9 33 34")
  x[x:eq(0)] = -1
  expect.equal(flat(x[1]), "-1 -1 -1 -1")
  x[ml.tensor { 1, 3 }] = 7
  expect.equal(flat(x[{ {}, 4 }]), "7 24 7")
  expect.error(function() x[1] = ml.tensor { 1, 2, 3 } end, "cannot assign shape")
  expect.error(function() x[1] = "a" end, "got string")
end)

test("bad positions are named", function()
  local x = matrix()
  expect.error(function() return x[0] end, "index 0: positions start at 1")
  expect.error(function() return x[4] end, "index 4 is out of range for dimension 1 of size 3")
  expect.error(function() return x[{ 1, -5 }] end, "index %-5 is out of range")
  expect.error(function() return x[{ 1, 1, 1 }] end, "3 positions for a tensor of shape")
  expect.error(function() return x[{ { 1, 3, -1 } }] end, "step must be positive")
  expect.error(function() return x[{ { 1, 9 } }] end, "out of range")
  expect.error(function() return x[1.5] end, "positions are integers")
  expect.error(function() return x[{ { 1, 2, 3, 4 } }] end, "ml.tensor")
  expect.error(function() return x[print] end, "got function")
end)

test("gradients pass through indexing", function()
  local x = ml.zeros { 3, 4, requires_grad = true }
  local y = x[{ 2, { 1, 2 } }]:sum() + x[ml.tensor { 1, 1 }]:sum()
  y:backward()
  expect.equal(x.grad[{ 1, 1 }]:item(), 2.0)
  expect.equal(x.grad[{ 2, 2 }]:item(), 1.0)
  expect.equal(x.grad[{ 3, 3 }]:item(), 0.0)
end)

harness.run()
