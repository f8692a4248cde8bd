-- tests/lua/ops/image_test.lua: what the samples of convolutions, pooling and images cannot show:
-- refused arguments, complex gradients, infinities and NaN, options of nn.functional. Numbers are
-- PyTorch's.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect
local F = ml.nn.functional

local NAN, INF = 0 / 0, math.huge

-- 1 to the number of elements, in row order.
local function counted(...)
  local count = 1
  for _, size in ipairs { ... } do count = count * size end
  return ml.arange(count):to "float32":reshape(...)
end

-- That f fails with a message that has that text in it.
local function refuses(f, text) expect.error(f, (text:gsub("%p", "%%%0"))) end

test("padding same puts the odd one at the end", function()
  local x, w = ml.tensor { { { 1.0, 2.0, 3.0, 4.0 } } }, ml.tensor { { { 1.0, 10.0 } } }
  expect.equal(F.conv1d(x, w, { padding = "same" }):tolist(), { { { 21.0, 32.0, 43.0, 4.0 } } })
  expect.equal(ml.conv1d(x, w, nil, 1, "valid"):tolist(), { { { 21.0, 32.0, 43.0 } } })
  refuses(function() F.conv1d(x, w, { padding = "same", stride = 2 }) end, "wants stride 1")
  refuses(function() F.conv2d(ml.ones(1, 1, 3, 3), ml.ones(1, 1, 2, 2), { padding = "full" }) end,
    'padding is numbers, "same" or "valid", got "full"')
end)

test("an input without a batch gives a result without one", function()
  local w = ml.ones(2, 3, 2, 2)
  expect.equal(tostring(F.conv2d(ml.ones(3, 4, 5), w).shape), "(2, 3, 4)")
  expect.equal(tostring(F.conv_transpose2d(ml.ones(2, 4, 5), w).shape), "(3, 5, 6)")
  expect.equal(tostring(F.conv3d(ml.ones(1, 3, 4, 5), ml.ones(2, 1, 1, 2, 3)).shape), "(2, 3, 3, 3)")
  expect.equal(tostring(F.max_pool3d(ml.ones(1, 4, 4, 4), 2).shape), "(1, 2, 2, 2)")
  expect.equal(tostring(F.conv1d(ml.ones(0, 3, 4), ml.ones(2, 3, 2)).shape), "(0, 2, 3)")
  expect.equal(tostring(F.conv3d(ml.ones(0, 1, 3, 4, 5), ml.ones(2, 1, 2, 2, 2)).shape),
    "(0, 2, 2, 3, 4)")
end)

test("convolutions of complex numbers and their gradients", function()
  local function complex(...) return ml.view_as_complex(ml.randn(..., { dtype = ml.float64 })) end
  for _, case in ipairs {
    { ml.conv1d, { 1, 2, 5, 2 }, { 4, 1, 2, 2 }, { 4, 2 }, { 1, 1, 1, 2 } },
    { ml.conv_transpose2d, { 2, 3, 3, 2 }, { 2, 3, 2, 2, 2 }, { 3, 2 }, { 2, 1, 1 } },
  } do
    local call, options = case[1], case[5]
    local x, w, b = complex(case[2]), complex(case[3]), complex(case[4])
    for _, t in ipairs { x, w, b } do t:requires_grad_() end
    local y = call(x, w, b, table.unpack(options))
    -- The result is linear in each argument, so a step of any size shows the derivative.
    local g = complex(ml.view_as_real(y:detach()).shape:totable())
    local gx, gw, gb = ml.grad(y, { x, w, b }, { grad_outputs = g })
    local function real_inner(a, c) return ml.real(a:conj() * c):sum():item() end
    local dx, dw, db = complex(case[2]), complex(case[3]), complex(case[4])
    local function change(a, c, d) return call(a, c, d, table.unpack(options)) - y end
    expect.near(real_inner(gx, dx), real_inner(g, change(x + dx, w, b)), 1e-9)
    expect.near(real_inner(gw, dw), real_inner(g, change(x, w + dw, b)), 1e-9)
    expect.near(real_inner(gb, db), real_inner(g, change(x, w, b + db)), 1e-9)
  end
end)

