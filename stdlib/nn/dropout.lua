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

--- While training sets elements to 0 with probability `p` and scales the others by 1 / (1 - p).
--- With `inplace` the argument itself is changed (Srivastava et al., 2014).
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

--- While training sets whole channels of (n, c, l) or (c, l) to 0 with probability `p` and scales
--- the others by 1 / (1 - p).
layers.Dropout1d = define("Dropout1d", "dropout1d")
--- While training sets whole channels of (n, c, h, w) to 0 with probability `p` and scales the
--- others by 1 / (1 - p) (Tompson et al., 2015).
layers.Dropout2d = define("Dropout2d", "dropout2d")
--- While training sets whole channels of (n, c, d, h, w) or (c, d, h, w) to 0 with probability `p`
--- and scales the others by 1 / (1 - p).
layers.Dropout3d = define("Dropout3d", "dropout3d")
--- While training sets elements with probability `p` to the value that `SELU` tends to, then scales
--- and shifts all so that mean 0 and variance 1 stay (Klambauer et al., 2017).
layers.AlphaDropout = define("AlphaDropout", "alpha_dropout")
--- `AlphaDropout` of whole channels, the second dimension.
layers.FeatureAlphaDropout = define("FeatureAlphaDropout", "feature_alpha_dropout")

return layers
