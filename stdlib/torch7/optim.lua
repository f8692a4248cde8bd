-- stdlib/torch7/optim.lua: the module `optim` of Torch7 for scripts whose path has no other:
-- functions
-- that change a vector of parameters in place by f(x), which gives a loss and its gradient.

local optim = {}

for _, name in ipairs { "gradient", "adaptive", "line_search", "checkgrad" } do
  for key, f in pairs(require("moonlet.torch7.optim." .. name)) do optim[key] = f end
end

optim.ConfusionMatrix = require "moonlet.torch7.optim.confusion"
optim.Logger = require "moonlet.torch7.optim.logger"

-- Scripts of Torch7 read it from the global.
_G.optim = optim

return optim
