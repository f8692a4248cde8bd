-- stdlib/nn/hooks.lua: calling a module: its forward method with the hooks around it. All hooks are
-- taken away by the handle that registering them returns.

local Module = require "moonlet.nn.module"
local backward = require "moonlet.nn.backward_hooks"
local hooks = require "moonlet.hooks"
local signature = require "moonlet.signature"

-- The arguments for what comes next: what a hook returned, if anything, else those before.
local function changed_or(before, ...)
  if select("#", ...) > 0 and (...) ~= nil then return table.pack(...) end
  return before
end

local function call_with_hooks(self, ...)
  local inputs = table.pack(...)
  for _, hook in hooks.each(rawget(self, "_pre_hooks")) do
    inputs = changed_or(inputs, hook(self, table.unpack(inputs, 1, inputs.n)))
  end
  local watch = backward.watch(self, inputs)
  local outputs = table.pack(self:forward(table.unpack(inputs, 1, inputs.n)))
  for _, hook in hooks.each(rawget(self, "_hooks")) do
    outputs = changed_or(outputs, hook(self, inputs, table.unpack(outputs, 1, outputs.n)))
  end
  if watch then watch(outputs) end
  return table.unpack(outputs, 1, outputs.n)
end

function Module.__call(self, ...)
  if self._has_hooks then return call_with_hooks(self, ...) end
  return self:forward(...)
end

local function add(self, field, hook, prepend)
  rawset(self, "_has_hooks", true)
  return hooks.add(self, field, hook, prepend)
end

local read_forward = signature(
  "Module:register_forward_hook(function hook, bool prepend=false)")

--- `hook(module, inputs, ...)` runs after forward with the array of its arguments and its results;
--- what it returns, if anything, takes the place of the results. With `prepend` it runs before the
--- hooks that are there. Returns a handle: `handle:remove()`.
---@param hook fun(module: table, inputs: table, ...): ...
---@param prepend? boolean
---@return table handle
function Module:register_forward_hook(...)
  return add(self, "_hooks", read_forward(...))
end

local read_forward_pre = signature(
  "Module:register_forward_pre_hook(function hook, bool prepend=false)")

--- `hook(module, ...)` runs before forward with its arguments; what it returns, if anything, takes
--- their place. Returns a handle: `handle:remove()`.
---@param hook fun(module: table, ...): ...
---@param prepend? boolean
---@return table handle
function Module:register_forward_pre_hook(...)
  return add(self, "_pre_hooks", read_forward_pre(...))
end

local read_backward = signature(
  "Module:register_full_backward_hook(function hook, bool prepend=false)")

--- `hook(module, grad_inputs, grad_outputs)` runs when backward has computed the gradients of the
--- module's tensor arguments; an array that it returns takes the place of `grad_inputs`. Both are
--- arrays by position, nil for what has no gradient. Returns a handle: `handle:remove()`.
---@param hook fun(module: table, grad_inputs: table, grad_outputs: table): table?
---@param prepend? boolean
---@return table handle
function Module:register_full_backward_hook(...)
  return add(self, "_backward_hooks", read_backward(...))
end

return Module
