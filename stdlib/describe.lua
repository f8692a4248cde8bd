-- stdlib/describe.lua: the numbers that tell what is in a tensor: how many, their mean and spread,
-- their extremes and quartiles.

local ml = require "moonlet"
local numbers = require "moonlet.numbers"
local signature = require "moonlet.signature"

local describe = {}

--- Summary statistics, which `ml.describe` returns; prints as a table.
--- > ml.describe(ml.tensor { 1, 2, 3, 4 }).median
---   2.5
---@class moonlet.Description
---@field count integer number of elements that are not NaN
---@field nan integer number of elements that are NaN
---@field mean number arithmetic mean
---@field std number standard deviation, with the divisor count - 1
---@field min number minimum
---@field q25 number first quartile, interpolated linearly between two elements
---@field median number median
---@field q75 number third quartile
---@field max number maximum
local Description = {}
Description.__index = Description
Description.__name = "Description"

local ROWS = { "count", "nan", "mean", "std", "min", "q25", "median", "q75", "max" }

function Description:__tostring()
  local lines = {}
  for i, name in ipairs(ROWS) do
    local value = self[name]
    local text = math.type(value) == "integer" and tostring(value) or numbers.tostring(value)
    if value ~= value then text = "nan" end
    lines[i] = ("%-7s %s"):format(name, text)
  end
  return table.concat(lines, "\n")
end

-- The element `part` of the way through sorted numbers.
local function quantile(sorted, count, part)
  if count == 0 then return 0 / 0 end
  local position = 1 + part * (count - 1)
  local low = math.floor(position)
  local a, b = sorted[low]:item(), sorted[math.min(low + 1, count)]:item()
  local rest = position - low
  return rest == 0 and a or a + rest * (b - a)
end

local read = signature "describe(Tensor x)"

--- Summary statistics of the elements of `x` that are numbers: count, mean, standard deviation,
--- extremes and quartiles, as a table that prints; also `x:describe()`. The statistics of nothing
--- are NaN.
--- > ml.describe(ml.tensor { 1, 2, 3, 4 })
---   count   4
---   nan     0
---   mean    2.5
---   std     1.2909944487358
---   min     1.0
---   q25     1.75
---   median  2.5
---   q75     3.25
---   max     4.0
---@param x moonlet.Tensor a real tensor
---@return moonlet.Description
---@shape x (*)
function describe.describe(...)
  local x = read(...)
  local all = x:detach():reshape(-1):to { dtype = ml.float64, device = "cpu" }
  local missing = all:isnan()
  local sorted = all:masked_select(missing:logical_not()):sort()
  local count = sorted:numel()
  local nothing = 0 / 0
  return setmetatable({
    count = count, nan = missing:sum():item(),
    mean = count > 0 and sorted:mean():item() or nothing,
    std = count > 1 and sorted:std():item() or nothing,
    min = count > 0 and sorted[1]:item() or nothing,
    q25 = quantile(sorted, count, 0.25), median = quantile(sorted, count, 0.5),
    q75 = quantile(sorted, count, 0.75),
    max = count > 0 and sorted[count]:item() or nothing,
  }, Description)
end

return describe
