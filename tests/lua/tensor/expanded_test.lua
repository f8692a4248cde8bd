-- tests/lua/tensor/expanded_test.lua: reductions over expanded dimensions: the numbers of the tensor
-- written out, and no memory for it.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

local huge = 1 << 40

local function close(got, want, what)
  expect.equal(got.dtype, want.dtype, what)
  expect.equal(tostring(got.shape), tostring(want.shape), what)
  local a, b = got:to "float64", want:to "float64"
  local near = a:eq(b):logical_or((a - b):abs():le(b:abs() * 1e-4 + 1e-5))
  expect.truthy(near:all():item(), what)
end

local reductions = { "sum", "mean", "amax", "amin", "prod", "var", "std", "logsumexp", "argmax",
  "argmin", "max", "min", "all", "any", "count_nonzero" }

test("reductions of expanded tensors are those of the written out", function()
  ml.manual_seed(3)
  for _, dtype in ipairs { "float32", "float64", "int64", "bool" } do
    local base = (ml.randn(4, 1, 3, 1) * 3):to(dtype)
    local x = base:expand(4, 5, 3, 6)
    local written = x:clone { memory_format = "contiguous_format" }
    for _, name in ipairs(reductions) do
      local real = name == "mean" or name == "var" or name == "std" or name == "logsumexp"
      local extreme = name:find "m[ai][xn]$" and dtype == "bool"
      if not (real and not dtype:find "float") and not extreme then
        for dim = 1, 4 do
          local what = ("%s of %s along %d"):format(name, dtype, dim)
          local got, at = x[name](x, dim)
          local want, position = written[name](written, dim)
          close(got, want, what)
          if at then close(at, position, what) end
        end
        if name ~= "logsumexp" then
          close(x[name](x), written[name](written), name .. " of all " .. dtype)
        end
      end
    end
    if dtype:find "float" then
      for _, p in ipairs { 0, 1, 2, 3, math.huge, -math.huge } do
        close(x:norm(p), written:norm(p), "norm " .. p)
        close(x:norm(p, 2), written:norm(p, 2), "norm " .. p .. " along 2")
      end
    end
  end
end)

test("dims expanded far beyond memory are reduced", function()
  local one = ml.tensor { 0.5 }:expand(huge)
  expect.equal(one:sum():item(), huge / 2)
  expect.equal(one:mean():item(), 0.5)
  expect.equal(one:amax():item(), 0.5)
  expect.equal(one:max():item(), 0.5)
  expect.equal(one:argmin():item(), 1)
  expect.equal(one:var():item(), 0)
  expect.equal(one:norm():item(), 0.5 * 2 ^ 20)
  expect.equal(one:norm(math.huge):item(), 0.5)
  expect.equal(one:count_nonzero():item(), huge)
  expect.equal(ml.tensor({ 3 }, { dtype = "int64" }):expand(huge):sum():item(), 3 * huge)
  expect.equal(ml.tensor { -1 }:expand(huge):prod():item(), 1)
  expect.truthy(ml.tensor { true }:expand(huge):all():item())
  expect.truthy(math.abs(ml.zeros(1):expand(huge):logsumexp(1):item() - 40 * math.log(2)) < 1e-4)
  local rows = ml.arange(3):reshape(3, 1):expand(3, huge)
  expect.equal(rows:sum(2)[3]:item(), 3 * huge)
  local values, positions = rows:max(2)
  expect.equal(values[3]:item(), 3)
  expect.equal(positions[3]:item(), 1)
end)

test("gradients pass through reductions of expanded tensors", function()
  local x = ml.tensor({ 2.0, 3.0 }, { requires_grad = true })
  x:reshape(2, 1):expand(2, 1000):mean():backward()
  close(x.grad, ml.tensor { 0.5, 0.5 })
end)

test("what cannot be had is an error that names the op and the size", function()
  local wide = ml.zeros(1):expand(huge)
  for name, f in pairs {
    clone = function() return wide:clone() end,
    add = function() return wide + 1 end,
    cumsum = function() return wide:cumsum(1) end,
    softmax = function() return wide:softmax(1) end,
    empty = function() return ml.empty(huge) end,
  } do
    local good, message = pcall(f)
    expect.truthy(not good, name)
    expect.truthy(message:find(name .. ": out of memory: could not allocate 4398046511104 bytes", 1, true), message)
  end
  expect.equal((ml.ones(3) + 1):sum():item(), 6)
end)

harness.run()
