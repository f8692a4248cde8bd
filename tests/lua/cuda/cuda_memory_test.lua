-- tests/lua/cuda/cuda_memory_test.lua: the caching allocator of CUDA devices: PyTorch's rules for sizes,
-- segments and cutting, its counters, snapshots, settings, and what happens when memory runs out.
-- The exact numbers are those of the emulated device; skips without one.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local emulated = require "emulated"
local test, expect = emulated.test, harness.expect
local output, lines_of = emulated.output, emulated.lines_of

local MiB = 1 << 20

local function bytes(count) return ml.empty(count, { dtype = "uint8", device = "cuda" }) end

-- A device as at the start: nothing in use and nothing kept.
local function fresh(body)
  return function()
    ml.memory.collect()
    ml.cuda.empty_cache()
    ml.cuda.reset_peak_memory_stats()
    ml.cuda.reset_accumulated_memory_stats()
    expect.equal({ ml.cuda.memory_allocated(), ml.cuda.memory_reserved() }, { 0, 0 })
    body()
  end
end

local function has(text, part) expect.truthy(text and text:find(part, 1, true), tostring(text)) end

local function contents(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return text
end

test("segments of 2 MiB, 20 MiB and of what is asked for", fresh(function()
  local asked = { 1, 512, 513, MiB, MiB + 1, 10 * MiB - 1, 10 * MiB, 13 * MiB }
  -- PyTorch's: rounded to 512 bytes; 2 MiB for at most 1 MiB, 20 MiB below 10 MiB, else to 2 MiB.
  -- What is left of a large segment is cut off when it is more than 1 MiB.
  local size = { 512, 512, 1024, MiB, MiB + 512, 10 * MiB, 10 * MiB, 14 * MiB }
  local segment = { 2, 2, 2, 2, 20, 10, 10, 14 }
  for i, count in ipairs(asked) do
    local x = bytes(count)
    expect.equal({ ml.cuda.memory_allocated(), ml.cuda.memory_reserved() },
      { size[i], segment[i] * MiB })
    x:free()
    ml.cuda.empty_cache()
  end
end))

test("counters follow blocks that are cut, used again and joined", fresh(function()
  local function stats(...)
    local all, out = ml.cuda.memory_stats(), {}
    for i, name in ipairs { ... } do out[i] = all[name] end
    return out
  end
  local a, b = bytes(4 * MiB), bytes(3 * MiB)
  expect.equal(stats("segment.all.current", "inactive_split.all.current",
    "inactive_split_bytes.large_pool.current", "allocation.large_pool.current"),
    { 1, 1, 13 * MiB, 2 })
  a:free()  -- not beside the free rest
  expect.equal(stats("inactive_split.all.current", "inactive_split_bytes.all.current",
    "allocated_bytes.all.current", "allocated_bytes.all.peak"), { 2, 17 * MiB, 3 * MiB, 7 * MiB })
  local c = bytes(2 * MiB)  -- the smaller of the two free blocks
  expect.equal(stats("inactive_split.all.current", "inactive_split_bytes.all.current"),
    { 2, 15 * MiB })
  b:free()
  c:free()
  expect.equal(stats("inactive_split.all.current", "inactive_split_bytes.all.current",
    "allocated_bytes.all.allocated", "allocated_bytes.all.freed", "requested_bytes.all.current",
    "reserved_bytes.all.current", "active.all.peak", "num_device_alloc", "num_ooms",
    "max_split_size"), { 0, 0, 9 * MiB, 9 * MiB, 0, 20 * MiB, 2, 1, 0, -1 })
  bytes(100):free()
  expect.equal(stats("allocated_bytes.small_pool.freed", "requested_bytes.small_pool.freed"),
    { 512, 100 })
  ml.cuda.reset_peak_memory_stats()
  ml.cuda.reset_accumulated_memory_stats()
  expect.equal(stats("allocated_bytes.all.peak", "reserved_bytes.all.peak",
    "allocated_bytes.all.freed"), { 0, 22 * MiB, 0 })
  expect.equal({ ml.cuda.max_memory_allocated(), ml.cuda.max_memory_reserved() }, { 0, 22 * MiB })
end))

test("each device counts for itself", fresh(function()
  if ml.cuda.device_count() < 2 then harness.skip "one device" end
  local before = ml.cuda.memory_allocated(1)
  local x = ml.empty(100, { device = "cuda:1" })
  expect.equal({ ml.cuda.memory_allocated "cuda:1" - before, ml.cuda.memory_allocated(0) },
    { 512, 0 })
  x:free()
end))

test("a snapshot says what holds the memory and which lines made it", fresh(function()
  ml.cuda.record_memory_history({ clear_history = true })
  local line = debug.getinfo(1, "l").currentline + 2
  local function make()
    local made = ml.empty(3 * MiB, { dtype = "uint8", device = "cuda" })
    return made
  end
  local x = make()
  bytes(5 * MiB):free()
  local snapshot = ml.cuda.memory_snapshot()
  ml.cuda.record_memory_history(false)
  expect.equal(#snapshot.segments, 1)
  local segment = snapshot.segments[1]
  expect.equal({ segment.device, segment.segment_type, segment.total_size, segment.allocated_size,
    segment.active_size, segment.requested_size },
    { 0, "large", 20 * MiB, 3 * MiB, 3 * MiB, 3 * MiB })
  local states, total = {}, 0
  for i, block in ipairs(segment.blocks) do
    states[i] = block.state
    expect.equal(block.address, segment.address + total)
    total = total + block.size
  end
  expect.equal({ states, total }, { { "active_allocated", "inactive" }, 20 * MiB })
  local frames = segment.blocks[1].frames
  expect.equal({ frames[1].line, frames[1].name, frames[2].line }, { line, "make", line + 3 })
  has(frames[1].filename, "cuda_memory_test.lua")
  local actions = {}
  for i, event in ipairs(snapshot.device_traces[1]) do actions[i] = event.action end
  expect.equal(actions, { "segment_alloc", "alloc", "alloc", "free_requested", "free_completed",
    "snapshot" })
  x:free()
end))

test("what is recorded can be bounded, kept without events, and ended", fresh(function()
  local function trace() return ml.cuda.memory_snapshot().device_traces[1] end
  ml.cuda.record_memory_history { max_entries = 3, clear_history = true }
  for _ = 1, 5 do bytes(10):free() end
  expect.equal({ #trace(), trace()[3].action }, { 3, "snapshot" })
  ml.cuda.record_memory_history { "state", clear_history = true }
  local x = bytes(10)
  expect.equal({ #trace(), #ml.cuda.memory_snapshot().segments[1].blocks[1].frames > 0 },
    { 0, true })
  ml.cuda.record_memory_history("all", false)
  local y = bytes(10)
  expect.equal(trace()[1].frames, nil)
  ml.cuda.record_memory_history { false, clear_history = true }
  bytes(10):free()
  expect.equal(#trace(), 0)
  x:free()
  y:free()
  for _, wrong in ipairs { { "some" }, { "all", "some" }, { "all", "all", 0 }, { { stacks = "all" } } } do
    expect.error(function() ml.cuda.record_memory_history(table.unpack(wrong)) end, "record_memory_history")
  end
end))

test("a snapshot as JSON and as a page that loads nothing", fresh(function()
  local path = os.tmpname()
  ml.cuda.record_memory_history { clear_history = true }
  local x = load("return require('moonlet').ones(300, { device = 'cuda' })", "=</script><b>")()
  ml.cuda.dump_snapshot(path)
  local read = require("moonlet.json").decode(contents(path))
  expect.equal({ read.segments[1].blocks[1].size, read.segments[1].blocks[1].frames[1].filename },
    { 1536, "</script><b>" })
  ml.cuda.memory_page(path)
  ml.cuda.record_memory_history { false, clear_history = true }
  local page = contents(path)
  has(page, "\\u003c/script>\\u003cb>")
  expect.equal({ page:find "</script><b>", page:find "src=", page:find "href=" }, {})
  os.remove(path)
  expect.error(function() ml.cuda.memory_page "/nowhere/at/all.html" end, "cuda.memory_page")
  x:free()
end))

test("the summary has a line for each counter", fresh(function()
  local x = bytes(3 * MiB)
  local all, short = ml.cuda.memory_summary(), ml.cuda.memory_summary { abbreviated = true }
  has(all, "memory of cuda:0")
  expect.truthy(all:find "\ntensors hold +3%.0 MiB +3%.0 MiB +3%.0 MiB +0 B\n  large", all)
  expect.truthy(#lines_of(short) < #lines_of(all))
  x:free()
end))

test("a share of the device's memory as the most to take", fresh(function()
  local _, total = ml.cuda.mem_get_info()
  ml.cuda.set_per_process_memory_fraction(40 * MiB / total)
  expect.near(ml.cuda.get_per_process_memory_fraction(), 40 * MiB / total, 1e-12)
  local x = bytes(30 * MiB)
  expect.error(function() bytes(12 * MiB) end, "at most " .. 40 * MiB .. " allowed")
  ml.cuda.set_per_process_memory_fraction(1)
  expect.equal(bytes(12 * MiB):numel(), 12 * MiB)
  x:free()
  for _, wrong in ipairs { -0.1, 1.5 } do
    expect.error(function() ml.cuda.set_per_process_memory_fraction(wrong) end, "fraction")
  end
  expect.error(function() ml.cuda.set_per_process_memory_fraction(1, 99) end, "no device 99")
  expect.error(function() ml.cuda.memory_stats "cpu" end, "memory_stats")
end))

-- --- when memory runs out ------------------------------------------------------------------------

test("the error names what is expected, free, held, and who holds most", function()
  local lines = lines_of((output("MOONLET_EMULATED_MEMORY=64", [[
    ml.cuda.record_memory_history()
    local a = ml.empty(30 * MiB, { dtype = "uint8", device = "cuda" })
    local b = ml.empty(22 * MiB, { dtype = "uint8", device = "cuda" })
    say(function() bytes(40 * MiB) end)
    print(ml.cuda.memory_stats().num_ooms, ml.cuda.memory_snapshot().device_traces[1][6].action)
    ml.cuda.record_memory_history(false)
    b:free()
    say(function() bytes(34 * MiB) end)
    say(function() bytes(35 * MiB) end)
  ]])))
  has(lines[1], ("%d bytes expected on cuda:0, %d of %d free; %d held by tensors, 0 cached")
    :format(40 * MiB, 12 * MiB, 64 * MiB, 52 * MiB))
  expect.truthy(lines[1]:find("the largest: " .. 30 * MiB .. " %([^)]+:10%), " .. 22 * MiB ..
    " %([^)]+:11%)"), lines[1])
  expect.equal(lines[2], "2\toom")  -- one before and one after the collection
  expect.equal(lines[3], "fine")
  has(lines[4], "out of memory")
end)

test("what Lua has not collected yet is found before memory counts as short", function()
  local text = output("MOONLET_EMULATED_MEMORY=64", [[
    collectgarbage "stop"
    for _ = 1, 20 do bytes(30 * MiB) end
    print(ml.cuda.memory_stats().num_alloc_retries > 0)
  ]])
  expect.equal(text, "true\n")
end)

test("segments that are large enough go first, then all", function()
  local text = output("MOONLET_EMULATED_MEMORY=64", [[
    for _, size in ipairs { 12, 30, 20 } do _G["x" .. size] = bytes(size * MiB) end
    x12:free() x30:free() x20:free()
    bytes(31 * MiB):free()            -- no segment is large enough: all go
    print(ml.cuda.memory_reserved() // MiB)
    ml.cuda.empty_cache()
    for _, size in ipairs { 12, 30, 20 } do _G["x" .. size] = bytes(size * MiB) end
    x12:free() x30:free() x20:free()
    local y = bytes(11 * MiB)         -- of 12 MiB
    local z = bytes(31 * MiB)
    print(ml.cuda.memory_reserved() // MiB)
  ]])
  expect.equal(text, "32\n44\n")
end)

-- --- settings ------------------------------------------------------------------------------------

test("settings of the environment that are wrong say so", function()
  local function why(settings)
    return (output(("MOONLET_CUDA_ALLOC='%s'"):format(settings), "say(function() bytes(1) end)"))
  end
  has(why "max_split:3", "MOONLET_CUDA_ALLOC: there is no setting 'max_split'; there are max_split_size_mb")
  has(why "max_split_size_mb:20", "'max_split_size_mb' must be a whole number from 21, got '20'")
  has(why "max_split_size_mb", "NAME:VALUE is expected, got 'max_split_size_mb'")
  has(why "garbage_collection_threshold:1.5", "must be a number between 0 and 1, got '1.5'")
  has(why "roundup_power2_divisions:3", "must be powers of two, got '3'")
  has(why "roundup_power2_divisions:[4:2,2:4]", "rising sizes")
  has(why "roundup_power2_divisions:[4:2", "has no end")
  has(why "expandable_segments:True", "'expandable_segments' can only be False")
  expect.equal(why " max_split_size_mb : 30 , expandable_segments:False,", "fine\n")
end)

test("large blocks that may not be cut are kept for large requests", function()
  local text = output("MOONLET_CUDA_ALLOC=max_split_size_mb:30 MOONLET_EMULATED_MEMORY=120", [[
    bytes(70 * MiB):free()
    local a = bytes(12 * MiB)            -- not a part of the 70
    print(ml.cuda.memory_reserved() // MiB)
    local b = bytes(69 * MiB)            -- all of it
    local stats = ml.cuda.memory_stats()
    print(stats["allocated_bytes.all.current"] // MiB, stats["oversize_allocations.current"],
      stats["oversize_segments.current"], stats.max_split_size // MiB)
    b:free()
    local c = bytes(45 * MiB)            -- much smaller: a segment of its own is not to be had
    print(ml.cuda.memory_reserved() // MiB, ml.cuda.memory_allocated() // MiB)
  ]])
  expect.equal(text, "82\n82\t1\t1\t30\n82\t82\n")
end)

test("requests are rounded to parts of powers of two", function()
  local script = [[
    local out = {}
    for i, size in ipairs { 300, 5000, 1200000, 2 * MiB + 1, 5 * MiB, 9 * MiB } do
      local x = bytes(size)
      out[i] = ml.cuda.memory_allocated()
      x:free()
    end
    print(table.concat(out, " "))
  ]]
  -- PyTorch's example: 1200 and four divisions are 1280; small requests stay multiples of 512.
  expect.equal((output("MOONLET_CUDA_ALLOC=roundup_power2_divisions:4", script)),
    ("512 5120 %d %d %d %d\n"):format(1310720, 2.5 * MiB, 5 * MiB, 10 * MiB))
  expect.equal((output("MOONLET_CUDA_ALLOC='roundup_power2_divisions:[1:1,4:2,>:1]'", script)),
    ("512 5120 %d %d %d %d\n"):format(1200128, 2 * MiB + 512, 6 * MiB, 9 * MiB))
end)

test("segments that were not used for long go when a share of the memory is taken", function()
  local script = [[
    bytes(20 * MiB):free()
    for _ = 1, 3 do bytes(2 * MiB):free() end
    local x = bytes(40 * MiB)
    print(ml.cuda.memory_reserved() // MiB)
  ]]
  expect.equal((output("MOONLET_EMULATED_MEMORY=100 MOONLET_CUDA_ALLOC=garbage_collection_threshold:0.5",
    script)), "40\n")
  expect.equal((output("MOONLET_EMULATED_MEMORY=100", script)), "60\n")
end)

emulated.test("a backward that runs out of memory has garbage collected, as ops have", function()
  local text = emulated.output("MOONLET_EMULATED_MEMORY=64", [[
    collectgarbage "stop"
    local x = ml.ones { 4 << 20, device = "cuda", requires_grad = true }
    local y = (x * x):sum()
    do local lost = ml.ones(7 << 20, cuda) end
    y:backward()
    print(x.grad:sum():item())
    x.grad, y = nil, nil
    collectgarbage()
    do local lost = ml.ones(7 << 20, cuda) end
    print(ml.grad((x * x):sum(), x):sum():item())
  ]])
  expect.equal(text, "8388608.0\n8388608.0\n")
end)

harness.run()
