-- stdlib/onnx/nodes.lua: the nodes, graphs and functions of an ONNX file, checked: nodes stand in
-- an order that can run, each with what computes it; a graph in a node sees the names around it.

local attributes = require "moonlet.onnx.attributes"
local dtypes = require "moonlet.onnx.dtypes"
local values = require "moonlet.onnx.values"
local shown = attributes.shown

local nodes = {}

-- Graphs inside nodes and functions inside functions.
local MOST_DEPTH = 32

local function fail(format, ...) error(format:format(...), 0) end

--- The name of a domain: that of ONNX's own ops is empty.
function nodes.domain_of(name)
  name = name or ""
  return name == "ai.onnx" and "" or name
end

-- --- what computes a node ---------------------------------------------------------------------

local ABOUT = {
  ["ai.onnx.ml"] = "ops of ai.onnx.ml (scikit-learn's, trees and scalers) are not read",
}

-- The reader of an op, and the number of inputs that it must have.
local function reader_of(node, context)
  local readers, domain, op = context.readers, node.domain, node.op
  if domain == "" then
    if type(readers[op]) ~= "function" then
      fail("%s: there is no such op in opset %s, or it is not read", node.what,
        tostring(node.version))
    end
    local older = readers._older and readers._older[op]
    if older and (node.version or 0) < older[1] then return older[2], readers._least[op] or 1 end
    return readers[op], readers._least[op] or 1
  end
  local others = readers._domains and readers._domains[domain]
  if not others then
    fail("%s is of the domain '%s', which is not read%s", node.what, shown(domain),
      ABOUT[domain] and ": " .. ABOUT[domain] or "")
  elseif type(others[op]) ~= "function" then
    fail("%s: there is no such op in the domain '%s', or it is not read", node.what,
      shown(domain))
  end
  return others[op], readers._least[domain .. ":" .. op] or 1
end

