-- tests/lua/ops/drawn_test.lua: the op suite on the emulated device, with streams, blocks and threads in an
-- order that is drawn anew each day, and once more with a part of the kernels watched for races. The
-- number that it is drawn by is printed; MOONLET_DRAWN=NUMBER draws the same on another day. What a failure needs to
-- be seen again is in its text. `scripts/nightly.sh` watches all kernels.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local emulated = require "emulated"
local expect = harness.expect

local drawn = math.tointeger(tonumber(os.getenv "MOONLET_DRAWN" or os.date "!%Y%m%d"))
local here = arg[0]:match "^(.*)/" or "."
print(("drawn by %d: MOONLET_DRAWN=%d draws the same on another day"):format(drawn, drawn))

-- Runs the suite in an environment; a failure has the tests that failed and the command.
local function run_suite(environment)
  local order = ("MOONLET_EMULATED_STREAMS=%d MOONLET_EMULATED_ORDER=random:%d"):format(drawn, drawn)
  local command = ("OMP_NUM_THREADS=1 %s %s '%s' '%s/device_suite.lua'"):format(order, environment, arg[-1], here)
  local pipe = assert(io.popen(command .. " 2>&1"))
  local text = pipe:read "a"
  local fine = pipe:close()
  local passed = tonumber(text:match "(%d+) passed, 0 failed")
  if fine and passed then return passed end
  local failures = {}
  for line in text:gmatch "[^\n]+" do
    if line:find "^FAIL" or line:find "race" or line:find "^  " and #failures > 0 then failures[#failures + 1] = line end
  end
  error(("%s\n%s\n%s"):format(command, table.concat(failures, "\n", 1, math.min(#failures, 60)), text:sub(-2000)), 0)
end

emulated.test("all ops, in an order that is drawn", function()
  local passed = run_suite ""
  expect.truthy(passed > 1500, passed)
end)

emulated.test("all ops, with a part of the kernels watched for races", function()
  local plugin, part = os.getenv "MOONLET_WATCHED_PLUGIN", os.getenv "MOONLET_WATCHED_PART"
  if not plugin then harness.skip "a build without watched kernels" end
  print(("part %s of the kernels is watched: -Dwatch_part=%s"):format(part, part))
  local passed = run_suite(("MOONLET_CUDA_PLUGIN='%s'"):format(plugin))
  expect.truthy(passed > 1500, passed)
end)

harness.run()
