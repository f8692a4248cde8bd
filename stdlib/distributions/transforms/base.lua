-- stdlib/distributions/transforms/base.lua: the base of transforms, and those made of others.

local class = require "moonlet.class"
local constraints = require "moonlet.distributions.constraints"
local ml = require "moonlet"
local options = require "moonlet.options"
local properties = require "moonlet.distributions.properties"
local shapes = require "moonlet.distributions.shapes"
local signature = require "moonlet.signature"
local fail = options.fail

local base = {}

local CACHE = "int>=0<=1 cache_size=0"

--- The base class of invertible transforms of random variables. A transform is called, `t(x)`, and
--- `t.inv` is its inverse. A class of one's own has the methods `_call(x)`, `_inverse(y)` and
--- `log_abs_det_jacobian(x, y)` and the fields `domain` and `codomain`.
--- > t = ml.distributions.ExpTransform()
--- > t(ml.tensor { 0.0, 1.0 })
---   {1.0000, 2.7183}
---   Tensor (2,) float32
--- > t.inv(ml.tensor { 1.0 })
---   {0.}
---   Tensor (1,) float32
---@field domain table The constraint that arguments satisfy.
---@field codomain table The constraint that results satisfy.
---@field bijective boolean Whether each result comes from exactly one argument.
---@field sign any 1 where an elementwise transform increases, -1 where it decreases.
---@field inv table The inverse transform.
---@field event_dim integer The number of dimensions of one value, where domain and codomain
---   have the same.
---@param cache_size? integer 1 keeps the last argument and result, so that inverting that
---   result is exact; 0 nothing
local Transform = class("Transform")
base.Transform = Transform
Transform.__index = properties.index
Transform.bijective = false
Transform._cache_size = 0

local read_transform = signature(("distributions.Transform(%s)"):format(CACHE))
local read_call = signature("Transform:call(Tensor x)", "transform")
local read_jacobian = signature "Transform:log_abs_det_jacobian(Tensor x, Tensor y)"
local read_forward_shape = signature "Transform:forward_shape(Size shape)"
local read_inverse_shape = signature "Transform:inverse_shape(Size shape)"
local read_with_cache = signature "Transform:with_cache(int>=0<=1 cache_size=1)"

signature.add_type("Transform", "a transform", function(value)
  return class.is_instance(value, Transform) and value or nil
end)

--- What errors of the transform begin with.
---@param self table
---@return string
function base.where(self)
  return "distributions." .. class.name(class.of(self))
end

function Transform:init(...) self._cache_size = read_transform(...) end

--- A class of transforms whose constructor takes `parameters` and `cache_size`; `init(self, o)`
--- gets them as a table by name.
---@param name string
---@param parameters string
---@param init? fun(self: table, o: table)
---@return table
function base.define(name, parameters, init)
  local cls = class(name, Transform)
  local all = parameters == "" and CACHE or parameters .. ", " .. CACHE
  local read = signature(("distributions.%s(%s)"):format(name, all))
  function cls:init(...)
    local o = read:table(...)
    self._arguments, self._cache_size = o, o.cache_size
    if init then init(self, o) end
  end
  return cls
end

--- Makes all objects of a class equal to each other.
---@param cls table
function base.all_equal(cls)
  cls.__eq = function(a, b) return class.is_instance(a, cls) and class.is_instance(b, cls) end
end

local get = properties.of(Transform)

local function lacks(name)
  return function(self) fail("%s: has no %s", base.where(self), name) end
end
get.domain, get.codomain, get.sign = lacks "domain", lacks "codomain", lacks "sign"

function get:event_dim()
  local from, to = self.domain.event_dim, self.codomain.event_dim
  if from ~= to then
    fail("%s: its domain has 'event_dim' %d and its codomain %d", base.where(self), from, to)
  end
  return from
end

function Transform:__call(...)
  local x = read_call(...)
  if self._cache_size == 0 then return self:_call(x) end
  if self._cached_x ~= nil and self._cached_x == x then return self._cached_y end
  local y = self:_call(x)
  self._cached_x, self._cached_y = x, y
  return y
end

-- What the inverse gives of y.
local function invert(self, y)
  if self._cache_size == 0 then return self:_inverse(y) end
  if self._cached_y ~= nil and self._cached_y == y then return self._cached_x end
  local x = self:_inverse(y)
  self._cached_x, self._cached_y = x, y
  return x
