-- tests/bench/timing.lua: how long a call takes, for the benchmarks that stand beside PyTorch.

local clock = require("moonlet.system").clock

local MIN_SECONDS, ROUNDS, LONG_SECONDS = 0.005, 3, 0.1

local timing = { LONG_SECONDS = LONG_SECONDS }

--- Seconds per call of `f`: the median of some rounds, each long enough for the clock; one call where
--- that takes long.
function timing.seconds(f)
  f()
  local start = clock()
  f()
  local first = clock() - start
  if first > LONG_SECONDS then return first end
  local calls = math.max(1, math.floor(MIN_SECONDS / math.max(first, 1e-7)))
  local rounds = {}
  for i = 1, ROUNDS do
    start = clock()
    for _ = 1, calls do f() end
    rounds[i] = (clock() - start) / calls
  end
  table.sort(rounds)
  return rounds[(ROUNDS + 1) // 2]
end

return timing
