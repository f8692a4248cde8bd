-- stdlib/onnx/positions.lua: which inputs and outputs of an ONNX graph are positions, which count
-- from 0 in the file and from 1 in scripts.

local positions = {}

-- Which inputs of a node are positions, and which outputs; and the nodes whose output is what their
-- input is. Ops of other domains have theirs before a colon.
local USES = { Gather = { 2 }, GatherElements = { 2 }, GatherND = { 2 }, ScatterElements = { 2 },
  ScatterND = { 2 }, OneHot = { 1 }, NegativeLogLikelihoodLoss = { 2 },
  SoftmaxCrossEntropyLoss = { 2 }, RoiAlign = { 3 }, MaxUnpool = { 2 }, TensorScatter = { 3 },
  RotaryEmbedding = { 4 }, ["com.microsoft:EmbedLayerNormalization"] = { 1, 2 },
  ["com.microsoft:QEmbedLayerNormalization"] = { 1, 2 }, ["com.microsoft:GatherND"] = { 2 },
  ["com.microsoft:GatherBlockQuantized"] = { 2 }, ["com.microsoft:RotaryEmbedding"] = { 2 },
  ["com.microsoft:CropAndResize"] = { 3 } }
local MAKES = { ArgMax = { 1 }, ArgMin = { 1 }, TopK = { 2 }, MaxPool = { 2 }, NonZero = { 1 },
  NonMaxSuppression = { 1 }, Unique = { 2, 3 }, ["com.microsoft:Unique"] = { 2 } }

local function key_of(node)
  return node.domain == "" and node.op or node.domain .. ":" .. node.op
end

local KEEP = {}
for op in ("Reshape Transpose Squeeze Unsqueeze Slice Concat Identity Cast Expand Split Flatten "
  .. "Gather GatherElements"):gmatch "%S+" do KEEP[op] = true end

-- The nodes that compute by an op of ONNX, those of graphs in nodes before the node.
local function flatten(nodes, out)
  for _, node in ipairs(nodes) do
    for _, graph in ipairs(node.graphs or {}) do flatten(graph.nodes, out) end
    out[#out + 1] = node
  end
  return out
end

local find

-- What a node's inputs are by what its outputs are.
local function mark_inputs(node, used, calls)
  if node.call then
    local inner = find(node.call.nodes, calls)
    for i, name in ipairs(node.call.inputs) do
      if inner.used[name] and node.inputs[i] then used[node.inputs[i]] = true end
    end
    return
  end
  for _, at in ipairs(USES[key_of(node)] or {}) do
    if node.inputs[at] then used[node.inputs[at]] = true end
  end
  for i, name in ipairs(node.outputs) do
    if used[name] and KEEP[node.op] then
      for k, input in ipairs(node.inputs) do
        if k == 1 or node.op == "Concat" then used[input] = true end
      end
    elseif used[name] and node.op == "If" then
      for _, graph in ipairs(node.graphs or {}) do
        if graph.outputs[i] then used[graph.outputs[i].name] = true end
      end
    end
  end
end

local function mark_outputs(node, made, calls)
  if node.call then
    local inner = find(node.call.nodes, calls)
    for i, name in ipairs(node.call.outputs) do
      if inner.made[name] and node.outputs[i] then made[node.outputs[i]] = true end
    end
    return
  end
  for _, at in ipairs(MAKES[key_of(node)] or {}) do
    if node.outputs[at] then made[node.outputs[at]] = true end
  end
  if KEEP[node.op] and node.inputs[1] and made[node.inputs[1]] then
    for _, name in ipairs(node.outputs) do made[name] = true end
  elseif node.op == "If" then
    for _, graph in ipairs(node.graphs or {}) do
      for i, output in ipairs(graph.outputs) do
        if made[output.name] and node.outputs[i] then made[node.outputs[i]] = true end
      end
    end
  end
end

-- By going back from where positions are used, and on from where they are made.
function find(nodes, calls)
  if calls[nodes] then return calls[nodes] end
  local out, list = { used = {}, made = {} }, flatten(nodes, {})
  calls[nodes] = out
  -- Twice: the graph of a node stands before it.
  for _ = 1, 2 do
    for i = #list, 1, -1 do mark_inputs(list[i], out.used, calls) end
  end
  for _, node in ipairs(list) do mark_outputs(node, out.made, calls) end
  return out
end

-- { name = true } of a list with commas, of what is among `values`.
local function listed(text, values)
  local out, known = {}, {}
  for _, value in ipairs(values) do known[value.name] = true end
  for name in (text or ""):gmatch "[^,]+" do out[name] = known[name] end
  return out
end

local INTEGERS = { int64 = true, int32 = true }

--- Sets `index_inputs` and `index_outputs`, names, of a model.
---@param model table
---@param metadata table<string, string> of the file; one from here says it itself
function positions.find(model, metadata)
  if metadata["moonlet.index_inputs"] then
    model.index_inputs = listed(metadata["moonlet.index_inputs"], model.inputs)
    model.index_outputs = listed(metadata["moonlet.index_outputs"], model.outputs)
    return
  end
  local found = find(model.nodes, {})
  model.index_inputs, model.index_outputs = {}, {}
  for _, value in ipairs(model.inputs) do
    if found.used[value.name] and INTEGERS[value.dtype] and value.kind == "tensor" then
      model.index_inputs[value.name] = true
    end
  end
  for _, value in ipairs(model.outputs) do
    if found.made[value.name] then model.index_outputs[value.name] = true end
  end
end

return positions
