-- tests/lua/cuda/cuda_waits_test.lua: what makes the host wait for a CUDA device, and errors that kernels
-- find: told at the next wait, once, with the op that made them. Skips without a device.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect
local nn, optim = ml.nn, ml.optim
local F = nn.functional

local CUDA = { device = "cuda" }
local SYNC = (os.getenv "MOONLET_CUDA_SYNC" or "0") ~= "0"

local function on_device(name, body)
  test(name, function()
    if not ml.cuda.is_available() then harness.skip "no CUDA device" end
    if SYNC then harness.skip "every kernel is waited for" end
    ml.cuda.synchronize()
    body()
  end)
end

-- How often the host waits while f runs.
local function waits(f)
  local before = ml.cuda.wait_count()
  f()
  return ml.cuda.wait_count() - before
end

local function positions(...) return ml.tensor({ ... }):cuda() end
local function matrix() return ml.arange(12):float():view(4, 3):cuda() end

local FAULTY = {
  { function() return matrix():index_select(1, positions(2, 9)) end,
    "index_select: position 9 is out of range for size 4" },
  { function() return matrix():index_select(2, positions(0)) end,
    "index_select: position 0: positions start at 1" },
  { function() return matrix():gather(2, positions(4):view(1, 1)) end,
    "gather: position 4 is out of range for size 3" },
  { function() return matrix()[{ positions(1, -5), {} }] end,
    "index: position -5 is out of range for size 4" },
  { function()
    local x = matrix()
    x[{ {}, positions(1, 7) }] = 3
    return x
  end, "index_put: position 7 is out of range for size 3" },
  { function() return matrix():scatter(1, positions(5):view(1, 1), matrix()) end,
    "scatter: position 5 is out of range for size 4" },
  { function() return matrix():index_add(1, positions(-1), matrix()[{ { 1, 1 } }]) end,
    "index_add: position -1 is out of range for size 4" },
  { function() return ml.embedding(matrix(), positions(1, 50)) end,
    "embedding: position 50 is out of range for size 4" },
  { function() return matrix():take(positions(13)) end, "position 13 is out of range for size 12" },
  { function() return ml.one_hot(positions(3), 2) end, "position 3 is out of range for size 2" },
  { function() return ml.cross_entropy(matrix(), positions(1, 2, 4, 3)) end,
    "cross_entropy: target 4 is no class of 1 to 3" },
  { function()
    return ml.ctc_loss(matrix():view(4, 1, 3):log_softmax(3), positions(2, 5):view(1, 2), { 4 }, { 2 })
  end, "ctc_loss: target 5 is no class of 1 to 3" },
  { function() return positions(3, 4) // positions(1, 0) end, "integer division by zero" },
  { function() return positions(3, 4) % positions(1, 0) end, "integer division by zero" },
  { function() return ml.searchsorted(positions(1, 3, 5), positions(4), { sorter = positions(1, 2, 8) }) end,
    "searchsorted: position 8 is out of range for size 3" },
  { function() return ml.bernoulli(matrix()) end, "bernoulli: the probabilities must be between 0 and 1" },
  { function() return ml.multinomial(-matrix(), 1) end,
    "multinomial: the weights must be finite and not negative" },
  { function() return ml.poisson(-matrix()) end, "poisson: the rates must not be negative" },
  { function() return ml.binary_cross_entropy(matrix(), matrix() / 20) end,
    "binary_cross_entropy: .* has elements outside 0 to 1" },
}

on_device("values out of range are found without a wait and told at the next one, once", function()
  for i, case in ipairs(FAULTY) do
    local result
    expect.equal(waits(function() result = case[1]() end), 0, "waits of case " .. i)
    expect.error(function() ml.cuda.synchronize() end, "^[^\n]*synchronize: an earlier op on cuda:0 failed: .*"
      .. case[2]:gsub("%-", "%%-") .. "; with MOONLET_CUDA_SYNC=1 in the environment")
    ml.cuda.synchronize()
    expect.equal(result.device, "cuda:0")
  end
end)

on_device("every kind of wait tells it", function()
  local x = ml.ones(4, CUDA)
  local function fault() return x:index_select(1, positions(9)) end
  for name, wait in pairs {
    item = function() return x:sum():item() end,
    tolist = function() return x:tolist() end,
    cpu = function() return x:cpu() end,
    print = function() return tostring(x) end,
    copy_ = function() ml.zeros(4):copy_(x) end,
    nonzero = function() return x:nonzero() end,
  } do
    fault()
    expect.error(wait, "an earlier op on cuda:0 failed: index_select: position 9", name)
    wait()
  end
end)

on_device("what is read at no position is 0, what is written there left out", function()
  local x = matrix()
  local read = x:index_select(1, positions(2, 9))
  local sums = x:index_add(1, positions(9, 1), ml.ones(2, 3, CUDA))
  local none = ml.zeros(0, 3, CUDA):index_select(1, positions(1))
  expect.error(function() ml.cuda.synchronize() end, "index_select: position 9")
  expect.equal(read:tolist(), { { 4.0, 5.0, 6.0 }, { 0.0, 0.0, 0.0 } })
  expect.equal(sums[1]:tolist(), { 2.0, 3.0, 4.0 })
  expect.equal(sums[{ { 2, 4 } }]:tolist(), x[{ { 2, 4 } }]:tolist())
  expect.equal(none:tolist(), { { 0.0, 0.0, 0.0 } })
end)

on_device("of several faults the first is told, and later ones after it anew", function()
  local x = ml.ones(4, CUDA)
  x:index_select(1, positions(7))
  x:gather(1, positions(8))
  expect.error(function() ml.cuda.synchronize() end, "index_select: position 7")
  ml.cuda.synchronize()
  x:gather(1, positions(8))
  expect.error(function() ml.cuda.synchronize() end, "gather: position 8")
end)

on_device("each device has faults of its own", function()
  if ml.cuda.device_count() < 2 then harness.skip "one device" end
  local x = ml.ones { 4, device = "cuda:1" }
  x:index_select(1, ml.tensor({ 5 }):to "cuda:1")
  ml.cuda.synchronize(0)
  expect.error(function() ml.cuda.synchronize(1) end, "on cuda:1 failed: index_select: position 5")
end)

-- What a script prints with an environment.
local function output(environment, script)
  local name = os.tmpname()
  local file = assert(io.open(name, "w"))
  file:write('local ml = require "moonlet"\n', script)
  file:close()
  local pipe = assert(io.popen(("%s '%s' %s 2>&1"):format(environment, arg[-1], name)))
  local text = pipe:read "a"
  pipe:close()
  os.remove(name)
  return text
end

on_device("with MOONLET_CUDA_SYNC=1 the op itself fails, as on the CPU", function()
  local text = output("MOONLET_CUDA_SYNC=1", [[
    local x, at = ml.ones(4, 3), ml.tensor { 9 }
    local function message(f) return (select(2, pcall(f)):gsub("^[^:]*:%d+: ", "")) end
    for _, f in ipairs {
      function(d) return x:to(d):index_select(1, at:to(d)) end,
      function(d) return ml.embedding(x:to(d), at:to(d)) end,
      function(d) return ml.cross_entropy(x:to(d), ml.tensor({ 1, 9, 2, 3 }):to(d)) end,
      function(d) return at:to(d) // (at:to(d) - 9) end,
    } do
      print(message(function() return f "cpu" end) == message(function() return f "cuda" end))
    end
    print(message(function() return x:cuda():index_select(1, at:cuda()) end))
    ml.cuda.synchronize()
  ]])
  expect.equal(text, "true\ntrue\ntrue\ntrue\nindex_select: position 9 is out of range for size 4\n")
end)

on_device("a script that never waits ends without an error", function()
  expect.equal(output("MOONLET_CUDA_SYNC=0", [[
    ml.ones(4):cuda():index_select(1, ml.tensor({ 9 }):cuda())
    print "done"
  ]]), "done\n")
end)

-- A step of training on tokens: embedding, hidden layers with dropout and a norm, cross-entropy.
local function trainer(optimizer, options)
  ml.manual_seed(3)
  local net = nn.Sequential(nn.Embedding(20, 8), nn.Flatten(), nn.Linear(32, 16), nn.BatchNorm1d(16),
    nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 5)):to "cuda"
  local stepper = optim[optimizer](net:parameters(), options or {})
  local tokens, classes = ml.randint(1, 20, { 6, 4 }):cuda(), ml.randint(1, 5, { 6 }):cuda()
  return function()
    stepper:zero_grad()
    local loss = F.cross_entropy(net(tokens), classes)
    loss:backward()
    nn.utils.clip_grad_norm_(net:parameters(), 1)
    stepper:step()
    return loss
  end
