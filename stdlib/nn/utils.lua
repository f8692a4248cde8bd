-- stdlib/nn/utils.lua: nn.utils: clipping gradients, and parameters as one vector.

local ml = require "moonlet"
local options = require "moonlet.options"

local utils = {}

local function with_gradients(where, parameters)
  if ml.is_tensor(parameters) then parameters = { parameters } end
  if type(parameters) ~= "table" then
    options.fail("%s: an array of parameters is wanted, got %s", where, type(parameters))
  end
  local out = {}
  for _, p in ipairs(parameters) do
    local g = p.grad
    if g then out[#out + 1] = g end
  end
  return out
end

--- Scales all gradients together so that their norm is at most `max_norm`; returns the norm before.
--- Options: `norm_type` (2; `math.huge` is the greatest absolute value), `error_if_nonfinite`.
---@param parameters Tensor[]
---@param max_norm number
---@param given? table
---@return Tensor
function utils.clip_grad_norm_(parameters, max_norm, given)
  local where = "clip_grad_norm_"
  local o = options.read(where, given, { norm_type = 2, error_if_nonfinite = false })
  options.number(where, "max_norm", max_norm, 0)
  local gradients = with_gradients(where, parameters)
  local _ <close> = ml.no_grad()
  if #gradients == 0 then return ml.zeros({}) end
  local norms = {}
  for i, g in ipairs(gradients) do norms[i] = g:norm(o.norm_type):reshape(1) end
  local total = ml.cat(norms):norm(o.norm_type)
  local value = total:item()
  if o.error_if_nonfinite and (value ~= value or value == math.huge) then
    options.fail("%s: the norm of the gradients is %g", where, value)
  end
  local scale = max_norm / (value + 1e-6)
  if scale < 1 or scale ~= scale then
    for _, g in ipairs(gradients) do g:mul_(scale) end
  end
  return total
end

--- Limits every element of the gradients to -limit .. limit.
---@param parameters Tensor[]
---@param limit number
function utils.clip_grad_value_(parameters, limit)
  options.number("clip_grad_value_", "limit", limit, 0)
  local _ <close> = ml.no_grad()
  for _, g in ipairs(with_gradients("clip_grad_value_", parameters)) do
    g:copy_(g:clamp(-limit, limit))
  end
end

--- All parameters one after the other in one vector, on the tape.
---@param parameters Tensor[]
---@return Tensor
function utils.parameters_to_vector(parameters)
  local parts = {}
  for i, p in ipairs(parameters) do parts[i] = p:reshape(-1) end
  return ml.cat(parts)
end

return options.namespace("nn.utils", utils)
