-- tests/lua/tensor/storage_dtypes_test.lua: dtypes of storage (uint16, uint32, uint64 and 8-bit floats):
-- every code, conversion both ways, limits, promotion, what moves elements, comparison, printing, files,
-- what is computed and what is refused, on the CPU and on CUDA.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local test, expect = harness.test, harness.expect

local UNSIGNED = { "uint16", "uint32", "uint64" }
local FLOAT8 = { "float8_e4m3fn", "float8_e5m2" }
local ALL = { "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2" }

local function codes(dtype)
  return ml.arange(0, 255):to "uint8":view(dtype)
end

-- The value of a code by the definition of its format.
local function value_of(code, dtype)
  local mantissa, bias = 3, 7
  if dtype == "float8_e5m2" then mantissa, bias = 2, 15 end
  local exponent, fraction = (code & 0x7f) >> mantissa, code & (1 << mantissa) - 1
  local sign = code >= 0x80 and -1.0 or 1.0
  if dtype == "float8_e4m3fn" and code & 0x7f == 0x7f then return 0 / 0 end
  if dtype == "float8_e5m2" and exponent == 31 then return fraction == 0 and sign * math.huge or 0 / 0 end
  local digits = fraction / (1 << mantissa) + (exponent > 0 and 1 or 0)
  return sign * digits * 2.0 ^ (math.max(exponent, 1) - bias)
end

test("all codes of the 8-bit floats have the values of their definition", function()
  for _, dtype in ipairs(FLOAT8) do
    local x = codes(dtype)
    for _, wide in ipairs { "float32", "float64", "float16", "bfloat16" } do
      local got = x:to(wide):to("float64"):tolist()
      for code = 0, 255 do
        local want, given = value_of(code, dtype), got[code + 1]
        if want ~= want then
          expect.truthy(given ~= given, ("%s %d"):format(dtype, code))
        else
          expect.equal(given, want, ("%s %d as %s"):format(dtype, code, wide))
          expect.equal(1 / given, 1 / want, "the sign of zero")
        end
      end
      -- And back: NaN has several codes, all others come again.
      local back, number = x:to(wide):to(dtype):view "uint8", x:to("float32"):isnan():logical_not()
      expect.truthy(back[number]:equal(codes(dtype):view("uint8")[number]), dtype .. " from " .. wide)
    end
    expect.equal(x:tolist()[2], value_of(1, dtype))
    expect.equal(x[2]:item(), value_of(1, dtype))
  end
end)

