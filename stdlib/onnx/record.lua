-- stdlib/onnx/record.lua: the runs of a model that is exported: at several sizes of its dynamic
-- axes, and of what follows from elements, brought together as one run.

local ml = require "moonlet"
local options = require "moonlet.options"
local sizes = require "moonlet.onnx.sizes"
local trace = require "moonlet.onnx.trace"
local translations = require "moonlet.onnx.write"
local fail = options.fail

local record = {}

-- --- dynamic axes -----------------------------------------------------------------------------

-- { { input, axis, name }, .. } of the option dynamic_axes: for each name of an input or output a
-- list of axes, or a table of names by axis.
function record.axes(given, input_names, output_names, inputs)
  local places, out, names = {}, {}, {}
  for i, name in ipairs(input_names) do places[name] = i end
  for _, name in ipairs(output_names) do places[name] = places[name] or false end
  for name, axes in pairs(given or {}) do
    if places[name] == nil then
      fail("onnx.export: 'dynamic_axes' names '%s', which is neither an input nor an output",
        tostring(name))
    end
    if type(axes) ~= "table" then
      fail("onnx.export: 'dynamic_axes' of '%s' must be a list of axes, or a table of names by "
        .. "axis",
        name)
    end
    local list = type(axes[1]) == "number"
    for axis, label in pairs(axes) do
      if list then axis, label = label, ("%s_axis_%s"):format(name, tostring(label)) end
      local input = places[name] and inputs[places[name]]
      local rank = input and input.ndim
      if type(axis) == "number" and axis < 0 and rank then axis = axis + rank + 1 end
      if math.type(axis) ~= "integer" or axis < 1 or rank and axis > rank
          or type(label) ~= "string" then
        fail("onnx.export: 'dynamic_axes' of '%s': axes are dimensions from 1%s, with names",
          name, rank and " to " .. rank or "")
      end
      if input then
        out[#out + 1] = { input = places[name], axis = axis, name = label }
      else
        names[name .. "\0" .. axis] = label
      end
    end
  end
  table.sort(out, function(a, b)
    if a.input ~= b.input then return a.input < b.input end
    return a.axis < b.axis
  end)
  return out, names
end

-- { { name, size, places }, .. }: axes of one name have one size.
function record.symbols(axes, inputs)
  local symbols, by_name = {}, {}
  for _, axis in ipairs(axes) do
    local size = inputs[axis.input].shape[axis.axis]
    local symbol = by_name[axis.name]
    if not symbol then
      symbol = { name = axis.name, size = size, places = {} }
      by_name[axis.name], symbols[#symbols + 1] = symbol, symbol
    elseif symbol.size ~= size then
      fail("onnx.export: the axis '%s' has %d and %d elements in the arguments", axis.name,
        symbol.size, size)
    end
    if size == 0 then fail("onnx.export: the axis '%s' has no elements", axis.name) end
    table.insert(symbol.places, axis)
  end
  return symbols
end

-- A tensor of another size along a dimension: its entries over and over.
local function resized(tensor, dim, size)
  local old = tensor.shape[dim]
  local positions = ml.arange(0, size - 1):remainder(old):add(1):to "int64"
  return tensor:index_select(dim, positions:to(tensor.device))
end

-- The sizes of all symbols in each run: as given, one changed at a time, all changed.
local function plans(symbols, sign)
  local out = { {} }
  for i, symbol in ipairs(symbols) do out[1][i] = symbol.size end
  if #symbols == 0 then return out end
  local function moved(i, far)
    local size = symbols[i].size
    local step = sign > 0 and (2 * i + 1 + (far and 2 * #symbols + 2 or 0)) or -(far and 2 or 1)
    return math.max(size + step, 1)
  end
  for i in ipairs(symbols) do
    local plan = table.move(out[1], 1, #symbols, 1, {})
    plan[i] = moved(i)
    out[#out + 1] = plan
  end
  local all = {}
  for i in ipairs(symbols) do all[i] = moved(i, true) end
  out[#out + 1] = all
  return out
end

-- The arguments with the tensors replaced by those of `inputs`, in their order.
local function rebuilt(thing, inputs, at)
  if ml.is_tensor(thing) then
    at[1] = at[1] + 1
    return inputs[at[1]]
  elseif type(thing) ~= "table" or getmetatable(thing) then
    return thing
  end
  local out = {}
  for key, item in pairs(thing) do out[key] = item end
  for i, item in ipairs(thing) do out[i] = rebuilt(item, inputs, at) end
  return out
end

local function run_at(model, arguments, inputs, symbols, plan, extra)
  local tensors = {}
  for i, tensor in ipairs(inputs) do tensors[i] = tensor:detach():clone() end
  for k, symbol in ipairs(symbols) do
    for _, place in ipairs(symbol.places) do
      if plan[k] ~= symbol.size then
        tensors[place.input] = resized(tensors[place.input], place.axis, plan[k])
      end
    end
  end
  local at, given = { 0 }, { n = arguments.n }
  for i = 1, arguments.n do given[i] = rebuilt(arguments[i], tensors, at) end
  return trace.run(model, given, translations, extra)
end

-- How many entries more the results get whose size follows from elements, in each further run: one
-- at a time, then all; all at once where there are many.
local function extras(count)
  local out = {}
  local function all(step)
    local extra = {}
    for i = 1, count do extra[i] = step * i + step - 1 end
    out[#out + 1] = extra
  end
  if count > 8 then all(1) end
  for i = 1, count <= 8 and count or 0 do out[i] = { [i] = 2 } end
  if count > 1 then all(2) end
  return out
end

local function failed(what, problem)
  if type(problem) == "string" and problem:find "onnx%.export: " then error(problem, 0) end
  fail("onnx.export: the model does not run at another %s: %s", what, tostring(problem))
end

-- Where a mask or the like says how many entries there are, the graph is for any number of them.
local function run_resized(runs, model, arguments, inputs, symbols)
  for _, extra in ipairs(extras(#runs[1].sized)) do
    local ok, result = pcall(run_at, model, arguments, inputs, symbols, plans(symbols, 1)[1], extra)
    if not ok then failed("number of elements that a mask or the like chooses", result) end
    runs[#runs + 1] = result
  end
end

-- A model may have no room for more than it was given (as a table of positions has): then less.
function record.run(model, arguments, inputs, symbols)
  local first = run_at(model, arguments, inputs, symbols, plans(symbols, 1)[1])
  local problem
  for _, sign in ipairs { 1, -1 } do
    local runs = { first }
    local ok, message = pcall(function()
      for i, plan in ipairs(plans(symbols, sign)) do
        if i > 1 then runs[i] = run_at(model, arguments, inputs, symbols, plan) end
      end
    end)
    if ok then
      run_resized(runs, model, arguments, inputs, symbols)
      return sizes.merge(runs)
    end
    problem = problem or message
    if type(message) == "string" and message:find "onnx%.export: " then break end
    for _, symbol in ipairs(symbols) do
      if symbol.size == 1 then failed("size of its dynamic axes", problem) end
    end
  end
  failed("size of its dynamic axes", problem)
end

return record
