-- tests/lua/cuda_faults_test.lua: what the CUDA backend says and does when memory is short, a kernel
-- fails or the build has no code for a device. Each case is a process of its own with an emulated
-- device; skips without one.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

-- What a script prints in an environment; `say` there prints the error of a call or "fine".
local function output(environment, script)
  local name = os.tmpname()
  local file = assert(io.open(name, "w"))
  file:write([[
    local ml = require "moonlet"
    local cuda = { device = "cuda" }
    local function say(f)
      local good, why = pcall(f)
      print(good and "fine" or why)
    end
  ]], script)
  file:close()
  local pipe = assert(io.popen(("%s '%s' %s 2>&1"):format(environment, arg[-1], name)))
  local text = pipe:read "a"
  pipe:close()
  os.remove(name)
  return text
end

local function emulated(name, body)
  test(name, function()
    if not (ml.cuda.is_available() and ml.cuda.device_name():find "Emulated") then
      harness.skip "no emulated device"
    end
    body()
  end)
end

local function lines_of(text)
  local lines = {}
  for line in text:gmatch "[^\n]+" do lines[#lines + 1] = line end
  return lines
end

local function has(line, part) expect.truthy(line and line:find(part, 1, true), tostring(line)) end

emulated("a free part of a block in use is given away, however large it is", function()
  has(output("MOONLET_EMULATED_MEMORY=64", [[
    local MiB = 1 << 20
    local function bytes(count) return ml.zeros(count * MiB, { dtype = "uint8", device = "cuda" }) end
    bytes(60):free()
    local large = bytes(31)
    say(function() bytes(12) end)
    large:free()
  ]]), "fine")
end)

-- Kernels: two that fill, then the product.
local FAILING = [[
  local a, b = ml.ones(4, cuda), ml.ones(4, cuda)
  say(function() return (a * b):sum():item() end)
  say(function() return (a + b):sum():item() end)
  say(function() return ml.ones(4, { device = "cuda:1" }):sum():item() end)
]]

emulated("a kernel that fails is told of once, and its device refused from then on", function()
  local lines = lines_of(output("MOONLET_EMULATED_FAILING_KERNEL=3", FAILING))
  has(lines[1], "CUDA error cudaErrorLaunchFailure")
  has(lines[1], "with MOONLET_CUDA_SYNC=1 in the environment the one that did is named")
  has(lines[2], "cuda:0 cannot be used any more in this process since")
  has(lines[2], "met cudaErrorLaunchFailure")
  expect.equal(lines[3], "fine")
end)

emulated("MOONLET_CUDA_SYNC names the op", function()
  local lines = lines_of(output("MOONLET_CUDA_SYNC=1 MOONLET_EMULATED_FAILING_KERNEL=3", FAILING))
  has(lines[1], "mul: CUDA error cudaErrorLaunchFailure")
  expect.falsy(lines[1]:find "MOONLET_CUDA_SYNC", lines[1])
  has(lines[2], "cuda:0 cannot be used any more in this process since mul met")
end)

emulated("a device that the build has no code for", function()
  local lines = lines_of(output("MOONLET_EMULATED_CAPABILITY=61",
    "say(function() return ml.ones(4, cuda) end)"))
  has(lines[1], "cuda:0 has compute capability 6.1")
  has(lines[1], "-Dgpu_archs=61")
end)

harness.run()
