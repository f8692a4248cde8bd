-- stdlib/func/tree.lua: arguments and results of transformed functions: tensors, other values, and
-- tables of these inside one another.

local ml = require "moonlet"
local fail = require("moonlet.options").fail

local tree = {}

local function is_branch(value)
  return type(value) == "table" and getmetatable(value) == nil
end
tree.is_branch = is_branch

-- How many values the array of a table holds, and whether it has names too. Not `#branch`, which
-- may lie behind a hole.
local function array_of(branch)
  local count, all = 0, 0
  while branch[count + 1] ~= nil do count = count + 1 end
  for _ in pairs(branch) do all = all + 1 end
  return count, all > count
end

-- The names in an order that does not depend on the table's history.
local function names_of(branch, count)
  local names = {}
  for key in pairs(branch) do
    if not (math.type(key) == "integer" and key >= 1 and key <= count) then
      names[#names + 1] = key
    end
  end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  return names
end

-- Calls `visit` with each key: those of the array, then the names.
local function each_key(branch, visit)
  local count, named = array_of(branch)
  for i = 1, count do visit(i) end
  if not named then return end
  for _, name in ipairs(names_of(branch, count)) do visit(name) end
end

--- The same tables with `f(leaf, ...)` in the place of each value; `...` are the values at the same
--- position of the other trees.
---@param f function
---@param value any
function tree.map(f, value, ...)
  if not is_branch(value) then return f(value, ...) end
  local out, others = {}, table.pack(...)
  each_key(value, function(key)
    local beside = {}
    for i = 1, others.n do beside[i] = is_branch(others[i]) and others[i][key] or nil end
    out[key] = tree.map(f, value[key], table.unpack(beside, 1, others.n))
  end)
  return out
end

--- Calls `f` with each tensor, in an order that is the same for trees of the same form.
---@param value any
---@param f fun(x: moonlet.Tensor)
function tree.each_tensor(value, f)
  if is_branch(value) then
    each_key(value, function(key) tree.each_tensor(value[key], f) end)
  elseif ml.is_tensor(value) then
    f(value)
  end
end

--- The tensors in an array, and a function that makes the tree again with others in their place.
---@param value any
---@return moonlet.Tensor[]
---@return fun(tensors: table): any
function tree.flatten(value)
  if ml.is_tensor(value) then return { value }, function(others) return others[1] end end
  local tensors = {}
  tree.each_tensor(value, function(x) tensors[#tensors + 1] = x end)
  return tensors, function(others)
    local i = 0
    return tree.map(function(leaf)
      if not ml.is_tensor(leaf) then return leaf end
      i = i + 1
      return others[i]
    end, value)
  end
end

--- The tensors of one argument, which must hold some that can be differentiated by.
---@param where string
---@param value any
---@return moonlet.Tensor[] tensors
---@return fun(tensors: table): any again
function tree.differentiable(where, value)
  local tensors, again = tree.flatten(value)
  if #tensors == 0 then fail("%s: an argument to differentiate by holds no tensor", where) end
  for _, x in ipairs(tensors) do
    if not (x:is_floating_point() or x:is_complex()) then
      fail("%s: an argument to differentiate by has dtype %s, expected a floating or complex one",
        where, x.dtype)
    end
  end
  return tensors, again
end

--- Several results as one value: one as it is, more as an array.
function tree.pack(...)
  local count = select("#", ...)
  if count == 1 then return (...) end
  return { ... }
end

return tree
