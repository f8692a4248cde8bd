-- stdlib/torch7/xlua.lua: the part of Torch7's package `xlua` that scripts use: progress, and small
-- functions on tables and texts.

local paths = require "moonlet.torch7.paths"
local system = require "moonlet.system"

local xlua = {}

local BAR = 60
local started, last = nil, 0

--- A time in words: "1m30s".
function xlua.formatTime(seconds)
  local days, hours = seconds // 86400, seconds // 3600 % 24
  local minutes, rest = seconds // 60 % 60, seconds % 60
  if days > 0 then return ("%dD%dh"):format(days, hours) end
  if hours > 0 then return ("%dh%dm"):format(hours, minutes) end
  if minutes > 0 then return ("%dm%ds"):format(minutes, math.floor(rest)) end
  if rest >= 1 then return ("%ds%dms"):format(math.floor(rest), math.floor(rest * 1000 % 1000)) end
  return ("%dms"):format(math.floor(rest * 1000))
end

--- A bar of how far a loop has come: `current` of `goal`.
function xlua.progress(current, goal)
  local now = system.clock()
  if not started or current <= 1 then started, last = now, now end
  local done = math.floor(current / goal * BAR)
  io.write(("\r [%s%s] %d/%d ETA: %s | Step: %s "):format(("="):rep(done), ("."):rep(BAR - done),
    math.floor(current), math.floor(goal),
    xlua.formatTime((now - started) / math.max(current - 1, 1) * (goal - current)),
    xlua.formatTime(now - last)))
  last = now
  if current >= goal then io.write "\n" end
  io.flush()
end

function xlua.print(...) print(...) end
function xlua.require(name, required)
  local ok, module = pcall(require, name)
  if not ok and required then error(module, 2) end
  return ok and module or nil
end

local function clone(list)
  local out = {}
  for key, value in pairs(list) do out[key] = type(value) == "table" and clone(value) or value end
  return setmetatable(out, getmetatable(list))
end
rawset(table, "clone", clone)

xlua.split = require("moonlet.torch7.sys").split
rawset(string, "split", function(text, separator) return xlua.split(text, separator or " ") end)

--- Reads arguments by name or in order, as { arg = "name", type = ..., default = ..., req = ... }.
function xlua.unpack(arguments, name, _, ...)
  local given, out = arguments, {}
  local by_name = #arguments == 1 and type(arguments[1]) == "table" and arguments[1]
  for i, spec in ipairs { ... } do
    local value
    if by_name then value = by_name[spec.arg] else value = given[i] end
    if value == nil then value = spec.default end
    if value == nil and spec.req then
      error(("%s: argument '%s' is required"):format(name, spec.arg), 2)
    end
    out[i], out[spec.arg] = value, value
  end
  return out, table.unpack(out, 1, select("#", ...))
end

xlua.basename = paths.basename

return xlua
