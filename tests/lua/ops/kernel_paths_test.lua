-- tests/lua/ops/kernel_paths_test.lua: values where a kernel goes another way than for a few elements:
-- by groups, by long rows, in the memory order of a broadcast operand.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

local function same(got, wanted)
  expect.equal(got.dtype, wanted.dtype)
  if not ml.equal(got, wanted) then expect.equal(got:totable(), wanted:totable()) end
end

local LEAST, MOST = math.mininteger, math.maxinteger

-- Each element on its own, which takes no group.
local function one_by_one(f, x, y)
  local out = {}
  for i = 1, x:numel() do out[i] = f(x[i], y[i]):item() end
  return ml.tensor(out, { dtype = "int64" })
end

test("gcd and lcm of groups are those of single numbers", function()
  local x = ml.tensor { 0, 0, 12, -12, 7, LEAST, LEAST, MOST, 1, 48, 6, 0, 35, 5, 2 }
  local y = ml.tensor { 0, 9, 18, 18, 7, LEAST, 6, MOST - 1, -1, 0, 4, -3, 21, 10, 3 }
  same(ml.gcd(x, y), one_by_one(ml.gcd, x, y))
  same(ml.lcm(x, y), one_by_one(ml.lcm, x, y))
  same(ml.gcd(x, y):narrow(1, 2, 3), ml.tensor({ 9, 6, 6 }, { dtype = "int64" }))
  ml.manual_seed(1)
  local a, b = ml.randint(-1000, 1000, { 1001 }), ml.randint(-1000, 1000, { 1001 })
  same(ml.gcd(a, b), one_by_one(ml.gcd, a, b))
  same(ml.lcm(a, b), one_by_one(ml.lcm, a, b))
end)

test("long rows of integers are sorted whatever lies between the ends", function()
  ml.manual_seed(2)
  for _, dtype in ipairs { "int8", "uint8", "int16", "int32", "int64" } do
    local low = dtype == "uint8" and 100 or -3
    local x = ml.randint(low, low + 7, { 1000 }):to(dtype)
    for _, ends in ipairs { false, true } do
      if ends and dtype == "int64" then x[17], x[500] = LEAST, MOST end
      for _, descending in ipairs { false, true } do
        local values, indices = ml.sort(x, 1, descending)
        same(x:index_select(1, indices), values)
        local ahead, behind = values:narrow(1, 1, 999), values:narrow(1, 2, 999)
        local ordered = descending and ml.ge(ahead, behind) or ml.le(ahead, behind)
        expect.truthy(ordered:all():item(), dtype)
        local stable = ml.lt(indices:narrow(1, 1, 999), indices:narrow(1, 2, 999))
        expect.truthy(ml.logical_or(stable, ml.ne(ahead, behind)):all():item(), dtype)
      end
    end
  end
end)

test("searchsorted of many values is that of each one", function()
  local nan = 0 / 0
  local sequences = { {}, { 1 }, { 1, 2, 2, 2, 5, 7 }, { -1, 0, nan, nan } }
  local values = { -3, 0, 1, 2, 2, 4, 5, 6, 7, 8, nan, 1 / 0, -1 / 0, 2, 1, 5, 0, nan, 3 }
  for _, sequence in ipairs(sequences) do
    local edges = ml.tensor(sequence, { dtype = "float32" })
    for _, right in ipairs { false, true } do
      local found = ml.searchsorted(edges, ml.tensor(values), false, right)
      for i, v in ipairs(values) do
        local before = 0
        for _, edge in ipairs(sequence) do
          local comes_before = edge < v or (right and edge == v)
          if v ~= v then comes_before = right or edge == edge end
          if comes_before then before = before + 1 end
        end
        expect.equal(found[i]:item(), before + 1)
      end
    end
  end
end)

test("the extremes of many elements know NaN and infinities of both signs", function()
  for _, dtype in ipairs { "float32", "float64", "bfloat16", "float16" } do
    local x = ml.linspace(-2, 2, 1001):to(dtype)
    expect.equal({ x:amax():item(), x:amin():item() }, { 2.0, -2.0 })
    x[3], x[700] = 1 / 0, -1 / 0
    expect.equal({ x:amax():item(), x:amin():item() }, { 1 / 0, -1 / 0 })
    for _, position in ipairs { 1, 64, 777, 1001 } do
      local y = x:clone()
      y[position] = 0 / 0
      expect.truthy(y:amax():isnan():item() and y:amin():isnan():item(), dtype)
    end
  end
end)

test("dot products of any length", function()
  for _, n in ipairs { 0, 1, 15, 64, 1000, 16384, 16385, 50000 } do
    for _, dtype in ipairs { "float32", "float64" } do
      local x = ml.arange(n):to "float64":fmod(7):to(dtype)
      local y = ml.arange(n):to "float64":fmod(5):to(dtype)
      local wanted = (x * y):sum():item()
      expect.equal(ml.dot(x, y):item(), wanted)
      expect.equal(ml.vdot(x, y):item(), wanted)
      expect.equal(ml.dot(x:flip(1), y:flip(1)):item(), wanted)
    end
  end
end)

