-- stdlib/data/sound_file.lua: sound of any format: WAV by data/wav.lua, which needs no library,
-- FLAC, Ogg and others by libsndfile.

local io = require "moonlet.io"
local signature = require "moonlet.signature"
local wav = require "moonlet.data.wav"

local sound_file = {}

-- What data/wav.lua reads begins with this.
local OURS = { RIFF = "WAVE", RF64 = "WAVE", BW64 = "WAVE", riff = "\xa5\xd6\x28\xdb" }

local read_load = signature("data.audio.load(string path, int>=0 frame_offset=0, "
  .. "int>=-1 num_frames=-1, bool channels_first=true, int>=1? max_bytes=nil)")

--- Reads a file of sound as float32 samples from -1 to 1, and the sample rate in hertz. WAV files
--- are read on every machine, as `data.read_wav` does; FLAC, Ogg (Vorbis, Opus), MP3, AIFF and AU
--- where libsndfile is installed, and otherwise the error says so.
--- > path = os.tmpname()
--- > ml.data.write_wav(path, ml.zeros(2, 100), 8000)
--- > ml.data.audio.load(path, { num_frames = 10 }).shape
---   (2, 10)
---@param path string the file
---@param frame_offset? integer samples of each channel that are left out before the first one
---@param num_frames? integer the most samples of each channel; -1 for all
---@param channels_first? boolean (channels, samples), or with false (samples, channels)
---@param max_bytes? integer the most bytes that reading may take, as in `ml.load`
---@return Tensor waveform
---@return integer sample_rate
---@shape -> waveform (channels, samples), sample_rate
function sound_file.load(...)
  local path, offset, count, channels_first, max_bytes = read_load(...)
  local head = io.read_bytes(path, 0, 12, "audio.load")
  local samples, rate
  if OURS[head:sub(1, 4)] == head:sub(9, 12) then
    samples, rate = wav.read_part("audio.load", path, offset, count, max_bytes)
  else
    samples, rate = io.read_sound(path, offset, count, max_bytes)
  end
  return channels_first and samples:t():contiguous() or samples, rate
end

return sound_file
