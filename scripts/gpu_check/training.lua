-- scripts/gpu_check/training.lua: a small network trained on the device comes to the CPU's loss.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path
local ml = require "moonlet"
local common = require "common"
local nn = ml.nn

-- The CPU has no TF32 to compare with.
ml.backends.cudnn.allow_tf32 = false

local function train(device, steps)
  ml.manual_seed(7)
  local net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(8 * 7 * 7, 10))
  local images = ml.randn(64, 1, 16, 16)
  local classes = images:reshape(64, -1)[{ {}, { 1, 10 } }]:argmax(2)
  net, images, classes = net:to(device), images:to(device), classes:to(device)
  local step = ml.optim.Adam(net:parameters(), { lr = 0.003 })
  local loss
  for _ = 1, steps do
    step:zero_grad()
    loss = nn.functional.cross_entropy(net(images), classes)
    loss:backward()
    step:step()
  end
  return loss:item()
end

local steps = common.emulated and 3 or 100
local cpu, cuda = train("cpu", steps), train("cuda", steps)
common.result("loss on the CPU", cpu)
common.result("loss on the device", cuda)
local near = math.abs(cpu - cuda) <= 0.02 * math.max(0.05, cpu)
common.check(near, "losses differ: %g and %g", cpu, cuda)
