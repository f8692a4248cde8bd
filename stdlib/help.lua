-- stdlib/help.lua: help(x): what an op does and how it is called, by name ("exp"), by function
-- (ml.exp), or for a value such as a tensor.

local ml = require "moonlet"
local ops = require "moonlet.op_help"
local storages = require "moonlet.help.storage"

-- What is no op.
local others = {
  Generator = [[
ml.Generator(device=nil, {seed=nil}) -> Generator
ml.default_generator

  A source of random numbers: a seed and how many numbers were drawn. Random ops draw from
  ml.default_generator, which every interpreter has for itself and ml.manual_seed(n) seeds.
  A generator made without a seed has one of its own, the same in each run of a script. With a
  device it fills tensors there only; the numbers are the same on every device.
  g:manual_seed(n)     starts again from that seed; returns g
  g:seed()             takes a seed from the system and returns it
  g:initial_seed()     the seed
  g:get_state()        a table; g:set_state(s) goes back to it
  g.device             the device, or nil
  > g = ml.Generator { seed = 7 }]],
  no_grad = [[
ml.no_grad(f, ...) -> results of f
local _ <close> = ml.no_grad()

  Runs f, or the rest of the block, without recording; ml.enable_grad records again inside.
  ml.set_grad_enabled(on) sets the mode until the end of the block with <close>, for good without.
  The mode belongs to the coroutine: one that yields leaves the mode of its caller alone.
  > ml.no_grad(function() return ml.ones(2) * 2 end)]],
  register_hook = [[
x:register_hook(f) -> handle

  Calls f with the gradient of x at each backward and uses what it returns instead, unless that is
  nil. handle.remove() takes it away. The hook lives as long as a graph may reach x.
  > handle = x:register_hook(function(g) return g * 2 end)]],
}
others.default_generator = others.Generator
others.enable_grad, others.set_grad_enabled = others.no_grad, others.no_grad
for name, text in pairs(require "moonlet.help_modes") do others[name] = text end

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
  for _, example in ipairs(entry.examples or {}) do out[#out + 1] = "  > " .. example end
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

local function text_of_storage_entry(name)
  local out = {}
  add_entry(out, storages[name])
  return table.concat(out, "\n")
end

-- Names that contain the text, or whose description does.
local function search(wanted)
  local found = {}
  for _, entries in ipairs { ops, storages } do
    for name, entry in pairs(entries) do
      if name:find(wanted, 1, true) or entry.doc:lower():find(wanted:lower(), 1, true) then
        found[#found + 1] = name
      end
    end
  end
  table.sort(found)
  return found
end

local function text_of_name(wanted)
  local name = wanted:gsub("^ml%.", ""):gsub("^x:", ""):gsub("^s:", "Storage:")
  if storages[name] then return text_of_storage_entry(name) end
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
    if rawget(ml, name) == f or ml._methods[name] == f then return name end
  end
end

local function storage_name_of_function(f)
  for name in pairs(storages) do
    if rawget(ml, name) == f or ml._methods[name] == f then return name end
    local method = name:match "^Storage:(.+)"
    if method and ml._storage_methods[method] == f then return name end
  end
end

local function names_of(methods)
  local names = {}
  for name in pairs(methods) do names[#names + 1] = name end
  table.sort(names)
  return table.concat(names, " ")
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
    if name then return text_of_name(name) end
    name = storage_name_of_function(subject)
    return name and text_of_storage_entry(name) or "a function that is no op"
  end
  if ml.is_tensor(subject) then
    return ("a tensor of shape %s, %s, on %s; its methods:\n%s"):format(
      subject.shape, subject.dtype, subject.device, names_of(ml._methods))
  end
  if ml.is_storage(subject) then
    return ("a storage of %d elements, %s, on %s; its methods:\n%s"):format(
      #subject, subject.dtype, subject.device, names_of(ml._storage_methods))
  end
  local meta = getmetatable(subject)
  if meta == "Generator" then return others.Generator end
  return type(meta) == "table" and meta.__name or type(subject)
end

--- Prints what is known about a name, a function or a value.
---@param subject any
function help.show(subject) print(help.text(subject)) end

return setmetatable(help, { __call = function(_, subject) help.show(subject) end })
