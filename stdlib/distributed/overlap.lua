-- stdlib/distributed/overlap.lua: how much of the time of collectives a script did not wait for:
-- what profiles tell of them. Costs nothing where there is no profile.

local clock = require("moonlet.system").clock

-- `empty`: the record of what measures nothing.
local overlap = { empty = { works = {}, waits = {} } }

-- The records that profiles keep, as long as these live.
local records, open = setmetatable({}, { __mode = "k" }), 0

--- Begins a record of the collectives that are started from now on.
---@return table record
function overlap.start()
  local record = { made = clock(), works = {}, waits = {}, is_open = true }
  records[record] = true
  open = open + 1
  return record
end

--- Ends it; collectives that go on are still counted when they are done.
---@param record table
function overlap.stop(record)
  if not record.is_open then return end
  record.is_open = false
  open = open - 1
end

--- A collective begins: `native` tells its times when it has ended.
function overlap.note_work(op, native)
  if open == 0 then return end
  for record in pairs(records) do
    if record.is_open then table.insert(record.works, { op = op, native = native }) end
  end
end

--- Runs `f(...)`, in which the script waits for a collective.
function overlap.waiting(f, ...)
  if open == 0 then return f(...) end
  local start = clock()
  local function ended(...)
    local now = clock()
    for record in pairs(records) do
      if record.is_open then table.insert(record.waits, { start, now }) end
    end
    return ...
  end
  return ended(f(...))
end

-- Seconds until `time` in which the script waited. Waits follow one another; `before` has their
-- sums.
local function waited_until(waits, before, time)
  local low, high = 0, #waits
  while low < high do
    local middle = (low + high + 1) // 2
    if waits[middle][1] <= time then low = middle else high = middle - 1 end
  end
  if low == 0 then return 0 end
  return before[low] + math.min(time, waits[low][2]) - waits[low][1]
end

--- When each collective that is done ran, in seconds from the start of the record.
---@param record table
---@return table[] spans `op`, `start`, `time`
function overlap.spans(record)
  local out = {}
  for _, work in ipairs(record.works) do
    if not work.began then work.began, work.ended = work.native:times() end
    if work.began then
      work.native = nil
      out[#out + 1] = { op = work.op, start = work.began - record.made,
        time = work.ended - work.began }
    end
  end
  return out
end

--- What a record has found: the number of collectives, their seconds, and how many of these passed
--- while the script computed.
---@param record table
---@return table summary `count`, `time`, `hidden_time`, `share`: the hidden part, from 0 to 1
function overlap.summary(record)
  local before, sum = {}, 0
  for i, wait in ipairs(record.waits) do
    before[i], sum = sum, sum + wait[2] - wait[1]
  end
  local out = { count = 0, time = 0.0, hidden_time = 0.0 }
  for _, span in ipairs(overlap.spans(record)) do
    local start = record.made + span.start
    local waited = waited_until(record.waits, before, start + span.time)
      - waited_until(record.waits, before, start)
    out.count, out.time = out.count + 1, out.time + span.time
    out.hidden_time = out.hidden_time + math.max(span.time - waited, 0)
  end
  out.share = out.time > 0 and out.hidden_time / out.time or 0.0
  return out
end

--- The line of a profile's table, "" where there were no collectives.
---@param record table
---@return string
function overlap.text(record)
  local found = overlap.summary(record)
  if found.count == 0 then return "" end
  return ("\ncommunication: %d collective%s, %.3f ms, of which %.0f %% hid behind computation")
    :format(found.count, found.count == 1 and "" or "s", 1e3 * found.time, 100 * found.share)
end

return overlap
