-- stdlib/nn/utils/prune_methods.lua: the classes of nn.utils.prune: how masks are made, one after
-- the other.

local class = require "moonlet.class"
local computed = require "moonlet.nn.utils.computed"
local ml = require "moonlet"
local norms = require "moonlet.nn.utils.weight_norm"
local options = require "moonlet.options"
local fail = options.fail

local methods = {}

--- Base of pruning methods. A class of your own has a method `compute_mask(t, default_mask)`, which
--- gives a mask in the shape of `t`, and a field `PRUNING_TYPE`: "unstructured" methods see the
--- elements that are left, as a vector, "structured" ones the slices along `self.dim` that are
--- left, "global" ones all.
--- > class = require "moonlet.class"
--- > Below = class("Below", ml.nn.utils.prune.BasePruningMethod)
--- > Below.PRUNING_TYPE = "unstructured"
--- > function Below:compute_mask(t, default_mask) return default_mask * t:lt(2.5) end
--- > Below():prune(ml.tensor { 1.0, 2, 3 })
---   {1., 2., 0.}
---   Tensor (3,) float32
local Base = class "BasePruningMethod"
methods.BasePruningMethod = Base
Base.PRUNING_TYPE = "global"

--- The mask for a tensor of scores; every class defines it.
--- > mask = ml.nn.utils.prune.L1Unstructured(1):compute_mask(ml.tensor { 1.0, 2 }, ml.ones(2))
--- > mask
---   {0., 1.}
---   Tensor (2,) float32
---@error the class does not define it
function Base:compute_mask()
  fail("%s: has no method compute_mask", class.name(class.of(self)))
end

--- What is left of a module's parameter: the original times the mask.
--- > method = ml.nn.utils.prune.Identity()
--- > net = ml.nn.utils.prune.identity(ml.nn.Linear(2, 2), "weight")
--- > net.weight:eq(net.weight_orig * net.weight_mask):all()
---   true  Tensor () bool
---@param module table the module, whose parameter is pruned by this method
---@return moonlet.Tensor
function Base:apply_mask(module)
  local name = self._tensor_name
  local original = module[name .. "_orig"]
  return module[name .. "_mask"]:to { dtype = original.dtype } * original
end

--- Prunes a tensor: the tensor times the mask that comes of it, or of other scores.
--- > ml.nn.utils.prune.L1Unstructured(1):prune(ml.tensor { 1.0, 2 })
---   {0., 2.}
---   Tensor (2,) float32
---@param t moonlet.Tensor the tensor
---@param default_mask? moonlet.Tensor the mask to start from: ones unless given
---@param importance_scores? moonlet.Tensor what is compared instead of `t`
---@return moonlet.Tensor
---@shape t (*) -> (*)
function Base:prune(t, default_mask, importance_scores)
  local mask = self:compute_mask(importance_scores or t, default_mask or ml.ones_like(t:detach()))
  return t * mask:to { dtype = t.dtype }
end

--- Prunes a parameter of a module by the method of a class, which is made of the arguments that
--- follow the name.
--- > net = ml.nn.Linear(2, 2)
--- > ml.nn.utils.prune.L1Unstructured:apply(net, "weight", 0.5)
---   Linear(2 -> 2)         6
---   6 parameters
--- > net.weight_mask:sum()
---   2.  Tensor () float32
---@param module table the module
---@param name string the name of the parameter
---@param ... any the arguments of the class
---@return table module
function Base:apply(module, name, ...)
  if not class.is_class(self) then fail("prune: apply is called of a class") end
  return methods._apply(self(...), module, name)
end

-- How many of `count` are meant: an integer, or a part.
local function number_of(where, amount, count)
  if math.type(amount) == "integer" then
    if amount < 0 or amount > count then
      fail("%s: 'amount' %d is not from 0 to the number there is, %d", where, amount, count)
    end
    return amount
  end
  local exact = amount * count
  local nearest = math.floor(exact + 0.5)
  -- Halves go to the even number, as PyTorch's do.
  return nearest - exact == 0.5 and nearest % 2 == 1 and nearest - 1 or nearest
