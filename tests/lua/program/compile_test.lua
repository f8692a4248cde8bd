-- tests/lua/program/compile_test.lua: compiled functions give what the plain ones give, to the last
-- bit, and do what they do: writes, views, results of every kind, random numbers, errors, stops.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local case = require "program_case"
local test, expect = harness.test, harness.expect
local nn = ml.nn

-- --- what is computed ------------------------------------------------------------------------

test("a chain of pointwise ops", function()
  local function f(x, y) return (x * 2 + y):relu():exp() - 1 end
  local fast = ml.compile(f)
  case.compare(fast, f, function(i)
    ml.manual_seed(i)
    return ml.randn(4, 5), ml.randn(5)
  end)
  case.expect_runs(fast, 3)
end)

test("relu behind a convolution runs as a part of it, with the same bits", function()
  -- By matrix products, by rows, by oneDNN, with images and filters exchanged, as it lies.
  local layers = { nn.Conv2d(4, 6, 1), nn.Conv2d(6, 6, 3, { padding = 1, groups = 6 }), nn.Conv2d(6, 32, 3),
    nn.Conv2d(32, 2, 3, { padding = 1, bias = false }) }
  for _, dtype in ipairs { "float32", "float64", "float16", "bfloat16" } do
    for _, format in ipairs { "contiguous_format", "channels_last" } do
      local function f(x)
        local out = {}
        for i, layer in ipairs(layers) do
          x = layer(x):relu()
          out[i] = ml.max_pool2d(x, 2)
        end
        return out
      end
      for _, layer in ipairs(layers) do layer:to(ml[dtype]) end
      local fast = ml.compile(f)
      for i = 1, 4 do
        local x = ml.randn(3, 4, 20, 20)
        if i == 4 then x[1][2][3][4], x[2][1][17][2] = 0 / 0, 1 / 0 end
        x = x:to(dtype):contiguous { memory_format = format }
        local got, want = fast(x), f(x)
        for k = 1, #layers do
          expect.truthy(case.same_bits(got[k], want[k]), ("%s %s layer %d"):format(dtype, format, k))
        end
      end
      expect.truthy(fast:explain():find("12 ops in 8 steps", 1, true), fast:explain())
    end
  end
end)

test("an empty chain returns its arguments", function()
  local fast = ml.compile(function(a, b) return b, a end)
  for _ = 1, 4 do
    local x, y = ml.ones(2), ml.zeros(3)
    local p, q = fast(x, y)
    expect.truthy(rawequal(p, y) and rawequal(q, x))
  end
  case.expect_runs(fast, 2)
end)

