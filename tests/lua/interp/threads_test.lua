-- tests/lua/interp/threads_test.lua: products and convolutions are right and end whatever number of threads
-- OpenMP's environment allows, also where it gives fewer than are asked for.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local test, expect = harness.test, harness.expect

local program = arg[-1] or "moonlet"

-- Prints sums that say whether every part of each result was computed.
local code = [[
  local ml = require "moonlet"
  ml.manual_seed(1)
  local function show(...)
    for _, x in ipairs { ... } do print(x:double():abs():sum():item()) end
  end
  for _, dtype in ipairs { "float32", "float64", "complex64" } do
    local a = ml.randn(300, 300, { dtype = "float64" }):to(dtype)
    show(a:mm(a):abs(), a:t():mm(a):abs(), a:mv(a[1]):abs())
  end
  local conv = ml.nn.Conv2d(16, 32, 3, { padding = 1 })
  local x = ml.randn { 64, 16, 8, 8, requires_grad = true }
  local y = conv(x)
  y:pow(2):sum():backward()
  show(y, x.grad, conv.weight.grad, conv.bias.grad)
]]

-- The sums that a process with this environment prints.
local function sums(environment)
  local out = {}
  harness.with_temp_file(function(path)
    local file = assert(io.open(path, "wb"))
    file:write(code)
    file:close()
    local pipe = io.popen(("env %s timeout 100 '%s' '%s' 2>&1"):format(environment, program, path))
    local text = pipe:read "a"
    expect.truthy(pipe:close(), environment .. ": " .. text)
    for line in text:gmatch "[^\n]+" do out[#out + 1] = tonumber(line) end
  end)
  return out
end

for _, environment in ipairs { "OMP_NUM_THREADS=4", "OMP_NUM_THREADS=4 OMP_THREAD_LIMIT=1",
  "OMP_NUM_THREADS=4 OMP_THREAD_LIMIT=3", "OMP_NUM_THREADS=4 OMP_DYNAMIC=true",
  "OMP_NUM_THREADS=4 OMP_MAX_ACTIVE_LEVELS=0" } do
  test("results are those of one thread with " .. environment, function()
    local one, got = sums "OMP_NUM_THREADS=1", sums(environment)
    expect.equal(#one, 13)
    expect.equal(#got, 13)
    for i, sum in ipairs(got) do
      expect.truthy(math.abs(sum / one[i] - 1) < 1e-4, ("sum %d: %g, %g"):format(i, sum, one[i]))
    end
  end)
end

harness.run()
