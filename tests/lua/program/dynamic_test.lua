-- tests/lua/program/dynamic_test.lua: compiled functions whose arguments vary in size: after a few
-- sizes the graphs of others are foretold, and what does not follow the sizes is found.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local case = require "program_case"
local test, expect = harness.test, harness.expect
local nn = ml.nn

-- Calls both at each of the sizes, `times` times.
local function at_sizes(f, options, sizes, new, times)
  local fast = ml.compile(f, options)
  for _, n in ipairs(sizes) do
    for _ = 1, times or 3 do
      local x = table.pack(new(n))
      local got, want = table.pack(fast(table.unpack(x))), table.pack(f(table.unpack(x)))
      expect.truthy(case.same(got, want), "size " .. tostring(n))
    end
  end
  return fast
end

local function count(fast, text)
  local n = 0
  for _ in fast:explain():gmatch(text) do n = n + 1 end
  return n
end

local function rows(n) return ml.randn(n, 6) end

test("from the fourth size on one call is compared, and the next one is a plan", function()
  local function f(x)
    local y = (x * 2):softmax(2)
    return y:reshape(-1), ml.cat({ x, y }, 1):narrow(1, 2, x:size(1)), ml.zeros(x:size(1), 3) + y:sum()
  end
  local fast = at_sizes(f, nil, { 3, 5, 8 }, rows)
  expect.equal(case.runs(fast), 3)
  for n = 9, 20 do
    local x = rows(n)
    for _ = 1, 2 do expect.truthy(case.same({ fast(x) }, { f(x) })) end
  end
  expect.equal(case.runs(fast), 3 + 12)
  expect.truthy(fast:explain():find "sizes vary: the first call of each is compared")
end)

test("with dynamic = true from the third size on, with false never", function()
  local function f(x) return x:tanh() + 1 end
  expect.equal(case.runs(at_sizes(f, { dynamic = true }, { 3, 5, 8, 9 }, rows, 2)), 2)
  expect.equal(case.runs(at_sizes(f, nil, { 3, 5, 8, 9 }, rows, 2)), 1)
  expect.equal(case.runs(at_sizes(f, { dynamic = false }, { 3, 5, 8, 9, 10 }, rows, 2)), 0)
end)

test("more sizes than eight are kept", function()
  local sizes = {}
  for n = 2, 25 do sizes[#sizes + 1] = n end
  local function f(x) return x:exp():sum(1) end
  local fast = at_sizes(f, nil, sizes, rows, 2)
  local before = case.runs(fast)
  for n = 10, 25 do fast(rows(n)) end
  expect.equal(case.runs(fast), before + 16)
end)

test("two sizes that vary apart", function()
  local function f(x, y) return x:matmul(y), ml.full({ x:size(1) + y:size(2) }, 2) end
  local fast = ml.compile(f)
  for i, n in ipairs { { 2, 3 }, { 4, 3 }, { 2, 6 }, { 5, 7 }, { 9, 4 }, { 1, 8 } } do
    for _ = 1, 3 do
      local x, y = ml.randn(n[1], 5), ml.randn(5, n[2])
      expect.truthy(case.same({ fast(x, y) }, { f(x, y) }), i)
    end
  end
  expect.truthy(count(fast, "as foretold") > 0)
end)

test("branches on sizes, loops over them and sizes as numbers", function()
  local functions = {
    function(x) if x:size(1) > 8 then return x + 1 end return x - 1 end,
    function(x) return x / x:size(1) end,
    function(x) return x * (1 / x:size(1)) end,
    function(x) return x * x:size(1) ^ 2 end,
    function(x)
      for i = 1, x:size(1) do x = x * 0.5 + i end
      return x
    end,
    function(x) return x[x:size(1)] + #x end,
    function(x) return x:numel() > 40 and x:relu() or x:neg() end,
    function(x) return x:size(1) % 3 == 0 and x + 1 or x end,
    function(x) return x + math.min(x.shape[1], 9) end,
    function(x) return x:sum(1), x:size(1) end,
  }
  for _, f in ipairs(functions) do
    at_sizes(f, nil, { 3, 5, 8, 9, 12, 6, 10, 21, 3, 9, 1 }, rows)
    at_sizes(f, { dynamic = true }, { 3, 5, 8, 9, 12, 6, 10, 21, 3, 9, 1 }, rows)
  end
  local fast = at_sizes(functions[3], nil, { 3, 5, 8, 9, 12 }, rows)
  expect.truthy(fast:explain():find "each is compiled for itself[^\n]*, as ", fast:explain())
end)

test("writes, weights that are new and random numbers at new sizes", function()
  local function make()
    ml.manual_seed(3)
    local net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.3))
    local total = ml.zeros(6)
    return function(x)
      total:add_(x:sum(1))
      return net(x), x:mul_(2)
    end, net, total
  end
  local f, plain, total = make()
  local g, net, other = make()
  local fast = ml.compile(g)
  ml.no_grad(function()
    for i, n in ipairs { 3, 3, 3, 5, 5, 5, 8, 8, 8, 9, 9, 9, 4, 4, 7, 7, 7, 9, 3 } do
      if i == 13 then
        for _, each in ipairs { plain, net } do each[1].weight:mul_(0.5) end
      end
      ml.manual_seed(i)
      local x = rows(n)
      local y = x:clone()
      ml.manual_seed(i)
      local a = table.pack(f(x))
      ml.manual_seed(i)
      local b = table.pack(fast(y))
      expect.truthy(case.same(a, b), i)
      expect.truthy(x:equal(y) and total:equal(other), i)
      expect.truthy(net[2].running_var:equal(plain[2].running_var), i)
    end
  end)
  expect.truthy(count(fast, "as foretold") > 0)
