-- stdlib/distributions/registry.lua: distributions.biject_to and transform_to: which transform
-- leads from all real numbers to a constraint.

local class = require "moonlet.class"
local constraints = require "moonlet.distributions.constraints"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local transforms = require "moonlet.distributions.transforms"
local fail = options.fail

local registry = {}

--- Registry of transforms by the class of the constraint they lead to; called with a constraint it
--- returns the transform. `biject_to` and `transform_to` are two of them.
--- > ml.distributions.transform_to(ml.distributions.constraints.positive)
---   ComposeTransform(
---       ExpTransform(),
---       AffineTransform()
---   )
---@param name string what error messages call it
local ConstraintRegistry = class("ConstraintRegistry")
registry.ConstraintRegistry = ConstraintRegistry

local read_init = signature "distributions.ConstraintRegistry(string name)"
local read_call = signature("ConstraintRegistry:call(Constraint constraint)", "registry")
local read_register = signature("ConstraintRegistry:register(any constraint, "
  .. "function? factory=nil)")

function ConstraintRegistry:init(...)
  self.name, self._factories = read_init(...), {}
end

--- Registers what makes the transform to a constraint. Without `factory` the result is a function
--- that takes it.
--- > C = ml.class("Percent", ml.distributions.constraints.Constraint)
--- > registry = ml.distributions.ConstraintRegistry("mine")
--- > _ = registry:register(C, function() return ml.distributions.AffineTransform(0, 100) end)
--- > registry(C())
---   AffineTransform()
---@param constraint table a constraint, or a class of constraints
---@param factory? fun(constraint: table): table gives the transform to a constraint of the class
---@return function
function ConstraintRegistry:register(...)
  local constraint, factory = read_register(...)
  local cls = class.of(constraint) or constraint
  if not class.is_class(cls) or not class.is_subclass(cls, constraints.Constraint) then
    fail("%s: register: a constraint or a class of them is expected, got %s", self.name,
      signature.describe(constraint))
  end
  if not factory then return function(made) return self:register(constraint, made) end end
  self._factories[cls] = factory
  return factory
end

function ConstraintRegistry:__call(...)
  local constraint = read_call(...)
  local factory = self._factories[class.of(constraint)]
  if not factory then fail("%s: no transform leads to %s", self.name, tostring(constraint)) end
  return factory(constraint)
end

--- The registry of bijective transforms from all real numbers, or vectors, to a constraint, as for
--- sampling in unconstrained space with the determinant of the Jacobian.
--- `biject_to(constraints.simplex)` is `StickBreakingTransform`.
--- > ml.distributions.biject_to(ml.distributions.constraints.simplex)
---   StickBreakingTransform()
registry.biject_to = ConstraintRegistry("distributions.biject_to")

--- The registry of transforms from all real numbers, or vectors, to a constraint, as for
--- optimisation; not all are bijective. `transform_to(constraints.simplex)` is `SoftmaxTransform`.
--- > ml.distributions.transform_to(ml.distributions.constraints.simplex)
---   SoftmaxTransform()
registry.transform_to = ConstraintRegistry("distributions.transform_to")

local biject_to, transform_to = registry.biject_to, registry.transform_to

local function both(constraint, make)
  for _, target in ipairs { biject_to, transform_to } do
    target:register(constraint, function(given) return make(given, target) end)
  end
end

local function shifted(name, sign)
  return function(constraint)
    return transforms.ComposeTransform { transforms.ExpTransform(),
      transforms.AffineTransform(constraint[name], sign) }
  end
end

local function to_interval(constraint)
  local low, high = constraint.lower_bound, constraint.upper_bound
  if low == 0 and high == 1 then return transforms.SigmoidTransform() end
  return transforms.ComposeTransform { transforms.SigmoidTransform(),
    transforms.AffineTransform(low, high - low) }
end

-- The transforms to each constraint of the list.
local function each(target, list)
  local out = {}
  for i, constraint in ipairs(list) do out[i] = target(constraint) end
  return out
end

both(constraints.real, function() return transforms.identity_transform end)
both(constraints.independent, function(constraint, target)
  return transforms.IndependentTransform(target(constraint.base_constraint),
    constraint.reinterpreted_batch_ndims)
end)
both(constraints.greater_than, shifted("lower_bound", 1))
both(constraints.greater_than_eq, shifted("lower_bound", 1))
both(constraints.less_than, shifted("upper_bound", -1))
both(constraints.interval, to_interval)
both(constraints.half_open_interval, to_interval)
both(constraints.corr_cholesky, function() return transforms.CorrCholeskyTransform() end)
both(constraints.cat, function(constraint, target)
  return transforms.CatTransform(each(target, constraint.cseq), constraint.dim, constraint.lengths)
end)
both(constraints.stack, function(constraint, target)
  return transforms.StackTransform(each(target, constraint.cseq), constraint.dim)
end)
biject_to:register(constraints.simplex, function() return transforms.StickBreakingTransform() end)
transform_to:register(constraints.simplex, function() return transforms.SoftmaxTransform() end)
transform_to:register(constraints.lower_cholesky,
  function() return transforms.LowerCholeskyTransform() end)
transform_to:register(constraints.positive_definite,
  function() return transforms.PositiveDefiniteTransform() end)
transform_to:register(constraints.positive_semidefinite,
  function() return transforms.PositiveDefiniteTransform() end)

return registry
