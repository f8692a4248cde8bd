-- tests/lua/ops/device_suite.lua: the op suite on the device alone: the samples of all families are compared
-- with the CPU, in one process, as tests/lua/ops/drawn_test.lua and scripts/nightly.sh run it.
-- usage: MOONLET_OP_CASES=... moonlet device_suite.lua [FILTER]

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local checks = require "op_checks"

local cases = dofile(assert(os.getenv "MOONLET_OP_CASES", "set MOONLET_OP_CASES to op_cases.lua"))

for _, case in ipairs(cases) do
  for i, text in ipairs(case.plain and not case.check.device and case.samples or {}) do
    harness.test(("%s(%s): device"):format(case.name, text), function()
      local reason = checks.device(case, i)
      if reason then harness.skip(reason) end
    end)
  end
end

harness.run()
