-- scripts/gpu_check/versions.lua: what was found: Moonlet, devices, their memory.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path
local ml = require "moonlet"
local common = require "common"

common.result("moonlet", ml.version)
if not ml.cuda.is_available() then
  print("no CUDA device: " .. ml.cuda.unavailable_reason())
  os.exit(1)
end
common.result("cuDNN", ml.backends.cudnn.is_available() and tostring(ml.backends.cudnn.version())
  or "missing: convolutions and recurrent networks run by Moonlet's own kernels")
common.result("emulated", tostring(common.emulated))
for i = 0, ml.cuda.device_count() - 1 do
  local free, total = ml.cuda.mem_get_info(i)
  common.result(("cuda:%d"):format(i), ml.cuda.device_name(i))
  common.result(("cuda:%d memory"):format(i), total / 2 ^ 30, "GiB")
  common.result(("cuda:%d free"):format(i), free / 2 ^ 30, "GiB")
end
