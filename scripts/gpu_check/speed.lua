-- scripts/gpu_check/speed.lua: the speed of kernels as a share of that of a copy, of products, of
-- small ops from Lua, and of a step of training. speed_torch.py measures the same with PyTorch.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path
local ml = require "moonlet"
local common = require "common"
local nn = ml.nn
local seconds, result = common.seconds, common.result

collectgarbage "stop"
local GiB = common.emulated and 1 << 16 or 1 << 30
local free = ml.cuda.mem_get_info()
while 4 * GiB > free do GiB = GiB // 2 end

-- The rate of a copy, read and written, is 100 %.
local from = ml.ones(GiB, { dtype = "uint8", device = "cuda" })
local to = ml.empty_like(from)
local copy = 2 * GiB / seconds(function() to:copy_(from) end)
result("copy", copy / 1e9, "GB/s")
from:free()
to:free()

local function share(name, moved, f)
  result(name, 100 * moved / seconds(f) / copy, "% of the copy")
end

for _, dtype in ipairs { "float32", "bfloat16" } do
  local size = dtype == "float32" and 4 or 2
  local n = GiB // size // 1024 * 1024
  local x = ml.ones(n, { dtype = dtype, device = "cuda" })
  local y, out = ml.ones_like(x), ml.empty_like(x)
  local bytes = n * size
  share(dtype .. " add", 3 * bytes, function() ml.add(x, y, { out = out }) end)
  share(dtype .. " exp", 2 * bytes, function() ml.exp(x, { out = out }) end)
  share(dtype .. " mul by a number", 2 * bytes, function() x:mul_(1) end)
  share(dtype .. " sum", bytes, function() x:sum():free() end)
  local rows = x:view(-1, 1024)
  share(dtype .. " sum of columns", bytes, function() rows:sum(1):free() end)
  share(dtype .. " sum of rows", bytes, function() rows:sum(2):free() end)
  share(dtype .. " softmax", 2 * bytes, function() rows:softmax(2):free() end)
  share(dtype .. " layer norm", 2 * bytes, function() ml.layer_norm(rows, { 1024 }):free() end)
  share(dtype .. " transposed copy", 2 * bytes, function() rows:t():contiguous():free() end)
  x:free()
  y:free()
  out:free()
end

local side = common.emulated and 64 or 8192
for _, dtype in ipairs { "float32", "float64", "float16", "bfloat16" } do
  local a = ml.ones(side, side, { dtype = dtype, device = "cuda" })
  local rate = 2 * side ^ 3 / seconds(function() a:mm(a):free() end)
  result(("product of %d^2, %s"):format(side, dtype), rate / 1e12, "TFLOP/s")
  a:free()
end

local images, channels, width = 32, 64, 56
local heads, positions = 16, 1024
if common.emulated then images, channels, width, heads, positions = 1, 4, 8, 1, 16 end
for _, dtype in ipairs { "float32", "bfloat16" } do
  local x = ml.ones(images, channels, width, width, { dtype = dtype, device = "cuda" })
  local w = ml.ones(channels, channels, 3, 3, { dtype = dtype, device = "cuda" })
  local work = 2 * 9 * images * channels ^ 2 * width ^ 2
  local rate = work / seconds(function() ml.conv2d(x, w, nil, 1, 1):free() end)
  result("convolution, " .. dtype, rate / 1e12, "TFLOP/s")
  local q = ml.ones(8, heads, positions, 64, { dtype = dtype, device = "cuda" })
  work = 4 * 8 * heads * positions ^ 2 * 64
  rate = work / seconds(function() ml.scaled_dot_product_attention(q, q, q):free() end)
  result("attention, " .. dtype, rate / 1e12, "TFLOP/s")
end

local small = ml.ones(10, { device = "cuda" })
result("add of 10 elements from Lua", 1e6 * seconds(function() small:add_(1) end, 1000), "us")

local function training_step(net, x, y)
  local step = ml.optim.Adam(net:parameters())
  return function()
    step:zero_grad()
    local loss = nn.functional.cross_entropy(net(x), y)
    loss:backward()
    step:step()
    loss:free()
    collectgarbage "step"
  end
end
collectgarbage "restart"
local batch, size = common.emulated and 4 or 256, common.emulated and 16 or 1024
local net = nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, size), nn.ReLU(),
  nn.Linear(size, 10)):to "cuda"
local x = ml.randn(batch, size, { device = "cuda" })
local y = ml.randint(1, 10, { batch }):to "cuda"
result("training step of three linear layers", 1e6 * seconds(training_step(net, x, y), 20), "us")
