-- tests/lua/distributed/training_test.lua: DistributedDataParallel, SyncBatchNorm and the optimiser
-- that shards its states, beside one process with the whole batch.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ranks = require "distributed_ranks"
local test, expect = harness.test, harness.expect

-- A net of which each process can make the same one, and a batch with 4 rows for each rank.
local NET = [[
dist.init_process_group()
local size = dist.get_world_size()
local nn = ml.nn
local function make()
  ml.manual_seed(3)
  return nn.Sequential(nn.Linear(6, 50), nn.Tanh(), nn.Linear(50, 50), nn.Tanh(), nn.Linear(50, 2))
end
local function batch(step)
  local g = ml.Generator():manual_seed(step)
  return ml.randn(4 * size, 6, { generator = g }), ml.randn(4 * size, 2, { generator = g })
end
local function part(x) return x:narrow(1, 4 * rank + 1, 4) end
local function compare(a, b, what)
  for i, p in ipairs(a) do near(p:detach(), b[i]:detach(), what .. " " .. i) end
end
]]

for _, size in ipairs { 2, 4 } do
  for _, options in ipairs { "{}", "{ gradient_as_bucket_view = true, bucket_cap_mb = 0.005 }",
      "{ find_unused_parameters = true, bucket_cap_mb = 0.001 }", "{ static_graph = true }" } do
    test(("%d ranks train as one process, %s"):format(size, options), function()
      ranks.run_well(size, NET .. ([[
        local one, net = make(), make()
        local ddp = nn.parallel.DistributedDataParallel(net, %s)
        local a = ml.optim.Adam(one:parameters(), { lr = 0.01 })
        local b = ml.optim.Adam(ddp:parameters(), { lr = 0.01 })
        for step = 1, 10 do
          local x, y = batch(step)
          a:zero_grad()
          nn.functional.mse_loss(one(x), y):backward()
          a:step()
          b:zero_grad()
          nn.functional.mse_loss(ddp(part(x)), part(y)):backward()
          b:step()
          compare(one:parameters(), net:parameters(), "step " .. step)
        end
        assert(ddp:state_dict()["module.0.weight"] and ddp.module:state_dict()["0.weight"])
        dist.destroy_process_group()
      ]]):format(options))
    end)
  end
end

test("rank 0's parameters and buffers are the first ones, modules that differ are told", function()
  ranks.run_well(2, NET .. [[
    ml.manual_seed(rank)
    local net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    net[2].running_mean:fill_(rank + 5)
    local ddp = nn.parallel.DistributedDataParallel(net)
    local w = net[1].weight:detach():clone()
    dist.broadcast(w, 0)
    near(net[1].weight:detach(), w)
    assert(net[2].running_mean[1]:item() == 5)
    net[2].running_mean:fill_(rank + 7)
    ddp(ml.ones(2, 3) * ml.tensor { { 1.0 }, { 2.0 } })
    assert(math.abs(net[2].running_mean[1]:item() - 6.3) < 0.5, net[2].running_mean[1]:item())
    local good, message = pcall(nn.parallel.DistributedDataParallel, nn.Linear(2 + rank, 1))
    assert(not good and message:find("the module is another one on rank", 1, true), message)
    dist.destroy_process_group()
  ]])
end)

test("no_sync adds gradients up, and the next backward sends the sum", function()
  ranks.run_well(2, NET .. [[
    local one, net = make(), make()
    local ddp = nn.parallel.DistributedDataParallel(net)
    local loss = nn.functional.mse_loss
    for step = 1, 3 do
      local x, y = batch(step)
      loss(one(x), y):backward()
      if step < 3 then
        ddp:no_sync(function() loss(ddp(part(x)), part(y)):backward() end)
      else
        loss(ddp(part(x)), part(y)):backward()
      end
    end
    for i, p in ipairs(one:parameters()) do near(p.grad, net:parameters()[i].grad, i) end
    do
      local _ <close> = ddp:no_sync()
      local before = net[1].bias.grad:clone()
      local x, y = batch(9)
      loss(ddp(part(x)), part(y)):backward()
      local all = { ml.zeros(50), ml.zeros(50) }
      dist.all_gather(all, net[1].bias.grad)
      assert(not ml.equal(all[1], all[2]))
    end
    dist.destroy_process_group()
  ]])
end)

