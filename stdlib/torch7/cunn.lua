-- stdlib/torch7/cunn.lua: the package `cunn` of Torch7: nn on CUDA devices, whose functions are
-- those of the CPU.

local ml = require "moonlet"

-- Scripts take it that there is a device where the package loads.
if not ml.cuda.is_available() then error("cunn: " .. ml.cuda.unavailable_reason(), 0) end

require "moonlet.torch7.cutorch"

-- Upstream's, where the script's path has it.
local SCRIPTS_NN = "nn"

return require(SCRIPTS_NN)
