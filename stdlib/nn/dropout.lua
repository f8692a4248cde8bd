-- stdlib/nn/dropout.lua: layers that while training set elements or whole channels to zero, or to
-- what SELU tends to.

local layer = require "moonlet.nn.layer"
local ml = require "moonlet"

local layers = {}

local PARAMETERS = "number>=0<=1 p=0.5, bool inplace=false"

local function extra_repr(self)
  return ("%g%s"):format(self.p, self.inplace and ", inplace" or "")
end

local function define(name, called)
  local cls = layer.functional(name, called, PARAMETERS)
  cls.extra_repr = extra_repr
  return cls
end

--- Dropout: sets random elements to 0 while training. In training mode each element is set to 0
--- with probability `p`, independently, and the others are scaled by 1 / (1 - p), so that the
--- expectation stays; in eval mode the input passes as it is.
--- > ml.manual_seed(7)
--- > ml.nn.Dropout(0.5)(ml.ones(8))
---   {2., 2., 0., 0., 0., 2., 0., 2.}
---   Tensor (8,) float32
---@param p the probability that an element is set to 0, from 0 to 1
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = x m / (1 - p), m ~ Bernoulli(1 - p) for each element
---@source Srivastava et al., 2014: Dropout: a simple way to prevent overfitting
layers.Dropout = define("Dropout", "dropout")

-- Most networks have this one, so it calls the op itself.
function layers.Dropout:forward(x)
  if not self.training then return x end
  if self.inplace then
    layer.check_input(self, x)
    return layer.run(self, function() return x:mul_(ml.dropout_mask(x, self.p)) end)
  end
  return layer.run(self, ml.dropout, x, self.p, true)
end

--- Dropout of whole channels of sequences. In training mode each channel of each entry of the batch
--- is set to 0 with probability `p`, independently, and the others are scaled by 1 / (1 - p), so
--- that the expectation stays; in eval mode the input passes as it is.
--- > ml.manual_seed(7)
--- > ml.nn.Dropout1d(0.5)(ml.ones(1, 4, 1))
---   {{{2.},
---     {2.},
---     {0.},
---     {0.}}}
---   Tensor (1, 4, 1) float32
---@param p the probability that a channel is set to 0, from 0 to 1
---@param inplace whether the result is written into `input`
---@shape input (n, c, l) or (c, l) -> as input
---@formula y = x m / (1 - p), m ~ Bernoulli(1 - p) for each channel
---@source Tompson et al., 2015: Efficient object localization using convolutional networks
layers.Dropout1d = define("Dropout1d", "dropout1d")
--- Dropout of whole channels of images. In training mode each channel of each entry of the batch is
--- set to 0 with probability `p`, independently, and the others are scaled by 1 / (1 - p), so that
--- the expectation stays; in eval mode the input passes as it is. Neighbouring pixels of a channel
--- are alike, so that dropping single elements would do little. As in PyTorch, an input of three
--- dimensions counts as (n, c, l).
--- > ml.manual_seed(7)
--- > ml.nn.Dropout2d(0.5)(ml.ones(1, 4, 1, 1))
---   {{{{2.}},
---
---     {{2.}},
---
---     {{0.}},
---
---     {{0.}}}}
---   Tensor (1, 4, 1, 1) float32
---@param p the probability that a channel is set to 0, from 0 to 1
---@param inplace whether the result is written into `input`
---@shape input (n, c, h, w) -> as input
---@formula y = x m / (1 - p), m ~ Bernoulli(1 - p) for each channel
---@source Tompson et al., 2015: Efficient object localization using convolutional networks
layers.Dropout2d = define("Dropout2d", "dropout2d")
--- Dropout of whole channels of volumes. In training mode each channel of each entry of the batch
--- is set to 0 with probability `p`, independently, and the others are scaled by 1 / (1 - p), so
--- that the expectation stays; in eval mode the input passes as it is.
--- > ml.manual_seed(7)
--- > ml.nn.Dropout3d(0.5)(ml.ones(1, 4, 1, 1, 1))
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
---@param p the probability that a channel is set to 0, from 0 to 1
---@param inplace whether the result is written into `input`
---@shape input (n, c, d, h, w) or (c, d, h, w) -> as input
---@formula y = x m / (1 - p), m ~ Bernoulli(1 - p) for each channel
---@source Tompson et al., 2015: Efficient object localization using convolutional networks
layers.Dropout3d = define("Dropout3d", "dropout3d")
--- Alpha dropout: dropout that keeps mean and variance. In training mode dropped elements become
--- the limit of SELU for inputs far below 0, -1.7581, after which all elements are scaled and
--- shifted so that an input of mean 0 and variance 1 keeps both; in eval mode the input passes as
--- it is. For networks with `SELU`.
--- > ml.manual_seed(7)
--- > ml.nn.AlphaDropout(0.5)(ml.zeros(4))
---   { 0.7792,  0.7792, -0.7792, -0.7792}
---   Tensor (4,) float32
---@param p the probability that an element is dropped, from 0 to 1
---@param inplace whether the result is written into `input`
---@shape input (*) -> (*)
---@formula y = a (x m + alpha' (1 - m)) + b, m ~ Bernoulli(1 - p), alpha' = -1.7580993408473766
---@formula a = ((1 - p) (1 + p alpha'^2))^(-1/2), b = -a alpha' p
---@source Klambauer et al., 2017: Self-normalizing neural networks
layers.AlphaDropout = define("AlphaDropout", "alpha_dropout")
--- Alpha dropout of whole channels, the second dimension. In training mode dropped elements become
--- the limit of SELU for inputs far below 0, -1.7581, after which all elements are scaled and
--- shifted so that an input of mean 0 and variance 1 keeps both; in eval mode the input passes as
--- it is. For networks with `SELU`.
--- > ml.manual_seed(7)
--- > ml.nn.FeatureAlphaDropout(0.5)(ml.zeros(1, 4, 1))
---   {{{ 0.7792},
---     { 0.7792},
---     {-0.7792},
---     {-0.7792}}}
---   Tensor (1, 4, 1) float32
---@param p the probability that a channel is dropped, from 0 to 1
---@param inplace whether the result is written into `input`
---@shape input (n, c, *) -> (n, c, *)
---@formula y = a (x m + alpha' (1 - m)) + b, m ~ Bernoulli(1 - p) for each channel
---@formula a and b as of AlphaDropout
---@source Klambauer et al., 2017: Self-normalizing neural networks
layers.FeatureAlphaDropout = define("FeatureAlphaDropout", "feature_alpha_dropout")

return layers
