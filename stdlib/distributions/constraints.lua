-- stdlib/distributions/constraints.lua: ml.distributions.constraints: the sets that parameters and
-- samples must be in. Each has `check`, `event_dim`, how many of a tensor's last dimensions make
-- one value, and `is_discrete`.

local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"
local properties = require "moonlet.distributions.properties"
local shapes = require "moonlet.distributions.shapes"
local signature = require "moonlet.signature"
local fail = options.fail

local constraints = {}

--- The base class of constraints: sets of values that parameters or samples must be in. A class of
--- one's own has a method `check`.
--- > ml.distributions.constraints.positive:check(ml.tensor { -1.0, 2.0 })
---   {false,  true}
---   Tensor (2,) bool
---@field event_dim integer How many of the last dimensions make one value.
---@field is_discrete boolean Whether the values are integers.
local Constraint = class("Constraint")
constraints.Constraint = Constraint
Constraint.__index = properties.index
Constraint.event_dim = 0
Constraint.is_discrete = false

signature.add_type("Constraint", "a constraint", function(value)
  return class.is_instance(value, Constraint) and value or nil
end)

local read_check = signature "Constraint:check(Tensor value)"

--- Whether each value of a tensor satisfies the constraint.
--- > ml.distributions.constraints.unit_interval:check(ml.tensor { 0.5, 1.5 })
---   { true, false}
---   Tensor (2,) bool
---@param value Tensor the values
---@return Tensor
---@shape value (*, event) -> (*)
function Constraint:check(...)
  local value = read_check(...)
  if not self._check then fail("%s: has no check", class.name(class.of(self))) end
  if value:dim() < self.event_dim then
    fail("%s: check: values have %d dimension%s, got shape %s", tostring(self), self.event_dim,
      self.event_dim == 1 and "" or "s", tostring(value.shape))
  end
  return self:_check(value)
end

local function show(value)
  if not ml.is_tensor(value) then return signature.describe(value) end
  return value:numel() == 1 and signature.describe(value:item()) or signature.describe(value)
end

function Constraint:__tostring()
  local parts = {}
  for i, name in ipairs(self._names or {}) do
    parts[i] = ("%s=%s"):format(name, show(self[name]))
  end
  return ("%s(%s)"):format(class.name(class.of(self)), table.concat(parts, ", "))
end

-- A class of constraints whose constructor takes `parameters` and keeps them as fields.
local function define(name, field, parameters, check)
  local cls = class(name, Constraint)
  local read = signature(("distributions.constraints.%s(%s)"):format(name, parameters),
    "distributions.constraints." .. field)
  function cls:init(...)
    for key, value in pairs(read:table(...)) do self[key] = value end
    self._names = read.names
  end
  cls._check = check
  return cls
end

-- The one object of a class without parameters.
local function single(name, event_dim, check, is_discrete)
  local cls = class(name, Constraint)
  cls._check, cls.event_dim, cls.is_discrete = check, event_dim, is_discrete or false
  return cls()
end

local function is_bit(value) return value:eq(0):logical_or(value:eq(1)) end

local function is_whole(value) return value:remainder(1):eq(0) end

local LOWER, UPPER = "Tensor|number lower_bound", "Tensor|number upper_bound"

-- Bounds may be numbers or tensors, which broadcast with the value.
local function at_least(value, bound) return value:ge(bound) end
local function at_most(value, bound) return value:le(bound) end

-- A constraint that depends on other things.

local read_dependent = signature(
  "distributions.constraints.dependent(bool? is_discrete=nil, int>=0? event_dim=nil)")

local Dependent = class("Dependent", Constraint)
local get = properties.of(Dependent)

function Dependent:init(...) self._is_discrete, self._event_dim = read_dependent(...) end

function get:is_discrete()
  if self._is_discrete == nil then
    fail("distributions.constraints.dependent: its 'is_discrete' depends on the object")
  end
  return self._is_discrete
end

function get:event_dim()
  if self._event_dim == nil then
    fail("distributions.constraints.dependent: its 'event_dim' depends on the object")
  end
  return self._event_dim
end

function Dependent:check()
  fail("distributions.constraints.dependent: cannot be checked; it depends on the object")
end

function Dependent:__call(...)
  local is_discrete, event_dim = read_dependent(...)
  if is_discrete == nil then is_discrete = self._is_discrete end
  return Dependent(is_discrete, event_dim or self._event_dim)
end

function Dependent:__tostring() return "Dependent()" end

