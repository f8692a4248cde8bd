-- tests/lua/files/serialize_test.lua: ml.save and ml.load: round trips, hostile and cut files, unwritable
-- paths, and a process killed while it saves.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local system = require "moonlet.system"
local test, expect = harness.test, harness.expect

local function same(a, b)
  return a.dtype == b.dtype and a.shape == b.shape and a:to_bytes() == b:to_bytes()
end

local function round_trip(value, options)
  local result, metadata
  harness.with_temp_file(function(path)
    ml.save(path, value, options)
    result, metadata = ml.load(path)
  end)
  return result, metadata
end

test("every dtype and shape comes back", function()
  local tensors = { empty = ml.zeros(0, 3), scalar = ml.tensor(2.5) }
  for _, dtype in ipairs { "bool", "uint8", "int8", "int16", "int32", "int64", "float16",
    "bfloat16", "float32", "float64", "complex64", "complex128" } do
    tensors[dtype] = ml.tensor({ { 1, 0, 1 }, { 0, 1, 1 } }):to(dtype)
  end
  tensors.turned = ml.randn(3, 4):t()
  local loaded, metadata = round_trip(tensors, { metadata = { note = 'a "b"\n\\ é' } })
  for name, tensor in pairs(tensors) do
    expect.truthy(same(loaded[name], tensor:contiguous()), name)
  end
  expect.equal(metadata, { note = 'a "b"\n\\ é' })
end)

test("nested tables of plain values", function()
  local value = { model = { ["fc.weight"] = ml.randn(2, 2) }, epoch = 3, rate = 0.1, whole = 2.0,
    best = math.huge, name = "net/1", list = { 1, 2, { true, false } }, [5] = "five", none = {} }
  local loaded = round_trip(value)
  expect.truthy(same(loaded.model["fc.weight"], value.model["fc.weight"]))
  loaded.model, value.model = nil, nil
  expect.equal(loaded, value)
  expect.equal(math.type(loaded.epoch), "integer")
  expect.equal(math.type(loaded.whole), "float")
end)

test("the metadata of a file is left aside where its state is loaded or saved again", function()
  harness.with_temp_file(function(path)
    local net, other = ml.nn.Linear(2, 3), ml.nn.Linear(2, 3)
    ml.save(path, net:state_dict(), { metadata = { format = "pt", strict = "no" } })
    other:load_state_dict(ml.load(path))
    expect.truthy(other.weight:eq(net.weight):all():item())
    ml.save(path, ml.load(path))
    expect.equal(select(2, ml.load(path)), { format = "pt", strict = "no" })
    local sgd = ml.optim.SGD(net:parameters(), { lr = 0.1, momentum = 0.5 })
    ml.save(path, sgd:state_dict(), { metadata = { note = "x" } })
    sgd:load_state_dict(ml.load(path))
    expect.error(function() other:load_state_dict(net:state_dict(), { format = "pt" }) end,
      "unknown option 'format'")
  end)
end)

test("what is loaded can be changed without changing the file", function()
  harness.with_temp_file(function(path)
    ml.save(path, { x = ml.ones(3) })
    local x = ml.load(path).x
    x:add_(1)
    ml.save(path, { x = x })
    expect.equal(x:totable(), { 2.0, 2.0, 2.0 })
    expect.equal(ml.load(path).x:totable(), { 2.0, 2.0, 2.0 })
  end)
end)

-- Runs `f` with the path of a file of ones, and then the loaded tensor must still hold ones.
local function expect_kept(f, options)
  harness.with_temp_file(function(path)
    ml.save(path, { x = ml.ones(5000) })
    local x = ml.load(path, options).x
    f(path, x)
    expect.equal(x:sum():item(), 5000.0)
  end)
end

local function overwrite(path, text)
  local file <close> = assert(io.open(path, "r+b"))
  file:seek("set", 200)
  file:write(text)
end

