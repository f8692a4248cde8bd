-- tensor/ops/gen/optimizers.lua: reads the rows of tensor/functors/optimizers.lua: the signatures of
-- their ops, and their numbers and updates as C++.

local source = require "tensor.functors.optimizers"

local optimizers = { rows = source.rows }

-- The functions of an update, and those of tensor/functors/optim_math-inl.h that they become; the
-- standard library has them as ops (stdlib/optim/expressions.lua).
local FUNCTIONS = {
  abs = "vabs", clamp = "clamp_value", detach = "", gt = "gt_value<V>", lerp = "lerp_value",
  lt = "lt_value<V>", maximum = "maximum_value", ratio = "ratio_value<V>", sign = "sign_value",
  sqrt = "root_value", where = "where_value<V>",
}
-- Those of the numbers of a step, which are doubles (tensor/functors/optim_number.h).
local NUMBER_FUNCTIONS = { gt = "is_above", maximum = "larger", pow = "fn::vpow", sqrt = "fn::vsqrt",
  where = "fn::select" }

local function fail(row, format, ...)
  error(("tensor/functors/optimizers.lua: %s: "):format(row.name) .. format:format(...), 0)
end

-- The names that an update may use: what each of them is.
local function names_of(row)
  local out = { x = "element", g = "element" }
  for _, state in ipairs(row.states) do out[state[1]] = state.option and "optional" or "element" end
  for _, arg in ipairs(source.arguments(row)) do out[arg.name] = arg.flag and "flag" or "number" end
  return out
end

-- An expression as C++: the functions that it may call, and how its numbers are written, which begin
-- with a digit and have no exponent.
local function expression(row, text, names, used, functions, number)
  local rest = text:gsub("[%a_][%w_]*", ""):gsub("%d+%.?%d*", ""):gsub("[-+*/(), ]", "")
  if rest ~= "" then fail(row, "cannot read '%s' in: %s", rest, text) end
  text = text:gsub("%f[%w_.]%d+%.?%d*", number)
  return (text:gsub("%f[%w_]([%a_][%w_]*)(%s*%(?)", function(name, after)
    if name == "Number" then return nil end
    if after:find "%(" then
      return (functions[name] or fail(row, "there is no function '%s': %s", name, text)) .. after
    end
    if not names[name] then fail(row, "'%s' is no argument, state or local: %s", name, text) end
    used[name] = true
    return nil
  end))
end

-- One of an update.
local function update_expression(row, text, names, used)
  return expression(row, text, names, used, FUNCTIONS, "Number{%0}")
end

-- What `if` asks, as C++.
local function condition(row, text, names, used)
  local name, number = text:match "^([%a_][%w_]*) ~= (%d+)$"
  name = name or text
  local kind = names[name]
  used[name] = true
  if number and kind == "number" then return ("%s != Number{%s}"):format(name, number) end
  if not number and kind == "flag" then return name end
  if not number and kind == "optional" then return "c.has_" .. name end
  return fail(row, "cannot ask 'if %s'", text)
end

-- A line of an update as C++.
local function statement(row, line, names, used)
  if line == "else" then return "} else {" end
  if line == "end" then return "}" end
  local asked = line:match "^if (.+) then$"
  if asked then return ("if (%s) {"):format(condition(row, asked, names, used)) end
  local target, value = line:match "^local ([%a_][%w_]*) = (.+)$"
  if target then
    value = update_expression(row, value, names, used)
    names[target] = "element"
    return ("V %s = %s;"):format(target, value)
  end
  target, value = line:match "^([%a_][%w_]*) = (.+)$"
  local kind = target and names[target]
  if kind ~= "element" and kind ~= "optional" then fail(row, "cannot read the line: %s", line) end
  used[target] = true
  return ("%s = %s;"):format(target, update_expression(row, value, names, used))
end

