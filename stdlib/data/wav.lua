-- stdlib/data/wav.lua: sound in WAV files: samples of whole numbers of 8 to 32 bits, and floats.
-- Format: Microsoft's "Multiple Channel Audio Data and WAVE Files", with WAVE_FORMAT_EXTENSIBLE.

local Cursor = require "moonlet.files.cursor"
local Source = require "moonlet.files.source"
local io = require "moonlet.io"
local kinds = require "moonlet.files.kinds"
local options = require "moonlet.options"
local signature = require "moonlet.signature"

local wav = {}

local function fail(format, ...) error(format:format(...), 0) end

local PCM, FLOAT, EXTENSIBLE = 1, 3, 0xfffe
-- What follows the format's number in the identifier of an extensible file.
local REST_OF_ID = "\0\0\0\0\16\0\128\0\0\170\0\56\155\113"
local MOST_CHANNELS, MOST_BYTES = 1024, 0xffffffff
-- The bytes of a sample in all tensors that are made on the way to the last one.
local STEPS = 48

-- --- samples ----------------------------------------------------------------------------------

-- Samples of three bytes as whole numbers.
local function three_bytes(file, at, count)
  local bytes = file:tensor(at, count, "uint8"):view(-1, 3):to "int32"
  local value = bytes:select(2, 1) + bytes:select(2, 2) * 256 + bytes:select(2, 3) * 65536
  return value - value:ge(1 << 23):to "int32" * (1 << 24)
end

-- The samples from -1 to 1 as float32, by the format and its bits.
local READERS = {
  [PCM] = {
    [8] = function(file, at, n) return (file:tensor(at, n, "uint8"):to "float32" - 128) / 128 end,
    [16] = function(file, at, n) return file:tensor(at, n, "int16"):to "float32" / 32768 end,
    [24] = function(file, at, n) return three_bytes(file, at, n):to "float32" / 8388608 end,
    [32] = function(file, at, n)
      return (file:tensor(at, n, "int32"):to "float64" / 2147483648):to "float32"
    end,
  },
  [FLOAT] = {
    [32] = function(file, at, n) return file:tensor(at, n, "float32") end,
    [64] = function(file, at, n) return file:tensor(at, n, "float64"):to "float32" end,
  },
}

-- --- reading ----------------------------------------------------------------------------------

