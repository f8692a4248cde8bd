-- stdlib/distributions/logits.lua: parameters that are given as probabilities or as log odds (or
-- logarithms, up to a constant), and computed from each other when they are first asked for.

local distribution = require "moonlet.distributions.distribution"
local numerics = require "moonlet.distributions.numerics"
local properties = require "moonlet.distributions.properties"
local shapes = require "moonlet.distributions.shapes"
local fail = distribution.fail

local logits = {}

-- Says which of the two was given; it is an error unless it is one.
local function given(self, o)
  if (o.probs == nil) == (o.logits == nil) then
    fail(self, "either 'probs' or 'logits' is expected, %s", o.probs and "not both" or "got none")
  end
  return o.probs ~= nil and "probs" or "logits"
end

local function define_fields(cls, is_binary)
  local lazy, get = properties.lazy(cls), properties.of(cls)
  function lazy:probs() return numerics.logits_to_probs(self.logits, is_binary) end
  function lazy:logits() return numerics.probs_to_logits(self.probs, is_binary) end
  function get:param_shape() return self._param.shape end
  function get:_param() return self[self._given] end
  cls._kept = { "_given" }
end

--- Gives a class of two outcomes the fields `probs`, `logits` and `param_shape`.
---@param cls table
function logits.define_binary(cls) define_fields(cls, true) end

--- Keeps the one that was given, and the arguments of the other names, as tensors of one shape.
---@param self table
---@param o table<string, any>
---@param others? string[]
---@return integer[] shape
function logits.take_binary(self, o, others)
  self._given = given(self, o)
  distribution.take(self, { self._given, table.unpack(others or {}) }, o)
  for _, name in ipairs(others or {}) do self[name] = self[name]:to(self._param.dtype) end
  return shapes.of(self._param)
end

--- Gives a class of several outcomes the same fields.
---@param cls table
function logits.define_categories(cls) define_fields(cls, false) end

--- Keeps the one that was given, normalised along the last dimension.
---@param self table
---@param o table<string, any>
---@return integer[] batch_shape
---@return integer count
function logits.take_categories(self, o)
  local name = given(self, o)
  local value = o[name]
  if value:dim() < 1 then fail(self, "'%s' must have at least one dimension", name) end
  if name == "probs" then
    self.probs = value / value:sum(-1, true)
  else
    self.logits = value - value:logsumexp(-1, true)
  end
  self._given = name
  local size = shapes.of(value)
  return shapes.part(size, 1, -2), size[#size]
end

return logits
