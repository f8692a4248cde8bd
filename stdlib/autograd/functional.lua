-- stdlib/autograd/functional.lua: ml.autograd.functional: Jacobians, Hessians and their products
-- with vectors.

local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local functional = {}

-- Arguments --------------------------------------------------------------------------------------

-- The tensors given as one or as an array, and whether it was an array.
local function as_array(where, what, given)
  if ml.is_tensor(given) then return { given }, false end
  local out = {}
  for i, x in ipairs(given) do
    if not ml.is_tensor(x) then
      fail("%s: '%s' must be a tensor or an array of tensors, number %d is a %s", where, what, i,
        type(x))
    end
    out[i] = x
  end
  for key in pairs(given) do
    if not out[key] then
      fail("%s: '%s' must be a tensor or an array of tensors, got one with a field '%s'", where,
        what, tostring(key))
    end
  end
  return out, true
end

local function differentiable(x) return x:is_floating_point() or x:is_complex() end

-- The inputs as tensors of the function's own that require grad: with `create_graph` on the graph
-- of those given.
local function own_inputs(where, given, create_graph)
  local inputs, many = as_array(where, "inputs", given)
  if #inputs == 0 then fail("%s: there are no inputs", where) end
  for i, x in ipairs(inputs) do
    if not differentiable(x) then
      fail("%s: input %d has dtype %s, expected a floating or complex one", where, i, x.dtype)
    end
    inputs[i] = create_graph and x.requires_grad and x:view_as(x)
      or x:detach():requires_grad_(true)
  end
  return inputs, many
end

-- What the function gives: one tensor, or an array where it gave an array or several results.
local function outputs_of(where, f, inputs)
  local found = table.pack(f(table.unpack(inputs)))
  local given = found.n == 1 and found[1] or found
  found.n = nil
  if not ml.is_tensor(given) and type(given) ~= "table" then
    fail("%s: the function gave a %s, expected a tensor or an array of tensors", where, type(given))
  end
  local outputs, many = as_array(where, "the results of the function", given)
  if #outputs == 0 then fail("%s: the function gave no tensor", where) end
  return outputs, many
end

