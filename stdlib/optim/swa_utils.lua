-- stdlib/optim/swa_utils.lua: optim.swa_utils: averages of a model's weights over its training:
-- stochastic weight averaging (Izmailov et al., 2018) and moving averages.

local class = require "moonlet.class"
local ml = require "moonlet"
local Module = require("moonlet.nn").Module
local options = require "moonlet.options"
local signature = require "moonlet.signature"
require "moonlet.nn.copy"
require "moonlet.optim.one_cycle"  -- for its type "Anneal"

local fail = options.fail

local swa_utils = { SWALR = require "moonlet.optim.swa_lr" }

local function is_inexact(x) return x:is_floating_point() or x:is_complex() end

local read_swa_multi = signature "optim.swa_utils.get_swa_multi_avg_fn()"

--- Mean of all weights for the `multi_avg_fn` of `AveragedModel`.
--- > average, x = ml.optim.swa_utils.get_swa_multi_avg_fn(), ml.ones(2)
--- > average({ x }, { ml.zeros(2) }, ml.tensor(1))
--- > x
---   {0.5000, 0.5000}
---   Tensor (2,) float32
---@return fun(averages: Tensor[], weights: Tensor[], num_averaged: Tensor)
---@shape averages (*), ..., weights (*), ..., num_averaged ()
---@formula average = average + (weight - average) / (n_averaged + 1)
function swa_utils.get_swa_multi_avg_fn(...)
  read_swa_multi(...)
  return function(averages, weights, num_averaged)
    local _ <close> = ml.no_grad()
    local count = num_averaged:item() + 1
    for i, x in ipairs(averages) do
      x:copy_(is_inexact(x) and ml.lerp(x, weights[i], 1 / count) or x + (weights[i] - x) / count)
    end
  end
end

local read_swa = signature "optim.swa_utils.get_swa_avg_fn()"

--- Mean of all weights for the `avg_fn` of `AveragedModel`.
--- > average = ml.optim.swa_utils.get_swa_avg_fn()
--- > average(ml.ones(2), ml.zeros(2), ml.tensor(1))
---   {0.5000, 0.5000}
---   Tensor (2,) float32
---@return fun(average: Tensor, weight: Tensor, num_averaged: Tensor): Tensor
---@shape average (*), weight (*), num_averaged () -> (*)
---@formula average = average + (weight - average) / (n_averaged + 1)
function swa_utils.get_swa_avg_fn(...)
  read_swa(...)
  return function(average, weight, num_averaged)
    local _ <close> = ml.no_grad()
    return average + (weight - average) / (num_averaged + 1)
  end
end

local read_ema_multi = signature "optim.swa_utils.get_ema_multi_avg_fn(number>=0<=1 decay=0.999)"

--- Exponential moving average for the `multi_avg_fn` of `AveragedModel`.
--- > average, x = ml.optim.swa_utils.get_ema_multi_avg_fn(0.9), ml.ones(2)
--- > average({ x }, { ml.zeros(2) }, ml.tensor(1))
--- > x
---   {0.9000, 0.9000}
---   Tensor (2,) float32
---@param decay? number the part of the average that a step keeps, from 0 to 1
---@return fun(averages: Tensor[], weights: Tensor[], num_averaged: Tensor)
---@shape averages (*), ..., weights (*), ..., num_averaged ()
---@formula average = decay average + (1 - decay) weight
function swa_utils.get_ema_multi_avg_fn(...)
  local decay = read_ema_multi(...)
  return function(averages, weights)
    local _ <close> = ml.no_grad()
    for i, x in ipairs(averages) do
      x:copy_(is_inexact(x) and ml.lerp(x, weights[i], 1 - decay)
        or x * decay + weights[i] * (1 - decay))
    end
  end
end

local read_ema = signature "optim.swa_utils.get_ema_avg_fn(number>=0<=1 decay=0.999)"

