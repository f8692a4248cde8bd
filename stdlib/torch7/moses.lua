-- stdlib/torch7/moses.lua: what Torch7's nn uses of the package moses, for scripts whose path has
-- none.

local moses = {}

--- Whether a value is the number that is not equal to itself.
function moses.isNaN(value) return type(value) == "number" and value ~= value end

--- The results of f(key, value) by key.
function moses.map(list, f, ...)
  local out = {}
  for key, value in pairs(list) do out[key] = f(key, value, ...) end
  return out
end

--- The first position of a value in a list.
function moses.indexOf(list, value)
  for i = 1, #list do
    if list[i] == value then return i end
  end
  return nil
end

return moses
