-- stdlib/metrics/metric.lua: the base of metrics, and the checks of the classes they are given.

local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local metric = {}

-- A class beyond that is likely no class, and counts of each would fill the memory.
local MOST_CLASSES = 1 << 24

--- The base class of metrics. A metric accumulates statistics over batches: `update(...)` adds a
--- batch and returns the metric, `compute()` gives the value over all batches, `reset()` forgets
--- them, and `merge_state(metrics)` adds the statistics of other metrics. A subclass defines
--- `clear()`, `update`, `compute` and `merge(other)`, and its constructor ends with `self:reset()`.
--- > Count = ml.class("Count", ml.metrics.Metric)
--- > function Count:init() self:reset() end
--- > function Count:clear() self.n = 0 end
--- > function Count:update(x) self.n = self.n + #x; return self end
--- > function Count:compute() return self.n end
--- > Count():update(ml.zeros(3)):update(ml.zeros(4)):compute()
---   7
---@shape input (n, *), target (n, *) -> the value
local Metric = class.strict(class("Metric"))
metric.Metric = Metric

--- A class of metrics whose constructor takes those options, as `self.options`.
---@param name string
---@param declared string as in a signature
---@return table
function metric.define(name, declared)
  local cls = class.strict(class(name, Metric))
  local read = signature(("metrics.%s(%s)"):format(name, declared))
  function cls:init(...)
    self.options = read:table(...)
    self:reset()
  end
  return cls
end

--- Forgets all batches seen so far.
--- > metric = ml.metrics.Mean():update(3)
--- > metric:reset():update(1):compute()
---   1.0
---@return moonlet.metrics.Metric self
function Metric:reset()
  self:clear()
  return self
end

--- Sets the statistics to those of a metric that has seen no batch. `reset` calls it; each subclass
--- defines it.
--- > metric = ml.metrics.Mean():update(3)
--- > metric:clear()
--- > metric:compute()
---   nan
function Metric:clear() fail("%s: has no method clear", class.name(class.of(self))) end

--- Adds the statistics of one other metric of the class. `merge_state` calls it; each subclass
--- defines it.
--- > a, b = ml.metrics.Mean():update(1), ml.metrics.Mean():update(3)
--- > a:merge(b)
--- > a:compute()
---   2.0
---@param other moonlet.metrics.Metric the metric whose statistics are added; it stays as it is
function Metric:merge(other)
  fail("%s: has no method merge", class.name(class.of(other)))
end

signature.add_type("Metrics", "an array of metrics", function(value)
  return type(value) == "table" and not getmetatable(value) and value or nil
end, true)

local read_merge = signature("Metric:merge_state(Metrics metrics)", "merge_state")

--- Adds the statistics of other metrics of the same class, as those of other parts of the data. The
--- others stay as they are. Fails if one of them is the metric itself or of another class.
--- > a, b = ml.metrics.Mean():update(1), ml.metrics.Mean():update(3)
--- > a:merge_state({b}):compute()
---   2.0
---@param metrics moonlet.metrics.Metric[] metrics of the same class
---@return moonlet.metrics.Metric self
function Metric:merge_state(...)
  local others, own = read_merge(...), class.of(self)
  for i, other in ipairs(others) do
    if other == self then fail("merge_state: metric %d is the one to merge into", i) end
    if class.of(other) ~= own then
      fail("merge_state: metric %d must be a %s, got %s", i, class.name(own),
        signature.describe(other))
    end
  end
  for _, other in ipairs(others) do self:merge(other) end
  return self
end

function Metric.__tostring(self) return class.name(class.of(self)) .. "()" end

--- The elements of a tensor as a vector on the CPU, in a dtype, without history.
---@param x moonlet.Tensor
---@param dtype moonlet.dtype
---@return moonlet.Tensor
function metric.flat(x, dtype)
  return x:detach():to { device = "cpu", dtype = dtype }:reshape(-1)
end

local function check_range(where, name, values, count)
  if #values == 0 then return end
  local low, high = values:aminmax()
  low, high = low:item(), high:item()
  if low < 1 then
    fail("%s: '%s' has class %d; classes are counted from 1", where, name, low)
  elseif count and high > count then
    fail("%s: '%s' has class %d of %d classes", where, name, high, count)
  end
end

local function is_floating(x) return x:is_floating_point() end

local function check_dtype(where, name, x)
  if x:is_complex() then fail("%s: '%s' must not be complex", where, name) end
end

--- Yes or no for each element of a target of two classes, as a vector: of truth values; of classes
--- 1 (no) and 2 (yes); of floating 0 and 1, as binary_cross_entropy takes them.
---@param where string
---@param target moonlet.Tensor
---@return moonlet.Tensor classes 1 or 2
function metric.two_classes(where, target)
  check_dtype(where, "target", target)
  if target.dtype == ml.bool then return metric.flat(target, ml.int64) + 1 end
  if not is_floating(target) then
    local classes = metric.flat(target, ml.int64)
    check_range(where, "target", classes, 2)
    return classes
  end
  local values = metric.flat(target, ml.float64)
  if not values:eq(0):logical_or(values:eq(1)):all():item() then
    fail("%s: 'target' with a floating dtype must be 0 or 1 everywhere", where)
  end
  return values:long() + 1
