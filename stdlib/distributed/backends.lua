-- stdlib/distributed/backends.lua: what can carry the tensors of a process group, and whether it is
-- there.

local engine = require "moonlet.distributed_engine"
local options = require "moonlet.options"
local signature = require "moonlet.signature"

local backends = {}

signature.add_choice("Backend", { "gloo", "mpi" })

backends.TITLES = { gloo = "Gloo", mpi = "MPI" }

--- Whether several processes can work together: a plugin, with Gloo or MPI, is there. The second
--- result says why not. One rank needs none.
--- > type(ml.distributed.is_available())
---   boolean
---@return boolean
---@return string? reason
---@see distributed.is_gloo_available distributed.is_mpi_available
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

return options.namespace("distributed.backends", backends)
