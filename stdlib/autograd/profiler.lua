-- stdlib/autograd/profiler.lua: ml.autograd.profiler: time and memory of ops, nodes of backward and
-- ranges of a script, under PyTorch's names, and traces for a browser.

local columns = require "moonlet.columns"
local json = require "moonlet.json"
local ml = require "moonlet"
local numbers = require "moonlet.numbers"
local overlap = require "moonlet.distributed.overlap"
local namespace = require("moonlet.options").namespace
local signature = require "moonlet.signature"
local system = require "moonlet.system"
local fail = require("moonlet.options").fail
local is_callable = require("moonlet.options").is_callable
local kept_open = require("moonlet.options").kept_open

local profiler = {}

-- Averages ---------------------------------------------------------------------------------------

--- What `p:key_averages()` gives: an array of rows, one for each name. A row has `key`, `kind`
--- ("op", "backward" or "range"), `count`, `cpu_time_total`, `self_cpu_time_total` and `cpu_time`
--- (of one call) in microseconds, `cpu_memory_usage` and `self_cpu_memory_usage` in bytes; `self`
--- leaves out what ran inside.
---@class moonlet.autograd.profiler.Averages
local Averages = {}
local averages = { __index = Averages, __name = "Averages" }
-- The last line of their table, about collectives.
local last_lines = setmetatable({}, { __mode = "k" })

local function microseconds(value)
  if value >= 1e6 then return ("%.3fs"):format(value / 1e6) end
  return value >= 1e3 and ("%.3fms"):format(value / 1e3) or ("%.3fus"):format(value)
end

local function table_columns(whole)
  local function percent(value)
    return whole > 0 and ("%.2f%%"):format(value / whole * 100) or "--"
  end
  return {
    { "Name", function(row) return row.key end, left = true },
    { "Self CPU %", function(row) return percent(row.self_cpu_time_total) end },
    { "Self CPU", function(row) return microseconds(row.self_cpu_time_total) end },
    { "CPU total %", function(row) return percent(row.cpu_time_total) end },
    { "CPU total", function(row) return microseconds(row.cpu_time_total) end },
    { "CPU time avg", function(row) return microseconds(row.cpu_time) end },
    { "CPU Mem", function(row) return columns.bytes(row.cpu_memory_usage) end },
    { "Self CPU Mem", function(row) return columns.bytes(row.self_cpu_memory_usage) end },
    { "# of Calls", function(row) return tostring(row.count) end },
  }
end

signature.add_choice("ProfileKey", { "cpu_time", "cpu_time_total", "self_cpu_time_total",
  "cpu_memory_usage", "self_cpu_memory_usage", "count" })
local read_table = signature(
  "Averages:table(ProfileKey? sort_by=nil, int>=1 row_limit=100)", "table")

