-- stdlib/utils/tensorboard/records.lua: files of records as TensorBoard reads them (TFRecord):
-- each has its length and a masked CRC32C of it in front, and one of the data behind.

local fail = require("moonlet.options").fail

local records = {}

-- The remainders of single bytes by the Castagnoli polynomial, bits reversed (RFC 3720, B.4).
local REMAINDERS = {}
for byte = 0, 255 do
  local rest = byte
  for _ = 1, 8 do rest = rest & 1 == 1 and rest >> 1 ~ 0x82f63b78 or rest >> 1 end
  REMAINDERS[byte] = rest
end

--- The CRC32C of a string.
---@param data string
---@return integer
function records.crc32c(data)
  local rest = 0xffffffff
  for at = 1, #data, 4096 do
    for _, byte in ipairs { data:byte(at, at + 4095) } do
      rest = REMAINDERS[(rest ~ byte) & 0xff] ~ rest >> 8
    end
  end
  return rest ~ 0xffffffff
end

-- As the format masks it, since the CRC of data that holds CRCs is weak.
local function masked(data)
  local crc = records.crc32c(data)
  return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff
end

--- A record.
---@param data string
---@return string
function records.frame(data)
  local length = ("<I8"):pack(#data)
  return length .. ("<I4"):pack(masked(length)) .. data .. ("<I4"):pack(masked(data))
end

local File = {}
File.__index = File

--- A new file of records.
---@param path string
---@return table file
function records.open(path)
  local handle, message = io.open(path, "wb")
  if not handle then fail("SummaryWriter: %s", message) end
  handle:setvbuf("full", 1 << 16)
  return setmetatable({ handle = handle, path = path, waiting = 0 }, File)
end

function File:check(ok, message)
  if not ok then fail("SummaryWriter: '%s': %s", self.path, message) end
end

--- Adds a record; it is on disk after `flush`.
---@param data string
function File:write(data)
  self:check(self.handle:write(records.frame(data)))
  self.waiting = self.waiting + 1
end

function File:flush()
  self:check(self.handle:flush())
  self.waiting = 0
end

function File:close() self:check(self.handle:close()) end

return records
