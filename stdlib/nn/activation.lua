-- stdlib/nn/activation.lua: activations as layers, and layers that only change the shape. Each
-- activation is the op of its name with the layer's options as further arguments.

local layer = require "moonlet.nn.layer"
local ml = require "moonlet"
local options = require "moonlet.options"

local layers = {}

local function show(value)
  if math.type(value) == "float" then return ("%g"):format(value) end
  return type(value) == "table" and "(" .. table.concat(value, ", ") .. ")" or tostring(value)
end

local function define(name, op, spec)
  local fields = {}
  for i, entry in ipairs(spec or {}) do fields[i] = entry[1] end
  local cls = layer.define(name, spec or {}, function(self, o)
    for _, field in ipairs(fields) do self[field] = o[field] end
  end)
  if #fields == 0 then
    function cls:forward(x) return layer.run(self, ml[op], x) end
  else
    function cls:forward(x)
      local values = {}
      for i, field in ipairs(fields) do values[i] = self[field] end
      return layer.run(self, ml[op], x, table.unpack(values, 1, #fields))
    end
  end
  function cls:extra_repr()
    local parts = {}
    for i, field in ipairs(fields) do parts[i] = show(self[field]) end
    return table.concat(parts, ", ")
  end
  layers[name] = cls
end

define("ReLU", "relu")
define("ReLU6", "relu6")
define("Sigmoid", "sigmoid")
define("Tanh", "tanh")
define("SiLU", "silu")
define("Mish", "mish")
define("SELU", "selu")
define("Softsign", "softsign")
define("Hardsigmoid", "hardsigmoid")
define("Hardswish", "hardswish")
define("LogSigmoid", "logsigmoid")
define("GELU", "gelu", { { "approximate", "none" } })
define("ELU", "elu", { { "alpha", 1.0 } })
define("CELU", "celu", { { "alpha", 1.0 } })
define("LeakyReLU", "leaky_relu", { { "negative_slope", 0.01 } })
define("Hardtanh", "hardtanh", { { "min_val", -1.0 }, { "max_val", 1.0 } })
define("Softplus", "softplus", { { "beta", 1.0 }, { "threshold", 20.0 } })
define("Threshold", "threshold", { { "threshold" }, { "value" } })
define("GLU", "glu", { { "dim", -1 } })
define("Softmax", "softmax", { { "dim" } })
define("Softmin", "softmin", { { "dim" } })
define("LogSoftmax", "log_softmax", { { "dim" } })
-- Dimensions count from 1: what follows the batch starts at 2.
define("Flatten", "flatten", { { "start_dim", 2 }, { "end_dim", -1 } })
define("Unflatten", "unflatten", { { "dim" }, { "size" } })

--- `max(x, 0)` plus a learned slope times `min(x, 0)` (He et al., 2015), one for all channels or
--- one for each.
layers.PReLU = layer.define("PReLU", layer.with_factory { { "num_parameters", 1 },
  { "init", 0.25 } }, function(self, o)
  options.integer("PReLU", "num_parameters", o.num_parameters, 1)
  self.weight = layer.parameter({ o.num_parameters }, o)
  self.weight:detach():fill_(options.number("PReLU", "init", o.init))
end)

function layers.PReLU:forward(x)
  return layer.run(self, function()
    local slope = self.weight
    local channels = slope:numel()
    if channels > 1 then
      local size = {}
      for i = 1, x.ndim do size[i] = i == 2 and channels or 1 end
      slope = slope:view(size)
    end
    return x:relu() - slope * (-x):relu()
  end)
end

function layers.PReLU:extra_repr() return tostring(self.weight:numel()) end

return layers
