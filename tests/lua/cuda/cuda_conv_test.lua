-- tests/lua/cuda/cuda_conv_test.lua: convolution on CUDA by tiles that are gathered: against the CPU at
-- the borders of tiles, in every dtype, with groups, strides, dilation, padding and gradients; its
-- memory; that results repeat. Skips without a device.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test = harness.test

local F = ml.nn.functional
local FLOATS = { "float16", "bfloat16", "float32", "float64" }
local TOLERANCE = { float16 = 2e-3, bfloat16 = 2e-2, float32 = 2e-5, float64 = 1e-11 }
-- With factors rounded to 10 bits.
local TF32 = 4e-3

-- Without cuDNN, which would take the convolutions.
local function on_device(name, body)
  test(name, function()
    if not ml.cuda.is_available() then harness.skip "no CUDA device" end
    ml.manual_seed(11)
    ml.backends.cudnn.flags({ enabled = false, allow_tf32 = false }, body)
  end)
end

-- As close as the tolerance times the largest element.
local function same(what, got, want, tolerance)
  if got.shape ~= want.shape or got.dtype ~= want.dtype then
    error(("%s: %s %s, want %s %s"):format(what, got.dtype, got.shape, want.dtype, want.shape), 0)
  end
  got, want = got:to "cpu":to "float64", want:to "float64"
  if want:numel() == 0 then return end
  local off = (got - want):abs():amax():item()
  local most = tolerance * math.max(1, want:abs():amax():item())
  if not (off <= most) then
    error(("%s: differs by %s, at most %s is expected"):format(what, off, most), 0)
  end
end

-- Values and gradients of f(x, weight, bias).
local function run(f, given, device)
  local leaves = {}
  for i, x in ipairs(given) do leaves[i] = x:to(device):detach():requires_grad_(true) end
  local y = f(table.unpack(leaves))
  local gradient = ml.linspace(-1, 1, y:numel(), { dtype = "float64" }):sin():reshape(y.shape)
  y:backward(gradient:to(y.dtype):to(device))
  local out = { y:detach() }
  for i, x in ipairs(leaves) do out[i + 1] = x.grad end
  return out
end

local function agree(what, f, given, tolerance)
  tolerance = tolerance or TOLERANCE[tostring(given[1].dtype)]
  local want, got = run(f, given, "cpu"), run(f, given, "cuda")
  local again = run(f, given, "cuda")
  for i = 1, #want do
    same(("%s, result %d"):format(what, i), got[i], want[i], tolerance)
    if not got[i]:equal(again[i]) then error(what .. ": does not repeat", 0) end
  end
end

local FORWARD = { F.conv1d, F.conv2d, F.conv3d }
local TRANSPOSED = { F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d }

