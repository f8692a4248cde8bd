-- stdlib/autograd/checks.lua: ml.autograd.gradcheck and gradgradcheck: derivatives of the tape
-- beside those by differences.

local jacobians = require "moonlet.autograd.jacobians"
local mismatch = require "moonlet.autograd.mismatch"
local ml = require "moonlet"
local numbers = require "moonlet.numbers"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local checks = {}

local NAMES = { "numerical", "analytical" }
local FORWARD_NAMES = { "numerical", "forward mode" }

-- Inputs -----------------------------------------------------------------------------------------

-- The bytes from the start of the storage at which elements of x begin.
local function positions(x)
  local out, starts = {}, { x:storage_offset() * x.itemsize }
  for d = 1, x.ndim do
    local wider = {}
    for _, start in ipairs(starts) do
      for i = 0, x.shape[d] - 1 do wider[#wider + 1] = start + i * x:stride(d) * x.itemsize end
    end
    starts = wider
  end
  for _, start in ipairs(starts) do out[start] = (out[start] or 0) + 1 end
  return out
end

-- Whether elements of x lie in one position; sizes and strides alone say it of most.
local function overlaps_itself(x)
  local dims = {}
  for d = 1, x.ndim do
    if x.shape[d] > 1 then dims[#dims + 1] = { x:stride(d), x.shape[d] } end
  end
  if x:numel() < 2 then return false end
  table.sort(dims, function(a, b) return a[1] < b[1] end)
  local reach, apart = 0, true
  for _, dim in ipairs(dims) do
    if dim[1] == 0 then return true end
    apart = apart and dim[1] > reach
    reach = reach + dim[1] * (dim[2] - 1)
  end
  if apart then return false end
  for _, count in pairs(positions(x)) do
    if count > 1 then return true end
  end
  return false
end

local function share_memory(x, y)
  if x:numel() == 0 or y:numel() == 0 then return false end
  if x.device ~= y.device or x:storage():data_ptr() ~= y:storage():data_ptr() then return false end
  local taken = {}
  for start in pairs(positions(x)) do
    for byte = start, start + x.itemsize - 1 do taken[byte] = true end
  end
  for start in pairs(positions(y)) do
    for byte = start, start + y.itemsize - 1 do
      if taken[byte] then return true end
    end
  end
  return false
end

local function check_memory(case)
  for _, i in ipairs(case.checked) do
    local x = case.inputs[i]
    if overlaps_itself(x) then
      fail("%s: elements of input %d share memory (strides %s of shape %s), so they cannot be "
        .. "changed one by one; pass input:contiguous()", case.where, i,
        tostring(table.concat({ table.unpack(x:stride():totable()) }, ", ")), tostring(x.shape))
    end
    for j = 1, case.count do
      local y = case.inputs[j]
      if j ~= i and ml.is_tensor(y) and not rawequal(x, y) and share_memory(x, y) then
        fail("%s: inputs %d and %d share memory, so one cannot be changed without the other",
          case.where, math.min(i, j), math.max(i, j))
      end
    end
  end
end

local function is_checked(x) return ml.is_tensor(x) and x.requires_grad end

-- The case that jacobians.lua works on.
local function new_case(where, f, inputs)
  if ml.is_tensor(inputs) then inputs = { inputs } end
  local case = { where = where, call = f, inputs = inputs, count = #inputs, checked = {} }
  for key in pairs(inputs) do
    if math.type(key) ~= "integer" or key < 1 or key > case.count then
      fail("%s: 'inputs' is an array of arguments, got one with a field '%s'", where,
        tostring(key))
    end
  end
  for i = 1, case.count do
    local x = inputs[i]
    if is_checked(x) then
      case.checked[#case.checked + 1] = i
      if x.dtype ~= ml.float64 and x.dtype ~= ml.complex128 then
        ml._warn_once("gradcheck", numbers.format("%s: input %d has dtype %s: differences of less "
          .. "than double precision say little, so the check will likely fail", where, i, x.dtype))
      end
    end
  end
  if #case.checked == 0 then
    fail("%s: no input requires grad, so there is nothing to check", where)
  end
  check_memory(case)
  return case
end

-- Checks of a case; each gives what is wrong, or nil ---------------------------------------------

local function requires_grad(y) return y.requires_grad end

-- Whether the function gives the same again; differences are meaningless when it does not.
local function randomness(case, outputs)
  local most = 0
  for i, y in ipairs(jacobians.outputs(case)) do
    local before = outputs[i]
    if not before or before.shape ~= y.shape then return "; its outputs change their shapes" end
    if jacobians.is_inexact(y) then most = math.max(most, jacobians.spread(y, before)) end
  end
  return most > 0 and numbers.format("\n  (the function gives different outputs for the same "
    .. "inputs, by up to %.6g)", most) or ""
end

-- Outputs without a history must not change with the inputs.
local function constant_outputs(case, outputs, given)
  local parts = jacobians.parts(outputs, function() return true end)
  for k, matrices in ipairs(jacobians.numerical(case, parts, given.eps)) do
    for p, part in ipairs(parts) do
      local most = matrices[p]:numel() > 0 and matrices[p]:abs():max():item() or 0
      if most ~= most or most > given.atol then
        return ("output %d does not require grad, but it changes with input %d (numerical "
          .. "derivatives of up to %s)"):format(part.output, case.checked[k],
          numbers.format("%.6g", most))
      end
    end
  end
end

local function nondeterministic(off, given)
  if off <= given.nondet_tol then return nil end
  return numbers.format("backward is not deterministic: the same backward twice gave gradients "
    .. "that differ by up to %.6g, more than nondet_tol = %.6g", off, given.nondet_tol)
end

-- The outputs are made after the differences, which change the inputs in place.
local function slow(case, parts, given)
  local numerical = jacobians.numerical(case, parts, given.eps)
  local outputs = jacobians.outputs(case)
  if given.backward then
    local computed, off = jacobians.backward(case, outputs, parts)
    local wrong = mismatch.find(case, parts, numerical, computed, NAMES, given)
    if wrong then return wrong .. randomness(case, outputs) end
    wrong = nondeterministic(off, given)
    if wrong then return wrong end
  end
  if given.forward then
    local computed, bad = jacobians.forward(case, parts)
    if bad and given.check_grad_dtypes then return bad end
    return mismatch.find(case, parts, numerical, computed, FORWARD_NAMES, given)
  end
end

-- Random numbers of the check's own: those of the script go on as they were.
local function new_generator(seed)
  local generator = ml.Generator()
  generator:manual_seed(seed)
  return generator
end

local function direction(x, generator)
  local u = ml.rand(x.shape, { dtype = ml.float64, device = "cpu", generator = generator })
  return u / u:norm():clamp { min = 1e-300 }
end

local function same_along(case, parts, given, what)
  local generator = new_generator(0)
  local weights, along, u = {}, {}, {}
  for p, part in ipairs(parts) do weights[p] = direction({ shape = part.shape }, generator) end
  for k, position in ipairs(case.checked) do
    local x = case.inputs[position]
    u[k] = direction(x, generator)
    local step = u[k]:to { dtype = x.dtype, device = x.device }
    along[k] = { numerical = jacobians.numerical_along(case, position, step, parts, given.eps),
      step = step }
  end
  for p in ipairs(parts) do
    local computed = what(p, weights[p], along)
    for k in ipairs(case.checked) do
      local wanted = along[k].numerical[p]:dot(weights[p]:reshape(-1)):item()
      local got = computed[k](u[k])
      local allowed = given.atol * u[k]:sum():item() * weights[p]:sum():item()
      local off = math.abs(got - wanted)
      if off ~= off or off > allowed + given.rtol * math.abs(wanted) then return false end
    end
  end
  return true
end

-- Products of the Jacobians with random vectors from both sides, in the place of the Jacobians.
local function fast(case, parts, given)
  local off, outputs = 0, nil
  local function backward(p, weight)
    outputs = outputs or jacobians.outputs(case)
    local y, out = outputs[parts[p].output], {}
    local seed = weight:to { dtype = y.dtype, device = y.device }
    local first = jacobians.gradients(case, { y }, { seed })
    for k, g in ipairs(jacobians.gradients(case, { y }, { seed })) do
      off = math.max(off, jacobians.spread(g, first[k]))
      out[k] = function(u)
        return g:detach():to { dtype = ml.float64, device = "cpu" }:reshape(-1)
          :dot(u:reshape(-1)):item()
      end
    end
    return out
  end
  local function forward(p, weight, along)
    local out = {}
    for k, position in ipairs(case.checked) do
      out[k] = function()
        local values = jacobians.forward_along(case, position, along[k].step, parts)
        return values[p]:dot(weight:reshape(-1)):item()
      end
    end
    return out
  end
  local same = not given.backward or same_along(case, parts, given, backward)
  same = same and (not given.forward or same_along(case, parts, given, forward))
  if same then return nondeterministic(off, given) end
  return slow(case, parts, given)
    or "products with random vectors differ (fast_mode), though all elements of the Jacobians are "
    .. "within the tolerances: errors of one sign add up"
end

local function random_like(y, generator)
  local real = ml.randn(y.shape, { dtype = ml.float64, device = "cpu", generator = generator })
  return real:to { dtype = y.dtype, device = y.device }
end

local function differentiable(outputs)
  local out = {}
  for _, y in ipairs(outputs) do
    if jacobians.is_inexact(y) and y.requires_grad then out[#out + 1] = y end
  end
  return out
end

-- A gradient that did not come counts as zeros: one output's alone gives the same as all with zeros
-- for the others.
local function undefined_gradients(case, outputs, given)
  local all, generator = differentiable(outputs), new_generator(1)
  if #all < 2 then return nil end
  for i, y in ipairs(all) do
    local seeds = {}
    for j, other in ipairs(all) do seeds[j] = ml.zeros_like(other):detach() end
    seeds[i] = random_like(y, generator)
    local whole = jacobians.gradients(case, all, seeds)
    for k, g in ipairs(jacobians.gradients(case, { y }, { seeds[i] })) do
      if not mismatch.close(g, whole[k], given) then
        return ("the gradient of input %d by output %d alone differs from that with zeros for the "
          .. "gradients of the other outputs: undefined gradients are not taken as zeros")
          :format(case.checked[k], i)
      end
    end
  end
end

local function wrong_dtypes(case, outputs)
  for _, y in ipairs(differentiable(outputs)) do
    for k, g in ipairs(jacobians.gradients(case, { y }, { ml.ones_like(y):detach() })) do
      local x = case.inputs[case.checked[k]]
      if g.dtype ~= x.dtype or g.shape ~= x.shape then
        return ("input %d has dtype %s and shape %s, its gradient %s and %s"):format(
          case.checked[k], x.dtype, tostring(x.shape), g.dtype, tostring(g.shape))
      end
    end
  end
end

-- The gradients of a batch of seeds at once, by vmap, beside those of one after the other.
local function batched_gradients(case, outputs, given)
  local vmap = ml.func.vmap
  local generator = new_generator(2)
  for i, y in ipairs(differentiable(outputs)) do
    local seeds = { random_like(y, generator), random_like(y, generator) }
    local one = {}
    for s, seed in ipairs(seeds) do one[s] = jacobians.gradients(case, { y }, { seed }) end
    local ok, batch = pcall(function()
      return table.pack(vmap(function(seed)
        return table.unpack(jacobians.gradients(case, { y }, { seed }))
      end)(ml.stack(seeds)))
    end)
    if not ok then return ("the gradients of output %d fail in vmap: %s"):format(i, batch) end
    for k, position in ipairs(case.checked) do
      if not mismatch.close(batch[k], ml.stack { one[1][k], one[2][k] }, given) then
        return ("the gradients of input %d by output %d in vmap differ from those one by one")
          :format(position, i)
      end
    end
  end
end

local function is_complex(x) return ml.is_tensor(x) and x:is_complex() end

local function any(values, count, holds)
  for i = 1, count do
    if holds(values[i]) then return true end
  end
  return false
end

-- What is wrong with the derivatives of a case.
local function find_wrong(case, given)
  local outputs = jacobians.outputs(case)
  local parts = jacobians.parts(outputs, requires_grad)
  if #parts == 0 then return constant_outputs(case, outputs, given) end
  local complex = any(outputs, #outputs, is_complex) or any(case.inputs, case.count, is_complex)
  local compare = given.fast_mode and not complex and fast or slow
  local wrong = compare(case, parts, given)
  if wrong or not given.backward then return wrong end
  outputs = jacobians.outputs(case)
  if given.check_batched_grad then wrong = batched_gradients(case, outputs, given) end
  if wrong then return wrong end
  if given.check_undefined_grad then wrong = undefined_gradients(case, outputs, given) end
  return wrong or given.check_grad_dtypes and wrong_dtypes(case, outputs) or nil
end

local function judge(case, given)
  local _ <close> = ml.enable_grad()
  local wrong = find_wrong(case, given)
  if not wrong then return true end
  if given.raise_exception then fail("%s: %s", case.where, wrong) end
  return false
end

-- The checks themselves --------------------------------------------------------------------------

local COMMON = "number>0 eps=1e-6, number>=0 atol=1e-5, number>=0 rtol=1e-3, "
  .. "bool raise_exception=true, number>=0 nondet_tol=0, bool check_undefined_grad=true, "
  .. "bool check_grad_dtypes=false, bool check_batched_grad=false, "

local read_gradcheck = signature("autograd.gradcheck(function f, Tensor|table inputs, " .. COMMON
  .. "bool check_forward_ad=false, bool check_backward_ad=true, bool fast_mode=false)", "gradcheck")

--- Checks the gradients of `f` by the tape against central differences: returns true, or fails with
--- an error that says where the Jacobians differ most. Checked are the inputs that require grad,
--- best of float64. Of a complex output the real and the imaginary part are checked each.
--- > x = ml.tensor({ 0.5, 2 }, { dtype = ml.float64, requires_grad = true })
--- > ml.autograd.gradcheck(function(x) return x:exp() * x end, x)
---   true
---@param f fun(...): moonlet.Tensor gives a tensor, or several
---@param inputs moonlet.Tensor|any[] a tensor, or an array of the arguments
---@param eps? number step of the differences
---@param atol? number absolute tolerance
---@param rtol? number relative tolerance
---@param raise_exception? boolean whether a difference is an error; otherwise the result is false
---@param nondet_tol? number the largest difference between two runs of the same backward
---@param check_undefined_grad? boolean whether gradients that are missing are checked to be
---   taken as zeros
---@param check_grad_dtypes? boolean whether gradients must have the dtypes of their inputs
---@param check_batched_grad? boolean whether gradients are checked in `ml.func.vmap` too
---@param check_forward_ad? boolean whether forward mode is checked too
---@param check_backward_ad? boolean whether backward is checked
---@param fast_mode? boolean whether products with random vectors are compared instead, for
---   large real inputs
---@return boolean
---@shape inputs (*), results (*)
---@formula |J - N| <= atol + rtol |N|, N_ij = (f_i(x + eps e_j) - f_i(x - eps e_j)) / (2 eps)
---@see autograd.gradgradcheck
function checks.gradcheck(...)
  local given = read_gradcheck:table(...)
  given.backward, given.forward = given.check_backward_ad, given.check_forward_ad
  if not given.backward and not given.forward then
    fail "gradcheck: one of 'check_backward_ad' and 'check_forward_ad' must be true"
  elseif given.check_batched_grad and not given.backward then
    fail "gradcheck: 'check_batched_grad' wants 'check_backward_ad'"
  end
  return judge(new_case("gradcheck", given.f, given.inputs), given)
end

-- Gradients to start from: random ones, some of them with gaps between their elements.
local function random_seeds(outputs, gaps)
  local out, generator = {}, new_generator(3)
  for i, y in ipairs(outputs) do
    local seed = random_like(y, generator)
    if y:is_complex() then
      seed = seed + ml.complex(0, 1) * random_like(y, generator)
    end
    if gaps and y.ndim > 0 then
      local wide = ml.stack({ seed, ml.zeros_like(seed) }, -1)
      seed = wide:select(-1, 1)
    end
    out[i] = seed:detach():requires_grad_(true)
  end
  return out
end

local function given_seeds(where, outputs, given)
  if ml.is_tensor(given) then given = { given } end
  if #given ~= #outputs then
    fail("%s: %d grad_outputs for %d outputs that require grad", where, #given, #outputs)
  end
  local out = {}
  for i, seed in ipairs(given) do
    if not ml.is_tensor(seed) then
      fail("%s: grad_output %d is a %s, expected a tensor", where, i, type(seed))
    end
    out[i] = seed
  end
  return out
end

local read_gradgradcheck = signature("autograd.gradgradcheck(function f, Tensor|table inputs, "
  .. "Tensor|table? grad_outputs=nil, " .. COMMON
  .. "bool gen_non_contig_grad_outputs=false, bool check_fwd_over_rev=false, "
  .. "bool check_rev_over_rev=true, bool fast_mode=false)", "gradgradcheck")

--- Checks the second derivatives of `f`: `gradcheck` of its backward, with respect to the inputs
--- and to the gradients that backward starts from.
--- > x = ml.tensor({ 0.5, 2 }, { dtype = ml.float64, requires_grad = true })
--- > ml.autograd.gradgradcheck(function(x) return x:exp() * x end, x)
---   true
---@param f fun(...): moonlet.Tensor gives a tensor, or several
---@param inputs moonlet.Tensor|any[] a tensor, or an array of the arguments
---@param grad_outputs? moonlet.Tensor|moonlet.Tensor[] the gradients that backward starts from;
---   random ones unless given
---@param eps? number step of the differences
---@param atol? number absolute tolerance
---@param rtol? number relative tolerance
---@param raise_exception? boolean whether a difference is an error; otherwise the result is false
---@param nondet_tol? number the largest difference between two runs of the same backward
---@param check_undefined_grad? boolean whether gradients that are missing are checked to be
---   taken as zeros
---@param check_grad_dtypes? boolean whether gradients must have the dtypes of their inputs
---@param check_batched_grad? boolean whether gradients are checked in `ml.func.vmap` too
---@param gen_non_contig_grad_outputs? boolean whether the random gradients are not contiguous
---@param check_fwd_over_rev? boolean whether forward mode over backward is checked
---@param check_rev_over_rev? boolean whether backward over backward is checked
---@param fast_mode? boolean whether products with random vectors are compared instead, for
---   large real inputs
---@return boolean
---@shape inputs (*), results (*), grad_outputs (*)
---@see autograd.gradcheck
function checks.gradgradcheck(...)
  local where, given = "gradgradcheck", read_gradgradcheck:table(...)
  given.backward, given.forward = given.check_rev_over_rev, given.check_fwd_over_rev
  if not given.backward and not given.forward then
    fail "gradgradcheck: one of 'check_rev_over_rev' and 'check_fwd_over_rev' must be true"
  end
  local inner = new_case(where, given.f, given.inputs)
  local _ <close> = ml.enable_grad()
  local outputs = differentiable(jacobians.outputs(inner))
  if #outputs == 0 then fail "gradgradcheck: no output of the function requires grad" end
  local seeds = given.grad_outputs and given_seeds(where, outputs, given.grad_outputs)
    or random_seeds(outputs, given.gen_non_contig_grad_outputs)
  local inputs = table.move(inner.inputs, 1, inner.count, 1, {})
  table.move(seeds, 1, #seeds, inner.count + 1, inputs)
  local function gradients(...)
    local arguments = { ... }
    local own, from = {}, { table.unpack(arguments, inner.count + 1, inner.count + #seeds) }
    for k, position in ipairs(inner.checked) do own[k] = arguments[position] end
    local ys = differentiable(jacobians.outputs(inner, arguments))
    local found = table.pack(ml.grad(ys, own,
      { grad_outputs = from, create_graph = true, allow_unused = true }))
    local out = {}
    for k = 1, #own do out[#out + 1] = found[k] end
    return out
  end
  return judge(new_case(where, gradients, inputs), given)
end

return options.namespace("autograd.checks", checks)
