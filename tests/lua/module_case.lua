-- tests/lua/module_case.lua: compares a class of nn with PyTorch's state, results and gradients, of a
-- case that tests/reference/make_modules.py writes and module_cases.lua builds.

local cases = require "module_cases"
local expect = require("harness").expect
local json = require "moonlet.json"
local ml = require "moonlet"
local flat = cases.flat

local TOLERANCE = 2e-6

local function near(got, wanted, what)
  local y = cases.decode(wanted)
  expect.equal(tostring(got.shape), tostring(y.shape), what)
  if not got:is_floating_point() then
    return expect.equal(got:reshape(-1):totable(), y:reshape(-1):totable(), what)
  end
  local a, b = got:detach():cpu():double():reshape(-1):totable(), y:reshape(-1):totable()
  for i = 1, #b do
    local fine = a[i] == b[i] or a[i] ~= a[i] and b[i] ~= b[i]
      or math.abs(a[i] - b[i]) <= TOLERANCE * (1 + math.abs(b[i]))
    if not fine then error(("%s: element %d is %.9g, expected %.9g"):format(what, i, a[i], b[i]), 0) end
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
  local own, state = net:state_dict(), {}
  for name, value in pairs(case.state) do
    state[name] = cases.decode(value)
    expect.truthy(own[name], name)
    expect.equal(tostring(own[name].shape), tostring(state[name].shape), name)
  end
  for name in pairs(own) do expect.truthy(state[name], "not in PyTorch: " .. name) end
end

--- Fails where a call with PyTorch's names gives other results than one by position.
local function check_names(case)
  local arguments, named = cases.arguments(case), {}
  for name, value in pairs(cases.decode(case.named)) do named[name] = value end
  for i, name in ipairs(case.names) do named[name] = arguments[i] end
  local by_position = flat({}, cases.build(case)(table.unpack(arguments)))
  local by_name = flat({}, cases.build(case)(named))
  expect.equal(#by_name, #by_position, "results")
  for i, y in ipairs(by_position) do
    expect.truthy(ml.equal(by_name[i], y), ("result %d by name"):format(i))
  end
end

--- Fails where the case comes out otherwise on the device.
local function check(case, device)
  local net = cases.build(case, device)
  check_state(net, case)
  local arguments, leaves = cases.arguments(case, device)
  local outputs = flat({}, net(table.unpack(arguments)))
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

return { check = check, check_names = check_names }
