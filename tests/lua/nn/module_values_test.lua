-- tests/lua/nn/module_values_test.lua: every class of nn with PyTorch's state: its names in state dicts,
-- results, and gradients of inputs and parameters (tests/reference/make_modules.py). Where there is
-- a CUDA device, there as well.

local here = arg[0]:match("^(.*)/") or "."
package.path = here .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local cases = require "module_cases"
local module_case = require "module_case"
local test, expect = harness.test, harness.expect

local seen, count = {}, 0
for i, case in ipairs(cases.read()) do
  if not seen[case.class] then seen[case.class], count = true, count + 1 end
  for _, position in ipairs(ml.cuda.is_available() and { "cpu", "cuda" } or { "cpu" }) do
    test(("%s, case %d, %s"):format(case.class, i, position), function()
      module_case.check(case, position)
    end)
  end
  if #case.names > 0 then
    test(("%s, case %d, by name"):format(case.class, i), function() module_case.check_names(case) end)
  end
end

test("every class that computes has a case", function()
  local without = { Module = true, Sequential = true, ModuleList = true, ModuleDict = true,
    ParameterList = true, ParameterDict = true, RNNBase = true, TransformerEncoder = true,
    TransformerDecoder = true, CrossMapLRN2d = true }
  expect.truthy(count > 120, ("only %d classes"):format(count))
  for _, name in ipairs { "Linear", "GRU", "Transformer", "CTCLoss" } do
    expect.truthy(seen[name] and not without[name], name)
  end
end)

harness.run()