end

Transform._call, Transform._inverse = lacks "_call", lacks "inverse"

--- Logarithm of the absolute value of the determinant of the Jacobian of the transform.
--- > t = ml.distributions.AffineTransform(0, 3)
--- > t:log_abs_det_jacobian(ml.tensor(1.0), ml.tensor(3.0))
---   1.0986  Tensor () float32
---@param x Tensor arguments in the domain
---@param y Tensor the transform's results for `x`
---@return Tensor
---@shape x (*, event), y (*, event) -> (*)
---@formula log |det dy/dx|
function Transform:log_abs_det_jacobian(...)
  local x, y = read_jacobian(...)
  if not self._log_det then fail("%s: has no log_abs_det_jacobian", base.where(self)) end
  return self:_log_det(x, y)
end

--- The shape of the result for an argument of a shape.
--- > ml.distributions.StickBreakingTransform():forward_shape({5, 2})
---   (5, 3)
---@param shape integer[] the shape of the argument
---@return moonlet.Shape
function Transform:forward_shape(...)
  local shape = read_forward_shape(...)
  return shapes.object(self._forward_shape and self:_forward_shape(shape) or shape)
end

--- The shape of the argument for a result of a shape.
--- > ml.distributions.StickBreakingTransform():inverse_shape({5, 3})
---   (5, 2)
---@param shape integer[] the shape of the result
---@return moonlet.Shape
function Transform:inverse_shape(...)
  local shape = read_inverse_shape(...)
  return shapes.object(self._inverse_shape and self:_inverse_shape(shape) or shape)
end

--- Returns the same transform with another cache size.
--- > ml.distributions.TanhTransform():with_cache(1)
---   TanhTransform()
---@param cache_size? integer 1 keeps the last argument and result, so that inverting that
---   result is exact; 0 nothing
---@return table
function Transform:with_cache(...)
  local size = read_with_cache(...)
  if size == self._cache_size then return self end
  local cls, copy = class.of(self), { cache_size = size }
  if not self._arguments and cls.init ~= Transform.init then
    fail("%s: has an own init and no with_cache", base.where(self))
  end
  for key, value in pairs(self._arguments or {}) do
    if key ~= "cache_size" then copy[key] = value end
  end
  return cls(copy)
end

--- Fails unless there are as many dimensions as one value has.
---@param self table
---@param shape integer[]
---@param least integer
function base.need_dims(self, shape, least)
  if #shape < least then
    fail("%s: shape %s has too few dimensions; %d expected", base.where(self), shapes.text(shape),
      least)
  end
end

function Transform:__tostring() return class.name(class.of(self)) .. "()" end

-- The inverse.

local Inverse = class("InverseTransform", Transform)

function Inverse:init(transform) self._inv, self._cache_size = transform, 0 end

get = properties.of(Inverse)
function get:domain() return self._inv.codomain end
function get:codomain() return self._inv.domain end
function get:bijective() return self._inv.bijective end
function get:sign() return self._inv.sign end
function get:inv() return self._inv end

function Inverse:_call(y) return invert(self._inv, y) end
function Inverse:_log_det(x, y) return -self._inv:log_abs_det_jacobian(y, x) end
function Inverse:_forward_shape(shape) return self._inv:inverse_shape(shape):tolist() end
function Inverse:_inverse_shape(shape) return self._inv:forward_shape(shape):tolist() end
function Inverse:with_cache(...) return self._inv:with_cache(...).inv end
function Inverse:__tostring() return ("InverseTransform(%s)"):format(tostring(self._inv)) end
Inverse.__eq = function(a, b)
  return class.is_instance(a, Inverse) and class.is_instance(b, Inverse) and a._inv == b._inv
end

get = properties.of(Transform)
function get:inv()
  self._inv = rawget(self, "_inv") or Inverse(self)
  return self._inv
end

-- Several, one after the other.

local function check_transforms(where, name, list)
  for i, item in ipairs(list) do
    if not class.is_instance(item, Transform) then
      fail("%s: item %d of '%s': a transform is expected, got %s", where, i, name,
        signature.describe(item))
    end
  end
end

--- A list of transforms that was given as `name`, with that cache size.
---@param where string
---@param name string
---@param list table[]
---@param cache_size integer
---@return table[]
function base.transforms(where, name, list, cache_size)
  check_transforms(where, name, list)
  local out = {}
  for i, item in ipairs(list) do out[i] = cache_size > 0 and item:with_cache(cache_size) or item end
  return out
