-- stdlib/distributed/checkpoint.lua: ml.distributed.checkpoint: the state of a training in a
-- folder, of which each rank writes its parts, and which any number of ranks reads again.

local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"
local plan = require "moonlet.distributed.checkpoint.plan"
local read = require "moonlet.distributed.checkpoint.read"
local signature = require "moonlet.signature"
local state_dict = require "moonlet.distributed.checkpoint.state_dict"
local state = require "moonlet.distributed.state"
local write = require "moonlet.distributed.checkpoint.write"
local fail = options.fail

local checkpoint = {}
for name, f in pairs(state_dict) do checkpoint[name] = f end

-- The group, or nil for a script of one process that has started none.
local function group_of(op, group)
  if not state.world and not group then return nil end
  return state.group_of(op, group)
end

-- The checkpoint that a thread writes.
local under_way

local function finish_before()
  if under_way then under_way:wait() end
end

local read_save = signature('checkpoint.save(dict state_dict, string checkpoint_id, '
  .. 'Group? process_group=nil)', "checkpoint.save")

--- Writes a state in a folder, by all ranks: each writes the parts that it has of parameters that
--- `fully_shard` has sharded, as a safetensors file; what several have one of them writes.
--- An index is written last, and only then earlier files are removed: when a rank is killed before,
--- the folder has the checkpoint that it had. The state is a table of tensors, numbers, strings,
--- booleans, and tables of these. All ranks must call it, with a folder that all can write.
--- > net = ml.nn.Linear(2, 1)
--- > folder = os.tmpname() os.remove(folder)
--- > at = { checkpoint_id = folder }
--- > ml.distributed.checkpoint.save({ model = net:state_dict(), step = 3 }, at)
--- > other = { model = ml.nn.Linear(2, 1):state_dict(), step = 0 }
--- > ml.distributed.checkpoint.load(other, at)
--- > other.step
---   3
---@param state_dict table the state, such as `get_state_dict` gives it
---@param checkpoint_id string the folder, which is made where it is missing
---@param process_group? table the group; all ranks unless given
---@error values that cannot be saved, a folder that cannot be written: on all ranks
---@see distributed.checkpoint.load
---@see distributed.checkpoint.async_save
function checkpoint.save(...)
  local value, folder, group = read_save(...)
  group = group_of("checkpoint.save", group)
  finish_before()
  write.now(write.begin("checkpoint.save", group, folder, value))
end

--- A checkpoint that is written while the script goes on: what `async_save` returns.
--- > folder = os.tmpname() os.remove(folder)
--- > saving = ml.distributed.checkpoint.async_save({ x = ml.ones(2) }, { checkpoint_id = folder })
--- > saving:wait()
--- > saving:is_completed()
---   true
---@see distributed.checkpoint.async_save
local AsyncSave = class "AsyncSave"
checkpoint.AsyncSave = AsyncSave

function AsyncSave:init() fail "AsyncSave: checkpoint.async_save makes it" end

-- Whether this rank's file is written, in that time.
local function is_written(self, seconds)
  if not self.written then
    local done, problem = write.result(seconds)
    self.written, self.problem = done, problem
  end
  return self.written
end

--- Whether this rank's file has been written; the checkpoint is whole after `wait`.
--- > folder = os.tmpname() os.remove(folder)
--- > saving = ml.distributed.checkpoint.async_save({ x = ml.ones(2) }, { checkpoint_id = folder })
--- > saving:wait()
--- > saving:is_completed()
---   true
---@return boolean
function AsyncSave:is_completed() return self.job == nil or is_written(self, 0) end

--- Waits until all ranks have written their files, and writes the index. All ranks must call it;
--- the next `save` or `async_save` does.
--- > folder = os.tmpname() os.remove(folder)
--- > ml.distributed.checkpoint.async_save({ x = ml.ones(2) }, { checkpoint_id = folder }):wait()
---@error what has gone wrong on any rank
function AsyncSave:wait()
  local job = self.job
  if not job then return end
  self.job = nil
  if under_way == self then under_way = nil end
  write.finish(job, function()
    is_written(self)
    if self.problem then error(self.problem, 0) end
  end)
