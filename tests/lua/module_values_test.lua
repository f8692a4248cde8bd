-- tests/lua/module_values_test.lua: every class of nn with PyTorch's state: its names in state dicts,
-- results, and gradients of inputs and parameters (tests/reference/make_modules.py). Where there is
-- a CUDA device, there as well.

local here = arg[0]:match("^(.*)/") or "."
package.path = here .. "/?.lua;" .. package.path
local harness = require "harness"
local json = require "moonlet.json"
local ml = require "moonlet"
local cases = require "module_cases"
local test, expect = harness.test, harness.expect

local TOLERANCE = 2e-6

-- Where the running case computes.
local device = "cpu"

local function near(got, wanted, what)
  local y = cases.decode(wanted)
  expect.equal(tostring(got.shape), tostring(y.shape), what)
  if not got:is_floating_point() then
    return expect.equal(got:reshape(-1):totable(), y:reshape(-1):totable(), what)
  end
  local a, b = got:detach():cpu():double():reshape(-1):totable(), y:reshape(-1):totable()
  for i = 1, #b do
    local fine = a[i] == b[i] or math.abs(a[i] - b[i]) <= TOLERANCE * (1 + math.abs(b[i]))
    if not fine then error(("%s: element %d is %.9g, wanted %.9g"):format(what, i, a[i], b[i]), 0) end
  end
end

-- The sum of all results that are floating, each element times the cosine of its number.
local function objective(outputs)
  local total
  for _, y in ipairs(outputs) do
    if y:is_floating_point() then
      local factors = ml.arange(y:numel()):double():cos():reshape(y.shape):to { device = y.device }
      local part = (y * factors):sum()
      total = total and total + part or part
    end
  end
  return total
end

local function check_state(net, case)
  local own = net:state_dict()
  for name, value in pairs(case.state) do
    expect.truthy(own[name], name)
    expect.equal(tostring(own[name].shape), tostring(cases.decode(value).shape), name)
  end
  for name in pairs(own) do expect.truthy(case.state[name], "not in PyTorch: " .. name) end
end

local function check(case)
  local net = cases.build(case, device)
  check_state(net, case)
  local arguments, leaves = cases.arguments(case, device)
  local outputs = cases.flat({}, net(table.unpack(arguments)))
  expect.equal(#outputs, #case.outputs, "results")
  for i, wanted in ipairs(case.outputs) do near(outputs[i], wanted, "result " .. i) end
  local loss = objective(outputs)
  if loss and loss.requires_grad then loss:backward() end
  for i, wanted in ipairs(case.grads) do
    if wanted ~= json.null then near(leaves[i].grad, wanted, "gradient of input " .. i) end
  end
  for name, wanted in pairs(case.parameter_grads) do
    near(net:get_parameter(name).grad, wanted, "gradient of " .. name)
  end
  for name, wanted in pairs(case.after) do near(net:state_dict()[name], wanted, name .. " after") end
end

local seen, count = {}, 0
for i, case in ipairs(cases.read()) do
  if not seen[case.class] then seen[case.class], count = true, count + 1 end
  for _, place in ipairs(ml.cuda.is_available() and { "cpu", "cuda" } or { "cpu" }) do
    test(("%s, case %d, %s"):format(case.class, i, place), function()
      device = place
      check(case)
    end)
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