end

--- Whether two lists hold equal transforms.
---@param a table[]
---@param b table[]
---@return boolean
function base.equal_lists(a, b)
  if #a ~= #b then return false end
  for i = 1, #a do
    if a[i] ~= b[i] then return false end
  end
  return true
end

--- Composition of transforms, applied one after the other, the first of the array first.
--- > D = ml.distributions
--- > D.ComposeTransform({ D.ExpTransform(), D.AffineTransform(1, 2) })(ml.tensor(0.0))
---   3.  Tensor () float32
---@param parts moonlet.distributions.Transform[] the transforms in the order of application
---@param cache_size? integer 1 keeps the last argument and result, so that inverting that
---   result is exact; 0 nothing
---@formula y = f_n(...f_1(x))
local Compose = base.define("ComposeTransform", "table parts", function(self, o)
  self.parts = base.transforms("distributions.ComposeTransform", "parts", o.parts,
    o.cache_size)
end)
base.ComposeTransform = Compose

Compose.__eq = function(a, b)
  return class.is_instance(a, Compose) and class.is_instance(b, Compose)
    and base.equal_lists(a.parts, b.parts)
end

-- The constraint with further dimensions up to `event_dim`.
local function widened(constraint, event_dim)
  local more = event_dim - constraint.event_dim
  return more > 0 and constraints.independent(constraint, more) or constraint
end

get = properties.of(Compose)

