-- stdlib/files/zip_writer.lua: zip archives as lists of strings and tensors, to be written by
-- moonlet.io.write_parts. Format: PKWARE's APPNOTE 6.3; what passes 4 GiB has Zip64 fields.

local Source = require "moonlet.files.source"
local io = require "moonlet.io"
local ml = require "moonlet"

local Archive = {}
Archive.__index = Archive

local STORED, DEFLATED = 0, 8
-- The first of January 1980 at midnight, in DOS's form; names in UTF-8.
local DATE, UTF8_NAMES = 0x21, 0x800
local PADDING_FIELD, LARGE_FIELD = 0x4246, 1
local WIDE, MANY = 0xffffffff, 0xffff

--- A new archive. Sizes and positions from `limit` on are written in Zip64 fields.
---@param limit? integer (default 4 GiB - 1)
---@return table
function Archive.new(limit)
  return setmetatable({ parts = {}, size = 0, entries = {}, limit = limit or WIDE }, Archive)
end

local function size_of(part)
  if not ml.is_tensor(part) then return #part end
  return part:numel() * Source.width(part.dtype)
end

function Archive:put(part)
  self.parts[#self.parts + 1] = part
  self.size = self.size + size_of(part)
end

-- An extra field that makes the bytes of an entry start at a multiple of `align`.
local function padding(start, align)
  local count = -(start + 4) % align
  return ("<I2 I2"):pack(PADDING_FIELD, count) .. ("\0"):rep(count)
end

--- Adds an entry of strings and tensors. Options: `align`, what its position is a multiple of;
--- `deflate`, true to compress it.
---@param name string
---@param parts any[]
---@param options? {align: integer?, deflate: boolean?}
function Archive:add(name, parts, options)
  options = options or {}
  local entry = { name = name, at = self.size, sum = io.checksum(parts), method = STORED, size = 0 }
  for _, part in ipairs(parts) do entry.size = entry.size + size_of(part) end
  entry.stored = entry.size
  if options.deflate then
    parts = { io.deflate(parts) }
    entry.method, entry.stored = DEFLATED, #parts[1]
  end
  entry.large = math.max(entry.size, entry.stored, entry.at) >= self.limit
  local extra = ""
  if entry.large then extra = ("<I2 I2 I8 I8"):pack(LARGE_FIELD, 16, entry.size, entry.stored) end
  if options.align then
    extra = extra .. padding(self.size + 30 + #name + #extra, options.align)
  end
  self:put(("<c4 I2 I2 I2 I2 I2 I4 I4 I4 I2 I2"):pack("PK\3\4", entry.large and 45 or 20,
    UTF8_NAMES, entry.method, 0, DATE, entry.sum, entry.large and WIDE or entry.stored,
    entry.large and WIDE or entry.size, #name, #extra) .. name .. extra)
  for _, part in ipairs(parts) do self:put(part) end
  self.entries[#self.entries + 1] = entry
end

-- An entry's line in the directory.
local function directory_line(entry)
  local large = entry.large
  local version, extra = large and 45 or 20, ""
  if large then
    extra = ("<I2 I2 I8 I8 I8"):pack(LARGE_FIELD, 24, entry.size, entry.stored, entry.at)
  end
  return ("<c4 I2 I2 I2 I2 I2 I2 I4 I4 I4 I2 I2 I2 I2 I2 I4 I4"):pack("PK\1\2", version, version,
    UTF8_NAMES, entry.method, 0, DATE, entry.sum, large and WIDE or entry.stored,
    large and WIDE or entry.size, #entry.name, #extra, 0, 0, 0, 0, large and WIDE or entry.at)
    .. entry.name .. extra
end

--- The whole archive: its parts in order.
---@return any[]
function Archive:finish()
  local start, lines = self.size, {}
  for i, entry in ipairs(self.entries) do lines[i] = directory_line(entry) end
  local count, directory = #lines, table.concat(lines)
  self:put(directory)
  if count >= MANY or math.max(start, #directory) >= self.limit then
    local at = self.size
    self:put(("<c4 I8 I2 I2 I4 I4 I8 I8 I8 I8"):pack("PK\6\6", 44, 45, 45, 0, 0, count, count,
      #directory, start))
    self:put(("<c4 I4 I8 I4"):pack("PK\6\7", 0, at, 1))
    self:put(("<c4 I2 I2 I2 I2 I4 I4 I2"):pack("PK\5\6", 0, 0, MANY, MANY, WIDE, WIDE, 0))
  else
    self:put(("<c4 I2 I2 I2 I2 I4 I4 I2"):pack("PK\5\6", 0, 0, count, count, #directory, start, 0))
  end
  return self.parts
end

return Archive
