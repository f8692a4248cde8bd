-- tests/lua/files/max_bytes_test.lua: what readers may make of a file, the option that every one of them has.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local io = require "moonlet.io"
local json = require "moonlet.json"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local data = ml.data

local function write(path, bytes)
  local file <close> = assert(_G.io.open(path, "wb"))
  assert(file:write(bytes))
end

-- A file of each format that is read within 100 KB, and not within 100 bytes.
local FORMATS = {
  { ".safetensors", function(path) ml.save(path, { x = ml.arange(1, 40) }) end, ml.load },
  { ".st", function(path) ml.save(path, { a = { x = ml.arange(1, 40), n = 1 } }) end, ml.load },
  { ".pt", function(path) ml.save(path, { x = ml.arange(1, 40), names = { "a", "b" } }) end, ml.load },
  { ".npy", function(path) ml.save(path, ml.arange(1, 40)) end, ml.load },
  { ".npz", function(path) ml.save(path, { x = ml.arange(1, 40) }, { compressed = true }) end, ml.load },
  { ".t7", function(path)
    write(path, ("<i4 i4 i4 i4 i4 i4 i4 s4"):pack(3, 1, 1, 2, 1, ("k"):byte(), 2, ("v"):rep(200)):gsub("k\0\0\0", "k", 1))
  end, ml.load },
  { ".gguf", function(path)
    write(path, ("<c4 I4 i8 i8 s8 I4 s8"):pack("GGUF", 3, 0, 1, "name", 8, ("x"):rep(200)))
  end, ml.load },
  { ".csv", function(path) write(path, ("1,2,3,4\n"):rep(20)) end, data.read_csv },
  { ".csv", function(path) write(path, "a,b\n" .. ("x,2\n"):rep(20)) end, data.read_table },
  { ".idx", function(path) write(path, "\0\0\8\1\0\0\0\100" .. ("\1"):rep(100)) end, data.read_idx },
  { ".png", function(path) data.write_png(ml.ones(3, 20, 20):to "uint8", path) end, data.read_image },
  { ".jpg", function(path) data.write_jpeg(ml.ones(3, 20, 20):to "uint8", path) end, data.read_image },
  { ".wav", function(path) data.write_wav(path, ml.zeros(2, 100), 8000) end, data.read_wav },
  { ".txt", function(path) write(path, ("line\n"):rep(20)) end, data.TextLines },
  { ".json", function(path)
    write(path, json.encode { model = { type = "BPE", vocab = { a = 0, b = 1, ab = 2 }, merges = { "a b" } },
      pre_tokenizer = { type = "ByteLevel" } })
  end, data.read_tokenizer },
}

for _, format in ipairs(FORMATS) do
  test(("max_bytes of %s files by their readers"):format(format[1]), function()
    local path = os.tmpname() .. format[1]
    local _ <close> = setmetatable({}, { __close = function() os.remove(path) end })
    format[2](path)
    local read = format[3]
    expect.equal(read(path) ~= nil, true)
    expect.equal(read(path, { max_bytes = 100000 }) ~= nil, true)
    expect.error(function() read(path, { max_bytes = 100 }) end,
      "takes more than %d+ bytes, the bound for a file of this size; the option 'max_bytes' raises it")
    expect.error(function() read(path, { max_bytes = 0 }) end, "max_bytes")
  end)
end

test("the bound follows the size of the file, and is never small", function()
  expect.equal(io.read_limit(0), 512 << 20)
  expect.equal(io.read_limit(1 << 20), 512 << 20)
  expect.equal(io.read_limit(4 << 20), 1 << 30)
  expect.equal(io.read_limit(math.maxinteger) > 1 << 60, true)
  expect.equal(io.read_limit(1 << 40, 5), 5)
end)

test("an array of zeros that its file holds 1000 times smaller is read", function()
  local path = os.tmpname() .. ".npz"
  local _ <close> = setmetatable({}, { __close = function() os.remove(path) end })
  ml.save(path, { x = ml.zeros(1 << 20) }, { compressed = true })
  expect.equal(ml.load(path).x:sum():item(), 0.0)
end)

test("tensors of a call are bounded, whatever ops make them", function()
  local function doubled(count)
    local x = ml.ones(1024)
    for _ = 1, count do x = ml.cat { x, x } end
    return x
  end
  -- Garbage that there is before would be free for the call.
  collectgarbage()
  collectgarbage()
  expect.equal(#io.with_tensor_limit(1 << 20, doubled, 6), 65536)
  collectgarbage()
  collectgarbage()
  expect.error(function() io.with_tensor_limit(1 << 20, doubled, 8) end,
    "cat: out of memory: 1048576 bytes are expected and %d+ of 1048576 in use")
  -- What is let go is free for others; what is outside does not count, and after an error all is as before.
  local _ <const> = ml.ones(1 << 20)
  io.with_tensor_limit(1 << 20, function() for _ = 1, 50 do doubled(6) end end)
  expect.error(function()
    io.with_tensor_limit(1 << 30, function() io.with_tensor_limit(100, ml.ones, 1000) end)
  end, "of 100 in use")
  expect.equal(#doubled(10), 1 << 20)
end)

test("JSON has a bound where one is given", function()
  local text = "[" .. ("[],"):rep(100) .. "1]"
  expect.equal(#json.decode(text), 101)
  expect.equal(#json.decode(text, 100000), 101)
  expect.error(function() json.decode(text, 1000) end, "json: byte %d+: to read it takes more than 1000 bytes")
end)

harness.run()
