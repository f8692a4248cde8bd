-- tests/lua/data/audio_test.lua: data.audio against torchaudio 2.11 (a weighted sum of each result), and
-- wrong arguments.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local A = ml.data.audio

local i = ml.arange(0, 2399):float()
local sound = ((i * 0.37):sin() + (i * 1.1):cos() * 0.5):view(2, 1200)

local function weighed(x)
  if x:is_complex() then x = ml.view_as_real(x) end
  x = x:double():reshape { -1 }
  return (x * (ml.arange(#x):remainder(17) + 1)):sum():item()
end

local function check(x, shape, sum, tolerance)
  expect.equal(table.concat(x.shape:totable(), " "), shape)
  expect.near(weighed(x), sum, tolerance or 1e-5)
end

test("spectrograms are torchaudio's", function()
  check(A.Spectrogram()(sound), "2 201 7", 2354477.3949429495)
  check(A.Spectrogram(128, 100, 40, { power = 1, normalized = true })(sound), "2 65 31", 9249.40714079258)
  check(A.Spectrogram(64, { power = false, center = false, normalized = "frame_length" })(sound), "2 33 36",
    164.05643534655974, 1e-3)
  check(A.Spectrogram(64, { pad = 10, pad_mode = "constant", window_fn = ml.hamming_window, onesided = false })(sound),
    "2 64 39", 686162.1602599658)
  check(A.Spectrogram()(sound[1]), "201 7", weighed(A.Spectrogram()(sound)[1]))
end)

local SMALL = { n_fft = 200, n_mels = 20 }

test("mel scales, decibels and cepstra are torchaudio's", function()
  check(A.melscale_fbanks(101, 0, 8000, 20, 16000), "101 20", 856.8359085534466)
  check(A.melscale_fbanks(201, 40, 7600, 30, 16000, "slaney", "slaney"), "201 30", 6.714566193089013, 1e-4)
  local mel = A.MelSpectrogram { n_fft = 200, n_mels = 20 }(sound)
  check(mel, "2 20 13", 1041679.0570254053)
  check(A.MelScale(20, 16000, 101)(A.Spectrogram(200)(sound)), "2 20 13", weighed(mel))
  check(A.MelSpectrogram(8000, 256, { f_min = 20, n_mels = 16, norm = "slaney", mel_scale = "slaney" })(sound),
    "2 16 10", 9783.699529600683, 1e-4)
  check(A.AmplitudeToDB()(mel), "2 20 13", -92525.01491752267, 1e-3)
  check(A.AmplitudeToDB("magnitude", 30)(A.Spectrogram(64, { power = 1 })(sound)), "2 33 38", -39051.27763725817,
    1e-3)
  check(A.MFCC { n_mfcc = 13, melkwargs = SMALL }(sound), "2 13 13", -29235.525843203068, 1e-3)
  check(A.MFCC { n_mfcc = 13, norm = "none", log_mels = true, melkwargs = SMALL }(sound[1]), "13 13",
    -27445.032865405083, 1e-3)
end)

test("gradients pass through", function()
  local x = sound:clone():requires_grad_()
  A.MFCC { n_mfcc = 5, melkwargs = SMALL }(x):sum():backward()
  expect.truthy(x.grad:abs():sum():item() > 0)
  expect.falsy(x.grad:isnan():any():item())
end)

test("wrong arguments are named", function()
  local cases = {
    { function() A.Spectrogram { power = true } end, "'power' must be a number above 0, or false" },
    { function() A.Spectrogram { power = -1 } end, "'power'" },
    { function() A.Spectrogram { normalized = "other" } end, "'normalized' must be" },
    { function() A.Spectrogram { n_fft = 8, win_length = 9 } end, "'win_length' must be at most 'n_fft', 8" },
    { function() A.Spectrogram(1) end, "'hop_length' at least 1" },
    { function() A.Spectrogram()(ml.arange(9)) end, "Spectrogram: floats" },
    { function() A.Spectrogram()(3) end, "got 3" },
    { function() A.Spectrogram()(ml.ones(1, 8)) end, "stft" },
    { function() A.MelScale()(ml.ones(3, 4)) end, "MelScale: a spectrum %(..., 201, windows%) is expected" },
    { function() A.melscale_fbanks(10, 9, 9, 3, 100) end, "'f_min' must be below" },
    { function() A.MelSpectrogram { power = false } end, "MelSpectrogram: 'power'" },
    { function() A.MelSpectrogram { mel_scale = "other" } end, "'mel_scale'" },
    { function() A.AmplitudeToDB("power", -1) end, "'top_db'" },
    { function() A.AmplitudeToDB("power", 1)(ml.ones(2)) end, "expected for 'top_db', got shape %(2,%)" },
    { function() A.MFCC { dct_type = 3 } end, "'dct_type' must be 2" },
    { function() A.MFCC { n_mfcc = 21, melkwargs = SMALL } end, "'n_mfcc' is 21, of 20 mel bins" },
    { function() A.MFCC { melkwargs = { n_mel = 3 } } end, "unknown option 'n_mel'" },
  }
  for k, case in ipairs(cases) do expect.error(case[1], case[2], "case " .. k) end
end)

harness.run()
