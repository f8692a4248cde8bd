-- stdlib/distributions/transforms/parts.lua: transforms of a tensor's parts, each by one of its
-- own, and by a distribution.

local base = require "moonlet.distributions.transforms.base"
local constraints = require "moonlet.distributions.constraints"
local ml = require "moonlet"
local options = require "moonlet.options"
local properties = require "moonlet.distributions.properties"
local shapes = require "moonlet.distributions.shapes"
require "moonlet.distributions.distribution"
local define, fail = base.define, options.fail

local parts = {}

local function take_transforms(self, o)
  self.transforms = base.transforms(base.where(self), "tseq", o.tseq, o.cache_size)
  if #self.transforms == 0 then fail("%s: 'tseq' is empty", base.where(self)) end
  self.dim = o.dim
end

local function check_dim(self, x, wanted)
  local rank, dim = x:dim(), self.dim
  if dim == 0 or dim > rank or dim < -rank then
    fail("%s: dimension %d of shape %s", base.where(self), dim, tostring(x.shape))
  end
  if x:size(dim) ~= wanted then
    fail("%s: dimension %d of shape %s has not size %d", base.where(self), dim, tostring(x.shape),
      wanted)
  end
end

-- The constraint `make` of the transforms' domains or codomains.
local function constraint_of(make, key)
  return function(self)
    local list = {}
    for i, part in ipairs(self.transforms) do list[i] = part[key] end
    return make(list, self.dim, self.lengths)
  end
end

--- `CatTransform(tseq, dim, lengths)`: each transform of the list for as many positions of
--- dimension `dim` (1 unless given) as `lengths` says, 1 unless given.
local Cat = define("CatTransform", "table tseq, int dim=1, int[]>=0? lengths=nil",
  function(self, o)
    take_transforms(self, o)
    self.lengths = o.lengths or shapes.ones(#self.transforms)
    if #self.lengths ~= #self.transforms then
      fail("%s: %d lengths for %d transforms", base.where(self), #self.lengths, #self.transforms)
    end
  end)
parts.CatTransform = Cat

local get = properties.of(Cat)
function get:event_dim()
  local most = 0
  for _, part in ipairs(self.transforms) do most = math.max(most, part.event_dim) end
  return most
end
function get:length()
  local sum = 0
  for _, length in ipairs(self.lengths) do sum = sum + length end
  return sum
end
function get:bijective() return base.all_bijective(self.transforms) end
get.domain = constraint_of(constraints.cat, "domain")
get.codomain = constraint_of(constraints.cat, "codomain")

-- What `f(transform, slice, ...)` gives of the slices of the tensors.
local function each_slice(self, f, ...)
  local out, start, total = {}, 1, self.length
  for _, x in ipairs { ... } do check_dim(self, x, total) end
  for i, part in ipairs(self.transforms) do
    local slices = {}
    for k, x in ipairs { ... } do slices[k] = x:narrow(self.dim, start, self.lengths[i]) end
    out[i] = f(part, table.unpack(slices))
    start = start + self.lengths[i]
  end
  return out
end

local function forward(part, x) return part(x) end
local function backward(part, y) return part.inv(y) end
local function jacobian(part, x, y) return part:log_abs_det_jacobian(x, y) end

function Cat:_call(x) return ml.cat(each_slice(self, forward, x), self.dim) end
function Cat:_inverse(y) return ml.cat(each_slice(self, backward, y), self.dim) end

function Cat:_log_det(x, y)
  local event_dim, sum = self.event_dim, nil
  local terms = each_slice(self, function(part, from, to)
    return shapes.sum_rightmost(jacobian(part, from, to), event_dim - part.event_dim)
  end, x, y)
  local dim = self.dim
  if dim > 0 then dim = dim - 1 - x:dim() end
  if dim + event_dim < 0 then return ml.cat(terms, dim + event_dim) end
  for _, term in ipairs(terms) do sum = sum and sum + term or term end
  return sum
end

--- `StackTransform(tseq, dim)`: each transform of the list for one position of dimension `dim` (1
--- unless given).
local Stack = define("StackTransform", "table tseq, int dim=1", take_transforms)
parts.StackTransform = Stack

get = properties.of(Stack)
function get:bijective() return base.all_bijective(self.transforms) end
get.domain = constraint_of(constraints.stack, "domain")
get.codomain = constraint_of(constraints.stack, "codomain")

local function each_position(self, f, ...)
  local out = {}
  for _, x in ipairs { ... } do check_dim(self, x, #self.transforms) end
  for i, part in ipairs(self.transforms) do
    local slices = {}
    for k, x in ipairs { ... } do slices[k] = x:select(self.dim, i) end
    out[i] = f(part, table.unpack(slices))
  end
  return ml.stack(out, self.dim)
end

function Stack:_call(x) return each_position(self, forward, x) end
function Stack:_inverse(y) return each_position(self, backward, y) end
function Stack:_log_det(x, y) return each_position(self, jacobian, x, y) end

--- `CumulativeDistributionTransform(distribution)`: from a distribution's support to the
--- probability of what lies below.
local Cumulative = define("CumulativeDistributionTransform", "Distribution distribution",
  function(self, o) self.distribution = o.distribution end)
parts.CumulativeDistributionTransform = Cumulative
Cumulative.bijective, Cumulative.sign = true, 1
Cumulative.codomain = constraints.unit_interval

get = properties.of(Cumulative)
function get:domain() return self.distribution.support end

function Cumulative:_call(x) return self.distribution:cdf(x) end
function Cumulative:_inverse(y) return self.distribution:icdf(y) end
function Cumulative:_log_det(x) return self.distribution:log_prob(x) end

return parts
