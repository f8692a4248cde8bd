-- stdlib/cuda/memory.lua: the memory functions of ml.cuda, by PyTorch's names: what the caching
-- allocator of a device holds, does and may take.

local columns = require "moonlet.columns"
local json = require "moonlet.json"
local ml = require "moonlet"
local signature = require "moonlet.signature"
local system = require "moonlet.system"
local fail = require("moonlet.options").fail

local raw = ml._cuda_memory
local memory = {}

-- A function of ml.cuda that takes a device alone: f(device number).
local function of_device(name, f)
  local read = signature(("cuda.%s(int|string? device=nil)"):format(name))
  return function(...) return f(raw.index(read(...), "cuda." .. name)) end
end

-- The same for one counter.
local function counter(name, key)
  return of_device(name, function(device) return raw.statistics(device)[key] end)
end

--- The counters of a device's allocator, by PyTorch's names: `allocated_bytes.all.current`,
--- `.peak`, `.allocated` (the sum of what was allocated), `.freed`, for `all`, `small_pool` (blocks
--- of at most 1 MiB) and `large_pool`; of `allocated_bytes` (what tensors hold, rounded up),
--- `requested_bytes` (not rounded), `active_bytes` (with what was freed while streams still use
--- it), `reserved_bytes` (taken from the device), `inactive_split_bytes` (free parts of segments in
--- use), and the numbers of blocks `allocation`, `active`, `segment`, `inactive_split`.
--- `num_alloc_retries` counts how often the device had no more, `num_ooms` how often that was an
--- error, before and after a garbage collection.
--- > x = ml.ones(1000, { device = "cuda" })  -- needs cuda
--- > ml.cuda.memory_stats()["allocated_bytes.all.current"] >= 4000
---   true
---@param device? integer|string device, such as 0 or "cuda:0"; the current one unless given
---@return table<string, integer>
memory.memory_stats = of_device("memory_stats", raw.statistics)

--- The bytes that tensors hold on a device, rounded up as the allocator does.
--- > x = ml.ones(1000, { device = "cuda" })  -- needs cuda
--- > ml.cuda.memory_allocated() >= 4000
---   true
---@param device? integer|string device, such as 0 or "cuda:0"; the current one unless given
---@return integer
memory.memory_allocated = counter("memory_allocated", "allocated_bytes.all.current")

--- The most that `memory_allocated` has been since the last `reset_peak_memory_stats`.
--- > ml.cuda.max_memory_allocated() >= ml.cuda.memory_allocated()  -- needs cuda
---   true
---@param device? integer|string device, such as 0 or "cuda:0"; the current one unless given
---@return integer
memory.max_memory_allocated = counter("max_memory_allocated", "allocated_bytes.all.peak")

--- The bytes that the allocator has taken from a device: what tensors hold and what it keeps.
--- > ml.cuda.memory_reserved() >= ml.cuda.memory_allocated()  -- needs cuda
---   true
---@param device? integer|string device, such as 0 or "cuda:0"; the current one unless given
---@return integer
memory.memory_reserved = counter("memory_reserved", "reserved_bytes.all.current")

--- The most that `memory_reserved` has been since the last `reset_peak_memory_stats`.
--- > ml.cuda.max_memory_reserved() >= ml.cuda.memory_reserved()  -- needs cuda
---   true
---@param device? integer|string device, such as 0 or "cuda:0"; the current one unless given
---@return integer
memory.max_memory_reserved = counter("max_memory_reserved", "reserved_bytes.all.peak")

--- Makes what is in use now the peak of all counters.
--- > ml.cuda.reset_peak_memory_stats()  -- needs cuda
---@param device? integer|string device, such as 0 or "cuda:0"; the current one unless given
memory.reset_peak_memory_stats = of_device("reset_peak_memory_stats",
  function(device) raw.reset(device, true) end)

--- Sets the counters `.allocated` and `.freed`, and those of events, to 0.
--- > ml.cuda.reset_accumulated_memory_stats()  -- needs cuda
---@param device? integer|string device, such as 0 or "cuda:0"; the current one unless given
memory.reset_accumulated_memory_stats = of_device("reset_accumulated_memory_stats",
  function(device) raw.reset(device, false) end)