local function single_output(where, f, inputs)
  local outputs, many = outputs_of(where, f, inputs)
  if many then fail("%s: the function must give a single tensor, got %d", where, #outputs) end
  if outputs[1]:numel() ~= 1 then
    fail("%s: the function must give a single element, got shape %s", where,
      tostring(outputs[1].shape))
  end
  return outputs
end

-- The vectors given for tensors, or 1 for one of a single element.
local function vectors_for(where, v, tensors, many, what)
  if v == nil then
    if many or tensors[1]:numel() ~= 1 then
      fail("%s: 'v' may only be left out where %s is a single tensor with a single element", where,
        what)
    end
    return { ml.ones_like(tensors[1]):detach() }
  end
  local vectors = as_array(where, "v", v)
  if #vectors ~= #tensors then
    fail("%s: 'v' has %d tensors, expected %d, as many as %s", where, #vectors, #tensors, what)
  end
  for i, x in ipairs(tensors) do
    if vectors[i].shape ~= x.shape then
      fail("%s: tensor %d of 'v' has shape %s, expected %s", where, i, tostring(vectors[i].shape),
        tostring(x.shape))
    end
  end
  return vectors
end

-- The graph -------------------------------------------------------------------------------------

-- The gradients of those outputs that have a graph; nothing where there is none.
local function gradients(outputs, inputs, seeds, create_graph)
  local from, with = {}, {}
  for i, y in ipairs(outputs) do
    if y and y.requires_grad then
      from[#from + 1], with[#with + 1] = y, seeds and seeds[i] or nil
    end
  end
  if #from == 0 then return {} end
  return { ml.grad(from, inputs, { grad_outputs = seeds and with or nil, retain_graph = true,
    create_graph = create_graph, allow_unused = true }) }
end

-- Results without a graph, unless it is wanted.
local function finished(tensors, many, create_graph)
  if not create_graph then
    for i, x in ipairs(tensors) do tensors[i] = x:detach() end
  end
  return many and tensors or tensors[1]
end

local function check_outputs(where, outputs)
  for i, y in ipairs(outputs) do
    if not y.requires_grad then
      fail("%s: output %d of the function does not require grad; with 'strict' it must be computed "
        .. "from the inputs", where, i)
    end
  end
end

-- Missing derivatives as zeros. With `strict` they are errors, and so are, with `create_graph`,
-- those without a graph; `what` says what they are of.
local function filled(where, found, like, given, what)
  local out = {}
  for i, x in ipairs(like) do
    local value = found[i]
    if given.strict and (not value or given.create_graph and not value.requires_grad) then
      fail("%s: %s is independent of %s, which 'strict'%s does not allow", where,
        (value and what.graph or what.value):format(i), what.of:format(i),
        value and " with 'create_graph'" or "")
    end
    out[i] = value or ml.zeros_like(x):detach()
  end
  return out
end

-- What the i-th derivative is of, and by what.
local OF_OUTPUT = { value = "the output of the function", graph = "the Jacobian", of = "input %d" }
local OF_INPUTS = { value = "output %d of the function", graph = "the Jacobian", of = "the inputs" }
local OF_GRADIENT = { value = "the gradient by input %d", graph = "the Hessian", of = "the inputs" }
local OF_HESSIAN = { value = "the gradient", graph = "the Hessian", of = "input %d" }

-- Products ---------------------------------------------------------------------------------------

-- What all of them take, and what products with vectors and matrices take besides.
local function declare(name, rest)
  return signature(("autograd.functional.%s(function func, Tensor|table inputs, %s)")
    :format(name, rest), name)
end
local PRODUCT = "Tensor|table? v=nil, bool create_graph=false, bool strict=false"
local MATRIX = "bool create_graph=false, bool strict=false, bool vectorize=false, "

local read_vjp = declare("vjp", PRODUCT)

--- The results of `func` and the vector-Jacobian product v^T J, as one reverse pass from `v` gives
--- it. An input that does not matter has zeros.
--- > outputs, vjp = ml.autograd.functional.vjp(ml.exp, ml.zeros(2), ml.tensor { 1.0, 3.0 })
--- > vjp
---   {1., 3.}
---   Tensor (2,) float32
---@param func fun(...): moonlet.Tensor gives a tensor, or several
---@param inputs moonlet.Tensor|moonlet.Tensor[] a tensor, or an array of the arguments
---@param v? moonlet.Tensor|moonlet.Tensor[] the vector, in the shapes of the results; 1 unless
---   given, for a single element
---@param create_graph? boolean whether the result can be differentiated again
---@param strict? boolean whether an output that does not depend on an input is an error
---@return moonlet.Tensor|moonlet.Tensor[] outputs
---@return moonlet.Tensor|moonlet.Tensor[] vjp
---@shape inputs (n), outputs (m), v (m) -> (n)
---@formula vjp = v^T J, J_ij = dy_i / dx_j
---@see autograd.functional.jvp
function functional.vjp(...)
  local given = read_vjp:table(...)
  local _ <close> = ml.enable_grad()
  local inputs, many = own_inputs("vjp", given.inputs, given.create_graph)
  local outputs, several = outputs_of("vjp", given.func, inputs)
  local v = vectors_for("vjp", given.v, outputs, several, "the result of the function")
  if given.strict then check_outputs("vjp", outputs) end
  local found = gradients(outputs, inputs, v, given.create_graph)
  local product = filled("vjp", found, inputs, given, OF_OUTPUT)
  return finished(outputs, several, given.create_graph), finished(product, many, given.create_graph)
end

-- Zeros that stand for the gradients of tensors, by which can be differentiated; false for those
-- that have no derivative.
local function dummies(tensors)
  local out, held = {}, {}
  for i, x in ipairs(tensors) do
    out[i] = differentiable(x) and ml.zeros_like(x):detach():requires_grad_(true) or false
    held[#held + 1] = out[i] or nil
  end
  return out, held
end

-- The product with a transposed linear map: `transposed` are the results of the map of `held`.
local function transposed_product(transposed, seeds, held, v, create_graph)
  local found, out, at = gradients(transposed, held, v, create_graph), {}, 0
  for i, seed in ipairs(seeds) do
    if seed then at = at + 1 end
    out[i] = seed and found[at] or nil
  end
  return out
end

local read_jvp = declare("jvp", PRODUCT)

--- The results of `func` and the Jacobian-vector product J v, the directional derivative, computed
--- by two reverse passes.
--- > outputs, jvp = ml.autograd.functional.jvp(ml.exp, ml.zeros(2), ml.tensor { 1.0, 3.0 })
--- > jvp
---   {1., 3.}
---   Tensor (2,) float32
---@param func fun(...): moonlet.Tensor gives a tensor, or several
---@param inputs moonlet.Tensor|moonlet.Tensor[] a tensor, or an array of the arguments
---@param v? moonlet.Tensor|moonlet.Tensor[] the direction, in the shapes of the inputs; 1
---   unless given, for a single element
---@param create_graph? boolean whether the result can be differentiated again
---@param strict? boolean whether an output that does not depend on an input is an error
---@return moonlet.Tensor|moonlet.Tensor[] outputs
---@return moonlet.Tensor|moonlet.Tensor[] jvp
---@shape inputs (n), v (n), outputs (m) -> (m)
---@formula jvp = J v, J_ij = dy_i / dx_j
---@see autograd.functional.vjp
function functional.jvp(...)
  local given = read_jvp:table(...)
  local _ <close> = ml.enable_grad()
  local inputs, many = own_inputs("jvp", given.inputs, given.create_graph)
  local v = vectors_for("jvp", given.v, inputs, many, "the input")
  local outputs, several = outputs_of("jvp", given.func, inputs)
  if given.strict then check_outputs("jvp", outputs) end
  local seeds, held = dummies(outputs)
  local found = gradients(outputs, inputs, seeds, true)
  local back = filled("jvp", found, inputs, { strict = given.strict }, OF_OUTPUT)
  local along = transposed_product(back, seeds, held, v, given.create_graph)
  local product = filled("jvp", along, outputs, given, OF_INPUTS)
  return finished(outputs, several, given.create_graph),
    finished(product, several, given.create_graph)
end

-- The gradient of a function of one element, with a graph.
local function gradient_of(where, given, inputs)
  local outputs = single_output(where, given.func, inputs)
  if given.strict then check_outputs(where, outputs) end
  local found = gradients(outputs, inputs, nil, true)
  local gradient = filled(where, found, inputs, { strict = given.strict }, OF_OUTPUT)
  if given.strict then
    filled(where, gradient, inputs, { strict = true, create_graph = true },
      { graph = "the gradient of the function", of = "input %d" })
  end
  return outputs, gradient
end

local read_vhp = declare("vhp", PRODUCT)

--- The result of `func`, a single element, and the vector-Hessian product v^T H.
--- > f = function(x) return (x * x * x):sum() end
--- > output, vhp = ml.autograd.functional.vhp(f, ml.ones(2), ml.ones(2))
--- > vhp
---   {6., 6.}
---   Tensor (2,) float32
---@param func fun(...): moonlet.Tensor gives one element
---@param inputs moonlet.Tensor|moonlet.Tensor[] a tensor, or an array of the arguments
---@param v? moonlet.Tensor|moonlet.Tensor[] the vector, in the form of `inputs`; 1 unless
---   given, for a single element
---@param create_graph? boolean whether the result can be differentiated again
---@param strict? boolean whether an output that does not depend on an input is an error
---@return moonlet.Tensor output
---@return moonlet.Tensor|moonlet.Tensor[] vhp
---@shape inputs (n), v (n) -> (n)
---@formula vhp = v^T H, H_ij = d^2 y / (dx_i dx_j)
---@see autograd.functional.hvp
function functional.vhp(...)
  local given = read_vhp:table(...)
  local _ <close> = ml.enable_grad()
  local inputs, many = own_inputs("vhp", given.inputs, given.create_graph)
  local v = vectors_for("vhp", given.v, inputs, many, "the input")
  local outputs, gradient = gradient_of("vhp", given, inputs)
  local found = gradients(gradient, inputs, v, given.create_graph)
  local product = filled("vhp", found, inputs, given, OF_HESSIAN)
  return finished(outputs, false, given.create_graph), finished(product, many, given.create_graph)
end

local read_hvp = declare("hvp", PRODUCT)

--- The result of `func`, a single element, and the Hessian-vector product H v. Where the second
--- derivatives are continuous `vhp` gives the same and is faster.
--- > f = function(x) return (x * x * x):sum() end
--- > output, hvp = ml.autograd.functional.hvp(f, ml.ones(2), ml.ones(2))
--- > hvp
---   {6., 6.}
---   Tensor (2,) float32
---@param func fun(...): moonlet.Tensor gives one element
---@param inputs moonlet.Tensor|moonlet.Tensor[] a tensor, or an array of the arguments
---@param v? moonlet.Tensor|moonlet.Tensor[] the vector, in the form of `inputs`; 1 unless
---   given, for a single element
---@param create_graph? boolean whether the result can be differentiated again
---@param strict? boolean whether an output that does not depend on an input is an error
---@return moonlet.Tensor output
---@return moonlet.Tensor|moonlet.Tensor[] hvp
---@shape inputs (n), v (n) -> (n)
---@formula hvp = H v, H_ij = d^2 y / (dx_i dx_j)
---@see autograd.functional.vhp
function functional.hvp(...)
  local given = read_hvp:table(...)
  local _ <close> = ml.enable_grad()
  local inputs, many = own_inputs("hvp", given.inputs, given.create_graph)
  local v = vectors_for("hvp", given.v, inputs, many, "the input")
  local outputs, gradient = gradient_of("hvp", given, inputs)
  local seeds, held = dummies(inputs)
  local found = gradients(gradient, inputs, seeds, true)
  local twice = filled("hvp", found, inputs, { strict = given.strict }, OF_HESSIAN)
  local along = transposed_product(twice, seeds, held, v, given.create_graph)
  local product = filled("hvp", along, inputs, given, OF_GRADIENT)
  return finished(outputs, false, given.create_graph), finished(product, many, given.create_graph)
end

-- Matrices ---------------------------------------------------------------------------------------

-- All vectors with a single 1 among zeros, in the shape of x: a batch of them.
local function unit_vectors(x)
  local count, sizes = x:numel(), { x:numel() }
  for d = 1, x.ndim do sizes[d + 1] = x.shape[d] end
  return ml.eye(count, { dtype = x.dtype, device = x.device }):reshape(sizes)
end

local function joined_shape(y, x)
  local out = {}
  for d = 1, y.ndim do out[d] = y.shape[d] end
  for d = 1, x.ndim do out[#out + 1] = x.shape[d] end
  return out
end

-- The rows of the Jacobian of output y by each input, one backward for each element of y.
local function rows_one_by_one(where, number, y, inputs, given)
  local rows, units = {}, unit_vectors(y)
  for k in ipairs(inputs) do rows[k] = {} end
  local what = { value = "output " .. number .. " of the function",
    graph = given.called or "the Jacobian", of = "input %d" }
  for element = 1, y:numel() do
    local found = gradients({ y }, inputs, { units[element] }, given.create_graph)
    for k, row in ipairs(filled(where, found, inputs, given, what)) do rows[k][element] = row end
  end
  for k in ipairs(inputs) do rows[k] = #rows[k] > 0 and ml.stack(rows[k]) end
  return rows
end

-- The same with one backward, in vmap.
local function rows_at_once(y, inputs, given)
  if not y.requires_grad or y:numel() == 0 then return {} end
  local rows = table.pack(ml.func.vmap(function(seed)
    local found, out = gradients({ y }, inputs, { seed }, given.create_graph), {}
    for k, x in ipairs(inputs) do out[k] = found[k] or ml.zeros_like(x):detach() end
    return table.unpack(out)
  end)(unit_vectors(y)))
  return rows
end

-- The derivatives of all outputs along one element after the other of input k, in vmap: for each
-- output a batch of them. Also whether there are several outputs. `given.recorded` is for functions
-- that go backward inside.
local function columns_at_once(where, given, inputs, k)
  local forward, several = ml.autograd.forward_ad, nil
  local columns = table.pack(ml.func.vmap(function(tangent)
    return forward.dual_level(function()
      local arguments = table.move(inputs, 1, #inputs, 1, {})
      local dual = forward.make_dual(inputs[k], tangent)
      if given.recorded and not dual.requires_grad then dual:requires_grad_(true) end
      arguments[k] = dual
      local outputs, more = outputs_of(where, given.func, arguments)
      local out = {}
      several = more
      for i, y in ipairs(outputs) do
        local primal, derivative = forward.unpack_dual(y)
        out[i] = derivative or ml.zeros_like(primal)
      end
      return table.unpack(out)
    end)
  end)(unit_vectors(inputs[k])))
  return columns, several
end

-- The Jacobian by forward mode: `[output][input]`, and whether there are several outputs.
local function by_forward_mode(where, given, inputs)
  local out, several = {}, nil
  for k, x in ipairs(inputs) do
    local columns
    columns, several = columns_at_once(where, given, inputs, k)
    for i, column in ipairs(columns) do
      local sizes = table.move(column.shape:tolist(), 2, column.ndim, 1, {})
      for d = 1, x.ndim do sizes[#sizes + 1] = x.shape[d] end
      out[i] = out[i] or {}
      out[i][k] = column:movedim(1, -1):reshape(sizes)
    end
  end
  return out, several
end

-- The Jacobian by backward: `[output][input]`, and whether there are several outputs.
local function by_backward(where, given, inputs)
  local outputs, several = outputs_of(where, given.func, inputs)
  if given.strict then check_outputs(where, outputs) end
  local out = {}
  for i, y in ipairs(outputs) do
    if y:is_complex() then
      fail("%s: output %d is complex, expected real ones, such as ml.view_as_real(y)", where, i)
    end
    local rows = given.vectorize and rows_at_once(y, inputs, given)
      or rows_one_by_one(where, i, y, inputs, given)
    out[i] = {}
    for k, x in ipairs(inputs) do
      local sizes = joined_shape(y, x)
      out[i][k] = rows[k] and rows[k]:reshape(sizes)
        or ml.zeros(sizes, { dtype = x.dtype, device = x.device })
    end
  end
  return out, several
end

local function check_strategy(where, name, given)
  if given.vectorize and given.strict then
    fail("%s: 'strict' and 'vectorize' cannot be had together", where)
  elseif given.strategy == "forward-mode" and not given.vectorize then
    fail("%s: '%s' \"forward-mode\" wants 'vectorize'", where, name)
  end
end

-- The Jacobian of `given.func`: nested in arrays where there are several outputs or inputs.
local function jacobian(where, given)
  local _ <close> = ml.enable_grad()
  local inputs, many = own_inputs(where, given.inputs, given.create_graph)
  local forward = given.strategy == "forward-mode"
  local found, several = (forward and by_forward_mode or by_backward)(where, given, inputs)
  for i, row in ipairs(found) do found[i] = finished(row, many, given.create_graph) end
  return several and found or found[1]
end

signature.add_choice("JacobianStrategy", { "reverse-mode", "forward-mode" })

local read_jacobian = declare("jacobian", MATRIX .. 'JacobianStrategy strategy="reverse-mode"')

--- The Jacobian of `func` at `inputs`. Several outputs give an array with one for each, several
--- inputs arrays in it: `J[output][input]`.
--- > ml.autograd.functional.jacobian(function(x) return x:cumsum(1) end, ml.ones(3))
---   {{1., 0., 0.},
---    {1., 1., 0.},
---    {1., 1., 1.}}
---   Tensor (3, 3) float32
---@param func fun(...): moonlet.Tensor gives a tensor, or several
---@param inputs moonlet.Tensor|moonlet.Tensor[] a tensor, or an array of the arguments
---@param create_graph? boolean whether the result can be differentiated again
---@param strict? boolean whether an output that does not depend on an input is an error
---@param vectorize? boolean whether all rows are computed by one backward in `ml.func.vmap`
---@param strategy? "reverse-mode"|"forward-mode" "reverse-mode", or with `vectorize` also
---   "forward-mode", all columns at once
---@return moonlet.Tensor|table
---@shape inputs (n), outputs (m) -> (m, n)
---@formula J_ij = dy_i / dx_j
---@see autograd.functional.hessian
function functional.jacobian(...)
  local given = read_jacobian:table(...)
  check_strategy("jacobian", "strategy", given)
  if given.strategy == "forward-mode" and given.create_graph then
    fail "jacobian: 'create_graph' and 'strategy' \"forward-mode\" cannot be had together"
  end
  return jacobian("jacobian", given)
end

local read_hessian = declare("hessian",
  MATRIX .. 'JacobianStrategy outer_jacobian_strategy="reverse-mode"')

--- The Hessian of `func`, which gives a single element, at `inputs`; of several inputs `H[i][j]`.
--- > ml.autograd.functional.hessian(function(x) return (x * x * x):sum() end, ml.ones(2))
---   {{6., 0.},
---    {0., 6.}}
---   Tensor (2, 2) float32
---@param func fun(...): moonlet.Tensor gives one element
---@param inputs moonlet.Tensor|moonlet.Tensor[] a tensor, or an array of the arguments
---@param create_graph? boolean whether the result can be differentiated again
---@param strict? boolean whether an output that does not depend on an input is an error
---@param vectorize? boolean whether all rows of the outer Jacobian are computed by one backward
---@param outer_jacobian_strategy? "reverse-mode"|"forward-mode" "reverse-mode" or
---   "forward-mode" for the outer Jacobian
---@return moonlet.Tensor|table
---@shape inputs (n) -> (n, n)
---@formula H_ij = d^2 y / (dx_i dx_j)
---@see autograd.functional.jacobian
function functional.hessian(...)
  local given = read_hessian:table(...)
  given.strategy = given.outer_jacobian_strategy
  check_strategy("hessian", "outer_jacobian_strategy", given)
  local _, many = as_array("hessian", "inputs", given.inputs)
  local inner = { create_graph = true, strict = given.strict,
    called = "the gradient of the function" }
  function inner.func(...) return single_output("hessian", given.func, { ... })[1]:reshape({}) end
  local outer = { inputs = given.inputs, create_graph = given.create_graph,
    strict = given.strict, vectorize = given.vectorize, strategy = given.strategy,
    recorded = true }
  function outer.func(...)
    inner.inputs = many and { ... } or (...)
    return jacobian("hessian", inner)
  end
  return jacobian("hessian", outer)
end

return options.namespace("autograd.functional", functional)