test("arguments go by position or by name; a saved table may have their names", function()
  harness.with_temp_file(function(path)
    ml.save { path = path, value = { value = ml.ones(2) }, metadata = { a = "b" } }
    local value, metadata = ml.load { path = path, device = "cpu" }
    expect.equal({ value.value:tolist(), metadata.a }, { { 1, 1 }, "b" })
    for _, names in ipairs { { "value" }, { "path", "value" }, { "path", "value", "metadata" } } do
      local saved = {}
      for _, name in ipairs(names) do saved[name] = { value = ml.ones(1) } end
      ml.save(path, saved)
      local loaded = ml.load(path, "cpu", true)
      for _, name in ipairs(names) do expect.equal(loaded[name].value:item(), 1.0) end
    end
    expect.error(function() ml.save(path, {}, { metdata = {} }) end,
      "save: unknown option 'metdata'; did you mean 'metadata'")
    expect.error(function() ml.save(path, {}, {}, false, nil, 6) end, "save: takes at most 5 arguments")
    expect.error(function() ml.save(path) end, "save: 'value' is missing")
  end)
end)

test("what is loaded does not change with the file", function()
  expect_kept(function(path) overwrite(path, ("\255"):rep(10000)) end)
  expect_kept(function(path) assert(io.open(path, "wb")):close() end)
  expect_kept(function(path) os.remove(path) end)
  expect_kept(function(path) ml.save(path, { x = ml.zeros(5000) }) end)
end)

test("a file is mapped when asked to, and saving to its path is safe", function()
  expect_kept(function(path) ml.save(path, { x = ml.zeros(5000) }) end, { mmap = true })
  expect_kept(function(path, x)
    ml.save(path, { x = x, y = x * 2 })
    expect.equal(ml.load(path).y:sum():item(), 10000.0)
  end, { mmap = true })
  harness.with_temp_file(function(path)
    ml.save(path, { x = ml.ones(5000) })
    local x = ml.load(path, { mmap = true }).x
    overwrite(path, ("\0"):rep(4 * 1000))
    expect.truthy(x:sum():item() < 4100, "the mapping shows the file")
    x:add_(1)
    expect.truthy(ml.load(path).x:sum():item() < 4100, "and its changes stay here")
  end)
  expect.error(function() ml.load("x", { mmap = 1 }) end, "'mmap' must be true or false")
  expect.error(function() ml.load("x", { devce = "cpu" }) end, "load: unknown option 'devce'; did you mean 'device'")
end)

test("what is no regular file is refused at once", function()
  harness.with_temp_file(function(path)
    assert(os.execute(("mkfifo '%s'"):format(path)))
    for _, case in ipairs { { path, "pipe" }, { ".", "Is a directory" }, { "/dev/zero", "device" } } do
      local message = expect.error(function() ml.load(case[1]) end, "load: .*" .. case[2])
      expect.truthy(message:find("'" .. case[1] .. "'", 1, true), message)
      expect.error(function() ml.data.read_csv(case[1]) end, "read_csv: .*" .. case[2])
      expect.error(function() ml.data.read_idx(case[1]) end, "read_idx: .*" .. case[2])
      expect.error(function() system.read_file(case[1]) end, "read_file: .*" .. case[2])
      expect.error(function() ml.load(case[1], { mmap = true }) end, "load: .*" .. case[2])
      expect.error(function() ml.Storage { file = case[1] } end, "not a regular file")
    end
    expect.error(function() ml.save(path, { x = ml.ones(1) }) end, "a pipe that nobody reads")
  end)
end)

