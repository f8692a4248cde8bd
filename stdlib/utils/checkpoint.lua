-- stdlib/utils/checkpoint.lua: ml.utils.checkpoint: trades time for memory: what a part of a model
-- saves for its gradients is not kept, but computed again when backward needs it.
--
-- A call is a frame. Its hooks of saved tensors give the tape a holder for each tensor, numbered in
-- the order of saving. The first holder that backward opens runs the function once more, with the
-- same arguments, random numbers and autocast; what that saves, in the same order, is what the
-- holders stand for. The arguments themselves are saved through the hooks around the call, so that
-- checkpoints may be nested.

local ml = require "moonlet"
local fail = require("moonlet.options").fail
local is_callable = require("moonlet.options").is_callable
local namespace = require("moonlet.options").namespace
local selective = require "moonlet.utils.selective"
local signature = require "moonlet.signature"

local checkpoint = {
  create_selective_checkpoint_contexts = selective.create_selective_checkpoint_contexts,
}

-- --- what a second run needs to be like the first -----------------------------------------------

local function autocast_states()
  local out = {}
  for i, device in ipairs(ml._device_types()) do
    local active, dtype, enabled = ml._autocast_state(device)
    out[i] = { device = device, active = active, dtype = dtype, enabled = enabled }
  end
  return out
end

-- Runs f with the regions of autocast that there were.
local function under_autocast(states, i, f)
  local state = states[i]
  if not state then return f() end
  local active = ml._autocast_state(state.device)
  if not (state.active or active) then return under_autocast(states, i + 1, f) end
  local _ <close> = ml._autocast(state.device, state.dtype, state.active and state.enabled)
  return under_autocast(states, i + 1, f)
end

local function under_random_state(state, f)
  if not state then return f() end
  local before = ml.get_rng_state()
  local _ <close> = setmetatable({}, { __close = function() ml.set_rng_state(before) end })
  ml.set_rng_state(state)
  return f()
end

-- What runs leave behind must not outlive them: the tensors that it stands for are what a
-- checkpoint is to save. It is found by a collection of what is young: before a first run, when the
-- argument of the one before it has been dropped too, and after a second run. Others between would
-- make it old, so the collector rests during a run; one that fills the memory wakes it. A coroutine
-- might yield in one and never come back: there it goes on.
local function rest_collector()
  if coroutine.isyieldable() or not collectgarbage "isrunning" then return nil end
  collectgarbage "stop"
  return setmetatable({}, { __close = function()
    collectgarbage "restart"
    collectgarbage("step", -256)  -- not at once, as a restart has it: after so many KiB
  end })
end

local function collect_young()
  if collectgarbage "isrunning" then collectgarbage("step", 0) end
end

-- Saves the tensors among the arguments of a frame, with their tangents. Its result is never used,
-- and has none.
local Arguments = ml.autograd.Function {
  name = "CheckpointArguments",
  forward = function(ctx, _, ...)
    ctx:save_for_backward(...)
    return ml.empty(0)
  end,
  backward = function() fail "checkpoint: the node of its arguments has no gradient" end,
  jvp = function() return nil end,
}

-- --- frames --------------------------------------------------------------------------------------

local Frame = {}
Frame.__index = Frame

local STOP = setmetatable({}, { __tostring = function()
  return "checkpoint: the end of a recomputation was caught by the function that runs again"
end })

