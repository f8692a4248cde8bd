-- tests/lua/program/parts_test.lua: functions that read elements, compiled and plain side by side:
-- what lies between the reads runs from plans.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local case = require "program_case"
local test, expect = harness.test, harness.expect
local nn = ml.nn
ml._compiled.leave_out(0)

-- Fails unless some part of it was planned and ran often.
local function expect_parts(fast, count)
  local text = fast:explain()
  for steps, runs in text:gmatch "part %d+: %d+ ops? in (%d+) steps?, %d+ bytes, run (%d+) time" do
    if tonumber(steps) > 0 and tonumber(runs) >= count then return text end
  end
  error("no part was planned and ran " .. count .. " times\n" .. text, 2)
end

local function beside(f, arguments, count)
  local fast = ml.compile(f)
  case.compare(fast, f, arguments, count or 8)
  return fast
end

local function numbers(i) return ml.arange(1, 6):float() * (i / 7) - 0.6 end

test("every kind of read ends a part", function()
  local reads = {
    item = function(x) return (x * 2 + 1):sum():item() end,
    tolist = function(x) return (x * 2):relu():tolist() end,
    text = function(x) return tostring((x * 2):relu()) end,
    branch = function(x) if (x * 2 - 1):sum():item() > 2 then return x * 3 end return x - 1 end,
    index = function(x) local y = x * 2 + 1 return y[2]:item() + y[3]:item() end,
    equal = function(x) return (x * 2):equal(x + x) end,
    nonzero = function(x) return (x * 2):gt(1):nonzero() end,
    condition = function(x) while x:sum():item() > 1 do x = x * 0.5 + 0.01 end return x end,
  }
  for name, f in pairs(reads) do
    local fast = beside(f, numbers, 12)
    expect.truthy(fast:explain():find "by parts: run", name)
  end
end)

test("explain says where parts end, and how often they ran", function()
  local fast = ml.compile(function(x)
    local y = (x * 2 + 1):relu()
    local total = y:sum():item()
    return (y * total):tanh()
  end)
  for i = 1, 6 do fast(numbers(i)) end
  local text = expect_parts(fast, 5)
  expect.truthy(text:find "runs by parts: item reads values %(.*parts_test.lua:%d+%)")
  expect.truthy(text:find "part 1: 4 ops in %d+ steps?, %d+ bytes, run 5 times, ends where item reads values")
  expect.truthy(text:find "part 2: 2 ops.*ends where the function returns")
end)

test("what is asked for later is what it was", function()
  local kept = {}
  local function f(x)
    local a = x * 2
    local b = a + 1
    kept[#kept + 1] = a
    kept[#kept + 1] = b
    return b:sum():item()
  end
  local fast = ml.compile(f)
  local x = numbers(3)
  for i = 1, 6 do
    fast(x)
    x:add_(1)  -- `kept` is of before
    local want = numbers(3) + (i - 1)
    expect.truthy((kept[2 * i - 1] - want * 2):abs():max():item() < 1e-5)
    expect.truthy((kept[2 * i] - want * 2 - 1):abs():max():item() < 1e-5)
  end
end)

test("changes in place, of inputs, of weights and through views", function()
  local function pair()
    local weight = ml.ones(6)
    local function f(x)
      local view = x[{ { 1, 3 } }]
      view:mul_(2)
      weight:add_(x)
      local first = weight:sum():item()
      x:add_(first)
      weight[{ { 2, 4 } }]:zero_()
      return x:sum():item(), weight:clone(), view
    end
    return f, weight
  end
  local plain, a = pair()
  local inner, b = pair()
  local fast = ml.compile(inner)
  for i = 1, 8 do
    local x, y = numbers(i), numbers(i)
    expect.truthy(case.same(table.pack(plain(x)), table.pack(fast(y))))
    expect.truthy(x:equal(y) and a:equal(b), "call " .. i)
  end
  expect_parts(fast, 6)
end)

test("arguments that share memory, or no longer do", function()
  local function f(x, y)
    x:add_(1)
    local s = (x * y):sum():item()
    y:mul_(0.5)
    return s, x + y
  end
  local fast = ml.compile(f)
  for i = 1, 16 do
    local function arguments()
      local base = numbers(i)
      if i % 4 == 0 then return base, base end
      if i % 4 == 1 then return base[{ { 1, 4 } }], base[{ { 3, 6 } }] end
      if i % 4 == 2 then return base[{ { 1 + i % 2, 4 + i % 2 } }], numbers(i)[{ { 1, 4 } }] end
      return base, numbers(i + 1)
    end
    local a, b = arguments()
    local c, d = arguments()
    expect.truthy(case.same(table.pack(f(a, b)), table.pack(fast(c, d))), "call " .. i)
    expect.truthy(a:equal(c) and b:equal(d), "call " .. i)
  end
end)

local function trainer(extra)
  ml.manual_seed(5)
  local net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 3))
  local opt = ml.optim.Adam(net:parameters(), { lr = 0.02 })
  local function step(x, y)
    opt:zero_grad()
    local loss = ml.cross_entropy(net(x), y)
    loss:backward()
    if extra then extra(net, loss) end
    opt:step()
    return loss:item()
  end
  return net, step
