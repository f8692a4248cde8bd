-- stdlib/utils/tensorboard/fields.lua: fields of messages in the encoding of protocol buffers: each
-- is its number and kind, then its value. Written here, as five kinds of fields are all that is
-- needed: with libprotobuf the event files would want a library that the program is free of.

local fields = {}

local VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

--- Seven bits at a time, the least first; negative numbers take ten bytes.
---@param value integer
---@return string
function fields.varint(value)
  local out = {}
  repeat
    local rest = value >> 7
    out[#out + 1] = string.char(value & 0x7f | (rest ~= 0 and 0x80 or 0))
    value = rest
  until value == 0
  return table.concat(out)
end

local varint = fields.varint

local function field(number, kind, data) return varint(number << 3 | kind) .. data end

--- A field of an integer.
---@param number integer
---@param value integer
---@return string
function fields.integer(number, value) return field(number, VARINT, varint(value)) end

--- A field of a float64.
---@param number integer
---@param value number
---@return string
function fields.double(number, value) return field(number, FIXED64, ("<d"):pack(value)) end

--- A field of a float32.
---@param number integer
---@param value number
---@return string
function fields.float(number, value) return field(number, FIXED32, ("<f"):pack(value)) end

--- A field of a string, or of a message.
---@param number integer
---@param data string
---@return string
function fields.bytes(number, data) return field(number, BYTES, varint(#data) .. data) end

--- A field of several float64.
---@param number integer
---@param values number[]
---@return string
function fields.doubles(number, values)
  local out = {}
  for i, value in ipairs(values) do out[i] = ("<d"):pack(value) end
  return fields.bytes(number, table.concat(out))
end

return fields
