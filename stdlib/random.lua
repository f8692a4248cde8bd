-- stdlib/random.lua: ml.random: the state of the default random number generator.

local ml = require "moonlet"
local namespace = require("moonlet.options").namespace
local signature = require "moonlet.signature"
local fail = require("moonlet.options").fail
local is_callable = require("moonlet.options").is_callable

local random = {}

local read_manual_seed = signature "random.manual_seed(int seed)"

--- Seeds `ml.default_generator`, as `ml.manual_seed` does.
--- > generator = ml.random.manual_seed(1)
--- > generator:initial_seed()
---   1
---@param seed integer the seed; one seed gives the same numbers on every device and number of
---   threads
---@return moonlet.Generator
function random.manual_seed(...)
  return ml.default_generator:manual_seed((read_manual_seed(...)))
end

--- Seeds `ml.default_generator` with a number from the system, another at each call, and returns
--- the number.
--- > seed = ml.random.seed()
--- > seed == ml.initial_seed()
---   true
---@return integer
function random.seed() return ml.default_generator:seed() end

--- The seed that `ml.default_generator` was last given, as `ml.initial_seed`.
--- > ml.manual_seed(7)
--- > ml.random.initial_seed()
---   7
---@return integer
function random.initial_seed() return ml.default_generator:initial_seed() end

--- The state of `ml.default_generator`, as `ml.get_rng_state`: a table of its seed and offset.
--- > ml.manual_seed(7)
--- > ml.random.get_rng_state()
---   {offset = 0, seed = 7}
---@return {seed: integer, offset: integer} state
function random.get_rng_state() return ml.get_rng_state() end

local read_state = signature "random.set_rng_state(dict state)"

--- Sets `ml.default_generator` to a state, as `ml.set_rng_state`.
--- > state = ml.random.get_rng_state()
--- > x = ml.rand(3)
--- > ml.random.set_rng_state(state)
--- > ml.equal(x, ml.rand(3))
---   true
---@param state {seed: integer, offset: integer} what `get_rng_state` gave
function random.set_rng_state(...) ml.set_rng_state(read_state(...)) end

local read_fork = signature "random.fork_rng(bool enabled=true)"

local function forked(given, f, ...)
  local state = given.enabled and ml.get_rng_state()
  local guard = setmetatable({}, {
    __close = function() if state then ml.set_rng_state(state) end end,
  })
  if f == nil then return guard end
  local _ <close> = guard
  if not is_callable(f) then fail("random.fork_rng: a function is expected, got %s", type(f)) end
  return f(...)
end

--- Runs `f`, or the rest of the block that holds the result with `<close>`, and then sets
--- `ml.default_generator` back to where it was: what is drawn inside changes no draw after it.
--- PyTorch's takes a list of devices, which have no generators of their own here.
--- > inside = ml.random.fork_rng({}, function() return ml.rand(2) end)
--- > ml.equal(inside, ml.rand(2))
---   true
---@param enabled? boolean false does nothing
---@param f? function the function to run; without it the result is held as a `<close>` variable
---@param ... any what `f` gets
---@return any ... its results, or the value to hold
function random.fork_rng(options, f, ...)
  if is_callable(options) then
    fail "random.fork_rng: use fork_rng({enabled=}, f, ...), got function"
  end
  return forked(read_fork:before_function(options, f, ...))
end

return namespace("random", random)
