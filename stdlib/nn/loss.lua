-- stdlib/nn/loss.lua: losses as modules: each is the op of its snake_case name; classes and
-- positions in targets count from 1.

local layer = require "moonlet.nn.layer"
local ml = require "moonlet"
local options = require "moonlet.options"

local layers = {}

local kReduction = { "reduction", "mean" }
local kReductions = { mean = true, sum = true, none = true }

-- `buffers` are options that hold tensors, which move with the module. `call` runs the op.
local function define(name, spec, call, buffers)
  local is_buffer = {}
  for _, field in ipairs(buffers or {}) do is_buffer[field] = true end
  layers[name] = layer.define(name, spec, function(self, o)
    if not kReductions[o.reduction] then
      options.fail("%s: 'reduction' must be mean, sum or none, got %s", name,
        tostring(o.reduction))
    end
    for _, entry in ipairs(spec) do
      local field = entry[1]
      if is_buffer[field] then
        self:register_buffer(field, o[field])
      else
        self[field] = o[field]
      end
    end
  end)
  layers[name].forward = function(self, x, target)
    return layer.run(self, call, self, x, target)
  end
end

define("CrossEntropyLoss", { { "weight", options.none }, { "ignore_index", -100 }, kReduction,
  { "label_smoothing", 0.0 } }, function(self, x, target)
  return ml.cross_entropy(x, target, self.weight, self.reduction, self.ignore_index,
    self.label_smoothing)
end, { "weight" })

define("NLLLoss", { { "weight", options.none }, { "ignore_index", -100 }, kReduction },
  function(self, x, target)
    return ml.nll_loss(x, target, self.weight, self.reduction, self.ignore_index)
  end, { "weight" })

define("MSELoss", { kReduction }, function(self, x, target)
  return ml.mse_loss(x, target, self.reduction)
end)

define("L1Loss", { kReduction }, function(self, x, target)
  return ml.l1_loss(x, target, self.reduction)
end)

define("SmoothL1Loss", { kReduction, { "beta", 1.0 } }, function(self, x, target)
  return ml.smooth_l1_loss(x, target, self.reduction, self.beta)
end)

define("HuberLoss", { kReduction, { "delta", 1.0 } }, function(self, x, target)
  return ml.huber_loss(x, target, self.reduction, self.delta)
end)

define("BCELoss", { { "weight", options.none }, kReduction }, function(self, x, target)
  return ml.binary_cross_entropy(x, target, self.weight, self.reduction)
end, { "weight" })

define("BCEWithLogitsLoss", { { "weight", options.none }, kReduction,
  { "pos_weight", options.none } }, function(self, x, target)
  return ml.binary_cross_entropy_with_logits(x, target, self.weight, self.pos_weight,
    self.reduction)
end, { "weight", "pos_weight" })

define("KLDivLoss", { kReduction, { "log_target", false } }, function(self, x, target)
  return ml.kl_div(x, target, self.reduction, self.log_target)
end)

return layers