local function check_inputs(node, least)
  if least == "all" then
    for i = 1, math.max(#node.inputs, 1) do
      if (node.inputs[i] or "") == "" then fail("%s: its input %d is missing", node.what, i) end
    end
    least = #node.inputs
  end
  for i = 1, least do
    if (node.inputs[i] or "") == "" then fail("%s: its input %d is missing", node.what, i) end
  end
  node.least = least
end

-- --- attributes -------------------------------------------------------------------------------

local TAKES_GRAPHS = { If = { "then_branch", "else_branch" }, Loop = { "body" },
  Scan = { "body" }, SequenceMap = { "body" } }

local function check_graph_place(node, name)
  for _, taken in ipairs(node.domain == "" and not node.call and TAKES_GRAPHS[node.op] or {}) do
    if taken == name then return end
  end
  fail("%s: the attribute '%s' holds a graph, which %s does not take", node.what, shown(name),
    shown(node.op))
end

local function read_attributes(node, list, context, known)
  for _, attribute in ipairs(list or {}) do
    local name = attribute.name or ""
    if node.attributes[name] ~= nil or node.references and node.references[name] then
      fail("%s: the attribute '%s' stands twice", node.what, shown(name))
    end
    if (attribute.ref_attr_name or "") ~= "" then
      local outer = attribute.ref_attr_name
      if not context.takes or not context.takes[outer] then
        fail("%s: the attribute '%s' is that of a function, which has no attribute '%s'", node.what,
          shown(name), shown(outer))
      end
      node.references = node.references or {}
      node.references[name] = outer
    else
      local value, kind = attributes.value(attribute, node.what, context, node.call ~= nil)
      if kind == attributes.GRAPH then
        check_graph_place(node, name)
        value = nodes.graph(value, context, known, ("%s, its '%s'"):format(node.what, name))
        node.graphs = node.graphs or {}
        table.insert(node.graphs, value)
      end
      node.attributes[name] = value
    end
  end
end

-- --- functions --------------------------------------------------------------------------------

--- The key of a function among those of a file.
function nodes.function_key(proto)
  return table.concat({ nodes.domain_of(proto.domain), proto.op_type or proto.name or "",
    proto.overload or "" }, "\0")
end

-- { name = version } of a list of sets of ops.
function nodes.versions_of(imports)
  local out = {}
  for _, import in ipairs(imports or {}) do
    out[nodes.domain_of(import.domain)] = import.version or 0
  end
  return out
end

local function read_function(proto, context)
  local out = { name = proto.name or "", inputs = proto.input or {}, outputs = proto.output or {},
    defaults = {} }
  local takes, inner = {}, setmetatable({}, { __index = context })
  local where = ("the function '%s'"):format(shown(out.name))
  for _, name in ipairs(proto.attribute or {}) do takes[name] = true end
  for _, attribute in ipairs(proto.attribute_proto or {}) do
    takes[attribute.name or ""] = true
    local value, kind = attributes.value(attribute, where, context, true)
    if kind == attributes.GRAPH then fail("%s: a default that is a graph is not read", where) end
    out.defaults[attribute.name or ""] = value
  end
  inner.takes, inner.depth = takes, context.depth + 1
  if inner.depth > MOST_DEPTH then fail("%s: functions call one another too deeply", where) end
  inner.versions = setmetatable(nodes.versions_of(proto.opset_import),
    { __index = context.versions })
  nodes.check_opset(inner.versions[""], where .. ": ")
  local known = {}
  for _, name in ipairs(out.inputs) do
    if known[name] then fail("%s: the input '%s' stands twice", where, shown(name)) end
    known[name] = true
  end
  out.outputs_of = {}
  for i, name in ipairs(out.outputs) do out.outputs_of[i] = { name = name } end
  out.nodes = nodes.list(proto.node, inner, known, out.outputs_of, where .. ", ")
  return out
end

-- The function that a node calls, or nil.
local function function_of(node, proto, context)
  local key = nodes.function_key(proto)
  local entry = context.functions[key]
  if not entry then return nil end
  if entry.running then fail("%s: the function '%s' calls itself", node.what, shown(node.op)) end
  if not entry.body then
    entry.running = true
    entry.body = read_function(entry.proto, context)
    entry.running = false
  end
  return entry.body
end

-- --- nodes ------------------------------------------------------------------------------------

-- A Gradient is that of the value `y`, by the values whose names are `xs`: these are differentiable
-- from where they are made on.
local function is_gradient(node)
  return node.op == "Gradient" and node.domain == "ai.onnx.preview.training" and not node.call
end

local function read_gradient(node, context, known)
  local y, xs = node.attributes.y, node.attributes.xs or {}
  if type(y) ~= "string" or not known[y] then
    fail("%s: its 'y' names '%s', which nothing before it gives", node.what, shown(y))
  elseif context.depth > 0 then
    fail("%s: a Gradient in a function or a graph in a node is not read", node.what)
  end
  for i, name in ipairs(xs) do
    if name ~= node.inputs[i] then
      fail("%s: its 'xs' are not the names of its inputs", node.what)
    end
    context.watched[name] = true
  end
end

local function read_node(proto, number, context, known, where)
  local op = proto.op_type or ""
  local node = { op = op, inputs = proto.input or {}, outputs = proto.output or {},
    attributes = {}, domain = nodes.domain_of(proto.domain) }
  node.what = ("%snode %d (%s%s)"):format(where, number, shown(op),
    proto.name and proto.name ~= "" and " '" .. shown(proto.name) .. "'" or "")
  node.version, node.opset = context.versions[node.domain], context.versions[""]
  local call = function_of(node, proto, context)
  if call then
    node.call, node.least = call, 0
    if #node.inputs > #call.inputs or #node.outputs > #call.outputs then
      fail("%s: has %d inputs and %d outputs, the function has %d and %d", node.what, #node.inputs,
        #node.outputs, #call.inputs, #call.outputs)
    end
  else
    local least
    node.run, least = reader_of(node, context)
    if not node.version then
      fail("%s: the file does not say which version of the domain '%s' it uses", node.what,
        node.domain == "" and "ai.onnx" or shown(node.domain))
    end
    check_inputs(node, least)
  end
  read_attributes(node, proto.attribute, context, known)
  if is_gradient(node) then read_gradient(node, context, known) end
  return node
end

-- Each input is there before the node runs, each output is made once.
local function check_order(node, known)
  for _, name in ipairs(node.inputs) do
    if name ~= "" and not known[name] then
      fail("%s uses '%s', which no input, initialiser or node before it gives", node.what,
        shown(name))
    end
  end
  for _, name in ipairs(node.outputs) do
    if name ~= "" and rawget(known, name) then
      fail("%s gives '%s', which is there already", node.what, shown(name))
    end
    if name ~= "" then known[name] = true end
  end
end

-- Calls f(name) for the names that a node uses, those of graphs in it included.
local function each_use(node, f)
  for _, name in ipairs(node.inputs) do f(name) end
  if is_gradient(node) then f(node.attributes.y) end
  for _, graph in ipairs(node.graphs or {}) do
    for _, inner in ipairs(graph.nodes) do each_use(inner, f) end
    for _, output in ipairs(graph.outputs) do f(output.name) end
  end
end
nodes.each_use = each_use

-- The node that uses a value last: it need not be kept after that.
local function note_last_uses(list, outputs)
  local last = {}
  for i, node in ipairs(list) do
    each_use(node, function(name) last[name] = i end)
    for _, name in ipairs(node.outputs) do last[name] = last[name] or i end
  end
  for _, output in ipairs(outputs) do last[output.name] = nil end
  for name, i in pairs(last) do
    list[i].drop = list[i].drop or {}
    table.insert(list[i].drop, name)
  end
end

--- The nodes of a list of NodeProtos; `known` are the names that they can use, and gets theirs.
---@param protos table[]
---@param context table readers, external, functions, versions, depth, takes
---@param known table<string, boolean>
---@param outputs table[] with their names
---@param where string for messages
---@return table[]
function nodes.list(protos, context, known, outputs, where)
  local out = {}
  for i, proto in ipairs(protos or {}) do
    out[i] = read_node(proto, i, context, known, where)
    check_order(out[i], known)
  end
  for _, output in ipairs(outputs) do
    if not known[output.name] then
      fail("%snothing gives the output '%s'", where, shown(output.name))
    end
  end
  note_last_uses(out, outputs)
  return out
end

-- --- graphs -----------------------------------------------------------------------------------

--- The initialisers of a graph by name, and their names in order.
function nodes.initializers(graph, context, where)
  local out, order = {}, {}
  for i, proto in ipairs(graph.initializer or {}) do
    local name = proto.name or ""
    if name == "" then fail("%sinitialiser %d has no name", where, i) end
    if out[name] then fail("%sthe initialiser '%s' stands twice", where, shown(name)) end
    out[name] = dtypes.value(proto, ("%sthe initialiser '%s'"):format(where, shown(name)),
      context.external)
    order[#order + 1] = name
  end
  if graph.sparse_initializer then
    fail("%sit has sparse initialisers, which are not read", where)
  end
  return out, order
end

--- A graph that stands in a node.
---@param proto table
---@param context table
---@param around table<string, boolean> the names that it sees
---@param where string for messages
---@return table
function nodes.graph(proto, context, around, where)
  local inner = setmetatable({ depth = context.depth + 1 }, { __index = context })
  if inner.depth > MOST_DEPTH then fail("%s: graphs nest too deeply", where) end
  local out = { where = where }
  where = where .. ": "
  out.initializers, out.order = nodes.initializers(proto, inner, where)
  out.inputs = values.list(proto.input, "input", out.initializers, where)
  out.outputs = values.list(proto.output, "output", nil, where)
  local known = setmetatable({}, { __index = around })
  for name in pairs(out.initializers) do known[name] = true end
  for _, input in ipairs(out.inputs) do known[input.name] = true end
  out.nodes = nodes.list(proto.node, inner, known, out.outputs, where)
  table.insert(context.graphs, out)
  return out
end

-- --- opsets -----------------------------------------------------------------------------------

local OLDEST, NEWEST = 1, 27

--- Fails where a set of ops is not read.
function nodes.check_opset(version, where)
  if version and (version < OLDEST or version > NEWEST) then
    fail("%sit uses opset %d; %d to %d are read", where, version, OLDEST, NEWEST)
  end
end

return nodes
