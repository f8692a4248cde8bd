-- stdlib/onnx/load.lua: ml.onnx.load: a file of ONNX as a module.

local Source = require "moonlet.files.source"
local Strings = require "moonlet.onnx.strings"
local class = require "moonlet.class"
local dtypes = require "moonlet.onnx.dtypes"
local io = require "moonlet.io"
local kept = require "moonlet.onnx.kept"
local ml = require "moonlet"
local models = require "moonlet.onnx.model"
local nn = require "moonlet.nn"
local options = require "moonlet.options"
local proto = require "moonlet.onnx.proto"
local readers = require "moonlet.onnx.read"
local run = require "moonlet.onnx.run"
local signature = require "moonlet.signature"
local values = require "moonlet.onnx.values"
local fail, shown = options.fail, models.shown

--- A model of an ONNX file, as `ml.onnx.load` makes it: called with the graph's inputs, by position
--- or by name in a table. Its parameters and buffers are the initialisers under their names.
---@field input_names string[] The names of the graph's inputs.
---@field output_names string[] The names of the graph's outputs.
local OnnxModule = nn.class("OnnxModule")

-- --- parameters -------------------------------------------------------------------------------

-- The names that are parts of each other, and what a module takes; a longer name is one part.
local MOST_PARTS, MODULE_BYTES = 32, 4096

-- What a Module can have under a name that the file chose.
local function free_key(module, key)
  if key == "" then key = "_" end
  while class.lookup(module, key) ~= nil or rawget(module, key) ~= nil do key = key .. "_" end
  return key
end