test("output padding of a whole stride needs a dilation", function()
  local x, w = ml.ones(1, 1, 2), ml.ones(1, 1, 2)
  expect.equal(F.conv_transpose1d(x, w, nil, 1, 1, 2, 1, 3):tolist(), { { { 1.0, 0.0, 1.0, 1.0, 0.0 } } })
  refuses(function() F.conv_transpose1d(x, w, nil, 2, 0, 2) end, "output_padding (2,) is not smaller")
  refuses(function() F.conv_transpose1d(x, w, nil, 1, 5) end, "leaves nothing")
  refuses(function() F.conv_transpose2d(ml.ones(1, 2, 3, 3), ml.ones(3, 1, 2, 2)) end, "wants 3 channels")
  refuses(function() F.conv_transpose2d(ml.ones(1, 2, 3, 3), ml.ones(2, 1, 2, 2), ml.ones(2)) end, "bias has shape")
  refuses(function() F.conv3d(ml.ones(1, 2, 3, 3, 3), ml.ones(2, 1, 2, 2, 2)) end, "conv3d: x has shape")
  refuses(function() F.conv1d(ml.ones(4), ml.ones(1, 1, 2)) end, "(n, c, l) is expected")
end)

test("a maximum is NaN where its window has one, and minus infinity where it has nothing", function()
  local x = ml.tensor { { 1.0, NAN, 3.0, 2.0, -INF } }
  local y = F.max_pool1d(x, 2, 1):tolist()[1]
  expect.truthy(y[1] ~= y[1] and y[2] ~= y[2])
  expect.equal({ y[3], y[4] }, { 3.0, 2.0 })
  local values, at = F.adaptive_max_pool1d(x, 1, { return_indices = true })
  expect.truthy(values:item() ~= values:item())
  expect.equal(at:item(), 2)
  local body = ml.full({ 1, 2, 2, 2 }, -INF)
  local v, i = F.max_pool3d(body, 2, { return_indices = true })
  expect.equal({ v:item(), i:item() }, { -INF, 1 })
end)

test("of equal maxima of a body the first is taken", function()
  local x = ml.zeros(1, 3, 3, 3)
  x[{ 1, 2, 3, 1 }], x[{ 1, 3, 1, 1 }] = 5, 5
  local values, at = F.max_pool3d(x, 3, { return_indices = true })
  expect.equal({ values:item(), at:item() }, { 5.0, 16 })
  local _, same = F.adaptive_max_pool3d(x, 1, { return_indices = true })
  expect.equal(same:item(), 16)
end)

test("a window rounded up may end outside", function()
  expect.equal(F.max_pool1d(counted(1, 4), 3, 3, 0, 2, true):tolist(), { { 3.0 } })
  expect.equal(F.avg_pool1d(counted(1, 5), 2, 2, 0, true):tolist(), { { 1.5, 3.5, 5.0 } })
  refuses(function() F.max_pool1d(counted(1, 4), 3, 1, 0, 2, true) end, "does not fit")
end)

test("averages divided by what is asked for", function()
  local x = counted(1, 2, 4)
  expect.equal(F.avg_pool2d(x, 2, { divisor_override = 2 }):tolist(), { { { 7.0, 11.0 } } })
  expect.equal(F.avg_pool3d(counted(1, 2, 2, 2), 2, { divisor_override = -1 }):item(), -36.0)
  refuses(function() F.avg_pool2d(x, 2, { divisor_override = 0 }) end, "divisor_override is 0")
  refuses(function() F.avg_pool3d(counted(1, 2, 2, 2), 2, { divisor_override = 0 }) end, "divisor_override is 0")
end)

test("adaptive pooling keeps the sizes that are left out", function()
  local x = counted(2, 3, 4)
  expect.equal(tostring(F.adaptive_avg_pool2d(x, { false, 2 }).shape), "(2, 3, 2)")
  expect.equal(tostring(F.adaptive_max_pool2d(x, { 1, false }).shape), "(2, 1, 4)")
  expect.equal(F.adaptive_avg_pool2d(x, { false, false }):tolist(), x:tolist())
  refuses(function() F.adaptive_avg_pool2d(x, { 1, 2, 3 }) end, "'output_size' must be")
  refuses(function() F.adaptive_avg_pool2d(x, -1) end, "output_size is (-1, -1)")
  refuses(function() F.adaptive_max_pool3d(x, 1) end, "4 or 5 dimensions are expected")
end)

