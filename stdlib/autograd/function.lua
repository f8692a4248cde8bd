-- stdlib/autograd/function.lua: ml.autograd.Function: functions whose derivative a script writes.
-- What the tape does with them is in autograd/custom_function.cpp.

local ml = require "moonlet"
local fail = require("moonlet.options").fail
local signature = require "moonlet.signature"
local run_on_values = require "moonlet.autograd.batched_function"
local run_rule = require "moonlet.autograd.vmap_rule"

local functions = {}

local Function = {}
Function.__index = Function

function Function:__tostring() return ("autograd.Function %s"):format(self.name) end

local function without_recording(f, ...)
  local _ <close> = ml.no_grad()
  return f(...)
end

-- The results for a batch that is differentiated outside of its vmap too, or by a rule; or nil.
local function results_outside(self, ...)
  local level, size, randomness, differs = ml._vmap_enclosing(...)
  if not level then return nil end
  local by_rule = self.vmap and differs
  if not by_rule and not ml._differentiated_outside(level, ...) then return nil end
  if not self.setup_context then
    fail(by_rule and "%s: 'vmap' needs the form of the function with 'setup_context'"
      or "%s: to be differentiated outside of a vmap it needs the form with 'setup_context'",
      self.name)
  end
  if by_rule then return run_rule(self, level, size, randomness, ...) end
  return run_on_values(functions.Function, self, level, size, randomness, differs, ...)
end

-- The results of forward, with what it or setup_context has told the context.
local function run_forward(self, ctx, ...)
  local results = results_outside(self, ...)
  local _ <close> = ml.no_grad()
  if not self.setup_context then return table.pack(self.forward(ctx, ...)) end
  results = results or table.pack(self.forward(...))
  local outputs = table.move(results, 1, results.n, 1, { n = results.n })
  self.setup_context(ctx, table.pack(...), outputs)
  return results
end

-- The context, the results, and what forward has saved for jvp.
local function run_recorded(self, call, ...)
  local ctx = ml._function_begin(self.name, call and call.along, ...)
  if call then call.ctx = ctx end
  local results = run_forward(self, ctx, ...)
  local kept = ctx.saved_for_forward
  return ctx, table.pack(ml._function_end(ctx, self.backward, table.unpack(results, 1, results.n))),
    kept
end

-- The results with their tangents; one that is an argument was changed in place.
local function attach(self, level, results, moved, kept, ...)
  if moved.n ~= results.n then
    fail("%s: jvp gave %d tangents for %d results", self.name, moved.n, results.n)
  end
  for i = 1, results.n do
    local before, changed = results[i], false
    for k = 1, select("#", ...) do changed = changed or rawequal(before, (select(k, ...))) end
    local tangent = moved[i]
    if tangent == nil and changed and ml.is_tensor(before) then
      tangent = ml._filled_as(before, 0)
    end
    if tangent ~= nil then
      results[i] = ml._with_result_tangent(before, tangent, level, changed)
    end
    for k, each in pairs(kept or {}) do
      if rawequal(each, before) then kept[k] = results[i] end
    end
  end
end

-- Keeps the tangents of arguments that were changed in place as they were, for what is recorded of
-- those that take their place.
local function keep_changed(tangents, results, ...)
  for k, tangent in pairs(tangents) do
    for i = 1, results.n do
      if rawequal(results[i], (select(k, ...))) then tangents[k] = tangent:clone() end
    end
  end
end

-- The tangents of the results, by jvp or as the derivative of backward.
local function tangents_of(self, ctx, kept, count, tangents)
  if not self.jvp then return ml._function_tangents(ctx, table.unpack(tangents, 1, count)) end
  ml._function_keep(ctx, kept)
  local moved = table.pack(self.jvp(ctx, table.unpack(tangents, 1, count)))
  ml._function_keep(ctx, nil)
  return moved
end

-- The same with tangents. The function is run, and its jvp, as if the innermost level of forward
-- mode were not there; what is saved for backward has its tangents of it. `call.along` says which
-- arguments have tangents that backward is to be differentiated for.
local function run(self, call, ...)
  local level, tangents, any = ml._forward_tangents(...)
  if not level then return run_recorded(self, call, ...) end
  if any and not self.jvp then
    if self.no_backward then
      fail("%s: a tensor with a tangent was given, and the function has no jvp and no backward",
        self.name)
    end
    for i in pairs(tangents) do call.along[i] = true end
  end
  local ctx, results, kept, moved
  do
    ml._suspend_forward(level, true)
    local _ <close> = setmetatable({}, { __close = function()
      ml._suspend_forward(level, false)
    end })
    ctx, results, kept = run(self, call, ...)
    if any then keep_changed(tangents, results, ...) end
    if any then moved = tangents_of(self, ctx, kept, select("#", ...), tangents) end
  end
  if any then attach(self, level, results, moved, kept, ...) end
  return ctx, results, kept
end

-- What a call with tangents knows until it ends.
local Call = {}

function Call:__close()
  if self.ctx then ml._function_done(self.ctx) end
end

function Function:__call(...)
  if rawequal((...), self) then
    fail("%s: use %s(x) or %s.apply(x), without a colon", self.name, self.name, self.name)
  end
  local _, results
  if ml._forward_tangents(...) then
    local call <close> = setmetatable({ along = {} }, Call)
    _, results = run(self, call, ...)
  else
    _, results = run_recorded(self, nil, ...)
  end
  return table.unpack(results, 1, results.n)
end

