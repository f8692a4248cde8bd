-- tests/bench/bench.lua: how fast Moonlet is: the lines `name value unit` of peer_torch.py, with
-- the same sizes, repeats and medians.  usage: moonlet bench.lua [THREADS [REPEATS [FILTER]]]
-- REPEATS scales the number of rounds (0.1 for a quick look); FILTER is part of a measure's name.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path
local ml = require "moonlet"
local models = require "models"
local F = ml.nn.functional
local clock = require("moonlet.system").clock

local threads = math.tointeger(tonumber(arg[1] or "1")) or error "THREADS must be an integer"
local repeats = tonumber(arg[2] or "1") or error "REPEATS must be a number"
local filter = arg[3]
ml.set_num_threads(threads)
ml.manual_seed(0)

local function scaled(count) return math.max(1, math.floor(count * repeats + 0.5)) end

-- The median over n rounds of the seconds one call takes; a first call does not count.
local function median(f, n, inner)
  n, inner = scaled(n or 9), scaled(inner or 1)
  f()
  local rounds = {}
  for i = 1, n do
    local start = clock()
    for _ = 1, inner do f() end
    rounds[i] = (clock() - start) / inner
  end
  table.sort(rounds)
  local middle = (n + 1) // 2
  return n % 2 == 1 and rounds[middle] or (rounds[middle] + rounds[middle + 1]) / 2
end

-- Prints a measure; `seconds` is called only when the filter lets the name through.
local function show(name, unit, value)
  if filter and not name:find(filter, 1, true) then return end
  local ok, number = pcall(value)
  if ok then print(("%s %.4g %s"):format(name, number, unit))
  else print(("%s failed: %s"):format(name, number)) end
  io.stdout:flush()
end

local function nanoseconds(name, f, count)
  show(name, "ns", function()
    count = scaled(count or 20000)
    local function loop() for _ = 1, count do f() end end
    return median(loop, 7) / count * 1e9
  end)
end

local function rate(name, unit, work, f, n, inner)
  show(name, unit, function() return work / median(f, n, inner) / 1e9 end)
end

local function per_element(name, count, f)
  show(name, "ns/elem", function() return median(f) / count * 1e9 end)
end

local function small_ops()
  local one, a, b, m = ml.ones(1), ml.ones(10), ml.ones(10), ml.ones(4, 4)
  local g = ml.ones { 10, requires_grad = true }
  nanoseconds("op.empty_loop", function() end)
  nanoseconds("op.add_inplace_1", function() one:add_(1) end)
  nanoseconds("op.add_out_10", function() return a + b end)
  nanoseconds("op.mul_scalar_10", function() return a * 2.0 end)
  nanoseconds("op.add_grad_10", function() return g + b end)
  nanoseconds("op.select", function() return m[1] end)
  nanoseconds("op.item", function() return m[{ 1, 2 }]:item() end)
  nanoseconds("op.matmul_4x4", function() return m:matmul(m) end)
  show("op.chain30_fwd_bwd", "us", function()
    return 1e6 * median(function()
      local x = g
      for _ = 1, 10 do x = ml.tanh(x * 2.0 + b) end
      x:sum():backward()
    end, 9, 200)
  end)
end

local function elementwise()
  local n = 10000000
  local x, y, z = ml.randn(n), ml.randn(n), ml.empty(n)
  rate("ew.add_out", "GB/s", 12 * n, function() ml.add(x, y, { out = z }) end)
  local positive = x:abs()
  for _, name in ipairs { "exp", "tanh", "sigmoid", "log", "sin", "erf", "sqrt" } do
    local f, s = ml[name], (name == "log" or name == "sqrt") and positive or x
    per_element("ew." .. name, n, function() f(s, { out = z }) end)
  end
  per_element("ew.gelu", n, function() return F.gelu(x) end)
  per_element("ew.where", n, function() return ml.where(x:gt(0), x, y) end)
  rate("red.sum_all", "GB/s", 4 * n, function() return x:sum() end)
  show("sort.1e6", "ms", function()
    return 1e3 * median(function() return x["1:1000000"]:sort() end)
  end)
  per_element("cumsum.1e7", n, function() return x:cumsum(1) end)
  per_element("rand.normal_1e7", n, function() z:normal_() end)
end

local function matrices()
  local q, index = ml.randn(4000, 4000), ml.randint(4000, { 4000 })
  rate("red.sum_dim0", "GB/s", 4 * 16e6, function() return q:sum(1) end)
  rate("red.sum_dim1", "GB/s", 4 * 16e6, function() return q:sum(2) end)
  rate("red.max_dim1", "GB/s", 4 * 16e6, function() return q:max(2) end)
  rate("copy.transpose", "GB/s", 8 * 16e6, function() return q:t():contiguous() end)
  per_element("softmax.4000x4000", 16e6, function() return q:softmax(2) end)
  per_element("layernorm.4000x4000", 16e6, function() return F.layer_norm(q, { 4000 }) end)
  rate("index_select.4000x4000", "GB/s", 8 * 16e6, function() return q:index_select(1, index) end)
