-- tests/lua/autograd/transforms_ops_test.lua: every row under the transforms of functions: vmap against a loop
-- over the samples of a batch, tangents against gradients, and gradients of a batch of vectors.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local checks = require "op_checks"
local samples = require "op_samples"
local test, expect = harness.test, harness.expect

local forward_ad = ml.autograd.forward_ad

local cases = dofile(assert(os.getenv "MOONLET_OP_CASES", "set MOONLET_OP_CASES to op_cases.lua"))
local only = arg[1]

local SCALES = { 1, 0.97, 0.94 }
local COUNT = #SCALES

local function is_real(x) return x:is_floating_point() end
local function is_differentiable(x) return x:is_floating_point() or x:is_complex() end

-- The tensors of the arguments, each a batch of variants of itself: numbers a little apart, so that
-- what must be positive, small or a matrix that is not singular stays so.
local function batches(case, args, first_only)
  local found = false
  return samples.map(case, args, function(x)
    if first_only and found then return x end
    found = true
    local variants = {}
    for i, scale in ipairs(SCALES) do variants[i] = is_real(x) and x * scale or x:clone() end
    return ml.stack(variants, 1)
  end)
end

local function sample_of(case, batched, i)
  local found = false
  return samples.map(case, batched, function(x)
    if not found or batched.all then
      found = true
      return x[i]:clone()
    end
    return x
  end)
end

local function dims_of(batched, args)
  local found = false
  local function dim(value, original)
    if type(value) == "table" and not getmetatable(value) and not ml.is_tensor(value) then
      local out = {}
      for key, inner in pairs(value) do out[key] = dim(inner, original[key]) end
      return out
    end
    if not ml.is_tensor(value) then return false end
    if found and not batched.all then return false end
    found = true
    return 1
  end
  local out = {}
  for i = 1, batched.n do out[i] = dim(batched[i], args[i]) end
  return out
end