--- The free and the total memory of a device in bytes, as `memory_info`.
--- > available, total = ml.cuda.mem_get_info()  -- needs cuda
--- > available <= total
---   true
---@param device? integer|string device, such as 0 or "cuda:0"; the current one unless given
---@return integer available
---@return integer total
memory.mem_get_info = of_device("mem_get_info", function(device)
  return ml.cuda.memory_info(device)
end)

--- The share of a device's memory that `set_per_process_memory_fraction` was given; 1.0 before.
--- > ml.cuda.get_per_process_memory_fraction()  -- needs cuda
---   1.0
---@param device? integer|string device, such as 0 or "cuda:0"; the current one unless given
---@return number
memory.get_per_process_memory_fraction = of_device("get_per_process_memory_fraction",
  function(device) return raw.fraction(device) end)

local read_fraction = signature(
  "cuda.set_per_process_memory_fraction(number>=0<=1 fraction, int|string? device=nil)")

--- Limits what the allocator takes from a device, to a share of all its memory; more is an error,
--- as when the device has no more.
--- > ml.cuda.set_per_process_memory_fraction(1)  -- needs cuda
---@param fraction number the share, from 0 to 1
---@param device? integer|string device, such as 0 or "cuda:0"; the current one unless given
function memory.set_per_process_memory_fraction(...)
  local fraction, device = read_fraction(...)
  raw.fraction(raw.index(device, "cuda.set_per_process_memory_fraction"), fraction)
end

--- Returns memory that is kept for further tensors to the devices and the system, as
--- `ml.memory.empty_cache`.
--- > ml.cuda.empty_cache()  -- needs cuda
function memory.empty_cache() ml.memory.empty_cache() end

-- --- the summary ---------------------------------------------------------------------------------

local function bytes_text(count) return columns.bytes(count) end
local function count_text(count) return ("%d"):format(count) end

-- The rows of the summary: a title, the counter and how its numbers are written.
local SHOWN = {
  { "tensors hold", "allocated_bytes", bytes_text },
  { "in use by streams", "active_bytes", bytes_text },
  { "asked for", "requested_bytes", bytes_text },
  { "taken from the device", "reserved_bytes", bytes_text },
  { "free in split segments", "inactive_split_bytes", bytes_text },
  { "blocks of tensors", "allocation", count_text },
  { "blocks in use", "active", count_text },
  { "segments", "segment", count_text },
  { "free split blocks", "inactive_split", count_text },
}
local POOLS = { { "all", "" }, { "large_pool", "  large" }, { "small_pool", "  small" } }

local function cell(title, key)
  return { title, function(row) return row.write(row.stats[row.key .. "." .. key]) end }
end
local SUMMARY_COLUMNS = {
  { "", function(row) return row.title end, left = true },
  cell("now", "current"), cell("peak", "peak"), cell("came", "allocated"), cell("went", "freed"),
}

local read_summary = signature(
  "cuda.memory_summary(int|string? device=nil, bool abbreviated=false)")

