-- stdlib/torch7/cutorch.lua: the package `cutorch` of Torch7: torch.CudaTensor and its like, and
-- the devices they are on. Devices count from 1.

local core = require "moonlet.torch7.core"
local ml = require "moonlet"
local storages = require "moonlet.torch7.storage"
local torch = require "moonlet.torch7.namespace"
local types = require "moonlet.torch7.types"

local cutorch = {}

local function check_device(device, name)
  local whole, count = math.tointeger(device), cutorch.getDeviceCount()
  if not whole or whole < 1 or whole > count then
    error(("cutorch.%s: device %s is outside 1 to %d"):format(name, tostring(device), count), 3)
  end
  return whole
end

function cutorch.getDeviceCount() return ml.cuda.device_count() end
function cutorch.getDevice() return ml.cuda.current_device() + 1 end
function cutorch.setDevice(device) ml.cuda.set_device(check_device(device, "setDevice") - 1) end

--- Runs a function with another current device.
function cutorch.withDevice(device, f, ...)
  local before = cutorch.getDevice()
  cutorch.setDevice(device)
  local results = table.pack(pcall(f, ...))
  cutorch.setDevice(before)
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

function cutorch.synchronize() ml.cuda.synchronize() end
function cutorch.synchronizeAll()
  for device = 1, cutorch.getDeviceCount() do
    cutorch.withDevice(device, ml.cuda.synchronize)
  end
end

-- One seed is for all devices, as draws do not depend on the device.
function cutorch.manualSeed(seed) ml.manual_seed(math.tointeger(seed)) end
cutorch.manualSeedAll = cutorch.manualSeed
function cutorch.seed() return ml.seed() end
cutorch.seedAll = cutorch.seed
function cutorch.initialSeed() return ml.initial_seed() end
function cutorch.getRNGState() return torch.getRNGState() end
function cutorch.setRNGState(state) torch.setRNGState(state) end

function cutorch.getDeviceProperties(device)
  local found = ml.cuda.get_device_properties(
    check_device(device or cutorch.getDevice(), "getDeviceProperties") - 1)
  local out = {}
  for name, value in pairs(found) do out[name] = value end
  out.totalGlobalMem = found.total_memory
  return out
end

--- The bytes that are free on a device, and those that it has.
function cutorch.getMemoryUsage(device)
  return ml.cuda.mem_get_info(check_device(device or cutorch.getDevice(), "getMemoryUsage") - 1)
end

-- The classes of tensors and storages, and methods that move to a device.
storages.make_cuda_classes()
core.make_cuda_classes()

local function mover(name)
  return function(self) return self:type(name) end
end

core.each_class(function(mt)
  for _, element in ipairs(types.NAMES) do
    local method = element == "Float" and "cuda" or "cuda" .. element
    local name = "torch.Cuda" .. (element == "Float" and "" or element) .. "Tensor"
    mt[method] = mover(name)
  end
  function mt:getDevice()
    local device = core.native(self).device
    return (math.tointeger(device:match ":(%d+)$") or 0) + 1
  end
end)

cutorch._state = {}
_G.cutorch = cutorch

return cutorch
