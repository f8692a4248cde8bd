-- stdlib/nn/functional.lua: nn.functional: PyTorch's functions of networks under its names and with
-- its arguments. Dimensions and positions count from 1 here as everywhere.

local declare = require "moonlet.nn.functional.declare"
local ml = require "moonlet"
local options = require "moonlet.options"

local functional = {}

local op = declare.op

local read_linear = declare.reader "linear(Tensor input, Tensor weight, Tensor? bias=nil)"

--- Affine map of the last dimension.
--- > ml.nn.functional.linear(ml.tensor { 1.0, 2 }, ml.eye(3, 2), ml.ones(3))
---   {2., 3., 1.}
---   Tensor (3,) float32
---@param input the tensor to compute from
---@param weight W, a row for each output; without rows, (in_features), it leaves out the last
---   dimension
---@param bias b, one for each output
---@return Tensor
---@shape input (*, in_features), weight (out_features, in_features), bias (out_features) -> (*,
---   out_features)
---@formula y = x W^T + b
function functional.linear(...)
  local input, weight, bias = read_linear(...)
  if weight.ndim ~= 1 then return ml.linear(input, weight, bias) end
  local y = ml.matmul(input, weight)
  return bias and y + bias or y
end

--- Bilinear form of two inputs, one for each output.
--- > ml.nn.functional.bilinear(ml.ones(2), ml.ones(3), ml.ones(4, 2, 3))
---   {6., 6., 6., 6.}
---   Tensor (4,) float32
---@param input1 the first input
---@param input2 the second input
---@param weight W, a matrix for each output
---@param bias b, one for each output
---@shape input1 (*, i), input2 (*, j), weight (o, i, j), bias (o) -> (*, o)
---@formula y_k = x1^T W_k x2 + b_k
functional.bilinear = op(
  "bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=nil)")

--- Batch normalisation: normalises each channel over the batch and the positions. With `training`
--- the mean and the variance are those of the batch, which the running statistics follow, in place;
--- without, the running statistics are used and must be given.
--- > ml.nn.functional.batch_norm(ml.tensor { { 1.0, 10 }, { 3.0, 30 } }, nil, nil,
---   { training = true })
---   {{-1.0000, -1.0000},
---    { 1.0000,  1.0000}}
---   Tensor (2, 2) float32
---@param input the tensor to compute from
---@param running_mean the mean of each channel; changed in training
---@param running_var the variance of each channel; changed in training
---@param weight the factor of each channel: 1 unless given
---@param bias what is added to each channel: 0 unless given
---@param training whether the batch's statistics are used
---@param momentum the weight of the batch in the running statistics, from 0 to 1
---@param eps what is added to the variance, so that nothing is divided by 0
---@shape input (n, c, *), the others (c) -> (n, c, *)
---@formula y = weight (x - E[x]) / sqrt(Var[x] + eps) + bias
---@formula running = (1 - momentum) running + momentum batch
---@error training on a batch with one value per channel
---@source Ioffe and Szegedy, 2015: Batch normalization
functional.batch_norm = op("batch_norm(Tensor input, Tensor? running_mean=nil, "
  .. "Tensor? running_var=nil, Tensor? weight=nil, Tensor? bias=nil, bool training=false, "
  .. "number>=0<=1 momentum=0.1, number>=0 eps=1e-5)")

--- Layer normalisation: normalises over the last dimensions, whose sizes are `normalized_shape`.
--- > ml.nn.functional.layer_norm(ml.tensor { { 1.0, 2, 3, 4 } }, { 4 })
---   {{-1.3416, -0.4472,  0.4472,  1.3416}}
---   Tensor (1, 4) float32
---@param input the tensor to compute from
---@param normalized_shape the sizes of the last dimensions: one number, or an array
---@param weight the factors, of `normalized_shape`: 1 unless given
---@param bias what is added, of `normalized_shape`: 0 unless given
---@param eps what is added to the variance, so that nothing is divided by 0
---@shape input (*, normalized_shape) -> (*, normalized_shape)
---@formula y = weight (x - E[x]) / sqrt(Var[x] + eps) + bias
---@source Ba et al., 2016: Layer normalization
functional.layer_norm = op("layer_norm(Tensor input, int[]>=1 normalized_shape, "
  .. "Tensor? weight=nil, Tensor? bias=nil, number>=0 eps=1e-5)")

local read_group_norm = declare.reader("group_norm(Tensor input, int>=1 num_groups, "
  .. "Tensor? weight=nil, Tensor? bias=nil, number>=0 eps=1e-5)")

