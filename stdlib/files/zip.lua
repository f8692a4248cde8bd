-- stdlib/files/zip.lua: reads zip archives, of PyTorch and NumPy: entries that are stored as they
-- are or deflated. libzip and miniz say neither where a stored entry lies in the file, which
-- tensors are read from without a copy, nor ask a budget before they inflate; zlib does the
-- inflating. Format: PKWARE's APPNOTE 6.3, sections 4.3 and 4.5.3 (Zip64).

local Budget = require "moonlet.files.budget"
local Cursor = require "moonlet.files.cursor"
local io = require "moonlet.io"

local zip = {}

local MOST_COMMENT, END_SIZE = 65535, 22

-- An entry as a table of its fields.
local ENTRY_BYTES = 10 * Budget.KEY

-- A deflate stream grows so many times at most.
local MOST_GROWTH = 1032

-- How an entry's bytes are kept.
local STORED, DEFLATED = 0, 8

local function fail(format, ...) error(format:format(...), 0) end

-- Where the directory of a Zip64 archive is, or nothing.
local function find_large_directory(file, end_offset)
  if end_offset < 20 then return end
  local signature, _, offset = ("<I4 I4 i8"):unpack(file:bytes(end_offset - 20, 20))
  if signature ~= 0x07064b50 then return end
  local record = file:bytes(offset, 56)
  if record:sub(1, 4) ~= "PK\6\6" then fail "the end of the directory is damaged" end
  local count, _, start = ("<i8 i8 i8"):unpack(record, 33)
  return count, start
end

-- The number of entries, and where their directory starts.
local function find_directory(file)
  local size = file.size
  local tail_size = math.min(size, MOST_COMMENT + END_SIZE)
  local tail = file:bytes(size - tail_size, tail_size)
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
local function wide(extra, size, stored, offset)
  local at = 1
  while at + 3 <= #extra do
    local id, length = ("<I2 I2"):unpack(extra, at)
    if id == 1 then
      local from = at + 4
      if size == 0xffffffff then size, from = ("<i8"):unpack(extra, from) end
      if stored == 0xffffffff then stored, from = ("<i8"):unpack(extra, from) end
      if offset == 0xffffffff then offset = ("<i8"):unpack(extra, from) end
    end
    at = at + 4 + length
  end
  return size, stored, offset
end

local function read_entry(cursor)
  local head = cursor:chars(46)
  if head:sub(1, 4) ~= "PK\1\2" then fail "the directory is damaged" end
  local flags, method = ("<I2 I2"):unpack(head, 9)
  local checksum, stored, size, name_size, extra_size, comment_size =
    ("<I4 I4 I4 I2 I2 I2"):unpack(head, 17)
  local offset = ("<I4"):unpack(head, 43)
  local name = cursor:chars(name_size)
  size, stored, offset = wide(cursor:chars(extra_size), size, stored, offset)
  cursor:chars(comment_size)
  return { name = name, size = size, stored = stored, offset = offset, checksum = checksum,
    method = method, encrypted = flags & 1 == 1 }
end

local function check_entry(entry, available)
  local size, stored = entry.size, entry.stored
  if size < 0 or stored < 0 or (entry.method == STORED and size ~= stored) then
    fail("the sizes of the entry '%s' are damaged", entry.name)
  elseif stored > available then
    fail "entries share bytes, or the file is cut off"
  end
end

--- The entries of an archive by name, and their names in order. No byte belongs to two.
---@param file table a moonlet.files.source
---@return table<string, table>
---@return string[]
function zip.entries(file)
  local count, at = find_directory(file)
  if count < 0 or count > file.size // 46 then fail "the directory is damaged" end
  local entries, names, available, cursor = {}, {}, file.size, Cursor.new(file, at)
  for i = 1, count do
    file.budget:take(ENTRY_BYTES)
    local entry = read_entry(cursor)
    check_entry(entry, available)
    if entries[entry.name] then fail("the entry '%s' comes twice", entry.name) end
    available = available - entry.stored
    entries[entry.name], names[i] = entry, entry.name
  end
  return entries, names
end

-- Where the bytes of an entry are.
local function position_of(file, entry)
  if entry.encrypted then fail("the entry '%s' is encrypted", entry.name) end
  if entry.method ~= STORED and entry.method ~= DEFLATED then
    fail("the entry '%s' is compressed by method %d, which is not known", entry.name, entry.method)
  end
  local head = file:bytes(entry.offset, 30)
  if head:sub(1, 4) ~= "PK\3\4" then fail("the entry '%s' is damaged", entry.name) end
  local name_size, extra_size = ("<I2 I2"):unpack(head, 27)
  return entry.offset + 30 + name_size + extra_size
end

-- A writer may leave the checksum out.
local function check_sum(entry, bytes)
  if entry.checksum ~= 0 and io.checksum { bytes } ~= entry.checksum then
    fail("the entry '%s' is damaged: its checksum is another", entry.name)
  end
  return bytes
end

--- The bytes of an entry.
---@param file table a moonlet.files.source
---@param entry table
---@return string
function zip.read(file, entry)
  local at = position_of(file, entry)
  if entry.method == DEFLATED then
    local bytes = zip.tensor(file, entry, "uint8")
    file.budget:take_string(entry.size)
    return bytes:to_bytes()
  end
  return check_sum(entry, file:bytes(at, entry.size))
end

--- The bytes of an entry from its position `from`, which counts from 0, as a tensor of one
--- dimension. Those of a mapped file are not read, so their checksum is not checked.
---@param file table a moonlet.files.source
---@param entry table
---@param dtype string
---@param from? integer (default 0)
---@return Tensor
function zip.tensor(file, entry, dtype, from)
  local at = position_of(file, entry)
  from = from or 0
  if from > entry.size then fail("the entry '%s' is cut off", entry.name) end
  if entry.method == STORED and file.mapped then
    return file:tensor(at + from, entry.size - from, dtype)
  end
  local bytes
  if entry.method == STORED then
    bytes = file:tensor(at, entry.size, "uint8")
  else
    local stream = file:bytes(at, entry.stored)
    -- More than a stream can hold is an error of its own.
    file.budget:take(math.min(entry.size, MOST_GROWTH * #stream) + Budget.TENSOR)
    bytes = io.inflate(stream, entry.size)
  end
  check_sum(entry, bytes)
  return file:typed(from > 0 and bytes:narrow(1, from + 1, entry.size - from) or bytes, dtype)
end

return zip
