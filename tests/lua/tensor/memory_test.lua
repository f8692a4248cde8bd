-- tests/lua/tensor/memory_test.lua: what tensors hold, on bytes counted: loops of temporaries, training,
-- scopes, and running out of memory.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

local MIB = 1 << 20
local GIB = 1 << 30

-- Makes and drops tensors of `each` bytes, `total` bytes in all, holding one of them; returns the
-- most that was held and what was live.
local function churn(total, each, make)
  ml.memory.collect()
  ml.memory.empty_cache()
  local live = ml.memory.live_bytes() + 2 * each
  ml.memory.reset_peak()
  local kept
  for _ = 1, total // each do kept = make(each) end
  expect.truthy(kept)
  return ml.memory.peak_bytes(), live
end

local function empty_of(bytes) return ml.empty(bytes // 4) end

-- No loop holds more than twice its live bytes and 300 MiB.
local function check_bound(total, each, make)
  local peak, live = churn(total, each, make)
  expect.truthy(peak <= 2 * live + 300 * MIB,
    ("held %d MiB with %d MiB live"):format(peak // MIB, live // MIB))
end

test("50 GiB of large temporaries", function() check_bound(50 * GIB, 64 * MIB, empty_of) end)

test("10 GiB of temporaries of 1 MiB", function() check_bound(10 * GIB, MIB, empty_of) end)

test("50 GiB of temporaries with a million Lua tables alive", function()
  local heap = {}
  for i = 1, 1000000 do heap[i] = { i } end
  check_bound(50 * GIB, 64 * MIB, empty_of)
  check_bound(2 * GIB, 4 * MIB, empty_of)
  expect.equal(#heap, 1000000)
end)

test("small temporaries", function()
  local a = ml.ones(250)
  check_bound(GIB // 4, 1000, function() return a + 1 end)
end)

test("temporaries of a recorded computation", function()
  local w = ml.ones { 512, 512, requires_grad = true }
  check_bound(2 * GIB, 4 * 512 * 512, function() return w:view(-1):expand(512 * 512) * 2 end)
end)

test("temporaries in a coroutine and with the collector in incremental mode", function()
  coroutine.wrap(function() check_bound(20 * GIB, 16 * MIB, empty_of) end)()
  local before = collectgarbage "incremental"
  local ok, message = pcall(check_bound, 20 * GIB, 16 * MIB, empty_of)
  collectgarbage(before)
  if not ok then error(message, 0) end
end)

test("dead tensors are few while the Lua heap is small", function()
  local a = ml.ones(10)
  local function most_held()
    ml.memory.collect()
    local before, most = ml.memory.live_bytes(), 0
    for i = 1, 100000 do
      local _ = a + a
      if i % 100 == 0 then most = math.max(most, ml.memory.live_bytes() - before) end
    end
    return most // 64
  end
  local held = most_held()
  expect.truthy(held <= 8000, held .. " tensors")
end)

test("the pause that a script sets stays", function()
  local function pause()
    local now = collectgarbage("setpause", 100)
    collectgarbage("setpause", now)
    return now
  end
  expect.equal(collectgarbage "incremental", "generational")
  for _ = 1, 8 do empty_of(MIB) end
  local before = pause()
  expect.truthy(before >= 120 and before < 152, before)
  collectgarbage("setpause", 180)
  for _ = 1, 8 do empty_of(MIB) end
  expect.equal(pause(), 180)
  collectgarbage("setpause", 200)
  expect.equal(collectgarbage "generational", "incremental")
end)

test("the kind of collection that a script chooses stays", function()
  for _, kind in ipairs { "incremental", "generational" } do
    collectgarbage(kind)
    for _ = 1, 8 do empty_of(MIB) end
    expect.equal(collectgarbage(kind), kind)
  end
  local steps = 0
  repeat steps = steps + 1 until collectgarbage "step" or steps == 10
  expect.equal(steps, 1)
  local pause = collectgarbage("setpause", 172)
  expect.equal(collectgarbage("setpause", pause), 172)
  expect.equal(collectgarbage "generational", "incremental")
  expect.error(function() collectgarbage "all" end, "'collectgarbage' .invalid option 'all'")
end)

test("a tensor that lived long is freed at the end of a training step", function()
  local step = ml._gradients_dropped
  local w = ml.ones { 512, 512, requires_grad = true }
  ;(w * 2):sum():backward()
  ml.memory.collect()
  local before = ml.memory.live_bytes()
  local holder = { ml.ones(MIB // 4) }
  for _ = 1, 8 do empty_of(4 * MIB) end
  expect.equal(holder[1]:numel(), MIB // 4)
  holder[1] = nil
  step()
  expect.truthy(ml.memory.live_bytes() - before < MIB, ml.memory.live_bytes() - before)
end)

test("memory is kept for the next tensor again some time after a request that failed", function()
  if (os.getenv "MOONLET_SANITIZE" or "none") ~= "none" then harness.skip "sanitizers want no block used again" end
  expect.error(function() ml.empty(1e13) end, "out of memory")
  for _ = 1, 64 do empty_of(8 * MIB) end
  ml.memory.collect()
  expect.truthy(ml.memory.held_bytes() - ml.memory.live_bytes() >= 8 * MIB)
end)

test("training does not grow", function()
  local nn, optim = ml.nn, ml.optim
  ml.manual_seed(1)
  local net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
  local adam = optim.Adam(net:parameters(), { lr = 1e-3 })
  local x, y = ml.randn(8, 16), ml.randint(4, { 8 })
  local function steps(count)
    for _ = 1, count do
      adam:zero_grad()
      local loss = ml.cross_entropy(net(x), y)
      loss:backward()
      adam:step()
    end
    ml.memory.collect()
    return ml.memory.live_bytes(), collectgarbage "count"
  end
  local tensors, lua = steps(50)
  local tensors_after, lua_after = steps(1000)
  expect.equal(tensors_after, tensors, "tensor bytes after 1,000 steps")
  expect.truthy(lua_after < lua + 50, ("%.0f KiB of Lua heap became %.0f"):format(lua, lua_after))
end)

test("the peak of live bytes is exact, and measures nest", function()
  ml.memory.collect()
  collectgarbage "stop"
  local before = ml.memory.live_bytes()
  local inner
  local outer, results, more = ml.memory.peak_live_bytes(function(n)
    ml.empty(n):free()
    inner = ml.memory.peak_live_bytes(function() ml.empty(10):free() end)
    local a, b = ml.empty(n // 2), ml.empty(n // 4)
    a:free()
    b:free()
    return "one", "two"
  end, 1000)
  local ok, message = pcall(ml.memory.peak_live_bytes, function() error "inside" end)
  local nothing = ml.memory.peak_live_bytes(function() end)
  collectgarbage "restart"
  expect.equal(outer - before, 4000)
  expect.equal(inner - before, 40)
  expect.equal(nothing, before)
  expect.equal(results .. more, "onetwo")
  expect.truthy(not ok and message:find "inside", message)
  expect.error(function() ml.memory.peak_live_bytes(3) end, "peak_live_bytes: a function is expected")
end)

test("a backward does not begin with the garbage of the forward pass", function()
  local x = ml.randn(256, 512)
  local w, v = ml.randn { 512, 512, requires_grad = true }, ml.randn { 512, 512, requires_grad = true }
  -- With `drop`, each result is freed as soon as nothing needs it.
  local function forward(drop)
    local h = x
    for _, weight in ipairs { w, v } do
      local product = h:matmul(weight)
      if drop and h ~= x then h:free() end
      h = product:relu()
      if drop then product:free() end
    end
    local loss = h:sum()
    if drop then h:free() end
    return loss
  end
  local function step(drop)
    w.grad, v.grad = nil, nil
    forward(drop):backward()
  end
  step()
  ml.memory.collect()
  collectgarbage "stop"
  local least = ml.memory.peak_live_bytes(step, true)
  collectgarbage "restart"
  expect.equal(ml.memory.peak_live_bytes(step), least)
end)

test("attention keeps its arguments and a number for each query, not the weights", function()
  local q = ml.randn { 4, 256, 16, requires_grad = true }
  ml.memory.collect()
  local before = ml.memory.live_bytes()
  local y = ml.scaled_dot_product_attention(q, q, q, { is_causal = true })
  ml.memory.collect()
  expect.equal(ml.memory.live_bytes() - before, 4 * #y:view(-1) + 4 * 4 * 256)
end)

test("a scope frees what it made and nothing refers to", function()
  ml.memory.collect()
  local before = ml.memory.live_bytes()
  collectgarbage "stop"
  local inside
  local kept, number, nested = ml.scope(function(n)
    inside = ml.ones(n)
    local b = ml.empty(n)
    return ml.zeros(n), #b, { deep = { ml.ones(n) } }
  end, MIB)
  local after = ml.memory.live_bytes()
  collectgarbage "restart"
  expect.equal(after - before, 3 * 4 * MIB)
  expect.equal(number, MIB)
  expect.equal(kept[1]:item(), 0)
  expect.equal(nested.deep[1][1]:item(), 1)
  expect.equal(inside[1]:item(), 1)
end)

test("what a scope made stays as long as anything refers to it", function()
  local w = ml.ones(4, { requires_grad = true })
  local adam = ml.optim.Adam({ w }, { lr = 0.1 })
  for _ = 1, 2 do
    ml.scope(function()
      (w * w):sum():backward()
      adam:step()
    end)
  end
  adam:step()
  expect.equal(w.grad:numel(), 4)
  local deep = ml.scope(function()
    local t = { ml.ones(1) }
    for _ = 1, 300 do t = { t } end
    return t
  end)
  for _ = 1, 300 do deep = deep[1] end
  expect.equal(deep[1]:item(), 1)
  local cycle = ml.scope(function()
    local t = { x = ml.ones(1) }
    t.self, t[t] = t, t
    return t
  end)
  expect.equal(cycle.self[cycle].x:item(), 1)
  local closure, co, object = ml.scope(function()
    local a, b = ml.ones(1), ml.ones(2)
    return function() return a end, coroutine.wrap(function() coroutine.yield(b) end),
      setmetatable({}, { __index = { c = ml.ones(3) } })
  end)
  expect.equal(#closure() + #co() + #object.c, 6)
  local step = coroutine.wrap(function()
    return ml.scope(function() return coroutine.yield(1) + ml.ones(1) end)
  end)
  expect.equal(step(), 1)
  expect.equal(step(2):item(), 3)
  local net = ml.nn.BatchNorm1d(3)
  ml.scope(function() return net(ml.randn(5, 3)):sum() end)
  expect.equal(net.running_mean:isfinite():all():item(), true)
end)

test("scopes nest, and an error in one frees its tensors", function()
  ml.memory.collect()
  local before = ml.memory.live_bytes()
  collectgarbage "stop"
  expect.error(function()
    ml.scope(function()
      ml.empty(MIB)
      local inner = ml.scope(function() return ml.empty(MIB) end)
      expect.truthy(inner)
      error "inside"
    end)
  end, "inside")
  local after = ml.memory.live_bytes()
  collectgarbage "restart"
  expect.equal(after, before)
  expect.error(function() ml.scope(3) end, "scope")
end)

test("free and <close> release at once", function()
  ml.memory.collect()
  local before = ml.memory.live_bytes()
  collectgarbage "stop"
  local a = ml.empty(MIB)
  expect.equal(ml.memory.live_bytes() - before, 4 * MIB)
  a:free()
  a:free()
  expect.equal(ml.memory.live_bytes(), before)
  do
    local b <close> = ml.empty(MIB)
    expect.equal(#b, MIB)
  end
  local after = ml.memory.live_bytes()
  collectgarbage "restart"
  expect.equal(after, before)
  expect.error(function() return a.shape end, "freed")
end)

test("asking for more than any machine has is an error that can be caught", function()
  expect.error(function() return ml.empty(1 << 50) end, "memory")
  expect.error(function() return ml.zeros(1 << 40, 1 << 40) end, "too large")
  expect.error(function() return ml.empty(math.maxinteger) end)
  local a = ml.ones(3)
  expect.error(function() return a:expand(1 << 50, 3) + 1 end, "memory")
  expect.near((a + 1):tolist(), { 2, 2, 2 })
end)

-- Runs Lua code in another process with `kib` of address space; returns its output.
local function limited(kib, code)
  if (os.getenv "MOONLET_SANITIZE" or "none") ~= "none" then
    harness.skip "sanitizers reserve more address space than that"
  end
  local program = (os.getenv "MOONLET_BUILD" or "build") .. "/moonlet"
  local file = io.open(program)
  if not file then harness.skip("there is no " .. program) end
  file:close()
  local path = os.tmpname()
  local script = assert(io.open(path, "w"))
  script:write(code)
  script:close()
  local command = "ulimit -v %d; OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 '%s' %s 2>&1"
  local pipe = assert(io.popen(command:format(kib, program, path)))
  local text = pipe:read "a"
  pipe:close()
  os.remove(path)
  return text
end

test("under ulimit -v an allocation that fails is an error and the process goes on", function()
  local text = limited(1200000, [[
    local ml = require "moonlet"
    local held = {}
    local ok, message = pcall(function()
      for i = 1, 1000 do held[i] = ml.zeros(4 << 20) end
    end)
    print(ok, message)
    print(#held > 5)
    held = nil
    print(pcall(ml.empty, 1 << 40))
    for _ = 1, 500 do local t = ml.zeros(8 << 20) end
    print((ml.ones(3) + 1):sum():item())
  ]])
  local lines = {}
  for line in text:gmatch "[^\n]+" do lines[#lines + 1] = line end
  expect.truthy(lines[1] and lines[1]:find "^false" and lines[1]:find "memory", text)
  expect.equal(lines[2], "true", text)
  expect.truthy(lines[3] and lines[3]:find "^false", text)
  expect.equal(lines[4], "6.0", text)
end)

harness.run()
