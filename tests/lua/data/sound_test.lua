-- tests/lua/data/sound_test.lua: ml.data.audio.load of the files of tests/reference/sound_files, which
-- libsndfile wrote and read; WAV files that were written to a pipe; damaged ones; audio.Resample
-- against torchaudio 2.11.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local raw = require "moonlet.io"
local test, expect = harness.test, harness.expect
local A, data = ml.data.audio, ml.data

local FOLDER = (os.getenv "MOONLET_SOURCE" or ".") .. "/tests/reference/sound_files/"
local values = ml.load(FOLDER .. "values.npz")

local function needs_library(name) return name:find "flac$" or name:find "ogg$" end

local function with_bytes(bytes, f)
  local results
  harness.with_temp_file(function(path)
    local file <close> = assert(io.open(path, "wb"))
    file:write(bytes)
    file:close()
    results = table.pack(pcall(f, path))
  end)
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

local function bytes_of(name)
  local file <close> = assert(io.open(FOLDER .. name, "rb"))
  return file:read "a"
end

test("files have the samples that libsndfile reads", function()
  local count, why = 0, raw.without_sound()
  for name, wanted in pairs(values) do
    if why and needs_library(name) then
      expect.error(function() A.load(FOLDER .. name) end, "audio.load: '.*': this sound needs libsndfile, and ")
    else
      local sound, rate = A.load(FOLDER .. name)
      -- Microsoft's last block is filled up, which the file says and libsndfile does not heed.
      if name:find "^ms" then wanted = wanted:narrow(1, 1, 700) end
      expect.equal(rate, name:find "opus" and 48000 or 8000, name)
      expect.equal({ sound.dtype, tostring(sound:t().shape) }, { "float32", tostring(wanted.shape) }, name)
      expect.near((sound:t() - wanted):abs():max():item(), 0, needs_library(name) and 1e-6 or 0, name)
      -- Parts: behind samples, of blocks too, at most so many.
      for _, part in ipairs { { 0, 1 }, { 3, 505 }, { 506, 100 }, { 690, 1000 }, { 9999, 5 } } do
        local first = math.min(part[1], #wanted)
        local most = math.min(part[2], #wanted - first)
        local got = A.load(FOLDER .. name, part[1], part[2], { channels_first = false })
        expect.truthy(got:equal(sound:t():narrow(1, first + 1, most)), name .. " from " .. part[1])
      end
      if not needs_library(name) then expect.truthy(data.read_wav(FOLDER .. name):equal(sound)) end
    end
    count = count + 1
  end
  expect.equal(count, 15)
end)

local function wav(stated, size, samples, after)
  return "RIFF" .. ("<I4"):pack(stated) .. "WAVEfmt " .. ("<I4 I2 I2 I4 I4 I2 I2"):pack(16, 1, 1, 8000, 16000, 2, 16)
    .. "data" .. ("<I4"):pack(size) .. samples .. (after or "")
end

test("WAV files that were written to a pipe are read to their end", function()
  local samples = ("<i2 i2 i2"):pack(16384, -16384, 8192)
  for _, sizes in ipairs { { 0xffffffff, 0xffffffff }, { 0x7ffff024, 0x7ffff000 }, { 0x7fffffff, 0x7fffffdb }, { 0, 0 },
    { 36, 0 }, { 0xffffffff, 0xfffffff0 }, { 0x80000024, 0x80000000 } } do
    expect.equal(with_bytes(wav(sizes[1], sizes[2], samples), data.read_wav):tolist(), { { 0.5, -0.5, 0.25 } },
      ("sizes %x %x"):format(sizes[1], sizes[2]))
    -- A sample that is cut off is left out.
    expect.equal(tostring(with_bytes(wav(sizes[1], sizes[2], samples .. "\1"), data.read_wav).shape), "(1, 3)")
  end
  -- No samples, and a chunk behind them.
  local list = "LIST" .. ("<s4"):pack "abcd"
  expect.equal(tostring(with_bytes(wav(36 + #list, 0, "", list), data.read_wav).shape), "(1, 0)")
  expect.error(function() with_bytes(wav(1036, 1000, samples), data.read_wav) end, "the file is cut off")
  -- RF64 with its size in the chunk ds64, and one that was not finished.
  local rf64 = wav(0xffffffff, 0xffffffff, samples .. "rest")
  local function with_size(size)
    return "RF64" .. rf64:sub(5, 12) .. "ds64" .. ("<s4"):pack(("<i8 i8 i8 I4"):pack(0, size, 0, 0)) .. rf64:sub(13)
  end
  expect.equal(tostring(with_bytes(with_size(6), data.read_wav).shape), "(1, 3)")
  expect.equal(tostring(with_bytes(with_size(0), data.read_wav).shape), "(1, 5)")
  expect.error(function() with_bytes(with_size(100), data.read_wav) end, "the file is cut off")
  expect.error(function() with_bytes(with_size(-1), data.read_wav) end, "a chunk is damaged")
end)

test("damaged formats", function()
  local function file(kind, align, bits, rest, channels)
    local format = ("<I2 I2 I4 I4 I2 I2"):pack(kind, channels or 1, 8000, 8000, align, bits) .. (rest or "")
    return "RIFF\0\0\0\0WAVEfmt " .. ("<s4"):pack(format) .. "data" .. ("<s4"):pack(("\1"):rep(64))
  end
  local pairs_of_two = ("<I2 I2 I2 i2 i2 i2 i2"):pack(12, 52, 2, 256, 0, 512, -256)
  for i, case in ipairs { { file(7, 2, 8), "its format is damaged" }, { file(7, 2, 16), "format 7 with 16 bits" },
    { file(0x11, 32, 4), "its format is damaged" }, { file(0x11, 32, 4, ("<I2 I2"):pack(2, 9)), "its format is damaged" },
    { file(0x11, 0, 4, ("<I2 I2"):pack(2, 0)), "its format is damaged" },
    { file(0x11, 32, 3, ("<I2 I2"):pack(2, 57)), "format 17 with 3 bits" },
    { file(2, 32, 4, ("<I2 I2"):pack(2, 52)), "its format is damaged" },
    { file(2, 32, 4, ("<I2 I2 I2"):pack(4, 52, 7)), "its format is damaged" },
    { file(2, 32, 4, ("<I2 I2 I2 i2 i2"):pack(8, 52, 1, 256, 0)), "names coefficients" } } do
    expect.error(function() with_bytes(case[1], data.read_wav) end, "read_wav: '.*': .*" .. case[2], "case " .. i)
  end
  expect.equal(tostring(with_bytes(file(0x11, 32, 4, ("<I2 I2"):pack(2, 57)), data.read_wav).shape), "(1, 114)")
  expect.equal(tostring(with_bytes(file(2, 32, 4, pairs_of_two), data.read_wav).shape), "(1, 104)")
  for _, name in ipairs { "ima_adpcm2.wav", "ima.w64", "pcm.rf64" } do
    local whole = bytes_of(name)
    for _, length in ipairs { 4, 20, 50, 90, #whole - 40 } do
      expect.error(function() with_bytes(whole:sub(1, length), A.load) end, "audio.load: '.*': ",
        name .. " cut to " .. length)
    end
  end
  expect.error(function() A.load "/nowhere/x.flac" end, "audio.load: '/nowhere/x.flac': No such file")
  expect.error(function() with_bytes("neither this nor that, but long enough", A.load) end, "audio.load: '.*': ")
end)

local i = ml.arange(0, 2399):float()
local sound = (i * 0.37):sin():view(2, 1200) + (ml.arange(0, 1199):float() * 1.1):cos() * 0.3

local function weights(x) return ml.arange(0, x:numel() - 1):remainder(17):double():view(x.shape) + 1 end

local KAISER = "sinc_interp_kaiser"
-- The rates, options, samples, and the weighed sums of the result and of the gradient of float64.
local RESAMPLED = {
  { 22050, 16000, {}, 871, 45.61057110254728, 140580.26170463028 },
  { 44100, 16000, {}, 436, 18.126571484870254, 70210.5980476069 },
  { 8000, 16000, {}, 2400, 63.00128990769261, 439336.6287387135 },
  { 48000, 44100, { lowpass_filter_width = 16, rolloff = 0.9 }, 1103, 55.25421969774585, 178312.29028991144 },
  { 16000, 8000, { resampling_method = KAISER }, 600, -1580.2839666345053, 109437.79758290225 },
  { 44100, 48000, { resampling_method = KAISER, beta = 8.6, lowpass_filter_width = 64, rolloff = 0.947 }, 1307,
    15.903515447303452, 211038.7447187808 },
  { 7, 5, {}, 858, 20.632200555843404, 138883.31848900995 },
  { 3001, 4003, { resampling_method = KAISER }, 1601, 41.835693122491875, 261759.87198890196 },
}

test("other rates are torchaudio's", function()
  for _, case in ipairs(RESAMPLED) do
    for dtype, tolerance in pairs { float32 = 1e-3, float64 = 1e-4 } do
      local x = sound:to(dtype):clone():requires_grad_()
      local y = A.Resample(case[1], case[2], case[3])(x)
      expect.equal({ y.dtype, tostring(y.shape) }, { dtype, ("(2, %d)"):format(case[4]) })
      local sum = (y:double() * weights(y)):sum()
      sum:backward()
      expect.near(sum:item(), case[5], tolerance, case[1] .. " to " .. case[2])
      expect.near((x.grad:double() * weights(x)):sum():item() / case[6], 1, 1e-6)
      expect.truthy(A.resample(x[2], case[1], case[2], case[3]):allclose(y[2], 1e-4, 1e-5))
    end
  end
end)

test("periods of any length, shapes and refused arguments", function()
  -- Rates without a common factor, above and below the length from which weights are gathered.
  local x = (ml.arange(0, 899):double() * 0.01):sin()
  local y = A.resample(x, 16000, 15199)
  expect.equal(#y, 855)
  local at = ml.arange(0, 854):double() * (16000 / 15199)
  expect.near((y - (at * 0.01):sin()):narrow(1, 50, 750):abs():max():item(), 0, 2e-3)
  expect.truthy(A.Resample(8000, 8000)(x) == x)
  expect.equal(tostring(A.Resample(2, 3)(ml.zeros(2, 4, 0)).shape), "(2, 4, 0)")
  expect.equal(tostring(A.Resample(2, 3)(ml.zeros(2, 4, 5)).shape), "(2, 4, 8)")
  expect.error(function() A.Resample(2, 3)(ml.arange(3)) end, "Resample: 'waveform' must be floats")
  expect.error(function() A.Resample(2, 3, { beta = 2 }) end, "'beta' is for the method sinc_interp_kaiser")
  expect.error(function() A.Resample(0, 3) end, "'orig_freq' must be")
  expect.error(function() A.Resample(2, 3, { resampling_method = "linear" }) end, "sinc_interp_hann or sinc_interp_kaiser")
end)

harness.run()
