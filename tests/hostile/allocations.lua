-- tests/hostile/allocations.lua: makes the n-th allocation of a job fail, in a process of its own for
-- each n, and then looks whether that job and another one work there. Nothing may end the process.
-- usage: LD_PRELOAD=failing_malloc.so moonlet allocations.lua failing_malloc.so [TRIES [JOB [HOW]]]
-- TRIES is how many n are tried of each job, spread over all; 0: every one. JOB is one of those below.
-- HOW is "warm", where the job has run before, or "cold", where it is the first thing that runs.

local failing = assert(package.loadlib(arg[1], "luaopen_failing_malloc"))()
local tries, only, how = tonumber(arg[2] or 15), arg[3], arg[4]

local folder = os.tmpname()
os.remove(folder)
assert(os.execute("mkdir " .. folder))
local function path(name) return folder .. "/" .. name end

local function model(ml)
  local nn = ml.nn
  local net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 4))
  return net, ml.optim.Adam(net:parameters())
end

local jobs = {}

function jobs.train()
  local ml = require "moonlet"
  local net, optimizer = model(ml)
  for _ = 1, 2 do
    optimizer:zero_grad()
    ml.cross_entropy(net(ml.randn(2, 1, 8, 8)), ml.tensor { 1, 2 }):backward()
    optimizer:step()
  end
end

function jobs.graphs()
  local ml = require "moonlet"
  local x = ml.randn(6, 6, { requires_grad = true })
  x:register_hook(function(g) return g * 2 end)
  ;(x * x):sum():backward { create_graph = true }
  local y = x
  for _ = 1, 20 do y = (y * 2):sin() end
  y:sum():backward()
  local Double = ml.autograd.Function {
    forward = function(ctx, t) ctx:save_for_backward(t) return t * 2 end,
    backward = function(_, g) return g * 2 end,
  }
  Double(x):sum():backward()
  local function kept(t) return t end
  ml.autograd.graph.saved_tensors_hooks(kept, kept, function() return x:exp():sum() end):backward()
  ml.utils.checkpoint(function(t) return t:exp():sum() end, x):backward()
  x:unbind(1)
  x:view(36):split(5)
  x[{ 1, {} }]:sum():backward()
end

function jobs.transforms()
  local ml = require "moonlet"
  ml.func.vmap(function(x) return (x * x):sum() end)(ml.randn(3, 4))
  ml.func.hessian(function(x) return (x * x * x):sum() end)(ml.randn(3))
  ml.func.jvp(function(x) return x:sin() end, { ml.randn(3) }, { ml.ones(3) })
  ml.func.vmap(ml.func.grad(function(x) return (x:exp() * x):sum() end))(ml.randn(3, 4))
  local _ <close> = ml.autograd.forward_ad.dual_level()
  local dual = ml.autograd.forward_ad.make_dual(ml.randn(3), ml.ones(3))
  ml.autograd.forward_ad.unpack_dual(dual * dual)
end

function jobs.modes()
  local ml = require "moonlet"
  local x = ml.randn(4, 4, { requires_grad = true })
  ml.autocast({}, function() return x:matmul(x):sum() end):backward()
  ml.override(function(_, arguments, call) return call(arguments) end, function() return x + 1 end)
  ml.autograd.profiler.profile({}, function() return x:exp() end)
  ml.no_grad(function() return x * 2 end)
  ml.inference_mode(function() return x * 2 end)
  local thread = coroutine.wrap(function()
    local _ <close> = ml.no_grad()
    coroutine.yield(ml.ones(2))
    return x + 1
  end)
  thread()
  thread()
end

function jobs.ops()
  local ml = require "moonlet"
  local x = ml.randn(6, 6)
  ml.linalg.svd(x)
  ml.linalg.solve(x, ml.randn(6, 2))
  ml.linalg.eigh(x + x:t())
  x:sort()
  x:unique()
  x:median()
  ml.fft.rfft(x)
  tostring(x)
  x:tolist()
  x[ml.tensor { 1, 2 }]:sum()
  ml.cat { x, x }
  x:nonzero()
  ml.einsum("ij,jk->ik", x, x)
  ml.nn.LSTM(6, 3)(ml.randn(2, 3, 6))
  ml.nn.TransformerEncoderLayer(8, 2)(ml.randn(3, 2, 8))
  ml.distributions.Normal(0, 1):sample { 3 }
  ml.randperm(100)
  ml.multinomial(ml.ones(10), 3)
  require "moonlet.json".decode '{"a":[1,2,{"b":null}]}'
  x:storage():tolist()
