-- tests/lua/cuda/cuda_packs_test.lua: kernels of recurrent layers, pooling, images, losses and
-- embedding on CUDA, which are compiled for each dtype and take packs of 16 bytes where they can, on
-- the dtypes, sizes, starts and layouts that choose among them, compared with the CPU. Skips without
-- a device.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local checks = require "device_checks"
local harness = require "harness"
local expect = harness.expect
local F = ml.nn.functional

local FLOATS = { "float16", "bfloat16", "float32", "float64" }
local INTEGERS = { "uint8", "int8", "int16", "int32", "int64" }
local TOLERANCE = { float16 = 4e-3, bfloat16 = 3e-2, float32 = 2e-5, float64 = 1e-11 }

local on_device = checks.on_device

local function same(what, got, want, tolerance)
  checks.same(what, got, want, tolerance or TOLERANCE[tostring(want.dtype)])
end

-- x on a device, in memory that begins one element behind a multiple of 16 bytes.
local function shifted(x, device)
  local whole = ml.zeros(x:numel() + 1):to(x.dtype):to(device)
  local y = whole[{ { 2, x:numel() + 1 } }]:view(x.shape)
  y:copy_(x:to(device))
  return y
end
local function moved(x, device) return x:to(device):clone() end

-- Compares the results of f(tensors) and the gradients of those that are floats; f gives one tensor or
-- several, of which the first `differentiable` ones have gradients.
local function agree(what, f, tensors, options)
  options = options or {}
  local found = {}
  for _, device in ipairs { "cpu", "cuda" } do
    local given, floats = {}, {}
    for i, x in ipairs(tensors) do
      local t = (options.lay or moved)(x, device):detach()
      if options.format and t:dim() == 4 then t = t:contiguous { memory_format = options.format } end
      if t:is_floating_point() and not options.no_gradient then
        t = t:requires_grad_()
        floats[#floats + 1] = t
      end
      given[i] = t
    end
    local results = { f(table.unpack(given)) }
    if #floats > 0 then
      local loss = 0
      for i = 1, options.differentiable or #results do
        local y = results[i]
        local g = (ml.arange(y:numel()) * 0.37):sin():to(y.dtype):view(y.shape):to(device)
        if options.format then g = g:contiguous { memory_format = options.format } end
        loss = loss + (y * g):sum()
      end
      loss:backward()
    end
    local out = {}
    for _, y in ipairs(results) do out[#out + 1] = y:detach() end
    for _, t in ipairs(floats) do out[#out + 1] = t.grad or ml.zeros_like(t) end
    found[device] = out
  end
  expect.equal(#found.cuda, #found.cpu)
  for i, want in ipairs(found.cpu) do
    local got = found.cuda[i]
    same(("%s, result %d"):format(what, i), got, want, options.tolerance)
    if options.format then
      expect.equal(got:is_contiguous { memory_format = options.format },
        want:is_contiguous { memory_format = options.format })
    end
  end
  return found.cuda
end

on_device("steps of LSTM and GRU, of packs, odd widths and odd starts", function()
  for _, dtype in ipairs(FLOATS) do
    for _, size in ipairs { { 3, 16 }, { 5, 8 }, { 2, 11 }, { 7, 1 }, { 1, 264 }, { 0, 8 }, { 4, 20 } } do
      local n, width = size[1], size[2]
      for name, lay in pairs { packs = moved, shifted = shifted } do
        local what = ("%s, %d by %d, %s"):format(dtype, n, width, name)
        local function random(parts) return ml.randn(n, parts * width):to(dtype) end
        agree("lstm of " .. what, ml._internal.lstm_step, { random(4), random(1) }, { lay = lay })
        agree("gru of " .. what, ml._internal.gru_step, { random(3), random(3), random(1) },
          { lay = lay })
      end
    end
  end
  local gates = ml.randn(16, 6):t()
  agree("gates that lie in columns", ml._internal.lstm_step, { gates, ml.randn(6, 4) },
    { lay = function(x, device) return x:to(device) end })
end)

local POOLS = {
  { "max 2", function(t) return F.max_pool2d(t, 2) end },
  { "max 3 by 2", function(t) return F.max_pool2d(t, 3, 2, 1) end },
  { "max overlapping", function(t) return F.max_pool2d(t, 3, 1, 1) end },
  { "max dilated", function(t) return F.max_pool2d(t, { 2, 3 }, { 1, 2 }, { 1, 1 }, { 2, 1 }) end },
  { "max ceil", function(t) return F.max_pool2d(t, 3, 3, 1, 1, true) end },
  { "adaptive max", function(t) return F.adaptive_max_pool2d(t, { 3, 2 }) end },
  { "mean 2", function(t) return F.avg_pool2d(t, 2) end },
  { "mean padded", function(t) return F.avg_pool2d(t, 3, 2, 1) end },
  { "mean of inside", function(t) return F.avg_pool2d(t, { 3, 2 }, { 2, 1 }, 1, true, false) end },
  { "mean by 5", function(t) return F.avg_pool2d(t, 3, 1, 0, false, true, 5) end },
  { "adaptive mean", function(t) return F.adaptive_avg_pool2d(t, { 3, 2 }) end },
  { "halves", function(t) return F.adaptive_avg_pool2d(t, { 4, 3 }) end },
}

on_device("pooling of planes and of channels side by side keeps the layout", function()
  for _, dtype in ipairs(FLOATS) do
    for _, shape in ipairs { { 2, 3, 8, 6 }, { 2, 16, 7, 9 }, { 1, 24, 5, 4 }, { 3, 5, 6 } } do
      local x = ml.randn(shape):to(dtype)
      for _, pool in ipairs(POOLS) do
        local what = ("%s of %s %s"):format(pool[1], dtype, x.shape)
        agree(what, pool[2], { x })
        agree(what .. ", shifted", pool[2], { x }, { lay = shifted })
        if #shape == 4 then agree(what .. ", last", pool[2], { x }, { format = "channels_last" }) end
      end
    end
  end
end)

on_device("pooling of channels that begin oddly, of integers and of no number", function()
  local plain = ml.randn(2, 16, 6, 6):half()
  local function last(x, device)
    return shifted(x:permute(1, 3, 4, 2):contiguous(), device):permute(1, 4, 2, 3)
  end
  for _, pool in ipairs(POOLS) do agree(pool[1], pool[2], { plain }, { lay = last }) end
  for _, dtype in ipairs(INTEGERS) do
    local x = ml.randint(0, 100, { 2, 4, 7, 8 }):to(dtype)
    for i = 1, 6 do
      for _, format in ipairs { "contiguous_format", "channels_last" } do
        agree(POOLS[i][1] .. dtype, POOLS[i][2], { x }, { format = format })
      end
    end
    agree("means of " .. dtype, POOLS[7][2], { x })
  end
  local holes = ml.randn(2, 8, 6, 6)
  holes[{ 1, 2, 3, 3 }], holes[{ 2, {}, 1, 1 }], holes[{ {}, 5 }] = 0 / 0, 0 / 0, -math.huge
  for _, format in ipairs { "contiguous_format", "channels_last" } do
    for i = 1, 5 do
      agree(POOLS[i][1] .. " of holes", POOLS[i][2], { holes }, { format = format, no_gradient = true })
    end
  end
end)

-- Sums of whole numbers are the same in any order: what differs is wrong.
on_device("the gradient of max pooling of many planes", function()
  for _, dtype in ipairs(FLOATS) do
    for _, case in ipairs { { { 2, 150, 6, 7 } }, { { 2, 2049, 4, 5 }, "channels_last" },
      { { 2, 40, 9, 5 }, "channels_last" }, { { 260, 1, 12, 12 } } } do
      local shape, format = case[1], case[2] or "contiguous_format"
      local x = ml.randint(0, 5, shape):to(dtype)
      local wanted
      for _, device in ipairs { "cpu", "cuda" } do
        local t = x:to(device):contiguous { memory_format = format }:detach():requires_grad_()
        local y = F.max_pool2d(t, 3, 1, 1)
        local g = (ml.arange(y:numel()) % 4):to(dtype):view(y.shape):to(device)
        y:backward(g:contiguous { memory_format = format })
        wanted = wanted or t.grad
        same(("%s of %s"):format(dtype, x.shape), t.grad, wanted, 0)
        expect.truthy(t.grad:is_contiguous { memory_format = format })
      end
    end
  end
  -- Positions that come more often than windows could give them.
  local grad, at = ml.randint(0, 9, { 300, 1, 70 }):float(), ml.randint(1, 4, { 300, 1, 70 })
  same("few positions", ml._internal.max_pool2d_grad_x(grad:cuda(), at:cuda(), { 300, 3, 5 }),
    ml._internal.max_pool2d_grad_x(grad, at, { 300, 3, 5 }), 0)
end)

on_device("resizing in every mode, of packs and odd widths", function()
  local modes = { { mode = "bilinear" }, { mode = "bilinear", align_corners = true }, { mode = "bicubic" },
    { mode = "bilinear", antialias = true }, { mode = "bicubic", antialias = true } }
  for _, dtype in ipairs(FLOATS) do
    for _, shape in ipairs { { 2, 3, 9, 16 }, { 1, 2, 7, 5 }, { 2, 8, 1, 8 } } do
      local x = ml.randn(shape):to(dtype)
      for _, size in ipairs { { 5, 8 }, { 13, 24 }, { 1, 3 } } do
        for _, mode in ipairs(modes) do
          local what = ("%s of %s to %d, %d"):format(mode.mode, dtype, size[1], size[2])
          local function resize(t)
            return F.interpolate(t, { size = size, mode = mode.mode, align_corners = mode.align_corners,
              antialias = mode.antialias })
          end
          agree(what, resize, { x })
          agree(what .. ", shifted", resize, { x }, { lay = shifted })
        end
      end
    end
  end
  -- What no tap reaches has no part in a result.
  local edge = ml.ones(1, 1, 4, 16)
  edge[{ 1, 1, 4 }] = math.huge
  local y = F.interpolate(edge:cuda(), { size = { 2, 16 }, mode = "bilinear", antialias = true })
  local want = F.interpolate(edge, { size = { 2, 16 }, mode = "bilinear", antialias = true })
  same("beside infinity", y, want)
  expect.equal(y[{ 1, 1, 1 }]:isnan():any():item(), false)
end)

on_device("unfold and fold, of packs of windows and odd numbers of them", function()
  for _, dtype in ipairs { "float16", "bfloat16", "float32", "float64", "complex64", "complex128" } do
    for _, case in ipairs { { { 2, 3, 8, 10 }, { 3, 3 } }, { { 1, 2, 9, 9 }, { 2, 3 }, { 2, 1 }, { 1, 1 } },
      { { 2, 1, 7, 12 }, { 3, 2 }, { 1, 2 }, { 2, 0 }, { 2, 3 } } } do
      local shape, kernel, dilation, padding, stride = table.unpack(case)
      local x = ml.randn(shape):to(dtype)
      local columns
      for _, device in ipairs { "cpu", "cuda" } do
        local t = shifted(x, device):requires_grad_()
        local y = F.unfold(t, kernel, dilation, padding, stride)
        local back = F.fold(y, { shape[3], shape[4] }, kernel, dilation, padding, stride)
        columns = columns or { y:detach(), back:detach() }
        for i, got in ipairs { y, back } do
          local what = ("%s of %s, %d"):format(dtype, x.shape, i)
          local plain = got:is_complex() and ml.view_as_real(got:detach()) or got:detach()
          local want = got:is_complex() and ml.view_as_real(columns[i]) or columns[i]
          same(what, plain, want)
        end
      end
      if x:is_floating_point() then
        agree("gradient of unfold of " .. dtype, function(t)
          return F.unfold(t, kernel, dilation, padding, stride)
        end, { x })
      end
    end
  end
end)

on_device("nll_loss of rows and of images", function()
  for _, dtype in ipairs(FLOATS) do
    for _, shape in ipairs { { 7, 5 }, { 300, 10 }, { 2, 6, 5, 7 }, { 40, 3, 33 } } do
      local x = ml.randn(shape):log_softmax(2):to(dtype)
      local sizes = { shape[1], table.unpack(shape, 3) }
      local target = ml.randint(1, shape[2], sizes)
      local weight = (ml.rand(shape[2]) + 0.5):to(dtype)
      for _, reduction in ipairs { "none", "sum", "mean" } do
        for _, weighted in ipairs { false, true } do
          local function loss(t, w)
            return F.nll_loss(t, target:to(t.device), { weight = weighted and w:detach() or nil,
              ignore_index = 2, reduction = reduction })
          end
          local what = ("%s of %s %s, %s"):format(reduction, dtype, x.shape, weighted)
          local tolerance = ({ float16 = 2e-2, bfloat16 = 8e-2 })[dtype]
          agree(what, loss, { x, weight }, { tolerance = tolerance })
          agree(what .. ", shifted", loss, { x, weight }, { tolerance = tolerance, lay = shifted })
        end
      end
    end
  end
  local x = ml.randn(4, 3):log_softmax(2):cuda()
  expect.error(function() F.nll_loss(x, ml.tensor({ 1, 2, 4, 3 }):cuda()):item() end, "nll_loss: .*4")
end)

on_device("ctc_loss of classes that come again, of the blank, and of many", function()
  for _, dtype in ipairs(FLOATS) do
    for _, case in ipairs { { 12, 3, 5, 4 }, { 400, 2, 3, 150 }, { 9, 2, 40, 0 }, { 3, 2, 4, 5 } } do
      local steps, entries, classes, longest = table.unpack(case)
      local x = ml.randn(steps, entries, classes):to(dtype)
      local targets = ml.randint(1, classes, { entries, math.max(longest, 1) })
      local inputs, lengths = {}, {}
      for i = 1, entries do inputs[i], lengths[i] = steps - i % 2, math.max(longest - i % 3, 0) end
      for _, blank in ipairs { 1, classes } do
        for _, reduction in ipairs { "none", "mean" } do
          agree(("ctc_loss of %s, %d by %d, blank %d"):format(dtype, steps, longest, blank), function(t)
            return F.ctc_loss(t:log_softmax(3), targets:to(t.device), inputs, lengths, { blank = blank,
              reduction = reduction, zero_infinity = true })
          end, { x }, { tolerance = ({ float16 = 2e-2, bfloat16 = 1e-1, float32 = 2e-4 })[dtype] })
        end
      end
    end
  end
end)

-- The sizes of logits: one vector, rows that a lane, a warp and a block hold, longer ones, and classes
-- across memory, in whole packs or not.
local LOGITS = { { 9 }, { 7, 5 }, { 300, 16 }, { 4, 1000 }, { 3, 9001 }, { 2, 6, 5, 7 }, { 40, 3, 33 }, { 2, 21, 64 } }

on_device("cross_entropy of rows and of images", function()
  local tolerances = { float16 = 2e-2, bfloat16 = 8e-2, float32 = 1e-4 }
  for _, dtype in ipairs(FLOATS) do
    for _, shape in ipairs(LOGITS) do
      local classes = shape[2] or shape[1]
      local x = (ml.randn(shape) * 2 + 3):to(dtype)
      local target = ml.randint(1, classes, #shape == 1 and {} or { shape[1], table.unpack(shape, 3) })
      local weight = (ml.rand(classes) + 0.5):to(dtype)
      for i, reduction in ipairs { "none", "sum", "mean" } do
        for _, smoothing in ipairs { 0, 0.2 } do
          local weighted = (i + #shape) % 2 == 0
          local function loss(t, w)
            return F.cross_entropy(t, target:to(t.device), { weight = weighted and w:detach() or nil,
              ignore_index = 2, reduction = reduction, label_smoothing = smoothing })
          end
          local what = ("%s of %s %s, %s, %g"):format(reduction, dtype, x.shape, weighted, smoothing)
          local options = { tolerance = tolerances[dtype], lay = smoothing > 0 and shifted or nil }
          agree(what, loss, { x, weight }, options)
        end
      end
    end
  end
  local x = ml.randn(4, 3):cuda():requires_grad_()
  expect.error(function() F.cross_entropy(x, ml.tensor({ 1, 2, 4, 3 }):cuda()):item() end, "cross_entropy: .*4")
  for _, value in ipairs { -math.huge, math.huge } do
    local edge = ml.randn(3, 40)
    edge[{ 2, 7 }] = value
    agree("beside " .. value, function(t)
      return F.cross_entropy(t, ml.tensor({ 1, 2, 40 }):to(t.device), { reduction = "none" })
    end, { edge })
  end
  expect.equal(F.cross_entropy(ml.zeros(0, 3):cuda(), ml.zeros(0):long():cuda(), { reduction = "sum" }):item(), 0)
end)

on_device("second derivatives of cross_entropy", function()
  for _, shape in ipairs { { 5, 4 }, { 2, 3, 4 } } do
    local x = ml.randn(shape, { dtype = "float64" })
    local target = ml.randint(1, shape[2], { shape[1], table.unpack(shape, 3) })
    local weight = ml.rand(shape[2], { dtype = "float64" }) + 0.5
    for _, reduction in ipairs { "none", "sum", "mean" } do
      for _, w in ipairs { false, weight } do
        local function second(device)
          local t = x:to(device):requires_grad_()
          local y = F.cross_entropy(t, target:to(device), { weight = w and w:to(device) or nil, ignore_index = 1,
            label_smoothing = 0.1, reduction = reduction })
          local g = ml.grad(y:square():sum(), t, { create_graph = true })
          return ml.grad(g:pow(3):sum(), t)
        end
        same(("second derivative of %s, %s"):format(reduction, x.shape), second "cuda", second "cpu", 1e-9)
      end
    end
  end
end)

on_device("embedding and sums at positions that come often and seldom", function()
  for _, dtype in ipairs(FLOATS) do
    for _, case in ipairs { { 50, 64 }, { 9, 7 }, { 3, 8 }, { 400, 1 }, { 1, 20 } } do
      local rows, width = case[1], case[2]
      local weight = ml.randn(rows, width):to(dtype)
      for _, count in ipairs { 5, 33, 700 } do
        local index = ml.randint(1, rows, { count })
        local what = ("%s, %d of %d by %d"):format(dtype, count, rows, width)
        local tolerance = ({ float16 = 2e-2, bfloat16 = 1e-1, float32 = 1e-4 })[dtype]
        local function embed(w) return F.embedding(index:to(w.device), w, { padding_idx = 1 }) end
        agree(what, embed, { weight }, { tolerance = tolerance })
        agree(what .. ", shifted", embed, { weight }, { tolerance = tolerance, lay = shifted })
      end
    end
  end
  expect.equal(F.embedding(ml.zeros(0):long():cuda(), ml.ones(3, 8):cuda()).shape[1], 0)
end)

on_device("sums, products and extremes of slices in every dtype", function()
  local index = (ml.arange(90) * 7 % 5 + 1):long()
  local dtypes = { table.unpack(FLOATS) }
  table.move(INTEGERS, 1, #INTEGERS, #dtypes + 1, dtypes)
  for _, dtype in ipairs(dtypes) do
    for _, shape in ipairs { { 5 }, { 5, 16 }, { 5, 3 } } do
      local x = ml.randint(0, 3, shape):to(dtype)
      local source = ml.randint(0, 2, { 90, table.unpack(shape, 2) }):to(dtype)
      for _, lay in ipairs { moved, shifted } do
        local what = ("%s %s"):format(dtype, x.shape)
        agree("index_add of " .. what, function(t, s)
          return t:index_add(1, index:to(t.device), s, { alpha = 2 })
        end, { x, source }, { lay = lay, no_gradient = true, tolerance = 0 })
        for _, fold in ipairs { "prod", "mean", "amax", "amin" } do
          agree(fold .. " of " .. what, function(t, s)
            return t:index_reduce(1, index:to(t.device), s, fold)
          end, { x, source }, { lay = lay, no_gradient = true })
        end
      end
    end
  end
  agree("slices of an inner dimension", function(t)
    return t:index_select(2, ml.tensor({ 3, 1, 3 }):to(t.device))
  end, { ml.randn(4, 3, 24):half() })
end)

-- GiB of memory that the host has free: an emulated device takes its own there.
local function free_gib()
  local file = io.open "/proc/meminfo"
  local text = file and file:read "a" or ""
  if file then file:close() end
  return (tonumber(text:match "MemAvailable:%s*(%d+)") or 0) / (1 << 20)
end

-- What it makes is garbage when it returns.
local function pool_huge_plane()
  local x = ml.zeros({ 1, 1, 32772, 65536 }, { dtype = ml.int8, device = "cuda" })
  x[{ 1, 1, 4, 4 }], x[{ 1, 1, 32770, 65533 }], x[{ 1, 1, 32772, 65536 }] = 48, 64, 96
  local stride = { 32768, 65532 }
  local values, positions = F.max_pool2d(x, 4, stride, 0, 1, false, true)
  expect.equal(values:flatten():totable(), { 48, 0, 0, 96 })
  local width = 65536
  expect.equal(positions:flatten():totable(), { 3 * width + 4, 65533, 32768 * width + 1, 32772 * width })
  expect.equal(F.avg_pool2d(x, 4, stride):flatten():totable(), { 3, 0, 0, 10 })
end

on_device("planes of more elements than 32 bits count", function()
  if (os.getenv "MOONLET_SANITIZE" or "none") ~= "none" then harness.skip "sanitizers take too long" end
  if free_gib() < 8 then harness.skip "less than 8 GiB of memory" end
  pool_huge_plane()
  collectgarbage()
  ml.cuda.empty_cache()
end)

harness.run()
