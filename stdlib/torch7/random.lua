-- stdlib/torch7/random.lua: torch.Generator, seeds and draws. The numbers are those of Moonlet's
-- generator, not of Torch7's.

local calls = require "moonlet.torch7.calls"
local class = require "moonlet.torch7.class"
local core = require "moonlet.torch7.core"
local ml = require "moonlet"
local namespace = require "moonlet.torch7.namespace"

local M, into, fail = core.methods, core.into, core.fail
local bytes, longs = core.metatables.uint8, core.metatables.int64

local floating = core.of("float32", "float64")

-- --- generators ---------------------------------------------------------------------------------

local Generator
Generator = class.newmetatable("torch.Generator", nil, function()
  return setmetatable({ native = ml.Generator() }, Generator)
end, function() return setmetatable({ native = ml.Generator() }, Generator) end, namespace)

local function native_of(generator) return generator and generator.native end

-- The seed and how far the generator has come, as 16 bytes.
local function state_bytes(generator)
  local state = generator and generator:get_state() or ml.get_rng_state()
  return ("<i8i8"):pack(state.seed, state.offset)
end

local function restore(generator, text)
  local seed, offset = ("<i8i8"):unpack(text)
  local state = { seed = seed, offset = offset }
  if generator then generator:set_state(state) else ml.set_rng_state(state) end
end

function Generator:write(file)
  file:writeChar(namespace.CharStorage():string(state_bytes(self.native)))
end
function Generator:read(file) restore(self.native, file:readChar(16):string()) end
function Generator:__tostring__() return "torch.Generator" end

-- An optional generator in front of the arguments.
local function split(first, ...)
  if class.typename(first) == "torch.Generator" then return first.native, ... end
  return nil, first, ...
end

function namespace.manualSeed(...)
  local generator, seed = split(...)
  seed = math.tointeger(seed) or fail "torch.manualSeed: a whole number is expected"
  if generator then generator:manual_seed(seed) else ml.manual_seed(seed) end
end

function namespace.seed(generator)
  if generator then return generator.native:seed() end
  return ml.seed()
end

function namespace.initialSeed(generator)
  if generator then return generator.native:initial_seed() end
  return ml.initial_seed()
end

function namespace.getRNGState(...)
  local generator, result = split(...)
  local state = core.wrap(ml.from_bytes(state_bytes(generator), "uint8"), bytes)
  return into(result, state)
end

function namespace.setRNGState(...)
  local generator, state = split(...)
  if getmetatable(state) ~= bytes or M.numel(state) ~= 16 then
    fail "torch.setRNGState: a state of torch.getRNGState is expected"
  end
  restore(generator, M.to_bytes(state))
  return state
end

-- --- draws --------------------------------------------------------------------------------------

local one = ml.zeros({ 1 }, { dtype = "float64" })

-- One number, by a method that fills a tensor.
local function draw(method, generator, ...)
  local arguments = { one, ... }
  arguments.generator = native_of(generator)
  return M.item(M[method](arguments))
end

local function fill(x, method, generator, ...)
  if M.numel(x) == 0 then return x end
  local arguments = { x, ... }
  arguments.generator = native_of(generator)
  return M[method](arguments)
end

-- Draws of floats for a tensor of integers.
local function filled(mt, r, method, generator, ...)
  if core.is_floating(mt) then return fill(r, method, generator, ...) end
  local drawn = ml.zeros(ml._classes.sizes(r), { dtype = "float64",
    device = mt.__options.device })
  return M.copy_(r, fill(drawn, method, generator, ...))
end

local function distribution(name, method, a, b)
  local spec = ("g? n=%s n=%s|r g? n=%s n=%s"):format(a, b, a, b)
  calls.define(nil, name, spec, {
    function(_, generator, x, y) return draw(method, generator, x, y) end,
    function(mt, r, generator, x, y) return filled(mt, r, method, generator, x, y) end,
  }, { inplace = true })
end


-- Doubles have 32 random bits, as Torch7's: sums of a few of them are exact.
local function uniform(mt, r, generator, a, b)
  if mt.__dtype ~= "float64" then return filled(mt, r, "uniform_", generator, a, b) end
  fill(r, "uniform_", generator, 0, 1)
  M.mul_(M.floor_(M.mul_(r, 2.0 ^ 32)), (b - a) * 2.0 ^ -32)
  if a ~= 0 then M.add_(r, a) end
  return r
end

-- The same for a number.
local function one_uniform(_, generator, a, b)
  local whole = math.floor(draw("uniform_", generator, 0, 1) * 2.0 ^ 32)
  return whole * 2.0 ^ -32 * (b - a) + a
end

calls.define(nil, "uniform", "g? n=0 n=1|r g? n=0 n=1", { one_uniform, uniform,
}, { inplace = true })
distribution("normal", "normal_", 0, 1)
distribution("cauchy", "cauchy_", 0, 1)
distribution("logNormal", "log_normal_", 1, 2)

calls.define(nil, "exponential", "g? n=1|r g? n=1", {
  function(_, generator, lambda) return draw("exponential_", generator, lambda) end,
  function(mt, r, generator, lambda) return filled(mt, r, "exponential_", generator, lambda) end,
}, { inplace = true })

