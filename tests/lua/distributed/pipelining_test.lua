-- tests/lua/distributed/pipelining_test.lua: pipelines of stages on several ranks, beside one
-- process: losses, gradients, memory, what is refused, and pipelines that are data parallel.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ranks = require "distributed_ranks"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect

-- A net of 4 layers, of which each rank has as many, and batches of 8 rows.
local HEAD = [[
dist.init_process_group()
local size = dist.get_world_size()
local nn, pp = ml.nn, dist.pipelining
local function make()
  ml.manual_seed(4)
  local net = nn.Sequential()
  for i = 1, 4 do
    net:append(nn.Sequential(nn.Linear(i == 1 and 3 or 5, i == 4 and 2 or 5), nn.Tanh()))
  end
  return net
end
local function own_layers(net, index, count)
  local out = nn.Sequential()
  for i = 1, 4 // count do out:append(net[index * (4 // count) + i]) end
  return out
end
local function batch(step, rows)
  local g = ml.Generator():manual_seed(step)
  return ml.randn(rows or 8, 3, { generator = g }), ml.randn(rows or 8, 2, { generator = g })
end
local mse = nn.functional.mse_loss
]]

local SCHEDULES = { "ScheduleGPipe", "Schedule1F1B" }

for _, count in ipairs { 1, 2, 4 } do
  for _, name in ipairs(SCHEDULES) do
    test(("%s on %d ranks trains as one process"):format(name, count), function()
      ranks.run_well(count, HEAD .. ([[
        for _, parts in ipairs { 1, 2, 8 } do
          local one, net = make(), own_layers(make(), rank, size)
          local stage = pp.PipelineStage(net, rank, size)
          local schedule = pp.%s(stage, parts, mse)
          local a = ml.optim.Adam(one:parameters(), { lr = 0.01 })
          local b = ml.optim.Adam(net:parameters(), { lr = 0.01 })
          for step = 1, 4 do
            -- The last batch of an epoch may be another one.
            local x, y = batch(step, step == 3 and 16 or 8)
            a:zero_grad() b:zero_grad()
            local wanted = one(x)
            local loss = mse(wanted, y)
            loss:backward()
            local losses, result = { "old" }, nil
            if size == 1 then result = schedule:step(x, { target = y, losses = losses })
            elseif rank == 0 then result = schedule:step(x)
            else result = schedule:step { target = y, losses = losses } end
            if rank == size - 1 then
              near(result, wanted:detach(), "results")
              assert(not result.requires_grad and #losses == parts)
              near(ml.stack(losses):mean(), loss:detach(), "losses")
            else
              assert(result == nil)
            end
            for i, p in ipairs(own_layers(one, rank, size):parameters()) do
              near(net:parameters()[i].grad, p.grad, "gradient " .. i)
            end
            a:step() b:step()
          end
          -- Forward alone.
          local x, y = batch(9)
          local losses, result = {}, nil
          if size == 1 then result = schedule:eval(x, { target = y, losses = losses })
          elseif rank == 0 then result = schedule:eval(x)
          else result = schedule:eval { target = y, losses = losses } end
          if rank == size - 1 then
            near(result, one(x):detach(), "eval")
            assert(#losses == parts)
          end
          -- The sum of the losses, and no results.
          local sum = pp.%s(stage, parts, mse, { scale_grads = false })
          one:zero_grad() net:zero_grad()
          local loss = mse(one(x), y) * parts
          loss:backward()
          local none
          if size == 1 then none = sum:step(x, { target = y, return_outputs = false })
          elseif rank == 0 then none = sum:step(x)
          else none = sum:step { target = y, return_outputs = false } end
          assert(none == nil)
          for i, p in ipairs(own_layers(one, rank, size):parameters()) do
            near(net:parameters()[i].grad, p.grad, "gradient of the sum " .. i)
          end
        end
        dist.destroy_process_group()
      ]]):format(name, name))
    end)
  end
end

for _, name in ipairs(SCHEDULES) do
  test(("live microbatches of a %s"):format(name), function()
    ranks.run_well(4, HEAD .. ([[
      local net = own_layers(make(), rank, size)
      local live, most = 0, 0
      net:register_forward_pre_hook(function()
        live = live + 1
        most = math.max(most, live)
      end)
      net:register_full_backward_pre_hook(function() live = live - 1 end)
      local kept = setmetatable({}, { __mode = "k" })
      local most_kept = 0
      net[1]:register_forward_hook(function(_, _, y)
        kept[y] = true
        collectgarbage()
        local count = 0
        for _ in pairs(kept) do count = count + 1 end
        most_kept = math.max(most_kept, count)
      end)
      local schedule = pp.%s(pp.PipelineStage(net, rank, size), 16, mse)
      local x, y = batch(1, 32)
      if rank == 0 then schedule:step(x) else
        schedule:step { target = y, return_outputs = false } end
      local wanted = %s
      assert(live == 0 and most == wanted, ("%%d live, %%d at most, %%d expected"):format(live, most,
        wanted))
      assert(most_kept <= wanted + 1, most_kept .. " results of the first layer are kept")
      dist.destroy_process_group()
    ]]):format(name, name == "Schedule1F1B" and "size - rank" or "16"))
  end)
end

test("stages with several results, integers, named arguments and results that nobody uses", function()
  ranks.run_well(3, HEAD .. [[
    local First, Middle, Last = nn.class "First", nn.class "Middle", nn.class "Last"
    function First:init() self.layer = nn.Linear(3, 4) end
    function First:forward(x, ids, o)
      local y = self.layer(x)
      if o then y = y * o.factor * o.scale end
      return y, ids, y * 2, y:sum(2):long()
    end
    function Middle:init() self.table = nn.Embedding(5, 4) end
    function Middle:forward(x, ids, _, count)
      assert(not ids.requires_grad and ids.dtype == ml.int64 and count.dtype == ml.int64)
      return x + self.table(ids), ids
    end
    function Last:init() self.layer = nn.Linear(4, 2) end
    function Last:forward(x, ids) return self.layer(x), ids end
    ml.manual_seed(2)
    local nets = { First(), Middle(), Last() }
    local function loss_of(y, target, ids) return (y - target):pow(2):mean() + ids:sum() * 0 end
    local net = nets[rank + 1]:deepcopy()
    local schedule = pp.Schedule1F1B(pp.PipelineStage(net, rank, size), 4, loss_of)
    local x, y = batch(1)
    local ids = ml.randint(5, { 8 }, { generator = ml.Generator():manual_seed(1) })
    local factor = x:narrow(2, 1, 1)
    local result, found
    if rank == 0 then schedule:step(x, ids, { kwargs = { factor = factor, scale = 3 } })
    else result, found = schedule:step { target = y } end
    local h, i, third, counts = nets[1](x, ids, { factor = factor, scale = 3 })
    local wanted = nets[3](nets[2](h, i, third, counts))
    loss_of(wanted, y, ids):backward()
    if rank == 2 then
      near(result, wanted:detach(), "results")
      assert(ml.equal(found, ids))
    end
    for k, p in ipairs(nets[rank + 1]:parameters()) do
      near(net:parameters()[k].grad, p.grad, "gradient " .. k)
    end
    dist.destroy_process_group()
  ]])
end)

test("a stage that is frozen, or all before one, gets no gradients", function()
  ranks.run_well(3, HEAD .. [[
    for _, frozen in ipairs { { true, false, false }, { false, true, false }, { true, true, false } } do
      local one = nn.ModuleList()
      ml.manual_seed(1)
      for i = 1, 3 do one:append(nn.Linear(3, 3):requires_grad_(not frozen[i])) end
      local net = one[rank + 1]:deepcopy()
      local schedule = pp.ScheduleGPipe(pp.PipelineStage(net, rank, size), 2, mse)
      local x = batch(1)
      if rank == 0 then schedule:step(x) else schedule:step { target = ml.zeros(8, 3) } end
      mse(one[3](one[2](one[1](x))), ml.zeros(8, 3)):backward()
      for i, p in ipairs(one[rank + 1]:parameters()) do
        local g = net:parameters()[i].grad
        assert((g == nil) == frozen[rank + 1])
        if g then near(g, p.grad) end
      end
    end
    dist.destroy_process_group()
  ]])
end)

for _, name in ipairs(SCHEDULES) do
  test(("%s over data parallel on 4 ranks trains as one process"):format(name), function()
    ranks.run_well(4, HEAD:gsub("dist.init_process_group%(%)\n", [[
      local mesh = dist.init_device_mesh("cpu", { 2, 2 }, { mesh_dim_names = { "pp", "dp" } })
    ]], 1) .. ([[
      local index, copy = mesh:get_local_rank("pp"), mesh:get_local_rank("dp")
      local one, net = make(), own_layers(make(), index, 2)
      local ddp = nn.parallel.DistributedDataParallel(net, { process_group = mesh:get_group("dp") })
      local sums = 0
      ddp:register_comm_hook(nil, function(_, bucket, group)
        sums = sums + 1
        return dist.comm_hooks.allreduce_hook(nil, bucket, group)
      end)
      local stage = pp.PipelineStage(ddp, index, 2, { group = mesh:get_group("pp") })
      local schedule = pp.%s(stage, 4, mse)
      local a = ml.optim.SGD(one:parameters(), { lr = 0.1 })
      local b = ml.optim.SGD(net:parameters(), { lr = 0.1 })
      for step = 1, 3 do
        local x, y = batch(step, 16)
        a:zero_grad() b:zero_grad()
        mse(one(x), y):backward()
        x, y = x:narrow(1, 8 * copy + 1, 8), y:narrow(1, 8 * copy + 1, 8)
        if index == 0 then schedule:step(x) else schedule:step { target = y } end
        a:step() b:step()
        assert(sums == step, "gradients are sent once in a step")
      end
      for i, p in ipairs(own_layers(one, index, 2):parameters()) do
        near(net:parameters()[i]:detach(), p:detach(), "parameter " .. i)
      end
      dist.destroy_process_group()
    ]]):format(name))
  end)
end

for _, name in ipairs(SCHEDULES) do
  test(("%s over fully_shard, and over tensor parallel, on 4 ranks"):format(name), function()
    ranks.run_well(4, HEAD:gsub("dist.init_process_group%(%)\n", [[
      local mesh = dist.init_device_mesh("cpu", { 2, 2 }, { mesh_dim_names = { "pp", "other" } })
    ]], 1) .. ([[
      local index, copy = mesh:get_local_rank("pp"), mesh:get_local_rank("other")
      local tp = dist.tensor.parallel
      for _, kind in ipairs { "fully_shard", "tensor parallel" } do
        local one, net = make(), own_layers(make(), index, 2)
        local sharded = kind == "fully_shard"
        if sharded then
          for _, layer in ipairs(net) do dist.fully_shard(layer, { mesh = mesh.other }) end
          dist.fully_shard(net, { mesh = mesh.other })
        else
          tp.parallelize_module(net, mesh.other, { ["0.0"] = tp.ColwiseParallel(),
            ["1.0"] = tp.RowwiseParallel() })
        end
        local stage = pp.PipelineStage(net, index, 2, { group = mesh:get_group("pp") })
        local schedule = pp.%s(stage, 4, mse)
        local a = ml.optim.Adam(one:parameters(), { lr = 0.1 })
        local b = ml.optim.Adam(net:parameters(), { lr = 0.1 })
        for step = 1, 3 do
          local x, y = batch(step, 16)
          a:zero_grad() b:zero_grad()
          mse(one(x), y):backward()
          if sharded then x, y = x:narrow(1, 8 * copy + 1, 8), y:narrow(1, 8 * copy + 1, 8) end
          if index == 0 then schedule:step(x) else schedule:step { target = y } end
          a:step() b:step()
        end
        local whole = dist.checkpoint.get_model_state_dict(net, { full_state_dict = true })
        for name, p in pairs(own_layers(one, index, 2):state_dict()) do
          near(whole[name], p, kind .. " " .. name)
        end
      end
      dist.destroy_process_group()
    ]]):format(name))
  end)
end

test("stages that do not agree, or give something else, are told", function()
  local function fails(script, ...)
    local outputs = ranks.run(2, HEAD .. script)
    for _, text in ipairs { ... } do
      expect.truthy(outputs[0]:find(text, 1, true) or outputs[1]:find(text, 1, true),
        outputs[0] .. outputs[1])
    end
  end
  fails([[
    local net = own_layers(make(), rank, size)
    local schedule = pp.ScheduleGPipe(pp.PipelineStage(net, rank, size), 2 + 2 * rank, mse)
    local x, y = batch(1)
    if rank == 0 then schedule:step(x) else schedule:step { target = y } end
  ]], "the number of microbatches must be the same on all stages: 2 on stage 0, 4 on stage 1")
  fails([[
    local net = own_layers(make(), rank, size)
    local schedule = pp.ScheduleGPipe(pp.PipelineStage(net, rank, size), 2, rank == 1 and mse or nil)
    local x, y = batch(1)
    if rank == 0 then schedule:step(x) else schedule:step { target = y } end
  ]], "whether there is a loss_fn, and so a backward, must be the same on all stages: false on stage 0")
  -- Others are told of a stage's error, too.
  fails([[
    local net = own_layers(make(), rank, size)
    local count = 0
    net:register_forward_pre_hook(function()
      count = count + 1
      if rank == 1 and count == 2 then error "out of data" end
    end)
    local schedule = pp.Schedule1F1B(pp.PipelineStage(net, rank, size), 4, mse)
    local x, y = batch(1)
    if rank == 0 then schedule:step(x) else schedule:step { target = y } end
  ]], "Schedule1F1B:step: stage 1, microbatch 2: out of data", "rank 0: rank 1 has failed")
  fails([[
    local net, count = own_layers(make(), rank, size), 0
    net:register_forward_hook(function(_, _, y)
      count = count + 1
      if rank == 0 and count == 2 then return y:narrow(1, 1, 1) end
    end)
    local schedule = pp.Schedule1F1B(pp.PipelineStage(net, rank, size), 4, mse)
    local x, y = batch(1)
    if rank == 0 then schedule:step(x) else schedule:step { target = y } end
  ]], "stage 0, microbatch 2: result 1 is float32 (1, 5), with a gradient, that of the first microbatch "
    .. "was float32 (2, 5), with a gradient; all must be alike")
end)

-- Ends the group of one rank that `f` has made, also after an error.
local function alone(f)
  ml.distributed.init_process_group()
  local good, message = pcall(f, ml.distributed.pipelining, ml.nn)
  ml.distributed.destroy_process_group()
  if not good then error(message, 0) end
end

local function refuses(pattern, f, ...)
  local good, message = pcall(f, ...)
  expect.truthy(not good and message:find(pattern, 1, true), tostring(message))
end

test("stages, batches and targets that do not fit are refused", function()
  alone(function(pp, nn)
    local mse = nn.functional.mse_loss
    refuses("'num_stages' must be 1, got 2", pp.PipelineStage, nn.Linear(2, 1), 0, 2)
    refuses("'stage_index' must be that, got 1", pp.PipelineStage, nn.Linear(2, 1), 1, 1)
    refuses("a module is expected", pp.PipelineStage, 3, 0, 1)
    refuses("a pipeline stage is expected", pp.ScheduleGPipe, nn.Linear(2, 1), 2)
    refuses("'n_microbatches' must be", pp.ScheduleGPipe, pp.PipelineStage(nn.Linear(2, 1), 0, 1), 0)
    local stage = pp.PipelineStage(nn.Linear(2, 1), 0, 1)
    expect.equal(tostring(stage), "PipelineStage 0 of 1")
    local schedule = pp.Schedule1F1B(stage, 4, mse)
    local function step(...) return schedule:step(...) end
    local y = ml.zeros(8, 1)
    refuses("stage 0 takes the batch, got nothing", step, { target = y })
    refuses("input 1 of shape (10, 2) cannot be 4 microbatches of one size", step, ml.ones(10, 2),
      { target = y })
    refuses("target of shape (6, 1) cannot be 4 microbatches", step, ml.ones(8, 2),
      { target = ml.ones(6, 1) })
    refuses("input 1 of shape () cannot be 4 microbatches", step, ml.ones {}, { target = y })
    refuses("input 1 of shape (0, 2) cannot be 4 microbatches", step, ml.ones(0, 2), { target = y })
    refuses("kwargs.mask of shape (3,) cannot be 4", step, ml.ones(8, 2),
      { target = y, kwargs = { mask = ml.ones(3) } })
    refuses("'target' must be given on stage 0, which has the loss", step, ml.ones(8, 2))
    refuses("unknown option 'targets'; did you mean 'target'?", step, ml.ones(8, 2), { targets = y })
    refuses("there is no backward under no_grad", ml.no_grad, step, ml.ones(8, 2), { target = y })
    schedule = pp.Schedule1F1B(stage, 4, function() return 3 end)
    refuses("'loss_fn' must give a tensor of one element, got 3", step, ml.ones(8, 2), { target = y })
    schedule = pp.Schedule1F1B(stage, 4, function(x) return x end)
    refuses("'loss_fn' must give a tensor of one element, got a tensor of shape (2, 1)", step,
      ml.ones(8, 2), { target = y })
    local Odd = nn.class "Odd"
    function Odd:forward(x) return x, "text" end
    schedule = pp.ScheduleGPipe(pp.PipelineStage(Odd(), 0, 1), 4)
    refuses("a stage gives tensors to the next one, got \"text\" as result 2", step, ml.ones(8, 2))
    function Odd.forward() end
    refuses("a stage gives tensors to the next one, got nothing", step, ml.ones(8, 2))
  end)
end)

harness.run()
