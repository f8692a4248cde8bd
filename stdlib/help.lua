-- stdlib/help.lua: help(x): what an op does and how it is called, by name ("exp"), by function
-- (ml.exp), or for a value such as a tensor.

local ml = require "moonlet"
local ops = require "moonlet.op_help"
-- What is no op.
local others = require "moonlet.help_modes"

local function overloads_of(name)
  local out = {}
  for other, entry in pairs(ops) do
    if entry.overload_of == name then out[#out + 1] = other end
  end
  table.sort(out)
  return out
end

local function add_entry(out, entry)
  for _, call in ipairs(entry.calls) do out[#out + 1] = ("%s -> %s"):format(call, entry.results) end
  out[#out + 1] = ""
  for line in (entry.doc .. "\n"):gmatch "(.-)\n" do out[#out + 1] = "  " .. line end
  for _, example in ipairs(entry.examples) do out[#out + 1] = "  > " .. example end
end

local function text_of_op(name)
  local out = {}
  add_entry(out, ops[name])
  for _, other in ipairs(overloads_of(name)) do
    out[#out + 1] = ""
    add_entry(out, ops[other])
  end
  local notes = {}
  if ops[name].inplace then notes[#notes + 1] = "in place: " .. name .. "_" end
  if not ops[name].differentiable then notes[#notes + 1] = "not differentiable" end
  if #notes > 0 then out[#out + 1] = "  (" .. table.concat(notes, "; ") .. ")" end
  return table.concat(out, "\n")
end

-- Names that contain the text, or whose description does.
local function search(wanted)
  local found = {}
  for name, entry in pairs(ops) do
    if name:find(wanted, 1, true) or entry.doc:lower():find(wanted:lower(), 1, true) then
      found[#found + 1] = name
    end
  end
  table.sort(found)
  return found
end

local function text_of_name(wanted)
  local name = wanted:gsub("^ml%.", ""):gsub("^x:", "")
  if ops[name] then return text_of_op(name) end
  if others[name] then return others[name] end
  local plain = name:match "^(.-)_$"
  if plain and ops[plain] then return text_of_op(plain) end
  local found = search(name)
  if #found == 0 then return ("no op is called '%s' or speaks of it"):format(wanted) end
  return ("no op is called '%s'; these speak of it: %s"):format(wanted, table.concat(found, ", "))
end

local function name_of_function(f)
  for name in pairs(ops) do
    if rawget(ml, name) == f then return name end
    if ml._methods[name] == f then return name end
    if ml._methods[name .. "_"] == f then return name end
  end
  for name in pairs(others) do
    if rawget(ml, name) == f then return name end
  end
end

local introduction = [[
help("exp") or help(ml.exp) explains an op; help("softmax") finds by a word too.
ml.tensor{1, 2, 3} makes a tensor, x.shape, x.dtype and x.device describe it, x:sum(1) and the
rest are methods, x[{1, {2, 3}}] indexes; dimensions and positions count from 1.]]

local help = {}

--- The text that `help` prints.
---@param subject any
---@return string
function help.text(subject)
  if subject == nil or subject == ml then return introduction end
  if type(subject) == "string" then return text_of_name(subject) end
  if type(subject) == "function" then
    local name = name_of_function(subject)
    return name and text_of_name(name) or "a function that is no op"
  end
  if ml.is_tensor(subject) then
    local methods = {}
    for name in pairs(ml._methods) do methods[#methods + 1] = name end
    table.sort(methods)
    return ("a tensor of shape %s, %s, on %s; its methods:\n%s"):format(
      subject.shape, subject.dtype, subject.device, table.concat(methods, " "))
  end
  local meta = getmetatable(subject)
  return type(meta) == "table" and meta.__name or type(subject)
end

--- Prints what is known about a name, a function or a value.
---@param subject any
function help.show(subject) print(help.text(subject)) end

return setmetatable(help, { __call = function(_, subject) help.show(subject) end })
