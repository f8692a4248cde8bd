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

--- Applies each transform of an array to its own slice along a dimension; the slices are
--- concatenated.
--- > D = ml.distributions
--- > t = D.CatTransform({ D.ExpTransform(), D.AffineTransform(0, 2) }, 1, { 1, 2 })
--- > t(ml.tensor { 0.0, 1.0, 2.0 })
---   {1., 2., 4.}
---   Tensor (3,) float32
---@param tseq moonlet.distributions.Transform[] the transforms
---@param dim? integer the dimension, counted from 1
---@param lengths? integer[] the size of each slice along `dim`; 1 each unless given
---@param cache_size? integer 1 keeps the last argument and result, so that inverting that
---   result is exact; 0 nothing
---@shape (*) -> (*)
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

--- Applies each transform of an array to one position of a dimension.
--- > D = ml.distributions
--- > D.StackTransform({ D.ExpTransform(), D.AffineTransform(0, 2) })(ml.tensor { 0.0, 1.0 })
---   {1., 2.}
---   Tensor (2,) float32
---@param tseq moonlet.distributions.Transform[] the transforms, as many as the dimension's size
---@param dim? integer the dimension, counted from 1
---@param cache_size? integer 1 keeps the last argument and result, so that inverting that
---   result is exact; 0 nothing
---@shape (*) -> (*)
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

--- The cumulative distribution function of a distribution as a transform from its support to [0,
--- 1].
--- > D = ml.distributions
--- > D.CumulativeDistributionTransform(D.Normal(0, 1))(ml.tensor { 0.0, 1.0 })
---   {0.5000, 0.8413}
---   Tensor (2,) float32
---@param distribution moonlet.distributions.Distribution a distribution of one dimension that
---   has `cdf` and `icdf`
---@param cache_size? integer 1 keeps the last argument and result, so that inverting that
---   result is exact; 0 nothing
---@shape (*) -> (*)
---@formula y = F(x)
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
