-- tests/lua/cuda/cuda_streams_test.lua: streams, events, the current device and stream, copies that nobody
-- waits for. What needs queues in which work runs late, or other seeds, is a process of its own on
-- emulated devices. Skips without a device.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect
local cuda = ml.cuda

local function on_device(name, body)
  test(name, function()
    if not cuda.is_available() then harness.skip "no CUDA device" end
    body()
  end)
end

local function on_two(name, body)
  test(name, function()
    if cuda.device_count() < 2 then harness.skip "no two CUDA devices" end
    body()
  end)
end

-- What a script prints, with streams as queues that are drawn with that seed.
local function queued(seed, script)
  local name = os.tmpname()
  local file = assert(io.open(name, "w"))
  file:write('local ml = require "moonlet"\nlocal cuda = ml.cuda\n', script)
  file:close()
  local pipe = assert(io.popen(("MOONLET_EMULATED_STREAMS=%d '%s' %s 2>&1"):format(seed, arg[-1], name)))
  local text = pipe:read "a"
  pipe:close()
  os.remove(name)
  return (text:gsub("%s+$", ""))
end

local function emulated(name, body)
  test(name, function()
    if not (cuda.is_available() and cuda.is_emulated()) then harness.skip "no emulated device" end
    body()
  end)
end

on_device("streams come from a pool, and are equal where they are the same", function()
  local first, all = cuda.Stream(), {}
  for i = 1, 32 do all[i] = cuda.Stream() end
  expect.truthy(all[32] == first and all[1] ~= first, "32 of them in turn")
  expect.truthy(cuda.Stream { priority = -1 } ~= first, "another priority, another stream")
  expect.equal(first.device, "cuda:0")
  expect.equal(first.priority, 0)
  local least, greatest = cuda.Stream.priority_range()
  expect.equal(cuda.Stream(0, greatest).priority, greatest)
  expect.equal(cuda.Stream(0, greatest - 10).priority, greatest)
  expect.equal(cuda.Stream(0, least + 10).priority, least)
  expect.truthy(first.cuda_stream ~= 0 and cuda.default_stream().cuda_stream == 0, "handles")
  expect.equal(tostring(cuda.default_stream()), "Stream (cuda:0, number 0)")
  expect.truthy(cuda.default_stream() == cuda.current_stream(), "the default stream is current")
  expect.truthy(first:query(), "nothing to do")
  first:synchronize()
end)

on_device("a guard makes a stream current, and goes back after errors too", function()
  local s, before = cuda.Stream(), cuda.current_stream()
  local inside = cuda.stream(s, function(a, b)
    expect.truthy(cuda.current_stream() == s, "inside")
    return a + b
  end, 1, 2)
  expect.equal(inside, 3)
  expect.error(function() cuda.stream(s, function() error "no luck" end) end, "no luck")
  expect.error(function() cuda.stream(s, 3) end, "stream: a function is expected, got number")
  do
    local _ <close> = cuda.stream(s)
    local inner <close> = cuda.stream(nil)
    expect.truthy(inner and cuda.current_stream() == s, "nil changes nothing")
    local default <close> = cuda.stream(cuda.default_stream())
    expect.truthy(default and cuda.current_stream() == cuda.default_stream(), "the innermost")
  end
  expect.truthy(cuda.current_stream() == before, "as before")
  cuda.set_stream(s)
  expect.truthy(cuda.current_stream() == s, "set")
  cuda.set_stream(nil)
  expect.truthy(cuda.current_stream() == s, "nil changes nothing")
  cuda.set_stream(before)
end)

on_device("each coroutine has streams of its own", function()
  local s, t = cuda.Stream(), cuda.Stream()
  local co = coroutine.wrap(function()
    expect.truthy(cuda.current_stream() == s, "begins with that of who resumes it")
    local _ <close> = cuda.stream(t)
    coroutine.yield()
    expect.truthy(cuda.current_stream() == t, "keeps its own")
  end)
  cuda.stream(s, function()
    co()
    expect.truthy(cuda.current_stream() == s, "not that of the coroutine")
  end)
  co()
  expect.truthy(cuda.current_stream() == cuda.default_stream(), "none was left")
end)

