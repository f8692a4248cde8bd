-- stdlib/distributed/state.lua: the process groups of this interpreter, and what all parts of
-- ml.distributed ask of them.

local class = require "moonlet.class"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local state = {
  groups = {},     -- by number; 0 is that of all ranks
  world = nil,     -- the same group while there is one
  next_group = 1,
  timeout = 30,
  debug = false,
  deterministic = false,
}

--- Ranks that have collectives of their own: what `ml.distributed.new_group` returns.
--- > ml.distributed.init_process_group()
--- > tostring(ml.distributed.new_group { 0 })
---   ProcessGroup of 1 rank
--- > ml.distributed.destroy_process_group()
---@field ranks integer[] The ranks of all, from 0, in the order of the group's.
---@field size integer How many there are.
---@field rank integer This process's position in the group, from 0; -1 when it is not in it.
local ProcessGroup = class "ProcessGroup"
state.ProcessGroup = ProcessGroup

function ProcessGroup:init(number, ranks, position, timeout)
  if type(ranks) ~= "table" then
    fail "ProcessGroup: init_process_group, new_group and split_group make groups"
  end
  self.number, self.ranks, self.size = number, ranks, #ranks
  self.rank, self.timeout, self.calls = position, timeout, 0
end

function ProcessGroup:__tostring()
  return ("ProcessGroup of %d rank%s"):format(self.size, self.size == 1 and "" or "s")
end

signature.add_type("Group", "a process group", function(value)
  return class.is_instance(value, ProcessGroup) and value or nil
end)

--- The group that an argument names: the one of all ranks where it is nil.
---@param op string what messages call the function
---@param group? table
---@return table
function state.group_of(op, group)
  if not state.world then
    fail("%s: there is no process group; call ml.distributed.init_process_group first", op)
  end
  group = group or state.world
  if state.groups[group.number] ~= group then
    fail("%s: the process group has been destroyed", op)
  elseif group.rank < 0 then
    fail("%s: rank %d is none of the group's, which are %s", op, state.world.rank,
      table.concat(group.ranks, ", "))
  end
  return group
end

--- The position in the group of a rank of all, from 0.
---@param op string
---@param name string the argument's
---@param group table
---@param rank integer
---@return integer
function state.position_of(op, name, group, rank)
  for i, each in ipairs(group.ranks) do
    if each == rank then return i - 1 end
  end
  fail("%s: '%s' must be a rank of the group (%s), got %d", op, name,
    table.concat(group.ranks, ", "), rank)
end

--- Runs a function of the engine, whose errors then name the op.
---@param op string
---@param f function
---@return any ...
function state.call(op, f, ...)
  local results = table.pack(pcall(f, ...))
  if results[1] then return table.unpack(results, 2, results.n) end
  fail("%s: %s", op, (tostring(results[2]):gsub("^[^\n]-:%d+: ", "")))
end

return state
