-- stdlib/distributed/passes.lua: one forward through a module that fully_shard has sharded, and
-- the backward that follows: in which order its parts run, and what ends with it.

local ml = require "moonlet"
local ShardGroup = require "moonlet.distributed.shard_group"

local passes = {}

-- Raised with each module that is sharded, since the lists of those below then change.
local generation = 0
local parts_of_modules

--- Notes a module that has been sharded.
---@param _ table its part
---@param parts table the parts by module
function passes.added(_, parts) generation, parts_of_modules = generation + 1, parts end

local Pass = {}
Pass.__index = Pass

local pass_count = 0

local function new_pass(context)
  pass_count = pass_count + 1
  local pass = setmetatable({ context = context, calls = {}, dropped = 0, number = pass_count },
    Pass)
  return pass
end

--- Has a backward that comes to the pass end it, too.
function Pass:begin_backward()
  local running = ml._running_backward()
  if self.backward == running then return end
  self.backward = running
  ml._after_backward(function() self:finish_backward() end)
end

-- Sends gradients, when those before have come.
function Pass:reduce(owner, gradients)
  self:finish_reduce()
  self.context.reducing = owner:start_reduce(gradients)
end

function Pass:finish_reduce()
  local pending = self.context.reducing
  self.context.reducing = nil
  if pending then ShardGroup.finish_reduce(pending) end
end

-- Of calls that backward has not been done with, as it was to come to the inputs alone, the wholes
-- go as well.
function Pass:finish_backward()
  self:finish_reduce()
  for _, call in ipairs(self.calls) do
    if call.in_backward then call:leave() end
  end
  self.backward, self.context.backward = nil, nil
end

-- --- contexts -----------------------------------------------------------------------------------

-- The parts of a module and those below it, as the outermost one.
local function context_of(part)
  local context = part.own_context
  if not context or context.generation ~= generation then
    local list = {}
    for _, module in ipairs(part.module:modules()) do
      list[#list + 1] = parts_of_modules[module]
    end
    context = { parts = list, next_of = {}, generation = generation }
    part.own_context = context
  end
  for _, each in ipairs(context.parts) do each.context = context end
  return context
end

-- What an earlier pass has left behind: of a forward without backward, or one that failed.
local function clean(context)
  context.reducing = nil
  for _, part in ipairs(context.parts) do
    local group = part.group
    if group then
      for call in pairs(group.open) do call.in_backward = false end
      if not group.held then group:reshard() end
    end
  end
end

local function begin(part)
  local context = context_of(part)
  clean(context)
  for _, each in ipairs(context.parts) do
    if each.group then
      each.group.reshards = each.reshards
      if each.reshards == nil then each.group.reshards = each ~= part end
    end
  end
  context.pass, context.root, context.last = new_pass(context), part, nil
  return context
end

--- Before a module runs. `inputs` are its arguments, packed, which may be changed.
---@param part table
---@param inputs table
function passes.enter(part, inputs)
  local group, context = part.group, part.context
  -- A checkpoint runs its function again: what that saves is for the call that there was.
  if ml._running_backward() ~= 0 then
    local call = group and group:call_again(context and context.backward)
    if call then
      call:begin()
      part.again = true
      return
    end
  end
  if not (context and context.pass) then context = begin(part) end
  if not group then return end
  part.call = group:before_forward(context.pass, inputs)
  if context.last then context.next_of[context.last] = group end
  context.last = group
  local following = context.next_of[group]
  if following and following ~= group then following:prefetch() end
end

-- Drops what was gathered ahead for a module that has not run.
local function finish(context)
  for _, part in ipairs(context.parts) do
    if part.group and part.group.pending and not part.group.held then part.group:empty() end
  end
  context.pass, context.root, context.last = nil, nil, nil
end

--- After a module has run, or failed. `hook(f)` has `f` called when backward comes to its results.
---@param part table
---@param hook fun(f: fun())
function passes.leave(part, hook)
  local again, call, context = part.again, part.call, part.context
  part.again, part.call = nil, nil
  if again or not (context and context.pass) then return end
  local pass, is_root = context.pass, context.root == part
  if ml.is_grad_enabled() and (call or is_root) then
    hook(function()
      context.backward = pass
      if call then call:begin() end
    end)
  end
  if part.group then part.group:after_forward() end
  if is_root then finish(context) end
end

return passes
