-- stdlib/nn/convert.lua: Module: moving to another dtype or device.

local Module = require "moonlet.nn.module"
local ml = require "moonlet"
local options = require "moonlet.options"
local parameter = require "moonlet.nn.parameter"
local signature = require "moonlet.signature"
local fail = options.fail

-- The format for one tensor: those of channels are for tensors of 4 or 5 dimensions.
local function format_for(tensor, format)
  local rank = ({ channels_last = 4, channels_last_3d = 5 })[format]
  return (rank == nil or rank == tensor.ndim) and format or nil
end

-- The tensor behind the same Lua value changes, so an optimiser that holds it sees the new one.
local function convert(tensor, target)
  local changes = tensor:is_floating_point() or tensor:is_complex()
  local dtype = changes and target.dtype or tensor.dtype
  local device = target.device or tensor.device
  local format = format_for(tensor, target.memory_format)
  local lies = not format or tensor:is_contiguous { memory_format = format }
  if lies and dtype == tensor.dtype and device == tensor.device then return end
  local options_of_copy = { dtype = dtype, device = device, memory_format = format }
  local moved = tensor:detach():to(options_of_copy)
  local grad = tensor.grad
  moved:requires_grad_(tensor.requires_grad)
  if grad then moved.grad = grad:to(options_of_copy) end
  ml._rebind(tensor, moved)
end

local function convert_all(self, target)
  for _, p in ipairs(self:parameters()) do convert(p, target) end
  for _, b in ipairs(self:buffers()) do convert(b, target) end
  return self
end

local read_to = signature(
  "Module:to(string|Tensor? device=nil, string? dtype=nil, bool non_blocking=false, "
  .. "string? memory_format=nil)")

--- Converts parameters and buffers to a device, a dtype or both, in place. The arguments may be a
--- device, a dtype, both in any order, or a tensor whose device and dtype are taken. A dtype
--- reaches floating and complex tensors only. The parameters stay the same Lua values, so that an
--- optimiser keeps them.
--- > ml.nn.Linear(2, 1):to("float64").weight.dtype
---   float64
---@param device? string|Tensor the device, such as "cuda" or "cuda:1", or a tensor
---@param dtype? string the dtype of floating and complex tensors
---@param non_blocking? boolean whether copies from pinned memory may run on while the script goes
---   on
---@param memory_format? string the format of 4-d tensors: "channels_last" or "contiguous_format"
---@return table self
function Module:to(...)
  local o = read_to:table(...)
  if ml.is_tensor(o.device) then
    o.device, o.dtype = o.device.device, o.dtype or o.device.dtype
  elseif o.device and rawget(ml, o.device) == o.device then
    if o.dtype and rawget(ml, o.dtype) == o.dtype then
      fail("to: the dtype is given twice: %s and %s", o.device, o.dtype)
    end
    o.device, o.dtype = o.dtype, o.device
  end
  -- An unknown device, dtype or format is an error before anything has moved.
  local trial = ml.empty { 0, dtype = o.dtype, device = o.device }
  trial:is_contiguous { memory_format = o.memory_format }
  if o.dtype and not (o.dtype:find "float" or o.dtype:find "complex") then
    fail("to: modules take floating and complex dtypes, got %s", o.dtype)
  end
  return convert_all(self, o)
end

local read_type = signature "Module:type(string dst_type)"

--- Converts floating parameters and buffers to a dtype, in place.
--- > ml.nn.Linear(2, 1):type("float64").weight.dtype
---   float64
---@param dst_type string the dtype
---@return table self
function Module:type(...)
  return self:to { dtype = read_type(...) }
end

local read_to_empty = signature(
  "Module:to_empty(string device, bool recurse=true)")

--- Moves the module to a device without copying: the elements of its tensors are not set.
--- > ml.nn.Linear(2, 1):to_empty("cpu").weight.shape
---   (1, 2)
---@param device string the device
---@param recurse? boolean whether the modules below are moved too
---@return table self
function Module:to_empty(...)
  local device, recurse = read_to_empty(...)
  local function empty(tensor)
    if parameter.is_uninitialized(tensor) then return convert(tensor, { device = device }) end
    local size = tensor.shape:totable()
    local fresh = ml.empty(size, { dtype = tensor.dtype, device = device })
    fresh:requires_grad_(tensor.requires_grad)
    ml._rebind(tensor, fresh)
  end
  for _, p in ipairs(self:parameters(recurse)) do empty(p) end
  for _, b in ipairs(self:buffers(recurse)) do empty(b) end
  return self
end

local read_cuda = signature "Module:cuda(int>=0|string device=\"cuda\")"

--- Moves parameters and buffers to a CUDA device, in place.
--- > net = ml.nn.Linear(2, 1)
--- > net:cuda().weight.device  -- needs cuda
---   cuda:0
---@param device? integer|string the device, or its number from 0
---@return table self
---@error there is no such device
function Module:cuda(...)
  local device = read_cuda(...)
  return self:to(type(device) == "number" and "cuda:" .. device or device)
end

local read_cpu = signature "Module:cpu()"

--- Moves parameters and buffers to the CPU, in place.
--- > ml.nn.Linear(2, 1):cpu().weight.device
---   cpu
---@return table self
function Module:cpu(...)
  read_cpu(...)
  return self:to("cpu")
end

local read_float = signature "Module:float()"

--- Converts floating parameters and buffers to float32, in place.
--- > ml.nn.Linear(2, 1):float().weight.dtype
---   float32
---@return table self
function Module:float(...)
  read_float(...)
  return self:to("float32")
end

local read_double = signature "Module:double()"

--- Converts floating parameters and buffers to float64, in place.
--- > ml.nn.Linear(2, 1):double().weight.dtype
---   float64
---@return table self
function Module:double(...)
  read_double(...)
  return self:to("float64")
end

local read_half = signature "Module:half()"

--- Converts floating parameters and buffers to float16, in place.
--- > ml.nn.Linear(2, 1):half().weight.dtype
---   float16
---@return table self
function Module:half(...)
  read_half(...)
  return self:to("float16")
end

local read_bfloat16 = signature "Module:bfloat16()"

--- Converts floating parameters and buffers to bfloat16, in place.
--- > ml.nn.Linear(2, 1):bfloat16().weight.dtype
---   bfloat16
---@return table self
function Module:bfloat16(...)
  read_bfloat16(...)
  return self:to("bfloat16")
end

return Module
