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
--- and that line, with those that called it, and a gradient with a NaN is such an error unless
--- `check_nan = false`. It makes forward and backward slow: it is for finding mistakes. It must
--- hold for both: the graph of what was computed before has no lines.
--- > ml.autograd.detect_anomaly(function() return ml.ones(2):exp() end)
---@param options? {check_nan?: boolean} may be left out
---@param f? function
---@param ... any what f gets
---@return any ... its results, or the value to hold
---@see autograd.set_detect_anomaly
function anomaly.detect_anomaly(options, f, ...)
  if is_callable(options) then return detecting({ check_nan = true }, options, f, ...) end
  return detecting(read_detect:before_function(options, f, ...))
end

local read_set = signature("autograd.set_detect_anomaly(bool mode, bool check_nan=true)",
  "set_detect_anomaly")

--- Looks for anomalies as `detect_anomaly` does from now on, or stops to. Held as a `<close>`
--- variable it ends with the block, else it stays.
--- > local _ <close> = ml.autograd.set_detect_anomaly(true)
---@param mode boolean
---@param check_nan? boolean (default true)
---@return any guard
---@see autograd.detect_anomaly
function anomaly.set_detect_anomaly(...)
  local mode, check_nan = read_set(...)
  return begin(mode, check_nan, true)
end

--- Whether anomalies of backward are looked for here.
---@return boolean
---@see autograd.detect_anomaly
function anomaly.is_anomaly_enabled()
  return (ml._anomaly())
end

--- Whether a NaN in a gradient counts as an anomaly here.
---@return boolean
---@see autograd.detect_anomaly
function anomaly.is_anomaly_check_nan_enabled()
  return (select(2, ml._anomaly()))
end

return namespace("autograd.anomaly", anomaly)