test("complex numbers of parts that broadcast by rows", function()
  ml.manual_seed(3)
  for _, dtype in ipairs { "float32", "float64" } do
    local x, y = ml.randn(5, 300):to(dtype), ml.randn(300):to(dtype)
    for _, real in ipairs { x, x:t():contiguous():t(), x:narrow(2, 10, 291) } do
      local imaginary = y:narrow(1, 1, real:size(2))
      local z = ml.complex(real, imaginary)
      same(z.real, real)
      same(z.imag, imaginary:expand(real.shape))
    end
  end
end)

test("kron of matrices whose product is large", function()
  ml.manual_seed(4)
  local function by_einsum(a, b)
    return ml.einsum("ij,kl->ikjl", a, b):reshape(a:size(1) * b:size(1), a:size(2) * b:size(2))
  end
  for _, sizes in ipairs { { 12, 11, 9, 8 }, { 1, 80, 70, 1 }, { 3, 1, 2, 900 } } do
    local a = ml.randn(sizes[1], sizes[2]):requires_grad_()
    local b = ml.randn(sizes[3], sizes[4]):requires_grad_()
    local got, wanted = ml.kron(a, b), by_einsum(a, b)
    same(got, wanted)
    local gradient = ml.randn_like(got)
    local grads = ml.autograd.grad(got, { a, b }, gradient)
    for i, grad in ipairs(ml.autograd.grad(wanted, { a, b }, gradient)) do
      expect.near(grads[i]:totable(), grad:totable(), 1e-4)
    end
  end
  local a, b = ml.randn(2, 3, 20), ml.randn(4, 5, 60)
  same(ml.kron(a, b)[2][3][61], a[1][1][2] * b[2][3][1])
end)

test("nextafter of every 16-bit float", function()
  for _, dtype in ipairs { "bfloat16", "float16" } do
    local infinity = ml.tensor(1 / 0, { dtype = dtype })
    local most = infinity:view "int16":item()
    local bits = ml.arange(1, most - 1):to "int16"
    local x = bits:view(dtype)
    same(ml.nextafter(x, infinity):view "int16", bits + 1)
    same(ml.nextafter(x, -infinity):view "int16", bits - 1)
    same(ml.nextafter(-x, infinity), -ml.nextafter(x, -infinity))
    expect.equal(ml.nextafter(infinity, -infinity):view "int16":item(), most - 1)
  end
end)

