-- tests/fuzz/program_words.lua: the words of random programs in Lua: leaves, losses, functions with a
-- derivative of their own. program_words.py has the same words for PyTorch.

local ml = require "moonlet"
local forward_ad = ml.autograd.forward_ad

local words = { ml = ml, table = table }

local function product(shape)
  local n = 1
  for i = 1, #shape do n = n * shape[i] end
  return n
end

local function generated(shape, dtype, f)
  local values = {}
  for i = 1, product(shape) do values[i] = f(i - 1) end
  return ml.tensor(values, { dtype = dtype }):reshape(table.move(shape, 1, #shape, 1, {}))
end

function words.leaf(shape, number, dtype, requires_grad)
  local t = generated({ product(shape) }, "float64",
    function(i) return ((i * 7 + number * 5) % 11 - 4) / 4 + 0.1 end)
  if dtype == "complex128" then t = ml.view_as_complex(ml.stack({ t, t:flip { 1 } * 0.5 }, -1)) end
  return t:to(dtype):reshape(shape):clone():requires_grad_(requires_grad)
end

function words.weights(x)
  return generated(x.shape, "float64", function(i) return 1 + (i % 5) * 0.25 end):to(x.dtype)
end

-- ml.grad with results in row-major order: how they lie in memory may differ from PyTorch's, and
-- later steps may look at strides.
function words.grad(...)
  local out = table.pack(ml.grad(...))
  for i = 1, out.n do out[i] = out[i] and out[i]:contiguous() end
  return table.unpack(out, 1, out.n)
end

function words.loss(x)
  local y = x * words.weights(x)
  if y.dtype:find "^complex" then y = ml.view_as_real(y) end
  return y:sum():to "float64"
end

function words.mask(x)
  return generated(x.shape, "bool", function(i) return i % 2 == 0 end)
end

function words.rows(where, x)
  local shape, sizes = { #where }, { #where }
  for d = 2, x.ndim do shape[d], sizes[d] = 1, x.shape[d] end
  return ml.tensor(where):reshape(shape):expand(sizes)
end

-- Forward mode, transforms and checkpoints -------------------------------------------------------

words.dual = forward_ad.make_dual

-- A copy of x without its tangent.
function words.primal(x) return (forward_ad.unpack_dual(x)):clone() end

function words.tangent(x)
  local _, found = forward_ad.unpack_dual(x)
  return found or ml.zeros_like(x:detach())
end

-- The tangent of x, with a history of x in any case.
function words.moving(x) return words.tangent(x) + words.primal(x) * 0.0 end

-- The result of f and its derivatives from `weights`, by all inputs.
function words.pull(f, ...)
  local y, back = ml.func.vjp(f, ...)
  return y, back(words.weights(y))
end

-- What a transform has found, with a history of these inputs in any case, and contiguous.
function words.tied(inputs, ...)
  local out = table.pack(...)
  for i = 1, out.n do
    local y = out[i]:contiguous()
    for _, x in ipairs((y:is_floating_point() or y:is_complex()) and inputs or {}) do
      y = y + ((x:is_complex() and x.real or x):sum():to "float64" * 0.0):to(y.dtype)
    end
    out[i] = y
  end
  return table.unpack(out, 1, out.n)
end

-- Runs f where copies in boxes are kept of what is saved.
function words.packed(f)
  ml.autograd.graph.saved_tensors_hooks(function(t) return { t:detach():clone() } end,
    function(box) return box[1] end, f)
end

-- Functions with a derivative of their own: each result by its kind, of x and y of the same shape.

local RESULTS = {
  mul = function(x, y) return x * y end,
  tanh = function(x) return x:tanh() end,
  same = function(x) return x end,
  alias = function(x) return x:view_as(x) end,
  double = function(x) return x:mul_(2.0) end,
  fixed = function(x) return x * 3.0 end,
  whole = function(x) return x:gt(0):long() end,
}

local BY_X = {
  mul = function(g, _, y) return g * y end,
  tanh = function(g, _, _, result) return g * (1.0 - result * result) end,
  same = function(g) return g end,
  alias = function(g) return g:view_as(g) end,
  double = function(g) return g * 2.0 end,
}

local function added(a, b)
  if a and b then return a + b end
  return a or b
end

-- How a result changes with changes g of x and h of y; nil stands for zero.
local function moved(kind, g, h, x, y, result)
  return added(g and BY_X[kind] and BY_X[kind](g, x, y, result), h and kind == "mul" and h * x)
end

local function has(list, word)
  for _, each in ipairs(list) do
    if each == word then return true end
  end
  return false
end

local function compute(kinds, x, y)
  local out = { n = #kinds }
  for i, kind in ipairs(kinds) do out[i] = RESULTS[kind](x, y) end
  return out
end

-- Tells the context of a function about its results.
local function note(kinds, flags, ctx, x, y, before, results)
  local kept, marked = { before, y }, {}
  for i, kind in ipairs(kinds) do
    if kind == "fixed" then marked[#marked + 1] = results[i] end
    kept[i + 2] = kind == "tanh" and results[i] or nil
  end
  if #marked > 0 then ctx:mark_non_differentiable(table.unpack(marked)) end
  if has(kinds, "double") then ctx:mark_dirty(x) end
  if has(flags, "sparse") then ctx:set_materialize_grads(false) end
  ctx:save_for_backward(table.unpack(kept, 1, #kinds + 2))
  ctx:save_for_forward(table.unpack(kept, 1, #kinds + 2))
end

local function backward_of(kinds, flags)
  return function(ctx, ...)
    local kept, gx, gy = ctx.saved_tensors, nil, nil
    local x, y = kept[1], kept[2]
    for i, kind in ipairs(kinds) do
      local g = select(i, ...)
      gx = added(gx, moved(kind, g, nil, x, y, kept[i + 2]))
      gy = added(gy, g and kind == "mul" and g * x)
    end
    local needs = has(flags, "skip") and ctx.needs_input_grad or { true, true }
    local zero = ml.zeros_like(x)
    return needs[1] and added(gx, zero) or nil, needs[2] and added(gy, zero) or nil
  end
end

local function jvp_of(kinds)
  return function(ctx, g, h)
    local kept, out = ctx.saved_for_forward, {}
    local x, y = kept[1], kept[2]
    for i, kind in ipairs(kinds) do
      if kind == "double" and g then
        out[i] = g:mul_(2.0)
      elseif kind ~= "fixed" and kind ~= "whole" then
        out[i] = moved(kind, g, h, x, y, kept[i + 2]) or ml.zeros_like(x)
      end
    end
    return table.unpack(out, 1, #kinds)
  end
end

-- The results of a function with those results, and flags: once, skip, sparse, apart.
function words.custom(kinds, flags, x, y)
  local definition = { name = "Custom", jvp = jvp_of(kinds), backward = backward_of(kinds, flags) }
  if has(flags, "once") then
    definition.backward = ml.autograd.once_differentiable(definition.backward)
  end
  if has(flags, "apart") then
    function definition.forward(...) return table.unpack(compute(kinds, ...), 1, #kinds) end
    function definition.setup_context(ctx, inputs, outputs)
      note(kinds, flags, ctx, inputs[1], inputs[2], inputs[1], outputs)
    end
    definition.generate_vmap_rule = true
  else
    function definition.forward(ctx, a, b)
      local before = has(kinds, "double") and a:clone() or a
      local results = compute(kinds, a, b)
      note(kinds, flags, ctx, a, b, before, results)
      return table.unpack(results, 1, #kinds)
    end
  end
  return ml.autograd.Function(definition)(x, y)
end

return words
