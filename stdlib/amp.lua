-- stdlib/amp.lua: ml.amp: automatic mixed precision: ops in a dtype of lower precision, gradient
-- scaling, and custom functions in it.

local ml = require "moonlet"
local modes = require "moonlet.modes"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local amp = { autocast = modes.autocast }

signature.add_choice("AutocastDevice", { "cpu", "cuda" })
local read_available = signature "amp.is_autocast_available(string device_type)"

--- Whether `ml.autocast` knows a type of device, whether or not there is such a device here.
--- > ml.amp.is_autocast_available("cpu")
---   true
---@param device_type string such as "cpu" or "cuda"
---@return boolean
function amp.is_autocast_available(...)
  local device = read_available(...)
  for _, known in ipairs(ml._device_types()) do
    if device == known then return true end
  end
  return false
end

-- What held in the forward pass of a function, by its context: the dtype of autocast, and whether
-- its ops were cast.
local used = setmetatable({}, { __mode = "k" })

-- Values with their floating tensors on the device cast, those in arrays and tables of names too;
-- float64 stays.
local function cast(value, device, dtype)
  if ml.is_tensor(value) then
    local concerned = value:is_floating_point() and value.dtype ~= ml.float64
      and value.device:match "^%a+" == device
    return concerned and value:to(dtype) or value
  elseif type(value) == "table" and not getmetatable(value) then
    local out = {}
    for key, item in pairs(value) do out[key] = cast(item, device, dtype) end
    return out
  end
  return value
end

local function check_context(where, context)
  local kind = type(context)
  if kind ~= "table" and kind ~= "userdata" then
    fail("%s: the first argument is the context of the function, got %s", where, kind)
  end
end

local read_fwd = signature("amp.custom_fwd(function fwd, AutocastDevice device_type, "
  .. "string? cast_inputs=nil)")

--- Wraps `fwd`, the forward of an `autograd.Function`, for `ml.autocast`; its first argument is the
--- context. With `cast_inputs` it gets, inside of autocast, its floating tensors in that dtype and
--- runs with autocast off; otherwise it runs as the ops around it do. `custom_bwd` wraps the
--- backward.
--- > fwd = ml.amp.custom_fwd(function(ctx, x) return x.dtype end, "cpu", "float32")
--- > ml.autocast({}, function() return fwd({}, ml.ones(2):to("bfloat16")) end)
---   float32
---@param fwd fun(ctx: any, ...): any the forward
---@param device_type "cpu"|"cuda" the type of device whose autocast counts
---@param cast_inputs? moonlet.dtype the dtype of the tensors that `fwd` gets; left as they are
---   unless given
---@return fun(ctx: any, ...): any
---@see amp.custom_bwd
function amp.custom_fwd(...)
  local fwd, device, dtype = read_fwd(...)
  if dtype then ml.finfo(dtype) end
  return function(context, ...)
    check_context("custom_fwd", context)
    local on = ml.is_autocast_enabled(device)
    used[context] = { dtype = ml._autocast_dtype(device), on = on and not dtype }
    if not on or not dtype then return fwd(context, ...) end
    local inputs = table.pack(...)
    for i = 1, inputs.n do inputs[i] = cast(inputs[i], device, dtype) end
    local _ <close> = ml.autocast { device = device, enabled = false }
    return fwd(context, table.unpack(inputs, 1, inputs.n))
  end
end

local read_bwd = signature "amp.custom_bwd(function bwd, AutocastDevice device_type)"

--- Wraps `bwd`, the backward of a function whose forward `custom_fwd` wrapped, to run with autocast
--- as it was in that forward.
--- > fwd = ml.amp.custom_fwd(function(ctx, x) return x * 2 end, "cpu")
--- > bwd = ml.amp.custom_bwd(function(ctx, g) return g * 2 end, "cpu")
--- > x = ml.ones(2, { requires_grad = true })
--- > ml.grad(ml.autograd.Function({ forward = fwd, backward = bwd })(x):sum(), x)
---   {2., 2.}
---   Tensor (2,) float32
---@param bwd fun(ctx: any, ...): any the backward
---@param device_type "cpu"|"cuda" the type of device whose autocast counts
---@return fun(ctx: any, ...): any
---@see amp.custom_fwd
function amp.custom_bwd(...)
  local bwd, device = read_bwd(...)
  return function(context, ...)
    check_context("custom_bwd", context)
    local before = used[context]
    if not before then
      fail "custom_bwd: the forward of this context is not wrapped by custom_fwd"
    end
    local _ <close> = ml.autocast { device = device, dtype = before.dtype, enabled = before.on }
    return bwd(context, ...)
  end
end

return options.namespace("amp", amp, options.late {
  ["amp.grad_scaler"] = { "GradScaler" },
})
