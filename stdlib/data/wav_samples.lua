-- stdlib/data/wav_samples.lua: how the samples of a WAV file are written: whole numbers, floats,
-- the telephone's mu-law and A-law (ITU-T G.711), and ADPCM of the IMA and of Microsoft.

local io = require "moonlet.io"
local ml = require "moonlet"

local samples = {}

local function fail(format, ...) error(format:format(...), 0) end

local PCM, MICROSOFT, FLOAT, A_LAW, MU_LAW, IMA, EXTENSIBLE = 1, 2, 3, 6, 7, 0x11, 0xfffe
-- What follows the format's number in the identifier of an extensible file.
local REST_OF_ID = "\0\0\0\0\16\0\128\0\0\170\0\56\155\113"
local MOST_CHANNELS = 1024
-- The bytes of a sample in all tensors that are made on the way to the last one.
local STEPS = 48

-- --- numbers and logarithms ---------------------------------------------------------------------

-- Samples of three bytes as whole numbers.
local function three_bytes(file, at, count)
  local bytes = file:tensor(at, count, "uint8"):view(-1, 3):to "int32"
  local value = bytes:select(2, 1) + bytes:select(2, 2) * 256 + bytes:select(2, 3) * 65536
  return value - value:ge(1 << 23):to "int32" * (1 << 24)
end

local function mu_law(byte)
  local code = ~byte & 255
  local size = ((code & 15) << 3 | 0x84) << (code >> 4 & 7)
  return (code & 128 ~= 0 and 0x84 - size or size - 0x84) / 32768
end

local function a_law(byte)
  local code = byte ~ 0x55
  local segment = code >> 4 & 7
  local size = (code & 15) << 4 | 8
  if segment > 0 then size = (size | 0x100) << segment - 1 end
  return (code & 128 ~= 0 and size or -size) / 32768
end

-- A reader of bytes that stand for one of 256 values.
local function by_table(value_of)
  local values
  return function(file, at, count)
    if not values then
      values = {}
      for byte = 0, 255 do values[byte + 1] = value_of(byte) end
    end
    local positions = file:tensor(at, count, "uint8"):to "int64" + 1
    return ml.tensor(values, { dtype = ml.float32 }):index_select(1, positions)
  end
end

-- The samples from -1 to 1 as float32, by the format and the bytes of a sample.
local READERS = {
  [PCM] = {
    function(file, at, n) return (file:tensor(at, n, "uint8"):to "float32" - 128) / 128 end,
    function(file, at, n) return file:tensor(at, n, "int16"):to "float32" / 32768 end,
    function(file, at, n) return three_bytes(file, at, n):to "float32" / 8388608 end,
    function(file, at, n)
      return (file:tensor(at, n, "int32"):to "float64" / 2147483648):to "float32"
    end,
  },
  [FLOAT] = {
    [4] = function(file, at, n) return file:tensor(at, n, "float32") end,
    [8] = function(file, at, n) return file:tensor(at, n, "float64"):to "float32" end,
  },
  [MU_LAW] = { by_table(mu_law) },
  [A_LAW] = { by_table(a_law) },
}

-- --- formats ------------------------------------------------------------------------------------

-- A format whose samples have bytes of their own.
local function plain(read, channels, rate, align)
  return {
    channels = channels, rate = rate,
    count = function(size) return size // align end,
    read = function(file, at, _, offset, count)
      file.budget:take(count * channels * STEPS)
      return read(file, at + offset * align, count * align):view(count, channels)
    end,
  }
end

-- The samples of a block of so many bytes.
local function samples_of(microsoft, bytes, channels)
  if microsoft then
    return bytes < 7 * channels and 0 or 2 + (bytes - 7 * channels) * 2 // channels
  end
  return bytes < 4 * channels and 0 or 1 + (bytes - 4 * channels) // (4 * channels) * 8
end

-- A format of blocks of `align` bytes; what follows the format's first 16 bytes says how many
-- samples a block has, and Microsoft's coefficients.
local function blocks(chunk, microsoft, channels, rate, align)
  local in_block = samples_of(microsoft, align, channels)
  if #chunk < 20 or in_block < 1 or ("<I2"):unpack(chunk, 19) ~= in_block then
    fail "its format is damaged"
  end
  local coefficients
  if microsoft then
    local count = #chunk >= 22 and ("<I2"):unpack(chunk, 21) or 0
    if count < 1 or count > 256 or #chunk < 22 + 4 * count then fail "its format is damaged" end
    coefficients = chunk:sub(23, 22 + 4 * count)
  end
  local function count(size)
    return size // align * in_block + samples_of(microsoft, size % align, channels)
  end
  return {
    channels = channels, rate = rate, count = count, in_block = in_block,
    read = function(file, at, size, offset, wanted)
      -- From the block on that has the first sample that is wanted.
      local before = offset // in_block
      at, size, offset = at + before * align, size - before * align, offset % in_block
      size = math.min(size, ((offset + wanted) // in_block + 1) * align)
      file.budget:take(count(size) * channels * 8)
      return io.decode_adpcm(file:bytes(at, size), channels, align, coefficients)
        :narrow(1, offset + 1, wanted)
    end,
  }
end

--- What a chunk "fmt " says: `channels`, `rate`, `in_block`, the samples of a block of compressed
--- ones, `count`, a function of the bytes of the data that gives the samples of a channel, and
--- `read`, a function of the file, the position and bytes of its data and of which samples (how
--- many are left out, how many are wanted), that gives a tensor of (samples, channels).
---@param chunk string
---@return table
function samples.format_of(chunk)
  if #chunk < 16 then fail "its format is cut off" end
  local kind, channels, rate, _, align, bits = ("<I2 I2 I4 I4 I2 I2"):unpack(chunk)
  if kind == EXTENSIBLE then
    if #chunk < 40 or chunk:sub(27, 40) ~= REST_OF_ID then fail "its format is not known" end
    kind = ("<I2"):unpack(chunk, 25)
  end
  local width = (bits + 7) // 8
  local read = (READERS[kind] or {})[width]
  local adpcm = (kind == IMA or kind == MICROSOFT) and bits == 4
  if not read and not adpcm then
    fail("its samples are of format %d with %d bits; whole numbers of 8 to 32 bits, floats of 32 "
      .. "and 64, mu-law, A-law and ADPCM of Microsoft and the IMA are read", kind, bits)
  elseif channels < 1 or channels > MOST_CHANNELS or rate < 1
    or read and align ~= channels * width then
    fail "its format is damaged"
  end
  if adpcm then return blocks(chunk, kind == MICROSOFT, channels, rate, align) end
  return plain(read, channels, rate, align)
end

--- The most bytes of a chunk "fmt " that `format_of` looks at.
samples.FORMAT_BYTES = 22 + 4 * 256

return samples