-- What a "fmt " chunk says, as `{ read, channels, rate, width }`.
local function format_of(chunk)
  if #chunk < 16 then fail "its format is cut off" end
  local kind, channels, rate, _, align, bits = ("<I2 I2 I4 I4 I2 I2"):unpack(chunk)
  if kind == EXTENSIBLE then
    if #chunk < 40 or chunk:sub(27, 40) ~= REST_OF_ID then fail "its format is not known" end
    kind = ("<I2"):unpack(chunk, 25)
  end
  local read = (READERS[kind] or {})[bits]
  if not read then
    fail("its samples are of format %d with %d bits; 8, 16, 24 and 32 bits, and floats of 32 and "
      .. "64, are read", kind, bits)
  elseif channels < 1 or channels > MOST_CHANNELS or rate < 1
    or align ~= channels * (bits // 8) then
    fail "its format is damaged"
  end
  return { read = read, channels = channels, rate = rate, width = align }
end

-- The samples of the first "data" chunk, behind the "fmt " chunk.
local function read_chunks(file)
  local cursor = Cursor.new(file, 0)
  local head = cursor:chars(12)
  if head:sub(1, 4) ~= "RIFF" or head:sub(9, 12) ~= "WAVE" then
    local other = kinds.other_than(file:some(0, 512), "ml.data.read_wav")
    fail("%s", other and ("this is %s, not a WAV file"):format(other) or "it is no WAV file")
  end
  local format
  while true do
    local name, size = ("<c4 I4"):unpack(cursor:chars(8))
    local at = cursor.at
    if name == "fmt " then
      file:need(at, size)
      format = format_of(file:bytes(at, math.min(size, 40)))
    elseif name == "data" then
      if not format then fail "it has samples before their format" end
      file:need(at, size)
      local count = size // format.width
      -- The samples as floats, by as many steps as the format has at most.
      file.budget:take(count * format.channels * STEPS)
      local samples = format.read(file, at, count * format.width)
      return samples:view(count, format.channels):t():contiguous(), format.rate
    end
    cursor.at = at + size + size % 2
  end
end

local read_wav = signature "data.read_wav(string path, int>=1? max_bytes=nil)"

-- Runs `f`, whose errors then say the function and the file.
local function under(op, path, f, ...)
  local ok, first, second = pcall(f, ...)
  if ok then return first, second end
  local reason = Source.reason(first)
  if reason:find("^" .. op .. ": ") then options.fail("%s", reason) end
  if reason:find(op .. ": ", 1, true) then error(reason, 0) end
  options.fail("%s: '%s': %s", op, path, reason)
end

--- A WAV file as a float32 tensor of (channels, samples) from -1 to 1, and the samples per second:
--- whole numbers of 8, 16, 24 and 32 bits, floats of 32 and 64, and extensible files of these.
--- Reading takes at most `max_bytes`, as in `ml.load`.
---@param path string
---@param max_bytes? integer
---@return Tensor samples
---@return integer rate
function wav.read_wav(...)
  local path, max_bytes = read_wav(...)
  return under("read_wav", path, function()
    return read_chunks(Source.open(path, false, "read_wav", max_bytes))
  end)
end

-- --- writing ----------------------------------------------------------------------------------

-- Samples of three bytes, from whole numbers.
local function to_three_bytes(values)
  local bytes = values:to "int32":contiguous():view "uint8":view(-1, 4)
  return bytes:narrow(2, 1, 3):contiguous()
end

-- Whole numbers of `bits` bits, of samples that are cut to what they reach.
local function whole(samples, bits)
  local most = 2.0 ^ (bits - 1)
  return (samples:to "float64" * most):round():clamp(-most, most - 1)
end

local WRITERS = {
  [8] = function(samples) return (whole(samples, 8) + 128):to "uint8" end,
  [16] = function(samples) return whole(samples, 16):to "int16" end,
  [24] = function(samples) return to_three_bytes(whole(samples, 24)) end,
  [32] = function(samples) return whole(samples, 32):to "int32" end,
}
local FLOATS = { [32] = "float32", [64] = "float64" }

local read_write = signature("data.write_wav(string path, Tensor samples, int>=1 rate, "
  .. "int bits=16, bool floating=false)")

local function check(samples, rate, bits, floating)
  if not samples:is_floating_point() or samples.ndim < 1 or samples.ndim > 2 then
    options.fail("data.write_wav: 'samples' must be floats of shape (channels, samples) or "
      .. "(samples,), got %s of shape %s", samples.dtype, tostring(samples.shape))
  elseif not (floating and FLOATS or WRITERS)[bits] then
    options.fail("data.write_wav: 'bits' must be %s, got %d",
      floating and "32 or 64 for floats" or "8, 16, 24 or 32", bits)
  elseif rate > 0xffffffff then
    options.fail("data.write_wav: 'rate' must be of at most 32 bits, got %d", rate)
  elseif not floating and samples:isnan():any():item() then
    options.fail "data.write_wav: 'samples' has NaN, which whole numbers cannot hold"
  end
end

--- Writes floats from -1 to 1 of shape (channels, samples) or (samples,) as a WAV file, whole or
--- not at all. `rate` is the number of samples per second, `bits` 8, 16, 24 or 32, or with
--- `floating` 32 or 64. What is outside of -1 to 1 is cut, but in floats.
---@param path string
---@param samples Tensor
---@param rate integer
---@param bits? integer (default 16)
---@param floating? boolean (default false)
function wav.write_wav(...)
  local path, samples, rate, bits, floating = read_write(...)
  check(samples, rate, bits, floating)
  samples = samples:detach():to "cpu"
  if samples.ndim == 1 then samples = samples:unsqueeze(1) end
  local channels = samples.shape[1]
  local size = samples:numel() * (bits // 8)
  if channels < 1 or channels > MOST_CHANNELS or size > MOST_BYTES - 100 then
    options.fail("data.write_wav: a WAV file cannot hold shape %s", tostring(samples.shape))
  end
  local rows = samples:t():contiguous():view(-1)
  local data = floating and rows:to(FLOATS[bits]) or WRITERS[bits](rows)
  local align = channels * (bits // 8)
  local format = ("<I2 I2 I4 I4 I2 I2"):pack(floating and FLOAT or PCM, channels, rate,
    math.min(rate * align, MOST_BYTES), align, bits)
  local pad = size % 2 == 1 and "\0" or ""
  local head = ("<c4 I4 c4 c4 s4 c4 I4"):pack("RIFF", 36 + size + #pad, "WAVE", "fmt ", format,
    "data", size)
  io.write_parts(path, { head, data, pad }, "write_wav")
end

return wav
