-- tests/bench/memory.lua: peak bytes of one training step, counted where storages are made and
-- ended: the lines `name value unit` of `peer_torch.py THREADS --memory`, for the same models.
-- usage: moonlet memory.lua [THREADS [FILTER]]
-- before_bytes is what lives before the step, its gradients dropped: parameters, the optimiser's
-- state, the batch. The others count from there. peak_bytes: the most that lives at once, garbage
-- that the collector has not found yet included. referenced_bytes: the same with all garbage
-- collected at once, so that only what something refers to counts. held_bytes: the most that the
-- allocator holds, with the blocks it keeps for reuse.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path
local ml = require "moonlet"
local models = require "models"

local threads = math.tointeger(tonumber(arg[1] or "1")) or error "THREADS must be an integer"
local filter = arg[2] or ""
ml.set_num_threads(threads)
ml.manual_seed(0)

local memory = ml.memory
local WARM, STEPS = 5, 20

local function show(name, what, bytes) print(("mem.%s.%s_bytes %d bytes"):format(name, what, bytes)) end

-- Runs f with a full collection before each instruction of Lua.
local function collecting(f)
  debug.sethook(function() collectgarbage() end, "", 1)
  f()
  debug.sethook()
end

-- The highest of several steps: they and the collector's cycles do not keep time.
local function highest(f)
  local most = 0
  for _ = 1, STEPS do most = math.max(most, f()) end
  return most
end

local function measure(name)
  local model = models[name]()
  for _ = 1, WARM do model.step() end
  model.optimizer:zero_grad()
  memory.collect()
  memory.empty_cache()
  local before = memory.live_bytes()
  show(name, "before", before)
  show(name, "referenced", memory.peak_live_bytes(collecting, model.step) - before)
  show(name, "peak", highest(function()
    local peak = memory.peak_live_bytes(model.step)
    return peak
  end) - before)
  show(name, "held", highest(function()
    memory.reset_peak()
    model.step()
    return memory.peak_bytes()
  end) - before)
end

for _, name in ipairs { "mlp", "lenet", "gpt", "gpt24", "gpt24_checkpoint" } do
  if name:find(filter, 1, true) then measure(name) end
end
