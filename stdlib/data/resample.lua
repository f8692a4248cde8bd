-- stdlib/data/resample.lua: sound at another rate: each new sample is a sum of the old ones near
-- it, weighed by a sinc function under a window (Smith, "Digital Audio Resampling").

local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local resample = {}

signature.add_choice("ResamplingMethod", { "sinc_interp_hann", "sinc_interp_kaiser" })

local DEFAULT_BETA = 14.769656459379492
-- A convolution with the weights of a period of samples, most of which are zeros where it is long:
-- above so many weights, those that are not are gathered instead.
local MOST_WEIGHTS = 1 << 22

local function gcd(a, b)
  while b ~= 0 do a, b = b, a % b end
  return a
end

-- The weights of old samples at times `t`, in zero crossings of the sinc function from the new one.
local function weights_at(self, t)
  local width = self.lowpass_filter_width
  t = t:clamp(-width, width)
  local window
  if self.resampling_method == "sinc_interp_hann" then
    window = (t * (math.pi / width / 2)):cos():pow(2)
  else
    local beta = ml.tensor(self.beta, { dtype = ml.float64 })
    window = ((1 - (t / width):pow(2)):clamp(0):sqrt() * beta):i0() / beta:i0()
  end
  return ml.sinc(t) * window * (self.base / self.orig)
end

-- Old samples by number as float64, from `first` on.
local function numbers(first, count)
  return ml.arange(0, count - 1):to(ml.float64) + first
end

-- The weights of a period, (new, 1, 2 * width + orig): row j for the sample at j / new.
local function dense_weights(self)
  local old = numbers(-self.width, 2 * self.width + self.orig) / self.orig
  local new = numbers(0, self.new):unsqueeze(2) / self.new
  return weights_at(self, (old - new) * self.base):unsqueeze(2)
end

local function dense(self, x)
  local kernel = self.kernels[x.dtype] or dense_weights(self):to(x.dtype)
  self.kernels[x.dtype] = kernel
  x = ml.pad(x, { self.width, self.width + self.orig }):unsqueeze(2)
  local y = ml.conv1d(x, kernel:to(x.device), nil, self.orig)
  return y:transpose(2, 3):reshape { x.shape[1], -1 }
end

-- The same for long periods: the 2 * width + 2 old samples around each new one.
local function gathered(self, x, length)
  local taps = 2 * self.width + 2
  local index = ml.arange(0, length - 1)
  -- The old sample at or before each new one.
  local before = (index * self.orig):div(self.new, { rounding_mode = "floor" })
  local fraction = (index * self.orig - before * self.new):to(ml.float64) / (self.new * self.orig)
  local old = numbers(-self.width, taps) / self.orig
  local weights = weights_at(self, (old - fraction:unsqueeze(2)) * self.base)
  x = ml.pad(x, { self.width, self.width + 2 }):unfold(2, taps, 1)
  x = x:index_select(2, (before + 1):to(x.device))
  return (x * weights:to { x.device, dtype = x.dtype }):sum(3)
end

local ARGUMENTS = '%s ResamplingMethod resampling_method="sinc_interp_hann", '
  .. "int>=1 lowpass_filter_width=6, number>0<=1 rolloff=0.99, number>0? beta=nil)"

local function apply(where, self, x)
  if not ml.is_tensor(x) or x.ndim < 1 or not x:is_floating_point() then
    fail("%s: 'waveform' must be floats of shape (..., samples), got %s", where,
      signature.describe(x))
  end
  if self.orig == self.new then return x end
  local shape = x.shape:totable()
  local samples = table.remove(shape)
  local length = (self.new * samples + self.orig - 1) // self.orig
  shape[#shape + 1] = length
  if samples == 0 or x:numel() == 0 then return x.new_zeros(x, shape) end
  x = x:reshape { -1, samples }
  local small = self.new * (2 * self.width + self.orig) <= MOST_WEIGHTS
  local y = small and dense(self, x) or gathered(self, x, length)
  return y:narrow(2, 1, length):reshape(shape)
end

local function prepare(self, where, orig, new, method, width, rolloff, beta)
  if beta and method ~= "sinc_interp_kaiser" then
    fail("%s: 'beta' is for the method sinc_interp_kaiser", where)
  end
  local common = gcd(orig, new)
  self.orig, self.new = orig // common, new // common
  self.resampling_method, self.lowpass_filter_width = method, width
  self.rolloff, self.beta, self.kernels = rolloff, beta or DEFAULT_BETA, {}
  self.base = math.min(self.orig, self.new) * rolloff
  self.width = math.ceil(width * self.orig / self.base)
  return self
end

local read_class = signature(ARGUMENTS:format(
  "data.audio.Resample(int>=1 orig_freq=16000, int>=1 new_freq=16000,"))

--- Changes the sample rate of sound by windowed sinc interpolation, differentiably. The weights are
--- kept for further calls.
--- > ml.data.audio.Resample(8000, 4000)(ml.zeros(1, 100)).shape
---   (1, 50)
---@param orig_freq? integer sample rate of the argument in hertz
---@param new_freq? integer sample rate of the result in hertz
---@param resampling_method? any the window: "sinc_interp_hann" or "sinc_interp_kaiser"
---@param lowpass_filter_width? integer zero crossings of the sinc function to each side; more
---   are sharper and slower
---@param rolloff? number share of the lower rate's frequencies that is kept, in (0, 1]
---@param beta? number parameter of the Kaiser window; 14.77 unless given
---@shape sound (*, samples) -> (*, ceil(new_freq * samples / orig_freq))
---@source Smith, "Digital audio resampling", 2002
local Resample = class("Resample")
resample.Resample = Resample

function Resample:init(...)
  local orig, new, method, width, rolloff, beta = read_class(...)
  self.orig_freq, self.new_freq = orig, new
  prepare(self, "Resample", orig, new, method, width, rolloff, beta)
end

function Resample:__call(x) return apply("Resample", self, x) end

local read_resample = signature(ARGUMENTS:format(
  "data.audio.resample(Tensor waveform, int>=1 orig_freq, int>=1 new_freq,"))

--- Changes the sample rate of sound; see `audio.Resample`, which keeps its weights for many calls.
--- > ml.data.audio.resample(ml.zeros(1, 100), 8000, 16000).shape
---   (1, 200)
---@param waveform Tensor floats
---@param orig_freq integer sample rate of the argument in hertz
---@param new_freq integer sample rate of the result in hertz
---@param resampling_method? string the window: "sinc_interp_hann" or "sinc_interp_kaiser"
---@param lowpass_filter_width? integer zero crossings of the sinc function to each side; more
---   are sharper and slower
---@param rolloff? number share of the lower rate's frequencies that is kept, in (0, 1]
---@param beta? number parameter of the Kaiser window; 14.77 unless given
---@return Tensor
---@shape waveform (*, samples) -> (*, ceil(new_freq * samples / orig_freq))
function resample.resample(...)
  local x, orig, new, method, width, rolloff, beta = read_resample(...)
  return apply("resample", prepare({}, "resample", orig, new, method, width, rolloff, beta), x)
end

return resample