--- Stands in `arg_constraints` and `support` for a constraint that depends on the distribution's
--- parameters. Called, it makes one that says more: `constraints.dependent{ is_discrete = false,
--- event_dim = 0 }`.
--- > ml.distributions.constraints.is_dependent(ml.distributions.constraints.dependent)
---   true
constraints.dependent = Dependent()

local read_property = signature("distributions.constraints.dependent_property(function f, "
  .. "bool? is_discrete=nil, int>=0? event_dim=nil)")

--- A class's `support` or other field that depends on the object: `f(object)` gives its value.
--- > D = ml.distributions
--- > Mine = ml.class("Mine", D.Distribution)
--- > get = function(d) return D.constraints.less_than(d.top) end
--- > Mine.support = D.constraints.dependent_property(get)
--- > d = Mine()
--- > d.top = 3
--- > d.support
---   LessThan(upper_bound=3)
---@param f fun(self: table): any gives the value for an object of the class
---@param is_discrete? boolean whether the values are integers
---@param event_dim? integer how many of the last dimensions make one value
---@return table
function constraints.dependent_property(...)
  local o = read_property:table(...)
  return properties.new(o.f, { is_discrete = o.is_discrete, event_dim = o.event_dim })
end

local read_is_dependent = signature "distributions.constraints.is_dependent(any constraint)"

--- Whether a constraint is known only for an object: `constraints.dependent`, or a dependent
--- property.
--- > ml.distributions.constraints.is_dependent(ml.distributions.constraints.real)
---   false
---@param constraint any any value
---@return boolean
function constraints.is_dependent(...)
  local value = read_is_dependent(...)
  return properties.is_property(value) or class.is_instance(value, Dependent)
end

-- Of others.

--- Treats further dimensions as part of one value; all of it must satisfy the base constraint.
--- > C = ml.distributions.constraints
--- > C.independent(C.positive, 1):check(ml.tensor { { 1.0, 2.0 }, { 1.0, -2.0 } })
---   { true, false}
---   Tensor (2,) bool
---@param base_constraint moonlet.distributions.constraints.Constraint the constraint of each
---   element
---@param reinterpreted_batch_ndims integer how many further dimensions make one value
local Independent = define("IndependentConstraint", "independent",
  "Constraint base_constraint, int>=0 reinterpreted_batch_ndims", function(self, value)
    local found, count = self.base_constraint:check(value), self.reinterpreted_batch_ndims
    if count == 0 then return found end
    return shapes.flatten_last(found, count):all(-1)
  end)
constraints.independent = Independent

get = properties.of(Independent)
function get:is_discrete() return self.base_constraint.is_discrete end
function get:event_dim()
  return self.base_constraint.event_dim + self.reinterpreted_batch_ndims
end
function Independent:__tostring()
  return ("IndependentConstraint(%s, %d)"):format(tostring(self.base_constraint),
    self.reinterpreted_batch_ndims)
end

--- The support of a mixture: what lies in the support of each component.
--- > C = ml.distributions.constraints
--- > C.MixtureSameFamilyConstraint(C.positive):check(ml.tensor { 1.0, -1.0 })
---   { true, false}
---   Tensor (2,) bool
---@param base_constraint moonlet.distributions.constraints.Constraint the constraint of the
---   components
local Mixture = define("MixtureSameFamilyConstraint", "MixtureSameFamilyConstraint",
  "Constraint base_constraint", function(self, value)
    local event_dim = self.event_dim
    local found = self.base_constraint:check(value:unsqueeze(-1 - event_dim))
    return shapes.flatten_last(found, found:dim() - (value:dim() - event_dim)):all(-1)
  end)
constraints.MixtureSameFamilyConstraint = Mixture

get = properties.of(Mixture)
function get:is_discrete() return self.base_constraint.is_discrete end
function get:event_dim() return self.base_constraint.event_dim end
function Mixture:__tostring()
  return ("MixtureSameFamilyConstraint(%s)"):format(tostring(self.base_constraint))
end

-- Numbers.

--- The numbers 0 and 1.
--- > ml.distributions.constraints.boolean:check(ml.tensor { 0.0, 0.5, 1.0 })
---   { true, false,  true}
---   Tensor (3,) bool
constraints.boolean = single("Boolean", 0, function(_, value) return is_bit(value) end, true)

--- One-hot vectors: a single 1, and 0 elsewhere.
--- > ml.distributions.constraints.one_hot:check(ml.tensor { 0.0, 1.0, 0.0 })
---   true  Tensor () bool
constraints.one_hot = single("OneHot", 1, function(_, value)
  return is_bit(value):all(-1):logical_and(value:sum(-1):eq(1))
end, true)

