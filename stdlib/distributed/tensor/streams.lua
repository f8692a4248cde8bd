-- stdlib/distributed/tensor/streams.lua: random numbers of ranks that compute together: where all
-- compute the same they draw the same, where each has a part they draw others.

local collectives = require "moonlet.distributed.collectives"
local ml = require "moonlet"

local streams = {}

--- Gives all ranks of a group the state of one rank's default generator.
---@param group table
---@param source integer the rank
function streams.share(group, source)
  if group.size == 1 then return end
  local own = ml.get_rng_state()
  local state = ml.tensor({ own.seed, own.offset }, { dtype = ml.int64 })
  collectives.broadcast(state, source, { group = group })
  own.seed, own.offset = state[1]:item(), state[2]:item()
  ml.set_rng_state(own)
end

-- The finaliser of SplitMix64 (Steele et al., 2014), whose outputs look independent.
local function mixed(x)
  x = (x ~ (x >> 30)) * 0xbf58476d1ce4e5b9
  x = (x ~ (x >> 27)) * 0x94d049bb133111eb
  return x ~ (x >> 31)
end

--- Runs `f` with numbers that no other rank of the group draws, nor this one at another call.
--- However many it draws, the default generator moves by one step, as on the other ranks.
---@param group table
---@param f function
---@param ... any what `f` gets
---@return any ... its results
function streams.apart(group, f, ...)
  if group.size == 1 then return f(...) end
  local before = ml.get_rng_state()
  local seed = mixed(mixed(before.seed + before.offset * 0x9e3779b97f4a7c15) + group.rank + 1)
  ml.set_rng_state { seed = seed, offset = 0 }
  local _ <close> = setmetatable({}, { __close = function()
    ml.set_rng_state { seed = before.seed, offset = before.offset + 1 }
  end })
  return f(...)
end

return streams
