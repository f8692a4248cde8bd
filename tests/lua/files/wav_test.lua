-- tests/lua/files/wav_test.lua: ml.data.read_wav and write_wav: every kind of samples, files made by hand,
-- damaged and hostile ones.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local data = ml.data

local function read_bytes(bytes)
  local results
  harness.with_temp_file(function(path)
    local file <close> = assert(io.open(path, "wb"))
    file:write(bytes)
    file:close()
    results = table.pack(pcall(data.read_wav, path))
  end)
  if not results[1] then error(results[2], 0) end
  return results[2], results[3]
end

local function chunk(name, body) return name .. ("<s4"):pack(body) .. (#body % 2 == 1 and "\0" or "") end

local function format(kind, channels, rate, bits, rest)
  local align = channels * bits // 8
  return chunk("fmt ", ("<I2 I2 I4 I4 I2 I2"):pack(kind, channels, rate, rate * align, align, bits) .. (rest or ""))
end

local function file_of(...)
  local body = "WAVE" .. table.concat { ... }
  return chunk("RIFF", body)
end

test("samples of all kinds", function()
  local cases = {
    { 1, 8, "\0\128\255", { -1, 0, 127 / 128 } },
    { 1, 16, ("<i2 i2 i2"):pack(-32768, 0, 16384), { -1, 0, 0.5 } },
    { 1, 24, "\0\0\128\0\0\0\255\255\127\0\0\192", { -1, 0, 8388607 / 8388608, -0.5 } },
    { 1, 32, ("<i4 i4 i4"):pack(-(1 << 31), 0, 1 << 30), { -1, 0, 0.5 } },
    { 3, 32, ("<f f"):pack(-1.5, 0.25), { -1.5, 0.25 } },
    { 3, 64, ("<d d"):pack(-1.5, 0.25), { -1.5, 0.25 } },
  }
  for _, case in ipairs(cases) do
    local samples, rate = read_bytes(file_of(format(case[1], 1, 8000, case[2]), chunk("data", case[3])))
    expect.equal({ samples.dtype, rate, samples.shape[1] }, { "float32", 8000, 1 })
    expect.near(samples[1]:tolist(), case[4], 0)
  end
end)

test("channels, chunks of other names, and extensible files", function()
  local body = chunk("data", ("<i2 i2 i2 i2 i2 i2"):pack(1, 2, 3, 4, 5, 6))
  local samples = read_bytes(file_of(chunk("LIST", "odd"), format(1, 2, 44100, 16), chunk("fact", "1234"), body))
  expect.equal((samples * 32768):tolist(), { { 1, 3, 5 }, { 2, 4, 6 } })
  local rest = ("<I2 I2 I4 I2"):pack(22, 16, 3, 1) .. "\0\0\0\0\16\0\128\0\0\170\0\56\155\113"
  expect.truthy(read_bytes(file_of(format(0xfffe, 2, 44100, 16, rest), body)):equal(samples))
  expect.equal(tostring(read_bytes(file_of(format(1, 2, 44100, 16), chunk("data", ""))).shape), "(2, 0)")
end)

test("what is written comes back", function()
  harness.with_temp_file(function(path)
    local x = ml.tensor { { 0.0, 0.5, -0.5, 0.999, -1 }, { 0.1, -0.1, 0.25, 1, 0 } }
    for bits, tolerance in pairs { [8] = 2 ^ -7, [16] = 2 ^ -15, [24] = 2 ^ -23, [32] = 1e-7 } do
      data.write_wav(path, x, 22050, bits)
      local back, rate = data.read_wav(path)
      expect.equal(rate, 22050)
      expect.near(back:tolist(), x:tolist(), tolerance)
    end
    data.write_wav(path, x, 8000, { bits = 32, floating = true })
    expect.truthy(data.read_wav(path):equal(x))
    data.write_wav(path, x:to "float64", 8000, { bits = 64, floating = true })
    expect.truthy(data.read_wav(path):equal(x))
    data.write_wav(path, x[1], 8000)
    expect.equal(tostring(data.read_wav(path).shape), "(1, 5)")
    data.write_wav(path, ml.tensor { 2.0, -3 }, 8000)
    expect.near(data.read_wav(path)[1]:tolist(), { 32767 / 32768, -1 }, 0)
    data.write_wav(path, ml.tensor { 0.5 }, 8000, 8)
    local file <close> = assert(io.open(path, "rb"))
    expect.equal(file:read "a", file_of(format(1, 1, 8000, 8), chunk("data", "\192")))
  end)
end)

test("what cannot be written is refused", function()
  local path, x = os.tmpname(), ml.zeros(2, 3)
  expect.error(function() data.write_wav(path, x, 8000, 12) end, "'bits' must be 8, 16, 24 or 32, got 12")
  expect.error(function() data.write_wav(path, x, 8000, { floating = true }) end, "'bits' must be 32 or 64 for floats")
  expect.error(function() data.write_wav(path, x:to "int32", 8000) end, "'samples' must be floats")
  expect.error(function() data.write_wav(path, ml.zeros(1, 2, 3), 8000) end, "of shape %(1, 2, 3%)")
  expect.error(function() data.write_wav(path, ml.zeros(0, 3), 8000) end, "cannot hold shape")
  expect.error(function() data.write_wav(path, x, 0) end, "'rate' must be")
  expect.error(function() data.write_wav(path, x, 1 << 33) end, "'rate' must be of at most 32 bits")
  expect.error(function() data.write_wav(path, ml.tensor { 0 / 0 }, 8000) end, "NaN")
  os.remove(path)
end)

test("damaged files", function()
  local body = chunk("data", ("\1"):rep(8))
  local cases = { { "", "cut off" }, { "RIFF\0\0\0\0JUNK", "no WAV file" }, { file_of(body), "before their format" },
    { "\x89PNG\r\n\x1a\n....", "this is a PNG picture, not a WAV file" },
    { file_of(format(1, 2, 8000, 16)), "cut off" }, { file_of(format(2, 2, 8000, 16), body), "format 2 with 16 bits" },
    { file_of(format(1, 0, 8000, 16), body), "its format is damaged" },
    { file_of(format(1, 2000, 8000, 16), body), "its format is damaged" },
    { file_of(format(1, 1, 0, 16), body), "its format is damaged" },
    { file_of(chunk("fmt ", "\1\0"), body), "its format is cut off" },
    { file_of(format(0xfffe, 1, 8000, 16), body), "its format is not known" },
    { file_of(format(1, 1, 8000, 16)) .. "data" .. ("<I4"):pack(1 << 30), "cut off" },
    { file_of("fmt " .. ("<I4"):pack(0xffffffff)), "cut off" } }
  for i, case in ipairs(cases) do
    expect.error(function() read_bytes(case[1]) end, "read_wav: .*" .. case[2], "case " .. i)
  end
  local whole = file_of(format(1, 2, 8000, 16), body)
  for length = 0, #whole - 1 do
    expect.error(function() read_bytes(whole:sub(1, length)) end, "read_wav: ", "cut to " .. length)
  end
  expect.error(function() data.read_wav "/nowhere/x.wav" end, "read_wav: '/nowhere/x.wav': No such file")
end)

harness.run()