end

local function same_training(extra)
  local net, step = trainer(extra)
  local other, inner = trainer(extra)
  local fast = ml.compile(inner)
  for i = 1, 12 do
    ml.manual_seed(i)
    local x, y = ml.randn(8, 4), ml.randint(3, { 8 })
    ml.manual_seed(i)
    local a = step(x, y)
    ml.manual_seed(i)
    expect.equal(fast(x, y), a, "the loss of step " .. i)
  end
  for i, p in ipairs(net:parameters()) do
    expect.truthy(p:detach():equal(other:parameters()[i]:detach()), "weight " .. i)
    expect.truthy(p.grad:equal(other:parameters()[i].grad), "gradient " .. i)
  end
  return fast
end

test("a step of training that returns its loss", function() expect_parts(same_training(), 8) end)

test("a step that clips, looks at its loss, and at a gradient", function()
  expect_parts(same_training(function(net, loss)
    nn.utils.clip_grad_norm_(net:parameters(), 0.5)
    if loss:item() > 1 then net:parameters()[1].grad:mul_(0.5) end
    expect.truthy(net:parameters()[2].grad:sum():item() < 1e9)
  end), 8)
end)

test("gradients through a function that reads, outside of it", function()
  local w = ml.ones(6):requires_grad_()
  local function f(x)
    local y = (x * w):tanh()
    if y:sum():item() > 0 then y = y * w end
    return y, y:detach()
  end
  local fast = ml.compile(f)
  for i = 1, 10 do
    local got = {}
    for k, g in ipairs { f, fast } do
      w.grad = nil
      local y = g(numbers(i))
      local z = y:sum()
      z:backward { retain_graph = i % 2 == 0 }
      if i % 2 == 0 then z:backward() end
      got[k] = w.grad:clone()
    end
    expect.truthy(got[1]:equal(got[2]), "call " .. i)
  end
  expect_parts(fast, 6)
end)

test("second derivatives, hooks and saved tensors that change", function()
  local function f(x)
    local seen = {}
    local v = x:clone():requires_grad_()
    local y = (v * v * v):sum()
    local g = ml.autograd.grad(y, { v }, { create_graph = true })[1]
    g:register_hook(function(d) seen[1] = d:sum():item() return d * 2 end)
    local h = ml.autograd.grad(g:sum(), { v })[1]
    local t = v * 2
    local u = t:exp()
    u:add_(1)
    local ok, message = pcall(function() u:sum():backward() end)
    return g:detach(), h, seen[1], ok, message:match "changed" or message:match "modified" or "", y:item()
  end
  beside(f, numbers, 8)
end)

test("random numbers are drawn in their order", function()
  local function f(x)
    local a = x + ml.rand(6)
    if a:sum():item() > 1e9 then return end
    a = a + ml.rand(6)
    local state = ml.get_rng_state().offset
    local b = nn.functional.dropout(a, 0.5, true)
    local s = b:sum():item()
    local c = ml.randn(6) * s
    ml.manual_seed(11)
    return c, ml.rand(3), state
  end
  local fast = ml.compile(f)
  for i = 1, 8 do
    ml.manual_seed(i)
    local want, state = table.pack(f(numbers(i))), ml.get_rng_state()
    ml.manual_seed(i)
    local got = table.pack(fast(numbers(i)))
    expect.truthy(case.same(want, got), "call " .. i)
    expect.truthy(case.same(state, ml.get_rng_state()))
  end
  expect_parts(fast, 5)
end)

