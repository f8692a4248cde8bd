-- stdlib/onnx/read/signal.lua: ONNX's windows, Fourier transforms and mel filters.

local common = require "moonlet.onnx.read.common"
local dtypes = require "moonlet.onnx.dtypes"
local ml = require "moonlet"
local fail = common.fail

local read = {}

local MOST = 1 << 24

local function whole(tensor, what)
  local number = math.tointeger(common.number(tensor, what))
  if not number or number < 0 or number > MOST then fail("%s is %s", what, tostring(number)) end
  return number
end

-- --- windows ----------------------------------------------------------------------------------

-- a - b cos(2 pi k / n) + c cos(4 pi k / n)
local function window(a, b, c)
  return function(n, size)
    local count = whole(size, "the size")
    common.check_room(n, count, 8)
    local dtype = dtypes.of(n.attributes.output_datatype or 1, "the result")
    if count == 0 then return ml.empty({ 0 }, { dtype = dtype }) end
    local period = n.attributes.periodic == 0 and count - 1 or count
    local angle = ml.arange(0, count - 1):to "float64" * (2 * math.pi / math.max(period, 1))
    return (a - angle:cos() * b + (2 * angle):cos() * c):to(dtype)
  end
end

read.HannWindow = window(0.5, 0.5, 0.0)
read.HammingWindow = window(25 / 46, 21 / 46, 0.0)
read.BlackmanWindow = window(0.42, 0.5, 0.08)

-- --- transforms -------------------------------------------------------------------------------

-- The last dimension has the real part, or both, of each number.
local function complex_of(x)
  local parts = x.shape[x.ndim]
  if parts == 2 then return ml.view_as_complex(x:contiguous()) end
  if parts ~= 1 then fail("the last dimension has %s elements, expected 1 or 2", tostring(parts)) end
  return x:squeeze(x.ndim)
end

-- Half precision is transformed in float32.
local function transformed(x, call)
  local wide = (x.dtype == ml.float16 or x.dtype == ml.bfloat16) and x:float() or x
  return call(complex_of(wide)):to(x.dtype)
end

function read.DFT(n, x, length, axis)
  local a = n.attributes
  local at = axis and common.number(axis, "axis") or a.axis or (n.version < 20 and 1 or -2)
  local dim = common.dim(at, x.ndim)
  if dim == x.ndim then fail "its axis is that of the parts of numbers" end
  local size = length and whole(length, "dft_length") or x.shape[dim]
  common.check_room(n, x:numel() / math.max(x.shape[dim], 1) * size, 32)
  local inverse, onesided = a.inverse == 1, a.onesided == 1
  return transformed(x, function(z)
    if inverse and onesided then
      local full = length and size or 2 * (x.shape[dim] - 1)
      return ml.fft.irfft(z, full, dim):unsqueeze(z.ndim + 1)
    elseif inverse then
      z = ml.fft.ifft(z, size, dim)
    elseif onesided then
      if z:is_complex() then fail "onesided wants real numbers" end
      z = ml.fft.rfft(z, size, dim)
    else
      z = ml.fft.fft(z, size, dim)
    end
    return ml.view_as_real(z:is_complex() and z or ml.complex(z, ml.zeros_like(z)))
  end)
end

function read.STFT(n, x, step, shape, length)
  local hop = whole(step, "frame_step")
  local size = length and whole(length, "frame_length") or shape and shape:numel()
    or fail "it has neither a window nor a frame_length"
  if x.ndim < 2 or hop < 1 or size < 1 or size > x.shape[2] then
    fail("frames of %d with a step of %d in a signal of shape %s", size, hop, tostring(x.shape))
  end
  if shape and shape:numel() ~= size then
    fail("a window of %d for frames of %d", shape:numel(), size)
  end
  local signal = x.ndim == 2 and x:unsqueeze(3) or x
  common.check_room(n, (x.shape[2] // hop + 1) * size * x.shape[1], 16)
  return transformed(signal, function(z)
    local frames = z:unfold(2, size, hop)
    if shape then frames = frames * shape:to(z:is_complex() and z.dtype or frames.dtype) end
    if (n.attributes.onesided or 1) == 1 and not z:is_complex() then
      return ml.view_as_real(ml.fft.rfft(frames, size, 3))
    end
    return ml.view_as_real(ml.fft.fft(frames, size, 3))
  end)
end

-- --- mel filters ------------------------------------------------------------------------------

function read.MelWeightMatrix(n, bins, length, rate, low, high)
  local count, size = whole(bins, "num_mel_bins"), whole(length, "dft_length")
  local hertz = common.number(rate, "sample_rate")
  local rows = size // 2 + 1
  common.check_room(n, (count + 2.0) * rows, 48)
  local function mel(f) return 2595 * math.log(1 + f / 700, 10) end
  local first = mel(common.number(low, "lower_edge_hertz"))
  local step = (mel(common.number(high, "upper_edge_hertz")) - first) / (count + 2)
  local edges = {}
  for i = 0, count + 1 do
    local f = 700 * (10 ^ ((i * step + first) / 2595) - 1)
    edges[i] = math.floor((size + 1) * f / hertz)
  end
  local out = {}
  for r = 1, rows do
    out[r] = {}
    for c = 1, count do out[r][c] = 0.0 end
  end
  local function set(r, c, value) if r >= 0 and r < rows then out[r + 1][c] = value end end
  for c = 1, count do
    local left, middle, right = edges[c - 1], edges[c], edges[c + 1]
    if middle == left then set(middle, c, 1.0) end
    for r = math.max(left, 0), math.min(middle, rows - 1) do
      if middle > left then set(r, c, (r - left) / (middle - left)) end
    end
    for r = math.max(middle, 0), math.min(right - 1, rows - 1) do
      if right > middle then set(r, c, (right - r) / (right - middle)) end
    end
  end
  local dtype = dtypes.of(n.attributes.output_datatype or 1, "the result")
  return (count > 0 and ml.tensor(out) or ml.empty { rows, 0 }):to(dtype)
end

return read
