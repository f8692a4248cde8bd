-- stdlib/backends/cuda.lua: ml.backends.cuda: which kernels attention on CUDA devices may run on, a
-- setting of this interpreter.

local ml = require "moonlet"
local signature = require "moonlet.signature"
local core = ml._cuda

local cuda = {}

local read_enable = signature("backends.cuda.enable_cudnn_sdp(bool enabled)", "enable_cudnn_sdp")

--- Whether `scaled_dot_product_attention` may go to cuDNN. Where it is installed, attention of
--- float16 and bfloat16 without a mask and without dropout does. So do its gradients from the
--- sixteenth of a shape on, as their kernels are compiled for it, unless
--- `ml.backends.cudnn.deterministic` is set. All else, and all of it after
--- `enable_cudnn_sdp(false)`, runs on Moonlet's own kernels.
--- > ml.backends.cuda.enable_cudnn_sdp(false)
--- > ml.backends.cuda.cudnn_sdp_enabled()
---   false
--- > ml.backends.cuda.enable_cudnn_sdp(true)
---@param enabled boolean whether it may
function cuda.enable_cudnn_sdp(...) core._cudnn_attention((read_enable(...))) end

--- Whether `scaled_dot_product_attention` may go to cuDNN: true from the start.
--- > ml.backends.cuda.cudnn_sdp_enabled()
---   true
---@return boolean
function cuda.cudnn_sdp_enabled() return core._cudnn_attention() end

return cuda
