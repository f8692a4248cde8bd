-- tests/lua/cuda/cuda_graph_test.lua: graphs of work on a CUDA device: replays do what the steps would
-- have done, with new random numbers; what cannot be recorded, and that all goes on after it.
-- Skips without a device.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local emulated = require "emulated"
local test, expect = harness.test, harness.expect
local nn, optim = ml.nn, ml.optim
local F = nn.functional

local CUDA = { device = "cuda" }

local function on_device(name, body)
  test(name, function()
    if not ml.cuda.is_available() then harness.skip "no CUDA device" end
    body()
    expect.equal(ml.cuda.is_current_stream_capturing(), false)
    expect.equal(ml.ones(3, CUDA):sum():item(), 3.0)
  end)
end

on_device("a replay does the work again, on what its memory holds then", function()
  local x, y = ml.ones(5, CUDA), ml.zeros(5, CUDA)
  local g, sum = ml.cuda.graph(function()
    expect.truthy(ml.cuda.is_current_stream_capturing())
    y:add_(x * 2)
    return y:sum()
  end)
  expect.equal(y:tolist(), { 0.0, 0.0, 0.0, 0.0, 0.0 })
  g:replay()
  expect.equal(sum:item(), 10.0)
  x:fill_(3)
  g:replay()
  g:replay()
  expect.equal(sum:item(), 70.0)
  expect.equal(y:tolist(), { 14.0, 14.0, 14.0, 14.0, 14.0 })
end)

on_device("capture_begin, capture_end, reset, pool", function()
  local x = ml.arange(1, 4):float():cuda()
  local g = ml.cuda.CUDAGraph()
  expect.error(function() g:replay() end, "replay: the graph holds no capture")
  expect.error(function() g:capture_end() end, "capture_end: no capture of this graph is under way")
  expect.error(function() g:pool() end, "pool: the graph holds no capture")
  g:capture_begin()
  expect.error(function() g:capture_begin() end, "capture_begin: this graph is being captured already")
  expect.error(function() ml.cuda.CUDAGraph():capture_begin() end,
    "capture_begin: another capture is under way")
  expect.error(function() g:replay() end, "replay: the capture has not ended")
  expect.error(function() g:reset() end, "reset: the capture has not ended")
  local y = x:mul(10)
  g:capture_end()
  expect.error(function() g:capture_begin() end, "this graph holds a capture; reset")
  g:replay()
  expect.equal(y:tolist(), { 10.0, 20.0, 30.0, 40.0 })
  local h = ml.cuda.CUDAGraph()
  h:capture_begin { pool = g:pool() }
  local z = y:add(1)
  h:capture_end()
  expect.equal(h:pool(), g:pool())
  x:add_(1)
  g:replay()
  h:replay()
  expect.equal(z:tolist(), { 21.0, 31.0, 41.0, 51.0 })
  g:reset()
  expect.error(function() g:replay() end, "replay: the graph holds no capture")
  expect.equal(y:tolist(), { 20.0, 30.0, 40.0, 50.0 })
  g:capture_begin()
  y:mul_(2)
  g:capture_end()
  g:replay()
  expect.equal(y:tolist(), { 40.0, 60.0, 80.0, 100.0 })
  expect.error(function() ml.cuda.CUDAGraph():capture_begin { pool = -1 } end, "pool")
  expect.error(function() ml.cuda.CUDAGraph():capture_begin { device = 99 } end, "no device cuda:99")
  expect.error(function() ml.cuda.graph(3) end, "graph")
  expect.equal(math.type(ml.cuda.graph_pool_handle()), "integer")
end)

-- Networks with all that a step of training has, on the same numbers each time.
local function perceptron()
  ml.manual_seed(11)
  return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3),
    nn.Linear(16, 4)):to "cuda"
end

local function transformer()
  ml.manual_seed(12)
  return nn.Sequential(nn.Embedding(10, 8), nn.TransformerEncoderLayer { d_model = 8, nhead = 2,
    dim_feedforward = 16, dropout = 0.1, batch_first = true }, nn.Flatten(), nn.Linear(40, 4)):to "cuda"
