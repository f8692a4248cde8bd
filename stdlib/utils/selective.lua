-- stdlib/utils/selective.lua: checkpoints that keep the results of some ops: the contexts of a
-- first run, which notes them, and of a second, which uses them instead of running the op.

local ml = require "moonlet"
local fail = require("moonlet.options").fail
local is_callable = require("moonlet.options").is_callable
local did_you_mean = require("moonlet.options").did_you_mean
local signature = require "moonlet.signature"

local selective = {}

-- A function (op, arguments) -> whether to keep the results.
local function policy_of(given)
  if is_callable(given) then return given end
  local known, wanted = ml.ops.list(), {}
  local is_known = {}
  for _, name in ipairs(known) do is_known[name] = true end
  for _, name in ipairs(given) do
    if not is_known[name] then
      fail("create_selective_checkpoint_contexts: there is no op '%s'%s", tostring(name),
        did_you_mean(name, known))
    end
    wanted[name] = true
  end
  return function(op) return wanted[op.name] end
end

-- Views and changes in place are made again: they cost nothing, or have to be made.
local function is_kept(policy, op, arguments)
  return op.form == "plain" and not op.is_view and policy(op, arguments) and true or false
end

local function same_memory(a, b)
  if not ml.is_tensor(a) or a:data_ptr() ~= b:data_ptr() or a.dtype ~= b.dtype
    or a:dim() ~= b:dim() then
    return false
  end
  for d = 1, a:dim() do
    if a:size(d) ~= b:size(d) or a:stride(d) ~= b:stride(d) then return false end
  end
  return true
end

-- Where among values, of which some may be arrays, the tensor is: a path, or nil.
local function find(values, count, t)
  for i = 1, count do
    local value = values[i]
    if same_memory(value, t) then return { i } end
    if type(value) == "table" and not getmetatable(value) then
      for k, each in ipairs(value) do
        if same_memory(each, t) then return { i, k } end
      end
    end
  end
end

local function at(values, path)
  local value = values[path[1]]
  return path[2] and value[path[2]] or value
end

local Context = {}
Context.__index = Context

function Context:attach(frame) self.frame = frame end

-- In the first run: the frame saves t. Of an op that is kept, it is noted.
function Context:note(t)
  if self.saved then table.insert(self.saved, t) end
end

local function without_history(value)
  if ml.is_tensor(value) then return value:detach() end
  if type(value) ~= "table" then return value end
  local out = {}
  for i, each in ipairs(value) do out[i] = without_history(each) end
  return out
end

local function first_handler(self, op, arguments, call)
  if self.saved or not is_kept(self.policy, op, arguments) then return call(arguments) end
  local given = table.move(arguments, 1, #op.arguments, 1, {})
  self.saved = {}
  local _ <close> = setmetatable({}, { __close = function() self.saved = nil end })
  local results = table.pack(call(arguments))
  local entry = { op = op.name, results = {}, count = results.n, requires = {}, sources = {},
    random = op.random and ml.get_rng_state() }
  for i = 1, results.n do
    entry.results[i] = without_history(results[i])
    entry.requires[i] = ml.is_tensor(results[i]) and results[i].requires_grad
  end
  for i, t in ipairs(self.saved) do
    local argument = find(given, #op.arguments, t)
    local result = not argument and find(results, results.n, t)
    entry.sources[i] = { argument = argument, result = result,
      value = not (argument or result) and t or nil }
  end
  table.insert(self.cache, entry)
  return table.unpack(results, 1, results.n)
end

-- In the second run: the results of the entry, after saving what the op had saved.
local function second_handler(self, op, arguments, call)
  if not is_kept(self.policy, op, arguments) then return call(arguments) end
  self.next = self.next + 1
  local entry = self.cache[self.next]
  if not entry or entry.op ~= op.name then
    fail("checkpoint: the function called %s when it ran again, and %s before", op.name,
      entry and entry.op or "no further op whose results are kept")
  end
  for _, source in ipairs(entry.sources) do
    local t = source.value or (source.argument and at(arguments, source.argument))
      or at(entry.results, source.result)
    self.frame:keep(self.frame.running, t:detach())
  end
  if entry.random then ml.set_rng_state(entry.random) end
  local out = {}
  for i = 1, entry.count do
    local value = entry.results[i]
    out[i] = entry.requires[i] and value:detach():requires_grad_(true) or value
  end
  return table.unpack(out, 1, entry.count)
end

local function new_context(policy, cache, handler, restart)
  return setmetatable({ policy = policy, cache = cache, handler = handler, next = 0,
    restart = restart }, Context)
end

function Context:__call(f, ...)
  if self.restart then self.next = 0 end
  return ml.override(function(op, arguments, call)
    return self.handler(self, op, arguments, call)
  end, f, ...)
end

--- The two contexts of a checkpoint that keeps the results of some ops and computes the others
--- again, for the option `context_fn` of `checkpoint`. Views and in-place changes are always made
--- again.
--- > contexts = function()
---     return ml.utils.checkpoint.create_selective_checkpoint_contexts { "mm", "linear" }
---   end
--- > w = ml.ones(2, 2, { requires_grad = true })
--- > y = ml.utils.checkpoint({ context_fn = contexts }, function(x) return x:mm(x):log() end, w)
--- > ml.grad(y:sum(), w)
---   {{2., 2.},
---    {2., 2.}}
---   Tensor (2, 2) float32
---@param policy string[]|fun(op: moonlet.Op, arguments: table): boolean names of the ops to
---   keep, or a function of an op and its arguments that says true to keep
---@return fun(f: function, ...): ... first
---@return fun(f: function, ...): ... second
---@see utils.checkpoint.checkpoint
function selective.create_selective_checkpoint_contexts(policy)
  if not is_callable(policy) and not (type(policy) == "table" and #policy > 0) then
    fail("create_selective_checkpoint_contexts: names of ops or a function is expected, got %s",
      signature.describe(policy))
  end
  local decide, cache = policy_of(policy), {}
  return new_context(decide, cache, first_handler), new_context(decide, cache, second_handler, true)
end

return selective
