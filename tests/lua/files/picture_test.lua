-- tests/lua/files/picture_test.lua: ml.data.read_image, write_png and write_jpeg: pictures that Pillow wrote
-- (tests/reference/picture_files), round trips, damaged and hostile files.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local data = ml.data

local FOLDER = (os.getenv "MOONLET_SOURCE" or ".") .. "/tests/reference/picture_files/"

local function bytes_of(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

local function read_bytes(bytes, mode)
  local ok, value
  harness.with_temp_file(function(path)
    local file <close> = assert(io.open(path, "wb"))
    file:write(bytes)
    file:close()
    ok, value = pcall(data.read_image, path, mode)
  end)
  if not ok then error(value, 0) end
  return value
end

local function largest_difference(a, b) return (a:to "int32" - b:to "int32"):abs():max():item() end

test("pictures have the values that Pillow reads", function()
  local count = 0
  for name, wanted in pairs((ml.load(FOLDER .. "values.npz"))) do
    local got = data.read_image(FOLDER .. name)
    expect.equal({ got.dtype, tostring(got.shape), got:is_contiguous() }, { "uint8", tostring(wanted.shape), true }, name)
    local off = largest_difference(got, wanted)
    expect.truthy(off <= (name:find "jpg" and 2 or 0), name .. " differs by " .. off)
    count = count + 1
  end
  expect.equal(count, 10)
end)

test("modes", function()
  local values = ml.load(FOLDER .. "values.npz")
  expect.equal(tostring(data.read_image(FOLDER .. "gray.png", "rgb").shape), "(3, 20, 30)")
  expect.truthy(data.read_image(FOLDER .. "gray.png", "rgb")[3]:equal(values["gray.png"][1]))
  expect.truthy(data.read_image(FOLDER .. "alpha.png", { mode = "rgb" }):equal(values["rgb.png"]))
  expect.equal(tostring(data.read_image(FOLDER .. "rgb.png", "gray").shape), "(1, 20, 30)")
  expect.equal(data.read_image(FOLDER .. "rgb.png", "rgb_alpha")[4]:min():item(), 255)
  expect.equal(tostring(data.read_image(FOLDER .. "rgb.jpg", "gray_alpha").shape), "(2, 20, 30)")
  expect.error(function() data.read_image(FOLDER .. "rgb.png", "blue") end, "'mode' must be unchanged")
end)

test("PNG comes back as it was", function()
  harness.with_temp_file(function(path)
    ml.manual_seed(1)
    for channels = 1, 4 do
      local x = (ml.rand(channels, 7, 11) * 255):to "uint8"
      for _, level in ipairs { 0, 6, 9 } do
        data.write_png(x, path, level)
        expect.truthy(data.read_image(path):equal(x))
      end
      data.write_png(x:transpose(2, 3), path)
      expect.truthy(data.read_image(path):equal(x:transpose(2, 3)))
    end
    local flat = ml.zeros(1, 300, 300):to "uint8"
    data.write_png(flat, path, { compression_level = 0 })
    local stored = #bytes_of(path)
    data.write_png(flat, path)
    expect.truthy(#bytes_of(path) < stored / 50)
  end)
end)

test("JPEG comes back nearly as it was", function()
  harness.with_temp_file(function(path)
    local x = ml.load(FOLDER .. "values.npz")["rgb.png"]
    data.write_jpeg(x, path, 100)
    expect.truthy(largest_difference(data.read_image(path), x) <= 4)
    local large = #bytes_of(path)
    data.write_jpeg(x, path, { quality = 20 })
    expect.truthy(#bytes_of(path) < large)
    data.write_jpeg(x[{ { 1, 1 } }], path)
    expect.equal(data.read_image(path).shape[1], 3)
  end)
end)

test("what cannot be written is refused", function()
  local path = os.tmpname()
  local x = ml.zeros(3, 2, 2):to "uint8"
  expect.error(function() data.write_png(ml.zeros(3, 2, 2), path) end, "data.write_png: 'input' must be uint8")
  expect.error(function() data.write_png(x[1], path) end, "of shape %(2, 2%)")
  expect.error(function() data.write_png(ml.zeros(5, 2, 2):to "uint8", path) end, "1 to 4 channels")
  expect.error(function() data.write_jpeg(ml.zeros(2, 2, 2):to "uint8", path) end, "1 or 3 channels")
  expect.error(function() data.write_png(ml.zeros(1, 0, 2):to "uint8", path) end, "no pixels")
  expect.error(function() data.write_png(x, path, 10) end, "'compression_level' must be")
  expect.error(function() data.write_jpeg(x, path, 0) end, "'quality' must be")
  expect.error(function() data.write_png(x, "/nowhere/x.png") end, "write_png: '/nowhere/x.png': No such file")
  expect.error(function() data.write_jpeg(ml.zeros(1, 1, 70000):to "uint8", path) end, "65535")
  os.remove(path)
end)

test("what is no picture is refused", function()
  expect.error(function() data.read_image "/nowhere/x.png" end, "read_image: '/nowhere/x.png': No such file")
  expect.error(function() read_bytes "" end, "read_image: '.*': it is no PNG, JPEG, BMP, GIF or WebP file")
  expect.error(function() read_bytes "GIF89a" end, "read_image: '.*': the file is cut off")
  expect.error(function() data.read_image(FOLDER .. "values.npz") end, "this is a zip archive, not a PNG")
  expect.error(function() ml.load(FOLDER .. "rgb.png") end, "this is a PNG picture, which ml.data.read_image reads")
end)

-- A PNG of one chunk after the other.
local function png(...)
  local out = { "\x89PNG\r\n\x1a\n" }
  for _, chunk in ipairs { ... } do
    out[#out + 1] = (">I4"):pack(#chunk - 4) .. chunk .. (">I4"):pack(require "moonlet.io".checksum { chunk })
  end
  return table.concat(out)
end

test("a small file cannot claim many pixels", function()
  local head = "IHDR" .. (">I4 I4 B B B B B"):pack(10000, 10000, 8, 2, 0, 0, 0)
  expect.error(function() read_bytes(png(head, "IDATx", "IEND")) end, "10000 x 10000 pixels cannot come from %d+ bytes")
  head = "IHDR" .. (">I4 I4 B B B B B"):pack(1 << 31, 1, 8, 2, 0, 0, 0)
  expect.error(function() read_bytes(png(head, "IDATx", "IEND")) end, "read_image: ")
  local jpeg = bytes_of(FOLDER .. "rgb.jpg")
  local at = assert(jpeg:find("\xff\xc0", 1, true))
  local large = jpeg:sub(1, at + 4) .. ("\xff"):rep(4) .. jpeg:sub(at + 9)
  expect.error(function() read_bytes(large) end, "65535 x 65535 pixels cannot come from")
  local bmp = bytes_of(FOLDER .. "rgb.bmp")
  expect.error(function() read_bytes(bmp:sub(1, 18) .. ("<i4"):pack(1000000) .. bmp:sub(23)) end, "read_image: ")
end)

test("tables of a JPEG with too many codes", function()
  local jpeg = bytes_of(FOLDER .. "rgb.jpg")
  local at = assert(jpeg:find("\xff\xc4", 1, true))
  local bad = jpeg:sub(1, at + 4) .. ("\xff"):rep(16) .. jpeg:sub(at + 21)
  expect.error(function() read_bytes(bad) end, "the tables of a JPEG are damaged")
end)

test("pictures cut anywhere, and with other bytes", function()
  ml.manual_seed(1)
  for _, name in ipairs { "rgb.png", "palette.png", "rgb.jpg", "progressive.jpg", "rgb.bmp" } do
    local bytes = bytes_of(FOLDER .. name)
    for length = 0, #bytes - 2, 11 do
      expect.error(function() read_bytes(bytes:sub(1, length)) end, "read_image: ", name .. " cut to " .. length)
    end
    for _ = 1, 300 do
      local at, new = ml.randint(#bytes, { 1 }):item(), ml.randint(1, 256, { 1 }):item() - 1
      local ok, problem = pcall(read_bytes, bytes:sub(1, at - 1) .. string.char(new) .. bytes:sub(at + 1))
      expect.truthy(ok or problem:find "read_image: ", problem)
    end
  end
end)

harness.run()
