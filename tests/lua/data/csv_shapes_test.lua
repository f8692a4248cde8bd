-- tests/lua/data/csv_shapes_test.lua: CSV files as people have them: each cell that data.read_table gives
-- is that of pandas, as tests/reference/make_csv_shapes.py wrote it down.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local json = require "moonlet.json"
local ml = require "moonlet"
local data = ml.data
local test, expect = harness.test, harness.expect

local here = arg[0]:match "^(.*)/" or "."
local file = assert(io.open(here .. "/../../reference/values/csv_shapes.json"))
local shapes = json.decode(file:read "a")
file:close()

-- Where Moonlet does something else on purpose, by what the shape is called.
local ELSE = {
  -- pandas has None for a missing bool; here the texts stay.
  ["true and false with missing ones"] = function(t) expect.equal(t:column "a", { "True", "", "False" }) end,
}

local function read(shape)
  local bytes, t = shape.bytes:gsub("%x%x", function(h) return string.char(tonumber(h, 16)) end), nil
  harness.with_temp_file(function(path)
    local out = assert(io.open(path, "wb"))
    out:write(bytes)
    out:close()
    t = data.read_table(path, shape.options)
  end)
  return t
end

-- A cell of a tensor as the JSON file has it; NaN is a null there.
local function shown(value)
  if value ~= value then return json.null end
  if value == math.huge then return "inf" end
  if value == -math.huge then return "-inf" end
  return math.type(value) == "integer" and ("%d"):format(value) or value
end

-- Whether a number is the one wanted, as precisely as the column's dtype has it.
local function is_near(value, wanted, dtype)
  if type(value) ~= "number" or type(wanted) ~= "number" then return value == wanted end
  local error = math.abs(value - wanted)
  return error <= (dtype == ml.float32 and 6e-8 or 0) * math.abs(wanted)
end

local function check_numbers(column, kind, wanted)
  local dtypes = { int64 = "int64", bool = "bool", date = column.dtype }
  expect.equal(column.dtype, dtypes[kind] or column.dtype)
  expect.truthy(kind ~= "float64" or column:is_floating_point(), column.dtype)
  for row, value in ipairs(column:tolist()) do
    local got = shown(value)
    if kind == "date" and type(got) == "string" then got = math.tointeger(got) end
    expect.truthy(is_near(got, wanted[row], column.dtype),
      ("row %d: got %s, expected %s"):format(row, tostring(got), tostring(wanted[row])))
  end
end

local function check_column(column, kind, wanted, count)
  expect.equal(#column, count)
  if kind ~= "text" then
    expect.truthy(ml.is_tensor(column), "a column of texts")
    return check_numbers(column, kind, wanted)
  end
  expect.equal(type(column), "table")
  for row, text in ipairs(column) do
    local cell = wanted[row]
    expect.equal(text, cell == json.null and "" or cell)
  end
end

local function check(shape)
  local t = read(shape)
  expect.equal(t.names, shape.names)
  expect.equal(#t, shape.rows)
  for i, name in ipairs(shape.names) do
    check_column(t:column(name), shape.kinds[i], shape.cells[i], shape.rows)
  end
  expect.equal(t.index ~= nil, shape.index ~= nil)
  for i, cells in ipairs(shape.index or {}) do
    for row, value in ipairs(t.index:column(t.index.names[i])) do
      expect.equal(ml.is_tensor(value) and shown(value:item()) or value, cells[row])
    end
  end
end

for _, shape in ipairs(shapes) do
  test(shape.what, function()
    local other = ELSE[shape.what]
    if other then return other(read(shape)) end
    check(shape)
  end)
end

test("there are at least 100 shapes", function() expect.truthy(#shapes >= 100, #shapes) end)

harness.run()
