-- stdlib/optim/expressions.lua: the rows of the optimisers that step elementwise: how the numbers
-- of a step follow from options, what the core's ops take, and the update of a parameter by ops
-- that the tape can record. The core's ops are compiled from the same texts
-- (tensor/functors/optimizers.lua).

local ml = require "moonlet"
local numbers = require "moonlet.optim.numbers"
local optimizers = require "moonlet.optimizers"

local expressions = {}

-- What the texts call, of tensors and of numbers.
local FUNCTIONS = { sqrt = numbers.root }

function FUNCTIONS.abs(x) return x:abs() end
function FUNCTIONS.sign(x) return x:sign() end
function FUNCTIONS.detach(x) return x:detach() end
function FUNCTIONS.pow(x, power) return x ^ power end
function FUNCTIONS.ratio(x, divisor) return x / divisor end
function FUNCTIONS.clamp(x, least, most) return x:clamp(least, most) end

function FUNCTIONS.gt(a, b)
  if ml.is_tensor(a) then return a:gt(b) end
  return a > b
end

function FUNCTIONS.lt(a, b)
  if ml.is_tensor(a) then return a:lt(b) end
  return a < b
end

-- The weight may be a tensor of another dtype.
function FUNCTIONS.lerp(start, stop, weight)
  if ml.is_tensor(weight) then return start + (stop - start) * weight end
  return start:lerp(stop, weight)
end

function FUNCTIONS.maximum(a, b)
  if not ml.is_tensor(a) then return math.max(a, b) end
  if ml.is_tensor(b) then return ml.maximum(a, b) end
  return a:clamp { min = b }
end

function FUNCTIONS.where(condition, a, b)
  if type(condition) ~= "boolean" then return ml.where(condition, a, b) end
  if condition then return a end
  return b
end

-- What a text returns, which may call the functions above.
local function compiled(row, text)
  local names, values = {}, {}
  for name, f in pairs(FUNCTIONS) do
    table.insert(names, name)
    table.insert(values, f)
  end
  local source = ("local %s = ...\n%s"):format(table.concat(names, ", "), text)
  return assert(load(source, "=" .. row.name, "t", {}))(table.unpack(values))
end

-- The names in a text that are no function's, each once.
local function names_in(text)
  local names, seen = {}, { ["local"] = true }
  for name in text:gmatch "[%a_][%w_]*" do
    if not seen[name] and not FUNCTIONS[name] then table.insert(names, name) end
    seen[name] = true
  end
  return names
end

-- What a compiled step asks before each run: the numbers of a row, as `expressions.numbers` and
-- `expressions.arguments` give them, by locals alone, so that no table is made.
local ASKED = [[
return function(o, decoupled, before, now)
  local first, keep = false, 1
  local %s = %s
  weight_decay = weight_decay or 0
  if decoupled then weight_decay, keep = 0, 1 - lr * weight_decay end
  %s
  %s
  %s
  return %s
end]]

local function asked(row, source)
  local counted = {}
  for _, name in ipairs(row.counted) do counted[name] = true end
  local names, values, after = {}, {}, {}
  local text = ("lr weight_decay %s %s"):format(source.numbers, table.concat(row.arguments, " "))
  for _, name in ipairs(names_in(text)) do
    if name ~= "first" and name ~= "keep" and not counted[name] then
      table.insert(names, name)
      table.insert(values, "o." .. name)
    end
  end
  for _, name in ipairs(row.counted) do
    table.insert(names, name)
    table.insert(values, "before." .. name)
    table.insert(after, ("now.%s = %s"):format(name, name))
  end
  return ASKED:format(table.concat(names, ", "), table.concat(values, ", "),
    counted.step and "step = step + 1" or "", source.numbers, table.concat(after, "\n"),
    table.concat(row.arguments, ", "))
end

-- A text as a function of the table that all its names but those of functions are looked up in.
local function of_table(row, text)
  return compiled(row, ("return function(_ENV)\n%s\nend"):format(text))
end

local rows = {}

