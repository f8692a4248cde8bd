-- tests/lua/ops/conv_test.lua: convolutions in one to three dimensions and their gradients beside sums
-- over windows that slices give, over dtypes, layouts and sizes.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

-- The convolution without a bias as the sum of what each tap of the filters adds.
local function by_slices(x, w, c)
  local dims, borders = #c.stride, {}
  for d = dims, 1, -1 do
    for _ = 1, 2 do borders[#borders + 1] = c.padding[d] end
  end
  x = ml.pad(x, borders)
  local function seen(taps)
    local index = { {}, {} }
    for d = 1, dims do
      local from = 1 + (taps[d] - 1) * c.dilation[d]
      local room = x.shape[2 + d] - c.dilation[d] * (w.shape[2 + d] - 1)
      index[2 + d] = { from, from + (room - 1) // c.stride[d] * c.stride[d], c.stride[d] }
    end
    return x[index]
  end
  local sum
  local taps = {}
  local function each(d)
    if d <= dims then
      for k = 1, w.shape[2 + d] do
        taps[d] = k
        each(d + 1)
      end
      return
    end
    local parts, part = {}, seen(taps)
    local inner, outer = w.shape[2], w.shape[1] // c.groups
    for g = 1, c.groups do
      local filter = w[{ { (g - 1) * outer + 1, g * outer }, {}, table.unpack(taps) }]
      local channels = part[{ {}, { (g - 1) * inner + 1, g * inner } }]
      parts[g] = ml.movedim(ml.tensordot(filter, channels, { { 2 }, { 2 } }), 1, 2)
    end
    local all = ml.cat(parts, 2)
    sum = sum and sum + all or all
  end
  each(1)
  return sum
end

-- x with its elements in another order in memory.
local layouts = {
  plain = function(x) return x:clone() end,
  transposed = function(x) return x:transpose(-1, -2):contiguous():transpose(-1, -2) end,
  channels_inside = function(x) return x:movedim(2, -1):contiguous():movedim(-1, 2) end,
  every_other = function(x) return ml.stack({ x, x }, -1):select(-1, 1) end,
}

local function case(x, w, stride, padding, dilation, groups)
  return { x = x, w = w, stride = stride, padding = padding, dilation = dilation, groups = groups }
end

local CASES = {
  case({ 2, 3, 9 }, { 4, 3, 3 }, { 1 }, { 1 }, { 1 }, 1),
  case({ 3, 4, 40 }, { 6, 2, 5 }, { 3 }, { 7 }, { 2 }, 2),
  case({ 1, 8, 700 }, { 8, 1, 3 }, { 1 }, { 1 }, { 1 }, 8),
  case({ 2, 3, 7, 6 }, { 4, 3, 3, 2 }, { 1, 2 }, { 1, 0 }, { 1, 2 }, 1),
  case({ 2, 16, 9, 10 }, { 16, 16, 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1),
  case({ 1, 16, 9, 10 }, { 24, 16, 1, 1 }, { 2, 2 }, { 0, 0 }, { 1, 1 }, 1),
  case({ 1, 24, 30, 28 }, { 24, 1, 3, 3 }, { 2, 1 }, { 1, 2 }, { 1, 1 }, 24),
  case({ 3, 16, 20, 20 }, { 32, 16, 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1),
  case({ 2, 2, 4, 5, 6 }, { 4, 1, 2, 3, 3 }, { 1, 2, 1 }, { 1, 0, 2 }, { 2, 1, 1 }, 2),
  case({ 2, 16, 7, 8, 9 }, { 8, 16, 3, 3, 3 }, { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 }, 1),
  case({ 1, 8, 6, 5, 9 }, { 8, 1, 3, 2, 3 }, { 2, 1, 2 }, { 0, 1, 1 }, { 1, 1, 1 }, 8),
  -- Few channels from many.
  case({ 2, 18, 40 }, { 2, 18, 5 }, { 1 }, { 3 }, { 2 }, 1),
  case({ 2, 16, 9, 10 }, { 3, 16, 3, 2 }, { 1, 1 }, { 1, 0 }, { 1, 2 }, 1),
  case({ 2, 32, 8, 8 }, { 1, 32, 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1),
  case({ 1, 16, 8, 8 }, { 1, 16, 3, 3 }, { 1, 1 }, { 3, 3 }, { 1, 1 }, 1),
  case({ 2, 16, 5, 6, 7 }, { 2, 16, 3, 3, 2 }, { 1, 1, 1 }, { 1, 0, 1 }, { 1, 1, 1 }, 1),
  case({ 2, 3, 5, 4, 4 }, { 2, 3, 1, 1, 1 }, { 1, 1, 1 }, { 0, 0, 0 }, { 1, 1, 1 }, 1),
}

-- The 16-bit types round each operand and the result.
local TOLERANCES = { float64 = 1e-11, float32 = 2e-5, float16 = 4e-3, bfloat16 = 3e-2 }

local function near(got, wanted, tolerance, what)
  expect.equal(tostring(got.shape), tostring(wanted.shape), what)
  local scale = math.max(1, wanted:abs():max():item())
  local difference = (got:double() - wanted):abs():max():item()
  if not (difference <= tolerance * scale) then
    error(("%s: off by %g of %g"):format(what, difference, scale))
  end
end

-- The convolution of a case, its gradients, and the transposed one of the result, by `call`.
local function check_case(c, dtype, layout)
  local what = ("%s %s %s %s"):format(table.concat(c.x, "x"), table.concat(c.w, "x"), dtype, layout)
  ml.manual_seed(5)
  local x = ml.randn(c.x, { dtype = dtype }):double():requires_grad_()
  local w = ml.randn(c.w, { dtype = dtype }):double():requires_grad_()
  local b = ml.randn({ c.w[1] }, { dtype = dtype }):double():requires_grad_()
  local columns = { c.w[1] }
  for d = 1, #c.stride do columns[1 + d] = 1 end
  local y = by_slices(x, w, c) + b:reshape(columns)
  local g = ml.randn(y.shape:totable(), { dtype = dtype }):double()
  local wanted = { ml.grad(y, { x, w, b }, { grad_outputs = g }) }

  local function given(t) return layouts[layout](t:detach()):to(ml[dtype]):requires_grad_() end
  local x2, w2, b2 = given(x), given(w), b:detach():to(ml[dtype]):requires_grad_()
  local name = ("conv%dd"):format(#c.stride)
  local y2 = ml[name](x2, w2, b2, c.stride, c.padding, c.dilation, c.groups)
  local gradient = layouts[layout](g):to(ml[dtype])
  local got = { ml.grad(y2, { x2, w2, b2 }, { grad_outputs = gradient }) }
  local tolerance = TOLERANCES[dtype]
  near(y2:detach(), y:detach(), tolerance, what)
  for i, argument in ipairs { "x", "weight", "bias" } do
    near(got[i], wanted[i], tolerance, what .. ", gradient of " .. argument)
  end

  local more = {}
  for d = 1, #c.stride do
    local reach = c.dilation[d] * (c.w[2 + d] - 1) + 1
    more[d] = (c.x[2 + d] + 2 * c.padding[d] - reach) % c.stride[d]
  end
  local offset = ml.randn({ c.x[2] }, { dtype = dtype })
  columns[1] = c.x[2]
  local back = ml["conv_transpose" .. #c.stride .. "d"](gradient, w2:detach(), offset, c.stride, c.padding,
    more, c.groups, c.dilation)
  near(back, wanted[1] + offset:double():reshape(columns), tolerance, what .. ", transposed")
end

for dims = 1, 3 do
  test(("conv%dd and its gradients are sums over windows"):format(dims), function()
    for _, c in ipairs(CASES) do
      if #c.stride == dims then
        for dtype in pairs(TOLERANCES) do
          for layout in pairs(layouts) do check_case(c, dtype, layout) end
        end
      end
    end
  end)
end

test("expanded inputs are as good as others", function()
  local x, w = ml.randn(1, 1, 6, 7):expand(2, 4, 6, 7), ml.randn(1, 1, 3, 3):expand(8, 4, 3, 3)
  local b = ml.randn(1):expand(8)
  local wanted = ml.conv2d(x:contiguous(), w:contiguous(), b:contiguous())
  expect.near(ml.conv2d(x, w, b):reshape(-1):tolist(), wanted:reshape(-1):tolist(), 1e-5)
  local y = ml.conv_transpose3d(ml.ones(1, 1, 1, 1, 1):expand(1, 2, 3, 3, 3), ml.ones(2, 3, 1, 1, 1), b[{ { 1, 3 } }])
  expect.near(y[1][2]:reshape(-1):tolist(), (ml.full({ 27 }, 2) + b[1]):tolist(), 1e-6)
end)

test("a convolution of volumes follows their memory format", function()
  local x, w = ml.randn(2, 4, 5, 6, 3), ml.randn(8, 4, 3, 3, 3)
  local function run(input, filters)
    input = input:clone():requires_grad_()
    local y = ml.conv3d(input, filters, nil, 1, 1)
    return y, ml.grad(y, { input }, { grad_outputs = ml.ones_like(y) })
  end
  local y, g = run(x, w)
  expect.truthy(y:is_contiguous())
  for _, pair in ipairs { { x:contiguous "channels_last_3d", w }, { x, w:contiguous "channels_last_3d" } } do
    local y2, g2 = run(pair[1], pair[2])
    expect.truthy(y2:is_contiguous "channels_last_3d")
    expect.near(y2:reshape(-1):tolist(), y:reshape(-1):tolist(), 1e-4)
    expect.near(g2:reshape(-1):tolist(), g:reshape(-1):tolist(), 1e-4)
  end
end)

test("NaN and infinity stay in the windows that see them", function()
  for _, size in ipairs { { 1, 1, 8, 8 }, { 4, 16, 8, 8 } } do
    local x = ml.zeros(size)
    x[1][1][2][2] = 0 / 0
    x[1][1][7][7] = math.huge
    local y = ml.conv2d(x, ml.ones(8, size[2], 3, 3))
    expect.equal(y:isnan():sum():item(), 8 * 4)
    expect.equal(y:isinf():sum():item(), 8 * 4)
  end
end)

test("second derivatives of a convolution of volumes", function()
  local x = ml.randn({ 1, 2, 3, 3, 4 }, { dtype = ml.float64, requires_grad = true })
  local w = ml.randn({ 2, 2, 2, 2, 2 }, { dtype = ml.float64, requires_grad = true })
  local function gradient(input)
    local y = ml.conv3d(input, w, nil, 1, 1)
    return ml.grad((y * y * y):sum(), { input }, { create_graph = true })
  end
  local v = ml.randn({ 1, 2, 3, 3, 4 }, { dtype = ml.float64 })
  local second = ml.grad((gradient(x) * v):sum(), { x })
  local step = 1e-5
  local function at(t) return gradient((x + v * t):detach():requires_grad_()):detach() end
  local wanted = (at(step) - at(-step)) / (2 * step)
  expect.near(second:reshape(-1):tolist(), wanted:reshape(-1):tolist(), 1e-5)
end)

harness.run()
