-- tests/lua/data/table_test.lua: data.read_table and data.Categories: columns of text and of numbers,
-- missing fields, quotes, and the errors of damaged files.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local data = ml.data
local test, expect = harness.test, harness.expect

-- The table of a file with this content.
local function read(content, ...)
  local extra, result = table.pack(...), nil
  harness.with_temp_file(function(path)
    local file = assert(io.open(path, "wb"))
    file:write(content)
    file:close()
    result = data.read_table(path, table.unpack(extra, 1, extra.n))
  end)
  return result
end

local PEOPLE = 'name,age, city ,"in, come",zip\n'
  .. '"Ann ""A""",34,Bern,1.5,0100\r\n'
  .. 'Bob,NA,"Basel\nor so", -2e3 ,0200\n'
  .. "Cy,7,,,0300\n\n"

test("columns of numbers and of text, with missing fields", function()
  local t = read(PEOPLE)
  expect.equal(#t, 3)
  expect.equal(t.names, { "name", "age", " city ", "in, come", "zip" })
  expect.equal(t:column "name", { 'Ann "A"', "Bob", "Cy" })
  expect.equal(t:column " city ", { "Bern", "Basel\nor so", "" })
  expect.near(t:column("age"):totable(), { 34, 0 / 0, 7 })
  expect.near(t:column("in, come"):totable(), { 1.5, -2000, 0 / 0 })
  expect.equal(t:column("zip"):totable(), { 100, 200, 300 })
  expect.equal(t:column("zip").dtype, ml.int64)
  expect.equal(t:column("age").dtype, ml.float32)
end)

test("columns side by side", function()
  local t = read(PEOPLE, { types = { zip = "text" } })
  expect.near(t:tensor():totable(), { { 34, 1.5 }, { 0 / 0, -2000 }, { 7, 0 / 0 } })
  expect.near(t:tensor({ "in, come", "age" }):totable(), { { 1.5, 34 }, { -2000, 0 / 0 }, { 0 / 0, 7 } })
  expect.error(function() t:tensor { "name" } end, "column 'name' is text; data.Categories")
  expect.error(function() t:tensor { "agee" } end, "no column 'agee'; did you mean 'age'")
  expect.error(function() read("a\nx\n"):tensor() end, "no columns of numbers")
end)

test("what a table holds is printed", function()
  local text = tostring(read(PEOPLE))
  expect.truthy(text:find "^Table of 3 rows\n", text)
  expect.truthy(text:find "age +number +1 missing +from 7 to 34", text)
  expect.truthy(text:find ' city  +text +1 missing +2 values: "Bern", "Basel\nor so"', text)
  expect.truthy(tostring(read "a\nNA\nNA\n"):find "a +number +2 missing")
end)

test("options of read_table", function()
  local t = read("1;x\n?;y\n", { header = false, separator = ";", missing = { "?" }, dtype = ml.float64 })
  expect.equal(t.names, { "1", "2" })
  expect.near(t:column("1"):totable(), { 1, 0 / 0 })
  expect.equal(t:column("1").dtype, ml.float64)
  expect.equal(read("a\nNA\n", { missing = { "" } }):column "a", { "NA" })
  expect.equal(read("a\n1\n\n2\n", { types = { a = "text" } }):column "a", { "1", "2" })
  expect.equal(read("a\n1\n\n2\n", { types = { a = "text" }, skip_blank_lines = false }):column "a",
    { "1", "", "2" })
  expect.equal(read("a\tb\n1\t\n2\tx\n", { separator = "\t" }):column "b", { "", "x" })
  expect.equal(read("a|b\n1|x y\n", { separator = "|" }):column "b", { "x y" })
end)

test("only decimal numbers make a column of numbers", function()
  for _, field in ipairs { "0x10", "1,5", "1e", "12a", "- 1", ".", "1,2345", "1_000", "+", "e5", "nan(1)" } do
    expect.equal(read("a\n2\n\"" .. field .. "\"\n"):column "a", { "2", field })
  end
  expect.near(read("a\n+1.5\n.5\n-2.\n1E2\n"):column("a"):totable(), { 1.5, 0.5, -2, 100 })
  expect.equal(read("a\n2.5\ninf\n-1e999\n"):column("a"):totable(), { 2.5, math.huge, -math.huge })
end)

-- The dtype and the values of a column that is called "a".
local function column_of(content, options)
  local column = read(content, options):column "a"
  return column.dtype, column:totable()
end

test("no digit of a number is lost without a word", function()
  local cases = {
    { "a\n1700000001\n1700000002\n", "int64", { 1700000001, 1700000002 } },
    { "a\n9223372036854775807\n", "int64", { math.maxinteger } },
    { "a\n1700000001\nNA\n", "float64", { 1700000001.0, 0 / 0 } },
    { "a\nNA\n16777216\n", "float32", { 0 / 0, 16777216.0 } },
    { "a\n1700000001.5\n0.5\n", "float64", { 1700000001.5, 0.5 } },
    { "a\n1e300\n", "float64", { 1e300 } },
    { "a\n1e-300\n", "float64", { 1e-300 } },
    { "a\n1.7000000015e9\n", "float32", { 1700000000.0 } },
    { "a\n1700000001\n", "float32", { 1700000000.0 }, { dtype = ml.float32 } },
    { "a\n300\n", "int16", { 300 }, { types = { a = "int16" } } },
    { "a\n300\n", "float64", { 300.0 }, { dtype = { a = "float64" } } },
  }
  for _, case in ipairs(cases) do
    local dtype, values = column_of(case[1], case[4])
    expect.equal(dtype, case[2])
    expect.near(values, case[3], 0)
  end
  -- What no tensor holds stays text.
  expect.equal(read("a\n9223372036854775808\n1\n"):column "a", { "9223372036854775808", "1" })
  expect.equal(read("a\n123456789012345678\n\"\"\n"):column "a", { "123456789012345678", "" })
  expect.equal(read("a\n123456789012345678\n\"\"\n", { types = { a = "number" } }):column("a").dtype, ml.float64)
end)

test("the dtype of columns side by side", function()
  local t = read("a,b,c,d,e\n1,1700000001,0.5,True,1700000001.5\n2,1700000002,1.5,False,0\n")
  expect.equal(t:tensor({ "a" }).dtype, ml.float32)
  expect.equal(t:tensor({ "a", "c", "d" }):totable(), { { 1.0, 0.5, 1.0 }, { 2.0, 1.5, 0.0 } })
  expect.equal(t:tensor({ "a", "b" }).dtype, ml.int64)
  expect.equal(t:tensor({ "b", "c" }):totable(), { { 1700000001.0, 0.5 }, { 1700000002.0, 1.5 } })
  expect.equal(t:tensor({ "c", "e" }).dtype, ml.float64)
  expect.equal(t:tensor({ "b" }, { dtype = ml.float32 }).dtype, ml.float32)
end)

test("remarks in front of the header", function()
  expect.equal(read("# made by R\n# and others\na,b\n1,2\n").names, { "a", "b" })
  expect.equal(read("#id,b\n1,2\n").names, { "#id", "b" })
  expect.equal(read("## x\n#id,b\n1,2\n").names, { "#id", "b" })
  expect.equal(read("# x\n1\n", { comment = "" }).names, { "# x" })
  expect.equal(read("# a, b\na,b\n1,2\n", { comment = "#" }).names, { "a", "b" })
end)

test("the separator is found", function()
  for _, separator in ipairs { ",", ";", "\t", "|", "  " } do
    local t = read(("name:x\nAnn:1.5\nBob:2\n"):gsub(":", separator), { sep = "auto" })
    expect.equal(t.names, { "name", "x" })
    expect.equal(t:column("x"):totable(), { 1.5, 2.0 })
  end
  expect.equal(read("x\n1\n", { sep = "auto" }).names, { "x" })
end)

test("lines that are too long", function()
  local content = "a,b\n1,2\n3,4,5\n6,7\n"
  expect.error(function() read(content) end, "line 3: 3 fields where the lines before have 2")
  expect.equal(read(content, { on_bad_lines = "skip" }):column("a"):totable(), { 1, 6 })
  local said, real = "", warn
  rawset(_G, "warn", function(text) said = said .. text end)
  local rows = #read(content, { on_bad_lines = "warn" })
  rawset(_G, "warn", real)
  expect.equal(rows, 2)
  expect.truthy(said:find "read_table: .*line 3 is left out: 3 fields where the lines before have 2", said)
end)

test("dates", function()
  local t = read("a,b\n2020-02-29 12:30:15,5\n1969-12-31,6\n", { parse_dates = "a" })
  expect.equal(t:column("a"):totable(), { 1582979415, -86400 })
  expect.truthy(tostring(t):find "a +date +0 missing +from 1969%-12%-31 to 2020%-02%-29", tostring(t))
  local parts = data.date_fields(t:column "a")
  local wanted = { year = { 2020, 1969 }, month = { 2, 12 }, day = { 29, 31 }, hour = { 12, 0 },
    min = { 30, 0 }, sec = { 15, 0 }, wday = { 7, 4 }, yday = { 60, 365 } }
  for name, values in pairs(wanted) do expect.equal(parts[name]:totable(), values) end
  -- One date that says so puts the day first in all.
  local _, days = column_of("a\n02/03/2020\n31/03/2020\n", { parse_dates = { 1 } })
  expect.equal(os.date("!%Y-%m-%d", days[1]), "2020-03-02")
  local dtype, seconds = column_of("a\n2020-01-01T00:00:00.25+02:00\n\"\"\n", { types = { a = "date" } })
  expect.equal(dtype, ml.float64)
  expect.near(seconds, { 1577829600.25, 0 / 0 }, 0)
  local known = read("a\n2020-01-01\nNA\n", { parse_dates = "a" }):column "a"
  expect.truthy(data.date_fields(known).year:isnan()[2]:item())
  for content, why in pairs {
    ["a\n2020-01-01\nsoon\n"] = "line 3, column 'a': 'soon' is no date",
    ["a\n2019-02-29\n"] = "is no date",
    ["a\n31/12/2020\n12/31/2020\n"] = "in some dates of the column the day is first",
  } do
    expect.error(function() read(content, { parse_dates = "a" }) end, why)
  end
  expect.error(function() read("a\n1\n", { parse_dates = "a", date_format = "%Q" }) end, "date_format")
end)

test("tables are written and come back", function()
  harness.with_temp_file(function(path)
    local t = read('i,x,big,s,b,d\n1,0.1,1700000001,"a, ""b""",True,2020-01-31\n'
      .. '2,,5,"two\nlines",False,2020-02-01 12:00:00.5\n'
      .. "3,inf,6,,True,\n", { parse_dates = "d" })
    data.write_csv(path, t)
    local file = assert(io.open(path))
    local content = file:read "a"
    file:close()
    expect.equal(content, 'i,x,big,s,b,d\n1,0.1,1700000001,"a, ""b""",true,2020-01-31\n'
      .. '2,,5,"two\nlines",false,2020-02-01 12:00:00.500000\n3,inf,6,,true,\n')
    local again = data.read_table(path, { parse_dates = "d" })
    expect.equal(again.names, t.names)
    for _, name in ipairs(t.names) do
      local one, other = t:column(name), again:column(name)
      if type(one) == "table" then expect.equal(other, one) else
        expect.equal(other.dtype, one.dtype)
        expect.near(other:totable(), one:totable(), 0)
      end
    end
    data.write_csv(path, data.Table { { "a", { "x", "" } } })
    expect.equal(data.read_table(path, { skip_blank_lines = true }):column "a", { "x", "" })
    data.write_csv(path, read("k,x\na,1\nb,2\n", { index_col = "k" }))
    again = data.read_table(path, { index_col = 1 })
    expect.equal(again.index:column "k", { "a", "b" })
    expect.equal(again.names, { "x" })
    expect.error(function() data.write_csv(path, t, { header = { "a" } }) end, "1 names for 6 columns")
    expect.error(function() data.write_csv(path, "x") end, "write_csv")
  end)
end)

test("numbers do not depend on the locale", function()
  harness.with_temp_file(function(path)
    local file = assert(io.open(path, "wb"))
    file:write "a;b\n1.5;1,5\n"
    file:close()
    local output = harness.run_with_decimal_commas(([[
      local t = require 'moonlet'.data.read_table('%s', { separator = ';' })
      print(t:column 'a' [1]:item() * 2 == 3, t:column 'b' [1])
      print(t)
    ]]):format(path))
    expect.truthy(output:find("^true\t1,5\n") and output:find("from 1.5 to 1.5", 1, true), output)
  end)
end)

test("compressed tables", function()
  harness.with_temp_file(function(path)
    local file = assert(io.open(path, "wb"))
    file:write "a,b\n1,x\n"
    file:close()
    if not os.execute(("gzip -c '%s' >'%s.gz' 2>/dev/null"):format(path, path)) then
      harness.skip "there is no gzip"
    end
    local t = data.read_table(path .. ".gz")
    os.remove(path .. ".gz")
    expect.equal(t:column "b", { "x" })
  end)
end)

test("damaged tables", function()
  local cases = {
    { "a,b\n1,2\n3,4,5\n", "line 3: 3 fields where the lines before have 2" },
    { 'a,b\n"1\n",2\n3,4,5\n', "line 4: 3 fields" },
    { "a,b\n1,2,3\n", "line 2: 3 fields where the lines before have 2", { index_col = false } },
    { 'a\n"x\n', "line 2: a quote is not closed" },
    { "", "has no rows" },
    { "\n\n", "has no rows" },
    { "a,b\n1,2\n3,x\n", "line 3, column 'b': 'x' is no number", { types = { b = "number" } } },
    { "a\n1\n", "'types': there is no column 'b' %(there are a%)", { types = { b = "number" } } },
    { "a\n1\n", 'column \'a\' must be "number", "text", "bool", "date" or a dtype .*"int"', { types = { a = "int" } } },
    { "a\n1\n", "'dtype' must be a floating one", { dtype = ml.int64 } },
    { "a\n1\n", "separator", { separator = "::" } },
    { "a\n1\n", "mean 'missing'", { mising = { "" } } },
    { "a\n1.5\n", "line 2, column 'a': '1.5' is no integer", { types = { a = "int64" } } },
    { "a\n300\n", "line 2, column 'a': '300' does not fit int8", { types = { a = "int8" } } },
    { "a\n1\nNA\n", "line 3, column 'a': the field is missing", { types = { a = "int64" } } },
    { "a\n1\n", "line 2, column 'a': '1' is not true or false", { types = { a = "bool" } } },
    { "a\n1\n", "'usecols': there is no column 'x'", { usecols = { "x" } } },
    { "a\n1\n", "'usecols': there is no column 2", { usecols = { 2 } } },
    { "a\n1\n", "'usecols' .*1", { usecols = { 0 } } },
    { "a\n1\n", "'index_col': there is no column \"x\"", { index_col = "x" } },
    { "a\n1\n", "'parse_dates': there is no column 'x'", { parse_dates = "x" } },
    { "a\n1\n", "'na_values': there is no column 'x'", { na_values = { x = { "1" } } } },
    { "a\n1\n", "'header' counts from 1", { header = 0 } },
    { "a\n1\n", "'header' must be true or false", { header = "yes" } },
    { "a\n1\n", "'quotechar' must be one character", { quotechar = "''" } },
    { "a\n1\n", "'separator' and 'comment' are the same", { comment = "," } },
    { "a\n1\n", "'thousands' and 'decimal' are the same", { thousands = "." } },
    { "a\n1\n", "'separator' is given twice", { sep = ";", separator = ";" } },
    { "a\n1\n", "'encoding' must be", { encoding = "klingon" } },
    { "a\n1\n", "error, warn or skip", { on_bad_lines = "ignore" } },
    { "a\n1\n", "'types' and 'dtype' both", { types = { a = "text" }, dtype = { a = "text" } } },
  }
  for _, case in ipairs(cases) do
    expect.error(function() read(case[1], case[3]) end, "read_table: .*" .. case[2])
  end
  expect.error(function() data.read_table "/nowhere/x.csv" end, "read_table: '/nowhere/x.csv'")
  expect.error(function() data.read_table() end, "read_table: 'path' is missing")
end)

test("tables made by a script", function()
  expect.equal(data.Table({ { "t", { 1700000001, 5 } } }):column("t"):totable(), { 1700000001, 5 })
  expect.equal(data.Table({ { "t", { 1700000001.5, 5 } } }):column("t"):totable(), { 1700000001.5, 5.0 })
  expect.equal(data.Table({ { "b", { true, false } } }):column("b"):totable(), { true, false })
  local t = data.Table { { "x", ml.tensor { 1, 2 } }, { "age", { 31, 0 / 0 } }, { "city", { "Bern", "" } } }
  expect.equal(t.names, { "x", "age", "city" })
  expect.equal(#t, 2)
  expect.near(t:column("age"):totable(), { 31, 0 / 0 })
  expect.near(t:tensor({ "age", "x" }):totable(), { { 31, 1 }, { 0 / 0, 2 } })
  local cases = {
    { { { "a", { 1 } }, { "b", { "x", "y" } } }, "column 'b' has 2 rows, column 'a' 1" },
    { { { "a", { 1 } }, { "a", { 2 } } }, "two columns called 'a'" },
    { { { "a", { "x", 1 } } }, "'a' must be an array of numbers or of texts" },
    { { { "a", { 1, "x" } } }, "'a' must be an array of numbers or of texts" },
    { { { "a", 1 } }, "'a' must be an array of numbers .* got 1" },
    { { { "a", ml.ones(2, 2) } }, "1%-D tensor, got a tensor of shape" },
    { { { "a" } }, "'a' must be .* got nil" },
    { { 5 }, "column 1 must be { name, values }, got 5" },
    { { a = { 1 } }, "unknown option 'a'" },
    { {}, "no columns" },
  }
  for _, case in ipairs(cases) do
    expect.error(function() data.Table(case[1]) end, "Table: .*" .. case[2])
  end
end)

test("categories", function()
  local c = data.Categories { "b", "a", "", "b", "ä", "Z" }
  expect.equal(c.names, { "Z", "a", "b", "ä" })
  expect.equal(#c, 4)
  expect.equal(c:encode({ "a", "Z", "a" }):totable(), { 2, 1, 2 })
  expect.equal(c:encode({}).dtype, ml.int64)
  expect.equal(c:encode "b", 3)
  expect.equal(c:decode(ml.tensor { 3, 1 }), { "b", "Z" })
  expect.equal(c:decode { 4 }, { "ä" })
  expect.equal(c:decode(2), "a")
  expect.equal(data.Categories({ "low", "mid", "high" }, { sort = false }).names, { "low", "mid", "high" })
  expect.error(function() c:encode { "a", "x" } end, "encode: value 2, 'x', is none of the categories")
  expect.error(function() c:encode "" end, "'unknown'")
  expect.error(function() c:decode(0) end, "position 0 is out of range; there are 4")
  expect.error(function() data.Categories { "" } end, "no values")
  expect.error(function() data.Categories(ml.ones(2)) end, "array of strings")
end)

test("a category for what is unknown, also after saving the names", function()
  local c = data.Categories({ "x", "", "other", "w" }, { unknown = "other" })
  expect.equal(c.names, { "w", "x", "other" })
  expect.equal(c:encode({ "x", "", "new", "other" }):totable(), { 2, 3, 3, 3 })
  expect.equal(data.Categories(c.names, { unknown = "other" }).names, c.names)
end)

harness.run()
