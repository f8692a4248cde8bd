-- stdlib/torch7/nn.lua: the module `nn` of Torch7 for scripts whose path has no other: the layers
-- and
-- criteria that most scripts use, with state and gradients under the names of Torch7's.

require "moonlet.torch7"

local nn = {}

-- Classes are made in the global of that name, as scripts make theirs.
_G.nn = nn

for _, name in ipairs { "module", "container", "elementwise", "layers", "images", "shape", "tables",
  "criterion" } do
  require("moonlet.torch7.nn." .. name)
end

return nn
