-- stdlib/torch7/print.lua: tensors and storages as Torch7 prints them.

local class = require "moonlet.torch7.class"
local core = require "moonlet.torch7.core"
local storages = require "moonlet.torch7.storage"

local methods = core.methods

local LINE_WIDTH = 80

-- The digits before the point of a number that is not negative.
local function digits_of(value)
  if value == 0 then return 1 end
  return math.floor(math.log(value, 10)) + 1
end

-- Whether all numbers are whole, and the digits of the smallest and the largest.
local function range_of(values)
  local whole, least, most = true, math.huge, 0
  for _, value in ipairs(values) do
    if value ~= value then return false, value, value end
    if value ~= math.ceil(value) then whole = false end
    local size = math.abs(value)
    least, most = math.min(least, size), math.max(most, size)
  end
  return whole, digits_of(least), digits_of(most)
end

-- The format of all numbers, what they are divided by (or nil) and the width of a column.
local function layout_of(values)
  if #values == 0 then return "", nil, 0 end
  local whole, least, most = range_of(values)
  if most ~= most then return "%f", nil, 0 end
  if whole then
    if most > 9 then return "%11.4e", nil, 11 end
    return "%" .. most + 1 .. "d", nil, most + 1
  end
  if most - least > 4 then
    local width = (math.abs(most) > 99 or math.abs(least) > 99) and 12 or 11
    return "%" .. width .. ".4e", nil, width
  end
  if most > 5 or most < 0 then
    local scale = 10.0 ^ (most - 1)
    return "%7.4f", scale ~= 1 and scale or nil, 7
  end
  local width = most == 0 and 7 or most + 6
  return "%" .. width .. ".4f", nil, width
end

local function column(values, out)
  local format, scale = layout_of(values)
  if scale then out[#out + 1] = ("%g *\n"):format(scale) end
  for _, value in ipairs(values) do
    out[#out + 1] = format:format(scale and value / scale or value) .. "\n"
  end
end

-- Some columns of a matrix, whose rows are lists of numbers.
local function block(rows, first, last, layout, indent, out)
  local format, scale = layout[1], layout[2]
  if scale then out[#out + 1] = ("%g *\n %s"):format(scale, indent) end
  for i, row in ipairs(rows) do
    for k = first, last do
      local value = row[k]
      out[#out + 1] = format:format(scale and value / scale or value)
      if k < last then out[#out + 1] = " " end
    end
    out[#out + 1] = "\n"
    if i < #rows then out[#out + 1] = scale and indent .. " " or indent end
  end
end

local function matrix(rows, layout, indent, out)
  local count = #rows[1]
  local at_once = (LINE_WIDTH - #indent) // (layout[3] + 1)
  local first = 1
  out[#out + 1] = indent
  while first <= count do
    local last = math.min(first + at_once - 1, count)
    if at_once < count then
      if first ~= 1 then out[#out + 1] = "\n" end
      out[#out + 1] = ("Columns %d to %d\n%s"):format(first, last, indent)
    end
    block(rows, first, last, layout, indent, out)
    first = last + 1
  end
end

-- All matrices of a tensor of more dimensions; the first position runs fastest.
local function matrices(nested, sizes, layout, out)
  local count, counter = #sizes - 2, {}
  for i = 1, count do counter[i] = 1 end
  while true do
    if #out > 0 then out[#out + 1] = "\n" end
    local part = nested
    for i = 1, count do part = part[counter[i]] end
    out[#out + 1] = "(" .. table.concat(counter, ",") .. ",.,.) = \n"
    matrix(part, layout, " ", out)
    local i = 1
    while i <= count and counter[i] == sizes[i] do
      counter[i] = 1
      i = i + 1
    end
    if i > count then return end
    counter[i] = counter[i] + 1
  end
end

local function tensor_text(x)
  local name, sizes = class.typename(x), core.sizes(x)
  if #sizes == 0 then return "[" .. name .. " with no dimension]\n" end
  local double = methods.to(x, "float64")
  local flat = methods.tolist(methods.reshape(double, { -1 }))
  local out = {}
  if #sizes == 1 then
    column(flat, out)
  else
    local layout = { layout_of(flat) }
    local nested = methods.tolist(double)
    if #sizes == 2 then matrix(nested, layout, "", out) else
      matrices(nested, sizes, layout, out)
    end
  end
  out[#out + 1] = ("[%s of size %s]\n"):format(name, table.concat(sizes, "x"))
  return table.concat(out)
end

local function storage_text(s)
  local out = {}
  column(s:totable(), out)
  out[#out + 1] = ("[%s of size %d]\n"):format(class.typename(s), #s)
  return table.concat(out)
end

core.each_class(function(mt) mt.__tostring__, mt.__tostring = tensor_text, tensor_text end)
storages.each_class(function(mt) mt.__tostring__, mt.__tostring = storage_text, storage_text end)
