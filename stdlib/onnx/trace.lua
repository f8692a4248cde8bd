-- stdlib/onnx/trace.lua: one run of a model under ml.override: which ops were called with what. A
-- tensor that is changed in place stands for another value from then on.

local ml = require "moonlet"
local nn = require "moonlet.nn"
local options = require "moonlet.options"
local fail = options.fail

local trace = {}

-- A value of a run: what a tensor held between two changes. `call` made it, as its result number
-- `result`; inputs and what the model brings along have none.
local Value = {}
Value.__index = Value

--- Whether a thing among recorded arguments stands for a tensor.
---@param thing any
---@return boolean
function trace.is_value(thing)
  return getmetatable(thing) == Value
end

--- The values among a call's arguments.
---@param thing any
---@param visit fun(value: table)
function trace.each_value(thing, visit)
  if trace.is_value(thing) then
    visit(thing)
  elseif type(thing) == "table" and getmetatable(thing) == nil then
    for _, item in pairs(thing) do trace.each_value(item, visit) end
  end
end

local Run = {}
Run.__index = Run

local function sizes_of(tensor)
  local out = {}
  for i, size in ipairs(tensor.shape) do out[i] = size end
  return out
end

local function new_value(run, tensor, call, result)
  local value = setmetatable({ id = #run.values + 1, tensor = tensor, shape = sizes_of(tensor),
    dtype = tostring(tensor.dtype), call = call, result = result }, Value)
  run.values[value.id] = value
  run.current[tensor] = value
  local memory = tensor:numel() > 0 and tensor:storage():data_ptr()
  if memory then
    run.sharing[memory] = run.sharing[memory] or {}
    run.sharing[memory][tensor] = true
  end
  return value
end

local value_of

