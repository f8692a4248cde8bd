-- tests/lua/test_device.lua: the device whose results are compared with the CPU's: CUDA's, or that of the
-- backend that MOONLET_TEST_DEVICE names, a Lua module in C++ that registers it (tests/backends/).

local ml = require "moonlet"

local other = os.getenv "MOONLET_TEST_DEVICE"
if other then require(other) end

local M = { name = other or "cuda", is_other = other ~= nil }

--- Whether there is one.
---@return boolean
function M.is_available() return other ~= nil or ml.cuda.is_available() end

--- Waits for its work.
function M.synchronize()
  if not other then ml.cuda.synchronize() end
end

return M
