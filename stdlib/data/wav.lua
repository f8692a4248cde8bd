-- stdlib/data/wav.lua: sound in WAV files, also those of more than 4 GiB (EBU Tech 3306, RF64, and
-- Sony's Wave64) and those that were written to a pipe. What needs no library is read without one,
-- on every machine, which is why libsndfile does not read these too; other formats are
-- data/sound_file.lua's. Format: Microsoft's "Multiple Channel Audio Data and WAVE Files", with
-- WAVE_FORMAT_EXTENSIBLE.

local Cursor = require "moonlet.files.cursor"
local Source = require "moonlet.files.source"
local io = require "moonlet.io"
local kinds = require "moonlet.files.kinds"
local ml = require "moonlet"
local options = require "moonlet.options"
local wav_samples = require "moonlet.data.wav_samples"
local signature = require "moonlet.signature"

local wav = {}

local function fail(format, ...) error(format:format(...), 0) end

local PCM, FLOAT = 1, 3
local MOST_CHANNELS, MOST_BYTES = 1024, 0xffffffff

-- --- chunks -----------------------------------------------------------------------------------

-- Programs that write to a pipe cannot go back to say how much it was: ffmpeg leaves 2^32 - 1, sox
-- and espeak-ng somewhat less than 2^31, GStreamer and what was stopped while it wrote 0.
local STREAMED = 0x7fff0000

-- Sony's Wave64 has identifiers of 16 bytes: these behind the four of a name.
local WAVE64_RIFF = "\46\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\0\0"
local WAVE64_REST = "\xf3\xac\xd3\x11\x8c\xd1\0\xc0\x4f\x8e\xdb\x8a"

-- The chunks of a file behind its head: a function that gives the name, position and bytes of the
-- next one; and where the file says that it ends.
local function chunks_of(file)
  local cursor = Cursor.new(file, 0)
  local head = cursor:chars(12)
  if head == "riff" .. WAVE64_RIFF:sub(1, 8) then
    local rest = cursor:chars(28)
    if rest:sub(13) ~= "wave" .. WAVE64_REST then fail "it is no WAV file" end
    return function()
      local name, rest_of_id, size = ("<c4 c12 i8"):unpack(cursor:chars(24))
      local at = cursor.at
      if size < 24 or size > 1 << 60 then fail "a chunk is damaged" end
      cursor.at = at + (size - 24 + 7) // 8 * 8
      return rest_of_id == WAVE64_REST and name or "", at, size - 24
    end, ("<i8"):unpack(rest, 5)
  end
  local magic = head:sub(1, 4)
  if magic ~= "RIFF" and magic ~= "RF64" and magic ~= "BW64" or head:sub(9, 12) ~= "WAVE" then
    local other = kinds.other_than(file:some(0, 512), "ml.data.read_wav")
    fail("%s", other and ("this is %s, not a WAV file"):format(other) or "it is no WAV file")
  end
  return function()
    local name, size = ("<c4 I4"):unpack(cursor:chars(8))
    local at = cursor.at
    cursor.at = at + size + size % 2
    return name, at, size
  end, ("<I4"):unpack(head, 5) + 8
end

-- The bytes of the data at `at` of which the file says `size`, `wide` where it has 64 bits for it.
local function data_size(file, at, size, wide, stated_end)
  local left = file.size - at
  if wide and size == MOST_BYTES then size = wide end
  local streamed = size >= STREAMED and size > left and size ~= wide
    or size == 0 and (stated_end <= at or wide == 0)
  if streamed then return left end
  file:need(at, size)
  return size
end

-- The samples of the first "data" chunk, behind the "fmt " chunk: `wanted` of them after `offset`,
-- or all with -1.
local function read_chunks(file, offset, wanted)
  local next_chunk, stated_end = chunks_of(file)
  local format, wide, said
  while true do
    local name, at, size = next_chunk()
    if name == "fmt " then
      file:need(at, size)
      format = wav_samples.format_of(file:bytes(at, math.min(size, wav_samples.FORMAT_BYTES)))
    elseif name == "ds64" and size >= 16 then
      wide = ("<i8"):unpack(file:bytes(at, 16), 9)
      if wide < 0 then fail "a chunk is damaged" end
    elseif name == "fact" and size >= 4 then
      said = ("<I4"):unpack(file:bytes(at, 4))
    elseif name == "data" then
      if not format then fail "it has samples before their format" end
      local bytes = data_size(file, at, size, wide, stated_end)
      local count = format.count(bytes)
      -- The last block of compressed samples may be filled up. More than that is not left out:
      -- libsndfile says half of the samples of two channels.
      if format.in_block and said and count - said < format.in_block then
        count = math.min(count, said)
      end
      offset = math.min(offset, count)
      wanted = wanted < 0 and count - offset or math.min(wanted, count - offset)
      if wanted == 0 then return ml.zeros(0, format.channels), format.rate end
      return format.read(file, at, bytes, offset, wanted), format.rate
    end
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

--- The samples of a WAV file as (samples, channels) and the rate, for `op`: `wanted` of them behind
--- `offset`, or all with -1.
---@param op string
---@param path string
---@param offset integer
---@param wanted integer
---@param max_bytes? integer
---@return Tensor
---@return integer
function wav.read_part(op, path, offset, wanted, max_bytes)
  return under(op, path, function()
    return read_chunks(Source.open(path, false, op, max_bytes), offset, wanted)
  end)
end

--- A WAV file as a float32 tensor of (channels, samples) from -1 to 1, and the samples per second:
--- whole numbers of 8 to 32 bits, floats of 32 and 64, mu-law, A-law, and ADPCM of Microsoft and
--- the IMA; extensible files of these, RF64 and Wave64. A file that was written to a pipe, and so
--- does not say how long it is, is read to its end. Reading takes at most `max_bytes`, as in
--- `ml.load`. `data.audio.load` reads other sound, too.
---@param path string
---@param max_bytes? integer
---@return Tensor samples
---@return integer rate
function wav.read_wav(...)
  local path, max_bytes = read_wav(...)
  local found, rate = wav.read_part("read_wav", path, 0, -1, max_bytes)
  return found:t():contiguous(), rate
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
