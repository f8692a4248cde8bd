-- stdlib/files/budget.lua: what is left of what a reader may make of a file: a bound in proportion
-- to the file's size, which tensor/io/read_budget.h sets for all readers. What is made, and work
-- that makes nothing, is taken from it before it is done.

local io = require "moonlet.io"

local Budget = {}
Budget.__index = Budget

-- What values of Lua take, in bytes: a table, an item of a list and a key of a table as they grow,
-- the head of a string; and a tensor or storage beside its elements.
Budget.TABLE, Budget.ITEM, Budget.KEY, Budget.STRING, Budget.TENSOR = 64, 40, 80, 48, 1024

--- The budget of a file of `size` bytes; `max_bytes` is the option of the function that reads.
---@param size integer
---@param max_bytes? integer
---@return table
function Budget.new(size, max_bytes)
  local limit = io.read_limit(size, max_bytes)
  return setmetatable({ limit = limit, left = limit, given = max_bytes, size = size }, Budget)
end

--- Takes `bytes`; an error that names the option where there are not so many.
---@param bytes integer
function Budget:take(bytes)
  local left = self.left - bytes
  if bytes < 0 or left < 0 then
    error(("to read it takes more than %d bytes, the bound for a file of this size; the option "
      .. "'max_bytes' raises it"):format(self.limit), 0)
  end
  self.left = left
end

--- A share of what is left, as the bound of another reader: at least 1, as 0 stands for none.
---@param share? integer one of so many (default 1)
---@return integer
function Budget:rest(share) return math.max(self.left // (share or 1), 1) end

--- Takes the bytes of a string of `length`.
---@param length integer
function Budget:take_string(length) self:take(length + Budget.STRING) end

--- Another file of `size` bytes is a part of what is read.
---@param size integer
function Budget:add_file(size)
  self.size = self.size + size
  local limit = io.read_limit(self.size, self.given)
  self.limit, self.left = limit, self.left + limit - self.limit
end

return Budget
