-- tests/lua/emulated.lua: tests of the emulated CUDA device, and scripts in processes of their own
-- with an environment that it reads.

local ml = require "moonlet"
local harness = require "harness"

local emulated = {}

local PRELUDE = [[
  local ml = require "moonlet"
  local cuda = { device = "cuda" }
  local MiB = 1 << 20
  local function bytes(count) return ml.empty(count, { dtype = "uint8", device = "cuda" }) end
  local function say(f)
    local good, why = pcall(f)
    print(good and "fine" or why)
  end
]]

--- What a script prints in an environment, errors too. The script has `ml`, `cuda` (the options of a
--- tensor there), `bytes(count)` and `say(f)`, which prints the error of a call or "fine".
---@param environment string "NAME=value NAME=value"
---@param script string
---@return string text
---@return string ended "exit" or "signal"
---@return integer code of the exit or the signal
function emulated.output(environment, script)
  local name = os.tmpname()
  local file = assert(io.open(name, "w"))
  file:write(PRELUDE, script)
  file:close()
  local pipe = assert(io.popen(("%s '%s' %s 2>&1"):format(environment, arg[-1], name)))
  local text = pipe:read "a"
  local _, ended, code = pipe:close()
  os.remove(name)
  return text, ended, code
end

--- The lines of a text.
---@param text string
---@return string[]
function emulated.lines_of(text)
  local lines = {}
  for line in text:gmatch "[^\n]+" do lines[#lines + 1] = line end
  return lines
end

--- A test that is skipped without an emulated device.
---@param name string
---@param body function
function emulated.test(name, body)
  harness.test(name, function()
    if not ml.cuda.is_emulated() then harness.skip "no emulated device" end
    body()
  end)
end

return emulated
