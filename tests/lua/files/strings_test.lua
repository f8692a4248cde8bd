-- tests/lua/files/strings_test.lua: values as the bytes of files, without files.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local codec = require "moonlet.onnx_codec"
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

-- Readers by the ending of a file's name; the others are ml.load's.
local READERS = { png = ml.data.read_image, jpg = ml.data.read_image, bmp = ml.data.read_image,
  gif = ml.data.read_image, webp = ml.data.read_image, wav = ml.data.read_wav, w64 = ml.data.read_wav,
  flac = ml.data.audio.load, ogg = ml.data.audio.load, csv = ml.data.read_table, idx = ml.data.read_idx,
  gz = ml.data.read_table, json = ml.data.read_tokenizer }

-- What is comparable of a result: tensors, numbers and texts in tables of any depth.
local function comparable(value, depth)
  if ml.is_tensor(value) then return ("%s %s %s"):format(value.dtype, value.shape, value:isnan():sum()) end
  if type(value) ~= "table" or depth > 3 then return type(value) == "table" and "" or tostring(value) end
  local parts = {}
  for key, item in next, value do
    if type(item) ~= "function" and type(item) ~= "userdata" or ml.is_tensor(item) then
      parts[#parts + 1] = tostring(type(key) == "table" or key) .. "=" .. comparable(item, depth + 1)
    end
  end
  table.sort(parts)
  return table.concat(parts, ";")
end

test("what is read of a file is read of its bytes, in every format", function()
  local folder = (os.getenv "MOONLET_SOURCE" or ".") .. "/tests/fuzz/corpus/"
  local count, kinds = 0, {}
  for path in io.popen(("find '%s' -type f | sort"):format(folder)):lines() do
    local kind = path:match "%.(%w+)$"
    local read_file = READERS[kind]
    local from_file = table.pack(pcall(read_file or ml.load, path))
    local from_bytes = table.pack(pcall(read_file and ml.read_string or ml.load_string, read(path),
      read_file or kind == "t7" and { format = kind } or nil))
    expect.equal(from_bytes[1], from_file[1], path)
    if from_file[1] then
      expect.equal(comparable(from_bytes[2], 0), comparable(from_file[2], 0), path)
      count, kinds[kind] = count + 1, true
    end
  end
  for _, kind in ipairs { "bmp", "csv", "gguf", "gif", "idx", "jpg", "json", "mlp", "npy", "npz", "png", "pt",
    "safetensors", "t7", "w64", "wav", not codec.unavailable() and "onnx" or nil } do
    expect.truthy(kinds[kind], kind)
  end
  expect.truthy(count > 60, count)
end)

test("what writes a file writes a string", function()
  local image = ml.arange(12, { dtype = ml.uint8 }):reshape(3, 2, 2)
  local function round(write, read_file)
    return (ml.read_string(ml.write_string(write), read_file))
  end
  expect.truthy(ml.equal(round(function(path) ml.data.write_png(image, path) end, ml.data.read_image), image))
  local rows = ml.tensor { { 1.0, 2 }, { 3, 4 } }
  expect.truthy(ml.equal(round(function(path) ml.data.write_csv(path, rows) end, ml.data.read_csv), rows))
  local wave = round(function(path) ml.data.write_wav(path, ml.zeros(1, 50), 8000) end, ml.data.read_wav)
  expect.equal(wave.shape[2], 50)
  local bytes = ml.write_string(function(path) ml.save(path, rows) end, ".npy")
  expect.truthy(ml.equal(ml.load_string(bytes), rows))
  local program = ml.export(function(x) return x * 2 end, { ml.ones(2) })
  expect.equal(ml.load_string(ml.save_string("program", program))(ml.ones(2)):sum():item(), 4.0)
  expect.error(function() ml.save_string("program", { 1 }) end, "a program alone is expected, got a table")
  expect.error(function() ml.write_string(function() end) end, "has written no file")
  expect.error(function() ml.read_string("none", ml.data.read_image) end, "read_image: ")
end)

test("an ONNX model is written as a string", function()
  if codec.unavailable() then harness.skip(codec.unavailable()) end
  local model = ml.write_string(function(path) ml.onnx.export(ml.nn.Linear(2, 3), ml.ones(1, 2), path) end)
  expect.equal(ml.load_string(model)(ml.ones(1, 2)).shape[2], 3)
end)

test("errors name the function that was called", function()
  expect.error(function() ml.load_string "nothing" end, "load_string: ")
  expect.error(function() ml.load_string("x", { format = "gif" }) end, 'load_string: expected a format')
  expect.error(function() ml.save_string("gif", ml.ones(2)) end, 'save_string: expected the format')
  expect.error(function() ml.save_string("npy", { 1 }) end, "save_string: ")
  expect.error(function() ml.save_string("safetensors", ml.ones(1)) end, "save_string: ")
  expect.error(function() ml.load_string(ml.save_string("npy", ml.ones(100)), { max_bytes = 10 }) end,
    "load_string: ")
  -- The file is gone.
  expect.error(function() ml.load "(string)" end, "No such file")
end)

harness.run()
