-- tests/lua/torch7/torch7_upstream_test.lua: the tests of Torch7 itself, where MOONLET_TORCH7 names a folder with
-- its packages (torch7, nn, optim, ...). Each runs in a process of its own.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
package.path = (arg[0]:match("^(.*)/") or ".") .. "/?.lua;" .. package.path
local harness = require "harness"
local upstream = require "upstream"
local test, expect = harness.test, harness.expect

-- Runs a file of upstream's as the script.
local DRIVER = [[
package.preload.ffi = function() return { os = "Linux" } end
local file = arg[1]
arg = { [0] = file }
dofile(file)
if torch.test then assert(#torch.test().errors == 0) end
]]

-- A test that all of a file's tests pass, which are so many.
local function all_pass(file, count, flags)
  test(file, function()
    local text, ok = upstream.run(DRIVER, { arguments = { upstream.path(file) }, flags = flags })
    local tests = text:match "Completed %d+ asserts? in (%d+) tests? with 0 failures and 0 errors"
    expect.equal({ ok, tonumber(tests) }, { true, count }, text:sub(-3000))
  end)
end

all_pass("torch7/test/test.lua", 164)
all_pass("torch7/test/longSize.lua", 4)
all_pass("torch7/test/test_half.lua", 3)
all_pass("torch7/test/test_timer.lua", 1)
all_pass("torch7/test/test_writeObject.lua", 12, "--bytecode")
all_pass("torch7/test/test_Tester.lua", 33)
all_pass("torch7/test/test_aliasMultinomial.lua", 1)

harness.run()
