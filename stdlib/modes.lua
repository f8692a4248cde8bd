-- stdlib/modes.lua: ml.autocast and ml.override: what stands between a script's calls and the ops,
-- for one function or for the rest of a block.

local ml = require "moonlet"
local options = require "moonlet.options"
local fail = options.fail

local modes = {}

-- The results of f under the guard, which ends with it however it ends; without f the guard itself.
local function under(where, guard, f, ...)
  if f == nil then return guard end
  local _ <close> = guard
  if type(f) ~= "function" then fail("%s: a function is wanted, got %s", where, type(f)) end
  return f(...)
end

local defaults = { device = "cpu", dtype = options.none, enabled = true }

--- Runs `f`, or the rest of the block that holds the result with `<close>`, with each op in the
--- floating dtype that suits it.
---@param given? {device?: string, dtype?: string, enabled?: boolean}
---@param f? function
---@param ... any what f gets
---@return any ... its results, or the value to hold
function modes.autocast(given, f, ...)
  if given ~= nil and type(given) ~= "table" then
    fail("autocast: use autocast({device=, dtype=, enabled=}, f, ...), got %s", type(given))
  end
  local read = options.read("autocast", given, defaults)
  options.boolean("autocast", "enabled", read.enabled)
  return under("autocast", ml._autocast(read.device, read.dtype, read.enabled), f, ...)
end

--- Runs `f`, or the rest of the block that holds the result with `<close>`, with `handler` in the
--- place of each op: `handler(op, arguments, call)` gives the op's results.
---@param handler fun(op: table, arguments: table, call: function): ...
---@param f? function
---@param ... any what f gets
---@return any ... its results, or the value to hold
function modes.override(handler, f, ...)
  return under("override", ml._override(handler), f, ...)
end

return options.namespace("modes", modes)
