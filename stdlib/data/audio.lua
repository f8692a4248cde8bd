-- stdlib/data/audio.lua: ml.data.audio: what sound is turned into before a network: spectrograms,
-- mel scales, decibels and cepstral coefficients, with torchaudio's names and numbers. Files and
-- other rates are loaded when they are first used.

local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local audio = {}

signature.add_choice("MelKind", { "htk", "slaney" })
signature.add_choice("SoundPadMode", { "reflect", "constant", "replicate", "circular" })
signature.add_choice("LevelKind", { "power", "magnitude" })
signature.add_choice("CosineNorm", { "ortho", "none" })
signature.add_choice("MelNorm", { "slaney", "none" })

-- --- spectrograms -------------------------------------------------------------------------------

local SPECTROGRAM = "int>=1? win_length=nil, int>=1? hop_length=nil, int>=0 pad=0, "
  .. "function? window_fn=nil, number|bool power=2, bool|string normalized=false, "
  .. 'bool center=true, SoundPadMode pad_mode="reflect"'
local NORMALIZED = { [true] = "window", window = "window", frame_length = "frame_length",
  [false] = false }

local read_spectrogram = signature("data.audio.Spectrogram(int>=1 n_fft=400, " .. SPECTROGRAM
  .. ", bool onesided=true)")

--- The spectrum of sound (..., samples) over time, (..., frequencies, windows): its magnitude to
--- the `power` (2; `false` for complex numbers). Options: `n_fft` (400), `win_length` (`n_fft`),
--- `hop_length` (half of that), `pad`, zeros at both ends, `window_fn` (a function of the length;
--- `ml.hann_window`), `normalized` (false; true or "window" divides by the window's norm,
--- "frame_length" by the root of the length), `center` and `pad_mode` as `ml.stft` has them,
--- `onesided` (true).
local Spectrogram = class("Spectrogram")
audio.Spectrogram = Spectrogram

function Spectrogram:init(...)
  local o = read_spectrogram:table(...)
  self.n_fft, self.win_length = o.n_fft, o.win_length or o.n_fft
  self.hop_length = o.hop_length or self.win_length // 2
  self.normalized = NORMALIZED[o.normalized]
  if self.normalized == nil then
    fail "Spectrogram: 'normalized' must be true, false, \"window\" or \"frame_length\""
  elseif o.power == true or o.power and o.power <= 0 then
    fail("Spectrogram: 'power' must be a number above 0, or false, got %s", tostring(o.power))
  elseif self.win_length > self.n_fft or self.hop_length < 1 then
    fail("Spectrogram: 'win_length' must be at most 'n_fft', %d, and 'hop_length' at least 1",
      self.n_fft)
  end
  self.pad, self.power, self.center, self.pad_mode = o.pad, o.power, o.center, o.pad_mode
  self.onesided = o.onesided
  self.window = (o.window_fn or ml.hann_window)(self.win_length)
end

local function check_sound(where, x)
  if not ml.is_tensor(x) or x.ndim < 1 or not x:is_floating_point() then
    fail("%s: floats of shape (..., samples) are expected, got %s", where, signature.describe(x))
  end
end

