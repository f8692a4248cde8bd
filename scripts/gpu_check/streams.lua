-- scripts/gpu_check/streams.lua: work in two streams that events order, and a training step as a
-- captured graph, beside the same steps one by one.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path
local ml = require "moonlet"
local common = require "common"
local nn, cuda = ml.nn, ml.cuda

local n = common.emulated and 1000 or 1 << 24
local side, x, done = cuda.Stream(), ml.ones(n, { device = "cuda" }), cuda.Event()
for _ = 1, 20 do
  side:wait_stream(cuda.current_stream())
  local total
  cuda.stream(side, function()
    total = (x * 2 + 1):sum()
    done:record()
  end)
  total:record_stream(cuda.current_stream())
  cuda.current_stream():wait_event(done)
  common.check(total:item() == 3 * n, "two streams: %s", total:item())
end
common.result("streams", "ordered")

-- A network's training step, its weights and the loss it leaves.
local function training()
  ml.manual_seed(3)
  local net = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Dropout(0.1), nn.Linear(128, 10))
  net:to "cuda"
  local images = ml.randn(256, 64, { device = "cuda" })
  local classes = ml.randint(10, { 256 }):to "cuda"
  local adam = ml.optim.Adam(net:parameters(), { lr = 1e-3, capturable = true })
  local function step()
    adam:zero_grad()
    local loss = nn.functional.cross_entropy(net(images), classes)
    loss:backward()
    adam:step()
    return loss
  end
  step()  -- makes what the optimiser keeps
  return step, net
end

local STEPS = 10
local eager, plain = training()
for _ = 1, STEPS do eager() end
local step, net = training()
local graph = cuda.graph(step)
for _ = 1, STEPS do graph:replay() end
for i, p in ipairs(net:parameters()) do
  local off = (p - plain:parameters()[i]):abs():max():item()
  common.check(off <= 1e-5, "weights %d of the graph differ by %g", i, off)
end
common.result("graphs", "as the steps")
local one_by_one, replayed = common.seconds(eager), common.seconds(function() graph:replay() end)
common.result("a small step, one by one", 1e6 * one_by_one, "us")
common.result("the same as a graph", 1e6 * replayed, "us")
