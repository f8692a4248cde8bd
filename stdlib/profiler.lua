-- stdlib/profiler.lua: ml.profile: what the ops of a piece of a script cost, by op and by line.

local columns = require "moonlet.columns"
local ml = require "moonlet"
local numbers = require "moonlet.numbers"
local overlap = require "moonlet.distributed.overlap"
local namespace = require("moonlet.options").namespace
local signature = require "moonlet.signature"
local kept_open = require("moonlet.options").kept_open

local profiler = {}

--- Profile of ops, which `ml.profile` returns; it prints as a table. Each event is what is known of
--- an op called from one line: `name`, `where`, `count`, `total_time` and `self_time` in seconds,
--- `bytes` and `self_bytes`; `self` leaves out the ops inside.
--- > ml.profile(function() return ml.ones(9):sum() end).events[1].count
---   1
---@class moonlet.Profile
---@field events moonlet.ProfileEvent[] One for each op and line of the script that called it.
---@field communication table The collectives with other ranks: their `count`, `time` in seconds,
---   `hidden_time`, in which the script did not wait for them, and its `share`, from 0 to 1.
local Profile = {}

--- Ends the measurement; the events stay.
--- > p = ml.profile()
--- > x = ml.ones(3):exp()
--- > #p:stop().events > 0
---   true
---@return moonlet.Profile self
function Profile:stop()
  local _ <close> = self._guard
  self._guard = nil
  overlap.stop(self._record)
  return self
end

local counted = { "count", "total_time", "self_time", "bytes", "self_bytes" }

-- The events, those with the same `name` made one when lines do not matter.
local function grouped(events, by)
  if by == "line" then return events end
  local rows, row_of = {}, {}
  for _, event in ipairs(events) do
    local row = row_of[event.name]
    if not row then
      row = { name = event.name }
      for _, key in ipairs(counted) do row[key] = 0 end
      row_of[event.name] = row
      rows[#rows + 1] = row
    end
    for _, key in ipairs(counted) do row[key] = row[key] + event[key] end
  end
  return rows
end

local shown_columns = {
  { "op", function(row) return row.name end, left = true },
  { "calls", function(row) return tostring(row.count) end },
  { "self", function(row) return columns.milliseconds(row.self_time) end },
  { "total", function(row) return columns.milliseconds(row.total_time) end },
  { "mean", function(row) return columns.milliseconds(row.total_time / row.count) end },
  { "bytes", function(row) return columns.bytes(row.self_bytes) end },
}
local line_column = { "line", function(row) return row.where or "" end, left = true }

signature.add_choice("SortKey",
  { "count", "total_time", "self_time", "bytes", "self_bytes", "name" })
signature.add_choice("Grouping", { "op", "line" })
local read_table = signature(
  'Profile:table(SortKey sort="self_time", Grouping by="op", int>=1? rows=nil)', "profile table")

--- The profile as a text of one row for each op, or for each op and line of the script, the
--- greatest first. Where there were collectives with other ranks, a last line says how long they
--- took, and the share of it that hid behind computation, such as the rest of backward.
--- > type(ml.profile(function() return ml.ones(9):sum() end):table { by = "line" })
---   string
---@param sort? string "self_time", "total_time", "count", "bytes", "self_bytes" or "name"
---@param by? "op"|"line" "op" or "line"
---@param rows? integer the most rows; all unless given
---@return string
function Profile:table(...)
  local key, by, most = read_table(...)
  local rows = grouped(self.events, by)
  table.sort(rows, function(a, b)
    if key ~= "name" and a[key] ~= b[key] then return a[key] > b[key] end
    if a.name ~= b.name then return a.name < b.name end
    return (a.where or "") < (b.where or "")
  end)
  for i = #rows, (most or #rows) + 1, -1 do rows[i] = nil end
  local shown = table.move(shown_columns, 1, #shown_columns, 1, {})
  if by == "line" then table.insert(shown, 2, line_column) end
  return columns.aligned(rows, shown) .. overlap.text(self._record)
end

Profile.table = numbers.wrap(Profile.table)

local metatable = { __name = "Profile", __close = Profile.stop }

function metatable:__index(key)
  if key == "events" then return self._events() end
  if key == "communication" then return overlap.summary(self._record) end
  return Profile[key]
end

function metatable:__tostring() return self:table() end

local read_profile = signature("profiler.profile(bool sync=false)", "profile")

local function measured(given, ...)
  local guard, events = ml._profiler(given.sync, false)
  local run = { _guard = guard, _events = events, _record = overlap.start() }
  return kept_open("profile", setmetatable(run, metatable), ...)
end

--- Profiles the ops that `f` calls, or those until the end of the block or `p:stop()`: how often
--- each ran, its time and the bytes it allocated; the ops inside an op and those of backward too.
--- `p.events` has the numbers, `p:table()` is text, and `print(p)` shows it.
--- > p = ml.profile(function() return ml.ones(9, 9):softmax(1) end)
--- > #p.events > 0
---   true
---@param options? {sync?: boolean}
---@param options.sync? boolean whether CUDA devices are waited for around each op, so that
---   times are the ops' own (default false)
---@param f? function the function to run; without it the measurement lasts to `p:stop()` or the
---   end of the block
---@param ... any what `f` gets
---@return moonlet.Profile
function profiler.profile(options, f, ...)
  return measured(read_profile:before_function(options, f, ...))
end

return namespace("profiler", profiler)
