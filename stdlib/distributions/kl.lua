-- stdlib/distributions/kl.lua: distributions.kl_divergence, by the pairs of classes that
-- distributions.register_kl was told of.

local class = require "moonlet.class"
local distribution = require "moonlet.distributions.distribution"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local kl = {}

-- { p, q, f } in the order of registration; what was found for two classes, by the first.
local registered, found = {}, {}

local read_register = signature("distributions.register_kl(any type_p, any type_q, "
  .. "function? f=nil)")
local read_divergence = signature "distributions.kl_divergence(Distribution p, Distribution q)"

local function check_class(name, value)
  if not class.is_class(value) or not class.is_subclass(value, distribution.Distribution) then
    fail("distributions.register_kl: '%s': a class of distributions is expected, got %s", name,
      signature.describe(value))
  end
end

local function add(p, q, f)
  found = {}
  for _, entry in ipairs(registered) do
    if entry[1] == p and entry[2] == q then
      entry[3] = f
      return f
    end
  end
  registered[#registered + 1] = { p, q, f }
  return f
end

--- Registers a formula for the divergence of objects of two classes, or of classes that inherit
--- from them; `kl_divergence` takes the closest one. Without `f` the result is a function that
--- takes it.
--- > D = ml.distributions
--- > Mine = ml.class("Mine", D.Normal)
--- > function Mine:init(...) D.Normal.init(self, ...) end
--- > _ = D.register_kl(Mine, Mine, function(p, q) return (p.loc - q.loc):abs() end)
--- > D.kl_divergence(Mine(0, 1), Mine(3, 1))
---   3.  Tensor () float32
---@param type_p table the class of `p`
---@param type_q table the class of `q`
---@param f? fun(p: table, q: table): Tensor gives the divergence of two objects, a tensor of
---   the batch's shape
---@return function
---@shape p (*), q (*) -> (*)
function kl.register_kl(...)
  local p, q, f = read_register(...)
  check_class("type_p", p)
  check_class("type_q", q)
  if f then return add(p, q, f) end
  return function(given) return kl.register_kl(p, q, given) end
end

-- Whether the classes of `a`, compared first by `first` and then by `second`, are nearer than b's.
local function is_nearer(a, b, first, second)
  if a[first] ~= b[first] then return class.is_subclass(a[first], b[first]) end
  return a[second] ~= b[second] and class.is_subclass(a[second], b[second])
end

local function nearest(list, first, second)
  local best = list[1]
  for i = 2, #list do
    if is_nearer(list[i], best, first, second) then best = list[i] end
  end
  return best
end

-- What was registered for the nearest of the classes that two inherit from: of p's first.
local function dispatch(p, q)
  local matches = {}
  for _, entry in ipairs(registered) do
    if class.is_subclass(p, entry[1]) and class.is_subclass(q, entry[2]) then
      matches[#matches + 1] = entry
    end
  end
  if #matches == 0 then return nil end
  local left, right = nearest(matches, 1, 2), nearest(matches, 2, 1)
  if left[3] ~= right[3] then
    local names = { class.name(p), class.name(q) }
    ml._warn_once("kl_divergence " .. table.concat(names, ", "), ("distributions.kl_divergence: "
      .. "(%s, %s) is ambiguous; register_kl(%s, %s) makes it clear"):format(names[1], names[2],
      class.name(left[1]), class.name(right[2])))
  end
  return left[3]
end

--- Kullback-Leibler divergence of `p` from `q`, in nats, for each distribution of the batch;
--- nonnegative, and 0 only where they are the same. Fails for a pair of classes without a formula.
--- > D = ml.distributions
--- > D.kl_divergence(D.Normal(0, 1), D.Normal(1, 2))
---   0.4431  Tensor () float32
---@param p table the distribution the mean is taken under
---@param q table the distribution compared with it
---@return Tensor
---@shape p (*), q (*) -> (*)
---@formula KL(p, q) = E_p[log p(X) - log q(X)]
---@source Kullback and Leibler, "On information and sufficiency", 1951
function kl.kl_divergence(...)
  local p, q = read_divergence(...)
  local of_p, of_q = class.of(p), class.of(q)
  found[of_p] = found[of_p] or {}
  local f = found[of_p][of_q] or dispatch(of_p, of_q)
  if not f then
    fail("distributions.kl_divergence: no formula for %s and %s; register_kl adds one",
      class.name(of_p), class.name(of_q))
  end
  found[of_p][of_q] = f
  return f(p, q)
end

require "moonlet.distributions.kl_same"(add, kl.kl_divergence)
require "moonlet.distributions.kl_normal"(add)
require "moonlet.distributions.kl_cross"(add)

return kl