test("flips of long and short rows, of one dimension and of several", function()
  ml.manual_seed(5)
  local shapes = { { 7 }, { 40, 1 }, { 1, 40 }, { 30, 2 }, { 30, 3 }, { 9, 4 }, { 9, 6 }, { 5, 70 },
    { 3, 4, 5 }, { 2, 1, 9 }, { 4, 3, 1, 33 } }
  for _, sizes in ipairs(shapes) do
    local x = ml.randn(sizes)
    for _, own in ipairs { x, x:transpose(1, -1):contiguous():transpose(1, -1) } do
      for pattern = 1, 2 ^ #sizes - 1 do
        local dims, wanted = {}, own
        for d = 1, #sizes do
          if pattern >> (d - 1) & 1 == 1 then
            dims[#dims + 1] = d
            wanted = wanted:index_select(d, ml.arange(sizes[d], 1, -1))
          end
        end
        same(own:flip(dims), wanted)
      end
    end
  end
  same(ml.arange(1, 200000):flip(1), ml.arange(200000, 1, -1))
end)

test("cubes, square roots and reciprocals as powers", function()
  local given = { -2, -0.0, 0, 0.1, 3, 1e30, 1 / 0, -1 / 0, 0 / 0 }
  for _, dtype in ipairs { "float32", "float64" } do
    local x = ml.tensor(given, { dtype = dtype })
    for _, exponent in ipairs { 3, 0.5, -1 } do
      -- Beside another exponent, no vector of them is all the same.
      local mixed = ml.cat { ml.stack({ x, x }, 2):flatten() }
      local exponents = ml.tensor({ exponent, 1.5 }, { dtype = dtype }):expand(#given, 2):flatten()
      local wanted = ml.pow(mixed, exponents):view { #given, 2 }:select(2, 1)
      expect.truthy(ml.isclose(x ^ exponent, wanted, 1e-7, 0, true):all():item(), dtype)
    end
  end
end)

test("softmax of every short length", function()
  ml.manual_seed(6)
  for n = 1, 40 do
    for _, dtype in ipairs { "float32", "float64" } do
      local x = (ml.randn(13, n) * 5):to(dtype):requires_grad_()
      local powers = ml.exp(x:detach())
      local wanted = powers / powers:sum(-1, true)
      local y, gradient = ml.softmax(x, -1), ml.randn(13, n):to(dtype)
      local function near(a, b) expect.truthy(ml.allclose(a, b, 1e-5, 1e-6), n .. " " .. dtype) end
      near(y:detach(), wanted)
      y:backward(gradient)
      near(x.grad, wanted * (gradient - (wanted * gradient):sum(-1, true)))
      x.grad = nil
      local logs = ml.log_softmax(x, -1)
      near(logs:detach(), wanted:log())
      logs:backward(gradient)
      near(x.grad, gradient - wanted * gradient:sum(-1, true))
    end
  end
  local rows = { { -1 / 0, 2, -1 / 0 }, { 0 / 0, 1, 2 }, { 1e30, 1e30, -1e30 } }
  local extreme = ml.softmax(ml.tensor(rows), -1)
  expect.equal(extreme[1]:totable(), { 0.0, 1.0, 0.0 })
  expect.truthy(extreme[2]:isnan():all():item())
  expect.equal(extreme[3]:totable(), { 0.5, 0.5, 0.0 })
end)

test("the positions of triangles", function()
  for rows = 0, 4 do
    for cols = 0, 4 do
      for offset = -6, 6 do
        for _, part in ipairs { "triu", "tril" } do
          local wanted = ml[part](ml.ones(rows, cols), offset):nonzero():t():contiguous()
          same(ml[part .. "_indices"](rows, cols, offset), wanted)
        end
      end
    end
  end
  expect.equal(ml.triu_indices(2, 2, math.mininteger):size(2), 4)
  expect.equal(ml.tril_indices(2, 2, math.maxinteger):size(2), 4)
  expect.error(function() ml.triu_indices(-1, 2) end, "triu_indices: %-1 rows")
  expect.error(function() ml.tril_indices(1 << 40, 1 << 20) end, "too large")
end)

test("extremes of short rows and sums of narrow columns", function()
  ml.manual_seed(7)
  for n = 1, 20 do
    local x = ml.randint(-2, 2, { 50, n }):to "float32"
    x[3][1], x[4][n] = 0 / 0, -1 / 0
    local values, positions = x:max(-1)
    for row = 1, 50 do
      local best = 1
      for i = 2, n do
        local a, b = x[row][i]:item(), x[row][best]:item()
        if a > b or (a ~= a and b == b) then best = i end
      end
      expect.equal(positions[row]:item(), best)
      expect.near(values[row]:item(), x[row][best]:item())
    end
    same(x:argmax(-1), positions)
    local columns = ml.randint(-9, 9, { 1037, n }):to "float32"
    same(columns:sum(1), columns:t():contiguous():sum(-1))
    same(columns:amax(1), columns:t():contiguous():amax(-1))
  end
end)

test("the average of a whole plane in every layout", function()
  ml.manual_seed(8)
  local x = ml.randn(2, 3, 5, 7)
  for _, own in ipairs { x, x:transpose(3, 4):contiguous():transpose(3, 4),
    x:permute(1, 3, 4, 2):contiguous():permute(1, 4, 2, 3), x[1] } do
    local y = ml.adaptive_avg_pool2d(own, { 1, 1 })
    expect.truthy(ml.allclose(y, own:mean({ -2, -1 }, true), 1e-6, 1e-6))
  end
end)

test("logsumexp of every short length", function()
  ml.manual_seed(9)
  expect.equal(ml.zeros(2, 0):logsumexp(-1):totable(), { -1 / 0, -1 / 0 })
  for n = 1, 36 do
    for _, dtype in ipairs { "float32", "float64" } do
      local x = (ml.randn(70, n) * 3):to(dtype)
      local wanted = x:to "float64":exp():sum(-1):log():to(dtype)
      for _, own in ipairs { x, x:t():contiguous():t() } do
        expect.truthy(ml.allclose(own:logsumexp(-1), wanted, 2e-6, 1e-7), n .. " " .. dtype)
      end
      x[5][n], x[6][1], x[7] = 1 / 0, 0 / 0, -1 / 0
      local y = x:logsumexp(-1)
      expect.equal({ y[5]:item(), y[7]:item() }, { 1 / 0, -1 / 0 })
      expect.truthy(y[6]:isnan():item())
      expect.truthy(ml.allclose(x:expand(3, 70, n):logsumexp { 1, 3 }[1], y[1] + math.log(3), 1e-6))
      x[1] = 1000
      expect.near(x:logsumexp(-1)[1]:item(), 1000 + math.log(n), 1e-6)
    end
  end
end)

test("triangles of narrow matrices of every size of elements", function()
  for _, dtype in ipairs { "bool", "int8", "bfloat16", "int32", "float64", "complex128" } do
    for cols = 1, 18 do
      local x = ml.ones(2, 20, cols):to(dtype)
      local row = ml.arange(1, 20):unsqueeze(2)
      local col = ml.arange(1, cols):unsqueeze(1)
      for _, diagonal in ipairs { -3, 0, 2 } do
        for _, own in ipairs { x, x:transpose(2, 3):contiguous():transpose(2, 3) } do
          local zero = ml.zeros_like(own)
          same(own:tril(diagonal), ml.where(ml.le(col - row, diagonal), own, zero))
          same(own:triu(diagonal), ml.where(ml.ge(col - row, diagonal), own, zero))
        end
      end
    end
  end
end)

harness.run()
