-- tests/lua/files/torch_file_test.lua: ml.load of files that torch.save wrote (tests/reference/torch_files),
-- whole, cut and damaged, and files for torch.load that ml.save wrote.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect

warn "@off"  -- of a damaged name what it makes is left out

local FOLDER = (os.getenv "MOONLET_SOURCE" or ".") .. "/tests/reference/torch_files/"

local function bytes_of(name)
  local file <close> = assert(io.open(FOLDER .. name, "rb"))
  return file:read "a"
end

-- Loads bytes as a file.
local function load_bytes(bytes)
  local ok, value
  harness.with_temp_file(function(path)
    local file <close> = assert(io.open(path, "wb"))
    file:write(bytes)
    file:close()
    ok, value = pcall(ml.load, path)
  end)
  return ok, value
end

test("a state dict fits the same network", function()
  local state = ml.load(FOLDER .. "state_dict.pt")
  local net = ml.nn.Sequential(ml.nn.Linear(3, 2), ml.nn.BatchNorm1d(2))
  net:load_state_dict(state)
  expect.equal(net[1].weight:tolist(), { { 0, 1, 2 }, { 3, 4, 5 } })
  expect.equal(net[1].bias:tolist(), { 1, 2 })
  expect.equal(net[2].bias:tolist(), { 3, 4 })
  expect.equal(state["1.num_batches_tracked"]:item(), 0)
end)

test("plain values, lists, views and parameters", function()
  local value = ml.load(FOLDER .. "checkpoint.pt")
  expect.equal({ value.epoch, value.rate, value.name, value.done, value.none, value.negative },
    { 3, 0.25, "net/é", true, nil, -7 })
  expect.equal(math.type(value.epoch), "integer")
  expect.equal(value.big, 2 ^ 40)
  expect.equal({ value.list[1], value.list[2], value.list[3] }, { 1, nil, "three" })
  expect.equal(value.tuple[1]:item(), 1.5)
  expect.equal(value.ordered, { a = 1, b = { 2.5 } })
  expect.equal(value.size, { 2, 3 })
  expect.equal(tostring(value.empty.shape), "(0, 3)")
  expect.equal(value.view:tolist(), ml.arange(0.0, 11.0):reshape(3, 4):t():tolist())
  expect.truthy(value.parameter.requires_grad)
  expect.truthy(not value.view.requires_grad)
  value.same:add_(1)
  expect.equal(value.view[1][1]:item(), 1)
  local group = value.optimizer.param_groups[1]
  expect.equal(group.lr, 0.01)
  expect.equal(group.betas, { 0.9, 0.999 })
  expect.equal(value.optimizer.state[0].step:item(), 1)
  expect.equal(tostring(value.optimizer.state[0].exp_avg.shape), "(2, 3)")
end)

test("the state of PyTorch's optimiser goes on here", function()
  local state = ml.load(FOLDER .. "checkpoint.pt").optimizer
  local net = ml.nn.Sequential(ml.nn.Linear(3, 2), ml.nn.BatchNorm1d(2))
  net:load_state_dict(ml.load(FOLDER .. "state_dict.pt"))
  local adam = ml.optim.Adam(net:parameters(), { lr = 1 })
  adam:load_state_dict(state)
  expect.equal({ adam.param_groups[1].lr, adam.state[net[2].bias].step }, { 0.01, 1 })
  net(ml.ones(4, 3)):sum():backward()
  adam:step()
  -- What PyTorch gives: both steps go by 0.01 against a gradient of 4.
  expect.near(net[2].bias:tolist(), { 2.99, 3.99 }, 1e-6)
  state.param_groups[1].weight_decay = 0
  expect.error(function() ml.optim.AdamW(net:parameters()):load_state_dict(state) end, "'decoupled_weight_decay'")
  state.param_groups[1].decoupled_weight_decay = true
  ml.optim.AdamW(net:parameters()):load_state_dict(state)
  state.param_groups[1].foreach, state.param_groups[1].fused = true, true
  expect.error(function() adam:load_state_dict(state) end, "'foreach' and 'fused' cannot both be true")
end)

test("every dtype", function()
  local value, count = ml.load(FOLDER .. "dtypes.pt"), 0
  for name, tensor in pairs(value) do
    count = count + 1
    expect.equal(tostring(tensor.dtype), name)
    expect.equal(tensor:to("float32"):tolist(), { { 1, 0, 1 }, { 0, 1, 1 } }, name)
  end
  expect.equal(count, 12)
end)

