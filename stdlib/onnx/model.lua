-- stdlib/onnx/model.lua: what a file of ONNX says, checked: initialisers as tensors, nodes in an
-- order that can run, with their attributes. Nothing is made that the file does not hold.

local attributes = require "moonlet.onnx.attributes"
local io = require "moonlet.io"
local ml = require "moonlet"
local nodes = require "moonlet.onnx.nodes"
local positions = require "moonlet.onnx.positions"
local system = require "moonlet.system"
local values = require "moonlet.onnx.values"

local model = {}

local function fail(format, ...) error(format:format(...), 0) end

model.shown = attributes.shown
local shown = model.shown

-- --- data of other files ----------------------------------------------------------------------

-- The bytes of a tensor that stands in another file, which lies in the model's folder.
local function external_reader(file)
  local folder, sizes = system.split(file.path), {}
  return function(entries, size)
    local location = entries.location
    if type(location) ~= "string" or location == "" then fail "external data without a location" end
    local outside = location:find "^/" or location:find "[\\\0]" or location:find "^%a:"
    for part in location:gmatch "[^/]+" do outside = outside or part == ".." end
    if outside then
      fail("external data in '%s', which is outside of the model's folder", shown(location))
    end
    local offset = math.tointeger(tonumber(entries.offset or "0"))
    local length = math.tointeger(tonumber(entries.length or tostring(size)))
    if not offset or not length or offset < 0 or length ~= size then
      fail("external data of %s bytes from %s, where its shape and type want %d",
        shown(entries.length), shown(entries.offset), size)
    end
    if not sizes[location] then
      local _, whole = io.read_bytes(folder .. location, 0, 0, file.op)
      sizes[location] = whole
      file.budget:add_file(whole)
    end
    -- As bytes, and as elements of their dtype.
    file.budget:take(2 * length)
    return io.read_tensor(folder .. location, offset, length, "uint8", file.op)
  end
end

-- --- weights in nodes -------------------------------------------------------------------------

-- The inputs of ops that are settings and no weights.
local SETTINGS = { Resize = "234", Upsample = "2", Clip = "23", Pad = "23", OneHot = "23",
  Range = "123", Dropout = "23", QuantizeLinear = "23", DequantizeLinear = "23",
  NonMaxSuppression = "345", ConstantOfShape = "1", Expand = "2", Tile = "2", Reshape = "2" }
-- Those that are weights even of one element.
local WEIGHTS = { Conv = "23", ConvTranspose = "23", Gemm = "23", MatMul = "12", PRelu = "2",
  BatchNormalization = "23", LayerNormalization = "23", InstanceNormalization = "23",
  GroupNormalization = "23" }

-- Calls f(op, index) for each use of a name.
local function each_place(list, f)
  for _, node in ipairs(list) do
    for i, name in ipairs(node.inputs) do f(name, node.domain == "" and node.op or "", i) end
    for _, graph in ipairs(node.graphs or {}) do each_place(graph.nodes, f) end
  end
end

-- The names that some op takes as a weight, and those that one takes as a weight of any size.
local function find_weights(list)
  local used, certain = {}, {}
  each_place(list, function(name, op, i)
    if not (SETTINGS[op] or ""):find(i, 1, true) then used[name] = true end
    if (WEIGHTS[op] or ""):find(i, 1, true) then certain[name] = true end
  end)
  return used, certain
end

local function is_weight(value)
  return ml.is_tensor(value) and value:is_floating_point() and value.ndim > 0
end

-- Whether a file has its weights as initialisers: then what stands in Constant nodes is mostly
-- none, as masks and states to begin with.
local function has_weights(graph, used)
  for name, value in pairs(graph.initializers) do
    if used[name] and is_weight(value) and value:numel() > 1 then return true end
  end
  for _, inner in ipairs(graph.graphs or {}) do
    if has_weights(inner, used) then return true end
  end
  return false
end

-- Tensors of floats in Constant nodes that are used as weights become initialisers.
local function lift_constants(graph, used, certain)
  local left = {}
  for _, node in ipairs(graph.nodes) do
    local value, name = node.attributes.value, node.outputs[1]
    local lifted = node.op == "Constant" and node.domain == "" and not node.call and name
      and name ~= "" and is_weight(value)
      and (certain[name] or used and used[name] and value:numel() > 1)
    if lifted and not graph.initializers[name] then
      graph.initializers[name] = value
      graph.order[#graph.order + 1] = name
    else
      left[#left + 1] = node
    end
  end
  graph.nodes = left
end

-- --- the whole --------------------------------------------------------------------------------

local function check_versions(versions)
  local version = versions[""]
  if not version then
    local others = {}
    for name in pairs(versions) do others[#others + 1] = "'" .. shown(name) .. "'" end
    table.sort(others)
    if #others == 0 then fail "it does not say which set of ops it uses" end
  end
  nodes.check_opset(version, "")
end

local function entries_of(list)
  local out = {}
  for _, entry in ipairs(list or {}) do out[entry.key or ""] = entry.value or "" end
  return out
end

-- What the file says about itself, beside its own entries.
local function metadata_of(proto)
  local out = entries_of(proto.metadata_props)
  for _, key in ipairs { "producer_name", "producer_version", "domain", "model_version",
    "doc_string" } do
    local value = proto[key]
    if value and value ~= "" and value ~= 0 and out[key] == nil then out[key] = tostring(value) end
  end
  if proto.graph and (proto.graph.name or "") ~= "" and out.graph_name == nil then
    out.graph_name = proto.graph.name
  end
  return out
end

local function functions_of(proto)
  local out = {}
  for _, one in ipairs(proto.functions or {}) do
    local key = nodes.function_key { domain = one.domain, name = one.name, overload = one.overload }
    if out[key] then fail("the function '%s' stands twice", shown(one.name)) end
    out[key] = { proto = one }
  end
  return out
end

--- What the table of a ModelProto says, checked; errors are texts.
---@param proto table
---@param readers table<string, function> by op
---@param file table a moonlet.files.source
---@return table
function model.read(proto, readers, file)
  local graph = proto.graph
  if not graph then fail "it holds no graph" end
  local versions = nodes.versions_of(proto.opset_import)
  check_versions(versions)
  local context = { readers = readers, external = external_reader(file), depth = 0, graphs = {},
    watched = {}, versions = versions, functions = functions_of(proto) }
  local out = { version = versions[""], max_bytes = file.budget.given }
  out.initializers, out.order = nodes.initializers(graph, context, "")
  out.size = file.budget.size
  out.inputs = values.list(graph.input, "input", out.initializers)
  out.outputs = values.list(graph.output, "output", {})
  if #out.outputs == 0 then fail "its graph has no outputs" end
  local known = {}
  for name in pairs(out.initializers) do known[name] = true end
  for _, input in ipairs(out.inputs) do known[input.name] = true end
  out.nodes = nodes.list(graph.node, context, known, out.outputs, "")
  values.check_kinds(out.inputs)
  values.check_kinds(out.outputs)
  out.metadata, out.graphs = metadata_of(proto), context.graphs
  if next(context.watched) then out.watched = context.watched end
  positions.find(out, entries_of(proto.metadata_props))
  -- Files from here have their parameters as initialisers.
  if not out.metadata["moonlet.index_inputs"] then
    local used, certain = find_weights(out.nodes)
    if has_weights(out, used) then used = nil end
    lift_constants(out, used, certain)
    for _, inner in ipairs(out.graphs) do lift_constants(inner, used, certain) end
  end
  return out
end

return model
