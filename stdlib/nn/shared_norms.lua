-- stdlib/nn/shared_norms.lua: parameters of which this process has a part, and how the norm of a
-- gradient's part becomes that of the whole one.

local shared_norms = {}

local combining = setmetatable({}, { __mode = "k" })

--- Says that `p` is a part: `combine(norm, norm_type)` gives the norm over all that have parts.
---@param p moonlet.Tensor
---@param combine fun(norm: moonlet.Tensor, norm_type: number): moonlet.Tensor
function shared_norms.add(p, combine) combining[p] = combine end

--- Parameters in lists with the same function, those without one first, in the order of the others.
---@param parameters moonlet.Tensor[]
---@return table[] lists each with `combine`
function shared_norms.lists(parameters)
  local whole = {}
  local lists, by_function = { whole }, {}
  for _, p in ipairs(parameters) do
    local combine = combining[p]
    local list = combine and by_function[combine] or whole
    if combine and list == whole then
      list = { combine = combine }
      lists[#lists + 1], by_function[combine] = list, list
    end
    list[#list + 1] = p
  end
  return lists
end

return shared_norms
