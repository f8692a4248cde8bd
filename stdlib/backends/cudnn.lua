-- stdlib/backends/cudnn.lua: ml.backends.cudnn: NVIDIA's library that convolutions and recurrent
-- networks of CUDA devices go to where it is installed. Its fields `enabled` (true), `benchmark`
-- (false), `benchmark_limit` (10), `deterministic` (false) and `allow_tf32` (true) are settings of
-- this interpreter.

local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local core = ml._cuda
local fail, under = options.fail, options.under

local cudnn = {}

-- The settings, in the order in which C++ has them.
local NAMES = { "enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32" }
local POSITIONS = {}
for position, name in ipairs(NAMES) do POSITIONS[name] = position end

local function settings() return { core._cudnn_settings() } end
local function set(values) core._set_cudnn(table.unpack(values, 1, #NAMES)) end

--- Whether cuDNN 9 is found: by the loader, with the CUDA toolkit or in Python's packages. Without
--- it convolutions and recurrent networks on CUDA devices run on Moonlet's own kernels.
--- > type(ml.backends.cudnn.is_available())
---   boolean
---@return boolean
function cudnn.is_available() return core._cudnn_version() ~= nil end

--- The version of cuDNN as one number, 91900 for 9.19.0; nil where there is none.
--- > version = ml.backends.cudnn.version()
--- > version == nil or math.type(version) == "integer"
---   true
---@return integer?
function cudnn.version() return core._cudnn_version() end

-- What ends it: sets again what was before, in the coroutine that began it.
local Guard = { __name = "cudnn guard", __metatable = "cudnn guard" }

function Guard:__close()
  if self.done or self.coroutine ~= coroutine.running() then return end
  self.done = true
  set(self.before)
end

-- One that was dropped ends where its coroutine still runs.
function Guard:__gc()
  if self.done then return end
  warn(self.where .. "ml.backends.cudnn.flags: its value was dropped; write `local _ <close> = "
    .. "ml.backends.cudnn.flags(...)`")
  Guard.__close(self)
end

local read_flags = signature([[backends.cudnn.flags(bool enabled=false, bool benchmark=false,
  int>=0 benchmark_limit=10, bool deterministic=false, bool allow_tf32=true)]], "flags")

local function flagged(given, ...)
  local guard = { coroutine = coroutine.running(), where = ml._where(), before = settings() }
  set { given.enabled, given.benchmark, given.benchmark_limit, given.deterministic,
    given.allow_tf32 }
  return under("flags", setmetatable(guard, Guard), ...)
end

--- Runs `f`, or the rest of the block that holds the result with `<close>`, under these settings of
--- cuDNN. What is left out has the default below, as in PyTorch, not the setting that holds.
--- > ml.backends.cudnn.flags({ enabled = true, deterministic = true }, function()
---     return ml.backends.cudnn.deterministic end)
---   true
---@param enabled? boolean whether convolutions go to cuDNN
---@param benchmark? boolean whether the algorithms are timed when a shape is new, and the
---   fastest is taken
---@param benchmark_limit? integer the most algorithms that are timed; 0 for all
---@param deterministic? boolean whether only algorithms are taken that give the same result at
---   each run
---@param allow_tf32? boolean whether float32 factors may be rounded to TF32, of 10 bits of mantissa
---@param f? function the function to run; without it the result is held as a `<close>` variable
---@param ... any what `f` gets
---@return any ... its results, or the value to hold
function cudnn.flags(given, f, ...)
  return flagged(read_flags:before_function(given, f, ...))
end

local KNOWN = table.move(NAMES, 1, #NAMES, 1, {})
for name in pairs(cudnn) do KNOWN[#KNOWN + 1] = name end
table.sort(KNOWN)

local Settings = {}

function Settings.__index(_, name)
  local position = POSITIONS[name]
  if position then return settings()[position] end
  fail("backends.cudnn has no '%s'%s", tostring(name), options.did_you_mean(name, KNOWN))
end

function Settings.__newindex(_, name, value)
  local position = POSITIONS[name]
  if not position then
    fail("backends.cudnn has no setting '%s'%s", tostring(name), options.did_you_mean(name, NAMES))
  end
  if name == "benchmark_limit" then
    if math.type(value) ~= "integer" or value < 0 then
      fail("backends.cudnn: 'benchmark_limit' must be a whole number, 0 or more, got %s",
        tostring(value))
    end
  elseif type(value) ~= "boolean" then
    fail("backends.cudnn: '%s' must be true or false, got %s", name, type(value))
  end
  local now = settings()
  now[position] = value
  set(now)
end

return setmetatable(cudnn, Settings)