--- Group normalisation: normalises groups of channels of each entry of the batch.
--- > ml.nn.functional.group_norm(ml.tensor { { 1.0, 2, 3, 4 } }, 1)
---   {{-1.3416, -0.4472,  0.4472,  1.3416}}
---   Tensor (1, 4) float32
---@param input the tensor to compute from
---@param num_groups how many groups the channels are divided into
---@param weight the factor of each channel: 1 unless given
---@param bias what is added to each channel: 0 unless given
---@param eps what is added to the variance, so that nothing is divided by 0
---@return Tensor
---@shape input (n, c, *), weight and bias (c) -> (n, c, *)
---@formula y = weight (x - E[x]) / sqrt(Var[x] + eps) + bias
---@source Wu and He, 2018: Group normalization
function functional.group_norm(...)
  local input, groups, weight, bias, eps = read_group_norm(...)
  if input:numel() > 0 and input.ndim >= 2 and input:numel() == groups then
    options.fail("group_norm: one value in a group of shape %s", tostring(input.shape))
  end
  return ml.group_norm(input, groups, weight, bias, eps)
end

local read_instance_norm = declare.reader("instance_norm(Tensor input, Tensor? running_mean=nil, "
  .. "Tensor? running_var=nil, Tensor? weight=nil, Tensor? bias=nil, bool use_input_stats=true, "
  .. "number>=0<=1 momentum=0.1, number>=0 eps=1e-5)")

--- Instance normalisation: normalises each channel of each entry of the batch by itself.
--- > ml.nn.functional.instance_norm(ml.tensor { { { 1.0, 2, 3 } } })
---   {{{-1.2247,  0.0000,  1.2247}}}
---   Tensor (1, 1, 3) float32
---@param input the tensor to compute from
---@param running_mean the mean of each channel; changed with `use_input_stats`
---@param running_var the variance of each channel; changed with `use_input_stats`
---@param weight the factor of each channel: 1 unless given
---@param bias what is added to each channel: 0 unless given
---@param use_input_stats whether the input's own statistics are used, or the running ones
---@param momentum the weight of the batch in the running statistics, from 0 to 1
---@param eps what is added to the variance, so that nothing is divided by 0
---@return Tensor
---@shape input (n, c, *), the others (c) -> (n, c, *)
---@formula y = weight (x - E[x]) / sqrt(Var[x] + eps) + bias
---@error training on a channel with one element
---@source Ulyanov et al., 2016: Instance normalization
function functional.instance_norm(...)
  local input, mean, var, weight, bias, use_input_stats, momentum, eps = read_instance_norm(...)
  local size = input.ndim >= 2 and (input.shape[1] or 0) * (input.shape[2] or 0) or 0
  if use_input_stats and size > 0 and input:numel() == size then
    options.fail("instance_norm: one value in a channel of shape %s", tostring(input.shape))
  end
  return ml.instance_norm(input, mean, var, weight, bias, use_input_stats, momentum, eps)
end

--- Root mean square normalisation: divides by the root mean square over the last dimensions.
--- > ml.nn.functional.rms_norm(ml.tensor { { 1.0, 2, 3, 4 } }, { 4 })
---   {{0.3651, 0.7303, 1.0954, 1.4606}}
---   Tensor (1, 4) float32
---@param input the tensor to compute from
---@param normalized_shape the sizes of the last dimensions: one number, or an array
---@param weight the factors, of `normalized_shape`: 1 unless given
---@param eps what is added to the mean square: the machine epsilon of the dtype unless given
---@shape input (*, normalized_shape) -> (*, normalized_shape)
---@formula y = weight x / sqrt(mean(x^2) + eps)
---@source Zhang and Sennrich, 2019: Root mean square layer normalization
functional.rms_norm = op("rms_norm(Tensor input, int[]>=1 normalized_shape, Tensor? weight=nil, "
  .. "number>=0? eps=nil)")
--- Local response normalisation: divides by a power of the mean square over neighbouring channels.
--- > ml.nn.functional.local_response_norm(ml.tensor { { { 1.0 }, { 2.0 }, { 3.0 } } }, 2,
---   { alpha = 1 })
---   {{{0.7378},
---     {0.7816},
---     {0.6620}}}
---   Tensor (1, 3, 1) float32
---@param input the tensor to compute from
---@param size how many neighbouring channels take part
---@param alpha the factor of the mean square
---@param beta the exponent
---@param k what is added to the mean square
---@shape input (n, c, *) -> (n, c, *)
---@formula y_c = x_c / (k + alpha sum_i x_i^2 / size)^beta
---@formula i from c - floor(size / 2) to c + floor((size - 1) / 2)
---@source Krizhevsky et al., 2012: ImageNet classification with deep convolutional neural networks
functional.local_response_norm = op("local_response_norm(Tensor input, int>=1 size, "
  .. "number alpha=1e-4, number beta=0.75, number k=1)")