end

local function check_amount(where, amount)
  if type(amount) ~= "number" or amount < 0 or math.type(amount) == "float" and amount > 1 then
    fail("%s: 'amount' is an integer, or a part from 0 to 1, got %s", where, tostring(amount))
  end
end

local function define(name, kind, init, compute)
  local cls = class(name, Base)
  cls.PRUNING_TYPE, cls.init = kind, init

  --- The mask for a tensor of scores: `default_mask` without what the method prunes.
  --- > ml.nn.utils.prune.L1Unstructured(1):compute_mask(ml.tensor { 1.0, 2 }, ml.ones(2))
  ---   {0., 1.}
  ---   Tensor (2,) float32
  ---@param t the scores
  ---@param default_mask the mask to start from
  ---@shape t (*), default_mask (*) -> (*)
  function cls:compute_mask(t, default_mask) return compute(self, t:detach(), default_mask) end
  return cls
end

--- Pruning that prunes nothing.
--- > x = ml.tensor { { 1.0, 2 }, { 3.0, 4 } }
--- > ml.nn.utils.prune.Identity():prune(x)
---   {{1., 2.},
---    {3., 4.}}
---   Tensor (2, 2) float32
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
methods.Identity = define("Identity", "unstructured", nil, function(_, _, mask)
  return mask:clone()
end)

-- The mask with zeros at positions (from 1) of it as a vector.
local function without(mask, positions)
  local out = mask:clone():reshape(-1)
  if positions:numel() == 0 then return out:reshape(mask.shape) end
  return out:index_fill(1, positions, 0):reshape(mask.shape)
end

local function init_amount(name)
  return function(self, amount)
    check_amount(name, amount)
    self.amount = amount
  end
end

--- Pruning of elements at random.
--- > x = ml.tensor { { 1.0, 2 }, { 3.0, 4 } }
--- > ml.nn.utils.prune.RandomUnstructured(1):prune(x):count_nonzero()
---   3  Tensor () int64
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@param amount how many elements, or by a number from 0 to 1 that is no integer which part
---@see nn.utils.prune.BasePruningMethod
methods.RandomUnstructured = define("RandomUnstructured", "unstructured",
  init_amount "RandomUnstructured", function(self, t, mask)
    local count = number_of("RandomUnstructured", self.amount, t:numel())
    return without(mask, ml.randperm(t:numel(), { device = t.device }):narrow(1, 1, count))
  end)

--- Pruning of the elements of least absolute value.
--- > x = ml.tensor { { 1.0, 2 }, { 3.0, 4 } }
--- > ml.nn.utils.prune.L1Unstructured(1):prune(x)
---   {{0., 2.},
---    {3., 4.}}
---   Tensor (2, 2) float32
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@param amount how many elements, or by a number from 0 to 1 that is no integer which part
---@see nn.utils.prune.BasePruningMethod
methods.L1Unstructured = define("L1Unstructured", "unstructured", init_amount "L1Unstructured",
  function(self, t, mask)
    local count = number_of("L1Unstructured", self.amount, t:numel())
    if count == 0 then return mask:clone() end
    local _, positions = t:abs():reshape(-1):topk(count, { largest = false })
    return without(mask, positions)
  end)

-- The mask with zeros in the slices along `dim` other than those at `kept`.
local function only_slices(mask, dim, kept)
  local keep = ml.zeros({ mask.shape[dim] }, { dtype = mask.dtype, device = mask.device })
  if kept:numel() > 0 then keep = keep:index_fill(1, kept, 1) end
  local shape = {}
  for d = 1, mask.ndim do shape[d] = d == dim and -1 or 1 end
  return mask * keep:reshape(shape)
end

local function slice_dim(where, t, dim)
  if t.ndim < 2 then
    fail("%s: slices are for at least two dimensions, got shape %s", where, tostring(t.shape))
  end
  return norms._dim(where, t, dim)
end

