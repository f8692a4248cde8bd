-- tests/lua/ops/fft_test.lua: Fourier transforms of all kinds of lengths and layouts, their derivatives
-- by complex numbers, windows, and the way there and back of short-time transforms.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

local fft = ml.fft

local function complex(sizes, dtype)
  local with_parts = table.move(sizes, 1, #sizes, 1, {})
  with_parts[#with_parts + 1] = 2
  return ml.view_as_complex(ml.randn(with_parts, { dtype = dtype or "float64" }))
end

-- The transform by its definition, as a product with the matrix of roots of unity.
local function by_definition(x, sign)
  local n = x.shape[-1]
  local k = ml.arange(0.0, n - 1.0, 1.0, { dtype = "float64" })
  local angle = ml.outer(k, k):remainder(n) * (sign * 2 * math.pi / n)
  return ml.mm(x, ml.view_as_complex(ml.stack({ angle:cos(), angle:sin() }, -1)))
end

-- The root of the mean square of the difference over that of what is wanted.
local function relative_error(got, want)
  return ((got - want):abs():square():sum() / want:abs():square():sum()):sqrt():item()
end

-- Powers of two, the other radices and their products, primes by passes and by convolution.
local LENGTHS = { 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 15, 16, 18, 25, 30, 31, 32, 36, 47, 48, 49, 50, 60, 61, 64, 67, 77,
  71, 96, 97, 100, 121, 127, 128, 131, 134, 146, 169, 210, 243, 250, 256, 289, 343, 360, 393, 450, 500, 512, 625, 889,
  998, 1000, 1009, 1024, 1155, 1497, 1633 }

test("every kind of length gives what the definition does", function()
  ml.manual_seed(1)
  for _, n in ipairs(LENGTHS) do
    local x = complex { 2, n }
    local want = by_definition(x, -1)
    expect.truthy(relative_error(fft.fft(x), want) < 1e-14, "fft of " .. n)
    expect.truthy(relative_error(fft.ifft(x) * n, by_definition(x, 1)) < 1e-14, "ifft of " .. n)
    expect.truthy(relative_error(fft.fft(x:to "complex64"):to "complex128", want) < 1e-6, "complex64 fft of " .. n)
    local columns = fft.fft(x:t():contiguous(), nil, 1):t()
    expect.truthy(relative_error(columns, want) < 1e-14, "fft of columns of " .. n)
    local r = ml.randn(2, n, { dtype = "float64" })
    local whole = by_definition(r:to "complex128", -1)
    local half = fft.rfft(r)
    expect.truthy(relative_error(half, whole:narrow(2, 1, n // 2 + 1)) < 1e-14, "rfft of " .. n)
    expect.truthy(relative_error(fft.irfft(half, n), r) < 1e-14, "irfft of " .. n)
    expect.truthy(relative_error(fft.hfft(fft.ihfft(r), n), r) < 1e-14, "hfft of " .. n)
  end
end)

test("real numbers of odd lengths: one line, many, columns, strided ones, all norms", function()
  ml.manual_seed(8)
  for _, n in ipairs { 1, 3, 9, 15, 35, 63, 71, 105, 131, 213, 393, 1155 } do
    for _, count in ipairs { 1, 3, 16, 21 } do
      local x = ml.randn(count, n, { dtype = "float64" })
      local want = by_definition(x:to "complex128", -1):narrow(2, 1, n // 2 + 1)
      local name = ("%d lines of %d"):format(count, n)
      expect.truthy(relative_error(fft.rfft(x), want) < 1e-14, name)
      expect.truthy(relative_error(fft.rfft(x:float()):to "complex128", want) < 1e-6, name .. ", float32")
      local columns = fft.rfft(x:t():contiguous(), nil, 1)
      expect.truthy(relative_error(columns:t(), want) < 1e-14, name .. ", columns")
      expect.truthy(relative_error(fft.irfft(columns, n, 1):t(), x) < 1e-14, name .. ", columns and back")
      expect.truthy(relative_error(fft.irfft(want:to "complex64", n):double(), x) < 1e-6, name .. ", float32 and back")
      for _, norm in ipairs { "forward", "ortho" } do
        local there = fft.rfft(x:t():contiguous():t(), nil, -1, norm)
        expect.truthy(relative_error(there * (norm == "ortho" and n ^ 0.5 or n), want) < 1e-14, norm)
        expect.truthy(relative_error(fft.irfft(there, n, -1, norm), x) < 1e-14, norm .. " and back")
      end
    end
  end
end)

test("a row that is not a number leaves the others as they are", function()
  for _, n in ipairs { 15, 71, 105 } do
    local x = ml.randn(18, n)
    local want = fft.rfft(x)
    x[2]:fill_(0 / 0)
    local got = fft.rfft(x)
    expect.truthy(got[2].real:isnan():all():item(), "the row")
    expect.truthy(got[1]:eq(want[1]):all():item() and got[3]:eq(want[3]):all():item(), "its neighbours")
    -- The imaginary part of a sum that is real by nature is not read.
    want.imag:select(2, 1):fill_(0 / 0)
    expect.truthy(not fft.irfft(want, n):isnan():any():item(), "the first imaginary parts")
  end
end)

test("many short rows, columns and dims in the middle agree with single ones", function()
  ml.manual_seed(2)
  for _, n in ipairs { 4, 12, 31, 40 } do
    local x = complex { 37, n }
    local rows = fft.fft(x)
    for _, i in ipairs { 1, 16, 17, 37 } do
      expect.truthy(relative_error(rows[i], fft.fft(x[i])) < 1e-15, "row " .. i)
    end
    expect.truthy(relative_error(fft.fft(x:t(), nil, 1):t(), rows) < 1e-15, "columns")
    local middle = complex { 3, n, 5 }
    local want = fft.fft(middle:transpose(2, 3):contiguous()):transpose(2, 3)
    expect.truthy(relative_error(fft.fft(middle, nil, 2), want) < 1e-15, "the middle")
    local real = ml.randn(3, n, 21, { dtype = "float64" })
    local half = fft.rfft(real, nil, 2)
    expect.truthy(relative_error(half, fft.rfft(real:transpose(2, 3)):transpose(2, 3)) < 1e-15, "real numbers")
    expect.truthy(relative_error(fft.irfft(half, n, 2), real) < 1e-14, "and back")
  end
end)

test("a long transform comes back", function()
  ml.manual_seed(3)
  for _, n in ipairs { 1 << 17, 3 * 5 ^ 6 // 1 | 0, 65537, 99991 } do
    local x = complex({ n }, "float32")
    expect.truthy(relative_error(fft.ifft(fft.fft(x)), x) < 2e-6, "of " .. n)
  end
end)

test("the number of threads changes nothing", function()
  ml.manual_seed(4)
  local x = complex { 64, 48, 20 }
  local before = ml.get_num_threads()
  ml.set_num_threads(1)
  local one = fft.fftn(x)
  ml.set_num_threads(3)
  local three = fft.fftn(x)
  ml.set_num_threads(before)
  expect.truthy(one:eq(three):all():item())
end)

-- The gradients of complex arguments, by differences of both parts.
local function check_gradient(name, f, sizes)
  test("the gradient of " .. name .. " by a complex argument", function()
    ml.manual_seed(5)
    local pairs_of = ml.randn(sizes, { dtype = "float64", requires_grad = true })
    local function value(parts)
      local y = f(ml.view_as_complex(parts))
      if y.dtype:find "complex" then y = ml.view_as_real(y) end
      return (y * ml.arange(1, y:numel()):to("float64"):reshape(y.shape)):sum()
    end
    value(pairs_of):backward()
    local flat, got = pairs_of:detach():reshape(-1), pairs_of.grad:reshape(-1)
    for i = 1, flat:numel() do
      local before = flat[i]:item()
      flat[i] = before + 1e-4
      local up = value(flat:reshape(pairs_of.shape)):item()
      flat[i] = before - 1e-4
      local down = value(flat:reshape(pairs_of.shape)):item()
      flat[i] = before
      expect.near(got[i]:item(), (up - down) / 2e-4, 1e-5)
    end
  end)
end
check_gradient("fft", function(x) return fft.fft(x, 6) end, { 2, 5, 2 })
check_gradient("ifft2", function(x) return fft.ifft2(x) end, { 2, 3, 2 })
check_gradient("irfft of an even length", function(x) return fft.irfft(x) end, { 2, 4, 2 })
check_gradient("irfft of an odd length", function(x) return fft.irfft(x, 7) end, { 2, 4, 2 })
check_gradient("irfft of columns", function(x) return fft.irfft(x, 5, 1) end, { 3, 2, 2 })
check_gradient("hfft", function(x) return fft.hfft(x) end, { 4, 2 })
check_gradient("irfftn", function(x) return fft.irfftn(x) end, { 3, 3, 2 })
check_gradient("istft", function(x)
  return ml.istft(x, 4, { window = ml.hann_window(4, { dtype = "float64" }) })
end, { 3, 5, 2 })

test("shifts undo each other and frequencies are PyTorch's", function()
  local x = ml.arange(1, 5)
  expect.near(fft.fftshift(x):tolist(), { 4, 5, 1, 2, 3 })
  expect.near(fft.ifftshift(fft.fftshift(x)):tolist(), { 1, 2, 3, 4, 5 })
  expect.near(fft.fftfreq(5, 0.1):tolist(), { 0, 2, 4, -4, -2 })
  expect.near(fft.rfftfreq(4):tolist(), { 0, 0.25, 0.5 })
  expect.equal(fft.fftfreq(4, { dtype = "float64" }).dtype, "float64")
end)

test("dtypes are those of PyTorch", function()
  expect.equal(fft.fft(ml.ones(4)).dtype, "complex64")
  expect.equal(fft.fft(ml.ones(4, { dtype = "float64" })).dtype, "complex128")
  expect.equal(fft.fft(ml.tensor { 1, 2 }).dtype, "complex64")
  expect.equal(fft.fft(ml.tensor { true, false }).dtype, "complex64")
  expect.equal(fft.irfft(ml.ones(4)).dtype, "float32")
  expect.equal(fft.rfft(ml.tensor { 1, 2, 3 }).dtype, "complex64")
end)

test("what cannot be transformed is refused", function()
  expect.error(function() return fft.fft(ml.ones(4):half()) end, "fft.fft: dtype float16")
  expect.error(function() return fft.rfft(ml.ones(4, { dtype = "bfloat16" })) end, "fft.rfft: dtype bfloat16")
  expect.error(function() return fft.rfft(complex { 4 }) end, "fft.rfft: ")
  expect.error(function() return fft.fft(ml.ones(4), 0) end, "fft.fft: 0 points; 1 or more expected")
  expect.error(function() return fft.fft(ml.ones(4), -1) end, "fft.fft: %-1 points")
  expect.error(function() return fft.fft(ml.ones(3, 0)) end, "fft.fft: 0 points")
  expect.error(function() return fft.fft(ml.tensor(1.0)) end, "fft.fft: shape %(%) has no dim")
  expect.error(function() return fft.fft(ml.ones(4), nil, 2) end, "fft.fft: ")
  expect.error(function() return fft.fft(ml.ones(4), nil, 1, "none") end, 'norm "none"')
  expect.error(function() return fft.fft2(ml.ones(4)) end, "fft.fft2: ")
  expect.error(function() return fft.fftn(ml.ones(4, 4), { 2, 2, 2 }) end, "3 lengths for shape")
  expect.error(function() return fft.fftn(ml.ones(4, 4), { 2 }, { 1, 2 }) end, "1 lengths for 2 dims")
  expect.error(function() return fft.fftn(ml.ones(4, 4), {}, { 1, 1 }) end, "fft.fftn: ")
  expect.error(function() return fft.irfft(complex { 1 }) end, "fft.irfft: 0 points")
  expect.error(function() return fft.fftfreq(0) end, "fft.fftfreq: 0 points")
  expect.error(function() return fft.fftfreq(4, 1, { dtype = "int64" }) end, "fft.fftfreq: dtype int64")
  expect.error(function() return ml._internal.fft_c2r(complex { 4 }, 1, 9, 1.0) end, "9 points are made of 5 sums")
end)

test("an out tensor takes the result", function()
  local x = ml.randn(3, 8)
  local out = ml.empty(3, 8, { dtype = "complex64" })
  expect.equal(fft.fft(x, { out = out }), out)
  expect.truthy(out:eq(fft.fft(x)):all():item())
end)

test("windows are symmetric unless periodic", function()
  expect.near(ml.hann_window(4):tolist(), { 0, 0.5, 1, 0.5 })
  expect.near(ml.hann_window(5, false):tolist(), { 0, 0.5, 1, 0.5, 0 })
  expect.near(ml.bartlett_window(3, false):tolist(), { 0, 1, 0 })
  expect.equal(ml.hann_window(3, { dtype = "float64" }).dtype, "float64")
  expect.equal(ml.kaiser_window(0):numel(), 0)
  expect.error(function() return ml.hann_window(-1) end, "hann_window: a window of %-1 numbers")
  expect.error(function() return ml.hann_window(3, { dtype = "int64" }) end, "dtype int64; a floating one expected")
  expect.error(function() return ml.kaiser_window(3, true, 1e6) end, "kaiser_window: beta")
end)

test("istft gives back what stft took", function()
  ml.manual_seed(6)
  local x = ml.randn(2, 100, { dtype = "float64" })
  for _, case in ipairs {
    { 16, { return_complex = true } },
    { 15, { hop_length = 4, return_complex = true } },
    { 16, { hop_length = 4, window = ml.hann_window(16, { dtype = "float64" }), return_complex = true } },
    { 16, { hop_length = 3, win_length = 12, window = ml.hamming_window(12, { dtype = "float64" }), normalized = true,
      return_complex = true } },
    { 16, { hop_length = 5, onesided = false, pad_mode = "constant", return_complex = true } },
  } do
    local n_fft, options = case[1], case[2]
    local spectrum = ml.stft(x, n_fft, options)
    local back = ml.istft(spectrum, n_fft, { hop_length = options.hop_length, win_length = options.win_length,
      window = options.window, normalized = options.normalized or false, onesided = options.onesided, length = 100 })
    local kept = options.hop_length == 5 and 90 or 100
    expect.truthy((back - x):narrow(2, 1, kept):abs():amax():item() < 1e-12, "n_fft " .. n_fft)
  end
end)

test("stft and istft refuse what does not fit", function()
  local x = ml.randn(20)
  local spectrum = ml.stft(x, 8, { return_complex = true })
  expect.error(function() return ml.stft(x, 8) end, "return_complex must be given")
  expect.error(function() return ml.stft(x, 0, { return_complex = true }) end, "n_fft is 0")
  expect.error(function() return ml.stft(x, 8, { hop_length = 0, return_complex = true }) end, "hop_length is 0")
  expect.error(function() return ml.stft(x, 8, { win_length = 9, return_complex = true }) end, "win_length is 9")
  expect.error(function()
    return ml.stft(x, 8, { window = ml.ones(7), return_complex = true })
  end, "window has shape %(7,%)")
  expect.error(function() return ml.stft(x, 24, { center = false, return_complex = true }) end, "the signal has 20")
  expect.error(function() return ml.stft(ml.ones(1, 2, 3), 2, { return_complex = true }) end, "the signal has shape")
  expect.error(function()
    return ml.stft(complex { 20 }, 8, { onesided = true })
  end, "onesided is for real signals")
  expect.error(function() return ml.istft(spectrum.real, 8) end, "istft: dtype float32")
  expect.error(function() return ml.stft(ml.arange(20), 8, { return_complex = true }) end, "stft: dtype int64")
  expect.error(function() return ml.istft(spectrum, 10) end, "5 frequencies; 6 expected")
  expect.error(function() return ml.istft(spectrum[1], 8) end, "the spectrum has shape")
  expect.error(function()
    return ml.istft(spectrum, 8, { window = ml.hann_window(8), center = false })
  end, "add up to 0")
  expect.error(function() return ml.istft(spectrum, 8, { length = -1 }) end, "length is %-1")
end)

test("short rows, many at a time, are those transformed one by one", function()
  ml.manual_seed(3)
  for _, n in ipairs { 2, 7, 8, 10, 16, 24, 56, 63 } do
    for _, count in ipairs { 1, 15, 16, 37 } do
      local x = ml.view_as_complex(ml.randn(count, n, 2))
      for _, f in ipairs { ml.fft.fft, ml.fft.ifft } do
        local whole = f(x)
        for row = 1, count, 6 do
          local alone = f(x[row]:to "complex128"):to "complex64"
          expect.truthy((whole[row] - alone):abs():amax():item() < 1e-5 * n, ("%d rows of %d"):format(count, n))
        end
      end
    end
  end
end)

harness.run()