local function parts_of(name)
  local parts = {}
  for part in (name .. "."):gmatch "([^.]*)%." do
    parts[#parts + 1] = part
    if #parts > MOST_PARTS then return { (name:gsub("%.", "_")) } end
  end
  return parts
end

-- "encoder.0.weight" is the field "weight" of modules that stand in one another; `children` has
-- those of each module by their names in the file.
local function place(root, name, value, children, budget)
  local module, parts = root, parts_of(name)
  for i = 1, #parts - 1 do
    local known = children[module] or {}
    children[module] = known
    local child = known[parts[i]]
    if not child then
      budget:take(MODULE_BYTES)
      child = nn.Module()
      module[free_key(module, parts[i])] = child
      known[parts[i]] = child
    end
    module = child
  end
  local key = free_key(module, parts[#parts])
  module[key] = value
  return module, key
end

-- The initialisers that are no parameters: single numbers, no floats, running statistics, types
-- that have no dtype here, and what the file says.
local function find_buffers(model, graph, out)
  for name, tensor in pairs(graph.initializers) do
    if not Strings.is(tensor) and (not dtypes.is_float(tostring(tensor.dtype)) or tensor.ndim == 0
        or kept.type_of(tensor) ~= tensor.dtype) then
      out[name] = true
    end
  end
  for _, node in ipairs(graph.nodes) do
    if node.op == "BatchNormalization" then
      out[node.inputs[4] or ""], out[node.inputs[5] or ""] = true, true
    end
  end
  for name in (model.metadata["moonlet.buffers"] or ""):gmatch "[^,]+" do out[name] = true end
  return out
end

-- Makes the initialisers of a graph parameters and buffers; strings stay where they are.
local function place_graph(root, model, graph, children, budget)
  local buffers, places = find_buffers(model, graph, {}), {}
  for _, name in ipairs(graph.order) do
    local tensor = graph.initializers[name]
    if Strings.is(tensor) then
      graph.strings = graph.strings or {}
      graph.strings[name] = tensor
    else
      local value = buffers[name] and nn.Buffer(tensor) or nn.Parameter(tensor)
      budget:take(MODULE_BYTES)
      local module, key = place(root, name, value, children, budget)
      local type = kept.type_of(tensor)
      places[name] = { module, key, type ~= tensor.dtype and type or nil }
    end
  end
  graph.places, graph.initializers = places, nil
end

function OnnxModule:init(model, budget)
  local children = {}
  local input_names, output_names = {}, {}
  for i, value in ipairs(model.inputs) do input_names[i] = value.name end
  for i, value in ipairs(model.outputs) do output_names[i] = value.name end
  rawset(self, "_model", model)
  rawset(self, "input_names", input_names)
  rawset(self, "output_names", output_names)
  place_graph(self, model, model, children, budget)
  for _, graph in ipairs(model.graphs) do place_graph(self, model, graph, children, budget) end
end

-- --- running ----------------------------------------------------------------------------------

local function is_named(value)
  return type(value) == "table" and getmetatable(value) == nil and type(next(value)) == "string"
end

local function inputs_of(model, ...)
  local count, given = select("#", ...), { ... }
  if count == 1 and is_named(given[1]) then
    local names, by_name = {}, given[1]
    for i, value in ipairs(model.inputs) do names[i] = value.name end
    options.check("onnx model", by_name, names)
    for i, value in ipairs(model.inputs) do given[i] = by_name[value.name] end
    count = #model.inputs
  end
  if count > #model.inputs then
    fail("onnx model: takes %d input%s, got %d", #model.inputs, #model.inputs == 1 and "" or "s",
      count)
  end
  local out = {}
  for i, value in ipairs(model.inputs) do
    local what = ("onnx model: the input '%s'"):format(shown(value.name))
    out[value.name] = values.inner(value, given[i], what)
    -- Positions are counted from 0 inside; those from the end are negative everywhere.
    if model.index_inputs[value.name] then
      if given[i]:numel() > 0 and given[i]:eq(0):any():item() then
        fail("onnx model: the input '%s' is of positions, which count from 1, and has a 0",
          shown(value.name))
      end
      out[value.name] = given[i] - given[i]:gt(0):to(given[i].dtype)
    end
  end
  return out
end

-- The bytes of what is given to a run.
local function bytes_of(value)
  if ml.is_tensor(value) then return value:numel() * dtypes.widths[tostring(value.dtype)] end
  if Strings.is(value) then return value:bytes() end
  local total = 0
  for _, item in ipairs(value) do total = total + bytes_of(item) end
  return total
end

-- What tensors of a run may take: in proportion to the file and the inputs.
local function limit_of(model, inputs)
  local size = model.size
  for _, value in pairs(inputs) do size = size + bytes_of(value) end
  return io.read_limit(size, model.max_bytes)
end

-- What is wrong, without the place in the library where that was seen.
local function reason_of(problem)
  return (problem:gsub("^[^\n]-:%d+: ", "", 1))
end

function OnnxModule:forward(...)
  local model = self._model
  local env = inputs_of(model, ...)
  local state = { limit = limit_of(model, env), watched = model.watched }
  run.place_initializers(model, env)
  local function all() return run.nodes(model.nodes, env, state) end
  if model.watched then
    for name in pairs(model.watched) do run.watch(name, env, state) end
  end
  local ok, problem = pcall(io.with_tensor_limit, state.limit,
    model.watched and function() return ml.enable_grad(all) end or all)
  if not ok then
    if type(problem) ~= "string" or problem:find "not enough memory" then error(problem, 0) end
    local hint = problem:find(("%d"):format(state.limit), 1, true)
      and "; the option 'max_bytes' of onnx.load raises that bound" or ""
    fail("onnx model: %s: %s%s", state.running.what, reason_of(problem), hint)
  end
  local out = {}
  for i, value in ipairs(model.outputs) do
    local result = values.outer(env[value.name])
    if model.index_outputs[value.name] then result = result + result:ge(0):to(result.dtype) end
    out[i] = result
  end
  return table.unpack(out, 1, #model.outputs)
end

function OnnxModule:extra_repr()
  return ("%s -> %s, %d nodes"):format(table.concat(self.input_names, ", "),
    table.concat(self.output_names, ", "), #self._model.nodes)
end

-- --- the functions ----------------------------------------------------------------------------

local function chosen(given, known, what)
  local out = {}
  for _, name in ipairs(given) do
    for _, value in ipairs(known) do out[name] = out[name] or value.name == name or nil end
    if not out[name] then fail("onnx.load: '%s' names '%s', which is not there", what, name) end
  end
  return out
end

local load = {}

--- The module of a file; errors are texts that do not say which file.
---@param file table a moonlet.files.source
---@return table module
---@return table metadata
function load.read(file)
  local model = models.read(proto.read(file), readers, file)
  return OnnxModule(model, file.budget), model.metadata
end

local read_load = signature("onnx.load(string path, string device=\"cpu\", "
  .. "string[]? index_inputs=nil, string[]? index_outputs=nil, int>=1? max_bytes=nil)")

--- Reads an ONNX file (opsets 1 to 27) as a module. The initialisers are its parameters, and
--- buffers where they are single numbers, no floats, or running statistics, under their names in
--- the state dict, and train; so are weights in Constant nodes and in the graphs of If, Loop and
--- Scan. It is called with the graph's inputs, by position or by name in a table, and gives its
--- outputs. What it computes is what the graph says, in training and evaluation mode alike.
---
--- Positions count from 1: an integer input that the graph uses as positions, and outputs that are
--- such (of ArgMax, TopK), differ by one from what stands in the file. `index_inputs` and
--- `index_outputs` name them where the guess is wrong; `{}` is none.
---
--- Sequences are given and come as lists, strings as tables of strings. Ops that are not read are
--- errors that name the node.
---
--- A small graph can ask for tensors of any size. `max_bytes` is what reading may take, and what a
--- run may hold in tensors at once beside its inputs and parameters, those that the tape keeps
--- included; no value of the graph may be larger, expanded or not. Unless it is given this is 512
--- MiB, or where that is more 256 times the bytes of the file, and in a run of file and inputs.
--- > net = ml.nn.Sequential(ml.nn.Linear(4, 3), ml.nn.ReLU())  -- needs onnx
--- > path = os.tmpname()
--- > ml.onnx.export(net, ml.randn(2, 4), path)
--- > model = ml.onnx.load(path)
--- > model(ml.ones(2, 4)):allclose(net(ml.ones(2, 4)))
---   true
---@param path string the file
---@param device? string the device of the parameters
---@param index_inputs? string[] inputs that are positions, from 0 in the file; guessed unless
---   given; `{}` is none
---@param index_outputs? string[] outputs that are positions; guessed unless given; `{}` is none
---@param max_bytes? integer the most bytes that reading and each run may take; 512 MiB, or 256
---   times the file, unless given
---@return table module
function load.load(...)
  local path, device, inputs, outputs, max_bytes = read_load(...)
  local ok, module = pcall(function()
    return load.read(Source.open(path, false, "onnx.load", max_bytes))
  end)
  if not ok then
    local text = tostring(module)
    if text:find "^onnx%.load: " then fail("%s", text) end
    if text:find "^[^\n]*onnx%.load: " then error(module, 0) end
    fail("onnx.load: '%s': %s", path, reason_of(text))
  end
  local model = module._model
  if inputs then model.index_inputs = chosen(inputs, model.inputs, "index_inputs") end
  if outputs then model.index_outputs = chosen(outputs, model.outputs, "index_outputs") end
  return device == "cpu" and module or module:to(device)
end

return load
