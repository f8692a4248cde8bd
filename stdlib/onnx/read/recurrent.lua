-- stdlib/onnx/read/recurrent.lua: ONNX's LSTM, GRU and RNN, a layer each: by the ops here, whose
-- gates stand in another order, and step by step where a node wants what they do not do.

local F = require "moonlet.nn.functional"
local common = require "moonlet.onnx.read.common"
local ml = require "moonlet"
local fail = common.fail

local read = {}

-- The order of the gates here, of those there.
local ORDER = { LSTM = { 1, 3, 4, 2 }, GRU = { 2, 1, 3 }, RNN = { 1 } }

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

-- --- activations ------------------------------------------------------------------------------

-- { function of x, alpha and beta, alpha, beta }: a number is what stands for one that is left out,
-- of which the node's lists have those of the functions that take one.
local CALLS = {
  relu = { function(x) return x:relu() end },
  tanh = { function(x) return x:tanh() end },
  sigmoid = { function(x) return x:sigmoid() end },
  softsign = { function(x) return F.softsign(x) end },
  softplus = { function(x) return F.softplus(x) end },
  affine = { function(x, alpha, beta) return alpha * x + beta end, 1.0, 0.0 },
  leakyrelu = { function(x, alpha) return F.leaky_relu(x, alpha) end, 0.01 },
  thresholdedrelu = { function(x, alpha) return F.threshold(x, alpha, 0) end, 1.0 },
  scaledtanh = { function(x, alpha, beta) return alpha * (beta * x):tanh() end, 1.0, 1.0 },
  hardsigmoid = { function(x, alpha, beta) return (alpha * x + beta):clamp(0, 1) end, 0.2, 0.5 },
  elu = { function(x, alpha) return F.elu(x, alpha) end, 1.0 },
}
local DEFAULTS = { LSTM = { "Sigmoid", "Tanh", "Tanh" }, GRU = { "Sigmoid", "Tanh" },
  RNN = { "Tanh" } }

