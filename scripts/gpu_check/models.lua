-- scripts/gpu_check/models.lua: steps of training of the benchmark's networks, which are those of
-- tests/bench/models.lua, op by op and as CUDA graphs. models_torch.py measures the same with
-- PyTorch.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path
local ml = require "moonlet"
local common = require "common"
ml.set_default_device "cuda"
local models = require "bench_models"

local names = { "mlp", "lenet", "resnet", "lstm", "gpt", "vit", "diffusion" }
if common.emulated then names = { "mlp", "tiny" } end
for _, name in ipairs(names) do
  ml.manual_seed(1)
  local model = models[name]()
  for _, group in ipairs(model.optimizer.param_groups) do
    if group.capturable ~= nil then group.capturable = true end
  end
  local count = common.emulated and 1 or 20
  common.result(model.name .. ", step", 1e6 * common.seconds(model.step, count), "us")
  local graph = ml.cuda.graph(model.step)
  local function replay() graph:replay() end
  common.result(model.name .. ", captured step", 1e6 * common.seconds(replay, count), "us")
  graph:reset()
  collectgarbage()
end