test("links are followed, and long names have room", function()
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute(("mkdir -p '%s/inner' && cd '%s' && ln -s inner/file link && ln -s link second "
    .. "&& ln -s loop loop"):format(folder, folder)))
  local function listing()
    local process <close> = assert(io.popen(("ls -F '%s' '%s/inner'"):format(folder, folder)))
    return process:read "a":gsub(folder:gsub("%p", "%%%0"), "")
  end
  ml.save(folder .. "/second", { x = ml.ones(1) })
  expect.equal(listing(), ":\ninner/\nlink@\nloop@\nsecond@\n\n/inner:\nfile\n")
  ml.save(folder .. "/link", { x = ml.zeros(1) })
  expect.equal(ml.load(folder .. "/inner/file").x:item(), 0.0)
  expect.error(function() ml.save(folder .. "/loop", { x = ml.ones(1) }) end, "save: .*/loop': ")
  local long = folder .. "/" .. ("n"):rep(255)
  for i = 1, 2 do
    ml.save(long, { x = ml.tensor(i) })
    expect.equal(ml.load(long).x:item(), i)
  end
  os.execute(("rm -r '%s'"):format(folder))
end)

test("an error while saving leaves the old file", function()
  expect.error(function() ml.save("/dev/full", { x = ml.ones(1) }) end,
    "save: '/dev/full': No space left")
  if not arg[-1] then harness.skip "the interpreter's path is not known" end
  harness.with_temp_file(function(path)
    ml.save(path, { x = ml.ones(4) })
    local script = ("print(pcall(require 'moonlet'.save, '%s', { x = require 'moonlet'.ones(1 << 20) }))")
      :format(path)
    -- More than a megabyte is refused, by a signal for who does not take it as an error.
    local process <close> = assert(io.popen(("ulimit -f 1024; '%s' -e \"%s\" 2>&1")
      :format(arg[-1], script)))
    local output = process:read "a"
    expect.truthy(output:find("save: '" .. path .. "': File too large", 1, true), output)
    expect.equal(ml.load(path).x:numel(), 4)
    local listing <close> = assert(io.popen(("ls '%s'*"):format(path)))
    expect.equal(listing:read "a", path .. "\n")
  end)
end)

test("values that cannot be saved are named", function()
  local path = os.tmpname()
  expect.error(function() ml.save(path, { a = { f = print } }) end, "'a/f' is a function")
  expect.error(function() ml.save(path, { net = ml.nn.Linear(1, 1) }) end, "state_dict")
  expect.error(function() ml.save(path, ml.nn.Linear(1, 1)) end, "state_dict")
  expect.error(function() ml.save(path, ml.ones(1)) end, "table of tensors")
  expect.error(function() ml.save(path, { [1.5] = 1 }) end, "neither a string nor an integer")
  expect.error(function() ml.save(path, { ["\255"] = ml.ones(1) }) end, "UTF%-8")
  expect.error(function() ml.save(path, { x = ml.ones(1) }, { metadata = { a = 1 } }) end,
    "strings")
  local loop = {}
  loop.loop = loop
  expect.error(function() ml.save(path, loop) end, "contains itself")
  expect.error(function() ml.save("/nowhere/x", { x = ml.ones(1) }) end, "/nowhere/x")
  expect.error(function() ml.load("/nowhere/x") end, "/nowhere/x")
  expect.error(function() ml.load(system.getenv("HOME") or "/") end, "load")
  os.remove(path)
end)

