-- tests/lua/tensor/memory_format_test.lua: results follow their inputs' strides as PyTorch's do
-- (tests/reference/values/strides.json), and the named memory formats.

package.path = arg[0]:match "^(.*)/" .. "/../?.lua;" .. package.path
local harness = require "harness"
local json = require "moonlet.json"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect

-- Up to two positions from the front of a dimension.
local function front(x, dim)
  return ml.ones({ math.min(2, x:size(dim)) }, { dtype = "int64", device = x.device }):cumsum(1)
end

-- Whether a case indexes x: PyTorch may put dimensions of one position elsewhere.
local function indexed(x, rank)
  for d = 1, x.ndim do
    if x:size(d) == 1 then return false end
  end
  return x.ndim >= rank
end

local ops = {
  ["exp"] = function(x) return x:exp() end,
  ["neg"] = function(x) return -x end,
  ["add number"] = function(x) return x + 1.5 end,
  ["gt number"] = function(x) return x:gt(0.5) end,
  ["relu"] = function(x) return x:relu() end,
  ["clamp"] = function(x) return x:clamp(0.25, 0.5) end,
  ["clone"] = function(x) return x:clone() end,
  ["clone row-major"] = function(x) return x:clone { memory_format = "contiguous_format" } end,
  ["to float64"] = function(x) return x:to "float64" end,
  ["to int64"] = function(x) return x:to "int64" end,
  ["contiguous"] = function(x) return x:contiguous() end,
  ["empty_like"] = function(x) return ml.empty_like(x) end,
  ["zeros_like"] = function(x) return ml.zeros_like(x) end,
  ["ones_like int64"] = function(x) return ml.ones_like(x, { dtype = "int64" }) end,
  ["full_like"] = function(x) return ml.full_like(x, 2.5) end,
  ["rand_like"] = function(x) return ml.rand_like(x) end,
  ["randn_like"] = function(x) return ml.randn_like(x) end,
  ["fill"] = function(x) return ml.fill(x, 2.0) end,
  ["flip"] = function(x) return x.ndim > 0 and x:flip(-1) or x:clone() end,
  ["sort values"] = function(x) return x.ndim > 0 and (x:sort(-1)) or x:clone() end,
  ["sort indices"] = function(x) return x.ndim > 0 and select(2, x:sort(1)) or x:clone() end,
  ["masked_fill"] = function(x) return x:masked_fill(x:gt(0.5), 0.0) end,
  ["roll"] = function(x)
    local many = x.ndim > 1 and x:size(1) > 1 and x:size(-1) > 1
    return many and x:roll({ 1, 1 }, { 1, -1 }) or x:clone()
  end,
  ["index first"] = function(x) return indexed(x, 1) and x[front(x, 1)] or x:clone() end,
  ["index last"] = function(x) return indexed(x, 1) and x[{ ml.ellipsis, front(x, -1) }] or x:clone() end,
  ["index table"] = function(x) return indexed(x, 2) and x[{ {}, front(x, 2):reshape(-1, 1) }] or x:clone() end,
  ["index two"] = function(x)
    return indexed(x, 3) and x[{ front(x, 1):narrow(1, 1, math.min(1, x:size(1))), {}, front(x, 3) }] or x:clone()
  end,
  ["contiguous format"] = function(x, f) return x:contiguous { memory_format = f } end,
  ["clone format"] = function(x, f) return x:clone { memory_format = f } end,
  ["to format"] = function(x, f) return x:to { memory_format = f } end,
  ["to float64 format"] = function(x, f) return x:to { dtype = "float64", memory_format = f } end,
  ["empty_like format"] = function(x, f) return ml.empty_like(x, { memory_format = f }) end,
  ["zeros_like format"] = function(x, f) return ml.zeros_like(x, { memory_format = f }) end,
  ["full_like format"] = function(x, f) return ml.full_like(x, 1.0, { memory_format = f }) end,
  ["rand_like format"] = function(x, f) return ml.rand_like(x, { memory_format = f }) end,
  ["empty format"] = function(x, f) return ml.empty { x.shape, memory_format = f } end,
  ["add after format"] = function(x, f) return x:contiguous { memory_format = f } + x end,
  ["add"] = function(x, y) return x + y end,
  ["mul"] = function(x, y) return x * y end,
  ["lt"] = function(x, y) return x:lt(y) end,
  ["maximum"] = function(x, y) return ml.maximum(x, y) end,
  ["add out"] = function(x, y, out) return ml.add(x, y, { out = out }) end,
  ["add out empty"] = function(x, y) return ml.add(x, y, { out = ml.empty { 0, device = x.device } }) end,
  ["where"] = function(x, y, z) return ml.where(x:gt(0.5), y, z) end,
  ["addcmul"] = function(x, y, z) return ml.addcmul(x, y, z) end,
  ["lerp"] = function(x, y, z) return ml.lerp(x, y, z) end,
}
local unwritten = { ["empty_like"] = true, ["empty_like format"] = true, ["empty format"] = true }

