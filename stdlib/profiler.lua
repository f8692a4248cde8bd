-- stdlib/profiler.lua: ml.profile: what the ops of a piece of a script cost, by op and by line.

local ml = require "moonlet"
local numbers = require "moonlet.numbers"
local options = require "moonlet.options"
local fail = options.fail

local profiler = {}

--- What `ml.profile` returns: `print(p)` shows it as a table. An event is what is known of an op
--- called from one line: `name`, `where`, `count`, `total_time` and `self_time` in seconds, `bytes`
--- and `self_bytes`; `self` leaves out the ops inside.
---@class moonlet.Profile
---@field events moonlet.ProfileEvent[] One for each op and line of the script that called it.
local Profile = {}

--- Ends the measurement; `events` stays.
---@return moonlet.Profile self
function Profile:stop()
  local _ <close> = self._guard
  self._guard = nil
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

local function milliseconds(seconds) return ("%.3f ms"):format(seconds * 1e3) end

local units = { "B", "KiB", "MiB", "GiB", "TiB" }
local function byte_text(bytes)
  local value, unit = bytes, 1
  while value >= 1024 and unit < #units do value, unit = value / 1024, unit + 1 end
  return (unit == 1 and "%d %s" or "%.1f %s"):format(value, units[unit])
end

local columns = {
  { "op", function(row) return row.name end, left = true },
  { "calls", function(row) return tostring(row.count) end },
  { "self", function(row) return milliseconds(row.self_time) end },
  { "total", function(row) return milliseconds(row.total_time) end },
  { "mean", function(row) return milliseconds(row.total_time / row.count) end },
  { "bytes", function(row) return byte_text(row.self_bytes) end },
}
local line_column = { "line", function(row) return row.where or "" end, left = true }

-- Lines of text in columns as wide as their widest cell.
local function aligned(rows, shown)
  local cells, widths = { {} }, {}
  for c, column in ipairs(shown) do cells[1][c] = column[1] end
  for _, row in ipairs(rows) do
    local line = {}
    for c, column in ipairs(shown) do line[c] = column[2](row) end
    cells[#cells + 1] = line
  end
  for _, line in ipairs(cells) do
    for c, text in ipairs(line) do widths[c] = math.max(widths[c] or 0, #text) end
  end
  local out = {}
  for i, line in ipairs(cells) do
    for c, text in ipairs(line) do
      local space = (" "):rep(widths[c] - #text)
      line[c] = shown[c].left and text .. space or space .. text
    end
    out[i] = table.concat(line, "  "):gsub("%s+$", "")
  end
  return table.concat(out, "\n")
end

local sortable = { count = true, total_time = true, self_time = true, bytes = true,
                   self_bytes = true, name = true }

--- A table of what was measured, dearest first.
---@param given? {sort?: string, by?: "op"|"line", rows?: integer}
---@return string
function Profile:table(given)
  local read = options.read("profile table", given,
    { sort = "self_time", by = "op", rows = options.none })
  local key = read.sort
  if not sortable[key] then
    fail("profile table: 'sort' must be count, total_time, self_time, bytes, self_bytes or name, "
      .. "got %s", tostring(key))
  end
  if read.by ~= "op" and read.by ~= "line" then
    fail("profile table: 'by' must be \"op\" or \"line\", got %s", tostring(read.by))
  end
  local rows = grouped(self.events, read.by)
  table.sort(rows, function(a, b)
    if key ~= "name" and a[key] ~= b[key] then return a[key] > b[key] end
    if a.name ~= b.name then return a.name < b.name end
    return (a.where or "") < (b.where or "")
  end)
  if read.rows then
    local most = options.integer("profile table", "rows", read.rows, 1)
    for i = #rows, most + 1, -1 do rows[i] = nil end
  end
  local shown = table.move(columns, 1, #columns, 1, {})
  if read.by == "line" then table.insert(shown, 2, line_column) end
  return aligned(rows, shown)
end

Profile.table = numbers.wrap(Profile.table)

local metatable = { __name = "Profile", __close = Profile.stop }

function metatable:__index(key)
  if key == "events" then return self._events() end
  return Profile[key]
end

function metatable:__tostring() return self:table() end

--- Counts the ops that `f` calls, or those until the end of the block or `p:stop()`, with their
--- time and the bytes they allocate; the ops inside an op and those of backward too. With `sync` it
--- waits for CUDA devices around each op, so that its time is the op's own. `p.events` has the
--- numbers (`count`, `total_time`, `self_time`, ...), and `p:table { sort = "self_time" }` is text.
--- > print(ml.profile(function() return ml.randn(9, 9):softmax(1) end))
---@param given? {sync?: boolean}
---@param f? function
---@param ... any what f gets
---@return moonlet.Profile
function profiler.profile(given, f, ...)
  if type(given) == "function" then return profiler.profile({}, given, f, ...) end
  if f ~= nil and type(f) ~= "function" then
    fail("profile: a function is wanted, got %s", type(f))
  end
  local read = options.read("profile", given, { sync = false })
  local guard, events = ml._profiler(options.boolean("profile", "sync", read.sync))
  local profile = setmetatable({ _guard = guard, _events = events }, metatable)
  if not f then return profile end
  local running <close> = profile
  f(...)
  return running
end

return profiler
