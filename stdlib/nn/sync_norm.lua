-- stdlib/nn/sync_norm.lua: batch normalisation over the batches of all ranks.

local Module = require "moonlet.nn.module"
local class = require "moonlet.class"
local ml = require "moonlet"
local norm = require "moonlet.nn.norm"
local options = require "moonlet.options"
local signature = require "moonlet.signature"

require "moonlet.distributed.state"  -- for the type Group

local sync_norm = {}

local read_class = signature('nn.SyncBatchNorm(int>=1 num_features, number>=0 eps=1e-5, '
  .. 'number>=0<=1|bool momentum=0.1, bool affine=true, bool track_running_stats=true, '
  .. 'Group? process_group=nil)')

--- Batch normalisation whose mean and variance are those of the batches of all ranks, for training
--- by `DistributedDataParallel` with few samples on each. In eval mode, and with one rank, it is
--- that of `BatchNorm2d`. Batches may differ in size.
--- > ml.distributed.init_process_group()
--- > ml.nn.SyncBatchNorm(1)(ml.tensor { { 1.0 }, { 3.0 } })
---   {{-1.0000},
---    { 1.0000}}
---   Tensor (2, 1) float32 grad_fn=NativeBatchNormBackward
--- > ml.distributed.destroy_process_group()
---@param num_features integer how many channels there are, the second size of the input
---@param eps? number what is added to the variance
---@param momentum? number|boolean the weight of the newest batch in the running statistics; false
---   for the mean of all batches
---@param affine? boolean whether the results are scaled and shifted by learned parameters
---@param track_running_stats? boolean whether running statistics are kept for eval mode
---@param process_group? table the group; all ranks unless given
---@shape input (n, num_features, *) -> as input
---@formula y = weight (x - E[x]) / sqrt(Var[x] + eps) + bias
---@field process_group table? The group; nil for all ranks.
local SyncBatchNorm = class("SyncBatchNorm", norm.BatchNorm2d)
sync_norm.SyncBatchNorm = SyncBatchNorm
SyncBatchNorm._ranks = { [2] = true, [3] = true, [4] = true, [5] = true,
  text = "(n, channels) with up to three more dimensions" }

function SyncBatchNorm:init(...)
  local features, eps, momentum, affine, tracks, group = read_class(...)
  norm.BatchNorm2d.init(self, features, { eps = eps, momentum = momentum, affine = affine,
    track_running_stats = tracks })
  self.process_group = group
end

-- The mean and the biased variance over all ranks, and how many values of a channel there are.
local function statistics(x, dims, group)
  local functional = ml.distributed.functional
  local channels = x:size(2)
  local count = ml.full({ 1 }, x:numel() / channels, { dtype = x.dtype, device = x.device })
  local sums = functional.all_reduce(ml.cat { x:sum { dim = dims }, count }, { group = group })
  local total = sums:narrow(1, channels + 1, 1):detach()
  local mean = sums:narrow(1, 1, channels) / total
  local shape = { 1, channels }
  for i = 3, x:dim() do shape[i] = 1 end
  local centred = x - mean:view(shape)
  local var = functional.all_reduce((centred * centred):sum { dim = dims }, { group = group })
    / total
  return centred, mean, var, total, shape
end

--- Normalises a batch.
--- > ml.distributed.init_process_group()
--- > ml.nn.SyncBatchNorm(1):forward(ml.tensor { { 1.0 }, { 3.0 } })
---   {{-1.0000},
---    { 1.0000}}
---   Tensor (2, 1) float32 grad_fn=NativeBatchNormBackward
--- > ml.distributed.destroy_process_group()
---@param x moonlet.Tensor the batch
---@return moonlet.Tensor y
---@shape x (n, num_features, *) -> as x
function SyncBatchNorm:forward(x)
  local group = self.process_group
  local uses_batch = self.training or self.running_mean == nil
  if not uses_batch or not ml.distributed.is_initialized()
      or ml.distributed.get_world_size(group) == 1 then
    return norm.BatchNorm2d.forward(self, x)
  end
  if not self._ranks[x.ndim] or x:size(2) ~= self.num_features then
    options.fail("SyncBatchNorm: expected %s with %d channels, got shape %s", self._ranks.text,
      self.num_features, tostring(x.shape))
  end
  local dims = { 1 }
  for i = 3, x:dim() do dims[#dims + 1] = i end
  local centred, mean, var, total, shape = statistics(x, dims, group)
  if self.training and self.running_mean then
    local _ <close> = ml.no_grad()
    self.num_batches_tracked:add_(1)
    local momentum = self.momentum or 1 / self.num_batches_tracked:item()
    local unbiased = var:detach() * (total / (total - 1))
    self.running_mean:lerp_(mean:detach(), momentum)
    self.running_var:lerp_(unbiased, momentum)
  end
  local y = centred * (var + self.eps):rsqrt():view(shape)
  if self.weight then y = y * self.weight:view(shape) end
  if self.bias then y = y + self.bias:view(shape) end
  return y
end

local KINDS = { "BatchNorm1d", "BatchNorm2d", "BatchNorm3d" }

local function is_batch_norm(module)
  if class.is_instance(module, SyncBatchNorm) then return false end
  for _, name in ipairs(KINDS) do
    if class.is_instance(module, norm[name]) then return true end
  end
  return false
end

local function converted(module, group)
  local out = SyncBatchNorm(module.num_features, { eps = module.eps, momentum = module.momentum,
    affine = module.affine, track_running_stats = module.track_running_stats,
    process_group = group })
  for _, name in ipairs { "weight", "bias", "running_mean", "running_var",
      "num_batches_tracked" } do
    if module[name] ~= nil then out[name] = module[name] end
  end
  out:train(module.training)
  return out
end

local read_convert = signature('nn.SyncBatchNorm.convert_sync_batchnorm(Module module, '
  .. 'Group? process_group=nil)')

--- Puts a `SyncBatchNorm` in the position of each `BatchNorm` of a module, with its parameters and
--- buffers. Returns the module, or what takes its position.
--- > net = ml.nn.Sequential(ml.nn.Linear(2, 2), ml.nn.BatchNorm1d(2))
--- > net = ml.nn.SyncBatchNorm.convert_sync_batchnorm(net)
--- > net[2]:is_a(ml.nn.SyncBatchNorm)
---   true
---@param module table the module
---@param process_group? table the group; all ranks unless given
---@return table module
function SyncBatchNorm.convert_sync_batchnorm(...)
  local module, group = read_convert(...)
  if is_batch_norm(module) then return converted(module, group) end
  local changes = {}
  for name, child in module:named_children() do
    local new = SyncBatchNorm.convert_sync_batchnorm(child, { process_group = group })
    if new ~= child then changes[name] = new end
  end
  for name, new in pairs(changes) do Module.set_submodule(module, name, new) end
  return module
end

return options.namespace("nn.sync_norm", sync_norm)
