-- tests/lua/torch7/torch7_upstream_test.lua: the tests of Torch7 itself, where MOONLET_TORCH7 names a folder with
-- its packages (torch7, nn, optim, ...). Each runs in a process of its own.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local system = require "moonlet.system"
local test, expect = harness.test, harness.expect

local folder = os.getenv "MOONLET_TORCH7"
if folder == "" then folder = nil end

-- A script that runs a file of upstream's with its arguments, in a folder for what it writes.
local DRIVER = [[
package.preload.ffi = function() return { os = "Linux" } end
local file, from = arg[1], arg[2]
arg = { [0] = file, table.unpack(arg, 3) }
package.path = from .. "/?.lua;" .. from .. "/?/init.lua;" .. package.path
dofile(file)
if torch.test then assert(#torch.test().errors == 0) end
]]

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

-- What a file of upstream's prints, and whether it succeeded.
local function run(file, options)
  local work = os.tmpname()
  os.remove(work)
  system.make_folder(work, "test")
  local driver = work .. "/driver.lua"
  local out <close> = assert(io.open(driver, "w"))
  out:write(DRIVER)
  out:close()
  local command = ("cd %s && OMP_NUM_THREADS=2 %s --torch7 %s %s %s %s 2>&1; echo status $?"):format(
    quoted(work), quoted(system.executable()), options or "", driver, quoted(folder .. "/" .. file),
    quoted(folder))
  local pipe = assert(io.popen(command))
  local text = pipe:read "a"
  pipe:close()
  os.execute("rm -r " .. quoted(work))
  return text, text:find "status 0\n" ~= nil
end

-- A test that all of a file's tests pass, which are so many.
local function upstream(file, count, options)
  test(file, function()
    if not folder then
      return harness.skip "MOONLET_TORCH7 names no folder with Torch7's packages"
    end
    local text, ok = run(file, options)
    local tests = text:match "Completed %d+ asserts? in (%d+) tests? with 0 failures and 0 errors"
    expect.equal({ ok, tonumber(tests) }, { true, count }, text:sub(-3000))
  end)
end

upstream("torch7/test/test.lua", 164)
upstream("torch7/test/longSize.lua", 4)
upstream("torch7/test/test_half.lua", 3)
upstream("torch7/test/test_timer.lua", 1)
upstream("torch7/test/test_writeObject.lua", 12, "--bytecode")
upstream("torch7/test/test_Tester.lua", 33)
upstream("torch7/test/test_aliasMultinomial.lua", 1)

harness.run()
