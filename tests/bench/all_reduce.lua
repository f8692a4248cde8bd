-- tests/bench/all_reduce.lua: times of all_reduce between the ranks that it is launched as, to be
-- read beside those of tests/bench/all_reduce.py:
--
--     moonlet launch -n 2 tests/bench/all_reduce.lua

local ml = require "moonlet"
local clock = require("moonlet.system").clock
local dist = ml.distributed

dist.init_process_group { timeout = 120 }
for _, bytes in ipairs { 1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 28 } do
  local x = ml.ones(bytes // 4)
  local runs = bytes <= 1 << 16 and 400 or bytes <= 1 << 20 and 100 or bytes <= 1 << 24 and 20 or 4
  local least = math.huge
  for _ = 1, runs do
    local start = clock()
    dist.all_reduce(x, "max")
    least = math.min(least, clock() - start)
  end
  if dist.get_rank() == 0 then
    print(("%9d KiB %12.1f us"):format(bytes >> 10, least * 1e6))
  end
end
dist.destroy_process_group()
