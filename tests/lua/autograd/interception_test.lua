-- tests/lua/autograd/interception_test.lua: every row's samples through a handler of ml.override, which turns
-- each argument and result into a Lua value and back: nothing may change.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local checks = require "op_checks"
local samples = require "op_samples"
local test, expect = harness.test, harness.expect

local cases = dofile(assert(os.getenv "MOONLET_OP_CASES", "set MOONLET_OP_CASES to op_cases.lua"))

local seen = {}
local function handler(op, arguments, call)
  seen[op.name] = true
  local described = #op.arguments
  for position in pairs(arguments) do
    if type(position) ~= "number" or position > described then
      error(("%s has no argument %s"):format(op.name, tostring(position)))
    end
  end
  return call(table.unpack(arguments, 1, described))
end

local function results(case, i)
  local args = samples.arguments(case, i)
  return samples.results(case, samples.map(case, args, function(t) return t:clone() end))
end

-- Whether results that mean nothing but their shape are compared: memory that is not set.
local unset = { empty = true, empty_like = true, empty_in_format = true, new_empty = true }

for _, case in ipairs(cases) do
  for i, text in ipairs(case.samples) do
    if case.plain and case.callable then
      test(("%s(%s)"):format(case.name, text), function()
        local want = results(case, i)
        local got = ml.override(handler, results, case, i)
        expect.equal(#got, #want)
        for k = 1, #want do
          if unset[case.name] then
            expect.equal(tostring(got[k].shape), tostring(want[k].shape))
          else
            checks.compare("result " .. k, got[k], want[k], 0)
          end
        end
      end)
    end
    for _, form in ipairs { "inplace", "out" } do
      if case[form] and case.plain and case.callable and not unset[case.name] then
        test(("%s(%s): %s"):format(case.name, text, form), function()
          ml.override(handler, checks[form], case, i)
        end)
      end
    end
  end
end

test("all forms were seen", function()
  for _, case in ipairs(cases) do
    local direct = case.name:find "^empty"
    if case.plain and case.callable and not direct and #case.samples > 0 then
      expect.truthy(seen[case.name], case.name)
      if case.out then expect.truthy(seen[case.name .. "_out"], case.name .. "_out") end
    end
  end
end)

harness.test("ops with a derivative of their own that are made of ops are recorded", function()
  local x = ml.randn(3, 2, 3, { requires_grad = true })
  local weights = { ml.randn(2, 3), ml.randn(2, 2), ml.randn(2), ml.randn(2) }
  local hidden = ml.zeros(1, 2, 2)
  local q, k = ml.randn(2, 3, 4, { requires_grad = true }), ml.randn(2, 5, 4)
  local function gradients()
    local y = ml.rnn_tanh(x, hidden, weights, true, 1, 0, false, false, false)
    local z = ml._internal.native_attention(q, k, k, nil, false, 0.5)
    local gx, gq = ml.grad({ y:sum(), z:sum() }, { x, q })
    return { gx:tolist(), gq:tolist() }
  end
  local function pass(_, arguments, call) return call(arguments) end
  harness.expect.equal(ml.override(pass, gradients), gradients())
end)

harness.run()
