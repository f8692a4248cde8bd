-- tests/lua/table_test.lua: data.read_table and data.Categories: columns of text and of numbers,
-- missing fields, quotes, and the errors of damaged files.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path
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
  expect.equal(t.names, { "name", "age", "city", "in, come", "zip" })
  expect.equal(t:column "name", { 'Ann "A"', "Bob", "Cy" })
  expect.equal(t:column "city", { "Bern", "Basel\nor so", "" })
  expect.near(t:column("age"):totable(), { 34, 0 / 0, 7 })
  expect.near(t:column("in, come"):totable(), { 1.5, -2000, 0 / 0 })
  expect.near(t:column("zip"):totable(), { 100, 200, 300 })
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
  expect.truthy(text:find 'city +text +1 missing +2 values: "Bern", "Basel\nor so"', text)
  expect.truthy(tostring(read "a\nNA\nNA\n"):find "a +number +2 missing")
end)

test("options of read_table", function()
  local t = read("1;x\n?;y\n", { header = false, separator = ";", missing = { "?" }, dtype = ml.float64 })
  expect.equal(t.names, { "1", "2" })
  expect.near(t:column("1"):totable(), { 1, 0 / 0 })
  expect.equal(t:column("1").dtype, ml.float64)
  expect.equal(read("a\nNA\n", { missing = { "" } }):column "a", { "NA" })
  expect.equal(read("a\n1\n\n2\n", { types = { a = "text" } }):column "a", { "1", "", "2" })
  expect.equal(read("a\tb\n1\t\n2\tx\n", { separator = "\t" }):column "b", { "", "x" })
  expect.equal(read("a|b\n1|x y\n", { separator = "|" }):column "b", { "x y" })
end)

test("only decimal numbers make a column of numbers", function()
  for _, field in ipairs { "0x10", "1,5", "1e", "inf", "1e999", "12a", "- 1", "." } do
    expect.equal(read("a\n2\n\"" .. field .. "\"\n"):column "a", { "2", field })
  end
  expect.near(read("a\n+1.5\n.5\n-2.\n1E2\n"):column("a"):totable(), { 1.5, 0.5, -2, 100 })
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
    { "a,b\n1,2\n3\n", "line 3: 1 fields where the lines before have 2" },
    { 'a,b\n"1\n",2\n3\n', "line 4: 1 fields" },
    { "a,b\n1,2,3\n", "line 2: 3 fields where the lines before have 2" },
    { 'a\n"x\n', "line 2: a quote is not closed" },
    { 'a,b\n1,"x"y,z\n', "line 2: text follows a closing quote" },
    { "", "has no rows" },
    { "a,b\n", "has no rows" },
    { "a,a\n1,2\n", "two columns called 'a'" },
    { "a,b\n1,2\n3,x\n", "line 3, column 'b': 'x' is no number", { types = { b = "number" } } },
    { "a\n1\n", "no column 'b' %(there are a%)", { types = { b = "number" } } },
    { "a\n1\n", 'column \'a\' must be "number" or "text", got "int"', { types = { a = "int" } } },
    { "a\n1\n", "'dtype' must be a floating one", { dtype = ml.int64 } },
    { "a\n1\n", "separator", { separator = "::" } },
    { "a\n1\n", "mean 'missing'", { mising = { "" } } },
  }
  for _, case in ipairs(cases) do
    expect.error(function() read(case[1], case[3]) end, "read_table: .*" .. case[2])
  end
  expect.error(function() data.read_table "/nowhere/x.csv" end, "read_table: '/nowhere/x.csv'")
  expect.error(function() data.read_table() end, "read_table: 'path' is missing")
end)

test("tables made by a script", function()
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
