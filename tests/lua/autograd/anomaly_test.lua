-- tests/lua/autograd/anomaly_test.lua: ml.autograd.detect_anomaly: errors of backward that name the node and
-- the line that recorded it.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local detect, set = ml.autograd.detect_anomaly, ml.autograd.set_detect_anomaly

local function line() return debug.getinfo(2, "l").currentline end

local function leaf(...) return ml.tensor({ ... }, { dtype = ml.float32, requires_grad = true }) end

-- A NaN in the gradient of sqrt: zero times infinity.
local function bad(x) return ((x * 0):sqrt() * 0):sum() end

test("a NaN names the node, the gradient and the lines that recorded the node", function()
  local x = leaf(0, 1)
  local here = line()
  local message = expect.error(function()
    detect(function()
      local y = (x * 0):sqrt()
      ml.sum(y * 0):backward()
    end)
  end, "anomaly_test.lua:" .. here + 4 .. ": backward: SqrtBackward gave NaN in the gradient of its input 1\n"
    .. "  SqrtBackward was recorded at [^\n]*anomaly_test.lua:" .. here + 3 .. "\n"
    .. "    [^\n]*anomaly_test.lua:" .. here + 3 .. ": in ")
  expect.truthy(message:find("anomaly_test.lua:" .. here + 2 .. ": in ", 1, true), message)
  expect.equal(x.grad, nil)
end)

test("which input of an op is named", function()
  local x, y = leaf(1), leaf(0)
  expect.error(function()
    detect(function() ml.sum(x:detach() * 0 / y):backward() end)
  end, "DivBackward gave NaN in the gradient of its input 2")
end)

test("check_nan = false lets NaN through, and still explains errors", function()
  local x = leaf(0, 1)
  detect({ check_nan = false }, function()
    bad(x):backward()
    expect.equal(ml.autograd.is_anomaly_enabled(), true)
    expect.equal(ml.autograd.is_anomaly_check_nan_enabled(), false)
  end)
  expect.truthy(x.grad:isnan():any():item())
  local w, here = leaf(2), nil
  expect.error(function()
    detect({ check_nan = false }, function()
      here = line() + 1
      local h = w * 3
      local y = h * h
      ml.no_grad(h.add_, h, 1)
      y:backward()
    end)
  end, "changed in place since.*\n  MulBackward was recorded at [^\n]*anomaly_test.lua:%d+\n")
  expect.truthy(here)
end)

test("off, errors are as they were, and NaN passes", function()
  local x = leaf(0, 1)
  bad(x):backward()
  expect.truthy(x.grad:isnan():any():item())
  expect.equal(ml.autograd.is_anomaly_enabled(), false)
end)

test("a graph from before has no lines", function()
  local x = leaf(0, 1)
  local y = bad(x)
  expect.error(function() detect(function() y:backward() end) end,
    "where SqrtBackward was recorded is not known")
end)

test("an error of a hook names the node whose gradient it saw", function()
  local x, here = leaf(1, 2), nil
  local message = expect.error(function()
    detect(function()
      here = line() + 1
      local h = x:exp()
      h:register_hook(function() error "no gradient today" end)
      h:sum():backward()
    end)
  end, "no gradient today\n  ExpBackward was recorded at ")
  expect.truthy(message:find("anomaly_test.lua:" .. here .. "\n", 1, true), message)
  -- Errors that are no strings stay what they are.
  local mine = {}
  local ok, got = pcall(detect, function()
    local h = x:exp()
    h:register_hook(function() error(mine) end)
    h:sum():backward()
  end)
  expect.equal(ok, false)
  expect.truthy(rawequal(got, mine))
end)

test("nodes that backward records say of which node", function()
  local x = leaf(1, 2)
  expect.error(function()
    detect(function()
      local g = ml.grad((x * x * x):sum(), x, { create_graph = true })
      g:register_hook(function() error "twice" end)
      g:sum():backward()
    end)
  end, "twice\n  %w+Backward was recorded at [^\n]*anomaly_test.lua:%d+\n.*"
    .. "in the backward of MulBackward, recorded at [^\n]*anomaly_test.lua:%d+")
end)

test("a backward inside a hook is looked at too", function()
  local x, z = leaf(1, 2), leaf(0, 1)
  local message = expect.error(function()
    detect(function()
      local h = x:exp()
      h:register_hook(function() ml.enable_grad(bad, z):backward() end)
      h:sum():backward()
    end)
  end, "SqrtBackward gave NaN")
  expect.truthy(message:find("ExpBackward was recorded at", 1, true), message)
end)