local read_function = signature("autograd.Function(function forward, function? backward=nil, "
  .. "function? setup_context=nil, function? jvp=nil, function? vmap=nil, "
  .. "bool generate_vmap_rule=false, string name=\"Function\")")

--- Makes a differentiable function with a backward of its own: `Cube(x)` or `Cube.apply(x)` runs
--- `forward(ctx, x)` without recording, and the tape runs `backward(ctx, g)`. `forward` takes any
--- arguments and gives any number of results. `backward` gets a gradient for each result, nil for
--- what is no tensor, and gives one for each argument: nil for none and for what is no tensor;
--- those missing at the end are none. It is recorded itself under `create_graph`, so that a
--- gradient made of ops can be differentiated again.
---
--- `ctx` is a `FunctionContext`: `ctx:save_for_backward(...)` keeps tensors, `ctx.saved_tensors`
--- gives them, and fields of the script's own keep anything else. It is freed with its graph, or
--- after a backward without `retain_graph`; a result of the call must be kept by
--- `save_for_backward` alone, since one in a field is never freed otherwise.
--- > Cube = ml.autograd.Function {
---     name = "Cube",
---     forward = function(ctx, x) ctx:save_for_backward(x) return x ^ 3 end,
---     backward = function(ctx, g) return g * ctx.saved_tensors[1] ^ 2 * 3 end,
---   }
--- > x = ml.tensor({ 2.0 }, { requires_grad = true })
--- > Cube(x):sum():backward()
--- > x.grad
---   {12.}
---   Tensor (1,) float32
---@param forward function `forward(ctx, ...)` gives the results, or `forward(...)` with
---   `setup_context`
---@param backward? function `backward(ctx, ...)` gives the gradients of the arguments from
---   those of the results
---@param setup_context? function `setup_context(ctx, inputs, outputs)`, called after `forward`
---   with arrays
---@param jvp? function `jvp(ctx, ...)` gives the tangents of the results from those of the
---   arguments, nil for none; else `backward` is differentiated, which then must be made of ops
---@param vmap? function `vmap(info, in_dims, ...)` gives the results for a batch and their
---   batch dimensions
---@param generate_vmap_rule? boolean whether the ops of `forward` and `backward` are run for a
---   batch, as also without `vmap`
---@param name? string the name of the node is "CubeBackward" for "Cube"
---@param definition table {forward, backward, setup_context, jvp, vmap, generate_vmap_rule, name}
---@return {apply: (fun(...): ...), name: string}
---@see autograd.once_differentiable
function functions.Function(definition)
  if type(definition) ~= "table" or getmetatable(definition) then
    fail("autograd.Function: a table { forward =, backward =, name = } is expected, got %s",
      signature.describe(definition))
  end
  local self = read_function:table(definition)
  if #self.name == 0 then fail "autograd.Function: 'name' must not be empty" end
  if self.generate_vmap_rule and self.vmap then
    fail "autograd.Function: either 'vmap' or 'generate_vmap_rule' is expected, got both"
  end
  if self.generate_vmap_rule and not self.setup_context then
    fail "autograd.Function: 'generate_vmap_rule' needs the form with 'setup_context'"
  end
  setmetatable(self, Function)
  function self.apply(...) return self(...) end
  self.no_backward = self.backward == nil
  self.backward = self.backward or function()
    fail("%s: it has no backward", self.name)
  end
  return self
end

-- What once_differentiable puts behind gradients that cannot be differentiated.
local Refused = functions.Function {
  name = "OnceDifferentiable",
  forward = function(_, ...) return ... end,
  backward = function()
    fail "once_differentiable: this backward was marked as one that cannot be differentiated again"
  end,
}

local function is_differentiated_outside(x)
  local level = ml._vmap_enclosing(x)
  return level and ml._differentiated_outside(level, x)
end

-- A tensor whose derivative is refused, inside vmap by those outside.
local function refused(g)
  local level = ml._vmap_enclosing(g)
  if not level then return Refused(g:detach():requires_grad_(true)) end
  local value, dim = ml._vmap_part(level, g)
  return ml._vmap_batch(level, refused(value), dim)
end

local read_once = signature("autograd.once_differentiable(function backward)",
  "once_differentiable")

--- Marks a `backward` that is not made of differentiable ops: it runs without recording, and
--- differentiating its result is an error instead of a wrong gradient.
--- > backward = ml.autograd.once_differentiable(function(ctx, g) return g * 2 end)
--- > forward = function(ctx, x) return x * 2 end
--- > Double = ml.autograd.Function { forward = forward, backward = backward }
--- > x = ml.ones(2, { requires_grad = true })
--- > ml.grad(Double(x):sum(), x)
---   {2., 2.}
---   Tensor (2,) float32
---@param backward fun(ctx: moonlet.FunctionContext, ...): ... the backward of an
---   `autograd.Function`
---@return fun(ctx: moonlet.FunctionContext, ...): ...
function functions.once_differentiable(...)
  local backward = read_once(...)
  return function(ctx, ...)
    local results = table.pack(without_recording(backward, ctx, ...))
    local differentiated = false
    for i = 1, select("#", ...) do
      local g = select(i, ...)
      differentiated = differentiated
        or (ml.is_tensor(g) and (g.requires_grad or is_differentiated_outside(g)))
    end
    if not (differentiated and ml.is_grad_enabled()) then
      return table.unpack(results, 1, results.n)
    end
    for i = 1, results.n do
      local g = results[i]
      if ml.is_tensor(g) then results[i] = refused(g) end
    end
    return table.unpack(results, 1, results.n)
  end
end

return functions
