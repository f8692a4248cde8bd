-- tests/lua/op_checks.lua: the checks every op goes through. Each is a function (case, i) that
-- raises an error saying what differs; `applies` tells whether a check makes sense for a case.

local ml = require "moonlet"
local samples = require "op_samples"
local under_test = require "test_device"

local checks = {}

local tolerance = {
  float8_e4m3fn = 7e-2, float8_e5m2 = 0.13,
  float16 = 4e-3, bfloat16 = 3e-2, float32 = 2e-5, float64 = 1e-9, complex64 = 3e-5, complex128 = 1e-9,
}

local function is_float(dtype) return dtype:find "^float" ~= nil or dtype:find "^bfloat" ~= nil end
local function is_differentiable(dtype) return is_float(dtype) or dtype:find "^complex" ~= nil end

local function numbers(tensor)
  local t = tensor:detach():to "cpu":contiguous()
  if t.dtype:find "^complex" then t = ml.view_as_real(t) end
  if t.dtype == "float16" or t.dtype == "bfloat16" or t.dtype:find "^float8" then t = t:to "float32" end
  return t:reshape(-1):tolist()
end

local function shape_text(t) return tostring(t.shape) end

-- Raises unless both tensors have the same shape and nearly the same elements. `least`: the
-- tolerance of what they are made of, as float64 statistics of float32 are as exact as that.
function checks.compare(what, got, want, tol, least)
  if not ml.is_tensor(want) or not ml.is_tensor(got) then
    if ml.is_tensor(got) and got.numel and got:numel() == 1 then got = got:item() end
    if got ~= want and not (type(got) == "number" and math.abs(got - want) <= 1e-5 * math.max(1, math.abs(want))) then
      error(("%s: got %s, want %s"):format(what, got, want), 0)
    end
    return
  end
  if shape_text(got) ~= shape_text(want) then
    error(("%s: got shape %s, want %s"):format(what, shape_text(got), shape_text(want)), 0)
  end
  local a, b = numbers(got), numbers(want)
  least = is_differentiable(want.dtype) and least or 0
  tol = tol or math.max(tolerance[got.dtype] or 0, tolerance[want.dtype] or 0, least)
  for i = 1, #b do
    local x, y = a[i], b[i]
    if type(x) == "boolean" then x = x and 1 or 0 end
    if type(y) == "boolean" then y = y and 1 or 0 end
    local same = x == y or (x ~= x and y ~= y) or math.abs(x - y) <= tol * math.max(1, math.abs(y))
    if not same then
      error(("%s: element %d is %.9g, want %.9g (tolerance %g)"):format(what, i, x, y, tol), 0)
    end
  end
end

local function compare_lists(what, got, want, tol, least)
  if #got ~= #want then error(("%s: %d results, want %d"):format(what, #got, #want), 0) end
  for k = 1, #want do checks.compare(("%s, result %d"):format(what, k), got[k], want[k], tol, least) end
end

local function has_tensor(args)
  for i = 1, args.n do
    if ml.is_tensor(args[i]) then return true end
    if type(args[i]) == "table" and ml.is_tensor(args[i][1]) then return true end
  end
  return false
end

