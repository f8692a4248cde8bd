-- tests/fuzz/compiled_guards.lua [COUNT] [SEED]: random functions, compiled and plain side by side,
-- with changes of shapes, arguments that share memory, weights, upvalues, fields and modes between
-- the calls: results, writes and random numbers must be the same to the last bit.

-- luacheck: globals fuzz_scale

local ml = require "moonlet"

local count, seed = tonumber(arg[1]) or 300, tonumber(arg[2]) or 1

-- Numbers of its own, so that both sides draw the same programs.
local function new_draw(from)
  local state = from * 2654435761 % 4294967296
  local function draw(n)
    state = (state * 1664525 + 1013904223) % 4294967296
    return state // 65536 % n + 1
  end
  for _ = 1, 5 do draw(2) end
  return draw
end

local UNARY = { "relu", "tanh", "exp", "neg", "abs", "sigmoid", "clone", "detach", "softmax_last",
  "mean_keep", "t", "reshape_flat", "contiguous", "sum_all", "max_last", "sort_last", "unsqueeze" }
local BINARY = { "add", "sub", "mul", "maximum", "where_gt", "add_", "mul_", "copy_", "cat", "lerp" }
local SOURCES = { "zeros", "rand", "arange", "dropout", "constant", "weight", "scaled", "batch_norm",
  "linear", "branch", "setindex", "global", "full_like", "read", "read_branch" }

local unary = {
  softmax_last = function(x) return x:dim() > 0 and x:softmax(-1) or x end,
  mean_keep = function(x) return x:mean { dim = 1, keepdim = true } end,
  t = function(x) return x:t() end,
  reshape_flat = function(x) return x:reshape(1, -1) end,
  sum_all = function(x) return x:sum():reshape(1, 1) end,
  max_last = function(x) local v = x:max(2) return v:unsqueeze(2) end,
  sort_last = function(x) return (x:sort(2)) end,
  unsqueeze = function(x) return x:unsqueeze(1):squeeze(1) end,
}
local function fits(x, y)
  return x:size(1) == y:size(1) and x:size(2) == y:size(2)
end
local binary = {
  where_gt = function(x, y) return ml.where(x:gt(y), x, y) end,
  cat = function(x, y) return ml.cat({ x, y }, 1):narrow(1, 1, x:size(1)) end,
  lerp = function(x, y) return x:lerp(y, 0.25) end,
}
for _, name in ipairs { "add_", "mul_", "copy_" } do
  binary[name] = function(x, y) return x[name](x, y:clone()) end
end

-- What the function of a program reads: weights, numbers, flags, modules.
local function new_environment(draw)
  local function weight() return ml.arange(1, 6):to(ml.float32):reshape(2, 3) * (draw(9) / 10) end
  ml.manual_seed(draw(1000))
  return {
    weight = weight(), scale = draw(7) / 2, flag = draw(2) == 1, nested = { list = { draw(5) } },
    linear = ml.nn.Linear(3, 3), norm = ml.nn.BatchNorm1d(3), drop = ml.nn.Dropout(0.4),
  }
end

local sources = {
  zeros = function(x) return ml.zeros(x:size(1), x:size(2)) end,
  rand = function(x) return ml.rand(x:size(1), x:size(2)) end,
  arange = function(x) return ml.arange(1, x:numel()):to(ml.float32):reshape(x:size(1), x:size(2)) end,
  dropout = function(x, env) return env.drop(x) end,
  constant = function(x) return x * ml.tensor { 0.5 } end,
  weight = function(_, env) return env.weight end,
  scaled = function(x, env) return x * env.scale + env.nested.list[1] end,
  batch_norm = function(x, env) return x:size(2) == 3 and x:size(1) > 1 and env.norm(x) or x end,
  linear = function(x, env) return x:size(2) == 3 and env.linear(x) or x end,
  branch = function(x, env) if env.flag then return x + 1 end return x - 1 end,
  setindex = function(x)
    local y = x:clone()
    y[1] = 0.5
    return y
  end,
  global = function(x) return x * (fuzz_scale or 1) end,
  read = function(x) return x * (x:sum():item() + 1) end,
  read_branch = function(x)
    if x:max():item() > 1 then return x * 0.5 end
    return x + x:tolist()[1][1]
  end,
  full_like = function(x) return ml.full_like(x, 0.75) end,
}