-- Images (n, channels, sizes...), a weight for so many results, with options, both ways.
local function case(dtype, x, outs, kernel, options, tolerance)
  options = options or {}
  local groups, axes = options.groups or 1, #kernel
  local weight, turned = { outs, x[2] // groups }, { x[2], outs // groups }
  for d = 1, axes do weight[d + 2], turned[d + 2] = kernel[d], kernel[d] end
  local function draw(shape) return ml.randn(shape):to(dtype) end
  local what = ("%s (%s) to %d by (%s)"):format(dtype, table.concat(x, " "), outs,
    table.concat(kernel, " "))
  for name, value in pairs(options) do
    what = what .. " " .. name .. " " .. (type(value) == "table" and table.concat(value, " ")
      or value)
  end
  agree(what, function(i, w, b)
    local o = { bias = b }
    for k, v in pairs(options) do o[k] = v end
    return FORWARD[axes](i, w, o)
  end, { draw(x), draw(weight), draw { outs } }, tolerance)
  agree("transposed " .. what, function(i, w, b)
    local o = { bias = b }
    for k, v in pairs(options) do o[k] = v end
    return TRANSPOSED[axes](i, w, o)
  end, { draw(x), draw(turned), draw { outs } }, tolerance)
end

on_device("sizes around the borders of tiles, in every dtype", function()
  for _, dtype in ipairs(FLOATS) do
    for _, n in ipairs { 1, 15, 16, 17, 63, 64, 65, 129 } do
      case(dtype, { 1, 3, n }, 5, { 1 })
      case(dtype, { 2, n, 5 }, 7, { 2 })
      case(dtype, { 1, 2, 9 }, n, { 3 }, { padding = 1 })
    end
  end
end)

on_device("strides, padding, dilation in one to three dimensions", function()
  for _, dtype in ipairs(FLOATS) do
    case(dtype, { 2, 5, 20 }, 6, { 4 }, { stride = 3, padding = 2 })
    case(dtype, { 2, 5, 9, 11 }, 6, { 3, 2 }, { stride = { 2, 1 }, padding = { 1, 0 } })
    case(dtype, { 2, 3, 10, 12 }, 4, { 3, 3 }, { dilation = { 1, 3 }, padding = 2 })
    case(dtype, { 2, 3, 4, 5, 6 }, 4, { 2, 3, 2 }, { stride = { 1, 2, 2 }, padding = { 1, 1, 0 } })
    case(dtype, { 3, 4, 2, 2 }, 3, { 1, 1 }, { stride = 2 })
  end
end)

on_device("groups and depthwise", function()
  for _, dtype in ipairs(FLOATS) do
    case(dtype, { 2, 6, 8, 7 }, 6, { 3, 3 }, { groups = 6, padding = 1 })
    case(dtype, { 2, 6, 8, 7 }, 12, { 3, 3 }, { groups = 6, stride = 2 })
    case(dtype, { 2, 16, 8, 7 }, 20, { 3, 3 }, { groups = 2, padding = 1 })
    case(dtype, { 1, 140, 5 }, 280, { 3 }, { groups = 2 })
    case(dtype, { 1, 12, 40 }, 12, { 5 }, { groups = 4, dilation = 2 })
  end
end)

on_device("relu behind it, in one: the same bits as of two, with what is no number", function()
  local I = ml._internal
  for _, dtype in ipairs(FLOATS) do
    for _, last in ipairs { false, true } do
      for _, groups in ipairs { 1, 2, 8 } do
        local x, w = ml.randn(2, 8, 6, 7), ml.randn(16, 8 // groups, 3, 3)
        x[1][3][2][2], x[2][8][5][1], w[3][1][1][1] = 0 / 0, 1 / 0, -1 / 0
        if last then x = x:contiguous { memory_format = "channels_last" } end
        x, w = x:to(dtype):cuda(), w:to(dtype):cuda()
        for _, b in ipairs { ml.randn(16):to(dtype):cuda(), false } do
          local got = I.native_conv_relu(x, w, b or nil, { 2, 1 }, { 1, 0 }, { 1, 1 }, groups)
          local want = F.conv2d(x, w, { bias = b or nil, stride = { 2, 1 }, padding = { 1, 0 },
            groups = groups }):relu()
          local what = ("%s in %d groups%s"):format(dtype, groups, last and ", last" or "")
          if got:stride(2) ~= want:stride(2) or got:to_bytes() ~= want:to_bytes() then
            error(what .. ": differs", 0)
          end
          local known = want:eq(want):sum():item()
          if known == 0 or known == want:numel() then error(what .. ": shows nothing", 0) end
        end
      end
    end
  end
  local none = I.native_conv_relu(ml.zeros(1, 0, 4, { device = "cuda" }), ml.zeros(2, 0, 3, { device = "cuda" }),
    ml.tensor({ -1.0, 2 }):cuda(), { 1 }, { 0 }, { 1 }, 1)
  same("no channels", none, ml.tensor { { { 0.0, 0 }, { 2, 2 } } }, 0)
end)

on_device("sums over many images and positions", function()
  for _, dtype in ipairs(FLOATS) do
    case(dtype, { 9, 3, 17, 19 }, 4, { 3, 3 }, { padding = 1 })
  end
end)

on_device("without bias, views, other strides, nothing", function()
  local x, w = ml.randn(2, 9, 8, 5), ml.randn(4, 5, 3, 3)
  agree("channels last", function(i, k) return F.conv2d(i:permute(1, 4, 2, 3), k) end, { x, w })
  agree("a turned weight", function(i, k)
    return F.conv2d(i:permute(1, 4, 2, 3), k:transpose(3, 4))
  end, { x, w })
  agree("no images", function(i, k) return F.conv2d(i, k) end, { ml.randn(0, 5, 8, 8), w })
  local empty = F.conv2d(ml.zeros(2, 0, 4, 4, { device = "cuda" }),
    ml.zeros(3, 0, 2, 2, { device = "cuda" }), { bias = ml.ones(3, { device = "cuda" }) })
  harness.expect.equal(empty:sum():item(), 2 * 3 * 9)
end)

-- Equal strides on both devices, beside values; f of tensors that lie as the formats of `given` say.
local function agree_last(what, f, given, formats, gradient_format)
  local tolerance = TOLERANCE[tostring(given[1].dtype)]
  local results = {}
  for _, device in ipairs { "cpu", "cuda", "cuda" } do
    local leaves = {}
    for i, x in ipairs(given) do
      x = x:to(device)
      if formats[i] then x = x:contiguous { memory_format = formats[i] } end
      leaves[i] = x:detach():requires_grad_()
    end
    local y = f(table.unpack(leaves))
    local up = ml.linspace(-1, 1, y:numel(), { dtype = "float64" }):sin():view(y.shape):to(y.dtype):to(device)
    if gradient_format then up = up:contiguous { memory_format = gradient_format } end
    y:backward(up)
    local out = { y:detach() }
    for i, x in ipairs(leaves) do out[i + 1] = x.grad end
    results[#results + 1] = out
  end
  for i, want in ipairs(results[1]) do
    local got = results[2][i]
    same(("%s, result %d"):format(what, i), got, want, tolerance)
    if table.concat(got:stride(), " ") ~= table.concat(want:stride(), " ") then
      error(("%s, result %d: lies otherwise than the CPU's"):format(what, i), 0)
    end
    if not got:equal(results[3][i]) then error(what .. ": does not repeat", 0) end
  end
end

local function last_case(dtype, x, outs, kernel, options)
  local axes, groups = #kernel, options.groups or 1
  local format = axes == 2 and "channels_last" or "channels_last_3d"
  local weight, turned = { outs, x[2] // groups }, { x[2], outs // groups }
  for d = 1, axes do weight[d + 2], turned[d + 2] = kernel[d], kernel[d] end
  local function draw(shape) return ml.randn(shape):to(dtype) end
  for way, of in ipairs { FORWARD[axes], TRANSPOSED[axes] } do
    local what = ("%s %s last, way %d, (%s) to %d by (%s)"):format(dtype, format, way, table.concat(x, " "), outs,
      table.concat(kernel, " "))
    local function f(i, w, b)
      local o = { bias = b }
      for k, v in pairs(options) do o[k] = v end
      return of(i, w, o)
    end
    local given = { draw(x), draw(way == 1 and weight or turned), draw { outs } }
    agree_last(what, f, given, { format }, nil)
    agree_last(what .. ", all", f, given, { format, format }, format)
    agree_last(what .. ", the weight", f, given, { false, format }, "contiguous_format")
  end
end

on_device("channels side by side, in every dtype", function()
  for _, dtype in ipairs(FLOATS) do
    last_case(dtype, { 2, 8, 7, 6 }, 5, { 3, 3 }, { padding = 1 })
    last_case(dtype, { 1, 40, 9, 8 }, 72, { 3, 2 }, { stride = { 2, 1 }, padding = { 1, 0 } })
    last_case(dtype, { 2, 5, 10, 9 }, 7, { 2, 3 }, { dilation = { 1, 2 }, padding = 2 })
    last_case(dtype, { 2, 16, 5, 7 }, 24, { 3, 3 }, { groups = 2, padding = 1 })
    last_case(dtype, { 2, 15, 5, 7 }, 20, { 1, 1 }, { groups = 5 })
    last_case(dtype, { 1, 130, 4, 4 }, 70, { 1, 1 }, {})
    last_case(dtype, { 2, 6, 8, 7 }, 6, { 3, 3 }, { groups = 6, padding = 1 })
    last_case(dtype, { 2, 8, 3, 4, 5 }, 6, { 2, 2, 3 }, { padding = 1, stride = { 1, 2, 1 } })
    last_case(dtype, { 1, 1, 6, 5 }, 9, { 3, 3 }, {})
  end
  last_case("float32", { 0, 8, 6, 6 }, 4, { 3, 3 }, {})
end)

on_device("few channels in each group, side by side", function()
  for _, dtype in ipairs(FLOATS) do
    -- Depthwise: packs of channels, strips that end with their line and in it, more than a block has.
    last_case(dtype, { 2, 16, 7, 9 }, 16, { 3, 3 }, { groups = 16, padding = 1 })
    last_case(dtype, { 1, 24, 9, 8 }, 24, { 5, 2 }, { groups = 24, stride = { 2, 3 }, padding = { 2, 0 } })
    last_case(dtype, { 2, 8, 10, 12 }, 8, { 3, 2 }, { groups = 8, dilation = { 1, 3 }, padding = 2 })
    last_case(dtype, { 1, 280, 3, 2 }, 280, { 1, 2 }, { groups = 280 })
    last_case(dtype, { 1, 16, 3, 4, 5 }, 16, { 2, 3, 2 }, { groups = 16, padding = 1, stride = { 1, 2, 1 } })
    last_case(dtype, { 3, 8, 2, 2 }, 8, { 2, 2 }, { groups = 8 })
    -- Several channels for one, and of several.
    last_case(dtype, { 2, 8, 6, 5 }, 24, { 3, 3 }, { groups = 8, stride = 2, padding = 1 })
    last_case(dtype, { 2, 12, 6, 5 }, 16, { 3, 2 }, { groups = 4, dilation = { 2, 1 } })
    last_case(dtype, { 1, 40, 4, 4 }, 10, { 2, 2 }, { groups = 10, padding = 1 })
  end
  -- More positions than one piece of the gradient has.
  last_case("float32", { 3, 8, 30, 31 }, 8, { 3, 3 }, { groups = 8, padding = 1 })
  last_case("float32", { 0, 8, 6, 6 }, 8, { 3, 3 }, { groups = 8 })
end)

on_device("depthwise, side by side: no copies of images", function()
  local last = { memory_format = "channels_last" }
  local x = ml.randn(2, 32, 40, 40):cuda():contiguous(last):requires_grad_()
  local w = ml.randn(32, 1, 3, 3):cuda():requires_grad_()
  local image = x:numel() * 4
  local function more_than(body)
    local before = ml.cuda.memory_allocated()
    ml.cuda.reset_peak_memory_stats()
    local kept = body()
    return ml.cuda.max_memory_allocated() - before, kept
  end
  local y
  local extra = more_than(function() y = F.conv2d(x, w, { padding = 1, groups = 32 }) end)
  harness.expect.truthy(extra < image + image // 4, extra)
  local g = ml.ones(y.shape):cuda():contiguous(last)
  extra = more_than(function() y:backward(g) end)
  -- The gradient of the images, and pieces of the weight's.
  harness.expect.truthy(extra < image + image // 2, extra)
end)

on_device("channels side by side that begin at any element", function()
  for _, dtype in ipairs(FLOATS) do
    local x = ml.randn(2, 5, 6, 16):to(dtype)
    local w = ml.randn(4, 16, 2, 2):to(dtype)
    local want = F.conv2d(x:permute(1, 4, 2, 3), w)
    local store = ml.zeros({ x:numel() + 1 }, { dtype = dtype, device = "cuda" })
    local view = store:narrow(1, 2, x:numel()):view(x.shape)
    view:copy_(x)
    same(dtype, F.conv2d(view:permute(1, 4, 2, 3), w:cuda()), want, TOLERANCE[dtype])
    local thin = ml.randn(16, 1, 2, 2):to(dtype)
    same("depthwise " .. dtype, F.conv2d(view:permute(1, 4, 2, 3), thin:cuda(), { groups = 16 }),
      F.conv2d(x:permute(1, 4, 2, 3), thin, { groups = 16 }), TOLERANCE[dtype])
  end
end)

on_device("TF32 where products may use it", function()
  local x = ml.randn(2, 20, 9, 9, { device = "cuda" })
  local w = ml.randn(20, 20, 3, 3, { device = "cuda" })
  local exact, rounded = F.conv2d(x, w), nil
  ml.backends.cudnn.flags({ enabled = false, allow_tf32 = true }, function()
    case("float32", { 2, 20, 9, 9 }, 20, { 3, 3 }, {}, TF32)
    rounded = F.conv2d(x, w)
  end)
  if rounded:equal(exact) then error("TF32 changes nothing", 0) end
end)

local function check_memory(format)
  for _, dtype in ipairs { "float16", "float32" } do
    local layout = { memory_format = format }
    local x = ml.randn(1, 16, 32, 32, { device = "cuda" }):to(dtype):contiguous(layout)
    local w = ml.randn(16, 16, 3, 3, { device = "cuda" }):to(dtype):contiguous(layout)
    collectgarbage()
    local before = ml.cuda.memory_allocated()
    ml.cuda.reset_peak_memory_stats()
    local y = F.conv2d(x, w, { padding = 1 })
    local more = ml.cuda.max_memory_allocated() - before
    if more > y:numel() * y:element_size() + 4096 then
      error(("%s, %s: %d bytes more at the peak"):format(dtype, format, more), 0)
    end
  end
end

on_device("memory is that of the results: no image is unrolled, none is laid otherwise", function()
  check_memory "contiguous_format"
  check_memory "channels_last"
end)

harness.run()
