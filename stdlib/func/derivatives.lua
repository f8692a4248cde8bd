-- stdlib/func/derivatives.lua: functions made of functions: gradients, products with Jacobians,
-- Jacobians and Hessians whole. They may be inside one another and inside vmap.

local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local tree = require "moonlet.func.tree"
local map_units = require("moonlet.func.vmap").units
local fail = options.fail
local is_callable = options.is_callable

local derivatives = {}

-- The positions of the arguments to differentiate by, and whether it was one.
local function chosen_positions(where, argnums, count)
  local one = math.type(argnums) == "integer"
  local list = one and { argnums } or argnums
  if type(list) ~= "table" or #list == 0 then
    fail("%s: argnums is the position of an argument or a table of them", where)
  end
  local out = {}
  for i, at in ipairs(list) do
    local position = math.type(at) == "integer" and (at < 0 and at + count + 1 or at) or 0
    if position < 1 or position > count then
      fail("%s: argnums names argument %s of %d", where, tostring(at), count)
    end
    out[i] = position
  end
  return out, one
end

-- The arguments with tensors of the transform's own in those positions; `inputs` are all of these,
-- and `rebuild(tensors)` makes what belongs to them: one tree for one position, else an array of
-- trees.
local function take_inputs(where, arguments, argnums)
  local positions, one = chosen_positions(where, argnums, arguments.n)
  local own, inputs, trees = { n = arguments.n }, {}, {}
  for i = 1, arguments.n do own[i] = arguments[i] end
  for k, position in ipairs(positions) do
    local tensors, again = tree.differentiable(where, arguments[position])
    local mine = {}
    for i, x in ipairs(tensors) do
      mine[i] = ml._differentiation_input(x)
      inputs[#inputs + 1] = mine[i]
    end
    own[position] = again(mine)
    trees[k] = { again = again, count = #mine }
  end
  local function rebuild(tensors)
    local out, next = {}, 1
    for k, each in ipairs(trees) do
      out[k] = each.again(table.move(tensors, next, next + each.count - 1, 1, {}))
      next = next + each.count
    end
    return one and out[1] or out
  end
  return own, inputs, rebuild
end

-- The gradients by the inputs, zeros where the outputs do not depend on one.
local function gradients(outputs, inputs, starts, keep)
  local from, with = {}, {}
  for i, y in ipairs(outputs) do
    if y.requires_grad then
      from[#from + 1], with[#with + 1] = y, starts and starts[i] or ml._filled_as(y, 1)
    end
  end
  local graph = ml._needs_graph(from, inputs)
  for _, start in ipairs(with) do graph = graph or start.requires_grad end
  local found = #from == 0 and {} or { ml.grad(from, inputs, {
    grad_outputs = with, retain_graph = keep or graph, create_graph = graph,
    allow_unused = true }) }
  for i, x in ipairs(inputs) do
    if not found[i] then found[i] = ml._filled_as(x, 0) end
  end
  return found
end

-- Without the history that the function of the transform's own inputs has.
local function outside(y, inputs)
  if ml._needs_graph({ y }, inputs) then return y end
  return ml._stripped(y)
end

local function outside_all(value, inputs)
  return tree.map(function(leaf)
    return ml.is_tensor(leaf) and outside(leaf, inputs) or leaf
  end, value)
end

local function run_recorded(f, arguments)
  local _ <close> = ml.enable_grad()
  return table.pack(f(table.unpack(arguments, 1, arguments.n)))
end

local function scalar_loss(where, results)
  local y = results[1]
  if not ml.is_tensor(y) then
    fail("%s: the function must return a tensor first, got %s", where, type(y))
  end
  if y:dim() ~= 0 then
    fail("%s: the function must return a tensor of one element and no dimensions, got shape %s",
      where, tostring(y.shape))
  end
  return y
end

local function value_and_gradient(where, f, argnums, has_aux, arguments)
  local own, inputs, rebuild = take_inputs(where, arguments, argnums)
  local results = run_recorded(f, own)
  if not has_aux and results.n ~= 1 then
    fail("%s: the function returned %d values; with has_aux = true it may return a second one",
      where, results.n)
  end
  local loss = scalar_loss(where, results)
  local found = rebuild(gradients({ loss }, inputs))
  return outside(loss, inputs), found, outside_all(results[2], inputs)