--- Integers from a lower to an upper bound, both included.
--- > ml.distributions.constraints.integer_interval(1, 6):check(ml.tensor { 0.0, 3.0, 3.5 })
---   {false,  true, false}
---   Tensor (3,) bool
---@param lower_bound moonlet.Tensor|number the least integer
---@param upper_bound moonlet.Tensor|number the greatest integer
local IntegerInterval = define("IntegerInterval", "integer_interval", LOWER .. ", " .. UPPER,
  function(self, value)
    local inside = at_least(value, self.lower_bound):logical_and(at_most(value, self.upper_bound))
    return is_whole(value):logical_and(inside)
  end)
constraints.integer_interval = IntegerInterval
IntegerInterval.is_discrete = true

local IntegerGreaterThan = define("IntegerGreaterThan", "integer_greater_than", LOWER,
  function(self, value)
    return is_whole(value):logical_and(at_least(value, self.lower_bound))
  end)
IntegerGreaterThan.is_discrete = true

--- Integers of at least 0.
--- > ml.distributions.constraints.nonnegative_integer:check(ml.tensor { -1.0, 0.0, 1.5 })
---   {false,  true, false}
---   Tensor (3,) bool
constraints.nonnegative_integer = IntegerGreaterThan(0)

--- Integers of at least 1.
--- > ml.distributions.constraints.positive_integer:check(ml.tensor { 0.0, 1.0 })
---   {false,  true}
---   Tensor (2,) bool
constraints.positive_integer = IntegerGreaterThan(1)

--- All numbers but NaN.
--- > ml.distributions.constraints.real:check(ml.tensor { 1.0, 0 / 0 })
---   { true, false}
---   Tensor (2,) bool
constraints.real = single("Real", 0, function(_, value) return value:eq(value) end)

--- Vectors without NaN.
--- > ml.distributions.constraints.real_vector:check(ml.tensor { 1.0, 0 / 0 })
---   false  Tensor () bool
constraints.real_vector = Independent(constraints.real, 1)

--- Numbers greater than a bound.
--- > ml.distributions.constraints.greater_than(1):check(ml.tensor { 1.0, 2.0 })
---   {false,  true}
---   Tensor (2,) bool
---@param lower_bound moonlet.Tensor|number the bound, which is not included
---@formula x > lower_bound
local GreaterThan = define("GreaterThan", "greater_than", LOWER,
  function(self, value) return value:gt(self.lower_bound) end)
constraints.greater_than = GreaterThan

--- Numbers greater than 0.
--- > ml.distributions.constraints.positive:check(ml.tensor { 0.0, 2.0 })
---   {false,  true}
---   Tensor (2,) bool
constraints.positive = GreaterThan(0.0)

--- Numbers of at least a bound.
--- > ml.distributions.constraints.greater_than_eq(1):check(ml.tensor { 0.0, 1.0 })
---   {false,  true}
---   Tensor (2,) bool
---@param lower_bound moonlet.Tensor|number the least number
---@formula x >= lower_bound
local GreaterThanEq = define("GreaterThanEq", "greater_than_eq", LOWER,
  function(self, value) return at_least(value, self.lower_bound) end)
constraints.greater_than_eq = GreaterThanEq

--- Numbers of at least 0.
--- > ml.distributions.constraints.nonnegative:check(ml.tensor { -1.0, 0.0 })
---   {false,  true}
---   Tensor (2,) bool
constraints.nonnegative = GreaterThanEq(0.0)

--- Numbers less than a bound.
--- > ml.distributions.constraints.less_than(1):check(ml.tensor { 0.0, 1.0 })
---   { true, false}
---   Tensor (2,) bool
---@param upper_bound moonlet.Tensor|number the bound, which is not included
---@formula x < upper_bound
local LessThan = define("LessThan", "less_than", UPPER,
  function(self, value) return value:lt(self.upper_bound) end)
constraints.less_than = LessThan

--- Numbers from a lower to an upper bound, both included.
--- > ml.distributions.constraints.interval(0, 2):check(ml.tensor { 2.0, 3.0 })
---   { true, false}
---   Tensor (2,) bool
---@param lower_bound moonlet.Tensor|number the least number
---@param upper_bound moonlet.Tensor|number the greatest number
---@formula lower_bound <= x <= upper_bound
local Interval = define("Interval", "interval", LOWER .. ", " .. UPPER, function(self, value)
  return at_least(value, self.lower_bound):logical_and(at_most(value, self.upper_bound))
end)
constraints.interval = Interval

--- Numbers from 0 to 1, both included.
--- > ml.distributions.constraints.unit_interval:check(ml.tensor { 1.0, 1.5 })
---   { true, false}
---   Tensor (2,) bool
constraints.unit_interval = Interval(0.0, 1.0)

