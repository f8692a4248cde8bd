-- stdlib/hooks.lua: lists of hooks of an object, each with a handle that removes it: the same kind
-- of handle as that of tensors' hooks.

local ml = require "moonlet"

local hooks = {}

-- A list with `hook` at its end (or front) and without `without`: lists in use are never changed,
-- so a hook may add and remove others while it runs.
local function changed(list, without, hook, prepend)
  local out = { prepend and hook or nil }
  for _, entry in ipairs(list or {}) do
    if entry ~= without then out[#out + 1] = entry end
  end
  if not prepend then out[#out + 1] = hook end
  return out
end

--- Adds a hook to the list in the raw field `field` of `object`. Returns its handle, which is
--- removed by `handle:remove()` or at the end of a block that holds it with `<close>`.
---@param object table
---@param field string
---@param hook function
---@param prepend? boolean at the front
---@param flags? table what `each` gives with it
---@return table handle
function hooks.add(object, field, hook, prepend, flags)
  local entry = { hook = hook, flags = flags or {} }
  rawset(object, field, changed(rawget(object, field), nil, entry, prepend))
  local owner = setmetatable({ object }, { __mode = "v" })
  return ml._handle(function()
    entry.removed = true
    if owner[1] then rawset(owner[1], field, changed(rawget(owner[1], field), entry)) end
  end)
end

--- `for _, hook, flags in hooks.each(list) do`: those that are not removed meanwhile; of nil none.
---@param list? table[]
function hooks.each(list)
  local i = 0
  return function()
    local entry
    repeat
      i = i + 1
      entry = list and list[i]
    until not (entry and entry.removed)
    if entry then return i, entry.hook, entry.flags end
  end
end

--- Removes a hook by the function itself, also from a copy of the object that it was added to.
---@param object table
---@param field string
---@param hook function
function hooks.remove(object, field, hook)
  for _, entry in ipairs(rawget(object, field) or {}) do
    if entry.hook == hook then
      entry.removed = true
      rawset(object, field, changed(rawget(object, field), entry))
      return
    end
  end
end

return hooks