end

local read_grad = signature "func.grad(function func, any argnums=1, bool has_aux=false)"

--- Returns the function that computes the gradient of `func`, which returns one element without
--- dimensions. Arguments may hold tensors in tables. With `has_aux` the auxiliary value comes
--- behind the gradient.
--- > cube = ml.func.grad(function(x) return x ^ 3 end)
--- > cube(ml.tensor(2.0))
---   12.  Tensor () float32
---@param func function gives one element, and with `has_aux` a second value
---@param argnums? any the position of the argument, from 1, or a table of positions, for an
---   array of gradients
---@param has_aux? boolean whether `func` returns a second value, which is passed on
---@return function
---@formula g = df / dx
function derivatives.grad(...)
  local f, argnums, has_aux = read_grad(...)
  return function(...)
    local _, found, aux = value_and_gradient("func.grad", f, argnums, has_aux, table.pack(...))
    if has_aux then return found, aux end
    return found
  end
end

local read_value = signature
  "func.grad_and_value(function func, any argnums=1, bool has_aux=false)"

--- Returns the function that computes the gradient of `func` and its value. With `has_aux` the
--- second result is an array of the value and the auxiliary value.
--- > both = ml.func.grad_and_value(function(x) return x ^ 3 end)
--- > both(ml.tensor(2.0))
---   12.  Tensor () float32	8.  Tensor () float32
---@param func function gives one element, and with `has_aux` a second value
---@param argnums? any the position of the argument, from 1, or a table of positions, for an
---   array of gradients
---@param has_aux? boolean whether `func` returns a second value, which is passed on
---@return function
function derivatives.grad_and_value(...)
  local f, argnums, has_aux = read_value(...)
  return function(...)
    local value, found, aux = value_and_gradient("func.grad_and_value", f, argnums, has_aux,
      table.pack(...))
    if has_aux then return found, { value, aux } end
    return found, value
  end
end

-- All arguments are differentiated by.
local function all_positions(arguments)
  local out = {}
  for i = 1, arguments.n do out[i] = i end
  return out
end

-- The results of f that are differentiated, as one tree, and the second result where there is one.
local function primal_results(where, f, own, has_aux)
  local results = run_recorded(f, own)
  if not has_aux then return tree.pack(table.unpack(results, 1, results.n)) end
  if results.n ~= 2 then
    fail("%s: with has_aux = true the function returns two values, got %d", where, results.n)
  end
  return results[1], results[2]
end

local function output_tensors(where, value)
  local tensors, again = tree.flatten(value)
  if #tensors == 0 then fail("%s: the function returned no tensor", where) end
  return tensors, again
end