end

local function batch(net, i)
  ml.manual_seed(100 + i)
  local x = net == perceptron and ml.randn(7, 6) or ml.randint(1, 10, { 7, 5 })
  return x:cuda(), ml.randint(1, 4, { 7 }):cuda()
end

-- The weights after some steps, of which those after the second are replays where `captured`.
local function trained(make, optimizer, options, captured)
  local net = make()
  local stepper = optim[optimizer](net:parameters(), options)
  local x, y = batch(make, 0)
  local function step()
    stepper:zero_grad()
    local loss = F.cross_entropy(net(x), y)
    loss:backward()
    nn.utils.clip_grad_norm_(net:parameters(), 1)
    stepper:step()
    return loss:detach()
  end
  local seed_of_step = 7
  local losses, g, loss = {}, nil, nil
  for i = 1, 7 do
    local new_x, new_y = batch(make, i)
    x:copy_(new_x)
    y:copy_(new_y)
    ml.manual_seed(seed_of_step + i // 3)
    if i == 3 and captured then g, loss = ml.cuda.graph(step) end
    if g then g:replay() else loss = step() end
    losses[i] = loss:item()
  end
  local weights = {}
  for _, p in ipairs(net:parameters()) do weights[#weights + 1] = p:detach():reshape(-1) end
  return ml.cat(weights):cpu(), losses, ml.rand(2):tolist()
end

on_device("a captured step of training and as many eager ones give the same weights", function()
  for _, make in ipairs { perceptron, transformer } do
    for optimizer, options in pairs {
      Adam = { lr = 0.02, capturable = true }, AdamW = { lr = 0.02, amsgrad = true, capturable = true },
      SGD = { lr = 0.05, momentum = 0.9 }, NAdam = { lr = 0.01, capturable = true },
    } do
      local want, losses, numbers = trained(make, optimizer, options, false)
      local got, replayed, after = trained(make, optimizer, options, true)
      expect.equal(replayed, losses, optimizer)
      expect.equal((got - want):abs():max():item(), 0.0, optimizer)
      expect.equal(after, numbers, "the generator goes on as without a graph")
    end
  end
end)

on_device("random numbers are new at each replay, and those of the CPU", function()
  for name, draw in pairs {
    rand = function(o) return ml.rand(6, o) end,
    randn = function(o) return ml.randn(5, o) end,
    randint = function(o) return ml.zeros(4, o):random_(1, 50) end,
    dropout = function(o) return F.dropout(ml.ones(9, o), 0.5) end,
    poisson = function(o) return ml.poisson(ml.full({ 3 }, 4.0, o)) end,
    two = function(o) return ml.cat { ml.rand(3, o), ml.zeros(3, o):exponential_(2) } end,
  } do
    ml.manual_seed(42)
    local want = {}
    for i = 1, 4 do want[i] = draw { device = "cpu" } end
    ml.manual_seed(42)
    local g, x = ml.cuda.graph(function() return draw(CUDA) end)
    for i = 1, 3 do
      g:replay()
      expect.truthy((x:cpu() - want[i]):abs():max():item() < 1e-5, name .. i)
    end
    expect.truthy((draw { device = "cpu" } - want[4]):abs():max():item() < 1e-5, name)
    ml.manual_seed(42)
    g:replay()
    expect.truthy((x:cpu() - want[1]):abs():max():item() < 1e-5, name .. " seeded anew")
  end
end)

emulated.test("replays in several streams draw what they would in one", function()
  local script = [[
    local s, t = ml.cuda.Stream(), ml.cuda.Stream()
    local sum = ml.zeros(4000, cuda)
    ml.manual_seed(3)
    local g = ml.cuda.graph(function() sum:add_(ml.rand(4000, cuda)) end)
    ml.cuda.synchronize()
    for i = 1, 6 do ml.cuda.stream(i % 2 == 0 and s or t, function() g:replay() end) end
    ml.cuda.synchronize()
    ml.manual_seed(3)
    local want = ml.zeros(4000)
    for _ = 1, 6 do want:add_(ml.rand(4000)) end
    print((sum:cpu() - want):abs():max():item() < 1e-4)
  ]]
  for seed = 1, 6 do
    expect.equal(emulated.output("MOONLET_EMULATED_STREAMS=" .. seed, script), "true\n", seed)
  end
end)

on_device("what cannot be recorded is an error that says so, and all goes on", function()
  local x = ml.ones(4, CUDA)
  local own = ml.Generator { seed = 5 }
  local w = ml.ones(3, { device = "cuda", requires_grad = true })
  w:square():sum():backward()
  for name, case in pairs {
    item = { function() return x:sum():item() end, "item: .* cannot be captured in a CUDA graph" },
    host = { function() return x:cpu() end, "a copy to the host cannot be captured" },
    print = { function() return tostring(x) end, "cannot be captured" },
    from = { function() return ml.ones(3):cuda() end, "a copy from the host cannot be captured" },
    made = { function() return ml.tensor({ 1 }, CUDA) end, "a copy from the host cannot be captured" },
    wait = { ml.cuda.synchronize, "synchronize: what waits for the device cannot be captured" },
    nonzero = { function() return x:nonzero() end, "nonzero: a result whose size depends on values" },
    mask = { function() return x[x:gt(0)] end, "a result whose size depends on values" },
    generator = { function() return ml.zeros(3, CUDA):uniform_(0, 1, { generator = own }) end,
      "numbers of another generator than the default one cannot be captured" },
    seed = { function()
      ml.manual_seed(1)
      return ml.rand(3, CUDA)
    end, "seeded during the capture" },
    adam = { function() optim.Adam({ w }):step() end, "unless 'capturable' is true" },
    first = { function() optim.Adam({ w }, { capturable = true }):step() end,
      "the first step of a parameter cannot be captured" },
    momentum = { function() optim.SGD({ w }, { lr = 0.1, momentum = 0.9 }):step() end,
      "the first step of a parameter cannot be captured" },
    inner = { function() ml.cuda.graph(function() end) end, "another capture is under way" },
    own = { function() error "of the script" end, "of the script" },
    svd = { function() return ml.linalg.det(ml.ones(2, 2, CUDA)) end, "cannot be captured" },
  } do
    ml.manual_seed(9)
    local want = ml.rand(2):tolist()
    ml.manual_seed(9)
    expect.error(function() ml.cuda.graph(case[1]) end, case[2], name)
    expect.equal(ml.cuda.is_current_stream_capturing(), false, name)
    if name ~= "seed" then expect.equal(ml.rand(2):tolist(), want, name) end
    local g, y = ml.cuda.graph(function() return x * 2 end)
    g:replay()
    expect.equal(y:tolist(), { 2.0, 2.0, 2.0, 2.0 }, name)
  end
  -- An error that f deals with does not end the capture.
  local g, y = ml.cuda.graph(function()
    expect.error(function() return x:sum():item() end, "captured")
    return x + 1
  end)
  g:replay()
  expect.equal(y:tolist(), { 2.0, 2.0, 2.0, 2.0 })
end)

-- A capture in which a stream joins; `%s` is done in that.
local FORKED = [[
  local t = ml.cuda.Stream()
  local x = ml.ones(3000, cuda)
  ml.cuda.synchronize()
  local side
  local g, y = ml.cuda.graph(function()
    local s = ml.cuda.current_stream()
    local a = x * 2
    t:wait_stream(s)
    local b
    ml.cuda.stream(t, function() %s end)
    local c = a + 1
    s:wait_stream(t)
    return b + c
  end)
]]

emulated.test("streams that join a capture work in its memory, in the order of their waits", function()
  local script = FORKED:format [[
    local p = a * 3
    local q = p + 1
    p:free()
    b = q * 1
    q:free()
  ]] .. [[
    local others = {}
    -- What comes after in that stream gets other memory than the graph's.
    ml.cuda.stream(t, function() for i = 1, 8 do others[i] = ml.full({ 3000 }, -1.0, cuda) end end)
    for i = 1, 3 do
      g:replay()
      ml.cuda.synchronize()
      print(y:min():item(), y:max():item())
      for _, other in ipairs(others) do assert(other:max():item() == -1, "not the other's memory") end
      x:fill_(i + 1)
    end
    g:reset()
    ml.memory.empty_cache()
    print(ml.cuda.stream(t, function() return (x * 2):max():item() end))
  ]]
  for seed = 0, 4 do
    expect.equal(emulated.output("MOONLET_EMULATED_STREAMS=" .. seed, script),
      "10.0\t10.0\n18.0\t18.0\n26.0\t26.0\n8.0\n", seed)
  end
end)

emulated.test("a stream that joins draws new numbers at each replay and keeps what the host gave", function()
  local script = FORKED:format [[
    side = ml.rand(5, cuda)
    local loss = ml.nn.functional.ctc_loss(ml.ones(5, 2, 4, cuda):log_softmax(3), targets, { 5, 4 }, { 2, 1 },
      { reduction = "sum" })
    b = a * 0 + loss
  ]]
  local text = emulated.output("MOONLET_EMULATED_LEFT=1",
    "local targets = ml.tensor({ { 2, 3 }, { 4, 2 } }):cuda()\n" .. "ml.manual_seed(4)\n" .. script .. [[
    local want = ml.nn.functional.ctc_loss(ml.ones(5, 2, 4):log_softmax(3), targets:cpu(), { 5, 4 }, { 2, 1 },
      { reduction = "sum" }):item()
    ml.manual_seed(4)
    local numbers = { ml.rand(5), ml.rand(5) }
    ml.manual_seed(4)
    for i = 1, 2 do
      g:replay()
      local junk = ml.ones(4096):pin_memory():fill_(7)
      print(math.abs(y:max():item() - 3 - want) < 1e-4, (side:cpu() - numbers[i]):abs():max():item() < 1e-6)
    end
  ]])
  expect.equal(text:match "^true\ttrue\ntrue\ttrue\n" ~= nil, true, text)
end)

on_device("a block that another stream of the capture uses is freed in it", function()
  local t = ml.cuda.Stream()
  local x = ml.ones(1000, CUDA)
  local g, y = ml.cuda.graph(function()
    local s = ml.cuda.current_stream()
    local a = x * 2
    t:wait_stream(s)
    local b = ml.cuda.stream(t, function() return a + 1 end)
    a:record_stream(t)
    a:free()
    local c = x * 50
    s:wait_stream(t)
    b:record_stream(s)
    local d = b + c
    b:free()
    return d
  end)
  -- One that was made before, and is used in the capture's stream.
  local before = ml.cuda.stream(t, function() return ml.ones(1000, CUDA) end)
  ml.cuda.synchronize()
  -- It is not replayed, as it reads what is freed.
  local h = ml.cuda.graph(function()
    expect.equal((before + 1).shape[1], 1000)
    before:record_stream(ml.cuda.current_stream())
    before:free()
    return x + 1
  end)
  g:replay()
  expect.equal({ y:min():item(), y:max():item() }, { 53.0, 53.0 })
  g:reset()
  h:reset()
  y:free()
  ml.memory.empty_cache()
end)

on_device("questions about streams and events in a capture are errors that leave it whole", function()
  local t, outside = ml.cuda.Stream(), ml.cuda.Event { enable_timing = true }
  outside:record(t)
  local x = ml.ones(5, CUDA)
  local inside
  local g, y = ml.cuda.graph(function()
    local s = ml.cuda.current_stream()
    inside = ml.cuda.Event { enable_timing = true }
    inside:record(s)
    for _, case in ipairs {
      { function() s:query() end, "query: whether a stream has done its work cannot be captured" },
      { function() s:synchronize() end, "synchronize: .* cannot be captured" },
      { function() ml.cuda.stream(t, ml.cuda.synchronize) end, "synchronize: .* cannot be captured" },
      { function() inside:query() end, "query: the event was recorded in the capture of a CUDA graph" },
      { function() inside:synchronize() end, "synchronize: the event was recorded in the capture" },
      { function() outside:elapsed_time(inside) end, "the event was recorded in the capture of a CUDA graph" },
      { function() s:wait_event(outside) end, "wait: a stream that is captured .* recorded outside" },
      { function() ml.cuda.default_stream():wait_event(inside) end, "wait: the default stream cannot join" },
    } do
      expect.error(case[1], case[2])
    end
    outside:synchronize()
    return x + 1
  end)
  g:replay()
  expect.equal(y:tolist(), { 2.0, 2.0, 2.0, 2.0, 2.0 })
  expect.error(function() t:wait_event(inside) end, "wait: the event was recorded in a capture .* that has ended")
  inside:record(t)
  inside:synchronize()
  -- A stream that is not waited for ends the capture in an error, and works on.
  expect.error(function()
    ml.cuda.graph(function()
      t:wait_stream(ml.cuda.current_stream())
      ml.cuda.stream(t, function() return x * 3 end)
    end)
  end, "capture_end: .*unjoined work")
  expect.equal(ml.cuda.stream(t, function() return (x * 3):sum():item() end), 15.0)
  t:synchronize()
end)

on_device("what a replay finds wrong with values is told at the next wait", function()
  if (os.getenv "MOONLET_CUDA_SYNC" or "0") ~= "0" then harness.skip "every kernel is waited for" end
  local x, at = ml.arange(1, 4):float():cuda(), ml.tensor({ 2 }):cuda()
  local g, y = ml.cuda.graph(function() return x:index_select(1, at) end)
  g:replay()
  expect.equal(y:tolist(), { 2.0 })
  at:fill_(9)
  for _ = 1, 2 do
    g:replay()
    expect.error(function() y:tolist() end, "failed: index_select: position 9 is out of range for size 4")
  end
  at:fill_(3)
  g:replay()
  expect.equal(y:tolist(), { 3.0 })
end)

on_device("nothing takes the memory of a graph", function()
  local x = ml.ones(1000, CUDA)
  local g, y = ml.cuda.graph(function()
    local b = (x + 1) * 2
    return (b + x):sum()
  end)
  collectgarbage()
  ml.memory.empty_cache()
  local others = {}
  for i = 1, 50 do others[i] = ml.full({ 1000 }, -1.0, CUDA) end
  g:replay()
  expect.equal(y:item(), 5000.0)
  for i = 1, 50 do expect.equal(others[i]:sum():item(), -1000.0) end
  local before = ml.cuda.wait_count()
  for _ = 1, 5 do g:replay() end
  expect.equal(ml.cuda.wait_count(), before)
end)

on_device("a graph of a second device", function()
  if ml.cuda.device_count() < 2 then harness.skip "one device" end
  local x = ml.ones { 3, device = "cuda:1" }
  local g, y = ml.cuda.graph(function() return x * 3 end, { device = 1 })
  g:replay()
  expect.equal(y:tolist(), { 3.0, 3.0, 3.0 })
  expect.error(function()
    ml.cuda.CUDAGraph():capture_begin { pool = g:pool() }
  end, "the pool is on cuda:1, the capture on cuda:0")
end)

on_device("ctc_loss is recorded with its lengths", function()
  local x = ml.randn(5, 2, 4, CUDA)
  local targets = ml.tensor({ { 2, 3 }, { 4, 2 } }):cuda()
  local function loss() return F.ctc_loss(x:log_softmax(3), targets, { 5, 4 }, { 2, 1 }, { reduction = "sum" }) end
  local g, y = ml.cuda.graph(loss)
  for i = 1, 2 do
    x:add_(ml.full({ 1, 1, 4 }, 0.1 * i, CUDA) * x)
    g:replay()
    expect.equal(y:item(), loss():item())
  end
end)

harness.run()
