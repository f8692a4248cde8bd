-- tests/lua/cuda/cuda_skinny_test.lua: products of a matrix with up to eight vectors on CUDA: every
-- layout, dtype, batch and bias against the CPU, pieces of the depth, rounding that depends neither
-- on where a matrix lies nor on settings, and that results repeat. Skips without a device.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local checks = require "device_checks"
local emulated = require "emulated"
local on_device, draw = checks.on_device, checks.draw

local FLOATS = { "float16", "bfloat16", "float32", "float64" }

-- Of sums of `depth` products, in the dtype's rounding.
local TOLERANCE = { float16 = 2e-3, bfloat16 = 1.6e-2, float32 = 2e-6, float64 = 1e-14 }

-- As close as the tolerance times the size that such sums have: results near 0 are of large terms.
local function near(what, got, want, depth)
  if got.shape ~= want.shape or got.dtype ~= want.dtype then
    error(("%s: %s %s, want %s %s"):format(what, got.dtype, got.shape, want.dtype, want.shape), 0)
  end
  local off = (got:to "cpu":to "float64" - want:to "float64"):abs():amax():item()
  local most = TOLERANCE[tostring(got.dtype)] * 4 * math.sqrt(depth)
  if not (off <= most) then error(("%s: differs by %g, at most %g"):format(what, off, most), 0) end
end

local function identical(what, got, want)
  if not got:equal(want) then error(what .. ": other bits", 0) end
end

-- The exact product of what the dtype holds.
local function reference(a, b)
  return a:to "cpu":to "float64":matmul(b:to "cpu":to "float64"):to(a.dtype)
end

-- x on the device, dense along its last dimension or the one before, from `offset` elements on.
local function laid(x, turned, offset)
  local source = turned and x:transpose(-2, -1) or x
  local store = ml.full({ x:numel() + offset }, 7, { dtype = x.dtype, device = "cuda" })
  local view = store:narrow(1, offset + 1, x:numel()):view(source.shape)
  view:copy_(source)
  return turned and view:transpose(-2, -1) or view
end

local function check_layouts(dtype, m, k, n, batch)
  local first, second = { m, k }, { k, n }
  if batch then
    first, second = { batch, m, k }, { batch, k, n }
  end
  local a, b = draw(first, dtype), draw(second, dtype)
  local want = reference(a, b)
  for bits = 0, 3 do
    local turned_a, turned_b = bits & 1 ~= 0, bits & 2 ~= 0
    local what = ("%s (%d, %d) x (%d, %d), batch %s, layout %d"):format(dtype, m, k, k, n, batch, bits)
    local x, y = laid(a, turned_a, 0), laid(b, turned_b, 0)
    local plain = x:matmul(y)
    near(what, plain, want, k)
    identical(what .. " again", x:matmul(y), plain)
    for _, offsets in ipairs { { 1, 0 }, { 0, 3 } } do
      identical(what .. ", elements on", laid(a, turned_a, offsets[1]):matmul(laid(b, turned_b, offsets[2])), plain)
    end
  end
end

on_device("few rows or columns, in every layout and dtype", function()
  for _, dtype in ipairs(FLOATS) do
    for few = 1, 8 do check_layouts(dtype, few, 64 + 8 * few, 37, nil) end
    check_layouts(dtype, 5, 77, 131, nil)
    check_layouts(dtype, 131, 77, 3, nil)
    check_layouts(dtype, 64, 200, 8, nil)
    check_layouts(dtype, 6, 640, 9, nil)
    check_layouts(dtype, 1, 64, 1, nil)
  end
end)

on_device("batches", function()
  for _, dtype in ipairs(FLOATS) do
    check_layouts(dtype, 1, 64, 40, 6)
    check_layouts(dtype, 20, 72, 3, 5)
    check_layouts(dtype, 2, 70, 2, 3)
  end
  local a, b = draw({ 3, 90 }, "float32"), draw({ 4, 90, 21 }, "float32")
  check_layouts("float32", 600, 512, 3, nil)  -- so large that it pays to copy the vectors
  near("a batch of one matrix", a:cuda():expand(4, 3, 90):bmm(b:cuda()), reference(a:expand(4, 3, 90), b), 90)
end)

on_device("a depth in pieces", function()
  for _, dtype in ipairs(FLOATS) do
    check_layouts(dtype, 1, 9000, 3, nil)
    check_layouts(dtype, 3, 5001, 6, nil)
  end
  local a, b = draw({ 30011 }, "float32"), draw({ 30011 }, "float32")
  local want = reference(a, b)
  near("dot", a:cuda():dot(b:cuda()), want, 30011)
  near("mv", a:cuda():view(1, -1):mv(b:cuda()), want:view(1), 30011)
end)

