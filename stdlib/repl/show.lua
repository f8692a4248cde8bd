-- stdlib/repl/show.lua: results as the prompt shows them. Tables show what is in them: cycles are
-- marked, long and deep ones cut, tensors inside take one line.

local class = require "moonlet.class"
local ml = require "moonlet"
local numbers = require "moonlet.numbers"
local terminal = require "moonlet.terminal"

local getmetatable = debug.getmetatable  -- also where __metatable hides it

local WIDTH = 78
local MAX_DEPTH = 6
local MAX_ITEMS = 100   -- of the array in one table, or tensors of a state dict
local MAX_FIELDS = 50   -- of the other items in one table
local MAX_TOTAL = 1000  -- of all tables of a result
local LONG_STRING = 200

local function is_name(key)
  return type(key) == "string" and key:find "^[%a_][%w_]*$" ~= nil
end

-- A string between quotes, one line of valid UTF-8.
local function quoted(text)
  local cut = #text > LONG_STRING
  local shown = cut and text:sub(1, LONG_STRING) or text
  if cut then shown = shown:gsub("[\xC0-\xFF][\x80-\xBF]*$", "") end
  local is_text = utf8.len(shown)
  shown = shown:gsub('[%c"\\]', function(c)
    local known = ({ ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r" })[c]
    if known then return known end
    return c:find "%c" and ("\\%03d"):format(c:byte()) or "\\" .. c
  end)
  if not is_text then
    shown = shown:gsub("[\x80-\xFF]", function(c) return ("\\x%02X"):format(c:byte()) end)
  end
  return '"' .. shown .. '"' .. (cut and (" ... (%d bytes)"):format(#text) or "")
end

-- "0.weight" before "10.weight": digits compare as numbers.
local function natural(text)
  return (text:gsub("%d+", function(digits) return ("0"):rep(20 - #digits) .. digits end))
end

local ORDER = { number = 1, string = 2, boolean = 3 }

local function sort_keys(keys)
  local MAX_SORTED = 10000
  if #keys > MAX_SORTED then return end
  local name = {}
  for _, key in ipairs(keys) do
    name[key] = type(key) == "string" and natural(key) or type(key) ~= "number" and tostring(key)
  end
  table.sort(keys, function(a, b)
    local left, right = ORDER[type(a)] or 4, ORDER[type(b)] or 4
    if left ~= right then return left < right end
    if type(a) == "number" then return a < b end
    return name[a] < name[b]
  end)
end

-- --- tensors ----------------------------------------------------------------------------------

local function tensor_line(x)
  local FEW = 8
  local ok, line = pcall(function()
    if x.device ~= "cpu" or x.ndim > 1 or x:numel() > FEW then
      return ("Tensor %s %s%s%s"):format(x.shape, x.dtype,
        x.device ~= "cpu" and " " .. tostring(x.device) or "",
        x.requires_grad and " requires_grad" or "")
    end
    return (tostring(x):gsub("\n", "  "))
  end)
  return ok and line or "Tensor (freed)"
end

-- Whether a table has tensors by name and nothing else, as state dicts do.
local function is_state_dict(value)
  for key, item in next, value do
    if type(key) ~= "string" or not ml.is_tensor(item) then return false end
  end
  return next(value) ~= nil
end

local function tensor_row(name, x)
  local ok, shape, dtype, note = pcall(function()
    local device = tostring(x.device)
    local single = x.ndim == 0 and device == "cpu" and tostring(x):match "^%S+"
    return tostring(x.shape), tostring(x.dtype), single or device ~= "cpu" and device or ""
  end)
  if not ok then return { name, "freed", "", "" } end
  return { name, shape, dtype, note }
end

-- The lines of a table of tensors by name: name, shape, dtype, and the value of a single element
-- or the device when it is not the CPU.
local function state_lines(value, with_head)
  local keys, rows, widths = {}, {}, {}
  for key in next, value do keys[#keys + 1] = key end
  sort_keys(keys)
  if with_head then rows[1] = { "name", "shape", "dtype", "" } end
  for i = 1, math.min(#keys, MAX_ITEMS) do
    local name = keys[i]:find "^[%w_./-]+$" and keys[i] or quoted(keys[i])
    rows[#rows + 1] = tensor_row(name, value[keys[i]])
  end
  for _, row in ipairs(rows) do
    for c, cell in ipairs(row) do widths[c] = math.max(widths[c] or 0, terminal.width_of(cell)) end
  end
  for i, row in ipairs(rows) do
    for c, cell in ipairs(row) do row[c] = terminal.pad(cell, widths[c]) end
    rows[i] = table.concat(row, "  "):gsub("%s+$", "")
  end
  if #keys > MAX_ITEMS then rows[#rows + 1] = ("... %d more"):format(#keys - MAX_ITEMS) end
  return rows
end

-- --- tables -----------------------------------------------------------------------------------

local render

-- The lines of items between braces: on one line when they fit, side by side when all are short
-- values of the array part, else one each.
local function braces(name, items, indent, plain)
  local width, multiline = #name + 2 + indent, false
  for _, item in ipairs(items) do
    width = width + terminal.width_of(item) + 2
    multiline = multiline or item:find("\n", 1, true) ~= nil
  end
  if not multiline and width <= WIDTH then
    return name .. "{" .. table.concat(items, ", ") .. "}"
  end
  local pad = (" "):rep(indent + 2)
  local lines, line = { name .. "{" }, ""
  for _, item in ipairs(items) do
    if not plain or line == "" then
      if line ~= "" then lines[#lines + 1] = pad .. line end
      line = item .. ","
    elseif indent + 4 + terminal.width_of(line) + terminal.width_of(item) > WIDTH then
      lines[#lines + 1] = pad .. line
      line = item .. ","
    else
      line = line .. " " .. item .. ","
    end
  end
  lines[#lines + 1] = pad .. line:gsub(",$", "")
  lines[#lines + 1] = (" "):rep(indent) .. "}"
  return table.concat(lines, "\n")
end

local function key_text(key, state)
  if is_name(key) then return key end
  if type(key) == "string" then return "[" .. quoted(key) .. "]" end
  return "[" .. render(key, state, MAX_DEPTH, 0) .. "]"
end

-- How many more items of `wanted` may be shown.
local function allowed(state, wanted, most)
  local count = math.min(wanted, most, math.max(state.left, 0))
  state.left = state.left - count
  return count
end

local function table_items(value, state, depth, indent)
  local items, plain, length = {}, true, rawlen(value)
  local shown = allowed(state, length, MAX_ITEMS)
  for i = 1, shown do
    local item = rawget(value, i)
    plain = plain and type(item) ~= "table" and type(item) ~= "userdata"
    items[i] = render(item, state, depth + 1, indent + 2)
  end
  if shown < length then items[#items + 1] = ("... %d more"):format(length - shown) end
  local keys = {}
  for key in next, value do
    local listed = math.type(key) == "integer" and key >= 1 and key <= length
    if not listed then keys[#keys + 1] = key end
  end
  sort_keys(keys)
  shown = allowed(state, #keys, MAX_FIELDS)
  for i = 1, shown do
    local item = render(rawget(value, keys[i]), state, depth + 1, indent + 2)
    items[#items + 1] = key_text(keys[i], state) .. " = " .. item
  end
  if shown < #keys then items[#items + 1] = ("... %d more"):format(#keys - shown) end
  return items, plain and #keys == 0
end

local function render_table(value, state, depth, indent)
  local meta = getmetatable(value)
  local name = meta and rawget(meta, "__name")
  name = type(name) == "string" and name .. " " or ""
  if state.above[value] then return name .. "<cycle>" end
  if next(value) == nil then return name .. "{}" end
  if depth > MAX_DEPTH then return name .. "{...}" end
  if not meta and is_state_dict(value) then
    local lines = state_lines(value, depth == 1)
    if depth == 1 then return table.concat(lines, "\n") end
    local pad = "\n" .. (" "):rep(indent + 2)
    return "{" .. pad .. table.concat(lines, pad) .. "\n" .. (" "):rep(indent) .. "}"
  end
  state.above[value] = true
  local items, plain = table_items(value, state, depth, indent)
  state.above[value] = nil
  return braces(name, items, indent, plain)
end

-- One line of an object's own text, for objects inside tables.
local function first_line(value)
  local ok, text = pcall(tostring, value)
  if not ok then return "<an error in its __tostring>" end
  local line, more = text:match "^([^\n]*)\n?(.?)"
  if more == "" then return line end
  line = line:match "^(.-)%s%s" or line  -- without the counts that networks show at the right
  return line:find "%($" and line .. "...)" or line .. " ..."
end

function render(value, state, depth, indent)
  local kind = type(value)
  if kind == "string" then return depth == 0 and value or quoted(value) end
  local meta = kind == "table" and getmetatable(value)
  local has_text = kind ~= "table" or meta and rawget(meta, "__tostring") ~= nil
  if depth == 0 then
    return has_text and tostring(value) or render_table(value, state, 1, indent)
  elseif ml.is_tensor(value) then
    return tensor_line(value)
  elseif class.is_class(value) then
    return "class " .. class.name(value)
  end
  return has_text and first_line(value) or render_table(value, state, depth, indent)
end

--- The texts of results: side by side when all are short, else below each other.
---@param ... any
---@return string
return numbers.wrap(function(...)
  local texts, separator = {}, "\t"
  for i = 1, select("#", ...) do
    texts[i] = render((select(i, ...)), { above = {}, left = MAX_TOTAL }, 0, 0)
    if texts[i]:find("\n", 1, true) then separator = "\n" end
  end
  return table.concat(texts, separator)
end)