on_device("guards may end in another order", function()
  local s, t = cuda.Stream(), cuda.Stream()
  local first, second = cuda.stream(s), cuda.stream(t)
  do local _ <close> = first end
  expect.truthy(cuda.current_stream() == t, "the newer one holds")
  do local _ <close> = second end
  expect.truthy(cuda.current_stream() == cuda.default_stream(), "what was before both")
  local held = cuda.stream(s)
  local co = coroutine.wrap(function() local _ <close> = held end)
  expect.error(co, "stream: a guard ends in the coroutine that made it")
  do local _ <close> = held end
  expect.truthy(cuda.current_stream() == cuda.default_stream(), "it was still there")
  co = coroutine.wrap(function()
    local _ <close> = cuda.stream(s)
    local inner = { cuda.stream(t) }
    coroutine.yield(inner)
    inner = nil
    coroutine.yield(inner)
    return cuda.current_stream()
  end)
  co()
  co()
  collectgarbage()
  collectgarbage()
  expect.truthy(co(), "the outer one ends, though the inner one is gone")
end)

on_device("a guard that is dropped ends with a warning", function()
  local s = cuda.Stream()
  warn "@on"
  local function drop() return cuda.stream(s) and nil end
  drop()
  expect.truthy(cuda.current_stream() == s, "until it is collected")
  warn "@off"
  collectgarbage()
  collectgarbage()
  expect.truthy(cuda.current_stream() == cuda.default_stream(), "gone")
end)

on_device("arguments that are no streams or devices are errors", function()
  expect.error(function() cuda.stream(3) end, "stream: a stream of ml.cuda is expected, got 3")
  expect.error(function() cuda.Stream { priorty = 1 } end, "priorty")
  expect.error(function() cuda.Stream("cuda:99") end, "there is no device 99 among")
  expect.error(function() cuda.Stream("cpu") end, "a CUDA device is expected, got cpu")
  expect.error(function() cuda.set_stream("x") end, "set_stream")
  expect.error(function() cuda.Event():record(3) end, "record")
  expect.error(function() cuda.set_device(99) end, "there is no device 99")
  expect.error(function() cuda.device({}, print) end, "device: a device such as 0")
  expect.error(function() ml.ones(2):record_stream(cuda.Stream()) end, "the tensor is on cpu")
  expect.error(function() ml.ones(2, { device = "cuda" }):record_stream(1) end, "a stream of ml.cuda")
  local forged = setmetatable({ device_index = 0, stream_id = 900 }, getmetatable(cuda.Stream()))
  expect.error(function() cuda.stream(forged, print) end, "there is no such stream")
  expect.error(function() forged:query() end, "there is no such stream")
end)

on_device("events are moments in streams", function()
  local s, event = cuda.Stream(), cuda.Event()
  expect.truthy(event:query(), "never recorded, it has happened")
  event:synchronize()
  event:wait(s)
  expect.equal(event.device, nil)
  local x = cuda.stream(s, function() return ml.ones(100, { device = "cuda" }) * 3 end)
  s:record_event(event)
  expect.equal(event.device, "cuda:0")
  cuda.current_stream():wait_event(event)
  expect.equal(x:sum():item(), 300)
  event:synchronize()
  expect.truthy(event:query(), "it has happened")
  local from, to = cuda.Event { enable_timing = true }, cuda.Event { enable_timing = true }
  expect.error(function() from:elapsed_time(to) end, "both events must have been recorded")
  expect.error(function() from:elapsed_time(event) end, "enable_timing = true")
  from:record()
  to:record()
  to:synchronize()
  expect.truthy(from:elapsed_time(to) >= 0, "time goes on")
end)

on_two("the current device is what 'cuda' stands for", function()
  expect.equal(cuda.current_device(), 0)
  cuda.device(1, function()
    expect.equal(cuda.current_device(), 1)
    expect.equal(ml.zeros(2, { device = "cuda" }).device, "cuda:1")
    expect.equal(ml.zeros(2):cuda().device, "cuda:1")
    expect.equal(cuda.Stream().device, "cuda:1")
    expect.equal(cuda.current_stream().device, "cuda:1")
    cuda.device(-1, function() expect.equal(cuda.current_device(), 1) end)
  end)
  expect.equal(cuda.current_device(), 0)
  local x = ml.ones(2, { device = "cuda:1" })
  expect.equal(cuda.device_of(x, cuda.current_device), 1)
  expect.equal(cuda.device_of(ml.ones(1), cuda.current_device), 0)
  ml.set_default_device "cuda"
  cuda.set_device "cuda:1"
  expect.equal(ml.zeros(1).device, "cuda:1")
  cuda.set_device(0)
  expect.equal(ml.zeros(1).device, "cuda:0")
  ml.set_default_device "cpu"
  cuda.set_device(1)
  expect.equal(ml.zeros(1).device, "cpu")
  cuda.set_device(0)
  -- A stream of another device makes that one current for the while.
  local there = cuda.Stream(1)
  cuda.stream(there, function()
    expect.equal(cuda.current_device(), 1)
    expect.truthy(cuda.current_stream() == there and cuda.current_stream(0) == cuda.default_stream(0))
  end)
  expect.equal(cuda.current_device(), 0)
  expect.truthy(cuda.current_stream(1) == cuda.default_stream(1), "as before")
  local event = cuda.Event()
  event:record()
  expect.error(function() event:record(there) end, "record: the event belongs to cuda:0")
end)

