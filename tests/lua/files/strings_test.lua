-- tests/lua/files/strings_test.lua: values as the bytes of files, without files.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect

local function read(path)
  local file = assert(io.open(path, "rb"))
  local bytes = file:read "a"
  file:close()
  return bytes
end

local values = { safetensors = { w = ml.tensor { 1.0, 2 }, inner = { n = 3, name = "x" } },
  pt = { w = ml.tensor { 1.0, 2 }, list = { 1, 2 } }, npy = ml.tensor { { 1.0, 2 } },
  npz = { a = ml.ones(2), b = ml.zeros(3) } }

local function same(a, b)
  if ml.is_tensor(a) then return ml.equal(a, b) end
  if type(a) ~= "table" then return a == b end
  for key, value in pairs(a) do
    if not same(value, b[key]) then return false end
  end
  return true
end

for format, value in pairs(values) do
  test("a value as " .. format, function()
    local bytes = ml.save_string(format, value)
    expect.truthy(same(value, (ml.load_string(bytes))))
    local path = os.tmpname() .. "." .. format
    ml.save(path, value)
    if format ~= "npz" then expect.equal(bytes, read(path)) end
    expect.truthy(same(value, (ml.load_string(read(path)))))
    os.remove(path)
  end)
end

test("metadata and options", function()
  local bytes = ml.save_string("safetensors", { w = ml.ones(2) }, { metadata = { epoch = "7" } })
  local _, metadata = ml.load_string(bytes)
  expect.equal(metadata.epoch, "7")
  local big = { a = ml.zeros(10000) }
  expect.truthy(#ml.save_string("npz", big, { compressed = true }) < #ml.save_string("npz", big) / 4)
end)

test("errors name the function that was called", function()
  expect.error(function() ml.load_string "nothing" end, "load_string: ")
  expect.error(function() ml.save_string("gif", ml.ones(2)) end, 'save_string: expected the format')
  expect.error(function() ml.save_string("npy", { 1 }) end, "save_string: ")
  expect.error(function() ml.save_string("safetensors", ml.ones(1)) end, "save_string: ")
  expect.error(function() ml.load_string(ml.save_string("npy", ml.ones(100)), { max_bytes = 10 }) end,
    "load_string: ")
  -- The file is gone.
  expect.error(function() ml.load "(string)" end, "No such file")
end)

harness.run()
