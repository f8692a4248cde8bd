-- stdlib/repl/locals.lua: locals of the prompt that last: those that a line declares outside of all
-- blocks are there in the lines after it, as if all were one block that ends with the prompt.

local scan = require "moonlet.repl.scan"

-- As they are now: a script may assign to the globals.
local load, getupvalue, upvaluejoin = load, debug.getupvalue, debug.upvaluejoin
local getmetatable = debug.getmetatable

local locals = {}

-- The variables that there are, by name: `holder`, a function that has the variable as its upvalue
-- number `index`, and `const`.
local known = {}

-- Values of `<close>` variables, in the order in which they came.
local to_close = {}

local OPENS = { ["function"] = true, ["do"] = true, ["if"] = true, ["repeat"] = true }
local CLOSES = { ["end"] = true, ["until"] = true }

-- Reads `NAME <attribute>, NAME ...` of a `local` at token `at` into the list.
local function read_names(tokens, at, declared)
  while tokens[at] do
    local item = { name = tokens[at].text }
    at = at + 1
    if tokens[at] and tokens[at].text == "<" then
      item.attribute, item.at = tokens[at + 1].text, tokens[at + 1].from
      at = at + 3
    end
    declared[#declared + 1] = item
    if not tokens[at] or tokens[at].text ~= "," then return end
    at = at + 1
  end
end

--- What a chunk that compiles declares outside of all blocks, `{ { name, attribute, at }, ... }`
--- with the position of the attribute; where its own `return` is, or nil; and all names in it.
---@param code string
---@return table[] declared
---@return integer? returns
---@return table<string, boolean> names
function locals.read(code)
  local tokens, declared, names, depth = scan.tokens(code), {}, {}, 0
  local returns
  for i, token in ipairs(tokens) do
    local text = token.text
    if OPENS[text] then
      depth = depth + 1
    elseif CLOSES[text] then
      depth = depth - 1
    elseif depth == 0 and text == "return" then
      returns = token.from
    elseif depth == 0 and text == "local" then
      local after = tokens[i + 1].text
      if after == "function" then
        declared[#declared + 1] = { name = tokens[i + 2].text }
      else
        read_names(tokens, i + 1, declared)
      end
    end
    if token.is_name then names[text] = true end
  end
  return declared, returns, names
end

-- `_` is where the prompt keeps the last result: a local of that name ends with its line.
local function is_kept(name) return name ~= "_" end

-- A holder of a variable that has no upvalue: a constant that the compiler knows.
local function hold(value)
  return function() return value end
end

-- Keeps the variables that `capture` returns, in the order of the list.
local function keep(list, capture)
  local index_of, i = {}, 1
  while true do
    local name = getupvalue(capture, i)
    if not name then break end
    index_of[name], i = i, i + 1
  end
  local values = table.pack(capture())
  for at, item in ipairs(list) do
    if item.attribute == "close" then
      local value = values[at]
      local meta = value and getmetatable(value)
      if value and not (type(meta) == "table" and rawget(meta, "__close") ~= nil) then
        error(("variable '%s' got a non-closable value"):format(item.name), 0)
      end
      if value then to_close[#to_close + 1] = value end
    end
  end
  for at, item in ipairs(list) do
    local index = index_of[item.name]
    known[item.name] = { holder = index and capture or hold(values[at]), index = index or 1,
      const = item.attribute ~= nil }
  end
end

-- The last declaration of each name; nil where one that is to be closed is hidden by another.
local function last_ones(declared)
  local list, position = {}, {}
  for _, item in ipairs(declared) do
    local at = position[item.name]
    if at and list[at].attribute == "close" then return nil end
    if not at and is_kept(item.name) then
      at = #list + 1
      position[item.name] = at
    end
    if at then list[at] = item end
  end
  return list
end

-- A name that is not in the code.
local function new_name(names)
  local name = "_keep"
  while names[name] do name = name .. "_" end
  return name
end

-- The code with `<close>` as `<const>`, which is as long: the prompt closes what is to be closed.
local function without_close(code, declared)
  for _, item in ipairs(declared) do
    if item.attribute == "close" and is_kept(item.name) then
      code = code:sub(1, item.at - 1) .. "const" .. code:sub(item.at + 5)
    end
  end
  return code
end

-- The code as the body of a function that has the known variables which it names as upvalues, and
-- calls `keep` for a list of what it declares before it ends.
local function wrapped(code, list, declared, returns, names)
  local before = {}
  for name in pairs(names) do
    if known[name] then before[#before + 1] = name .. (known[name].const and " <const>" or "") end
  end
  if #before == 0 and #list == 0 then return nil end
  table.sort(before)
  local keeper = new_name(names)
  table.insert(before, 1, keeper)
  if #list > 0 then
    local kept = {}
    for i, item in ipairs(list) do kept[i] = item.name end
    local call = (" %s(function() return %s end) "):format(keeper, table.concat(kept, ", "))
    code = without_close(code, declared)
    if returns then
      code = code:sub(1, returns - 1) .. call .. code:sub(returns)
    else
      code = code .. "\n" .. call
    end
  end
  return ("local %s = ... return function(...) %s\nend"):format(table.concat(before, ", "), code),
    keeper
end

--- The function to run for a chunk that compiles: with the locals of earlier lines, and keeping its
--- own, but where it jumps over the declaration of one. Nil when it has neither; nil and a message
--- when it assigns to a constant of earlier lines.
---@param code string
---@return function?
---@return string? message
function locals.bind(code)
  local declared, returns, names = locals.read(code)
  local list = last_ones(declared) or {}
  local text, keeper = wrapped(code, list, declared, returns, names)
  if not text then return nil end
  local make, message = load(text, "=stdin", "t")
  if not make and #list > 0 then
    text, keeper = wrapped(code, {}, declared, returns, names)
    if not text then return nil end
    make, message = load(text, "=stdin", "t")
  end
  if not make then return nil, message end
  local run = make(function(capture) keep(list, capture) end)
  local i = 1
  while true do
    local name = getupvalue(run, i)
    if not name then return run end
    local variable = known[name]
    if variable and name ~= keeper then upvaluejoin(run, i, variable.holder, variable.index) end
    i = i + 1
  end
end

--- The values of the locals that there are, by name.
---@return table<string, any>
function locals.values()
  local out = {}
  for name, variable in pairs(known) do
    local _, value = getupvalue(variable.holder, variable.index)
    out[name] = value
  end
  return out
end

--- Whether there is a local of that name.
---@param name string
---@return boolean
function locals.has(name) return known[name] ~= nil end

--- What ends the block that the prompt is: `<close>` variables end, the last one first.
locals.block = setmetatable({}, { __close = function()
  local failed, reason = false, nil
  for i = #to_close, 1, -1 do
    local value = to_close[i]
    to_close[i] = nil
    local ok, found = pcall(getmetatable(value).__close, value, reason)
    if not ok then failed, reason = true, found end
  end
  known = {}
  if failed then error(reason, 0) end
end })

return locals