on_device("what is known of a device", function()
  local p = cuda.get_device_properties()
  expect.equal(p.name, cuda.get_device_name(0))
  local major, minor = cuda.get_device_capability()
  expect.truthy(p.major == major and p.minor == minor and p.total_memory > 0 and p.warp_size == 32)
  expect.equal(type(p.is_integrated), "boolean")
  expect.equal(cuda.can_device_access_peer(0, 0), false)
  expect.error(function() cuda.get_device_name(77) end, "there is no device 77")
end)

on_device("backward runs in the streams of the forward pass, and is waited for", function()
  local s = cuda.Stream()
  local w = ml.tensor({ 1.0, 2, 3 }, { device = "cuda", requires_grad = true })
  s:wait_stream(cuda.current_stream())
  local y = cuda.stream(s, function() return (w * w):sum() end)
  local seen
  y:register_hook(function() seen = cuda.current_stream() end)
  cuda.current_stream():wait_stream(s)
  y:backward()
  expect.truthy(seen == s, "the hook sees the stream of the op")
  expect.equal(tostring(w.grad:tolist()[3]), "6.0")
end)

on_device("copies from pinned memory need not be waited for", function()
  local host = ml.arange(1000):float():pin_memory()
  local s = cuda.Stream()
  local x = cuda.stream(s, function() return host:to("cuda", { non_blocking = true }) end)
  s:synchronize()
  expect.equal(x:sum():item(), 1000 * 1001 / 2)
  local back = x:to("cpu", { non_blocking = true })
  expect.truthy(back:is_pinned(), "what a copy fills is pinned")
  cuda.synchronize()
  expect.truthy(back:eq(host):all():item(), "the same")
  expect.truthy(not x:to("cpu"):is_pinned(), "unless it is waited for")
  local half = host:to({ device = "cuda", dtype = ml.float16, non_blocking = true }):cpu()
  expect.equal(half.dtype, ml.float16)
  local images = ml.rand(2, 3, 4, 5):to { memory_format = "channels_last" }
  local there = images:cuda { non_blocking = true }
  local here = there:to("cpu", { non_blocking = true })
  cuda.synchronize()
  expect.truthy(here:eq(images):all():item(), "other orders of dimensions")
end)