end

local function products()
  for _, n in ipairs { 64, 256, 512, 1024, 2048 } do
    local p, r = ml.randn(n, n), ml.randn(n, n)
    rate("mm." .. n, "GFLOP/s", 2 * n ^ 3, function() return p:matmul(r) end, 7,
      math.max(1, 256 // n * 4))
  end
  local p, r = ml.randn(1024, 1024):double(), ml.randn(1024, 1024):double()
  rate("mm.double_1024", "GFLOP/s", 2 * 1024 ^ 3, function() return p:matmul(r) end, 5)
  local bp, br = ml.randn(64, 128, 64), ml.randn(64, 64, 128)
  rate("bmm.64x128x64x128", "GFLOP/s", 2 * 64 * 128 * 64 * 128,
    function() return bp:matmul(br) end)
  local x, w = ml.randn(16, 64, 56, 56), ml.randn(64, 64, 3, 3)
  rate("conv.16x64x56x56_k3", "GFLOP/s", 2 * 16 * 64 * 64 * 9 * 56 * 56,
    function() return F.conv2d(x, w, { padding = 1 }) end, 5)
  local dx, dw = ml.randn(8, 96, 56, 56), ml.randn(96, 1, 5, 5)
  rate("conv.depthwise_8x96x56x56_k5", "GFLOP/s", 2 * 8 * 96 * 25 * 56 * 56,
    function() return F.conv2d(dx, dw, { padding = 2, groups = 96 }) end, 5)
end

local function training()
  for _, each in ipairs { { "mlp", 15 }, { "tiny", 200 }, { "lenet", 15 }, { "gpt", 9 }, { "lstm", 9 },
    { "charlstm", 7 }, { "resnet", 9 }, { "vit", 9 }, { "diffusion", 9 } } do
    local name, rounds = table.unpack(each)
    local model = models[name]()
    show("train." .. model.name, "ms/step", function() return 1e3 * median(model.step, rounds) end)
  end
end

-- Chains of pointwise ops, by the names of their measures.
local chains = {}

function chains.gelu(x)
  return x * 0.5 * (1 + ml.tanh((x + x * x * x * 0.044715) * 0.7978845608))
end

function chains.nine(x)
  local y = x * 2
  for _ = 1, 4 do y = ml.tanh(y + x) end
  return y
end

function chains.adam(x)
  local m = x * 0.9 + x * 0.1
  local v = x * x * 0.999 + x * x * 0.001
  return x - m / ((v / 0.5):sqrt() + 1e-8) * 0.001
end

-- What a first call costs beyond an eager one, and calls of the plan: each of a function of its own.
local function compiled_calls(name, f, arguments, count)
  show("compile." .. name .. ".first_call", "ms", function()
    local times = {}
    for i = 1, 5 do
      local fast = ml.compile(function(...) return f(...) end)
      local start = clock()
      f(table.unpack(arguments))
      local eager = clock() - start
      fast(table.unpack(arguments))
      start = clock()
      fast(table.unpack(arguments))
      times[i] = clock() - start - eager
    end
    table.sort(times)
    return 1e3 * times[3]
  end)
  local fast = ml.compile(f)
  for _ = 1, 4 do fast(table.unpack(arguments)) end
  show("compile." .. name .. ".eager", "us", function()
    return 1e6 * median(function() f(table.unpack(arguments)) end, 9, count)
  end)
  show("compile." .. name .. ".compiled", "us", function()
    return 1e6 * median(function() fast(table.unpack(arguments)) end, 9, count)
  end)
end

local function compiled()
  for _, name in ipairs { "gelu", "nine", "adam" } do
    for _, n in ipairs { 64, 1000, 4000000 } do
      local x = ml.rand(n)
      ml.no_grad(function()
        compiled_calls(("%s_%d"):format(name, n), chains[name], { x }, n > 10000 and 1 or 2000)
      end)
    end
  end
  for _, each in ipairs { { "mlp", 15 }, { "tiny", 15 }, { "lenet", 9 }, { "gpt", 9 }, { "charlstm", 7 },
    { "resnet", 9 }, { "vit", 9 } } do
    local name, rounds = table.unpack(each)
    local model = models[name]()
    local fast = ml.compile(model.step)
    show("compile." .. model.name .. ".eager", "ms/step", function()
      return 1e3 * median(model.step, rounds)
    end)
    show("compile." .. model.name .. ".compiled", "ms/step", function()
      for _ = 1, 4 do fast() end
      return 1e3 * median(fast, rounds)
    end)
  end
end

print("moonlet", ml.version, "threads", ml.get_num_threads())
small_ops()
elementwise()
matrices()
products()
training()
compiled()
