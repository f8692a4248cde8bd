-- stdlib/nn/functional/dropout.lua: the functions of nn.functional that draw: dropouts and draws of
-- categories.

local declare = require "moonlet.nn.functional.declare"
local ml = require "moonlet"
local options = require "moonlet.options"

local dropouts = {}

local ARGUMENTS = "(Tensor input, number>=0<=1 p=0.5, bool training=true, bool inplace=false)"
local read_dropout = declare.reader("dropout" .. ARGUMENTS)

--- With `training` sets elements to 0 with probability `p` and scales the others by 1 / (1 - p).
---@return Tensor
function dropouts.dropout(...)
  local input, p, training, inplace = read_dropout(...)
  if training and inplace then return input:mul_(ml.dropout_mask(input, p)) end
  return ml.dropout(input, p, training)
end

local UNTRAINED = ARGUMENTS:gsub("training=true", "training=false")

--- With `training` sets elements with probability `p` to the value that `selu` tends to, then
--- scales and shifts all so that mean 0 and variance 1 stay.
dropouts.alpha_dropout = declare.activation("alpha_dropout" .. UNTRAINED)
--- `alpha_dropout` of whole channels, the second dimension.
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

--- With `training` sets whole channels of (n, c, l) or (c, l) to 0 with probability `p` and scales
--- the others by 1 / (1 - p).
dropouts.dropout1d = channels("dropout1d", 1, true)
--- With `training` sets whole channels, the second dimension, to 0 with probability `p` and scales
--- the others by 1 / (1 - p).
dropouts.dropout2d = channels("dropout2d", 2, false)
--- With `training` sets whole channels of (n, c, d, h, w) or (c, d, h, w) to 0 with probability `p`
--- and scales the others by 1 / (1 - p).
dropouts.dropout3d = channels("dropout3d", 3, true)

local read_gumbel = declare.reader("gumbel_softmax(Tensor logits, number>0 tau=1, bool hard=false, "
  .. "int dim=-1)")

--- A draw from categories, softened by `tau`; with `hard` a 1 at the greatest and zeros, with the
--- gradient of the soft draw.
---@return Tensor
function dropouts.gumbel_softmax(...) return ml.gumbel_softmax(read_gumbel(...)) end

return dropouts