local function read(source)
  local row = { op = source.name .. "_step", capturable_op = source.name .. "_capturable_step",
    states = source.states, counted = optimizers.counted(source), given = optimizers.given(source),
    arguments = {}, initial = {} }
  for _, count in ipairs(source.counts or {}) do row.initial[count[1]] = count[2] end
  for i, arg in ipairs(optimizers.arguments(source)) do row.arguments[i] = arg.name end
  row.numbers = of_table(source, source.numbers)
  row.asked = compiled(source, asked(row, source))
  row.update = of_table(source, optimizers.common_update .. source.update .. "\nreturn x")
  return row
end

--- The row of that name: `op`, `capturable_op`, `states`, `counted` and `initial` (the names of
--- what is counted, and what they begin with), for the functions below `arguments`, `given`,
--- `numbers` and `update`, and
--- `asked(group, decoupled, counts, now)`: the numbers of the op in their order, for a group whose
--- options are no tensors; what is counted is put into `now`.
---@param name string
---@return table
function expressions.row(name)
  for _, source in ipairs(optimizers.rows) do
    if source.name == name and not rows[name] then rows[name] = read(source) end
  end
  return rows[name] or error("no row " .. name)
end

--- The numbers of the next step, by name, with what is counted as it is after it. Options and
--- counts may be tensors.
---@param row table
---@param o table options, as numbers.options makes them
---@param before table<string, number|Tensor> the counts
---@param first? boolean whether the states are new
---@return table<string, any>
function expressions.numbers(row, o, before, first)
  local now = { first = first or false, weight_decay = o.weight_decay or 0, keep = 1 }
  if o.decoupled then now.weight_decay, now.keep = 0, 1 - o.lr * now.weight_decay end
  for _, name in ipairs(row.counted) do now[name] = before[name] end
  if now.step then now.step = now.step + 1 end
  row.numbers(setmetatable(now, { __index = o }))
  return now
end

--- The arguments of the op of a row.
---@param row table
---@param x Tensor[]
---@param gradient Tensor[]
---@param states table<string, Tensor[]> those that are used
---@param now table what expressions.numbers gives
---@return ...
function expressions.arguments(row, x, gradient, states, now)
  local out, names, kept = { x, gradient }, row.arguments, row.states
  for i = 1, #kept do out[2 + i] = states[kept[i][1]] or {} end
  for i = 1, #names do out[2 + #kept + i] = now[names[i]] end
  return table.unpack(out)
end

--- The arguments of the op of a row whose counts and options are on the device.
---@param row table
---@param x Tensor[]
---@param gradient Tensor[]
---@param states table<string, Tensor[]> those that are used
---@param counts table<string, Tensor[]>
---@param o table options, as numbers.options makes them; those that are tensors may change later
---@param first? boolean whether the states are new
---@param found_inf? Tensor not 0 where there is to be no step
---@return ...
function expressions.capturable_arguments(row, x, gradient, states, counts, o, first, found_inf)
  local out, given, values, tensors = { x, gradient }, {}, {}, false
  for _, state in ipairs(row.states) do out[#out + 1] = states[state[1]] or {} end
  for _, name in ipairs(row.counted) do out[#out + 1] = counts[name] end
  for i, arg in ipairs(row.given) do
    local value = o[arg.option]
    if arg.entry then value = value[arg.entry] end
    if arg.name == "first" then value = first end
    if not arg.flag then
      local is_tensor = ml.is_tensor(value)
      given[#given + 1] = is_tensor and value
      tensors, value = tensors or is_tensor, is_tensor and 0 or value or 0
    end
    values[i] = value or false
  end
  out[#out + 1] = tensors and given or {}
  table.move(values, 1, #values, #out + 1, out)
  out[#out + 1] = found_inf
  return table.unpack(out)
end

--- The parameter after a step; `states` are replaced by what they are then.
---@param row table
---@param x Tensor
---@param gradient Tensor
---@param states table<string, Tensor>
---@param now table what expressions.numbers gives
---@return Tensor
function expressions.update(row, x, gradient, states, now)
  states.x, states.g = x, gradient
  return row.update(setmetatable(states, { __index = now }))
end

return expressions
