-- tests/lua/data/picture_frames_test.lua: ml.data.read_image of PNG files of 16 bits, GIF and WebP files and
-- of turned pictures, all as tests/reference/make_frame_files.py made them; damaged GIF files.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local data = ml.data
local raw = require "moonlet.io"

local FOLDER = (os.getenv "MOONLET_SOURCE" or ".") .. "/tests/reference/picture_files/"
local values = ml.load(FOLDER .. "frames.npz")

local function bytes_of(name)
  local file <close> = assert(io.open(FOLDER .. name, "rb"))
  return file:read "a"
end

local function read_bytes(bytes, ...)
  local results, given = nil, table.pack(...)
  harness.with_temp_file(function(path)
    local file <close> = assert(io.open(path, "wb"))
    file:write(bytes)
    file:close()
    results = table.pack(pcall(data.read_image, path, table.unpack(given, 1, given.n)))
  end)
  if not results[1] then error(results[2], 0) end
  return results[2]
end

local function check(got, name, tolerance)
  local wanted = values[name]
  expect.equal({ got.dtype, tostring(got.shape), got:is_contiguous() },
    { wanted.dtype, tostring(wanted.shape), true }, name)
  expect.near((got:to "int32" - wanted:to "int32"):abs():max():item(), 0, tolerance or 0, name)
end

local function webp(f)
  local why = raw.without_webp()
  if not why then return f() end
  expect.error(function() data.read_image(FOLDER .. "lossless.webp") end,
    "read_image: '.*': WebP pictures need libwebp, and ")
end

test("PNG files of 16 bits lose nothing", function()
  for _, name in ipairs { "gray16", "gray_alpha16", "rgb16", "alpha16", "transparent16" } do
    check(data.read_image(FOLDER .. name .. ".png"), name .. ".png")
  end
  local gray = values["gray16.png"]
  local four = data.read_image(FOLDER .. "gray16.png", "rgb_alpha")
  expect.equal({ four.dtype, four[4]:min():item() }, { "int32", 65535 })
  expect.truthy(four[2]:equal(gray[1]))
  expect.equal(tostring(data.read_image(FOLDER .. "gray16.png", { all_frames = true }).shape), "(1, 1, 12, 17)")
end)

test("a GIF has its first frame", function()
  for _, name in ipairs { "plain.gif", "interlaced.gif" } do
    check(data.read_image(FOLDER .. name), name)
    check(data.read_image(FOLDER .. name, "rgb"), name)
    expect.equal(data.read_image(FOLDER .. name, "rgb_alpha")[4]:min():item(), 255)
  end
  local first = data.read_image(FOLDER .. "moving2.gif", "rgb_alpha")
  expect.truthy(first[4]:equal(values["moving2.gif"][1][4]))
end)

-- What is under a pixel that does not show is not said.
local function shown(frames)
  local alpha = frames:narrow(2, 4, 1)
  return ml.cat({ frames:narrow(2, 1, 3) * alpha:div(255, { rounding_mode = "floor" }), alpha }, 2)
end

test("the frames of a GIF are as viewers show them", function()
  for disposal = 1, 3 do
    local name = ("moving%d.gif"):format(disposal)
    local got = data.read_image(FOLDER .. name, { mode = "rgb_alpha", all_frames = true })
    expect.equal(tostring(got.shape), "(4, 4, 12, 17)")
    expect.truthy(shown(got):equal(shown(values[name])), name)
    expect.equal(tostring(data.read_image(FOLDER .. name, "gray", { all_frames = true }).shape), "(4, 1, 12, 17)")
  end
end)

test("WebP, still and moving", function()
  webp(function()
    for _, name in ipairs { "lossless.webp", "lossy.webp", "alpha.webp" } do check(data.read_image(FOLDER .. name), name) end
    local got = data.read_image(FOLDER .. "moving.webp", { mode = "rgb_alpha", all_frames = true })
    expect.truthy(shown(got):equal(shown(values["moving.webp"])))
    expect.equal(tostring(data.read_image(FOLDER .. "moving.webp", "rgb").shape), "(3, 12, 17)")
    local whole = bytes_of "lossy.webp"
    for _, length in ipairs { 12, 20, 40, #whole // 2, #whole - 8 } do
      expect.error(function() read_bytes(whole:sub(1, length)) end, "read_image: '.*': ", "cut to " .. length)
    end
  end)
end)

test("pictures are turned as the camera was held", function()
  for turn = 1, 8 do
    local name = ("turned%d.png"):format(turn)
    check(data.read_image(FOLDER .. name, { apply_exif_orientation = true }), name)
    expect.truthy(data.read_image(FOLDER .. name):equal(values["turned1.png"]))
  end
  check(data.read_image(FOLDER .. "turned.jpg", "rgb", true), "turned.jpg", 2)
end)

test("ImageFolder takes pictures of 16 bits as those of 8", function()
  harness.with_temp_file(function(path)
    local folder = path .. ".folder"
    assert(os.execute(("mkdir -p '%s/a' && cp '%srgb16.png' '%splain.gif' '%s/a/'"):format(folder, FOLDER, FOLDER, folder)))
    local set = data.ImageFolder(folder)
    expect.equal(#set, 2)
    local image = set:get(2)
    expect.equal(image.dtype, "uint8")
    expect.truthy(image:equal(values["rgb16.png"]:div(256, { rounding_mode = "floor" }):to "uint8"))
    os.execute("rm -r '" .. folder .. "'")
  end)
end)

test("damaged GIF files", function()
  local whole = bytes_of "plain.gif"
  for length = 6, #whole - 2 do
    expect.error(function() read_bytes(whole:sub(1, length), { all_frames = true }) end, "read_image: '.*': ",
      "cut to " .. length)
  end
  local head = "GIF89a" .. ("<I2 I2"):pack(2, 2) .. "\x80\0\0" .. "\1\2\3\4\5\6"
  local image = ",\0\0\0\0\2\0\2\0\0"
  local cases = { { head .. ";", "it has no pixels" }, { head .. "\1", "a block of a GIF is damaged" },
    { head .. image .. "\9\1\0\0;", "a frame of a GIF is damaged" },
    { head .. image .. "\0\1\0\0;", "a frame of a GIF is damaged" },
    { head .. image .. "\2\1\x2c\0;", "too few pixels" },
    { "GIF89a" .. ("<I2 I2"):pack(2, 2) .. "\0\0\0" .. image .. "\2\1\x2c\0;", "has no colors" },
    { head .. ",\0\0\0\0\0\0\2\0\0\2\0;", "it has no pixels" },
    { "GIF89a" .. ("<I2 I2"):pack(65535, 65535) .. "\x80\0\0\1\2\3\4\5\6" .. image .. "\2\1\x2c\0;",
      "'max_bytes' raises it" } }
  for i, case in ipairs(cases) do
    expect.error(function() read_bytes(case[1]) end, "read_image: '.*': .*" .. case[2], "case " .. i)
  end
  -- Codes 0, 1, 6 (the two before), 0 after a clear: all pixels of the frame.
  local small = read_bytes(head .. image .. "\2\3\x44\x1c\x50\0;", "rgb")
  expect.equal(small[1]:tolist(), { { 1, 4 }, { 1, 4 } })
end)

harness.run()
