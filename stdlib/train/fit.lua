-- stdlib/train/fit.lua: ml.train.fit: a training loop with what most need: validation, schedules,
-- clipping, accumulation, autocast, checkpoints, early stopping, logs. It is written to be read:
-- whoever needs another loop takes the parts of this one.

local CSVLog = require("moonlet.train.csv_log").CSVLog
local ReduceLROnPlateau = require("moonlet.optim.lr_scheduler").ReduceLROnPlateau
local class = require "moonlet.class"
local distributed = require "moonlet.distributed.state"
local clip_grad_norm_ = require("moonlet.nn.utils").clip_grad_norm_
local ml = require "moonlet"
local numbers = require "moonlet.optim.numbers"
local prepare = require "moonlet.train.options"
local progress = require "moonlet.progress"
local ranks = require "moonlet.train.ranks"
local signature = require "moonlet.signature"
local fail = require("moonlet.options").fail

-- --- a batch ------------------------------------------------------------------------------------

-- The fields of a batch, on the device.
local function moved(run, batch)
  for i = 1, batch.n do
    if run.device and ml.is_tensor(batch[i]) then batch[i] = batch[i]:to(run.device) end
  end
  return batch
end

-- The model's output, its loss, and how many examples there are. The last field is the target.
local function forward(run, batch)
  if batch.n < 2 then fail("fit: a batch must be inputs and a target, got %d values", batch.n) end
  local _ <close> = ml.autocast(run.autocast)
  local target = batch[batch.n]
  local model = run.model.training and run.parallel or run.model
  local output = model(table.unpack(batch, 1, batch.n - 1))
  local loss = run.loss(output, target)
  if not ml.is_tensor(loss) or loss:numel() ~= 1 then
    fail("fit: 'loss' must give a tensor with one element, got %s", signature.describe(loss))
  end
  local count = ml.is_tensor(target) and target.ndim > 0 and #target or 1
  return output, loss, count
end

