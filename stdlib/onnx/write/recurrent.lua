-- stdlib/onnx/write/recurrent.lua: recurrent layers as ONNX nodes, a node for each layer. ONNX has
-- the gates in another order: of an LSTM input, output, forget, cell; of a GRU update, reset, new.

local fail = require("moonlet.options").fail

local write = {}

-- The order of the gates there, of those here.
local ORDER = { LSTM = { 1, 4, 2, 3 }, GRU = { 2, 1, 3 }, RNN = { 1 } }

local function reordered(g, value, order, dtype)
  local name = g:operand(value, dtype)
  if #order == 1 then return name end
  local parts = table.pack(g:node("Split", { name }, { axis = 0 }, #order))
  local out = {}
  for i, from in ipairs(order) do out[i] = parts[from] end
  return g:node("Concat", out, { axis = 0 })
end

-- One tensor for both directions, in a first dimension of its own.
local function of_directions(g, names)
  for i, name in ipairs(names) do names[i] = g:unsqueeze(name, { 0 }) end
  return #names == 1 and names[1] or g:node("Concat", names, { axis = 0 })
end

-- W, R and B of a layer.
local function weights(g, a, kind, layer, dtype)
  local order, directions = ORDER[kind], a.bidirectional and 2 or 1
  local per = a.has_biases and 4 or 2
  local w, r, b = {}, {}, {}
  for d = 1, directions do
    local at = ((layer - 1) * directions + d - 1) * per
    w[d] = reordered(g, a.params[at + 1], order, dtype)
    r[d] = reordered(g, a.params[at + 2], order, dtype)
    if a.has_biases then
      b[d] = g:node("Concat", { reordered(g, a.params[at + 3], order, dtype),
        reordered(g, a.params[at + 4], order, dtype) }, { axis = 0 })
    end
  end
  return of_directions(g, w), of_directions(g, r), a.has_biases and of_directions(g, b) or ""
end

-- The states of a layer, both directions, of those of all.
local function state_of(g, name, layer, directions, layers)
  if layers == 1 then return name end
  local from = (layer - 1) * directions
  return g:node("Slice", { name, g:constant({ from }, "int64"),
    g:constant({ from + directions }, "int64"), g:constant({ 0 }, "int64") })
end

-- (steps, directions, batch, hidden) with the directions side by side.
local function joined(g, y, directions)
  if directions == 1 then return g:squeeze(y, { 1 }) end
  local turned = g:transpose(y, { 0, 2, 1, 3 })
  return g:node("Reshape", { turned, g:constant({ 0, 0, -1 }, "int64") })
end

local function attributes_of(a, kind, activation, hidden)
  local directions = a.bidirectional and 2 or 1
  local out = { hidden_size = hidden, direction = directions == 2 and "bidirectional" or "forward" }
  if kind == "GRU" then out.linear_before_reset = 1 end
  if activation then
    out.activations = directions == 2 and { activation, activation } or { activation }
  end
  return out
end

local function recurrent(kind, activation)
  return function(g, a, call)
    if #a.x.shape ~= 3 then
      fail("onnx.export: %s without a batch has no translation to ONNX%s", call.name, call.place)
    elseif a.train and a.dropout > 0 then
      fail("onnx.export: %s with dropout draws random numbers, which a graph for inference "
        .. "cannot%s", call.name, call.place)
    end
    local dtype, directions = call.results[1].dtype, a.bidirectional and 2 or 1
    local states = kind == "LSTM" and a.hx or { a.hx }
    local hidden = g:int(states[1].shape[3], "hidden_size")
    local x = g:operand(a.x, dtype)
    if a.batch_first then x = g:transpose(x, { 1, 0, 2 }) end
    local last = { {}, {} }
    for layer = 1, a.num_layers do
      local w, r, b = weights(g, a, kind, layer, dtype)
      local inputs = { x, w, r, b, "" }
      for i, state in ipairs(states) do
        inputs[5 + i] = state_of(g, g:operand(state, dtype), layer, directions, a.num_layers)
      end
      local y, h, c = g:node(kind, inputs, attributes_of(a, kind, activation, hidden), 1 + #states)
      x, last[1][layer], last[2][layer] = joined(g, y, directions), h, c
    end
    if a.batch_first then x = g:transpose(x, { 1, 0, 2 }) end
    local out = {}
    for i = 1, #states do
      out[i] = #last[i] == 1 and last[i][1] or g:node("Concat", last[i], { axis = 0 })
    end
    return x, table.unpack(out)
  end
end

write.lstm, write.gru = recurrent "LSTM", recurrent "GRU"
write.rnn_tanh, write.rnn_relu = recurrent("RNN", "Tanh"), recurrent("RNN", "Relu")

for name in ("lstm gru rnn_tanh rnn_relu"):gmatch "%S+" do
  write[name .. "_packed"] = function(_, _, call)
    fail("onnx.export: %s of packed sequences has no translation to ONNX; give padded ones%s",
      call.name, call.place)
  end
end

-- --- one step ---------------------------------------------------------------------------------

function write.lstm_step(g, a, call)
  local dtype = call.results[1].dtype
  local i, f, n, o = g:node("Split", { g:operand(a.gates, dtype) }, { axis = -1 }, 4)
  local kept = g:node("Mul", { g:node("Sigmoid", { f }), g:operand(a.cell, dtype) })
  local new = g:node("Mul", { g:node("Sigmoid", { i }), g:node("Tanh", { n }) })
  local c = g:node("Add", { kept, new })
  return g:node("Mul", { g:node("Sigmoid", { o }), g:node("Tanh", { c }) }), c
end

function write.gru_step(g, a, call)
  local dtype = call.results[1].dtype
  local xr, xz, xn = g:node("Split", { g:operand(a.x_gates, dtype) }, { axis = -1 }, 3)
  local hr, hz, hn = g:node("Split", { g:operand(a.h_gates, dtype) }, { axis = -1 }, 3)
  local r = g:node("Sigmoid", { g:node("Add", { xr, hr }) })
  local z = g:node("Sigmoid", { g:node("Add", { xz, hz }) })
  local n = g:node("Tanh", { g:node("Add", { xn, g:node("Mul", { r, hn }) }) })
  local way = g:node("Sub", { g:operand(a.hidden, dtype), n })
  return g:node("Add", { n, g:node("Mul", { z, way }) })
end

return write
