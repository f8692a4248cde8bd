-- stdlib/distributed/checkpoint/read.lua: reads a checkpoint, whoever wrote it: of each file what
-- lies in the parts that are asked for.

local index = require "moonlet.distributed.checkpoint.index"
local ml = require "moonlet"
local options = require "moonlet.options"
local shards = require "moonlet.distributed.shards"
local fail = options.fail

local read = {}

-- --- tensors ------------------------------------------------------------------------------------

-- Opens the files of a folder when they are first asked for, mapped: what is not used is not read.
local function opener(folder)
  local files = {}
  return function(name)
    files[name] = files[name] or ml.load(folder .. "/" .. name, { mmap = true })
    return files[name]
  end
end

local function part_tensor(open, entry, part)
  local tensor = open(part.file)[part.key]
  if not ml.is_tensor(tensor) then
    error(("'%s' has no tensor '%s'"):format(part.file, part.key), 0)
  elseif tensor.dtype ~= entry.dtype or tensor:dim() ~= #part.shape then
    error(("'%s' of '%s' is %s of %d dimensions, by the index it is %s of %d"):format(part.key,
      part.file, tensor.dtype, tensor:dim(), entry.dtype, #part.shape), 0)
  end
  for dim, size in ipairs(part.shape) do
    if tensor:size(dim) ~= size then
      error(("'%s' of '%s' has shape %s, by the index it has (%s)"):format(part.key, part.file,
        tostring(tensor.shape), table.concat(part.shape, ", ")), 0)
    end
  end
  return tensor
end

-- Where a part lies in both: the first positions in each, and the sizes; nil where it does not.
local function common(part, first, shape)
  local from_part, from_target, sizes = {}, {}, {}
  for dim, size in ipairs(part.shape) do
    local low = math.max(part.first[dim], first[dim])
    local high = math.min(part.first[dim] + size, first[dim] + shape[dim])
    if high <= low then return nil end
    from_part[dim], from_target[dim] = low - part.first[dim] + 1, low - first[dim] + 1
    sizes[dim] = high - low
  end
  return from_part, from_target, sizes
end

-- Fills `target`, which is the part of the whole that begins at `first`.
local function fill(open, entry, target, first)
  local shape = target.shape:totable()
  for _, part in ipairs(entry.parts) do
    local from_part, from_target, sizes = common(part, first, shape)
    if from_part then
      local source = part_tensor(open, entry, part)
      shards.narrow(target, from_target, sizes):copy_(shards.narrow(source, from_part, sizes))
    end
  end
end

local function ones(count)
  local out = {}
  for dim = 1, count do out[dim] = 1 end
  return out
end

-- The value of a tree with whole tensors.
local function whole(open, node)
  if index.is_tensor(node) then
    local tensor = ml.empty(node.shape, { dtype = node.dtype })
    fill(open, node, tensor, ones(#node.shape))
    return tensor
  elseif type(node) ~= "table" then
    return node
  end
  local out = {}
  for key, item in pairs(node) do out[key] = whole(open, item) end
  return out
end

-- --- states -------------------------------------------------------------------------------------

local function path_of(path, key)
  return path == "" and tostring(key) or path .. "/" .. tostring(key)
end

local function kind_of(value)
  if ml.is_tensor(value) or index.is_tensor(value) then return "tensor" end
  return type(value) == "table" and "table" or "value"
end

local function plan_tensor(job, path, target, entry)
  local spec = shards.of(target)
  if spec and spec.pieces then
    table.insert(job.wrong, ("'%s' is a part of several pieces, as ColwiseParallel with 'parts' "
      .. "leaves them, which checkpoints do not hold"):format(path))
    return
  end
  local shape = spec and spec.shape or target.shape:totable()
  local same = #shape == #entry.shape
  for dim, size in ipairs(entry.shape) do same = same and shape[dim] == size end
  if not same then
    table.insert(job.wrong, ("'%s' has shape (%s), in the checkpoint (%s)"):format(path,
      table.concat(shape, ", "), table.concat(entry.shape, ", ")))
    return
  end
  local first = spec and spec.first or ones(#shape)
  table.insert(job.steps, function() fill(job.open, entry, target:detach(), first) end)
end

-- What is to be done for the values of `state`; notes what does not fit.
local function plan_table(job, path, state, node)
  if next(state) == nil then
    for key, item in pairs(node) do
      table.insert(job.steps, function() state[key] = whole(job.open, item) end)
    end
    return
  end
  for key, value in pairs(state) do
    local item, below = node[key], path_of(path, key)
    if item == nil then
      table.insert(job.wrong, ("'%s' is not in the checkpoint"):format(below))
    elseif kind_of(value) ~= kind_of(item) then
      table.insert(job.wrong, ("'%s' is a %s, in the checkpoint a %s"):format(below, kind_of(value),
        kind_of(item)))
    elseif kind_of(value) == "tensor" then
      plan_tensor(job, below, value, item)
    elseif kind_of(value) == "table" then
      plan_table(job, below, value, item)
    else
      table.insert(job.steps, function() state[key] = item end)
    end
  end
end

local function read_tree(op, folder)
  local node = index.read(op, folder)
  if kind_of(node) ~= "table" then fail("%s: '%s' has a checkpoint of no table", op, folder) end
  return node
end

--- Fills the tensors of a state, and replaces its other values, by those of the same names.
---@param op string
---@param folder string
---@param state table
function read.into(op, folder, state)
  local job = { open = opener(folder), steps = {}, wrong = {} }
  plan_table(job, "", state, read_tree(op, folder))
  if #job.wrong > 0 then
    table.sort(job.wrong)
    fail("%s: '%s': %s", op, folder, table.concat(job.wrong, "; "))
  end
  local _ <close> = ml.no_grad()
  for _, step in ipairs(job.steps) do step() end
end

--- All that a checkpoint has, with whole tensors.
---@param op string
---@param folder string
---@return table
function read.all(op, folder) return whole(opener(folder), read_tree(op, folder)) end

return read
