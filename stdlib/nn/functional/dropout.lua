-- stdlib/nn/functional/dropout.lua: the functions of nn.functional that draw: dropouts and draws of
-- categories.

local declare = require "moonlet.nn.functional.declare"
local ml = require "moonlet"
local options = require "moonlet.options"

local dropouts = {}

local ARGUMENTS = "(Tensor input, number>=0<=1 p=0.5, bool training=true, bool inplace=false)"
local read_dropout = declare.reader("dropout" .. ARGUMENTS)

--- Dropout: sets random elements to 0. With `training` elements are set to 0 with probability `p`,
--- independently, and the others are scaled by 1 / (1 - p), so that the expectation stays; without,
--- the input passes as it is.
--- > ml.manual_seed(7)
--- > ml.nn.functional.dropout(ml.ones(8))
---   {2., 2., 0., 0., 0., 2., 0., 2.}
---   Tensor (8,) float32
---@param input the tensor to compute from
---@param p the probability that an element is set to 0, from 0 to 1
---@param training whether it does anything: false returns the input as it is
---@param inplace whether the result is written into `input`
---@return Tensor
---@shape input (*) -> (*)
---@formula y = x m / (1 - p), m ~ Bernoulli(1 - p) for each element
---@source Srivastava et al., 2014: Dropout: a simple way to prevent overfitting
function dropouts.dropout(...)
  local input, p, training, inplace = read_dropout(...)
  if training and inplace then return input:mul_(ml.dropout_mask(input, p)) end
  return ml.dropout(input, p, training)
end

local UNTRAINED = ARGUMENTS:gsub("training=true", "training=false")