end

local function check_same_shape(where, input, target)
  if input.shape ~= target.shape then
    fail("%s: 'input' has shape %s, 'target' %s", where, tostring(input.shape),
      tostring(target.shape))
  end
end

--- Whether `input` has a score for each class, (n, classes, ...) for targets (n, ...).
---@param where string
---@param input moonlet.Tensor
---@param target moonlet.Tensor
---@return boolean
function metric.has_scores(where, input, target)
  check_dtype(where, "input", input)
  check_dtype(where, "target", target)
  if input.ndim ~= target.ndim + 1 or target.ndim == 0 then
    check_same_shape(where, input, target)
    return false
  end
  local rest = input.shape:totable()
  local count = table.remove(rest, 2)
  local same = #rest == target.ndim
  for i, size in ipairs(rest) do same = same and size == target:size(i) end
  if not same or count == 0 or not is_floating(input) then
    fail("%s: 'input' must be classes of shape %s or floating scores of shape (%s), got %s of "
      .. "shape %s", where, tostring(target.shape), "n, classes, ...", input.dtype,
      tostring(input.shape))
  end
  return true
end

--- The true classes of a target, as a vector.
---@param where string
---@param target moonlet.Tensor
---@param count? integer how many classes there are
---@return moonlet.Tensor
function metric.true_classes(where, target, count)
  if is_floating(target) or target.dtype == ml.bool then
    fail("%s: 'target' must be classes, integers from 1, got %s", where, target.dtype)
  end
  local classes = metric.flat(target, ml.int64)
  check_range(where, "target", classes, count)
  return classes
end

local function guesses_of(where, input, o)
  if is_floating(input) then
    return metric.flat(input:ge(o.threshold), ml.int64) + 1
  elseif input.dtype == ml.bool then
    return metric.flat(input, ml.int64) + 1
  end
  local guesses = metric.flat(input, ml.int64)
  check_range(where, "input", guesses, o.num_classes)
  return guesses
end

--- The number of classes that scores are for, which must be that of the options if these say one.
---@param where string
---@param input moonlet.Tensor
---@param num_classes? integer
---@return integer
function metric.count_of(where, input, num_classes)
  local count = input:size(2)
  if num_classes and num_classes ~= count then
    fail("%s: 'input' has scores for %d classes, 'num_classes' is %d", where, count, num_classes)
  end
  return count
end

--- What was guessed and what is true, as vectors of classes from 1, and how many classes there are
--- at least. Without a score for each class, floating inputs are probabilities of class 2.
---@param where string
---@param input moonlet.Tensor
---@param target moonlet.Tensor
---@param o table options `num_classes` and `threshold`
---@return moonlet.Tensor guesses
---@return moonlet.Tensor truths
---@return integer count
function metric.classes(where, input, target, o)
  if metric.has_scores(where, input, target) then
    local count = metric.count_of(where, input, o.num_classes)
    local guesses = metric.flat(input:detach():argmax(2), ml.int64)
    return guesses, metric.true_classes(where, target, count), count
  end
  local guesses = guesses_of(where, input, o)
  local binary = is_floating(input) or input.dtype == ml.bool
  local truths = binary and metric.two_classes(where, target)
    or metric.true_classes(where, target, o.num_classes)
  local count = o.num_classes or binary and 2 or 0
  if count < 2 and binary then fail("%s: 'num_classes' is 1 for two classes", where) end
  if not o.num_classes and #truths > 0 then
    count = math.max(count, guesses:amax():item(), truths:amax():item())
    if count > MOST_CLASSES then
      fail("%s: there is a class %d; so many want 'num_classes'", where, count)
    end
  end
  return guesses, truths, count
end

--- A vector of counts with zeros up to `size`.
---@param counts moonlet.Tensor
---@param size integer
---@return moonlet.Tensor
function metric.grown(counts, size)
  if #counts >= size then return counts end
  return ml.cat { counts, ml.zeros { size - #counts, dtype = counts.dtype } }
end

--- The mean of the values whose weight is not 0, with these weights; NaN where there are none.
---@param values number[]
---@param weights number[]
---@return number
function metric.weighted_mean(values, weights)
  local total, weight = 0.0, 0.0
  for i, value in ipairs(values) do
    if weights[i] ~= 0 then
      total, weight = total + value * weights[i], weight + weights[i]
    end
  end
  return weight == 0 and 0 / 0 or total / weight
end

--- The result of a metric for one batch: the options of its class, `input` and `target`.
---@param cls table
---@param given table
---@return any
function metric.once(cls, given)
  local input, target = given.input, given.target
  given.input, given.target = nil, nil
  return cls(given):update(input, target):compute()
end

return metric
