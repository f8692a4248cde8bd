-- stdlib/onnx/read/control.lua: ONNX's branches and loops: graphs in nodes, which see the values
-- around them. They run on the tape, so gradients pass through what ran.

local common = require "moonlet.onnx.read.common"
local ml = require "moonlet"
local run = require "moonlet.onnx.run"
local values = require "moonlet.onnx.values"
local fail = common.fail

local read = {}

local function graph_of(n, name, outputs)
  local graph = n.attributes[name] or fail("it has no '%s'", name)
  if outputs and #graph.outputs ~= outputs then
    fail("its '%s' has %d outputs, expected %d", name, #graph.outputs, outputs)
  end
  return graph
end

-- One truth value.
local function is_true(condition, what)
  if not ml.is_tensor(condition) or condition:numel() ~= 1 then
    fail("%s must be one element", what)
  end
  return condition:ne(0):any():item()
end

-- A list of results that grows within the bound of the run.
local function add_result(n, list, value)
  if not ml.is_tensor(value) then fail "what a loop collects must be tensors" end
  list[#list + 1] = value
  common.check_room(n, #list, 1024)
end

-- The collected tensors in one, along `dim`; where there are none, by what the graph declares.
local function stacked(list, dim, declared)
  if #list > 0 then return ml.stack(list, dim) end
  local shape = { 0 }
  for _, size in ipairs(declared.dims or {}) do shape[#shape + 1] = size or 0 end
  return ml.empty(shape, { dtype = declared.dtype ~= "string" and declared.dtype or ml.float32 })
end

function read.If(n, condition)
  local name = is_true(condition, "the condition") and "then_branch" or "else_branch"
  graph_of(n, "then_branch", #n.outputs)
  graph_of(n, "else_branch", #n.outputs)
  return table.unpack(run.graph(n, n.attributes[name]), 1, #n.outputs)
end

-- --- loops ------------------------------------------------------------------------------------

function read.Loop(n, trips, condition, ...)
  local body, carried = graph_of(n, "body"), table.pack(...)
  local count = math.max(#n.inputs - 2, 0)
  if #body.inputs ~= count + 2 then
    fail("its 'body' has %d inputs, expected %d", #body.inputs, count + 2)
  elseif #body.outputs < count + 1 then
    fail("its 'body' has %d outputs, expected at least %d", #body.outputs, count + 1)
  end
  local most = trips and common.number(trips, "the number of trips") or math.huge
  local going = condition == nil or is_true(condition, "the condition")
  local collected, step = {}, 0
  for i = count + 2, #body.outputs do collected[i] = {} end
  while going and step < most do
    local results = run.graph(n, body, ml.tensor(step, { dtype = ml.int64 }), ml.tensor(true),
      table.unpack(carried, 1, count))
    going = is_true(results[1], "the condition of its 'body'")
    for i = 1, count do carried[i] = results[i + 1] end
    for i = count + 2, #body.outputs do add_result(n, collected[i], results[i]) end
    step = step + 1
  end
  for i = count + 2, #body.outputs do
    carried[i - 1] = stacked(collected[i], 1, body.outputs[i])
  end
  return table.unpack(carried, 1, #body.outputs - 1)
end

-- --- scans ------------------------------------------------------------------------------------

local function setting(n, name, i, default)
  local list = n.attributes[name]
  if not list then return default end
  return list[i] or fail("'%s' has %d numbers, expected more", name, #list)
end

-- Runs the body over the steps of the scanned inputs: the last states and the collected results.
local function scan(n, body, states, scanned, axes, backward, outputs)
  local length
  for i, x in ipairs(scanned) do
    local size = x.shape[axes[i]]
    if length and size ~= length then fail("its inputs have %d and %d steps", length, size) end
    length = size
  end
  local collected, kept = {}, #states
  for i = kept + 1, #body.outputs do collected[i - kept] = {} end
  for step = 1, length do
    local given = table.move(states, 1, kept, 1, {})
    for i, x in ipairs(scanned) do
      given[kept + i] = x:select(axes[i], backward[i] and length + 1 - step or step)
    end
    local results = run.graph(n, body, table.unpack(given, 1, kept + #scanned))
    states = table.move(results, 1, kept, 1, {})
    for i = kept + 1, #body.outputs do add_result(n, collected[i - kept], results[i]) end
  end
  for i, list in ipairs(collected) do
    local declared = body.outputs[kept + i]
    if outputs.backward[i] then
      local turned = {}
      for k = 1, #list do turned[k] = list[#list + 1 - k] end
      list = turned
    end
    local rank = list[1] and list[1].ndim + 1 or 1
    states[kept + i] = stacked(list, common.dim(outputs.axes[i], rank), declared)
  end
  return states
end

local function scan_parts(n, first, ...)
  local body, count = graph_of(n, "body", #n.outputs), n.attributes.num_scan_inputs
  local kept = #n.inputs - first + 1 - (count or 0)
  if not count or count < 1 or kept < 0 then
    fail("num_scan_inputs is %s for %d inputs", tostring(count), #n.inputs)
  elseif #body.inputs ~= kept + count then
    fail("its 'body' has %d inputs, expected %d", #body.inputs, kept + count)
  elseif #body.outputs < kept then
    fail("its 'body' has %d outputs, expected at least %d", #body.outputs, kept)
  end
  local states, scanned = {}, {}
  for i = 1, kept do states[i] = (select(i, ...)) end
  for i = 1, count do
    scanned[i] = (select(kept + i, ...)) or fail("its input %d is missing", first + kept + i - 1)
    if not ml.is_tensor(scanned[i]) then
      fail("its input %d is no tensor", first + kept + i - 1)
    end
  end
  return body, states, scanned
end

-- In opset 8 there are a batch in front, lengths, and only directions.
local function scan_batch(n, lengths, ...)
  local body, states, scanned = scan_parts(n, 2, ...)
  if lengths then fail "sequence lengths are not read" end
  for i, state in ipairs(states) do
    if not ml.is_tensor(state) then fail("its state %d is no tensor", i) end
  end
  local batch = (states[1] or scanned[1]).shape[1] or fail "its inputs have no batch"
  local axes, backward, parts = {}, {}, {}
  for i in ipairs(scanned) do
    axes[i], backward[i] = 1, setting(n, "directions", i, 0) == 1
  end
  local outputs = { axes = {}, backward = {} }
  for i = 1, #body.outputs - #states do outputs.axes[i] = 0 end
  for b = 1, batch do
    local mine, theirs = {}, {}
    for i, state in ipairs(states) do mine[i] = state:select(1, b) end
    for i, x in ipairs(scanned) do theirs[i] = x:select(1, b) end
    for i, value in ipairs(scan(n, body, mine, theirs, axes, backward, outputs)) do
      parts[i] = parts[i] or {}
      parts[i][b] = value
    end
  end
  for i, list in ipairs(parts) do parts[i] = ml.stack(list, 1) end
  return table.unpack(parts, 1, #n.outputs)
end

function read.Scan(n, ...)
  if n.version == 8 then return scan_batch(n, ...) end
  local body, states, scanned = scan_parts(n, 1, ...)
  local axes, backward = {}, {}
  for i, x in ipairs(scanned) do
    axes[i] = common.dim(setting(n, "scan_input_axes", i, 0), x.ndim)
    backward[i] = setting(n, "scan_input_directions", i, 0) == 1
  end
  local outputs = { axes = {}, backward = {} }
  for i = 1, #body.outputs - #states do
    outputs.axes[i] = setting(n, "scan_output_axes", i, 0)
    outputs.backward[i] = setting(n, "scan_output_directions", i, 0) == 1
  end
  return table.unpack(scan(n, body, states, scanned, axes, backward, outputs), 1, #n.outputs)
end

-- The body for each element; other sequences of the same length go along, other values stay.
function read.SequenceMap(n, sequence, ...)
  local body, others = graph_of(n, "body", #n.outputs), table.pack(...)
  if not values.is_sequence(sequence) then fail "its input 1 must be a sequence" end
  local out = {}
  for i = 1, #body.outputs do out[i] = {} end
  for k, item in ipairs(sequence) do
    local given = {}
    for i = 1, others.n do
      given[i] = others[i]
      if values.is_sequence(others[i]) then
        given[i] = others[i][k] or fail("its input %d has less elements than input 1", i + 1)
      end
    end
    for i, value in ipairs(run.graph(n, body, item, table.unpack(given, 1, others.n))) do
      out[i][k] = value
    end
  end
  return table.unpack(out, 1, #body.outputs)
end

return read
