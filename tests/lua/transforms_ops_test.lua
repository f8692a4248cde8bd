-- tests/lua/transforms_ops_test.lua: every row under the transforms of functions: vmap against a loop
-- over the samples of a batch, tangents against gradients, and gradients of a batch of vectors.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/?.lua;" .. package.path
local harness = require "harness"
local checks = require "op_checks"
local samples = require "op_samples"
local test, expect = harness.test, harness.expect

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

local function sample_of(case, args, batched, i)
  local found = false
  return samples.map(case, batched, function(x)
    if not found or batched.all then
      found = true
      return x[i]
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
  for b = 1, COUNT do each[b] = samples.results(case, sample_of(case, args, batched, b)) end
  expect.equal(got.n, #each[1])
  for k = 1, got.n do
    local variants = {}
    for b = 1, COUNT do variants[b] = each[b][k] end
    checks.compare("result " .. k, got[k], ml.stack(variants, 1), 1e-4)
  end
end

for _, case in ipairs(cases) do
  if (not only or case.name == only) and case.plain and case.callable and not case.random then
    for i, text in ipairs(case.samples) do
      test(("vmap %s(%s)"):format(case.name, text), function() compare_with_loop(case, i, true) end)
      test(("vmap %s(%s), first"):format(case.name, text), function()
        compare_with_loop(case, i, false)
      end)
    end
  end
end

harness.run()
