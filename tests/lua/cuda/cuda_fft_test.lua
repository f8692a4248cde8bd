-- tests/lua/cuda/cuda_fft_test.lua: Fourier transforms on a CUDA device, compared with the CPU: lengths of
-- all kinds, dims in any position and order, views, derivatives, graphs. Skips without a device; with
-- MOONLET_CUDA_WITHOUT=cufft the same must hold.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect
local fft = ml.fft

local COMPLEX = { float32 = "complex64", float64 = "complex128" }
local TOLERANCE = { float32 = 2e-5, complex64 = 2e-5, float64 = 1e-12, complex128 = 1e-12 }

local function on_device(name, body)
  test(name, function()
    if not ml.cuda.is_available() then harness.skip "no CUDA device" end
    ml.manual_seed(5)
    body()
  end)
end

local function near(what, got, want)
  expect.equal(tostring(got.shape), tostring(want.shape), what)
  expect.equal(tostring(got.dtype), tostring(want.dtype), what)
  if want:numel() == 0 then return end
  local worst = (got:cpu() - want):abs():amax():item()
  local size = math.max(1, want:abs():amax():item())
  local tolerance = TOLERANCE[tostring(want.dtype)]
  if not (worst <= tolerance * size) then error(("%s: differs by %g"):format(what, worst), 2) end
end

-- What f makes of x on the device is what it makes of it on the CPU.
local function agree(what, f, x) near(what, f(x:cuda()), f(x)) end

local LENGTHS = { 1, 2, 3, 4, 5, 8, 12, 30, 61, 64, 67, 127, 210 }

for real, complex in pairs(COMPLEX) do
  on_device("lengths, " .. real, function()
    for _, n in ipairs(LENGTHS) do
      local z, x = ml.randn(3, n, { dtype = complex }), ml.randn(3, n, { dtype = real })
      agree("fft of " .. n, fft.fft, z)
      agree("ifft of " .. n, fft.ifft, z)
      agree("rfft of " .. n, fft.rfft, x)
      agree("irfft to " .. n, function(t) return fft.irfft(t, n) end,
        ml.randn(3, n // 2 + 1, { dtype = complex }))
      agree("hfft to " .. n, function(t) return fft.hfft(t, n) end,
        ml.randn(3, n // 2 + 1, { dtype = complex }))
      near("there and back", fft.irfft(fft.rfft(x:cuda()), n), x)
    end
  end)

  on_device("dims and norms, " .. real, function()
    local z = ml.randn(2, 3, 4, 5, 6, { dtype = complex })
    local x = ml.randn(2, 3, 4, 5, 6, { dtype = real })
    local lists = { { 5 }, { 1 }, { 3 }, { 4, 5 }, { 5, 4 }, { 1, 2 }, { 1, 5 }, { 2, 4 }, { 3, 4, 5 },
      { 1, 3, 5 }, { 1, 2, 3, 4 }, { 5, 3, 2, 1, 4 } }
    for _, dims in ipairs(lists) do
      local what = table.concat(dims, ", ")
      for _, norm in ipairs { "backward", "ortho", "forward" } do
        agree("fftn over " .. what, function(t) return fft.fftn(t, {}, dims, norm) end, z)
        agree("ifftn over " .. what, function(t) return fft.ifftn(t, {}, dims, norm) end, z)
      end
      agree("rfftn over " .. what, function(t) return fft.rfftn(t, {}, dims) end, x)
      agree("irfftn over " .. what, function(t) return fft.irfftn(t, {}, dims) end, z)
    end
    agree("fft2 with lengths", function(t) return fft.fft2(t, { 3, 9 }) end, z)
  end)

  on_device("views, " .. real, function()
    local z = ml.randn(6, 8, { dtype = complex })
    local line = ml.randn(33, { dtype = real })
    agree("transposed", function(t) return fft.fft(t:transpose(1, 2)) end, z)
    agree("expanded", function(t) return fft.fft(t[1]:expand(4, 8)) end, z)
    agree("every other", function(t) return fft.fft(t[{ {}, { 1, 8, 2 } }]) end, z)
    -- Real numbers from an odd position on, which are not pairs.
    agree("from an odd position", function(t) return fft.rfft(t:narrow(1, 2, 16)) end, line)
    local out = ml.empty(8, 6, { dtype = complex, device = "cuda" }):transpose(1, 2)
    fft.fft(z:cuda(), { out = out })
    near("out of another order", out, fft.fft(z))
    local again = z:cuda()
    fft.fft2(again)
    fft.irfft(again)
    near("what is transformed stays", again, z)
  end)
end

on_device("sums that are real by nature are read as such", function()
  local z = ml.randn(2, 5, { dtype = "complex128" })
  local clean = z:clone()
  local parts = ml.view_as_real(clean)
  parts[{ {}, 1, 2 }] = 0
  parts[{ {}, 5, 2 }] = 0
  near("even", fft.irfft(z:cuda(), 8), fft.irfft(clean, 8))
end)

on_device("nothing, and more points than some libraries take", function()
  agree("no lines", fft.fft, ml.zeros(0, 4, { dtype = "complex64" }))
  local long = ml.zeros((1 << 13) + 2, { dtype = "complex64" })
  long[2] = 1
  local y = fft.fft(long:cuda())
  near("a shifted pulse", ml.view_as_real(y):square():sum(-1):sqrt(), ml.ones((1 << 13) + 2))
end)

on_device("derivatives", function()
  local function gradient(f, x)
    x = x:detach():requires_grad_()
    local y = f(x)
    local weight = ml.arange(1, y:numel()):to(x.device):view(y.shape):to(y.dtype)
    local sum = (y * weight):sum()
    if sum:is_complex() then sum = ml.real(sum) end
    sum:backward()
    return x.grad
  end
  local x, z = ml.randn(3, 6, { dtype = "float64" }), ml.randn(3, 6, { dtype = "complex128" })
  for _, name in ipairs { "fft", "ifft", "irfft", "hfft", "fft2", "irfft2" } do
    near(name, gradient(fft[name], z:cuda()), gradient(fft[name], z))
  end
  for _, name in ipairs { "rfft", "ihfft", "rfft2" } do
    near(name, gradient(fft[name], x:cuda()), gradient(fft[name], x))
  end
end)

on_device("graphs, with a plan that was there and with none", function()
  for _, warm in ipairs { true, false } do
    local n = warm and 24 or 26
    local x = ml.randn(2, n, { dtype = "complex64", device = "cuda" })
    if warm then fft.fft(x) end
    local graph, y = ml.cuda.graph(function() return fft.fft(x) end)
    for _ = 1, 2 do
      local new = ml.randn(2, n, { dtype = "complex64" })
      x:copy_(new)
      -- Plans of other shapes come and go.
      for m = 1, 70 do fft.fft(ml.ones(m + 1, { dtype = "complex64", device = "cuda" })) end
      graph:replay()
      near("replayed", y, fft.fft(new))
    end
  end
end)

on_device("streams", function()
  local z = ml.randn(4, 32, { dtype = "complex64" })
  local there = z:cuda()
  local stream = ml.cuda.Stream()
  stream:wait_stream(ml.cuda.current_stream())
  local y = ml.cuda.stream(stream, function() return fft.ifft(fft.fft(there)) end)
  ml.cuda.current_stream():wait_stream(stream)
  near("in another stream", y, z)
end)

harness.run()
