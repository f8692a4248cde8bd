-- scripts/gpu_check/streams.lua: work in two streams that an event orders, and a captured graph.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path
local ml = require "moonlet"
local common = require "common"

-- What this build has of ml.cuda; an unknown name is an error there.
local function part(name)
  local found, value = pcall(function() return ml.cuda[name] end)
  return found and value or nil
end

local Stream, Event = part "Stream", part "Event"
if not Stream then common.skip "this build has no streams" end
local n = common.emulated and 1000 or 1 << 24
local side, x = Stream(), ml.ones(n, { device = "cuda" })
local total
local done = Event()
for _ = 1, 20 do
  side:wait_stream(ml.cuda.current_stream())
  ml.cuda.stream(side, function()
    total = (x * 2 + 1):sum()
    done:record()
  end)
  ml.cuda.current_stream():wait_event(done)
  common.check(total:item() == 3 * n, "two streams: %s", total:item())
end
common.result("streams", "ordered")
common.result("graphs", part "CUDAGraph" and "there" or "not in this build")
