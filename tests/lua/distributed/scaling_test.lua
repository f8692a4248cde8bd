-- tests/lua/distributed/scaling_test.lua: the model of docs/scaling.md beside times that were computed by
-- hand, and scripts/scaling/ from a measurement to its table.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ranks = require "distributed_ranks"
local test, expect = harness.test, harness.expect

local SCRIPTS = (os.getenv "MOONLET_SOURCE" or ".") .. "/scripts/scaling"
local model = dofile(SCRIPTS .. "/model.lua")

test("times of rings, and the link that is fitted to them", function()
  local link = { alpha = 1e-4, beta = 1e-9 }
  expect.near(model.ring(link, 4, 4e6, 2), 6 * (1e-4 + 1e-3), 1e-12)
  expect.near(model.ring(link, 4, 4e6, 1), 3 * (1e-4 + 1e-3), 1e-12)
  local times = {}
  for i, bytes in ipairs { 1000, 1e5, 1e7 } do
    times[i] = { bytes = bytes, seconds = model.ring(link, 3, bytes, 2) }
  end
  local fitted = model.fit(times, 3)
  expect.near(fitted.alpha * 1e4, 1, 1e-6)
  expect.near(fitted.beta * 1e9, 1, 1e-6)
end)

local MEASURED = { forward = 0.1, optimizer = 0.02,
  buckets = { { bytes = 1e6, seconds = 0.05 }, { bytes = 1e7, seconds = 0.05 } } }
local function options(changes)
  local out = { link = { alpha = 1e-3, beta = 1e-8 }, share = 0, processors = 4, ranks_per_machine = 4 }
  for name, value in pairs(changes or {}) do out[name] = value end
  return out
end

test("steps whose transfers hide, show, and take processors", function()
  expect.near(model.data_parallel(MEASURED, 1, options()), 0.22, 1e-12)
  -- Two ranks: 2 (1 ms + 5 ms) hide behind the second bucket, whose own 2 (1 ms + 50 ms) show.
  local seconds, exposed = model.data_parallel(MEASURED, 2, options())
  expect.near(seconds, 0.22 + 0.102, 1e-12)
  expect.near(exposed, 0.102, 1e-12)
  -- A transfer that takes a whole processor hides nothing: its 12 ms show, too.
  expect.near(model.data_parallel(MEASURED, 2, options { share = 1 }), 0.22 + 0.012 + 0.102, 1e-12)
  -- On one processor two ranks take twice as long, and their link as well.
  expect.near(model.data_parallel(MEASURED, 2, options { processors = 1 }), 0.44 + 0.204, 1e-12)
  local slow = setmetatable({ spread = 0.1 }, { __index = MEASURED })
  local factor = 1 + 0.1 * math.sqrt(2 * math.log(2))
  expect.near(model.data_parallel(slow, 2, options()), 0.22 * factor + 0.102, 1e-12)
end)

test("steps of sharded parameters", function()
  expect.near(model.sharded(MEASURED, 1, options()), 0.22, 1e-12)
  -- Two ranks: the gather of the unit in front shows (51 ms); that of the other (6 ms) hides. Backward
  -- begins with the gather of the small one, then scatters 6 and gathers 51 ms of the big one, which
  -- begins with the small one's 50 ms, and last 51 ms are scattered.
  local seconds = model.sharded(MEASURED, 2, options())
  expect.near(seconds, 0.051 + 0.1 + 0.006 + 0.051 + 0.05 + 0.051 + 0.01, 1e-9)
end)

test("the scripts, from a measurement to a table", function()
  ranks.need_engine()
  harness.with_temp_file(function(path)
    local function run(command)
      local pipe <close> = assert(io.popen(("OMP_NUM_THREADS=1 timeout 100 '%s' %s 2>&1"):format(arg[-1],
        command)))
      return pipe:read "a"
    end
    local text = run(("launch -n 2 '%s/measure.lua' --batch-size 1 --rounds 1 --steps 1 --out '%s'")
      :format(SCRIPTS, path))
    expect.truthy(text:find "2 ranks, step [%d.]+ ms", text)
    text = run(("'%s/predict.lua' '%s' --most 16"):format(SCRIPTS, path))
    expect.truthy(text:find "\n    2 ranks +[%d.]+ ms +[%d.]+ ms +[%d.]+\n", text)
    expect.truthy(text:find "\n    16 +[%d.]+", text)
    expect.falsy(text:find "\n    32 ", text)
  end)
end)

harness.run()
