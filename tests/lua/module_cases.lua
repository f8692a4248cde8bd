-- tests/lua/module_cases.lua: the cases of every class of nn that PyTorch's numbers are kept of
-- (tests/reference/values/modules.json): the layer with its state, and what it is called with.

local json = require "moonlet.json"
local ml = require "moonlet"
local system = require "moonlet.system"

local cases = {}

local here = debug.getinfo(1, "S").source:match "^@(.*)/[^/]*$" or "."
local SPECIAL = { inf = math.huge, ["-inf"] = -math.huge, nan = 0 / 0 }

--- All cases.
function cases.read()
  return json.decode(system.read_file(here .. "/../reference/values/modules.json"))
end

local function is_tensor(value) return type(value) == "table" and value.shape ~= nil and value.data end

--- A value of the file; tensors are made on `device`, float64 ones as leaves where `leaves` is given.
function cases.decode(value, leaves, device)
  if not is_tensor(value) then
    if value == json.null then return nil end
    if type(value) ~= "table" then return SPECIAL[value] or value end
    local out = {}
    for key, item in pairs(value) do out[key] = cases.decode(item, leaves, device) end
    return out
  end
  local data = {}
  for i, number in ipairs(value.data) do data[i] = SPECIAL[number] or number end
  local x = ml.tensor(data, { dtype = value.dtype == "bool" and "int64" or value.dtype })
    :reshape(value.shape)
  if value.dtype == "bool" then x = x:eq(1) end
  x = x:to { device = device or "cpu" }
  if leaves and value.dtype == "float64" and not value.fixed then
    x:requires_grad_(true)
    leaves[#leaves + 1] = x
  end
  return x
end

--- A list of values; the leaves come in the order of the arguments.
function cases.decode_list(list, leaves, device)
  local out = {}
  for i, value in ipairs(list) do
    if type(value) == "table" and not is_tensor(value) then
      out[i] = cases.decode_list(value, leaves, device)
    else
      out[i] = cases.decode(value, leaves, device)
    end
  end
  return out
end

--- The layer in float64 with the state of the case.
function cases.build(case, device)
  local arguments = cases.decode_list(case.args, nil, device)
  local options = cases.decode(case.options, nil, device)
  if next(options) ~= nil then arguments[#arguments + 1] = options end
  local net = ml.nn[case.class](table.unpack(arguments)):double():to(device or "cpu")
  local state = {}
  for name, value in pairs(case.state) do state[name] = cases.decode(value, nil, device) end
  net:load_state_dict(state)
  if case.eval then net:eval() end
  return net
end

--- The arguments of the call, and the leaves among them.
function cases.arguments(case, device)
  local leaves = {}
  local arguments = cases.decode_list(case.inputs, leaves, device)
  local named = cases.decode(case.named, nil, device)
  if named.output_size then
    arguments[#arguments + 1] = named.output_size
  elseif next(named) ~= nil then
    arguments[#arguments + 1] = named
  end
  return arguments, leaves
end

--- All tensors of results, which may be in tables.
function cases.flat(out, ...)
  for i = 1, select("#", ...) do
    local value = select(i, ...)
    if ml.is_tensor(value) then
      out[#out + 1] = value
    elseif type(value) == "table" then
      cases.flat(out, table.unpack(value))
    end
  end
  return out
end

return cases