test("unused parameters: found, zero where other ranks use them, errors without", function()
  ranks.run_well(2, NET .. [[
    local Two = require("moonlet.class")("Two", nn.Module)
    function Two:init()
      self.a, self.b, self.c = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)
    end
    function Two:forward(x, which) return which == 0 and self.a(x) or self.b(x) end
    ml.manual_seed(1)
    local ddp = nn.parallel.DistributedDataParallel(Two(), { find_unused_parameters = true })
    ddp(ml.ones(1, 2), rank):sum():backward()
    local net = ddp.module
    near(net.a.weight.grad, ml.full({ 2, 2 }, 0.5), "a")
    near(net.b.weight.grad, ml.full({ 2, 2 }, 0.5), "b")
    assert(net.c.weight.grad == nil)
    ddp(ml.ones(1, 2), 0):sum():backward()
    near(net.a.weight.grad, ml.full({ 2, 2 }, 1.5), "a again")
    near(net.b.weight.grad, ml.full({ 2, 2 }, 0.5), "b again")
    ddp = nn.parallel.DistributedDataParallel(Two())
    ddp(ml.ones(1, 2), 0):sum():backward()
    local good, message = pcall(ddp, ml.ones(1, 2), 0)
    assert(not good and message:find "has given no gradient to", message)
    for _, name in ipairs { "b.weight", "b.bias", "c.weight", "c.bias" } do
      assert(message:find(name, 1, true), message)
    end
    assert(not message:find("a.weight", 1, true), message)
    dist.destroy_process_group()
  ]])
end)

test("ranks whose data end earlier join", function()
  ranks.run_well(3, NET .. [[
    local net = make()
    local ddp = nn.parallel.DistributedDataParallel(net)
    local opt = ml.optim.SGD(ddp:parameters(), { lr = 0.1 })
    local steps = ({ 2, 5, 3 })[rank + 1]
    local count = ddp:join(function()
      for step = 1, steps do
        opt:zero_grad()
        local x, y = batch(step)
        nn.functional.mse_loss(ddp(part(x)), part(y)):backward()
        opt:step()
      end
      return steps
    end)
    assert(count == steps)
    -- One process: the gradients of who has data, divided by 3.
    local one = make()
    local plain = ml.optim.SGD(one:parameters(), { lr = 0.1 })
    for step = 1, 5 do
      plain:zero_grad()
      local x, y = batch(step)
      for r, last in ipairs { 2, 5, 3 } do
        if step <= last then
          local from = 4 * (r - 1) + 1
          local loss = nn.functional.mse_loss(one(x:narrow(1, from, 4)), y:narrow(1, from, 4)) / 3
          loss:backward()
        end
      end
      plain:step()
    end
    compare(one:parameters(), net:parameters(), "joined")
    dist.destroy_process_group()
  ]])
end)

test("hooks that send gradients as 16-bit floats, and a rank that fails in backward", function()
  ranks.run_well(2, NET .. [[
    local one, net = make(), make()
    local ddp = nn.parallel.DistributedDataParallel(net)
    ddp:register_comm_hook(nil, dist.comm_hooks.fp16_compress_hook)
    local x, y = batch(1)
    nn.functional.mse_loss(one(x), y):backward()
    nn.functional.mse_loss(ddp(part(x)), part(y)):backward()
    for i, p in ipairs(one:parameters()) do
      local got = net:parameters()[i].grad
      assert((got - p.grad):abs():max():item() < 2e-3)
      assert(ml.equal(got, got:half():float()))
    end
    dist.destroy_process_group()
  ]])
  local outputs = ranks.run(2, NET .. [[
    local ddp = nn.parallel.DistributedDataParallel(make())
    local x, y = batch(1)
    local loss = nn.functional.mse_loss(ddp(part(x)), part(y))
    if rank == 1 then os.execute("kill -9 " .. require("moonlet.system").pid()) end
    print(pcall(loss.backward, loss))
  ]])
  expect.truthy(outputs[0]:find("all_reduce: rank 0: rank 1 has died", 1, true), outputs[0])
end)