--- Exponential moving average for the `avg_fn` of `AveragedModel`.
--- > average = ml.optim.swa_utils.get_ema_avg_fn(0.9)
--- > average(ml.ones(2), ml.zeros(2), ml.tensor(1))
---   {0.9000, 0.9000}
---   Tensor (2,) float32
---@param decay? number the part of the average that a step keeps, from 0 to 1
---@return fun(average: Tensor, weight: Tensor, num_averaged: Tensor): Tensor
---@shape average (*), weight (*), num_averaged () -> (*)
---@formula average = decay average + (1 - decay) weight
function swa_utils.get_ema_avg_fn(...)
  local decay = read_ema(...)
  return function(average, weight)
    local _ <close> = ml.no_grad()
    return average * decay + weight * (1 - decay)
  end
end

--- Copy of a model whose weights are averages of those that it was updated with. The average is the
--- mean, or what `avg_fn` or `multi_avg_fn` makes it. It is called as the model is.
--- > net = ml.nn.Linear(2, 1)
--- > averaged = ml.optim.swa_utils.AveragedModel(net)
--- > averaged:update_parameters(net)
--- > averaged.n_averaged
---   1  Tensor () int64
---@param model the model, which is copied
---@param device where the copy lives: where the model does unless given
---@param avg_fn `avg_fn(average, weight, count)` gives the next average of a parameter
---@param multi_avg_fn `multi_avg_fn(averages, weights, count)` changes all averages in place
---@param use_buffers whether buffers are averaged too, or are those of the model
---@shape input as the model takes it -> as the model gives it
---@formula average = average + (weight - average) / (n_averaged + 1)
---@source Izmailov et al., 2018: Averaging weights leads to wider optima and better generalization
---@field module table The copy of the model.
---@field n_averaged Tensor How many models it is the average of.
local AveragedModel = class("AveragedModel", Module)
swa_utils.AveragedModel = AveragedModel

local read_model = signature("optim.swa_utils.AveragedModel(Module model, any? device=nil, "
  .. "function? avg_fn=nil, function? multi_avg_fn=nil, bool use_buffers=false)")

function AveragedModel:init(...)
  local model, device, avg_fn, multi_avg_fn, use_buffers = read_model(...)
  if avg_fn and multi_avg_fn then
    fail("optim.swa_utils.AveragedModel: 'avg_fn' and 'multi_avg_fn' exclude each other")
  end
  self.module = model:deepcopy()
  if device ~= nil then self.module:to { device = device } end
  self:register_buffer("n_averaged", ml.tensor(0, { dtype = ml.int64, device = device }))
  self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers
end

--- Calls the averaged model.
--- > net = ml.nn.ReLU()
--- > ml.optim.swa_utils.AveragedModel(net):forward(ml.tensor { -1, 1 })
---   {0, 1}
---   Tensor (2,) int64
---@param ... any the model's arguments
---@return any
function AveragedModel:forward(...) return self.module(...) end

