-- tests/lua/distributed/tensor_parallel_training_test.lua: a GPT whose layers ranks share, beside one
-- process: training, alone and over data parallel, norms, states and checkpoints.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local nets = require "tensor_parallel_nets"
local ranks = require "distributed_ranks"
local test = harness.test

local function run(count, script) return ranks.run_well(count, nets.head .. script) end

for _, count in ipairs { 2, 4 } do
  for _, plan in ipairs { "plain", "sharded" } do
    test(("a GPT trains as in one process, %s, %d ranks"):format(plan, count), function()
      run(count, nets.gpt .. ([[
        local one, net = GPT(11, 8, 1), GPT(11, 8, size)
        tp.parallelize_module(net, mesh, %s)
        local a = ml.optim.Adam(one:parameters(), { lr = 0.01 })
        local b = ml.optim.Adam(net:parameters(), { lr = 0.01 })
        local cross_entropy = nn.CrossEntropyLoss()
        for step = 1, 5 do
          local ids, targets = batch(step)
          a:zero_grad() b:zero_grad()
          local f = cross_entropy(one(ids), targets)
          local g = tp.loss_parallel(mesh, function() return cross_entropy(net(ids), targets) end)
          near(g:detach(), f:detach(), "loss")
          f:backward() g:backward()
          near(net.norm.weight.grad, one.norm.weight.grad, "norm")
          near(net.blocks[1].norm2.weight.grad, one.blocks[1].norm2.weight.grad, "norm2")
          near(net.blocks[2].out.bias.grad, one.blocks[2].out.bias.grad, "bias")
          a:step() b:step()
        end
        near(net.embedding.weight:detach(), part(one.embedding.weight:detach(), 1), "embedding")
        near(net.blocks[1].qkv.weight:detach(), part(one.blocks[1].qkv.weight:detach(), 1, 3),
          "qkv")
        near(net.blocks[2].linear2.weight:detach(), part(one.blocks[2].linear2.weight:detach(), 2),
          "linear2")
        local _ <close> = ml.no_grad()
        local ids = batch(9)
        near(net(ids), part(one(ids), 2), "without gradients")
        dist.destroy_process_group()
      ]]):format(plan))
    end)
  end
end

test("data parallel over tensor parallel on 4 ranks trains as one process", function()
  ranks.run_well(4, nets.grid .. nets.gpt .. [[
    local one, net = GPT(11, 8, 1), GPT(11, 8, 2)
    tp.parallelize_module(net, mesh, sharded)
    local ddp = nn.parallel.DistributedDataParallel(net, { process_group = grid:get_group("dp") })
    local a = ml.optim.Adam(one:parameters(), { lr = 0.01 })
    local b = ml.optim.Adam(ddp:parameters(), { lr = 0.01 })
    local cross_entropy = nn.CrossEntropyLoss()
    for step = 1, 5 do
      local ids, targets = batch(step)
      ids, targets = ml.cat { ids, (batch(step + 50)) }, ml.cat { targets, (batch(step + 90)) }
      a:zero_grad() b:zero_grad()
      cross_entropy(one(ids), targets):backward()
      local first = 3 * grid:get_local_rank("dp") + 1
      local own, wanted = ids:narrow(1, first, 3), targets:narrow(1, first, 3)
      tp.loss_parallel(mesh, function() return cross_entropy(ddp(own), wanted) end):backward()
      a:step() b:step()
    end
    size, rank = 2, grid:get_local_rank("tp")
    near(net.head.weight:detach(), part(one.head.weight:detach(), 1), "head")
    near(net.norm.weight:detach(), one.norm.weight:detach(), "norm")
    near(net.blocks[1].qkv.weight:detach(), part(one.blocks[1].qkv.weight:detach(), 1, 3), "qkv")
    dist.destroy_process_group()
  ]])
end)

