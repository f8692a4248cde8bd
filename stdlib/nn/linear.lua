-- stdlib/nn/linear.lua: Linear and Identity.

local init = require "moonlet.nn.init"
local layer = require "moonlet.nn.layer"
local Module = require "moonlet.nn.module"
local class = require "moonlet.class"
local ml = require "moonlet"

local layers = {}

--- `x` times the transposed weight plus bias: `(..., in_features)` to `(..., out_features)`.
--- Both start evenly distributed within 1 / sqrt(in_features).
--- > ml.nn.Linear(3, 2)(ml.ones(5, 3))
---@field weight moonlet.Tensor The parameter of shape (out_features, in_features).
---@field bias moonlet.Tensor? The parameter of shape (out_features,); nil with `bias = false`.
layers.Linear = layer.define("Linear",
  "int>=0 in_features, int>=0 out_features, bool bias=true" .. layer.factory, function(self, o)
    self.in_features, self.out_features = o.in_features, o.out_features
    self.weight = layer.parameter({ o.out_features, o.in_features }, o)
    if o.bias then self.bias = layer.parameter({ o.out_features }, o) end
    self:reset_parameters()
  end)

--- Draws the weight and bias anew.
function layers.Linear:reset_parameters()
  local bound = 1 / math.sqrt(math.max(self.in_features, 1))
  init.uniform_(self.weight, -bound, bound)
  if self.bias then init.uniform_(self.bias, -bound, bound) end
end

function layers.Linear:forward(x)
  return layer.run(self, ml.linear, x, self.weight, self.bias)
end

function layers.Linear:extra_repr()
  return ("%d -> %d%s"):format(self.in_features, self.out_features,
    self.bias and "" or ", no bias")
end

--- Gives back what it gets. Its constructor takes any arguments, so that it can stand in the
--- position of any layer.
layers.Identity = class("Identity", Module)

function layers.Identity:init() end

function layers.Identity:forward(...) return ... end

return layers
