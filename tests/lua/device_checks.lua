-- tests/lua/device_checks.lua: what tests of CUDA kernels share: tests that skip without a device, and
-- functions of tensors on the CPU and on the device.

local ml = require "moonlet"
local harness = require "harness"

local M = {}

local TOLERANCE = { float16 = 2e-3, bfloat16 = 2e-2, float32 = 1e-5, complex64 = 1e-5 }

-- A test that skips without a device.
function M.on_device(name, body)
  harness.test(name, function()
    if not ml.cuda.is_available() then harness.skip "no CUDA device" end
    ml.manual_seed(1)
    body()
  end)
end

-- An error unless `got`, on the device, is `want` up to rounding.
function M.same(what, got, want, tolerance)
  local shapes = tostring(got.shape) == tostring(want.shape) and got.dtype == want.dtype
  if not shapes then
    error(("%s: %s %s, want %s %s"):format(what, got.dtype, got.shape, want.dtype, want.shape), 0)
  end
  if want:is_complex() then got, want = ml.view_as_real(got), ml.view_as_real(want) end
  local exact = not want:is_floating_point()
  tolerance = tolerance or TOLERANCE[tostring(want.dtype)] or 1e-12
  got, want = got:to "cpu":to "float64", want:to "float64"
  local close = exact and got:equal(want)
    or not exact and ml.allclose(got, want, { rtol = tolerance, atol = tolerance, equal_nan = true })
  if not close then
    error(("%s: differs by %s"):format(what, (got - want):abs():amax():item()), 0)
  end
end

-- f of tensors on the CPU and on the device.
function M.agree(what, f, ...)
  local host, device = table.pack(...), table.pack(...)
  for i = 1, device.n do device[i] = ml.is_tensor(host[i]) and host[i]:to "cuda" or host[i] end
  local want = table.pack(f(table.unpack(host, 1, host.n)))
  local got = table.pack(f(table.unpack(device, 1, device.n)))
  for i = 1, want.n do M.same(("%s, result %d"):format(what, i), got[i], want[i]) end
end

-- Random elements of a dtype.
function M.draw(shape, dtype)
  if dtype == "bool" then return ml.rand(shape):gt(0.5) end
  if dtype:find "int" then return ml.randint(dtype:find "^u" and 1 or -9, 10, shape):to(dtype) end
  if dtype:find "complex" then return ml.randn(shape, { dtype = dtype }) end
  return ml.randn(shape):to(dtype)
end

return M
