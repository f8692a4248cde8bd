-- scripts/gpu_check/speed.lua: the speed of kernels as a share of that of a copy, of products, of
-- convolution, attention, recurrent networks and small ops from Lua. speed_torch.py measures the
-- same with PyTorch, cublas.lua the products by cuBLAS itself.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path
local ml = require "moonlet"
local common = require "common"
local seconds, result = common.seconds, common.result

collectgarbage "stop"
local GiB = common.emulated and 1 << 16 or 1 << 30
local free = ml.cuda.mem_get_info()
while 10 * GiB > free do GiB = GiB // 2 end

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

-- What networks spend their time with, beside products; `g` is a gradient.
local CLASSES = common.emulated and 1000 or 50257
local function layers(dtype, x, g, bytes)
  share(dtype .. " gelu", 2 * bytes, function() ml.gelu(x):free() end)
  share(dtype .. " dropout", 2 * bytes + x:numel(), function() ml.dropout(x, 0.5, true):free() end)
  local tokens = x:numel() // CLASSES
  local scores = x:narrow(1, 1, tokens * CLASSES):view(tokens, CLASSES)
  local moved = bytes // x:numel() * scores:numel()
  share(dtype .. " softmax of 50257", 2 * moved, function() scores:softmax(2):free() end)
  local classes = ml.randint(1, CLASSES, { tokens }):to "cuda"
  share(dtype .. " cross entropy of 50257", moved, function()
    ml.cross_entropy(scores, classes):free()
  end)
  local inputs = { x:view(-1, 1024):detach(), x:new_ones(1024), x:new_zeros(1024) }
  for _, input in ipairs(inputs) do input:requires_grad_() end
  local out = ml.layer_norm(inputs[1], { 1024 }, inputs[2], inputs[3])
  local options = { grad_outputs = g:view(-1, 1024), retain_graph = true }
  share(dtype .. " layer norm, backward", 3 * bytes, function()
    for _, one in ipairs { ml.grad(out, inputs, options) } do one:free() end
  end)
  out:free()
  local p = ml.nn.Parameter(x:clone())
  p.grad = g
  local adam = ml.optim.Adam({ p }, { capturable = true })
  share(dtype .. " Adam", 7 * bytes, function() adam:step() end)
  collectgarbage()
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
  layers(dtype, x, y, bytes)
  x:free()
  y:free()
  out:free()
end

for _, p in ipairs(common.products()) do
  local a = ml.ones(p.m, p.k, { dtype = p.dtype, device = "cuda" })
  local b = ml.ones(p.k, p.n, { dtype = p.dtype, device = "cuda" })
  local rate = 2 * p.m * p.n * p.k / seconds(function() a:mm(b):free() end)
  result(("product %dx%dx%d, %s"):format(p.m, p.n, p.k, p.dtype), rate / 1e12, "TFLOP/s")
  a:free()
  b:free()
end

-- What makes one token after another: a layer's weight is read for a few rows.
local outs, ins = 14336, 4096
if common.emulated then outs, ins = 64, 128 end
for _, dtype in ipairs { "float32", "bfloat16", "float16" } do
  local w = ml.ones(outs, ins, { dtype = dtype, device = "cuda" })
  local bias = ml.ones(outs, { dtype = dtype, device = "cuda" })
  for _, rows in ipairs { 1, 4, 8 } do
    local x = ml.ones(rows, ins, { dtype = dtype, device = "cuda" })
    share(("%s linear of %d rows"):format(dtype, rows), w:numel() * w:element_size(),
      function() ml.nn.functional.linear(x, w, bias):free() end)
  end
  w:free()
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

-- Attention forward and backward by cuDNN beside our own kernels.
local sdp = ml.backends.cuda
for _, head in ipairs { 64, 128 } do
  local q = ml.ones(8, heads, positions, head, { dtype = "bfloat16", device = "cuda" })
  local leaf = q:detach():requires_grad_()
  local work = 4 * 8 * heads * positions ^ 2 * head
  for _, by_cudnn in ipairs(ml.backends.cudnn.is_available() and { true, false } or { false }) do
    sdp.enable_cudnn_sdp(by_cudnn)
    local by = by_cudnn and "cuDNN" or "own kernel"
    local name = ("attention, bfloat16, head %d, %s"):format(head, by)
    local forward = seconds(function() ml.scaled_dot_product_attention(q, q, q):free() end)
    result(name, work / forward / 1e12, "TFLOP/s")
    local function step()
      leaf.grad = nil
      ml.scaled_dot_product_attention(leaf, leaf, leaf):backward(q)
    end
    -- cuDNN's gradients are planned when a shape has come often.
    for _ = 1, 20 do step() end
    -- The way back has five products for the two of the way forward.
    local both = seconds(step)
    result(name .. ", with gradients", 3.5 * work / both / 1e12, "TFLOP/s")
  end
  sdp.enable_cudnn_sdp(true)
end

-- Recurrent networks by cuDNN beside our own steps, forward and with gradients.
local cudnn = ml.backends.cudnn
local steps, batch, size = 128, 64, 1024
if common.emulated then steps, batch, size = 8, 2, 8 end
for _, dtype in ipairs { "float32", "bfloat16" } do
  for _, kind in ipairs { "LSTM", "GRU" } do
    local net = ml.nn[kind](size, size, { device = "cuda", dtype = dtype })
    local x = ml.randn({ steps, batch, size }, { device = "cuda", dtype = dtype })
    local work = 4 * steps * batch * size * net.weight_hh_l0.shape[1]
    for _, by_cudnn in ipairs(cudnn.is_available() and { true, false } or { false }) do
      cudnn.enabled = by_cudnn
      local by = by_cudnn and "cuDNN" or "own kernel"
      local name = ("%s of %d steps, %s, %s"):format(kind, steps, dtype, by)
      local forward = seconds(function() ml.no_grad(function() net(x) end) end)
      result(name, work / forward / 1e12, "TFLOP/s")
      local both = seconds(function()
        net:zero_grad()
        local y = net(x)
        y:backward(x)
      end)
      result(name .. ", with gradients", 3 * work / both / 1e12, "TFLOP/s")
    end
    cudnn.enabled = true
  end
end

local small = ml.ones(10, { device = "cuda" })
result("add of 10 elements from Lua", 1e6 * seconds(function() small:add_(1) end, 1000), "us")
