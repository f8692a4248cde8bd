-- stdlib/cuda/devices.lua: the current device, and what is known of devices.

local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local core = ml._cuda
local fail = options.fail

local devices = {}

--- The number of the current device, which "cuda" without a number stands for: 0 at first. It
--- belongs to a coroutine; new ones begin with that of the coroutine that resumes them first.
--- > ml.cuda.current_device()  -- needs cuda
---   0
---@return integer
---@see cuda.set_device
---@see cuda.device
function devices.current_device() return core._current_device() end

local read_set = signature("cuda.set_device(int|string device)", "set_device")

--- Makes a device the current one: what "cuda" without a number stands for, and what functions of
--- `ml.cuda` use that are given none. The default device goes along where it is "cuda".
--- > ml.cuda.set_device(0)  -- needs cuda
---@param device integer|string a number from 0, or "cuda:1"; negative numbers change nothing
---@see cuda.device
function devices.set_device(...)
  local device = read_set(...)
  if type(device) == "string" or device >= 0 then core._set_device(device) end
end

--- Runs `f`, or the rest of the block that holds the result with `<close>`, with a device as the
--- current one.
--- > ml.cuda.device(0, ml.cuda.current_device)  -- needs cuda
---   0
---@param device integer|string|nil a number from 0, or "cuda:1"; nil and negative numbers
---   change nothing
---@param f? function the function to run; without it the result is held as a `<close>` variable
---@param ... any what `f` gets
---@return any ... its results, or the value to hold
function devices.device(device, f, ...)
  local kind = type(device)
  if kind ~= "nil" and kind ~= "string" and math.type(device) ~= "integer" then
    fail("device: a device such as 0 or \"cuda:0\" is expected, got %s", signature.describe(device))
  end
  return options.under("device", core._device_guard(device), f, ...)
end

--- Runs `f`, or the rest of the block that holds the result with `<close>`, with the device of a
--- tensor as the current one.
--- > ml.cuda.device_of(ml.ones(2, { device = "cuda:0" }), ml.cuda.current_device)  -- needs cuda
---   0
---@param x moonlet.Tensor the tensor; one on the CPU changes nothing
---@param f? function the function to run; without it the result is held as a `<close>` variable
---@param ... any what `f` gets
---@return any ... its results, or the value to hold
---@shape x (*)
function devices.device_of(x, f, ...)
  if not ml.is_tensor(x) then
    fail("device_of: a tensor is expected, got %s", signature.describe(x))
  end
  return options.under("device_of", core._device_guard(x.is_cuda and x.device or -1), f, ...)
end

local DEVICE = "(int|string? device=nil)"
local read_name = signature("cuda.get_device_name" .. DEVICE, "get_device_name")

--- The name that a device has from its maker.
--- > type(ml.cuda.get_device_name())  -- needs cuda
---   string
---@param device? integer|string device, such as 0 or "cuda:0"; the current one unless given
---@return string
function devices.get_device_name(...) return core._properties((read_name(...))).name end

local read_properties = signature("cuda.get_device_properties" .. DEVICE, "get_device_properties")

--- Properties of a device, as a table: name, major, minor, total_memory (bytes),
--- multi_processor_count, max_threads_per_multi_processor, max_threads_per_block, warp_size,
--- regs_per_multiprocessor, shared_memory_per_block, shared_memory_per_block_optin,
--- shared_memory_per_multiprocessor, L2_cache_size, is_integrated, is_multi_gpu_board, pci_bus_id,
--- pci_device_id, pci_domain_id.
--- > ml.cuda.get_device_properties().warp_size  -- needs cuda
---   32
---@param device? integer|string device, such as 0 or "cuda:0"; the current one unless given
---@return table<string, integer|string|boolean>
function devices.get_device_properties(...)
  local out = core._properties((read_properties(...)))
  out.is_integrated, out.is_multi_gpu_board = out.is_integrated ~= 0, out.is_multi_gpu_board ~= 0
  return out
end

local read_capability = signature("cuda.get_device_capability" .. DEVICE, "get_device_capability")

--- The compute capability of a device, major and minor: 9, 0 for an H100.
--- > major, minor = ml.cuda.get_device_capability()  -- needs cuda
--- > math.type(major)
---   integer
---@param device? integer|string device, such as 0 or "cuda:0"; the current one unless given
---@return integer major
---@return integer minor
function devices.get_device_capability(...)
  local properties = core._properties((read_capability(...)))
  return properties.major, properties.minor
end

local read_peer = signature(
  "cuda.can_device_access_peer(int|string device, int|string peer_device)",
  "can_device_access_peer")

--- Whether a device can use the memory of another one directly.
--- > type(ml.cuda.can_device_access_peer(0, 0))  -- needs cuda
---   boolean
---@param device integer|string the device that reads
---@param peer_device integer|string the device whose memory is read
---@return boolean
function devices.can_device_access_peer(...) return core._can_access_peer(read_peer(...)) end

return devices
