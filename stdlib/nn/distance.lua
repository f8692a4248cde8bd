-- stdlib/nn/distance.lua: layers of two inputs: Bilinear, CosineSimilarity and PairwiseDistance.

local init = require "moonlet.nn.init"
local layer = require "moonlet.nn.layer"
local ml = require "moonlet"

local layers = {}

--- `x1^T weight[k] x2 + bias[k]` for each k: (..., in1_features) and (..., in2_features) to
--- (..., out_features). Both start evenly distributed within 1 / sqrt(in1_features).
---@field weight moonlet.Tensor The parameter of shape (out_features, in1_features, in2_features).
---@field bias moonlet.Tensor? The parameter of shape (out_features,); nil with `bias = false`.
layers.Bilinear = layer.define("Bilinear", "int>=1 in1_features, int>=1 in2_features, "
  .. "int>=1 out_features, bool bias=true" .. layer.factory, function(self, o)
    self.in1_features, self.in2_features = o.in1_features, o.in2_features
    self.out_features = o.out_features
    self.weight = layer.parameter({ o.out_features, o.in1_features, o.in2_features }, o)
    if o.bias then self.bias = layer.parameter({ o.out_features }, o) end
    self:reset_parameters()
  end)

--- Draws the weight and bias anew.
function layers.Bilinear:reset_parameters()
  local bound = 1 / math.sqrt(self.in1_features)
  init.uniform_(self.weight, -bound, bound)
  if self.bias then init.uniform_(self.bias, -bound, bound) end
end

layers.Bilinear._inputs = { "input1", "input2" }

function layers.Bilinear:forward(input1, input2)
  return layer.run(self, ml.bilinear, input1, input2, self.weight, self.bias)
end

function layers.Bilinear:extra_repr()
  return ("%d, %d -> %d%s"):format(self.in1_features, self.in2_features, self.out_features,
    self.bias and "" or ", no bias")
end

--- The cosine of the angle between two tensors along `dim` (the second); products of norms below
--- `eps` count as `eps`.
layers.CosineSimilarity = layer.functional("CosineSimilarity", "cosine_similarity",
  "int dim=2, number eps=1e-8", 2)

--- The `p`-norm of `x1 - x2 + eps` over the last dimension.
layers.PairwiseDistance = layer.functional("PairwiseDistance", "pairwise_distance",
  "number p=2.0, number eps=1e-6, bool keepdim=false", 2)

return layers