end

on_device("a step of training waits for nothing", function()
  for optimizer, options in pairs {
    Adam = { lr = 0.01 }, AdamW = { lr = 0.01, amsgrad = true }, SGD = { lr = 0.1, momentum = 0.9 },
    RMSprop = { lr = 0.01 }, Adagrad = { lr = 0.01 }, NAdam = { lr = 0.01 }, RAdam = { lr = 0.01 },
    Adamax = { lr = 0.01 }, Adadelta = {}, Rprop = {}, ASGD = {},
  } do
    local step = trainer(optimizer, options)
    local losses = {}
    expect.equal(waits(function()
      for i = 1, 3 do losses[i] = step() end
    end), 0, optimizer)
    expect.truthy(losses[3]:item() == losses[3]:item())
  end
  local step = trainer("Adam", { lr = 0.01, capturable = true })
  expect.equal(waits(function() step() end), 0, "capturable")
  step = trainer("SGD", { lr = ml.tensor(0.01, CUDA), momentum = 0.9 })
  expect.equal(waits(function() step() end), 0, "a rate on the device")
end)

on_device("layers and losses, forward and back, wait for nothing", function()
  local x = ml.randn(4, 6, CUDA)
  local bits, classes = ml.rand(4, 6, CUDA):round(), ml.randint(1, 6, { 4 }):cuda()
  for name, f in pairs {
    bce = function(v) return F.binary_cross_entropy(v:sigmoid(), bits) end,
    nll = function(v) return F.nll_loss(v:log_softmax(2), classes) end,
    gaussian = function(v) return F.gaussian_nll_loss(v, bits, ml.ones_like(v)) end,
    hot = function(v) return (v * F.one_hot(classes, 6)):sum() end,
    prod = function(v) return v:prod() end,
    index = function(v) return v[{ ml.arange(1, 4):cuda(), classes }]:sum() end,
    where = function(v) return ml.where(v:gt(0), v, 0):sum() end,
    masked = function(v) return v:masked_fill(v:gt(0), 2):sum() end,
    dropout = function(v) return F.dropout(v, 0.5):sum() end,
    noise = function(v) return (v + ml.randn_like(v) + ml.bernoulli(bits)):sum() end,
    attention = function(v)
      local q = v:view(1, 1, 4, 6)
      return F.scaled_dot_product_attention(q, q, q, { is_causal = true }):sum()
    end,
    ctc = function(v)
      return F.ctc_loss(v:view(4, 1, 6):log_softmax(3), ml.tensor({ { 2, 3 } }):cuda(), { 4 }, { 2 })
    end,
    norm = function(v) return F.layer_norm(v, { 6 }):norm() end,
    pool = function(v) return F.max_pool2d(v:view(1, 1, 4, 6), 2):sum() end,
  } do
    expect.equal(waits(function()
      f(x:detach():requires_grad_()):backward()
    end), 0, name)
  end
  ml.cuda.synchronize()
end)

on_device("what needs a number of the device waits, once each", function()
  local x = ml.ones(3, CUDA)
  for name, f in pairs {
    item = function() return x:sum():item() end,
    cpu = function() return x:cpu() end,
    nonzero = function() return x:nonzero() end,
    synchronize = function() ml.cuda.synchronize() end,
  } do
    expect.equal(waits(f), 1, name)
  end
  expect.equal(waits(function() return x * 2 end), 0)
end)

on_device("GradScaler waits once for a step that is counted on the host, else never", function()
  for _, case in ipairs { { "Adam", {}, 1 }, { "Adam", { capturable = true }, 0 }, { "SGD", {}, 0 },
      { "SGD", { foreach = false }, 1 } } do
    local w = ml.ones(3, { device = "cuda", requires_grad = true })
    local stepper, scaler = optim[case[1]]({ w }, case[2]), ml.amp.GradScaler { device = "cuda" }
    local function step()
      stepper:zero_grad()
      scaler:scale((w * w):sum()):backward()
      scaler:step(stepper)
      scaler:update()
    end
    step()
    expect.equal(waits(step), case[3], case[1])
    expect.equal(waits(function() return scaler:get_scale() end), 1)
  end
end)

harness.run()