local function new_frame(options, f, ...)
  local count = select("#", ...)
  local self = setmetatable({ options = options, f = f, count = count, arguments = { ... },
    positions = {}, requires = {}, saved = {}, holders = setmetatable({}, { __mode = "v" }),
    runs = {} }, Frame)
  local tensors = {}
  for i = 1, count do
    local value = self.arguments[i]
    if ml.is_tensor(value) then
      tensors[#tensors + 1] = value
      self.positions[#tensors], self.requires[#tensors] = i, value.requires_grad
      self.arguments[i] = nil
    end
  end
  self.random = options.preserve_rng_state and ml.get_rng_state()
  self.autocast = autocast_states()
  if options.context_fn then self.context, self.second_context = options.context_fn() end
  for _, context in ipairs { self.context, self.second_context } do
    if type(context) == "table" and context.attach then context:attach(self) end
  end
  local recorded = ml._differentiation_input(ml.empty(0))
  self.node = Arguments(recorded, table.unpack(tensors)).grad_fn
  return self
end

local function look(t)
  return ("%s %s on %s"):format(t.shape, t.dtype, t.device)
end

-- In the first run: what the tape gets for a tensor.
function Frame:pack(t)
  local index = #self.saved + 1
  self.saved[index] = look(t)
  local holder = { frame = self, index = index }
  self.holders[index] = holder
  if self.context and type(self.context) == "table" and self.context.note then
    self.context:note(t)
  end
  return holder
end

local function ops_text(ops) return ops and table.concat(ops, ", ") or "" end

function Frame:differ(format, ...)
  local text = ("checkpoint: the function saved other tensors when it ran again: " .. format)
    :format(...)
  if self.options.debug then
    text = ("%s\nthe first run: %s\nthe second: %s"):format(text, ops_text(self.ops),
      ops_text(self.second_ops))
  end
  fail("%s", text)
end

-- In a second run: what the holder of that number stands for.
function Frame:keep(run, t)
  run.count = run.count + 1
  local index = run.count
  if index > #self.saved then return index end
  if self.options.determinism_check ~= "none" and self.saved[index] ~= look(t) then
    self:differ("tensor %d is %s, and was %s", index, look(t), self.saved[index])
  end
  if self.holders[index] then run.values[index] = t end
  if self.options.early_stop and index == #self.saved then
    run.stopped = true
    error(STOP, 0)
  end
  return index
end

function Frame:second_arguments()
  local saved = self.node.saved_tensors
  local out = table.move(self.arguments, 1, self.count, 1, {})
  for k, i in ipairs(self.positions) do
    local t = ml._without_history(saved[k])
    out[i] = self.requires[k] and t:requires_grad_(true) or t
  end
  return out
end

local function noting_ops(self, field, f, ...)
  if not self.options.debug then return f(...) end
  self[field] = {}
  local _ <close> = ml.override(function(op, arguments, call)
    table.insert(self[field], op.name)
    return call(arguments)
  end)
  return f(...)
end

local function in_context(context, f, ...)
  if context then return context(f, ...) end
  return f(...)
end

function Frame:run_again(run)
  local arguments = self:second_arguments()
  self.running = run
  local _ <close> = setmetatable({}, { __close = function() self.running = nil end })
  local _ <close> = ml.enable_grad()
  local _ <close> = ml._saved_tensors_hooks(function(t) return self:keep(run, t) end,
    function(index) return run.values[index] end)
  under_autocast(self.autocast, 1, function()
    under_random_state(self.random, function()
      in_context(self.second_context, noting_ops, self, "second_ops", self.f,
        table.unpack(arguments, 1, self.count))
    end)
  end)
end

function Frame:recompute()
  local run = { values = {}, count = 0, given = {}, given_count = 0 }
  local ok, message
  do
    local _ <close> = rest_collector()
    ok, message = pcall(self.run_again, self, run)
  end
  collect_young()
  if not ok and not (run.stopped and rawequal(message, STOP)) then error(message, 0) end
  if run.count ~= #self.saved and self.options.determinism_check ~= "none" then
    self:differ("%d of them, and %d before", run.count, #self.saved)
  end
  return run
end

-- What the node before has got is let go of: it has run. At once: the collector may take its time
-- with what is old.
local function let_go(run)
  for index in pairs(run.given) do
    run.values[index]:free()
    run.values[index] = nil
  end
  run.given = {}
end

-- The frame and the run whose last node has got what it wants, and may be running.
local finished = setmetatable({}, { __mode = "v" })

local function let_go_of_finished(run, node)
  local done = finished.run
  if not done or done == run and run.node == node then return end
  let_go(done)
  if finished.frame then finished.frame.runs = {} end
  finished.frame, finished.run = nil, nil
end

-- The tensor behind a holder.
function Frame:open(index)
  local backward, keeps_graph = ml._running_backward()
  local node = ml._unpacking_node()
  local run = self.runs[backward]
  let_go_of_finished(run, node)
  if not (run and run.values[index]) then
    run = self:recompute()
    self.runs = { [backward] = backward ~= 0 and run or nil }
  end
  if run.node ~= node then
    let_go(run)
    run.node = node
  end
  local t = run.values[index]
  if not t then
    self:differ("there is none for number %d of %d", index, #self.saved)
  end
  if not run.given[index] then run.given_count = run.given_count + 1 end
  run.given[index] = true
  -- All that was saved has been asked for, each by a node that will not run again. This node may
  -- ask for it once more.
  if run.given_count == #self.saved and not keeps_graph then
    ml._release_saved(self.node)
    finished.frame, finished.run = self, run
  end
  return t
end

-- --- calls ---------------------------------------------------------------------------------------

signature.add_choice("DeterminismCheck", { "default", "none" })
local read_options = signature("utils.checkpoint(bool use_reentrant=false, "
  .. "bool preserve_rng_state=true, function? context_fn=nil, "
  .. "DeterminismCheck determinism_check=\"default\", bool debug=false, bool early_stop=true)",
  "checkpoint")

-- What blocks have set instead of the options of their calls.
local overrides = {}

local function overriding(where, name, value, f, ...)
  if type(value) ~= "boolean" then
    fail("%s: true or false is expected, got %s", where, signature.describe(value))
  end
  local before = overrides[name]
  overrides[name] = value
  local guard = setmetatable({}, { __close = function() overrides[name] = before end })
  if f == nil then return guard end
  local _ <close> = guard
  return f(...)
end

--- Sets whether second runs end where nothing more is needed, for the checkpoints of `f` or of the
--- rest of the block that holds the result with `<close>`, whatever their option `early_stop` says.
--- > ml.utils.checkpoint.set_checkpoint_early_stop(false, function() return "done" end)
---   done
---@param on boolean true to end early
---@param f? fun(...): ... the function to run; without it the result is held as a `<close>`
---   variable
---@param ... any what `f` gets
---@return any ... its results, or the value to hold
function checkpoint.set_checkpoint_early_stop(on, f, ...)
  return overriding("set_checkpoint_early_stop", "early_stop", on, f, ...)
end

--- Sets whether errors about a second run list the ops of both, for the checkpoints of `f` or of
--- the rest of the block that holds the result with `<close>`, whatever their option `debug` says.
--- > ml.utils.checkpoint.set_checkpoint_debug_enabled(true, function() return "done" end)
---   done
---@param on boolean true to list them
---@param f? fun(...): ... the function to run; without it the result is held as a `<close>`
---   variable
---@param ... any what `f` gets
---@return any ... its results, or the value to hold
function checkpoint.set_checkpoint_debug_enabled(on, f, ...)
  return overriding("set_checkpoint_debug_enabled", "debug", on, f, ...)
end

local function is_options(value) return type(value) == "table" and getmetatable(value) == nil end

local function read(options)
  local given = read_options:table(options or {})
  if given.use_reentrant then
    fail "checkpoint: there is no reentrant form; leave use_reentrant out"
  end
  for name, value in pairs(overrides) do given[name] = value end
  return given
end

-- Whether the values of samples are differentiated outside of their vmap, where no node is made for
-- the samples that could save them.
local function is_differentiated_outside(...)
  local level = ml._vmap_enclosing(...)
  return level and ml._differentiated_outside(level, ...)
end

local function run_checkpointed(given, f, ...)
  if not ml.is_grad_enabled() or is_differentiated_outside(...) then return f(...) end
  local frame = new_frame(given, f, ...)
  local function pack(t) return frame:pack(t) end
  local function unpack(holder) return holder.frame:open(holder.index) end
  collect_young()
  local _ <close> = rest_collector()
  local _ <close> = ml._saved_tensors_hooks(pack, unpack)
  return in_context(frame.context, noting_ops, frame, "ops", f, ...)
end

--- Runs `f(...)` and keeps its arguments, but not what it saves for its gradients: backward runs
--- `f` once more where it needs that, which saves memory for time. `ml.utils.checkpoint(f, ...)` is
--- the same. `f` must do the same both times.
--- > w = ml.ones(2, { requires_grad = true })
--- > ml.utils.checkpoint(function(x) return x:exp():sin() end, w):sum():backward()
--- > w.grad
---   {-2.4783, -2.4783}
---   Tensor (2,) float32
---@param options? table the options, which may be left out
---@param f fun(...): ... the function
---@param ... any its arguments
---@param options.preserve_rng_state? boolean whether the second run draws the same random
---   numbers (default true)
---@param options.early_stop? boolean whether the second run ends where nothing more is needed
---   (default true)
---@param options.determinism_check? string "default" compares number, shapes and dtypes of
---   saved tensors, "none" does not
---@param options.debug? boolean whether errors about a difference list the ops of both runs
---   (default false)
---@param options.context_fn? function gives two functions `context(f, ...)` that run `f` the
---   first and the second time
---@param options.use_reentrant? boolean true is an error: there is one kind of checkpoint
---@return any ... the results of f
---@source Chen and others, "Training deep nets with sublinear memory cost", 2016
---@see utils.checkpoint.checkpoint_sequential
function checkpoint.checkpoint(options, f, ...)
  if not is_options(options) then return checkpoint.checkpoint({}, options, f, ...) end
  if not is_callable(f) then
    fail("checkpoint: use checkpoint(f, ...) or checkpoint({ options }, f, ...), got %s",
      signature.describe(f))
  end
  return run_checkpointed(read(options), f, ...)
end

local read_sequential = signature("utils.checkpoint_sequential(any functions, int>=1 segments, "
  .. "any input, dict options={})", "checkpoint_sequential")

--- Runs functions or modules one after the other, in segments of which all but the last are
--- checkpointed.
--- > net = ml.nn.Sequential(ml.nn.Linear(4, 4), ml.nn.ReLU(), ml.nn.Linear(4, 2))
--- > ml.utils.checkpoint.checkpoint_sequential(net, 2, ml.ones(1, 4)).shape
---   (1, 2)
---@param functions table an array of functions or modules, or an `nn.Sequential`
---@param segments integer number of segments
---@param input any the argument of the first function
---@param options? table those of `checkpoint`
---@return any output
---@see utils.checkpoint.checkpoint
function checkpoint.checkpoint_sequential(functions, segments, input, options)
  functions, segments, input, options = read_sequential(functions, segments, input,
    { options = options })
  read(options)  -- also where one segment needs none of them
  local list = type(functions) == "table" and functions.children and functions:children()
    or functions
  if type(list) ~= "table" or #list == 0 then
    fail("checkpoint_sequential: functions or modules are expected, got %s",
      signature.describe(functions))
  end
  if segments > #list then
    fail("checkpoint_sequential: %d segments of %d functions", segments, #list)
  end
  local size, from = #list // segments, 1
  local function piece(first, last)
    return function(x)
      for i = first, last do x = list[i](x) end
      return x
    end
  end
  for _ = 1, segments - 1 do
    input = checkpoint.checkpoint(options, piece(from, from + size - 1), input)
    from = from + size
  end
  return piece(from, #list)(input)
end

setmetatable(checkpoint, { __call = function(_, ...) return checkpoint.checkpoint(...) end })
return { checkpoint = namespace("utils.checkpoint", checkpoint) }
