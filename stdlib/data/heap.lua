-- stdlib/data/heap.lua: a queue that gives the item first that `before` puts first.

local Heap = {}
Heap.__index = Heap

--- Adds an item.
---@param item any
function Heap:push(item)
  local items, before = self.items, self.before
  local at = #items + 1
  while at > 1 and before(item, items[at // 2]) do
    items[at] = items[at // 2]
    at = at // 2
  end
  items[at] = item
end

--- Takes the first item; nil when there is none.
---@return any
function Heap:pop()
  local items, before = self.items, self.before
  local first, size = items[1], #items - 1
  local item = table.remove(items)
  if size <= 0 then return first end
  local at = 1
  while true do
    local child = 2 * at
    if child > size then break end
    if child < size and before(items[child + 1], items[child]) then child = child + 1 end
    if not before(items[child], item) then break end
    items[at] = items[child]
    at = child
  end
  items[at] = item
  return first
end

---@param before fun(a: any, b: any): boolean
---@return table
return function(before) return setmetatable({ items = {}, before = before }, Heap) end
