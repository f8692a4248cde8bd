-- stdlib/func/vmap.lua: ml.func.vmap: a function of one sample as a function of a batch.

local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local tree = require "moonlet.func.tree"
local fail = options.fail

local vmap = {}

-- The dimension for a leaf: `false` stands for none, as a table cannot hold nil.
local function dim_of(where, dims, leaf)
  if dims == nil or dims == false then return nil end
  if math.type(dims) ~= "integer" then
    fail("%s: a dimension is an integer, or false for none, got %s", where, type(dims))
  end
  if not ml.is_tensor(leaf) then
    fail("%s: dimension %d of a %s: false says that a value is the same for all samples", where,
      dims, type(leaf))
  end
  local rank = leaf:dim()
  local dim = dims < 0 and dims + rank + 1 or dims
  if dims == 0 or dim < 1 or dim > rank then
    fail("%s: dimension %d of shape %s", where, dims, tostring(leaf.shape))
  end
  return dim
end

-- Calls `visit(leaf, dim)` for each leaf of `value`, and makes the tree of what that gives. One
-- dimension stands for all tensors below it.
local function with_dims(where, value, dims, visit)
  if ml.is_tensor(value) and math.type(dims) == "integer" then
    return visit(value, dim_of(where, dims, value))
  end
  if tree.is_branch(value) then
    local out = {}
    for key, inner in pairs(value) do
      local inner_dims = dims
      if type(dims) == "table" then inner_dims = dims[key] end
      out[key] = with_dims(where, inner, inner_dims, visit)
    end
    return out
  end
  if type(dims) == "table" then
    fail("%s: a table of dimensions for a %s", where, type(value))
  end
  if type(dims) == "number" and not ml.is_tensor(value) and value ~= nil
      and type(value) ~= "table" and where:find "in_dims" then
    return visit(value, nil)
  end
  return visit(value, dim_of(where, dims, value))
end

-- How many samples there are, by the dimensions that count them.
local function batch_size(arguments, in_dims)
  local size
  for i = 1, arguments.n do
    with_dims("vmap: in_dims", arguments[i], in_dims[i], function(leaf, dim)
      local own = dim and leaf:size(dim)
      if own and size and own ~= size then
        fail("vmap: the arguments hold %d and %d samples", size, own)
      end
      size = size or own
    end)
  end
  if not size then fail "vmap: no argument has a dimension of samples; look at in_dims" end
  if size == 0 then fail "vmap: there are no samples" end
  return size
end

