-- stdlib/optim/numbers.lua: options and counts of optimisers that may be numbers or tensors of one
-- element: rates that a tape follows, and what a capturable step counts on its device.

local ml = require "moonlet"
local signature = require "moonlet.signature"

local numbers = {}

local function is_one(value)
  return ml.is_tensor(value) and value:numel() == 1 and not value:is_complex()
end

signature.add_type("OneNumber", "a tensor of one", function(value)
  return is_one(value) and value:item() >= 0 and value or nil
end)

signature.add_type("TwoNumbers", "two tensors of one number each", function(value)
  local fits = type(value) == "table" and not getmetatable(value) and #value == 2
    and is_one(value[1]) and is_one(value[2])
  return fits and { value[1], value[2] } or nil
end, true)

--- A number as it is, that of a tensor of one element without loss.
---@param value any
---@return any
function numbers.value(value)
  if ml.is_tensor(value) then return value:item() end
  return value
end

--- The root of a number or a tensor.
---@param x number|Tensor
---@return number|Tensor
function numbers.root(x) return ml.is_tensor(x) and x:sqrt() or math.sqrt(x) end

--- A count or factor of a state as it is kept: a tensor on the device of the parameter where steps
--- are capturable, else a number. A factor is of float64 then, so that nothing is lost of it; of
--- steps a float32 counts 16 million.
---@param key string
---@param value number|Tensor
---@param p Tensor
---@param capturable? boolean
---@return number|Tensor
function numbers.kept(key, value, p, capturable)
  value = numbers.value(value)
  if not capturable then return math.tointeger(value) or value end
  local wide = key ~= "step" or ml.get_default_dtype() == ml.float64
  return ml.tensor(value, { dtype = wide and ml.float64 or ml.float32, device = p.device })
end

--- What is kept of a count after a step: the tensor of before with another value, or the number.
---@param before number|Tensor
---@param now number|Tensor
---@return number|Tensor
function numbers.follow(before, now)
  return ml.is_tensor(before) and before:copy_(now) or now
end

-- A tensor of one element as one without dimensions where the parameter is; without a parameter the
-- number itself.
local function for_step(value, p)
  if not ml.is_tensor(value) then return value end
  if not p then return value:item() end
  if value.ndim > 0 then value = value:reshape({}) end
  if not value:is_floating_point() then value = value:to(ml.float64) end
  return value.device == p.device and value or value:to(p.device)
end

--- Whether options that a step computes with are tensors: on a device, where one is named.
---@param group table
---@param device? string
---@return boolean
function numbers.has_tensors(group, device)
  local betas = group.betas or {}
  for _, value in pairs { group.lr or 0, group.weight_decay or 0, betas[1] or 0, betas[2] or 0 } do
    if ml.is_tensor(value) and (not device or value.device == device) then return true end
  end
  return false
end

--- The options of a group with what is a tensor made ready for a step of `p`, or for one of numbers
--- where no parameter is given. `decoupled` says how its weights decay.
---@param group table
---@param optimizer table
---@param p? Tensor where a tape or a device has a use for tensors
---@return table
function numbers.options(group, optimizer, p)
  local o = { lr = for_step(group.lr, p), weight_decay = for_step(group.weight_decay, p),
    decoupled = optimizer.decoupled or group.decoupled_weight_decay or false }
  if group.betas then
    o.betas = { for_step(group.betas[1], p), for_step(group.betas[2], p) }
  end
  return setmetatable(o, { __index = group })
end

return numbers