on_device("linear with a bias, and sums with what was there", function()
  for _, dtype in ipairs(FLOATS) do
    for _, sizes in ipairs { { 1, 128, 50 }, { 3, 100, 17 }, { 8, 64, 9 }, { 40, 96, 5 }, { 2, 8200, 4 } } do
      local rows, depth, outs = table.unpack(sizes)
      local x, w, b = draw({ rows, depth }, dtype), draw({ outs, depth }, dtype), draw({ outs }, dtype)
      local what = ("%s %d x %d to %d"):format(dtype, rows, depth, outs)
      local exact = x:to "float64":matmul(w:to "float64":t())
      local strided = ml.zeros({ outs, 3 }, { dtype = dtype, device = "cuda" }):select(2, 2)
      strided:copy_(b)
      for _, bias in ipairs { b:cuda(), strided } do
        near(what, ml.nn.functional.linear(x:cuda(), w:cuda(), bias), (exact + b:to "float64"):to(dtype), depth)
      end
      local c = draw({ rows, outs }, dtype)
      near(what .. " addmm", ml.addmm(c:cuda(), x:cuda(), w:cuda():t(), { alpha = 0.5, beta = -2 }),
        (exact * 0.5 - c:to "float64" * 2):to(dtype), depth)
    end
  end
end)

on_device("results into columns of another tensor", function()
  local a, b = draw({ 4, 100 }, "float32"), draw({ 100, 30 }, "float32")
  local store = ml.full({ 30, 4 }, 9, { dtype = "float32", device = "cuda" })
  ml.mm(a:cuda(), b:cuda(), { out = store:t() })
  near("out", store:t(), reference(a, b), 100)
end)

on_device("infinities and NaN stay with their rows", function()
  local x, w = ml.ones(2, 70), ml.ones(5, 70)
  x[2][70], w[3][1] = math.huge, 0 / 0
  for _, dtype in ipairs(FLOATS) do
    for _, turned in ipairs { false, true } do
      local y = laid(x:to(dtype), false, 0):matmul(laid(w:to(dtype), turned, 1):t()):cpu():to "float32"
      for i = 1, 2 do
        for o = 1, 5 do
          local got, want = y[i][o]:item(), o == 3 and "nan" or i == 2 and math.huge or 70
          if not (want == "nan" and got ~= got or got == want) then
            error(("%s: %s at (%d, %d), want %s"):format(dtype, got, i, o, want), 0)
          end
        end
      end
    end
  end
end)

on_device("times 0 the factors do not count", function()
  local nan = ml.full({ 2, 70 }, 0 / 0, { device = "cuda" })
  local c = ml.addmm(ml.ones(2, 3):cuda(), nan, ml.ones(70, 3):cuda(), { alpha = 0 })
  harness.expect.equal(c:sum():item(), 6)
end)

on_device("TF32 leaves these as exact as they are, others not", function()
  local x, w = ml.randn(4, 512):cuda(), ml.randn(256, 512):cuda()
  local exact = x:matmul(w:t())
  local before = ml.get_float32_matmul_precision()
  ml.set_float32_matmul_precision "high"
  local fast = x:matmul(w:t())
  ml.set_float32_matmul_precision(before)
  identical("with TF32", fast, exact)
  near("float32", exact, reference(x, w:t()), 512)
end)

-- A kernel fails, which a product by cuBLAS has none of.
emulated.test("which products they are", function()
  local script = [[
    local function product(m, k, n)
      local a, b = ml.ones(m, k):cuda(), ml.ones(n, k):cuda():t()
      say(function() a:mm(b); ml.cuda.synchronize() end)
    end
    product(%d, %d, %d)
  ]]
  for _, case in ipairs {
    { 8, 64, 9, true }, { 9, 64, 8, true }, { 1, 64, 1, true }, { 9, 64, 9, false }, { 8, 63, 9, false },
  } do
    local text = emulated.output("MOONLET_EMULATED_FAILING_KERNEL=1", script:format(table.unpack(case)))
    local what = ("(%d, %d) x %d: %s"):format(case[1], case[2], case[3], text)
    if (text ~= "fine\n") ~= case[4] then error(what, 0) end
  end
end)

on_device("gradients", function()
  for _, dtype in ipairs { "float32", "float64" } do
    local x, w, b = draw({ 3, 80 }, dtype), draw({ 70, 80 }, dtype), draw({ 70 }, dtype)
    local grads = {}
    for i, device in ipairs { "cpu", "cuda" } do
      local given = {}
      for j, t in ipairs { x, w, b } do given[j] = t:to(device):detach():requires_grad_() end
      ml.nn.functional.linear(table.unpack(given)):sin():sum():backward()
      grads[i] = { given[1].grad, given[2].grad, given[3].grad }
    end
    for j = 1, 3 do near(dtype .. " gradient", grads[2][j], grads[1][j], 80) end
  end
end)

harness.run()
