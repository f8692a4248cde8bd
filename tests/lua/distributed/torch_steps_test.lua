-- tests/lua/distributed/torch_steps_test.lua: DistributedDataParallel and what goes with it, step by step
-- against PyTorch's numbers of tests/reference/values/distributed.json, which
-- tests/reference/make_distributed.py has made by the same steps.

local here = arg[0]:match "^(.*)/" or "."
package.path = here .. "/../?.lua;" .. package.path
local harness = require "harness"
local ranks = require "distributed_ranks"
local test = harness.test

-- The network and the data of make_distributed.py, and `train`, which compares after each step.
local SETTING = ([[
dist.init_process_group()
local json, system = require "moonlet.json", require "moonlet.system"
local class, nn, optim = require "moonlet.class", ml.nn, ml.optim
local reference = json.decode(system.read_file "%s/../../reference/values/distributed.json")
local SIZE, ROWS, INPUTS, HIDDEN, OUTPUTS = 2, 4, 8, 10, 6

local function wave(shape, seed, scale, dtype)
  local count, values = 1, {}
  for _, size in ipairs(shape) do count = count * size end
  for i = 0, count - 1 do
    values[i + 1] = (scale or 1) * math.sin(0.37 * i + 1.3 * seed + 0.011 * i * i)
  end
  return ml.tensor(values, { dtype = ml.float64 }):reshape(shape):to(dtype or ml.float64)
end

local Net = class("Net", nn.Module)
function Net:init(branches)
  self.a = nn.Linear(INPUTS, HIDDEN)
  self.b = nn.Linear(HIDDEN, HIDDEN)
  self.out = nn.Linear(HIDDEN, OUTPUTS)
  for _, name in ipairs(branches and { "left", "right", "never" } or {}) do
    self[name] = nn.Linear(HIDDEN, HIDDEN)
  end
end
function Net:forward(x, branch)
  local h = self.b(self.a(x):tanh()):tanh()
  if branch then h = self[branch](h) end
  return self.out(h)
end

local function fill(module, dtype)
  module:to(dtype)
  local _ <close> = ml.no_grad()
  for i, p in ipairs(module:parameters()) do p:copy_(wave(p.shape, i, 0.4, dtype)) end
  return module
end

local function batch(step, r, dtype)
  return wave({ ROWS, INPUTS }, 10 * step + r, 1, dtype),
    wave({ ROWS, OUTPUTS }, 100 + 10 * step + r, 1, dtype)
end

local function backward(ddp, step, dtype, ...)
  local x, y = batch(step, rank, dtype)
  nn.functional.mse_loss(ddp(x, ...), y):backward()
end

local function flat(module, ...)
  local list = {}
  for i, p in ipairs(module:parameters()) do list[i] = p:detach():reshape(-1) end
  for _, b in ipairs { ... } do list[#list + 1] = b end
  return ml.cat(list)
end

local function check(name, step, got)
  local wanted = reference[name][step]
  assert(#wanted == got:numel())
  near(got, ml.tensor(wanted, { dtype = ml.float64 }), ("%%s, step %%d"):format(name, step))
end

local function train(name, given)
  local steps, dtype = #reference[name], given.dtype or ml.float64
  local net = fill(Net(given.branches), dtype)
  local ddp = nn.parallel.DistributedDataParallel(net, given.ddp or {})
  if given.hook then ddp:register_comm_hook(given.state, given.hook) end
  local opt = given.optimizer and given.optimizer(net:parameters())
    or optim.SGD(net:parameters(), { lr = 0.1, momentum = 0.9 })
  for step = 1, steps do
    opt:zero_grad()
    if given.one then given.one(ddp, step) else backward(ddp, step, dtype) end
    opt:step()
    check(name, step, flat(net))
  end
end
]]):format(here)

local function both(name, script)
  test(name, function() ranks.run_well(2, SETTING .. script .. "\ndist.destroy_process_group()") end)
end

for name, options in pairs { ["as they are"] = "{}", ["in small buckets"] = "{ bucket_cap_mb = 0.0005 }",
  ["as views"] = "{ bucket_cap_mb = 0.0005, gradient_as_bucket_view = true }",
  ["of a static graph"] = "{ static_graph = true }" } do
  both("gradients " .. name, ("train('plain', { ddp = %s })"):format(options))
end

both("gradients that add up before they are sent", [[
  train("no_sync", { one = function(ddp, step)
    ddp:no_sync(function() backward(ddp, 2 * step, ml.float64) end)
    backward(ddp, 2 * step + 1, ml.float64)
  end })]])

for _, views in ipairs { "false", "true" } do
  both("parameters that not all ranks use, as views: " .. views, ([[
    train("unused", { branches = true,
      ddp = { find_unused_parameters = true, bucket_cap_mb = 0.0005,
        gradient_as_bucket_view = %s },
      one = function(ddp, step)
        local branch = (step < 3 or (rank + step) %% 2 == 0) and "left" or "right"
        backward(ddp, step, ml.float64, branch)
      end })]]):format(views))
end

both("data of uneven length", [[
  local net = fill(Net(false), ml.float64)
  local ddp = nn.parallel.DistributedDataParallel(net)
  local opt = optim.SGD(net:parameters(), { lr = 0.1 })
  ddp:join(function()
    for step = 1, rank == 0 and 2 or 4 do
      opt:zero_grad()
      backward(ddp, step, ml.float64)
      opt:step()
    end
  end)
  check("join", 1, flat(net))]])

both("an optimiser that shards its states", [[
  train("zero", { optimizer = function(parameters)
    return dist.ZeroRedundancyOptimizer(parameters, optim.Adam, { lr = 0.05, weight_decay = 0.01 })
  end })]])

both("batch normalisation over all ranks", [[
  local net = fill(nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.Tanh(),
    nn.Linear(HIDDEN, OUTPUTS)), ml.float64)
  net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
  local ddp = nn.parallel.DistributedDataParallel(net)
  local opt = optim.SGD(net:parameters(), { lr = 0.1, momentum = 0.9 })
  for step = 1, #reference.sync_batch_norm do
    opt:zero_grad()
    backward(ddp, step, ml.float64)
    opt:step()
    check("sync_batch_norm", step, flat(net, net[2].running_mean, net[2].running_var))
  end]])

for _, kind in ipairs { "fp16", "bf16" } do
  both("gradients sent as " .. kind, ([[
    train("%s", { dtype = ml.float32, hook = dist.comm_hooks.%s_compress_hook })]])
    :format(kind, kind))
end

-- The first right factors are those of the reference rather than random ones.
local FACTORS = [[
local function with_factors(f)
  local _ <close> = ml.override(function(op, arguments, call)
    if op.name ~= "randn" then return call(arguments) end
    local shape = arguments.size
    return wave({ shape[2], shape[3] }, 3):expand(shape):clone()
  end)
  f()
end
local hooks = dist.comm_hooks
]]

for name, options in pairs { powersgd = "", powersgd_rank_2 = "matrix_approximation_rank = 2",
  powersgd_rank_3 = "matrix_approximation_rank = 3",
  powersgd_cold = "matrix_approximation_rank = 2, warm_start = false",
  powersgd_no_feedback = "use_error_feedback = false",
  powersgd_same_shape = "batch_tensors_with_same_shape = true",
  powersgd_epsilon = "orthogonalization_epsilon = 0.1" } do
  both("PowerSGD: " .. name, FACTORS .. ([[
    local state = hooks.PowerSGDState { start_powerSGD_iter = 2, min_compression_rate = 1, %s }
    with_factors(function()
      train("%s", { state = state, hook = hooks.powerSGD_hook })
    end)
    assert(state.iter == 6)
    local rate, before, after = state:compression_stats()
    assert(rate > 1 and before / after == rate)]]):format(options, name))
end

harness.run()
