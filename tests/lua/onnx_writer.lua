-- tests/lua/onnx_writer.lua: writes small ONNX files for tests, byte by byte, so that they may hold what
-- no other writer makes.

local writer = {}

local function varint(n)
  local out = {}
  repeat
    local byte = n & 0x7f
    n = n >> 7
    out[#out + 1] = string.char(n ~= 0 and byte | 0x80 or byte)
  until n == 0
  return table.concat(out)
end
writer.varint = varint

--- A field that is a number, one that is bytes, and one that is a float.
function writer.number(field, n) return varint(field << 3) .. varint(n) end
function writer.bytes(field, s) return varint(field << 3 | 2) .. varint(#s) .. s end
function writer.float(field, x) return varint(field << 3 | 5) .. ("<f"):pack(x) end
local number, bytes = writer.number, writer.bytes

--- The numbers of types of elements.
writer.FLOAT, writer.UINT8, writer.UINT16, writer.INT32, writer.INT64, writer.STRING = 1, 2, 4, 6, 7, 8
writer.BOOL = 9
local FORMATS = { [1] = "<f", [2] = "B", [4] = "<I2", [6] = "<i4", [7] = "<i8", [9] = "B" }

--- A TensorProto.
function writer.tensor(name, type, dims, values)
  local out = {}
  for _, size in ipairs(dims) do out[#out + 1] = number(1, size) end
  out[#out + 1] = number(2, type) .. bytes(8, name)
  if type == writer.STRING then
    for _, text in ipairs(values) do out[#out + 1] = bytes(6, text) end
    return table.concat(out)
  end
  local raw = {}
  for i, value in ipairs(values) do raw[i] = FORMATS[type]:pack(value) end
  return table.concat(out) .. bytes(9, table.concat(raw))
end

--- A ValueInfoProto of a tensor: sizes are numbers, names, or false for one that is not said.
function writer.value(name, type, dims)
  local shape = {}
  for _, size in ipairs(dims or {}) do
    shape[#shape + 1] = bytes(1, not size and "" or math.type(size) and number(1, size) or bytes(2, size))
  end
  local tensor = number(1, type) .. (dims and bytes(2, table.concat(shape)) or "")
  return bytes(1, name) .. bytes(2, bytes(1, tensor))
end

--- One of a sequence of tensors, or of an optional value.
function writer.sequence(name, type)
  return bytes(1, name) .. bytes(2, bytes(4, bytes(1, bytes(1, number(1, type)))))
end
function writer.optional(name, type)
  return bytes(1, name) .. bytes(2, bytes(9, bytes(1, bytes(1, number(1, type)))))
end

--- An AttributeProto: integers, floats, strings, lists of them, { tensor = }, { graph = }, and
--- { ref = NAME, type = NUMBER } for that of a function.
function writer.attribute(name, value)
  local out = bytes(1, name)
  if math.type(value) == "integer" then return out .. number(3, value) .. number(20, 2) end
  if math.type(value) == "float" then return out .. writer.float(2, value) .. number(20, 1) end
  if type(value) == "string" then return out .. bytes(4, value) .. number(20, 3) end
  if value.tensor then return out .. bytes(5, value.tensor) .. number(20, 4) end
  if value.graph then return out .. bytes(6, value.graph) .. number(20, 5) end
  if value.ref then return out .. bytes(21, value.ref) .. number(20, value.type) end
  local kind = ({ integer = 7, float = 6 })[math.type(value[1])] or 8
  for _, item in ipairs(value) do
    out = out .. (kind == 7 and number(8, item) or kind == 6 and writer.float(7, item) or bytes(9, item))
  end
  return out .. number(20, kind)
end

--- A NodeProto; `more` is what is appended to its fields.
function writer.node(op, inputs, outputs, attributes, domain, more)
  local out = {}
  for _, name in ipairs(inputs) do out[#out + 1] = bytes(1, name) end
  for _, name in ipairs(outputs) do out[#out + 1] = bytes(2, name) end
  out[#out + 1] = bytes(4, op)
  local names = {}
  for name in pairs(attributes or {}) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    out[#out + 1] = bytes(5, writer.attribute(name, attributes[name]))
  end
  return table.concat(out) .. (domain and bytes(7, domain) or "") .. (more or "")
end

--- A GraphProto.
function writer.graph(nodes, inputs, outputs, initializers)
  local out = {}
  for _, node in ipairs(nodes) do out[#out + 1] = bytes(1, node) end
  out[#out + 1] = bytes(2, "g")
  for _, tensor in ipairs(initializers or {}) do out[#out + 1] = bytes(5, tensor) end
  for _, value in ipairs(inputs) do out[#out + 1] = bytes(11, value) end
  for _, value in ipairs(outputs) do out[#out + 1] = bytes(12, value) end
  return table.concat(out)
end

--- A FunctionProto: { domain, name, inputs, outputs, nodes, attributes, defaults, opset, overload }.
function writer.func(f)
  local out = { bytes(1, f.name) }
  for _, name in ipairs(f.inputs) do out[#out + 1] = bytes(4, name) end
  for _, name in ipairs(f.outputs) do out[#out + 1] = bytes(5, name) end
  for _, name in ipairs(f.attributes or {}) do out[#out + 1] = bytes(6, name) end
  for _, node in ipairs(f.nodes) do out[#out + 1] = bytes(7, node) end
  out[#out + 1] = bytes(9, number(2, f.opset or 17)) .. bytes(9, bytes(1, f.domain or "my") .. number(2, 1))
    .. bytes(10, f.domain or "my")
  for name, value in pairs(f.defaults or {}) do
    out[#out + 1] = bytes(11, writer.attribute(name, value))
  end
  return table.concat(out) .. (f.overload and bytes(13, f.overload) or "")
end

--- A ModelProto of a graph: `opsets` is a version or { domain = version }; `more` further fields.
function writer.model(graph, opsets, more)
  if type(opsets) ~= "table" then opsets = { [""] = opsets or 17 } end
  local out = { number(1, 8), bytes(7, graph) }
  for domain, version in pairs(opsets) do
    out[#out + 1] = bytes(8, bytes(1, domain) .. number(2, version))
  end
  return table.concat(out) .. (more or "")
end

return writer
