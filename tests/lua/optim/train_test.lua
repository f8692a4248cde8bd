-- tests/lua/optim/train_test.lua: ml.train: the loop against one written by hand, resumed runs, and the
-- parts by themselves.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local class = require "moonlet.class"
local metrics = require "moonlet.metrics"
local train = require "moonlet.train"
local test, expect = harness.test, harness.expect
local data, nn, optim = ml.data, ml.nn, ml.optim

-- A small problem with all that draws random numbers: shuffling, dropout, initial weights.
local function problem(generator)
  ml.manual_seed(7)
  local x = ml.randn(40, 3)
  local y = x:sum(2):gt(0):long() + 1
  local net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))
  return {
    model = net,
    data = data.DataLoader(data.TensorDataset(x, y), { batch_size = 7, shuffle = true,
      generator = generator }),
    valid = data.DataLoader(data.TensorDataset(x, y), { batch_size = 16 }),
    loss = nn.CrossEntropyLoss(),
    optimizer = optim.Adam(net:parameters(), { lr = 0.05 }),
    progress = false,
  }
end

local function column(history, name)
  local out = {}
  for i, row in ipairs(history) do out[i] = row[name] end
  return out
end

local function weights(net) return nn.utils.parameters_to_vector(net):detach():totable() end

local function by_hand(p, epochs, clip)
  local losses = {}
  for epoch = 1, epochs do
    p.model:train()
    local total, count = 0, 0
    for x, y in p.data:iter() do
      local loss = p.loss(p.model(x), y)
      p.optimizer:zero_grad()
      loss:backward()
      if clip then nn.utils.clip_grad_norm_(p.model, clip) end
      p.optimizer:step()
      total, count = total + loss:item() * #x, count + #x
    end
    losses[epoch] = total / count
    p.valid:iter()  -- as PyTorch's loaders do, a pass draws a seed
  end
  return losses
end

test("the loop gives what one by hand gives", function()
  for _, clip in ipairs { false, 0.1 } do
    local p = problem()
    local wanted = by_hand(p, 3, clip or nil)
    local q = problem()
    q.epochs, q.clip_grad_norm = 3, clip or nil
    q.metrics = { accuracy = metrics.Accuracy() }
    local history = train.fit(q)
    expect.near(column(history, "loss"), wanted, 1e-12)
    expect.equal(weights(q.model), weights(p.model))
    expect.equal(column(history, "epoch"), { 1, 2, 3 })
    expect.truthy(history[3].valid_accuracy > 0.7)
    local x, y = q.valid.dataset:get_batch(ml.arange(40))
    expect.equal(history[3].valid_accuracy, metrics.accuracy(q.model:eval()(x), y))
  end
end)

