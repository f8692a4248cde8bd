-- stdlib/onnx/export.lua: ml.onnx.export: runs a model under a recording and writes what it did as
-- an ONNX graph.

local Graph = require "moonlet.onnx.graph"
local codec = require "moonlet.onnx_codec"
local dtypes = require "moonlet.onnx.dtypes"
local io = require "moonlet.io"
local ml = require "moonlet"
local options = require "moonlet.options"
local record = require "moonlet.onnx.record"
local signature = require "moonlet.signature"
local sizes = require "moonlet.onnx.sizes"
local trace = require "moonlet.onnx.trace"
local translations = require "moonlet.onnx.write"
local fail = options.fail

-- The sets of ops that are written: the first unless an op is of a later one.
local OPSET, LATEST_OPSET, IR_VERSION = 17, 20, 8
local MOST_BYTES = (1 << 31) - 1

-- --- what is in the graph ---------------------------------------------------------------------

local function same_elements(a, b)
  return ml.equal(a, b) or a:contiguous():cpu():to_bytes() == b:contiguous():cpu():to_bytes()
end

local function same_in_all_runs(value)
  for _, size in ipairs(value.shape) do
    if sizes.is_size(size) then return false end
  end
  for _, other in ipairs(value.others) do
    if not same_elements(value.tensor, other.tensor) then return false end
  end
  return true
end

-- Marks the values whose elements are known: of no input, no parameter, and without luck.
local function mark_constants(run, inputs, fold)
  for _, value in ipairs(run.values) do
    local call = value.call
    if call then
      local known = fold and not call.random
      trace.each_value(call.arguments, function(argument) known = known and argument.constant end)
      value.constant = known and same_in_all_runs(value) or nil
    elseif not value.parameter and not inputs[value] then
      value.constant = same_in_all_runs(value)
    end
  end
end

