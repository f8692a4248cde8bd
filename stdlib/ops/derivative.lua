-- stdlib/ops/derivative.lua: the body of an op whose definition says its derivative, or how vmap
-- calls it: a call is one of an autograd.Function where a gradient, a tangent or a batch is asked
-- for, and of the forward alone elsewhere.

local functions = require "moonlet.autograd.function"
local ml = require "moonlet"
local options = require "moonlet.options"
local run_rule = require "moonlet.autograd.vmap_rule"
local fail = options.fail

local load = load
local pack, unpack = table.pack, table.unpack

local derivative = {}

local function is_list(argument)
  return argument.type == "Tensor[]" or argument.type == "Tensor?[]"
end

-- Lists of tensors as one argument each, with how many there are.
local function spread(op, ...)
  local out, counts, n = {}, {}, 0
  for i, argument in ipairs(op.arguments) do
    local value = select(i, ...)
    if is_list(argument) then
      counts[i] = #value
      table.move(value, 1, #value, n + 1, out)
      n = n + #value
    else
      n = n + 1
      out[n] = value
    end
  end
  return counts, out, n
end

-- The other way. `none` stands in lists for what is nil.
local function gather(op, counts, values, none)
  local out, at = {}, 1
  for i in ipairs(op.arguments) do
    if counts[i] then
      local list = {}
      for k = 1, counts[i] do
        list[k] = values[at + k - 1]
        if list[k] == nil then list[k] = none end
      end
      out[i], at = list, at + counts[i]
    else
      out[i], at = values[at], at + 1
    end
  end
  return out
end

-- Expressions of `grad` --------------------------------------------------------------------------

-- The names that an expression reads, but for fields and methods.
local function names_in(text)
  local names = {}
  local code = text:gsub('"[^"]*"', '""')
  for before, name in code:gmatch "([.:]?)%f[%w_.]([%a_][%w_]*)" do
    if before == "" then names[name] = true end
  end
  return names
end

local OPERATORS = { ["and"] = true, ["or"] = true, ["not"] = true, ["nil"] = true, ["true"] = true,
  ["false"] = true }

-- The names of the results in expressions: of one without a name "y", or "result" beside an
-- argument of that name.
local function result_names(op)
  local names, plain = {}, "y"
  for _, argument in ipairs(op.arguments) do
    if argument.name == "y" then plain = "result" end
  end
  for i, result in ipairs(op.results) do
    names[i] = result.name or (i == 1 and plain or plain .. i)
  end
  return names
end

-- What an expression may name beside ops, by name.
local function scope_of(op)
  local scope = { g = true }
  for _, argument in ipairs(op.arguments) do scope[argument.name] = true end
  for _, name in ipairs(result_names(op)) do scope[name], scope["g_" .. name] = true, true end
  return scope
end

local function compile_rule(op, name, text)
  local scope = scope_of(op)
  for each in pairs(names_in(text)) do
    if not scope[each] and not OPERATORS[each] and not (rawget(ml, each) or ml._is_op_name(each)) then
      fail("ops.define: %s: the gradient of '%s' names '%s', which is no argument, no result, "
        .. "no gradient and no op", op.name, name, each)
    end
  end
  local chunk, message = load("return function(_ENV) return " .. text .. "\nend",
    ("=gradient of %s"):format(name), "t", {})
  if not chunk then
    fail("ops.define: %s: the gradient of '%s' is no expression: %s", op.name, name, message)
  end
  return chunk()
end

local in_scope = { __index = ml }

-- The rules by the position of their argument, and which names they read.
local function read_rules(op, given)
  local rules, read, found = {}, {}, {}
  for i, argument in ipairs(op.arguments) do
    local rule = given[argument.name]
    found[argument.name] = true
    if type(rule) == "string" then
      for name in pairs(names_in(rule)) do read[name] = true end
      local run = compile_rule(op, argument.name, rule)
      rules[i] = function(values) return run(setmetatable(values, in_scope)) end
    elseif type(rule) == "function" then
      for name in pairs(scope_of(op)) do read[name] = true end
      rules[i] = function(values) return rule(values.g, values) end
    elseif rule ~= nil then
      fail("ops.define: %s: the gradient of '%s' must be an expression or a function, got %s",
        op.name, argument.name, type(rule))
    end
  end
  for name in pairs(given) do
    if not found[name] then
      local names = {}
      for each in pairs(found) do names[#names + 1] = each end
      fail("ops.define: %s: 'grad' names '%s', which is no argument%s", op.name, tostring(name),
        options.did_you_mean(name, names))
    end
  end
  return rules, read
end

-- The context of a call keeps the tensors that are read, in order, and the other arguments.
local function keep(op, read, for_tangents, counts, ctx, inputs, outputs)
  local tensors, n, plain = {}, 0, {}
  local arguments = gather(op, counts, inputs, false)
  local function add(value)
    n = n + 1
    tensors[n] = ml.is_tensor(value) and value or nil
  end
  for i, argument in ipairs(op.arguments) do
    local value = arguments[i]
    if read and not read[argument.name] then value = nil end
    if counts[i] then
      for k = 1, counts[i] do add(value and value[k]) end
    else
      add(value)
      if not ml.is_tensor(value) then plain[argument.name] = value end
    end
  end
  for i, name in ipairs(result_names(op)) do add((not read or read[name]) and outputs[i] or nil) end
  ctx:save_for_backward(unpack(tensors, 1, n))
  if for_tangents then ctx:save_for_forward(unpack(tensors, 1, n)) end
  if next(plain) ~= nil then ctx.arguments = plain end
end

local function values_of(op, counts, ctx, grads)
  local saved, values = ctx.saved_tensors, {}
  local arguments = gather(op, counts, saved, false)
  local plain = ctx.arguments or {}
  local at = 0
  for i, argument in ipairs(op.arguments) do
    at = at + (counts[i] or 1)
    values[argument.name] = arguments[i]
    if values[argument.name] == nil then values[argument.name] = plain[argument.name] end
  end
  for i, name in ipairs(result_names(op)) do
    values[name], values["g_" .. name] = saved[at + i], grads[i]
  end
  values.g = grads[1]
  return values
end

local function backward_by_rules(op, rules, counts)
  return function(ctx, ...)
    local grads, out = pack(...), {}
    local values = values_of(op, counts, ctx, grads)
    local at = 1
    for i, argument in ipairs(op.arguments) do
      local count, wanted = counts[i] or 1, false
      for k = at, at + count - 1 do wanted = wanted or ctx.needs_input_grad[k] end
      local g = nil
      if rules[i] and wanted then g = rules[i](values) end
      if counts[i] and g ~= nil then
        if type(g) ~= "table" or #g > count then
          fail("%s: the gradient of '%s' must be a table of %d tensors, got %s", op.name,
            argument.name, count, type(g) == "table" and #g or type(g))
        end
        for k = 1, count do out[at + k - 1] = g[k] or nil end
      elseif g ~= nil then
        if not ml.is_tensor(g) then
          fail("%s: the gradient of '%s' must be a tensor, got %s", op.name, argument.name, type(g))
        end
        out[at] = g
      end
      at = at + count
    end
    return unpack(out, 1, at - 1)
  end
end

-- A backward that the script has written gives a table for a list.
local function spread_gradients(op, counts, backward)
  if next(counts) == nil then return backward end
  return function(ctx, ...)
    local found, out, at = pack(backward(ctx, ...)), {}, 1
    for i in ipairs(op.arguments) do
      if counts[i] then
        for k = 1, counts[i] do out[at + k - 1] = found[i] and found[i][k] or nil end
      else
        out[at] = found[i]
      end
      at = at + (counts[i] or 1)
    end
    return unpack(out, 1, at - 1)
  end
end

-- The function of a call --------------------------------------------------------------------------

-- The samples one by one, for what is not made of ops.
local function looped(op)
  return function(info, in_dims, ...)
    local arguments, results = pack(...), {}
    for sample = 1, info.batch_size do
      local own = {}
      for i = 1, arguments.n do
        local dim = in_dims[i]
        own[i] = dim and arguments[i]:select(dim, sample) or arguments[i]
      end
      for k, y in ipairs { op.forward(unpack(gather(op, op.counts, own), 1, #op.arguments)) } do
        results[k] = results[k] or {}
        results[k][sample] = y
      end
    end
    local dims = {}
    for k, list in ipairs(results) do results[k], dims[k] = ml.stack(list, 1), 1 end
    return results, dims
  end
end

local function camel(name)
  return (("_" .. name):gsub("_(%w)", string.upper):gsub("_", ""))
end

-- The autograd.Function for lists of these lengths.
local function new_function(op, given, rules, read, counts)
  local count = #op.arguments
  local definition = { name = camel(op.short) }
  function definition.forward(...)
    return op.forward(unpack(gather(op, counts, { ... }), 1, count))
  end
  function definition.setup_context(ctx, inputs, outputs)
    if not given.setup_context then
      return keep(op, read, given.jvp ~= nil, counts, ctx, inputs, outputs)
    end
    local arguments = gather(op, counts, inputs)
    arguments.n = count
    return given.setup_context(ctx, arguments, outputs)
  end
  if rules then
    definition.backward = backward_by_rules(op, rules, counts)
  elseif given.backward then
    definition.backward = spread_gradients(op, counts, given.backward)
  end
  definition.jvp = given.jvp
  local own = setmetatable({ counts = counts }, { __index = op })
  definition.vmap = given.vmap or (op.opaque and looped(own)) or nil
  return functions.Function(definition)
end

local function is_recorded(values, n)
  if not ml.is_grad_enabled() then return false end
  for i = 1, n do
    local x = values[i]
    if ml.is_tensor(x) and x.requires_grad then return true end
  end
  return false
end

-- The body of a composite with a rule for vmap alone: the rule where no sample is differentiated.
local function with_rule(op, rule)
  local self = { name = op.name, vmap = rule }
  return function(...)
    local level, size, randomness, differs = ml._vmap_enclosing(...)
    if not level or not differs or is_recorded({ ... }, select("#", ...))
        or ml._forward_tangents(...) then
      return op.forward(...)
    end
    local results = run_rule(self, level, size, randomness, ...)
    return unpack(results, 1, results.n)
  end
end

local function check_fields(op, given)
  if given.backward and given.grad then
    fail("ops.define: %s: either 'backward' or 'grad' is expected, got both", op.name)
  end
  if given.setup_context and not (given.backward or given.jvp) then
    fail("ops.define: %s: 'setup_context' is for a 'backward' or a 'jvp', and there is none",
      op.name)
  end
  if given.jvp and not (given.backward or given.grad) and not given.setup_context then
    fail("ops.define: %s: 'jvp' needs 'setup_context', 'backward' or 'grad' beside it", op.name)
  end
  for _, result in ipairs(op.results) do
    if result.type:find "%[" then
      fail("ops.define: %s: an op with a derivative or a rule of its own gives its tensors one by "
        .. "one, as '(Tensor a, Tensor b)', got '-> %s'", op.name, result.type)
    end
  end
  if given.vmap and not given.backward and not given.grad then
    for _, argument in ipairs(op.arguments) do
      if is_list(argument) and not op.opaque then
        fail("ops.define: %s: a rule for vmap takes no list of tensors without a 'backward', "
          .. "got '%s %s'", op.name, argument.type, argument.name)
      end
    end
  end
end

--- The function that runs an op, `op.forward` with what the definition says of its derivative.
---@param op table of moonlet.ops.schema, with `forward` and `opaque`
---@param given table<string, any> the definition
---@return fun(...): ...
function derivative.body(op, given)
  local own = given.backward or given.grad or given.jvp or op.opaque
  if given.setup_context and not own then check_fields(op, given) end
  if not own and not given.vmap then return op.forward end
  check_fields(op, given)
  if not own then return with_rule(op, given.vmap) end
  local rules, read
  if given.grad then rules, read = read_rules(op, given.grad) end
  if given.jvp then read = nil end
  local made = {}
  return function(...)
    local counts, values, n = spread(op, ...)
    if not is_recorded(values, n) and not ml._forward_tangents(unpack(values, 1, n))
        and not ml._vmap_enclosing(unpack(values, 1, n)) then
      return op.forward(...)
    end
    local key = {}
    for i = 1, #op.arguments do key[i] = counts[i] or "-" end
    key = table.concat(key, " ")
    made[key] = made[key] or new_function(op, given, rules, read, counts)
    return made[key](unpack(values, 1, n))
  end
end

return derivative
