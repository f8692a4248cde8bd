-- stdlib/distributed/objects.lua: collectives of Lua values, which cross as bytes.

local collectives = require "moonlet.distributed.collectives"
local engine = require "moonlet.distributed_engine"
local ml = require "moonlet"
local options = require "moonlet.options"
local pack = require "moonlet.distributed.pack"
local signature = require "moonlet.signature"
local state = require "moonlet.distributed.state"
local transfers = require "moonlet.distributed.transfers"
local fail = options.fail

local objects = {}

local to_tensor, to_bytes = engine.tensor_of, engine.bytes_of

local function size_tensor(bytes) return ml.tensor({ #bytes }, { dtype = ml.int64 }) end

local function empty(n) return ml.empty({ n }, { dtype = ml.uint8 }) end

-- The bytes of all ranks, on each or on rank `dst`.
local function gather_bytes(op, bytes, group, dst)
  local sizes = ml.empty({ group.size }, { dtype = ml.int64 })
  collectives.all_gather_into_tensor(sizes, size_tensor(bytes), { group = group })
  local list, out = {}, {}
  for i = 1, group.size do list[i] = empty(sizes[i]:item()) end
  if dst == nil then
    collectives.all_gather(list, to_tensor(bytes), { group = group })
  else
    local here = state.world.rank == dst
    collectives.gather(to_tensor(bytes), { gather_list = here and list or nil, dst = dst,
      group = group })
    if not here then return nil end
  end
  for i, x in ipairs(list) do out[i] = pack.unpack(op, to_bytes(x)) end
  return out
end

-- Arguments with a value that may be a table of names, which is none of arguments by name then.
local function with_options(n, ...)
  if select("#", ...) > n then return ... end
  local given = table.pack(...)
  given[n + 1] = {}
  return table.unpack(given, 1, n + 1)
end

local read_all = signature "all_gather_object(table object_list, any obj, Group? group=nil)"

--- Gathers a Lua value of each rank in a list, the same on each: nil, booleans, numbers, strings,
--- tensors, and tables of these.
--- > ml.distributed.init_process_group()
--- > list = {}
--- > ml.distributed.all_gather_object(list, { loss = 0.5 })
--- > list[1].loss
---   0.5
--- > ml.distributed.destroy_process_group()
---@param object_list table gets them at 1 to the number of ranks
---@param obj any this rank's
---@param group? table the group; all ranks unless given
---@error values that cannot cross, such as functions and objects
function objects.all_gather_object(...)
  local list, value, group = read_all(with_options(2, ...))
  group = state.group_of("all_gather_object", group)
  local found = gather_bytes("all_gather_object", pack.pack("all_gather_object", value), group)
  for i = 1, group.size do list[i] = found[i] end
end

local read_gather = signature('gather_object(any obj, table? object_gather_list=nil, '
  .. 'int>=0 dst=0, Group? group=nil)')

--- Gathers a Lua value of each rank in a list on one of them.
--- > ml.distributed.init_process_group()
--- > list = {}
--- > ml.distributed.gather_object("a", list)
--- > list[1]
---   a
--- > ml.distributed.destroy_process_group()
---@param obj any this rank's
---@param object_gather_list? table on rank `dst` gets them at 1 to the number of ranks
---@param dst? integer the rank that gets them, from 0
---@param group? table the group; all ranks unless given
---@error values that cannot cross, such as functions and objects
function objects.gather_object(...)
  local value, list, dst, group = read_gather(with_options(2, ...))
  group = state.group_of("gather_object", group)
  state.position_of("gather_object", "dst", group, dst)
  if (list ~= nil) ~= (state.world.rank == dst) then
    fail("gather_object: 'object_gather_list' is for rank 'dst' (%d) alone, which must give it",
      dst)
  end
  local found = gather_bytes("gather_object", pack.pack("gather_object", value), group, dst)
  for i = 1, found and group.size or 0 do list[i] = found[i] end
end

local read_broadcast = signature('broadcast_object_list(table object_list, int>=0 src=0, '
  .. 'Group? group=nil)')

--- Gives all ranks the values of a list that one has.
--- > ml.distributed.init_process_group()
--- > list = { "a", 1 }
--- > ml.distributed.broadcast_object_list(list)
--- > list[1]
---   a
--- > ml.distributed.destroy_process_group()
---@param object_list table on rank `src` the values, from 1; on the others it gets them
---@param src? integer the rank that has them, from 0
---@param group? table the group; all ranks unless given
---@error values that cannot cross, such as functions and objects
function objects.broadcast_object_list(...)
  local list, src, group = read_broadcast(...)
  group = state.group_of("broadcast_object_list", group)
  state.position_of("broadcast_object_list", "src", group, src)
  if group.size == 1 then return end
  local here = state.world.rank == src
  local plain = here and table.move(list, 1, #list, 1, {}) or nil
  local bytes = here and pack.pack("broadcast_object_list", plain) or ""
  local size = size_tensor(bytes)
  collectives.broadcast(size, src, { group = group })
  local flat = here and to_tensor(bytes) or empty(size:item())
  collectives.broadcast(flat, src, { group = group })
  if here then return end
  local found = pack.unpack("broadcast_object_list", to_bytes(flat))
  for i = 1, math.max(#list, #found) do list[i] = found[i] end
end

local read_scatter = signature('scatter_object_list(table scatter_object_output_list, '
  .. 'table? scatter_object_input_list=nil, int>=0 src=0, Group? group=nil)')

--- Gives each rank its value of a list that one has.
--- > ml.distributed.init_process_group()
--- > out = {}
--- > ml.distributed.scatter_object_list(out, { "a" })
--- > out[1]
---   a
--- > ml.distributed.destroy_process_group()
---@param scatter_object_output_list table gets this rank's at 1
---@param scatter_object_input_list? table on rank `src` a value for each rank
---@param src? integer the rank that has them, from 0
---@param group? table the group; all ranks unless given
---@error values that cannot cross, such as functions and objects
function objects.scatter_object_list(...)
  local out, list, src, group = read_scatter(...)
  group = state.group_of("scatter_object_list", group)
  state.position_of("scatter_object_list", "src", group, src)
  local here = state.world.rank == src
  if (list ~= nil) ~= here then
    fail("scatter_object_list: 'scatter_object_input_list' is for rank 'src' (%d) alone, which "
      .. "must give it", src)
  end
  local sizes, flats
  if here then
    sizes, flats = {}, {}
    for i = 1, group.size do
      flats[i] = to_tensor(pack.pack("scatter_object_list", list[i]))
      sizes[i] = ml.tensor({ flats[i]:numel() }, { dtype = ml.int64 })
    end
  end
  local size = ml.empty({ 1 }, { dtype = ml.int64 })
  collectives.scatter(size, { scatter_list = sizes, src = src, group = group })
  local flat = empty(size:item())
  collectives.scatter(flat, { scatter_list = flats, src = src, group = group })
  out[1] = pack.unpack("scatter_object_list", to_bytes(flat))
end

local read_send = signature('send_object_list(table object_list, int>=0 dst, Group? group=nil)')

--- Sends the values of a list to a rank.
--- > ml.distributed.init_process_group()
--- > (pcall(ml.distributed.send_object_list, { 1 }, 0))
---   false
--- > ml.distributed.destroy_process_group()
---@param object_list table the values, from 1
---@param dst integer the rank that they go to, from 0
---@param group? table the group; all ranks unless given
---@error values that cannot cross, such as functions and objects
function objects.send_object_list(...)
  local list, dst, group = read_send(...)
  local bytes = pack.pack("send_object_list", table.move(list, 1, #list, 1, {}))
  transfers.send(size_tensor(bytes), dst, { group = group })
  transfers.send(to_tensor(bytes), dst, { group = group })
end

local read_recv = signature('recv_object_list(table object_list, int>=0? src=nil, '
  .. 'Group? group=nil)')

--- Receives the values of a list from a rank; gives the rank.
--- > ml.distributed.init_process_group()
--- > (pcall(ml.distributed.recv_object_list, {}))
---   false
--- > ml.distributed.destroy_process_group()
---@param object_list table gets them, from 1
---@param src? integer the rank that they come from, from 0; any unless given
---@param group? table the group; all ranks unless given
---@return integer rank
function objects.recv_object_list(...)
  local list, src, group = read_recv(...)
  local size = ml.empty({ 1 }, { dtype = ml.int64 })
  src = transfers.recv(size, src, { group = group })
  local flat = empty(size:item())
  transfers.recv(flat, src, { group = group })
  local found = pack.unpack("recv_object_list", to_bytes(flat))
  for i = 1, math.max(#list, #found) do list[i] = found[i] end
  return src
end

return options.namespace("distributed.objects", objects)
