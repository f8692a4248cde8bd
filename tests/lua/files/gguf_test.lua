-- tests/lua/files/gguf_test.lua: ml.load of GGUF files: all types against the values of the package gguf
-- (tests/reference/gguf_files), metadata, and damaged and hostile files.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect

local FOLDER = (os.getenv "MOONLET_SOURCE" or ".") .. "/tests/reference/gguf_files/"
local DTYPES = { F32 = "float32", F16 = "float16", F64 = "float64", BF16 = "bfloat16", I8 = "int8", I16 = "int16",
  I32 = "int32", I64 = "int64" }

local function load_bytes(bytes, options)
  local results
  harness.with_temp_file(function(path)
    local file <close> = assert(io.open(path, "wb"))
    file:write(bytes)
    file:close()
    results = table.pack(pcall(ml.load, path, options))
  end)
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

-- A file of metadata and tensors: texts with their counts, entries, and the data behind them.
local function file_of(texts, entries, data, version)
  local head = ("<c4 I4 i8 i8"):pack("GGUF", version or 3, #entries, #texts) .. table.concat(texts)
    .. table.concat(entries)
  return head .. ("\0"):rep(-#head % 32) .. (data or "")
end

local function entry(name, sizes, kind, offset)
  local out = { ("<s8 I4"):pack(name, #sizes) }
  for i, size in ipairs(sizes) do out[i + 1] = ("<i8"):pack(size) end
  return table.concat(out) .. ("<I4 i8"):pack(kind, offset)
end

test("every type has the values of the reference", function()
  local values = ml.load(FOLDER .. "values.npz")
  for _, options in ipairs { {}, { mmap = true } } do
    local tensors, _, left_out = ml.load(FOLDER .. "types.gguf", options)
    local count = 0
    for name, wanted in pairs(values) do
      local got = tensors[name]
      if name == "TQ1_0" then
        expect.equal(got, nil)
      else
        count = count + 1
        expect.equal({ got.dtype, tostring(got.shape) }, { DTYPES[name] or "float32", tostring(wanted.shape) }, name)
        expect.truthy(got:to(wanted.dtype):eq(wanted):all():item(), name)
      end
    end
    expect.equal(count, 20)
    expect.equal(left_out, { TQ1_0 = "its type TQ1_0 is not known here" })
  end
end)

test("quantised tensors get the dtype asked for", function()
  local tensors = ml.load(FOLDER .. "types.gguf", { dtype = "bfloat16" })
  expect.equal({ tensors.Q4_K.dtype, tensors.F64.dtype }, { "bfloat16", "float64" })
  local wanted = ml.load(FOLDER .. "values.npz").Q4_K:to "bfloat16"
  expect.truthy(tensors.Q4_K:eq(wanted):all():item())
  expect.error(function() ml.load(FOLDER .. "types.gguf", { dtype = "int8" }) end, "'dtype' must be float16")
  expect.error(function() ml.load(FOLDER .. "values.npz", { dtype = "float16" }) end,
    "'dtype' is for quantised tensors of GGUF files, not for a zip archive")
  expect.error(function() ml.save("x.gguf", {}) end, "a GGUF file can be read, not written")
end)

test("metadata of all types", function()
  local _, metadata = ml.load(FOLDER .. "types.gguf")
  expect.equal(metadata, { ["general.architecture"] = "llama", u8 = 200, i8 = -3, u16 = 60000, i16 = -5,
    u32 = 4000000000, i32 = -7, f32 = 0.5, yes = true, no = false, text = "héllo", numbers = { 1, 2, 3 },
    texts = { "x", "yy" }, nested = { { 1, 2 }, { 3 } }, u64 = 1 << 40, i64 = -(1 << 40), f64 = 1.25 })
  local _, large = load_bytes(file_of({ ("<s8 I4 i8"):pack("n", 10, -1) }, {}))
  expect.equal(large.n, 2.0 ^ 64)
end)

test("files made by hand, of both versions", function()
  for version = 2, 3 do
    local value = load_bytes(file_of({}, { entry("x", { 2, 1 }, 0, 0), entry("none", { 0, 3 }, 0, 32) },
      ("<f f"):pack(1.5, -2) .. ("\0"):rep(24), version))
    expect.equal({ value.x:tolist(), tostring(value.none.shape) }, { { { 1.5, -2 } }, "(3, 0)" })
  end
  local aligned = file_of({ ("<s8 I4 I4"):pack("general.alignment", 4, 64) }, { entry("x", { 1 }, 24, 0) })
  expect.equal(load_bytes(aligned .. ("\0"):rep(-#aligned % 64) .. "\5").x:tolist(), { 5 })
end)

test("hostile files", function()
  local f = ("<f"):pack(1)
  local cases = {
    { file_of({}, { entry("x", { 1 << 40 }, 0, 0) }, f), "more bytes than the file has" },
    { file_of({}, { entry("x", { 1 << 32, 1 << 32 }, 0, 0) }, f), "more bytes than the file has" },
    { file_of({}, { entry("x", { 256 << 40 }, 12, 0) }, f), "more bytes than the file has" },
    { file_of({}, { entry("x", { -1 }, 0, 0) }, f), "%-1 is no size" },
    { file_of({}, { entry("x", { 1 }, 0, 4) }, f), "the bytes of 'x' are not in the file" },
    { file_of({}, { entry("x", { 1 }, 0, -4) }, f), "the bytes of 'x' are not in the file" },
    { file_of({}, { entry("x", { 1 }, 0, math.maxinteger) }, f), "the bytes of 'x' are not in the file" },
    { file_of({}, { entry("x", { 1 }, 0, 0), entry("y", { 1 }, 0, 0) }, f), "the bytes of 'y' are not in the file" },
    { file_of({}, { entry("x", { 1 }, 0, 0), entry("x", { 1 }, 0, 0) }, f), "'x' comes twice" },
    { file_of({}, { entry("x", { 33 }, 8, 0) }, ("\0"):rep(68)), "'x' has rows of 33 Q8_0" },
    { file_of({}, { entry("x", { 1, 1, 1, 1, 1, 1, 1, 1, 1 }, 0, 0) }, f), "'x' has 9 dimensions" },
    { ("<c4 I4 i8 i8"):pack("GGUF", 3, 1 << 60, 0), "the file is cut off" },
    { ("<c4 I4 i8 i8"):pack("GGUF", 3, 0, -1), "the file is cut off" },
    { ("<c4 I4 i8 i8"):pack("GGUF", 1, 0, 0), "version 1 of GGUF" },
    { (">c4 I4 i8 i8"):pack("GGUF", 3, 0, 0), "big%-endian" },
    { file_of({ ("<s8 I4"):pack("a", 99) }, {}), "metadata have the type 99" },
    { file_of({ ("<s8 I4 I4 i8"):pack("a", 9, 4, 1 << 50) }, {}), "the file is cut off" },
    { file_of({ ("<s8 I4"):pack("a", 9) .. ("<I4 i8"):pack(9, 1):rep(50) }, {}), "nest too deeply" },
    { file_of({ ("<s8 I4 I4"):pack("general.alignment", 4, 0) }, {}), "its alignment is damaged" },
    { file_of({ ("<s8 I4 B"):pack("a", 0, 1), ("<s8 I4 B"):pack("a", 0, 1) }, {}), "'a' come twice" },
  }
  for i, case in ipairs(cases) do
    expect.error(function() load_bytes(case[1]) end, "load: .*" .. case[2], "case " .. i)
  end
end)

test("files cut anywhere, and files with other bytes", function()
  local file <close> = assert(io.open(FOLDER .. "types.gguf", "rb"))
  local bytes = file:read "a"
  for length = 4, #bytes - 33, 61 do
    expect.error(function() load_bytes(bytes:sub(1, length)) end, "load: ", "cut to " .. length)
  end
  ml.manual_seed(1)
  for _ = 1, 300 do
    local at, new = ml.randint(1700, { 1 }):item(), ml.randint(1, 256, { 1 }):item() - 1
    local ok, problem = pcall(load_bytes, bytes:sub(1, at - 1) .. string.char(new) .. bytes:sub(at + 1))
    expect.truthy(ok or problem:find "load: ", problem)
  end
end)

harness.run()