local function new_program(draw)
  local steps = {}
  for i = 1, 2 + draw(9) do
    local kind = draw(3)
    local names = kind == 1 and UNARY or kind == 2 and BINARY or SOURCES
    steps[i] = { kind = kind, name = names[draw(#names)], a = draw(i + 1), b = draw(i + 1) }
  end
  return steps
end

-- A step that its operands do not suit gives the first one.
local function run_step(step, values, env)
  local x, y = values[step.a], values[step.b]
  if step.kind == 1 then
    local f = unary[step.name]
    if f then return f(x) end
    return x[step.name](x)
  elseif step.kind == 3 then
    return sources[step.name](x, env)
  end
  if not fits(x, y) or x.dtype ~= y.dtype then return x end
  local f = binary[step.name]
  if f then return f(x, y) end
  return x[step.name](x, y)
end

local function new_function(steps, env)
  return function(x, y, extra)
    local values = { x, y }
    for i, step in ipairs(steps) do
      local value = run_step(step, values, env)
      values[i + 2] = extra and i == 1 and value * extra or value
    end
    return values[#values], { values[#values - 1], n = #values }, values[3]
  end
end

-- --- what changes between calls -------------------------------------------------------------------

local CHANGES = {
  function(env) env.scale = env.scale + 1 end,
  function(env) env.flag = not env.flag end,
  function(env) env.weight = env.weight * 2 end,
  function(env) env.weight:add_(1) end,
  function(env) env.weight.data = env.weight * 0.5 end,
  function(env) env.nested.list[1] = env.nested.list[1] + 1 end,
  function(env) env.nested = { list = { 4 } } end,
  function(env) env.drop:train(not env.drop.training) end,
  function(env) env.norm:train(not env.norm.training) end,
  function(env) ml.no_grad(function() env.linear.weight:mul_(0.5) end) end,
  function(env) env.linear.bias = nil end,
  function(env) env.extra = {} end,
  function() fuzz_scale = (fuzz_scale or 1) + 1 end,
}

-- With `alike`, a number, all but the sizes is the same in each call.
local function new_arguments(draw, scale, alike)
  local rows, extra = 1 + draw(alike and 9 or 2), alike and alike % 4 + 1 or draw(3)
  local base = (ml.arange(1, 60):to(ml.float32) * scale):reshape(20, 3)
  local at = draw(4)
  local x = base[{ { at, at + rows - 1 } }]
  local how = alike and alike % 5 + 1 or draw(5)
  local y = how == 1 and x or how == 2 and base[{ { at + 1, at + rows } }] or x:clone() + 0.5
  return { x, y, extra == 1 and 2 or extra == 2 and 0.5 or nil, n = 3 }, base
end

local function equal(a, b)
  if ml.is_tensor(a) then
    if a.dtype ~= b.dtype or tostring(a.shape) ~= tostring(b.shape) then return false end
    local p, q = a:contiguous():detach(), b:contiguous():detach()
    return p:view(ml.int32):equal(q:view(ml.int32))
  end
  if type(a) ~= "table" then return a == b end
  for key, value in pairs(a) do
    if b[key] == nil or not equal(value, b[key]) then return false end
  end
  return true
end

-- Runs one call under the mode that was drawn, with the same random numbers on both sides.
local function call(f, arguments, mode, number)
  ml.manual_seed(number)
  local function go() return table.pack(pcall(f, arguments[1], arguments[2], arguments[3])) end
  local got = mode == 1 and ml.inference_mode(go) or ml.no_grad(go)
  return got, ml.get_rng_state()
end

local function state_of(env)
  return { env.weight, env.linear.weight, env.norm.running_mean, env.norm.num_batches_tracked:float() }
end

local runs, foretold = 0, 0

-- Every third program meets many sizes, which are foretold after a few.
local function check_program(number)
  local many = number % 3 == 0
  local function side(compiled)
    local draw = new_draw(number)
    local steps, env = new_program(draw), new_environment(draw)
    local f = new_function(steps, env)
    local options = many and { dynamic = number % 2 == 0 or nil } or nil
    return { f = compiled and ml.compile(f, options) or f, env = env, draw = draw, steps = steps }
  end
  ml._compiled.leave_out(number % 2 * 1000000)
  local left, right = side(true), side(false)
  for i = 1, many and 80 or 24 do
    local got = {}
    local global = fuzz_scale
    for k, s in ipairs { left, right } do
      fuzz_scale = global
      if s.draw(many and 30 or 6) == 1 then CHANGES[s.draw(#CHANGES)](s.env) end
      local arguments, base = new_arguments(new_draw(number * 7 + s.draw(many and 9 or 2)), i / 7,
        many and number)
      local mode = s.draw(many and 60 or 10)
      local results, rng = call(s.f, arguments, mode, number * 100 + i)
      got[k] = { results, base, state_of(s.env), rng, s.env.flag, results.n }
    end
    if not equal(got[1], got[2]) then
      local names = {}
      for n, step in ipairs(left.steps) do names[n] = ("%s %d %d"):format(step.name, step.a, step.b) end
      print(("program %d, call %d: results differ: %s"):format(number, i, table.concat(names, ", ")))
      print(left.f:explain())
      print(table.unpack(got[1][1]))
      print(table.unpack(got[2][1]))
      return false
    end
  end
  local text = left.f:explain()
  for n in text:gmatch "run (%d+) time" do runs = runs + math.tointeger(n) end
  if text:find "as foretold" then foretold = foretold + 1 end
  fuzz_scale = nil
  return true
end

warn "@off"
local failed = 0
for number = seed, seed + count - 1 do
  if not check_program(number) then failed = failed + 1 end
end
print(("%d programs, %d calls by plans, %d with foretold sizes, %d with differences"):format(count,
  runs, foretold, failed))
assert(foretold > count / 10, "too few sizes were foretold")
assert(runs > count, "too few plans ran")
os.exit(failed == 0 and 0 or 1)