--- The counters of a device as a table to read: now, at the peak, and the sums of what was
--- allocated and freed.
--- > type(ml.cuda.memory_summary())  -- needs cuda
---   string
---@param device? integer|string device, such as 0 or "cuda:0"; the current one unless given
---@param abbreviated? boolean whether large and small blocks are left out, and only all blocks
---   are shown
---@return string
function memory.memory_summary(...)
  local device, abbreviated = read_summary(...)
  device = raw.index(device, "cuda.memory_summary")
  local stats, rows = raw.statistics(device), {}
  for _, shown in ipairs(SHOWN) do
    for i = 1, abbreviated and 1 or #POOLS do
      local pool, title = POOLS[i][1], POOLS[i][2]
      rows[#rows + 1] = { title = i == 1 and shown[1] or title, stats = stats,
        key = shown[2] .. "." .. pool, write = shown[3] }
    end
  end
  for _, name in ipairs { "oversize_allocations", "oversize_segments" } do
    rows[#rows + 1] = { title = name:gsub("_", " "), stats = stats, key = name, write = count_text }
  end
  return ("memory of cuda:%d: %d requests failed, the device refused %d times\n%s"):format(device,
    stats.num_ooms, stats.num_alloc_retries, columns.aligned(rows, SUMMARY_COLUMNS))
end

-- --- history and snapshots -----------------------------------------------------------------------

local HISTORY = { all = true, state = true }
local CONTEXT = { all = true, alloc = true, state = true }

local read_record = signature('cuda.record_memory_history(string|bool enabled="all", '
  .. 'string|bool context="all", int>=1? max_entries=nil, bool clear_history=false)')

--- Records what the allocators do from now on, on all devices, for `memory_snapshot`.
--- > ml.cuda.record_memory_history(false)  -- needs cuda
---@param enabled? "all"|"state"|boolean "all" records each event, "state" only the lines of the
---   script that made the blocks in use; false ends it
---@param context? "all"|"alloc"|"state"|false what lines are kept for: "all", "alloc" (not for
---   frees), "state", or false for none
---@param max_entries? integer how many events are kept on each device, the last ones; all
---   unless given
---@param clear_history? boolean whether what is recorded is forgotten
function memory.record_memory_history(...)
  local enabled, context, most, clear = read_record(...)
  local function refuse(name, value, wanted)
    fail("cuda.record_memory_history: '%s' must be %s or false, got %s", name, wanted,
      type(value) == "string" and ("%q"):format(value) or tostring(value))
  end
  if enabled == true then enabled = "all" end
  if context == true then context = "all" end
  if enabled and not HISTORY[enabled] then refuse("enabled", enabled, '"all", "state"') end
  if context and not CONTEXT[context] then refuse("context", context, '"all", "alloc", "state"') end
  raw.record("cuda.record_memory_history", enabled and context, enabled == "all",
    enabled == "all" and context == "all", most or math.maxinteger, clear)
end

--- What the allocators of all devices hold: `segments`, each with `device`, `address`, `stream`,
--- `segment_type`, `total_size`, `allocated_size`, `active_size`, `requested_size` and its `blocks`
--- (`address`, `size`, `requested_size`, `state`); and `device_traces`, by device the events since
--- `record_memory_history`, which also gives blocks and events their `frames`: the lines
--- (`filename`, `line`, `name`) of the script that made them, innermost first.
--- > type(ml.cuda.memory_snapshot().segments)  -- needs cuda
---   table
---@return {segments: table[], device_traces: table[][]}
function memory.memory_snapshot()
  local segments, traces = raw.snapshot "cuda.memory_snapshot"
  return { segments = segments, device_traces = traces }
end

-- A list as JSON; Lua does not tell an empty one from an empty object.
local function list_text(list) return #list > 0 and json.encode(list) or "[]" end

local function written(snapshot)
  local traces = {}
  for i, trace in ipairs(snapshot.device_traces) do traces[i] = list_text(trace) end
  return ('{"segments": %s, "device_traces": [%s]}'):format(list_text(snapshot.segments),
    table.concat(traces, ", "))
end

local read_dump = signature 'cuda.dump_snapshot(string path="dump_snapshot.json")'

--- Writes `memory_snapshot()` to a file, as JSON.
--- > ml.cuda.dump_snapshot(os.tmpname())  -- needs cuda
---@param path? string the file
function memory.dump_snapshot(...)
  local path = read_dump(...)
  system.write_file(path, written(memory.memory_snapshot()), "cuda.dump_snapshot")
end

local read_page = signature 'cuda.memory_page(string path="memory.html")'

--- Writes one HTML page that draws `memory_snapshot()`: segments with their blocks, the largest
--- ones, and the memory in use over the recorded events. It loads nothing from elsewhere.
--- > ml.cuda.memory_page(os.tmpname())  -- needs cuda
---@param path? string the file
function memory.memory_page(...)
  local path = read_page(...)
  local page = require "moonlet.cuda.memory_page"
  system.write_file(path, page(written(memory.memory_snapshot())), "cuda.memory_page")
end

return memory
