-- stdlib/program.lua: ml.export: a module or a function as a program, which is saved, loaded and
-- run without Lua.

local class = require "moonlet.class"
local json = require "moonlet.json"
local ml = require "moonlet"
local options = require "moonlet.options"
local programs = require "moonlet.programs"
local signature = require "moonlet.signature"
local fail = options.fail

local program = {}

-- --- arguments and results as they are nested -------------------------------------------------

-- What a value looks like: a number for a tensor, which is its position among all, or a table of
-- such. Appends the tensors to `tensors`.
local function template_of(value, tensors, where)
  if ml.is_tensor(value) then
    tensors[#tensors + 1] = value
    return #tensors
  elseif type(value) ~= "table" or getmetatable(value) ~= nil then
    fail("export: %s: a tensor or a table of tensors is expected, got %s", where,
      signature.describe(value))
  end
  local out, keys = {}, {}
  for key in pairs(value) do
    if type(key) ~= "string" and math.type(key) ~= "integer" then
      fail("export: %s: the keys of a table must be integers or strings, got %s", where, type(key))
    end
    keys[#keys + 1] = key
  end
  table.sort(keys, function(a, b)
    if type(a) ~= type(b) then return type(a) == "number" end
    return a < b
  end)
  for i, key in ipairs(keys) do
    out[i] = { key, template_of(value[key], tensors, ("%s[%s]"):format(where, tostring(key))) }
  end
  return out
end

local function filled(template, tensors)
  if type(template) == "number" then return tensors[template] end
  local out = {}
  for _, item in ipairs(template) do out[item[1]] = filled(item[2], tensors) end
  return out
end

-- Appends the tensors of `value`, which must be nested as the example was.
local function flatten(template, value, tensors, where)
  if type(template) == "number" then
    if not ml.is_tensor(value) then
      fail("program: expected %s to be a tensor, got %s", where, signature.describe(value))
    end
    tensors[template] = value
    return
  end
  if type(value) ~= "table" or getmetatable(value) ~= nil then
    fail("program: expected %s to be a table of tensors, got %s", where, signature.describe(value))
  end
  local known = 0
  for _, item in ipairs(template) do
    flatten(item[2], value[item[1]], tensors, ("%s[%s]"):format(where, tostring(item[1])))
  end
  for _ in pairs(value) do known = known + 1 end
  if known ~= #template then
    fail("program: expected %s to have %d values, got %d", where, #template, known)
  end
end

local function flattened(templates, arguments, count)
  if count ~= #templates then
    fail("program: expected %d argument%s, got %d", #templates, #templates == 1 and "" or "s",
      count)
  end
  local tensors = {}
  for i, template in ipairs(templates) do
    flatten(template, arguments[i], tensors, ("argument %d"):format(i))
  end
  return tensors
end

local function is_flat(templates)
  for i, template in ipairs(templates) do
    if template ~= i then return false end
  end
  return true
end

-- --- programs ---------------------------------------------------------------------------------

--- A function on tensors that runs without Lua, as `ml.export` makes it and `ml.load` reads it.
--- Called with tensors like those of the example it gives what the function gave, outside the tape
--- unless it was exported with gradients.
--- > program = ml.export(function(x) return x * 2 end, { ml.ones(2) })
--- > program(ml.tensor { 1.0, 2.0 })
---   {2., 4.}
---   Tensor (2,) float32
---@class moonlet.Program
local Program = class "Program"

function Program:init(handle, arguments, results)
  self._handle, self._arguments, self._results = handle, arguments, results
  self._is_flat = is_flat(arguments) and is_flat(results)
end

function Program:__call(...)
  if self._is_flat then return self._handle:run(...) end
  local tensors = flattened(self._arguments, { ... }, select("#", ...))
  local made = { self._handle:run(table.unpack(tensors)) }
  local out = {}
  for i, template in ipairs(self._results) do out[i] = filled(template, made) end
  return table.unpack(out, 1, #self._results)
end

function Program:__tostring()
  return ("Program\n%s"):format(self._handle:describe():gsub("\n$", ""))
end

local read_save = signature "Program:save(string path, string? weights=nil)"

--- Writes the program to a file, whole or not at all: a safetensors file with the graph among its
--- metadata, which `ml.load` reads, and `moonlet::Program::load` in C++. By habit its name ends in
--- ".mlp". Its state is what it is now.
--- > path = os.tmpname()
--- > ml.export(ml.nn.Linear(4, 3), { ml.ones(1, 4) }):save(path)
--- > ml.load(path)(ml.ones(1, 4)).shape
---   (1, 3)
---@param path string the file
---@param weights? string a name without a folder: the parameters go to a safetensors file of that
---   name beside the program, which is checked when the program is loaded
function Program:save(...)
  self._handle:save(read_save(...))
end

local read_none = signature "Program:describe()"

--- A text that says what the program takes and gives, and what a run of it needs.
--- > program = ml.export(function(x) return x * 2 end, { ml.ones(2) })
--- > program:describe():match "ops: [^\n]*"
---   "ops: mul"
---@return string
function Program:describe(...)
  read_none(...)
  return self._handle:describe()
end

local read_dot = signature "Program:to_dot()"

--- The graph of the program in Graphviz's language: a picture is `dot -Tsvg` of it.
--- > program = ml.export(function(x) return x * 2 end, { ml.ones(2) })
--- > program:to_dot():match "^digraph"
---   "digraph"
---@return string
function Program:to_dot(...)
  read_dot(...)
  return self._handle:to_dot()
end

local read_text = signature "Program:text()"

--- The nodes of the program as lines: what each calls, and the shapes it gives.
--- > program = ml.export(function(x) return x * 2 end, { ml.ones(2) })
--- > program:text():match "mul"
---   "mul"
---@return string
function Program:text(...)
  read_text(...)
  return self._handle:text()
end

local read_ops = signature "Program:ops()"

--- The names of the ops that it is made of, sorted: what a build for this program needs
--- (`-Dops=FILE`, one a line).
--- > ml.export(function(x) return (x * 2):exp() end, { ml.ones(2) }):ops()
---   {"exp", "mul"}
---@return string[]
function Program:ops(...)
  read_ops(...)
  return self._handle:ops()
end

local read_inputs = signature "Program:inputs()"

--- The tensors that it takes, in their order: `name`, `dtype`, `device`, `changed` (whether a call
--- writes to it) and `sizes`, in which -1 is a size that may be another at each call.
--- > ml.export(function(x) return x * 2 end, { ml.ones(2) }):inputs()[1].sizes
---   {2}
---@return table[]
function Program:inputs(...)
  read_inputs(...)
  return self._handle:inputs()
end

local read_outputs = signature "Program:outputs()"

--- The tensors that it gives, as `inputs` has those it takes.
--- > ml.export(function(x) return x:sum(1) end, { ml.ones(2, 3) }):outputs()[1].sizes
---   {3}
---@return table[]
function Program:outputs(...)
  read_outputs(...)
  return self._handle:outputs()
end

local read_parameters = signature "Program:parameters()"

--- Its parameters by the names that they have in the state dict of the module. They are those of
--- the module itself where it was exported here: what changes them in place changes what the
--- program gives. Those of a program with gradients require grad as those of the module did, and an
--- optimiser takes them as they are: `ml.optim.Adam(program:parameters())`. What calls change is
--- not among them (`state`).
--- > program = ml.export(ml.nn.Linear(2, 1), { ml.ones(1, 2) })
--- > program:parameters().weight.shape
---   (1, 2)
---@return table<string, moonlet.Tensor>
function Program:parameters(...)
  read_parameters(...)
  return self._handle:parameters()
end

local read_set = signature "Program:set_parameter(string name, Tensor tensor)"

--- Puts a tensor in the place of a parameter, for all calls that follow.
--- > program = ml.export(ml.nn.Linear(2, 1, { bias = false }), { ml.ones(1, 2) })
--- > program:set_parameter("weight", ml.tensor { { 1.0, 2.0 } })
--- > program(ml.ones(1, 2))
---   {{3.}}
---   Tensor (1, 1) float32
---@param name string
---@param tensor moonlet.Tensor of the dtype, shape, strides and device of the parameter
---@error there is no such parameter, or the tensor is another kind
function Program:set_parameter(...)
  local name, tensor = read_set(...)
  self._handle:set_parameter(name, tensor)
end

local read_state = signature "Program:state()"

--- What calls change and the next one finds: running statistics, counters, caches of keys and
--- values, by the names that they have in the state dict of the module, or "state.1" and so on.
--- Each program that `ml.export` or `ml.load` gives has its own; the tensors may be read and
--- written between calls.
--- > count = ml.zeros(1)
--- > program = ml.export(function(x) return x + count:add_(1) end, { ml.ones(1) })
--- > program(ml.ones(1))
--- > program(ml.ones(1)):tolist()[1]
---   3.0
--- > program:state()["state.1"]:tolist()[1]
---   2.0
---@return table<string, moonlet.Tensor>
function Program:state(...)
  read_state(...)
  return self._handle:state()
end

local read_reset = signature "Program:reset()"

--- Makes the state what it was when the function was exported, or in the file.
--- > count = ml.zeros(1)
--- > program = ml.export(function(x) return x + count:add_(1) end, { ml.ones(1) })
--- > program(ml.ones(1))
--- > program:reset()
--- > program(ml.ones(1)):tolist()[1]
---   2.0
function Program:reset(...)
  read_reset(...)
  self._handle:reset()
end

-- --- export -----------------------------------------------------------------------------------

-- A call of the function with copies of these inputs: the graph, and what its results look like.
local function capture(f, arguments, tensors, names, gradients)
  local mode = gradients and ml.enable_grad or ml.no_grad
  local template
  local graph = programs.capture(function()
    local inputs = {}
    for i, argument in ipairs(arguments) do inputs[i] = filled(argument, tensors) end
    local results = table.pack(mode(f, table.unpack(inputs, 1, #arguments)))
    if results.n == 0 then fail("export: the function returns nothing") end
    local made = {}
    template = {}
    for i = 1, results.n do
      template[i] = template_of(results[i], made, ("result %d"):format(i))
    end
    return table.unpack(made)
  end, tensors, names, gradients)
  return graph, template
end

local function copies(tensors)
  local out = {}
  for i, x in ipairs(tensors) do out[i] = x:detach():clone() end
  return out
end

-- Other elements, so that what depends on them is seen to.
local function others(tensors)
  local out = {}
  for i, x in ipairs(tensors) do
    local is_number = x:is_floating_point() or x:is_complex()
    out[i] = is_number and x:mul(0.5):add(0.25) or x
  end
  return out
end

-- Those copies require grad whose originals do.
local function require_as(given, tensors)
  for i, x in ipairs(tensors) do
    if x.requires_grad then given[i].requires_grad = true end
  end
end

-- Of size `size` in a dim, by repeating or leaving out.
local function resized(x, dim, size)
  local positions = ml.arange(0, size - 1, { dtype = ml.int64, device = x.device })
  return x:index_select(dim, positions:remainder(x:size(dim)):add(1))
end

-- Reads the option: a list of { input, dim, symbol }, and the example's size of each symbol. Sizes
-- that are equal are one.
local function read_dynamic(given, tensors)
  local list, example, symbols = {}, {}, {}
  local function add(input, dim)
    local x = tensors[input]
    if not x then fail("export: dynamic: there is no input %s", tostring(input)) end
    if math.type(dim) ~= "integer" or dim < 1 or dim > x:dim() then
      fail("export: dynamic: input %d has no dim %s; its shape is %s", input, tostring(dim),
        tostring(x.shape))
    end
    local size = x:size(dim)
    if size == 0 then fail("export: dynamic: dim %d of input %d is empty", dim, input) end
    if not symbols[size] then
      example[#example + 1] = size
      symbols[size] = #example
    end
    list[#list + 1] = { input, dim, symbols[size] }
  end
  if given == true then
    for i, x in ipairs(tensors) do
      if x:dim() > 0 then add(i, 1) end
    end
    return list, example
  end
  local inputs = {}
  for input in pairs(given or {}) do inputs[#inputs + 1] = input end
  table.sort(inputs, function(a, b) return tostring(a) < tostring(b) end)
  for _, input in ipairs(inputs) do
    local dims = given[input]
    if type(dims) == "number" then dims = { dims } end
    if type(dims) ~= "table" then
      fail("export: dynamic: the dims of input %s are expected, got %s", tostring(input),
        signature.describe(dims))
    end
    for _, dim in ipairs(dims) do add(input, dim) end
  end
  return list, example
end

-- The sizes at which the function is captured: first those of the program's own graph, then for
-- each symbol another, then others for all. A size of 1 would broadcast; multiples have the
-- divisors that the function may need.
local function size_plan(example)
  local first, last = {}, {}
  for i, size in ipairs(example) do
    first[i] = math.max(size, 2)
    last[i] = 3 * first[i]
  end
  local plan = { first }
  for i = 1, #first do
    local sizes = table.move(first, 1, #first, 1, {})
    sizes[i] = 2 * sizes[i]
    plan[#plan + 1] = sizes
  end
  plan[#plan + 1] = last
  return plan
end

local function sized(tensors, list, sizes)
  local out = copies(tensors)
  for _, at in ipairs(list) do
    out[at[1]] = resized(out[at[1]], at[2], sizes[at[3]])
  end
  return out
end

local function same_template(a, b) return json.encode(a) == json.encode(b) end

-- Names for all: those given, else none.
local function names_of(given, count, what)
  local out = {}
  given = given or {}
  if #given > count then
    fail("export: names: there are %d %ss, got %d names", count, what, #given)
  end
  for i = 1, count do out[i] = given[i] or "" end
  return out
end

local function parameter_names(f)
  local names = {}
  if type(f) == "table" and f.named_parameters and f.named_buffers then
    for name, tensor in f:named_parameters() do names[tensor] = names[tensor] or name end
    for name, tensor in f:named_buffers() do names[tensor] = names[tensor] or name end
  end
  return names
end

-- A module that was meant to be exported for inference changes nothing.
local function warn_of_training(f, handle)
  if type(f) ~= "table" or not f.training then return end
  local names = {}
  for name in pairs(handle:state()) do names[#names + 1] = name end
  table.sort(names)
  if #names > 0 then
    warn(("export: the module is in training mode, and calls of the program change '%s'; "
      .. "for inference call eval() before"):format(table.concat(names, "', '")))
  end
end

local read_export = signature("export(any f, table inputs, bool|table? dynamic=nil, "
  .. "table? names=nil, bool gradients=false)")

--- A module or a function as a program: `f` is called with copies of the example inputs while the
--- ops it calls are written down, outside the tape and in the state it is in, so call `net:eval()`
--- before. It is called once more, with other elements, to see that it calls the same again. What
--- the program gives is what `f` gave, bit for bit, for inputs of the dtypes, shapes and devices of
--- the example. Numbers that `f` computes in Lua are those of the example.
---
--- A function whose ops depend on the values of tensors (`x:item()`, a branch on an element) is no
--- program; errors name the op and the script's line. What it changes in place beside its arguments
--- is the program's state: it starts as it was before the export, which leaves the module's own as
--- it is, and each call changes it (`Program:state`). An argument that it changes must lie in
--- memory as the example.
---
--- With `gradients` calls are recorded on the tape, as one node: parameters that require grad get
--- gradients, and inputs whose example requires grad. The backward pass is captured with the
--- program and saved in its file, so that it can be trained after `ml.load`, to the same bits as
--- the module. Results are tensors of their own then, and sizes do not vary.
---
--- With `dynamic` some sizes may be others at each call: `f` is captured at several sizes, and each
--- number that follows them is found as a sum of their multiples. Sizes that are equal in the
--- example are one size.
--- > net = ml.nn.Sequential(ml.nn.Linear(4, 8), ml.nn.Tanh(), ml.nn.Linear(8, 2)):eval()
--- > program = ml.export(net, { ml.ones(1, 4) }, { dynamic = true })
--- > program(ml.ones(5, 4)).shape
---   (5, 2)
---@param f function|table a module, or a function of tensors that returns tensors
---@param inputs table the example: an array of the arguments, tensors or tables of tensors
---@param dynamic? boolean|table true: the first dim of all inputs; or the dims by the number of the
---   input, `{ [1] = { 1, 2 } }`
---@param names? table `{ inputs = { "x" }, outputs = { "y" } }`, for hosts
---@param gradients? boolean whether calls are recorded on the tape
---@return moonlet.Program
---@error the function is none of tensors alone, or not the same at each call
function program.export(...)
  local f, inputs, dynamic, names, gradients = read_export(...)
  if not options.is_callable(f) then
    fail("export: a module or a function is expected, got %s", signature.describe(f))
  end
  if #inputs == 0 then fail "export: the example has no inputs" end
  names = names or {}
  options.check("export: names", names, { "inputs", "outputs" })
  local tensors, arguments = {}, {}
  for i, value in ipairs(inputs) do
    arguments[i] = template_of(value, tensors, ("input %d"):format(i))
  end
  local list, example = read_dynamic(dynamic, tensors)
  if gradients and #list > 0 then
    fail "export: sizes do not vary in a program with gradients: leave out dynamic or gradients"
  end
  local known = parameter_names(f)
  local plan, graphs, templates = { {}, {} }, {}, {}
  if #list > 0 then plan = size_plan(example) end
  for i, sizes in ipairs(plan) do
    local given = sized(tensors, list, sizes)
    if i > 1 then given = ml.no_grad(others, given) end
    if gradients then require_as(given, tensors) end
    graphs[i], templates[i] = capture(f, arguments, given, known, gradients)
    if not same_template(templates[1], templates[i]) then
      fail("export: the function gives other results at another call")
    end
  end
  local count = 0
  local function count_tensors(template)
    if type(template) == "number" then count = count + 1 return end
    for _, item in ipairs(template) do count_tensors(item[2]) end
  end
  for _, template in ipairs(templates[1]) do count_tensors(template) end
  local handle = programs.make(graphs, { sizes = plan, dynamic = list,
    input_names = names_of(names.inputs, #tensors, "input"),
    output_names = names_of(names.outputs, count, "output"),
    notes = { arguments = json.encode(arguments), results = json.encode(templates[1]) } })
  if not gradients then warn_of_training(f, handle) end
  return Program(handle, arguments, templates[1])
end

-- --- files ------------------------------------------------------------------------------------

-- A template from a file, which may come from anybody: each tensor is there once.
local function check_template(template, taken, most, depth)
  if math.type(template) == "integer" then
    if template < 1 or template > most or taken[template] then return false end
    taken[template] = true
    taken.count = taken.count + 1
    return true
  end
  if type(template) ~= "table" or depth > 50 then return false end
  for _, item in ipairs(template) do
    local key = type(item) == "table" and item[1]
    if type(key) ~= "string" and math.type(key) ~= "integer" then return false end
    if not check_template(item[2], taken, most, depth + 1) then return false end
  end
  return true
end

-- What a program of a file takes or gives: as noted, or tensors alone where a host made the file.
local function read_templates(text, most, path)
  local out, taken = {}, { count = 0 }
  if not text then
    for i = 1, most do out[i] = i end
    return out
  end
  local ok, noted = pcall(json.decode, text)
  if ok and type(noted) == "table" then
    for i, template in ipairs(noted) do
      out[i] = template
      ok = ok and check_template(template, taken, most, 0)
    end
  end
  if not ok or taken.count ~= most then
    fail("load: '%s': the notes on arguments and results are damaged", path)
  end
  return out
end

--- Whether a value is a program.
---@param value any
---@return boolean
function program._is_program(value) return class.is_instance(value, Program) end

--- Reads a program that `program:save` wrote; `ml.load` calls it.
---@param path string the file
---@param max_bytes? integer what it may take
---@return moonlet.Program
function program._load(path, max_bytes)
  local handle = programs.load(path, max_bytes)
  local notes = handle:notes()
  return Program(handle, read_templates(notes.arguments, #handle:inputs(), path),
    read_templates(notes.results, #handle:outputs(), path))
end

return options.namespace("program", program)
