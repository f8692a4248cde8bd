-- tests/lua/module_case.lua: a class of nn with PyTorch's state, as tests/reference/make_modules.py
-- writes it: builds it, and compares its state, results and gradients.

local expect = require("harness").expect
local json = require "moonlet.json"
local ml = require "moonlet"
local nn = ml.nn

local TOLERANCE = 2e-6
local SPECIAL = { inf = math.huge, ["-inf"] = -math.huge, nan = 0 / 0 }

local function is_tensor(value) return type(value) == "table" and value.shape ~= nil and value.data end

-- Where the running case computes.
local device = "cpu"

-- A value of the file; tensors are made, float64 ones as leaves where `leaves` is given.
local function decode(value, leaves)
  if not is_tensor(value) then
    if value == json.null then return nil end
    if type(value) ~= "table" then return SPECIAL[value] or value end
    local out = {}
    for key, item in pairs(value) do out[key] = decode(item, leaves) end
    return out
  end
  local data = {}
  for i, number in ipairs(value.data) do data[i] = SPECIAL[number] or number end
  local x = ml.tensor(data, { dtype = value.dtype == "bool" and "int64" or value.dtype })
    :reshape(value.shape)
  if value.dtype == "bool" then x = x:eq(1) end
  x = x:to { device = device }
  if leaves and value.dtype == "float64" and not value.fixed then
    x:requires_grad_(true)
    leaves[#leaves + 1] = x
  end
  return x
end

-- The leaves come in the order of the arguments.
local function decode_list(list, leaves)
  local out = {}
  for i, value in ipairs(list) do
    if type(value) == "table" and not is_tensor(value) then
      out[i] = decode_list(value, leaves)
    else
      out[i] = decode(value, leaves)
    end
  end
  return out
end

local function flat(out, ...)
  for i = 1, select("#", ...) do
    local value = select(i, ...)
    if ml.is_tensor(value) then
      out[#out + 1] = value
    elseif type(value) == "table" then
      flat(out, table.unpack(value))
    end
  end
  return out
end

local function near(got, wanted, what)
  local y = decode(wanted)
  expect.equal(tostring(got.shape), tostring(y.shape), what)
  if not got:is_floating_point() then
    return expect.equal(got:reshape(-1):totable(), y:reshape(-1):totable(), what)
  end
  local a, b = got:detach():cpu():double():reshape(-1):totable(), y:reshape(-1):totable()
  for i = 1, #b do
    local fine = a[i] == b[i] or a[i] ~= a[i] and b[i] ~= b[i]
      or math.abs(a[i] - b[i]) <= TOLERANCE * (1 + math.abs(b[i]))
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
  local own, state = net:state_dict(), {}
  for name, value in pairs(case.state) do
    state[name] = decode(value)
    expect.truthy(own[name], name)
    expect.equal(tostring(own[name].shape), tostring(state[name].shape), name)
  end
  for name in pairs(own) do expect.truthy(state[name], "not in PyTorch: " .. name) end
  net:load_state_dict(state)
end

local function build(case)
  local arguments = decode_list(case.args)
  local options = decode(case.options)
  if next(options) ~= nil then arguments[#arguments + 1] = options end
  local net = nn[case.class](table.unpack(arguments)):double():to(device)
  check_state(net, case)
  if case.eval then net:eval() end
  return net
end

local function arguments_of(case, leaves)
  local arguments = decode_list(case.inputs, leaves)
  local named = decode(case.named)
  if named.output_size then
    arguments[#arguments + 1] = named.output_size
  elseif next(named) ~= nil then
    arguments[#arguments + 1] = named
  end
  return arguments
end

--- Fails where a call with PyTorch's names gives other results than one by position.
local function check_names(case)
  device = "cpu"
  local arguments, named = arguments_of(case), {}
  for name, value in pairs(decode(case.named)) do named[name] = value end
  for i, name in ipairs(case.names) do named[name] = arguments[i] end
  local by_position = flat({}, build(case)(table.unpack(arguments)))
  local by_name = flat({}, build(case)(named))
  expect.equal(#by_name, #by_position, "results")
  for i, y in ipairs(by_position) do
    expect.truthy(ml.equal(by_name[i], y), ("result %d by name"):format(i))
  end
end

--- Fails where the case comes out otherwise on the device.
local function check(case, on)
  device = on
  local net, leaves = build(case), {}
  local outputs = flat({}, net(table.unpack(arguments_of(case, leaves))))
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
