-- stdlib/ops/check.lua: ml.ops.check: an op through the checks that the rows of the op table go
-- through: values in all forms and layouts, derivatives, vmap, capture.

local defined = require "moonlet.ops.defined"
local ml = require "moonlet"
local numbers = require "moonlet.numbers"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local pack, unpack = table.pack, table.unpack
local check = {}

local TOLERANCE = { float16 = 4e-3, bfloat16 = 3e-2, float32 = 2e-5, float64 = 1e-9,
  complex64 = 3e-5, complex128 = 1e-9 }

local function is_inexact(x) return x:is_floating_point() or x:is_complex() end

-- Applies f to all tensors of a list of arguments, also those in arrays.
local function map(arguments, f)
  local out = { n = arguments.n or #arguments }
  for i = 1, out.n do
    local value = arguments[i]
    if ml.is_tensor(value) then
      out[i] = f(value)
    elseif type(value) == "table" and getmetatable(value) == nil then
      local list = {}
      for k, item in pairs(value) do list[k] = ml.is_tensor(item) and f(item) or item end
      out[i] = list
    else
      out[i] = value
    end
  end
  return out
end

local function tensors_of(arguments)
  local out = {}
  map(arguments, function(x)
    out[#out + 1] = x
    return x
  end)
  return out
end

local function call(f, arguments) return pack(f(unpack(arguments, 1, arguments.n))) end

-- The results as a flat list.
local function flat(results)
  local out = { n = 0 }
  local function add(value)
    if type(value) == "table" and getmetatable(value) == nil then
      for _, item in ipairs(value) do add(item) end
    else
      out.n = out.n + 1
      out[out.n] = value
    end
  end
  for i = 1, results.n do add(results[i]) end
  return out
end

-- What is wrong between two tensors or values, or nil.
local function different(got, want, tolerance)
  if not ml.is_tensor(want) or not ml.is_tensor(got) then
    if got == want then return nil end
    return numbers.format("got %s, expected %s", tostring(got), tostring(want))
  end
  if got.shape ~= want.shape then
    return ("got shape %s, expected %s"):format(tostring(got.shape), tostring(want.shape))
  end
  local a, b = got:detach(), want:detach()
  if tolerance == 0 then
    if a.dtype ~= b.dtype then
      return ("got dtype %s, expected %s"):format(a.dtype, b.dtype)
    end
    local function bytes(x) return x:contiguous():reshape(-1):view(ml.uint8) end
    return not ml.equal(bytes(a), bytes(b)) and "the results differ in their bits" or nil
  end
  if not is_inexact(b) then
    return not ml.equal(a:to(b.dtype), b) and "the results differ" or nil
  end
  local wide = b:is_complex() and ml.complex128 or ml.float64
  a, b = a:to(wide), b:to(wide)
  if ml.allclose(a, b, { rtol = tolerance, atol = tolerance, equal_nan = true }) then return nil end
  return numbers.format("the results differ by up to %.3g", (a - b):abs():max():item())
end

local function compare(got, want, tolerance)
  got, want = flat(got), flat(want)
  if got.n ~= want.n then return ("got %d results, expected %d"):format(got.n, want.n) end
  for i = 1, want.n do
    local least = tolerance
    if not least then
      least = ml.is_tensor(want[i]) and TOLERANCE[want[i].dtype] or 1e-9
    end
    local wrong = different(got[i], want[i], least)
    if wrong then return ("result %d: %s"):format(i, wrong) end
  end
end

local function to_double(x)
  if not is_inexact(x) then return x end
  return x:detach():to(x:is_complex() and ml.complex128 or ml.float64):clone()
end

-- Leaves in double precision, as an array of the tensors and a function of these.
local function as_function(f, arguments)
  local leaves = {}
  local shaped = map(arguments, function(x)
    local double = to_double(x)
    if not is_inexact(double) then return double end
    leaves[#leaves + 1] = double:requires_grad_(true)
    return double
  end)
  local function g(...)
    local at, given = 0, { ... }
    local own = map(shaped, function(x)
      if not x.requires_grad then return x end
      at = at + 1
      return given[at]
    end)
    local out = {}
    for _, y in ipairs(flat(call(f, own))) do
      if ml.is_tensor(y) and is_inexact(y) then out[#out + 1] = y end
    end
    return unpack(out)
  end
  return g, leaves
end

local checks = {}

-- Each check gives what is wrong, or nil; then, where it says nothing about the sample, why.

function checks.results(case)
  local results = call(case.f, case.arguments)
  local again = call(case.f, map(case.arguments, function(x) return x:clone() end))
  if case.results and results.n ~= case.results then
    return ("got %d results, the schema has %d"):format(results.n, case.results)
  end
  return compare(again, results, 0)
end

function checks.gradient(case)
  local g, leaves = as_function(case.f, case.arguments)
  if #leaves == 0 then return nil, "no floating argument" end
  local first = (g(unpack(leaves)))
  if not first then return nil, "no floating result" end
  if not first.requires_grad then
    if not case.differentiable then return nil, "not differentiable" end
    return "the result does not require grad"
  end
  local ok, message = pcall(ml.autograd.gradcheck, g, leaves, { check_forward_ad = true })
  return not ok and message or nil
end

function checks.second_gradient(case)
  local g, leaves = as_function(case.f, case.arguments)
  if #leaves == 0 then return nil, "no floating argument" end
  local first = (g(unpack(leaves)))
  if not first or not first.requires_grad then return nil, "not differentiable" end
  local ok, message = pcall(ml.autograd.gradgradcheck, g, leaves)
  return not ok and message or nil
end

-- Every second element of a doubled tensor, and a transposed one.
local function strided(x) return ml.stack({ x, x }, -1):select(-1, 1) end
local function transposed(x)
  return x.ndim < 2 and strided(x) or x:transpose(1, -1):contiguous():transpose(1, -1)
end

function checks.noncontiguous(case)
  if #tensors_of(case.arguments) == 0 then return nil, "no tensor argument" end
  local want = call(case.f, case.arguments)
  for name, layout in pairs { strided = strided, transposed = transposed } do
    local wrong = compare(call(case.f, map(case.arguments, layout)), want)
    if wrong then return name .. " arguments: " .. wrong end
  end
end

-- Of arguments with no elements in the first dimension, and of one element without dimensions: what
-- is computed is computed for other layouts, too, and errors are errors.
function checks.empty(case)
  if #tensors_of(case.arguments) == 0 then return nil, "no tensor argument" end
  for name, change in pairs {
    empty = function(x) return x.ndim == 0 and x or x:narrow(1, 1, 0) end,
    ["0-d"] = function(x) return x:numel() == 0 and x or x:reshape(-1)[1] end,
  } do
    local small = map(case.arguments, change)
    local ok, results = pcall(call, case.f, small)
    if ok then
      local wrong = compare(call(case.f, map(small, function(x) return x:clone() end)), results, 0)
      if wrong then return ("%s arguments: %s"):format(name, wrong) end
    elseif type(results) ~= "string" or not results:find ": " then
      return ("%s arguments: an error without a text: %s"):format(name, tostring(results))
    end
  end
end

function checks.dtypes(case)
  local any = false
  for _, x in ipairs(tensors_of(case.arguments)) do any = any or x:is_floating_point() end
  if not any then return nil, "no floating argument" end
  for _, dtype in ipairs { "float64", "float32", "bfloat16", "float16" } do
    local function cast(to)
      return map(case.arguments, function(x)
        return x:is_floating_point() and x:to(dtype):to(to) or x
      end)
    end
    if not case.dtypes or case.dtypes[dtype] then
      local ok, got = pcall(call, case.f, cast(dtype))
      if not ok then return ("dtype %s: %s"):format(dtype, got) end
      local wrong = compare(got, call(case.f, cast(ml.float64)), TOLERANCE[dtype])
      if wrong then return ("dtype %s: %s"):format(dtype, wrong) end
    end
  end
end

function checks.in_place(case)
  if not case.in_place then return nil, "no in-place form" end
  local want = call(case.f, case.arguments)
  local copy = map(case.arguments, function(x) return x:clone() end)
  if want[1].shape ~= copy[1].shape or not ml.can_cast(want[1].dtype, copy[1].dtype) then
    return nil, "the result does not fit the first argument"
  end
  local got = case.in_place(unpack(copy, 1, copy.n))
  if not rawequal(got, copy[1]) then return "the in-place form does not give its first argument" end
  local wrong = different(got, want[1]:to(got.dtype), 0)
  if wrong then return wrong end
  if not is_inexact(copy[1]) or not case.differentiable then return nil end
  local function gradient(form)
    local leaf = to_double(case.arguments[1]):requires_grad_(true)
    local own = map(case.arguments, to_double)
    own[1] = leaf * 1
    local y = form(unpack(own, 1, own.n))
    return ml.grad((y * y):sum(), leaf)
  end
  wrong = different(gradient(case.in_place), gradient(case.f), 1e-9)
  return wrong and "the gradient in place: " .. wrong
end

function checks.out(case)
  if not case.out then return nil, "no out form" end
  local want = call(case.f, case.arguments)
  local outs = {}
  for i = 1, want.n do outs[i] = ml.empty_like(want[i]) end
  local own = map(case.arguments, function(x) return x:detach() end)
  own.n = own.n + 1
  own[own.n] = { out = #outs == 1 and outs[1] or outs }
  local got = call(case.f, own)
  for i = 1, want.n do
    if not rawequal(got[i], outs[i]) then
      return "the out form does not give the tensors of 'out'"
    end
  end
  return compare(got, want, 0)
end

-- A batch of two, the second of which is the first in another order, beside one by one.
function checks.vmap(case)
  local given = tensors_of(case.arguments)
  if #given == 0 then return nil, "no tensor argument" end
  local function other(x) return x.ndim > 0 and x:flip(1) or x end
  local want = { call(case.f, case.arguments), call(case.f, map(case.arguments, other)) }
  for i = 1, want[1].n do
    if not ml.is_tensor(want[1][i]) then return nil, "a result that is no tensor" end
    if want[1][i].shape ~= want[2][i].shape then return nil, "shapes that follow the elements" end
  end
  local batch = {}
  for k, x in ipairs(given) do batch[k] = ml.stack { x, other(x) } end
  local got = pack(ml.func.vmap(function(...)
    local at, samples = 0, { ... }
    return unpack(call(case.f, map(case.arguments, function()
      at = at + 1
      return samples[at]
    end)))
  end, { randomness = "different" })(unpack(batch)))
  for i = 1, want[1].n do
    local wrong = different(got[i], ml.stack { want[1][i], want[2][i] },
      TOLERANCE[want[1][i].dtype] or 1e-9)
    if wrong then return ("result %d: %s"):format(i, wrong) end
  end
end

function checks.compiled(case)
  local fast = ml.compile(case.f)
  local want = call(case.f, case.arguments)
  for _ = 1, 4 do
    local wrong = compare(call(fast, case.arguments), want, 0)
    if wrong then return wrong end
  end
end

-- Modes see one call of the name.
function checks.interception(case)
  if not case.name then return nil, "no op that scripts define" end
  local seen = 0
  ml.override(function(op, arguments, go_on)
    if op.name == case.name then seen = seen + 1 end
    return go_on(arguments)
  end, function() call(case.f, case.arguments) end)
  return seen ~= 1 and ("modes saw %d calls of %s, expected 1"):format(seen, case.name) or nil
end

local ORDER = { "results", "interception", "gradient", "second_gradient", "noncontiguous", "empty",
  "dtypes", "in_place", "out", "vmap", "compiled" }

local function new_case(op)
  local name = type(op) == "string" and op or defined.by_function[op]
  local own = name and defined.ops[name]
  if not own then
    if type(op) ~= "function" then
      fail("ops.check: expected a function, or the name of an op that ml.ops.define has defined, "
        .. "got %s", signature.describe(op))
    end
    return { f = op, differentiable = true }
  end
  local dtypes
  if own.given.dtypes ~= "any" then
    dtypes = {}
    for _, each in ipairs(ml.ops.info(name).dtypes) do dtypes[each] = true end
  end
  return { name = name, f = own.call, in_place = own.change, out = own.given.out,
    dtypes = dtypes, results = #own.op.results, differentiable = own.given.differentiable }
end

local read = signature("ops.check(any op, table samples, table? skip=nil, "
  .. "bool raise_exception=true)")

--- Checks an op as the op table's own are: for each sample, an array of arguments, that it gives
--- the same twice; that modes see it as one call; first and second derivatives, also in forward
--- mode, against differences; arguments that are not contiguous, that are empty or have no
--- dimensions;
--- all floating dtypes; the in-place and out forms; vmap; and that compiled code gives the bits of
--- eager code.
--- > forward = function(x) return x * 2 end
--- > doubled = ml.ops.define { "doubled(Tensor x) -> Tensor", forward = forward, replace = true }
--- > ml.ops.check(doubled, { { ml.randn(2, 3) } }).gradient
---   passed
---@param op string|function the name of an op, or a function of tensors
---@param samples any[][] the arguments of some calls
---@param skip? string[] checks that are left out
---@param raise_exception? boolean whether what is wrong is an error; otherwise it is in the result
---@return table<string, string> outcomes by check: "passed", or why it says nothing
---@error what is wrong, with the check and the sample
---@see ops.define autograd.gradcheck
function check.check(...)
  local op, samples, skip, raises = read(...)
  local case = new_case(op)
  if #samples == 0 then
    fail "ops.check: expected samples, an array of arrays of arguments, got none"
  end
  local left_out, outcomes = {}, {}
  for _, name in ipairs(skip or {}) do
    if not checks[name] then
      fail("ops.check: there is no check '%s'%s", tostring(name), options.did_you_mean(name, ORDER))
    end
    left_out[name] = true
  end
  for i, sample in ipairs(samples) do
    if type(sample) ~= "table" or getmetatable(sample) then
      fail("ops.check: sample %d must be an array of arguments, got %s", i,
        signature.describe(sample))
    end
    case.arguments = map(sample, function(x) return x:detach() end)
    for _, name in ipairs(ORDER) do
      if not left_out[name] then
        local ok, wrong, reason = pcall(checks[name], case)
        if not ok then wrong = tostring(wrong) end
        if wrong then
          local text = ("%s: sample %d: %s"):format(name, i, wrong)
          if raises then fail("ops.check: %s: %s", case.name or "function", text) end
          outcomes[name] = text
        elseif not outcomes[name] or (reason == nil and not outcomes[name]:find "sample %d") then
          outcomes[name] = reason or "passed"
        end
      end
    end
  end
  return outcomes
end

return options.namespace("ops.check", check)