-- The dimensions of argument i.
local function dims_per_argument(in_dims, count)
  if type(in_dims) ~= "table" then
    local out = {}
    for i = 1, count do out[i] = in_dims end
    return out
  end
  if #in_dims ~= count then
    fail("vmap: in_dims names %d arguments, the call has %d", #in_dims, count)
  end
  return in_dims
end

-- The dimensions for each result, where `out_dims` names one for each.
local function dims_per_result(out_dims, results)
  if type(out_dims) ~= "table" or (results.n == 1 and tree.is_branch(results[1])) then
    return function() return out_dims end
  end
  if #out_dims ~= results.n then
    fail("vmap: out_dims names %d results, the function gave %d", #out_dims, results.n)
  end
  return function(i) return out_dims[i] end
end

-- What comes of `visit(leaf, dim)` for each leaf of a result, as its tree. One dimension stands for
-- all tensors below it.
local function with_out_dims(value, dims, visit)
  if not tree.is_branch(value) then
    if type(dims) == "table" then fail "vmap: out_dims has a table where the result has none" end
    return visit(value, dims or nil)
  end
  local out, each = {}, type(dims) == "table"
  for key, inner in pairs(value) do
    if each and dims[key] == nil then
      fail("vmap: out_dims has no dimension for result %s", tostring(key))
    end
    if each then out[key] = with_out_dims(inner, dims[key], visit)
    else out[key] = with_out_dims(inner, dims, visit) end
  end
  for key in pairs(each and dims or {}) do
    if value[key] == nil then
      fail("vmap: out_dims names result %s, which the function did not give", tostring(key))
    end
  end
  return out
end

local function run(f, arguments, in_dims, out_dims, size, randomness, units)
  local level <close> = ml._vmap_level(size, randomness)
  local inside = {}
  local function one_sample(leaf, dim)
    return dim and ml._vmap_batch(level, leaf, dim, units) or leaf
  end
  for i = 1, arguments.n do
    inside[i] = with_dims("vmap: in_dims", arguments[i], in_dims[i], one_sample)
  end
  local results = table.pack(f(table.unpack(inside, 1, arguments.n)))
  local dims_of = dims_per_result(out_dims, results)
  for i = 1, results.n do
    results[i] = with_out_dims(results[i], dims_of(i), function(leaf, dim)
      if not ml.is_tensor(leaf) then
        fail("vmap: the function must return tensors, got a %s", type(leaf))
      end
      return ml._vmap_value(level, leaf, dim)
    end)
  end
  return results
end

-- One piece after the other, joined where the results count their samples.
local function run_chunks(f, arguments, in_dims, out_dims, size, randomness, chunk)
  local parts = {}
  for first = 1, size, chunk do
    local count = math.min(chunk, size - first + 1)
    local piece = { n = arguments.n }
    for i = 1, arguments.n do
      piece[i] = with_dims("vmap: in_dims", arguments[i], in_dims[i], function(leaf, dim)
        return dim and leaf:narrow(dim, first, count) or leaf
      end)
    end
    parts[#parts + 1] = run(f, piece, in_dims, out_dims, count, randomness)
  end
  local joined = { n = parts[1].n }
  local dims_of = dims_per_result(out_dims, parts[1])
  for i = 1, joined.n do
    local flat, pieces_of = {}, {}  -- by the tensor in the first piece: all at its position
    for k, part in ipairs(parts) do flat[k] = tree.flatten(part[i]) end
    for position, first in ipairs(flat[1]) do
      pieces_of[first] = {}
      for k, tensors in ipairs(flat) do pieces_of[first][k] = tensors[position] end
    end
    joined[i] = with_out_dims(parts[1][i], dims_of(i), function(leaf, dim)
      return dim and ml.cat(pieces_of[leaf], dim) or leaf
    end)
  end
  return joined
end

-- f over the samples of the arguments, `chunk` at a time or all at once; `units` says that these
-- are the rows of an identity matrix.
local function map(f, arguments, in_dims, out_dims, randomness, chunk, units)
  if arguments.n == 0 then fail "vmap: the function is called without arguments" end
  local dims = dims_per_argument(in_dims, arguments.n)
  local size = batch_size(arguments, dims)
  if chunk and chunk < size then
    return run_chunks(f, arguments, dims, out_dims, size, randomness, chunk)
  end
  return run(f, arguments, dims, out_dims, size, randomness, units)
end

--- What `f` gives for all unit vectors at once, as an array of tensors with the vectors in the
--- first dimension: `vectors` has them, for each tensor that `f` takes a part, (count, shape ...).
---@param f fun(parts: Tensor[]): Tensor[]
---@param vectors Tensor[]
---@param chunk? integer how many at a time; nil for all
---@param randomness? string
---@return Tensor[]
function vmap.units(f, vectors, chunk, randomness)
  local whole = #vectors == 1 and vectors[1]:dim() == 2
  return map(f, { vectors, n = 1 }, 1, 1, randomness or "error", chunk, whole)[1]
end

local read = signature([[func.vmap(function func, any in_dims=1, any out_dims=1,
    string randomness="error", int>=1? chunk_size=nil)]])

--- Vectorises a function over a batch: returns the function that does for each sample what `func`
--- does for one, in one pass. Ops without a batching rule run sample by sample, with a warning.
--- What depends on the elements of a sample, as `x:item()`, is an error.
--- > dots = ml.func.vmap(ml.dot)
--- > dots(ml.ones(2, 3), ml.ones(2, 3))
---   {3., 3.}
---   Tensor (2,) float32
---@param func function the function of one sample
---@param in_dims? any batch dimension of the arguments: one integer, or one for each, false for
---   what is shared
---@param out_dims? any batch dimension of the results: one integer, or one for each
---@param randomness? string random ops are an "error", draw for each sample ("different") or
---   once ("same")
---@param chunk_size? integer how many samples are computed at a time; all unless given
---@return function
---@shape arguments (b, *) -> results (b, *)
function vmap.vmap(...)
  local f, in_dims, out_dims, randomness, chunk = read(...)
  if not ({ error = 1, different = 1, same = 1 })[randomness] then
    fail("vmap: randomness is \"error\", \"different\" or \"same\", got \"%s\"", randomness)
  end
  return function(...)
    local results = map(f, table.pack(...), in_dims, out_dims, randomness, chunk)
    return table.unpack(results, 1, results.n)
  end
end

return vmap
