-- stdlib/distributed/backends.lua: what can carry the tensors of a process group, and whether it is
-- there.

local engine = require "moonlet.distributed_engine"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local state = require "moonlet.distributed.state"
local fail = options.fail

local backends = {}

signature.add_choice("Backend", { "gloo", "mpi", "nccl" })

-- What carries tensors on the host.
function backends.of_host(backend) return backend == "mpi" and "mpi" or "gloo" end
backends.TITLES = { gloo = "Gloo", mpi = "MPI" }

--- Whether several processes can work together: a plugin, with Gloo or MPI, is there. The second
--- result says why not. One rank needs none.
--- > type(ml.distributed.is_available())
---   boolean
---@return boolean
---@return string? reason
---@see distributed.is_gloo_available distributed.is_mpi_available distributed.is_nccl_available
function backends.is_available()
  local reason = engine.unavailable()
  return reason == nil, reason
end

--- Whether the plugin with Gloo is there; the second result says why not.
--- > type(ml.distributed.is_gloo_available())
---   boolean
---@return boolean
---@return string? reason
function backends.is_gloo_available()
  local reason = engine.unavailable "gloo"
  return reason == nil, reason
end

--- Whether the plugin with MPI is there; the second result says why not. Whether this process was
--- started by a launcher of MPI's shows when it becomes a rank.
--- > type(ml.distributed.is_mpi_available())
---   boolean
---@return boolean
---@return string? reason
function backends.is_mpi_available()
  local reason = engine.unavailable "mpi"
  return reason == nil, reason
end

--- Whether NCCL is there, and a device for it; the second result says why not.
--- > type(ml.distributed.is_nccl_available())
---   boolean
---@return boolean
---@return string? reason
function backends.is_nccl_available()
  if not ml.cuda.is_available() then return false, ml.cuda.unavailable_reason() end
  local reason = engine.devices_unavailable(ml.empty({ 0 }, { device = "cuda" }))
  return reason == nil, reason
end

-- --- tensors on devices --------------------------------------------------------------------------

-- Joins the group of devices that `members`, positions in `group`, have for devices as that of x.
local function join(op, group, members, x, name)
  local ranks, own = {}, nil
  for i, position in ipairs(members) do
    ranks[i] = group.ranks[position + 1]
    if position == group.rank then own = i - 1 end
  end
  local key = ("%snccl/%d/%s"):format(state.store.prefix, group.number, name)
  return state.call(op, state.run.device_group, state.run, ranks, own, group.timeout, x, key)
end

-- The device group of that name, made by all its members at the first call for it.
local function device_group(op, group, members, x, name)
  group.devices = group.devices or {}
  local key = ("%s %s"):format(x.device, name)
  if not group.devices[key] then
    -- Ranks have devices of other numbers: what counts is how many a rank has used before.
    group.device_counts = group.device_counts or {}
    local count = (group.device_counts[name] or 0) + 1
    group.device_counts[name] = count
    group.devices[key] = join(op, group, members, x, ("%s/%d"):format(name, count))
  end
  return group.devices[key]
end

--- What carries a call for tensors on the device of x between these: a group of the engine on
--- devices, or nil where they go by the host.
---@param op string
---@param group table
---@param x moonlet.Tensor
---@param call table what the engine gets, its `kind` and `reduction`
---@param peer? integer the position of the other rank, of a call between two
---@return userdata? native
function backends.device_group(op, group, x, call, peer)
  if not x.is_cuda or state.backend == "gloo" or state.backend == "mpi" then return nil end
  local reason = engine.devices_unavailable(x)
  if reason then
    if state.backend == "nccl" then
      fail("%s: tensors on %s need NCCL: %s", op, x.device, reason)
    end
    return nil
  end
  if call.ordered or not engine.device_has(x, call) then return nil end
  if not peer then
    local members = {}
    for i = 1, group.size do members[i] = i - 1 end
    return device_group(op, group, members, x, "all")
  end
  local first, second = math.min(group.rank, peer), math.max(group.rank, peer)
  return device_group(op, group, { first, second }, x, ("%d-%d"):format(first, second))
end

--- Ends what a group has on devices.
---@param group table
function backends.close_devices(group)
  for _, native in pairs(group.devices or {}) do native:close() end
  group.devices, group.device_counts = nil, nil
end

return options.namespace("distributed.backends", backends)
