-- tests/bench/sweep.lua: times every op of the table, from its samples scaled up, for
-- tests/bench/sweep.py, which starts it: for each measure one line of JSON about a call and its
-- times, with the tensors in a file; then it waits for a line while PyTorch is timed on the same, and
-- times the call again for each line that says so.
-- usage: MOONLET_OP_CASES=... moonlet sweep.lua THREADS FILE [FILTER]: a family or part of a name

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../lua/?.lua;" .. package.path
package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path
local json = require "moonlet.json"
local ml = require "moonlet"
local samples = require "op_samples"
local own_samples = require "sweep_samples"
local seconds = require("timing").seconds

local threads = assert(math.tointeger(tonumber(arg[1])), "THREADS must be an integer")
local path, filter = arg[2], arg[3]
-- In a file until its turn comes: a heap of some MiB would be marked during every measure, and a
-- training script has a tenth of that.
local cases = assert(io.tmpfile())
for _, case in ipairs(dofile(assert(os.getenv "MOONLET_OP_CASES", "set MOONLET_OP_CASES to op_cases.lua"))) do
  cases:write(json.encode(case), "\n")
end
cases:seek "set"
ml.set_num_threads(threads)

-- What is measured: elements of the first tensor, dtype, layout.
local SETTINGS = {
  { count = 16, dtype = "float32" }, { count = 1000, dtype = "float32" },
  { count = 1000000, dtype = "float32" }, { count = 1000000, dtype = "float32", transposed = true },
  { count = 1000000, dtype = "bfloat16" }, { count = 1000000, dtype = "float64" },
  { count = 1000000, dtype = "int64" },
}

-- The most elements where an op's work grows faster than they do.
local MOST = { decomposition = 40000 }

-- --- arguments --------------------------------------------------------------------------------

local function scaled(sizes, factor)
  local out = {}
  for i, size in ipairs(sizes) do
    out[i] = size <= 1 and size or math.max(1, math.floor(size * factor + 0.5))
  end
  return out
end

-- The functions that samples make tensors with, their sizes multiplied by `factor`.
local function scaled_makers(factor)
  local function sizes_of(...)
    return scaled(type((...)) == "table" and (...) or { ... }, factor)
  end
  local makers = {}
  for _, name in ipairs { "randn", "rand", "ones", "zeros" } do
    makers[name] = function(...) return ml[name](sizes_of(...)) end
  end
  function makers.randint(low, high, sizes)
    if type(high) == "table" then return ml.randint(low, sizes_of(high)) end
    return ml.randint(low, high, sizes_of(sizes))
  end
  return makers
end

local SIZES = { size = true, sizes = true, shape = true }

-- The arguments of a text; `count` is what `n` is in it.
local function arguments(case, text, factor, count)
  local makers = scaled_makers(factor)
  makers.n = count
  function makers.side(rank) return math.floor(count ^ (1 / rank) + 0.5) end
  local env = setmetatable({ math = math }, {
    __index = function(_, name) return makers[name] or ml._internal[name] or ml[name] end,
  })
  env.ml = setmetatable({}, { __index = env })
  local args = table.pack(assert(load("return " .. text, "=" .. case.name, "t", env))())
  for i = 1, args.n do
    if SIZES[case.names[i]] and type(args[i]) == "table" then args[i] = scaled(args[i], factor) end
  end
  return args
end

local function first_tensor(args)
  for i = 1, args.n do
    local value = args[i]
    if type(value) == "table" then value = value[1] end
    if ml.is_tensor(value) then return value end
  end
end

local function has(list, item)
  for _, each in ipairs(list) do if each == item then return true end end
end

local FIXED = { Positions = true, Mask = true }

