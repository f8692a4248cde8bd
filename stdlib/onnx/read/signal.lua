-- stdlib/onnx/read/signal.lua: ONNX's Fourier transforms, windows and mel filters.

local common = require "moonlet.onnx.read.common"
local kept = require "moonlet.onnx.kept"
local ml = require "moonlet"
local fail = common.fail

local read = {}

-- Real numbers are (..., 1) there, complex ones (..., 2).
local function signal_of(x)
  local parts = x.shape[x.ndim]
  if x.ndim < 2 or parts ~= 1 and parts ~= 2 then
    fail("an input of the shape %s, expected (..., 1) or (..., 2)", tostring(x.shape))
  end
  if x.dtype ~= "float32" and x.dtype ~= "float64" then x = x:float() end
  if parts == 2 then return ml.view_as_complex(x:contiguous()) end
  return x:squeeze(x.ndim)
end

local function length_of(n, tensor, what)
  local length = common.number(tensor, what)
  if length < 1 then fail("%s is %s, expected at least 1", what, tostring(length)) end
  common.check_room(n, length, 8)
  return length
end

-- Before opset 20 the axis is an attribute.
function read.DFT(n, x, length, axis)
  local at = axis and common.number(axis, "axis")
    or n.attributes.axis or n.version < 20 and 1 or -2
  local dim, signal = common.dim(at, x.ndim), signal_of(x)
  if dim == x.ndim then fail "the axis is that of the parts of a complex number" end
  local size = length and length_of(n, length, "dft_length") or nil
  local inverse, half = n.attributes.inverse == 1, n.attributes.onesided == 1
  local y
  if half and inverse then
    y = ml.fft.irfft(signal, size, dim)
    return y:to(x.dtype):unsqueeze(-1)
  elseif half then
    if signal:is_complex() then fail "onesided is 1, the input is complex" end
    y = ml.fft.rfft(signal, size, dim)
  else
    y = (inverse and ml.fft.ifft or ml.fft.fft)(signal, size, dim)
  end
  return ml.view_as_real(y):to(x.dtype)
end

function read.STFT(n, x, step, window, length)
  local signal, by = signal_of(x), length_of(n, step, "frame_step")
  if signal.ndim ~= 2 then fail("an input of %d dimensions, expected 3", x.ndim) end
  local size = length and length_of(n, length, "frame_length") or window and window:numel()
    or signal.shape[2]
  if window and (window.ndim ~= 1 or window:numel() ~= size) then
    fail("a window of the shape %s for frames of %d", tostring(window.shape), size)
  end
  if size > signal.shape[2] then
    fail("frames of %d elements, the signal has %d", size, signal.shape[2])
  end
  local frames = signal:unfold(2, size, by)
  if window then frames = frames * select(2, common.together(frames, window)) end
  local half = (n.attributes.onesided or 1) == 1 and not frames:is_complex()
  local y = (half and ml.fft.rfft or ml.fft.fft)(frames, size, 3)
  return ml.view_as_real(y):to(x.dtype)
end

-- Sums of cosines; periodic ones lack the last of one more.
local function window(...)
  local factors = { ... }
  return function(n, size)
    local count = common.number(size, "the size")
    local dtype = kept.carrier(kept.name_of(n.attributes.output_datatype or 1))
    if count < 0 then fail("a window of %s", tostring(count)) end
    if count == 0 then return ml.empty({ 0 }, { dtype = dtype }) end
    common.check_room(n, count, 8)
    local last = (n.attributes.periodic or 1) == 1 and count or count - 1
    if last == 0 then return ml.ones(1, { dtype = dtype }) end
    local angle = ml.arange(0, count - 1):double() * (2 * math.pi / last)
    local y = ml.zeros_like(angle)
    for k, factor in ipairs(factors) do y = y + factor * (angle * (k - 1)):cos() end
    return y:to(dtype)
  end
end
read.HannWindow = window(0.5, -0.5)
read.HammingWindow = window(25 / 46, -21 / 46)
read.BlackmanWindow = window(0.42, -0.5, 0.08)

-- Triangles between places that are as far apart in mel.
function read.MelWeightMatrix(n, bins, length, rate, lower, upper)
  local count, size = common.number(bins, "num_mel_bins"), common.number(length, "dft_length")
  local from = common.number(lower, "lower_edge_hertz")
  local to = common.number(upper, "upper_edge_hertz")
  local sample_rate = common.number(rate, "sample_rate")
  if count < 0 or size < 0 or sample_rate <= 0 or from < 0 or to < from then
    fail("%s bins of %s from %s to %s Hz at %s Hz", count, size, from, to, sample_rate)
  end
  local rows = size // 2 + 1
  common.check_room(n, math.max(count, 1) * rows, 48)
  local function mel(f) return 2595 * math.log(1 + f / 700, 10) end
  local low, step = mel(from), (mel(to) - mel(from)) / (count + 2)
  local places = {}
  for i = 0, count + 1 do
    local hertz = 700 * (10 ^ ((low + i * step) / 2595) - 1)
    places[i] = math.floor((size + 1) * hertz / sample_rate)
  end
  local y = ml.zeros(rows, count, { dtype = ml.float64 })
  local list = {}
  for i = 1, rows * count do list[i] = 0.0 end
  local function set(row, column, value)
    if row < rows then list[row * count + column + 1] = value end
  end
  for i = 0, count - 1 do
    local first, middle, last = places[i], places[i + 1], places[i + 2]
    if first == middle then set(middle, i, 1.0) end
    for k = first, first < middle and math.min(middle, rows) or -1 do
      set(k, i, (k - first) / (middle - first))
    end
    for k = middle, math.min(last, rows) - 1 do set(k, i, (last - k) / (last - middle)) end
  end
  if #list > 0 then y = ml.tensor(list, { dtype = ml.float64 }):reshape(rows, count) end
  return y:to(kept.carrier(kept.name_of(n.attributes.output_datatype or 1)))
end

return read
