-- tests/lua/cuda/cuda_faults_test.lua: what the CUDA backend says and does when memory is short, a kernel
-- fails or the build has no code for a device. Each case is a process of its own with an emulated
-- device; skips without one.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local emulated = require "emulated"
local expect = harness.expect
local output, lines_of = emulated.output, emulated.lines_of

local function has(line, part) expect.truthy(line and line:find(part, 1, true), tostring(line)) end

emulated.test("a free part of a block in use is given away, however large it is", function()
  has(output("MOONLET_EMULATED_MEMORY=64", [[
    bytes(60 * MiB):free()
    local large = bytes(31 * MiB)
    say(function() bytes(12 * MiB) end)
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

emulated.test("a kernel that fails is told of once, and its device refused from then on", function()
  local lines = lines_of(output("MOONLET_EMULATED_FAILING_KERNEL=3", FAILING))
  has(lines[1], "CUDA error cudaErrorLaunchFailure")
  has(lines[1], "with MOONLET_CUDA_SYNC=1 in the environment the one that did is named")
  has(lines[2], "cuda:0 cannot be used any more in this process since")
  has(lines[2], "met cudaErrorLaunchFailure")
  expect.equal(lines[3], "fine")
end)

emulated.test("MOONLET_CUDA_SYNC names the op", function()
  local lines = lines_of(output("MOONLET_CUDA_SYNC=1 MOONLET_EMULATED_FAILING_KERNEL=3", FAILING))
  has(lines[1], "mul: CUDA error cudaErrorLaunchFailure")
  expect.falsy(lines[1]:find "MOONLET_CUDA_SYNC", lines[1])
  has(lines[2], "cuda:0 cannot be used any more in this process since mul met")
end)

emulated.test("a device that the build has no code for", function()
  local lines = lines_of(output("MOONLET_EMULATED_CAPABILITY=61",
    "say(function() return ml.ones(4, cuda) end)"))
  has(lines[1], "cuda:0 has compute capability 6.1")
  has(lines[1], "-Dgpu_archs=61")
end)

harness.run()