function get:domain()
  local parts = self.parts
  if #parts == 0 then return constraints.real end
  local event_dim = parts[#parts].codomain.event_dim
  for i = #parts, 1, -1 do
    local from, to = parts[i].domain.event_dim, parts[i].codomain.event_dim
    event_dim = math.max(event_dim + from - to, from)
  end
  return widened(parts[1].domain, event_dim)
end

function get:codomain()
  local parts = self.parts
  if #parts == 0 then return constraints.real end
  local event_dim = parts[1].domain.event_dim
  for _, part in ipairs(parts) do
    local from, to = part.domain.event_dim, part.codomain.event_dim
    event_dim = math.max(event_dim + to - from, to)
  end
  return widened(parts[#parts].codomain, event_dim)
end

--- Whether all of a list are bijective.
---@param list table[]
---@return boolean
function base.all_bijective(list)
  for _, part in ipairs(list) do
    if not part.bijective then return false end
  end
  return true
end

function get:bijective() return base.all_bijective(self.parts) end

function get:sign()
  local sign = 1
  for _, part in ipairs(self.parts) do sign = sign * part.sign end
  return sign
end

function get:inv()
  local inverse = rawget(self, "_inv")
  if inverse then return inverse end
  local parts = {}
  for i = #self.parts, 1, -1 do parts[#parts + 1] = self.parts[i].inv end
  inverse = Compose(parts)
  self._inv, inverse._inv = inverse, self
  return inverse
end

function Compose:__call(...)
  local x = read_call(...)
  for _, part in ipairs(self.parts) do x = part(x) end
  return x
end

function Compose:_log_det(x, y)
  local parts = self.parts
  if #parts == 0 then return x:zeros_like() end
  local event_dim, sum = self.domain.event_dim, nil
  for i, part in ipairs(parts) do
    local after = i < #parts and part(x) or y
    local term = shapes.sum_rightmost(part:log_abs_det_jacobian(x, after),
      event_dim - part.domain.event_dim)
    sum = sum and sum + term or term
    event_dim = event_dim + part.codomain.event_dim - part.domain.event_dim
    x = after
  end
  return sum
end

function Compose:_forward_shape(shape)
  for _, part in ipairs(self.parts) do shape = part:forward_shape(shape):tolist() end
  return shape
end

function Compose:_inverse_shape(shape)
  for i = #self.parts, 1, -1 do shape = self.parts[i]:inverse_shape(shape):tolist() end
  return shape
end

function Compose:__tostring()
  local parts = {}
  for i, part in ipairs(self.parts) do parts[i] = "\n    " .. tostring(part) end
  return ("ComposeTransform(%s\n)"):format(table.concat(parts, ","))
end

--- The transform that returns its argument.
--- > ml.distributions.identity_transform(ml.tensor { 1.0, 2.0 })
---   {1., 2.}
---   Tensor (2,) float32
base.identity_transform = Compose({})

-- Of further dimensions.

--- Applies a transform to each element of further dimensions; the logarithms of their determinants
--- are added up.
--- > D = ml.distributions
--- > t = D.IndependentTransform(D.ExpTransform(), 1)
--- > t:log_abs_det_jacobian(ml.tensor { 1.0, 2.0 }, ml.tensor { 1.0, 2.0 }:exp())
---   3.  Tensor () float32
---@param base_transform moonlet.distributions.Transform the transform of each element
---@param reinterpreted_batch_ndims integer how many of the dimensions in front join the event
---@param cache_size? integer 1 keeps the last argument and result, so that inverting that
---   result is exact; 0 nothing
local Independent = base.define("IndependentTransform",
  "Transform base_transform, int>=0 reinterpreted_batch_ndims", function(self, o)
    self.base_transform = o.base_transform:with_cache(o.cache_size)
    self.reinterpreted_batch_ndims = o.reinterpreted_batch_ndims
  end)
base.IndependentTransform = Independent

get = properties.of(Independent)
function get:domain()
  return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)
end
function get:codomain()
  return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)
end
function get:bijective() return self.base_transform.bijective end
function get:sign() return self.base_transform.sign end

function Independent:_call(x)
  base.need_dims(self, shapes.of(x), self.domain.event_dim)
  return self.base_transform(x)
end
function Independent:_inverse(y)
  base.need_dims(self, shapes.of(y), self.codomain.event_dim)
  return self.base_transform.inv(y)
end
function Independent:_log_det(x, y)
  return shapes.sum_rightmost(self.base_transform:log_abs_det_jacobian(x, y),
    self.reinterpreted_batch_ndims)
end
function Independent:_forward_shape(shape)
  return self.base_transform:forward_shape(shape):tolist()
end
function Independent:_inverse_shape(shape)
  return self.base_transform:inverse_shape(shape):tolist()
end
function Independent:__tostring()
  return ("IndependentTransform(%s, %d)"):format(tostring(self.base_transform),
    self.reinterpreted_batch_ndims)
end

--- Reshapes the last dimensions; the determinant of the Jacobian is 1.
--- > ml.distributions.ReshapeTransform({4}, {2, 2})(ml.zeros(3, 4)).shape
---   (3, 2, 2)
---@param in_shape integer[] the shape of one argument
---@param out_shape integer[] the shape of one result, of as many elements
---@param cache_size? integer 1 keeps the last argument and result, so that inverting that
---   result is exact; 0 nothing
---@shape (*, in_shape) -> (*, out_shape)
local Reshape = base.define("ReshapeTransform", "Size in_shape, Size out_shape", function(self, o)
  if shapes.numel(o.in_shape) ~= shapes.numel(o.out_shape) then
    fail("%s: shapes %s and %s have different numbers of elements", base.where(self),
      shapes.text(o.in_shape), shapes.text(o.out_shape))
  end
  self.in_shape, self.out_shape = o.in_shape, o.out_shape
end)
base.ReshapeTransform = Reshape
Reshape.bijective = true

get = properties.of(Reshape)
function get:domain() return constraints.independent(constraints.real, #self.in_shape) end
function get:codomain() return constraints.independent(constraints.real, #self.out_shape) end

-- The shape with `to` in the place of its last sizes, which must be `from`.
local function replaced(self, shape, from, to)
  base.need_dims(self, shape, #from)
  local cut = #shape - #from
  if not shapes.equal(shapes.part(shape, cut + 1), from) then
    fail("%s: shape %s does not end with %s", base.where(self), shapes.text(shape),
      shapes.text(from))
  end
  return shapes.join(shapes.part(shape, 1, cut), to)
end

function Reshape:_call(x)
  return x:reshape(replaced(self, shapes.of(x), self.in_shape, self.out_shape))
end
function Reshape:_inverse(y)
  return y:reshape(replaced(self, shapes.of(y), self.out_shape, self.in_shape))
end
function Reshape:_log_det(x)
  local batch = replaced(self, shapes.of(x), self.in_shape, {})
  return ml.zeros(batch, { dtype = x.dtype, device = x.device })
end
function Reshape:_forward_shape(shape)
  return replaced(self, shape, self.in_shape, self.out_shape)
end
function Reshape:_inverse_shape(shape)
  return replaced(self, shape, self.out_shape, self.in_shape)
end

return base
