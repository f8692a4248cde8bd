-- stdlib/compile.lua: ml.compile: functions whose ops are written down while they run, and then run
-- from a plan without Lua. What a call finds and compares is in interp/binding/program/.

local defined = require "moonlet.ops.defined"
local everywhere = require "moonlet.nn.everywhere"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail
local is_callable = options.is_callable

local compiled = ml._compiled
local begin, finish = compiled.begin, compiled.finish
local parts, enter, parts_info = compiled.parts, compiled.enter, compiled.parts_info
local seconds, always_parts = compiled.clock, compiled.always_parts

local compile = {}

-- How many captures may fail, and how many in a row may be of guards that never held again, before
-- the function is left alone.
local MOST_FAILURES, MOST_UNUSED = 3, 16
-- How many of the last reasons are kept.
local MOST_NOTES = 8
-- After so many sizes the graphs of others are foretold.
local MANY_SIZES = 3

local logs = os.getenv "MOONLET_COMPILE" == "log"

-- What is kept of each compiled object, by the object. `collects`: two captures were not the same.
-- Backward passes come to a leaf in another order while the tape of an earlier one waits for the
-- collector; before later captures it runs, so that what differs then is the function.
local states = setmetatable({}, { __mode = "k" })

-- --- what happened -----------------------------------------------------------------------------

local function with_line(reason, line)
  return line and line ~= "" and ("%s (%s)"):format(reason, line) or reason
end