function Spectrogram:__call(x)
  check_sound("Spectrogram", x)
  if self.pad > 0 then x = ml.pad(x, { self.pad, self.pad }) end
  local shape, window = x.shape:totable(), self.window:to { x.device, dtype = x.dtype }
  local samples = table.remove(shape)
  local spectrum = ml.stft(x:reshape { -1, samples }, self.n_fft, self.hop_length,
    self.win_length, window, self.center, self.pad_mode, self.normalized == "frame_length",
    self.onesided, true)
  shape[#shape + 1], shape[#shape + 2] = spectrum.shape[2], spectrum.shape[3]
  spectrum = spectrum:reshape(shape)
  if self.normalized == "window" then spectrum = spectrum / window:pow(2):sum():sqrt() end
  if not self.power then return spectrum end
  return self.power == 1 and spectrum:abs() or spectrum:abs():pow(self.power)
end

-- --- mel scales ---------------------------------------------------------------------------------

local FLAT, MIN_LOG_HZ, STEP = 200 / 3, 1000, math.log(6.4) / 27

-- The scale of Slaney's Auditory Toolbox is flat up to 1000 Hz; htk's is 2595 log10(1 + f / 700).
local function to_mel(f, kind)
  if kind == "htk" then return 2595 * math.log(1 + f / 700, 10) end
  return f < MIN_LOG_HZ and f / FLAT or MIN_LOG_HZ / FLAT + math.log(f / MIN_LOG_HZ) / STEP
end

local function to_hertz(mel, kind)
  if kind == "htk" then return 700 * (10.0 ^ (mel / 2595) - 1) end
  local min_log_mel = MIN_LOG_HZ / FLAT
  return (mel * FLAT):where(mel:lt(min_log_mel), ((mel - min_log_mel) * STEP):exp() * MIN_LOG_HZ)
end

local read_banks = signature("data.audio.melscale_fbanks(int>=2 n_freqs, number>=0 f_min, "
  .. "number>0 f_max, int>=1 n_mels, int>=1 sample_rate, MelNorm norm=\"none\", "
  .. 'MelKind mel_scale="htk")')

--- Triangular filters (n_freqs, n_mels) from frequencies to a mel scale: "htk" or "slaney". `norm`
--- is "none", or "slaney" to give all filters one area.
---@param n_freqs integer
---@param f_min number
---@param f_max number
---@param n_mels integer
---@param sample_rate integer
---@param norm? string (default "none")
---@param mel_scale? string (default "htk")
---@return Tensor
function audio.melscale_fbanks(...)
  local o = read_banks:table(...)
  if o.f_min >= o.f_max then
    fail("melscale_fbanks: 'f_min' must be below 'f_max', got %s and %s", o.f_min, o.f_max)
  end
  local positions = ml.linspace(0, o.sample_rate // 2, o.n_freqs)
  local points = to_hertz(ml.linspace(to_mel(o.f_min, o.mel_scale), to_mel(o.f_max, o.mel_scale),
    o.n_mels + 2), o.mel_scale)
  local widths = points:diff()
  local slopes = points:unsqueeze(1) - positions:unsqueeze(2)
  local down = -slopes:narrow(2, 1, o.n_mels) / widths:narrow(1, 1, o.n_mels)
  local up = slopes:narrow(2, 3, o.n_mels) / widths:narrow(1, 2, o.n_mels)
  local banks = down:minimum(up):clamp(0)
  if o.norm == "none" then return banks end
  return banks * (2 / (points:narrow(1, 3, o.n_mels) - points:narrow(1, 1, o.n_mels)))
end

local MEL = 'number>=0 f_min=0, number? f_max=nil, MelNorm norm="none", MelKind mel_scale="htk"'

local read_mel = signature("data.audio.MelScale(int>=1 n_mels=128, int>=1 sample_rate=16000, "
  .. "int>=2 n_stft=201, " .. MEL .. ")")

--- A spectrum (..., n_stft, windows) on a mel scale, (..., n_mels, windows). Options: `n_mels`
--- (128), `sample_rate` (16000), `n_stft` (201), `f_min` (0), `f_max` (half of the rate), `norm`
--- and `mel_scale` as `audio.melscale_fbanks` has them.
local MelScale = class("MelScale")
audio.MelScale = MelScale

function MelScale:init(...)
  local o = read_mel:table(...)
  self.n_stft = o.n_stft
  self.fb = audio.melscale_fbanks(o.n_stft, o.f_min, o.f_max or o.sample_rate // 2, o.n_mels,
    o.sample_rate, o.norm, o.mel_scale)
end

-- The matrix times the dimension before the last.
local function mix(x, matrix)
  return x:transpose(-1, -2):matmul(matrix:to { x.device, dtype = x.dtype }):transpose(-1, -2)
end

function MelScale:__call(x)
  if not ml.is_tensor(x) or x.ndim < 2 or x.shape[x.ndim - 1] ~= self.n_stft then
    fail("MelScale: a spectrum (..., %d, windows) is expected, got %s", self.n_stft,
      signature.describe(x))
  end
  return mix(x, self.fb)
end

local MEL_SPECTROGRAM = "int>=1 sample_rate=16000, int>=1 n_fft=400, " .. SPECTROGRAM
  .. ", int>=1 n_mels=128, " .. MEL
local read_mel_spectrogram = signature("data.audio.MelSpectrogram(" .. MEL_SPECTROGRAM .. ")")

--- The power spectrum of sound (..., samples) on a mel scale, (..., n_mels, windows). Options:
--- those of `audio.Spectrogram` and `audio.MelScale`.
local MelSpectrogram = class("MelSpectrogram")
audio.MelSpectrogram = MelSpectrogram

function MelSpectrogram:init(...)
  local o = read_mel_spectrogram:table(...)
  if not o.power then fail "MelSpectrogram: 'power' must be a number above 0, got false" end
  self.spectrogram = Spectrogram { n_fft = o.n_fft, win_length = o.win_length,
    hop_length = o.hop_length, pad = o.pad, window_fn = o.window_fn, power = o.power,
    normalized = o.normalized, center = o.center, pad_mode = o.pad_mode }
  self.mel_scale = MelScale { n_mels = o.n_mels, sample_rate = o.sample_rate,
    n_stft = o.n_fft // 2 + 1, f_min = o.f_min, f_max = o.f_max, norm = o.norm,
    mel_scale = o.mel_scale }
  self.n_mels = o.n_mels
end

function MelSpectrogram:__call(x) return self.mel_scale(self.spectrogram(x)) end

-- --- decibels and cepstra -----------------------------------------------------------------------

local read_level = signature(
  'data.audio.AmplitudeToDB(LevelKind stype="power", number>=0? top_db=nil)')

--- Decibels of a power (`stype` "power") or a magnitude. With `top_db` nothing is more than that
--- below the greatest of its spectrogram.
local AmplitudeToDB = class("AmplitudeToDB")
audio.AmplitudeToDB = AmplitudeToDB

function AmplitudeToDB:init(...) self.stype, self.top_db = read_level(...) end

function AmplitudeToDB:__call(x)
  check_sound("AmplitudeToDB", x)
  local level = x:clamp(1e-10):log10() * (self.stype == "power" and 10 or 20)
  if not self.top_db then return level end
  if x.ndim < 2 then
    fail("AmplitudeToDB: (..., frequencies, windows) is expected for 'top_db', got shape %s",
      tostring(x.shape))
  end
  local dims = x.ndim > 2 and { -3, -2, -1 } or { -2, -1 }
  return level:maximum(level:amax(dims, true) - self.top_db)
end

local read_mfcc = signature("data.audio.MFCC(int>=1 sample_rate=16000, int>=1 n_mfcc=40, "
  .. 'int dct_type=2, CosineNorm norm="ortho", bool log_mels=false, dict? melkwargs=nil)')

--- The mel-frequency cepstral coefficients of sound (..., samples): (..., n_mfcc, windows), the
--- cosine transform of the decibels of an `audio.MelSpectrogram`, of which `melkwargs` has the
--- options. Options: `sample_rate` (16000), `n_mfcc` (40), `norm` ("ortho" or "none"), `log_mels`
--- (false; true for logarithms instead of decibels). `dct_type` is 2.
local MFCC = class("MFCC")
audio.MFCC = MFCC

-- The cosine transform of type 2 as a matrix (n_mels, n_mfcc).
local function cosines(n_mfcc, n_mels, norm)
  local n = ml.arange(0, n_mels - 1):to(ml.get_default_dtype()):unsqueeze(2)
  local k = ml.arange(0, n_mfcc - 1):to(ml.get_default_dtype()):unsqueeze(1)
  local matrix = ((n + 0.5) * k * (math.pi / n_mels)):cos()
  if norm == "none" then return matrix * 2 end
  matrix:select(2, 1):mul_(1 / math.sqrt(2))
  return matrix * math.sqrt(2 / n_mels)
end

function MFCC:init(...)
  local o = read_mfcc:table(...)
  if o.dct_type ~= 2 then fail("MFCC: 'dct_type' must be 2, got %d", o.dct_type) end
  local given = { sample_rate = o.sample_rate }
  for name, value in pairs(o.melkwargs or {}) do given[name] = value end
  self.mel = MelSpectrogram(given)
  if o.n_mfcc > self.mel.n_mels then
    fail("MFCC: 'n_mfcc' is %d, of %d mel bins", o.n_mfcc, self.mel.n_mels)
  end
  self.log_mels, self.to_db = o.log_mels, AmplitudeToDB("power", 80)
  self.dct = cosines(o.n_mfcc, self.mel.n_mels, o.norm)
end

function MFCC:__call(x)
  check_sound("MFCC", x)
  local mel = self.mel(x)
  return mix(self.log_mels and (mel + 1e-6):log() or self.to_db(mel), self.dct)
end

return options.namespace("data.audio", audio, options.late {
  ["data.resample"] = { "Resample", "resample" },
  ["data.sound_file"] = { "load" },
})
