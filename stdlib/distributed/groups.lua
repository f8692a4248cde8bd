-- stdlib/distributed/groups.lua: the start and the end of process groups.

local backends = require "moonlet.distributed.backends"
local defined = require "moonlet.ops.defined"
local engine = require "moonlet.distributed_engine"
local environment = require "moonlet.distributed.environment"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local state = require "moonlet.distributed.state"
local stores = require "moonlet.distributed.stores"
local fail = options.fail

local groups = {}

groups.ProcessGroup = state.ProcessGroup

--- Whether `ml.distributed.init_process_group` has been called.
--- > ml.distributed.is_initialized()
---   false
---@return boolean
function groups.is_initialized() return state.world ~= nil end

-- --- the start ----------------------------------------------------------------------------------

-- Connects a group: position -1 for who is not in it.
local function connect(group, name)
  if group.size == 1 or group.rank < 0 then return end
  local native, work = state.call("init_process_group", state.run.group, state.run, name,
    group.ranks, group.rank, group.timeout)
  local done, reason = work:wait(math.huge)
  if done then
    group.native = native
    return
  end
  fail("%s: rank %d: %s", name == "world" and "init_process_group" or "new_group",
    state.world and state.world.rank or group.rank, reason or "it is not connected")
end

-- Waits until all ranks have come, so that who is missing is told by number.
local function wait_for_all(rank, size, timeout)
  local store = state.store
  store:set("come/" .. rank, (options.script_line() or "?"))
  local keys = {}
  for i = 0, size - 1 do keys[#keys + 1] = "come/" .. i end
  if store:wait_within(keys, timeout) then return end
  local missing = {}
  for i, key in ipairs(keys) do
    if not store:wait_within({ key }, 0) then missing[#missing + 1] = i - 1 end
  end
  fail("init_process_group: of %d ranks %s %s not come within %g s", size,
    table.concat(missing, ", "), #missing == 1 and "has" or "have", timeout)
end

-- Where the store is, by the method: a table with host, port, secret, and whether this rank keeps
-- it.
local function meeting_endpoint(method, found, rank, size, timeout)
  local kind, rest = method:match "^(%a+)://(.*)$"
  if kind == "env" then
    return { host = found.host, port = found.port, secret = found.secret,
      keeps = rank == 0 and not found.store_is_kept }
  elseif kind == "tcp" then
    local host, port = rest:match "^%[?(.-)%]?:(%d+)$"
    if not host then
      fail("init_process_group: 'init_method' must be tcp://HOST:PORT, got '%s'", method)
    end
    return { host = host, port = math.tointeger(tonumber(port)), secret = found.secret,
      keeps = rank == 0 }
  elseif kind == "file" then
    return stores.meet_in_file(rest, rank, size, timeout)
  end
  fail("init_process_group: 'init_method' must begin with env://, tcp:// or file://, got '%s'",
    method)
end

-- The store of one start serves the next one, which ranks may begin before this one does.
local function serve(endpoint)
  local before = state.server_endpoint
  if not endpoint.server and before and before.host == endpoint.host
      and before.secret == endpoint.secret and before.port == endpoint.port then
    return
  end
  if state.server then state.server:close() end
  state.server = endpoint.server or state.call("init_process_group", engine.serve, endpoint.host,
    endpoint.port, endpoint.secret)
  endpoint.port, state.server_endpoint = state.server:port(), endpoint
end

local function start_run(backend, method, found, rank, size, timeout)
  local reason = engine.unavailable(backend)
  if reason then
    fail("init_process_group: %d ranks need %s: %s", size, backends.TITLES[backend], reason)
  end
  local endpoint = meeting_endpoint(method, found, rank, size, timeout)
  if endpoint.keeps then
    serve(endpoint)
  end
  local run = ("%s.%d"):format(found.run, state.starts)
  state.run = state.call("init_process_group", engine.join, backend, endpoint.host, endpoint.port,
    endpoint.secret, run, rank, size, timeout, endpoint.keeps or false)
  state.store = stores.over(state.call("init_process_group", engine.connect, endpoint.host,
    endpoint.port, endpoint.secret, timeout), timeout, run .. "/")
  wait_for_all(rank, size, timeout)
end

-- Captured functions hold what they found of the groups.
local function note_change()
  defined.watched.process_groups = defined.watched.process_groups + 1
end

local function clear()
  note_change()
  for _, group in pairs(state.groups) do
    backends.close_devices(group)
    if group.native then group.native:close() end
    group.native = nil
  end
  state.groups, state.world, state.next_group = {}, nil, 1
  state.store = nil
  if state.run then state.run:close() end
  state.run = nil
end

local read_init = signature('init_process_group(Backend? backend=nil, '
  .. 'string init_method="env://", int>=0? rank=nil, int>=1? world_size=nil, number>0 timeout=30, '
  .. 'bool deterministic=false)')

--- Makes this process one rank of several, which then compute together by the collectives of
--- `ml.distributed`. Ranks count from 0, as all launchers count them. By default the launcher says
--- in the environment which rank this is and where they meet (`moonlet launch`, torchrun, mpirun,
--- SLURM); without a launcher there is one rank, with which all works and costs nothing.
--- > ml.distributed.init_process_group()
--- > ml.distributed.get_rank(), ml.distributed.get_world_size()
---   0	1
--- > ml.distributed.destroy_process_group()
---@param backend? string what carries the tensors: "gloo", by TCP; "mpi", in processes that a
---   launcher of MPI's has started; "nccl": NCCL for tensors on CUDA devices, Gloo for the others;
---   as the last one where NCCL is there, else as the first one, unless given
---@param init_method? string "env://", the variables MASTER_ADDR and MASTER_PORT;
---   "tcp://HOST:PORT", an address of rank 0's machine, which alone is listened at;
---   "file://PATH", a file that all can write, and that is not there before
---@param rank? integer this process's, from 0; the environment's unless given
---@param world_size? integer how many ranks there are; the environment's unless given
---@param timeout? number seconds that a collective may take, that ranks may take to come, and that
---   one may be silent
---@param deterministic? boolean whether `all_reduce` adds up in the order of ranks, so that each
---   element is rounded as a loop over the ranks rounds it, also where MPI has a faster order; over
---   Gloo it always does
---@error ranks that do not come, an address that is wrong or in use, another number of ranks
---@see distributed.new_group distributed.destroy_process_group
function groups.init_process_group(...)
  local backend, method, rank, size, timeout, deterministic = read_init(...)
  if state.world then
    fail "init_process_group: there is a process group already; destroy_process_group ends it"
  end
  local found = environment.read()
  rank, size = rank or found.rank, size or found.size
  if rank == nil and size == nil then rank, size = 0, 1 end
  if rank == nil or size == nil then
    fail("init_process_group: '%s' must be given, or the variable %s be set",
      rank == nil and "rank" or "world_size", rank == nil and "RANK" or "WORLD_SIZE")
  elseif rank >= size then
    fail("init_process_group: 'rank' must be from 0 to world_size - 1, which is %d, got %d",
      size - 1, rank)
  end
  local ranks = {}
  for i = 1, size do ranks[i] = i - 1 end
  local world = state.ProcessGroup(0, ranks, rank, timeout)
  state.starts = (state.starts or 0) + 1
  state.backend = backend
  local ready, problem = pcall(function()
    if size > 1 then
      start_run(backends.of_host(backend), method, found, rank, size, timeout)
      connect(world, "world")
    end
  end)
  if not ready then
    if state.run then pcall(state.run.leave, state.run, "init_process_group has failed") end
    clear()
    error(problem, 0)
  end
  state.groups[0], state.world, state.deterministic = world, world, deterministic
  note_change()
end

local read_destroy = signature "destroy_process_group(Group? group=nil)"

--- Ends a process group, or all of them and the connections to the other ranks. Ranks wait for a
--- moment until all have come here, the one that keeps the store until they have.
--- > ml.distributed.init_process_group()
--- > ml.distributed.destroy_process_group()
--- > ml.distributed.is_initialized()
---   false
---@param group? table the group; all unless given
function groups.destroy_process_group(...)
  local group = read_destroy(...)
  if group and group ~= state.world then
    if state.groups[group.number] ~= group then
      fail "destroy_process_group: the process group has been destroyed already"
    end
    backends.close_devices(group)
    if group.native then group.native:close() end
    state.groups[group.number], group.native = nil, nil
    note_change()
    return
  end
  if not state.world then fail "destroy_process_group: there is no process group" end
  for _, each in pairs(state.groups) do backends.close_devices(each) end
  if state.run then state.call("destroy_process_group", state.run.leave, state.run) end
  clear()
end

-- --- what there is ------------------------------------------------------------------------------

local read_rank = signature "get_rank(Group? group=nil)"

--- This process's rank, from 0; in a group its position there, -1 when it is not in it.
--- > ml.distributed.init_process_group()
--- > ml.distributed.get_rank()
---   0
--- > ml.distributed.destroy_process_group()
---@param group? table the group; that of all ranks unless given
---@return integer
function groups.get_rank(...)
  local group = read_rank(...)
  if group then return group.rank end
  return state.group_of("get_rank").rank
end

local read_size = signature "get_world_size(Group? group=nil)"

--- The number of ranks.
--- > ml.distributed.init_process_group()
--- > ml.distributed.get_world_size()
---   1
--- > ml.distributed.destroy_process_group()
---@param group? table the group; that of all ranks unless given
---@return integer
function groups.get_world_size(...)
  local group = read_size(...)
  if group then return group.size end
  return state.group_of("get_world_size").size
end

--- The rank among those on this machine, from 0, as the launcher says it: the number of the device
--- that a rank takes.
--- > ml.distributed.get_local_rank()
---   0
---@return integer
function groups.get_local_rank()
  local found = environment.read()
  return found.local_rank or found.rank or 0
end

local read_backend = signature "get_backend(Group? group=nil)"

--- The name of what carries the collectives, as `ml.distributed.init_process_group` was told;
--- "gloo" where it was told none.
--- > ml.distributed.init_process_group()
--- > ml.distributed.get_backend()
---   gloo
--- > ml.distributed.destroy_process_group()
---@param group? table the group; that of all ranks unless given
---@return string
function groups.get_backend(...)
  state.group_of("get_backend", (read_backend(...)))
  return state.backend or "gloo"
end

local read_process_ranks = signature "get_process_group_ranks(Group group)"

--- The ranks of a group, from 0.
--- > ml.distributed.init_process_group()
--- > ml.distributed.get_process_group_ranks(ml.distributed.new_group())[1]
---   0
--- > ml.distributed.destroy_process_group()
---@param group table the group
---@return integer[]
function groups.get_process_group_ranks(...)
  local group = read_process_ranks(...)
  return table.move(group.ranks, 1, group.size, 1, {})
end

-- --- more groups --------------------------------------------------------------------------------

local function add_group(ranks, timeout)
  local position = -1
  for i, rank in ipairs(ranks) do
    if rank == state.world.rank then position = i - 1 end
  end
  local group = state.ProcessGroup(state.next_group, ranks, position, timeout)
  state.next_group = state.next_group + 1
  connect(group, "group" .. group.number)
  state.groups[group.number] = group
  return group
end

local read_new = signature "new_group(int[]>=0? ranks=nil, number>0? timeout=nil)"

--- A group of some of the ranks, with collectives of its own. All ranks must call it, also those
--- that are not in it, and in the same order.
--- > ml.distributed.init_process_group()
--- > ml.distributed.new_group({ 0 }).size
---   1
--- > ml.distributed.destroy_process_group()
---@param ranks? integer[] the ranks, from 0; all unless given
---@param timeout? number seconds that a collective may take; as of all ranks unless given
---@return table group
---@see distributed.split_group
function groups.new_group(...)
  local ranks, timeout = read_new(...)
  local world = state.group_of "new_group"
  ranks = table.move(ranks or world.ranks, 1, #(ranks or world.ranks), 1, {})
  table.sort(ranks)
  for i, rank in ipairs(ranks) do
    if rank >= world.size then
      fail("new_group: a rank must be from 0 to %d, got %d", world.size - 1, rank)
    elseif rank == ranks[i - 1] then
      fail("new_group: rank %d is given twice", rank)
    end
  end
  if #ranks == 0 then fail "new_group: at least one rank is expected, got none" end
  return add_group(ranks, timeout or world.timeout)
end

local read_split = signature "split_group(table split_ranks, number>0? timeout=nil)"

--- Several groups at once, of which no two have a rank in common; returns the one that this rank is
--- in, or nil. All ranks must call it with the same lists.
--- > ml.distributed.init_process_group()
--- > ml.distributed.split_group({ { 0 } }).size
---   1
--- > ml.distributed.destroy_process_group()
---@param split_ranks integer[][] the ranks of each group, from 0
---@param timeout? number seconds that a collective may take; as of all ranks unless given
---@return table? group
---@see distributed.new_group
function groups.split_group(...)
  local lists, timeout = read_split(...)
  local world, taken, own = state.group_of "split_group", {}, nil
  for _, ranks in ipairs(lists) do
    for _, rank in ipairs(type(ranks) == "table" and ranks
      or fail "split_group: a list of ranks is expected for each group") do
      if taken[rank] then fail("split_group: rank %s is in two groups", tostring(rank)) end
      taken[rank] = true
    end
  end
  for _, ranks in ipairs(lists) do
    local group = groups.new_group(ranks, timeout or world.timeout)
    if group.rank >= 0 then own = group end
  end
  return own
end

local read_debug = signature "set_debug(bool enabled)"

--- Whether ranks compare what they call before each collective, by the store: a call that differs
--- is then told at once, with the lines of both scripts. Without it, or the variable
--- MOONLET_DISTRIBUTED_DEBUG, that is told when the time of the collective is over.
--- > ml.distributed.set_debug(false) == nil
---   true
---@param enabled boolean whether they do
function groups.set_debug(...) state.debug = read_debug(...) end

state.debug = ml ~= nil and (os.getenv "MOONLET_DISTRIBUTED_DEBUG" or "0") ~= "0"

return options.namespace("distributed.groups", groups)