test("protocol 4", function()
  local value = ml.load(FOLDER .. "protocol4.pt", { map_location = "cpu" })
  expect.equal(value.x:tolist(), { { 1, 1 }, { 1, 1 } })
  expect.equal(value.names, { "a", "b" })
end)

test("what Python alone can make is refused by name", function()
  expect.error(function() ml.load(FOLDER .. "optimizer.pt") end,
    "optimizer.pt': it holds a Python object of class torch.optim.sgd.SGD; save its state_dict")
  expect.error(function() ml.load(FOLDER .. "dtypes.pt", "cuda", false, "cpu") end, "two names of one option")
end)

test("files from before PyTorch 1.6", function()
  local value = ml.load(FOLDER .. "legacy.pt")
  expect.equal(value.whole:tolist(), { 0, 1, 2, 3 })
  expect.equal(value.part:tolist(), { { 1 }, { 2 }, { 3 } })
  expect.equal({ value.bytes, value.device, value.epoch }, { "\255\0a", "cuda:1", 3 })
  expect.equal({ value.complex.real, value.complex.imag }, { 1, -2 })
  expect.equal(tostring(value.half.dtype), "bfloat16")
  value.whole:add_(1)
  expect.equal(value.part[1][1]:item(), 2)
  local bytes = bytes_of "legacy.pt"
  for length = 16, #bytes - 1 do expect.truthy(not load_bytes(bytes:sub(1, length)), "cut to " .. length) end
end)

-- --- writing ----------------------------------------------------------------------------------

-- What is loaded from a file of torch.save's format that has `value`.
local function round_trip(value, options)
  local path, loaded = os.tmpname() .. ".pt", nil
  local ok, message = pcall(function()
    ml.save(path, value)
    loaded = ml.load(path, options)
  end)
  os.remove(path)
  os.remove((path:gsub("%.pt$", "")))
  return ok and loaded or error(message, 0)
end

test("values come back from a .pt file", function()
  local dtypes = {}
  for _, dtype in ipairs { "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16",
    "float32", "float64", "complex64", "complex128" } do
    dtypes[dtype] = ml.tensor({ { 1, 0, 1 }, { 0, 1, 1 } }):to(dtype)
  end
  local list = { 1, "two", { true } }
  local value = { dtypes = dtypes, list = list, same = list, [7] = 1.5, [true] = -3, [0.5] = 1 << 40,
    bytes = "\255\0", empty = {}, text = "é\n", nan = 0 / 0, low = -math.huge, none = ml.zeros(0, 3),
    complex = ml.complex(1, -2), shape = dtypes.bool.shape, small = math.mininteger }
  for _, options in ipairs { {}, { mmap = true } } do
    local loaded = round_trip(value, options)
    for name, tensor in pairs(dtypes) do
      expect.equal(tostring(loaded.dtypes[name].dtype), name)
      expect.truthy(loaded.dtypes[name]:eq(tensor):all():item(), name)
    end
    expect.truthy(loaded.list == loaded.same)
    expect.equal({ loaded.list, loaded[7], loaded[true], loaded[0.5], loaded.bytes, loaded.empty },
      { list, 1.5, -3, 1 << 40, "\255\0", {} })
    expect.equal({ math.type(loaded[true]), math.type(loaded[7]), loaded.small, loaded.text },
      { "integer", "float", math.mininteger, "é\n" })
    expect.truthy(loaded.nan ~= loaded.nan and loaded.low == -math.huge)
    expect.equal({ loaded.complex.imag, loaded.shape, tostring(loaded.none.shape) }, { -2, { 2, 3 }, "(0, 3)" })
  end
  expect.equal(round_trip(ml.ones(2)):tolist(), { 1, 1 })
  expect.equal(round_trip(5), 5)
end)

test("tensors that share a storage go on sharing it, with their strides", function()
  local base = ml.arange(0.0, 11.0)
  local value = { base = base, turned = base:view(3, 4):t(), part = base[{ { 3, 5 } }],
    wide = ml.ones(1):expand(1000000, 5), leaf = ml.ones(2):requires_grad_() }
  local loaded = round_trip(value)
  expect.equal(loaded.turned:stride(), { 1, 4 })
  expect.equal(loaded.part:storage_offset(), 2)
  expect.equal(loaded.wide:stride(), { 0, 0 })
  expect.truthy(loaded.leaf.requires_grad and not loaded.base.requires_grad)
  loaded.base:add_(10)
  expect.equal({ loaded.turned[1][2]:item(), loaded.part:tolist() }, { 14, { 12, 13, 14 } })
end)

