-- tests/lua/data/workers_test.lua: loaders with workers: the same batches and random numbers for any
-- number of them, what crosses to their interpreters and back, errors, and ends midway.

-- luacheck: globals INIT GREETING OPEN TWICE SCALE print string.shout
package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local class = require "moonlet.class"
local harness = require "harness"
local ml = require "moonlet"
local system = require "moonlet.system"
local test, expect = harness.test, harness.expect
local data, nn = ml.data, ml.nn

local COUNTS = { 0, 1, 2, 5 }

-- Examples from 1 to n with random numbers of every kind.
local Noise = class("Noise", data.Dataset)
function Noise:init(n) self.n = n end
function Noise:size() return self.n end
function Noise:get(i)
  local own = ml.Generator()
  return ml.randn(2) + i, math.random(1 << 40), ml.randint(1000, { 1 }, { generator = own }), i
end

-- Every digit of a pass and of what the script draws after it.
local function digits(loader)
  local out = {}
  for a, b, c, i in loader:iter() do
    local parts = {}
    for _, tensor in ipairs { a, b, c, i } do
      parts[#parts + 1] = ("%s"):format(table.concat(tensor:flatten():totable(), " "))
    end
    out[#out + 1] = table.concat(parts, ";")
  end
  out[#out + 1] = ("%.17g %d"):format(ml.rand(1, { dtype = ml.float64 }):item(), math.random(1 << 40))
  return table.concat(out, "\n")
end

-- Runs `f` for each number of workers from the same random numbers; all results must be equal.
local function same_for_all(f)
  local wanted
  for _, n in ipairs(COUNTS) do
    ml.manual_seed(11)
    math.randomseed(12)
    local got = f(n)
    wanted = wanted or got
    expect.equal(got, wanted, n .. " workers")
  end
  return wanted
end

local function all(loader)
  local out = {}
  for x in loader:iter() do out[#out + 1] = ml.is_tensor(x) and x:totable() or x end
  return out
end

-- One pass that gives what `get(i)` gives, through a worker.
local function through_worker(get, o)
  local Set = class("Set", data.Dataset)
  function Set:init() end
  function Set:size() return 1 end
  Set.get = get
  o = o or {}
  o.num_workers, o.batch_size = 1, false
  o.collate_fn = o.collate_fn or function(fields) return table.unpack(fields) end
  return data.DataLoader(Set(), o):iter()()
end

test("batches and random numbers do not depend on the number of workers", function()
  local two = same_for_all(function(n)
    local loader = data.DataLoader(Noise(11), { batch_size = 3, shuffle = true, num_workers = n })
    return { digits(loader), digits(loader) }
  end)
  expect.truthy(two[1] ~= two[2])
  same_for_all(function(n)
    return digits(data.DataLoader(Noise(7), { batch_size = 2, num_workers = n,
      generator = ml.Generator { seed = 5 }, prefetch_factor = n > 0 and 4 or nil }))
  end)
end)

test("a sampler that draws as it goes on runs ahead without changing a digit", function()
  local Lazy = class("Lazy", data.Sampler)
  function Lazy:init() end
  function Lazy:size() return 9 end
  function Lazy:iter()
    local left = 9
    return function()
      left = left - 1
      return left >= 0 and ml.randint(9, { 1 }):item() or nil
    end
  end
  same_for_all(function(n)
    local loader = data.DataLoader(Noise(9), { batch_size = 2, sampler = Lazy(), num_workers = n })
    local out = {}
    for a, _, _, i in loader:iter() do
      out[#out + 1] = { a:totable(), i:totable(), ml.rand(1):item() }
    end
    return out
  end)
end)

test("a state restored in the middle goes on to the same digits", function()
  same_for_all(function(n)
    local g = ml.Generator { seed = 3 }
    local function make(generator)
      return data.DataLoader(Noise(6), { batch_size = 2, shuffle = true, num_workers = n,
        generator = generator, persistent_workers = n > 0 })
    end
    local loader = make(g)
    local first = digits(loader)
    local state, rng = g:get_state(), ml.get_rng_state()
    math.randomseed(4)
    local second = digits(loader)
    ml.set_rng_state(rng)
    local again = ml.Generator { seed = 99 }
    again:set_state(state)
    math.randomseed(4)
    expect.equal(digits(make(again)), second)
    return { first, second }
  end)
end)

test("the options of map-style loaders", function()
  same_for_all(function(n)
    local function make(set, o)
      o.num_workers = n
      return all(data.DataLoader(set, o))
    end
    local tens = data.TensorDataset(ml.arange(7) * 10)
    return {
      make(tens, { batch_size = 3 }), make(tens, { batch_size = 3, drop_last = true }),
      make(tens, { batch_size = false }), make(tens, { batch_sampler = { { 7, 1 }, { 2 } } }),
      make(tens, { sampler = { 3, 3, 1 }, batch_size = 2 }),
      make({ 5, 6, 7 }, { batch_size = 2, collate_fn = function(list)
        local out = {}
        for i, fields in ipairs(list) do out[i] = fields[1] + 1 end
        return out
      end }),
      make(data.Subset(tens, { 2, 4 }), { batch_size = 2 }),
      make({ { x = ml.ones(2), y = "a" }, { x = ml.zeros(2), y = "b" } }, { batch_size = 2,
        collate_fn = function(list) return data.default_collate(list).y end }),
    }
  end)
end)

test("in any order all batches come", function()
  local loader = data.DataLoader({ 1, 2, 3, 4, 5, 6, 7 }, { num_workers = 3, in_order = false })
  local out = {}
  for x in loader do out[#out + 1] = x:item() end
  table.sort(out)
  expect.equal(out, { 1, 2, 3, 4, 5, 6, 7 })
end)

-- --- data sets without positions -----------------------------------------------------------------

local Stream = class("Stream", data.IterableDataset)
function Stream:init(n) self.n = n end
function Stream:iter()
  local info = data.get_worker_info()
  local i, step = info and info.id - info.num_workers or 0, info and info.num_workers or 1
  return function()
    i = i + step
    if i <= self.n then return i end
  end
end

test("data sets without positions are split by what they ask", function()
  expect.equal(data.get_worker_info(), nil)
  expect.equal(all(data.DataLoader(Stream(5), { batch_size = 2, num_workers = 1 })),
    { { 1, 2 }, { 3, 4 }, { 5 } })
  -- In turn, as PyTorch's: the first worker has 1, 3, 5, 7, the second 2, 4, 6.
  expect.equal(all(data.DataLoader(Stream(7), { batch_size = 2, num_workers = 2 })),
    { { 1, 3 }, { 2, 4 }, { 5, 7 }, { 6 } })
  expect.equal(all(data.DataLoader(Stream(7), { batch_size = 2, num_workers = 2, drop_last = true })),
    { { 1, 3 }, { 2, 4 }, { 5, 7 } })
  expect.equal(all(data.DataLoader(Stream(2), { batch_size = false, num_workers = 5 })), { 1, 2 })
  expect.equal(all(data.DataLoader(Stream(0), { num_workers = 2 })), {})
  local loader = data.DataLoader(Stream(3), { num_workers = 2, persistent_workers = true })
  for _ = 1, 3 do expect.equal(all(loader), { { 1 }, { 2 }, { 3 } }) end
end)

test("what a worker is told of itself", function()
  local function get()
    local info = data.get_worker_info()
    return { info.id, info.num_workers, info.seed, getmetatable(info.dataset).__name }
  end
  local got = through_worker(get)
  expect.equal({ got[1], got[2], got[4] }, { 1, 1, "Set" })
  expect.equal(math.type(got[3]), "integer")
  expect.error(function() data.get_worker_info(3) end, "get_worker_info")
end)

test("worker_init_fn runs once in each worker", function()
  local function init(id) INIT = (INIT or 0) + 100 * id end
  local function first(list) return { list[1][1], INIT } end
  local loader = data.DataLoader({ 1, 2, 3, 4 }, { num_workers = 2, worker_init_fn = init,
    persistent_workers = true, collate_fn = first })
  for _ = 1, 2 do
    expect.equal(all(loader), { { 1, 100 }, { 2, 200 }, { 3, 100 }, { 4, 200 } })
  end
  expect.equal(rawget(_G, "INIT"), nil)
  local bad = data.DataLoader({ 1 }, { num_workers = 1, worker_init_fn = function() error "no start" end })
  expect.error(function() all(bad) end, "DataLoader: worker 1, batch 1: .*no start")
end)

-- --- what crosses --------------------------------------------------------------------------------

test("tensors share their memory", function()
  local shared, seen = ml.zeros(3), ml.ones(2)
  local function get()
    shared[2] = 7
    return shared, seen
  end
  local back, other = through_worker(get)
  expect.equal(shared:totable(), { 0, 7, 0 })
  back[1] = 5
  other[1] = 4
  expect.equal(shared:totable(), { 5, 7, 0 })
  expect.equal(seen:totable(), { 4, 1 })
end)

test("leaves cross as leaves, and results of recorded ops do not", function()
  local w = nn.Parameter(ml.ones(2))
  local b = nn.Buffer(ml.ones(1))
  local function get()
    assert(w.requires_grad and nn.is_parameter(w) and w.grad == nil)
    local y = (w * 3):sum()
    y:backward()
    return nn.Parameter(w:detach() * 2), w.grad:totable()[1], select(2, pcall(tostring, b))
  end
  local back, gradient = through_worker(get)
  expect.equal({ back:totable(), back.requires_grad, gradient }, { { 2, 2 }, true, 3 })
  expect.truthy(nn.is_parameter(back))
  expect.equal(w.grad, nil)
  local y = w * 2
  expect.error(function() through_worker(function() return y end) end,
    "dataset.get %(local 'y'%): a tensor that requires grad and is no leaf")
  expect.error(function() through_worker(function() return w * 2 end) end, "is no leaf.*detach")
  local freed = ml.ones(1)
  freed:free()
  expect.error(function() through_worker(function() return freed end) end, "a tensor that was freed")
end)

test("numbers, strings, generators, storages, dtypes, shapes and nil", function()
  local g = ml.Generator { seed = 8 }
  local z, store, shape = ml.complex(1, -2), ml.ones(2):storage(), ml.zeros(2, 3).shape
  local long = ("x"):rep(300) .. "\0y"
  local function get()
    return nil, 1 << 62, 0.1, long, true, false, z, store, shape, ml.float64, g, ml.rand(1, { generator = g })
  end
  local function pack_fields() return table.pack(get()) end
  local got = through_worker(function() return pack_fields() end)
  expect.equal({ got[1], got[2], got[3], got[4], got[5], got[6] }, { nil, 1 << 62, 0.1, long, true, false })
  expect.equal(tostring(got[7]), tostring(z))
  expect.equal({ got[8]:totable(), tostring(got[9]), got[10] }, { { 1, 1 }, "(2, 3)", "float64" })
  expect.equal(ml.rand(1, { generator = g }):item(), got[12]:item())
  expect.equal(g:get_state(), got[11]:get_state())
end)

test("tables: cycles, shared ones, metatables, deep ones", function()
  local meta = { __index = function(_, key) return key .. "!" end }
  local node = setmetatable({ list = {} }, meta)
  node.self, node.list[1], node.list[2] = node, node.list, { node }
  node[node] = "key"
  local chain = {}
  for _ = 1, 100000 do chain = { chain } end
  local got, depth = through_worker(function()
    local count, at = 0, chain
    while at[1] do at, count = at[1], count + 1 end
    return node, count, chain
  end)
  expect.equal(depth, 100000)
  expect.truthy(got.self == got and got.list[1] == got.list and got.list[2][1] == got)
  expect.equal({ got.missing, got[got] }, { "missing!", "key" })
  expect.truthy(getmetatable(got) == meta)
end)

test("functions keep what they share", function()
  local count = 0
  local function up() count = count + 1 return count end
  local function read() return count end
  local result = through_worker(function()
    up()
    up()
    return { up = up, read = read }
  end)
  -- What comes back is the script's own function, whose local has not changed.
  expect.truthy(result.up == up)
  expect.equal(result.read(), 0)
  local a, b = through_worker(function()
    local n = 10
    return function() n = n + 1 return n end, function() return n end
  end)
  expect.equal({ a(), a(), b() }, { 11, 12, 12 })
end)

test("classes are the script's on the way back", function()
  local Base = class("Base")
  function Base:init(x) self.x = x end
  function Base:name() return "base" .. self.x end
  local Sub = class("Sub", Base)
  function Sub:name() return "sub of " .. Base.name(self) end
  local got, text = through_worker(function()
    local made = Sub(3)
    assert(class.is_instance(made, Base) and class.name(Sub) == "Sub" and tostring(Sub) == "class Sub")
    return made, made:name()
  end)
  expect.truthy(class.of(got) == Sub and class.is_instance(got, Base))
  expect.equal({ got:name(), text }, { "sub of base3", "sub of base3" })
end)

test("modules of the library and of the script", function()
  local net = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Conv1d(1, 1, 1))
  local linear = net[1]
  local x = ml.ones(1, 3)
  local wanted = linear(x):detach()
  local got, same = through_worker(function()
    local pattern, own = require "harness", harness
    assert(class.is_instance(net, nn.Module) and #net == 3)
    local total = 0
    for _ in pairs(linear:state_dict()) do total = total + 1 end
    assert(total == 2 and nn.is_parameter(linear.weight))
    return linear(x):detach(), pattern == own
  end)
  expect.equal(got:totable(), wanted:totable())
  expect.truthy(same)
end)

test("globals", function()
  GREETING, OPEN, TWICE = "hi", io.tmpfile(), function(x) return x * SCALE end
  SCALE = 4
  function string.shout(s) return s:upper() .. "!" end
  package.preload["a.made.module"] = function() return { value = 9 } end
  local function get()
    GREETING, print = GREETING .. "!", nil
    return { GREETING, TWICE(3), ("a"):shout(), require("a.made.module").value, arg[0] }
  end
  expect.equal(through_worker(get), { "hi!", 12, "A!", 9, arg[0] })
  expect.equal(GREETING, "hi")
  expect.truthy(print)
  expect.error(function() through_worker(function() return OPEN end) end,
    "global OPEN: an open file cannot be handed to another thread's interpreter")
  OPEN:close()
  GREETING, OPEN, TWICE, SCALE, string.shout = nil, nil, nil, nil, nil
  package.preload["a.made.module"] = nil
end)

test("functions with an environment of their own", function()
  local env = setmetatable({ scale = 3, file = io.tmpfile() }, { __index = _G })
  local f = load("return function(name) made = (made or 0) + scale return name and _ENV[name] or made, "
    .. "tostring(print) end", "chunk", "t", env)()
  expect.equal(through_worker(function() f() return (f()) end), 6)
  expect.equal(rawget(env, "made"), nil)
  expect.error(function() through_worker(function() return (f "file") end) end,
    "%(local '_ENV'%)%.file: an open file cannot be handed")
  env.file:close()
end)

test("what cannot cross is named by the way to it", function()
  local Set = class("Bad", data.Dataset)
  function Set:init(value) self.transform = { steps = { 1, value } } end
  function Set:size() return 1 end
  function Set:get() return 1 end
  local function refused(value, wanted)
    expect.error(function() all(data.DataLoader(Set(value), { num_workers = 2 })) end, wanted)
  end
  local file <close> = io.tmpfile()
  refused(file, "dataset%.transform%.steps%[2%]: an open file cannot be handed")
  refused(coroutine.create(print), "dataset%.transform%.steps%[2%]: a coroutine cannot be handed")
  refused(("a"):gmatch ".", "dataset%.transform%.steps%[2%]: a C function cannot be handed")
  refused(function() return file end, "steps%[2%] %(local 'file'%): an open file")
  expect.error(function()
    all(data.DataLoader({ 1 }, { num_workers = 1, collate_fn = function() return file end }))
  end, "collate_fn %(local 'file'%): an open file")
  expect.error(function() through_worker(function() return coroutine.running() end) end,
    "a coroutine cannot be handed")
end)

test("settings of the interpreter", function()
  ml.set_default_dtype(ml.float64)
  local got = ml.no_grad(function()
    return through_worker(function() return { ml.zeros(1).dtype, ml.is_grad_enabled(), ml.get_num_threads() } end)
  end)
  ml.set_default_dtype(ml.float32)
  expect.equal(got, { ml.float64, false, 1 })
end)

-- --- errors and ends -----------------------------------------------------------------------------

local Failing = class("Failing", data.Dataset)
function Failing:init(bad, kind) self.bad, self.kind = bad, kind end
function Failing:size() return 8 end
function Failing:get(i)
  if i ~= self.bad then return i end
  if self.kind == "loop" then while true do end end
  if self.kind == "caught" then while true do pcall(function() while true do end end) end end
  if self.kind == "exit" then os.exit(3) end
  if self.kind == "table" then error { code = 5 } end
  if self.kind == "memory" then return ml.zeros(1 << 50) end
  if self.kind == "hook" then debug.sethook() end
  if self.kind == "deep" then
    local function f(x) return 1 + f(x) end
    f(1)
  end
  error("example " .. i .. " is damaged")
end

test("an error in a worker comes in its turn, with its traceback", function()
  local function until_error(kind, o)
    o = o or { num_workers = 2 }
    local seen = {}
    local loader = data.DataLoader(Failing(5, kind), o)
    local ok, message = pcall(function()
      for x in loader:iter() do seen[#seen + 1] = x:item() end
    end)
    expect.falsy(ok)
    expect.equal(seen, { 1, 2, 3, 4 })
    return message
  end
  local message = until_error()
  expect.truthy(message:find "workers_test.lua:%d+: DataLoader: worker 1, batch 5: ", message)
  expect.truthy(message:find "workers_test.lua:%d+: example 5 is damaged", message)
  expect.truthy(message:find "stack traceback:.*in method 'get'", message)
  expect.truthy(until_error("exit"):find "os.exit: a worker does not end the process")
  expect.truthy(until_error("table"):find "table: %w+")
  expect.truthy(until_error("memory"):find "memory")
  expect.truthy(until_error("deep"):find "stack overflow")
  expect.truthy(until_error("hook"):find "debug.sethook")
  local loader = data.DataLoader(Failing(2), { num_workers = 1 })
  local step = loader:iter()
  expect.equal(step():item(), 1)
  expect.error(step, "damaged")
  expect.equal(step():item(), 3)
end)

test("errors of samplers come in their turn", function()
  local Bad = class("BadSampler", data.Sampler)
  function Bad:init() end
  function Bad:size() return 3 end
  function Bad:iter()
    local i = 0
    return function()
      i = i + 1
      if i == 3 then error({ "own" }) end
      return i
    end
  end
  for _, n in ipairs(COUNTS) do
    local step = data.DataLoader({ 1, 2, 3 }, { sampler = Bad(), num_workers = n }):iter()
    expect.equal({ step():item(), step():item() }, { 1, 2 })
    local ok, problem = pcall(step)
    expect.falsy(ok)
    expect.equal(problem, { "own" })
  end
end)

test("a loop that is left ends its workers, whatever they run", function()
  for _, kind in ipairs { "loop", "caught" } do
    local started = system.clock()
    for x in data.DataLoader(Failing(3, kind), { num_workers = 2 }):iter() do
      if x:item() == 2 then break end
    end
    expect.error(function()
      for _ in data.DataLoader(Failing(3, kind), { num_workers = 2 }):iter() do error "in the loop" end
    end, "in the loop")
    do
      local step = data.DataLoader(Failing(3, kind), { num_workers = 1 }):iter()
      step()
    end
    collectgarbage()
    collectgarbage()
    for x in data.DataLoader(Failing(3, kind), { num_workers = 2 }) do
      if x:item() == 1 then break end
    end
    expect.truthy(system.clock() - started < 20)
  end
end)

test("timeout", function()
  local loader = data.DataLoader(Failing(2, "loop"), { num_workers = 1, timeout = 0.2 })
  local step = loader:iter()
  expect.equal(step():item(), 1)
  expect.error(step, "DataLoader timed out after 0.2 seconds")
  expect.equal(step(), nil)
  -- Persistent workers are started anew.
  local again = data.DataLoader(Failing(9, "loop"), { num_workers = 1, timeout = 60, persistent_workers = true })
  expect.equal(#all(again), 8)
end)

test("persistent workers keep their state", function()
  local Counting = class("Counting", data.Dataset)
  function Counting:init() self.calls = 0 end
  function Counting:size() return 2 end
  function Counting:get()
    self.calls = self.calls + 1
    return self.calls
  end
  local function passes(persistent)
    local loader = data.DataLoader(Counting(), { num_workers = 1, persistent_workers = persistent })
    all(loader)
    return all(loader)
  end
  expect.equal(passes(true), { { 3 }, { 4 } })
  expect.equal(passes(false), { { 1 }, { 2 } })
  local loader = data.DataLoader(Failing(20), { num_workers = 2, persistent_workers = true })
  local old = loader:iter()
  expect.equal(old():item(), 1)
  for x in loader do
    if x:item() == 3 then break end
  end
  expect.equal(#all(loader), 8)
  expect.error(old, "the loader has begun another pass")
end)

test("loaders in one another", function()
  local out = {}
  local inner = data.DataLoader({ 10, 20 }, { num_workers = 2 })
  for x in data.DataLoader({ 1, 2 }, { num_workers = 2 }) do
    for y in inner do out[#out + 1] = x:item() + y:item() end
  end
  expect.equal(out, { 11, 21, 12, 22 })
  local nested = through_worker(function()
    local sum = 0
    for x in data.DataLoader({ 1, 2, 3 }, { num_workers = 2 }) do sum = sum + x:item() end
    return sum
  end)
  expect.equal(nested, 6)
end)

test("options of workers", function()
  local cases = { timeout = 3, worker_init_fn = print, prefetch_factor = 2, persistent_workers = true,
    in_order = false }
  for name, value in pairs(cases) do
    expect.error(function() data.DataLoader({ 1 }, { [name] = value }) end,
      "DataLoader: '" .. name .. "' is for 'num_workers' above 0")
  end
  expect.error(function() data.DataLoader({ 1 }, { num_workers = -1 }) end, "at least 0")
  expect.error(function() data.DataLoader({ 1 }, { num_workers = 100000 }):iter() end, "at most 1024")
  expect.error(function() data.DataLoader({ 1 }, { multiprocessing_context = "fork" }) end,
    "'multiprocessing_context': workers are threads")
  expect.error(function() data.DataLoader({ 1 }, { num_workers = 1, prefetch_factor = 0 }) end, "at least 1")
  expect.error(function() data.DataLoader({ 1 }, { num_workers = 1, timeout = -1 }) end, "at least 0")
  expect.equal(#data.DataLoader({ 1 }, { num_workers = 0, pin_memory = false, timeout = 0 }), 1)
end)

harness.run()
