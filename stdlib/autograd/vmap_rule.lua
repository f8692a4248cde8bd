-- stdlib/autograd/vmap_rule.lua: calls of a function inside vmap by the rule that a script has
-- written for a whole batch.

local ml = require "moonlet"
local fail = require("moonlet.options").fail

--- The results for a batch by the rule that the script has written, which gives tensors or an array
--- of them, and the dimension of each that counts the samples, false for none.
---@param self {name: string, vmap: fun(info: table, in_dims: table, ...): ...}
---@param level any
---@param size integer
---@param randomness string
---@param ... any
---@return table results with their number in `n`
return function(self, level, size, randomness, ...)
  local values, dims = table.pack(...), {}
  for i = 1, values.n do
    if ml.is_tensor(values[i]) then values[i], dims[i] = ml._vmap_part(level, values[i]) end
  end
  local outputs, out_dims = ml._vmap_outside(level, self.vmap,
    { batch_size = size, randomness = randomness }, dims, table.unpack(values, 1, values.n))
  local many = not ml.is_tensor(outputs)
  if many and type(outputs) ~= "table" then
    fail("%s: vmap returns tensors and the dimensions of their samples, got %s", self.name,
      type(outputs))
  end
  outputs, out_dims = many and outputs or { outputs }, many and out_dims or { out_dims }
  local results = { n = #outputs }
  for i, y in ipairs(outputs) do
    local dim = type(out_dims) == "table" and out_dims[i]
    results[i] = dim and ml._vmap_batch(level, y, dim) or y
  end
  return results
end
