-- stdlib/nn/hooks.lua: hooks around the forward method of a module, its own and those of all
-- modules, and calls with them. All hooks are taken away by the handle that registering them
-- returns.

local Module = require "moonlet.nn.module"
local backward_hooks = require "moonlet.nn.backward_hooks"
local hooks = require "moonlet.hooks"
local signature = require "moonlet.signature"

local registering = {}

-- Holds the hooks of all modules.
local everywhere = require("moonlet.nn.everywhere").hooks

-- The arguments for what comes next: what a hook returned, if anything, else those before.
local function changed_or(before, ...)
  if select("#", ...) > 0 and (...) ~= nil then return table.pack(...) end
  return before
end

local function is_options(value)
  return type(value) == "table" and getmetatable(value) == nil and #value == 0
end

-- Arguments without the table of named ones at their end, and that table.
local function without_options(inputs)
  local last = inputs[inputs.n]
  if inputs.n == 0 or not is_options(last) then return inputs, {} end
  return table.move(inputs, 1, inputs.n - 1, 1, { n = inputs.n - 1 }), last
end

local function with_options(inputs, named)
  local out = table.move(inputs, 1, inputs.n or #inputs, 1, { n = inputs.n or #inputs })
  if next(named) ~= nil then
    out.n = out.n + 1
    out[out.n] = named
  end
  return out
end

local function run_pre_hook(self, hook, flags, inputs)
  if not flags.with_kwargs then
    return changed_or(inputs, hook(self, table.unpack(inputs, 1, inputs.n)))
  end
  local plain, named = without_options(inputs)
  local given, given_named = hook(self, plain, named)
  if given == nil then return inputs end
  return with_options(given, given_named or named)
end

local function run_hook(self, hook, flags, inputs, outputs)
  if not flags.with_kwargs then
    return changed_or(outputs, hook(self, inputs, table.unpack(outputs, 1, outputs.n)))
  end
  local plain, named = without_options(inputs)
  return changed_or(outputs, hook(self, plain, named, table.unpack(outputs, 1, outputs.n)))
end

local function each_of(self, field, f)
  for _, hook, flags in hooks.each(everywhere[field]) do f(hook, flags) end
  for _, hook, flags in hooks.each(rawget(self, field)) do f(hook, flags) end
end

-- `called` gets the hooks that ran, for those that run also after an error.
local function run_all(self, inputs, called)
  each_of(self, "_pre_hooks", function(hook, flags)
    inputs = run_pre_hook(self, hook, flags, inputs)
  end)
  called.inputs = inputs
  local watch = backward_hooks.watch(self, inputs, everywhere)
  local outputs = table.pack(self:forward(table.unpack(inputs, 1, inputs.n)))
  each_of(self, "_hooks", function(hook, flags)
    called[flags] = true
    outputs = run_hook(self, hook, flags, inputs, outputs)
  end)
  if watch then watch(outputs) end
  return table.unpack(outputs, 1, outputs.n)
end

-- After an error: the hooks that are always called and have not been; then the error goes on.
local function finish(self, called, ok, ...)
  if ok then return ... end
  each_of(self, "_hooks", function(hook, flags)
    if not flags.always_call or called[flags] then return end
    local fine, message = pcall(run_hook, self, hook, flags, called.inputs, { n = 0 })
    if not fine then warn("a forward hook with always_call failed: " .. tostring(message)) end
  end)
  error((...), 0)
end

local FIELDS = { "_pre_hooks", "_hooks", "_backward_hooks", "_backward_pre_hooks" }

-- Whether hooks are left; without, calls are quick again.
local function has_hooks(owner)
  for _, field in ipairs(FIELDS) do
    local list = rawget(owner, field)
    if list and #list > 0 then return true end
  end
  owner._has_hooks = nil
  return false
end

local function call_with_hooks(self, ...)
  local own, all = has_hooks(self), has_hooks(everywhere)
  if not own and not all then return self:forward(...) end
  local called, always = { inputs = table.pack(...) }, false
  each_of(self, "_hooks", function(_, flags) always = always or flags.always_call end)
  if not always then return run_all(self, called.inputs, called) end
  return finish(self, called, pcall(run_all, self, called.inputs, called))
end

registering._call = call_with_hooks
Module._call_with_hooks = call_with_hooks

local function add(owner, field, hook, prepend, flags)
  rawset(owner, "_has_hooks", true)
  return hooks.add(owner, field, hook, prepend, flags)
end

local function add_forward(owner, hook, prepend, with_kwargs, always_call)
  return add(owner, "_hooks", hook, prepend,
    { with_kwargs = with_kwargs, always_call = always_call })
end

local FORWARD = "(function hook, bool prepend=false, bool with_kwargs=false, "
  .. "bool always_call=false)"
local read_forward = signature("Module:register_forward_hook" .. FORWARD)

--- Registers a hook that runs after each forward. What the hook returns, if anything, replaces the
--- results. Returns a handle: `handle:remove()`.
--- > net = ml.nn.Linear(2, 3)
--- > handle = net:register_forward_hook(function(_, _, y) return ml.zeros_like(y) end)
--- > net(ml.ones(1, 2))
---   {{0., 0., 0.}}
---   Tensor (1, 3) float32
---@param hook fun(module: table, inputs: table, ...): ... called as `hook(module, inputs, ...)`
---   with the array of arguments and the results; with `with_kwargs` as `hook(module, inputs,
---   options, ...)`
---@param prepend? boolean whether it runs before the hooks that are there
---@param with_kwargs? boolean whether the hook also gets the table of named arguments, or an empty
---   one
---@param always_call? boolean whether it also runs when forward failed, then without results
---@return table handle
function Module:register_forward_hook(...)
  return add_forward(self, read_forward(...))
end

local PRE = "(function hook, bool prepend=false, bool with_kwargs=false)"
local read_forward_pre = signature("Module:register_forward_pre_hook" .. PRE)

--- Registers a hook that runs before each forward. What the hook returns, if anything, replaces the
--- arguments. Returns a handle: `handle:remove()`.
--- > net = ml.nn.ReLU()
--- > handle = net:register_forward_pre_hook(function(_, x) return -x end)
--- > net(ml.tensor { -1, 1 })
---   {1, 0}
---   Tensor (2,) int64
---@param hook fun(module: table, ...): ... called as `hook(module, ...)` with the arguments; with
---   `with_kwargs` as `hook(module, inputs, options)`, of which it may return both
---@param prepend? boolean whether it runs before the hooks that are there
---@param with_kwargs? boolean whether the hook also gets the table of named arguments, or an empty
---   one
---@return table handle
function Module:register_forward_pre_hook(...)
  local hook, prepend, with_kwargs = read_forward_pre(...)
  return add(self, "_pre_hooks", hook, prepend, { with_kwargs = with_kwargs })
end

local read_backward = signature(
  "Module:register_full_backward_hook(function hook, bool prepend=false)")

--- Registers a hook that runs when the gradients of the module's tensor arguments are computed. An
--- array that the hook returns replaces `grad_inputs`. Returns a handle: `handle:remove()`.
--- > net = ml.nn.Linear(2, 3)
--- > handle = net:register_full_backward_hook(function(_, grads) return { grads[1] * 0 } end)
--- > x = ml.ones(1, 2, { requires_grad = true })
--- > net(x):sum():backward()
--- > x.grad:abs()
---   {{0., 0.}}
---   Tensor (1, 2) float32
---@param hook fun(module: table, grad_inputs: table, grad_outputs: table): table? called as
---   `hook(module, grad_inputs, grad_outputs)`, arrays by position, nil for what has no gradient
---@param prepend? boolean whether it runs before the hooks that are there
---@return table handle
function Module:register_full_backward_hook(...)
  return add(self, "_backward_hooks", read_backward(...))
end

local read_backward_pre = signature(
  "Module:register_full_backward_pre_hook(function hook, bool prepend=false)")

--- Registers a hook that runs before the gradients of the module are computed. An array that the
--- hook returns replaces `grad_outputs`. Returns a handle: `handle:remove()`.
--- > net = ml.nn.Linear(2, 3)
--- > handle = net:register_full_backward_pre_hook(function(_, grads) return { grads[1] * 2 } end)
--- > net(ml.ones(1, 2)):sum():backward()
--- > net.bias.grad
---   {2., 2., 2.}
---   Tensor (3,) float32
---@param hook fun(module: table, grad_outputs: table): table? called as `hook(module,
---   grad_outputs)`, an array by position
---@param prepend? boolean whether it runs before the hooks that are there
---@return table handle
function Module:register_full_backward_pre_hook(...)
  return add(self, "_backward_pre_hooks", read_backward_pre(...))
end

local read_all_forward = signature("nn.register_module_forward_hook(function hook, "
  .. "bool with_kwargs=false, bool always_call=false)")

--- Registers a hook that runs after the forward of any module, before the module's own hooks. What
--- the hook returns, if anything, replaces the results. Returns a handle: `handle:remove()`.
--- > count = 0
--- > handle = ml.nn.register_module_forward_hook(function() count = count + 1 end)
--- > ml.nn.Sequential(ml.nn.ReLU(), ml.nn.Tanh())(ml.ones(2))
---   {0.7616, 0.7616}
---   Tensor (2,) float32
--- > handle:remove()
--- > count
---   3
---@see nn.Module.register_forward_hook
---@see nn.Module.register_forward_hook
---@see nn.Module.register_forward_hook
---@see nn.Module.register_forward_hook
---@see nn.Module.register_forward_hook
---@see nn.Module.register_forward_hook
---@see nn.Module.register_forward_hook
---@param hook fun(module: table, inputs: table, ...): ... called as `hook(module, inputs, ...)`, as
---   of `Module:register_forward_hook`
---@param with_kwargs? boolean whether the hook also gets the table of named arguments, or an empty
---   one
---@param always_call? boolean whether it also runs when forward failed, then without results
---@return table handle
---@see nn.Module.register_forward_hook
function registering.register_module_forward_hook(...)
  local hook, with_kwargs, always_call = read_all_forward(...)
  return add_forward(everywhere, hook, false, with_kwargs, always_call)
end

local read_all_pre = signature "nn.register_module_forward_pre_hook(function hook)"

--- Registers a hook that runs before the forward of any module, before the module's own hooks. What
--- the hook returns, if anything, replaces the arguments. Returns a handle: `handle:remove()`.
--- > count = 0
--- > handle = ml.nn.register_module_forward_pre_hook(function() count = count + 1 end)
--- > ml.nn.Sequential(ml.nn.ReLU(), ml.nn.Tanh())(ml.ones(2))
---   {0.7616, 0.7616}
---   Tensor (2,) float32
--- > handle:remove()
--- > count
---   3
---@see nn.Module.register_forward_pre_hook
---@see nn.Module.register_forward_pre_hook
---@see nn.Module.register_forward_pre_hook
---@see nn.Module.register_forward_pre_hook
---@see nn.Module.register_forward_pre_hook
---@see nn.Module.register_forward_pre_hook
---@see nn.Module.register_forward_pre_hook
---@param hook fun(module: table, ...): ... called as `hook(module, ...)`, as of
---   `Module:register_forward_pre_hook`
---@return table handle
---@see nn.Module.register_forward_pre_hook
function registering.register_module_forward_pre_hook(...)
  return add(everywhere, "_pre_hooks", (read_all_pre(...)))
end

local read_all_backward = signature "nn.register_module_full_backward_hook(function hook)"

--- Registers a hook that runs when the gradients of any module's arguments are computed. Returns a
--- handle: `handle:remove()`.
--- > count = 0
--- > handle = ml.nn.register_module_full_backward_hook(function() count = count + 1 end)
--- > ml.nn.Linear(2, 1)(ml.ones(2)):sum():backward()
--- > handle:remove()
--- > count
---   1
---@see nn.Module.register_full_backward_hook
---@see nn.Module.register_full_backward_hook
---@see nn.Module.register_full_backward_hook
---@see nn.Module.register_full_backward_hook
---@see nn.Module.register_full_backward_hook
---@see nn.Module.register_full_backward_hook
---@see nn.Module.register_full_backward_hook
---@param hook fun(module: table, grad_inputs: table, grad_outputs: table): table? called as
---   `hook(module, grad_inputs, grad_outputs)`, as of `Module:register_full_backward_hook`
---@return table handle
---@see nn.Module.register_full_backward_hook
function registering.register_module_full_backward_hook(...)
  return add(everywhere, "_backward_hooks", (read_all_backward(...)))
end

local read_all_backward_pre = signature "nn.register_module_full_backward_pre_hook(function hook)"

--- Registers a hook that runs before the gradients of any module are computed. Returns a handle:
--- `handle:remove()`.
--- > count = 0
--- > handle = ml.nn.register_module_full_backward_pre_hook(function() count = count + 1 end)
--- > ml.nn.Linear(2, 1)(ml.ones(2)):sum():backward()
--- > handle:remove()
--- > count
---   1
---@see nn.Module.register_full_backward_pre_hook
---@see nn.Module.register_full_backward_pre_hook
---@see nn.Module.register_full_backward_pre_hook
---@see nn.Module.register_full_backward_pre_hook
---@see nn.Module.register_full_backward_pre_hook
---@see nn.Module.register_full_backward_pre_hook
---@see nn.Module.register_full_backward_pre_hook
---@param hook fun(module: table, grad_outputs: table): table? called as `hook(module,
---   grad_outputs)`, as of `Module:register_full_backward_pre_hook`
---@return table handle
---@see nn.Module.register_full_backward_pre_hook
function registering.register_module_full_backward_pre_hook(...)
  return add(everywhere, "_backward_pre_hooks", (read_all_backward_pre(...)))
end

return registering