local function table_of(rows, ...)
  local key, most = read_table(...)
  local shown, whole = table.move(rows, 1, #rows, 1, {}), 0
  for _, row in ipairs(rows) do whole = whole + row.self_cpu_time_total end
  if key then
    table.sort(shown, function(a, b)
      if a[key] ~= b[key] then return a[key] > b[key] end
      return a.key < b.key
    end)
  end
  for i = #shown, most + 1, -1 do shown[i] = nil end
  return columns.aligned(shown, table_columns(whole)) .. "\nSelf CPU time total: "
    .. microseconds(whole) .. (last_lines[rows] or "")
end

--- A table of them, as they first ran or by a key, greatest first, and at most `row_limit`. Its
--- last line is about collectives with other ranks, where there were some: how long they took, and
--- the share of it that hid behind computation.
---@param sort_by? string the name of a number of the rows
---@param row_limit? integer (default 100)
---@return string
function Averages:table(...) return table_of(self, ...) end

Averages.table = numbers.wrap(Averages.table)

function averages:__tostring() return self:table() end

-- The run ----------------------------------------------------------------------------------------

--- What `profiler.profile` returns. A span is one run of an op, a node of backward or a range:
--- `name`, `kind`, `where`, `start` and `time` in seconds, `bytes`, `thread`.
---@class moonlet.autograd.profiler.Profile
---@field function_events table[] The spans, in the order in which they ended.
---@field self_cpu_time_total number The time of all of them, in microseconds.
---@field communication table The collectives with other ranks: their `count`, `time` in seconds,
---   `hidden_time`, in which the script did not wait for them, and its `share`, from 0 to 1.
local Profile = {}

--- Ends the measurement; what was measured stays.
---@return moonlet.autograd.profiler.Profile self
function Profile:stop()
  local _ <close> = self._guard
  self._guard = nil
  if self._record then overlap.stop(self._record) end
  return self
end

local function row_of(event)
  return { key = event.name, kind = event.kind, count = 0, cpu_time_total = 0,
    self_cpu_time_total = 0, cpu_memory_usage = 0, self_cpu_memory_usage = 0 }
end

--- What ran under each name, together.
---@return moonlet.autograd.profiler.Averages
function Profile:key_averages()
  local rows, by_key = {}, {}
  for _, event in ipairs(self._events and self._events() or {}) do
    local key = event.kind .. " " .. event.name
    local row = by_key[key]
    if not row then
      row = row_of(event)
      by_key[key], rows[#rows + 1] = row, row
    end
    row.count = row.count + event.count
    row.cpu_time_total = row.cpu_time_total + event.total_time * 1e6
    row.self_cpu_time_total = row.self_cpu_time_total + event.self_time * 1e6
    row.cpu_memory_usage = row.cpu_memory_usage + event.bytes
    row.self_cpu_memory_usage = row.self_cpu_memory_usage + event.self_bytes
    row.cpu_time = row.cpu_time_total / row.count
  end
  last_lines[rows] = self._record and overlap.text(self._record) or nil
  return setmetatable(rows, averages)
end

--- A row of all that ran.
---@return table
function Profile:total_average()
  local total = row_of { name = "Total", kind = "range" }
  for _, row in ipairs(self:key_averages()) do
    for key, value in pairs(row) do
      if type(value) == "number" then total[key] = (total[key] or 0) + value end
    end
  end
  total.cpu_time = total.count > 0 and total.cpu_time_total / total.count or 0
  return total
end

--- The table of `key_averages()`.
---@param sort_by? string
---@param row_limit? integer (default 100)
---@return string
function Profile:table(...) return self:key_averages():table(...) end

local CATEGORIES = { op = "cpu_op", backward = "cpu_op", range = "user_annotation" }

local function trace_of(spans, collectives)
  local events = {}
  for i, span in ipairs(spans) do
    events[i] = { ph = "X", cat = CATEGORIES[span.kind], name = span.name, pid = span.process,
      tid = span.thread, ts = span.start * 1e6, dur = span.time * 1e6,
      args = { bytes = span.bytes, kind = span.kind, where = span.where } }
  end
  local first = spans[1]
  -- What goes on beside the script's thread, as a thread of its own.
  for _, span in ipairs(collectives) do
    events[#events + 1] = { ph = "X", cat = "communication", name = span.op,
      pid = first and first.process or 0, tid = 0, ts = span.start * 1e6, dur = span.time * 1e6 }
  end
  events[#events + 1] = { ph = "M", name = "process_name", pid = first and first.process or 0,
    args = { name = "moonlet" } }
  return { displayTimeUnit = "ms", traceEvents = events }
end

local read_export = signature("autograd.profiler.export_chrome_trace(string path)",
  "export_chrome_trace")

--- Writes when all ran as a file of JSON that chrome://tracing and Perfetto open. A file that is
--- there is replaced as a whole or not at all.
---@param path string
function Profile:export_chrome_trace(...)
  local path = read_export(...)
  system.write_file(path, json.encode(trace_of(self.function_events,
    self._record and overlap.spans(self._record) or {})), "export_chrome_trace")
end

local metatable = { __name = "Profile", __close = Profile.stop }

function metatable:__index(key)
  if key == "communication" then
    return overlap.summary(self._record or overlap.empty)
  end
  if key == "function_events" then return self._spans and self._spans() or {} end
  if key == "self_cpu_time_total" then return self:total_average().self_cpu_time_total end
  return Profile[key]
end

function metatable:__tostring() return self:table() end

local read_profile = signature(
  "autograd.profiler.profile(bool enabled=true, bool sync=false)", "profile")

local function measured(given, ...)
  local run = setmetatable({ _events = false, _spans = false, _record = false }, metatable)
  if given.enabled then
    run._guard, run._events, run._spans = ml._profiler(given.sync, true)
    run._record = overlap.start()
  end
  return kept_open("profile", run, ...)
end

--- Profiles what `f` does, or what is done until the end of the block or `p:stop()`: each op, each
--- node that backward runs, and the ranges of `record_function`, with time, allocated bytes and the
--- line of the script. `p:key_averages():table { sort_by = "self_cpu_time_total" }` is text, and
--- `p:export_chrome_trace(path)` writes a file for chrome://tracing. `ml.profile` keeps less.
--- > p = ml.autograd.profiler.profile(function() return ml.ones(9, 9):softmax(1) end)
--- > p:total_average().count > 0
---   true
---@param enabled? boolean false measures nothing
---@param sync? boolean whether CUDA devices are waited for around each op, so that times are
---   the ops' own
---@param f? function the function to run; without it the measurement lasts to `p:stop()` or the
---   end of the block
---@param ... any what `f` gets
---@return moonlet.autograd.profiler.Profile
---@see profile
function profiler.profile(options, f, ...)
  return measured(read_profile:before_function(options, f, ...))
end

--- Runs `f`, or the rest of the block that holds the result with `<close>`, as a range with a name:
--- profiles show it with what ran inside. Without a profile it costs next to nothing.
--- > ml.autograd.profiler.record_function("loss", function() return ml.ones(3):sum() end)
---   3.  Tensor () float32
---@param name string the name of the range
---@param f? function the function to run; without it the result is held as a `<close>` variable
---@param ... any what `f` gets
---@return any ... its results, or the value to hold
function profiler.record_function(name, f, ...)
  if type(name) ~= "string" then
    fail("record_function: the name must be a string, got %s", type(name))
  elseif f ~= nil and not is_callable(f) then
    fail("record_function: a function is expected, got %s", type(f))
  end
  local range = ml._profile_range(name)
  if f == nil then return range end
  local _ <close> = range
  return f(...)
end

return namespace("autograd.profiler", profiler)
