-- stdlib/onnx/model.lua: what a file of ONNX says, checked: initialisers as tensors, nodes in an
-- order that can run, with their attributes. Nothing is made that the file does not hold.

local dtypes = require "moonlet.onnx.dtypes"
local io = require "moonlet.io"

local model = {}

local OLDEST, NEWEST = 7, 23
local MOST_DEPTH = 64

local function fail(format, ...) error(format:format(...), 0) end

--- A name as messages show it: short, and in one line.
function model.shown(name)
  name = tostring(name):gsub("[%c]", "?")
  return #name > 80 and name:sub(1, 77) .. "..." or name
end
local shown = model.shown

-- --- initialisers -----------------------------------------------------------------------------

-- The bytes of a tensor that stands in another file, which lies in the model's folder.
local function external_reader(file)
  local folder, sizes = file.path:match "^(.*/)" or "", {}
  return function(entries, size)
    local location = entries.location
    if type(location) ~= "string" or location == "" then fail "external data without a location" end
    local outside = location:find "^/" or location:find "\\" or location:find "\0"
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

local function read_initializers(graph, external)
  local out, order = {}, {}
  for i, proto in ipairs(graph.initializer or {}) do
    local name = proto.name or ""
    if name == "" then fail("initialiser %d has no name", i) end
    if out[name] then fail("the initialiser '%s' stands twice", shown(name)) end
    out[name] = dtypes.tensor(proto, ("the initialiser '%s'"):format(shown(name)), external)
    order[#order + 1] = name
  end
  if graph.sparse_initializer then fail "it has sparse initialisers, which are not read" end
  return out, order
end

-- --- nodes ------------------------------------------------------------------------------------

-- The field of an attribute's value by the number of its type.
local FIELDS = { "f", "i", "s", "t", false, "floats", "ints", "strings" }
local EMPTY = { [6] = true, [7] = true, [8] = true }

-- The types that attributes are of, by their names: no name means two things in ops that are read,
-- but for `value`, a number of old borders and else a tensor.
local TYPES = { value = "tf", activations = "strings", scales = "floats", value_floats = "floats" }
local function of_type(kind, names)
  for name in names:gmatch "%S+" do TYPES[name] = kind end
end
of_type("i", "axis keepdims to group ceil_mode count_include_pad transA transB allowzero start end "
  .. "upper blocksize align_corners fmod num_groups size p k largest sorted select_last_index "
  .. "exclusive reverse noop_with_empty_axes training_mode spatial hidden_size linear_before_reset "
  .. "input_forget layout batch_dims ignore_index detect_positive detect_negative antialias "
  .. "exclude_outside num_outputs dtype value_int stash_type storage_order seed keep_aspect_ratio")
of_type("f", "alpha beta gamma epsilon momentum lambd bias min max clip cubic_coeff_a value_float "
  .. "extrapolation_value ratio")
of_type("s", "mode auto_pad direction equation approximate reduction nearest_mode padding_mode "
  .. "coordinate_transformation_mode value_string")
of_type("ints", "axes perm pads strides dilations kernel_shape output_padding output_shape starts "
  .. "ends split shape paddings value_ints")

local function check_type(attribute, field, what)
  local wanted = TYPES[attribute.name]
  if wanted and wanted ~= field and not (wanted == "tf" and (field == "t" or field == "f")) then
    fail("%s: the attribute '%s' is of the wrong type", what, attribute.name)
  end
end

local function read_attribute(attribute, what, external)
  local kind = attribute.type
  local field = FIELDS[kind or 0]
  if field == false or kind and kind > 8 then
    fail("%s: the attribute '%s' holds a graph, which is not read", what, shown(attribute.name))
  elseif attribute.ref_attr_name then
    fail("%s: the attribute '%s' is that of a function, which is not read", what,
      shown(attribute.name))
  elseif not field then
    fail("%s: the attribute '%s' has no type", what, shown(attribute.name))
  end
  check_type(attribute, field, what)
  local value = attribute[field]
  if value == nil then
    -- What is zero or empty need not be in the file.
    if EMPTY[kind] then return {} end
    value = ({ 0.0, 0, "" })[kind]
    if value == nil then fail("%s: the attribute '%s' is empty", what, shown(attribute.name)) end
  end
  if kind == 4 then
    return dtypes.tensor(value, ("%s: the attribute '%s'"):format(what, shown(attribute.name)),
      external)
  end
  return value
end

local function read_node(proto, number, readers, external, version)
  local op = proto.op_type or ""
  local node = { op = op, inputs = proto.input or {}, outputs = proto.output or {},
    attributes = {}, version = version }
  node.what = ("node %d (%s%s)"):format(number, shown(op),
    proto.name and proto.name ~= "" and " '" .. shown(proto.name) .. "'" or "")
  local domain = proto.domain or ""
  if domain ~= "" and domain ~= "ai.onnx" then
    fail("%s is of the domain '%s', which is not read", node.what, shown(domain))
  end
  node.run = readers[op]
  if type(node.run) ~= "function" then
    fail("%s: there is no such op, or it is not read", node.what)
  end
  for i = 1, readers._least[op] == "all" and math.max(#node.inputs, 1) or readers._least[op] or 1 do
    if (node.inputs[i] or "") == "" then fail("%s: its input %d is missing", node.what, i) end
  end
  for _, attribute in ipairs(proto.attribute or {}) do
    local name = attribute.name or ""
    if node.attributes[name] ~= nil then
      fail("%s: the attribute '%s' stands twice", node.what, shown(name))
    end
    node.attributes[name] = read_attribute(attribute, node.what, external)
  end
  return node
end

-- Each input is there before the node runs, each output is made once.
local function check_order(nodes, known, outputs)
  for _, node in ipairs(nodes) do
    for _, name in ipairs(node.inputs) do
      if name ~= "" and not known[name] then
        fail("%s uses '%s', which no input, initialiser or node before it gives", node.what,
          shown(name))
      end
    end
    for _, name in ipairs(node.outputs) do
      if name ~= "" and known[name] then
        fail("%s gives '%s', which is there already", node.what, shown(name))
      end
      if name ~= "" then known[name] = true end
    end
  end
  for _, output in ipairs(outputs) do
    if not known[output.name] then fail("nothing gives the output '%s'", shown(output.name)) end
  end
end

-- The node that uses a value last: it need not be kept after that.
local function note_last_uses(nodes, outputs)
  local last = {}
  for i, node in ipairs(nodes) do
    for _, name in ipairs(node.inputs) do last[name] = i end
    for _, name in ipairs(node.outputs) do last[name] = last[name] or i end
  end
  for _, output in ipairs(outputs) do last[output.name] = nil end
  for name, i in pairs(last) do
    nodes[i].drop = nodes[i].drop or {}
    table.insert(nodes[i].drop, name)
  end
end

-- --- inputs and outputs -----------------------------------------------------------------------

-- { name, dtype, dims }: dims has a number for each that is known, false for others, or is nil.
local function read_value(proto, what)
  local name = proto.name or ""
  if name == "" then fail("an %s has no name", what) end
  local out = { name = name }
  local kind = proto.type and proto.type.tensor_type
  if not kind then
    if proto.type and next(proto.type) then
      fail("the %s '%s' is no tensor, and others are not read", what, shown(name))
    end
    return out
  end
  if (kind.elem_type or 0) ~= 0 then
    out.dtype = dtypes.of(kind.elem_type, ("the %s '%s'"):format(what, shown(name)))
  end
  if kind.shape then
    out.dims = {}
    for d, dim in ipairs(kind.shape.dim or {}) do out.dims[d] = dim.dim_value or false end
  end
  return out
end

local function read_values(list, what, leave_out)
  local out, seen = {}, {}
  for _, proto in ipairs(list or {}) do
    local value = read_value(proto, what)
    if seen[value.name] then fail("the %s '%s' stands twice", what, shown(value.name)) end
    seen[value.name] = true
    if not leave_out[value.name] then out[#out + 1] = value end
  end
  return out
end

-- --- positions --------------------------------------------------------------------------------

-- Which input of a node is positions; and the nodes whose output is what their input is.
local POSITIONS = { Gather = 2, GatherElements = 2, GatherND = 2, ScatterElements = 2,
  ScatterND = 2,
  OneHot = 1, NegativeLogLikelihoodLoss = 2, SoftmaxCrossEntropyLoss = 2 }
local PLACES = { ArgMax = 1, ArgMin = 1, TopK = 2 }
local KEEP = {}
for op in ("Reshape Transpose Squeeze Unsqueeze Slice Concat Identity Cast Expand Split Flatten "
  .. "Gather GatherElements"):gmatch "%S+" do KEEP[op] = true end

-- By going back from where positions are used, and on from where they are made.
local function find_positions(nodes)
  local used, made = {}, {}
  for i = #nodes, 1, -1 do
    local node = nodes[i]
    local at = POSITIONS[node.op]
    if at and node.inputs[at] then used[node.inputs[at]] = true end
    for _, name in ipairs(KEEP[node.op] and node.outputs or {}) do
      if used[name] then
        for k, input in ipairs(node.inputs) do
          if k == 1 or node.op == "Concat" then used[input] = true end
        end
      end
    end
  end
  for _, node in ipairs(nodes) do
    local at = PLACES[node.op]
    if at and node.outputs[at] then made[node.outputs[at]] = true end
    if KEEP[node.op] and node.inputs[1] and made[node.inputs[1]] then
      for _, name in ipairs(node.outputs) do made[name] = true end
    end
  end
  return used, made
end

-- { name = true } of a list with commas, of what is among `values`.
local function listed(text, values)
  local out, known = {}, {}
  for _, value in ipairs(values) do known[value.name] = true end
  for name in (text or ""):gmatch "[^,]+" do out[name] = known[name] end
  return out
end

local INTEGERS = { int64 = true, int32 = true }

local function positions_of(out, metadata)
  local used, made = find_positions(out.nodes)
  out.index_inputs, out.index_outputs = {}, {}
  for _, value in ipairs(out.inputs) do
    if used[value.name] and INTEGERS[value.dtype] then out.index_inputs[value.name] = true end
  end
  for _, value in ipairs(out.outputs) do
    if made[value.name] then out.index_outputs[value.name] = true end
  end
  -- A file from here says it itself.
  if metadata["moonlet.index_inputs"] then
    out.index_inputs = listed(metadata["moonlet.index_inputs"], out.inputs)
    out.index_outputs = listed(metadata["moonlet.index_outputs"], out.outputs)
  end
end

-- --- the whole --------------------------------------------------------------------------------

local function version_of(proto)
  local version
  for _, import in ipairs(proto.opset_import or {}) do
    if (import.domain or "") == "" or import.domain == "ai.onnx" then version = import.version end
  end
  if not version then fail "it does not say which set of ops it uses" end
  if version < OLDEST or version > NEWEST then
    fail("it uses opset %d; %d to %d are read", version, OLDEST, NEWEST)
  end
  return version
end

local function check_depth(thing, depth)
  if depth > MOST_DEPTH then fail "it nests too deeply" end
  for _, item in pairs(thing) do
    if type(item) == "table" then check_depth(item, depth + 1) end
  end
end

--- What the table of a ModelProto says, checked; errors are texts.
---@param proto table
---@param readers table<string, function> by op
---@param file table a moonlet.files.source
---@return table
function model.read(proto, readers, file)
  check_depth(proto, 1)
  local graph = proto.graph
  if not graph then fail "it holds no graph" end
  local version, external = version_of(proto), external_reader(file)
  local out = { nodes = {}, version = version, max_bytes = file.budget.given }
  if proto.functions then fail "it has functions of its own, which are not read" end
  out.initializers, out.order = read_initializers(graph, external)
  out.size = file.budget.size
  out.inputs = read_values(graph.input, "input", out.initializers)
  out.outputs = read_values(graph.output, "output", {})
  if #out.outputs == 0 then fail "its graph has no outputs" end
  local known = {}
  for name in pairs(out.initializers) do known[name] = true end
  for _, input in ipairs(out.inputs) do known[input.name] = true end
  for i, node in ipairs(graph.node or {}) do
    out.nodes[i] = read_node(node, i, readers, external, version)
  end
  check_order(out.nodes, known, out.outputs)
  note_last_uses(out.nodes, out.outputs)
  local metadata = {}
  for _, entry in ipairs(proto.metadata_props or {}) do
    metadata[entry.key or ""] = entry.value or ""
  end
  out.metadata = metadata
  positions_of(out, metadata)
  return out
end

return model
