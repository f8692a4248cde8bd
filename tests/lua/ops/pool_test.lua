-- tests/lua/ops/pool_test.lua: pooling of rows that are longer than vectors, against windows taken one
-- by one.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

local HEIGHT, NAN = 5, 0 / 0

-- The windows of x (h, w) as (out_h * out_w) lists of { value, position }, in row order.
local function windows_of(x, width, geometry)
  local out = {}
  local reach = (geometry.kernel - 1) * (geometry.dilation or 1) + 1
  local pad = geometry.pad or 0
  for top = 1 - pad, HEIGHT + pad - reach + 1, geometry.stride do
    for left = 1 - pad, width + pad - reach + 1, geometry.stride do
      local window = {}
      for y = top, top + reach - 1, geometry.dilation or 1 do
        for column = left, left + reach - 1, geometry.dilation or 1 do
          local inside = y >= 1 and y <= HEIGHT and column >= 1 and column <= width
          if inside then window[#window + 1] = { x[y][column], (y - 1) * width + column } end
        end
      end
      out[#out + 1] = window
    end
  end
  return out
end

local function largest(window)
  local value, position = table.unpack(window[1])
  for _, item in ipairs(window) do
    if item[1] > value or item[1] ~= item[1] then value, position = table.unpack(item) end
  end
  return value, position
end

local GEOMETRIES = {
  { kernel = 2, stride = 2 }, { kernel = 3, stride = 2, pad = 1 }, { kernel = 3, stride = 1, pad = 1 },
  { kernel = 1, stride = 2 }, { kernel = 3, stride = 3 }, { kernel = 2, stride = 1, dilation = 3 },
  { kernel = 2, stride = 2, dilation = 2, pad = 1 },
}
local WIDTHS = { 6, 9, 13, 24, 40, 75 }

local function each_case(body)
  for _, geometry in ipairs(GEOMETRIES) do
    for _, width in ipairs(WIDTHS) do
      ml.manual_seed(width)
      body(ml.randint(-9, 9, { HEIGHT, width }):to "float32", width, geometry)
    end
  end
end

test("maxima and their positions", function()
  each_case(function(x, width, g)
    for _, dtype in ipairs { "float32", "float64", "int64", "int16", "bfloat16" } do
      local input = x:to(dtype)
      if dtype == "float32" then input[2][width // 2] = NAN end
      local values, positions = ml.max_pool2d_with_indices(input:unsqueeze(1), g.kernel, { g.stride },
        g.pad or 0, g.dilation or 1)
      local flat, at = values:reshape(-1):tolist(), positions:reshape(-1):tolist()
      local windows = windows_of(input:tolist(), width, g)
      expect.equal(#flat, #windows)
      for i, window in ipairs(windows) do
        local value, position = largest(window)
        expect.equal(at[i], position)
        if value == value then expect.equal(flat[i], value) else expect.equal(flat[i] ~= flat[i], true) end
      end
    end
  end)
end)

test("averages and their gradients", function()
  each_case(function(x, width, g)
    if g.dilation then return end
    local windows = windows_of(x:tolist(), width, g)
    for _, dtype in ipairs { "float32", "float64", "float16" } do
      local input = x:to(dtype):unsqueeze(1):requires_grad_()
      local y = ml.avg_pool2d(input, g.kernel, { g.stride }, g.pad or 0, false, false)
      local flat, spread = y:reshape(-1):tolist(), {}
      for i, window in ipairs(windows) do
        local sum = 0
        for _, item in ipairs(window) do
          sum = sum + item[1]
          spread[item[2]] = (spread[item[2]] or 0) + 1 / #window
        end
        expect.near(flat[i], sum / #window, 1e-2)
      end
      y:sum():backward()
      local grad = input.grad:reshape(-1):tolist()
      for position = 1, HEIGHT * width do expect.near(grad[position], spread[position] or 0, 1e-2) end
    end
  end)
end)

test("windows that divide a plane, alike or not", function()
  local x = ml.arange(1, 4 * 70):to "float32":reshape(1, 4, 70)
  expect.equal(ml.adaptive_avg_pool2d(x, 1):item(), (1 + 280) / 2)
  expect.equal(ml.adaptive_avg_pool2d(x, { 2, 1 }):reshape(-1):tolist(), { 70.5, 210.5 })
  expect.equal(ml.adaptive_avg_pool2d(x, { 1, 2 }):reshape(-1):tolist(), { 123, 158 })
  expect.equal(ml.adaptive_avg_pool2d(x, { 4, 70 }):reshape(-1):tolist(), x:reshape(-1):tolist())
  local values, positions = ml.adaptive_max_pool2d(x, { 2, 35 })
  expect.equal(values[1][2][35]:item(), 280)
  expect.equal(positions[1][1][1]:item(), 72)
  expect.equal(ml.adaptive_max_pool2d(x, { 3, 35 }):reshape(-1):tolist()[1], 72)
end)

test("maxima of long windows", function()
  ml.manual_seed(3)
  for _, dtype in ipairs { "float32", "float64", "int64" } do
    -- Many equal numbers: the first of the largest counts.
    local x = ml.randint(-9, 9, { 3, 200 }):to(dtype)
    for _, width in ipairs { 1, 2, 3, 5 } do
      local values, positions = ml.adaptive_max_pool2d(x:unsqueeze(1), { 1, width })
      local rows, size = x:tolist(), 200
      for o = 1, width do
        local value, position
        for y = 1, 3 do
          for column = (o - 1) * size // width + 1, (o * size + width - 1) // width do
            local v = rows[y][column]
            if not value or v > value then value, position = v, (y - 1) * size + column end
          end
        end
        expect.equal(values[1][1][o]:item(), value)
        expect.equal(positions[1][1][o]:item(), position)
      end
    end
  end
  local x = ml.ones(1, 2, 100)
  x[1][1][7], x[1][2][40], x[1][2][90] = NAN, NAN, 5
  local value, position = ml.adaptive_max_pool2d(x, 1)
  expect.truthy(value:isnan():all():item())
  expect.equal(position:item(), 140)
  expect.equal(ml.max_pool2d(ml.full({ 1, 2, 100 }, -math.huge), { 2, 100 }):item(), -math.huge)
end)

test("the gradient of averages is their adjoint, where windows are long, overlap or leave gaps", function()
  local pools = {
    function(x) return ml.avg_pool2d(x, { 3, 40 }, { 2, 35 }) end,
    function(x) return ml.avg_pool2d(x, { 3, 40 }, { 2, 35 }, 1, true, false) end,
    function(x) return ml.avg_pool2d(x, { 2, 33 }, { 4, 50 }) end,
    function(x) return ml.avg_pool2d(x, 3, { 2, 1 }) end,
    function(x) return ml.adaptive_avg_pool2d(x, { 3, 4 }) end,
    function(x) return ml.adaptive_avg_pool2d(x, { 11, 3 }) end,
  }
  for i, pool in ipairs(pools) do
    local x = ml.randn { 2, 7, 123, dtype = "float64" }:requires_grad_()
    local y = pool(x)
    local gradient = ml.randn_like(y)
    local grad = ml.grad({ y }, { x }, { grad_outputs = { gradient } })
    expect.near((grad * x):sum():item(), (y * gradient):sum():item(), 1e-9, "pool " .. i)
  end
end)

-- More channels than one run of them, NaN, windows in the padding, every compute dtype.
test("images whose channels lie beside each other are pooled alike", function()
  ml.manual_seed(11)
  local pools = {
    max = function(x) return ml.max_pool2d_with_indices(x, 3, { 2 }, 1) end,
    ["max of far taps"] = function(x) return ml.max_pool2d_with_indices(x, { 2, 3 }, { 1, 2 }, { 1, 1 }, { 3, 2 }) end,
    ["adaptive max"] = function(x) return ml.adaptive_max_pool2d(x, { 4, 3 }) end,
    mean = function(x) return ml.avg_pool2d(x, { 3, 2 }, { 2, 1 }, 1, true, false) end,
    ["mean with a divisor"] = function(x) return ml.avg_pool2d(x, 2, { 3 }, 0, false, true, 5) end,
    ["adaptive mean"] = function(x) return ml.adaptive_avg_pool2d(x, { 3, 4 }) end,
    ["mean of all"] = function(x) return ml.adaptive_avg_pool2d(x, 1) end,
  }
  local function near(got, want, what)
    expect.equal(tostring(got.shape), tostring(want.shape), what)
    local tolerance = got.dtype == "bfloat16" and 1e-2 or 2e-6
    expect.truthy(got:to("float64"):allclose(want:to "float64", tolerance, tolerance, { equal_nan = true }), what)
  end
  for name, pool in pairs(pools) do
    for _, dtype in ipairs { "float32", "float64", "bfloat16" } do
      for _, channels in ipairs { 2, 70 } do
        local rows = (ml.randn(2, channels, 9, 7) * 4):round():to(dtype)
        if name:find "max" then rows[1][2][3][4] = 0 / 0 end
        local beside = rows:contiguous "channels_last"
        local label = ("%s %s %d"):format(name, dtype, channels)
        local x, z = rows:detach():requires_grad_(), beside:detach():requires_grad_()
        local want, want_at = pool(x)
        local got, got_at = pool(z)
        near(got, want, label)
        if want_at then
          expect.truthy(got_at:eq(want_at):all():item(), label .. ": positions")
          expect.equal(got_at:stride()[2], got:stride()[2], label .. ": layout of the positions")
        end
        local gradient = ml.randn(want.shape):round():to(dtype)
        near(ml.grad(got, z, { grad_outputs = gradient:contiguous "channels_last" }),
          ml.grad(want, x, { grad_outputs = gradient }), label .. ": gradient")
      end
    end
  end
  local whole = ml.randint(-9, 9, { 1, 5, 6, 6 })
  local values, positions = ml.max_pool2d_with_indices(whole:contiguous "channels_last", 2)
  local want, want_at = ml.max_pool2d_with_indices(whole, 2)
  expect.truthy(values:eq(want):all():item() and positions:eq(want_at):all():item(), "int64")
end)

test("maxima of volumes give their gradient to the positions they are at", function()
  local pools = {
    function(x) return ml.max_pool3d_with_indices(x, { 2, 3, 2 }, { 1, 2, 2 }, { 1, 1, 0 }, 1, true) end,
    function(x) return ml.max_pool3d_with_indices(x, 2, { 1 }, 1, { 3, 1, 2 }) end,
    -- Some of these windows lie between padding and padding.
    function(x) return ml.max_pool3d_with_indices(x, 2, { 1 }, 1, { 7, 2, 2 }) end,
    function(x) return ml.adaptive_max_pool3d(x, { 3, 2, 4 }) end,
    function(x) return ml.fractional_max_pool3d(x, 2, { 3, 3, 2 }, ml.full({ 2, 3, 3 }, 0.4)) end,
  }
  for number, pool in ipairs(pools) do
    for _, dtype in ipairs { "float32", "float64", "bfloat16" } do
      local x = (ml.randn(2, 3, 6, 5, 7) * 4):round():to(dtype):requires_grad_()
      local values, positions = pool(x)
      local gradient = ml.randn(values.shape):round():to(dtype)
      local flat = values:isfinite()
      local got = ml.grad(values, x, { grad_outputs = gradient })
      local want = ml.zeros(2, 3, 6 * 5 * 7):scatter_add(3, positions:reshape(2, 3, -1),
        gradient:to("float32"):where(flat, 0.0):reshape(2, 3, -1)):reshape(x.shape)
      if flat:all():item() then
        expect.truthy(got:to("float32"):allclose(want, 1e-2, 1e-2), number .. " " .. dtype)
        local picked = x:detach():reshape(2, 3, -1):gather(3, positions:reshape(2, 3, -1)):reshape(values.shape)
        expect.truthy(values:eq(picked):all():item(), number .. " values " .. dtype)
      end
    end
  end
end)

test("long windows: the first of equal elements, the last NaN", function()
  for _, dtype in ipairs { "float32", "float64", "bfloat16", "int64" } do
    for _, size in ipairs { 32, 33, 47, 64, 77, 130 } do
      for rows = 1, 3 do
        local x = ml.randint(-3, 3, { rows, 2 * size }):to(dtype)
        local function check(label)
          local values, positions = ml.adaptive_max_pool2d(x:unsqueeze(1), { 1, 2 })
          for part = 1, 2 do
            local best, at
            for i = 1, rows do
              for j = (part - 1) * size + 1, part * size do
                local v = x[i][j]:item()
                if not best or v > best or v ~= v then best, at = v, (i - 1) * 2 * size + j end
              end
            end
            expect.equal(positions[1][1][part]:item(), at, ("%s of %s %d: %d"):format(label, dtype, size, part))
            local got = values[1][1][part]:item()
            expect.truthy(got == best or (got ~= got and best ~= best), label)
          end
        end
        check "equal ones"
        if dtype ~= "int64" then
          x[1][5], x[rows][size - 1], x[rows][size + 1] = 0 / 0, 0 / 0, 0 / 0
          check "NaN"
        end
      end
    end
  end
end)

test("norms of windows and their gradients", function()
  for _, norm in ipairs { 1, 2, 3, 2.5 } do
    for _, ceil_mode in ipairs { false, true } do
      local x = (ml.rand(2, 3, 7, 5, { dtype = "float64" }) + 0.1):requires_grad_()
      local count = 6
      local function want_of(t)
        return (ml.avg_pool2d(t ^ norm, { 2, 3 }, {}, 0, ceil_mode) * count) ^ (1 / norm)
      end
      local got, want = ml.lp_pool2d(x, norm, { 2, 3 }, {}, ceil_mode), want_of(x)
      expect.truthy(got:allclose(want, 1e-12, 1e-12), "values")
      local gradient = ml.randn(want.shape, { dtype = "float64" })
      local options = { grad_outputs = gradient, create_graph = true }
      local first, wanted = ml.grad(got, x, options), ml.grad(want, x, options)
      expect.truthy(first:allclose(wanted, 1e-10, 1e-10), "gradient")
      expect.truthy(ml.grad(first:square():sum(), x):allclose(ml.grad(wanted:square():sum(), x), 1e-9, 1e-9), "second")
    end
  end
  local nothing = ml.zeros(1, 1, 4):requires_grad_()
  for norm = 1, 3 do
    expect.equal(ml.grad(ml.lp_pool1d(nothing, norm, 2):sum(), nothing):tolist(), { { { 0, 0, 0, 0 } } })
  end
end)

test("windows at random that have one position each", function()
  for _, kernel in ipairs { { 1, 2 }, { 4, 4 }, { 3, 1 } } do
    local x = (ml.randn(2, 3, 7, 7) * 2):round()
    local want, want_at = ml.max_pool2d_with_indices(x, kernel, { 1 })
    local out = { 8 - kernel[1], 8 - kernel[2] }
    local got, got_at = ml.fractional_max_pool2d(x, kernel, out, ml.rand(2, 3, 2))
    expect.truthy(got:eq(want):all():item() and got_at:eq(want_at):all():item(), kernel[1])
  end
end)

-- The gradient of means over windows that divide n elements into `count`, by the gradients of these.
local function shared(gradients, n, count)
  local out = {}
  for i = 1, n do out[i] = 0.0 end
  for i = 0, count - 1 do
    local first, last = i * n // count, -(-(i + 1) * n // count)
    for j = first + 1, last do out[j] = out[j] + gradients[i + 1] / (last - first) end
  end
  return out
end

test("windows that divide a line share their gradient out, however long they are", function()
  ml.manual_seed(1)
  for _, case in ipairs { { 7, 3 }, { 100, 2 }, { 101, 2 }, { 300, 7 }, { 64, 64 }, { 5, 9 }, { 2100, 2 } } do
    local n, count = case[1], case[2]
    local x = ml.randn(2, n):double():requires_grad_()
    local gradients = ml.randn(2, count):double()
    local got = ml.grad({ ml.adaptive_avg_pool1d(x, count) }, { x }, { grad_outputs = { gradients } })
    expect.near(got[2]:tolist(), shared(gradients[2]:tolist(), n, count), 1e-12, n .. " to " .. count)
    -- Rows and columns of planes in the same way.
    local plane = ml.randn(1, n, 6):double():requires_grad_()
    local both = ml.randn(1, count, 2):double()
    local of_rows = ml.grad({ ml.adaptive_avg_pool2d(plane, { count, 2 }) }, { plane }, { grad_outputs = { both } })
    local want = shared((both["1, :, 1"] / 3):tolist(), n, count)
    expect.near(of_rows["1, :, 2"]:tolist(), want, 1e-12, n .. " rows to " .. count)
  end
end)

test("16-bit gradients of few maxima are added up in float32", function()
  ml.manual_seed(1)
  for _, dtype in ipairs { "bfloat16", "float16" } do
    for _, n in ipairs { 20, 401 } do
      local x = ml.randn(3, n)
      x["2, 1"], x["3, " .. n // 2 + 1] = 50.0, 60.0 -- one that two windows share, where n is odd
      local half = x:to(dtype):requires_grad_()
      local whole = half:detach():float():requires_grad_()
      local gradients = ml.randn(3, 2):to(dtype)
      local function gradient(input, g)
        local values = ml.adaptive_max_pool1d(input, 2)
        return ml.grad({ values }, { input }, { grad_outputs = { g } })
      end
      expect.truthy(gradient(half, gradients):equal(gradient(whole, gradients:float()):to(dtype)), dtype .. n)
    end
  end
end)

test("an adaptive output size of 0 gives nothing, and a gradient of zeros", function()
  for d = 1, 3 do
    for _, kind in ipairs { "avg", "max" } do
      local pool = ml.nn.functional[("adaptive_%s_pool%dd"):format(kind, d)]
      local sizes, size = { 1, 2 }, { 0 }
      for i = 1, d do sizes[i + 2] = 4 end
      for i = 2, d do size[i] = 2 end
      local x = ml.ones(sizes):requires_grad_()
      local y = pool(x, size)
      expect.equal(y.shape:totable(), table.move(size, 1, d, 3, { 1, 2 }))
      y:sum():backward()
      expect.equal(x.grad:abs():sum():item(), 0.0)
      expect.equal(pool(x, 0):numel(), 0)
      expect.error(function() return (pool(x, -1)) end, "output_size")
    end
  end
end)

harness.run()
