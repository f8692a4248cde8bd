-- stdlib/func/tree.lua: arguments and results of transformed functions: tensors, other values, and
-- tables of these inside one another.

local ml = require "moonlet"
local fail = require("moonlet.options").fail

local tree = {}

local function is_branch(value)
  return type(value) == "table" and getmetatable(value) == nil
end
tree.is_branch = is_branch

-- The keys in an order that does not depend on the table's history: the array, then the names.
local function keys_of(branch)
  local names, out = {}, {}
  -- Not `#branch`, which may lie behind a hole.
  while branch[#out + 1] ~= nil do out[#out + 1] = #out + 1 end
  for key in pairs(branch) do
    if not (math.type(key) == "integer" and key >= 1 and key <= #out) then
      names[#names + 1] = key
    end
  end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  return table.move(names, 1, #names, #out + 1, out)
end

--- The same tables with `f(leaf, ...)` in the place of each value; `...` are the values at the same
--- place of the other trees.
---@param f function
---@param value any
function tree.map(f, value, ...)
  if not is_branch(value) then return f(value, ...) end
  local out, others = {}, table.pack(...)
  for _, key in ipairs(keys_of(value)) do
    local beside = {}
    for i = 1, others.n do beside[i] = is_branch(others[i]) and others[i][key] or nil end
    out[key] = tree.map(f, value[key], table.unpack(beside, 1, others.n))
  end
  return out
end

--- Calls `f` with each tensor, in an order that is the same for trees of the same form.
---@param value any
---@param f fun(x: moonlet.Tensor)
function tree.each_tensor(value, f)
  if is_branch(value) then
    for _, key in ipairs(keys_of(value)) do tree.each_tensor(value[key], f) end
  elseif ml.is_tensor(value) then
    f(value)
  end
end

--- The tensors in an array, and a function that makes the tree again with others in their place.
---@param value any
---@return moonlet.Tensor[]
---@return fun(tensors: table): any
function tree.flatten(value)
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
      fail("%s: an argument to differentiate by has dtype %s, a floating or complex one is wanted",
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
