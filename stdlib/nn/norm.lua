-- stdlib/nn/norm.lua: BatchNorm1d, BatchNorm2d, LayerNorm and Dropout: layers that behave
-- differently while training, and normalisation.

local init = require "moonlet.nn.init"
local layer = require "moonlet.nn.layer"
local ml = require "moonlet"
local options = require "moonlet.options"

local layers = {}

local function init_batch_norm(name)
  return function(self, o)
    self.num_features = options.integer(name, "num_features", o.num_features, 1)
    self.eps = options.number(name, "eps", o.eps, 0)
    self.momentum = options.number(name, "momentum", o.momentum, 0, 1)
    local factory = { dtype = o.dtype, device = o.device }
    if options.boolean(name, "affine", o.affine) then
      self.weight = init.ones_(layer.parameter({ o.num_features }, o))
      self.bias = init.zeros_(layer.parameter({ o.num_features }, o))
    end
    if options.boolean(name, "track_running_stats", o.track_running_stats) then
      self:register_buffer("running_mean", ml.zeros({ o.num_features }, factory))
      self:register_buffer("running_var", ml.ones({ o.num_features }, factory))
      self:register_buffer("num_batches_tracked",
        ml.zeros({}, { dtype = ml.int64, device = o.device }))
    end
  end
end

local function define_batch_norm(name, ranks)
  local cls = layer.define(name, layer.with_factory {
    { "num_features" }, { "eps", 1e-5 }, { "momentum", 0.1 }, { "affine", true },
    { "track_running_stats", true },
  }, init_batch_norm(name))

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
--- Szegedy, 2015); in `eval` mode by the running statistics.
layers.BatchNorm1d = define_batch_norm("BatchNorm1d",
  { [2] = true, [3] = true, text = "(n, features) or (n, features, length)" })

--- Normalises each channel of `(n, channels, h, w)` over the batch (Ioffe and Szegedy, 2015); in
--- `eval` mode by the running statistics.
layers.BatchNorm2d = define_batch_norm("BatchNorm2d",
  { [4] = true, text = "(n, channels, h, w)" })

--- Normalises over the last dimensions, which have the shape given (Ba et al., 2016).
layers.LayerNorm = layer.define("LayerNorm", layer.with_factory {
  { "normalized_shape" }, { "eps", 1e-5 }, { "elementwise_affine", true }, { "bias", true },
}, function(self, o)
  local shape = o.normalized_shape
  if type(shape) ~= "table" then shape = { shape } end
  self.normalized_shape = options.integers("LayerNorm", "normalized_shape", shape, #shape, 1)
  self.eps = options.number("LayerNorm", "eps", o.eps, 0)
  if options.boolean("LayerNorm", "elementwise_affine", o.elementwise_affine) then
    self.weight = init.ones_(layer.parameter(self.normalized_shape, o))
    if options.boolean("LayerNorm", "bias", o.bias) then
      self.bias = init.zeros_(layer.parameter(self.normalized_shape, o))
    end
  end
end)

function layers.LayerNorm:forward(x)
  return layer.run(self, ml.layer_norm, x, self.normalized_shape, self.weight, self.bias, self.eps)
end

function layers.LayerNorm:extra_repr() return table.concat(self.normalized_shape, ", ") end

--- While training sets elements to 0 with probability `p` and scales the others by 1 / (1 - p).
layers.Dropout = layer.define("Dropout", { { "p", 0.5 } }, function(self, o)
  self.p = options.number("Dropout", "p", o.p, 0, 1)
end)

function layers.Dropout:forward(x)
  if not self.training then return x end
  return layer.run(self, ml.dropout, x, self.p, true)
end

function layers.Dropout:extra_repr() return ("%g"):format(self.p) end

return layers