-- The names of all directions' activations, in small letters.
local function names_of(n, kind, directions)
  local known, given, out = DEFAULTS[kind], n.attributes.activations, {}
  if given and #given > 0 and #given ~= #known * directions then
    fail("%d activations, expected %d for each of %d directions", #given, #known, directions)
  end
  for i = 1, #known * directions do
    out[i] = (given and given[i] or known[(i - 1) % #known + 1]):lower()
    if not CALLS[out[i]] then fail("there is no activation '%s'", given[i]) end
  end
  return out
end

-- Functions of one tensor of each direction. What the gates sum is clipped before, but not the cell
-- of an LSTM before its last one, as onnxruntime has it.
local function activations_of(n, kind, directions)
  local alphas, betas = n.attributes.activation_alpha or {}, n.attributes.activation_beta or {}
  local clip, at_alpha, at_beta, out = n.attributes.clip, 0, 0, {}
  for i, name in ipairs(names_of(n, kind, directions)) do
    local call, alpha, beta = table.unpack(CALLS[name])
    if alpha then
      at_alpha = at_alpha + 1
      alpha = alphas[at_alpha] or alpha
    end
    if beta then
      at_beta = at_beta + 1
      beta = betas[at_beta] or beta
    end
    local clipped = clip and not (kind == "LSTM" and i % 3 == 0)
    out[i] = function(x) return call(clipped and x:clamp(-clip, clip) or x, alpha, beta) end
  end
  return out
end

-- The op of a whole layer where nothing is asked for that it does not do.
local function op_of(n, kind, directions, lengths, peepholes)
  local a = n.attributes
  local special = lengths or peepholes or a.clip or (a.input_forget or 0) ~= 0
    or kind == "GRU" and a.linear_before_reset ~= 1
  if special then return nil end
  local names, known = names_of(n, kind, directions), DEFAULTS[kind]
  if kind == "RNN" then
    local first = names[1]
    if names[2] and names[2] ~= first or first ~= "tanh" and first ~= "relu" then return nil end
    return ml["rnn_" .. first]
  end
  for i, name in ipairs(names) do
    if name ~= known[(i - 1) % #known + 1]:lower() then return nil end
  end
  return kind == "LSTM" and ml.lstm or ml.gru
end

-- --- step by step -----------------------------------------------------------------------------

-- Each cell is made of one direction's { times_r, rb, hidden, activations, ... } and is a function
-- of the input's part (with its bias), h and c, which gives the next h and c.
local CELLS = {}

function CELLS.RNN(p)
  local f = p.activations[1]
  return function(x, h)
    local all = x + p.times_r(h)
    return f(p.rb and all + p.rb or all)
  end
end

function CELLS.GRU(p)
  local f, g = p.activations[1], p.activations[2]
  local h2 = 2 * p.hidden
  local r_gates, r_new = p.r:narrow(1, 1, h2):t(), p.r:narrow(1, h2 + 1, p.hidden):t()
  local b_gates, b_new = p.rb and p.rb:narrow(1, 1, h2), p.rb and p.rb:narrow(1, h2 + 1, p.hidden)
  local function with(t, bias) return bias and t + bias or t end
  return function(x, h)
    local gates = f(with(x:narrow(2, 1, h2) + h:matmul(r_gates), b_gates))
    local update, reset = gates:narrow(2, 1, p.hidden), gates:narrow(2, p.hidden + 1, p.hidden)
    local own
    if p.before_reset then
      own = reset * with(h:matmul(r_new), b_new)
    else
      own = with((reset * h):matmul(r_new), b_new)
    end
    local new = g(x:narrow(2, h2 + 1, p.hidden) + own)
    return (1 - update) * new + update * h
  end
end

function CELLS.LSTM(p)
  local f, g, last = p.activations[1], p.activations[2], p.activations[3]
  local peep_in, peep_out, peep_forget
  if p.peepholes then
    peep_in, peep_out, peep_forget = table.unpack(p.peepholes:chunk(3, 1))
  end
  local function looked(gate, c, peep) return peep and gate + peep * c or gate end
  return function(x, h, c)
    local all = x + p.times_r(h)
    if p.rb then all = all + p.rb end
    local gates = all:chunk(4, 2)
    local enter = f(looked(gates[1], c, peep_in))
    local keep = p.coupled and 1 - enter or f(looked(gates[3], c, peep_forget))
    local new_c = keep * c + enter * g(gates[4])
    local leave = f(looked(gates[2], new_c, peep_out))
    return leave * last(new_c), new_c
  end
end

-- One direction: all outputs (steps, batch, hidden), the last h and c. `there` says for each step
-- and sequence whether the sequence is that long.
local function unrolled(p, x, h, c, backward, there)
  local cell, steps, out = CELLS[p.kind](p), x.shape[1], {}
  local inputs = p.times_w(x)
  if p.wb then inputs = inputs + p.wb end
  for step = 1, steps do
    local at = backward and steps - step + 1 or step
    local new_h, new_c = cell(inputs[at], h, c)
    if there then
      local mask = there[at]
      out[at] = new_h:masked_fill(mask:logical_not(), 0)
      h, c = ml.where(mask, new_h, h), new_c and ml.where(mask, new_c, c)
    else
      out[at], h, c = new_h, new_h, new_c
    end
  end
  if steps > 0 then return ml.stack(out, 1), h, c end
  return ml.zeros(0, x.shape[2], p.hidden, { dtype = x.dtype, device = x.device }), h, c
end

local function mask_of(lengths, x)
  if lengths:numel() ~= x.shape[2] then
    fail("sequence_lens has %d elements for %d sequences", lengths:numel(), x.shape[2])
  end
  local steps = ml.arange(1, x.shape[1]):to("int64"):unsqueeze(2)
  return steps:le(lengths:to("int64"):cpu():flatten():unsqueeze(1)):unsqueeze(3):to(x.device)
end

-- A product with a weight (out, in).
local function through(weight)
  return function(d)
    local turned = weight[d]:t()
    return function(x) return x:matmul(turned) end
  end
end

local function layer(n, kind, x, w, r, b, lengths, h, c, peepholes, through_w, through_r)
  local directions, reverse = directions_of(n)
  through_w, through_r = through_w or through(w), through_r or through(r)
  local calls, count = activations_of(n, kind, directions), #DEFAULTS[kind]
  local there = lengths and mask_of(lengths, x)
  local outs, hs, cs = {}, {}, {}
  for d = 1, directions do
    local both = b and b[d]:chunk(2, 1) or {}
    local p = { kind = kind, times_w = through_w(d), times_r = through_r(d), r = r[d],
      wb = both[1], rb = both[2], hidden = h.shape[3],
      activations = table.move(calls, (d - 1) * count + 1, d * count, 1, {}),
      before_reset = n.attributes.linear_before_reset == 1,
      coupled = n.attributes.input_forget == 1, peepholes = peepholes and peepholes[d] }
    outs[d], hs[d], cs[d] = unrolled(p, x, h[d], c[d], reverse or d == 2, there)
  end
  return ml.stack(outs, 2), ml.stack(hs, 1), kind == "LSTM" and ml.stack(cs, 1) or nil
end

-- --- the ops ----------------------------------------------------------------------------------

-- For each direction the weights of the input and of the hidden state, and their biases.
local function parameters_of(kind, w, r, b, directions)
  local out, order = {}, ORDER[kind]
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

local GATES = { LSTM = 4, GRU = 3, RNN = 1 }

local function check_shapes(kind, directions, x, w, r, b, h, c, peepholes)
  if x.ndim ~= 3 then fail("an input of %d dimensions, expected 3", x.ndim) end
  local hidden = r.ndim == 3 and r.shape[3] or 0
  local rows = GATES[kind] * hidden
  local function check(what, t, ...)
    local wanted, fits = { ... }, t.ndim == select("#", ...)
    for d, size in ipairs(wanted) do fits = fits and t.shape[d] == size end
    if not fits then
      fail("%s has the shape %s, expected (%s)", what, tostring(t.shape),
        table.concat(wanted, ", "))
    end
  end
  check("R", r, directions, rows, hidden)
  check("W", w, directions, rows, x.shape[3])
  if b then check("B", b, directions, 2 * rows) end
  if h then check("initial_h", h, directions, x.shape[2], hidden) end
  if c then check("initial_c", c, directions, x.shape[2], hidden) end
  if peepholes then check("P", peepholes, directions, 3 * hidden) end
end

local function recurrent(kind)
  return function(n, x, w, r, b, lengths, h, c, peepholes)
    local directions, reverse = directions_of(n)
    local batch_first = n.attributes.layout == 1
    for _, t in ipairs { h or x, c or x } do
      if t.ndim ~= 3 or x.ndim ~= 3 then
        fail("a state or input of %d dimensions, expected 3", t.ndim == 3 and x.ndim or t.ndim)
      end
    end
    if batch_first then x, h, c = swap(x), swap(h), swap(c) end
    check_shapes(kind, directions, x, w, r, b, h, c, peepholes)
    local hidden = r.shape[3]
    local zeros = ml.zeros(directions, x.shape[2], hidden, { dtype = x.dtype, device = x.device })
    h, c = h or zeros, c or zeros
    local y, last_h, last_c
    local op = op_of(n, kind, directions, lengths, peepholes)
    if op then
      if reverse then x = x:flip { dims = { 1 } } end
      local parameters = parameters_of(kind, w, r, b, directions)
      y, last_h, last_c = op(x, kind == "LSTM" and { h, c } or h, parameters, b ~= nil, 1, 0.0,
        false, directions == 2, false)
      if reverse then y = y:flip { dims = { 1 } } end
      y = spread(y, directions)
    else
      y, last_h, last_c = layer(n, kind, x, w, r, b, lengths, h, c, peepholes)
    end
    if batch_first then
      return y:permute(3, 1, 2, 4), swap(last_h), swap(last_c)
    end
    return y, last_h, last_c
  end
end

--- An LSTM whose weights (directions, in, gates) are multiplied by what `through_w(d)` and
--- `through_r(d)` give for each direction.
function read._quantized_lstm(n, x, w, r, b, lengths, h, c, peepholes, through_w, through_r)
  local directions = directions_of(n)
  check_shapes("LSTM", directions, x, w:transpose(2, 3), r:transpose(2, 3), b, h, c, peepholes)
  local zeros = ml.zeros(directions, x.shape[2], r.shape[2], { dtype = x.dtype, device = x.device })
  return layer(n, "LSTM", x, w, r, b, lengths, h or zeros, c or zeros, peepholes, through_w,
    through_r)
end

read.LSTM, read.GRU, read.RNN = recurrent "LSTM", recurrent "GRU", recurrent "RNN"

return read