-- A call that the model did not make: of what brings views and their bases together again.
local function add_call(run, op, name, arguments, tensor)
  local call = { op = op, name = name, arguments = arguments, place = run:place(),
    info = ml.ops.info(op) }
  run.calls[#run.calls + 1] = call
  call.results = { new_value(run, tensor, call, 1) }
  return call.results[1]
end

-- A view of what has been changed since is made again.
local function renewed(run, tensor, value)
  local view = run.views[tensor]
  if not view then
    fail("onnx.export: %s reads a tensor whose memory %s has changed through another view; "
      .. "change it out of place%s", run.where or "the model", value.stale, run:place())
  end
  local arguments = {}
  for name, argument in pairs(view.call.arguments) do arguments[name] = argument end
  arguments.x = value_of(run, view.base)
  return add_call(run, view.call.op, view.call.name, arguments, tensor)
end

-- The value that a tensor stands for now.
function value_of(run, tensor)
  local value = run.current[tensor] or new_value(run, tensor)
  return value.stale and renewed(run, tensor, value) or value
end

-- How what a view holds goes into its base: an op with the base as `x` and the view as `src`, or
-- one of the view alone, which then has all of the base's elements.
local WRITE_BACK = {
  select = function(a, base, new)
    return "select_scatter", { x = base, src = new, dim = a.dim, index = a.index }
  end,
  slice = function(a, base, new)
    return "slice_scatter", { x = base, src = new, dim = a.dim, start = a.start, stop = a.stop,
      step = a.step }
  end,
  transpose = function(a, _, new)
    return "transpose", { x = new, dim0 = a.dim0, dim1 = a.dim1 }
  end,
  t = function(_, _, new) return "t", { x = new } end,
  permute = function(a, _, new)
    local dims = {}
    for i, d in ipairs(a.dims) do dims[d > 0 and d or d + #a.dims + 1] = i end
    return "permute", { x = new, dims = dims }
  end,
  diagonal = function(a, base, new)
    return "diagonal_scatter", { x = base, src = new, offset = a.offset, dim1 = a.dim1,
      dim2 = a.dim2 }
  end,
  view_as_real = function(_, _, new) return "view_as_complex", { x = new } end,
  view_as_complex = function(_, _, new) return "view_as_real", { x = new } end,
}
for name in ("view unsqueeze squeeze"):gmatch "%S+" do
  WRITE_BACK[name] = function(_, _, new) return "view", { x = new } end
end

-- What was written to a view is written to what it is a view of, and so on.
local function write_back(run, tensor, bases)
  local view = run.views[tensor]
  while view do
    local back = WRITE_BACK[view.call.op]
    if not back or not bases[view.base] then return end
    local op, arguments = back(view.call.arguments, bases[view.base], run.current[tensor])
    add_call(run, op, op, arguments, view.base)
    tensor, view = view.base, run.views[view.base]
  end
end

local function encode(run, thing)
  if ml.is_tensor(thing) then return value_of(run, thing) end
  if type(thing) ~= "table" or getmetatable(thing) then return thing end
  local out = {}
  for key, item in pairs(thing) do out[key] = encode(run, item) end
  return out
end

--- " (in encoder.layers.0, at model.lua:12)": the module and the line that run.
---@return string
function Run:place()
  local names = {}
  for i, module in ipairs(self.modules) do names[i] = self.names[module] or "?" end
  local path = names[#names]
  local line = self:line()
  local parts = {}
  if path and path ~= "" then parts[#parts + 1] = "in " .. path end
  if line then parts[#parts + 1] = "at " .. line end
  return #parts > 0 and (" (%s)"):format(table.concat(parts, ", ")) or ""
end

--- "model.lua:12": the innermost line that is no part of the standard library.
---@return string?
function Run.line()
  return options.script_line()
end

-- What a change of `tensor` does to the values that it and others on its memory stood for: they
-- keep copies of their elements, and the others are to be made again. The values of what it is a
-- view of.
local function before_write(run, tensor, op)
  local bases, base = {}, tensor
  while run.views[base] do
    base = run.views[base].base
    bases[base] = value_of(run, base)
  end
  local old = value_of(run, tensor)
  old.tensor = tensor:clone()
  local memory = tensor:numel() > 0 and tensor:storage():data_ptr()
  for other in pairs(memory and run.sharing[memory] or {}) do
    local value = run.current[other]
    if other ~= tensor and value then
      value.tensor, value.stale = other:clone(), run.public or op.name
    end
  end
  return bases
end

-- Changes that leave nothing of what was there.
local OVERWRITE = { fill = true, copy = true, iota = true, zero = true }

-- The name by which scripts call an op: that of the form whose overload it is.
local OVERLOADS = { view_as_dtype = "view" }

ml._late()  -- from here on ops are in their tables

local function script_name(op)
  local name = OVERLOADS[op.row] or op.row
  while not (rawget(ml, name) or ml._methods[name]) and name:find "_%w+$" do
    local module, rest = name:match "^(%a+)_([%w_]+)$"
    local space = rawget(ml, module)
    if type(space) == "table" and rawget(space, rest) then return module .. "." .. rest end
    name = name:gsub("_%w+$", "")
  end
  return (rawget(ml, name) or ml._methods[name]) and name or OVERLOADS[op.row] or op.row
end

-- The call as it is noted down, before it runs. `name` is that of the op that the script called.
local function note(run, op, arguments)
  local call = { op = op.row, info = op, name = run.public or script_name(op), arguments = {},
    place = run:place(), random = op.random }
  run.where = call.name
  for i, argument in ipairs(op.arguments) do
    if not (argument.written and OVERWRITE[op.row]) then
      call.arguments[argument.name] = encode(run, arguments[i])
    end
  end
  return call
end

local function finish(run, call, results)
  call.results = {}
  local count = 0
  local function add(tensor)
    count = count + 1
    call.results[count] = new_value(run, tensor, call, count)
  end
  for i = 1, results.n or #results do
    local result = results[i]
    if ml.is_tensor(result) then
      add(result)
    elseif type(result) == "table" then
      for _, item in ipairs(result) do add(item) end
    end
  end
  run.calls[#run.calls + 1] = call
end

-- Whether a value follows from what a run is given: an input, a parameter, or a draw.
local function is_free(run, value)
  if value.free == nil then
    local call = value.call
    local free = call and call.random or run.given[value] or run.state[value.tensor] or false
    if call and not free then
      trace.each_value(call.arguments, function(one) free = free or is_free(run, one) end)
    end
    value.free = free
  end
  return value.free
end

-- A number for what a value is computed by: the same for the same ops of the same values.
local function identity(run, value)
  if not value.call then return value.id end
  if value.identity then return value.identity end
  local function text(thing)
    if trace.is_value(thing) then return "#" .. identity(run, thing) end
    if type(thing) ~= "table" then return tostring(thing) end
    local out = {}
    for key, item in pairs(thing) do out[#out + 1] = tostring(key) .. "=" .. text(item) end
    table.sort(out)
    return "{" .. table.concat(out, ",") .. "}"
  end
  local key = ("%s %d %s"):format(value.call.op, value.result, text(value.call.arguments))
  run.identities[key] = run.identities[key] or value.id
  value.identity = run.identities[key]
  return value.identity
end

-- `count` more of the last entry along a dimension, or of ones where there is no entry.
local function longer(tensor, dim, count)
  local sizes = sizes_of(tensor)
  if dim < 0 then dim = dim + #sizes + 1 end
  local n = sizes[dim]
  if n > 0 then
    sizes[dim] = count
    return ml.cat({ tensor, tensor:narrow(dim, n, 1):expand(sizes) }, dim)
  end
  sizes[dim] = count
  return ml.ones(sizes, { dtype = tensor.dtype, device = tensor.device })
end

-- Ops whose results have as many entries as the elements of an argument say: that argument, and the
-- dimension of the results by their number.
local function values_and_counts(a) return { a.dim or 1, nil, 1 } end

local SIZED = {
  nonzero = { "x", function() return { 1 } end },
  bincount = { "x", function() return { 1 } end },
  one_hot = { "x", function(a) return a.num_classes > 0 and {} or { -1 } end },
  unique = { "x", values_and_counts },
  unique_consecutive = { "x", values_and_counts },
  repeat_interleave_positions = { "repeats", function() return { 1 } end },
  repeat_interleave_each = { "repeats", function(a) return { a.dim or 1 } end },
}

-- Makes the results of such an op longer in a run that is to show what follows that number: by as
-- many entries as `run.extra` says of it.
local function resize(run, call, results)
  local name, dims_of = table.unpack(SIZED[call.op])
  local x = call.arguments[name]
  if not is_free(run, x) or x.tensor:numel() == 0 then return end
  local key = identity(run, x)
  if not run.sized[key] then
    run.sized[key] = #run.sized + 1
    run.sized[#run.sized + 1] = key
  end
  local extra = run.extra[run.sized[key]] or 0
  if extra == 0 then return end
  for i, dim in pairs(dims_of(call.arguments)) do
    if results[i] then results[i] = longer(results[i], dim, extra) end
  end
end

-- Ops whose result may be the very tensor that they are given: nothing is noted down then.
local function is_alias(run, results)
  for _, result in ipairs(results) do
    if not ml.is_tensor(result) or not run.current[result] then return false end
  end
  return #results > 0
end

local function written_by(op, arguments)
  for i, argument in ipairs(op.arguments) do
    if argument.written and arguments[i] ~= nil then return i, arguments[i] end
  end
end

-- The call of a composite that is taken apart: what it calls is called by its name.
local function apart(run, op, arguments, call)
  local outer = run.public
  run.public = outer or script_name(op)
  local results = table.pack(pcall(call, arguments))
  run.public = outer
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

-- What a list of tensors is changed to is no part of a graph.
local function refuse_lists(run, op, arguments, name)
  for i, argument in ipairs(op.arguments) do
    if argument.written and type(arguments[i]) == "table" then
      fail("onnx.export: %s changes the tensors of a list, which a graph cannot%s", name,
        run:place())
    end
  end
end

-- The handler of ml.override. Composites without a translation are taken apart.
local function handler(run, translations)
  local inside = false
  return function(op, arguments, call)
    if inside then return call(arguments) end
    if not translations.is_whole(op, arguments) then return apart(run, op, arguments, call) end
    local _, written = written_by(op, arguments)
    local noted = note(run, op, arguments)
    if op.form == "out" then
      fail("onnx.export: %s writes into a tensor given as 'out', which a graph cannot%s",
        noted.name, run:place())
    end
    refuse_lists(run, op, arguments, noted.name)
    -- Running statistics that an op changes beside its results are no part of a graph of inference.
    local changes = written and op.form == "in_place"
    local bases = changes and before_write(run, written, op)
    inside = true
    local results = table.pack(pcall(call, arguments))
    inside = false
    if not results[1] then error(results[2], 0) end
    local given = table.pack(table.unpack(results, 2, results.n))
    if changes then given = { written } end
    if SIZED[op.row] then
      resize(run, noted, given)
      table.move(given, 1, given.n, 2, results)
    end
    noted.in_place = changes and true or nil
    if changes or not is_alias(run, given) then finish(run, noted, given) end
    if changes then write_back(run, written, bases) end
    if op.is_view and #given == 1 then
      run.views[given[1]] = { base = arguments[1], call = noted }
    end
    return table.unpack(results, 2, results.n)
  end
end

-- Arguments may be other things too, which are what they are in the graph; results may not.
local function flatten(thing, out, results)
  if ml.is_tensor(thing) then
    out[#out + 1] = thing
  elseif type(thing) == "table" and getmetatable(thing) == nil then
    for key, item in pairs(thing) do
      if type(key) ~= "number" and (results or ml.is_tensor(item)) then
        fail("onnx.export: tensors are given and returned by position, not as '%s' of a table",
          tostring(key))
      end
    end
    for _, item in ipairs(thing) do flatten(item, out, results) end
  elseif thing ~= nil and results then
    fail("onnx.export: results of a model must be tensors, or arrays of tensors, got %s",
      type(thing))
  end
  return out
end

--- The tensors in arguments or results of a model, in their order.
---@param things table with `n`
---@param results? boolean whether they are results
---@return Tensor[]
function trace.tensors(things, results)
  local out = {}
  for i = 1, things.n or #things do flatten(things[i], out, results) end
  return out
end

local function new_run(model)
  local run = setmetatable({ calls = {}, values = {}, current = {}, sharing = {}, views = {},
    modules = {}, names = {}, given = {}, state = {}, identities = {}, sized = {} }, Run)
  for _, tensor in model:named_parameters() do run.state[tensor] = true end
  for _, tensor in model:named_buffers() do run.state[tensor] = true end
  for name, module in model:named_modules() do run.names[module] = run.names[module] or name end
  return run
end

-- Keeps the stack of the modules that run, for messages.
local function watch(run, model)
  local pre = nn.register_module_forward_pre_hook(function(module)
    table.insert(run.modules, module)
  end)
  local post = nn.register_module_forward_hook(function() table.remove(run.modules) end)
  return setmetatable({}, { __close = function()
    pre:remove()
    post:remove()
  end }), model
end

--- Runs `model` with arguments and notes down its calls.
---@param model table
---@param arguments table of a call, with `n`
---@param translations table<string, any> the ops that are noted down whole
---@param extra? table<integer, integer> how many entries more the results have whose size follows
--- from elements, by the number of the size in `run.sized`
---@return table run
function trace.run(model, arguments, translations, extra)
  local run = new_run(model)
  run.inputs, run.extra = {}, extra or {}
  for i, tensor in ipairs(trace.tensors(arguments)) do
    if run.current[tensor] then
      fail("onnx.export: the same tensor stands twice among the arguments; give a clone")
    end
    run.inputs[i] = new_value(run, tensor)
    run.given[run.inputs[i]] = true
  end
  local watched <close> = watch(run, model)
  local results = table.pack(ml.override(handler(run, translations), function()
    return model(table.unpack(arguments, 1, arguments.n))
  end))
  assert(watched)
  run.outputs = {}
  for i, tensor in ipairs(trace.tensors(results, true)) do
    run.outputs[i] = value_of(run, tensor)
  end
  return run
end

return trace