test("unpooling takes the sizes that pooling came from", function()
  local x = counted(1, 1, 1, 5)
  local y, at = F.max_pool2d(x, { 1, 2 }, { return_indices = true })
  expect.equal(F.max_unpool2d(y, at, { 1, 2 }):tolist(), { { { { 0.0, 2.0, 0.0, 4.0 } } } })
  expect.equal(F.max_unpool2d(y, at, { 1, 2 }, { output_size = { 1, 5 } }):tolist(),
    { { { { 0.0, 2.0, 0.0, 4.0, 0.0 } } } })
  refuses(function() F.max_unpool2d(y, at, { 1, 2 }, { output_size = { 1, 6 } }) end, "is not between 2 and 6")
  refuses(function() ml.max_unpool2d(y, at * 100, { 1, 4 }) end, "200")
  refuses(function() ml.max_unpool2d(y, ml.ones(1, 1, 1, 3, { dtype = ml.int64 }), { 1, 4 }) end, "indices has shape")
end)

test("fractional pooling draws its windows", function()
  local x = ml.rand(2, 3, 8, 9)
  ml.manual_seed(3)
  local y, at = F.fractional_max_pool2d(x, 2, { output_ratio = 0.5, return_indices = true })
  expect.equal(tostring(y.shape), "(2, 3, 4, 4)")
  expect.truthy(x:flatten(3):gather(3, at:flatten(3)):eq(y:flatten(3)):all():item())
  ml.manual_seed(3)
  expect.truthy(F.fractional_max_pool2d(x, 2, { output_ratio = 0.5 }):eq(y):all():item())
  refuses(function() F.fractional_max_pool2d(x, 2) end, "either 'output_size' or 'output_ratio'")
  refuses(function() F.fractional_max_pool2d(x, 5, 6) end, "do not fit")
  refuses(function() ml.fractional_max_pool2d(x, 2, 2, ml.rand(2, 3, 3)) end, "random_samples has shape")
end)

-- torch.nn.functional.interpolate of these bytes: mode, antialias, align_corners, size, results.
local BYTES = {
  { "bilinear", false, false, { 3, 8 }, { 85, 55, 51, 79, 106, 134, 162, 185, 199, 222, 154, 22, 49, 77, 105,
    128, 142, 165, 193, 211, 174, 84, 48, 71 } },
  { "bilinear", false, true, { 7, 3 }, { 11, 104, 196, 159, 81, 173, 222, 59, 151, 199, 36, 128, 176, 99, 105,
    154, 161, 83, 131, 224, 60 } },
  { "bilinear", true, false, { 2, 4 }, { 126, 73, 97, 148, 175, 169, 94, 80 } },
  { "bilinear", true, true, { 2, 4 }, { 147, 105, 100, 129, 166, 183, 86, 72 } },
  { "bicubic", false, false, { 3, 8 }, { 87, 40, 35, 83, 107, 135, 167, 190, 196, 247, 159, 5, 45, 76, 108,
    131, 137, 158, 203, 227, 187, 74, 30, 72 } },
  { "bicubic", false, true, { 4, 3 }, { 11, 104, 196, 249, 41, 149, 178, 77, 107, 131, 248, 60 } },
  { "bicubic", true, false, { 2, 4 }, { 126, 60, 96, 156, 180, 182, 87, 73 } },
  { "bicubic", true, true, { 3, 2 }, { 98, 162, 128, 78, 153, 57 } },
}
test("interpolate of bytes is in integers", function()
  local x = ((ml.arange(0, 29) * 37 + 11) % 256):to("uint8"):view(1, 1, 5, 6)
  for _, case in ipairs(BYTES) do
    local mode, antialias, corners, size, want = table.unpack(case)
    local y = F.interpolate(x, { size = size, mode = mode, antialias = antialias, align_corners = corners })
    expect.equal(y.dtype, "uint8")
    expect.equal(y:flatten():tolist(), want, mode)
    -- Of several images and channels at once, and not contiguous.
    local several = F.interpolate(x:expand(2, 5, 5, 6), { size = size, mode = mode, antialias = antialias,
      align_corners = corners })
    expect.equal(several[2][5]:flatten():tolist(), want, mode)
  end
  local y = F.interpolate(x, { scale_factor = 0.7, mode = "bilinear", antialias = true })
  expect.equal(y:flatten():tolist(), { 70, 59, 112, 166, 188, 83, 70, 123, 176, 193, 90, 74 })
end)