local function compare_with_loop(case, i, all)
  local args = samples.arguments(case, i)
  local batched = batches(case, args, not all)
  batched.all = all
  local function call(...) return table.unpack(samples.results(case, table.pack(...))) end
  local got = table.pack(ml.func.vmap(call, { in_dims = dims_of(batched, args),
    randomness = "different" })(table.unpack(batched, 1, batched.n)))
  local each = {}
  for b = 1, COUNT do each[b] = samples.results(case, sample_of(case, batched, b)) end
  expect.equal(got.n, #each[1])
  for k = 1, got.n do
    local variants = {}
    for b = 1, COUNT do variants[b] = each[b][k] end
    checks.compare("result " .. k, got[k], ml.stack(variants, 1), 1e-4)
  end
end


-- What looks at elements of a sample, or whose results differ in shape from sample to sample.
local LOOKS = {}
for name in ([[allclose is_nonzero bincount narrow_from lstm_packed gru_packed rnn_tanh_packed rnn_relu_packed
    multilabel_margin_loss repeat_interleave_positions]]):gmatch "%S+" do
  LOOKS[name] = true
end
local function looks_at_elements(case, text)
  return LOOKS[case.name] or (case.name == "one_hot" and not text:find ", %d+$")
    or (case.name:find "^repeat_interleave" and text:find ", tensor" and not text:find ", 3$")
    or (case.name:find "^tensor_split" and text:find ", tensor")
end

-- What has nothing to compare: truth values of shapes, and memory that is not set.
local NOTHING = { equal = true, is_same_size = true, empty_like = true, new_empty = true }

-- Derivatives that do not exist are errors forward and backward.
local NONE = { "has no derivative", "cannot be differentiated again" }
local function lacks_derivative(problem)
  for _, text in ipairs(NONE) do
    if tostring(problem):find(text, 1, true) then return true end
  end
  return false
end
-- Without vectors the gradient of eigenvalues lacks what it is made of.
local function has_derivative(case, text)
  return not (case.name:find "^native_eigh?$" and text:find "false$")
end
local function unless_none(f)
  return function()
    local ok, problem = pcall(f)
    if not ok and not lacks_derivative(problem) then error(problem, 0) end
  end
end

local function has_tensor(case, args)
  local any = false
  samples.map(case, args, function(x) any = true return x end)
  return any
end

-- The adjoint: for any tangents t and vectors v, v . (J t) is (J' v) . t.
local function compare_tangents(case, i)
  local args = samples.arguments(case, i)
  local inputs, tangents = {}, {}
  local own = samples.map(case, args, function(x)
    if not is_differentiable(x) then return x end
    inputs[#inputs + 1] = (is_real(x) and x:double() or x):detach():clone():requires_grad_()
    tangents[#inputs] = ml.randn_like(inputs[#inputs]:detach())
    return inputs[#inputs]
  end)
  if #inputs == 0 then return end
  local outputs, weights, into = {}, {}, 0
  for _, y in ipairs(samples.results(case, own)) do
    if ml.is_tensor(y) and y.requires_grad then
      outputs[#outputs + 1] = y
      weights[#outputs] = ml.randn_like(y:detach())
    end
  end
  if #outputs == 0 then return end
  local gradients = { ml.grad(outputs, inputs, { grad_outputs = weights, allow_unused = true }) }
  for k, x in ipairs(inputs) do
    local g = gradients[k]
    if g then into = into + ml.sum(ml.real(g:conj() * tangents[k])):item() end
    inputs[k] = x:detach()
  end
  local along, next_output = 0, 0
  local _ <close> = forward_ad.dual_level()
  local next_input = 0
  local duals = samples.map(case, own, function(x)
    if not is_differentiable(x) then return x end
    next_input = next_input + 1
    return forward_ad.make_dual(inputs[next_input], tangents[next_input])
  end)
  local given = {}
  for k, y in ipairs(samples.results(case, duals)) do given[k] = y end
  for _, y in ipairs(samples.results(case, own)) do
    next_output = next_output + 1
    if ml.is_tensor(y) and y.requires_grad then
      local _, tangent = forward_ad.unpack_dual(given[next_output])
      local weight = table.remove(weights, 1)
      if tangent then along = along + ml.sum(ml.real(weight:conj() * tangent)):item() end
    end
  end
  local scale = math.max(1, math.abs(into), math.abs(along))
  local same = into ~= into and along ~= along or math.abs(into - along) < 1e-4 * scale
  if not same then error(("%g by gradients, %g by tangents"):format(into, along), 0) end
end

-- Gradients for a batch of vectors, each as by itself.
local function compare_vectors(case, i)
  local args = samples.arguments(case, i)
  local inputs = {}
  local own = samples.map(case, args, function(x)
    if not is_differentiable(x) then return x end
    inputs[#inputs + 1] = x:detach():clone():requires_grad_()
    return inputs[#inputs]
  end)
  local outputs, weights = {}, {}
  for _, y in ipairs(samples.results(case, own)) do
    if ml.is_tensor(y) and y.requires_grad then
      outputs[#outputs + 1] = y
      local shape = { 2 }
      for d = 1, y:dim() do shape[d + 1] = y:size(d) end
      weights[#outputs] = ml.randn(shape, { dtype = y.dtype })
    end
  end
  if #outputs == 0 then return end
  local function gradients(vectors)
    local found = { ml.grad(outputs, inputs, { grad_outputs = vectors, retain_graph = true,
      allow_unused = true }) }
    for k, x in ipairs(inputs) do found[k] = found[k] or ml.zeros_like(x:detach()) end
    return found
  end
  local got = ml.func.vmap(gradients)(weights)
  for b = 1, 2 do
    local one = {}
    for k, w in ipairs(weights) do one[k] = w[b] end
    for k, want in ipairs(gradients(one)) do
      checks.compare(("gradient %d of vector %d"):format(k, b), got[k][b], want, 1e-4)
    end
  end
end

-- The sum of the results that have gradients, times weights, as a function of the real tensors among
-- the arguments alone; nil where no result has.
local function loss_of(case, args)
  local function results(inputs)
    local next_input = 0
    return samples.results(case, samples.map(case, args, function(x)
      next_input = next_input + 1
      return inputs[next_input] or x
    end))
  end
  local weights, leaves, position = {}, {}, 0
  samples.map(case, args, function(x)
    position = position + 1
    if x:is_floating_point() then leaves[position] = x:detach():clone():requires_grad_() end
    return x
  end)
  for k, y in ipairs(results(leaves)) do
    if ml.is_tensor(y) and y.requires_grad and not y:is_complex() then
      weights[k] = ml.randn(y.shape, { dtype = y.dtype })
    end
  end
  if next(weights) == nil then return nil end
  return function(inputs)
    local sum = 0
    for k, y in ipairs(results(inputs)) do
      if weights[k] then sum = sum + (y * weights[k]):sum() end
    end
    return sum
  end
end

-- Derivatives in vmap: `derive(loss, inputs)` for each sample of a batch of the real tensors.
local function compare_derivatives(case, i, derive)
  local args = samples.arguments(case, i)
  local batch, count = {}, 0
  samples.map(case, args, function(x)
    count = count + 1
    if x:is_floating_point() then
      local variants = {}
      for k, scale in ipairs(SCALES) do variants[k] = x * scale end
      batch[count] = ml.stack(variants, 1)
    end
    return x
  end)
  local loss = loss_of(case, args)
  if loss then derive(loss, batch) end
end

local function sample_inputs(batch, b)
  local out = {}
  for key, x in pairs(batch) do out[key] = x[b]:clone() end
  return out
end

local function compare_each(what, got, want)
  for key, x in pairs(got) do
    local rows = {}
    for b = 1, COUNT do rows[b] = want[b][key] end
    checks.compare(("%s %d"):format(what, key), x, ml.stack(rows, 1), 1e-3)
  end
end

-- The gradients of each sample by itself, and those of all through vmap.
local function compare_gradients(loss, batch)
  local gradient, want = ml.func.grad(loss), {}
  for b = 1, COUNT do want[b] = gradient(sample_inputs(batch, b)) end
  compare_each("own gradient", ml.func.vmap(gradient)(batch), want)
  local whole = ml.func.vmap(loss)
  compare_each("gradient through", ml.func.grad(function(all) return whole(all):sum() end)(batch), want)
end

local function compare_directions(loss, batch)
  local tangents, want = {}, {}
  for key, x in pairs(batch) do tangents[key] = ml.randn_like(x) end
  local function along(inputs, directions)
    return select(2, ml.func.jvp(loss, { inputs }, { directions }))
  end
  for b = 1, COUNT do
    want[b] = { along(sample_inputs(batch, b), sample_inputs(tangents, b)) }
  end
  compare_each("derivative along", { ml.func.vmap(along)(batch, tangents) }, want)
end

-- An op that writes to lists of tensors has no results to differentiate, and changes each sample's.
local function writes_lists(case)
  for i, name in ipairs(case.names) do
    if case.writes[name] and case.args[i]:find "%[%]" then return true end
  end
  return false
end

for _, case in ipairs(cases) do
  local differentiable = case.differentiable ~= false and not writes_lists(case)
  if (not only or case.name == only) and case.plain and case.callable and not case.random then
    for i, text in ipairs(case.samples) do
      local call = ("%s(%s)"):format(case.name, text)
      if has_tensor(case, samples.arguments(case, i)) and not NOTHING[case.name] then
        if looks_at_elements(case, text) then
          test("vmap " .. call .. " looks at elements", function()
            local ok, problem = pcall(compare_with_loop, case, i, true)
            expect.truthy(not ok and problem:find "inside vmap", tostring(problem))
          end)
        else
          test("vmap " .. call, function() compare_with_loop(case, i, true) end)
          test("vmap " .. call .. ", first", function()
            if not writes_lists(case) then return compare_with_loop(case, i, false) end
            expect.error(function() compare_with_loop(case, i, false) end, "clone it for each sample")
          end)
        end
      end
      if differentiable and has_derivative(case, text) and not looks_at_elements(case, text)
          and not case.check.grad then
        test("vmap of gradients " .. call, unless_none(function()
          compare_derivatives(case, i, compare_gradients)
        end))
        test("vmap of tangents " .. call, unless_none(function()
          compare_derivatives(case, i, compare_directions)
        end))
      end
      if differentiable and has_derivative(case, text) then
        test("tangent " .. call, unless_none(function() compare_tangents(case, i) end))
        test("vectors " .. call, unless_none(function() compare_vectors(case, i) end))
      end
    end
  end
end

harness.run()