local devices = ml.cuda.is_available() and { "cpu", "cuda" } or { "cpu" }
local buffers = {}
for _, device in ipairs(devices) do
  buffers[device] = (ml.arange(1, 20000, { dtype = "float32" }) / 20000):to(device)
end

local function read_cases()
  local file = assert(io.open(arg[0]:match "^(.*)/" .. "/../../reference/values/strides.json"))
  local cases = json.decode(file:read "a")
  file:close()
  return cases
end

local function numbers(x) return x:to "cpu":double():contiguous():reshape(-1):tolist() end

local function inputs_of(case, device, dense)
  local inputs = {}
  for i, layout in ipairs(case.inputs) do
    local x = buffers[device]:as_strided(layout[1], layout[2], layout[3])
    if dense then x = x:contiguous() end
    -- The last input of an out= form is written to.
    if case.op == "add out" and i == #case.inputs then x = ml.zeros_like(x) end
    inputs[i] = x
  end
  if case.format then inputs[#inputs + 1] = case.format end
  return inputs
end

local function check_case(case, device)
  local text = device .. " " .. json.encode(case)
  local op = assert(ops[case.op], case.op)
  ml.manual_seed(3)
  local y = op(table.unpack(inputs_of(case, device)))
  local strides = y:stride()
  for d = 1, y.ndim do
    local wanted = case.strides[d]
    if math.type(wanted) and strides[d] ~= wanted then
      error(("%s: strides %s"):format(text, tostring(strides)), 0)
    end
  end
  if case.is_format ~= nil then
    local x = inputs_of(case, device)[1]
    if x:numel() > 0 then expect.equal(x:is_contiguous { memory_format = case.format }, case.is_format) end
  end
  if unwritten[case.op] then return end
  ml.manual_seed(3)
  local plain = numbers(op(table.unpack(inputs_of(case, device, true))))
  for i, v in ipairs(numbers(y)) do
    if v ~= plain[i] then error(("%s: element %d is %g, want %g"):format(text, i, v, plain[i]), 0) end
  end
end

for _, device in ipairs(devices) do
  test("results have the strides that PyTorch gives them on " .. device, function()
    local cases = read_cases()
    local failed, first = 0, nil
    -- Every case on the host; what a device adds is its kernels, which fewer show.
    for i = 1, #cases, device == "cpu" and 1 or 5 do
      local ok, message = pcall(check_case, cases[i], device)
      if not ok then
        failed = failed + 1
        first = first or message
      end
    end
    if failed > 0 then error(("%d cases fail; the first: %s"):format(failed, first), 0) end
  end)
end

local nn = ml.nn

local function is_last(x) return x:is_contiguous { memory_format = "channels_last" } end
local function last(x) return x:contiguous { memory_format = "channels_last" } end

test("formats are names and constants", function()
  for _, name in ipairs { "contiguous_format", "preserve_format", "channels_last", "channels_last_3d" } do
    expect.equal(ml[name], name)
  end
  local x = ml.randn(2, 3, 4, 5)
  expect.truthy(x:is_contiguous { memory_format = ml.contiguous_format })
  expect.falsy(is_last(x))
  local y = x:contiguous { memory_format = ml.channels_last }
  expect.truthy(is_last(y))
  expect.falsy(y:is_contiguous())
  expect.truthy(y:contiguous():is_contiguous())
  expect.truthy(y:is_set_to(last(y)), "already so: no copy")
  expect.truthy(y:is_set_to(y:to { memory_format = "channels_last" }))
  expect.truthy(y:to { memory_format = "contiguous_format" }:is_contiguous())
  expect.truthy(is_last(ml.empty { 2, 3, 4, 5, memory_format = "channels_last", dtype = "int64" }))
  expect.equal(y:reshape(-1):tolist(), x:reshape(-1):tolist())
  expect.equal(y:tolist(), x:tolist())
  expect.equal(tostring(y), tostring(x))
  local video = ml.zeros_like(ml.ones(2, 3, 4, 5, 6), { memory_format = "channels_last_3d" })
  expect.truthy(video:is_contiguous { memory_format = "channels_last_3d" })
end)

test("wrong names and ranks are refused", function()
  local x, matrix = ml.ones(2, 3, 4, 5), ml.ones(2, 3)
  expect.error(function() x:contiguous { memory_format = "nhwc" } end,
    "no memory format is named 'nhwc'; the formats are preserve_format, contiguous_format, channels_last")
  expect.error(function() x:contiguous { memory_format = 4 } end,
    "contiguous: argument 'memory_format' must be a memory format such as \"channels_last\", got number 4")
  expect.error(function() x:contiguous { memory_format = "preserve_format" } end, "preserve_format")
  expect.error(function() x:is_contiguous { memory_format = "preserve_format" } end, "preserve_format")
  expect.error(function() x:is_contiguous { memory_formats = "channels_last" } end, "memory_format")
  local wants = "memory format channels_last wants 4 dimensions, got shape %(2, 3%)"
  expect.error(function() matrix:contiguous { memory_format = "channels_last" } end, "contiguous: " .. wants)
  expect.error(function() matrix:clone { memory_format = "channels_last" } end, "clone: " .. wants)
  expect.error(function() matrix:to { memory_format = "channels_last" } end, "to: " .. wants)
  expect.error(function() ml.empty { 2, 3, memory_format = "channels_last" } end, "empty: " .. wants)
  expect.error(function() ml.zeros_like(matrix, { memory_format = "channels_last" }) end,
    "zeros_like: " .. wants)
  expect.error(function() ml.empty { 2, 3, memory_format = "preserve_format" } end, "empty_like")
  expect.error(function() ml.empty { 2, 3, memory_format = 7 } end, "must be a memory format")
  expect.error(function() x:contiguous { memory_format = "channels_last_3d" } end, "wants 5 dimensions")
  expect.falsy(is_last(matrix))
end)

test("gradients pass through copies of another format", function()
  for _, f in ipairs {
    function(x) return last(x) end,
    function(x) return x:clone { memory_format = "channels_last" } end,
    function(x) return x:to { memory_format = "channels_last" } end,
    function(x) return x:to { dtype = "float32", memory_format = "channels_last" } end,
    function(x) return x:permute(1, 3, 4, 2):contiguous():permute(1, 4, 2, 3) * 1 end,
  } do
    local x = ml.randn({ 2, 3, 2, 2 }, { dtype = "float64", requires_grad = true })
    local weight = ml.arange(1, 24):double():reshape(2, 3, 2, 2)
    local y = f(x)
    expect.truthy(is_last(y))
    local first = ml.grad((y * y * weight):sum(), x, { create_graph = true })
    expect.near(first:reshape(-1):tolist(), (2 * x * weight):reshape(-1):tolist(), 1e-6)
    local second = ml.grad(first:sum(), x)
    expect.near(second:reshape(-1):tolist(), (2 * weight):reshape(-1):tolist(), 1e-6)
  end
end)

test("the plain result of an in-place op on a permuted tensor is right", function()
  local x = ml.arange(1, 6):float():reshape(2, 3):t()
  expect.equal((x + 1):stride(), { 1, 3 })
  expect.equal((x:clone():mul_(2)):tolist(), { { 2.0, 8.0 }, { 4.0, 10.0 }, { 6.0, 12.0 } })
end)

-- Functions of images (and filters) whose results follow the format of the images.
local layers = {
  conv2d = function(x, w) return ml.conv2d(x, w, nil, { 1, 1 }, { 1, 1 }) end,
  ["conv2d strided"] = function(x, w) return ml.conv2d(x, w, nil, { 2, 1 }, { 0, 1 }) end,
  max_pool2d = function(x) return ml.max_pool2d(x, 2) end,
  ["max_pool2d overlapping"] = function(x) return ml.max_pool2d(x, 3, 1, 1) end,
  avg_pool2d = function(x) return ml.avg_pool2d(x, 2) end,
  adaptive_avg_pool2d = function(x) return ml.adaptive_avg_pool2d(x, { 3, 2 }) end,
  ["batch_norm"] = function(x) return ml.batch_norm(x, nil, nil, nil, nil, true) end,
  relu = function(x) return ml.relu(x) end,
  cat = function(x) return ml.cat({ x, x * 2 }, 2) end,
  pad = function(x) return ml.pad(x, { 1, 2, 0, 1 }) end,
  flip = function(x) return x:flip { 2, 4 } end,
}

local function check_layer(layer, device)
  for _, dtype in ipairs { "float32", "float64" } do
    ml.manual_seed(4)
    local tolerance = dtype == "float32" and 1e-4 or 1e-9
    local image = ml.randn({ 2, 4, 7, 6 }, { dtype = dtype, device = device })
    local filter = ml.randn({ 5, 4, 3, 3 }, { dtype = dtype, device = device })
    local function run(x, w)
      x, w = x:clone():requires_grad_(true), w:clone():requires_grad_(true)
      local y = layer(x, w)
      ml.manual_seed(9)
      local loss = (y * ml.randn(y.shape, { dtype = dtype, device = device })):sum() + (w * 0):sum()
      loss:backward()
      return y, x.grad, w.grad
    end
    local y, gx, gw = run(image, filter)
    expect.truthy(y:is_contiguous())
    for _, filters in ipairs { filter, last(filter) } do
      local y2, gx2, gw2 = run(last(image), filters)
      expect.truthy(is_last(y2), dtype)
      expect.falsy(y2:is_contiguous())
      expect.near(numbers(y2), numbers(y), tolerance)
      expect.near(numbers(gx2), numbers(gx), tolerance)
      expect.near(numbers(gw2), numbers(gw), tolerance)
    end
  end
end

for name, layer in pairs(layers) do
  for _, device in ipairs(devices) do
    test(("%s keeps channels last on %s, with the same numbers and gradients"):format(name, device), function()
      check_layer(layer, device)
    end)
  end
end

test("a module and its optimiser work channels last", function()
  local function train(format)
    ml.manual_seed(2)
    local net = nn.Sequential(nn.Conv2d(3, 4, 3, { bias = false }), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 3))
    local x = ml.randn(2, 3, 8, 8)
    if format then
      local weight = net[1].weight
      net:to { memory_format = format }
      expect.truthy(is_last(net[1].weight))
      expect.truthy(rawequal(weight, net[1].weight))
      x = x:to { memory_format = format }
    end
    local adam = ml.optim.Adam(net:parameters(), { lr = 0.01 })
    for _ = 1, 3 do
      adam:zero_grad()
      local y = net(x)
      if format then expect.truthy(is_last(y)) end
      (y * y):mean():backward()
      adam:step()
    end
    local out = {}
    for _, p in ipairs(net:parameters()) do out[#out + 1] = numbers(p:detach()) end
    return out
  end
  expect.near(train "channels_last", train(nil), 1e-3)
  expect.error(function() nn.Conv2d(3, 4, 3):to { memory_format = "nhwc" } end, "no memory format")
end)

test("files hold row-major elements whatever the layout", function()
  harness.with_temp_file(function(path)
    local x = ml.randn(2, 3, 4, 5)
    ml.save(path, { x = last(x) })
    local back = ml.load(path).x
    expect.truthy(back:is_contiguous())
    expect.equal(back:tolist(), x:tolist())
  end)
end)

harness.run()