--- Numbers from a lower bound, included, to an upper bound, excluded.
--- > ml.distributions.constraints.half_open_interval(0, 2):check(ml.tensor { 0.0, 2.0 })
---   { true, false}
---   Tensor (2,) bool
---@param lower_bound moonlet.Tensor|number the least number
---@param upper_bound moonlet.Tensor|number the bound above, which is not included
---@formula lower_bound <= x < upper_bound
local HalfOpenInterval = define("HalfOpenInterval", "half_open_interval", LOWER .. ", " .. UPPER,
  function(self, value)
    return at_least(value, self.lower_bound):logical_and(value:lt(self.upper_bound))
  end)
constraints.half_open_interval = HalfOpenInterval

-- Vectors and matrices.

--- Vectors of nonnegative numbers whose sum is 1, up to 1e-6.
--- > ml.distributions.constraints.simplex:check(ml.tensor { 0.25, 0.75 })
---   true  Tensor () bool
constraints.simplex = single("Simplex", 1, function(_, value)
  return value:ge(0):all(-1):logical_and((value:sum(-1) - 1):abs():lt(1e-6))
end)

--- Vectors of nonnegative counts whose sum is at most a bound.
--- > ml.distributions.constraints.multinomial(3):check(ml.tensor { 1.0, 2.0 })
---   true  Tensor () bool
---@param upper_bound moonlet.Tensor|number the greatest sum
local Multinomial = define("Multinomial", "multinomial", UPPER, function(self, value)
  return value:ge(0):all(-1):logical_and(value:sum(-1):le(self.upper_bound))
end)
constraints.multinomial = Multinomial
Multinomial.is_discrete = true
Multinomial.event_dim = 1

local function is_lower(value) return value:tril():eq(value):flatten(-2, -1):all(-1) end

local function is_lower_cholesky(value)
  return is_lower(value):logical_and(value:diagonal(0, -2, -1):gt(0):all(-1))
end

--- Lower triangular matrices.
--- > ml.distributions.constraints.lower_triangular:check(ml.eye(2))
---   true  Tensor () bool
constraints.lower_triangular = single("LowerTriangular", 2, function(_, value)
  return is_lower(value)
end)

--- Lower triangular matrices with a positive diagonal.
--- > ml.distributions.constraints.lower_cholesky:check(ml.eye(2))
---   true  Tensor () bool
constraints.lower_cholesky = single("LowerCholesky", 2, function(_, value)
  return is_lower_cholesky(value)
end)

--- Cholesky factors of correlation matrices: lower triangular with a positive diagonal and rows of
--- norm 1.
--- > ml.distributions.constraints.corr_cholesky:check(ml.eye(2))
---   true  Tensor () bool
constraints.corr_cholesky = single("CorrCholesky", 2, function(_, value)
  local tolerance = ml.finfo(value.dtype).eps * value:size(-1) * 10
  local length = value:detach():square():sum(-1):sqrt()
  return is_lower_cholesky(value):logical_and((length - 1):abs():le(tolerance):all(-1))
end)

local function is_square(_, value)
  local batch = shapes.part(shapes.of(value), 1, -3)
  local found = value:size(-1) == value:size(-2)
  return ml.full(batch, found, { dtype = ml.bool, device = value.device })
end

local function is_symmetric(self, value)
  if value:size(-1) ~= value:size(-2) then return is_square(self, value) end
  return value:isclose(value.mT, { atol = 1e-6 }):flatten(-2, -1):all(-1)
end

-- `test` of symmetric matrices; where one is not symmetric, what of them is.
local function symmetric_and(test)
  return function(self, value)
    local symmetric = is_symmetric(self, value)
    if not symmetric:all():item() then return symmetric end
    return test(value)
  end
end

--- Square matrices.
--- > ml.distributions.constraints.square:check(ml.zeros(2, 2))
---   true  Tensor () bool
constraints.square = single("Square", 2, is_square)

--- Symmetric matrices: equal to their transposes.
--- > ml.distributions.constraints.symmetric:check(ml.eye(2))
---   true  Tensor () bool
constraints.symmetric = single("Symmetric", 2, is_symmetric)

--- Symmetric matrices without a negative eigenvalue.
--- > ml.distributions.constraints.positive_semidefinite:check(ml.zeros(2, 2))
---   true  Tensor () bool
constraints.positive_semidefinite = single("PositiveSemidefinite", 2,
  symmetric_and(function(value) return ml.linalg.eigvalsh(value):ge(0):all(-1) end))

