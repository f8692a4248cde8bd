-- stdlib/optim/is_captured.lua: whether a CUDA graph records what runs. Programs of ml.compile are
-- not meant: they compile nothing inside a CUDA graph.

local ml = require "moonlet"

---@return boolean
return function() return not ml._compiled.is_capturing() and ml._cuda_graphs.is_capturing() end
