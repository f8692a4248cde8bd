-- tests/lua/distributed/fully_shard_test.lua: modules whose parameters ranks have sharded, beside
-- one process with the whole batch.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ranks = require "distributed_ranks"
local test, expect = harness.test, harness.expect

-- A net of which each process can make the same one, a batch with 4 rows for each rank, and the
-- whole of a tensor that ranks have sharded.
local HEAD = [[
dist.init_process_group()
local size = dist.get_world_size()
local nn, F = ml.nn, ml.nn.functional
local shards = require "moonlet.distributed.shards"
local class = require "moonlet.class"
local function make()
  ml.manual_seed(3)
  return nn.Sequential(nn.Linear(6, 50), nn.Tanh(), nn.Sequential(nn.Linear(50, 51), nn.Tanh()),
    nn.Linear(51, 2))
end
local function sharded(net, options)
  for _, child in ipairs(net:children()) do
    if #child:parameters() > 0 then dist.fully_shard(child, options) end
  end
  return dist.fully_shard(net, options)
end
local function batch(step, inputs, outputs)
  local g = ml.Generator():manual_seed(step)
  return ml.randn(4 * size, inputs or 6, { generator = g }),
    ml.randn(4 * size, outputs or 2, { generator = g })
end
local function part(x) return x:narrow(1, 4 * rank + 1, 4) end
local function compare(one, net, what)
  local wanted = {}
  for name, p in one:named_parameters() do wanted[name] = p:detach() end
  for name, p in net:named_parameters() do
    if wanted[name]:numel() > 0 then near(shards.whole(p), wanted[name], what .. " " .. name) end
    wanted[name] = nil
  end
  assert(next(wanted) == nil)
end
local function compare_gradients(one, net, what)
  local all = one:parameters()
  for i, p in ipairs(net:parameters()) do
    local q = all[i]
    assert((p.grad == nil) == (q.grad == nil), what .. i)
    if p.grad then
      near(shards.whole(shards.note(p.grad:detach(), shards.of(p))), q.grad:detach(), what .. i)
    end
  end
end
-- Trains both, and compares them after each step.
local function train(one, net, steps, loss_of)
  loss_of = loss_of or function(m, x, y) return F.mse_loss(m(x), y) end
  local a = ml.optim.AdamW(one:parameters(), { lr = 0.01 })
  local b = ml.optim.AdamW(net:parameters(), { lr = 0.01 })
  for step = 1, steps do
    local x, y = batch(step)
    a:zero_grad()
    loss_of(one, x, y):backward()
    a:step()
    b:zero_grad()
    loss_of(net, part(x), part(y)):backward()
    b:step()
    compare(one, net, "step " .. step)
  end
end
]]

local function run(count, script) return ranks.run_well(count, HEAD .. script ..
  "\ndist.destroy_process_group()\n") end

