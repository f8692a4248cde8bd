-- stdlib/nn/backward_hooks.lua: backward hooks of modules, made of hooks on the tensors that go in
-- and come out. Each tensor passes through a view, so that only the module's part of its gradient
-- is seen.

local hooks = require "moonlet.hooks"
local ml = require "moonlet"

local backward_hooks = {}

local function needs_gradient(value)
  return ml.is_tensor(value) and value.requires_grad
end

local function positions_with_gradient(values)
  local out = {}
  for i = 1, values.n do
    if needs_gradient(values[i]) then out[#out + 1] = i end
  end
  return out
end

local function run(self, list, grad_inputs, grad_outputs)
  for _, hook in hooks.each(list) do
    local given = hook(self, grad_inputs, grad_outputs)
    if given ~= nil then grad_inputs = given end
  end
  return grad_inputs
end

-- One argument: a view of it, whose gradient is the module's part.
local function watch_one(inputs, at, fire)
  local x = inputs[at]
  local seen = x:view_as(x)
  inputs[at] = seen
  seen:register_hook(function(g)
    return fire({ [at] = g })[at]
  end)
end

-- Several: pieces of one vector, whose gradient is whole when those of all pieces are.
local function watch_several(inputs, positions, fire)
  local parts, sizes = {}, {}
  for i, at in ipairs(positions) do
    parts[i], sizes[i] = inputs[at]:reshape(-1), inputs[at]:numel()
  end
  local all = ml.cat(parts)
  for i, piece in ipairs(all:split(sizes)) do
    local at = positions[i]
    inputs[at] = piece:view(inputs[at].shape)
  end
  all:register_hook(function(g)
    local grads = {}
    for i, piece in ipairs(g:split(sizes)) do
      grads[positions[i]] = piece:view(inputs[positions[i]].shape)
    end
    local given, changed = fire(grads), {}
    for i, at in ipairs(positions) do changed[i] = given[at]:reshape(-1) end
    return ml.cat(changed)
  end)
end

--- Prepares a call of a module that has backward hooks: puts watched tensors in the places of the
--- arguments and returns a function that does so with the results; nil when there are no hooks.
---@param self table
---@param inputs table packed, with n
---@return fun(outputs: table)?
function backward_hooks.watch(self, inputs)
  local list = rawget(self, "_backward_hooks")
  if not list or #list == 0 or not ml.is_grad_enabled() then return nil end
  local grad_outputs = {}
  local function fire(grad_inputs) return run(self, list, grad_inputs, grad_outputs) end
  local positions = positions_with_gradient(inputs)
  if #positions == 1 then
    watch_one(inputs, positions[1], fire)
  elseif #positions > 1 then
    watch_several(inputs, positions, fire)
  end
  return function(outputs)
    local left = positions_with_gradient(outputs)
    local missing = #left
    for _, at in ipairs(left) do
      outputs[at] = outputs[at]:view_as(outputs[at])
      outputs[at]:register_hook(function(g)
        grad_outputs[at] = g
        missing = missing - 1
        if missing == 0 and #positions == 0 then fire({}) end
      end)
    end
  end
end

return backward_hooks
