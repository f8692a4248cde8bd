-- stdlib/distributed/checkpoint/plan.lua: which rank writes what of a checkpoint: the trees of all
-- ranks as one, and each part of each tensor by one of those that have it.

local json = require "moonlet.json"
local ml = require "moonlet"
local objects = require "moonlet.distributed.objects"
local options = require "moonlet.options"
local shards = require "moonlet.distributed.shards"
local tree = require "moonlet.files.tree"
local fail = options.fail

local plan = {}

-- What this rank has of a state: the text of its tree and what its tensors are; and these by name.
local function own_part(state)
  local tensors = {}
  local text = tree.encode(state, tensors)
  local about = {}
  for name, tensor in pairs(tensors) do
    local spec = shards.of(tensor)
    if spec and spec.pieces then
      fail("save: '%s' is a part of several pieces, as ColwiseParallel with 'parts' leaves them, "
        .. "which checkpoints do not hold; get_model_state_dict with full_state_dict makes it "
        .. "whole", name)
    end
    local first = table.move(spec and spec.first or {}, 1, spec and #spec.first or 0, 1, {})
    for dim = #first + 1, tensor:dim() do first[dim] = 1 end
    about[name] = { dtype = tensor.dtype, shape = spec and spec.shape or tensor.shape:totable(),
      first = first, sizes = tensor.shape:totable() }
  end
  return { tree = text, about = about }, tensors
end

--- Runs `f` on each rank, and fails on all where it fails on one, with what that one says.
---@param op string
---@param group? table nil where there is one process
---@param f fun(): any
---@return any result
function plan.together(op, group, f)
  local ok, result = pcall(f)
  local problem = not ok and (tostring(result):gsub("^[^\n]-:%d+: ", "")) or false
  local all = { problem }
  if group and group.size > 1 then objects.all_gather_object(all, problem, { group = group }) end
  for i, text in ipairs(all) do
    if text then
      text = text:gsub("^" .. op .. ": ", "")
      if #all == 1 then fail("%s: %s", op, text) end
      fail("%s: rank %d: %s", op, group.ranks[i], text)
    end
  end
  return result
end

-- Adds what another rank's tree has to this one.
local function merge(node, other)
  if type(node.t) ~= "table" or type(other.t) ~= "table" then return end
  local known = {}
  for _, entry in ipairs(node.t) do known[entry[1]] = entry[2] end
  for _, entry in ipairs(other.t) do
    if known[entry[1]] then
      merge(known[entry[1]], entry[2])
    else
      table.insert(node.t, entry)
    end
  end
end

local function merged_tree(parts)
  local seen, all = {}, nil
  for _, part in ipairs(parts) do
    if not seen[part.tree] then
      seen[part.tree] = true
      local node = json.decode(part.tree)
      if all then merge(all, node) else all = node end
    end
  end
  return json.encode(all)
end

local function check_alike(name, known, about)
  local same = known.dtype == about.dtype and #known.shape == #about.shape
  for dim, size in ipairs(known.shape) do same = same and size == about.shape[dim] end
  if not same then
    error(("'%s' is %s (%s) on one rank and %s (%s) on another"):format(name, known.dtype,
      table.concat(known.shape, ", "), about.dtype, table.concat(about.shape, ", ")), 0)
  end
end

local function bytes_of(about)
  local count = ml.empty({ 0 }, { dtype = about.dtype }):element_size()
  for _, size in ipairs(about.sizes) do count = count * size end
  return count
end

-- The parts of each tensor with the ranks that have them; those of no elements are left out, unless
-- the tensor has none.
local function holders(parts)
  local tensors, names = {}, {}
  for rank, part in ipairs(parts) do
    for name, about in pairs(part.about) do
      local tensor = tensors[name]
      if not tensor then
        tensor = { dtype = about.dtype, shape = about.shape, parts = {}, by_position = {} }
        tensors[name], names[#names + 1] = tensor, name
      end
      check_alike(name, tensor, about)
      local position = table.concat(about.first, ",") .. "/" .. table.concat(about.sizes, ",")
      local known = tensor.by_position[position]
      if not known and bytes_of(about) > 0 then
        known = { first = about.first, shape = about.sizes, bytes = bytes_of(about), ranks = {} }
        tensor.by_position[position] = known
        table.insert(tensor.parts, known)
      end
      if known then table.insert(known.ranks, rank) end
    end
  end
  table.sort(names)
  return tensors, names
end

--- What the ranks write together: the text of the tree, and by name of each tensor its dtype, shape
--- and parts, each with the position of the rank that writes it. The same on all ranks.
---@param op string
---@param group? table
---@param state table
---@return table { tree, tensors }
---@return table<string, moonlet.Tensor> tensors this rank's
function plan.make(op, group, state)
  local own, tensors
  plan.together(op, group, function() own, tensors = own_part(state) end)
  local parts = { own }
  if group and group.size > 1 then objects.all_gather_object(parts, own, { group = group }) end
  local ok, all, names = pcall(holders, parts)
  if not ok then fail("%s: %s", op, tostring(all)) end
  local load = {}
  for _, name in ipairs(names) do
    all[name].by_position = nil
    for _, part in ipairs(all[name].parts) do
      local least = part.ranks[1]
      for _, rank in ipairs(part.ranks) do
        if (load[rank] or 0) < (load[least] or 0) then least = rank end
      end
      load[least] = (load[least] or 0) + part.bytes
      part.rank, part.ranks, part.bytes = least - 1, nil, nil
    end
  end
  return { tree = merged_tree(parts), tensors = all }, tensors
end

return plan
