-- stdlib/torch7/cunn.lua: the package `cunn` of Torch7: nn on CUDA devices, whose functions are
-- those of the CPU.

require "moonlet.torch7.cutorch"

-- Upstream's, where the script's path has it.
local SCRIPTS_NN = "nn"

return require(SCRIPTS_NN)