for _, size in ipairs { 1, 2, 4 } do
  for _, options in ipairs { "{}", "{ reshard_after_forward = false }",
      "{ reshard_after_forward = true }" } do
    test(("%d ranks train as one process, %s"):format(size, options), function()
      run(size, ([[
        local one, net = make(), sharded(make(), %s)
        train(one, net, 6)
        if size > 1 then
          assert(net[1].weight:size(1) == (rank < 50 %% size and 50 // size + 1 or net[1].weight:size(1)))
          local rows = ml.tensor { net[1].weight:size(1) }
          dist.all_reduce(rows)
          assert(rows:item() == 50)
        end
      ]]):format(options))
    end)
  end
end

test("with one rank parameters stay as they are", function()
  run(1, [[
    local net = make()
    local before = net[1].weight
    sharded(net)
    assert(rawequal(net[1].weight, before) and not net[1]._has_hooks)
    net:set_requires_gradient_sync(false)
    net:unshard() net:reshard()
    net(ml.ones(1, 6)):sum():backward()
    assert(net[1].weight.grad)
  ]])
end)

test("more ranks than rows, and parameters of no elements", function()
  run(4, [[
    local Odd = class("Odd", nn.Module)
    function Odd:init()
      ml.manual_seed(1)
      self.a, self.b = nn.Linear(6, 2), nn.Linear(2, 2)
      self.none = nn.Parameter(ml.ones(0, 3))
      self.wide = nn.Parameter(ml.ones(3, 0))
    end
    function Odd:forward(x) return self.b(self.a(x)) + self.none:sum() + self.wide:sum() end
    local one, net = Odd(), dist.fully_shard(Odd())
    train(one, net, 3)
    assert(net.a.bias:numel() == (rank < 2 and 1 or 0))
  ]])
end)

test("gradients that are not sent add up, and go with the next that are", function()
  run(2, [[
    local one, net = make(), sharded(make())
    for step = 1, 3 do
      local x, y = batch(step)
      F.mse_loss(one(x), y):backward()
      net:set_requires_gradient_sync(step == 3)
      F.mse_loss(net(part(x)), part(y)):backward()
      if step < 3 then assert(net[1].weight.grad == nil) end
    end
    compare_gradients(one, net, "third ")
    -- Two forwards before their backwards, whose sums are both sent.
    local x, y = batch(4)
    local u, v = batch(5)
    local first, second = F.mse_loss(one(x), y), F.mse_loss(one(u), v)
    first:backward() second:backward()
    first, second = F.mse_loss(net(part(x)), part(y)), F.mse_loss(net(part(u)), part(v))
    first:backward() second:backward()
    compare_gradients(one, net, "both ")
  ]])
end)

test("parameters with two names, and a module that runs twice", function()
  run(2, [[
    local Tied = class("Tied", nn.Module)
    function Tied:init()
      ml.manual_seed(1)
      self.embedding = nn.Embedding(9, 6)
      self.block = nn.Linear(6, 6)
      self.head = nn.Linear(6, 9, { bias = false })
      self.head.weight = self.embedding.weight
    end
    function Tied:forward(x)
      local y = self.embedding(x)
      return self.head(self.block(self.block(y):tanh()))
    end
    local one, net = Tied(), Tied()
    dist.fully_shard(net.block)
    dist.fully_shard(net)
    assert(rawequal(net.head.weight, net.embedding.weight) and #net:parameters() == 3)
    local a = ml.optim.SGD(one:parameters(), { lr = 0.1 })
    local b = ml.optim.SGD(net:parameters(), { lr = 0.1 })
    for step = 1, 3 do
      local g = ml.Generator():manual_seed(step)
      local x = ml.randint(9, { 4 * size }, { generator = g })
      local y = ml.randint(9, { 4 * size }, { generator = g })
      for _, each in ipairs { { one, a, x, y }, { net, b, part(x), part(y) } } do
        each[2]:zero_grad()
        F.cross_entropy(each[1](each[3]), each[4]):backward()
        each[2]:step()
      end
      compare(one, net, "step " .. step)
    end
    assert(rawequal(net.head.weight, net.embedding.weight))
    net = Tied()
    dist.fully_shard(net.embedding)
    local good, message = pcall(dist.fully_shard, net)
    assert(not good and message:find("'head.weight' is also one of 'Embedding", 1, true), message)
  ]])
end)

for _, kind in ipairs { "outside", "inside", "segments", "twice" } do
  test("checkpoints of activations, " .. kind, function()
    run(2, ([[
      local checkpoint, kind = ml.utils.checkpoint, %q
      local Block = class("Block", nn.Module)
      function Block:init() self.a, self.b = nn.Linear(6, 20), nn.Linear(20, 6) end
      function Block:inner(x) return x + self.b(self.a(x):tanh()):sin() end
      function Block:forward(x)
        if kind == "inside" then return checkpoint(function(y) return self:inner(y) end, x) end
        return self:inner(x)
      end
      local Net = class("Net", nn.Module)
      function Net:init()
        ml.manual_seed(1)
        self.first, self.blocks, self.head = nn.Linear(6, 6), nn.ModuleList(), nn.Linear(6, 2)
        for i = 1, 4 do self.blocks[i] = Block() end
      end
      function Net:forward(x)
        x = self.first(x)
        if kind == "segments" then
          for i = 1, 3, 2 do
            x = checkpoint(function(y) return self.blocks[i + 1](self.blocks[i](y)) end, x)
          end
        elseif kind == "twice" then
          for i = 1, 2 do
            x = checkpoint(function(y) return self.blocks[i](self.blocks[i](y)) end, x)
          end
          for i = 1, 2 do x = checkpoint(self.blocks[i], x) end
          for i = 3, 4 do x = self.blocks[i](x) end
        else
          for i = 1, 4 do
            x = kind == "inside" and self.blocks[i](x) or checkpoint(self.blocks[i], x)
          end
        end
        return self.head(x)
      end
      local one, net = Net(), Net()
      for _, block in ipairs(net.blocks) do dist.fully_shard(block) end
      dist.fully_shard(net)
      train(one, net, 4)
      for _, block in ipairs(net.blocks) do assert(block.a.weight:size(1) == 10) end
    ]]):format(kind))
  end)
end

test("fixed parameters: some of a module, and all of one", function()
  run(2, [[
    local function fixed()
      local net = make()
      net[1].weight:requires_grad_(false)
      for _, p in ipairs(net[3]:parameters()) do p:requires_grad_(false) end
      return net
    end
    local one, net = fixed(), sharded(fixed())
    local a = ml.optim.SGD({ one[1].bias, one[4].weight }, { lr = 0.1 })
    local b = ml.optim.SGD({ net[1].bias, net[4].weight }, { lr = 0.1 })
    for step = 1, 3 do
      local x, y = batch(step)
      a:zero_grad() b:zero_grad()
      F.mse_loss(one(x), y):backward()
      F.mse_loss(net(part(x)), part(y)):backward()
      compare_gradients(one, net, "step " .. step)
      a:step() b:step()
      compare(one, net, "step " .. step)
      assert(net[3][1].weight:size(1) == (rank == 0 and 26 or 25))
    end
    -- Gradients of the inputs alone.
    local x = batch(9)
    local own = part(x):clone():requires_grad_(true)
    local whole = x:clone():requires_grad_(true)
    local g = ml.grad(net(own):sum(), own)
    near(g, part(ml.grad(one(whole):sum(), whole)))
    train(one, net, 1)
  ]])
end)

test("parameters that a backward does not come to have no gradient", function()
  run(2, [[
    local Two = class("Two", nn.Module)
    function Two:init()
      ml.manual_seed(1)
      self.a, self.b, self.c = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)
    end
    function Two:forward(x, which) return which == 0 and self.a(x) or self.a(self.b(x)) end
    local net = Two()
    for _, child in ipairs(net:children()) do dist.fully_shard(child) end
    dist.fully_shard(net)
    for step = 1, 4 do
      for _, p in ipairs(net:parameters()) do p.grad = nil end
      net(ml.ones(1, 2), step % 2):sum():backward()
      assert(net.a.weight.grad and (net.b.weight.grad ~= nil) == (step % 2 == 1))
      assert(net.c.weight.grad == nil)
    end
  ]])
end)

test("dtypes of a policy: computed and sent in bfloat16, kept in float32", function()
  for _, size in ipairs { 1, 2 } do
    run(size, [[
      local policy = dist.MixedPrecisionPolicy { param_dtype = ml.bfloat16,
        reduce_dtype = ml.float32, output_dtype = ml.float32 }
      local net = sharded(make(), { mp_policy = policy })
      local seen = {}
      net[3][1]:register_forward_pre_hook(function(m, x)
        seen[#seen + 1] = m.weight.dtype .. " " .. x.dtype .. " " .. m.weight:size(1)
      end)
      local one = make()
      local x, y = batch(1)
      local out = net(part(x))
      assert(seen[1] == "bfloat16 bfloat16 51" and out.dtype == "float32", seen[1])
      F.mse_loss(out, part(y)):backward()
      F.mse_loss(one(x), y):backward()
      local wanted = one[1].weight.grad
      local got = net[1].weight.grad
      assert(got.dtype == "float32" and net[1].weight.dtype == "float32")
      if size > 1 then got = shards.whole(shards.note(got, shards.of(net[1].weight))) end
      assert((got - wanted):norm():item() < 0.03 * wanted:norm():item())
      net = sharded(make(), { mp_policy = dist.MixedPrecisionPolicy { param_dtype = ml.float16,
        cast_forward_inputs = false } })
      local good, message = pcall(net, part(x))
      assert(not good and message:find "dtype", message)
      good, message = pcall(dist.MixedPrecisionPolicy, { param_dtype = ml.int32 })
      assert(not good and message:find("'param_dtype' must be a floating dtype, got int32", 1, true))
    ]])
  end
end)

test("unshard and reshard, eval, and a forward that fails", function()
  run(2, [[
    local one, net = make(), sharded(make())
    local x = batch(1)
    net[1]:unshard()
    near(net[1].weight, one[1].weight:detach())
    local whole = net[1].weight
    net[1]:reshard()
    assert(net[1].weight:size(1) == 25)
    local good, message = pcall(function() return whole:sum():item() end)
    assert(not good and message:find("has been given back", 1, true), message)
    local handle = net[3]:unshard { async_op = true }
    handle:wait()
    assert(net[3][1].weight:size(1) == 51)
    near(ml.no_grad(function() return net(x) end), one(x):detach(), "eval")
    assert(net[3][1].weight:size(1) == (rank == 0 and 26 or 25))
    -- A module that fails in the middle leaves shards behind, and the next forward is right.
    local failing = net[3]:register_forward_pre_hook(function() error "no" end)
    assert(not pcall(net, part(x)))
    failing:remove()
    for _, child in ipairs(net) do
      for _, p in ipairs(child:parameters()) do assert(shards.of(p), "a whole is left") end
    end
    train(one, net, 2)
    -- Forwards without a backward, and one in the middle of them.
    for _ = 1, 2 do net(part(x)) end
    train(one, net, 1)
    net:unshard()
    local _ <close> = ml.no_grad()
    local message2 = select(2, pcall(function()
      net[1]:unshard()
      for _, group in ipairs { net[1] } do group:reshard() end
    end))
    assert(message2 == nil, message2)
  ]])
end)

test("the norm of gradients is that over all ranks", function()
  run(3, [[
    local one, net = make(), sharded(make())
    local x, y = batch(1)
    for _, kind in ipairs { 2, 1, 3, math.huge } do
      for _, m in ipairs { one, net } do m:zero_grad() end
      F.mse_loss(one(x), y):backward()
      F.mse_loss(net(part(x)), part(y)):backward()
      local a = nn.utils.clip_grad_norm_(one, 0.01, { norm_type = kind })
      local b = nn.utils.clip_grad_norm_(net, 0.01, { norm_type = kind })
      near(a, b, "norm")
      compare_gradients(one, net, "clipped ")
    end
    -- With other parameters beside.
    local extra = nn.Parameter(ml.ones(2))
    extra.grad = ml.full({ 2 }, 3.0)
    local wanted = nn.utils.clip_grad_norm_({ extra, table.unpack(one:parameters()) }, 1e9)
    near(nn.utils.clip_grad_norm_({ extra, table.unpack(net:parameters()) }, 1e9), wanted)
  ]])
end)

test("a gradient that is not finite on one rank keeps all from the step", function()
  run(2, [[
    local net = sharded(make())
    local opt, scaler = ml.optim.SGD(net:parameters(), { lr = 0.1 }), ml.amp.GradScaler()
    local before = net[1].weight:detach():clone()
    scaler:scale(net(part((batch(1)))):sum()):backward()
    if rank == 1 then net[1].weight.grad[1][1] = math.huge end
    scaler:step(opt)
    scaler:update()
    assert(ml.equal(net[1].weight:detach(), before) and scaler:get_scale() == 32768)
    net:zero_grad()
    scaler:scale(net(part((batch(1)))):sum()):backward()
    scaler:step(opt)
    scaler:update()
    assert(not ml.equal(net[1].weight:detach(), before))
  ]])
end)

test("sharded along one dimension of a mesh, and parallel layers along the other", function()
  run(4, [[
    local mesh = dist.init_device_mesh("cpu", { 2, 2 }, { mesh_dim_names = { "dp", "tp" } })
    local parallel = dist.tensor.parallel
    local Mlp = class("Mlp", nn.Module)
    function Mlp:init()
      ml.manual_seed(5)
      self.a, self.b = nn.Linear(6, 16), nn.Linear(16, 2)
    end
    function Mlp:forward(x) return self.b(self.a(x):tanh()) end
    local one, net = Mlp(), Mlp()
    parallel.parallelize_module(net, mesh.tp, { a = parallel.ColwiseParallel(),
      b = parallel.RowwiseParallel() })
    dist.fully_shard(net, { mesh = mesh.dp })
    local opt = ml.optim.Adam(net:parameters(), { lr = 0.01 })
    local plain = ml.optim.Adam(one:parameters(), { lr = 0.01 })
    local row = mesh:get_local_rank "dp"
    for step = 1, 4 do
      local x, y = batch(step)
      local loss = F.mse_loss(one(x), y)
      plain:zero_grad() opt:zero_grad()
      loss:backward()
      plain:step()
      local own = F.mse_loss(net(x:narrow(1, 8 * row + 1, 8)), y:narrow(1, 8 * row + 1, 8))
      own:backward()
      opt:step()
      local mean = own:detach():clone()
      dist.all_reduce(mean, "avg")
      near(mean, loss:detach(), "loss " .. step)
    end
    assert(net.a.weight:numel() == 6 * 16 // 4)
    local good, message = pcall(dist.fully_shard, nn.Linear(2, 2), { mesh = mesh })
    assert(not good and message:find("'mesh' must have one dimension, got 2", 1, true), message)
  ]])
end)

test("hooks of shards see their gradients, and an optimiser may step in them", function()
  run(2, [[
    local one, net = make(), sharded(make())
    local a = ml.optim.SGD(one:parameters(), { lr = 0.1 })
    for _, p in ipairs(net:parameters()) do
      local opt = ml.optim.SGD({ p }, { lr = 0.1 })
      p:register_post_accumulate_grad_hook(function()
        opt:step()
        p.grad = nil
      end)
    end
    for step = 1, 3 do
      local x, y = batch(step)
      a:zero_grad()
      F.mse_loss(one(x), y):backward()
      a:step()
      F.mse_loss(net(part(x)), part(y)):backward()
      compare(one, net, "step " .. step)
    end
  ]])
end)

test("recurrent layers, and the sum of gradients", function()
  run(2, [[
    local function lstm()
      ml.manual_seed(2)
      return nn.LSTM(6, 5, { num_layers = 2 })
    end
    local one, net = lstm(), dist.fully_shard(lstm())
    net:set_gradient_divide_factor(1)
    local g = ml.Generator():manual_seed(1)
    local x = ml.randn(3, 4 * size, 6, { generator = g })
    one(x):sum():backward()
    net(x:narrow(2, 4 * rank + 1, 4)):sum():backward()
    compare_gradients(one, net, "lstm ")
  ]])
end)

test("errors name what is wrong", function()
  run(2, [[
    local function refused(text, f, ...)
      local good, message = pcall(f, ...)
      assert(not good and message:find(text, 1, true), message)
    end
    local net = sharded(make())
    refused("have been sharded already", dist.fully_shard, net)
    refused("the module is another one on rank", dist.fully_shard, nn.Linear(2 + rank, 2))
    refused("'mesh': a device mesh is expected, got 3", dist.fully_shard, nn.Linear(2, 2), { mesh = 3 })
    local scalar = nn.Module()
    scalar.scale = nn.Parameter(ml.tensor(1.0))
    refused("'scale' has no dimension", dist.fully_shard, scalar)
    refused("'weight' has no shape yet", dist.fully_shard, nn.LazyLinear(3))
    refused("no gradients of gradients", function()
      net(part((batch(1)))):sum():backward { create_graph = true }
    end)
    -- Parameters that change between forward and backward.
    local loss = net(part((batch(1)))):sum()
    ml.no_grad(function() net[4].bias:add_(1) net[1].weight:add_(1) end)
    refused("have changed since its forward", loss.backward, loss)
    refused("unshard: a module that fully_shard has sharded is expected", net.unshard, nn.ReLU())
  ]])
  local outputs = ranks.run(2, HEAD .. [[
    local net = sharded(make())
    local loss = net(part((batch(1)))):sum()
    if rank == 1 then os.execute("kill -9 " .. require("moonlet.system").pid()) end
    print(pcall(loss.backward, loss))
  ]])
  expect.truthy(outputs[0]:find("rank 1 has died", 1, true), outputs[0])
end)

test("parameters on a device, their norm and their checkpoint", function()
  local cuda = require("moonlet").cuda
  if not cuda.is_available() then harness.skip(cuda.unavailable_reason()) end
  run(2, [[
    local one, net = make():to "cuda", sharded(make():to "cuda")
    local a = ml.optim.SGD(one:parameters(), { lr = 0.1, momentum = 0.9 })
    local b = ml.optim.SGD(net:parameters(), { lr = 0.1, momentum = 0.9 })
    for step = 1, 3 do
      local x, y = batch(step)
      x, y = x:to "cuda", y:to "cuda"
      a:zero_grad() b:zero_grad()
      F.mse_loss(one(x), y):backward()
      F.mse_loss(net(part(x)), part(y)):backward()
      near(nn.utils.clip_grad_norm_(net, 0.1), nn.utils.clip_grad_norm_(one, 0.1), "norm")
      a:step() b:step()
      compare(one, net, "step " .. step)
    end
    local folder = { os.tmpname() .. ".ckpt" }
    dist.broadcast_object_list(folder)
    local at = { checkpoint_id = folder[1] }
    local model, optim = dist.checkpoint.get_state_dict(net, b)
    assert(model["0.weight"].device == "cuda:0")
    dist.checkpoint.async_save({ model = model, optim = optim }, at):wait()
    local weight = net[1].weight:detach():clone()
    ml.no_grad(function() net[1].weight:zero_() end)
    dist.checkpoint.load({ model = model, optim = optim }, at)
    near(net[1].weight:detach(), weight)
    dist.barrier()
    if rank == 0 then os.execute(("rm -rf '%s'"):format(folder[1])) end
  ]])
end)

harness.run()