end

-- On several threads, where there is enough to do.
function jobs.threads()
  local ml = require "moonlet"
  ml.set_num_threads(2)
  local x = ml.ones(300, 300)
  assert(x:matmul(x):sum():item() == 300 ^ 3)
  local y = ml.ones(1 << 18, { requires_grad = true })
  ;(y * 2):exp():sum():backward()
  y:detach():sort()
  ml.set_num_threads(1)
end

function jobs.save()
  local ml = require "moonlet"
  local net = model(ml)
  ml.save(path "s.safetensors", net:state_dict())
  ml.save(path "s.pt", { a = ml.ones(5), b = { 1, 2, "x" } })
  ml.save(path "s.npz", { a = ml.ones(5) })
  ml.save(path "s.npy", ml.ones(5))
end

function jobs.load()
  local ml = require "moonlet"
  ml.load(path "l.safetensors")
  ml.load(path "l.pt")
  ml.load(path "l.npz")
  ml.load(path "l.npy")
  ml.load(path "l.safetensors", { mmap = true })
end

function jobs.workers()
  local ml = require "moonlet"
  local Set = require "moonlet.class"("Set", ml.data.Dataset)
  function Set:init() self.t = require "moonlet".ones(2) end -- luacheck: ignore
  function Set:size() return 6 end -- luacheck: ignore
  function Set:get(i) return self.t * i end -- luacheck: ignore
  local sum = 0
  for batch in ml.data.DataLoader(Set(), { num_workers = 2, batch_size = 2 }):iter() do
    sum = sum + batch:sum():item()
  end
  assert(sum == 42)
end

local names = {}
for name in pairs(jobs) do names[#names + 1] = name end
table.sort(names)

-- What must work after the n-th allocation of a job has failed: that job, and another one in turn.
local function works(n, name)
  collectgarbage()
  for _, each in ipairs { name, names[n % #names + 1] } do
    local ok, message = pcall(jobs[each])
    if not ok then error(each .. ": " .. tostring(message), 0) end
  end
  collectgarbage()
end

-- The files that are loaded, made by another process: here nothing has run yet.
assert(failing.try(1 << 40, 1, function() end, function()
  local ml = require "moonlet"
  local net = model(ml)
  ml.save(path "l.safetensors", net:state_dict())
  ml.save(path "l.pt", { a = ml.ones(5), b = { 1, 2, "x" } })
  ml.save(path "l.npz", { a = ml.ones(5) })
  ml.save(path "l.npy", ml.ones(5))
  require "moonlet".set_num_threads(1)
end) == nil)

local tried, bad = 0, 0

local function sweep(kind, name)
  -- Counted in a process of its own too; it says so by an error.
  local job = jobs[name]
  local count = tonumber(failing.try(1 << 40, 1, function() end, function()
    if kind == "warm" then job() end
    error(failing.count(job), 0)
  end):match "^status 1: (%d+)$")
  local step = tries == 0 and 1 or math.max(1, count // tries)
  for n = 1 + tried % step, count, step do
    for _, many in ipairs(tries == 0 and { 1, 3, 1 << 40 } or { ({ 1, 3, 1 << 40 })[n % 3 + 1] }) do
      tried = tried + 1
      local wrong = failing.try(n, many, job, function() works(n, name) end)
      if wrong then
        bad = bad + 1
        print(("FAIL %s %s: allocations from %d, %d of them: %s"):format(kind, name, n, many, wrong))
        io.stdout:flush()
      end
    end
  end
  print(("%s %s: %d allocations"):format(kind, name, count))
  io.stdout:flush()
end

for _, kind in ipairs { "cold", "warm" } do
  if kind == "warm" then
    for _, name in ipairs(names) do jobs[name]() end
  end
  for _, name in ipairs(names) do
    if (not only or name == only) and (not how or how == kind) then sweep(kind, name) end
  end
end
os.execute("rm -rf " .. folder)
print(("%d tried, %d failed"):format(tried, bad))
os.exit(bad == 0 and 0 or 1)
