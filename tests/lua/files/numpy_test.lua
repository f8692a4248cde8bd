-- tests/lua/files/numpy_test.lua: NumPy's files: those of tests/reference/numpy_files, round trips, and
-- damaged and hostile ones.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect

local FOLDER = (os.getenv "MOONLET_SOURCE" or ".") .. "/tests/reference/numpy_files/"
local DTYPES = { "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
  "complex64", "complex128" }

-- Runs `f` with a path of that ending, and removes the file after.
local function with_path(ending, f)
  harness.with_temp_file(function(path)
    local ok, message = pcall(f, path .. ending)
    os.remove(path .. ending)
    if not ok then error(message, 0) end
  end)
end

local function write(path, bytes)
  local file <close> = assert(io.open(path, "wb"))
  file:write(bytes)
end

local function bytes_of(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

local function array(head, data, version)
  local length = version and version > 1 and "<s4" or "<s2"
  return "\x93NUMPY" .. string.char(version or 1, 0) .. length:pack(head) .. (data or "")
end

local function head(descr, shape, order)
  return ("{'descr': %s, 'fortran_order': %s, 'shape': %s, }\n"):format(descr, order or "False", shape)
end

local function load_array(bytes, options)
  local result
  with_path(".npy", function(path)
    write(path, bytes)
    result = ml.load(path, options)
  end)
  return result
end

test("what NumPy wrote", function()
  for _, options in ipairs { {}, { mmap = true } } do
    local turned = ml.load(FOLDER .. "big_fortran.npy", options)
    expect.equal({ turned.dtype, turned:stride(), tostring(turned.shape) }, { "complex128", { 1, 2 }, "(2, 3)" })
    expect.equal(turned.real:tolist(), { { 0, 1, 2 }, { 3, 4, 5 } })
    expect.equal(turned.imag:tolist(), { { 0, 2, 4 }, { 6, 8, 10 } })
    local compressed = ml.load(FOLDER .. "compressed.npz", options)
    expect.equal({ compressed.a[50][100]:item(), compressed.b:tolist() }, { 4999, { true, false } })
  end
end)

test("arrays of other types do not keep the rest from being read", function()
  local value, metadata, left_out = ml.load(FOLDER .. "several.npz")
  expect.equal(value.a:tolist(), { { 0, 1, 2 }, { 3, 4, 5 } })
  expect.equal({ value.scalar:item(), value.scalar.ndim, tostring(value.none.shape) }, { 2.5, 0, "(0, 3)" })
  expect.equal({ value.names, metadata }, { nil, {} })
  expect.equal({ value.wide.dtype, value.wide:tolist() }, { "uint16", { { 0, 1, 2 }, { 3, 4, 5 } } })
  expect.equal(left_out, { names = "its elements are strings" })
end)

test("every dtype and order comes back", function()
  for _, dtype in ipairs(DTYPES) do
    local x = ml.tensor({ { 1, 0, 1 }, { 0, 1, 1 } }):to(dtype)
    for _, case in ipairs { x, x:t(), x[{ {}, { 1, 3, 2 } }], x[1], x[1][1], x[{ { 1, 1 }, {} }]:narrow(1, 1, 0) } do
      with_path(".npy", function(path)
        ml.save(path, case)
        local back = ml.load(path)
        expect.equal({ back.dtype, tostring(back.shape) }, { dtype, tostring(case.shape) })
        expect.truthy(back:eq(case):all():item(), dtype)
        if case.ndim == 2 and case.shape[1] == 3 then expect.equal(back:stride(), { 1, 3 }) end
      end)
    end
  end
end)

test("archives come back, compressed ones too", function()
  for _, compressed in ipairs { false, true } do
    with_path(".npz", function(path)
      ml.save(path, { x = ml.zeros(100, 100), ["a/b"] = ml.tensor(true) }, { compressed = compressed })
      expect.truthy((#bytes_of(path) < 2000) == compressed)
      local value = ml.load(path)
      expect.equal({ value.x:sum():item(), value["a/b"]:item() }, { 0, true })
      ml.save(path, {})
      expect.equal((ml.load(path)), {})
    end)
  end
end)

test("what NumPy's files cannot hold is refused", function()
  with_path(".npy", function(path)
    expect.error(function() ml.save(path, ml.ones(1):to "bfloat16") end, "bfloat16, which NumPy has not")
    expect.error(function() ml.save(path, { x = ml.ones(1) }) end, "a tensor is expected, got a table")
    expect.error(function() ml.save(path, ml.ones(1), { compressed = true }) end, "'compressed' is not for")
  end)
  with_path(".npz", function(path)
    expect.error(function() ml.save(path, ml.ones(1)) end, "a table of tensors by name is expected")
    expect.error(function() ml.save(path, { ml.ones(1) }) end, "'1' is a userdata")
    expect.error(function() ml.save(path, { x = 3 }) end, "'x' is a number")
  end)
end)

test("heads of all versions and spellings", function()
  local data = ("<i4i4"):pack(7, -8)
  for version = 1, 3 do
    expect.equal(load_array(array(head("'<i4'", "(2,)"), data, version)):tolist(), { 7, -8 })
  end
  expect.equal(load_array(array(head("'<i4'", "(1L, 2L)"), data)):tolist(), { { 7, -8 } })
  expect.equal(load_array(array(head('"|i1"', "()"), "\255")):item(), -1)
  expect.equal(load_array(array(head("'>i2'", "(2,)"), "\0\1\1\0")):tolist(), { 1, 256 })
  expect.equal(load_array(array("{'shape': (2,), 'fortran_order': False, 'descr': '>i2'}", "\0\1\1\0")):tolist(),
    { 1, 256 })
end)

test("hostile heads", function()
  local cases = {
    { array(head("'<f4'", "(1000000000000,)"), "1234"), "more bytes than the file has" },
    { array(head("'<f4'", "(4294967296, 4294967296)"), "1234"), "more bytes than the file has" },
    { array(head("'<f4'", "(99999999999999999999,)"), "1234"), "too large" },
    { array(head("'<f4'", "(-1,)"), "1234"), "shape is damaged" },
    { array(head("'<f4'", "(1.5,)"), "1234"), "shape is damaged" },
    { array(head("'<f4'", "(0, 4611686018427387904, 4611686018427387904)")), "too large" },
    { array(head("'<f4'", "(" .. ("1, "):rep(100) .. ")"), "1234"), "dimensions" },
    { array(head("'<f4'", "2"), "1234"), "head is damaged" },
    { array(head("'<f4'", "(1,)", "1"), "1234"), "head is damaged" },
    { array(head("'<f3'", "(1,)"), "1234"), "dtype 'f3' is not known" },
    { array(head("'|O'", "(1,)"), "1234"), "Python objects" },
    { array(head("[('a', '<f4')]", "(1,)"), "1234"), "several fields" },
    { array(head("f4", "(1,)"), "1234"), "dtype is damaged" },
    { array(head("'|b1'", "(2,)"), "\1\2"), "neither 0 nor 1" },
    { array("", "1234"), "head is damaged" },
    { array("os.exit()", "1234"), "head is damaged" },
    { array(head("'<f4'", "(1,)"), "1234", 9), "version 9" },
    { "\x93NUMPY\2\0\255\255\255\255", "too long" },
    { "\x93NUMPY", "cut off" },
  }
  for i, case in ipairs(cases) do
    expect.error(function() load_array(case[1]) end, "load: .*" .. case[2], "case " .. i)
  end
end)

test("a file of another kind says what it is", function()
  local cases = { { "GGUF\3\0\0\0", "this is a GGUF file, not a NumPy array" },
    { "\x89PNG\r\n\x1a\n", "this is a PNG picture, which ml.data.read_image reads" },
    { "\x1f\x8b\8", "gzip" }, { "<!DOCTYPE html>", "HTML" }, { "\x89HDF\r\n\x1a\n", "HDF5" },
    { "version https://git-lfs.github.com/spec/v1", "Git LFS" }, { "\x80\4]\x94.", "Python pickle" },
    { "", "cut off" } }
  for _, case in ipairs(cases) do
    expect.error(function() load_array(case[1]) end, case[2])
  end
end)

-- Files of which bytes are missing or others: an error of ml.load, or a value.
local function expect_refused(name, step)
  local bytes, ending = bytes_of(FOLDER .. name), name:match "%.%w+$"
  with_path(ending, function(path)
    for length = 0, #bytes - 1, step do
      write(path, bytes:sub(1, length))
      expect.error(function() ml.load(path) end, "load: ", name .. " cut to " .. length)
    end
    ml.manual_seed(1)
    for _ = 1, 500 do
      local at, new = ml.randint(#bytes, { 1 }):item(), ml.randint(1, 256, { 1 }):item() - 1
      write(path, bytes:sub(1, at - 1) .. string.char(new) .. bytes:sub(at + 1))
      local ok, problem = pcall(ml.load, path)
      expect.truthy(ok or problem:find "load: ", problem)
    end
  end)
end

test("files cut anywhere, and files with other bytes", function()
  expect_refused("big_fortran.npy", 1)
  expect_refused("several.npz", 7)
  expect_refused("compressed.npz", 31)
end)

test("a compressed array cannot claim more than its bytes may hold", function()
  local bytes = bytes_of(FOLDER .. "compressed.npz")
  local at = assert(bytes:find("PK\1\2", 1, true))
  with_path(".npz", function(path)
    write(path, bytes:sub(1, at + 23) .. ("<I4"):pack(1 << 30) .. bytes:sub(at + 28))
    expect.error(function() ml.load(path) end, "1073741824 bytes cannot come from %d+ compressed ones")
    write(path, bytes:sub(1, at + 23) .. ("<I4"):pack(30000) .. bytes:sub(at + 28))
    expect.error(function() ml.load(path) end, "compressed data are damaged")
  end)
end)

harness.run()
