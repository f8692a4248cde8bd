-- stdlib/nn/linear.lua: Linear and Identity.

local init = require "moonlet.nn.init"
local layer = require "moonlet.nn.layer"
local Module = require "moonlet.nn.module"
local class = require "moonlet.class"
local ml = require "moonlet"

local layers = {}

--- Linear (fully connected) layer: an affine map of the last dimension. The weight and the bias
--- start from the uniform distribution between -k and k with k = 1 / sqrt(in_features).
--- > ml.nn.Linear(3, 2)(ml.ones(5, 3)).shape
---   (5, 2)
---@param in_features the size of the last dimension of the input
---@param out_features the size of the last dimension of the output
---@param bias whether a bias is added
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape input (*, in_features) -> (*, out_features)
---@formula y = x W^T + b
---@field weight moonlet.Tensor The parameter W of shape (out_features, in_features).
---@field bias moonlet.Tensor? The parameter b of shape (out_features,); nil with `bias = false`.
layers.Linear = layer.define("Linear",
  "int>=0 in_features, int>=0 out_features, bool bias=true" .. layer.factory, function(self, o)
    self.in_features, self.out_features = o.in_features, o.out_features
    self.weight = layer.parameter({ o.out_features, o.in_features }, o)
    if o.bias then self.bias = layer.parameter({ o.out_features }, o) end
    self:reset_parameters()
  end)

--- Draws the weight and the bias anew, as the constructor does.
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

--- Identity layer: returns its arguments. The constructor takes any arguments and ignores them, so
--- that it can replace any layer.
--- > ml.nn.Identity(54, "unused")(ml.tensor { 1, 2 })
---   {1, 2}
---   Tensor (2,) int64
---@shape input (*) -> (*)
---@formula y = x
layers.Identity = class("Identity", Module)

function layers.Identity:init() end

function layers.Identity:forward(...) return ... end

return layers
