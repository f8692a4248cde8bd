-- stdlib/repl/names.lua: a module as text: all its names, also those that are loaded when they are
-- first used.

local ml = require "moonlet"

local names_of = {}

local WIDTH = 78

-- The public names of a module, sorted; `late` are those that it has besides.
local function list(module, late)
  local names, seen = {}, {}
  for _, from in ipairs { module, late or {} } do
    for name in next, from do
      if type(name) == "string" and not name:find "^_" and not seen[name] then
        seen[name] = true
        names[#names + 1] = name
      end
    end
  end
  table.sort(names)
  return names
end

-- In as many columns as fit, from above to below.
local function in_columns(names)
  local widest = 0
  for _, name in ipairs(names) do widest = math.max(widest, #name) end
  local columns = math.max(1, (WIDTH - 2 + 2) // (widest + 2))
  local rows = (#names + columns - 1) // columns
  local lines = {}
  for row = 1, rows do
    local cells = {}
    for i = row, #names, rows do
      cells[#cells + 1] = names[i] .. (" "):rep(widest - #names[i])
    end
    lines[row] = ("  " .. table.concat(cells, "  ")):gsub("%s+$", "")
  end
  return table.concat(lines, "\n")
end

--- The text that `tostring` gives of a module.
---@param name string
---@param module table
---@param late? table<string, any>
---@return string
function names_of.text(name, module, late)
  local names = list(module, late)
  local head = ("module %s: %d name%s"):format(name, #names, #names == 1 and "" or "s")
  return #names == 0 and head or head .. "\n" .. in_columns(names)
end

--- The names that `ml` has when they are first used, but modules that the library keeps to itself,
--- of which the reference has no text.
---@return table<string, any>
function names_of.late()
  local by_name, late = require("moonlet.help.index").by_name, ml._late()
  for name in pairs(late) do
    if not by_name[name] then late[name] = nil end
  end
  return late
end

--- The text that `tostring` gives of `ml`.
---@return string
function names_of.text_of_all() return names_of.text("moonlet", ml, names_of.late()) end

return names_of