test("arguments by position, and the mode afterwards", function()
  local p = problem()
  p.model:eval()
  local history = train.fit(p.model, p.data, p.loss, p.optimizer, 2, { progress = false })
  expect.equal(#history, 2)
  expect.equal(history[1].valid_loss, nil)
  expect.falsy(p.model.training)
end)

test("batches together are one step of their mean", function()
  local x = ml.randn(6, 2, { dtype = ml.float64 })
  local y = ml.randn(6, 1, { dtype = ml.float64 })
  local function run(batch_size, accumulate)
    ml.manual_seed(3)
    local net = nn.Linear(2, 1):double()
    local history = train.fit { model = net, loss = nn.MSELoss(), epochs = 2, progress = false,
      data = data.DataLoader(data.TensorDataset(x, y), { batch_size = batch_size }),
      optimizer = optim.SGD(net:parameters(), 0.1), accumulate = accumulate }
    return weights(net), history
  end
  expect.near(run(2, 3), (run(6, 1)), 1e-12)
  expect.near(run(1, 6), (run(6, 1)), 1e-12)
  -- Three batches by two: the last step has one.
  ml.manual_seed(3)
  local net = nn.Linear(2, 1):double()
  local optimizer, loss = optim.SGD(net:parameters(), 0.1), nn.MSELoss()
  for _ = 1, 2 do
    for _, range in ipairs { { 1, 4 }, { 5, 2 } } do
      optimizer:zero_grad()
      loss(net(x:narrow(1, table.unpack(range))), y:narrow(1, table.unpack(range))):backward()
      optimizer:step()
    end
  end
  expect.near(run(2, 2), weights(net), 1e-12)
end)

test("schedules by epoch, by step and by the validation loss", function()
  local p = problem()
  p.epochs, p.scheduler = 3, optim.lr_scheduler.StepLR(p.optimizer, 1, { gamma = 0.5 })
  expect.near(column(train.fit(p), "lr"), { 0.05, 0.025, 0.0125 })
  p = problem()
  p.epochs, p.scheduler_pace = 2, "step"
  p.scheduler = optim.lr_scheduler.ExponentialLR(p.optimizer, 0.9)
  expect.near(column(train.fit(p), "lr"), { 0.05, 0.05 * 0.9 ^ 6 })
  p = problem()
  p.epochs = 3
  p.scheduler = optim.lr_scheduler.ReduceLROnPlateau(p.optimizer, { mode = "max", patience = 0,
    threshold = 10 })
  expect.near(column(train.fit(p), "lr"), { 0.05, 0.05, 0.005 })
end)

test("autocast and a scaler", function()
  local seen
  local p = problem()
  local loss = p.loss
  p.loss = function(output, target)
    seen = output.dtype
    return loss(output, target)
  end
  p.autocast = true
  p.scaler = { init_scale = 1024 }
  p.clip_grad_norm = 1
  train.fit(p)
  expect.equal(seen, ml.bfloat16)
  p = problem()
  p.autocast = "float16"
  p.loss = function(output, target)
    seen = output.dtype
    return loss(output, target)
  end
  expect.truthy(train.fit(p)[1].loss < 2)
  expect.equal(seen, ml.float16)
  -- Scaling by powers of two changes no digit.
  local plain = column(train.fit(problem()), "loss")
  local scaled = problem()
  scaled.scaler = ml.amp.GradScaler { init_scale = 1024 }
  expect.near(column(train.fit(scaled), "loss"), plain, 1e-6)
end)

-- All of a run that was stopped after two of five epochs in another state of the generator.
local function interrupted(options, generator)
  local result
  harness.with_temp_file(function(path)
    local function run(epochs, resume)
      local p = problem(generator and generator() or nil)
      for key, value in pairs(options(p)) do p[key] = value end
      p.epochs, p.checkpoint, p.resume = epochs, path, resume
      return train.fit(p), p
    end
    run(2, true)
    ml.manual_seed(99)
    local history, p = run(5, true)
    result = { history, weights(p.model) }
  end)
  return result
end

test("a run that goes on gives the same digits", function()
  local function with_all(p)
    return { scheduler = optim.lr_scheduler.CosineAnnealingLR(p.optimizer, 5),
      metrics = { accuracy = metrics.Accuracy() }, early_stopping = { patience = 10 },
      scaler = { init_scale = 4 } }
  end
  for _, generator in ipairs { false, function() return ml.Generator { seed = 5 } end } do
    local p = problem(generator and generator() or nil)
    for key, value in pairs(with_all(p)) do p[key] = value end
    p.epochs = 5
    local history = train.fit(p)
    local again = interrupted(with_all, generator)
    expect.equal(again[1], history)
    expect.equal(again[2], weights(p.model))
  end
end)

test("a run that stopped early stays so", function()
  harness.with_temp_file(function(path)
    local function run(resume)
      local p = problem()
      p.epochs, p.checkpoint, p.resume = 9, path, resume
      p.early_stopping = { patience = 2, min_delta = 100 }
      return train.fit(p), p
    end
    local history, first = run(false)
    expect.equal(#history, 3)
    local again, second = run(path)
    expect.equal(again, history)
    expect.equal(weights(second.model), weights(first.model))
  end)
end)

test("early stopping gives the best weights back", function()
  local p = problem()
  local kept = {}
  p.epochs = 20
  p.early_stopping = train.EarlyStopping { patience = 2, monitor = "epoch" }  -- the first is best
  p.callbacks = { on_epoch_end = function(run) kept[run.epoch] = weights(run.model) end }
  local history = train.fit(p)
  expect.equal(#history, 3)
  expect.equal(weights(p.model), kept[1])
  expect.equal(p.early_stopping.best, 1)
end)

test("EarlyStopping by itself", function()
  local stopper = train.EarlyStopping { patience = 2, min_delta = 0.5 }
  local net = nn.Linear(1, 1)
  expect.falsy(stopper:step(3, net))
  local best = weights(net)
  ml.no_grad(function() net.weight:add_(1) end)
  expect.falsy(stopper:step(2.6, net))
  expect.truthy(stopper:step(ml.tensor(0 / 0), net))
  expect.equal(stopper.bad_steps, 2)
  stopper:restore(net)
  expect.equal(weights(net), best)
  local other = train.EarlyStopping { patience = 2, min_delta = 0.5 }
  other:load_state_dict(stopper:state_dict())
  expect.truthy(other:step(2.9))
  expect.falsy(other:step(2))
  expect.truthy(train.EarlyStopping { mode = "max", patience = 1 }:step(0 / 0))
  local most = train.EarlyStopping { mode = "max", patience = 1 }
  expect.falsy(most:step(1))
  expect.falsy(most:step(2))
  expect.truthy(most:step(2))
  expect.falsy(train.EarlyStopping { patience = 0 }:step(1))
  expect.error(function() most:restore(net) end, "no weights were kept")
  expect.error(function() most:step("x") end, "'value'")
  expect.error(function() most:load_state_dict {} end, "no state of an EarlyStopping")
  expect.error(function() train.EarlyStopping { mode = "least" } end, "min or max")
end)

test("Checkpoint by itself", function()
  harness.with_temp_file(function(path)
    local checkpoint = train.Checkpoint(path)
    expect.falsy(checkpoint:exists())
    local net, generator = nn.Linear(2, 1), ml.Generator { seed = 4 }
    local opt = optim.Adam(net:parameters())
    net(ml.ones(1, 2)):sum():backward()
    opt:step()
    local before = weights(net)
    ml.manual_seed(1)
    checkpoint:save { model = net, optimizer = opt, own = generator, epoch = 3,
      note = { "a", losses = ml.ones(2) } }
    expect.truthy(checkpoint:exists())
    local drawn = { ml.rand(1):item(), ml.rand(1, { generator = generator }):item() }
    opt:step()
    local values = checkpoint:load { model = net, optimizer = opt, own = generator }
    expect.equal(weights(net), before)
    expect.equal(opt:state_dict().state[1].step, 1)
    expect.equal(values.epoch, 3)
    expect.equal(values.note[1], "a")
    expect.equal(values.note.losses:totable(), { 1, 1 })
    expect.equal({ ml.rand(1):item(), ml.rand(1, { generator = generator }):item() }, drawn)
    expect.error(function() checkpoint:load { net = net } end,
      "has no 'net'; it has epoch, model, note, optimizer, own")
    expect.error(function() checkpoint:load { epoch = net } end, "of another kind")
    expect.error(function() checkpoint:load { model = nn.Linear(3, 1) } end, "shape")
    expect.error(function() checkpoint:save { f = print } end, "cannot be saved")
    expect.equal(checkpoint:load({}).epoch, 3)
    ml.save(path, { a = ml.ones(1) })
    expect.error(function() checkpoint:load {} end, "is no checkpoint")
    local file = assert(io.open(path, "wb"))
    file:write("\1\2\3"):close()
    expect.error(function() checkpoint:load {} end, "Checkpoint: load")
  end)
end)

test("a checkpoint is loaded whole or not at all", function()
  harness.with_temp_file(function(path)
    local checkpoint = train.Checkpoint(path)
    local other = nn.Linear(2, 1)
    local state = ml.optim.Adam(other:parameters())
    checkpoint:save { a = nn.Linear(2, 1), b = ml.Generator { seed = 5 }, c = other, d = state }
    local net, generator, last = nn.Linear(2, 1), ml.Generator { seed = 7 }, nn.Linear(3, 1)
    local weight, numbers = net.weight:clone(), generator:get_state()
    local rng = ml.get_rng_state()
    local parts = { a = net, b = generator, c = last }
    expect.error(function() checkpoint:load(parts) end, "shape")
    expect.truthy(net.weight:equal(weight))
    expect.equal(generator:get_state(), numbers)
    expect.equal(ml.get_rng_state(), rng)
    parts = { a = net, b = generator, d = nn.Linear(2, 1) }
    expect.error(function() checkpoint:load(parts) end)
    expect.truthy(net.weight:equal(weight))
    checkpoint:load { a = net, b = generator }
    expect.falsy(net.weight:equal(weight))
    expect.equal(generator:initial_seed(), 5)
  end)
end)

test("checkpoints of some epochs", function()
  harness.with_temp_file(function(path)
    local checkpoint = train.Checkpoint(path, { monitor = "accuracy", mode = "max", every = 2 })
    expect.falsy(checkpoint:step(1, { accuracy = 1 }, {}))
    expect.truthy(checkpoint:step(2, { accuracy = 0.5 }, { epoch = 2 }))
    expect.falsy(checkpoint:step(4, { accuracy = 0.5 }, { epoch = 4 }))
    expect.truthy(checkpoint:step(6, { accuracy = 0.6 }, { epoch = 6 }))
    expect.equal(checkpoint:load({}).epoch, 6)
    expect.error(function() checkpoint:step(8, { loss = 1 }, {}) end, "no number 'accuracy'.*loss")
  end)
end)

test("callbacks see the run and can end it", function()
  local p, events = problem(), {}
  p.epochs = 5
  local function note(name)
    return function(run) events[#events + 1] = ("%s %d %d"):format(name, run.epoch, run.step) end
  end
  p.callbacks = { { on_train_start = note "begin", on_epoch_start = note "epoch",
    on_epoch_end = note "end", on_train_end = note "done" },
    { on_step = function(run) if run.step == 8 then run.stop = true end end } }
  expect.equal(#train.fit(p), 2)
  expect.equal(events, { "begin 0 0", "epoch 1 0", "end 1 6", "epoch 2 6", "end 2 8", "done 2 8" })
  p.callbacks = { on_step = function() error("mine", 0) end }
  expect.error(function() train.fit(p) end, "^mine$")
  p.callbacks = { on_batch = print }
  expect.error(function() train.fit(p) end, "unknown option 'on_batch'")
end)

test("rows go to a log", function()
  harness.with_temp_file(function(path)
    local p, rows = problem(), {}
    p.epochs, p.log = 2, train.CSVLog(path)
    local history = train.fit(p)
    local t = data.read_table(path)
    expect.equal(t:column("loss"):totable(), ml.tensor(column(history, "loss"),
      { dtype = t:column("loss").dtype }):totable())
    p.log = function(row) rows[#rows + 1] = row.epoch end
    train.fit(p)
    expect.equal(rows, { 1, 2 })
  end)
end)

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

test("the log of a run that is resumed has each epoch once", function()
  local function fit(epochs, folder, log)
    ml.manual_seed(1)
    local net = nn.Linear(2, 1)
    train.fit { model = net, loss = nn.MSELoss(), optimizer = ml.optim.SGD(net:parameters(), { lr = 0.1 }),
      data = ml.data.DataLoader(ml.data.TensorDataset(ml.ones(4, 2), ml.ones(4, 1)), { batch_size = 2 }),
      progress = false, epochs = epochs, checkpoint = folder .. ".ckpt", resume = true, log = log }
  end
  local function epochs_in(path)
    local out = {}
    for line in io.lines(path) do out[#out + 1] = line:match "^%d+" end
    return table.concat(out, " ")
  end
  harness.with_temp_file(function(path)
    fit(2, path, train.CSVLog(path))
    fit(4, path, train.CSVLog(path))
    expect.equal(epochs_in(path), "1 2 3 4")
    os.remove(path .. ".ckpt")
    -- Ended between the row and the checkpoint of epoch 2.
    local log = train.CSVLog(path)
    expect.error(function()
      fit(4, path, function(row)
        log:write { epoch = row.epoch, note = 'said "no",\nand\r\nso ' .. row.epoch }
        if row.epoch == 2 then error "ended" end
      end)
    end, "ended")
    local whole = train.CSVLog(path, { append = true })
    fit(3, path, function(row) whole:write { epoch = row.epoch, note = "x" } end)
    expect.equal(epochs_in(path), "1 2 2 3")
    whole:resume(1)
    whole:write { epoch = 2, note = "again" }
    expect.equal(require("moonlet.system").read_file(path),
      'epoch,note\n1,"said ""no"",\nand\r\nso 1"\n2,again\n')
    os.remove(path .. ".ckpt")
  end)
end)

test("CSVLog by itself", function()
  harness.with_temp_file(function(path)
    local log = train.CSVLog(path)
    log:write { loss = 0.1, epoch = 1, note = 'a "b", c', on = true }
    log:write { epoch = 2, loss = ml.tensor(0.5) }
    log:write { epoch = 3, loss = 1 / 3 }
    expect.equal(read(path), 'epoch,loss,note,on\n1,0.1,"a ""b"", c",true\n2,0.5,,\n'
      .. "3,0.33333333333333331,,\n")
    expect.error(function() log:write { epoch = 4, other = 1 } end, "'other' is no column")
    expect.error(function() log:write { epoch = {} } end, "'epoch' must be a number")
    train.CSVLog(path, { append = true }):write { epoch = 4 }
    expect.equal(read(path):match "[^\n]*\n$", "4,,,\n")
    expect.error(function() train.CSVLog(path, { "a" }, true) end, "has the columns epoch, loss")
    local own = train.CSVLog(path, { columns = { "b", "a,c" } })
    own:write { b = -0.0 }
    expect.equal(read(path), 'b,"a,c"\n-0,\n')
    own = train.CSVLog(path, { append = true })
    expect.equal(own.columns, { "b", "a,c" })
    expect.error(function() train.CSVLog(path, { "a", "a" }) end, "two columns 'a'")
    expect.error(function() train.CSVLog "/no/such/folder/log.csv" end, "CSVLog")
  end)
end)

test("wrong arguments", function()
  local function wrong(change, pattern)
    local p = problem()
    for key, value in pairs(change) do p[key] = value end
    expect.error(function() train.fit(p) end, pattern)
  end
  wrong({ model = 5 }, "'model': a module is expected, got 5")
  wrong({ data = { 1 } }, "'data': a loader")
  wrong({ loss = false }, "'loss': a function is expected")
  wrong({ loss = function() return 1 end }, "must give a tensor with one element, got 1")
  wrong({ epoch = 2 }, "unknown option 'epoch'.*'epochs'")
  wrong({ epochs = 0 }, "'epochs' must be")
  wrong({ clip_grad_norm = 0 }, "'clip_grad_norm' must be")
  wrong({ accumulate = 0 }, "'accumulate' must be")
  wrong({ scheduler = {} }, "'scheduler'")
  wrong({ resume = true }, "'resume' wants a 'checkpoint'")
  wrong({ resume = "/no/such/file" }, "Checkpoint: load: ")
  wrong({ scaler = 5 }, "'scaler' must be a GradScaler")
  wrong({ checkpoint = {} }, "'checkpoint' must be a Checkpoint")
  wrong({ early_stopping = { monitor = "x" } }, "no number 'x'")
  wrong({ early_stopping = "x" }, "'early_stopping' must be")
  wrong({ log = 5 }, "'log' must be a CSVLog")
  wrong({ metrics = { a = 5 } }, "metric 'a' has no methods")
  wrong({ autocast = "float" }, "autocast")
  local empty = data.TensorDataset(ml.zeros { 0, 3 }, ml.zeros { 0, dtype = ml.int64 })
  wrong({ data = data.DataLoader(empty) }, "'data' has no batches")
  wrong({ data = data.DataLoader(data.TensorDataset(ml.ones(4, 3))) }, "inputs and a target, got 1")
end)

test("models of several inputs, and loaders of one's own", function()
  local Pair = nn.class("Pair", nn.Module)
  function Pair:init() self.first = nn.Linear(2, 1) end
  function Pair:forward(a, b) return self.first(a + b) end
  local Own = class "Own"
  function Own.__len() return 3 end
  function Own:iter()
    local i = 0
    return function()
      i = i + 1
      if i <= 3 then return ml.ones(4, 2), ml.ones(4, 2) * i, ml.ones(4, 1) end
    end
  end
  local net = Pair()
  for length, pattern in pairs { [2] = "length of 2 and gives more", [4] = "of 4 and gave 3" } do
    local Wrong = class("Wrong", Own)
    function Wrong.__len() return length end
    expect.error(function()
      train.fit { model = net, data = Wrong(), loss = nn.MSELoss(), progress = false,
        optimizer = optim.SGD(net:parameters(), 0.01), accumulate = 2 }
    end, pattern)
  end
  local history = train.fit { model = net, data = Own(), loss = nn.MSELoss(), progress = false,
    optimizer = optim.SGD(net:parameters(), 0.01), epochs = 4, device = "cpu" }
  expect.truthy(history[4].loss < history[1].loss)
end)

harness.run()