local function mark_needed(outputs)
  local stack = {}
  for _, value in ipairs(outputs) do stack[#stack + 1] = value end
  while #stack > 0 do
    local value = table.remove(stack)
    if not value.needed then
      value.needed = true
      local call = value.call
      if call and not value.constant and not call.needed then
        call.needed = true
        trace.each_value(call.arguments, function(argument) stack[#stack + 1] = argument end)
      end
    end
  end
end

-- Where positions come from: the inputs that are these, reordered at most.
local function mark_positions(run)
  local function mark(value)
    if value.position then return end
    value.position = true
    local call = value.call
    if call and translations.keeps_positions(call) then trace.each_value(call.arguments, mark) end
  end
  for _, call in ipairs(run.calls) do
    if call.needed then
      for name in pairs(translations.positions_of(call)) do
        trace.each_value(call.arguments[name], mark)
      end
    end
  end
end

-- --- writing ----------------------------------------------------------------------------------

-- Parameters and buffers by the names of the state dict, as they are used.
local function parameters_of(model, run)
  local found, buffers = { order = {}, buffers = {} }, {}
  local names = {}
  for name, tensor in model:named_parameters() do names[tensor] = name end
  for name, tensor in model:named_buffers() do
    names[tensor] = names[tensor] or name
    buffers[names[tensor]] = true
  end
  for _, value in ipairs(run.values) do
    if not value.call and names[value.tensor] then
      value.parameter = names[value.tensor]
    end
  end
  function found:use(graph, value)
    graph.taken[value.parameter] = true
    self.order[#self.order + 1] = value
    if buffers[value.parameter] then table.insert(self.buffers, value.parameter) end
    return value.parameter
  end
  for _, name in pairs(names) do found[#found + 1] = name end
  return found
end

local function type_of(dtype, dims)
  return { tensor_type = { elem_type = dtypes.codes[dtype], shape = { dim = dims } } }
end

-- The dimensions of a value: numbers, and names where axes are dynamic.
local function dims_of(value, symbols, plan_sizes, name, given)
  local dims = {}
  for d, size in ipairs(value.shape) do
    dims[d] = { dim_value = sizes.at(size, 1) }
    if sizes.is_size(size) then
      local label = given[name .. "\0" .. d]
      for k in ipairs(symbols) do
        if not label and sizes.same(plan_sizes[k], size) then label = symbols[k].name end
      end
      dims[d] = { dim_param = label or ("%s_dim_%d"):format(name, d) }
    end
  end
  return dims
end

local function translate(graph, call)
  local translation = translations.of(call)
  graph.call, graph.stem = call, call.op
  if call.random and not translation then
    fail("onnx.export: %s draws random numbers, which a graph for inference cannot%s", call.name,
      call.place)
  elseif not translation then
    fail("onnx.export: %s has no translation to ONNX%s", translations.described(call), call.place)
  end
  for _, value in ipairs(call.results) do
    if not dtypes.codes[value.dtype] then
      fail("onnx.export: %s gives the dtype %s, which ONNX does not have%s", call.name, value.dtype,
        call.place)
    end
  end
  local names = table.pack(translation(graph, call.arguments, call))
  for i, value in ipairs(call.results) do
    local name = names[i]
    if type(name) ~= "table" then name = { name = name } end
    value.parts = name.parts
    local bound = name.zero or name.name or name.parts and name.parts[1]
    if bound then graph:bind(value, bound, name.zero ~= nil) end
  end
end

local function check_results(call)
  for i, value in ipairs(call.results) do
    if value.needed and not value.name then
      fail("onnx.export: result %d of %s has no translation to ONNX%s", i, call.name, call.place)
    end
  end
end

-- The outputs under their names: what nodes make is renamed, the rest copied.
local function name_outputs(graph, run, output_names)
  local made, renamed = {}, {}
  for _, node in ipairs(graph.nodes) do
    for _, name in ipairs(node.output) do made[name] = true end
  end
  local copies = {}
  for i, value in ipairs(run.outputs) do
    local name = graph:raw(value)
    if made[name] and not renamed[name] then
      renamed[name] = output_names[i]
    else
      copies[#copies + 1] = { name, output_names[i] }
    end
  end
  for _, node in ipairs(graph.nodes) do
    for _, list in ipairs { node.input, node.output } do
      for k, name in ipairs(list) do list[k] = renamed[name] or name end
    end
  end
  for _, copy in ipairs(copies) do
    table.insert(graph.nodes, { op_type = "Identity", name = "Identity/" .. copy[2],
      input = { renamed[copy[1]] or copy[1] }, output = { copy[2] }, attribute = {} })
  end
end

local function initializers_of(graph, parameters, o)
  local out, inputs, total = {}, {}, 0
  local function add(tensor, name, exported)
    total = total + tensor:numel() * tensor:element_size()
    if exported then out[#out + 1] = dtypes.proto(tensor, name) end
    if not exported or o.keep_initializers_as_inputs then
      local dims = {}
      for d, size in ipairs(tensor.shape) do dims[d] = { dim_value = size } end
      inputs[#inputs + 1] = { name = name, type = type_of(tostring(tensor.dtype), dims) }
    end
  end
  for _, value in ipairs(parameters.order) do
    add(value.tensor, value.parameter, o.export_params)
  end
  if total + graph.bytes > MOST_BYTES then
    fail("onnx.export: the model has %d bytes of parameters and constants, and an ONNX file holds "
      .. "less than 2 GiB", total + graph.bytes)
  end
  return out, inputs
end

local function joined(values, names)
  local out = {}
  for i, value in ipairs(values) do
    if value.zero then out[#out + 1] = names[i] end
  end
  return table.concat(out, ",")
end

local function model_of(graph, run, parameters, o, symbols, plan_sizes, labels)
  local initializers, more_inputs = initializers_of(graph, parameters, o)
  local inputs, outputs = {}, {}
  for i, value in ipairs(run.inputs) do
    inputs[i] = { name = o.input_names[i],
      type = type_of(value.dtype, dims_of(value, symbols, plan_sizes, o.input_names[i], {})) }
  end
  table.move(more_inputs, 1, #more_inputs, #inputs + 1, inputs)
  for i, value in ipairs(run.outputs) do
    outputs[i] = { name = o.output_names[i],
      type = type_of(value.dtype, dims_of(value, symbols, plan_sizes, o.output_names[i], labels)) }
  end
  return { ir_version = graph.opset < 19 and IR_VERSION or IR_VERSION + 1,
    producer_name = "moonlet", producer_version = ml.version,
    opset_import = { { domain = "", version = graph.opset } },
    metadata_props = {
      { key = "moonlet.index_inputs", value = joined(run.inputs, o.input_names) },
      { key = "moonlet.index_outputs", value = joined(run.outputs, o.output_names) },
      { key = "moonlet.buffers", value = table.concat(parameters.buffers, ",") } },
    graph = { name = o.name, node = graph.nodes, input = inputs, output = outputs,
      initializer = initializers } }
end

-- --- the function -----------------------------------------------------------------------------

local read_export = signature("onnx.export(Module model, any args, string f, "
  .. "bool export_params=true, bool verbose=false, string training=\"eval\", "
  .. "string[]? input_names=nil, string[]? output_names=nil, int? opset_version=nil, "
  .. "bool do_constant_folding=true, table? dynamic_axes=nil, "
  .. "bool keep_initializers_as_inputs=false, string[]? index_inputs=nil)")

local function check_options(o)
  local version = o.opset_version
  if version and (version < OPSET or version > LATEST_OPSET) then
    fail("onnx.export: 'opset_version' %d cannot be written; it is %d to %d", version, OPSET,
      LATEST_OPSET)
  end
  if o.training ~= "eval" and o.training ~= "preserve" then
    fail("onnx.export: 'training' must be \"eval\" or \"preserve\": a graph holds no training, "
      .. "got %s",
      signature.describe(o.training))
  end
end

-- Names of the inputs or outputs: those given, then input_1, input_2 and so on.
local function names_of(given, count, stem, taken, what)
  local out = {}
  if given and #given > count then
    fail("onnx.export: '%s' has %d names for %d %ss", what, #given, count, stem)
  end
  for i = 1, count do
    out[i] = given and given[i] or ("%s_%d"):format(stem, i)
    if out[i] == "" or taken[out[i]] then
      fail("onnx.export: the name '%s' of an %s stands twice, or is a parameter's, or empty",
        out[i], stem)
    end
    taken[out[i]] = true
  end
  return out
end

-- Under evaluation mode and without gradients; the modes are put back however that ends.
local function in_mode(model, training, f)
  local modes = {}
  for _, module in ipairs(model:modules()) do
    modes[#modes + 1] = { module, module.training }
  end
  local _ <close> = setmetatable({}, { __close = function()
    for _, mode in ipairs(modes) do mode[1].training = mode[2] end
  end })
  if training == "eval" then model:eval() end
  return ml.no_grad(f)
end

local function mark_inputs(run, o)
  local chosen = {}
  for _, name in ipairs(o.index_inputs or {}) do
    local found = false
    for i, known in ipairs(o.input_names) do
      if known == name then
        found, chosen[i] = true, true
        if not dtypes.is_integer(run.inputs[i].dtype) then
          fail("onnx.export: 'index_inputs' names '%s', which is of dtype %s", name,
            run.inputs[i].dtype)
        end
      end
    end
    if not found then fail("onnx.export: 'index_inputs' names '%s', which is no input", name) end
  end
  for i, value in ipairs(run.inputs) do
    value.zero = chosen[i] or not o.index_inputs and value.position
      and dtypes.is_integer(value.dtype) or nil
  end
end

local function build(run, o, parameters)
  local graph = Graph(run, parameters, o.opset_version or OPSET, o.opset_version or LATEST_OPSET)
  for _, name in ipairs(parameters) do graph.taken[name] = true end
  for _, list in ipairs { o.input_names, o.output_names } do
    for _, name in ipairs(list) do graph.taken[name] = true end
  end
  for i, value in ipairs(run.inputs) do graph:bind(value, o.input_names[i], value.zero) end
  for _, call in ipairs(run.calls) do
    if call.needed then
      translate(graph, call)
      check_results(call)
    end
  end
  graph.call = { name = "the model", place = "" }
  name_outputs(graph, run, o.output_names)
  graph:finish()
  return graph
end

-- The graph as text, a line for each node.
local function describe(model)
  local lines = {}
  for _, node in ipairs(model.graph.node) do
    lines[#lines + 1] = ("%s = %s(%s)"):format(table.concat(node.output, ", "), node.op_type,
      table.concat(node.input, ", "))
  end
  return table.concat(lines, "\n")
end

local function arguments_of(args)
  if type(args) == "table" and getmetatable(args) == nil then
    return table.pack(table.unpack(args, 1, args.n or #args))
  end
  return { n = 1, args }
end

local function export(o)
  local reason = codec.unavailable()
  if reason then fail("onnx.export: %s", reason) end
  check_options(o)
  local arguments = arguments_of(o.args)
  local inputs = trace.tensors(arguments)
  local model_names = {}
  for name in o.model:named_parameters() do model_names[name] = true end
  for name in o.model:named_buffers() do model_names[name] = true end
  o.input_names = names_of(o.input_names, #inputs, "input", model_names, "input_names")
  return in_mode(o.model, o.training, function()
    local axes, labels = record.axes(o.dynamic_axes, o.input_names, o.output_names or {}, inputs)
    local symbols = record.symbols(axes, inputs)
    local run = record.run(o.model, arguments, inputs, symbols)
    o.output_names = names_of(o.output_names, #run.outputs, "output", model_names, "output_names")
    local given = {}
    for _, value in ipairs(run.inputs) do given[value] = true end
    local parameters = parameters_of(o.model, run)
    mark_constants(run, given, o.do_constant_folding)
    mark_needed(run.outputs)
    mark_positions(run)
    mark_inputs(run, o)
    local plan_sizes = {}
    for k, symbol in ipairs(symbols) do
      local place = symbol.places[1]
      plan_sizes[k] = run.inputs[place.input].shape[place.axis]
    end
    local graph = build(run, o, parameters)
    return model_of(graph, run, parameters, o, symbols, plan_sizes, labels)
  end)
end

--- Writes a model as an ONNX file (opset 17, or a later one that an op needs): runs it once in
--- evaluation mode with `args`, an array of its arguments or one tensor, and notes down each op.
--- The path is `f`.
---
--- Positions count from 0 in the file: an integer input that the model uses as positions (token
--- ids of an Embedding, indices of gather) is one of ids from 0 there, and what argmax, topk and
--- sort give as positions counts from 0. `index_inputs` names the inputs that are such, where the
--- guess is wrong. `ml.onnx.load` counts from 1 again.
---
--- `dynamic_axes`, by the names of inputs, are axes that may have any size: `{ x = { [1] = "batch"
--- } }`, or `{ x = { 1 } }`. The model then runs at several sizes, and what differs is computed in
--- the graph; where that cannot be written down there is an error. Control flow of the script, and
--- what it reads with `item` or `tolist`, is what it was in that run. How many elements a mask
--- chooses, or nonzero finds, is left open, by runs that pretend that there are more.
---
--- The initialisers are the parameters and buffers under the names of the state dict. With
--- `export_params = false` they are inputs instead, with `keep_initializers_as_inputs` both.
--- `verbose` prints the nodes. `training` is "eval" or "preserve", which leaves the modes as they
--- are.
--- > net = ml.nn.Sequential(ml.nn.Linear(4, 3), ml.nn.ReLU())  -- needs onnx
--- > path = os.tmpname()
--- > ml.onnx.export(net, ml.randn(2, 4), path, { input_names = { "x" },
---     dynamic_axes = { x = { [1] = "batch" } } })
--- > ml.onnx.load(path)(ml.ones(5, 4)).shape
---   (5, 3)
---@param model table the module
---@param args any a tensor, or an array of arguments
---@param f string the path of the file
---@param export_params? boolean whether parameters are stored as initialisers; otherwise they
---   are inputs
---@param verbose? boolean whether the nodes are printed
---@param training? string "eval", or "preserve" to leave the modes of the modules as they are
---@param input_names? string[] names of the inputs; input_1 and so on unless given
---@param output_names? string[] names of the outputs; output_1 and so on unless given
---@param opset_version? integer 17 to 20; 17, or the first that has all ops of the graph,
---   unless given
---@param do_constant_folding? boolean whether what follows from no input is computed now
---@param dynamic_axes? table<string, table> by the names of inputs, dimensions, from 1, that
---   may have any size
---@param keep_initializers_as_inputs? boolean whether initialisers are inputs too
---@param index_inputs? string[] inputs that are positions, from 0 in the file; guessed unless given
return function(...)
  local o = read_export:table(...)
  o.name = "main_graph"
  local model = export(o)
  if o.verbose then print(describe(model)) end
  -- The checker of the installed library knows no later opset.
  local ok, bytes = pcall(codec.encode, model, model.opset_import[1].version == OPSET)
  if not ok then fail("onnx.export: '%s': %s", o.f, tostring(bytes):gsub("^[^\n]-:%d+: ", "")) end
  io.write_parts(o.f, { bytes }, "onnx.export")
end