end)

test("gradients of functions whose sizes vary, and whole steps of training", function()
  local function sides(compile)
    ml.manual_seed(1)
    local net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 3))
    local opt = ml.optim.Adam(net:parameters(), { lr = 0.01 })
    local function step(x, y)
      opt:zero_grad()
      local loss = ml.cross_entropy(net(x), y)
      loss:backward()
      opt:step()
      return loss:detach()
    end
    return net, compile(net), compile(step)
  end
  local plain, forward, step = sides(function(f) return f end)
  local net, fast, fast_step = sides(function(f) return ml.compile(f) end)
  for i, n in ipairs { 3, 3, 3, 5, 5, 5, 8, 8, 8, 9, 9, 9, 4, 4, 4, 12, 12, 12, 9, 3 } do
    ml.manual_seed(i)
    local x, y = rows(n), ml.randint(3, { n })
    expect.truthy(case.same(step(x, y), fast_step(x, y)), "loss " .. i)
    for _, side in ipairs { { plain, forward }, { net, fast } } do
      side[1]:zero_grad()
      side[2](x):sum():backward()
    end
    for k, p in ipairs(plain:parameters()) do
      local q = net:parameters()[k]
      expect.truthy(p:detach():equal(q:detach()) and p.grad:equal(q.grad), i)
      p.grad, q.grad = nil, nil
    end
  end
  expect.truthy(count(fast, "as foretold") > 0, fast:explain())
  expect.truthy(count(fast_step, "as foretold") > 0, fast_step:explain())
end)

test("upvalues that change between sizes are seen", function()
  local scale = 2
  local function f(x) return x * scale end
  local fast = ml.compile(f)
  for i, n in ipairs { 3, 3, 3, 5, 5, 5, 8, 8, 8, 9, 9, 9, 10, 10, 10, 9, 3 } do
    if i % 4 == 0 then scale = scale + 1 end
    local x = rows(n)
    expect.truthy(fast(x):equal(f(x)), i)
  end
end)

test("sizes that never come again end in a function that runs as it is", function()
  local function f(x) return x + 1 end
  local fast = ml.compile(f)
  for n = 1, 60 do
    for _ = 1, n < 4 and 2 or 1 do expect.equal(fast(rows(n)).shape[1], n) end
  end
  expect.truthy(fast:explain():find "stays eager: its guards seldom hold twice", fast:explain())
end)

harness.run(arg[1])