test("errors come where they arise, and can be caught there", function()
  local log = {}
  local function f(x, at)
    local y = x * 2 + 1
    local ok, message = pcall(function() return y:index_select(1, ml.tensor { at }) end)
    log[#log + 1] = ok
    local z = ok and y + 1 or y - 1
    return z:sum():item(), ok, message
  end
  local fast = ml.compile(f)
  for i = 1, 12 do
    local at = i % 3 == 0 and 9 or 2
    local a, ok, got = fast(numbers(i), at)
    local b, other, want = f(numbers(i), at)
    expect.equal(a, b)
    expect.equal(ok, other)
    expect.equal(tostring(got), tostring(want))
  end
  local broken = ml.compile(function(x)
    local y = x * 2
    if y:sum():item() > 0 then error("too much", 0) end
    return y
  end)
  for i = 1, 8 do
    local ok, message = pcall(broken, numbers(7 * i))
    expect.equal(ok, false)
    expect.equal(message, "too much")
  end
  expect.truthy(broken(numbers(-3)):equal(numbers(-3) * 2))
end)

test("a function is run once for a call", function()
  local calls, read = 0, {}
  local fast = ml.compile(function(x)
    calls = calls + 1
    read[#read + 1] = (x + calls):sum():item()
    return x * calls
  end)
  for i = 1, 10 do
    expect.truthy(fast(numbers(1)):equal(numbers(1) * i))
    expect.equal(read[i], (numbers(1) + i):sum():item())
  end
  expect.equal(calls, 10)
end)

test("numbers that are others in each call", function()
  local function f(x, a, b)
    local y = (x * a + b):relu()
    return y:sum():item(), y
  end
  local fast = ml.compile(f)
  for i = 1, 30 do
    expect.truthy(case.same(table.pack(fast(numbers(i), i / 8, 0.5 - i / 16)),
      table.pack(f(numbers(i), i / 8, 0.5 - i / 16))))
  end
  expect_parts(fast, 20)
end)

test("sizes, dtypes and modes that change", function()
  local function f(x) local y = x * 2 + 1 return y:sum():item(), y:relu() end
  local fast = ml.compile(f)
  for i = 1, 24 do
    local x = ml.arange(1, 4 + i % 3):to(i % 4 == 0 and ml.float64 or ml.float32)
    local mode = i % 5 == 0 and ml.inference_mode or i % 5 == 1 and ml.no_grad or function(g) return g() end
    local got = table.pack(mode(function() return fast(x) end))
    expect.truthy(case.same(got, table.pack(f(x))), "call " .. i)
  end
  expect_parts(fast, 2)
end)

test("compiled functions inside one another, and coroutines", function()
  local inner = ml.compile(function(x) return (x * 3):relu() end)
  local reader = ml.compile(function(x) return (x + 1):sum():item() end)
  local function f(x)
    local y = inner(x) + reader(x)
    local total = y:sum():item()
    local step = coroutine.wrap(function(v)
      v = coroutine.yield(v * 2)
      return v + total
    end)
    return step(y) + step(x)
  end
  local fast = beside(f, numbers, 10)
  expect.truthy(fast:explain():find "by parts")
  -- A function that is left half way.
  local left = ml.compile(function(x)
    local y = x * 2
    x:add_(y:sum():item())
    coroutine.yield(x * 3)
    return y
  end)
  for i = 1, 6 do
    local x = numbers(i)
    local co = coroutine.create(function(v) return left(v) end)
    local _, got = coroutine.resume(co, x)
    expect.truthy((x * 2 + 1):sum():item() == (x * 2 + 1):sum():item())
    expect.truthy(got:equal(x * 3))
    co = nil -- luacheck: ignore
    collectgarbage()
  end
end)

test("fullgraph makes an error of a read", function()
  local fast = ml.compile(function(x) return x:sum():item() end, { fullgraph = true })
  expect.error(function() fast(ml.ones(2)) end, "item reads values")
end)

test("results go to workers and files as they are", function()
  local path = os.tmpname()
  local fast = ml.compile(function(x)
    local y = x * 2 + 1
    local total = y:sum():item()
    ml.save(path, { y = y, z = y * total })
    return y
  end)
  for i = 1, 6 do
    local y = fast(numbers(i))
    local loaded = ml.load(path)
    expect.truthy(loaded.y:equal(y) and loaded.y:equal(numbers(i) * 2 + 1))
    expect.truthy(loaded.z:equal(y * y:sum():item()))
  end
  os.remove(path)
end)

test("large results that nobody asks for", function()
  ml._compiled.leave_out(1 << 20)
  local n = 300000
  local other = {}
  local function f(x, keep)
    local a = x * 2
    local b = a + 1
    local c = (b * b):relu()
    if keep then other.a, other.b = a, b end
    return c:sum():item()
  end
  local fast = ml.compile(f)
  for i = 1, 40 do
    local x = ml.arange(1, n):float() * (i / n)
    expect.equal(fast(x, i % 5 == 0), f(x:clone()))
    if i % 5 == 0 then
      if i % 2 == 0 then x:zero_() end  -- after the call
      local want = ml.arange(1, n):float() * (i / n) * 2
      expect.truthy(other.a:equal(want))
      expect.truthy(other.b:equal(want + 1))
    end
  end
  -- Many that are kept, and looked at last.
  local kept = {}
  for i = 1, 80 do
    fast(ml.full({ n }, i / 64), true)
    kept[i] = other.b
  end
  for i = 1, 80 do expect.equal(kept[i][n]:item(), i / 32 + 1) end
  expect_parts(fast, 20)
  ml._compiled.leave_out(0)
end)

test("a function that gains nothing is left as it is, and gives the same", function()
  local source = [[
    local ml = require "moonlet"
    local function f(x) local y = x * 2 + 1 return y:sum():item() end
    local fast = ml.compile(f)
    for i = 1, 40 do assert(fast(ml.full({ 3 }, i)) == f(ml.full({ 3 }, i))) end
    return fast:explain()
  ]]
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write((source:gsub("return fast:explain%(%)", "print(fast:explain())")))
  file:close()
  local pipe = assert(io.popen(("'%s' '%s' 2>&1"):format(arg[-1], path)))
  local text = pipe:read "a"
  pipe:close()
  os.remove(path)
  expect.truthy(text:find "runs by parts: item reads values")
  expect.truthy(text:find "by parts: run %d+ times")
end)

harness.run(arg[1])
