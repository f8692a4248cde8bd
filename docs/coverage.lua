-- docs/coverage.lua: writes docs/coverage.md, which says of each documented name of PyTorch whether
-- Moonlet has it, from docs/coverage.tsv and what this executable knows.
-- usage: moonlet docs/coverage.lua [SOURCE_FOLDER]
--
-- A line of the table, with tabs between, is: area, name, priority (P1 in most scripts, P2 regularly, P3 rarely, nothing
-- for what was there when priorities were given), here (where Moonlet has it when that is elsewhere:
-- "memory.empty_cache", "x:elu_"), why (what is left out of it, or why it is not there; "n/a: ..."
-- for what has no meaning here).

local ml = require "moonlet"

local coverage = {}

-- A field of a value that may raise an error for names it does not know.
local function field(value, name)
  local ok, found = pcall(function() return value[name] end)
  return ok and found or nil
end

local function of_tensor(name) return ml._methods[name] or ml._fields[name] end

local function at(path)
  local method = path:match "^x:(.*)$"
  if method then return of_tensor(method) end
  local value = ml
  for name in path:gmatch "[^.]+" do value = value and field(value, name) end
  return value
end

-- Where PyTorch's areas are.
local positions = {
  ["torch"] = function(name) return field(ml, name) end,
  ["torch.Tensor"] = of_tensor,
  ["torch.nn"] = function(name) return at("nn." .. name) end,
  ["torch.nn.Module"] = function(name)
    local found = at("nn.Module." .. name)
    if found ~= nil then return found end
    return at("nn").Linear(1, 1)[name] ~= nil or nil
  end,
  ["torch.nn.init"] = function(name) return at("nn.init." .. name) end,
  ["torch.nn.utils"] = function(name) return at("nn.utils." .. name) end,
  ["torch.nn.functional"] = function(name) return at("nn.functional." .. name) end,
  ["torch.linalg"] = function(name) return at("linalg." .. name) end,
  ["torch.fft"] = function(name) return at("fft." .. name) end,
  ["torch.special"] = function(name) return at("special." .. name) end,
  ["torch.random"] = function(name) return at("random." .. name) end,
  ["torch.autograd"] = function(name) return at("autograd." .. name) end,
  ["torch.func"] = function(name) return at("func." .. name) end,
  ["torch.distributions"] = function(name) return at("distributions." .. name) end,
  ["torch.optim"] = function(name) return at("optim." .. name) end,
  ["torch.optim.lr_scheduler"] = function(name) return at("optim.lr_scheduler." .. name) end,
  ["torch.amp"] = function(name) return at("amp." .. name) end,
  ["torch.onnx"] = function(name) return at("onnx." .. name) end,
  ["torch.utils.data"] = function(name) return at("data." .. name) end,
  ["torch.utils.tensorboard"] = function(name) return at("utils.tensorboard." .. name) end,
}

local function verdict(row)
  if row.why:find "^n/a: " then return "n/a", row.why:sub(6) end
  local found = row.here ~= "" and at(row.here) or row.here == "" and positions[row.area](row.name)
  if found == nil or found == false then return "no", row.why end
  if row.why ~= "" then return "partly", row.why end
  return "yes", row.here ~= "" and ("`%s`"):format(row.here) or ""
end

--- The lines of the table with their verdicts: { area, name, priority, here, why, is, note }.
---@param source string the source folder
---@return table[]
function coverage.rows(source)
  local rows = {}
  for line in io.lines(source .. "/docs/coverage.tsv") do
    local area, name, priority, here, why = line:match(("([^\t]*)\t"):rep(4) .. "([^\t]*)$")
    assert(area, "coverage.tsv: cannot read the line " .. line)
    if area ~= "area" then
      local row = { area = area, name = name, priority = priority, here = here, why = why }
      row.is, row.note = verdict(row)
      rows[#rows + 1] = row
    end
  end
  return rows
end

local function areas_of(rows)
  local areas = {}
  for _, row in ipairs(rows) do
    if not areas[row.area] then
      areas[row.area] = { name = row.area, rows = {} }
      areas[#areas + 1] = areas[row.area]
    end
    table.insert(areas[row.area].rows, row)
  end
  return areas
end

-- How many of the rows are whole, of those that apply and have one of the priorities.
local function share(rows, priorities)
  local whole, all = 0, 0
  for _, row in ipairs(rows) do
    if row.is ~= "n/a" and (not priorities or priorities[row.priority]) then
      all = all + 1
      if row.is == "yes" then whole = whole + 1 end
    end
  end
  return all == 0 and "" or ("%d of %d (%.0f %%)"):format(whole, all, math.floor(100 * whole / all))
end

local FIRST, SECOND = { P1 = true }, { P1 = true, P2 = true }

local function summary(out, name, rows)
  out[#out + 1] = ("| %s | %s | %s | %s |"):format(name, share(rows, FIRST), share(rows, SECOND), share(rows))
end

--- The text of docs/coverage.md.
---@param rows table[] of coverage.rows
---@return string
function coverage.page(rows)
  local areas = areas_of(rows)
  local out = { "# What Moonlet has of PyTorch", "",
    "Written by `moonlet docs/coverage.lua`, from the names that PyTorch documents and those that the",
    "executable knows. \"yes\": under PyTorch's name and arguments (positions from 1, options in a table)",
    "or where the note says; \"partly\": without what the note says. The priorities tell how often",
    "scripts use what was missing at first: P1 most of them, P2 regularly, P3 rarely.", "",
    "| area | P1 | P1 and P2 | all |", "| --- | --- | --- | --- |" }
  for _, area in ipairs(areas) do summary(out, area.name, area.rows) end
  summary(out, "all", rows)
  for _, area in ipairs(areas) do
    out[#out + 1] = ("\n## %s\n\n| name | | note |\n| --- | --- | --- |"):format(area.name)
    for _, row in ipairs(area.rows) do
      out[#out + 1] = ("| `%s` | %s | %s |"):format(row.name, row.is, (row.note:gsub("|", "\\|")))
    end
  end
  return table.concat(out, "\n") .. "\n"
end

if arg and arg[0] and arg[0]:find "coverage%.lua$" then
  local source = arg[1] or arg[0]:match "^(.*)/docs/[^/]*$" or "."
  local file = assert(io.open(source .. "/docs/coverage.md", "wb"))
  file:write(coverage.page(coverage.rows(source)))
  file:close()
end

return coverage
