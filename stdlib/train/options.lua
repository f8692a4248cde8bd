-- stdlib/train/options.lua: the arguments of ml.train.fit.

local Checkpoint = require("moonlet.train.checkpoint").Checkpoint
local EarlyStopping = require("moonlet.train.early_stopping").EarlyStopping
local GradScaler = require("moonlet.amp").GradScaler
local LRScheduler = require("moonlet.optim.lr_scheduler").LRScheduler
local ReduceLROnPlateau = require("moonlet.optim.lr_scheduler").ReduceLROnPlateau
local class = require "moonlet.class"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
require "moonlet.data"
local fail = options.fail
local is_callable = options.is_callable

signature.add_type("Loader", "a loader, with iter() and a length", function(value)
  return class.of(value) and type(value.iter) == "function"
    and getmetatable(value).__len and value or nil
end)
signature.add_type("Schedule", "a schedule of learning rates", function(value)
  local is_one = class.is_instance(value, LRScheduler)
    or class.is_instance(value, ReduceLROnPlateau)
  return is_one and value or nil
end)
signature.add_choice("Pace", { "epoch", "step" })

local read_fit = signature("train.fit(Module model, Loader data, function loss, "
  .. "Optimizer optimizer, int>=1 epochs=1, Loader? valid=nil, Schedule? scheduler=nil, "
  .. 'Pace scheduler_pace="epoch", number>0? clip_grad_norm=nil, int>=1 accumulate=1, '
  .. "bool|string|dict autocast=false, any? scaler=nil, dict metrics={}, any? checkpoint=nil, "
  .. "bool|string resume=false, any? early_stopping=nil, table callbacks={}, string? device=nil, "
  .. "bool progress=true, any? log=nil)", "fit")

-- What callbacks can be called for.
local EVENTS = { "on_train_start", "on_epoch_start", "on_step", "on_epoch_end", "on_train_end" }

-- The arguments of `ml.autocast`, as they are given: true, a dtype, or its options.
local function autocast_of(run)
  local given, out = run.autocast, { enabled = run.autocast ~= false }
  if type(given) == "string" then out.dtype = given end
  for key, value in pairs(type(given) == "table" and given or {}) do out[key] = value end
  local first = run.model:parameters()[1]
  out.device = out.device or (run.device or first and first.device or "cpu"):match "^%a+"
  return out
end

local function made(name, value, cls, from)
  if value == nil or class.is_instance(value, cls) then return value end
  if type(value) ~= from or class.of(value) then
    fail("fit: '%s' must be a %s or the options of one, got %s", name, class.name(cls),
      signature.describe(value))
  end
  return cls(value)
end

-- One table of callbacks, or an array of them.
local function callbacks_of(given)
  local lists = (#given > 0 or next(given) == nil) and given or { given }
  for i, callbacks in ipairs(lists) do
    if type(callbacks) ~= "table" then fail("fit: callback %d is no table of functions", i) end
    options.check("fit: callbacks", callbacks, EVENTS)
  end
  return lists
end

local function check_log(log)
  local ok = log == nil or is_callable(log)
    or class.of(log) and (log.write or log.add_scalar)
  if not ok then
    fail("fit: 'log' must be a CSVLog, a SummaryWriter or a function, got %s",
      signature.describe(log))
  end
end

local function check_metrics(given)
  for name, metric in pairs(given) do
    if type(metric) ~= "table" or not (metric.update and metric.compute and metric.reset) then
      fail("fit: metric '%s' has no methods update, compute and reset", tostring(name))
    end
  end
end

--- The arguments, checked and made ready: what the loop calls `run`.
---@return table run
return function(...)
  local run = read_fit:table(...)
  run.scaler = made("scaler", run.scaler, GradScaler, "table")
  run.checkpoint = made("checkpoint", run.checkpoint, Checkpoint, "string")
  if type(run.resume) == "string" then
    run.load_from, run.resume = Checkpoint(run.resume), true
  end
  if run.resume and not (run.checkpoint or run.load_from) then
    fail "fit: 'resume' wants a 'checkpoint', or the path of one"
  end
  if math.type(run.early_stopping) == "integer" then
    run.early_stopping = { patience = run.early_stopping }
  end
  run.early_stopping = made("early_stopping", run.early_stopping, EarlyStopping, "table")
  run.callbacks = callbacks_of(run.callbacks)
  check_log(run.log)
  check_metrics(run.metrics)
  if #run.data == 0 then fail "fit: 'data' has no batches" end
  run.autocast = autocast_of(run)
  run.history, run.epoch, run.step, run.stop = {}, 0, 0, false
  return run
end
