-- tests/lua/distributed/fit_ranks_test.lua: ml.train.fit and DataLoader with several ranks, beside one
-- process with the whole batches.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ranks = require "distributed_ranks"
local test, expect = harness.test, harness.expect

-- A problem whose steps are the same for 1, 2 and 4 ranks, and whose validation has a number of
-- examples that these cannot share evenly.
local PROBLEM = [[
local data, nn, optim, metrics, train = ml.data, ml.nn, ml.optim, ml.metrics, ml.train
local COUNT = 40
local function examples(count)
  local g = ml.Generator():manual_seed(4)
  local x = ml.randn(count, 3, { generator = g, dtype = ml.float64 })
  return data.TensorDataset(x, x:sum(2):gt(0.2):long() + 1)
end
local function whole(set, batch_size)
  return data.DataLoader(set, { batch_size = batch_size, sampler = data.SequentialSampler(set) })
end
local function problem(size, given)
  ml.manual_seed(7)
  local net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)):double()
  local out = { model = net, loss = nn.CrossEntropyLoss(), epochs = 3, progress = false,
    data = size == 1 and whole(examples(COUNT), 8)
      or data.DataLoader(examples(COUNT), { batch_size = 8 // size }),
    valid = size == 1 and whole(examples(43), 10)
      or data.DataLoader(examples(43), { batch_size = 5 }),
    optimizer = optim.SGD(net:parameters(), { lr = 0.1, momentum = 0.9 }),
    metrics = { accuracy = metrics.Accuracy(), f1 = metrics.F1 { average = "macro" },
      auc = metrics.AUROC(), confusion = metrics.ConfusionMatrix() } }
  for name, value in pairs(given or {}) do out[name] = value end
  return out
end
local function compare(a, b, what)
  assert(#a == #b, ("%s: %d and %d rows"):format(what, #a, #b))
  for i, row in ipairs(a) do
    for name, value in pairs(row) do
      local other = b[i][name]
      if ml.is_tensor(value) then
        near(other, value, what .. " " .. name)
      else
        assert(math.abs(other - value) < 1e-9, ("%s, row %d, %s: %g and %g"):format(what, i, name,
          other, value))
      end
    end
  end
end
local function weights(net) return nn.utils.parameters_to_vector(net):detach() end
local function same_everywhere(x, what)
  local all = {}
  for i = 1, dist.get_world_size() do all[i] = ml.zeros(x.shape, { dtype = x.dtype }) end
  dist.all_gather(all, x)
  for i = 2, #all do assert(ml.equal(all[1], all[i]), what) end
end
]]

for _, size in ipairs { 2, 4 } do
  for _, options in ipairs { "{}", "{ accumulate = 2, clip_grad_norm = 0.5 }" } do
    for _, wrapped in ipairs { "false", "true" } do
      test(("%d ranks give what one process does, %s, wrapped: %s"):format(size, options, wrapped),
        function()
          ranks.run_well(size, PROBLEM .. ([[
            local one = problem(1, %s)
            local wanted = train.fit(one)
            dist.init_process_group()
            local many = problem(%d, %s)
            if %s then many.model = nn.parallel.DistributedDataParallel(many.model) end
            local seen = {}
            many.callbacks = { on_step = function(run)
              seen[#seen + 1] = run.step
              assert(run.rank == rank and run.world_size == %d)
            end }
            local history = train.fit(many)
            compare(wanted, history, "history")
            assert(#seen == 15, #seen)
            local net = many.model.module or many.model
            near(weights(net), weights(one.model), "weights")
            same_everywhere(weights(net), "weights differ by rank")
            near(many.metrics.confusion:compute(), one.metrics.confusion:compute(), "confusion")
            dist.destroy_process_group()
          ]]):format(options, size, options, wrapped, size))
        end)
    end
  end
end

test("loaders take parts, anew at each pass; one's own sampler takes all", function()
  ranks.run_well(3, PROBLEM .. [[
    dist.init_process_group()
    local set = data.TensorDataset(ml.arange(10))
    local function pass(loader)
      local out = {}
      for x in loader:iter() do
        for _, value in ipairs(x:totable()) do out[#out + 1] = value end
      end
      return out
    end
    local function all_of(own)
      local lists, out = {}, {}
      dist.all_gather_object(lists, own)
      for _, list in ipairs(lists) do table.move(list, 1, #list, #out + 1, out) end
      table.sort(out)
      return table.concat(out, " ")
    end
    local loader = data.DataLoader(set, { batch_size = 2 })
    assert(#loader == 2)
    assert(table.concat(pass(loader), " ") == table.concat({ rank + 1, rank + 4, rank + 7,
      rank == 0 and 10 or rank }, " "))
    loader = data.DataLoader(set, { batch_size = 2, drop_last = true })
    assert(#loader == 1 and #pass(loader) == 2)
    for _, workers in ipairs { 0, 2 } do
      loader = data.DataLoader(set, { batch_size = 2, shuffle = true, num_workers = workers })
      local first, second = pass(loader), pass(loader)
      assert(#first == 4 and #second == 4)
      assert(all_of(first):find "1 .*2 .*3 .*4 .*5 .*6 .*7 .*8 .*9 .*10", all_of(first))
      assert(all_of({ table.concat(first, " ") }) ~= all_of({ table.concat(second, " ") }))
    end
    local function seeded(seed)
      return table.concat(pass(data.DataLoader(set, { shuffle = true,
        generator = ml.Generator():manual_seed(seed) })), " ")
    end
    assert(seeded(3) == seeded(3) and seeded(3) ~= seeded(4))
    loader = data.DataLoader(set, { sampler = data.SequentialSampler(set) })
    assert(#pass(loader) == 10)
    local sampler = data.DistributedSampler(set, { shuffle = false })
    assert(#sampler == 4 and sampler:order()[1]:item() == rank + 1)
    dist.destroy_process_group()
    assert(#data.DataLoader(set) == 10)
  ]])
end)

test("rank 0 alone writes, all resume, also with another number of ranks", function()
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute(("mkdir '%s'"):format(folder)))
  local function run(size, script)
    return ranks.run_well(size, PROBLEM .. ("local folder = '%s'\n"):format(folder) .. [[
      local function setting(size, epochs)
        ml.manual_seed(100 + rank)
        local out = problem(size)
        out.model = nn.Sequential(out.model, nn.Dropout(0.2))
        out.epochs, out.scheduler = epochs, optim.lr_scheduler.StepLR(out.optimizer, 2)
        out.early_stopping = { patience = 9 }
        ml.manual_seed(100 + rank)
        return out
      end
    ]] .. script)
  end
  run(2, [[
    dist.init_process_group()
    local wanted = setting(2, 4)
    local whole_history = train.fit(wanted)
    local first = setting(2, 2)
    first.checkpoint = folder .. "/run.safetensors"
    first.log = train.CSVLog(folder .. "/log.csv")
    local logged = 0
    train.fit(first)
    local second = setting(2, 4)
    second.checkpoint, second.resume = first.checkpoint, true
    second.log = function() logged = logged + 1 end
    second.progress = true
    ml.manual_seed(55)  -- what the checkpoint has takes its place
    local history = train.fit(second)
    compare(whole_history, history, "resumed")
    assert(ml.equal(weights(second.model), weights(wanted.model)))
    assert(logged == (rank == 0 and 2 or 0), logged)
    -- A path that must be there is told to all.
    local third = setting(2, 4)
    third.resume = folder .. "/nothing"
    local good, message = pcall(train.fit, third)
    assert(not good and message:find("nothing", 1, true), message)
    dist.destroy_process_group()
  ]])
  local log = assert(io.open(folder .. "/log.csv")):read "a"
  expect.equal(select(2, log:gsub("\n", "\n")), 3, log)
  for _, size in ipairs { 1, 3 } do
    run(size, ([[
      dist.init_process_group()
      local again = setting(%d, 5)
      again.checkpoint, again.resume = folder .. "/run.safetensors", true
      again.checkpoint = train.Checkpoint(again.checkpoint, { every = 100 })
      local before = ml.load(folder .. "/run.safetensors").parts.model.state
      assert(before["0.0.weight"])
      local history = train.fit(again)
      assert(#history == 5 and history[4].valid_loss < history[1].valid_loss)
      dist.destroy_process_group()
    ]]):format(size))
  end
  os.execute(("rm -r '%s'"):format(folder))
end)

test("an optimiser that shards its states, from a checkpoint of one process and back", function()
  local path = os.tmpname()
  ranks.run_well(2, PROBLEM .. ("local path = '%s'\n"):format(path) .. [[
    local function adam(size, epochs, zero)
      local out = problem(size, { epochs = epochs })
      local parameters, given = out.model:parameters(), { lr = 0.02 }
      out.optimizer = zero and dist.ZeroRedundancyOptimizer(parameters, optim.Adam, given)
        or optim.Adam(parameters, given)
      out.scheduler = optim.lr_scheduler.StepLR(out.optimizer, 2, { gamma = 0.5 })
      return out
    end
    local wanted = train.fit(adam(1, 6))
    if rank == 0 then
      local first = adam(1, 2)
      first.checkpoint = path
      train.fit(first)
    end
    dist.init_process_group()
    local second = adam(2, 4, true)
    second.checkpoint, second.resume = path, true
    train.fit(second)
    -- An optimiser that has made steps takes it, too.
    local third = adam(2, 6, true)
    local parts = { model = third.model, optimizer = third.optimizer, scheduler = third.scheduler,
      data = third.data, loss = third.loss, epochs = 1, progress = false }
    train.fit(parts)
    third.checkpoint, third.resume = path, true
    local history = train.fit(third)
    compare(wanted, history, "history")
    assert(third.optimizer.param_groups[1].lr == 0.02 / 8)
    dist.destroy_process_group()
  ]])
  os.remove(path)
end)

test("all stop when one does, early stopping is one decision, weights come back", function()
  ranks.run_well(2, PROBLEM .. [[
    dist.init_process_group()
    local steps = 0
    local history = train.fit(problem(2, { callbacks = { on_step = function(run)
      steps = steps + 1
      if rank == 1 and run.step == 7 then run.stop = true end
    end } }))
    assert(steps == 7 and #history == 2, steps)
    history = train.fit(problem(2, { callbacks = { on_epoch_end = function(run)
      if rank == 1 and run.epoch == 2 then run.stop = true end
    end } }))
    assert(#history == 2)
    -- Only one rank has a callback.
    history = train.fit(problem(2, { callbacks = rank == 0 and { on_step = function(run)
      if run.step == 6 then run.stop = true end
    end } or {} }))
    assert(#history == 2)
    local given = problem(2, { epochs = 30, early_stopping = { patience = 2, monitor = "valid_loss" } })
    given.optimizer.param_groups[1].lr = 3
    history = train.fit(given)
    assert(#history < 30)
    same_everywhere(ml.tensor { #history }, "epochs")
    same_everywhere(weights(given.model), "weights")
    dist.destroy_process_group()
  ]])
end)

test("buffers of a validation are those of rank 0, SyncBatchNorm gives those of one process", function()
  ranks.run_well(2, PROBLEM .. [[
    local function net()
      ml.manual_seed(7)
      return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2)):double()
    end
    local function given(size, model)
      local out = problem(size, { model = model })
      out.optimizer = optim.SGD(model:parameters(), { lr = 0.1 })
      return out
    end
    local wanted = train.fit(given(1, net()))
    dist.init_process_group()
    local model = nn.SyncBatchNorm.convert_sync_batchnorm(net())
    compare(wanted, train.fit(given(2, model)), "SyncBatchNorm")
    model = net()
    train.fit(given(2, model))
    same_everywhere(model[2].running_mean, "running_mean")
    dist.destroy_process_group()
  ]])
end)

test("a rank without examples for the validation, and no checkpoint yet to resume from", function()
  local path = os.tmpname()
  os.remove(path)
  ranks.run_well(4, PROBLEM .. ("local path = '%s'\n"):format(path) .. [[
    local one = problem(1, { epochs = 2, valid = whole(examples(3), 10) })
    one.metrics = { accuracy = metrics.Accuracy(), f1 = metrics.F1 { average = "macro" } }
    local wanted = train.fit(one)
    dist.init_process_group()
    local many = problem(4, { epochs = 2, checkpoint = path, resume = true,
      valid = data.DataLoader(examples(3), { batch_size = 10 }) })
    many.metrics = { accuracy = metrics.Accuracy(), f1 = metrics.F1 { average = "macro" } }
    compare(wanted, train.fit(many), "history")
    dist.barrier()
    assert(require("moonlet.system").exists(path) == "file")
    dist.destroy_process_group()
  ]])
  os.remove(path)
end)

test("ranks that call it otherwise, and metrics that cannot be merged, are told", function()
  ranks.run_well(2, PROBLEM .. [[
    dist.init_process_group()
    local function refuses(pattern, given)
      local good, message = pcall(train.fit, problem(2, given))
      assert(not good and message:find(pattern), message)
    end
    refuses("fit: all ranks must call it alike: 'epochs' is " .. rank + 1 .. " on rank " .. rank
      .. ", and " .. 2 - rank .. " on rank " .. 1 - rank, { epochs = rank + 1 })
    refuses("the seed of 'data' is ", { data = data.DataLoader(examples(COUNT), { batch_size = 4,
      shuffle = true, generator = ml.Generator():manual_seed(rank) }) })
    refuses("'metrics' is ", { metrics = { ["m" .. rank] = metrics.Accuracy() } })
    refuses("'data' is %d+ batches on rank", { data = data.DataLoader(examples(20 + 20 * rank), 4) })
    local plain = { update = function() end, compute = function() return 1 end,
      reset = function() end }
    refuses("metric 'plain' has no method merge_state", { metrics = { plain = plain } })
    local Odd = ml.class("Odd", metrics.Metric)
    function Odd:init() self:reset() end
    function Odd:clear() self.f = print end
    function Odd:update() return self end
    function Odd:compute() return 1 end
    refuses("fit: the metrics of other ranks: .*odd.f' is a function, which cannot be sent",
      { metrics = { odd = Odd() } })
    dist.destroy_process_group()
  ]])
end)

harness.run()