test("gradients of ml.grad, of complex numbers and of integers beside", function()
  local x = leaf(0, 1)
  expect.error(function() detect(function() return ml.grad(bad(x), x) end) end, "SqrtBackward gave NaN")
  local z = ml.tensor({ ml.complex(0, 0) }, { dtype = ml.complex64, requires_grad = true })
  expect.error(function()
    detect(function() ml.view_as_real((z * 0):log() * 0):sum():backward() end)
  end, "Backward gave NaN")
  detect(function() x:gather(1, ml.tensor { 1, 1 }):sum():backward() end)
  expect.equal(x.grad:tolist(), { 2, 0 })
end)

test("the forms of the guard", function()
  local enabled = ml.autograd.is_anomaly_enabled
  expect.equal({ detect(function(...) return enabled(), ... end, 1, 2) }, { true, 1, 2 })
  expect.equal({ detect({ check_nan = true }, function(...) return enabled(), ... end, 3) }, { true, 3 })
  expect.equal(enabled(), false)
  do
    local _ <close> = detect()
    expect.equal(ml.autograd.is_anomaly_check_nan_enabled(), true)
    do
      local _ <close> = detect { check_nan = false }
      expect.equal(ml.autograd.is_anomaly_check_nan_enabled(), false)
    end
    expect.equal(ml.autograd.is_anomaly_check_nan_enabled(), true)
  end
  expect.equal(enabled(), false)
  expect.error(function() detect(function() error "inside" end) end, "inside")
  expect.equal(enabled(), false)
  expect.error(function() detect(3) end, "detect_anomaly: ")
  expect.error(function() detect({ nan = true }, print) end, "unknown option 'nan'")
  expect.error(function() detect({}, 3) end, "detect_anomaly: a function is expected, got number")
  expect.equal(enabled(), false)
end)

test("set_detect_anomaly stays, and ends with its block where it is held", function()
  local enabled = ml.autograd.is_anomaly_enabled
  set(true)
  collectgarbage()
  expect.equal(enabled(), true)
  expect.equal(ml.autograd.is_anomaly_check_nan_enabled(), true)
  do
    local _ <close> = set(false)
    expect.equal(enabled(), false)
  end
  expect.equal(enabled(), true)
  set(true, { check_nan = false })
  expect.equal(ml.autograd.is_anomaly_check_nan_enabled(), false)
  set(false)
  expect.equal(enabled(), false)
  expect.error(function() set() end, "'mode' is missing")
  expect.error(function() set(1) end, "'mode' must be true or false")
end)

test("the state belongs to the coroutine", function()
  local enabled = ml.autograd.is_anomaly_enabled
  local co = coroutine.wrap(function()
    local _ <close> = detect()
    coroutine.yield(enabled())
    return enabled()
  end)
  expect.equal(co(), true)
  expect.equal(enabled(), false)
  expect.equal(co(), true)
  local inner
  detect(function()
    inner = coroutine.wrap(function()
      coroutine.yield(enabled())
      coroutine.yield(enabled())
    end)
    expect.equal(inner(), true)
  end)
  expect.equal(inner(), true)
  expect.equal(enabled(), false)
end)

test("a value that was dropped ends it, with a warning", function()
  local run = [[local ml = require 'moonlet'
    do local x = ml.autograd.detect_anomaly() end
    collectgarbage() collectgarbage()
    print(ml.autograd.is_anomaly_enabled())]]
  local process <close> = assert(io.popen(("'%s' -W -e \"%s\" 2>&1"):format(arg[-1], run)))
  local text = process:read "a"
  expect.truthy(text:find("false", 1, true), text)
  expect.truthy(text:find("detect_anomaly: its value was dropped", 1, true), text)
end)

test("inside of modes nodes still know their lines", function()
  local x, here = leaf(0, 1), nil
  local message = expect.error(function()
    detect(function()
      ml.profile(function()
        here = line() + 1
        local y = (x * 0):sqrt()
        local z = y * 0
        z:sum():backward()
      end)
    end)
  end, "SqrtBackward gave NaN")
  expect.truthy(message:find("was recorded at [^\n]*anomaly_test.lua:" .. here), message)
end)

test("changes in place of views are named", function()
  local x = leaf(0, 1)
  expect.error(function()
    detect(function()
      local y = x * 0
      y:narrow(1, 1, 1):sqrt_()
      ml.sum(y * 0):backward()
    end)
  end, "CopySlices gave NaN in the gradient of its input 1\n  CopySlices was recorded at ")
end)

harness.run()