calls.define(nil, "geometric", "g? n|r g? n", {
  function(_, generator, p) return math.tointeger(draw("geometric_", generator, p)) end,
  function(mt, r, generator, p) return filled(mt, r, "geometric_", generator, p) end,
}, { inplace = true })

local function bernoulli(mt, r, generator, p)
  local drawn = M.bernoulli { p, generator = native_of(generator) }
  return M.copy_(r, core.as(core.like(r, drawn, "bernoulli"), mt))
end

calls.define(nil, "bernoulli", "g? n=0.5|r g? n=0.5|r g? T", {
  function(_, generator, p) return draw("uniform_", generator, 0, 1) < p and 1 or 0 end,
  function(mt, r, generator, p)
    if M.numel(r) == 0 then return r end
    return bernoulli(mt, r, generator, ml.full(ml._classes.sizes(r), p,
      { dtype = "float64", device = mt.__options.device }))
  end,
  bernoulli,
}, { inplace = true })

-- Whole numbers from a to b; both ends are drawn.
local function whole(mt, r, generator, a, b)
  if b < a then fail("torch.random: the upper bound %s is below the lower one %s", b, a) end
  if M.numel(r) == 0 then return r end
  local low, high = math.tointeger(a), math.tointeger(b)
  local wide = ml.zeros(ml._classes.sizes(r), { dtype = "int64", device = mt.__options.device })
  return M.copy_(r, core.as(fill(wide, "random_", generator, low, high), mt))
end

local MOST = { uint8 = 255, int8 = 127, int16 = 32767, int32 = 2 ^ 31 - 1, int64 = 2 ^ 32 - 1,
  float16 = 2048, float32 = 2 ^ 24, float64 = 2 ^ 32 - 1 }

local function one_whole(generator, a, b)
  local out = core.zeros(longs, { 1 })
  return M.item(whole(longs, out, generator, a, b))
end

calls.define(nil, "random", "g? n n|g? n|g?|r g? n n|r g? n|r g?", {
  function(_, generator, a, b) return one_whole(generator, a, b) end,
  function(_, generator, b) return one_whole(generator, 1, b) end,
  function(_, generator) return one_whole(generator, 0, 2 ^ 32 - 1) end,
  whole,
  function(mt, r, generator, b) return whole(mt, r, generator, 1, b) end,
  function(mt, r, generator) return whole(mt, r, generator, 0, MOST[mt.__dtype]) end,
}, { inplace = true })

calls.define(floating, "rand", "r g? z", function(mt, r, generator, sizes)
  return uniform(mt, core.resize(r or core.empty(mt), sizes), generator, 0, 1)
end, { inplace = true })
calls.define(floating, "randn", "r g? z", function(mt, r, generator, sizes)
  return fill(core.resize(r or core.empty(mt), sizes), "normal_", generator, 0, 1)
end, { inplace = true })

calls.define(nil, "randperm", "r g? n", function(mt, r, generator, count)
  local order = ml.randperm { math.tointeger(count), generator = native_of(generator) }
  return into(r, core.as(M.to(order, mt.__options.device), mt))
end, { inplace = true })

calls.define(floating, "multinomial", "i? g? t n b=false", function(_, i, generator, p, count,
  again)
  local drawn = M.multinomial { p, math.tointeger(count), again,
    generator = native_of(generator) }
  return into(i, core.as(drawn, getmetatable(p).__family.int64))
end)

-- --- the alias method ---------------------------------------------------------------------------

-- Vose, 1991: for each of n classes the chance to keep it, and the class taken otherwise.
local function alias_table(chances)
  local n, small, large = #chances, {}, {}
  local keep, other = {}, {}
  for i, p in ipairs(chances) do
    keep[i], other[i] = p * n, i
    local list = keep[i] < 1 and small or large
    list[#list + 1] = i
  end
  while #small > 0 and #large > 0 do
    local low, high = table.remove(small), large[#large]
    other[low] = high
    keep[high] = keep[high] - (1 - keep[low])
    if keep[high] < 1 then small[#small + 1] = table.remove(large) end
  end
  for _, list in ipairs { small, large } do
    for _, i in ipairs(list) do keep[i] = 1 end
  end
  return keep, other
end

--- Prepares draws by `torch.multinomialAlias`; the state of an earlier call is used again.
function namespace.multinomialAliasSetup(probabilities, state)
  if core.dim(probabilities) ~= 1 then
    fail "torch.multinomialAliasSetup: a 1D tensor of probabilities is expected"
  end
  local mt = getmetatable(probabilities)
  local keep, other = alias_table(M.tolist(M.div(probabilities, probabilities:sum())))
  state = state or {}
  state[1] = into(state[1], longs.new(other))
  state[2] = into(state[2], mt.new(keep))
  return state
end

function namespace.multinomialAlias(output, state)
  local other, keep = state[1], state[2]
  local count = M.numel(output)
  local classes = ml.zeros({ count }, { dtype = "int64" })
  fill(classes, "random_", nil, 1, M.numel(keep))
  local native_keep, native_other = core.native(keep), core.native(other)
  local chance = ml.rand { count, dtype = keep.__dtype }
  local kept = M.lt(chance, M.index_select(native_keep, 1, classes))
  local drawn = ml.where(kept, classes, M.index_select(native_other, 1, classes))
  return M.copy_(output, M.reshape(drawn, ml._classes.sizes(output)))
end
