-- stdlib/files/cursor.lua: reads small things of a file one after the other, through a window, so
-- that not each is a read of its own.

local Cursor = {}
Cursor.__index = Cursor

local WINDOW = 1 << 16

--- A cursor at position `at` of a file, which counts from 0.
---@param file table a moonlet.files.source
---@param at integer
---@return table
function Cursor.new(file, at)
  return setmetatable({ file = file, at = at, buffer = "", base = at }, Cursor)
end

--- The next `count` bytes.
---@param count integer
---@return string
function Cursor:chars(count)
  local from = self.at - self.base
  if from < 0 or count < 0 or count > #self.buffer - from then
    self.file:need(self.at, count)
    self.buffer = self.file:some(self.at, math.max(count, WINDOW))
    self.base, from = self.at, 0
  end
  self.at = self.at + count
  return self.buffer:sub(from + 1, from + count)
end

--- The next number, in a format of string.unpack that takes `width` bytes.
---@param format string
---@param width integer
---@return number
function Cursor:number(format, width) return (format:unpack(self:chars(width))) end

return Cursor
