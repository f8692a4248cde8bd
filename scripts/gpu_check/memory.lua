-- scripts/gpu_check/memory.lua: the allocator under random sizes, and that a device goes on after
-- it had no memory left.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path
local ml = require "moonlet"
local common = require "common"
local check = common.check

local function bytes(count) return ml.empty(count, { dtype = "uint8", device = "cuda" }) end

-- Each tensor keeps its own value while others come and go.
math.randomseed(1)
local held, rounds = {}, common.emulated and 300 or 20000
for round = 1, rounds do
  local slot = math.random(64)
  if held[slot] then
    local x, value = held[slot][1], held[slot][2]
    check(x[1]:item() == value and x[x:numel()]:item() == value, "round %d: overwritten", round)
    x:free()
    held[slot] = nil
  else
    local size = math.floor(2 ^ (math.random() * (common.emulated and 20 or 26))) + 1
    local x = bytes(size):fill_(round % 251)
    held[slot] = { x, round % 251 }
  end
end
for _, entry in pairs(held) do entry[1]:free() end
check(ml.cuda.memory_allocated() == 0, "%d bytes left", ml.cuda.memory_allocated())
common.result("segments at the peak", ml.cuda.memory_stats()["segment.all.peak"])

ml.cuda.empty_cache()
local free = ml.cuda.mem_get_info()
local most = bytes(free // 2)
local ok, why = pcall(bytes, free)
check(not ok and tostring(why):find "out of memory", "no error for want of memory: %s", why)
most:free()
check(ml.ones(1000, { device = "cuda" }):sum():item() == 1000, "no work after the error")
for _ = 1, 20 do bytes(free // 3) end  -- Lua's garbage is found
common.result("requests refused", ml.cuda.memory_stats().num_alloc_retries)