--- Scales vectors along a dimension to p-norm 1.
--- > ml.nn.functional.normalize(ml.tensor { { 3.0, 4 } })
---   {{0.6000, 0.8000}}
---   Tensor (1, 2) float32
---@param input the vectors
---@param p the exponent of the norm
---@param dim the dimension of the vectors, from 1
---@param eps the least norm that is divided by, so that zeros stay zeros
---@shape input (*) -> (*)
---@formula y = x / max(||x||_p, eps)
functional.normalize = op "normalize(Tensor input, number p=2, int dim=2, number eps=1e-12)"

--- Cosine similarity of two tensors along a dimension, from -1 to 1.
--- > ml.nn.functional.cosine_similarity(ml.tensor { 1.0, 0 }, ml.tensor { 1.0, 1 }, 1)
---   0.7071  Tensor () float32
---@param x1 the first vectors
---@param x2 the second vectors, broadcast with the first
---@param dim the dimension of the vectors, from 1
---@param eps the least norm that a vector counts as, so that nothing is divided by 0
---@shape x1 (*, n, *), x2 (*, n, *) -> (*, *) without dim
---@formula y = x1 . x2 / (max(||x1||, eps) max(||x2||, eps))
functional.cosine_similarity = op(
  "cosine_similarity(Tensor x1, Tensor x2, int dim=2, number eps=1e-8)")

--- Distance of vectors in the p-norm, over the last dimension.
--- > ml.nn.functional.pairwise_distance(ml.tensor { { 0, 0 } }, ml.tensor { { 3, 4 } })
---   {5.0000}
---   Tensor (1,) float32
---@param x1 the first vectors
---@param x2 the second vectors
---@param p the exponent of the norm
---@param eps what is added to each difference, so that the gradient of the norm exists
---@param keepdim whether the last dimension stays, with size 1
---@shape x1 (*, n), x2 (*, n) -> (*), or (*, 1) with keepdim
---@formula y = (sum_i |x1_i - x2_i + eps|^p)^(1/p)
functional.pairwise_distance = op("pairwise_distance(Tensor x1, Tensor x2, number p=2, "
  .. "number eps=1e-6, bool keepdim=false)")

local read_one_hot = declare.reader "one_hot(Tensor tensor, int num_classes=-1)"

--- One-hot vectors of classes from 1: zeros with a 1 at the class.
--- > ml.nn.functional.one_hot(ml.tensor { 1, 3 })
---   {{1, 0, 0},
---    {0, 0, 1}}
---   Tensor (2, 3) int64
---@param tensor the classes, integers from 1
---@param num_classes how many classes there are: as many as the greatest one unless given
---@return Tensor
---@shape tensor (*) -> (*, num_classes) int64
---@error a class below 1 or above `num_classes`
function functional.one_hot(...)
  local tensor, num_classes = read_one_hot(...)
  return ml.one_hot(tensor, num_classes)
end

local read_pad = declare.reader(
  'pad(Tensor input, int[] pad, string mode="constant", number? value=nil)')

--- Pads a tensor at both ends of its last dimensions. `pad` has pairs (before, after): for the last
--- dimension, then the one before it, and so on. Negative numbers cut elements off.
--- > ml.nn.functional.pad(ml.tensor { { 1, 2 } }, { 1, 1, 0, 1 })
---   {{0, 1, 2, 0},
---    {0, 0, 0, 0}}
---   Tensor (2, 4) int64
---@param input the tensor
---@param pad how much to add before and after: a pair for each dimension, the last first
---@param mode "constant", "reflect", "replicate" "constant", "reflect", "replicate" or "circular"
---@param value what the border is filled with in the mode "constant": 0 unless given
---@return Tensor
---@shape input (*, h, w) -> (*, h + pad_3 + pad_4, w + pad_1 + pad_2)
function functional.pad(...)
  local input, pad, mode, value = read_pad(...)
  return ml.pad(input, pad, mode, value or 0)
end

--- Distances of all pairs of rows in the p-norm.
--- > ml.nn.functional.pdist(ml.tensor { { 0.0, 0 }, { 3.0, 4 }, { 0.0, 1 } })
---   {5.0000, 1.0000, 4.2426}
---   Tensor (3,) float32
---@param input the rows
---@param p the exponent of the norm, at least 0
---@shape input (n, d) -> (n (n - 1) / 2)
---@formula y = ||x_i - x_j||_p for all i < j
functional.pdist = op "pdist(Tensor input, number>=0 p=2)"

local function add(part)
  for name, f in pairs(part) do functional[name] = f end
end
add(require "moonlet.nn.functional.activation")
add(require "moonlet.nn.functional.attention")
add(require "moonlet.nn.functional.conv")
add(require "moonlet.nn.functional.dropout")
add(require "moonlet.nn.functional.embedding")
add(require "moonlet.nn.functional.grouped")
add(require "moonlet.nn.functional.image")
add(require "moonlet.nn.functional.loss")
add(require "moonlet.nn.functional.pool")

return options.namespace("nn.functional", functional)