--- Pruning of slices along a dimension at random.
--- > x = ml.tensor { { 1.0, 2 }, { 3.0, 4 } }
--- > ml.nn.utils.prune.RandomStructured(1, 1):prune(x):count_nonzero()
---   2  Tensor () int64
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@param amount how many slices, or by a number from 0 to 1 that is no integer which part
---@param dim the dimension of the slices, from 1
---@see nn.utils.prune.BasePruningMethod
methods.RandomStructured = define("RandomStructured", "structured", function(self, amount, dim)
  check_amount("RandomStructured", amount)
  self.amount, self.dim = amount, dim or -1
end, function(self, t, mask)
  local dim = slice_dim("RandomStructured", t, self.dim)
  local size = t.shape[dim]
  local count = number_of("RandomStructured", self.amount, size)
  local kept = ml.randperm(size, { device = t.device }):narrow(1, 1, size - count)
  return only_slices(mask, dim, kept)
end)

--- Pruning of the slices along a dimension whose norm is least.
--- > x = ml.tensor { { 1.0, 2 }, { 3.0, 4 } }
--- > ml.nn.utils.prune.LnStructured(1, 2, 1):prune(x)
---   {{0., 0.},
---    {3., 4.}}
---   Tensor (2, 2) float32
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@param amount how many slices, or by a number from 0 to 1 that is no integer which part
---@param n the exponent of the norm
---@param dim the dimension of the slices, from 1
---@see nn.utils.prune.BasePruningMethod
methods.LnStructured = define("LnStructured", "structured", function(self, amount, n, dim)
  check_amount("LnStructured", amount)
  self.amount, self.n, self.dim = amount, n, dim or -1
end, function(self, t, mask)
  local dim = slice_dim("LnStructured", t, self.dim)
  local size, others = t.shape[dim], {}
  local count = number_of("LnStructured", self.amount, size)
  if count == 0 then return mask:clone() end
  for d = 1, t.ndim do
    if d ~= dim then others[#others + 1] = d end
  end
  local _, kept = t:norm(self.n, others):reshape(-1):topk(size - count)
  return only_slices(mask, dim, kept)
end)

--- Pruning by a given mask.
--- > x = ml.tensor { { 1.0, 2 }, { 3.0, 4 } }
--- > ml.nn.utils.prune.CustomFromMask(ml.tensor { { 1.0, 0 }, { 0, 1 } }):prune(x)
---   {{1., 0.},
---    {0., 4.}}
---   Tensor (2, 2) float32
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@see nn.utils.prune.BasePruningMethod
---@param mask what is multiplied with the mask that is there
---@see nn.utils.prune.BasePruningMethod
methods.CustomFromMask = define("CustomFromMask", "global", function(self, mask)
  self.mask = mask
end, function(self, _, mask)
  if self.mask.shape ~= mask.shape then
    fail("CustomFromMask: the mask has shape %s, the parameter %s", tostring(self.mask.shape),
      tostring(mask.shape))
  end
  return mask * self.mask:to { dtype = mask.dtype, device = mask.device }
end)

--- Several pruning methods, one after the other: each sees what those before have left.
--- > prune = ml.nn.utils.prune
--- > #prune.PruningContainer(prune.L1Unstructured(1), prune.L1Unstructured(1))
---   2
---@param ... the methods, all of the same parameter
local Container = class("PruningContainer", Base)
methods.PruningContainer = Container

function Container:init(...)
  self._methods = {}
  for _, method in ipairs { ... } do self:add_pruning_method(method) end
end

--- Adds a pruning method after the others.
--- > container = ml.nn.utils.prune.PruningContainer()
--- > container:add_pruning_method(ml.nn.utils.prune.L1Unstructured(1))
--- > #container
---   1
---@param method table the method, of the same parameter
function Container:add_pruning_method(method)
  if not class.is_instance(method, Base) then
    fail("PruningContainer: a pruning method is expected, got %s", type(method))
  elseif self._tensor_name and method._tensor_name ~= self._tensor_name then
    fail("PruningContainer: the method is for '%s', the others for '%s'",
      tostring(method._tensor_name), self._tensor_name)
  end
  self._tensor_name = method._tensor_name
  table.insert(self._methods, method)
end

function Container.__len(self) return #self._methods end

-- The mask with what one more method prunes of what is left.
function Container._one_more(_, method, t, mask)
  local kind = method.PRUNING_TYPE
  mask = mask:to { dtype = t.dtype }
  if kind == "global" then return method:compute_mask(t, mask) end
  if kind == "unstructured" then
    local flat = mask:reshape(-1)
    local left = flat:nonzero():reshape(-1)
    local scores = t:reshape(-1):index_select(1, left)
    local part = method:compute_mask(scores, flat:index_select(1, left))
    return flat:index_copy(1, left, part):reshape(mask.shape)
  elseif kind ~= "structured" then
    fail("PruningContainer: the method's PRUNING_TYPE is %q", tostring(kind))
  end
  local dim = norms._dim("PruningContainer", t, method.dim)
  local others = {}
  for d = 1, t.ndim do
    if d ~= dim then others[#others + 1] = d end
  end
  local left = mask:sum(others):nonzero():reshape(-1)
  local part = method:compute_mask(t:index_select(dim, left), mask:index_select(dim, left))
  return mask:index_copy(dim, left, part)
end

--- The mask of the newest method for what an older mask has left.
--- > container = ml.nn.utils.prune.PruningContainer(ml.nn.utils.prune.L1Unstructured(1))
--- > container:compute_mask(ml.tensor { 1.0, 2, 3 }, ml.tensor { 0.0, 1, 1 })
---   {0., 0., 1.}
---   Tensor (3,) float32
---@param t moonlet.Tensor the scores
---@param mask moonlet.Tensor the older mask
---@return moonlet.Tensor
---@shape t (*), mask (*) -> (*)
function Container:compute_mask(t, mask)
  return self:_one_more(self._methods[#self._methods], t:detach(), mask)
end

-- Prunes a parameter, also one that is pruned already.
function methods._apply(method, module, name, scores)
  method._tensor_name = name
  local record = computed.find(module, name, "prune")
  if record then
    local container = record.method
    if not class.is_instance(container, Container) then
      container = Container(container)
      record.method = container
    end
    container:add_pruning_method(method)
    local mask = module[name .. "_mask"]
    module[name .. "_mask"] = container:compute_mask(scores or module[name .. "_orig"], mask)
    record.hook(module)
    return module
  end
  local original = computed.parameter_of("nn.utils.prune", module, name)
  if scores and scores.shape ~= original.shape then
    fail("nn.utils.prune: the scores have shape %s, '%s' has %s", tostring(scores.shape), name,
      tostring(original.shape))
  end
  local mask = Container._one_more(nil, method, (scores or original):detach(),
    ml.ones_like(original:detach()))
  module:_forget(name)
  module[name .. "_orig"] = original
  module:register_buffer(name .. "_mask", mask:to { dtype = original.dtype })
  computed.install(module, name, { kind = "prune", method = method,
    compute = function(self, own) return own.method:apply_mask(self) end })
  return module
end

-- Makes pruning of a parameter permanent.
function methods._remove(where, module, name)
  local record = computed.remove(where, module, name, "prune")
  local original = module[name .. "_orig"]
  do
    local _ <close> = ml.no_grad()
    original:copy_(record.method:apply_mask(module))
  end
  module:_forget(name .. "_orig")
  module:_forget(name .. "_mask")
  module[name] = original
  return module
end

--- Makes pruning of a module's parameter permanent.
--- > net = ml.nn.Linear(2, 2)
--- > ml.nn.utils.prune.L1Unstructured:apply(net, "weight", 0.5)
---   Linear(2 -> 2)         6
---   6 parameters
--- > ml.nn.utils.prune.remove(net, "weight").weight:eq(0):sum()
---   2  Tensor () int64
---@param module table the module, whose parameter is pruned by this method
function Base:remove(module)
  return methods._remove("nn.utils.prune", module, self._tensor_name)
end

return methods
