-- stdlib/distributed/pipelining/microbatches.lua: batches in parts of one size, and results of
-- parts as those of a batch.

local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local microbatches = {}

local function is_plain(value) return type(value) == "table" and getmetatable(value) == nil end

-- How many rows each part of a tensor has.
local function rows_of(where, name, x, count)
  local rows = x:dim() > 0 and x:size(1) or 0
  if rows == 0 or rows % count ~= 0 then
    fail("%s: %s of shape %s cannot be %d microbatches of one size: the first dimension must be a "
      .. "multiple of that", where, name, tostring(x.shape), count)
  end
  return rows // count
end

--- A value in so many parts: tensors along the first dimension, tables of such values; what is
--- neither is in every part as it is.
---@param where string what messages call the function
---@param name string what they call the value
---@param value any
---@param count integer
---@return any[]
function microbatches.split(where, name, value, count)
  local out = {}
  if ml.is_tensor(value) then
    local rows = rows_of(where, name, value, count)
    for m = 1, count do out[m] = value:narrow(1, (m - 1) * rows + 1, rows) end
  elseif is_plain(value) then
    for m = 1, count do out[m] = {} end
    for key, item in pairs(value) do
      local list = microbatches.split(where, ("%s.%s"):format(name, tostring(key)), item, count)
      for m = 1, count do out[m][key] = list[m] end
    end
  else
    for m = 1, count do out[m] = value end
  end
  return out
end

--- The results of all microbatches, each an array, joined along the first dimension.
---@param list moonlet.Tensor[][]
---@return moonlet.Tensor ...
function microbatches.merge(list)
  local out = {}
  for i, x in ipairs(list[1] or {}) do
    local each = {}
    for m, results in ipairs(list) do each[m] = results[i] end
    -- Losses and other values without dimensions are stacked.
    out[i] = x:dim() == 0 and ml.stack(each) or ml.cat(each)
  end
  return table.unpack(out)
end

--- What a stage gives, which must be tensors, as an array.
---@param where string what messages call the stage
---@return moonlet.Tensor[]
function microbatches.tensors(where, ...)
  local out, count = { ... }, select("#", ...)
  while count > 0 and out[count] == nil do count = count - 1 end
  for i = 1, count do
    if not ml.is_tensor(out[i]) then
      fail("%s: a stage gives tensors to the next one, got %s as result %d", where,
        signature.describe(out[i]), i)
    end
  end
  if count == 0 then fail("%s: a stage gives tensors to the next one, got nothing", where) end
  return out
end

return microbatches
