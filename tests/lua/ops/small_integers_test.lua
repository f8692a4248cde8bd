-- tests/lua/ops/small_integers_test.lua: ops that compute small integers as they lie in memory give what
-- int64 gives, cut to the dtype: all values, the ends of the range, any layout, numbers, masks.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect
local F = ml.nn.functional

local RANGES = { int8 = { -128, 127 }, uint8 = { 0, 255 }, int16 = { -32768, 32767 },
  int32 = { -2147483648, 2147483647 } }
local DTYPES = { "int8", "uint8", "int16", "int32" }

local function wide(x) return x:to "int64" end

local function same(got, wanted, detail)
  expect.equal(got.dtype, wanted.dtype, detail)
  expect.equal(got.shape, wanted.shape, detail)
  if not ml.equal(got, wanted) then expect.equal(got:totable(), wanted:totable(), detail) end
end

-- Small values, the ends of the range and what lies between: every pair of int8 and of uint8.
local function pairs_of(dtype)
  local low, high = table.unpack(RANGES[dtype])
  local values
  if high - low < 256 then
    values = ml.arange(low, high)
  else
    ml.manual_seed(7)
    local ends = { low, low + 1, low // 2, -2, -1, 0, 1, 2, 5, 6, 7, high // 2, high - 1, high }
    values = ml.cat { ml.tensor(ends), ml.randint(low, high, { 87 }), ml.randint(-9, 9, { 20 }) }
  end
  local n = values:numel()
  local x = values:view(n, 1):expand(n, n):contiguous():view(-1):to(dtype)
  local y = values:expand(n, n):contiguous():view(-1):to(dtype)
  return x, y
end

local function nonzero(y) return y:masked_fill(y:eq(0), 1) end

local UNARY = {
  divided = function(x) return x:floor_divide(7) end, rest = function(x) return x:remainder(7) end,
  shifted = function(x) return ml.bitwise_left_shift(x, 3) end,
  neg = ml.neg, abs = ml.abs, square = ml.square, sign = ml.sign, bitwise_not = ml.bitwise_not,
  relu = ml.relu, relu6 = F.relu6, logical_not = ml.logical_not,
  hardtanh = function(x) return F.hardtanh(x, 1, 5) end,
  threshold = function(x) return F.threshold(x, 3, 7) end,
  add_number = function(x) return x + 100 end, sub_number = function(x) return 100 - x end,
  mul_number = function(x) return x * 3 end, eq_number = function(x) return x:eq(5) end,
  lt_number = function(x) return x:lt(5) end, maximum_number = function(x) return ml.clamp_min(x, 4) end,
  clamp = function(x) return x:clamp(2, 100) end, clamp_max = function(x) return x:clamp_max(100) end,
}
local BINARY = {
  add = ml.add, sub = ml.sub, mul = ml.mul, bitwise_and = ml.bitwise_and, bitwise_or = ml.bitwise_or,
  bitwise_xor = ml.bitwise_xor, maximum = ml.maximum, minimum = ml.minimum, fmax = ml.fmax, fmin = ml.fmin,
  eq = ml.eq, ne = ml.ne, lt = ml.lt, le = ml.le, gt = ml.gt, ge = ml.ge, logical_and = ml.logical_and,
  logical_or = ml.logical_or, logical_xor = ml.logical_xor,
  add_scaled = function(x, y) return ml.add(x, y, { alpha = 3 }) end,
  sub_scaled = function(x, y) return ml.sub(x, y, { alpha = 2 }) end,
  addcmul = function(x, y) return ml.addcmul(x, x, y, { value = 3 }) end,
  bitwise_left_shift = ml.bitwise_left_shift, bitwise_right_shift = ml.bitwise_right_shift,
  floor_divide = function(x, y) return ml.floor_divide(x, nonzero(y)) end,
  trunc_divide = function(x, y) return ml.div(x, nonzero(y), { rounding_mode = "trunc" }) end,
  remainder = function(x, y) return ml.remainder(x, nonzero(y)) end,
  fmod = function(x, y) return ml.fmod(x, nonzero(y)) end,
  where = function(x, y) return ml.where(x:lt(y), y, x) end,
  where_number = function(x, y) return ml.where(x:lt(y), x, 9) end,
  masked_fill = function(x, y) return x:masked_fill(y:gt(x), 3) end,
}

-- What int64 gives, cut to the dtype; truth stays truth.
local function expected(f, dtype, ...)
  local out = f(...)
  return out.dtype == ml.bool and out or out:to(dtype)
end

for _, dtype in ipairs(DTYPES) do
  test(dtype .. " gives what int64 gives, cut to the dtype", function()
    local x, y = pairs_of(dtype)
    for name, f in pairs(UNARY) do same(f(x), expected(f, dtype, wide(x)), name) end
    for name, f in pairs(BINARY) do same(f(x, y), expected(f, dtype, wide(x), wide(y)), name) end
  end)

  test(dtype .. " in other layouts", function()
    local x, y = pairs_of(dtype)
    x, y = x:narrow(1, 1, 1012), y:narrow(1, 1001, 1012)
    local turned = x:view(44, 23):transpose(1, 2)
    local row, strided = y:narrow(1, 1, 44), y:view(506, 2):select(2, 1):narrow(1, 1, 44)
    for name, f in pairs(BINARY) do
      same(f(turned, row), expected(f, dtype, wide(turned), wide(row)), name)
      same(f(turned, strided), expected(f, dtype, wide(turned), wide(strided)), name)
      for n = 0, 9 do
        local a, b = x:narrow(1, 2, n), y:narrow(1, 3, n)
        same(f(a, b), expected(f, dtype, wide(a), wide(b)), name)
      end
    end
  end)

  test(dtype .. " has the extremes of int64", function()
    local x = pairs_of(dtype):narrow(1, 1, 9900)
    local table_of = x:view(99, 100)
    for _, name in ipairs { "amax", "amin" } do
      same(x[name](x), expected(ml[name], dtype, wide(x)), name)
      for dim = 1, 2 do
        same(ml[name](table_of, dim), expected(ml[name], dtype, wide(table_of), dim), name)
        local turned = table_of:transpose(1, 2)
        same(ml[name](turned, dim), expected(ml[name], dtype, wide(turned), dim), name)
      end
      for n = 1, 70 do
        local part = x:narrow(1, 7, n)
        same(ml[name](part), expected(ml[name], dtype, wide(part)), name)
      end
    end
    local least, largest = ml.aminmax(x)
    same(least, wide(x):amin():to(dtype))
    same(largest, wide(x):amax():to(dtype))
  end)

  test(dtype .. " refuses to divide by zero, wherever it is", function()
    local x = pairs_of(dtype)
    for _, at in ipairs { 1, 2, 9000, x:numel() } do
      local y = ml.ones_like(x)
      y[at] = 0
      for _, name in ipairs { "floor_divide", "remainder", "fmod" } do
        expect.error(function() ml[name](x, y) end, "integer division by zero")
      end
    end
    expect.error(function() x:floor_divide(0) end, "integer division by zero")
    same(x:floor_divide(1), x)
  end)

  test(dtype .. " in position and into a tensor of another dtype", function()
    local x, y = pairs_of(dtype)
    local sum = x:clone()
    sum:add_(y):mul_(3)
    same(sum, ((wide(x) + wide(y)) * 3):to(dtype))
    local larger = x:clone()
    larger:maximum_(y)
    same(larger, ml.where(wide(x):lt(wide(y)), y, x))
    local out = ml.empty(x.shape, { dtype = "int64" })
    ml.mul(x, y, { out = out })
    same(out, wide(x) * wide(y))
    local truth = ml.empty(x.shape, { dtype = "float32" })
    ml.lt(x, y, { out = truth })
    same(truth, wide(x):lt(wide(y)):to "float32")
  end)

  test(dtype .. " beside numbers and dtypes that it does not hold", function()
    local x = pairs_of(dtype)
    local beyond = 1 << 40
    expect.truthy(x:lt(beyond):all():item())
    expect.truthy(x:gt(-beyond):all():item())
    expect.falsy(x:eq(beyond + 1):any():item())
    same(x + 1000, (wide(x) + 1000):to(dtype))
    same(x * (beyond + 3), (wide(x) * (beyond + 3)):to(dtype))
    expect.error(function() x:masked_fill(x:gt(0), beyond) end, "masked_fill")
    local y = ml.ones(x.shape, { dtype = "int64" })
    same(x * y, wide(x))
    same(x:lt(y), wide(x):lt(y))
    local mask = x:gt(3)
    same(x + mask, (wide(x) + wide(mask)):to(dtype))
    same(x:eq(mask), wide(x):eq(wide(mask)))
  end)
end

test("bools stay 0 and 1", function()
  local x = ml.tensor { false, false, true, true }:repeat_interleave(300)
  local y = ml.tensor { false, true, false, true }:repeat_interleave(300)
  for _, name in ipairs { "bitwise_and", "bitwise_or", "bitwise_xor", "maximum", "minimum", "eq", "ne", "lt",
    "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "add", "mul" } do
    local got = ml[name](x, y)
    same(got, ml[name](wide(x), wide(y)):ne(0), name)
    same(wide(got), wide(got):ne(0):to "int64", name)
  end
  same(ml.logical_not(x), wide(x):eq(0))
  same(ml.bitwise_not(x), wide(x):eq(0))
  same(ml.where(x, y, x), (wide(x) * wide(y)):ne(0))
  same(ml.where(x, y, true), ml.logical_or(ml.logical_not(x), y))
  same(x:masked_fill(y, true), ml.logical_or(x, y))
end)

harness.run()