-- The tensors of `given`, which must look like `like`.
local function matching(where, what, given, like)
  local tensors = tree.flatten(given)
  if #tensors ~= #like then
    fail("%s: %s holds %d tensors, %d are expected", where, what, #tensors, #like)
  end
  for i, x in ipairs(tensors) do
    if x.shape ~= like[i].shape then
      fail("%s: tensor %d of %s has shape %s, %s is expected", where, i, what, tostring(x.shape),
        tostring(like[i].shape))
    end
  end
  return tensors
end

local has_aux_of = signature "func.vjp.options(bool has_aux=false)"

--- The results of `func(...)` and a function that computes vector-Jacobian products: given what
--- looks like the results, it gives a gradient for each argument. Several results of `func` come as
--- an array. `{ has_aux = true }` before the arguments says that `func` returns an auxiliary value,
--- which comes third.
--- > y, back = ml.func.vjp(ml.sin, ml.zeros(2))
--- > back(ml.ones(2))
---   {1., 1.}
---   Tensor (2,) float32
---@param func function the function
---@param ... any the arguments, after options in a table where there are any
---@return any results
---@return function vjp
---@formula vjp = v^T J, J_ij = dy_i / dx_j
function derivatives.vjp(func, ...)
  local arguments, has_aux = table.pack(...), false
  local first = arguments[1]
  if type(first) == "table" and first.has_aux ~= nil then
    has_aux = has_aux_of(first)
    arguments = table.pack(select(2, ...))
  end
  if not is_callable(func) then
    fail("func.vjp: a function is expected, got %s", type(func))
  end
  local own, inputs, rebuild = take_inputs("func.vjp", arguments, all_positions(arguments))
  local results, aux = primal_results("func.vjp", func, own, has_aux)
  local outputs = output_tensors("func.vjp", results)
  local function back(...)
    local starts = matching("vjp", "the vector", tree.pack(...), outputs)
    return table.unpack(rebuild(gradients(outputs, inputs, starts, true)))
  end
  return outside_all(results, inputs), back, outside_all(aux, inputs)
end

local read_jvp = signature
  "func.jvp(function func, any primals, any tangents, bool strict=false, bool has_aux=false)"

-- f with tangents in its arguments: the results and their tangents, as trees, and aux. `keep` says
-- that nobody else has the tangents.
local function push_forward(where, f, primals, tangents, has_aux, strict, keep)
  local inputs, again = tree.differentiable(where, primals)
  local along = matching(where, "the tangents", tangents, inputs)
  local _ <close> = ml._forward_level()
  local duals = {}
  for i, x in ipairs(inputs) do duals[i] = ml._make_dual(x, along[i], keep) end
  local arguments = again(duals)
  local results = table.pack(f(table.unpack(arguments)))
  local aux
  if has_aux then results.n, aux = 1, results[2] end
  local value = tree.pack(table.unpack(results, 1, results.n))
  local outputs, rebuild = output_tensors(where, value)
  local values, moved = {}, {}
  for i, y in ipairs(outputs) do
    local tangent
    values[i], tangent = ml._unpack_dual(y)
    if strict and not tangent then
      fail("%s: result %d does not depend on the inputs", where, i)
    end
    moved[i] = tangent or ml._filled_as(values[i], 0)
  end
  aux = tree.map(function(leaf)
    return ml.is_tensor(leaf) and (ml._unpack_dual(leaf)) or leaf
  end, aux)
  return rebuild(values), rebuild(moved), aux
end

--- The results of `func` and its Jacobian-vector product, the directional derivative, computed by
--- forward mode. With `has_aux` the auxiliary value comes third.
--- > y, tangent = ml.func.jvp(ml.sin, { ml.zeros(2) }, { ml.ones(2) })
--- > tangent
---   {1., 1.}
---   Tensor (2,) float32
---@param func function the function
---@param primals table array of the arguments
---@param tangents table array of the tangents, in the shapes of the arguments
---@param strict? boolean whether results that do not depend on the arguments are an error
---@param has_aux? boolean whether `func` returns a second value, which is passed on
---@return any results
---@return any tangents
---@formula jvp = J v, J_ij = dy_i / dx_j
function derivatives.jvp(...)
  local f, primals, tangents, strict, has_aux = read_jvp(...)
  local function as_list(what, value)
    if ml.is_tensor(value) then return { value } end
    if not tree.is_branch(value) then
      fail("func.jvp: %s is a table of tensors, got %s", what, type(value))
    end
    return value
  end
  local value, moved, aux = push_forward("func.jvp", f, as_list("primals", primals),
    as_list("tangents", tangents), has_aux, strict)
  if has_aux then return value, moved, aux end
  return value, moved
end

-- `count` of dimension `dim` from `first`: x itself where that is all.
local function elements(x, dim, first, count)
  return x:size(dim) == count and x or x:narrow(dim, first, count)
end

-- The unit vectors of all tensors together: for each tensor (n, shape...) with n the number of all
-- elements.
local function unit_vectors(tensors)
  local total, out, first = 0, {}, 1
  for _, x in ipairs(tensors) do total = total + x:numel() end
  for i, x in ipairs(tensors) do
    local count = x:numel()
    local rows = ml.zeros(total, count, { dtype = x.dtype, device = x.device })
    if count > 0 then elements(rows, 1, first, count):fill_diagonal_(1) end
    if x:dim() ~= 1 then
      local shape = { total }
      for k = 1, x:dim() do shape[k + 1] = x:size(k) end
      rows = rows:view(shape)
    end
    out[i] = rows
    first = first + count
  end
  return out
end

-- Gives the memory of tensors that nobody else can name back before the collector looks.
local function free_all(tensors)
  for _, x in ipairs(tensors) do x:free() end
end

-- x as a tensor of the shape of a and that of b behind it.
local function shaped(x, a, b)
  if a:dim() == 0 and x.shape == b.shape then return x end
  local out = {}
  for k = 1, a:dim() do out[#out + 1] = a:size(k) end
  for k = 1, b:dim() do out[#out + 1] = b:size(k) end
  local same = x:dim() == #out
  for k = 1, same and #out or 0 do same = same and x:size(k) == out[k] end
  return same and x or x:reshape(out)
end

-- For each input the gradients of all elements of the outputs, in the first dimension; of one
-- element without it.
local function rows_of_jacobian(outputs, inputs, chunk)
  if #outputs == 1 and outputs[1]:numel() == 1 then
    return gradients(outputs, inputs, { ml.ones_like(outputs[1]:detach()) }, true)
  end
  return map_units(function(from) return gradients(outputs, inputs, from, true) end,
    unit_vectors(outputs), chunk)
end

-- The part of those that belongs to y, whose elements begin at `first`.
local function block_of(found, first, y, x)
  if found:numel() ~= y:numel() * x:numel() then found = found:narrow(1, first, y:numel()) end
  return shaped(found, y, x)
end

local read_jacrev = signature
  "func.jacrev(function func, any argnums=1, bool has_aux=false, int>=1? chunk_size=nil)"

--- Returns the function that computes the Jacobian of `func` by reverse mode, all rows in one
--- batch: for functions of many numbers that give few.
--- > ml.func.jacrev(ml.sin)(ml.zeros(2))
---   {{1., 0.},
---    {0., 1.}}
---   Tensor (2, 2) float32
---@param func function the function
---@param argnums? any the position of the argument, from 1, or a table of positions, for an
---   array of Jacobians
---@param has_aux? boolean whether `func` returns a second value, which is passed on
---@param chunk_size? integer how many rows are computed at a time; all unless given
---@return function
---@shape argument (n), result (m) -> (m, n)
---@formula J_ij = dy_i / dx_j
function derivatives.jacrev(...)
  local f, argnums, has_aux, chunk = read_jacrev(...)
  return function(...)
    local own, inputs, rebuild = take_inputs("func.jacrev", table.pack(...), argnums)
    local results, aux = primal_results("func.jacrev", f, own, has_aux)
    local outputs, again = output_tensors("func.jacrev", results)
    local found = rows_of_jacobian(outputs, inputs, chunk)
    local first, per_output = 1, {}
    for k, y in ipairs(outputs) do
      local blocks = {}
      for i, x in ipairs(inputs) do
        blocks[i] = block_of(found[i], first, y, x)
      end
      per_output[k] = rebuild(blocks)
      first = first + y:numel()
    end
    if has_aux then return again(per_output), outside_all(aux, inputs) end
    return again(per_output)
  end
end

local read_jacfwd = signature([[func.jacfwd(function func, any argnums=1, bool has_aux=false,
    int>=1? chunk_size=nil, string randomness="error")]])

--- Returns the function that computes the Jacobian of `func` by forward mode, all columns in one
--- batch: for functions of few numbers that give many.
--- > ml.func.jacfwd(ml.sin)(ml.zeros(2))
---   {{1., 0.},
---    {0., 1.}}
---   Tensor (2, 2) float32
---@param func function the function
---@param argnums? any the position of the argument, from 1, or a table of positions, for an
---   array of Jacobians
---@param has_aux? boolean whether `func` returns a second value, which is passed on
---@param chunk_size? integer how many columns are computed at a time; all unless given
---@param randomness? string what random ops in `func` do, as in `func.vmap`
---@return function
---@shape argument (n), result (m) -> (m, n)
---@formula J_ij = dy_i / dx_j
function derivatives.jacfwd(...)
  local f, argnums, has_aux, chunk, randomness = read_jacfwd(...)
  return function(...)
    local arguments = table.pack(...)
    local positions, one = chosen_positions("func.jacfwd", argnums, arguments.n)
    local chosen = {}
    for k, position in ipairs(positions) do chosen[k] = arguments[position] end
    local inputs, again = tree.differentiable("func.jacfwd", chosen)
    local outputs, rebuild, aux
    local function along(tangents)
      local function inner(...)
        local all = table.pack(table.unpack(arguments, 1, arguments.n))
        for k, position in ipairs(positions) do all[position] = (select(k, ...)) end
        return f(table.unpack(all, 1, all.n))
      end
      local value, moved, second = push_forward("func.jacfwd", inner, chosen, again(tangents),
        has_aux, false, true)
      outputs, rebuild = output_tensors("func.jacfwd", value)
      aux = second
      free_all(tangents)
      return (tree.flatten(moved))
    end
    local units = unit_vectors(inputs)
    local found = map_units(along, units, chunk, randomness)
    free_all(units)
    local per_output = {}
    for k, y in ipairs(outputs) do
      local blocks, first = {}, 1
      for i, x in ipairs(inputs) do
        local part = elements(found[k], 1, first, x:numel()):movedim(1, -1)
        blocks[i] = shaped(part, y, x)
        first = first + x:numel()
      end
      local trees = again(blocks)
      per_output[k] = one and trees[1] or trees
    end
    if has_aux then return rebuild(per_output), aux end
    return rebuild(per_output)
  end
end

local read_hessian = signature "func.hessian(function func, any argnums=1)"

--- Returns the function that computes the Hessian of `func`, by forward mode over reverse mode.
--- > ml.func.hessian(function(x) return (x ^ 3):sum() end)(ml.ones(2))
---   {{6., 0.},
---    {0., 6.}}
---   Tensor (2, 2) float32
---@param func function gives one element
---@param argnums? any the position of the argument, from 1, or a table of positions, for an array
---@return function
---@shape argument (n) -> (n, n)
---@formula H_ij = d^2 y / (dx_i dx_j)
function derivatives.hessian(...)
  local f, argnums = read_hessian(...)
  return derivatives.jacfwd(derivatives.jacrev(f, { argnums = argnums }), { argnums = argnums })
end

--- The results of `func(...)` and a function of tangents that computes Jacobian-vector products
--- without running `func` again: for many directions at one point.
--- > y, along = ml.func.linearize(ml.sin, ml.zeros(2))
--- > along(ml.ones(2))
---   {1., 1.}
---   Tensor (2,) float32
---@param func function the function
---@param ... any the arguments
---@return any results
---@return function jvp
---@formula jvp = J v, J_ij = dy_i / dx_j
function derivatives.linearize(func, ...)
  local arguments = table.pack(...)
  local own, inputs = take_inputs("func.linearize", arguments, all_positions(arguments))
  local results = primal_results("func.linearize", func, own, false)
  local outputs, again = output_tensors("func.linearize", results)
  local starts, from, positions = {}, {}, {}
  for i, y in ipairs(outputs) do
    if y.requires_grad then
      starts[#starts + 1] = ml._filled_as(y, 0):requires_grad_()
      from[#from + 1], positions[#positions + 1] = y, i
    end
  end
  -- The gradients are linear in what they start from, by the Jacobian transposed.
  local by_inputs = #from == 0 and {} or { ml.grad(from, inputs, { grad_outputs = starts,
    create_graph = true, allow_unused = true }) }
  local function along(...)
    local tangents = matching("linearize", "the tangents", { ... }, inputs)
    local found, with, moved = {}, {}, {}
    for i in ipairs(inputs) do
      local g = by_inputs[i]
      if g and g.requires_grad then found[#found + 1], with[#with + 1] = g, tangents[i] end
    end
    local parts = #found == 0 and {} or { ml.grad(found, starts, { grad_outputs = with,
      retain_graph = true, allow_unused = true }) }
    for i, position in ipairs(positions) do moved[position] = parts[i] end
    for i, y in ipairs(outputs) do moved[i] = moved[i] or ml._filled_as(y, 0) end
    return again(moved)
  end
  return outside_all(results, inputs), along
end

return derivatives
