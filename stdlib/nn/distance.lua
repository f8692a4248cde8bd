-- stdlib/nn/distance.lua: layers of two inputs: Bilinear, CosineSimilarity and PairwiseDistance.

local init = require "moonlet.nn.init"
local layer = require "moonlet.nn.layer"
local ml = require "moonlet"

local layers = {}

--- Bilinear form of two inputs, one for each output. The weight and the bias start from the uniform
--- distribution between -k and k with k = 1 / sqrt(in1_features).
--- > ml.nn.Bilinear(2, 3, 4)(ml.ones(5, 2), ml.ones(5, 3)).shape
---   (5, 4)
---@param in1_features the last size of the first input
---@param in2_features the last size of the second input
---@param out_features the last size of the output
---@param bias whether a bias is added
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape input1 (*, in1_features), input2 (*, in2_features) -> (*, out_features)
---@formula y_k = x1^T W_k x2 + b_k
---@field weight moonlet.Tensor The parameter W, (out_features, in1_features, in2_features).
---@field bias moonlet.Tensor? The parameter b of shape (out_features,); nil with `bias = false`.
layers.Bilinear = layer.define("Bilinear", "int>=1 in1_features, int>=1 in2_features, "
  .. "int>=1 out_features, bool bias=true" .. layer.factory, function(self, o)
    self.in1_features, self.in2_features = o.in1_features, o.in2_features
    self.out_features = o.out_features
    self.weight = layer.parameter({ o.out_features, o.in1_features, o.in2_features }, o)
    if o.bias then self.bias = layer.parameter({ o.out_features }, o) end
    self:reset_parameters()
  end)

--- Draws the weight and the bias anew, as the constructor does.
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

--- Cosine similarity of two tensors along a dimension, from -1 to 1.
--- > ml.nn.CosineSimilarity(1)(ml.tensor { 1.0, 0 }, ml.tensor { 1.0, 1 })
---   0.7071  Tensor () float32
---@param dim the dimension of the vectors, from 1
---@param eps the least norm that a vector counts as, so that nothing is divided by 0
---@shape x1 (*, n, *), x2 (*, n, *) -> (*, *) without dim
---@formula y = x1 . x2 / (max(||x1||, eps) max(||x2||, eps))
layers.CosineSimilarity = layer.functional("CosineSimilarity", "cosine_similarity",
  "int dim=2, number eps=1e-8", 2)

--- Distance of vectors in the p-norm, over the last dimension.
--- > ml.nn.PairwiseDistance()(ml.tensor { { 0, 0 } }, ml.tensor { { 3, 4 } })
---   {5.0000}
---   Tensor (1,) float32
---@param p the exponent of the norm
---@param eps what is added to each difference, so that the gradient of the norm exists
---@param keepdim whether the last dimension stays, with size 1
---@shape x1 (*, n), x2 (*, n) -> (*), or (*, 1) with keepdim
---@formula y = (sum_i |x1_i - x2_i + eps|^p)^(1/p)
layers.PairwiseDistance = layer.functional("PairwiseDistance", "pairwise_distance",
  "number p=2.0, number eps=1e-6, bool keepdim=false", 2)

return layers
