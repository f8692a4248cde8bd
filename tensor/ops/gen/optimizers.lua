-- tensor/ops/gen/optimizers.lua: reads the rows of tensor/functors/optimizers.lua: the signature of
-- each op, and its update as C++.

local source = require "tensor.functors.optimizers"

local optimizers = { rows = source.rows }

-- The functions of an update, and those of tensor/functors/optim_math-inl.h that they become; the
-- standard library has them as ops (stdlib/optim/expressions.lua).
local FUNCTIONS = {
  abs = "vabs", clamp = "clamp_value", detach = "", gt = "gt_value<V>", lerp = "lerp_value",
  lt = "lt_value<V>", maximum = "maximum_value", ratio = "ratio_value<V>", sign = "sign_value",
  sqrt = "root_value", where = "where_value<V>",
}

local function fail(row, format, ...)
  error(("tensor/functors/optimizers.lua: %s: "):format(row.name) .. format:format(...), 0)
end

-- The arguments of an op after its lists: { name, default, flag }.
local function arguments_of(row)
  local out = {}
  for _, list in ipairs { row.arguments, source.common_arguments } do
    for _, text in ipairs(list) do
      local name, default = text:match "^([%a_][%w_]*)=(.+)$"
      out[#out + 1] = { name = name or text, default = default,
        flag = default == "true" or default == "false" }
    end
  end
  return out
end

-- The names that an update may use: what each of them is.
local function names_of(row)
  local out = { x = "element", g = "element" }
  for _, state in ipairs(row.states) do out[state[1]] = state.option and "optional" or "element" end
  for _, arg in ipairs(arguments_of(row)) do out[arg.name] = arg.flag and "flag" or "number" end
  return out
end

-- An expression of an update as C++. Numbers begin with a digit and have no exponent.
local function expression(row, text, names, used)
  local rest = text:gsub("[%a_][%w_]*", ""):gsub("%d+%.?%d*", ""):gsub("[-+*/(), ]", "")
  if rest ~= "" then fail(row, "cannot read '%s' in: %s", rest, text) end
  text = text:gsub("%f[%w_.]%d+%.?%d*", "Number{%0}")
  return (text:gsub("%f[%w_]([%a_][%w_]*)(%s*%(?)", function(name, after)
    if name == "Number" then return nil end
    if after:find "%(" then
      return (FUNCTIONS[name] or fail(row, "there is no function '%s': %s", name, text)) .. after
    end
    if not names[name] then fail(row, "'%s' is no argument, state or local: %s", name, text) end
    used[name] = true
    return nil
  end))
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
    value = expression(row, value, names, used)
    names[target] = "element"
    return ("V %s = %s;"):format(target, value)
  end
  target, value = line:match "^([%a_][%w_]*) = (.+)$"
  local kind = target and names[target]
  if kind ~= "element" and kind ~= "optional" then fail(row, "cannot read the line: %s", line) end
  used[target] = true
  return ("%s = %s;"):format(target, expression(row, value, names, used))
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

--- The numbers and flags of a row's op.
---@param row table
---@return table[]
function optimizers.arguments(row) return arguments_of(row) end

--- The row of the op table that is made of an optimiser's.
---@param row table
---@return table
function optimizers.op(row)
  local parts, values = {}, {}
  for i, state in ipairs(row.states) do
    parts[i] = ("Tensor%s[]! %s"):format(state.option and "?" or "", state[1])
    values[i] = "{ones(3, 4), ones(5)}"
  end
  for _, arg in ipairs(arguments_of(row)) do
    parts[#parts + 1] = ("%s %s%s"):format(arg.flag and "bool" or "float", arg.name,
      arg.default and "=" .. arg.default or "")
  end
  local two = "{randn(3, 4), randn(5)}"
  return { ("%s_step(Tensor[]! x, Tensor[] gradient, %s) -> ()"):format(row.name, table.concat(parts, ", ")),
    vmap = "all", kind = "structured", dtypes = "floating", internal = true,
    doc = row.doc .. " All lists are as long as `x`, and each tensor is of the shape of its parameter.",
    sample = { ("%s, %s, %s, %s"):format(two, two, table.concat(values, ", "), row.sample) },
    check = { value = "changes its arguments; optimizers_test compares ten steps with PyTorch" } }
end

return optimizers