local function file_of(header, data, length)
  return ("<I8"):pack(length or #header) .. header .. (data or "")
end

local function entry(dtype, shape, first, last)
  return ('{"dtype":"%s","shape":[%s],"data_offsets":[%s,%s]}'):format(dtype, shape, first, last)
end

test("hostile files", function()
  local good = '{"a":' .. entry("U8", "2", 0, 2) .. "}"
  local cases = {
    { "", "" }, { "abc", "too short" }, { file_of(good, "xy", 1 << 40), "more than 100000000" },
    { file_of(good, "xy", -1), "more than 100000000" }, { file_of(good, "", 1000), "longer than" },
    { file_of(good, "x"), "'a' lies at bytes 0 to 2 of 1" },
    { file_of(good, "xyz"), "1 bytes after the last tensor" },
    { file_of("[]"), "start with" }, { file_of("{"), "expected" }, { file_of("{} x"), "byte 4: .*end of input" },
    { file_of('{"a":' .. entry("U8", "2", 0, 2) .. ',"a":' .. entry("U8", "2", 0, 2) .. "}", "xy"),
      "'a' comes twice" },
    { file_of('{"a":' .. entry("U8", "2", 0, 2) .. ',"b":' .. entry("U8", "2", 1, 3) .. "}", "xyz"),
      "overlaps" },
    { file_of('{"a":' .. entry("U8", "1", 1, 2) .. "}", "xy"), "hole" },
    { file_of('{"a":' .. entry("U8", "1", 2, 1) .. "}", "xy"), "lies at bytes 2 to 1" },
    { file_of('{"a":' .. entry("F32", "2", 0, 2) .. "}", "xy"), "wants 8" },
    { file_of('{"a":' .. entry("U9", "2", 0, 2) .. "}", "xy"), "dtype U9" },
    { file_of('{"a":' .. entry("U8", "-2", 0, 2) .. "}", "xy"), "whole number" },
    { file_of('{"a":' .. entry("U8", "2.0", 0, 2) .. "}", "xy"), "got a number with a" },
    { file_of('{"a":' .. entry("U8", '"2"', 0, 2) .. "}", "xy"), "got a string" },
    { file_of('{"a":' .. entry("U8", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2", 0, 2) .. "}", "xy"),
      "shape of 'a' has more than" },
    { file_of('{"a":' .. entry("U8", "2", 0, "2,2") .. "}", "xy"), "are not two numbers" },
    { file_of('{"a":{"dtype":["U8"]}}'), "dtype of 'a' must be a string, got a list" },
    { file_of('{"a":{"shape":"U8"}}'), "shape of 'a' must be a list" },
    { file_of('{"a":3}'), "'a' must be an object, got a number" }, { file_of('{"a":null}'), "null" },
    { file_of('{"__metadata__":{"a":"b","a":"c"}}'), "'a' comes twice" },
    { file_of('{"__metadata__":{"a":{"b":"c"}}}'), "metadata 'a' must be a string, got an object" },
    { file_of('{}\0'), "zero byte" },
    { file_of('{"a":' .. entry("U8", "99999999999999999999", 0, 2) .. "}", "xy"), "64 bits" },
    { file_of('{"a":' .. entry("U8", "9999999999,9999999999,9999999999", 0, 2) .. "}", "xy"),
      "too large" },
    { file_of('{"a":' .. entry("BOOL", "2", 0, 2) .. "}", "xy"), "neither 0 nor 1" },
    { file_of('{"a":' .. ("["):rep(100000)), "'a' must be an object, got a list" },
    { file_of(('{"a":'):rep(100000)), "unexpected field" },
    { file_of('{"a":{"dtype":"U8","shape":[2]}}', "xy"), "lacks" },
    { file_of('{"__metadata__":{"a":1}}'), "metadata 'a' must be a string, got a number" },
    { file_of('{"\255":' .. entry("U8", "2", 0, 2) .. "}", "xy"), "UTF%-8" },
    { file_of('{"__metadata__":{"moonlet.tree":"{\\"t\\":[[\\"a\\",{\\"x\\":\\"b\\"}]]}"}}'),
      "'b' is missing" },
    { file_of('{"__metadata__":{"moonlet.tree":"{"}}'), "damaged" },
  }
  for i, case in ipairs(cases) do
    harness.with_temp_file(function(path)
      local file <close> = assert(io.open(path, "wb"))
      file:write(case[1])
      file:close()
      local message = expect.error(function() ml.load(path) end, case[2], "case " .. i)
      expect.truthy(message:find(path, 1, true), ("case %d: %s"):format(i, message))
    end)
  end
end)

test("types that do not exist here do not keep the rest from being read", function()
  harness.with_temp_file(function(path)
    local file <close> = assert(io.open(path, "wb"))
    file:write(file_of('{"a":' .. entry("U8", "2", 0, 2) .. ',"b":' .. entry("F8_E4M3", "2,1", 2, 4) .. ',"c":'
      .. entry("F4", "4", 4, 6) .. ',"d":' .. entry("U16", "1", 6, 8) .. ',"e":' .. entry("U64", "1", 8, 16)
      .. ',"f":' .. entry("U64", "1", 16, 24) .. ',"g":' .. entry("U32", "0,2", 24, 24) .. "}",
      "\1\2" .. "345678" .. ("<i8i8"):pack(1 << 62, -1)))
    file:close()
    local value, metadata, left_out = ml.load(path)
    expect.equal({ value.a:tolist(), value.c, metadata }, { { 1, 2 }, nil, {} })
    expect.equal(left_out, { c = "its dtype F4 is not known here" })
    expect.equal({ value.e:tolist(), value.g.dtype, tostring(value.g.shape) }, { { 1 << 62 }, "uint32", "(0, 2)" })
    expect.equal({ value.f.dtype, value.f:view("int64"):item() }, { "uint64", -1 })
    -- 0x33 and 0x34 are 1.375 and 1.5 times 2^-1.
    expect.equal({ value.b.dtype, value.b:tolist() }, { "float8_e4m3fn", { { 0.6875 }, { 0.75 } } })
    expect.equal({ value.d.dtype, value.d:tolist() }, { "uint16", { 0x3837 } })
    ml.save(path, ml.load(path))
    expect.equal((ml.load(path)).a:tolist(), { 1, 2 })
  end)
  for _, case in ipairs { { entry("F8_E4M3", "3", 0, 2), "wants 3" }, { entry("F4", "3", 0, 2), "wrong shape" },
    { entry("U64", "4611686018427387904", 0, 2), "too large" } } do
    harness.with_temp_file(function(path)
      local file <close> = assert(io.open(path, "wb"))
      file:write(file_of('{"a":' .. case[1] .. "}", "xy"))
      file:close()
      expect.error(function() ml.load(path) end, case[2])
    end)
  end
end)

-- Runs `f` with the path of an empty folder, which is removed after.
local function with_folder(f)
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute(("mkdir '%s'"):format(folder)))
  local ok, message = pcall(f, folder)
  os.execute(("rm -r '%s'"):format(folder))
  if not ok then error(message, 0) end
end

test("tensors go to several files, and come back", function()
  with_folder(function(folder)
    local state = { a = ml.zeros(100), b = ml.ones(300), c = ml.full({ 50 }, 2.0), d = ml.zeros(0) }
    local path = folder .. "/net.safetensors"
    ml.save(path, state, { max_shard_size = 600, metadata = { format = "pt" } })
    local listing <close> = assert(io.popen(("ls '%s'"):format(folder)))
    expect.equal(listing:read "a", "net-00001-of-00003.safetensors\nnet-00002-of-00003.safetensors\n"
      .. "net-00003-of-00003.safetensors\nnet.safetensors.index.json\n")
    local value, metadata = ml.load(path .. ".index.json")
    for name, tensor in pairs(state) do expect.truthy(same(value[name], tensor), name) end
    expect.equal(metadata, { format = "pt" })
    expect.truthy(ml.load(path .. ".index.json", { mmap = true }).b:storage().is_mapped)
    local index = require "moonlet.json".decode(system.read_file(path .. ".index.json"))
    expect.equal(index, { metadata = { total_size = 1800 }, weight_map = {
      a = "net-00001-of-00003.safetensors", b = "net-00002-of-00003.safetensors",
      c = "net-00003-of-00003.safetensors", d = "net-00003-of-00003.safetensors" } })
    ml.save(folder .. "/one.safetensors", state, { max_shard_size = "1.8KB" })
    expect.truthy(same(ml.load(folder .. "/one.safetensors").b, state.b))
    os.remove(folder .. "/net-00002-of-00003.safetensors")
    expect.error(function() ml.load(path .. ".index.json") end, "net%-00002%-of%-00003.safetensors': No such file")
  end)
end)

test("an index may hold files of torch.save, and no way out of its folder", function()
  with_folder(function(folder)
    local function index(text)
      local file <close> = assert(io.open(folder .. "/x.bin.index.json", "wb"))
      file:write(text)
      file:close()
      return ml.load(folder .. "/x.bin.index.json")
    end
    ml.save(folder .. "/x-1.pt", { a = ml.ones(2), b = ml.zeros(2) })
    os.rename(folder .. "/x-1.pt", folder .. "/x-1.bin")
    expect.equal(index '{"weight_map":{"a":"x-1.bin"}}'.a:tolist(), { 1, 1 })
    expect.equal(index '{"weight_map":{"a":"x-1.bin"}}'.b, nil)
    for text, message in pairs { ['{"weight_map":{"c":"x-1.bin"}}'] = "'c' is not in 'x%-1.bin'",
      ['{"weight_map":{"a":"../x-1.bin"}}'] = "names no file for 'a'", ['{"weight_map":{"a":".."}}'] = "names no file",
      ['{"weight_map":{"a":"C:x-1.bin"}}'] = "names no file",
      ['{"weight_map":{"a":3}}'] = "names no file", ['{"weight_map":3}'] = "no weight_map", ["[]"] = "no weight_map",
      ["{"] = "the index is damaged", [""] = "the index is damaged",
      ['{"weight_map":{"a":"x.bin.index.json"}}'] = "neither a safetensors file nor one of torch.save" } do
      expect.error(function() index(text) end, "load: .*" .. message)
    end
  end)
end)

test("sizes of files are numbers of bytes or texts", function()
  local path = os.tmpname()
  for _, size in ipairs { 0, -5, "5", "GB", "5XB", "0B" } do
    expect.error(function() ml.save(path .. ".safetensors", { x = ml.ones(1) }, { max_shard_size = size }) end,
      "'max_shard_size' must be a number of bytes")
  end
  expect.error(function() ml.save(path .. ".safetensors", { { ml.ones(1) } }, { max_shard_size = 1 }) end,
    "'max_shard_size' is for a table of tensors by name")
  expect.error(function() ml.save(path, { x = ml.ones(1) }, { max_shard_size = 1 }) end, "ends in .safetensors")
  expect.error(function() ml.save(path .. ".pt", {}, { max_shard_size = 1 }) end, "is not for a file of torch.save")
  os.remove(path)
end)

test("a file cut anywhere is an error", function()
  harness.with_temp_file(function(path)
    ml.save(path, { a = ml.ones(3), b = { ml.zeros(2) } })
    local whole = system.read_file(path)
    for length = 0, #whole - 1 do
      local file <close> = assert(io.open(path, "wb"))
      file:write(whole:sub(1, length))
      file:close()
      expect.error(function() ml.load(path) end, nil, "length " .. length)
    end
  end)
end)

test("killing the process while it saves leaves the old file whole", function()
  harness.with_temp_file(function(path)
    ml.save(path, { x = ml.full({ 1000 }, 1.0) })
    local old = system.read_file(path)
    local program = arg[-1]
    if not program then harness.skip("the interpreter's path is not known") end
    local script = ("local ml = require 'moonlet' local x = ml.zeros(4000000) "
      .. "while true do ml.save('%s', { x = x }) end"):format(path)
    os.execute(("timeout -s KILL 0.3 '%s' -e \"%s\" >/dev/null 2>&1"):format(program, script))
    local x = ml.load(path).x
    expect.truthy(x:numel() == 4000000 or system.read_file(path) == old)
    local listing <close> = assert(io.popen(("ls '%s'*"):format(path)))
    expect.equal(listing:read "a", path .. "\n")
  end)
end)

harness.run()
