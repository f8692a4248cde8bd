-- tests/lua/cuda/cuda_loops_test.lua: compiled functions on a CUDA device, whose chains of pointwise ops
-- are kernels that are compiled while the program runs: the same bits as op by op. Skips without a
-- device, and where nothing compiles kernels.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

local CUDA = { device = "cuda" }

-- How many steps the plan of a function has that was called often enough.
local function steps_of(fast) return tonumber(fast:explain():match "in (%d+) steps?") end

local function compiles()
  local fast = ml.compile(function(x) return (x * 2 + 1):relu() end)
  for _ = 1, 3 do fast(ml.ones(4, CUDA)) end
  return steps_of(fast) == 1
end
local can_compile = ml.cuda.is_available() and compiles()

local function on_device(name, body)
  test(name, function()
    if not ml.cuda.is_available() then harness.skip "no CUDA device" end
    if not can_compile then harness.skip "nothing compiles kernels of CUDA" end
    body()
  end)
end

local function same(f, steps, ...)
  local fast = ml.compile(f)
  local want = { f(...) }
  local got
  for _ = 1, 3 do got = { fast(...) } end
  expect.equal(#got, #want)
  for i = 1, #want do
    expect.equal(got[i].dtype, want[i].dtype)
    -- Bit by bit, NaN included.
    local bytes = function(x) return x:contiguous():view(ml.uint8):tolist() end
    expect.equal(bytes(got[i]), bytes(want[i]))
  end
  expect.equal(steps_of(fast), steps)
end

local function numbers(...) return ml.randn(...):to "cuda" end

on_device("a chain with broadcasting", function()
  ml.manual_seed(1)
  same(function(x, y, z) return ((x * y + 0.5) / z):tanh() - x:exp() end, 1, numbers(6, 8), numbers(8), numbers(6, 1))
end)

on_device("several results, and layouts that are not dense", function()
  ml.manual_seed(2)
  local x = numbers(5, 7)
  same(function(a, b) return (a + b) * 2, (a - b):abs():sqrt() end, 1, x:t(), numbers(7, 5))
  same(function(a) return (a * 3 + 1):sigmoid() end, 1, x[{ {}, { 2, 6, 2 } }])
  -- Not aligned to packs.
  same(function(a) return (a * 3 + 1):sigmoid() end, 1, numbers(17):narrow(1, 2, 16))
end)

on_device("dtypes that are computed in wider ones", function()
  ml.manual_seed(3)
  for _, dtype in ipairs { ml.float16, ml.bfloat16, ml.float64 } do
    same(function(x, y) return (x * y + x):erf() * 0.1 end, 1, numbers(4, 16):to(dtype), numbers(4, 16):to(dtype))
  end
  -- Activations of 16 bits alone are approximations, in loops they are computed in float32.
  local function f(x, y) return (x * y + x):gelu() end
  local fast = ml.compile(f)
  for _, dtype in ipairs { ml.float16, ml.bfloat16 } do
    for _ = 1, 4 do
      local x, y = numbers(4, 16):to(dtype), numbers(4, 16):to(dtype)
      local got, want = fast(x, y), f(x, y)
      expect.truthy(got:eq(want):logical_or(ml.nextafter(want, got):eq(got)):all():item())
    end
  end
  local i = ml.randint(-100, 100, { 24 }, CUDA)
  same(function(x) return (x * 3 - 7):abs() + x end, 1, i:to(ml.int32))
  same(function(x) return (x * 3 - 7):abs() + x end, 1, i:to(ml.int8))
  same(function(x) return ml.where(x:gt(0), x * 2, -x):to(ml.float16) + 1 end, 1, numbers(24))
end)

on_device("functions of few lines and of many", function()
  ml.manual_seed(4)
  local x = ml.rand { 64, device = "cuda" } * 0.8 + 0.1
  same(function(a)
    return a:exp():log1p(), a:sin() + a:cos(), a:erf() * a:erfc(), a:atan() - a:asin(), a:expm1():sqrt(),
      a:rsqrt() * a:cosh(), a:lgamma() + a:digamma(), a:pow(2.5):log()
  end, 1, x)
end)

on_device("what divides integers runs op by op, with its error", function()
  local x, zero = ml.arange(1, 8, CUDA), ml.zeros(8, { dtype = ml.int64, device = "cuda" })
  local fast = ml.compile(function(a, b) return (a * 2 + 1):floor_divide(b + 1) end)
  for _ = 1, 3 do fast(x, zero) end
  expect.equal(fast(x, zero):tolist(), ((x * 2 + 1):floor_divide(zero + 1)):tolist())
  local ok = pcall(function() return fast(x, zero - 1):tolist() end)
  expect.equal(ok, false)
end)

on_device("steps of training", function()
  local function run(compiled)
    ml.manual_seed(5)
    local net = ml.nn.Sequential(ml.nn.Linear(4, 8), ml.nn.GELU(), ml.nn.LayerNorm(8), ml.nn.Linear(8, 2)):to "cuda"
    local optimizer = ml.optim.AdamW(net:parameters(), { lr = 0.01 })
    local x, y = numbers(6, 4), numbers(6, 2)
    local step = function()
      optimizer:zero_grad()
      local loss = (net(x) - y):square():mean()
      loss:backward()
      optimizer:step()
      return loss:detach()
    end
    if compiled then step = ml.compile(step) end
    local losses = {}
    for i = 1, 6 do losses[i] = step():item() end
    local weights = {}
    for _, p in ipairs(net:parameters()) do weights[#weights + 1] = p:detach():tolist() end
    return losses, weights
  end
  local want, want_weights = run(false)
  local got, got_weights = run(true)
  expect.equal(got, want)
  expect.equal(got_weights, want_weights)
end)

on_device("compiled kernels come from the cache", function()
  local folder = os.getenv "MOONLET_CACHE"
  if not folder or folder == "off" then harness.skip "no folder of a cache is set" end
  local files = io.popen(("ls '%s' | grep -c cubin"):format(folder)):read "n"
  expect.equal(files > 0, true)
  if not os.getenv "MOONLET_EMULATED_NVRTC" then harness.skip "the compiler cannot be taken away" end
  -- With a compiler that makes nothing, from the files of this process.
  local script = [[
    local ml = require "moonlet"
    local fast = ml.compile(function(x) return (x * 2 + 1):relu() end)
    for _ = 1, 3 do y = fast(ml.ones(4, { device = "cuda" })) end
    print(fast:explain():match "in (%%d+) step", y:sum():item())]]
  local name = os.tmpname()
  local file = assert(io.open(name, "w"))
  file:write((script:gsub("%%%%", "%%")))
  file:close()
  local out = io.popen(("MOONLET_EMULATED_NVRTC=false '%s' '%s' 2>&1"):format(arg[-1], name)):read "a"
  os.remove(name)
  expect.equal(out, "1\t12.0\n")
end)

harness.run()
