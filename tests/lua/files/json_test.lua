-- tests/lua/files/json_test.lua: module moonlet.json: values both ways, exact numbers in every locale,
-- and hostile texts.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local json = require "moonlet.json"
local expect, test = harness.expect, harness.test

test("values are the same after writing and reading", function()
  local value = { a = { 1, 2.5, "x\n\"é\\\0\127", true }, b = { c = false, d = json.null }, e = {} }
  expect.equal(json.decode(json.encode(value)), value)
  expect.equal(json.encode(value), '{"a":[1,2.5,"x\\n\\"é\\\\\\u0000\127",true],'
    .. '"b":{"c":false,"d":null},"e":{}}')
  expect.equal(json.decode ' [ 1 , { "a" : [ ] } ] \n', { 1, { a = {} } })
  expect.equal(json.decode '"\\u00e9\\ud83d\\ude00\\/"', "é😀/")
  expect.equal(json.decode "null", json.null)
  expect.equal(tostring(json.null), "null")
  expect.equal(json.decode '{"":{"":1}}', { [""] = { [""] = 1 } })
end)

test("ml.json is the module", function()
  local ml = require "moonlet"
  expect.equal(ml.json, json)
  expect.error(function() return json.parse end, "json has no field 'parse'")
  expect.error(function() json.encode { ml.ones(2) } end, "json: a tensor has no JSON form; x:tolist()")
  expect.equal(json.encode(ml.tensor { { 1, 2 } }:tolist()), "[[1,2]]")
  expect.equal(json.encode(ml.ones(2, 3).shape:tolist()), "[2,3]")
end)

test("empty arrays stay arrays", function()
  expect.equal(json.encode(json.decode '[[],{},{"a":[]}]'), '[[],{},{"a":[]}]')
  expect.equal(json.encode { a = json.array {}, b = {} }, '{"a":[],"b":{}}')
  local list = json.array {}
  list[1] = "x"
  expect.equal(json.encode(list), '["x"]')
  list[1] = nil
  expect.equal(json.encode(list), "[]")
  list.name = 1
  expect.equal(json.encode(list), '{"name":1}')
  expect.equal(next(json.decode "[]"), nil)
  expect.equal(getmetatable(json.decode "[]"), nil)
  expect.error(function() json.array(3) end, "table expected, got number")
end)

test("indent writes items on lines of their own", function()
  local value = { b = { 1, { x = true } }, a = {}, c = json.array {}, d = { {}, { {} } } }
  expect.equal(json.encode(value, { indent = 2 }), [[
{
  "a": {},
  "b": [
    1,
    {
      "x": true
    }
  ],
  "c": [],
  "d": [
    {},
    [
      {}
    ]
  ]
}]])
  expect.equal(json.encode(value, { indent = 0 }), json.encode(value))
  expect.equal(json.decode(json.encode(value, { indent = 16 })), json.decode(json.encode(value)))
  expect.equal(json.encode(5, { indent = 4 }), "5")
  local long = {}
  for i = 1, 20000 do long[i] = { i, ("ä"):rep(i % 7) } end
  expect.equal(json.decode(json.encode(long, { indent = 1 })), long)
  for _, bad in ipairs { -1, 17, 1.5, "2" } do
    expect.error(function() json.encode(1, { indent = bad }) end,
      "json.encode: 'indent' must be an integer from 0 to 16")
  end
end)

test("what becomes of nan and infinities is an option", function()
  local value = { 0 / 0, math.huge, -math.huge, 1.5 }
  expect.error(function() json.encode(value) end, "json: JSON has no nan")
  expect.error(function() json.encode(value, { nan = "error" }) end, "json: JSON has no nan")
  expect.equal(json.encode(value, { nan = "null" }), "[null,null,null,1.5]")
  expect.equal(json.encode(value, { nan = "literal" }), "[NaN,Infinity,-Infinity,1.5]")
  expect.error(function() json.encode(value, { nan = "skip" }) end, "'nan' must be \"error\", \"null\"")
end)

test("options of decode, and unknown ones", function()
  expect.equal(json.decode('{"a":null,"b":[null]}', { null = false }), { a = false, b = { false } })
  expect.equal(json.decode("[null]", {})[1], json.null)
  expect.error(function() json.decode("[1,2,3,4,5,6,7,8]", { max_bytes = 40 }) end, "max_bytes")
  expect.error(function() json.decode("[1,2,3,4,5,6,7,8]", 40) end, "max_bytes")
  expect.error(function() json.decode("1", { max_bytes = "1" }) end, "'max_bytes' must be a positive")
  expect.error(function() json.decode("1", { nul = 1 }) end, "unknown option 'nul'; did you mean 'null'")
  expect.error(function() json.encode(1, { indnt = 1 }) end, "unknown option 'indnt'; did you mean 'indent'")
  expect.error(function() json.encode(1, 2) end, "json.encode: options are a table, got a number")
end)

