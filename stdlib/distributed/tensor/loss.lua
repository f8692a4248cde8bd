-- stdlib/distributed/tensor/loss.lua: cross entropy of scores of which each rank has some of the
-- classes, which never come together on one rank.

local collectives = require "moonlet.distributed.collectives"
local ml = require "moonlet"
local options = require "moonlet.options"
local redistribute = require "moonlet.distributed.tensor.redistribute"
local signature = require "moonlet.signature"
local state = require "moonlet.distributed.state"
require "moonlet.distributed.device_mesh"  -- for the type DeviceMesh
local fail = options.fail

local losses = {}

-- How many classes the ranks before this one have, and how many there are.
local function classes_of_all(count, group)
  if group.size == 1 then return 0, count end
  local sizes = ml.empty({ group.size }, { dtype = ml.int64 })
  collectives.all_gather_into_tensor(sizes, ml.tensor({ count }, { dtype = ml.int64 }),
    { group = group })
  local before, total = 0, 0
  for r, size in ipairs(sizes:tolist()) do
    if r <= group.rank then before = before + size end
    total = total + size
  end
  return before, total
end

local function check(o, x, target, total)
  local classes = x:dim() > 1 and 2 or 1
  if target:is_floating_point() then
    fail "loss_parallel: cross_entropy: the target must hold classes, got probabilities"
  end
  local expected = x.shape:totable()
  table.remove(expected, classes)
  local same = target:dim() == #expected
  for i, size in ipairs(expected) do same = same and target:size(i) == size end
  if not same then
    fail("loss_parallel: cross_entropy: the input has shape %s, so the target must have (%s), got "
      .. "%s", tostring(x.shape), table.concat(expected, ", "), tostring(target.shape))
  end
  if o.weight and (o.weight:dim() ~= 1 or o.weight:size(1) ~= total) then
    fail("loss_parallel: cross_entropy: 'weight' must have a factor for each of the %d classes of "
      .. "all ranks, got %s", total, tostring(o.weight.shape))
  end
  local taken = target:ne(o.ignore_index)
  local wrong = taken:logical_and(target:lt(1):logical_or(target:gt(total)))
  if wrong:any():item() then
    fail("loss_parallel: cross_entropy: a target must be a class from 1 to %d, or %d, which takes "
      .. "no part, got %d", total, o.ignore_index, target:masked_select(wrong)[1]:item())
  end
  return taken
end

-- The logarithm of the sum of the exponentials of all classes.
local function log_sum_exp(x, classes, group)
  local own = x:detach()
  local highest = x:size(classes) > 0 and own:amax(classes) or own:sum(classes) - math.huge
  if group.size > 1 then collectives.all_reduce(highest, "max", { group = group }) end
  local sum = (x - highest:unsqueeze(classes)):exp():sum(classes)
  return redistribute.sum(sum, group):log() + highest
end

-- The scores of the targets.
local function target_scores(x, target, classes, before, group)
  local position = target - before
  local elsewhere = position:lt(1):logical_or(position:gt(x:size(classes)))
  if x:size(classes) == 0 then return redistribute.sum(x:sum(classes), group) end
  local own = x:gather(classes, position:masked_fill(elsewhere, 1):unsqueeze(classes))
  return redistribute.sum(own:squeeze(classes):masked_fill(elsewhere, 0), group)
end

-- The mean over the classes of the losses of each, weighted.
local function smooth_part(x, log_sum, o, classes, before, total, group)
  local weight, sum_of_weights = nil, total
  if o.weight then
    local shape = {}
    for i = 1, x:dim() do shape[i] = i == classes and x:size(classes) or 1 end
    weight = o.weight:narrow(1, before + 1, x:size(classes)):view(shape)
    sum_of_weights = o.weight:sum()
  end
  local own = (weight and x * weight or x):sum(classes)
  return (log_sum * sum_of_weights - redistribute.sum(own, group)) / total
end

local function cross_entropy(o, group)
  local x, target = o.x, o.target
  if x:dim() == 0 then
    fail "loss_parallel: cross_entropy: the input has shape (), (n, c, *) is expected"
  end
  -- Sums of 16-bit floats are made in float32, which under autocast the loss is in, too.
  local dtype = x.dtype
  if dtype == "float16" or dtype == "bfloat16" then
    x = x:float()
    if ml.is_autocast_enabled() then dtype = ml.float32 end
  end
  if target.dtype ~= "int64" and not target:is_floating_point() then target = target:long() end
  local classes = x:dim() > 1 and 2 or 1
  local before, total = classes_of_all(x:size(classes), group)
  local taken = check(o, x, target, total)
  local known = target:masked_fill(taken:logical_not(), 1)
  local log_sum = log_sum_exp(x, classes, group)
  local each = log_sum - target_scores(x, known, classes, before, group)
  local weights = taken:to(x.dtype)
  if o.weight then
    local factors = o.weight:to(x.dtype)[known]
    weights, each = weights * factors, each * factors
  end
  local smoothing = o.label_smoothing
  if smoothing > 0 then
    each = each * (1 - smoothing)
      + smooth_part(x, log_sum, o, classes, before, total, group) * smoothing
  end
  each = each:masked_fill(taken:logical_not(), 0)
  if o.reduction == "sum" then each = each:sum() end
  if o.reduction == "mean" then each = each:sum() / weights:sum() end
  return each:to { dtype = dtype }
end

local read = signature('distributed.tensor.parallel.loss_parallel(DeviceMesh device_mesh, '
  .. 'function? f=nil)')

--- Has `cross_entropy` take scores of which each rank has some of the classes, as `ColwiseParallel`
--- leaves them: while `f` runs, or what follows until the result, a `<close>` variable, ends. The
--- loss is the same on all ranks, and the gradient of the scores is each rank's part. Targets are
--- classes of all ranks, the same on each, and so is `weight`.
--- > mesh = ml.distributed.init_device_mesh("cpu", { 1 })
--- > tp = ml.distributed.tensor.parallel
--- > head = tp.parallelize_module(ml.nn.Linear(4, 10), mesh, tp.ColwiseParallel())
--- > loss = tp.loss_parallel(mesh, function()
---     return ml.nn.functional.cross_entropy(head(ml.zeros(2, 4)) * 0, ml.tensor { 1, 10 })
---   end)
--- > loss:item() - math.log(10) < 1e-6
---   true
--- > ml.distributed.destroy_process_group()
---@param device_mesh table the ranks that have the classes: a mesh of one dimension
---@param f? fun(): ... what is run
---@return any ... the results of `f`, or the guard
---@error targets that are no class of any rank, probabilities as targets
---@source Shoeybi et al., 2019: Megatron-LM, training multi-billion parameter language models
function losses.loss_parallel(...)
  local mesh, f = read(...)
  if mesh.ndim ~= 1 then
    fail("loss_parallel: 'device_mesh' must have one dimension, got %s", tostring(mesh))
  end
  local group = state.group_of("loss_parallel", mesh:get_group())
  return options.under("loss_parallel", ml.override(function(op, arguments, call)
    if op.name ~= "cross_entropy" then return call(arguments) end
    return cross_entropy(arguments, group)
  end), f)
end

return options.namespace("distributed.tensor.loss", losses)