--- The lines of C++ of a row's update, and the names that they use.
---@param row table
---@return string[] lines
---@return table<string, boolean> used
function optimizers.update(row)
  local out, used, names, depth = {}, {}, names_of(row), 0
  for line in (source.common_update .. row.update):gmatch "%s*([^\n]*%S)" do
    local text = statement(row, line, names, used)
    if text:find "^}" then depth = depth - 1 end
    if depth < 0 then fail(row, "an 'end' without its 'if'") end
    out[#out + 1] = ("  "):rep(depth) .. text
    if text:find "{$" then depth = depth + 1 end
  end
  if depth ~= 0 then fail(row, "an 'if' without its 'end'") end
  return out, used
end

-- A number as a double.
local function double(text) return text:find("%.") and text or text .. ".0" end

-- A line of a row's numbers as C++.
local function number_statement(row, line, names, used)
  local plain = line:gsub("(%f[%w_][%a_][%w_]*)%[(%d+)%]", "%1%2")
  local target, value = plain:match "^local ([%a_][%w_]*) = (.+)$"
  if target then
    value = expression(row, value, names, used, NUMBER_FUNCTIONS, double)
    names[target] = "number"
    return ("const double %s = %s;"):format(target, value)
  end
  target, value = plain:match "^([%a_][%w_]*) = (.+)$"
  if not target then fail(row, "cannot read the line: %s", line) end
  if not names[target] then fail(row, "'%s' is no argument or count: %s", target, line) end
  used[target] = true
  return ("%s = %s;"):format(target, expression(row, value, names, used, NUMBER_FUNCTIONS, double))
end

--- The lines of C++ of a row's numbers, and the names that they use.
---@param row table
---@return string[] lines
---@return table<string, boolean> used
function optimizers.numbers(row)
  local out, used, names = {}, {}, {}
  for _, list in ipairs { source.given(row), source.arguments(row) } do
    for _, arg in ipairs(list) do names[arg.name] = not arg.flag and "number" or nil end
  end
  for _, name in ipairs(source.counted(row)) do names[name] = "number" end
  for line in row.numbers:gmatch "%s*([^\n]*%S)" do
    out[#out + 1] = number_statement(row, line, names, used)
  end
  return out, used
end

optimizers.arguments, optimizers.given, optimizers.counted = source.arguments, source.given, source.counted

-- The lists of tensors that both ops of a row begin with, as arguments and for their samples.
local function lists_of(row)
  local two = "{randn(3, 4), randn(5)}"
  local parts, values = { "Tensor[]! x", "Tensor[] gradient" }, { two, two }
  for _, state in ipairs(row.states) do
    parts[#parts + 1] = ("Tensor%s[]! %s"):format(state.option and "?" or "", state[1])
    values[#values + 1] = "{ones(3, 4), ones(5)}"
  end
  return parts, values
end

local function add_arguments(parts, arguments)
  for _, arg in ipairs(arguments) do
    local default = not arg.wanted and arg.default
    parts[#parts + 1] = ("%s %s%s"):format(arg.flag and "bool" or "float", arg.name,
      default and "=" .. default or "")
  end
end

local function op_of(name, parts, fields)
  fields[1] = ("%s(%s) -> ()"):format(name, table.concat(parts, ", "))
  fields.kind, fields.dtypes, fields.internal = "structured", "floating", true
  fields.check = { value = "changes its arguments; optimizers_test compares ten steps with PyTorch" }
  return fields
end

--- The row of the op table that is made of an optimiser's.
---@param row table
---@return table
function optimizers.op(row)
  local parts, values = lists_of(row)
  add_arguments(parts, source.arguments(row))
  return op_of(row.name .. "_step", parts, { vmap = "all",
    doc = row.doc .. " All lists are as long as `x`, and each tensor is of the shape of its parameter.",
    sample = { table.concat(values, ", ") .. ", " .. row.sample } })
end

--- The row of the op whose numbers and counts are on the device.
---@param row table
---@return table
function optimizers.capturable_op(row)
  local parts, values = lists_of(row)
  for _, name in ipairs(source.counted(row)) do
    parts[#parts + 1] = "Tensor[]! " .. name
    values[#values + 1] = "{zeros({}), ones(1)}"
  end
  parts[#parts + 1] = "Tensor?[] given"
  add_arguments(parts, source.given(row))
  parts[#parts + 1] = "Tensor? found_inf=nil"
  local plain, given, numbers = {}, {}, 0
  for _, arg in ipairs(source.given(row)) do
    if arg.wanted or not arg.default then plain[#plain + 1] = arg.default or "0.1" end
    if not arg.flag then numbers = numbers + 1 end
  end
  for i = 1, numbers do given[i] = i % 2 == 1 and "rand({})" or "rand(1)" end
  local lists, last = table.concat(values, ", "), table.concat(plain, ", ")
  return op_of(row.name .. "_capturable_step", parts, { mixed = true, vmap = "capturable_step",
    doc = ([[A step as `%s_step` makes it of the numbers that follow from those given here and from
what is counted of each parameter, which are tensors of one number on the device: the counts are those
before the step, and go on. `given` is empty, or has for each number after it a tensor that is taken
instead, or `false`. Where `found_inf`, a tensor of one float32, is not 0, nothing changes. A CUDA graph
of it is another step at each replay.]]):format(row.name),
    sample = { lists .. ", {}, " .. last, ("%s, {%s}, %s"):format(lists, table.concat(given, ", "), last) } })
end

return optimizers
