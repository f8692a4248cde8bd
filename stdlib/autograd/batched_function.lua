-- stdlib/autograd/batched_function.lua: calls of an autograd.Function inside vmap whose arguments
-- are differentiated outside of it. There the call is one of another function, on whole batches,
-- whose forward, backward and jvp run those of the script in a vmap of their own.

local ml = require "moonlet"

-- What the script's functions get as their context: its tensors are batches in the vmap that runs,
-- those of `outer`, the context of the function on whole batches, are their values.
local Context = {}

function Context:__index(name)
  if name == "needs_input_grad" then return self.outer.needs_input_grad end
  return Context[name]
end

-- Tensors that are kept, as values and the dimensions that count their samples.
local function opened(level, ...)
  local values, dims = { n = select("#", ...) }, {}
  for i = 1, values.n do
    local x = select(i, ...)
    if ml.is_tensor(x) then values[i], dims[i] = ml._vmap_part(level, x) end
  end
  return values, dims
end

-- The other way: samples in that vmap.
local function batches(level, values, dims)
  local out = { n = values.n }
  for i = 1, values.n do
    local x = values[i]
    out[i] = ml.is_tensor(x) and dims[i] and ml._vmap_batch(level, x, dims[i]) or x
  end
  return out
end

function Context:save_for_backward(...)
  local values, dims = opened(self.level, ...)
  self.kept.backward = dims
  self.outer:save_for_backward(table.unpack(values, 1, values.n))
end

function Context:save_for_forward(...)
  local values, dims = opened(self.level, ...)
  self.kept.forward = dims
  self.outer:save_for_forward(table.unpack(values, 1, values.n))
end

function Context:mark_dirty(...)
  local values = opened(self.level, ...)
  self.outer:mark_dirty(table.unpack(values, 1, values.n))
end

function Context:mark_non_differentiable(...)
  local values = opened(self.level, ...)
  self.outer:mark_non_differentiable(table.unpack(values, 1, values.n))
end

function Context:set_materialize_grads(on) self.outer:set_materialize_grads(on) end

-- The context of one of the three functions. Fields of the script stay in `kept`, for the next.
local function context_for(kept, level, outer)
  local saved = { level = level, outer = outer, kept = kept }
  return setmetatable(saved, {
    __index = function(self, name)
      local own = Context.__index(self, name)
      if own == nil then own = kept.fields[name] end
      return own
    end,
    __newindex = function(_, name, value) kept.fields[name] = value end,
  })
end

-- The gradient of an argument as a value: of what is the same for all samples, the sum over them.
local function gradient_value(level, g, shape, dim)
  if not ml.is_tensor(g) then return g end
  if shape and g.shape ~= shape then
    g = g:dim() < #shape and g:expand(shape) or g:sum_to_size(shape)
  end
  if dim then return ml._vmap_value(level, g, dim) end
  return ml._vmap_value(level, g, 1):sum(1)
end

-- The function on whole batches; `dims` are those of the arguments, `out_dims` gets those of the
-- results.
local function on_values(self, size, randomness, dims, out_dims)
  local kept, shapes = { fields = {}, backward = {}, forward = {} }, {}
  local function inside(values, their_dims)
    local level = ml._vmap_level(size, randomness)
    return level, batches(level, values, their_dims)
  end
  local definition = { name = self.name }
  function definition.forward(...)
    local level <close>, own = inside(table.pack(...), dims)
    for i = 1, own.n do shapes[i] = ml.is_tensor(own[i]) and own[i].shape end
    local results, found = opened(level, self.forward(table.unpack(own, 1, own.n)))
    for i = 1, results.n do
      out_dims[i] = found[i]
      -- One that is the same for all samples gets a gradient of each sample nevertheless.
      if ml.is_tensor(results[i]) and not found[i] then
        results[i], out_dims[i] = ml._vmap_value(level, results[i], 1):clone(), 1
      end
    end
    return table.unpack(results, 1, results.n)
  end
  function definition.setup_context(ctx, inputs, outputs)
    local level <close>, own = inside(inputs, dims)
    self.setup_context(context_for(kept, level, ctx), own, batches(level, outputs, out_dims))
  end
  function definition.backward(ctx, ...)
    local level <close>, starts = inside(table.pack(...), out_dims)
    local context = context_for(kept, level, ctx)
    rawset(context, "saved_tensors", batches(level, ctx.saved_tensors, kept.backward))
    local found = table.pack(self.backward(context, table.unpack(starts, 1, starts.n)))
    for i = 1, found.n do
      found[i] = gradient_value(level, found[i], shapes[i], dims[i])
    end
    return table.unpack(found, 1, found.n)
  end
  definition.jvp = self.jvp and function(ctx, ...)
    local level <close>, along = inside(table.pack(...), dims)
    local context = context_for(kept, level, ctx)
    local saved = ctx.saved_for_forward
    rawset(context, "saved_for_forward", saved and batches(level, saved, kept.forward))
    local moved = table.pack(self.jvp(context, table.unpack(along, 1, along.n)))
    for i = 1, moved.n do
      moved[i] = ml.is_tensor(moved[i]) and ml._vmap_value(level, moved[i], out_dims[i]) or nil
    end
    return table.unpack(moved, 1, moved.n)
  end or nil
  return definition
end

--- The results of `self(...)` in `level`, whose arguments are differentiated outside of it, as an
--- array with its length in `n`. `new` makes a function of a definition; `differs` says that an
--- argument is not the same for all samples.
---@param new fun(definition: table): fun(...): ...
---@param self table
---@param level any
---@param size integer
---@param randomness string
---@param differs boolean
---@param ... any
return function(new, self, level, size, randomness, differs, ...)
  local values, dims = opened(level, ...)
  local out_dims = {}
  local f = differs and new(on_values(self, size, randomness, dims, out_dims)) or self
  local results = table.pack(ml._vmap_outside(level, f, table.unpack(values, 1, values.n)))
  for i = 1, results.n do
    if ml.is_tensor(results[i]) then
      results[i] = ml._vmap_batch(level, results[i], out_dims[i])
    end
  end
  return results
end
