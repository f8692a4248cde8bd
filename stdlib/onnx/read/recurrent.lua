-- stdlib/onnx/read/recurrent.lua: ONNX's LSTM, GRU and RNN, a layer each. Their gates stand in
-- another order there than here.

local common = require "moonlet.onnx.read.common"
local ml = require "moonlet"
local fail = common.fail

local read = {}

-- The order of the gates here, of those there.
local ORDER = { LSTM = { 1, 3, 4, 2 }, GRU = { 2, 1, 3 }, RNN = { 1 } }
local ACTIVATIONS = { LSTM = { "Sigmoid", "Tanh", "Tanh" }, GRU = { "Sigmoid", "Tanh" } }

local function reordered(t, order)
  if #order == 1 then return t end
  local parts, out = t:chunk(#order, 1), {}
  for i, from in ipairs(order) do out[i] = parts[from] end
  return ml.cat(out, 1)
end

local function directions_of(n)
  local direction = n.attributes.direction or "forward"
  if direction == "forward" then return 1, false end
  if direction == "reverse" then return 1, true end
  if direction == "bidirectional" then return 2, false end
  fail("the direction '%s'", direction)
end

-- "rnn_tanh" or "rnn_relu" of an RNN; other layers have one kind only.
local function op_of(n, kind, directions)
  local given = n.attributes.activations
  if kind == "RNN" then
    local first = given and given[1] or "Tanh"
    if directions == 2 and given and given[2] ~= first or first ~= "Tanh" and first ~= "Relu" then
      fail "activations other than Tanh and Relu are not read"
    end
    return ml["rnn_" .. first:lower()]
  end
  local known = ACTIVATIONS[kind]
  for i, name in ipairs(given or {}) do
    if name ~= known[(i - 1) % #known + 1] then fail("the activation %s is not read", name) end
  end
  return kind == "LSTM" and ml.lstm or ml.gru
end

local function check(n, kind, lengths, peepholes)
  if lengths then fail "sequence lengths are not read" end
  if peepholes then fail "peepholes are not read" end
  if n.attributes.clip then fail "clip is not read" end
  if (n.attributes.input_forget or 0) ~= 0 then fail "input_forget is not read" end
  if kind == "GRU" and n.attributes.linear_before_reset ~= 1 then
    fail "only linear_before_reset = 1 is read"
  end
end

-- For each direction the weights of the input and of the hidden state, and their biases.
local function parameters_of(kind, w, r, b, directions)
  local out, order = {}, ORDER[kind]
  if w.ndim ~= 3 or r.ndim ~= 3 or w.shape[1] ~= directions or r.shape[1] ~= directions then
    fail("weights of the shapes %s and %s", tostring(w.shape), tostring(r.shape))
  end
  for d = 1, directions do
    out[#out + 1] = reordered(w[d], order)
    out[#out + 1] = reordered(r[d], order)
    if b then
      local both = b[d]:chunk(2, 1)
      out[#out + 1] = reordered(both[1], order)
      out[#out + 1] = reordered(both[2], order)
    end
  end
  return out
end

-- (steps, batch, directions * hidden) as (steps, directions, batch, hidden).
local function spread(y, directions)
  return y:reshape(y.shape[1], y.shape[2], directions, -1):transpose(2, 3)
end

local function swap(t) return t and t:transpose(1, 2) end

local function recurrent(kind)
  return function(n, x, w, r, b, lengths, h, c, peepholes)
    check(n, kind, lengths, peepholes)
    local directions, reverse = directions_of(n)
    local batch_first = n.attributes.layout == 1
    if x.ndim ~= 3 then fail("an input of %d dimensions", x.ndim) end
    if batch_first then x, h, c = swap(x), swap(h), swap(c) end
    if reverse then x = x:flip { dims = { 1 } } end
    local hidden = r.shape[3]
    local zeros = ml.zeros(directions, x.shape[2], hidden, { dtype = x.dtype, device = x.device })
    h, c = h or zeros, c or zeros
    local parameters = parameters_of(kind, w, r, b, directions)
    local state = kind == "LSTM" and { h, c } or h
    local y, last_h, last_c = op_of(n, kind, directions)(x, state, parameters, b ~= nil, 1, 0.0,
      false, directions == 2, false)
    if reverse then y = y:flip { dims = { 1 } } end
    y = spread(y, directions)
    if batch_first then
      return y:permute(3, 1, 2, 4), swap(last_h), swap(last_c)
    end
    return y, last_h, last_c
  end
end

read.LSTM, read.GRU, read.RNN = recurrent "LSTM", recurrent "GRU", recurrent "RNN"

return read