-- The arguments in a setting, or nil when it says nothing about this sample.
local function prepared(case, text, setting)
  if not has(case.dtypes, setting.dtype) then return nil end
  ml.manual_seed(1)
  local count = math.min(setting.count, MOST[case.family] or math.maxinteger)
  local factor = 1
  if not own_samples[case.name] then
    local first = first_tensor(arguments(case, text, 1))
    if not first or first.ndim == 0 or first:numel() == 0 then return nil end
    factor = (count / first:numel()) ^ (1 / first.ndim)
  end
  local args = arguments(case, own_samples[case.name] or text, factor, count)
  return samples.map(case, args, function(value, kind)
    local floating = value.dtype == "float32"
    if floating and not FIXED[kind] then
      value = setting.dtype == "int64" and (value * 10):to "int64" or value:to(setting.dtype)
    end
    if setting.transposed and value.ndim >= 2 then
      value = value:transpose(-1, -2):contiguous():transpose(-1, -2)
    end
    return value
  end)
end

-- --- gradients --------------------------------------------------------------------------------

-- A function that computes the gradients of a call, or nil.
local function backward(case, args)
  local inputs = {}
  args = samples.map(case, args, function(value, _, name)
    if not value.dtype:find "float" or has(case.constant, name) then return value end
    value = value:detach():requires_grad_()
    inputs[#inputs + 1] = value
    return value
  end)
  if #inputs == 0 then return nil end
  local outputs, gradients = {}, {}
  for _, result in ipairs(samples.results(case, args)) do
    if ml.is_tensor(result) and result.requires_grad then
      outputs[#outputs + 1] = result
      gradients[#gradients + 1] = ml.ones_like(result)
    end
  end
  if #outputs == 0 then return nil end
  local options = { grad_outputs = gradients, retain_graph = true, allow_unused = true }
  return function() ml.grad(outputs, inputs, options) end
end

-- --- the protocol -----------------------------------------------------------------------------

-- A value as PyTorch's side reads it; tensors go to `tensors` and are named there.
local function described(value, tensors)
  if value == nil then return { none = true } end
  if ml.is_tensor(value) then
    local name = "t" .. #tensors + 1
    tensors[#tensors + 1] = value:contiguous()
    tensors.by_name[name] = tensors[#tensors]
    return { t = name, transposed = value.ndim >= 2 and not value:is_contiguous() }
  end
  if type(value) ~= "table" then return { v = value } end
  local list, named = {}, {}
  for key, item in pairs(value) do
    if math.type(key) ~= "integer" then named[key] = described(item, tensors) end
  end
  for i = 1, #value do list[i] = described(value[i], tensors) end
  return { l = list, k = next(named) and named or nil }
end

local function measure(case, text, setting)
  local args = prepared(case, text, setting)
  if not args then return end
  local call = samples.find(case)
  local function forward() call(table.unpack(args, 1, args.n)) end
  local line = { family = case.family, name = case.name, sample = text, setting = setting, torch = case.torch,
    types = case.args, names = case.names, forward = seconds(forward), inputs = {} }
  local differentiable = #case.grads > 0 or case.kind == "composite"
  local ok, back = pcall(backward, case, args)
  back = differentiable and ok and back or nil
  if back then ok, line.backward = pcall(seconds, back) end
  if not ok then back, line.backward = nil, nil end
  local tensors = { by_name = {} }
  for i = 1, args.n do line.inputs[i] = described(args[i], tensors) end
  ml.save(path, tensors.by_name)
  print(json.encode(line))
  io.stdout:flush()
  while assert(io.read "l", "the other side is gone") == "again" do
    local fine, times = pcall(function() return { forward = seconds(forward), backward = back and seconds(back) } end)
    print(json.encode(fine and times or {}))
    io.stdout:flush()
  end
end

for text in cases:lines() do
  local case = json.decode(text)
  local wanted = not filter or filter == case.family or case.name:find(filter, 1, true)
  if wanted and case.plain and case.callable and not case.random and not case.name:find "_grad" then
    for _, setting in ipairs(SETTINGS) do
      local sample = case.samples[1]
      local ok, problem = pcall(measure, case, sample, setting)
      if not ok then
        print(json.encode { name = case.name, sample = sample, setting = setting, error = tostring(problem) })
      end
    end
  end
end
