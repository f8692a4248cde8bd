-- stdlib/plot/axes.lua: the geometry that terminal and SVG charts share: data taken from arrays or
-- tensors, ranges, ticks at round numbers, histogram bins.

local fail = require("moonlet.options").fail

local axes = {}

--- Whether `value` is a number that can be drawn; NaN and infinities are gaps.
---@param value any
---@return boolean
function axes.is_finite(value)
  return type(value) == "number" and value == value and value ~= math.huge and value ~= -math.huge
end

--- The nested arrays in a table or tensor; nil for anything else.
---@param value any
---@return table?
function axes.to_table(value)
  local kind = type(value)
  if kind ~= "table" and kind ~= "userdata" then return nil end
  local meta = getmetatable(value)
  if meta then
    local method = value.tolist or value.totable
    if method then return method(value) end
  end
  return kind == "table" and value or nil
end

--- `value`, a non-empty array or tensor, as an array of numbers. `what` begins the error message.
---@param value any
---@param what string
---@return number[]
function axes.numbers(value, what)
  local list = axes.to_table(value)
  if type(list) ~= "table" then
    fail("%s: expected an array or a tensor, got %s", what, type(value))
  end
  if #list == 0 then fail("%s: there is no data", what) end
  for i, item in ipairs(list) do
    if type(item) ~= "number" then
      fail("%s: item %d is a %s, expected a number", what, i, type(item))
    end
  end
  return list
end

--- `value`, an h x w nested array or tensor, as rows of equal length. Leading dimensions of size 1
--- of a tensor, as in (1, 1, h, w), are dropped.
---@param value any
---@param what string
---@return number[][]
function axes.rows(value, what)
  local list = axes.to_table(value)
  while type(list) == "table" and #list == 1 and type(list[1]) == "table"
      and type(list[1][1]) == "table" do
    list = list[1]
  end
  if type(list) ~= "table" then
    fail("%s: expected rows of numbers, got %s", what, type(value))
  end
  if #list == 0 then fail("%s: there is no data", what) end
  local rows = {}
  for i, row in ipairs(list) do
    rows[i] = axes.numbers(row, ("%s: row %d"):format(what, i))
    if #rows[i] ~= #rows[1] then
      fail("%s: row %d has %d items, row 1 has %d", what, i, #rows[i], #rows[1])
    end
  end
  return rows
end

--- `value`, a (3, h, w) nested array or tensor, as three matrices of rows: red, green and blue; nil
--- for what has no three channels. Leading dimensions of size 1 are dropped.
---@param value any
---@param what string
---@return number[][][]?
function axes.channels(value, what)
  local list = axes.to_table(value)
  while type(list) == "table" and #list == 1 and type(list[1]) == "table" do list = list[1] end
  local first = type(list) == "table" and list[1]
  if type(first) ~= "table" or type(first[1]) ~= "table" or #list ~= 3 then return nil end
  local out = {}
  for c, rows in ipairs(list) do
    out[c] = axes.rows(rows, ("%s: channel %d"):format(what, c))
    if #out[c] ~= #out[1] or #out[c][1] ~= #out[1][1] then
      fail("%s: channel %d is %d x %d, channel 1 is %d x %d", what, c, #out[c], #out[c][1],
        #out[1], #out[1][1])
    end
  end
  return out
end

--- Smallest and largest finite number of arrays; nil when there is none.
---@param arrays number[][]
---@return number? low
---@return number? high
function axes.extent(arrays)
  local low, high
  for _, array in ipairs(arrays) do
    for _, value in ipairs(array) do
      if axes.is_finite(value) then
        if not low or value < low then low = value end
        if not high or value > high then high = value end
      end
    end
  end
  return low, high
end

--- A range wide enough to divide by: one value becomes a range around it.
---@param low number
---@param high number
---@return number low
---@return number high
function axes.widen(low, high)
  local size = math.max(math.abs(low), math.abs(high))
  if high / 2 - low / 2 > size * 1e-10 and size > 1e-290 then return low, high end
  if size <= 1e-290 then return -1, 1 end
  return low - size * 0.1, high + size * 0.1
end

--- Where `value` lies from `low` (0) to `high` (1); halves keep huge ranges finite.
---@param value number
---@param low number
---@param high number
---@return number
function axes.fraction(value, low, high)
  return (value / 2 - low / 2) / (high / 2 - low / 2)
end

local function nice_step(raw)
  local power = 10.0 ^ math.floor(math.log(raw, 10))
  local ratio = raw / power
  if ratio <= 1.0000001 then return power end
  if ratio <= 2 then return 2 * power end
  if ratio <= 5 then return 5 * power end
  return 10 * power
end

local function tick_label(value, step, size)
  if size >= 1e6 or step < 1e-5 then
    local digits = math.max(math.ceil(math.log(size / step, 10)) + 1, 1)
    local text = ("%." .. math.min(digits, 15) .. "g"):format(value)
    return (text:gsub("e([+-])0*(%d)", function(sign, digit)
      return "e" .. (sign == "-" and "-" or "") .. digit
    end))
  end
  local decimals = math.max(0, -math.floor(math.log(step, 10) + 1e-9))
  local text = ("%." .. decimals .. "f"):format(value)
  return text:find("^%-[0.]+$") and text:sub(2) or text
end

--- About `count` ticks at round numbers from `low` to `high`, each `{ value =, label = }`.
---@param low number
---@param high number
---@param count number
---@param integers? boolean no ticks between integers
---@return table[]
function axes.ticks(low, high, count, integers)
  count = math.max(count, 1)
  -- Steps stay finite also where the range itself is not.
  local LARGEST = 1e308
  local step = math.min(nice_step(math.min(high / count - low / count, LARGEST)), LARGEST)
  if integers and step < 1 then step = 1.0 end
  local size = math.max(math.abs(low), math.abs(high))
  local ticks = {}
  local first = math.ceil(low / step - 1e-9)
  for i = 0, 3 * count + 3 do
    local value = (first + i) * step
    if value > high + step * 1e-9 then break end
    ticks[#ticks + 1] = { value = value, label = tick_label(value, step, size) }
  end
  return ticks
end

--- A short text for a value beside a bar or in a cell.
---@param value number
---@return string
function axes.short(value)
  if value ~= value then return "nan" end
  local integer = math.tointeger(value)
  if integer and math.abs(integer) < 1e7 then return tostring(integer) end
  return ("%.4g"):format(value)
end

--- Counts of `values` in equal bins: edges (bins + 1 of them), counts, and how many values are
--- not finite or outside the range. The last bin includes its upper edge.
---@param values number[]
---@param bins? integer default: square root of the count, 5 to 40
---@param low? number
---@param high? number
---@return table
function axes.histogram(values, bins, low, high)
  local smallest, largest = axes.extent { values }
  low, high = low or smallest, high or largest
  if not low then fail("histogram: no value is finite") end
  low, high = axes.widen(low, high)
  bins = bins or math.min(math.max(math.ceil(math.sqrt(#values)), 5), 40)
  local result = { edges = {}, counts = {}, left_out = 0 }
  for i = 0, bins do
    result.edges[i + 1] = low * (1 - i / bins) + high * (i / bins)
    if i > 0 then result.counts[i] = 0 end
  end
  for _, value in ipairs(values) do
    if not axes.is_finite(value) or value < low or value > high then
      result.left_out = result.left_out + 1
    else
      local bin = math.min(math.floor(axes.fraction(value, low, high) * bins) + 1, bins)
      result.counts[bin] = result.counts[bin] + 1
    end
  end
  return result
end

return axes