end

local read_async = signature('checkpoint.async_save(dict state_dict, string checkpoint_id, '
  .. 'Group? process_group=nil)', "checkpoint.async_save")

--- As `save`, by a thread: the tensors are copied, and the script goes on while they are written.
--- The checkpoint is there when `wait` of the result has returned, or the next save has begun.
--- > folder = os.tmpname() os.remove(folder)
--- > saving = ml.distributed.checkpoint.async_save({ x = ml.ones(2) }, { checkpoint_id = folder })
--- > saving:wait()
--- > saving:is_completed()
---   true
---@param state_dict table the state
---@param checkpoint_id string the folder, which is made where it is missing
---@param process_group? table the group; all ranks unless given
---@return table saving an `AsyncSave`
---@error values that cannot be saved; what goes wrong later, `wait` tells
function checkpoint.async_save(...)
  local value, folder, group = read_async(...)
  group = group_of("checkpoint.async_save", group)
  finish_before()
  local job = write.begin("checkpoint.async_save", group, folder, value)
  local _ <close> = ml.no_grad()
  for name, tensor in pairs(job.own) do
    local there = tensor:cpu()
    job.own[name] = there:storage() == tensor:storage() and there:clone() or there
  end
  write.start(job)
  under_way = setmetatable({ job = job }, AsyncSave)
  return under_way
end

local read_load = signature('checkpoint.load(dict state_dict, string checkpoint_id, '
  .. 'Group? process_group=nil)', "checkpoint.load")

--- Reads a checkpoint into a state: tensors are filled in position, so a module's parameters have
--- the values afterwards; other values are replaced. Each rank reads the parts that it needs,
--- whatever number of ranks has written them. What the checkpoint has beside it is left; a table
--- that is empty gets all. All ranks must call it.
--- > folder = os.tmpname() os.remove(folder)
--- > ml.distributed.checkpoint.save({ x = ml.ones(2) }, { checkpoint_id = folder })
--- > state = { x = ml.zeros(2) }
--- > ml.distributed.checkpoint.load(state, { checkpoint_id = folder })
--- > state.x
---   {1., 1.}
---   Tensor (2,) float32
---@param state_dict table the state, such as `get_state_dict` gives it, which is changed
---@param checkpoint_id string the folder
---@param process_group? table the group; all ranks unless given
---@error no checkpoint there, names it does not have, other shapes: on all ranks
---@see distributed.checkpoint.save
function checkpoint.load(...)
  local value, folder, group = read_load(...)
  group = group_of("checkpoint.load", group)
  finish_before()
  plan.together("checkpoint.load", group, function()
    read.into("checkpoint.load", folder, value)
  end)
end

local read_single = signature('checkpoint.dcp_to_torch_save(string dcp_checkpoint_dir, '
  .. 'string torch_save_path)', "checkpoint.dcp_to_torch_save")

--- Writes a checkpoint as one file, with whole tensors: a `.pt` file, or another that `ml.save`
--- writes. `moonlet convert FOLDER FILE` does the same.
--- > file = os.tmpname() .. ".safetensors"
--- > folder = os.tmpname() os.remove(folder)
--- > ml.distributed.checkpoint.save({ x = ml.ones(2) }, { checkpoint_id = folder })
--- > ml.distributed.checkpoint.dcp_to_torch_save(folder, file)
--- > ml.load(file).x
---   {1., 1.}
---   Tensor (2,) float32
---@param dcp_checkpoint_dir string the folder
---@param torch_save_path string the file to write; its ending says of which kind
function checkpoint.dcp_to_torch_save(...)
  local folder, path = read_single(...)
  ml.save(path, read.all("dcp_to_torch_save", folder))
end

return options.namespace("distributed.checkpoint", checkpoint)
