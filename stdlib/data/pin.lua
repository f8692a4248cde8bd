-- stdlib/data/pin.lua: the tensors of a batch in page-locked memory, from which copies to a GPU are
-- quicker.

local ml = require "moonlet"

local pin = {}

local function is_plain(value) return type(value) == "table" and getmetatable(value) == nil end

local function pinned(value)
  if ml.is_tensor(value) then
    return tostring(value.device) == "cpu" and value:pin_memory() or value
  elseif is_plain(value) then
    local out = {}
    for key, item in pairs(value) do out[key] = pinned(item) end
    return out
  elseif type(value) == "table" and type(value.pin_memory) == "function" then
    return value:pin_memory()
  end
  return value
end

--- The values with all tensors in them pinned: those in tables, in one another, and objects with a
--- method `pin_memory`, whose result stands for them.
---@return any ...
function pin.values(...)
  local values = table.pack(...)
  for i = 1, values.n do values[i] = pinned(values[i]) end
  return table.unpack(values, 1, values.n)
end

return pin
