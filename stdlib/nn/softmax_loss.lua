-- stdlib/nn/softmax_loss.lua: losses that have weights of their own: AdaptiveLogSoftmaxWithLoss and
-- LinearCrossEntropyLoss.

local containers = require "moonlet.nn.containers"
local functions = require "moonlet.nn.functional.loss"
local layer = require "moonlet.nn.layer"
local linear = require "moonlet.nn.linear"
local ml = require "moonlet"
local options = require "moonlet.options"

local layers = {}

local function check_cutoffs(o)
  local before = 0
  for _, cutoff in ipairs(o.cutoffs) do
    if cutoff <= before or cutoff >= o.n_classes then
      options.fail("nn.AdaptiveLogSoftmaxWithLoss: 'cutoffs' must grow and be less than the number "
        .. "of classes, %d; got %d after %d", o.n_classes, cutoff, before)
    end
    before = cutoff
  end
  if before == 0 then options.fail("nn.AdaptiveLogSoftmaxWithLoss: 'cutoffs' is empty") end
end

--- Adaptive softmax: an approximation of the softmax over many classes of which few are frequent.
--- Classes count from 1 and are sorted by how often they come. The first cutoffs[1] have scores of
--- their own in the head, together with one score for each cluster; the classes up to each further
--- cutoff are a cluster, whose features are `div_value` times fewer than those of the cluster
--- before. Called with `input` and `target` it returns the log probability of each target, and the
--- mean loss.
--- > ml.nn.AdaptiveLogSoftmaxWithLoss(8, 20, { 5, 10 }):log_prob(ml.ones(2, 8)).shape
---   (2, 20)
---@param in_features the size of the last dimension of the input
---@param n_classes how many classes there are
---@param cutoffs the last class of each part but the last, growing, below `n_classes`
---@param div_value the factor by which the features of a cluster are fewer than those of the one
---   before
---@param head_bias whether the head has a bias
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape input (n, in_features), target (n) -> log probabilities (n), loss ()
---@formula log p(y) = log softmax(head)_y for frequent classes
---@formula log p(y) = log softmax(head)_cluster + log softmax(tail)_y for others
---@formula loss = -mean(log p(y))
---@error a target below 1 or above `n_classes`
---@source Grave et al., 2016: Efficient softmax approximation for GPUs
---@field head moonlet.nn.Linear Scores of the frequent classes and of the clusters.
---@field tail moonlet.nn.ModuleList Scores within each cluster.
layers.AdaptiveLogSoftmaxWithLoss = layer.define("AdaptiveLogSoftmaxWithLoss",
  "int>=1 in_features, int>=1 n_classes, int[]>=1 cutoffs, number>0 div_value=4.0, "
  .. "bool head_bias=false" .. layer.factory, function(self, o)
    check_cutoffs(o)
    self.in_features, self.n_classes, self.div_value = o.in_features, o.n_classes, o.div_value
    self.cutoffs = { table.unpack(o.cutoffs) }
    self.cutoffs[#self.cutoffs + 1] = o.n_classes
    self.shortlist_size, self.n_clusters = self.cutoffs[1], #self.cutoffs - 1
    self.head_size = self.shortlist_size + self.n_clusters
    local factory = { bias = o.head_bias, device = o.device, dtype = o.dtype }
    self.head = linear.Linear(o.in_features, self.head_size, factory)
    factory.bias = false
    self.tail = containers.ModuleList()
    for i = 1, self.n_clusters do
      local width = math.floor(o.in_features / o.div_value ^ i)
      self.tail:append(containers.Sequential(linear.Linear(o.in_features, width, factory),
        linear.Linear(width, self.cutoffs[i + 1] - self.cutoffs[i], factory)))
    end
  end)
local Adaptive = layers.AdaptiveLogSoftmaxWithLoss

--- Draws all weights anew.
function Adaptive:reset_parameters()
  for _, module in ipairs(self:modules()) do
    if module ~= self and module.reset_parameters then module:reset_parameters() end
  end
end

-- The log probabilities of the targets in cluster `i`, added to `out`, and its position among the
-- scores of the head at the rows that have them.
local function add_cluster(self, i, input, target, out, position)
  local low, high = self.cutoffs[i], self.cutoffs[i + 1]
  local rows = target:gt(low):logical_and(target:le(high)):nonzero():reshape(-1)
  if rows:numel() == 0 then return out, position end
  local scores = ml.log_softmax(self.tail[i](input:index_select(1, rows)), 2)
  local within = target:index_select(1, rows):sub(low):unsqueeze(2)
  out = out:index_add(1, rows, scores:gather(2, within):squeeze(2):to { dtype = out.dtype })
  return out, position:index_fill(1, rows, self.shortlist_size + i)
end

local function check_target(self, input, target)
  if not (ml.is_tensor(input) and ml.is_tensor(target) and input.ndim == target.ndim + 1
      and target.ndim <= 1 and (target.ndim == 0 or input.shape[1] == target.shape[1])) then
    options.fail("%s: an input (n, features) and a target (n), or both without n, are expected",
      self:describe())
  elseif target:numel() > 0
      and (target:min():item() < 1 or target:max():item() > self.n_classes) then
    options.fail("%s: targets are classes from 1 to %d, got some from %d to %d", self:describe(),
      self.n_classes, target:min():item(), target:max():item())
  end
end

Adaptive._inputs = { "input", "target" }

function Adaptive:forward(input, target)
  check_target(self, input, target)
  local single = target.ndim == 0
  if single then input, target = input:unsqueeze(1), target:unsqueeze(1) end
  local out = ml.zeros({ #target }, { dtype = input.dtype, device = input.device })
  local position = target:long()
  for i = 1, self.n_clusters do
    out, position = add_cluster(self, i, input, target:long(), out, position)
  end
  local scores = ml.log_softmax(layer.run(self, self.head, input), 2)
  out = out + scores:gather(2, position:unsqueeze(2)):squeeze(2)
  local loss = -out:mean()
  return single and out:squeeze(1) or out, loss
end

-- The log probabilities of all classes, from the scores of the head.
local function all_classes(self, input, head)
  local scores = ml.log_softmax(head, 2)
  local parts = { scores:narrow(2, 1, self.shortlist_size) }
  for i = 1, self.n_clusters do
    parts[i + 1] = ml.log_softmax(self.tail[i](input), 2)
      + scores:narrow(2, self.shortlist_size + i, 1)
  end
  return ml.cat(parts, 2)
end

--- Log probabilities of all classes.
--- > ml.nn.AdaptiveLogSoftmaxWithLoss(8, 20, { 5, 10 }):log_prob(ml.ones(2, 8)):exp():sum(2)
---   {1., 1.}
---   Tensor (2,) float32 grad_fn=SumBackward
---@param input moonlet.Tensor the features
---@return moonlet.Tensor
---@shape input (n, in_features) -> (n, n_classes)
function Adaptive:log_prob(input)
  return all_classes(self, input, layer.run(self, self.head, input))
end

--- The most probable class of each row, from 1. Clusters are evaluated only for rows where they may
--- have it.
--- > ml.nn.AdaptiveLogSoftmaxWithLoss(8, 20, { 5, 10 }):predict(ml.ones(2, 8)).shape
---   (2,)
---@param input moonlet.Tensor the features
---@return moonlet.Tensor
---@shape input (n, in_features) -> (n) int64
function Adaptive:predict(input)
  local head = layer.run(self, self.head, input)
  local output = head:argmax(2)
  local rows = output:gt(self.shortlist_size):nonzero():reshape(-1)
  if rows:numel() == 0 then return output end
  local best = all_classes(self, input:index_select(1, rows), head:index_select(1, rows)):argmax(2)
  return output:index_copy(1, rows, best)
end

function Adaptive:extra_repr()
  return ("%d -> %d, cutoffs %s"):format(self.in_features, self.n_classes,
    table.concat(self.cutoffs, ", ", 1, self.n_clusters))
end

--- Cross entropy loss with the linear layer of the scores in it. All scores are in memory at once.
--- With `out_features` there is a distribution of classes for each of these further sizes.
--- > ml.nn.LinearCrossEntropyLoss(4, 3)(ml.ones(2, 4), ml.tensor { 1, 3 }).shape
---   ()
---@param in_features the size of the last dimension of the input
---@param num_classes how many classes there are
---@param out_features further sizes of the scores after the classes
---@param bias whether the layer has a bias
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@param reduction "mean" "mean" of the losses, their "sum", or "none" for each of them
---@param weight a factor for each class, (num_classes,): 1 unless given
---@param ignore_index a target that takes no part
---@param label_smoothing which part of the target is spread evenly over all classes, from 0 to 1
---@shape input (n, in_features), target (n, *out_features) -> (), or (n, *out_features)
---@formula loss = cross_entropy(x W^T + b, y)
---@field linear moonlet.nn.Linear The layer of the scores.
layers.LinearCrossEntropyLoss = layer.define("LinearCrossEntropyLoss", "int>=1 in_features, "
  .. "int>=1 num_classes, int[]>=1 out_features={}, bool bias=false" .. layer.factory .. ", "
  .. 'Reduction reduction="mean", Tensor? weight=nil, int? ignore_index=nil, '
  .. "number>=0<=1 label_smoothing=0.0", function(self, o)
    if o.weight and (o.weight.ndim ~= 1 or #o.weight ~= o.num_classes) then
      options.fail("nn.LinearCrossEntropyLoss: 'weight' has shape %s, (%d) is expected",
        tostring(o.weight.shape), o.num_classes)
    end
    self:register_buffer("weight", o.weight)
    self.num_classes, self.reduction = o.num_classes, o.reduction
    self.ignore_index, self.label_smoothing = o.ignore_index, o.label_smoothing
    self.out_features = o.out_features
    local scores = o.num_classes
    for _, size in ipairs(o.out_features) do scores = scores * size end
    self.linear = linear.Linear(o.in_features, scores,
      { bias = o.bias, device = o.device, dtype = o.dtype })
  end)

-- `x`, whose first dimension is that of the scores, by class and further outputs.
local function by_class(self, x, ...)
  if x == nil or #self.out_features == 0 then return x end
  local size = { self.num_classes, table.unpack(self.out_features) }
  size[#size + 1] = ...
  return x:reshape(size)
end

layers.LinearCrossEntropyLoss._inputs = { "input", "target" }

function layers.LinearCrossEntropyLoss:forward(input, target)
  local weight = by_class(self, self.linear.weight, self.linear.in_features)
  return layer.run(self, functions.linear_cross_entropy, input, weight, target,
    by_class(self, self.linear.bias), self.weight, self.reduction, self.ignore_index,
    self.label_smoothing)
end

function layers.LinearCrossEntropyLoss:extra_repr()
  return ("%d classes%s"):format(self.num_classes, self.reduction == "mean" and ""
    or ", " .. self.reduction)
end

return layers