-- Takes the step for which gradients have been gathered.
local function take_step(run)
  local optimizer, scaler = run.optimizer, run.scaler
  if run.clip_grad_norm then
    if scaler then scaler:unscale_(optimizer) end
    local parameters = {}
    for _, group in ipairs(optimizer.param_groups) do
      table.move(group.params, 1, #group.params, #parameters + 1, parameters)
    end
    clip_grad_norm_(parameters, run.clip_grad_norm)
  end
  if scaler then
    scaler:step(optimizer)
    scaler:update()
  else
    optimizer:step()
  end
  optimizer:zero_grad()
  run.step = run.step + 1
  if run.scheduler and run.scheduler_pace == "step" then run.scheduler:step() end
end

-- --- an epoch -----------------------------------------------------------------------------------

local function call(run, event)
  for _, callbacks in ipairs(run.callbacks) do
    if callbacks[event] then callbacks[event](run) end
  end
end

-- What is gathered in a pass: the sum of losses, which stays on the device, and the metrics.
local function new_totals(run)
  for _, metric in pairs(run.metrics) do metric:reset() end
  return { loss = 0, count = 0 }
end

local function add(run, totals, output, loss, target, count)
  totals.loss, totals.count = totals.loss + loss:detach():double() * count, totals.count + count
  if ml.is_tensor(output) then output = output:detach() end
  for _, metric in pairs(run.metrics) do metric:update(output, target) end
end

local function finish(run, totals, row, prefix)
  local loss, count = totals.loss, totals.count
  if run.world then
    loss, count = ranks.total(run, ml.is_tensor(loss) and loss:item() or loss, count)
    ranks.merge_metrics(run)
  end
  loss = loss / count
  row[prefix .. "loss"] = ml.is_tensor(loss) and loss:item() or loss
  for name, metric in pairs(run.metrics) do row[prefix .. name] = metric:compute() end
end

-- Forward and backward of a batch, one of those that make a step together. Ranks average the
-- gradients of the last of these.
local function learn(run, batch, together, is_last)
  local _ <close> = run.parallel and not is_last and run.parallel:no_sync() or nil
  local output, loss, count = forward(run, moved(run, batch))
  local share = together > 1 and loss / together or loss;
  (run.scaler and run.scaler:scale(share) or share):backward()
  return output, loss, count
end

-- Each batch as one table, with its number of fields in `n`.
local function batches(loader)
  local next_batch = loader:iter()
  return function()
    local batch = table.pack(next_batch())
    if batch[1] ~= nil then return batch end
  end
end

local function train(run, row, bar)
  run.model:train()
  run.optimizer:zero_grad()
  local totals, total, at = new_totals(run), #run.data, 0
  for batch in batches(run.data) do
    if at == total then fail("fit: 'data' has a length of %d and gives more batches", total) end
    -- The batches of one step; the last step of an epoch may have fewer.
    local together = math.min(run.accumulate, total - at + at % run.accumulate)
    at = at + 1
    local is_last = at % run.accumulate == 0 or at == total
    local output, loss, count = learn(run, batch, together, is_last)
    add(run, totals, output, loss, batch[batch.n], count)
    if is_last then take_step(run) end
    run.batch, run.last_loss = at, loss:detach()
    bar:update(1, { loss = run.last_loss })
    call(run, "on_step")
    if run.agrees_at_steps then run.stop = ranks.stops(run) end
    if run.stop then break end
  end
  if run.parallel then run.parallel:_sync_buffers() end
  if at < total and not run.stop then
    fail("fit: 'data' has a length of %d and gave %d batches", total, at)
  end
  finish(run, totals, row, "")
end

local function validate(run, row)
  local _ <close> = ml.no_grad()
  local _ <close> = run.world and ranks.validating(run) or nil
  run.model:eval()
  local totals = new_totals(run)
  for batch in batches(run.valid) do
    local output, loss, count = forward(run, moved(run, batch))
    add(run, totals, output, loss, batch[batch.n], count)
  end
  finish(run, totals, row, "valid_")
end

local function schedule(run, row)
  if not run.scheduler or run.scheduler_pace == "step" then return end
  local on_plateau = class.is_instance(run.scheduler, ReduceLROnPlateau)
  run.scheduler:step(on_plateau and (row.valid_loss or row.loss) or nil)
end

local function watch(run, row)
  local stopper = run.early_stopping
  if not stopper then return end
  local name = stopper.monitor or run.valid and "valid_loss" or "loss"
  if type(row[name]) ~= "number" then fail("fit: early_stopping: there is no number '%s'", name) end
  if stopper:step(row[name], run.net) then run.stop, run.stopped_early = true, true end
end

local function write_log(run, row)
  local log = run.log
  if not log or run.rank > 0 then return end
  if type(log) == "function" or not (log.add_scalar or log.write) then
    log(row)
  elseif log.add_scalar then
    for name, value in pairs(row) do
      if type(value) == "number" and name ~= "epoch" then log:add_scalar(name, value, row.epoch) end
    end
    log:flush()
  else
    local plain = {}
    for name, value in pairs(row) do plain[name] = not ml.is_tensor(value) and value or nil end
    log:write(plain)
  end
end

-- What the bar of an epoch ends with: the loss, and of the metrics those of validation, if any.
local function shown(run, row)
  local out, prefix = { loss = row.loss }, run.valid and "valid_" or ""
  out[prefix .. "loss"] = row[prefix .. "loss"]
  for name in pairs(run.metrics) do
    local value = row[prefix .. name]
    if type(value) == "number" then out[prefix .. name] = value end
  end
  return out
end

local function run_epoch(run)
  run.epoch = run.epoch + 1
  if run.world then ranks.begin_epoch(run) end
  local row = { epoch = run.epoch, lr = numbers.value(run.optimizer.param_groups[1].lr) }
  call(run, "on_epoch_start")
  do
    local bar <close> = progress.new { total = #run.data, unit = "batch",
      label = ("epoch %d/%d"):format(run.epoch, run.epochs) }
    if not run.progress or run.rank > 0 then bar.tty = false end
    train(run, row, bar)
    if run.valid then validate(run, row) end
    bar:set(shown(run, row))
  end
  table.insert(run.history, row)
  schedule(run, row)
  watch(run, row)
  write_log(run, row)
  call(run, "on_epoch_end")
  if run.agrees then run.stop = ranks.stops(run) end
  return row
end

-- --- the run ------------------------------------------------------------------------------------

local function parts_of(run)
  return { model = run.net, optimizer = run.optimizer, scheduler = run.scheduler,
    scaler = run.scaler, early_stopping = run.early_stopping, data = run.data, valid = run.valid }
end

local function save(run, row)
  local checkpoint = run.checkpoint
  if not checkpoint or not checkpoint:_is_due(run.epoch, row) then return end
  local parts = parts_of(run)
  parts.run = { history = run.history, epoch = run.epoch, step = run.step,
    stopped_early = run.stopped_early or false, best = checkpoint.best }
  if run.world then parts.ranks = ranks.states(run) end
  checkpoint:save(parts)
end

-- What was saved, loaded into the parts of the run; nil where there is no file.
local function load(run, from)
  if not run.world then return (run.load_from or from:exists()) and from:load(parts_of(run)) end
  local file = ranks.read(run, from, run.load_from ~= nil)
  if not file then return nil end
  local random = ml.get_rng_state()
  local values = from:_load_from(file, parts_of(run))
  ranks.restore(run, values.ranks, random)
  return values
end

local function resume(run)
  local from = run.load_from or run.checkpoint
  local values = run.resume and load(run, from)
  if not values then return end
  local saved = values.run
  if type(saved) ~= "table" or math.type(saved.epoch) ~= "integer"
      or type(saved.history) ~= "table" then
    fail("fit: '%s' was not saved by train.fit", from.path)
  end
  run.history, run.epoch, run.step = saved.history, saved.epoch, saved.step
  run.stopped_early, run.stop = saved.stopped_early, saved.stopped_early
  if run.checkpoint then run.checkpoint.best = saved.best end
  if class.is_instance(run.log, CSVLog) and run.rank == 0 then run.log:resume(run.epoch) end
end

-- Where there are several ranks, this becomes one of them.
local function meet_ranks(run)
  run.rank, run.world_size = 0, 1
  local world = distributed.world
  if world and world.size > 1 then ranks.begin(run, world) end
  run.net = ranks.bare(run.model)
end

--- Trains a model and returns the history: an array with a row for each epoch, of `epoch`, `lr`,
--- `loss`, the metrics by their names, and with `valid_` before them those of validation. A batch
--- of `data` is the model's inputs and the target; the loss is `loss(model(x, ...), target)`, a
--- mean over the batch.
---
--- Where `ml.distributed` has several ranks, all call it alike, and each trains with its part of
--- the batches: gradients are averaged (the model may be a `DistributedDataParallel` already),
--- losses and metrics are those of all ranks, weighted by their examples, and so decisions are the
--- same. Examples of a validation count once. Rank 0 alone shows bars, writes logs and the
--- checkpoint, from which all resume, also when their number is another. Callbacks run on all
--- ranks; any that sets `stop` stops all.
--- > x = ml.tensor { { 0.0 }, { 1.0 }, { 2.0 } }
--- > data = ml.data.DataLoader(ml.data.TensorDataset(x, 2 * x + 1), 3)
--- > net = ml.nn.Linear(1, 1)
--- > opt = ml.optim.SGD(net:parameters(), 0.1)
--- > history = ml.train.fit(net, data, ml.nn.MSELoss(), opt, { epochs = 20, progress = false })
--- > #history, history[20].loss < history[1].loss
---   20	true
---@param model moonlet.nn.Module the module to train
---@param data moonlet.data.DataLoader a loader, whose batches are the inputs and the target
---@param loss function gives the loss of an output and a target
---@param optimizer moonlet.optim.Optimizer the optimiser of the model's parameters
---@param epochs? integer number of passes through `data`
---@param valid? any a loader for validation after each epoch
---@param scheduler? any a learning rate schedule, which is stepped as `scheduler_pace` says
---@param scheduler_pace? string "epoch" or "step"
---@param clip_grad_norm? number the largest norm of the gradients, beyond which they are scaled
---   down
---@param accumulate? integer number of batches whose gradients make one step
---@param autocast? boolean|string|table true, a dtype or options of `ml.autocast`, for
---   automatic mixed precision
---@param scaler? any an `amp.GradScaler`, or its options
---@param metrics? table objects of `ml.metrics` by name
---@param checkpoint? any a `train.Checkpoint`, or its path
---@param resume? boolean|string true goes on from the checkpoint where there is one; a path
---   must exist
---@param early_stopping? any a `train.EarlyStopping`, its options or its patience
---@param callbacks? table functions `on_train_start`, `on_epoch_start`, `on_step`,
---   `on_epoch_end` and `on_train_end` by name, or an array of such tables; they get a table with
---   `model`, `optimizer`, `epoch`, `step`, `last_loss`, `history`, `rank`, `world_size`, and can
---   set its `stop`
---@param device? string the device that the model and the batches are moved to
---@param progress? boolean whether a bar is shown for each epoch, where stderr is a terminal
---@param log? any a `train.CSVLog`, a SummaryWriter or a function of the row
---@return table[] history
local function fit(...)
  local run = prepare(...)
  local mode = run.model.training
  if run.device then run.model:to(run.device) end
  meet_ranks(run)
  resume(run)
  call(run, "on_train_start")
  if run.agrees then run.stop = ranks.stops(run) end
  while run.epoch < run.epochs and not run.stop do save(run, run_epoch(run)) end
  if run.stopped_early and run.early_stopping and run.early_stopping.weights then
    run.early_stopping:restore(run.net)
  end
  call(run, "on_train_end")
  run.model:train(mode)
  return run.history
end

return { fit = fit }
