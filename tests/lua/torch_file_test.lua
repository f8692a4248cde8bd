-- tests/lua/torch_file_test.lua: ml.load of files that torch.save wrote (tests/reference/torch_files),
-- whole, cut and damaged.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect

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
  expect.error(function() ml.load(FOLDER .. "module.pt") end,
    "module.pt': it holds a Python object of class torch.nn.modules.container.Sequential; save its state_dict")
  expect.error(function() ml.load(FOLDER .. "dtypes.pt", { mmap = true }) end, "'mmap' is for safetensors")
  expect.error(function() ml.load(FOLDER .. "dtypes.pt", "cuda", false, "cpu") end, "two names of one option")
end)

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
  local bytes = bytes_of "checkpoint.pt"
  local refused = 0
  for _ = 1, 1500 do
    local at, new = ml.randint(#bytes, { 1 }):item(), ml.randint(1, 256, { 1 }):item() - 1
    local ok = load_bytes(bytes:sub(1, at - 1) .. string.char(new) .. bytes:sub(at + 1))
    if not ok then refused = refused + 1 end
  end
  expect.truthy(refused > 100, refused .. " refused")
end)

harness.run()