local function note(state, text)
  if logs then io.stderr:write("compile: ", state.title, ": ", text, "\n") end
  local notes = state.notes
  if notes[#notes] == text then return end
  if #notes == MOST_NOTES then table.remove(notes, 1) end
  notes[#notes + 1] = text
end

local function require_whole(state, reason)
  if state.fullgraph then
    fail("compile: %s stays eager, which fullgraph = true refuses: %s", state.title, reason)
  end
end

local function leave_eager(state, reason)
  state.eager = reason
  note(state, "stays eager: " .. reason)
end

local happened = {}

function happened.captured(state, why)
  state.captures = state.captures + 1
  state.unused = state.unused + 1
  if why:find "has other sizes$" then state.sizes = state.sizes + 1 end
  note(state, why == "" and "captured" or "captured again: " .. why)
  if state.unused > MOST_UNUSED then
    leave_eager(state, "its guards seldom hold twice: " .. why)
    require_whole(state, state.eager)
  end
end

function happened.compiled(state)
  state.unused, state.failures = 0, 0
  note(state, "compiled")
end

function happened.sized(state)
  state.failures = 0
  state.sized = true
  note(state, "compiled for other sizes, as foretold")
end

function happened.eager(state, _, reason)
  note(state, "runs eager under these guards: " .. reason)
  require_whole(state, reason)
end

-- Whether a function that is not captured for that reason runs by parts: up to where it reads a
-- value, or computes with other processes, its ops run from a plan, and Lua decides what follows.
local function is_read(reason)
  return reason:find " reads values" or reason:find " depends on values"
    or reason:find " meets other ranks" or reason:find "^it calls print,"
end

function happened.failed(state, _, reason)
  if is_read(reason) then
    require_whole(state, reason)
    state.parts, state.calls = parts(), 1
    note(state, "runs by parts: " .. reason)
    return
  end
  state.failures = state.failures + 1
  note(state, "not captured: " .. reason)
  if state.failures >= MOST_FAILURES then leave_eager(state, reason) end
  require_whole(state, reason)
end

function happened.different(state, _, reason)
  reason = "it is not the same twice: " .. reason
  if not state.collects then
    state.collects = true
    return note(state, "captured anew, without garbage: " .. reason)
  end
  leave_eager(state, reason)
  require_whole(state, reason)
  warn("ml.compile: " .. state.title .. " stays eager: " .. reason)
end

-- --- calls -------------------------------------------------------------------------------------

local function run_eager(state, reason, ...)
  -- Inside a capture it is a part of what is captured, and keeps nothing.
  if not reason:find "captured already" then
    note(state, "ran eager: " .. reason)
    require_whole(state, reason)
  end
  return state.f(...)
end

-- Behind the call of the function.
local function done(state, session, why, ...)
  local outcome, reason, line = finish(session, ...)
  happened[outcome](state, why, with_line(reason, line))
  return ...
end

-- Of a function that reads values, some calls run as they are and later ones by parts, when there
-- are plans: it is left alone where these are no quicker.
local FIRST_EAGER, EAGER_CALLS, FIRST_TIMED, TIMED_CALLS = 2, 3, 9, 4

local function took(state, which, start, ...)
  state[which] = math.min(state[which] or math.huge, seconds() - start)
  if which == "by_parts" and state.calls >= FIRST_TIMED + TIMED_CALLS - 1 then
    state.timed = true
    if state.by_parts > state.as_it_is then
      leave_eager(state, ("its ops gain nothing by parts: %.1f us, %.1f us as it is"):format(
        1e6 * state.by_parts, 1e6 * state.as_it_is))
    end
  end
  return ...
end

local run_by_parts

local function run_timed(state, ...)
  local calls = state.calls + 1
  state.calls = calls
  if always_parts() then state.timed = true end
  local start = seconds()
  if calls >= FIRST_EAGER and calls < FIRST_EAGER + EAGER_CALLS and not state.timed then
    return took(state, "as_it_is", start, state.f(...))
  elseif calls >= FIRST_TIMED and not state.timed then
    return took(state, "by_parts", start, run_by_parts(state, ...))
  end
  return run_by_parts(state, ...)
end

-- A call whose ops are put off up to each read.
function run_by_parts(state, ...)
  local scope, reason, for_good = enter(state.parts)
  if not scope then
    if for_good then leave_eager(state, reason) else note(state, "ran eager: " .. reason) end
    return state.f(...)
  end
  local _ <close> = scope
  return state.f(...)
end

-- A call that no plan fits.
local function slow(state, ...)
  if state.eager then
    require_whole(state, state.eager)
    return state.f(...)
  end
  if state.parts then return (state.timed and run_by_parts or run_timed)(state, ...) end
  if state.collects then collectgarbage() end
  local session, why = begin(state.core, ...)
  if not session then return run_eager(state, why, ...) end
  local _ <close> = session
  return done(state, session, why, state.f(...))
end

-- What `compiled.caller` leaves to Lua: a call that no plan answers, or that is to run as it is.
local function missed(state, eager, ...)
  if eager and not state.fullgraph then return state.f(...) end
  return slow(state, ...)
end

-- --- what explains -----------------------------------------------------------------------------

local function plural(count, word)
  return ("%d %s%s"):format(count, word, count == 1 and "" or "s")
end

local function entry_text(i, entry)
  local text = ("  guards %d (%s): "):format(i, plural(entry.guards, "value"))
  if entry.state == "compiled" then
    return text .. ("%s in %s, %d bytes, run %s"):format(plural(entry.ops, "op"),
      plural(entry.steps, "step"), entry.bytes, plural(entry.runs, "time"))
  elseif entry.state == "captured" then
    return text .. ("%s captured once; the next call compares"):format(plural(entry.ops, "op"))
  end
  return text .. "eager: " .. entry.reason
end

local function part_text(i, part)
  local how = part.steps and ("%s in %s, %d bytes"):format(plural(part.ops, "op"),
    plural(part.steps, "step"), part.bytes) or plural(part.ops, "op")
  return ("    part %d: %s, run %s, ends where %s"):format(i, how, plural(part.runs, "time"),
    part.reason)
end

local function add_parts(lines, state)
  local list, runs, mismatches = parts_info(state.parts)
  lines[#lines + 1] = ("  by parts: run %s, %s left before the end"):format(plural(runs, "time"),
    plural(mismatches, "part"))
  for i, part in ipairs(list) do lines[#lines + 1] = part_text(i, part) end
end

local function explain(object)
  local state = states[object]
  local lines = { "compiled " .. state.title }
  if state.eager then lines[#lines + 1] = "  stays eager: " .. state.eager end
  local entries, why = compiled.info(state.core)
  for i, entry in ipairs(entries) do
    lines[#lines + 1] = entry_text(i, entry)
    for _, text in ipairs(entry.fused or {}) do lines[#lines + 1] = "    fused: " .. text end
    for _, text in ipairs(entry.apart or {}) do lines[#lines + 1] = "    not fused: " .. text end
  end
  if state.parts then add_parts(lines, state) end
  if state.sized then
    lines[#lines + 1] = ("  sizes vary: the first call of each is compared with what the graphs of "
      .. "others foretell, the last %d are kept"):format(compiled.most_sized)
  end
  if state.sizes >= MANY_SIZES and (state.dynamic == false or why ~= "") then
    lines[#lines + 1] = ("  sizes vary: each is compiled for itself, the last %d are kept%s")
      :format(compiled.most, why ~= "" and ", as " .. why or "")
  end
  for _, text in ipairs(state.notes) do lines[#lines + 1] = "  " .. text end
  return table.concat(lines, "\n")
end

-- --- objects -----------------------------------------------------------------------------------

local own = { explain = explain }

-- A method of the module, which gets the module for the compiled object and gives that back for it.
local function forwarded(object, module, method)
  local function back(first, ...)
    if rawequal(first, module) then return object, ... end
    return first, ...
  end
  return function(first, ...)
    if rawequal(first, object) then return back(method(module, ...)) end
    return method(first, ...)
  end
end

local function forward(meta, module)
  function meta.__index(object, key)
    if own[key] then return own[key] end
    local value = module[key]
    return type(value) == "function" and forwarded(object, module, value) or value
  end
  function meta.__newindex(_, key, value) module[key] = value end
  function meta.__len() return #module end
end

local function title_of(f)
  if type(f) ~= "function" then
    local class = require("moonlet.class").of(f)
    return class and require("moonlet.class").name(class) or "object"
  end
  local info = debug.getinfo(f, "S")
  return info.what == "C" and "C function" or ("function (%s:%d)"):format(info.short_src,
    info.linedefined)
end

local function new_state(f, given)
  local least = given.dynamic == nil and MANY_SIZES or given.dynamic and 2 or 0
  local roots = { f, everywhere.hooks, defined.functions, defined.watched }
  return { f = f, core = compiled.new(roots, least), title = title_of(f),
    fullgraph = given.fullgraph, dynamic = given.dynamic, notes = {}, captures = 0, unused = 0,
    failures = 0, sizes = 0, collects = false }
end

local new_object

-- The field `_original` has what the object stands for: the guards of a function that calls the
-- object find it there. `_compile_another` compiles a copy of it in the same way.
function new_object(f, given)
  local state = new_state(f, given)
  local meta = { __name = "compiled function",
    _compile_another = function(other) return new_object(other, given) end }
  meta.__call = given.backend == "eager" and function(_, ...) return f(...) end
    or compiled.caller(state.core, missed, state)
  if type(f) == "table" then
    forward(meta, f)
  else
    function meta.__index(_, key) return own[key] end
  end
  function meta.__tostring() return "compiled " .. state.title end
  local object = setmetatable({ _original = f }, meta)
  states[object] = state
  return object
end

local BACKENDS = { default = true, eager = true }

local read = signature('compile(any f, bool? dynamic=nil, bool fullgraph=false, '
  .. 'string backend="default")')

--- Makes of a function, or a module, one of the same results that runs its ops from a plan, without
--- Lua. The first call of some arguments runs `f` and writes its ops down, the second compares, the
--- third is the first that is quick; then `f` itself does not run. What it reads beside its
--- arguments is watched: upvalues, globals, fields of modules, the training mode, the grad mode,
--- autocast, defaults. Another value, dtype or shape captures again. Random numbers are drawn as
--- ever. A function that reads elements of a tensor (`item`, printing, a branch) runs in Lua, and
--- its ops up to each read from plans. One that calls what does more than compute (`os.time`,
--- `math.random`), changes a plain value that it did not make, or is not the same twice runs as it
--- is; `fast:explain()` says why. Where results require
--- grad, a call is one node of the tape. A whole step of training is compiled, too: `backward`, and
--- the step of an optimiser whose update is one op for all parameters. Fields and methods of a
--- compiled module are those of the module. With `MOONLET_COMPILE=log` in the environment, what
--- happens is written to stderr.
--- > fast = ml.compile(function(x) return (x * 2 + 1):relu() end)
--- > for _ = 1, 3 do y = fast(ml.tensor { -1.0, 0, 1 }) end
--- > y
---   {0., 1., 3.}
---   Tensor (3,) float32
--- > fast:explain():match "%d ops"
---   3 ops
---@param f fun(...): ... the function, or a module
---@param dynamic? boolean after three sizes (with true after two) the graph for another one is
---   foretold from theirs: its first call runs the function and is compared, the next one is quick;
---   with false, or where numbers do not follow the sizes, each size is captured twice
---@param fullgraph? boolean makes an error of what would run `f` as it is
---@param backend? string "default", or "eager" to call `f`
---@return table fast is called as `f`
---@error `f` cannot be called, or with `fullgraph` what keeps it from being compiled
function compile.compile(f, ...)
  local given = read:table(f, ...)
  if states[f] then return f end
  if not is_callable(f) then fail("compile: expected a function or a module, got %s", type(f)) end
  if not BACKENDS[given.backend] then
    fail("compile: expected backend to be \"default\" or \"eager\", got \"%s\"", given.backend)
  end
  return new_object(f, given)
end

return options.namespace("compile", compile)
