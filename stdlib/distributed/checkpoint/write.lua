-- stdlib/distributed/checkpoint/write.lua: writes a checkpoint: each rank its file, then one the
-- index; at once, or by a thread while the script goes on. Also what that thread runs.

local index = require "moonlet.distributed.checkpoint.index"
local ml = require "moonlet"
local objects = require "moonlet.distributed.objects"
local plan = require "moonlet.distributed.checkpoint.plan"
local system = require "moonlet.system"
local workers = require "moonlet.workers"

local write = {}

-- The number of a new checkpoint in the folder, which is made where it is missing.
local function new_number(op, group, folder)
  local number = { 0 }
  plan.together(op, group, function()
    system.make_folder(folder, op)
    if not group or group.rank == 0 then number[1] = index.next_number(folder) end
  end)
  if group and group.size > 1 then
    objects.broadcast_object_list(number, { src = group.ranks[1], group = group })
  end
  return number[1]
end

-- Says of each part in which file it is and under which name; gives this rank's.
local function assign(all, tensors, number, position)
  local own, file = {}, index.file_name(number, position)
  for name, tensor in pairs(all.tensors) do
    for _, part in ipairs(tensor.parts) do
      part.file = index.file_name(number, part.rank)
      part.key = name
      if #tensor.parts > 1 then part.key = name .. "@" .. table.concat(part.first, ",") end
      if part.rank == position then own[part.key] = tensors[name]:detach() end
      part.rank = nil
    end
  end
  return own, file
end

local function write_file(path, own)
  if next(own) ~= nil then ml.save(path, own) end
end

--- Begins a checkpoint: what all ranks must do together before files are written.
---@param op string
---@param group? table
---@param folder string
---@param state table
---@return table job { folder, path, own, all }
function write.begin(op, group, folder, state)
  local all, tensors = plan.make(op, group, state)
  local number = new_number(op, group, folder)
  local own, file = assign(all, tensors, number, group and group.rank or 0)
  return { op = op, group = group, folder = folder, path = folder .. "/" .. file, own = own,
    all = all }
end

--- Writes this rank's file by `f`, and the index when all have done so.
---@param job table
---@param f fun(path: string, own: table)
function write.finish(job, f)
  local op, group = job.op, job.group
  plan.together(op, group, function() f(job.path, job.own) end)
  plan.together(op, group, function()
    if not group or group.rank == 0 then
      index.write(op, job.folder, job.all.tree, job.all.tensors)
    end
  end)
end

--- Writes it at once.
---@param job table
function write.now(job) write.finish(job, write_file) end

-- --- by a thread --------------------------------------------------------------------------------

local pool

--- Has the thread write this rank's file. The tensors must not change any more.
---@param job table
function write.start(job)
  if not (pool and pool:is_open()) then
    pool = workers.start(1, "moonlet.distributed.checkpoint.write")
  end
  pool:send(1, job.path, job.own)
end

--- Whether the thread has written the file, in that time; the second result says what went wrong.
---@param seconds? number
---@return boolean done
---@return string? problem
function write.result(seconds)
  local answer = table.pack(pool:receive(seconds))
  if answer.n == 0 then return false end
  return true, answer[1] or nil
end

--- What the thread runs: writes what comes until there is no more.
---@param receive fun(): ...
---@param send fun(...)
function write.run(receive, send)
  while true do
    local message = table.pack(receive())
    if message[1] == nil then return end
    local ok, problem = pcall(write_file, message[1], message[2])
    send(not ok and tostring(problem))
  end
end

return write