test("a module and its methods", function()
  local net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
  local fast = ml.compile(net)
  expect.truthy(rawequal(fast[1].weight, net[1].weight))
  expect.equal(#fast, 3)
  expect.equal(#fast:parameters(), 4)
  expect.truthy(rawequal(fast:eval(), fast))
  expect.falsy(net.training)
  fast.note = "seen"
  expect.equal(net.note, "seen")
  fast.note = nil
  ml.no_grad(function()
    case.compare(fast, net, function(i) return ml.full({ 3, 4 }, i * 0.25) end)
  end)
  case.expect_runs(fast, 3)
end)

test("a compiled module is a child of the module that holds it", function()
  local Net = nn.class("Net", nn.Module)
  function Net:init()
    self.first = ml.compile(nn.Linear(2, 2))
    self.blocks = nn.ModuleDict { last = ml.compile(nn.Linear(2, 1)) }
  end
  function Net:forward(x) return self.blocks.last(self.first(x)) end
  local net = Net()
  local names = {}
  for name in net:named_parameters() do names[#names + 1] = name end
  expect.equal(names, { "first.weight", "first.bias", "blocks.last.weight", "blocks.last.bias" })
  expect.equal(net.first.training, true)
  net:eval()
  expect.equal(net.first.training, false)
  local copy, x = net:deepcopy(), ml.ones(1, 2)
  for _ = 1, 4 do expect.equal(copy(x):item(), net(x):item()) end
  copy.first.weight.data:zero_()
  expect.falsy(copy.first.weight:eq(net.first.weight):any():item())
  for _ = 1, 3 do copy.first(x) end
  case.expect_runs(copy.first, 4)
  copy:load_state_dict(net:state_dict())
  expect.equal(copy(x):item(), net(x):item())
  local optimizer = ml.optim.SGD(net:parameters(), { lr = 0.1 })
  local before = net(x):item()
  net(x):sum():backward()
  optimizer:step()
  expect.truthy(net(x):item() < before)
  local list = nn.Sequential(ml.compile(nn.Linear(2, 3)), nn.ReLU())
  expect.equal(#list:parameters(), 2)
  expect.equal(#list:children(), 2)
  expect.error(function() nn.Sequential(ml.compile(math.sin)) end, "a module is expected")
end)

test("results in tables, plain values, nothing", function()
  local function f(x, flag)
    local y = x + 1
    return { sum = y, list = { y, 2, "three" }, flag = flag }, nil, 4.5, y, nil
  end
  local fast = ml.compile(f)
  for i = 1, 5 do
    local got = table.pack(fast(ml.full({ 2 }, i), true))
    expect.equal(got.n, 5)
    expect.truthy(case.same(got, table.pack(f(ml.full({ 2 }, i), true))))
    expect.truthy(rawequal(got[1].sum, got[4]), "the same tensor twice")
    got[1].list[4] = "changed"
  end
  case.expect_runs(fast, 3)
  local none = ml.compile(function(x) local _ = x + 1 end)
  for _ = 1, 4 do expect.equal(select("#", none(ml.ones(1))), 0) end
  case.expect_runs(none, 2)
end)

test("several sizes, dtypes and plain arguments", function()
  local function f(x, scale, options)
    return options.twice and x * scale * 2 or x * scale
  end
  local fast = ml.compile(f)
  for _ = 1, 4 do
    for _, x in ipairs { ml.ones(3), ml.ones(2, 3), ml.ones { 3, dtype = ml.float64 } } do
      for _, scale in ipairs { 2, 2.5 } do
        expect.truthy(case.same(fast(x, scale, { twice = true }), f(x, scale, { twice = true })))
      end
    end
    expect.truthy(case.same(fast(ml.ones(3), 2, {}), f(ml.ones(3), 2, {})))
  end
  case.expect_runs(fast, 10)
end)

test("1 and 1.0, -0.0 and strings are arguments of their own", function()
  local function f(x, k) return x + k, math.type(k), 1 / k end
  local fast = ml.compile(f)
  for _, k in ipairs { 1, 1.0, 0.0, -0.0 } do
    case.compare(fast, f, function() return ml.ones { 2, dtype = ml.int64 }, k end, 3)
  end
  case.expect_runs(fast, 4)
end)

test("slices of one tensor at other positions", function()
  local data = ml.arange(0, 59):reshape(20, 3)
  local function f(x) return x:t():contiguous() * 3, x[2] end
  local fast = ml.compile(f)
  case.compare(fast, f, function(i) return data[{ { 2 * i, 2 * i + 1 } }] end, 6)
  case.expect_runs(fast, 4)
end)

-- --- memory ------------------------------------------------------------------------------------

test("writes to arguments and parameters", function()
  local state = ml.zeros(3)
  local function f(x, y)
    x:add_(y)
    state:mul_(0.5):add_(x)
    return x * 2
  end
  local fast = ml.compile(f)
  local twin = ml.zeros(3)
  for i = 1, 6 do
    local x, y = ml.full({ 3 }, i), ml.arange(1, 3)
    local out = fast(x, y)
    local want = ml.full({ 3 }, i) + y
    twin:mul_(0.5):add_(want)
    expect.truthy(x:equal(want) and state:equal(twin) and out:equal(want * 2))
  end
  case.expect_runs(fast, 4)
end)

test("views as results, of arguments and of each other", function()
  local function f(x)
    local y = x * 2
    return x:t(), y:t(), y, x[1], x:detach()
  end
  local fast = ml.compile(f)
  for _ = 1, 5 do
    local x = ml.arange(1, 6):reshape(2, 3):clone()
    local xt, yt, y, row, same = fast(x)
    xt[{ 1, 1 }] = 100
    expect.equal(x[{ 1, 1 }]:item(), 100)
    expect.equal(row[1]:item(), 100)
    yt:zero_()
    expect.equal(y:abs():sum():item(), 0)
    expect.falsy(rawequal(same, x))
    expect.equal(same:data_ptr(), x:data_ptr())
  end
  case.expect_runs(fast, 3)
end)

test("what a program returns is new in each call", function()
  local fast = ml.compile(function(x) return x + 1 end)
  local kept = {}
  for i = 1, 6 do kept[i] = fast(ml.full({ 2 }, i)) end
  for i = 1, 6 do expect.equal(kept[i][1]:item(), i + 1) end
  case.expect_runs(fast, 4)
end)

test("gradients reach through views that a program made", function()
  local fast = ml.compile(function(x) return x:t() end)
  for _ = 1, 4 do
    local x = ml.zeros(2, 3)
    local y = fast(x)
    local w = ml.ones { 3, 2, requires_grad = true }
    y:add_(w * 2)
    x:sum():backward()
    expect.truthy(w.grad:equal(ml.full({ 3, 2 }, 2)))
  end
  case.expect_runs(fast, 2)
end)

test("arguments that share memory", function()
  local function f(x, y)
    x:add_(1)
    return x + y
  end
  local fast = ml.compile(f)
  for _ = 1, 4 do
    local x = ml.zeros(4)
    expect.equal(fast(x, x)[1]:item(), 2)
    expect.equal(fast(ml.zeros(4), ml.zeros(4))[1]:item(), 1)
    local z = ml.zeros(5)
    expect.equal(fast(z[{ { 1, 4 } }], z[{ { 2, 5 } }])[1]:item(), 2)
  end
  case.expect_runs(fast, 6)
end)

test("an argument that is also a parameter", function()
  local net = nn.Linear(2, 2)
  local function f(w) return w + net.weight end
  local fast = ml.compile(f)
  ml.no_grad(function()
    for i = 1, 5 do
      expect.truthy(fast(net.weight):equal(net.weight * 2))
      local other = ml.full({ 2, 2 }, i)
      expect.truthy(fast(other):equal(other + net.weight))
    end
  end)
  case.expect_runs(fast, 4)
end)

-- --- random numbers, running statistics ----------------------------------------------------------

test("dropout draws the numbers of the plain function", function()
  local net = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5))
  local fast = ml.compile(net)
  ml.no_grad(function()
    local x = ml.ones(4, 6)
    ml.manual_seed(7)
    local want = {}
    for i = 1, 6 do want[i] = net(x) end
    ml.manual_seed(7)
    for i = 1, 6 do expect.truthy(fast(x):equal(want[i]), i) end
  end)
  case.expect_runs(fast, 4)
end)

test("batch norm keeps its running statistics", function()
  local function make()
    ml.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
  end
  local net, plain = make(), make()
  local fast = ml.compile(net)
  ml.no_grad(function()
    for i = 1, 6 do
      ml.manual_seed(i)
      local x = ml.randn(8, 3)
      if i == 5 then net:eval() plain:eval() end
      expect.truthy(fast(x):equal(plain(x)))
      expect.truthy(net[2].running_mean:equal(plain[2].running_mean))
      expect.truthy(net[2].num_batches_tracked:equal(plain[2].num_batches_tracked))
    end
  end)
  case.expect_runs(fast, 2)
end)

-- --- what stays eager ------------------------------------------------------------------------------

-- Calls it `count` times; it must stay eager for a reason with that pattern.
local function stays_eager(f, pattern, count, ...)
  local fast = ml.compile(f)
  for _ = 1, count or 6 do fast(...) end
  case.expect_eager(fast, pattern)
  return fast
end

test("impure functions stay as they are", function()
  local x = ml.ones(2)
  local calls, list, sum = 0, {}, 0
  stays_eager(function(v) calls = calls + 1 return v + 1 end, "changes calls", 6, x)
  expect.equal(calls, 6)
  stays_eager(function(v) list[#list + 1] = 1 return v + 1 end, "changes", 6, x)
  expect.equal(#list, 6)
  stays_eager(function(v) sum = sum + math.random() return v + sum end, "calls random", 6, x)
  stays_eager(function(v) return v + os.time() % 2 end, "calls time", 6, x)
  stays_eager(function(v) io.stdout:write "" return v + 1 end, "calls write", 6, x)
  stays_eager(function(v)
    local co = coroutine.wrap(function() coroutine.yield(v + 1) end)
    return co()
  end, "calls wrap", 6, x)
  stays_eager(function(v) v.requires_grad = false return v + 1 end, "sets a field", 6, x)
end)

test("a function that reads elements runs by parts", function()
  local function f(x) if x:sum():item() > 0 then return x + 1 end return x - 1 end
  local fast = ml.compile(f)
  case.compare(fast, f, function(i) return ml.full({ 2 }, i % 2 * 2 - 1) end, 6)
  expect.truthy(fast:explain():find "runs by parts: item reads values %(.*compile_test.lua:%d+%)")
end)

test("a function that is not the same twice stays as it is", function()
  local function address() return tonumber(tostring({}):match "(%x+)$", 16) % 9973 end
  local fast = ml.compile(function(x) return x + address() end)
  warn "@off"
  for _ = 1, 4 do fast(ml.zeros(1)) end
  warn "@on"
  case.expect_eager(fast, "not the same twice: add had other arguments before %(.*_test.lua:%d+%)")
  local made = ml.compile(function(x) return x + ml.tensor { address(), address() } end)
  for _ = 1, 4 do made(ml.zeros(2)) end
  case.expect_eager(made, "makes a tensor of numbers that differ")
end)

test("constants that a function makes of numbers", function()
  local function f(x) return x * ml.tensor { 1, 2, 3 } end
  local fast = ml.compile(f)
  case.compare(fast, f, function(i) return ml.full({ 3 }, i) end)
  case.expect_runs(fast, 3)
  local fresh = stays_eager(function() return ml.tensor { 1, 2 } end, "makes of numbers")
  local a = fresh()
  a:zero_()
  expect.equal(fresh()[1]:item(), 1)
end)

test("gradients of calls whose results require grad, and without grad mode", function()
  local net = nn.Linear(3, 1)
  local fast = ml.compile(net)
  for _ = 1, 5 do
    net:zero_grad()
    fast(ml.ones(2, 3)):sum():backward()
    expect.truthy(net.weight.grad:equal(ml.full({ 1, 3 }, 2.0)))
    expect.truthy(net.bias.grad:equal(ml.full({ 1 }, 2.0)))
  end
  ml.no_grad(function()
    for _ = 1, 4 do expect.falsy(fast(ml.ones(2, 3)).requires_grad) end
  end)
  case.expect_runs(fast, 2)
end)

test("inside vmap, anomaly detection and other modes the function runs", function()
  local function f(x) return x * 2 + 1 end
  local fast = ml.compile(f)
  for _ = 1, 4 do fast(ml.ones(3)) end
  local runs = case.runs(fast)
  expect.truthy(runs >= 2)
  for _ = 1, 3 do
    expect.truthy(ml.vmap(fast)(ml.ones(2, 3)):equal(ml.full({ 2, 3 }, 3)))
    local seen = 0
    ml.override(function(_, arguments, call) seen = seen + 1 return call(arguments) end, fast,
      ml.ones(3))
    expect.equal(seen, 2)
  end
  expect.equal(case.runs(fast), runs)
end)

-- --- errors and stops ------------------------------------------------------------------------------

test("errors have the line of the op", function()
  local function f(x, i) return x:index_select(1, i) end
  local fast = ml.compile(f)
  local good, bad = ml.tensor { 1, 2 }, ml.tensor { 1, 9 }
  for _ = 1, 4 do fast(ml.ones(3), good) end
  case.expect_runs(fast, 2)
  local ok, message = pcall(fast, ml.ones(3), bad)
  local _, want = pcall(f, ml.ones(3), bad)
  expect.falsy(ok)
  expect.equal(message, want)
  expect.truthy(message:find "compile_test.lua:%d+: index_select")
  expect.equal(fast(ml.ones(3), good)[1]:item(), 1)
end)

test("an error after a write keeps the write, once", function()
  local function f(x, i)
    x:add_(1)
    return x:index_select(1, i)
  end
  local fast = ml.compile(f)
  local x = ml.zeros(3)
  for _ = 1, 4 do fast(x, ml.tensor { 1 }) end
  case.expect_runs(fast, 2)
  expect.error(function() fast(x, ml.tensor { 7 }) end, "compile_test.lua:%d+: index_select")
  expect.equal(x[1]:item(), 5)
end)

test("errors that the function catches are caught", function()
  local function f(x, i)
    local ok, y = pcall(function() return x:index_select(1, i) end)
    return ok and y or x
  end
  local fast = ml.compile(f)
  case.compare(fast, f, function(i) return ml.arange(1, 3), ml.tensor { i % 3 == 0 and 9 or 1 } end, 9)
end)

test("errors of shapes are those of the function, each time", function()
  local fast = ml.compile(function(x, y) return x:matmul(y) end)
  for _ = 1, 5 do
    expect.error(function() fast(ml.ones(2, 3), ml.ones(2, 3)) end, "compile_test.lua:%d+: matmul")
  end
  expect.truthy(fast(ml.ones(2, 3), ml.ones(3, 1)):equal(ml.full({ 2, 1 }, 3)))
end)

test("coroutines: calls inside, and functions that yield", function()
  local function f(x) return x * 3 end
  local fast = ml.compile(f)
  for _ = 1, 5 do
    local co = coroutine.wrap(function(x) coroutine.yield(fast(x)) return fast(x) end)
    expect.equal(co(ml.ones(1)):item(), 3)
    expect.equal(co():item(), 3)
  end
  case.expect_runs(fast, 6)
  local yields = ml.compile(function(x) coroutine.yield(x + 1) return x + 2 end)
  for _ = 1, 4 do
    local co = coroutine.wrap(function() return yields(ml.ones(1)) end)
    expect.equal(co():item(), 2)
    expect.equal(co():item(), 3)
  end
  case.expect_eager(yields, "calls yield")
  for _ = 1, 3 do
    local abandoned = coroutine.wrap(function() return ml.compile(function(x)
      coroutine.yield(x)
      return x
    end)(ml.ones(1)) end)
    abandoned()
  end
  collectgarbage()
  collectgarbage()
  expect.equal((ml.ones(1) + 1):item(), 2)
end)

-- Runs a script in a process that gets Ctrl-C after a second. Returns what it prints.
local function interrupted(script)
  local output
  harness.with_temp_file(function(path)
    local file <close> = assert(io.open(path, "w"))
    file:write(script)
    file:close()
    local pipe <close> = io.popen(("timeout --foreground -s INT 1 '%s' '%s' 2>&1"):format(arg[-1], path))
    output = pipe:read "a"
  end)
  return output
end

test("Ctrl-C stops plans and captures, and both go on after it", function()
  local output = interrupted [[
    local ml = require "moonlet"
    local fast = ml.compile(function(x) return (x * 2):exp() end)
    local ok, message = pcall(function() while true do fast(ml.ones(50)) end end)
    print(ok, message, fast(ml.zeros(1)):item(), fast:explain():find "compiled\n" ~= nil)
  ]]
  expect.truthy(output:find "^false\t[^\n]*interrupted!\t1.0\t", output)
  output = interrupted [[
    local ml = require "moonlet"
    local long = true
    local fast = ml.compile(function(x) while long do x = x * 1 end return x + 1 end)
    local ok, message = pcall(fast, ml.ones(1))
    long = false
    for _ = 1, 4 do fast(ml.ones(1)) end
    print(ok, message, fast(ml.ones(1)):item(), fast:explain():find "run [1-9]" ~= nil)
  ]]
  expect.truthy(output:find "^false\t[^\n]*interrupted!\t2.0\ttrue", output)
end)

test("recursion and compiled functions inside others", function()
  local fast
  local function power(x, n)
    if n == 0 then return x * 0 + 1 end
    return fast(x, n - 1) * x
  end
  fast = ml.compile(power)
  for _ = 1, 5 do expect.equal(fast(ml.full({ 1 }, 2), 5):item(), 32) end
  local inner = ml.compile(function(x) return x + 1 end)
  local function f(x) return inner(x) * inner(x) end
  local outer = ml.compile(f)
  for i = 1, 5 do expect.equal(outer(ml.full({ 1 }, i)):item(), (i + 1) ^ 2) end
  case.expect_runs(outer, 3)
end)

test("compiled objects are collected with what they hold", function()
  collectgarbage()
  collectgarbage()
  local gone = setmetatable({}, { __mode = "k" })
  do
    local big = ml.ones(1000)
    local fast
    fast = ml.compile(function(x) return x + big, fast and 1 end)
    for _ = 1, 4 do fast(ml.ones(1000)) end
    gone[fast] = true
  end
  collectgarbage()
  collectgarbage()
  expect.equal(next(gone), nil)
end)

test("a compiled function that calls itself", function()
  local fast
  local function f(x, n) return n == 0 and x or fast(x, n - 1) * 2 end
  fast = ml.compile(f)
  for _ = 1, 4 do expect.equal(fast(ml.ones(1), 100):item(), 2.0 ^ 100) end
end)

test("options", function()
  expect.error(function() ml.compile(3) end, "compile: expected a function or a module")
  expect.error(function() ml.compile(print, { backend = "inductor" }) end, "expected backend")
  expect.error(function() ml.compile(print, { fast = true }) end, "fast")
  local whole = ml.compile(function(x) return x:item() end, { fullgraph = true })
  for _ = 1, 5 do
    expect.error(function() whole(ml.ones(1)) end, "fullgraph = true refuses: item reads values")
  end
  local plain = ml.compile(function(x) return x + 1 end, { backend = "eager" })
  for _ = 1, 4 do plain(ml.ones(1)) end
  expect.equal(case.runs(plain), 0)
  local fast = ml.compile(function(x) return x + 1 end)
  expect.truthy(rawequal(ml.compile(fast), fast))
  for n = 1, 5 do for _ = 1, 3 do fast(ml.ones(n)) end end
  expect.truthy(fast:explain():find "sizes vary")
  expect.truthy(fast:explain():find "argument 1 has other sizes")
end)

harness.run(arg[1])
