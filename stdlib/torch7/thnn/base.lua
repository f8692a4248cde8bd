-- stdlib/torch7/thnn/base.lua: what the families of THNN's functions share: results into tensors
-- that
-- are there, batches of one, and numbers as C takes them.

local core = require "moonlet.torch7.core"
local ml = require "moonlet"

local classes = ml._classes

local base = { fail = core.fail, give = core.into, like = core.like }

local M = core.methods
base.M = M

--- The ops that are gradients of others.
base.I = ml._internal

base.sizes = classes.sizes

--- A number without its fraction, as C converts it.
function base.whole(value)
  return math.tointeger(value) or (value >= 0 and math.floor(value) or math.ceil(value)) // 1 | 0
end

--- Whole numbers as a list.
function base.list(...)
  local out = { ... }
  for i = 1, #out do out[i] = base.whole(out[i]) end
  return out
end

--- x with a batch dimension where it has only `rank - 1` dimensions, and whether one was added.
function base.batch(x, rank, name)
  local dims = M.dim(x)
  if dims == rank then return x, false end
  if dims == rank - 1 then return M.unsqueeze(x, 1), true end
  core.fail("%s: a tensor of %d or %d dimensions is expected, got %d", name, rank - 1, rank, dims)
end

--- The result y in r, without the batch dimension that was added.
function base.unbatch(r, y, added)
  if added then y = M.select(y, 1, 1) end
  return core.into(r, y)
end

--- Makes `changed` hold y, and `r` be on its memory: what `inplace` asks for.
function base.in_place(changed, r, y)
  M.copy_(changed, y)
  return r:set(changed)
end

--- A tensor of x's class with these sizes, zeros.
function base.zeros(x, sizes)
  return core.zeros(getmetatable(x), sizes)
end

--- The sum of elements as the only one of r.
function base.number(r, value)
  if M.numel(r) ~= 1 then M.resize_(r, { 1 }) end
  return M.fill_(r, value)
end

--- What a sum is multiplied with to be the mean, where that is asked for.
function base.share(x, average) return average and 1 / M.numel(x) or 1 end

return base
