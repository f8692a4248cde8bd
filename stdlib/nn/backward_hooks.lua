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

-- Runs the hooks of the lists one after the other. Each gets what the one before made of `values`,
-- and `...`; an array that it returns takes their place.
local function run(self, lists, values, ...)
  for _, list in ipairs(lists) do
    for _, hook in hooks.each(list) do
      local given = hook(self, values, ...)
      if given ~= nil then values = given end
    end
  end
  return values
end

-- The lists under that name, of all modules and of this one.
local function lists_of(self, everywhere, field)
  local out = {}
  for _, owner in ipairs { everywhere, self } do
    local list = rawget(owner, field)
    if list and #list > 0 then out[#out + 1] = list end
  end
  return out
end

-- One tensor: a view of it, whose gradient is the module's part.
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
    inputs[at] = piece:view(inputs[at].shape):to { dtype = inputs[at].dtype }
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

local function watch_all(values, positions, fire)
  if #positions == 1 then
    watch_one(values, positions[1], fire)
  elseif #positions > 1 then
    watch_several(values, positions, fire)
  end
end

-- Notes the gradient of each result by itself; `last` is called when the last one is there.
local function watch_outputs(outputs, grad_outputs, last)
  local left = positions_with_gradient(outputs)
  local missing = #left
  for _, at in ipairs(left) do
    outputs[at] = outputs[at]:view_as(outputs[at])
    outputs[at]:register_hook(function(g)
      grad_outputs[at] = g
      missing = missing - 1
      if missing == 0 then last() end
    end)
  end
end

--- Prepares a call of a module that has backward hooks: puts watched tensors in the places of the
--- arguments and returns a function that does so with the results; nil when there are no hooks.
---@param self table
---@param inputs table packed, with n
---@param everywhere table that has the hooks of all modules
---@return fun(outputs: table)?
function backward_hooks.watch(self, inputs, everywhere)
  local after = lists_of(self, everywhere, "_backward_hooks")
  local before = lists_of(self, everywhere, "_backward_pre_hooks")
  if #after + #before == 0 or not ml.is_grad_enabled() then return nil end
  local grad_outputs = {}
  local function fire(grad_inputs) return run(self, after, grad_inputs, grad_outputs) end
  local positions = #after > 0 and positions_with_gradient(inputs) or {}
  watch_all(inputs, positions, fire)
  local function last()
    if #positions == 0 and #after > 0 then fire({}) end
  end
  return function(outputs)
    if #before == 0 then return watch_outputs(outputs, grad_outputs, last) end
    watch_all(outputs, positions_with_gradient(outputs), function(grads)
      grads = run(self, before, grads)
      for at, g in pairs(grads) do grad_outputs[at] = g end
      last()
      return grads
    end)
  end
end

return backward_hooks