test("a table that contains itself comes back so", function()
  local loop = { name = "a" }
  loop.inner = { loop }
  local loaded = round_trip(loop)
  expect.truthy(loaded.inner[1] == loaded)
end)

test("the state of an optimiser is numbered by a dict, though its numbers are 1 to n", function()
  local net = ml.nn.Linear(2, 3)
  local adam = ml.optim.Adam(net:parameters(), { lr = 0.5 })
  net(ml.ones(1, 2)):sum():backward()
  adam:step()
  local path = os.tmpname()
  os.remove(path)
  ml.save(path .. ".pt", { optimizer = adam:state_dict() })
  local file <close> = assert(io.open(path .. ".pt", "rb"))
  local bytes = file:read "a"
  -- A key "state", whose value is a dict, which is noted before it gets its items.
  expect.truthy(bytes:find "state}[qr]")
  local other = ml.optim.Adam(net:parameters(), { lr = 0.1 })
  other:load_state_dict(ml.load(path .. ".pt").optimizer)
  os.remove(path .. ".pt")
  expect.equal(other.param_groups[1].lr, 0.5)
end)

test("what a .pt file cannot hold is named", function()
  local path = os.tmpname() .. ".pt"
  local x = ml.ones(2, { dtype = "complex64" })
  expect.error(function() ml.save(path, { a = x, b = x.real }) end,
    "'b' is float32 on the memory of 'a', which is complex64")
  expect.error(function() ml.save(path, { a = { f = print } }) end, "'a/f' is a function")
  expect.error(function() ml.save(path, { net = ml.nn.Linear(1, 1) }) end, "'net' is an object; save its state_dict")
  expect.error(function() ml.save(path, ml.nn.Linear(1, 1)) end, "state_dict")
  expect.error(function() ml.save(path, { [{}] = 1 }) end, "a key that is a table")
  expect.error(function() ml.save(path, {}, { metadata = { a = "b" } }) end,
    "'metadata' is not for a file of torch.save")
  local deep = {}
  for _ = 1, 2000 do deep = { deep } end
  expect.error(function() ml.save(path, deep) end, "nests too deeply")
  os.remove((path:gsub("%.pt$", "")))
end)

test("Zip64 fields are written and read", function()
  local Archive, Source, zip = require "moonlet.files.zip_writer", require "moonlet.files.source",
    require "moonlet.files.zip"
  local archive = Archive.new(0)
  archive:add("a", { "one", ml.tensor({ 1, 2 }, { dtype = "uint8" }) }, { align = 64 })
  archive:add("b", { ("x"):rep(5000) }, { deflate = true })
  harness.with_temp_file(function(path)
    require "moonlet.io".write_parts(path, archive:finish(), "save")
    local file = Source.open(path)
    local entries, names = zip.entries(file)
    expect.equal(names, { "a", "b" })
    expect.equal(zip.read(file, entries.a), "one\1\2")
    expect.equal(zip.read(file, entries.b), ("x"):rep(5000))
    expect.truthy(entries.b.stored < 100)
  end)
end)

-- --- damage -----------------------------------------------------------------------------------

test("files cut anywhere are errors", function()
  local bytes = bytes_of "state_dict.pt"
  for length = 4, #bytes - 1, 37 do
    local ok, problem = load_bytes(bytes:sub(1, length))
    expect.truthy(not ok, "cut to " .. length)
    expect.truthy(tostring(problem):find "load: ", tostring(problem))
  end
end)

test("damaged elements are an error", function()
  local bytes = bytes_of "state_dict.pt"
  local numbers = ml.arange(0.0, 5.0):to_bytes()
  local at = assert(bytes:find(numbers, 1, true))
  local ok, problem = load_bytes(bytes:sub(1, at) .. "\1" .. bytes:sub(at + 2))
  expect.truthy(not ok and problem:find("its checksum is another", 1, true), tostring(problem))
end)

-- Bytes anywhere set to other values: an error, or the same values where it does not matter.
test("damaged files are errors or harmless", function()
  ml.manual_seed(1)
  for _, name in ipairs { "checkpoint.pt", "legacy.pt" } do
    local bytes = bytes_of(name)
    local refused = 0
    for _ = 1, 1500 do
      local at, new = ml.randint(#bytes, { 1 }):item(), ml.randint(1, 256, { 1 }):item() - 1
      local ok, problem = load_bytes(bytes:sub(1, at - 1) .. string.char(new) .. bytes:sub(at + 1))
      if not ok then expect.truthy(problem:find "load: ", problem) end
      if not ok then refused = refused + 1 end
    end
    expect.truthy(refused > 100, refused .. " refused")
  end
end)

harness.run()
