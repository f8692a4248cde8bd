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

--- What a script prints with an emulated cuDNN that is told `words`; it must come to its end.
---@param words string
---@param script string
---@return string text
function emulated.cudnn_output(words, script)
  local text, ended, code = emulated.output("MOONLET_EMULATED_CUDNN=" .. words, script)
  harness.expect.equal({ ended, code }, { "exit", 0 }, text)
  return text
end

--- The part of such a script that compares what `compute(device)` gives on both, `least` results or more:
--- `check()` is "right", or throws.
---@param tolerance number
---@param least integer
---@return string
function emulated.compare_text(tolerance, least)
  return ([[
  local function check()
    local got, want = { compute "cuda" }, { compute "cpu" }
    assert(#want >= %d and #got == #want, #got .. " results")
    for i = 1, #want do
      local off = (got[i]:to "cpu" - want[i]):detach():float():abs():amax():item()
      assert(off < %g, "result " .. i .. " is off by " .. off)
    end
    return "right"
  end
]]):format(least, tolerance)
end

--- How often a pattern is in a text.
---@param text string
---@param what string
---@return integer
function emulated.count(text, what) return select(2, text:gsub(what, "")) end

--- The lines of a text.
---@param text string
---@return string[]
function emulated.lines_of(text)
  local lines = {}
  for line in text:gmatch "[^\n]+" do lines[#lines + 1] = line end
  return lines
end

local TWICE = [[
  io.stdout:setvbuf "no"
  local function try()
    local fine, why = pcall(check)
    print(fine and "right" or "error " .. tostring(why):gsub("\n.*", ""))
  end
  try()
  ml.memory.collect()
  try()
]]

--- Runs a script, which defines `check()`, with one call after another of the runtime and its libraries failing:
--- where one of cuDNN's does, `check()` must be right or raise an error of the device, and be right
--- the second time unless the device is lost.
---@param script string
---@param kind string the failure: "memory", "unknown", "invalid" or "lost"
---@param step function (calls of cuDNN that failed so far, the name of this one) how many calls to go on by
---@param most integer the last call
---@return integer failed how many calls of cuDNN did
function emulated.fail_cudnn(script, kind, step, most)
  local failed, number, call = 0, 1
  repeat
    local text, ended, code = emulated.output(("MOONLET_EMULATED_CUDNN= MOONLET_EMULATED_FAILING_CALL=%d "
      .. "MOONLET_EMULATED_FAILURE=%s"):format(number, kind), script .. TWICE)
    harness.expect.equal({ ended, code }, { "exit", 0 }, text)
    call = text:match "emulated: call %d+, ([^,]+), fails"
    local first, again = text:match "(%l+[^\n]*)\n(%l+[^\n]*)\n$"
    -- Those of the second try show nothing more.
    if call and text:find "^emulated" == nil then break end
    if call and call:find "^cudnn" then
      failed = failed + 1
      local clean = first == "right" or first:find "cuDNN" or first:find "CUDA" or first:find "memory"
      harness.expect.truthy(clean, call .. ": " .. text)
      if kind ~= "lost" then harness.expect.equal(again, "right", call .. ": " .. text) end
    end
    number = number + step(failed, call or "")
  until not call or number > most
  return failed
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
