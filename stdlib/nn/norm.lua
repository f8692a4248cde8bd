-- stdlib/nn/norm.lua: BatchNorm1d, BatchNorm2d, LayerNorm and Dropout: layers that behave
-- differently while training, and normalisation.

local init = require "moonlet.nn.init"
local layer = require "moonlet.nn.layer"
local ml = require "moonlet"
local options = require "moonlet.options"

local layers = {}

local function init_batch_norm(self, o)
  self.num_features, self.eps, self.momentum = o.num_features, o.eps, o.momentum
  local factory = { dtype = o.dtype, device = o.device }
  if o.affine then
    self.weight = init.ones_(layer.parameter({ o.num_features }, o))
    self.bias = init.zeros_(layer.parameter({ o.num_features }, o))
  end
  if o.track_running_stats then
    self:register_buffer("running_mean", ml.zeros({ o.num_features }, factory))
    self:register_buffer("running_var", ml.ones({ o.num_features }, factory))
    self:register_buffer("num_batches_tracked",
      ml.zeros({}, { dtype = ml.int64, device = o.device }))
  end
end

local function define_batch_norm(name, ranks)
  local cls = layer.define(name, "int>=1 num_features, number>=0 eps=1e-5, "
    .. "number>=0<=1 momentum=0.1, bool affine=true, bool track_running_stats=true"
    .. layer.factory, init_batch_norm)

  function cls:forward(x)
    if ml.is_tensor(x) and not ranks[x.ndim] then
      options.fail("%s: wanted %s, got shape %s", self:describe(), ranks.text, tostring(x.shape))
    end
    if self.training and self.num_batches_tracked then self.num_batches_tracked:add_(1) end
    return layer.run(self, ml.batch_norm, x, self.running_mean, self.running_var, self.weight,
      self.bias, self.training or self.running_mean == nil, self.momentum, self.eps)
  end

  function cls:extra_repr() return tostring(self.num_features) end
  return cls
end

--- Normalises each feature of `(n, features)` or `(n, features, length)` over the batch (Ioffe and
--- Szegedy, 2015); in `eval` mode by the running statistics, which training moves towards those of
--- each batch by `momentum`.
---@field weight moonlet.Tensor? The factor of each feature, a parameter; nil with `affine = false`.
---@field bias moonlet.Tensor? What is added to each feature, a parameter.
---@field running_mean moonlet.Tensor? The buffer of means that `eval` uses.
---@field running_var moonlet.Tensor? The buffer of variances that `eval` uses.
layers.BatchNorm1d = define_batch_norm("BatchNorm1d",
  { [2] = true, [3] = true, text = "(n, features) or (n, features, length)" })

--- Normalises each channel of `(n, channels, h, w)` over the batch (Ioffe and Szegedy, 2015); in
--- `eval` mode by the running statistics, which training moves towards those of each batch by
--- `momentum`.
---@field weight moonlet.Tensor? The factor of each channel, a parameter; nil with `affine = false`.
---@field bias moonlet.Tensor? What is added to each channel, a parameter.
---@field running_mean moonlet.Tensor? The buffer of means that `eval` uses.
---@field running_var moonlet.Tensor? The buffer of variances that `eval` uses.
layers.BatchNorm2d = define_batch_norm("BatchNorm2d",
  { [4] = true, text = "(n, channels, h, w)" })

--- Normalises over the last dimensions, which have the shape given, to mean 0 and variance 1, then
--- scales and shifts each element (Ba et al., 2016). `normalized_shape` is one size or several.
---@field weight moonlet.Tensor? The factors, a parameter of `normalized_shape`.
---@field bias moonlet.Tensor? What is added, a parameter of `normalized_shape`.
layers.LayerNorm = layer.define("LayerNorm", "int>=1|int[]>=1 normalized_shape, "
  .. "number>=0 eps=1e-5, bool elementwise_affine=true, bool bias=true" .. layer.factory,
  function(self, o)
    local shape = o.normalized_shape
    self.normalized_shape = type(shape) == "table" and shape or { shape }
    self.eps = o.eps
    if not o.elementwise_affine then return end
    self.weight = init.ones_(layer.parameter(self.normalized_shape, o))
    if o.bias then self.bias = init.zeros_(layer.parameter(self.normalized_shape, o)) end
  end)

function layers.LayerNorm:forward(x)
  return layer.run(self, ml.layer_norm, x, self.normalized_shape, self.weight, self.bias, self.eps)
end

function layers.LayerNorm:extra_repr() return table.concat(self.normalized_shape, ", ") end

--- While training sets elements to 0 with probability `p` and scales the others by 1 / (1 - p).
--- With `inplace` the argument itself is changed (Srivastava et al., 2014).
layers.Dropout = layer.define("Dropout", "number>=0<=1 p=0.5, bool inplace=false",
  function(self, o) self.p, self.inplace = o.p, o.inplace end)

function layers.Dropout:forward(x)
  if not self.training then return x end
  if self.inplace then
    return layer.run(self, function() return x:mul_(ml.dropout_mask(x, self.p)) end)
  end
  return layer.run(self, ml.dropout, x, self.p, true)
end

function layers.Dropout:extra_repr()
  return ("%g%s"):format(self.p, self.inplace and ", inplace" or "")
end

return layers
