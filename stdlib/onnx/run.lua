-- stdlib/onnx/run.lua: how the nodes of an ONNX graph run: values by name, those around a graph
-- seen in it, functions with their attributes, within the bound of the run.

local Strings = require "moonlet.onnx.strings"
local attributes = require "moonlet.onnx.attributes"
local dtypes = require "moonlet.onnx.dtypes"
local kept = require "moonlet.onnx.kept"
local ml = require "moonlet"
local narrow = require "moonlet.onnx.narrow"

local run = {}

-- The key of a function's attributes among the values of its run.
local BINDINGS = {}

local function fail(format, ...) error(format:format(...), 0) end

-- An expanded tensor takes nothing, but what is computed from it does.
local function check_size(value, limit)
  if ml.is_tensor(value) then
    local width = dtypes.widths[tostring(value.dtype)]
    if value:numel() > limit // width then
      fail("its result of shape %s and dtype %s has more than %d bytes", tostring(value.shape),
        tostring(value.dtype), limit)
    end
  elseif Strings.is(value) then
    if value:bytes() > limit then fail("its strings have more than %d bytes", limit) end
  elseif #value > limit // 1024 then
    fail("its sequence of %d elements takes more than %d bytes", #value, limit)
  end
end

-- A node whose attributes are those of the function's call.
local function bound(node, bindings)
  local given = setmetatable({}, { __index = node.attributes })
  for name, outer in pairs(node.references) do
    local value = bindings[outer]
    if value ~= nil and not node.call and not attributes.fits(name, value) then
      fail("the attribute '%s' of its function is of the wrong type for '%s'", outer, name)
    end
    given[name] = value
  end
  return setmetatable({ attributes = given }, { __index = node })
end

-- --- types that are kept in wider ones --------------------------------------------------------

-- Ops whose first output has the type of their inputs; those of the second list compute it.
local SAME, COMPUTED = {}, {}
for name in ("Reshape Flatten Squeeze Unsqueeze Transpose Expand Tile Concat Split Slice Gather "
  .. "GatherElements GatherND Scatter ScatterElements ScatterND Where Pad DepthToSpace "
  .. "SpaceToDepth Trilu Compress ReverseSequence Unique TopK Max Min MaxPool Clip ReduceMax "
  .. "ReduceMin Relu Abs Sign CenterCropPad TensorScatter"):gmatch "%S+" do SAME[name] = true end
for name in ("Add Sub Mul Div Mod Pow Sum Mean Neg CumSum CumProd ReduceSum ReduceProd "
  .. "ReduceSumSquare ReduceL1 ReduceMean BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitShift "
  .. "MatMul Gemm Range Einsum"):gmatch "%S+" do
  SAME[name], COMPUTED[name] = true, true
end

local function noted_type(count, ...)
  for i = 1, count do
    local value = select(i, ...)
    local name = value ~= nil and ml.is_tensor(value) and kept.type_of(value)
    if name and name ~= value.dtype then return name end
  end
end

-- Notes the results' type, and takes them into its range.
local function keep_type(node, results, name)
  local carrier = kept.carrier(name)
  for i = 1, node.op == "Split" and results.n or 1 do
    local value = results[i]
    if ml.is_tensor(value) and tostring(value.dtype) == carrier then
      if COMPUTED[node.op] then
        value = narrow.wrap(value, name)
        if name == "uint64" and value:lt(0):any():item() then
          fail "a number of uint64 is greater than 9223372036854775807, the greatest that is read"
        end
      end
      results[i] = kept.note(value, name)
    end
  end
end

-- --- strings and sequences --------------------------------------------------------------------

-- Ops that take any values, and those that take strings; those that only move elements.
local ANY, STRINGS, MOVES = {}, {}, {}
for name in ("Identity If Loop Scan SequenceMap SequenceEmpty SequenceConstruct SequenceLength "
  .. "SequenceAt SequenceInsert SequenceErase ConcatFromSequence Optional OptionalHasElement "
  .. "OptionalGetElement"):gmatch "%S+" do ANY[name] = true end
for name in ("Shape Size Equal Cast CastLike StringConcat StringSplit StringNormalizer "
  .. "TfIdfVectorizer"):gmatch "%S+" do STRINGS[name] = true end
for name in ("Reshape Flatten Squeeze Unsqueeze Transpose Expand Tile Concat Split Slice Gather "
  .. "GatherElements GatherND Scatter ScatterElements ScatterND Where Compress ReverseSequence "
  .. "SplitToSequence"):gmatch "%S+" do MOVES[name] = true end

-- Whether there are strings among the inputs; fails for values that an op does not take.
local function has_strings(node, inputs, count)
  if ANY[node.op] then return false end
  local takes_strings = STRINGS[node.op] or MOVES[node.op]
  local strings = false
  for i = 1, count do
    if inputs[i] ~= nil and not ml.is_tensor(inputs[i]) then
      if not takes_strings or not Strings.is(inputs[i]) then
        fail("its input %d is %s, expected a tensor", i,
          Strings.is(inputs[i]) and "strings" or "a sequence or an optional value")
      end
      strings = true
    end
  end
  return strings
end

-- Strings from the places that an op gave, which may be in a sequence.
local function strings_at(all, value)
  if ml.is_tensor(value) then return all:at(value) end
  local out = {}
  for i, item in ipairs(value) do out[i] = strings_at(all, item) end
  return out
end

-- Runs an op that moves elements on the places of strings in one list of them all.
local function move_strings(node, inputs, count)
  local all, given = Strings.new({}, {}), {}
  for i = 1, count do
    given[i] = inputs[i]
    if Strings.is(inputs[i]) then
      given[i] = inputs[i]:places() + #all.list
      table.move(inputs[i].list, 1, inputs[i]:numel(), #all.list + 1, all.list)
    end
  end
  local results = table.pack(node.run(node, table.unpack(given, 1, count)))
  for i = 1, results.n do results[i] = strings_at(all, results[i]) end
  return results
end

-- --- nodes ------------------------------------------------------------------------------------

local function call_function(node, state, ...)
  local call, bindings = node.call, setmetatable({}, { __index = node.call.defaults })
  for name, value in pairs(node.attributes) do bindings[name] = value end
  for name in pairs(node.references or {}) do bindings[name] = node.attributes[name] end
  local env = { [BINDINGS] = bindings }
  for i, name in ipairs(call.inputs) do env[name] = (select(i, ...)) end
  run.nodes(call.nodes, env, state)
  local out = {}
  for i, name in ipairs(call.outputs) do out[i] = env[name] end
  return table.unpack(out, 1, #call.outputs)
end

local function run_node(node, env, state)
  local original = node
  if node.references then node = bound(node, env[BINDINGS]) end
  node.limit = state.limit
  local inputs, count = {}, #node.inputs
  for i, name in ipairs(node.inputs) do
    inputs[i] = name ~= "" and env[name] or nil
    if inputs[i] == nil and i <= node.least then fail("its input %d is missing", i) end
  end
  local results
  if node.call then
    results = table.pack(call_function(node, state, table.unpack(inputs, 1, count)))
  else
    if node.graphs or state.watched then node.env, node.state = env, state end
    if has_strings(node, inputs, count) and MOVES[node.op] then
      results = move_strings(node, inputs, count)
    else
      results = table.pack(node.run(node, table.unpack(inputs, 1, count)))
    end
    if SAME[node.op] then
      local name = noted_type(count, table.unpack(inputs, 1, count))
      if name then keep_type(node, results, name) end
    end
  end
  for i, name in ipairs(node.outputs) do
    if name ~= "" then
      if results[i] == nil then fail("output %d is not given here", i) end
      check_size(results[i], state.limit)
      env[name] = results[i]
      if state.watched then run.watch(name, env, state) end
    end
  end
  for _, name in ipairs(original.drop or {}) do env[name] = nil end
end

--- Makes a value differentiable that a Gradient asks for.
function run.watch(name, env, state)
  local value = state.watched[name] and env[name]
  if ml.is_tensor(value) and value:is_floating_point() and not value.requires_grad then
    env[name] = value:detach():requires_grad_(true)
  end
end

--- Runs nodes in their order; `state.running` is the one that runs.
---@param list table[]
---@param env table<string, any> values by name
---@param state table { limit, running, watched }
function run.nodes(list, env, state)
  local outer = state.running
  for _, node in ipairs(list) do
    state.running = node
    run_node(node, env, state)
  end
  state.running = outer
end

--- Puts a graph's initialisers among the values: parameters of the module, and strings.
function run.place_initializers(graph, env)
  for name, spot in pairs(graph.places) do
    local value = spot[1][spot[2]]
    if spot[3] then kept.note(value, spot[3]) end
    env[name] = value
  end
  for name, strings in pairs(graph.strings or {}) do env[name] = strings end
end

--- Runs a graph that stands in a node, from the node's reader; the values of its outputs.
---@param node table
---@param graph table
---@param ... any its inputs
---@return any[]
function run.graph(node, graph, ...)
  local env = setmetatable({}, { __index = node.env })
  run.place_initializers(graph, env)
  for i, input in ipairs(graph.inputs) do env[input.name] = (select(i, ...)) end
  run.nodes(graph.nodes, env, node.state)
  local out = {}
  for i, output in ipairs(graph.outputs) do
    out[i] = env[output.name]
    if out[i] == nil then fail("the output '%s' of its graph has no value", output.name) end
  end
  return out
end

return run