test("interpolate by size and by factor", function()
  local x = counted(1, 1, 4)
  expect.equal(F.interpolate(x, 6):tolist(), { { { 1.0, 1.0, 2.0, 3.0, 3.0, 4.0 } } })
  expect.equal(F.interpolate(x, 6, { mode = "nearest-exact" }):tolist(), { { { 1.0, 2.0, 2.0, 3.0, 4.0, 4.0 } } })
  expect.near(F.interpolate(x, nil, 1.6, "linear"):tolist(), { { { 1.0, 1.4375, 2.0625, 2.6875, 3.3125, 3.9375 } } },
    1e-6)
  expect.near(F.interpolate(x, { scale_factor = 1.6, mode = "linear", recompute_scale_factor = true }):tolist(),
    { { { 1.0, 1.5, 2.16666667, 2.83333333, 3.5, 4.0 } } }, 1e-6)
  expect.near(F.interpolate(x, 6, { mode = "linear", align_corners = true }):tolist(),
    { { { 1.0, 1.6, 2.2, 2.8, 3.4, 4.0 } } }, 1e-6)
  local image = counted(1, 1, 4, 4)
  expect.near(F.interpolate(image, 2, { mode = "bilinear", antialias = true }):tolist(),
    { { { { 4.57142857, 6.14285714 }, { 10.85714286, 12.42857143 } } } }, 1e-5)
  expect.equal(F.interpolate(image, 2, { mode = "area" }):tolist(), { { { { 3.5, 5.5 }, { 11.5, 13.5 } } } })
  expect.equal(F.upsample_nearest(x:to "uint8", nil, 2):tolist(), { { { 1, 1, 2, 2, 3, 3, 4, 4 } } })
  expect.equal(F.upsample_bilinear(image, 2):tolist(), { { { { 1.0, 4.0 }, { 13.0, 16.0 } } } })
end)

test("interpolate refuses what has no meaning", function()
  local x = counted(1, 1, 4)
  refuses(function() F.interpolate(x) end, "either 'size' or 'scale_factor'")
  refuses(function() F.interpolate(x, 2, 2) end, "either 'size' or 'scale_factor'")
  refuses(function() F.interpolate(x, { 2, 2 }) end, "'size' has 2 numbers")
  refuses(function() F.interpolate(x, 2, { mode = "cubic" }) end, "mode is")
  refuses(function() F.interpolate(x, 2, { mode = "bilinear" }) end, "is for 2 dimensions besides n and c")
  refuses(function() F.interpolate(x, 2, { align_corners = false }) end, "'align_corners' is for")
  refuses(function() F.interpolate(x, 2, { mode = "linear", antialias = true }) end, "antialias is for")
  refuses(function() F.interpolate(x:to "int32", 2, { mode = "linear" }) end, "takes floating dtypes")
  refuses(function() F.interpolate(x, nil, 0.1) end, "a size is 0")
  refuses(function() F.interpolate(x, nil, 1e300) end, "too large")
  refuses(function() F.interpolate(ml.ones(4, 4), 2) end, "is expected")
  refuses(function() ml.interpolate(x, { 1 << 62 }) end, "interpolate")
  refuses(function() ml.interpolate(x, { 4 }, "linear", false, false, nil, nil, NAN) end, "a scale is")
  refuses(function() ml._internal.resample(x, { 1, 1, 4 }, 3, "linear", false, false, -1) end, "scale is -1")
  refuses(function() ml._internal.resample(x, { 1, 2, 8 }, 3, "linear") end, "in more than dim 3")
end)

test("16-bit floats are resized in float32", function()
  local x = ml.rand(1, 2, 9, 7)
  for _, dtype in ipairs { "float16", "bfloat16" } do
    local low = x:to(dtype)
    for _, mode in ipairs { "bilinear", "bicubic" } do
      local y = F.interpolate(low, 5, { mode = mode, antialias = true })
      local wide = F.interpolate(low:to "float32", 5, { mode = mode, antialias = true })
      expect.truthy(y:eq(wide:to(dtype)):all():item(), mode)
    end
  end
end)