--- Alpha dropout: dropout that keeps mean and variance. With `training` dropped elements become the
--- limit of SELU for inputs far below 0, -1.7581, after which all elements are scaled and shifted
--- so that an input of mean 0 and variance 1 keeps both; without, the input passes as it is.
--- > ml.manual_seed(7)
--- > ml.nn.functional.alpha_dropout(ml.zeros(4), 0.5, true)
---   { 0.7792,  0.7792, -0.7792, -0.7792}
---   Tensor (4,) float32
---@param input the tensor to compute from
---@param p the probability that an element is dropped, from 0 to 1
---@param training whether it does anything: false returns the input as it is
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = a (x m + alpha' (1 - m)) + b, m ~ Bernoulli(1 - p), alpha' = -1.7580993408473766
---@formula a = ((1 - p) (1 + p alpha'^2))^(-1/2), b = -a alpha' p
---@source Klambauer et al., 2017: Self-normalizing neural networks
dropouts.alpha_dropout = declare.activation("alpha_dropout" .. UNTRAINED)
--- Alpha dropout of whole channels, the second dimension. With `training` dropped elements become
--- the limit of SELU for inputs far below 0, -1.7581, after which all elements are scaled and
--- shifted so that an input of mean 0 and variance 1 keeps both; without, the input passes as it
--- is.
--- > ml.manual_seed(7)
--- > ml.nn.functional.feature_alpha_dropout(ml.zeros(1, 4, 1), 0.5, true)
---   {{{ 0.7792},
---     { 0.7792},
---     {-0.7792},
---     {-0.7792}}}
---   Tensor (1, 4, 1) float32
---@param input the tensor to compute from
---@param p the probability that a channel is dropped, from 0 to 1
---@param training whether it does anything: false returns the input as it is
---@param inplace whether the result is written into `input`
---@shape input (n, c, *) -> (n, c, *)
---@formula y = a (x m + alpha' (1 - m)) + b, m ~ Bernoulli(1 - p) for each channel
---@formula a and b as of AlphaDropout
---@source Klambauer et al., 2017: Self-normalizing neural networks
dropouts.feature_alpha_dropout = declare.activation("feature_alpha_dropout" .. UNTRAINED)

-- The dropout of whole channels of (n, c, ...) with so many dimensions of space; what has one
-- dimension less has no batch where `unbatched`.
local function channels(name, space, unbatched)
  local read = declare.reader(name .. ARGUMENTS)
  return function(...)
    local input, p, training, inplace = read(...)
    if input.ndim < 2 or (name == "dropout1d" and input.ndim > 3) then
      options.fail("%s: 'input' has shape %s, (n, c, ...) is expected", name, tostring(input.shape))
    end
    local single = unbatched and input.ndim == space + 1
    local x = single and input:unsqueeze(1) or input
    local y = (inplace and x.feature_dropout_ or ml.feature_dropout)(x, p, training)
    if inplace then return input end
    return single and y:squeeze(1) or y
  end
end

--- Dropout of whole channels of sequences. With `training` whole channels are set to 0 with
--- probability `p`, independently, and the others are scaled by 1 / (1 - p), so that the
--- expectation stays; without, the input passes as it is.
--- > ml.manual_seed(7)
--- > ml.nn.functional.dropout1d(ml.ones(1, 4, 1))
---   {{{2.},
---     {2.},
---     {0.},
---     {0.}}}
---   Tensor (1, 4, 1) float32
---@param input the tensor to compute from
---@param p the probability that a channel is set to 0, from 0 to 1
---@param training whether it does anything: false returns the input as it is
---@param inplace whether the result is written into `input`
---@shape input (n, c, l) or (c, l) -> as input
---@formula y = x m / (1 - p), m ~ Bernoulli(1 - p) for each channel
---@source Tompson et al., 2015: Efficient object localization using convolutional networks
dropouts.dropout1d = channels("dropout1d", 1, true)
--- Dropout of whole channels of images. With `training` whole channels are set to 0 with
--- probability `p`, independently, and the others are scaled by 1 / (1 - p), so that the
--- expectation stays; without, the input passes as it is.
--- > ml.manual_seed(7)
--- > ml.nn.functional.dropout2d(ml.ones(1, 4, 1, 1))
---   {{{{2.}},
---
---     {{2.}},
---
---     {{0.}},
---
---     {{0.}}}}
---   Tensor (1, 4, 1, 1) float32
---@param input the tensor to compute from
---@param p the probability that a channel is set to 0, from 0 to 1
---@param training whether it does anything: false returns the input as it is
---@param inplace whether the result is written into `input`
---@shape input (n, c, h, w) -> as input
---@formula y = x m / (1 - p), m ~ Bernoulli(1 - p) for each channel
---@source Tompson et al., 2015: Efficient object localization using convolutional networks
dropouts.dropout2d = channels("dropout2d", 2, false)
--- Dropout of whole channels of volumes. With `training` whole channels are set to 0 with
--- probability `p`, independently, and the others are scaled by 1 / (1 - p), so that the
--- expectation stays; without, the input passes as it is.
--- > ml.manual_seed(7)
--- > ml.nn.functional.dropout3d(ml.ones(1, 4, 1, 1, 1))
---   {{{{{2.}}},
---
---
---     {{{2.}}},
---
---
---     {{{0.}}},
---
---
---     {{{0.}}}}}
---   Tensor (1, 4, 1, 1, 1) float32
---@param input the tensor to compute from
---@param p the probability that a channel is set to 0, from 0 to 1
---@param training whether it does anything: false returns the input as it is
---@param inplace whether the result is written into `input`
---@shape input (n, c, d, h, w) or (c, d, h, w) -> as input
---@formula y = x m / (1 - p), m ~ Bernoulli(1 - p) for each channel
---@source Tompson et al., 2015: Efficient object localization using convolutional networks
dropouts.dropout3d = channels("dropout3d", 3, true)

local read_gumbel = declare.reader("gumbel_softmax(Tensor logits, number>0 tau=1, bool hard=false, "
  .. "int dim=-1)")

--- Gumbel-softmax: a differentiable draw from a categorical distribution.
--- > ml.manual_seed(1)
--- > ml.nn.functional.gumbel_softmax(ml.zeros(4), { hard = true })
---   {0., 1., 0., 0.}
---   Tensor (4,) float32
---@param logits the logarithms of the probabilities, up to a constant
---@param tau the temperature, above 0: the lower, the nearer to one-hot vectors
---@param hard whether the result is one-hot, with the gradient of the soft draw
---@param dim the dimension of the categories, from 1
---@return Tensor
---@shape logits (*) -> (*)
---@formula y_i = exp((x_i + g_i) / tau) / sum_j exp((x_j + g_j) / tau)
---@formula g_i = -log(-log(u_i)), u_i ~ U(0, 1)
---@source Jang et al., 2017: Categorical reparameterization with Gumbel-softmax
function dropouts.gumbel_softmax(...) return ml.gumbel_softmax(read_gumbel(...)) end

return dropouts
