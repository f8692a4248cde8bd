-- tests/lua/program/compiled_backward_test.lua: backward through compiled functions: gradients that lie
-- otherwise in memory than results do, and anomalies.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local case = require "program_case"
local test, expect = harness.test, harness.expect
local F = ml.nn.functional

-- The gradients of `leaves` after `backward(f(...))` of the plain and the compiled function, call by
-- call; they must have the same bits.
local function same_gradients(f, leaves, backward, count, ...)
  local fast = ml.compile(f)
  for i = 1, count or 5 do
    local grads = {}
    for k, g in ipairs { f, fast } do
      for _, leaf in ipairs(leaves) do leaf.grad = nil end
      backward(g(...), i)
      grads[k] = {}
      for n, leaf in ipairs(leaves) do grads[k][n] = leaf.grad and leaf.grad:clone() or false end
    end
    for n in ipairs(leaves) do
      expect.truthy(case.same(grads[1][n], grads[2][n]), ("leaf %d, call %d"):format(n, i))
    end
  end
  return fast
end

test("sums in backward go in the order that the strides of the gradient give", function()
  ml.manual_seed(4)
  local w = ml.randn { 19, requires_grad = true }
  local b = ml.randn { 19, requires_grad = true }
  local y = ml.randn { 37, 19, requires_grad = true }
  local W = ml.randn { 19, 19, requires_grad = true }
  local functions = {
    function(x) return x + b end,
    function(x) return F.linear(x * w, W, b) end,
    function(x) return x - x:mean { dim = 1, keepdim = true } * w:sum() end,
  }
  local wide = ml.randn(37, 30)
  local ways = {
    function(z) z:sum():backward() end,
    function(z) z:backward(wide[{ {}, { 3, 21 } }]) end,
    function(z) (z:t() * ml.arange(1, 37)):sum():backward() end,
    function(z) z:backward(ml.randn(19, 37):t()) end,
    function(z) z:backward(ml.randn(37, 1):expand(37, 19)) end,
    function(z) z:backward(ml.randn(1, 19):expand(37, 19)) end,
    function(z) (z * z):sum():backward() end,
  }
  local leaves = { w, b, y, W }
  for _, f in ipairs(functions) do
    for _, way in ipairs(ways) do
      local function go(z)
        ml.manual_seed(6)
        way(z)
      end
      case.expect_runs(same_gradients(f, leaves, go, 5, y), 2)
    end
    -- One function, whichever comes.
    local function any(z, i)
      ml.manual_seed(6)
      ways[i % #ways + 1](z)
    end
    case.expect_runs(same_gradients(f, leaves, any, 21, y), 18)
  end
end)

test("sums of results that only views of reach", function()
  ml.manual_seed(5)
  local y = ml.randn { 5, 4, requires_grad = true }
  local x = ml.randn(5, 4)
  local function f(a, b)
    local n = F.layer_norm(b, { 4 })
    local joined = ml.cat({ a, n }, 1):narrow(1, 1, 5)
    return (a:floor() * n:sum()):t():contiguous():t(), joined
  end
  local weights = ml.randn(4, 5):t()
  case.expect_runs(same_gradients(f, { y }, function(z) z:backward(weights) end, 5, x, y), 2)
end)

test("an anomaly in the backward of a compiled call has the op and the line", function()
  local x = ml.zeros { 3, requires_grad = true }
  local function f(v) return (v * 2):sqrt() * 0 end
  local fast = ml.compile(f)
  for _ = 1, 5 do fast(x):sum():backward() end
  case.expect_runs(fast, 1)
  local y = fast(x)
  local ok, message = pcall(ml.autograd.detect_anomaly, function() y:sum():backward() end)
  expect.falsy(ok)
  message = tostring(message)
  expect.truthy(message:find("SqrtBackward gave NaN", 1, true), message)
  expect.truthy(message:find "SqrtBackward was recorded at [^\n]*backward_test.lua:%d+", message)
  local line = debug.getinfo(f, "S").linedefined
  expect.truthy(message:find("backward_test.lua:" .. line, 1, true), message)
  -- Without one it gives what it gives.
  x = ml.ones { 3, requires_grad = true }
  y = fast(x)
  ml.autograd.detect_anomaly(function() y:sum():backward() end)
  expect.equal(x.grad:abs():sum():item(), 0)
end)

harness.run(arg[1])