local function buffers_of(module)
  local out = {}
  for _, buffer in module:named_buffers() do out[#out + 1] = buffer end
  return out
end

-- The tensors to average, outside the graph.
local function tensors_of(module, with_buffers)
  local out = {}
  for i, p in ipairs(module:parameters()) do out[i] = p:detach() end
  if with_buffers then
    for _, buffer in ipairs(buffers_of(module)) do out[#out + 1] = buffer:detach() end
  end
  return out
end

local function average(self, averages, weights)
  local count = self.n_averaged
  if self.avg_fn then
    for i, x in ipairs(averages) do
      x:copy_(self.avg_fn(x, weights[i], count:to { device = x.device }))
    end
  else
    local update = self.multi_avg_fn or swa_utils.get_swa_multi_avg_fn()
    update(averages, weights, count)
  end
end

local read_update = signature "AveragedModel:update_parameters(Module model)"

--- Takes the weights of a model into the average; the first time the average is they.
--- > net = ml.nn.Linear(2, 1)
--- > averaged = ml.optim.swa_utils.AveragedModel(net)
--- > averaged:update_parameters(net)
--- > averaged.module.weight:eq(net.weight):all()
---   true  Tensor () bool
---@param model table the model
function AveragedModel:update_parameters(...)
  local model = read_update(...)
  local _ <close> = ml.no_grad()
  local averages = tensors_of(self.module, self.use_buffers)
  local weights = tensors_of(model, self.use_buffers)
  if #averages ~= #weights then
    fail("AveragedModel:update_parameters: the model has %d tensors, the average %d", #weights,
      #averages)
  end
  for i, x in ipairs(averages) do
    if weights[i].shape ~= x.shape then
      fail("AveragedModel:update_parameters: tensor %d has shape %s, that of the average %s", i,
        tostring(weights[i].shape), tostring(x.shape))
    end
    weights[i] = weights[i]:to { device = x.device }
  end
  if self.n_averaged:item() == 0 then
    for i, x in ipairs(averages) do x:copy_(weights[i]) end
  else
    average(self, averages, weights)
  end
  if not self.use_buffers then
    local theirs = buffers_of(model)
    for i, buffer in ipairs(buffers_of(self.module)) do
      buffer:copy_(theirs[i]:to { device = buffer.device })
    end
  end
  self.n_averaged:add_(1)
end

local function is_batch_norm(module)
  local cls = class.of(module)
  while cls do
    if class.name(cls):find "BatchNorm" then return module.running_mean ~= nil end
    cls = cls.super
  end
  return false
end

-- The parts of a model that normalise batches, their statistics as new.
local function reset_batch_norms(model)
  local found = {}
  for _, module in ipairs(model:modules()) do
    if is_batch_norm(module) then
      found[#found + 1] = module
      module.running_mean:zero_()
      module.running_var:fill_(1)
      module.num_batches_tracked:zero_()
    end
  end
  return found
end

-- Makes the statistics of a module the means over all batches, until the result is closed.
local function cumulate(module)
  local before = module.momentum
  local hook = module:register_forward_pre_hook(function()
    module.momentum = 1 / (module.num_batches_tracked:item() + 1)
  end)
  return function()
    hook:remove()
    module.momentum = before
  end
end

-- The input of a batch, which may be an array that has it first.
local function input_of(batch)
  if type(batch) == "table" and not ml.is_tensor(batch) and batch[1] ~= nil then return batch[1] end
  return batch
end

local read_bn = signature "optim.swa_utils.update_bn(any loader, Module model, any? device=nil)"

--- Sets the running statistics of a model's batch normalisation to the means over all batches of
--- data. The model is called with each batch in training mode, without gradients; its mode and
--- momenta stay.
--- > net = ml.nn.BatchNorm1d(1)
--- > ml.optim.swa_utils.update_bn({ ml.tensor { { 1.0 }, { 3.0 } },
---   ml.tensor { { 5.0 }, { 7.0 } } }, net)
--- > net.running_mean
---   {4.}
---   Tensor (1,) float32
---@param loader any an array of batches, or what `for` takes, such as a data loader; the input of a
---   batch is the batch itself or its first item
---@param model table the model
---@param device? any where the inputs go first: they stay unless given
function swa_utils.update_bn(...)
  local loader, model, device = read_bn(...)
  local is_list = type(loader) == "table" and getmetatable(loader) == nil
  if not (is_list or options.is_callable(loader)) then
    fail("optim.swa_utils.update_bn: 'loader' must be an array of batches or an iterator, got %s",
      signature.describe(loader))
  end
  local _ <close> = ml.no_grad()
  local found, ends = reset_batch_norms(model), {}
  if #found == 0 then return end
  local was_training = model.training
  for i, module in ipairs(found) do ends[i] = cumulate(module) end
  local _ <close> = setmetatable({}, { __close = function()
    for _, finish in ipairs(ends) do finish() end
    model:train(was_training)
  end })
  model:train()
  local function run(batch)
    local x = input_of(batch)
    model(device ~= nil and x:to { device = device } or x)
  end
  if is_list then
    for _, batch in ipairs(loader) do run(batch) end
  else
    for batch in loader do run(batch) end
  end
end

return options.namespace("optim.swa_utils", swa_utils)
