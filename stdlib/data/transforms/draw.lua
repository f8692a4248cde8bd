-- stdlib/data/transforms/draw.lua: the random numbers of data.transforms, and arguments that are
-- ranges of such.

local ml = require "moonlet"
local options = require "moonlet.options"
local fail = options.fail

local draw = {}

--- A number from `low` to `high`.
---@param low number
---@param high number
---@param generator? Generator
---@return number
function draw.uniform(low, high, generator)
  local share = ml.rand(1, { dtype = ml.float64, generator = generator }):item()
  return low + (high - low) * share
end

--- An integer from `low` to `high`, both among them.
---@param low integer
---@param high integer
---@param generator? Generator
---@return integer
function draw.integer(low, high, generator)
  if low == high then return low end
  return ml.randint(low, high, { 1 }, { dtype = ml.int64, generator = generator }):item()
end

--- True with probability `p`.
---@param p number
---@param generator? Generator
---@return boolean
function draw.chance(p, generator) return draw.uniform(0, 1, generator) < p end

--- Fails unless `range` is { low, high } with low <= high and both from `least` to `most`.
---@param where string
---@param name string
---@param range number[]
---@param least number
---@param most number
---@return number[]
function draw.check_range(where, name, range, least, most)
  local low, high = range[1], range[2]
  if #range ~= 2 or low > high or low < least or high > most or high == math.huge then
    fail("%s: '%s' must be two finite numbers from %s to %s, the smaller one first", where, name,
      least, most)
  end
  return range
end

return draw
