-- tests/fuzz/composition_cases.lua: what compositions of derivatives are made of: every differentiable row
-- with each of its samples, and every layer with its inputs and parameters, as functions of a list of
-- float64 tensors that give a list of results.

local ml = require "moonlet"
local samples = require "op_samples"
local layers = require "module_cases"

local cases = {}

local function is_complex(x) return x:is_complex() end
local function is_differentiable(x) return x:is_floating_point() or x:is_complex() end

-- Complex tensors as views of their parts, since leaves are real.
local function as_real(x) return is_complex(x) and ml.view_as_real(x) or x end

-- Rows --------------------------------------------------------------------------------------------

local function set_of(list)
  local out = {}
  for _, name in ipairs(list) do out[name] = true end
  return out
end

-- Whether an argument of that name has a gradient.
local function has_gradient(case, kind, name)
  if kind == "Mask" or set_of(case.constant)[name] then return false end
  if set_of(case.grads)[name] then return true end
  return case.kind == "composite" and not case.writes[name]
end

local function doubled(x)
  if is_complex(x) then return x:to "complex128" end
  return x:is_floating_point() and x:double() or x
end

-- Matrices of which a triangle is read stay symmetric where they are moved.
local function symmetric(case)
  return tostring(case.check.grad):find "symmetric"
end

-- The sample's arguments as a record { xs, call }: the tensors with a gradient, and the results that
-- `call(form, tensors)` computes of others in their places.
local function row_arguments(case, i, salt)
  local xs, positions, count = {}, {}, 0
  local args = samples.map(case, samples.arguments(case, i, salt), function(t, kind, name)
    count = count + 1
    local x = doubled(t:detach()):clone { memory_format = "contiguous_format" }
    if is_differentiable(x) and has_gradient(case, kind, name or kind) then
      xs[#xs + 1] = as_real(x):clone()
      positions[count] = { #xs, is_complex(x) }
    end
    return x
  end)
  local function call(form, given)
    local next_position = 0
    local own = samples.map(case, args, function(t, _, name)
      next_position = next_position + 1
      local position = positions[next_position]
      if not position then return case.writes[name] and t:clone() or t end
      local x = given[position[1]]
      if position[2] then x = ml.view_as_complex(x) end
      return symmetric(case) and (x + x:mH()) / 2 or x
    end)
    if form == "slice" then
      -- The first argument is half of a tensor that is changed in place.
      local whole = ml.stack({ own[1], own[1] * 2 }, 1)
      own[1] = whole:select(1, 1)
      samples.call(case, own, "_")
      return { whole }
    end
    if form == "_" then own[1] = own[1]:clone() end
    return samples.results(case, own, form)
  end
  return { xs = xs, call = call }
end

local function row_case(case, i)
  return {
    name = case.name, family = case.family, check_grad = not symmetric(case) and case.check.grad,
    label = ("%s(%s)"):format(case.name, case.samples[i]), random = case.random,
    inplace = case.inplace and not case.restrides and case.args[1] == "Tensor",
    make = function(salt) return row_arguments(case, i, salt) end,
  }
end

-- Layers ------------------------------------------------------------------------------------------

-- The arguments with the tensors of `given` in the place of those of `leaves`.
local function replaced(arguments, leaves, given)
  local out = {}
  for i, value in ipairs(arguments) do
    out[i] = type(value) == "table" and getmetatable(value) == nil and replaced(value, leaves, given) or value
    for k, leaf in ipairs(leaves) do
      if rawequal(value, leaf) then out[i] = given[k] end
    end
  end
  for name, value in pairs(arguments) do
    if out[name] == nil then out[name] = value end
  end
  return out
end

-- The layer's inputs and parameters as a record { xs, call }.
local function layer_arguments(case)
  local net = layers.build(case)
  local arguments, leaves = layers.arguments(case)
  local xs, names, params, state = {}, {}, {}, {}
  for i, x in ipairs(leaves) do xs[i] = x:detach():clone() end
  for name, p in net:named_parameters() do names[#names + 1], params[name] = name, p end
  table.sort(names)
  for _, name in ipairs(names) do xs[#xs + 1] = params[name]:detach():clone() end
  for name, t in net:named_buffers() do state[name] = t:clone() end
  local function call(_, given)
    local values = {}
    for name, t in pairs(state) do values[name] = t:clone() end
    for k, name in ipairs(names) do values[name] = given[#leaves + k] end
    ml.manual_seed(1234)
    local own = replaced(arguments, leaves, given)
    return layers.flat({}, ml.func.functional_call(net, values, own))
  end
  return { xs = xs, call = call }
end

local function layer_case(case, number)
  return {
    name = "nn." .. case.class, label = ("nn.%s, case %d"):format(case.class, number),
    random = case.class:find "Dropout" or case.class == "RReLU",
    limits_weight = case.class:find "Embedding" and case.options.max_norm,
    make = function() return layer_arguments(case) end,
  }
end

-------------------------------------------------------------------------------------------------

--- All cases, in the order of the rows, then of the layers: { name, label, random, inplace, make }.
function cases.all(rows)
  local out = {}
  for _, case in ipairs(rows) do
    local differentiable = #case.grads > 0 or case.kind == "composite"
    if differentiable and case.plain and case.callable and case.results ~= 0 then
      for i in ipairs(case.samples) do out[#out + 1] = row_case(case, i) end
    end
  end
  for number, case in ipairs(layers.read()) do out[#out + 1] = layer_case(case, number) end
  return out
end

--- The real parts and imaginary parts of the results that have a gradient.
function cases.results(found)
  local out = {}
  for _, y in ipairs(found) do
    local wanted = ml.is_tensor(y) and (y.dtype == "float64" or y.dtype == "complex128")
    out[#out + 1] = wanted and as_real(y) or false
  end
  return out
end

return cases
