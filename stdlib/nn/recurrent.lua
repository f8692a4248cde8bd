-- stdlib/nn/recurrent.lua: recurrent networks, RNN, LSTM and GRU, of sequences with or without a
-- batch, and of packed ones.

local init = require "moonlet.nn.init"
local layer = require "moonlet.nn.layer"
local ml = require "moonlet"
local options = require "moonlet.options"
local projected = require "moonlet.nn.projected_lstm"
local rnn = require "moonlet.nn.utils.rnn"
local signature = require "moonlet.signature"
local is_packed = rnn._is_packed

local layers = {}

local GATES = { LSTM = 4, GRU = 3, RNN_TANH = 1, RNN_RELU = 1 }
signature.add_choice("RecurrentMode", { "LSTM", "GRU", "RNN_TANH", "RNN_RELU" })
signature.add_choice("RecurrentFunction", { "tanh", "relu" })

local function fail(self, format, ...) options.fail("%s: " .. format, self:describe(), ...) end

-- The parameters of one layer and direction: { name, size }.
local function parameters_of(self, number, reverse)
  local gates, hidden = GATES[self.mode] * self.hidden_size, self.hidden_size
  local out_size = self.proj_size > 0 and self.proj_size or hidden
  local features = number == 0 and self.input_size
    or out_size * (self.bidirectional and 2 or 1)
  local suffix = "_l" .. number .. (reverse and "_reverse" or "")
  local out = { { "weight_ih" .. suffix, { gates, features } },
    { "weight_hh" .. suffix, { gates, out_size } } }
  if self.bias then
    out[3], out[4] = { "bias_ih" .. suffix, { gates } }, { "bias_hh" .. suffix, { gates } }
  end
  if self.proj_size > 0 then
    out[#out + 1] = { "weight_hr" .. suffix, { out_size, hidden } }
  end
  return out
end

local FIELDS = { "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout",
  "bidirectional", "proj_size" }

local function set_up(self, mode, o)
  self.mode = mode
  for _, field in ipairs(FIELDS) do self[field] = o[field] end
  self.proj_size = self.proj_size or 0
  if self.proj_size >= self.hidden_size then
    options.fail("nn.%s: 'proj_size' %d must be less than 'hidden_size' %d", mode, self.proj_size,
      self.hidden_size)
  elseif self.proj_size > 0 and mode ~= "LSTM" then
    options.fail("nn.%s: 'proj_size' is for LSTM", mode)
  end
  rawset(self, "_names", {})
  for number = 0, self.num_layers - 1 do
    for direction = 0, self.bidirectional and 1 or 0 do
      for _, entry in ipairs(parameters_of(self, number, direction == 1)) do
        self[entry[1]] = layer.parameter(entry[2], o)
        table.insert(self._names, entry[1])
      end
    end
  end
  self:reset_parameters()
end

local SIZES = "int>=1 input_size, int>=1 hidden_size, int>=1 num_layers=1, "
local WAYS = "bool bias=true, bool batch_first=false, number>=0<=1 dropout=0.0, "
  .. "bool bidirectional=false"

--- Base of the recurrent networks `RNN`, `LSTM` and `GRU`: the network of a given mode.
--- > ml.nn.RNNBase("GRU", 3, 4)
---   RNNBase(3 -> 4)       108
---   108 parameters
---@param mode "RNN_TANH", "RNN_RELU", "LSTM" "RNN_TANH", "RNN_RELU", "LSTM" or "GRU"
---@param input_size the size of each step of the input
---@param hidden_size the size of the hidden state
---@param num_layers how many layers are stacked: each takes the hidden states of the one below as
---   its input
---@param bias whether the gates have biases
---@param batch_first whether the batch is the first dimension of input and output; not of the
---   states
---@param dropout the probability of dropout between layers in training mode, from 0 to 1
---@param bidirectional whether a second network reads the sequence backwards; outputs are joined
---@param proj_size of LSTM: the size to which the hidden state is projected after each step; 0 for
---   none
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape input (steps, n, input_size) -> output (steps, n, D hidden_size), the last states
local RNNBase = layer.define("RNNBase", "RecurrentMode mode, " .. SIZES .. WAYS
  .. ", int>=0 proj_size=0" .. layer.factory, function(self, o) set_up(self, o.mode, o) end)
layers.RNNBase = RNNBase

--- Draws all weights and biases anew, as the constructor does.
function RNNBase:reset_parameters()
  local bound = 1 / math.sqrt(self.hidden_size)
  for _, name in ipairs(self._names) do init.uniform_(self[name], -bound, bound) end
end

--- Does nothing: it is there for scripts that call it. Weights need not lie side by side in memory
--- here.
--- > ml.nn.LSTM(2, 3).flatten_parameters() == nil
---   true
function RNNBase.flatten_parameters() end

function RNNBase:extra_repr()
  local parts = { ("%d -> %d"):format(self.input_size, self.hidden_size) }
  if self.num_layers > 1 then parts[#parts + 1] = self.num_layers .. " layers" end
  if self.mode == "RNN_RELU" then parts[#parts + 1] = "relu" end
  if self.proj_size > 0 then parts[#parts + 1] = "proj_size " .. self.proj_size end
  if not self.bias then parts[#parts + 1] = "no bias" end
  if self.dropout > 0 then parts[#parts + 1] = ("dropout %g"):format(self.dropout) end
  for _, name in ipairs { "batch_first", "bidirectional" } do
    if self[name] then parts[#parts + 1] = name end
  end
  return table.concat(parts, ", ")
end

local function check_input(self, x, packed)
  if not ml.is_tensor(x) then
    fail(self, "'input' must be a tensor or a PackedSequence, got %s", signature.describe(x))
  elseif packed and x.ndim ~= 2 or not packed and x.ndim ~= 2 and x.ndim ~= 3 then
    fail(self, "'input' has shape %s, %s is expected", tostring(x.shape),
      packed and "(rows, features)" or "(steps, n, features) or (steps, features)")
  elseif x.shape[x.ndim] ~= self.input_size then
    fail(self, "'input' has %d features, %d are expected", x.shape[x.ndim], self.input_size)
  end
end

-- The states that hx holds: one, or of an LSTM two in an array. Of no hx they are zeros.
local function states_of(self, hx, x, batch)
  local lstm = self.mode == "LSTM"
  local count = self.num_layers * (self.bidirectional and 2 or 1)
  local sizes = { self.proj_size > 0 and self.proj_size or self.hidden_size, self.hidden_size }
  if hx == nil then
    local like, out = { dtype = x.dtype, device = x.device }, {}
    for i = 1, lstm and 2 or 1 do out[i] = ml.zeros({ count, batch, sizes[i] }, like) end
    return out
  end
  local list = hx
  if lstm and (type(hx) ~= "table" or #hx ~= 2) then
    fail(self, "'hx' must be an array of the hidden state and the cell, got %s",
      signature.describe(hx))
  elseif not lstm then
    list = { hx }
  end
  local out = {}
  for i, state in ipairs(list) do
    if not ml.is_tensor(state) then
      fail(self, "'hx' must be a tensor, got %s", signature.describe(state))
    end
    out[i] = state
  end
  return out, count, sizes
end

local function check_states(self, states, count, batch, sizes)
  for i, state in ipairs(states) do
    local s = state.shape
    if #s ~= 3 or s[1] ~= count or s[2] ~= batch or s[3] ~= sizes[i] then
      fail(self, "the %s has shape %s, (%d, %d, %d) is expected",
        i == 1 and "hidden state" or "cell", tostring(s), count, batch, sizes[i])
    end
  end
end

local function each(list, f)
  local out = {}
  for i, value in ipairs(list) do out[i] = f(value) end
  return out
end

-- The network over `x`, or over packed rows with `batch_sizes`: the hidden states and those left.
local function run_plain(self, x, batch_sizes, states, weights)
  local lstm = self.mode == "LSTM"
  if self.proj_size > 0 then return projected.run(self, x, batch_sizes, states, weights) end
  local op, hx = ml[self.mode:lower()], lstm and states or states[1]
  local y, h, c
  if batch_sizes then
    y, h, c = op(x, batch_sizes, hx, weights, self.bias, self.num_layers, self.dropout,
      self.training, self.bidirectional)
  else
    y, h, c = op(x, hx, weights, self.bias, self.num_layers, self.dropout, self.training,
      self.bidirectional, self.batch_first)
  end
  return y, lstm and { h, c } or { h }
end

-- The same with the module's weights. Under autocast everything goes in its dtype, as products do;
-- float64 stays.
local function run(self, x, batch_sizes, states)
  local weights, kind = {}, x.device:match "^%a+"
  for i, name in ipairs(self._names) do weights[i] = self[name] end
  if x.dtype == "float64" or not ml.is_autocast_enabled(kind) then
    return run_plain(self, x, batch_sizes, states, weights)
  end
  local target = { dtype = ml._autocast_dtype(kind) }
  local function cast(value) return value:to(target) end
  local _ <close> = ml.autocast { device = kind, enabled = false }
  return run_plain(self, cast(x), batch_sizes, each(states, cast), each(weights, cast))
end

local function forward_packed(self, packed, hx)
  local x, sizes = packed.data, packed.batch_sizes
  check_input(self, x, true)
  local batch = sizes[1]:item()
  local states, count, wanted = states_of(self, hx, x, batch)
  if count then check_states(self, states, count, batch, wanted) end
  local order, back = packed.sorted_indices, packed.unsorted_indices
  if order and hx ~= nil then
    states = each(states, function(s) return s:index_select(2, order) end)
  end
  local y, left = layer.run(self, run, self, x, sizes, states)
  if back then left = each(left, function(s) return s:index_select(2, back) end) end
  return rnn.PackedSequence(y, sizes, order, back), left
end

local function forward_plain(self, x, hx)
  check_input(self, x)
  local single = x.ndim == 2
  local batch_dim = self.batch_first and 1 or 2
  if single then x = x:unsqueeze(batch_dim) end
  local batch = x.shape[batch_dim]
  local states, count, sizes = states_of(self, hx, x, batch)
  if count then
    if single then
      states = each(states, function(s)
        if s.ndim ~= 2 then
          fail(self, "the state of a single sequence has shape %s, (layers, size) is expected",
            tostring(s.shape))
        end
        return s:unsqueeze(2)
      end)
    end
    check_states(self, states, count, batch, sizes)
  end
  local y, left = layer.run(self, run, self, x, nil, states)
  if not single then return y, left end
  return y:squeeze(batch_dim), each(left, function(s) return s:squeeze(2) end)
end

RNNBase._inputs = { "input", "hx" }

function RNNBase:forward(input, hx)
  local y, left = (is_packed(input) and forward_packed or forward_plain)(self, input, hx)
  return y, self.mode == "LSTM" and left or left[1]
end

--- Elman recurrent network with a tanh or ReLU nonlinearity. It is called as `local output, h_n =
--- rnn(input, h_0)`; h_0 is zeros unless given. `output` has the hidden states of the last layer at
--- all steps, `h_n` the last hidden states of all layers. The input may also be a `PackedSequence`
--- of sequences of several lengths; then so is the output. The parameters of layer l, counted from
--- 0, are `weight_ih_l`, `weight_hh_l`, `bias_ih_l` and `bias_hh_l` with l at the end, and
--- `_reverse` behind it for the second direction. Weights and biases start from the uniform
--- distribution between -k and k with k = 1 / sqrt(hidden_size).
--- > ml.nn.RNN(3, 4)(ml.ones(5, 2, 3)).shape
---   (5, 2, 4)
---@param input_size the size of each step of the input
---@param hidden_size the size of the hidden state
---@param num_layers how many layers are stacked: each takes the hidden states of the one below as
---   its input
---@param nonlinearity "tanh" "tanh" or "relu"
---@param bias whether the gates have biases
---@param batch_first whether the batch is the first dimension of input and output; not of the
---   states
---@param dropout the probability of dropout between layers in training mode, from 0 to 1
---@param bidirectional whether a second network reads the sequence backwards; outputs are joined
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape input (steps, n, input_size), or (n, steps, input_size) with batch_first, or (steps,
---   input_size)
---@shape h_0, h_n (num_layers D, n, hidden_size), or without n; D = 2 with bidirectional, else 1
---@shape output (steps, n, D hidden_size), or (n, steps, D hidden_size) with batch_first, or
---   (steps, D hidden_size)
---@formula h_t = tanh(W_ih x_t + b_ih + W_hh h_(t-1) + b_hh)
---@source Elman, 1990: Finding structure in time
layers.RNN = layer.define("RNN", SIZES .. 'RecurrentFunction nonlinearity="tanh", ' .. WAYS
  .. layer.factory, function(self, o)
    self.nonlinearity = o.nonlinearity
    set_up(self, "RNN_" .. o.nonlinearity:upper(), o)
  end, RNNBase)

--- Long short-term memory (LSTM) recurrent network. It is called as `local output, state =
--- lstm(input, state)`, where a state is the array of hidden states and cells, { h, c }, zeros
--- unless given. `output` has the hidden states of the last layer at all steps, `state` the last
--- ones of all layers. The gates i, f, g and o (input, forget, cell, output) stand in the weights
--- in this order. The input may also be a `PackedSequence` of sequences of several lengths; then so
--- is the output. The parameters of layer l, counted from 0, are `weight_ih_l`, `weight_hh_l`,
--- `bias_ih_l` and `bias_hh_l` with l at the end, and `_reverse` behind it for the second
--- direction. With `proj_size` there is `weight_hr_l` too, and hidden states are W_hr h of that
--- size. Weights and biases start from the uniform distribution between -k and k with k = 1 /
--- sqrt(hidden_size).
--- > ml.nn.LSTM(3, 4)(ml.ones(5, 2, 3)).shape
---   (5, 2, 4)
---@param input_size the size of each step of the input
---@param hidden_size the size of the hidden state
---@param num_layers how many layers are stacked: each takes the hidden states of the one below as
---   its input
---@param bias whether the gates have biases
---@param batch_first whether the batch is the first dimension of input and output; not of the
---   states
---@param dropout the probability of dropout between layers in training mode, from 0 to 1
---@param bidirectional whether a second network reads the sequence backwards; outputs are joined
---@param proj_size the size to which the hidden state is projected after each step; 0 for none
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape input (steps, n, input_size), or (n, steps, input_size) with batch_first, or (steps,
---   input_size)
---@shape h_0, h_n (num_layers D, n, H), or without n; D = 2 with bidirectional, else 1
---@shape output (steps, n, D H), or (n, steps, D H) with batch_first, or (steps, D H)
---@shape c_0, c_n (num_layers D, n, hidden_size), or without n; H = proj_size if above 0, else
---   hidden_size
---@formula i_t = sigmoid(W_ii x_t + b_ii + W_hi h_(t-1) + b_hi)
---@formula f_t = sigmoid(W_if x_t + b_if + W_hf h_(t-1) + b_hf)
---@formula g_t = tanh(W_ig x_t + b_ig + W_hg h_(t-1) + b_hg)
---@formula o_t = sigmoid(W_io x_t + b_io + W_ho h_(t-1) + b_ho)
---@formula c_t = f_t * c_(t-1) + i_t * g_t
---@formula h_t = o_t * tanh(c_t)
---@source Hochreiter and Schmidhuber, 1997: Long short-term memory
---@source Sak et al., 2014, for proj_size: Long short-term memory based recurrent neural network
---   architectures
---@field weight_ih_l0 moonlet.Tensor W_ii, W_if, W_ig, W_io of the first layer, (4 * hidden_size,
---   input_size).
---@field weight_hh_l0 moonlet.Tensor W_hi, W_hf, W_hg, W_ho of the first layer, (4 * hidden_size,
---   H).
layers.LSTM = layer.define("LSTM", SIZES .. WAYS .. ", int>=0 proj_size=0" .. layer.factory,
  function(self, o) set_up(self, "LSTM", o) end, RNNBase)

--- Gated recurrent unit (GRU) network. It is called as `local output, h_n = gru(input, h_0)`; h_0
--- is zeros unless given. `output` has the hidden states of the last layer at all steps, `h_n` the
--- last hidden states of all layers. The gates r, z and n (reset, update, new) stand in the weights
--- in this order. The input may also be a `PackedSequence` of sequences of several lengths; then so
--- is the output. The parameters of layer l, counted from 0, are `weight_ih_l`, `weight_hh_l`,
--- `bias_ih_l` and `bias_hh_l` with l at the end, and `_reverse` behind it for the second
--- direction. Weights and biases start from the uniform distribution between -k and k with k = 1 /
--- sqrt(hidden_size).
--- > ml.nn.GRU(3, 4)(ml.ones(5, 2, 3)).shape
---   (5, 2, 4)
---@param input_size the size of each step of the input
---@param hidden_size the size of the hidden state
---@param num_layers how many layers are stacked: each takes the hidden states of the one below as
---   its input
---@param bias whether the gates have biases
---@param batch_first whether the batch is the first dimension of input and output; not of the
---   states
---@param dropout the probability of dropout between layers in training mode, from 0 to 1
---@param bidirectional whether a second network reads the sequence backwards; outputs are joined
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape input (steps, n, input_size), or (n, steps, input_size) with batch_first, or (steps,
---   input_size)
---@shape h_0, h_n (num_layers D, n, hidden_size), or without n; D = 2 with bidirectional, else 1
---@shape output (steps, n, D hidden_size), or (n, steps, D hidden_size) with batch_first, or
---   (steps, D hidden_size)
---@formula r_t = sigmoid(W_ir x_t + b_ir + W_hr h_(t-1) + b_hr)
---@formula z_t = sigmoid(W_iz x_t + b_iz + W_hz h_(t-1) + b_hz)
---@formula n_t = tanh(W_in x_t + b_in + r_t * (W_hn h_(t-1) + b_hn))
---@formula h_t = (1 - z_t) * n_t + z_t * h_(t-1)
---@source Cho et al., 2014: Learning phrase representations using RNN encoder-decoder
layers.GRU = layer.define("GRU", SIZES .. WAYS .. layer.factory,
  function(self, o) set_up(self, "GRU", o) end, RNNBase)

-- One step. Autocast on the CPU leaves it as it is; on CUDA devices the op is cast.
local function run_cell(op, x, state, weight, ...)
  if x.device ~= "cpu" or not ml.is_autocast_enabled "cpu" then return op(x, state, weight, ...) end
  local function cast(value) return value:to { dtype = weight.dtype } end
  state = ml.is_tensor(state) and cast(state) or each(state, cast)
  local _ <close> = ml.autocast { enabled = false }
  return op(cast(x), state, weight, ...)
end

-- The class of one step: `op` for x, a state, weights and biases.
local function define_cell(name, gates, extra, choose)
  local cls = layer.define(name, "int>=1 input_size, int>=1 hidden_size, bool bias=true" .. extra
    .. layer.factory, function(self, o)
      self.input_size, self.hidden_size = o.input_size, o.hidden_size
      self.nonlinearity = o.nonlinearity
      local rows = gates * o.hidden_size
      self.weight_ih = layer.parameter({ rows, o.input_size }, o)
      self.weight_hh = layer.parameter({ rows, o.hidden_size }, o)
      if o.bias then
        self.bias_ih, self.bias_hh = layer.parameter({ rows }, o), layer.parameter({ rows }, o)
      end
      self:reset_parameters()
    end)
  local states = name == "LSTMCell" and 2 or 1

  --- Draws all weights and biases anew, as the constructor does.
  function cls:reset_parameters()
    local bound = 1 / math.sqrt(self.hidden_size)
    for _, p in ipairs(self:parameters()) do init.uniform_(p, -bound, bound) end
  end

  cls._inputs = { "input", "hx" }

  function cls:forward(x, hx)
    if not ml.is_tensor(x) or x.ndim ~= 1 and x.ndim ~= 2 or x.shape[x.ndim] ~= self.input_size then
      fail(self, "'input' must be (n, %d) or (%d), got %s", self.input_size, self.input_size,
        signature.describe(x))
    end
    local single, list = x.ndim == 1, hx
    if single then x = x:unsqueeze(1) end
    if hx == nil then
      local zeros = ml.zeros({ x.shape[1], self.hidden_size },
        { dtype = x.dtype, device = x.device })
      list = { zeros, zeros }
    else
      if states == 1 then list = { hx } end
      if type(list) ~= "table" or #list ~= states then
        fail(self, "'hx' must be %s, got %s", states == 2
          and "an array of the hidden state and the cell" or "a tensor", signature.describe(hx))
      end
      if single then list = each(list, function(s) return s:unsqueeze(1) end) end
    end
    local state = states == 2 and { list[1], list[2] } or list[1]
    local h, c = layer.run(self, run_cell, choose(self), x, state, self.weight_ih, self.weight_hh,
      self.bias_ih, self.bias_hh)
    if single then h, c = h:squeeze(1), c and c:squeeze(1) end
    if c then return h, c end
    return h
  end

  function cls:extra_repr()
    return ("%d -> %d%s%s"):format(self.input_size, self.hidden_size, self.bias_ih and ""
      or ", no bias", self.nonlinearity == "relu" and ", relu" or "")
  end
  return cls
end

--- One step of an Elman recurrent network. It is called as `h = cell(x, h)`; the state is zeros
--- unless given. The parameters are `weight_ih`, `weight_hh`, `bias_ih` and `bias_hh`. Weights and
--- biases start from the uniform distribution between -k and k with k = 1 / sqrt(hidden_size).
--- > ml.nn.RNNCell(3, 4)(ml.ones(2, 3)).shape
---   (2, 4)
---@param input_size the size of the input
---@param hidden_size the size of the hidden state
---@param bias whether the gates have biases
---@param nonlinearity "tanh" "tanh" or "relu"
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape input (n, input_size) or (input_size), h (n, hidden_size) or (hidden_size) -> h
---@formula h' = tanh(W_ih x + b_ih + W_hh h + b_hh)
---@source Elman, 1990: Finding structure in time
layers.RNNCell = define_cell("RNNCell", 1, ', RecurrentFunction nonlinearity="tanh"',
  function(self) return ml["rnn_" .. self.nonlinearity .. "_cell"] end)

--- One step of a long short-term memory (LSTM) network. It is called as `h, c = cell(x, { h, c })`;
--- the states are zeros unless given. The gates i, f, g and o stand in the weights in this order.
--- The parameters are `weight_ih`, `weight_hh`, `bias_ih` and `bias_hh`. Weights and biases start
--- from the uniform distribution between -k and k with k = 1 / sqrt(hidden_size).
--- > ml.nn.LSTMCell(3, 4)(ml.ones(2, 3)).shape
---   (2, 4)
---@param input_size the size of the input
---@param hidden_size the size of the hidden state
---@param bias whether the gates have biases
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape input (n, input_size) or (input_size), h, c (n, hidden_size) or (hidden_size) -> h, c
---@formula i_t = sigmoid(W_ii x_t + b_ii + W_hi h_(t-1) + b_hi)
---@formula f_t = sigmoid(W_if x_t + b_if + W_hf h_(t-1) + b_hf)
---@formula g_t = tanh(W_ig x_t + b_ig + W_hg h_(t-1) + b_hg)
---@formula o_t = sigmoid(W_io x_t + b_io + W_ho h_(t-1) + b_ho)
---@formula c_t = f_t * c_(t-1) + i_t * g_t
---@formula h_t = o_t * tanh(c_t)
---@source Hochreiter and Schmidhuber, 1997: Long short-term memory
layers.LSTMCell = define_cell("LSTMCell", 4, "", function() return ml.lstm_cell end)

--- One step of a gated recurrent unit (GRU) network. It is called as `h = cell(x, h)`; the state is
--- zeros unless given. The gates r, z and n stand in the weights in this order. The parameters are
--- `weight_ih`, `weight_hh`, `bias_ih` and `bias_hh`. Weights and biases start from the uniform
--- distribution between -k and k with k = 1 / sqrt(hidden_size).
--- > ml.nn.GRUCell(3, 4)(ml.ones(2, 3)).shape
---   (2, 4)
---@param input_size the size of the input
---@param hidden_size the size of the hidden state
---@param bias whether the gates have biases
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape input (n, input_size) or (input_size), h (n, hidden_size) or (hidden_size) -> h
---@formula r_t = sigmoid(W_ir x_t + b_ir + W_hr h_(t-1) + b_hr)
---@formula z_t = sigmoid(W_iz x_t + b_iz + W_hz h_(t-1) + b_hz)
---@formula n_t = tanh(W_in x_t + b_in + r_t * (W_hn h_(t-1) + b_hn))
---@formula h_t = (1 - z_t) * n_t + z_t * h_(t-1)
---@source Cho et al., 2014: Learning phrase representations using RNN encoder-decoder
layers.GRUCell = define_cell("GRUCell", 3, "", function() return ml.gru_cell end)

return layers