test("hooks in one another train, and a state that is kept goes on", function()
  ranks.run_well(2, NET .. [[
    local hooks = dist.comm_hooks
    local function new_state()
      return hooks.PowerSGDState { start_powerSGD_iter = 2, matrix_approximation_rank = 4 }
    end
    -- The loss at first and at last, after `steps` of a net that one matrix can nearly solve.
    local function train(hook, state, steps)
      ml.manual_seed(1)
      local net = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
      local ddp = nn.parallel.DistributedDataParallel(net)
      ddp:register_comm_hook(state, hook)
      local opt = ml.optim.SGD(net:parameters(), { lr = 0.05 })
      local x = ml.randn(64, 64, { generator = ml.Generator():manual_seed(rank) })
      local y = x:narrow(2, 1, 3):sum { dim = 2, keepdim = true }
      local first, last
      for _ = 1, steps do
        opt:zero_grad()
        local loss = nn.functional.mse_loss(ddp(x), y)
        loss:backward()
        opt:step()
        last = loss:item()
        first = first or last
      end
      local all = {}
      dist.all_gather_object(all, nn.utils.parameters_to_vector(net):detach())
      assert(ml.equal(all[1], all[2]))
      return first, last, all[1]
    end
    for _, case in ipairs { { hooks.fp16_compress_wrapper(hooks.powerSGD_hook), true },
      { hooks.batched_powerSGD_hook, true }, { hooks.bf16_compress_wrapper(hooks.allreduce_hook) } } do
      local state = case[2] and new_state() or nil
      local first, last = train(case[1], state, 60)
      assert(last < 0.02 * first, last)
      assert(not state or state:compression_stats() > 6)
    end
    -- A state that is kept goes on with the same numbers.
    local state, other = new_state(), new_state()
    train(hooks.powerSGD_hook, state, 5)
    other:load_state_dict(state:state_dict())
    assert(other.iter == 5 and other.error_dict[1] ~= nil)
    local _, _, a = train(hooks.powerSGD_hook, state, 3)
    local _, _, b = train(hooks.powerSGD_hook, other, 3)
    assert(ml.equal(a, b))
    dist.destroy_process_group()
  ]])
end)

test("what is no hook, no bucket or no state of one is told", function()
  ranks.run_well(2, NET .. [[
    local hooks = dist.comm_hooks
    local state = hooks.PowerSGDState()
    local function refuses(pattern, f, ...)
      local good, message = pcall(f, ...)
      assert(not good and message:find(pattern, 1, true), message)
    end
    local wrong = state:state_dict()
    wrong.error_dict = { "no tensor" }
    refuses("must be a number, got nil", state.load_state_dict, state, { random = {} })
    refuses("'error_dict' of a PowerSGDState must hold tensors", state.load_state_dict, state, wrong)
    refuses("powerSGD_hook: the state must be a PowerSGDState, got nil", hooks.powerSGD_hook)
    refuses("must be at least 2 with 'use_error_feedback' or 'warm_start', got 1",
      hooks.PowerSGDState, { start_powerSGD_iter = 1 })
    local ddp = nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
    ddp:register_comm_hook(nil, function() return 3 end)
    refuses("the communication hook must return a handle with a method wait, got number",
      function() ddp(ml.ones(1, 2)):sum():backward() end)
    refuses("set_buffer: 'buffer' must have 2 elements, got 3", function()
      dist.GradBucket({ ml.zeros(2) }):set_buffer(ml.zeros(3))
    end)
    refuses("parameters must have one dtype and device", dist.GradBucket,
      { ml.zeros(2), ml.zeros(2, { dtype = ml.float64 }) })
    dist.destroy_process_group()
  ]])
end)

test("SyncBatchNorm is the BatchNorm of the whole batch, also of batches that differ", function()
  ranks.run_well(2, NET .. [[
    local rows = { 5, 3 }
    local g = ml.Generator():manual_seed(1)
    local x = ml.randn(8, 3, 2, 2, { generator = g })
    local w = ml.randn(8, 3, 2, 2, { generator = g })
    local function own(t) return rank == 0 and t:narrow(1, 1, 5) or t:narrow(1, 6, 3) end
    local one = nn.Sequential(nn.BatchNorm2d(3))
    local net = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm2d(3)))
    local a, b = x:clone():requires_grad_(true), own(x):clone():requires_grad_(true)
    local y = one(a)
    do local loss = (y * w):sum() loss:backward() end
    local z = net(b)
    near(z:detach(), own(y:detach()), "results")
    do local loss = (z * own(w)):sum() loss:backward() end
    near(b.grad, own(a.grad), "gradient")
    local grad = net[1].weight.grad:clone()
    dist.all_reduce(grad)
    near(grad, one[1].weight.grad, "weight")
    near(net[1].running_mean, one[1].running_mean, "mean")
    near(net[1].running_var, one[1].running_var, "var")
    net:eval() one:eval()
    near(net(own(x)):detach(), own(one(x):detach()), "eval")
    dist.destroy_process_group()
  ]])
end)

