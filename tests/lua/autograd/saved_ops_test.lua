-- tests/lua/autograd/saved_ops_test.lua: every row's samples with what they save packed by a script, and
-- inside a checkpoint: the gradients may not change.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local checks = require "op_checks"
local samples = require "op_samples"
local test, expect = harness.test, harness.expect

local cases = dofile(assert(os.getenv "MOONLET_OP_CASES", "set MOONLET_OP_CASES to op_cases.lua"))

-- Copies of the arguments of a sample that require grad where they can, and these.
local function arguments_of(case, i)
  local leaves = {}
  local args = samples.map(case, samples.arguments(case, i), function(t)
    local copy = t:detach():clone()
    if copy:is_floating_point() or copy:is_complex() then
      copy:requires_grad_(true)
      leaves[#leaves + 1] = copy
    end
    return copy
  end)
  return args, leaves
end

-- The gradients of all results of a call made by `run` by all leaves; none where it has none.
local function gradients(case, i, run)
  local args, leaves = arguments_of(case, i)
  ml.manual_seed(1)
  local results = run(case, args)
  local outputs, starts = {}, {}
  for _, y in ipairs(results) do
    if ml.is_tensor(y) and y.requires_grad then
      outputs[#outputs + 1] = y
      starts[#starts + 1] = ml.ones_like(y:detach())
    end
  end
  if #outputs == 0 or #leaves == 0 then return nil end
  return table.pack(ml.grad(outputs, leaves, { grad_outputs = starts, materialize_grads = true }))
end

local packed = 0
local function with_packing(case, args)
  return ml.autograd.graph.saved_tensors_hooks(function(t)
    packed = packed + 1
    return { t:clone { memory_format = "preserve_format" } }
  end, function(kept) return kept[1] end, samples.results, case, args)
end

local function in_checkpoint(case, args)
  return ml.utils.checkpoint({ early_stop = false }, samples.results, case, args)
end

for _, case in ipairs(cases) do
  for i, text in ipairs(case.samples) do
    if case.plain and case.callable then
      test(("%s(%s)"):format(case.name, text), function()
        local ok, want = pcall(gradients, case, i, samples.results)
        if not ok or not want then return end  -- whether that is right is for other tests
        for _, run in ipairs { with_packing, in_checkpoint } do
          local got = gradients(case, i, run)
          for k = 1, want.n do checks.compare("gradient " .. k, got[k], want[k], 0) end
        end
      end)
    end
  end
end

test("tensors were packed", function() expect.truthy(packed > 1000, packed) end)

harness.run()