test("positions are sampled alike by many and one by one, and their gradient is the gradient", function()
  ml.manual_seed(3)
  local x = ml.randn(2, 3, 5, 7):double()
  local volumes = ml.randn(1, 2, 4, 3, 5):double()
  for _, mode in ipairs { "bilinear", "nearest", "bicubic" } do
    for _, padding in ipairs { "zeros", "border", "reflection" } do
      for _, aligned in ipairs { true, false } do
        local options = { mode = mode, padding_mode = padding, align_corners = aligned }
        local what = ("%s %s %s"):format(mode, padding, aligned)
        for _, images in ipairs { x, volumes } do
          local n, dims = images.shape[1], images:dim() - 2
          local shape = dims == 2 and { n, 30, 11, 2 } or { n, 3, 10, 11, 3 }
          local grid = ml.rand(shape):double() * 3.2 - 1.6
          local y = F.grid_sample(images, grid, options)
          local single = dims == 2 and grid[":, 30:30, 11:11"] or grid[":, 3:3, 10:10, 11:11"]
          local last = F.grid_sample(images, single:contiguous(), options):reshape { n, -1 }
          expect.truthy(y:reshape { n, images.shape[2], -1 }:select(3, 330):eq(last):all():item(), what)
          expect.near(F.grid_sample(images:float(), grid:float(), options):tolist(), y:tolist(), 1e-3, what)
          local gradients = ml.randn(y.shape):double()
          local wanted = grid:detach():requires_grad_()
          local got = ml.grad({ F.grid_sample(images, wanted, options) }, { wanted }, { grad_outputs = { gradients } })
          local direction, step = ml.randn(shape):double(), 1e-6
          local high = F.grid_sample(images, grid + direction * step, options)
          local low = F.grid_sample(images, grid - direction * step, options)
          local change = ((high - low) / (2 * step) * gradients):sum():item()
          if mode ~= "nearest" then
            expect.near((got * direction):sum():item(), change, 1e-3 * (1 + math.abs(change)), what)
          else
            expect.equal(got:abs():sum():item(), 0.0)
          end
        end
      end
    end
  end
  expect.equal(tostring(F.grid_sample(x, ml.zeros(2, 0, 3, 2):double()).shape), "(2, 3, 0, 3)")
end)

test("positions that are no numbers, and those far outside", function()
  local x = counted(1, 1, 2, 2)
  local grid = ml.tensor { { { { NAN, -1.0 }, { INF, 0.0 }, { -INF, INF }, { 1e30, 0.0 } } } }
  expect.equal(F.grid_sample(x, grid, { align_corners = true }):tolist(), { { { { 1.0, 0.0, 0.0, 0.0 } } } })
  expect.equal(F.grid_sample(x, grid, { align_corners = true, padding_mode = "border" }):tolist(),
    { { { { 1.0, 3.0, 3.0, 3.0 } } } })
  for _, mode in ipairs { "bilinear", "nearest", "bicubic" } do
    local z, wide = counted(1, 1, 2, 2):requires_grad_(), grid:detach():requires_grad_()
    local gx, ggrid = ml.grad(F.grid_sample(z, wide, mode):sum(), { z, wide })
    expect.truthy(gx:isfinite():all():item() and ggrid:isfinite():all():item(), mode)
    expect.equal(ggrid[1][1][2]:tolist(), { 0.0, 0.0 }, mode)
    -- A line of one element, at whose ends nothing can be told apart.
    local single = F.grid_sample(ml.ones(1, 1, 1, 1), grid, { mode = mode, align_corners = true })
    expect.equal(single[1][1][1]:tolist(), { 1.0, 0.0, 0.0, 1.0 }, mode)
  end
  local y = F.grid_sample(ml.full({ 1, 1, 2, 2 }, INF), ml.zeros(1, 1, 1, 2), { mode = "nearest" })
  expect.equal(y:item(), INF)
  refuses(function() F.grid_sample(x, ml.zeros(1, 1, 1, 3)) end, "grid has shape")
  refuses(function() F.grid_sample(x, ml.zeros(1, 1, 1, 2), "cubic") end, "mode is")
  refuses(function() F.grid_sample(x, ml.zeros(1, 1, 1, 2), "nearest", "zero") end, "padding_mode is")
end)

