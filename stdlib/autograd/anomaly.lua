-- stdlib/autograd/anomaly.lua: ml.autograd.detect_anomaly: which line of the script recorded what
-- goes wrong in backward.

local ml = require "moonlet"
local fail = require("moonlet.options").fail
local is_callable = require("moonlet.options").is_callable
local namespace = require("moonlet.options").namespace
local signature = require "moonlet.signature"

local anomaly = {}

-- What ends it: sets again what was before, in the coroutine that began it.
local Guard = { __name = "anomaly guard", __metatable = "anomaly guard" }

function Guard:__close()
  if self.done or self.coroutine ~= coroutine.running() then return end
  self.done = true
  ml._anomaly(self.on, self.check_nan)
end

-- One that was dropped ends where its coroutine still runs.
function Guard:__gc()
  if self.done or self.stays then return end
  warn(self.where .. "ml.autograd.detect_anomaly: its value was dropped; write `local _ <close> = "
    .. "ml.autograd.detect_anomaly()`")
  Guard.__close(self)
end

local function begin(on, check_nan, stays)
  local guard = { coroutine = coroutine.running(), stays = stays, where = ml._where() }
  guard.on, guard.check_nan = ml._anomaly(on, check_nan)
  return setmetatable(guard, Guard)
end

local read_detect = signature("autograd.detect_anomaly(bool check_nan=true)", "detect_anomaly")

local function detecting(given, f, ...)
  local guard = begin(true, given.check_nan)
  if f == nil then return guard end
  local _ <close> = guard
  if not is_callable(f) then
    fail("detect_anomaly: a function is expected, got %s", type(f))
  end
  return f(...)
end

--- Runs `f`, or the rest of the block that holds the result with `<close>`, while each node of the
--- tape remembers the line of the script that recorded it. An error in backward then names the node
--- and that line with those that called it, and a NaN in a gradient is an error. Forward and
--- backward must both run inside; both are slow there.
--- > ml.autograd.detect_anomaly(function()
---     local x = ml.zeros(1, { requires_grad = true })
---     return (pcall(function() (x:sqrt() * 0):sum():backward() end))
---   end)
---   false
---@param check_nan? boolean whether a NaN in a gradient is an error
---@param f? function the function to run; without it the result is held as a `<close>` variable
---@param ... any what `f` gets
---@return any ... its results, or the value to hold
---@see autograd.set_detect_anomaly
function anomaly.detect_anomaly(options, f, ...)
  if is_callable(options) then return detecting({ check_nan = true }, options, f, ...) end
  return detecting(read_detect:before_function(options, f, ...))
end

local read_set = signature("autograd.set_detect_anomaly(bool mode, bool check_nan=true)",
  "set_detect_anomaly")

--- Turns the detection of anomalies, as `detect_anomaly` describes it, on or off. Held as a
--- `<close>` variable the setting ends with the block, otherwise it stays.
--- > guard = ml.autograd.set_detect_anomaly(true)
--- > ml.autograd.is_anomaly_enabled()
---   true
--- > guard = ml.autograd.set_detect_anomaly(false)
---@param mode boolean whether anomalies are looked for
---@param check_nan? boolean whether a NaN in a gradient is an error
---@return any guard
---@see autograd.detect_anomaly
function anomaly.set_detect_anomaly(...)
  local mode, check_nan = read_set(...)
  return begin(mode, check_nan, true)
end

--- Whether anomalies of backward are looked for here.
--- > ml.autograd.is_anomaly_enabled()
---   false
---@return boolean
---@see autograd.detect_anomaly
function anomaly.is_anomaly_enabled()
  return (ml._anomaly())
end

--- Whether a NaN in a gradient counts as an anomaly here.
--- > ml.autograd.detect_anomaly({ check_nan = false }, ml.autograd.is_anomaly_check_nan_enabled)
---   false
---@return boolean
---@see autograd.detect_anomaly
function anomaly.is_anomaly_check_nan_enabled()
  return (select(2, ml._anomaly()))
end

return namespace("autograd.anomaly", anomaly)