test("fully_shard over tensor parallel on 4 ranks trains as one process", function()
  ranks.run_well(4, nets.grid .. nets.gpt .. [[
    local one, net = GPT(11, 8, 1), GPT(11, 8, 2)
    tp.parallelize_module(net, mesh, sharded)
    for _, block in ipairs(net.blocks) do dist.fully_shard(block, { mesh = grid.dp }) end
    dist.fully_shard(net, { mesh = grid.dp })
    assert(net.head.weight:size(1) <= 3)
    local a = ml.optim.SGD(one:parameters(), { lr = 0.1, momentum = 0.9 })
    local b = ml.optim.SGD(net:parameters(), { lr = 0.1, momentum = 0.9 })
    local cross_entropy = nn.CrossEntropyLoss()
    for step = 1, 5 do
      local ids, targets = batch(step)
      ids, targets = ml.cat { ids, (batch(step + 50)) }, ml.cat { targets, (batch(step + 90)) }
      a:zero_grad() b:zero_grad()
      cross_entropy(one(ids), targets):backward()
      local first = 3 * grid:get_local_rank("dp") + 1
      local own, wanted = ids:narrow(1, first, 3), targets:narrow(1, first, 3)
      tp.loss_parallel(mesh, function() return cross_entropy(net(own), wanted) end):backward()
      near(nn.utils.clip_grad_norm_(net:parameters(), 0.5),
        nn.utils.clip_grad_norm_(one:parameters(), 0.5), "norm")
      a:step() b:step()
    end
    local checkpoint = dist.checkpoint
    local whole = checkpoint.get_model_state_dict(net, { full_state_dict = true })
    for name, x in pairs(one:state_dict()) do near(whole[name], x, name) end
    local states = checkpoint.get_optimizer_state_dict(net, b, { full_state_dict = true })
    near(states.state["head.weight"].momentum_buffer,
      a.state[one.head.weight].momentum_buffer, "state")
    for _, x in pairs(net:state_dict()) do x:zero_() end
    checkpoint.set_model_state_dict(net, whole, { full_state_dict = true })
    whole = checkpoint.get_model_state_dict(net, { full_state_dict = true })
    for name, x in pairs(one:state_dict()) do near(whole[name], x, name .. " once more") end
    dist.destroy_process_group()
  ]])
end)

for _, count in ipairs { 2, 4 } do
  test(("norms that are clipped, and whole states, %d ranks"):format(count), function()
    run(count, nets.gpt .. [[
      local one, net = GPT(11, 8, 1), GPT(11, 8, size)
      tp.parallelize_module(net, mesh, sharded)
      local ids, targets = batch(1)
      local cross_entropy = nn.CrossEntropyLoss()
      cross_entropy(one(ids), targets):backward()
      tp.loss_parallel(mesh, function() return cross_entropy(net(ids), targets) end):backward()
      for _, kind in ipairs { 2, 1, math.huge } do
        near(nn.utils.clip_grad_norm_(net:parameters(), 0.01, kind),
          nn.utils.clip_grad_norm_(one:parameters(), 0.01, kind), "norm")
      end
      near(net.norm.weight.grad, one.norm.weight.grad, "clipped")
      near(net.head.weight.grad, part(one.head.weight.grad, 1), "clipped part")
      local whole = dist.checkpoint.get_model_state_dict(net, { full_state_dict = true })
      for name, x in pairs(one:state_dict()) do near(whole[name], x, name) end
      local own = net:state_dict()
      assert(own["blocks.0.linear1.weight"]:size(1) == 32 // size)
      for _, x in pairs(own) do x:zero_() end
      local checkpoint = dist.checkpoint
      checkpoint.set_model_state_dict(net, whole, { full_state_dict = true })
      near(net.blocks[1].qkv.weight:detach(), part(one.blocks[1].qkv.weight:detach(), 1, 3), "qkv")
      near(net.embedding.weight:detach(), part(one.embedding.weight:detach(), 1), "embedding")
      near(net.blocks[2].linear2.weight:detach(), part(one.blocks[2].linear2.weight:detach(), 2),
        "linear2")
      local good, message = pcall(checkpoint.save, net:state_dict(), { checkpoint_id = "/nowhere" })
      assert(not good and message:find("qkv.%a+' is a part of several pieces"), message)
      dist.destroy_process_group()
    ]])
  end)
end

test("checkpoints of parts load into modules that are whole, or sharded by other ranks", function()
  local folder = os.tmpname()
  os.remove(folder)
  local NET = [[
    ml.manual_seed(1)
    local net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    local state = net:state_dict()
    local wanted = {}
    for name, x in pairs(state) do wanted[name] = x:clone() end
    tp.parallelize_module(net, mesh, { ["0"] = tp.ColwiseParallel(), ["2"] = tp.RowwiseParallel() })
    local folder = "]] .. folder .. '"\n'
  local good, message = pcall(function()
    run(4, NET .. [[
      dist.checkpoint.save(net:state_dict(), { checkpoint_id = folder })
      dist.destroy_process_group()
    ]])
    local LOAD = NET .. [[
      for _, x in pairs(net:state_dict()) do x:zero_() end
      local own = net:state_dict()
      dist.checkpoint.load(own, { checkpoint_id = folder })
      local whole = dist.checkpoint.get_model_state_dict(net, { full_state_dict = true })
      for name, x in pairs(wanted) do near(whole[name], x, name) end
      dist.destroy_process_group()
    ]]
    run(2, LOAD)
    run(1, LOAD)
  end)
  os.execute(("rm -rf '%s'"):format(folder))
  if not good then error(message, 0) end
end)

harness.run()
