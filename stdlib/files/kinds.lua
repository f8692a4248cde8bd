-- stdlib/files/kinds.lua: which format a file has, by its first bytes and its name.

local kinds = {}

--- The formats that `ml.load` reads, each with what messages call such a file.
kinds.titles = {
  safetensors = "a safetensors file", index = "an index of several files",
  torch = "a file of torch.save", zip = "a zip archive", npy = "a NumPy array",
  npz = "a NumPy archive", legacy = "a file of torch.save before PyTorch 1.6",
  torch7 = "a Torch7 file", gguf = "a GGUF file", onnx = "an ONNX model", program = "a program",
}

-- The format that the end of a name stands for, where it does.
local BY_NAME = { { "%.index%.json$", "index" }, { "%.safetensors$", "safetensors" },
  { "%.pth?$", "torch" }, { "%.npy$", "npy" }, { "%.npz$", "npz" }, { "%.t7$", "torch7" },
  { "%.gguf$", "gguf" }, { "%.onnx$", "onnx" }, { "%.mlp$", "program" } }

-- What a file of another format begins with, what it is, and what reads it, if anything does.
local OTHERS = {
  { "^\x89PNG\r\n\x1a\n", "a PNG picture", "ml.data.read_image" },
  { "^\xff\xd8\xff", "a JPEG picture", "ml.data.read_image" },
  { "^GIF8[79]a", "a GIF picture", "ml.data.read_image" },
  { "^BM....\0\0\0\0", "a BMP picture", "ml.data.read_image" },
  { "^RIFF....WAVE", "a WAV file", "ml.data.read_wav" },
  { "^RIFF....WEBP", "a WebP picture", "ml.data.read_image" },
  { "^RF64....WAVE", "a WAV file", "ml.data.read_wav" },
  { "^ID3", "an MP3 file", "ml.data.audio.load" }, { "^fLaC", "a FLAC file", "ml.data.audio.load" },
  { "^OggS", "an Ogg file", "ml.data.audio.load" },
  { "^\x1f\x8b", "a gzip file; unpack it first" }, { "^BZh%d", "a bzip2 file; unpack it first" },
  { "^\xfd7zXZ\0", "an xz file; unpack it first" },
  { "^\x28\xb5\x2f\xfd", "a Zstandard file; unpack it first" },
  { "^7z\xbc\xaf\x27\x1c", "a 7z archive; unpack it first" },
  { "^\x89HDF\r\n\x1a\n", "an HDF5 file" }, { "^MATLAB 5%.0", "a MATLAB file" },
  { "^PAR1", "a Parquet file" }, { "^%%PDF", "a PDF file" }, { "^\x7fELF", "a program (ELF)" },
  { "^\27Lua", "compiled Lua" }, { "^....TFL3", "a TensorFlow Lite model" },
  { "^version https://git%-lfs", "a pointer of Git LFS, not the file itself; run git lfs pull" },
  { "^%s*<[!hH?]", "an HTML or XML page" },
  { "^lmgg", "an old GGML file" }, { "^tjgg", "an old GGML file" }, { "^fmgg", "an old GGML file" },
  { "^\0\0\x08[\x01-\x04]\0", "an IDX file", "ml.data.read_idx" },
}

-- torch.save wrote a number of its own first, as a pickle of protocol 2 or more.
local LEGACY = "^\x80[\2-\5]\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19"

local function is_safetensors(head)
  if #head < 9 then return false end
  local length = ("<I8"):unpack(head)
  return length >= 0 and length <= 100000000 and head:sub(9, 9) == "{"
end

-- A safetensors file whose first metadata are a graph.
local function is_program(head)
  return head:find('{"__metadata__":{"moonlet.program":', 9, true) == 9
end

local function is_torch7(head)
  return head:find "^[\3\4]\0\0\0\1\0\0\0" ~= nil or head:find "^[34]\r?\n1\r?\n" ~= nil
end

-- The version of the format, then the producer, the graph or the sets of ops: protobuf has no mark
-- of its own.
local function is_onnx(head)
  return head:find "^\x08[\x01-\x20]([\x12\x1a\x3a\x42])" ~= nil
end

--- The format that a file's first bytes show: a key of `titles`; else nothing, and what it is
--- instead and the function that reads it, where they are known.
---@param head string the first 512 bytes
---@return string? kind
---@return string? other
---@return string? reader
function kinds.of_bytes(head)
  if head:find "^PK\3\4" or head:find "^PK\5\6" then return "zip" end
  if head:find "^\x93NUMPY" then return "npy" end
  if head:find "^GGUF" then return "gguf" end
  if head:find(LEGACY) then return "legacy" end
  if is_safetensors(head) then return is_program(head) and "program" or "safetensors" end
  if is_torch7(head) then return "torch7" end
  for _, other in ipairs(OTHERS) do
    if head:find(other[1]) then return nil, other[2], other[3] end
  end
  if head:find "^\x80[\2-\5]" then return nil, "a Python pickle" end
  if head:sub(258, 262) == "ustar" then return nil, "a tar archive" end
  if head:find "^%s*{" then return nil, "a JSON file" end
  if is_onnx(head) then return "onnx" end
  return nil
end

--- What a file is that is none of those that `reader` reads, or nothing where that is not known.
---@param head string the first 512 bytes
---@param reader string
---@return string?
function kinds.other_than(head, reader)
  local kind, other, its_reader = kinds.of_bytes(head)
  if kind then return kinds.titles[kind] end
  return its_reader ~= reader and other or nil
end

--- The format that a file's name says, or nothing.
---@param path string
---@return string?
function kinds.of_name(path)
  for _, row in ipairs(BY_NAME) do
    if path:lower():find(row[1]) then return row[2] end
  end
  return nil
end

return kinds