test("integers of 64 bits are exact", function()
  for _, n in ipairs { 0, -1, math.maxinteger, math.mininteger, 2 ^ 53 | 0, (1 << 53) + 1 } do
    expect.equal(json.encode(n), tostring(n))
    expect.equal(math.type(json.decode(tostring(n))), "integer")
    expect.equal(json.decode(tostring(n)), n)
  end
  for _, text in ipairs { "9223372036854775808", "-9223372036854775809", "18446744073709551616" } do
    local message = expect.error(function() json.decode(text) end)
    expect.equal(message:match "json: .*",
      ("json: byte %d: an integer does not fit 64 bits"):format(#text))
  end
end)

test("floats are exact and stay floats", function()
  local floats = { 0.0, -0.0, 1.0, 0.1, -1 / 3, 1e300, 5e-324, 2.0 ^ -1022, 2.0 ^ 63, math.pi,
    1.7976931348623157e308 }
  for _, x in ipairs(floats) do
    local y = json.decode(json.encode(x))
    expect.equal(math.type(y), "float")
    expect.equal(("%a"):format(y), ("%a"):format(x))
  end
  expect.equal(json.encode { 1, 2.0 }, "[1,2.0]")
  expect.equal(json.decode "1e2", 100.0)
  expect.equal(json.decode "1e-400", 0.0)
  local wide = "1" .. ("0"):rep(400)
  expect.error(function() json.decode(wide) end, "byte 401: a number is too large for a double")
  expect.error(function() json.decode "1e999" end, "byte 5: a number is too large for a double")
end)

-- Each text, the byte the error names, and part of what it says.
local BAD = {
  { "", 1, "end of input" }, { "{", 2, "string literal" }, { "[1,]", 4, "unexpected ']'" },
  { "[1", 3, "expected" }, { '"a', 3, "missing closing quote" }, { "[1 2]", 4, "unexpected" },
  { "{a:1}", 2, "string literal" }, { '{"a"}', 5, "':'" }, { '{"a":1,}', 8, "string literal" },
  { "01", 2, "end of input" }, { "1.", 3, "after '.'" }, { "+1", 1, "invalid literal" },
  { "-", 2, "after '-'" }, { "nul", 4, "invalid literal" }, { "NaN", 1, "invalid literal" },
  { "[Infinity]", 2, "invalid literal" }, { "[1]x", 4, "end of input" }, { "[1][2]", 4, "" },
  { '{"a":1,"b":2,"a":3}', 16, "'a' comes twice" }, { '"\\x"', 3, "backslash" },
  { '"\\ud800"', 8, "surrogate" }, { '"\\udc00"', 7, "surrogate" }, { '"a\nb"', 3, "control" },
  { '"\255"', 2, "UTF%-8" }, { '"\xC0\x80"', 2, "UTF%-8" }, { '"\xED\xA0\x80"', 3, "UTF%-8" },
  { "[1]\0[2]", 4, "zero byte" }, { "/* */ 1", 1, "invalid literal" },
  { ("["):rep(201), 201, "nests too deeply" }, { ("["):rep(1000000), 201, "nests too deeply" },
  { ('{"a":'):rep(1000000), 1001, "nests too deeply" }, { ("9"):rep(100000), 100000, "too large" },
}

test("a text that is no JSON is an error that names the byte", function()
  for i, case in ipairs(BAD) do
    local message = expect.error(function() json.decode(case[1]) end, case[3], "case " .. i)
    local position = tonumber(message:match "json: byte (%d+): ")
    expect.equal(position, case[2], ("case %d: %s"):format(i, message))
    expect.truthy(#message < 300, "case " .. i)
  end
  expect.error(function() json.decode(3) end, "json: a string is expected, got number")
  expect.equal(json.decode(("["):rep(200) .. ("]"):rep(200))[1][1][1] ~= nil, true)
end)

test("a text cut anywhere is an error", function()
  local text = json.encode { a = { 1, -2.5e-7, "é\n", json.null }, b = { c = { true, false } } }
  for length = 0, #text - 1 do
    expect.error(function() json.decode(text:sub(1, length)) end, "json: byte", length)
  end
end)

test("random changes of a text are read or refused", function()
  local text = json.encode { a = { 1, -2.5e-7, "é\n\u{10FFFF}", json.null }, b = { c = { true } } }
  local state = 1
  local function random(n)
    state = (state * 6364136223846793005 + 1442695040888963407)
    return (state >> 33) % n + 1
  end
  for _ = 1, 5000 do
    local at = random(#text)
    local changed = text:sub(1, at - 1) .. string.char(random(256) - 1) .. text:sub(at + random(3) - 1)
    local ok, result = pcall(json.decode, changed)
    if ok then
      expect.equal(json.decode(json.encode(result)), result)
    else
      expect.truthy(result:find("json: byte %d+: "), result)
    end
  end
end)

test("what has no JSON form is not written", function()
  expect.error(function() json.encode(0 / 0) end, "json: JSON has no nan")
  expect.error(function() json.encode { -math.huge } end, "json: JSON has no %-inf")
  expect.error(function() json.encode { 1, x = 2 } end, "json: a table is either")
  expect.error(function() json.encode { [2] = 1 } end, "json: a key of an object must be a string")
  expect.error(function() json.encode { print } end, "json: a function has no JSON form")
  expect.error(function() json.encode(setmetatable({}, {})) end, "metatable")
  expect.error(function() json.encode { "a\255" } end, "UTF%-8")
  expect.error(function() json.encode { ["a\255"] = 1 } end, "UTF%-8")
  local loop = {}
  loop.loop = loop
  expect.error(function() json.encode(loop) end, "json: .*contains itself")
end)

test("numbers do not depend on the locale", function()
  local output = harness.run_with_decimal_commas [[
    local json = require 'moonlet.json'
    print(json.encode { 1.5, -2.5e-300 }, json.decode('[2.5,1e-3]')[1] * 2 == 5)
    print(pcall(json.decode, '[2,5.5.1]'))
    print(os.setlocale())
  ]]
  expect.truthy(output:find("[1.5,-2.5e-300]\ttrue\nfalse\t", 1, true), output)
  expect.truthy(output:find("de_DE.UTF-8", 1, true), output)
end)

harness.run()