test("planes are sampled at positions, and at the one behind them that stands for nothing", function()
  local size, positions = 20, 37
  local at = ml.randint(1, size + 1, { 2, 3, positions })
  for _, dtype in ipairs { "float32", "float64", "bfloat16" } do
    local x = ml.randn(2, 5, size):to(dtype):requires_grad_()
    local weight = ml.randn(2, 3, positions):to(dtype):requires_grad_()
    local y = ml._internal.sample_planes(x, at, weight)
    local rows = ml.cat({ x:double(), ml.zeros { 2, 5, 1, dtype = "float64" } }, 3):unsqueeze(2)
    local seen = rows:expand(2, 3, 5, size + 1):gather(4, at:unsqueeze(3):expand(2, 3, 5, positions))
    local wanted = (seen * weight:double():unsqueeze(3)):sum(2)
    local gradient = ml.randn(2, 5, positions):to(dtype)
    local got = { y, ml.grad({ y }, { x, weight }, { grad_outputs = { gradient } }) }
    local plain = { wanted, ml.grad({ wanted }, { x, weight }, { grad_outputs = { gradient:double() } }) }
    for i, value in ipairs(got) do
      local distance = (value:double() - plain[i]:double()):abs():max():item()
      expect.truthy(distance < (dtype == "bfloat16" and 0.1 or 1e-5), dtype .. i .. ": " .. distance)
    end
  end
  local x, weight = ml.ones(2, 5, size), ml.ones(2, 3, positions)
  refuses(function() ml._internal.sample_planes(x, at * 0, weight) end, "sample_planes")
  refuses(function() ml._internal.sample_planes(x, at + 2 * size, weight) end, "sample_planes")
  refuses(function() ml._internal.sample_planes(x, at, ml.ones(2, 3, 1)) end, "weight")
end)

test("the nearest element has no gradient by its position", function()
  local x, grid = counted(1, 1, 2, 2):requires_grad_(), ml.zeros(1, 1, 1, 2):requires_grad_()
  local y = F.grid_sample(x, grid, "nearest")
  local gx, ggrid = ml.grad(y:sum(), { x, grid })
  expect.equal(gx:sum():item(), 1.0)
  expect.equal(ggrid:tolist(), { { { { 0.0, 0.0 } } } })
end)

test("the identity samples every element", function()
  for _, aligned in ipairs { true, false } do
    local x = ml.rand(2, 3, 4, 5)
    local theta = ml.tensor { { 1.0, 0.0, 0.0 }, { 0.0, 1.0, 0.0 } }:expand(2, 2, 3)
    local grid = F.affine_grid(theta, { 2, 3, 4, 5 }, aligned)
    expect.near(F.grid_sample(x, grid, { align_corners = aligned }):tolist(), x:tolist(), 1e-5)
  end
  refuses(function() F.affine_grid(ml.ones(1, 2, 3), { 2, 1, 2, 2 }) end, "theta has shape")
  refuses(function() F.affine_grid(ml.ones(1, 2, 3), { 1, 1, 2 }) end, "size has 3 numbers")
end)

test("folding adds up what unfolding takes apart", function()
  local x = counted(1, 1, 3, 3)
  local columns = F.unfold(x, 2)
  expect.equal(F.fold(columns, 3, 2):tolist(), { { { { 1.0, 4.0, 3.0 }, { 8.0, 20.0, 12.0 }, { 7.0, 16.0, 9.0 } } } })
  refuses(function() F.fold(columns, 4, 2) end, "have 9 windows")
  refuses(function() F.fold(ml.ones(3, 4), 3, 2) end, "a multiple of 4 elements")
  refuses(function() F.unfold(x, 1 << 40) end, "kernel_size is (1099511627776, 1099511627776)")
  refuses(function() ml.col2im(columns, { 1 << 29, 1 << 29 }, 2) end, "col2im")
end)

test("channels that do not divide are named", function()
  refuses(function() F.pixel_shuffle(ml.ones(6, 2, 2), 2) end, "6 channels")
  refuses(function() F.pixel_unshuffle(ml.ones(1, 3, 4), 2) end, "do not divide into blocks of 2")
  refuses(function() F.channel_shuffle(ml.ones(1, 5, 2), 2) end, "do not divide into 2 groups")
  refuses(function() ml.pixel_shuffle(ml.ones(1, 1, 1), 1 << 40) end, "at least 1")
  local x = ml.randn(2, 3, 4, 6)
  expect.equal(F.pixel_shuffle(F.pixel_unshuffle(x, 2), 2):tolist(), x:tolist())
end)

test("wide images are resized as tall ones are", function()
  ml.manual_seed(1)
  for _, dtype in ipairs { "float32", "float64" } do
    local x = ml.randn(2, 3, 4, 37, { dtype = dtype })
    for _, mode in ipairs { "bilinear", "bicubic" } do
      for _, width in ipairs { 75, 20 } do
        local y = ml.interpolate(x, { 6, width }, mode)
        local tall = ml.interpolate(x:transpose(3, 4), { width, 6 }, mode):transpose(3, 4)
        expect.truthy((y - tall):abs():amax():item() < 1e-5, mode)
      end
    end
  end
end)

harness.run()