test("numbers round to the nearest 8-bit float, ties to even codes", function()
  for _, dtype in ipairs(FLOAT8) do
    local last = dtype == "float8_e5m2" and 0x7b or 0x7e
    local given, want = {}, {}
    local function add(x, code)
      given[#given + 1], want[#want + 1] = x, code
      given[#given + 1], want[#want + 1] = -x, code | 0x80
    end
    for code = 0, last - 1 do
      local low, high = value_of(code, dtype), value_of(code + 1, dtype)
      add(low, code)
      add((low + high) / 2, code + code % 2)
      add(low + (high - low) * 0.49, code)
      add(low + (high - low) * 0.51, code + 1)
    end
    -- e4m3fn has no infinity: what is too large is its largest number, as in PyTorch.
    local beyond = dtype == "float8_e5m2" and 0x7c or 0x7e
    for _, x in ipairs { 1e6, 3e38, math.huge } do add(x, beyond) end
    local halfway = dtype == "float8_e5m2" and 61440.0 or 464.0
    add(halfway, beyond)
    add(halfway * 0.999, last)
    for _, from in ipairs { "float32", "float64" } do
      local got = ml.tensor(given, { dtype = from }):to(dtype):view "uint8":tolist()
      for i = 1, #want do expect.equal(got[i], want[i], ("%s %.17g"):format(dtype, given[i])) end
    end
    expect.equal(ml.tensor { 0 / 0 }:abs():to(dtype):view("uint8"):item(), 0x7f)
    expect.equal(ml.tensor({ 3, -2 }):to(dtype):to("int64"):tolist(), { 3, -2 })
    expect.equal(ml.tensor({ true, false }):to(dtype):tolist(), { 1, 0 })
    expect.equal(ml.full({ 2 }, 2.7, { dtype = dtype }):tolist(), dtype == "float8_e5m2" and { 2.5, 2.5 } or { 2.75, 2.75 })
  end
end)

test("unsigned integers convert as PyTorch's", function()
  local numbers = { -1.5, -1.0, 70000, 5e9 }
  local want = { uint16 = { 65535, 65535, 4464, 0x2a05f200 & 0xffff },
    uint32 = { 4294967295, 4294967295, 70000, 705032704 }, uint64 = { 2.0 ^ 64, 2.0 ^ 64, 70000, 5000000000 } }
  for _, dtype in ipairs(UNSIGNED) do
    for _, from in ipairs { "float64", "float32" } do
      expect.equal(ml.tensor(numbers, { dtype = from }):to(dtype):tolist(), want[dtype], dtype)
    end
    expect.equal(ml.tensor({ 0 / 0 }):to(dtype):tolist(), { 0 })
    expect.equal(ml.tensor({ -1, 3 }):to(dtype):to("int64"):tolist(),
      { ({ uint16 = 65535, uint32 = 4294967295, uint64 = -1 })[dtype], 3 })
    expect.equal(ml.tensor({ 0, 7, 65535 }):to(dtype):to("float64"):tolist(), { 0, 7, 65535 })
    expect.equal(ml.tensor({ 0, 7, 65535 }):to(dtype):to("uint8"):tolist(), { 0, 7, 255 })
    expect.equal(ml.tensor({ 0, 7 }):to(dtype):to("bool"):tolist(), { false, true })
    expect.equal(ml.tensor({ 0, 7 }):to(dtype):to("complex64").real:tolist(), { 0, 7 })
  end
  -- Beyond int64.
  expect.equal(ml.tensor({ { 1.8e19, 5 } }, { dtype = "uint64" }):view("int64"):tolist(),
    { { math.tointeger(1.8e19 - 2.0 ^ 64), 5 } })
  expect.equal(ml.tensor(ml.iinfo("uint64").max, { dtype = "uint64" }):view("int64"):item(), -1)
  expect.error(function() ml.tensor({ -1 }, { dtype = "uint64" }) end, "does not fit dtype uint64")
  expect.error(function() ml.tensor({ 65536 }, { dtype = "uint16" }) end, "does not fit dtype uint16")
  expect.error(function() ml.full({ 2 }, 2.0 ^ 65, { dtype = "uint64" }) end, "does not fit dtype uint64")
  local large = ml.tensor({ 2.0 ^ 63, 1.8e19, 1e30, 2.0 ^ 64 - 2048 }, { dtype = "float64" }):to "uint64"
  expect.equal(tostring(large), "{ 9223372036854775808, 18000000000000000000, 18446744073709551615,\n"
    .. " 18446744073709549568}\nTensor (4,) uint64")
  expect.equal(large:view("int64"):tolist()[1], math.mininteger)
  expect.equal(large:to("float64"):tolist(), { 2.0 ^ 63, 1.8e19, 2.0 ^ 64, 2.0 ^ 64 - 2048 })
  expect.equal(large:to("float32"):tolist()[1], 2.0 ^ 63)
  expect.equal(large:to("complex128").real:tolist()[2], 1.8e19)
  expect.equal(large:to("bfloat16"):to("float64"):tolist()[1], 2.0 ^ 63)
  expect.equal(large:to("uint32"):tolist()[4], 4294965248)
  expect.equal(ml.tensor({ 70000 }):to("uint32"):to("uint16"):tolist(), { 4464 })
end)

-- Strided and repeated elements take other ways than dense ones.
test("conversions agree for every pair and layout", function()
  local others = { "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
    "complex64", "complex128", table.unpack(ALL) }
  local base = ml.tensor { 0, 1, 2, 3, 5, 7, 100, 64, 96, 12, 14, 3 }
  for _, from in ipairs(others) do
    for _, to in ipairs(others) do
      local x = base:to(from)
      local want = x:to(to)
      local what = from .. " to " .. to
      expect.equal(want.dtype, to)
      expect.truthy(x:view(3, 4):t():to(to):t():contiguous():view(-1):view("uint8"):equal(want:view "uint8"), what)
      expect.truthy(x["::2"]:to(to):contiguous():view("uint8"):equal(want["::2"]:contiguous():view "uint8"), what)
      local long = x:repeat_interleave(100):to(to):view("uint8")
      expect.truthy(long:equal(want:repeat_interleave(100):view "uint8"), what)
      local repeated = x[3]:expand(40):to(to):contiguous():view "uint8"
      expect.truthy(repeated:equal(want[3]:expand(40):contiguous():view "uint8"), what)
    end
  end
end)

test("limits, kinds and names", function()
  local e4, e5 = ml.finfo(ml.float8_e4m3fn), ml.finfo "float8_e5m2"
  expect.equal({ e4.max, e4.min, e4.eps, e4.tiny, e4.smallest_normal, e4.resolution, e4.bits, e4.dtype },
    { 448, -448, 0.125, 0.015625, 0.015625, 1, 8, "float8_e4m3fn" })
  expect.equal({ e5.max, e5.min, e5.eps, e5.tiny, e5.resolution, e5.bits },
    { 57344, -57344, 0.25, 6.103515625e-05, 1, 8 })
  expect.equal({ ml.finfo("float16").resolution, ml.finfo("bfloat16").resolution, ml.finfo("float32").resolution,
    ml.finfo("float64").resolution }, { 1e-3, 1e-2, 1e-6, 1e-15 })
  expect.equal({ ml.iinfo("uint16").max, ml.iinfo("uint16").min, ml.iinfo("uint16").bits }, { 65535, 0, 16 })
  expect.equal({ ml.iinfo("uint32").max, ml.iinfo("uint64").max, ml.iinfo("uint64").min },
    { 4294967295, 18446744073709551615.0, 0 })
  for _, dtype in ipairs(UNSIGNED) do
    expect.equal({ ml.is_floating_point(dtype), ml.is_signed(dtype), ml[dtype] }, { false, false, dtype })
  end
  for _, dtype in ipairs(FLOAT8) do
    expect.equal({ ml.is_floating_point(dtype), ml.is_signed(dtype), ml[dtype] }, { true, true, dtype })
    expect.equal({ ml.can_cast("int64", dtype), ml.can_cast(dtype, "int64"), ml.can_cast("complex64", dtype) },
      { true, false, false })
    expect.truthy(ml.zeros(2, { dtype = dtype }):requires_grad_().requires_grad)
    expect.error(function() ml.set_default_dtype(dtype) end, "a floating dtype is expected, got " .. dtype)
  end
  expect.error(function() ml.zeros(2, { dtype = "uint16" }):requires_grad_() end, "uint16")
end)

test("promotion is PyTorch's", function()
  for _, dtype in ipairs(UNSIGNED) do
    local x = ml.ones(3):to(dtype)
    for _, other in ipairs { "float16", "bfloat16", "float32", "float64" } do
      expect.equal(ml.promote_types(dtype, other), other)
      expect.equal((x + ml.ones(3):to(other)).dtype, other)
    end
    for _, other in ipairs { "bool", "uint8", "int64", "complex64", dtype == "uint16" and "uint32" or "uint16" } do
      expect.error(function() ml.promote_types(other, dtype) end, "no dtype holds both")
      expect.error(function() return x + ml.ones(3):to(other) end, "add: .*no dtype holds both")
    end
    expect.equal({ ml.result_type(x, 2), ml.result_type(x, 2.5), ml.result_type(x, true) }, { dtype, "float32", dtype })
    expect.equal(ml.result_type(x, ml.complex(0, 1)), "complex64")
  end
  for _, dtype in ipairs(FLOAT8) do
    local x = ml.ones(3):to(dtype)
    for _, other in ipairs { "bool", "int64", "float16", "float32", "float64", "complex64", "uint16" } do
      expect.error(function() ml.promote_types(dtype, other) end, "8%-bit floats are not promoted")
      expect.error(function() return x * ml.ones(3):to(other) end, "mul: .*8%-bit floats are not promoted")
    end
    expect.equal({ ml.promote_types(dtype, dtype), ml.result_type(x, 2), ml.result_type(x, 2.5) }, { dtype, dtype, dtype })
  end
  expect.error(function() ml.cat { ml.ones(1):to "float8_e5m2", ml.ones(1) } end, "cat: .*not promoted")
end)

test("elements move as those of other dtypes", function()
  for _, dtype in ipairs(ALL) do
    local whole = ml.tensor { 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16 }:view(3, 4) -- exact in all of them
    local x = whole:to(dtype)
    local function same(what, f)
      local got, want = f(x, dtype), f(whole, "int64")
      expect.equal(got.dtype, dtype, what)
      expect.truthy(got:to("int64"):equal(want:to "int64"), dtype .. " " .. what)
    end
    same("t", function(t) return t:t() end)
    same("contiguous", function(t) return t:t():contiguous() end)
    same("select", function(t) return t[2] end)
    same("slice", function(t) return t[{ { 1, -1, 2 }, { 2, 3 } }] end)
    same("mask", function(t) return t[whole:gt(5)] end)
    same("masked_select", function(t) return t:masked_select(whole:gt(5)) end)
    same("positions", function(t) return t[ml.tensor { 3, 1 }] end)
    same("index_select", function(t) return t:index_select(2, ml.tensor { 4, 1 }) end)
    same("gather", function(t) return t:gather(2, ml.tensor { { 1, 4 }, { 2, 2 }, { 3, 1 } }) end)
    same("take", function(t) return t:take(ml.tensor { 12, 1 }) end)
    same("scatter", function(t) return t:scatter(1, ml.tensor { { 3, 1, 2, 2 } }, t) end)
    same("scatter of a number", function(t) return t:scatter(1, ml.tensor { { 3, 1, 2, 2 } }, 6) end)
    same("index_fill", function(t) return t:index_fill(1, ml.tensor { 2 }, 6) end)
    same("index_copy", function(t) return t:index_copy(1, ml.tensor { 2 }, t[{ { 1, 1 } }]) end)
    same("masked_fill", function(t) return t:masked_fill(whole:gt(5), 6) end)
    same("where", function(t) return ml.where(whole:gt(5), t, t:flip { 1, 2 }) end)
    same("flip", function(t) return t:flip { 1 } end)
    same("roll", function(t) return t:roll(1, 2) end)
    same("tile", function(t) return t:tile { 2, 2 } end)
    same("cat", function(t) return ml.cat({ t, t }, 2) end)
    same("stack", function(t) return ml.stack { t, t } end)
    same("pad", function(t) return ml.constant_pad(t, { 1, 2 }, 6) end)
    same("tril", function(t) return t:tril() end)
    same("triu", function(t) return t:triu(1) end)
    same("diag", function(t) return t:diag() end)
    same("unfold", function(t) return t:unfold(2, 2, 1) end)
    same("full", function(_, d) return ml.full({ 2 }, 6, { dtype = d }) end)
    same("zeros", function(_, d) return ml.zeros(3, { dtype = d }) end)
    same("ones_like", function(t) return ml.ones_like(t) end)
    same("assignment", function(t)
      local out = t:clone()
      out[1], out[{ 2, 3 }], out[{ 3, { 1, 2 } }] = 6, 7, out[{ 2, { 1, 2 } }]
      out[whole:eq(12)] = 3
      out[ml.tensor { 2 }] = out[{ { 1, 1 } }]
      return out
    end)
    expect.equal(x:view("uint8"):numel(), 12 * x.itemsize)
    local sums = x:index_put({ ml.tensor { 2, 2 } }, x[1], { accumulate = true })[2]
    expect.equal(sums:tolist(), { 7, 10, dtype == "float8_e5m2" and 12 or 13, 16 })
    expect.equal({ x:storage().dtype, x:storage()[2] }, { dtype, 2 })
  end
end)

test("comparison is by value", function()
  for _, dtype in ipairs(ALL) do
    local x = ml.tensor { 1, 2, 3 }:to(dtype)
    expect.equal(x:eq(ml.tensor { 1, 5, 3 }:to(dtype)):tolist(), { true, false, true })
    expect.equal(x:ne(2):tolist(), { true, false, true })
    expect.equal(x:eq(2):tolist(), { false, true, false })
    for _, op in ipairs { "lt", "le", "gt", "ge", "maximum" } do
      expect.error(function() return x[op](x, x) end, op .. ": dtype " .. dtype .. " is not supported")
    end
  end
  expect.equal(ml.tensor({ 4294967295 }):to("uint32"):eq(4294967295):item(), true)
  local large = ml.tensor({ -1, -2 }):view "uint64"
  expect.error(function() return large:eq(-1) end, "eq: %-1 does not fit dtype uint64")
  expect.equal({ large:eq(large):tolist(), large:ne(large:flip { 1 }):tolist() }, { { true, true }, { true, true } })
  for _, dtype in ipairs(FLOAT8) do
    local x = codes(dtype)
    local function count(mask) return mask:to("int64"):sum():item() end
    expect.equal({ count(x:eq(x)), count(x:isnan()), count(x:isinf()) },
      dtype == "float8_e5m2" and { 250, 6, 2 } or { 254, 2, 0 })
    expect.equal(x:isfinite():to("int64"):sum():item(), dtype == "float8_e5m2" and 248 or 254)
    expect.equal(ml.tensor({ -0.0 }):to(dtype):eq(0):item(), true)
    expect.equal(ml.tensor({ -1.5, 2 }):to(dtype):abs():tolist(), { 1.5, 2 })
    expect.equal((ml.tensor({ 1.5, 2 }):to(dtype) * ml.tensor({ 2, 3 }):to(dtype)):tolist(), { 3, 6 })
    expect.error(function() return x + x end, "add: dtype " .. dtype .. " is not supported")
    for _, op in ipairs { "neg", "exp", "sum", "sort", "relu" } do
      expect.error(function() return x[op](x) end, dtype)
    end
  end
end)

test("unsigned integers add, subtract and multiply around their range", function()
  for _, dtype in ipairs(UNSIGNED) do
    local bits = 8 * ml.zeros(1, { dtype = dtype }).itemsize
    local most = ml.tensor { -1 }:to(dtype)
    local one = ml.ones(1, { dtype = dtype })
    expect.equal({ (most + one):item(), (most + 3):item(), (one - 2):eq(most):item() }, { 0, 2, true })
    expect.equal((most * most):item(), 1)
    expect.equal({ (most & 255):item(), (one | 6):item(), (one ~ 3):item(), (~one):add(1):add(1):item() }, { 255, 7, 2, 0 })
    expect.equal(most:div(one).dtype, "float32")
    expect.equal(most:to("float64"):item(), 2.0 ^ bits - (bits == 64 and 0 or 1))
    expect.equal(ml.tensor({ 4, 9 }):to(dtype):sqrt():tolist(), { 2, 3 })
    local x = ml.tensor({ 4, 9 }):to(dtype)
    x:add_(1):mul_(2)
    expect.equal(x:tolist(), { 10, 20 })
    expect.error(function() x:add_(0.5) end, "cannot be stored in " .. dtype)
    for _, op in ipairs { "neg", "sum", "sort", "cumsum", "argmax", "nonzero" } do
      expect.error(function() return x[op](x, 1) end, op)
    end
  end
  expect.equal(ml.tensor({ -1 }):view("uint64"):div(2):item(), 2.0 ^ 63)
end)

test("elements print", function()
  expect.equal(tostring(ml.tensor({ 1, 65535 }):to "uint16"), "{    1, 65535}\nTensor (2,) uint16")
  expect.equal(tostring(ml.tensor({ -1 }):view "uint64"), "{18446744073709551615}\nTensor (1,) uint64")
  expect.equal(tostring(ml.tensor({ 1, -4, 0.25 }):to "float8_e4m3fn"),
    "{ 1.0000, -4.0000,  0.2500}\nTensor (3,) float8_e4m3fn")
  expect.equal(tostring(ml.tensor({ math.huge, 0 / 0 }):abs():to "float8_e5m2"), "{inf, nan}\nTensor (2,) float8_e5m2")
end)

local function same_bytes(a, b)
  return a.dtype == b.dtype and tostring(a.shape) == tostring(b.shape) and a:to_bytes() == b:to_bytes()
end

test("files keep them", function()
  local tensors = { uint64 = ml.tensor({ { -1, 5 } }):view "uint64", uint32 = ml.tensor({ 4294967295, 1 }):to "uint32",
    uint16 = ml.tensor({ 65535, 1, 2 }):to "uint16", float8_e4m3fn = codes "float8_e4m3fn",
    float8_e5m2 = codes("float8_e5m2"):view(16, 16) }
  for _, ending in ipairs { "safetensors", "pt" } do
    harness.with_temp_file(function(path)
      ml.save(path .. "." .. ending, tensors)
      for _, options in ipairs { {}, { mmap = true } } do
        local loaded, _, left_out = ml.load(path .. "." .. ending, options)
        expect.equal(left_out, nil)
        for name, x in pairs(tensors) do expect.truthy(same_bytes(loaded[name], x), ending .. " " .. name) end
      end
      os.remove(path .. "." .. ending)
    end)
  end
  harness.with_temp_file(function(path)
    local part = ml.tensor({ 1, 2, 3, 4, 5, 6 }):to "uint16":view(2, 3)
    ml.save(path .. ".pt", { whole = part, turned = part:t(), row = part[2] })
    local loaded = ml.load(path .. ".pt")
    expect.equal({ loaded.turned:tolist(), loaded.row:tolist() }, { { { 1, 4 }, { 2, 5 }, { 3, 6 } }, { 4, 5, 6 } })
    loaded.whole[{ 2, 1 }] = 9
    expect.equal({ loaded.turned:tolist()[1][2], loaded.row:tolist()[1] }, { 9, 9 }, "one storage")
    os.remove(path .. ".pt")
  end)
  harness.with_temp_file(function(path)
    for _, dtype in ipairs(UNSIGNED) do
      ml.save(path .. ".npy", tensors[dtype])
      expect.truthy(same_bytes(ml.load(path .. ".npy"), tensors[dtype]), dtype)
    end
    expect.error(function() ml.save(path .. ".npy", codes "float8_e5m2") end, "float8_e5m2, which NumPy has not")
    os.remove(path .. ".npy")
  end)
end)

test("devices hold, move and convert them", function()
  if not ml.cuda.is_available() then harness.skip "no CUDA device" end
  local numbers = ml.tensor({ 0, 1, 2.5, 448, 57344, 61440, 1e6, -1.5, 65535, 70000, 5e9, 2.0 ^ 63, 1.8e19, 1e30, 0.001,
    1e-5 }, { dtype = "float64" })
  local others = { "bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
    table.unpack(ALL) }
  for _, from in ipairs(others) do
    local x = numbers:to(from)
    local there = x:to "cuda"
    expect.truthy(same_bytes(there:cpu(), x), from)
    expect.truthy(same_bytes(there:view(4, 4):t():contiguous():cpu(), x:view(4, 4):t():contiguous()), from)
    for _, to in ipairs(others) do
      expect.truthy(same_bytes(there:to(to):cpu(), x:to(to)), from .. " to " .. to)
      expect.truthy(same_bytes(there["::3"]:to(to):cpu(), x["::3"]:to(to)), from .. " to " .. to)
    end
  end
  for _, dtype in ipairs(ALL) do
    local x = ml.arange(1, 12):view(3, 4):to(dtype)
    local there = x:to "cuda"
    local function same(what, f) expect.truthy(same_bytes(f(there):cpu(), f(x)), dtype .. " " .. what) end
    same("select", function(t) return t[2] end)
    same("positions", function(t) return t[ml.tensor({ 3, 1 }):to(t.device)] end)
    same("mask", function(t) return t[t:eq(3):logical_not()] end)
    same("gather", function(t) return t:gather(2, ml.tensor({ { 1, 4 }, { 2, 2 }, { 3, 1 } }):to(t.device)) end)
    same("scatter", function(t) return t:scatter(1, ml.tensor({ { 3, 1, 2, 2 } }):to(t.device), 6) end)
    same("index_copy", function(t) return t:index_copy(1, ml.tensor({ 2 }):to(t.device), t[{ { 1, 1 } }]) end)
    same("index_fill", function(t) return t:index_fill(1, ml.tensor({ 2 }):to(t.device), 6) end)
    same("cat", function(t) return ml.cat { t, t } end)
    same("flip", function(t) return t:flip { 2 } end)
    same("tril", function(t) return t:tril() end)
    same("where", function(t) return ml.where(t:eq(3), t, t:flip { 1 }) end)
    same("full", function(t) return ml.full_like(t, 6) end)
    same("eq", function(t) return t:eq(t:flip { 1 }) end)
    same("mul", function(t) return t[1] * t[2] end)
    same("assignment", function(t)
      local out = t:clone()
      out[{ 2, 3 }], out[t:eq(12)], out[1] = 7, 3, 6
      out[ml.tensor({ 2 }):to(t.device)] = t[{ { 1, 1 } }]
      return out
    end)
  end
  for _, dtype in ipairs(UNSIGNED) do
    local x = ml.tensor({ -1, 1, 40000, 3000000000 }):to(dtype)
    for _, op in ipairs { "add", "sub", "mul", "bitwise_and", "bitwise_xor", "eq", "div" } do
      local there, turned = x:cuda(), x:flip { 1 }
      expect.truthy(same_bytes(there[op](there, turned:cuda()):cpu(), x[op](x, turned)), dtype .. " " .. op)
    end
    expect.equal(x:cuda():eq(3000000000):cpu():tolist(), x:eq(3000000000):tolist())
  end
end)

harness.run()