test("states that are sharded step as one optimiser, and come back from a checkpoint", function()
  ranks.run_well(3, NET .. [[
    local one, net = make(), make()
    local plain = ml.optim.Adam(one:parameters(), { lr = 0.01 })
    local opt = dist.ZeroRedundancyOptimizer(net:parameters(), ml.optim.Adam, { lr = 0.01 })
    local function step(i)
      local x, y = batch(i)
      for _, each in ipairs { { one, plain }, { net, opt } } do
        each[2]:zero_grad()
        nn.functional.mse_loss(each[1](x), y):backward()
        each[2]:step()
      end
    end
    for i = 1, 3 do step(i) end
    compare(one:parameters(), net:parameters(), "3 steps")
    local own = {}
    dist.all_gather_object(own, #opt.optimizer.param_groups[1].params)
    assert(own[1] + own[2] + own[3] == 6 and math.max(table.unpack(own)) < 6)
    local kept = 0
    for _ in pairs(opt.optimizer.state) do kept = kept + 1 end
    assert(kept == own[rank + 1])
    local good, message = pcall(opt.state_dict, opt)
    assert(not good and message:find("the states of other ranks are not on rank " .. rank, 1, true),
      message)
    opt:consolidate_state_dict(1)
    assert(pcall(opt.state_dict, opt) == (rank == 1))
    local saved = { rank == 1 and opt:state_dict() or nil }
    dist.broadcast_object_list(saved, 1)
    -- It is the state of the plain optimiser.
    local wanted = plain:state_dict()
    for number = 0, 5 do
      for key, value in pairs(wanted.state[number]) do
        local other = saved[1].state[number][key]
        if ml.is_tensor(value) then near(other, value, key) else assert(other == value, key) end
      end
    end
    opt:consolidate_state_dict()
    near(opt:state_dict().state[2].exp_avg, wanted.state[2].exp_avg)
    opt = dist.ZeroRedundancyOptimizer(net:parameters(), ml.optim.Adam, { lr = 0.5 })
    opt:load_state_dict(saved[1])
    plain = ml.optim.Adam(one:parameters(), { lr = 0.5 })
    plain:load_state_dict(saved[1])
    step(4)
    compare(one:parameters(), net:parameters(), "4 steps")
    dist.destroy_process_group()
  ]])
end)

test("groups, schedules and more parameters of an optimiser that shards its states", function()
  ranks.run_well(2, NET .. [[
    local one, net = make(), make()
    local function groups(of)
      return { { params = { of[1].weight, of[1].bias }, lr = 0.02 },
        { params = { of[3].weight, of[3].bias } } }
    end
    local Zero = dist.ZeroRedundancyOptimizer
    local plain = ml.optim.SGD(groups(one), { lr = 0.1, momentum = 0.9 })
    local opt = Zero(groups(net), ml.optim.SGD, { lr = 0.1, momentum = 0.9 })
    local schedules = {}
    local calls = 0
    opt:register_step_post_hook(function() calls = calls + 1 end)
    for i, each in ipairs { plain, opt } do
      schedules[i] = ml.optim.lr_scheduler.ExponentialLR(each, 0.5)
    end
    for i = 1, 4 do
      if i == 3 then
        plain:add_param_group { params = one[5]:parameters(), lr = 0.3 }
        opt:add_param_group { params = net[5]:parameters(), lr = 0.3 }
      end
      local x, y = batch(i)
      for k, each in ipairs { { one, plain }, { net, opt } } do
        each[2]:zero_grad()
        nn.functional.mse_loss(each[1](x), y):backward()
        each[2]:step()
        if i < 3 then schedules[k]:step() end
      end
      compare(one:parameters(), net:parameters(), "step " .. i)
    end
    assert(calls == 4 and opt.param_groups[1].lr == 0.02 / 4)
    local good, message = pcall(Zero, net:parameters(), ml.optim.LBFGS)
    assert(not good and message:find("LBFGS takes all parameters as one vector", 1, true), message)
    good, message = pcall(Zero, net:parameters(), print)
    assert(not good and message:find("must be a class of optimisers, got a function", 1, true), message)
    good, message = pcall(Zero, net:parameters(), ml.optim.SGD, { lrr = 1 })
    assert(not good and message:find("lrr", 1, true), message)
    dist.destroy_process_group()
  ]])
end)

test("the script that trains on digits", function()
  ranks.need_engine()
  local source = os.getenv "MOONLET_SOURCE" or harness.skip "MOONLET_SOURCE is not set"
  harness.with_temp_file(function(path)
    local pipe <close> = assert(io.popen(("'%s' launch -n 2 '%s/scripts/ddp_mnist.lua' --epochs 2 "
      .. "--out '%s' 2>&1"):format(arg[-1], source, path)))
    local text = pipe:read "a"
    local right = tonumber(text:match "%[0%] epoch 2: loss %S+ (%S+)%%")
    expect.truthy(right and right > 85, text)
    expect.equal(require("moonlet").load(path)["0.weight"]:size(1), 16)
  end)
end)

harness.run()