on_device("prefetch has the batches of a loader on a device, in order", function()
  local set = ml.data.TensorDataset(ml.arange(20):reshape(10, 2))
  local loader = ml.data.DataLoader(set, { batch_size = 4, pin_memory = true })
  for _, depth in ipairs { 1, 2, 50 } do
    local seen = {}
    for x in cuda.prefetch(loader, { depth = depth }) do
      expect.equal(x.device, "cuda:0")
      seen[#seen + 1] = x:sum():item()
    end
    expect.equal(table.concat(seen, " "), "36 100 74")
  end
  local left = 3
  local function counts()
    left = left - 1
    if left >= 0 then return { a = ml.full({ 2 }, left), b = "text" }, left end
  end
  local sums = {}
  for batch, number in cuda.prefetch(counts) do
    expect.equal(batch.b, "text")
    sums[#sums + 1] = batch.a:sum():item() - number
  end
  expect.equal(table.concat(sums, " "), "2 1 0")
  expect.error(function() cuda.prefetch(3) end, "prefetch: a loader or a function is expected, got 3")
  expect.error(function() cuda.prefetch(loader, { depth = 0 }) end, "depth")
  expect.error(function() cuda.prefetch(loader, "cpu") end, "a CUDA device is expected")
end)

-- --- streams as queues --------------------------------------------------------------------------

local SEEDS = 12

-- How many seeds give that answer.
local function answers(script, right)
  local count = 0
  for seed = 1, SEEDS do
    if queued(seed, script) == right then count = count + 1 end
  end
  return count
end

local SIDE = [[
  local s = cuda.Stream()
  local x = ml.ones(64, { device = "cuda" })
  s:wait_stream(cuda.current_stream())
  local y = cuda.stream(s, function() return x * 2 + 1 end)
  %s
  local z = y + 1
  y:record_stream(cuda.current_stream())
  print(z:sum():item())
]]

emulated("a wait that is missing shows for some seed, and no wait that is there", function()
  expect.equal(answers(SIDE:format "cuda.current_stream():wait_stream(s)", "256.0"), SEEDS)
  expect.equal(answers(SIDE:format "s:record_event():wait()", "256.0"), SEEDS)
  expect.equal(answers(SIDE:format "s:synchronize()", "256.0"), SEEDS)
  expect.truthy(answers(SIDE:format "", "256.0") < SEEDS, "work runs late")
end)

emulated("memory is used again only after the streams that record_stream names", function()
  local script = [[
    local s = cuda.Stream()
    local x = ml.full({ 4096 }, 3.0, { device = "cuda" })
    s:wait_stream(cuda.current_stream())
    local y = cuda.stream(s, function() return x * 1 end)
    %s
    x:free()
    local other = ml.full({ 4096 }, 100.0, { device = "cuda" })
    s:synchronize()
    cuda.synchronize()
    print(y:sum():item())
  ]]
  expect.equal(answers(script:format "x:record_stream(s)", "12288.0"), SEEDS)
  expect.truthy(answers(script:format "", "12288.0") < SEEDS, "else it is overwritten")
end)

emulated("pinned memory is used again only after its copies", function()
  expect.equal(answers([[
    local s = cuda.Stream()
    local total = ml.zeros(1, { device = "cuda" })
    for i = 1, 20 do
      local host = ml.full({ 2048 }, i):float():pin_memory()
      local there = cuda.stream(s, function() return host:to("cuda", { non_blocking = true }) end)
      host:free()
      local again = ml.full({ 2048 }, 1000):float():pin_memory()
      cuda.current_stream():wait_stream(s)
      there:record_stream(cuda.current_stream())
      total:add_(there:mean())
      again:free()
    end
    print(total:item())
  ]], "210.0"), SEEDS)
end)

emulated("a copy to the host that nobody waits for comes late", function()
  local script = [[
    local x = ml.ones(64, { device = "cuda" }) * 5
    local host = x:to("cpu", { non_blocking = true })
    %s
    print(host:sum():item())
  ]]
  expect.equal(answers(script:format "cuda.current_stream():synchronize()", "320.0"), SEEDS)
  expect.truthy(answers(script:format "", "320.0") < SEEDS, "without waiting it is not there yet")
end)

emulated("copies between devices are in the order of both", function()
  expect.equal(answers([[
    local x = ml.ones(1000, { device = "cuda:0" })
    for _ = 1, 5 do x = (x * 2):to "cuda:1" + 1; x = x:to "cuda:0" end
    print(x:sum():item())
  ]], "63000.0"), SEEDS)
end)

emulated("a step of training in a side stream", function()
  local script = [[
    local nn = ml.nn
    ml.manual_seed(1)
    local net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)):to "cuda"
    local x = ml.rand(32, 8):cuda()
    local opt = ml.optim.SGD(net:parameters(), 0.1)
    local s = cuda.Stream()
    for _ = 1, 3 do
      opt:zero_grad()
      s:wait_stream(cuda.current_stream())
      local loss = cuda.stream(s, function() return (net(x) ^ 2):mean() end)
      cuda.current_stream():wait_stream(s)
      loss:backward()
      opt:step()
    end
    print(("%.6f"):format((net(x) ^ 2):mean():item()))
  ]]
  local right = queued(0, script)
  expect.truthy(tonumber(right), right)
  expect.equal(answers(script, right), SEEDS)
end)

emulated("batches that are copied ahead are there when they are used", function()
  expect.equal(answers([[
    local set = ml.data.TensorDataset(ml.arange(400):float():reshape(20, 20))
    local loader, total = ml.data.DataLoader(set, { batch_size = 3, pin_memory = true }), 0
    for x in cuda.prefetch(loader, { depth = 2 }) do total = total + x:sum() end
    print(total:item())
  ]], "80200.0"), SEEDS)
end)

emulated("host and device go on together: queries come true", function()
  expect.equal(answers([[
    local s = cuda.Stream()
    cuda.stream(s, function() local x = ml.ones(10, { device = "cuda" }); for _ = 1, 50 do x = x + 1 end end)
    local e, turns = s:record_event(), 0
    while not e:query() do turns = turns + 1 end
    print(e:query() and turns < 1000)
  ]], "true"), SEEDS)
end)

harness.run()