--- Symmetric matrices whose eigenvalues are all positive.
--- > ml.distributions.constraints.positive_definite:check(ml.zeros(2, 2))
---   false  Tensor () bool
constraints.positive_definite = single("PositiveDefinite", 2, symmetric_and(function(value)
  local _, info = ml.linalg.cholesky_ex(value)
  return info:eq(0)
end))

-- Of parts of a tensor.

local function all_constraints(where, list)
  for i, item in ipairs(list) do
    if not class.is_instance(item, Constraint) then
      fail("%s: item %d of 'cseq': a constraint is expected, got %s", where, i,
        signature.describe(item))
    end
  end
  if #list == 0 then fail("%s: 'cseq' is empty", where) end
end

local function any_discrete(self)
  for _, item in ipairs(self.cseq) do
    if item.is_discrete then return true end
  end
  return false
end

local function most_dims(self)
  local most = 0
  for _, item in ipairs(self.cseq) do most = math.max(most, item.event_dim) end
  return most
end

local function check_dim(self, value, wanted)
  local rank, dim = value:dim(), self.dim
  if dim == 0 or dim > rank or dim < -rank then
    fail("%s: dimension %d of shape %s", tostring(self), dim, tostring(value.shape))
  end
  if value:size(dim) ~= wanted then
    fail("%s: dimension %d of shape %s has not size %d", tostring(self), dim,
      tostring(value.shape), wanted)
  end
end

local function show_parts(self)
  local parts = {}
  for i, item in ipairs(self.cseq) do parts[i] = tostring(item) end
  return ("%s({%s}, %d)"):format(class.name(class.of(self)), table.concat(parts, ", "), self.dim)
end

local read_cat = signature(
  "distributions.constraints.Cat(table cseq, int dim=1, int[]>=0? lengths=nil)",
  "distributions.constraints.cat")

--- Checks each slice along a dimension by a constraint of its own.
--- > C = ml.distributions.constraints
--- > C.cat({ C.positive, C.real }, 1, { 1, 2 }):check(ml.tensor { -1.0, -2.0, 3.0 })
---   {false,  true,  true}
---   Tensor (3,) bool
---@param cseq moonlet.distributions.constraints.Constraint[] the constraints
---@param dim? integer the dimension, counted from 1
---@param lengths? integer[] the size of each slice along `dim`; 1 each unless given
local Cat = class("Cat", Constraint)
constraints.cat = Cat

function Cat:init(...)
  local o = read_cat:table(...)
  all_constraints("distributions.constraints.cat", o.cseq)
  self.cseq, self.dim, self.lengths = o.cseq, o.dim, o.lengths or shapes.ones(#o.cseq)
  if #self.lengths ~= #self.cseq then
    fail("distributions.constraints.cat: %d lengths for %d constraints", #self.lengths, #self.cseq)
  end
end

get = properties.of(Cat)
get.is_discrete, get.event_dim = any_discrete, most_dims

function Cat:_check(value)
  local found, start, total = {}, 1, 0
  for _, length in ipairs(self.lengths) do total = total + length end
  check_dim(self, value, total)
  for i, item in ipairs(self.cseq) do
    found[i] = item:check(value:narrow(self.dim, start, self.lengths[i]))
    start = start + self.lengths[i]
  end
  return ml.cat(found, self.dim)
end
Cat.__tostring = show_parts

local read_stack = signature("distributions.constraints.Stack(table cseq, int dim=1)",
  "distributions.constraints.stack")

--- Checks each position of a dimension by a constraint of its own.
--- > C = ml.distributions.constraints
--- > C.stack({ C.positive, C.real }):check(ml.tensor { -1.0, -2.0 })
---   {false,  true}
---   Tensor (2,) bool
---@param cseq moonlet.distributions.constraints.Constraint[] the constraints
---@param dim? integer the dimension, counted from 1
local Stack = class("Stack", Constraint)
constraints.stack = Stack

function Stack:init(...)
  self.cseq, self.dim = read_stack(...)
  all_constraints("distributions.constraints.stack", self.cseq)
end

get = properties.of(Stack)
get.is_discrete = any_discrete
function get:event_dim()
  local most = most_dims(self)
  return self.dim < 0 and self.dim + most < 0 and most + 1 or most
end

function Stack:_check(value)
  local found = {}
  check_dim(self, value, #self.cseq)
  for i, item in ipairs(self.cseq) do found[i] = item:check(value:select(self.dim, i)) end
  return ml.stack(found, self.dim)
end
Stack.__tostring = show_parts

return options.namespace("distributions.constraints", constraints)