-- Values against PyTorch's, kept in tests/reference/values/FAMILY.json.
function checks.value(case, _, reference)
  local args = { n = #case.args }
  for k, item in ipairs(reference.inputs) do args[k] = samples.decode(item) end
  args.n = #reference.inputs
  local got = samples.results(case, args)
  local want = {}
  for k, item in ipairs(reference.results) do want[k] = samples.decode(item) end
  for k = 1, #want do
    local a, b = got[k], want[k]
    if ml.is_tensor(a) and ml.is_tensor(b) and a.dtype ~= b.dtype then
      error(("result %d has dtype %s, want %s"):format(k, a.dtype, b.dtype), 0)
    end
  end
  compare_lists("value", got, want)
end

local function is_grad_name(case, name)
  for _, constant in ipairs(case.constant) do
    if constant == name then return false end
  end
  for _, grad in ipairs(case.grads) do
    if grad == name then return true end
  end
  return case.kind == "composite"
end

-- Float64 copies of the arguments; those that have a gradient become leaves.
local function leaves_of(case, args)
  local leaves = {}
  local out = samples.map(case, args, function(t, kind, name)
    if not is_differentiable(t.dtype) then return t end
    local complex = t.dtype:find "^complex"
    local double = t:detach():to(complex and "complex128" or "float64")
      :clone { memory_format = "contiguous_format" }
    if kind == "Mask" or not is_grad_name(case, name or kind) then return double end
    -- A complex argument is a view of a leaf of its parts.
    local leaf = complex and ml.view_as_real(double):detach() or double
    leaves[#leaves + 1] = leaf:requires_grad_(true)
    return complex and ml.view_as_complex(leaf) or leaf
  end)
  return out, leaves
end

-- The differentiable results, and fixed weights to reduce them to one number.
local function weighted(results, weights)
  local outputs = {}
  for _, y in ipairs(results) do
    if ml.is_tensor(y) and y.requires_grad then outputs[#outputs + 1] = y end
  end
  if #weights == 0 then
    ml.manual_seed(99)
    for k, y in ipairs(outputs) do
      weights[k] = ml.rand(y.shape, { dtype = "float64" }) + 0.5
      if y.dtype:find "^complex" then
        weights[k] = ml.view_as_complex(ml.stack({ weights[k], weights[k] * 0.5 }, -1))
      end
    end
  end
  return outputs
end

local function real_sum(y, w)
  local product = y.dtype:find "^complex" and (y * w:conj()).real or y * w
  return product:sum()
end

local function total(case, args, weights)
  local outputs = weighted(samples.results(case, args), weights)
  local sum
  for k, y in ipairs(outputs) do
    local part = real_sum(y, weights[k])
    sum = sum and sum + part or part
  end
  return sum
end

-- d f / d leaf by central differences, as a flat list.
local function numeric_gradient(f, leaf, eps)
  local out = {}
  local view = leaf:detach():reshape(-1)
  for i = 1, leaf:numel() do
    local before = view[i]:item()
    view[i] = before + eps
    local up = f()
    view[i] = before - eps
    local down = f()
    view[i] = before
    out[i] = (up - down) / (2 * eps)
  end
  return out
end

local function compare_gradient(what, analytic, numeric, tol)
  local got = analytic and numbers(analytic) or nil
  for i, want in ipairs(numeric) do
    local x = got and got[i] or 0
    if not (math.abs(x - want) <= tol * math.max(1, math.abs(want))) then
      error(("%s: element %d is %.9g, by differences %.9g"):format(what, i, x, want), 0)
    end
  end
end

-- Every result that can have a gradient has one: raises where it was lost, and says why there is
-- none to check.
local function expect_recorded(case, args)
  local recorded = false
  for k, y in ipairs(samples.results(case, args)) do
    if ml.is_tensor(y) and is_differentiable(y.dtype) and y:numel() > 0 then
      if not y.requires_grad and not case.nodiff[k] then
        error(("result %d does not require grad"):format(k), 0)
      end
      recorded = recorded or y.requires_grad
    end
  end
  if not recorded then return "no floating result" end
end

-- Gradients of every floating argument against central differences, in float64.
function checks.grad(case, i)
  local args, leaves = leaves_of(case, samples.arguments(case, i))
  if #leaves == 0 then return "no floating argument" end
  local reason = expect_recorded(case, args)
  if reason then return reason end
  local weights = {}
  local y = total(case, args, weights)
  local grads = table.pack(ml.grad({ y }, leaves, { allow_unused = true }))
  for k, leaf in ipairs(leaves) do
    local numeric = numeric_gradient(function()
      local value = total(case, args, weights)
      return value:item()
    end, leaf, 1e-6)
    compare_gradient(("gradient of floating argument %d"):format(k), grads[k], numeric, 2e-6)
  end
end

-- Second derivatives: the gradients themselves, summed with weights, are differentiated again.
function checks.gradgrad(case, i)
  local args, leaves = leaves_of(case, samples.arguments(case, i))
  if #leaves == 0 then return "no floating argument" end
  local reason = expect_recorded(case, args)
  if reason then return reason end
  local weights = {}
  total(case, args, weights)
  for k, w in ipairs(weights) do
    if is_float(w.dtype) then weights[k] = w:clone():requires_grad_(true) end
  end
  local second = {}
  ml.manual_seed(7)
  for k, leaf in ipairs(leaves) do second[k] = ml.rand(leaf.shape, { dtype = "float64" }) + 0.5 end
  local function contracted()
    local y = total(case, args, weights)
    local grads = table.pack(ml.grad({ y }, leaves, { create_graph = true, allow_unused = true }))
    local sum
    for k in ipairs(leaves) do
      if grads[k] then
        local part = (grads[k] * second[k]):sum()
        sum = sum and sum + part or part
      end
    end
    return sum
  end
  local value = contracted()
  local inputs = table.move(leaves, 1, #leaves, 1, {})
  for _, w in ipairs(weights) do
    if w.requires_grad then inputs[#inputs + 1] = w end
  end
  local grads = {}
  if value and value.requires_grad then
    grads = table.pack(ml.grad({ value }, inputs, { allow_unused = true }))
  end
  for k, leaf in ipairs(inputs) do
    local numeric = numeric_gradient(function()
      local v = contracted()
      return v and v:item() or 0
    end, leaf, 1e-5)
    compare_gradient(("second derivative by input %d"):format(k), grads[k], numeric, 2e-5)
  end
end

-- An op whose row says that it is not differentiable records nothing.
function checks.no_grad(case, i)
  local args = samples.map(case, samples.arguments(case, i), function(t)
    return is_differentiable(t.dtype) and t:detach():clone():requires_grad_(true) or t
  end)
  if case.results == 0 then return "it only writes" end
  if not has_tensor(args) then return "no tensor argument" end
  for k, y in ipairs(samples.results(case, args)) do
    if ml.is_tensor(y) and y.requires_grad then error(("result %d requires grad"):format(k), 0) end
  end
end

-- Two layouts with the same elements: every second element of a doubled tensor, and transposed.
local function strided(t)
  if t.ndim == 0 then return ml.stack({ t, t }, 1)[1] end
  return ml.stack({ t, t }, -1):select(-1, 1)
end
local function transposed(t)
  if t.ndim < 2 then return strided(t) end
  return t:transpose(1, -1):contiguous():transpose(1, -1)
end

-- The same results from arguments that are not contiguous.
function checks.noncontiguous(case, i)
  local args = samples.arguments(case, i)
  if not has_tensor(args) then return "no tensor argument" end
  local want = samples.results(case, args)
  for name, layout in pairs { strided = strided, transposed = transposed } do
    local changed = samples.map(case, samples.arguments(case, i), layout)
    compare_lists(name .. " arguments", samples.results(case, changed), want)
  end
end

local dtype_rank = { bool = 0, uint8 = 1, uint16 = 1, uint32 = 1, uint64 = 1, int8 = 1, int16 = 1, int32 = 1,
  int64 = 1 }

-- The arguments that have dtypes of their own, as have the states of random numbers.
local holds_positions = { Mask = true, Positions = true, Indices = true }
local function has_own_dtype(kind, name) return holds_positions[kind] or name == "states" end

local function cast(case, args, dtype)
  return samples.map(case, args, function(t, kind, name)
    if has_own_dtype(kind, name) then return t end
    local source = t
    if t.dtype:find "^complex" and not dtype:find "^complex" then source = t.real end
    if dtype_rank[dtype] == 1 and is_differentiable(t.dtype) then source = (source:abs() * 3):floor() end
    -- Where -1 would be 2^32 - 1, which float32 rounds.
    if dtype:find "^uint%d%d" and not source:is_complex() and source.dtype ~= "bool" then source = source:clamp(0) end
    return source:to(dtype)
  end)
end

-- Every dtype the row claims computes; results agree with float64 (or complex128, or int64).
function checks.dtypes(case, i)
  local args = samples.arguments(case, i)
  if not has_tensor(args) then return "no tensor argument" end
  local claimed = {}
  for _, dtype in ipairs(case.dtypes) do claimed[dtype] = true end
  if case.int_to_float then
    for dtype in pairs(dtype_rank) do claimed[dtype] = true end
  end
  for dtype in pairs(claimed) do
    local low = cast(case, args, dtype)
    local wide = dtype:find "^complex" and "complex128" or "float64"
    if dtype_rank[dtype] and not case.int_to_float then wide = nil end
    local ok, got = pcall(samples.results, case, low)
    if not ok then error(("dtype %s: %s"):format(dtype, got), 0) end
    if wide then
      local want = samples.results(case, samples.map(case, low, function(t, kind, name)
        if has_own_dtype(kind, name) then return t end
        return t:to(wide)
      end))
      local tol = tolerance[dtype] or 1e-4
      for k = 1, #want do
        if ml.is_tensor(want[k]) and is_differentiable(want[k].dtype) then
          checks.compare(("dtype %s, result %d"):format(dtype, k), got[k], want[k], tol)
        end
      end
    end
  end
  local all_tensors = args.n == #case.args
  for k = 1, args.n do all_tensors = all_tensors and ml.is_tensor(args[k]) end
  if case.kind == "pointwise" and all_tensors then
    for _, dtype in ipairs { "bool", "int64", "float32", "complex64" } do
      if not claimed[dtype] then
        local ok, message = pcall(samples.results, case, cast(case, args, dtype))
        if ok then error("dtype " .. dtype .. " is not claimed, yet computes", 0) end
        if not tostring(message):find(case.call, 1, true) and not tostring(message):find(case.name, 1, true) then
          error(("dtype %s: the error does not name the op: %s"):format(dtype, message), 0)
        end
      end
    end
  end
end

-- Empty and 0-d inputs: pointwise ops keep the shape; others compute or fail with an error that
-- names the op.
function checks.empty(case, i)
  local args = samples.arguments(case, i)
  if not has_tensor(args) then return "no tensor argument" end
  local most = 0
  samples.map(case, args, function(t)
    most = math.max(most, t.ndim)
    return t
  end)
  local shapes = {
    empty = function(t) return (t.ndim == 0 or t.ndim < most) and t or t:narrow(1, 1, 0) end,
    ["0-d"] = function(t) return t:numel() == 0 and t or t:reshape(-1)[1] end,
  }
  for name, change in pairs(shapes) do
    local changed = samples.map(case, args, change)
    local ok, got = pcall(samples.results, case, changed)
    if not ok and not tostring(got):find "[%w_]+: " then
      error(("%s input: an error without the op's name: %s"):format(name, got), 0)
    end
    if case.kind == "pointwise" then
      if not ok then error(("%s input: %s"):format(name, got), 0) end
      local want = name == "empty" and 0 or 1
      if got[1]:numel() ~= want and args[1].ndim > 0 then
        error(("%s input: %d elements"):format(name, got[1]:numel()), 0)
      end
    end
  end
end

-- The in-place form of a view: the tensor itself has the view's shape, over the memory it had.
local function check_restrided(case, i)
  local args = samples.arguments(case, i)
  local want = samples.results(case, args)[1]
  local target, kept = args[1], args[1]:view_as(args[1])
  local shape, position = shape_text(target), target:data_ptr() - target:storage_offset() * target.itemsize
  local back = samples.find(case, "_")(table.unpack(args, 1, args.n))
  if not rawequal(back, target) and back ~= target then error("the in-place form does not return its tensor", 0) end
  checks.compare("in place", target, want)
  local strides = table.concat(target:stride(), " ")
  if strides ~= table.concat(want:stride(), " ") then error("in place: the strides are " .. strides, 0) end
  if target:data_ptr() - target:storage_offset() * target.itemsize ~= position then error("in place: memory moved", 0) end
  if shape_text(kept) ~= shape then error("in place: a view of the tensor changed its shape", 0) end
end

-- First and second derivatives through name_ of a tensor with a history are those through name, also
-- of a view made before.
function checks.inplace_grad(case, i)
  local function derivatives(form, with_view)
    local args = samples.arguments(case, i)
    local leaf = args[1]:double():clone():requires_grad_(true)
    args[1] = leaf * 1
    local view = with_view and args[1]:view_as(args[1])
    local y = samples.find(case, form)(table.unpack(args, 1, args.n))
    local weights = ml.arange(1, y:numel(), { dtype = "float64" }):reshape(y.shape)
    local loss = (y * y * y * weights):sum()
    if view then loss = loss + (view * view):sum() end
    local first = ml.grad(loss, leaf, { create_graph = true })
    return { y, first, ml.grad((first * first):sum(), leaf) }
  end
  for _, with_view in ipairs { false, true } do
    compare_lists(with_view and "in place, with a view" or "in place",
      derivatives("_", with_view), derivatives("", with_view), 1e-9)
  end
end

-- name_ changes its first argument to what name gives, and counts the change.
function checks.inplace(case, i)
  if case.restrides then return check_restrided(case, i) end
  local args = samples.arguments(case, i)
  local want = samples.results(case, samples.map(case, args, function(t) return t:clone() end))[1]
  local target = args[1]
  if not ml.is_tensor(target) or shape_text(target) ~= shape_text(want) then return "other shape" end
  if target.dtype ~= want.dtype and case.result == "same" then return "other dtype" end
  if case.random then ml.manual_seed(1234) end
  local back = samples.find(case, "_")(table.unpack(args, 1, args.n))
  if not rawequal(back, target) and back ~= target then error("the in-place form does not return its tensor", 0) end
  checks.compare("in place", target, want:to(target.dtype))
end

-- The out form fills the given tensor, or the tensors of a table.
function checks.out(case, i)
  local args = samples.arguments(case, i)
  local wanted, outs = samples.results(case, args), {}
  for k, want in ipairs(wanted) do outs[k] = ml.empty_like(want) end
  local out = #outs == 1 and outs[1] or outs
  local again = samples.arguments(case, i)
  if type(again[again.n]) == "table" and next(again[again.n]) and #again[again.n] == 0 then
    again[again.n].out = out
  else
    again.n = again.n + 1
    again[again.n] = { out = out }
  end
  samples.call(case, again)
  for k, want in ipairs(wanted) do checks.compare("out form", outs[k], want) end
end

-- Broadcasting: the second operand of a pointwise op may be smaller.
function checks.broadcast(case, i)
  local args = samples.arguments(case, i)
  if not (ml.is_tensor(args[1]) and ml.is_tensor(args[2])) or args[2].ndim == 0 then return "a number" end
  args[2] = args[2]:narrow(args[2].ndim, 1, 1)
  local got = samples.results(case, args)
  local full = samples.map(case, args, function(t) return t end)
  full[2] = args[2]:expand(got[1].shape):contiguous()
  compare_lists("broadcast operand", got, samples.results(case, full))
end

-- Results and gradients on one device, from copies of the arguments laid out there by `layout`.
local function results_on(case, args, device, layout)
  local leaves = {}
  local there = samples.map(case, args, function(t, kind, name)
    local copy = t:detach():to(device)
    local has_grad = is_float(copy.dtype) and not copy.dtype:find "^float8"
    if has_grad and kind ~= "Mask" and not case.check.grad and is_grad_name(case, name or kind) then
      copy = (device == "cpu" and copy:clone() or copy):requires_grad_(true)
      leaves[#leaves + 1] = copy
    end
    return layout and layout(copy) or copy
  end)
  ml.manual_seed(31)
  local results = samples.results(case, there)
  local sum
  for _, y in ipairs(results) do
    if ml.is_tensor(y) and y.requires_grad then
      local part = real_sum(y, ml.arange(1, y:numel()):to(device):to(y.dtype):reshape(y.shape) * 0.1)
      sum = sum and sum + part or part
    end
  end
  local grads = {}
  if sum then
    grads = { ml.grad({ sum }, leaves, { allow_unused = true }) }
    for k = 1, #leaves do grads[k] = grads[k] or ml.zeros(1) end
  end
  return results, grads
end

-- That of the least exact tensor among the arguments, or nil.
local function tolerance_of(args)
  local most
  for i = 1, args.n do
    local own = ml.is_tensor(args[i]) and tolerance[args[i].dtype]
    if own and own > (most or 0) then most = own end
  end
  return most
end

-- The same on the CPU and on the device; where the arguments may be refused, an error on both.
local function compare_devices(case, what, args, layout, may_fail)
  local tol = case.family == "random" and 1e-4 or nil
  local fine, want, want_grads = pcall(results_on, case, args, "cpu", layout)
  local there, got, got_grads = pcall(function()
    local results, grads = results_on(case, args, under_test.name, layout)
    under_test.synchronize()
    return results, grads
  end)
  if fine ~= there then
    error(("%s: %s on the CPU, on %s %s"):format(what, fine and "fine" or want, under_test.name,
      there and "fine" or got), 0)
  end
  if not fine and not may_fail then error(("%s: %s"):format(what, want), 0) end
  if not fine then return end
  if case.check.value ~= "undefined contents" then
    compare_lists(("%s on %s"):format(what, under_test.name), got, want, tol, tolerance_of(args))
  end
  for k = 1, #want_grads do
    checks.compare(("%s on %s, gradient %d"):format(what, under_test.name, k), got_grads[k], want_grads[k], tol)
  end
  for _, y in ipairs(got) do
    if ml.is_tensor(y) and y.device == "cpu" then error("the result is on the CPU", 0) end
  end
end

-- The same results and gradients on the device under test: as given, in other layouts, empty, and in
-- every dtype the row claims.
function checks.device(case, i)
  if case.cpu_only then return case.cpu_only end
  local args = samples.arguments(case, i)
  if not has_tensor(args) then return "no tensor argument" end
  compare_devices(case, "contiguous arguments", args)
  compare_devices(case, "strided arguments", args, strided, case.check.noncontiguous)
  compare_devices(case, "transposed arguments", args, transposed, case.check.noncontiguous)
  if not case.check.empty then
    compare_devices(case, "empty arguments", samples.map(case, args, function(t)
      return t.ndim == 0 and t or t:narrow(1, 1, 0)
    end), nil, true)
  end
  for _, dtype in ipairs(case.dtypes) do
    compare_devices(case, dtype, cast(case, args, dtype), nil, case.check.dtypes or case.kind == "composite")
  end
end

return checks
