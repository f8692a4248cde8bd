-- stdlib/nn/show.lua: how modules print: a tree with each module's count of parameters.

local Module = require "moonlet.nn.module"
local class = require "moonlet.class"
local numbers = require "moonlet.numbers"

local function grouped(n)
  local text = tostring(n):reverse():gsub("(%d%d%d)", "%1,"):reverse()
  return (text:gsub("^,", ""))
end

local function count(parameters)
  local all, trained = 0, 0
  for _, p in ipairs(parameters) do
    all = all + p:numel()
    if p.requires_grad then trained = trained + p:numel() end
  end
  return all, trained
end

--- What stands between the brackets when the module prints; classes override it.
--- > ml.nn.Linear(2, 3):extra_repr()
---   2 -> 3
---@return string
function Module:extra_repr() return "" end

local extra_of = numbers.wrap(function(self) return self:extra_repr() end)

--- The class and its options, by which errors name the module.
--- > ml.nn.Linear(2, 3):describe()
---   Linear(2 -> 3)
---@return string
function Module:describe()
  local extra = extra_of(self)
  return class.name(class.of(self)) .. "(" .. extra .. ")"
end

local function add_lines(self, label, depth, rows, above)
  local children = {}
  if not above[self] then
    above[self] = true
    self:each_field(function(name, child, kind)
      if kind == "module" then children[#children + 1] = { name, child } end
    end)
  end
  local all = count(self:parameters())
  local text = ("  "):rep(depth) .. (label and "(" .. label .. "): " or "")
  if #children == 0 then
    rows[#rows + 1] = { text .. self:describe(), all }
  else
    rows[#rows + 1] = { text .. class.name(class.of(self)) .. "(" .. self:extra_repr(), all }
    for _, entry in ipairs(children) do add_lines(entry[2], entry[1], depth + 1, rows, above) end
    rows[#rows + 1] = { ("  "):rep(depth) .. ")" }
  end
  above[self] = nil
end

function Module.__tostring(self)
  local rows, width = {}, 0
  add_lines(self, nil, 0, rows, {})
  for _, row in ipairs(rows) do width = math.max(width, #row[1]) end
  local lines = {}
  for i, row in ipairs(rows) do
    local number = row[2] and row[2] > 0 and grouped(row[2])
    lines[i] = number and ("%s%s  %8s"):format(row[1], (" "):rep(width - #row[1]), number) or row[1]
  end
  local all, trained = count(self:parameters())
  lines[#lines + 1] = trained == all and ("%s parameters"):format(grouped(all))
    or ("%s parameters, %s of them trained"):format(grouped(all), grouped(trained))
  return table.concat(lines, "\n")
end

Module.__tostring = numbers.wrap(Module.__tostring)

return Module
