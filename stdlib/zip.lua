-- stdlib/zip.lua: reads zip archives whose entries are stored as they are, as PyTorch writes them.
-- Format: PKWARE's APPNOTE 6.3, sections 4.3 and 4.5.3 (Zip64).

local io = require "moonlet.io"

local zip = {}

local MOST_COMMENT, END_SIZE = 65535, 22

local function fail(format, ...) error(format:format(...), 0) end

local function bytes_at(file, offset, count)
  if offset < 0 or count < 0 or count > file.size - offset then fail "the file is cut off" end
  local bytes = io.read_bytes(file.path, offset, count)
  if #bytes < count then fail "the file has become shorter" end
  return bytes
end

-- Where the directory of a Zip64 archive is, or nothing.
local function find_large_directory(file, end_offset)
  if end_offset < 20 then return end
  local signature, _, offset = ("<I4 I4 i8"):unpack(bytes_at(file, end_offset - 20, 20))
  if signature ~= 0x07064b50 then return end
  local record = bytes_at(file, offset, 56)
  if record:sub(1, 4) ~= "PK\6\6" then fail "the end of the directory is damaged" end
  local count, _, start = ("<i8 i8 i8"):unpack(record, 33)
  return count, start
end

-- The number of entries, and where their directory starts.
local function find_directory(file)
  local size = file.size
  local tail_size = math.min(size, MOST_COMMENT + END_SIZE)
  local tail = bytes_at(file, size - tail_size, tail_size)
  for at = #tail - END_SIZE + 1, 1, -1 do
    if tail:sub(at, at + 3) == "PK\5\6" then
      local count, start = find_large_directory(file, size - tail_size + at - 1)
      if count then return count, start end
      return ("<I2"):unpack(tail, at + 10), (("<I4"):unpack(tail, at + 16))
    end
  end
  fail "the directory at the end is missing; is the file whole?"
end

-- The sizes and the offset of an entry, of which the 64-bit ones are in the Zip64 field.
local function wide(extra, size, offset, stored)
  local at = 1
  while at + 3 <= #extra do
    local id, length = ("<I2 I2"):unpack(extra, at)
    if id == 1 then
      local from = at + 4
      if size == 0xffffffff then size, from = ("<i8"):unpack(extra, from) end
      if stored == 0xffffffff then from = from + 8 end
      if offset == 0xffffffff then offset = ("<i8"):unpack(extra, from) end
    end
    at = at + 4 + length
  end
  return size, offset
end

local function read_entry(file, at)
  local head = bytes_at(file, at, 46)
  if head:sub(1, 4) ~= "PK\1\2" then fail "the directory is damaged" end
  local method = ("<I2"):unpack(head, 11)
  local checksum, stored, size, name_size, extra_size, comment_size =
    ("<I4 I4 I4 I2 I2 I2"):unpack(head, 17)
  local offset = ("<I4"):unpack(head, 43)
  local name = bytes_at(file, at + 46, name_size)
  size, offset = wide(bytes_at(file, at + 46 + name_size, extra_size), size, offset, stored)
  local entry = { size = size, offset = offset, checksum = checksum, compressed = method ~= 0 }
  return name, entry, at + 46 + name_size + extra_size + comment_size
end

--- The entries of an archive by name, each with its `size` in bytes.
---@param file {path: string, size: integer}
---@return table<string, {size: integer, offset: integer, checksum: integer, compressed: boolean}>
function zip.entries(file)
  local count, at = find_directory(file)
  if count < 0 or count > file.size // 46 then fail "the directory is damaged" end
  local entries = {}
  for _ = 1, count do
    local name, entry
    name, entry, at = read_entry(file, at)
    entries[name] = entry
  end
  return entries
end

--- The bytes of an entry.
---@param file {path: string, size: integer}
---@param entry {size: integer, offset: integer, checksum: integer, compressed: boolean}
---@return string
function zip.read(file, entry)
  if entry.compressed then fail "an entry is compressed; PyTorch's are not" end
  local head = bytes_at(file, entry.offset, 30)
  if head:sub(1, 4) ~= "PK\3\4" then fail "an entry is damaged" end
  local name_size, extra_size = ("<I2 I2"):unpack(head, 27)
  local bytes = bytes_at(file, entry.offset + 30 + name_size + extra_size, entry.size)
  -- A writer may leave the checksum out.
  if entry.checksum ~= 0 and io.checksum(bytes) ~= entry.checksum then
    fail "an entry is damaged: its checksum is another"
  end
  return bytes
end

return zip
