-- tensor/ops/recurrent.lua: recurrent networks: over whole sequences, one step, and what these are made of.

op { "lstm_step(Tensor gates, Tensor cell) -> (Tensor h, Tensor c)",
     vmap = "merge_rows", kind = "structured", dtypes = "floating", internal = true,
     grad = { ["gates, cell"] = "lstm_step_backward(g_h, g_c, gates, cell, c)" },
     check = { value = "lstm_cell is compared" },
     doc = [[The hidden state and the cell after a step, from the input, forget, cell and output gates before their
activation functions, (n, 4 size), and the cell (n, size).]],
     sample = { "randn(3, 8), randn(3, 2)", "randn(2, 44), randn(2, 11)" } }

op { [[lstm_step_grads(Tensor grad_h, Tensor grad_c, Tensor gates, Tensor cell,
                       Tensor c) -> (Tensor grad_gates, Tensor grad_cell)]],
     vmap = "merge_rows", kind = "structured", dtypes = "floating", internal = true,
     check = { value = "checked through what uses it" },
     doc = [[The gradients of `lstm_step`; `c` is the cell that it gave.]],
     sample = { "randn(3, 2), randn(3, 2), randn(3, 8), randn(3, 2), randn(3, 2)" } }

op { "gru_step(Tensor x_gates, Tensor h_gates, Tensor hidden) -> Tensor",
     vmap = "merge_rows", kind = "structured", dtypes = "floating", internal = true,
     grad = { ["x_gates, h_gates, hidden"] = "gru_step_backward(g, x_gates, h_gates, hidden)" },
     check = { value = "gru_cell is compared" },
     doc = [[The hidden state after a step, from the reset, update and new gates of the input and of the hidden
state before their activation functions, (n, 3 size) each, and the hidden state (n, size).]],
     sample = { "randn(3, 6), randn(3, 6), randn(3, 2)", "randn(2, 33), randn(2, 33), randn(2, 11)" } }

op { [[gru_step_grads(Tensor grad, Tensor x_gates, Tensor h_gates,
                      Tensor hidden) -> (Tensor grad_x_gates, Tensor grad_h_gates, Tensor grad_hidden)]],
     vmap = "merge_rows", kind = "structured", dtypes = "floating", internal = true,
     check = { value = "checked through what uses it" },
     doc = [[The gradients of `gru_step`.]],
     sample = { "randn(3, 2), randn(3, 6), randn(3, 6), randn(3, 2)" } }

op { [[native_recurrent(Tensor gates, Tensor hidden, Tensor? cell, Tensor w_hh, Tensor? b_hh,
                        int[*] batch_sizes, int mode,
                        bool reverse) -> (Tensor y, Tensor h_n, Tensor c_n, Tensor cells, Tensor sums)]],
     vmap = "native_recurrent", kind = "composite", dtypes = "floating", internal = true, nodiff = { "cells", "sums" },
     grad = { ["gates, hidden, cell, w_hh, b_hh"] = "recurrent_grads(g_y, g_h_n, g_c_n, gates, hidden, cell, w_hh, b_hh, y, cells, sums, batch_sizes, mode, reverse)" },
     check = { value = "lstm and gru are compared", empty = "the batch sizes are those of the rows" },
     doc = [[One layer in one direction: `gates` (rows, gates * size) is what the input gives the steps, one after the
other, of `batch_sizes` rows each; `hidden` and `cell` (n, size) the first states. `mode` 0 is lstm, 1 gru, 2 rnn_tanh,
3 rnn_relu; `reverse` begins with the last step. Gives the hidden states of all steps (rows, size), the last states and
the cells of all steps, which are empty without a cell. `sums` is what a gradient wants besides: for lstm the gates with
what the hidden states give them, for gru what these give alone; else, and where nothing is recorded, it is empty.]],
     sample = { "randn(5, 8), randn(2, 2), randn(2, 2), randn(8, 2), nil, {2, 2, 1}, 0, false",
                "randn(5, 6), randn(2, 2), nil, randn(6, 2), randn(6), {2, 2, 1}, 1, true",
                "randn(5, 2), randn(2, 2), nil, randn(2, 2), nil, {2, 2, 1}, 2, true",
                "randn(4, 2), randn(2, 2), nil, randn(2, 2), nil, {2, 2}, 3, false" } }

op { [[recurrent_network(Tensor x, Tensor hidden, Tensor? cell, Tensor weights, bool has_biases, int num_layers,
                         bool bidirectional, int[*] batch_sizes,
                         int mode) -> (Tensor y, Tensor h_n, Tensor c_n, Tensor reserve)]],
     vmap = "recurrent_network", kind = "composite", dtypes = "floating", internal = true, nodiff = { "reserve" },
     grad = { ["x, hidden, cell, weights"] = "recurrent_network_grads(keeps_graph, g_y, g_h_n, g_c_n, x, hidden, cell, weights, y, reserve, has_biases, num_layers, bidirectional, batch_sizes, mode)" },
     check = { value = "lstm and gru are compared", empty = "the batch sizes are those of the rows",
               device = "the reserve is the library's own; tests of the device compare the rest" },
     doc = [[A network of several layers and directions in one call: `x` (rows, features) has the rows of all steps, one
after the other, of `batch_sizes` rows each; `hidden` and `cell` (layers * directions, n, size) are the first states,
`cell` of lstm alone. `weights` has of every layer and direction the weights of the input and of the hidden state, and
behind all of these, with `has_biases`, their biases; `mode` is that of `native_recurrent`. Gives the hidden states of the
last layer (rows, directions * size) and the last states of all. `reserve` is what a gradient wants besides where a library
of the device computes, else empty: then the gradient goes through the steps, as derivatives of gradients do.]],
     sample = { "randn(5, 3), randn(2, 2, 2), randn(2, 2, 2), randn(80), false, 1, true, {2, 2, 1}, 0",
                "randn(5, 3), randn(2, 2, 2), nil, randn(78), true, 2, false, {2, 2, 1}, 1",
                "randn(5, 2), randn(2, 2, 1), nil, randn(10), true, 1, true, {2, 2, 1}, 2",
                "randn(4, 2), randn(2, 2, 2), nil, randn(16), false, 2, false, {2, 2}, 3" } }

-- The meanings of the arguments: those of all networks and an op's own.
local function arguments(own)
  local out = {
    params = "for each layer and direction the weights of the input and of the hidden state and, with `has_biases`, "
      .. "their biases",
    hx = "the first hidden state of each layer and direction",
    has_biases = "whether `params` has biases",
    num_layers = "the number of layers, each of which takes the hidden states of the one before",
    dropout = "the probability with which elements between the layers are zeroed in training",
    train = "whether dropout is applied",
    bidirectional = "whether a second network goes through the steps from the last one; the results stand side by side",
  }
  for name, meaning in pairs(own) do out[name] = meaning end
  return out
end
local BATCH_FIRST = "whether `x` and `y` are (n, t, features)"
local ROWS = "the rows of all sequences: those of the first step, then those of the second, and so on"
local LENGTHS = "how many rows each step has, falling: the longest sequence comes first"
local STATES = "a table of the first hidden state and the first cell of each layer and direction"

-- The meanings of the arguments of one step.
local function step_arguments(state)
  return { x = "the inputs", hx = state, w_ih = "the weights of the input, a block of rows for each gate",
           w_hh = "the weights of the hidden state", b_ih = "the biases of the input",
           b_hh = "the biases of the hidden state" }
end

local text = {
  lstm = { [[Long short-term memory (LSTM) recurrent network over whole sequences: the hidden states of the
last layer at all steps, and the last states of all layers. The gates i, f, g, o stand in this order in
the rows of the weights.]],
    args = arguments { x = "the sequences", batch_first = BATCH_FIRST, hx = STATES },
    shapes = "x (t, n, features), hx {(layers * directions, n, h), the same} -> y (t, n, directions * h), h_n " ..
      "(layers * directions, n, h), c_n (the same)",
    formula = [[
i_t = sigmoid(W_ii x_t + b_ii + W_hi h_(t-1) + b_hi)
f_t = sigmoid(W_if x_t + b_if + W_hf h_(t-1) + b_hf)
g_t = tanh(W_ig x_t + b_ig + W_hg h_(t-1) + b_hg)
o_t = sigmoid(W_io x_t + b_io + W_ho h_(t-1) + b_ho)
c_t = f_t * c_(t-1) + i_t * g_t
h_t = o_t * tanh(c_t)]],
    source = 'Hochreiter and Schmidhuber 1997, "Long Short-Term Memory"',
    example = [[
x, h0 = ml.ones(3, 1, 1), ml.zeros(1, 1, 2)
params = {ml.ones(8, 1), ml.zeros(8, 2)}
y, h_n = ml.lstm(x, {h0, h0}, params, false, 1, 0, false, false, false)
y.shape, h_n.shape]],
    gives = "(3, 1, 2)	(1, 1, 2)" },
  lstm_packed = { [[LSTM recurrent network over packed sequences: the rows of the first step of all sequences,
then those of the second, and so on.]],
    args = arguments { data = ROWS, batch_sizes = LENGTHS, hx = STATES },
    shapes = "data (rows, features), batch_sizes (t), hx {(layers * directions, n, h), the same} -> y (rows, " ..
      "directions * h), h_n (layers * directions, n, h), c_n (the same)",
    example = [[
data, h0 = ml.ones(3, 1), ml.zeros(1, 2, 2)
params = {ml.ones(8, 1), ml.zeros(8, 2)}
y, h_n = ml.lstm(data, ml.tensor {2, 1}, {h0, h0}, params, false, 1, 0, false, false)
y.shape, h_n.shape]],
    gives = "(3, 2)	(1, 2, 2)" },
  gru = { [[Gated recurrent unit (GRU) recurrent network over whole sequences: the hidden states of the
last layer at all steps, and the last states of all layers. The gates r, z, n stand in this order in the
rows of the weights.]],
    args = arguments { x = "the sequences", batch_first = BATCH_FIRST },
    shapes = "x (t, n, features), hx (layers * directions, n, h) -> y (t, n, directions * h), h_n (layers * " ..
      "directions, n, h)",
    formula = [[
r_t = sigmoid(W_ir x_t + b_ir + W_hr h_(t-1) + b_hr)
z_t = sigmoid(W_iz x_t + b_iz + W_hz h_(t-1) + b_hz)
n_t = tanh(W_in x_t + b_in + r_t * (W_hn h_(t-1) + b_hn))
h_t = (1 - z_t) * n_t + z_t * h_(t-1)]],
    source = "Cho et al. 2014, arXiv:1406.1078",
    example = [[
x, h0 = ml.ones(3, 1, 1), ml.zeros(1, 1, 2)
params = {ml.ones(6, 1), ml.zeros(6, 2)}
y, h_n = ml.gru(x, h0, params, false, 1, 0, false, false, false)
y.shape, h_n.shape]],
    gives = "(3, 1, 2)	(1, 1, 2)" },
  gru_packed = { [[GRU recurrent network over packed sequences: the rows of the first step of all sequences, then
those of the second, and so on.]],
    args = arguments { data = ROWS, batch_sizes = LENGTHS },
    shapes = "data (rows, features), batch_sizes (t), hx (layers * directions, n, h) -> y (rows, directions * h), " ..
      "h_n (layers * directions, n, h)",
    example = [[
data, h0 = ml.ones(3, 1), ml.zeros(1, 2, 2)
params = {ml.ones(6, 1), ml.zeros(6, 2)}
y, h_n = ml.gru(data, ml.tensor {2, 1}, h0, params, false, 1, 0, false, false)
y.shape, h_n.shape]],
    gives = "(3, 2)	(1, 2, 2)" },
  rnn_tanh = { [[Elman recurrent network with the hyperbolic tangent over whole sequences: the hidden states of
the last layer at all steps, and the last states of all layers.]],
    args = arguments { x = "the sequences", batch_first = BATCH_FIRST },
    shapes = "x (t, n, features), hx (layers * directions, n, h) -> y (t, n, directions * h), h_n (layers * " ..
      "directions, n, h)",
    formula = "h_t = tanh(W_ih x_t + b_ih + W_hh h_(t-1) + b_hh)",
    source = 'Elman 1990, "Finding Structure in Time"',
    example = [[
x, h0 = ml.ones(3, 1, 1), ml.zeros(1, 1, 2)
params = {ml.ones(2, 1), ml.zeros(2, 2)}
y, h_n = ml.rnn_tanh(x, h0, params, false, 1, 0, false, false, false)
y.shape, h_n.shape]],
    gives = "(3, 1, 2)	(1, 1, 2)" },
  rnn_tanh_packed = { [[Elman recurrent network over packed sequences: the rows of the first step of all sequences,
then those of the second, and so on.]],
    args = arguments { data = ROWS, batch_sizes = LENGTHS },
    shapes = "data (rows, features), batch_sizes (t), hx (layers * directions, n, h) -> y (rows, directions * h), " ..
      "h_n (layers * directions, n, h)",
    example = [[
data, h0 = ml.ones(3, 1), ml.zeros(1, 2, 2)
params = {ml.ones(2, 1), ml.zeros(2, 2)}
y, h_n = ml.rnn_tanh(data, ml.tensor {2, 1}, h0, params, false, 1, 0, false, false)
y.shape, h_n.shape]],
    gives = "(3, 2)	(1, 2, 2)" },
  rnn_relu = { [[Elman recurrent network with the rectified linear unit over whole sequences: the hidden states
of the last layer at all steps, and the last states of all layers.]],
    args = arguments { x = "the sequences", batch_first = BATCH_FIRST },
    shapes = "x (t, n, features), hx (layers * directions, n, h) -> y (t, n, directions * h), h_n (layers * " ..
      "directions, n, h)",
    formula = "h_t = max(W_ih x_t + b_ih + W_hh h_(t-1) + b_hh, 0)",
    source = 'Le et al. 2015, "A Simple Way to Initialize Recurrent Networks of Rectified Linear Units"',
    example = [[
x, h0 = ml.ones(3, 1, 1), ml.zeros(1, 1, 2)
params = {ml.ones(2, 1), ml.zeros(2, 2)}
y, h_n = ml.rnn_relu(x, h0, params, false, 1, 0, false, false, false)
y.shape, h_n.shape]],
    gives = "(3, 1, 2)	(1, 1, 2)" },
  rnn_relu_packed = { [[Elman recurrent network over packed sequences: the rows of the first step of all sequences,
then those of the second, and so on.]],
    args = arguments { data = ROWS, batch_sizes = LENGTHS },
    shapes = "data (rows, features), batch_sizes (t), hx (layers * directions, n, h) -> y (rows, directions * h), " ..
      "h_n (layers * directions, n, h)",
    example = [[
data, h0 = ml.ones(3, 1), ml.zeros(1, 2, 2)
params = {ml.ones(2, 1), ml.zeros(2, 2)}
y, h_n = ml.rnn_relu(data, ml.tensor {2, 1}, h0, params, false, 1, 0, false, false)
y.shape, h_n.shape]],
    gives = "(3, 2)	(1, 2, 2)" },
  lstm_cell = { [[One step of a long short-term memory (LSTM) recurrent network. The gates i, f, g, o stand in
this order in the rows of the weights.]],
    args = step_arguments("a table of the hidden states and the cells"),
    shapes = "x (n, features), hx {(n, h), (n, h)}, w_ih (4 * h, features), w_hh (4 * h, h), b_ih (4 * h), b_hh " ..
      "(4 * h) -> h (n, h), c (n, h)",
    formula = [[
i_t = sigmoid(W_ii x_t + b_ii + W_hi h_(t-1) + b_hi)
f_t = sigmoid(W_if x_t + b_if + W_hf h_(t-1) + b_hf)
g_t = tanh(W_ig x_t + b_ig + W_hg h_(t-1) + b_hg)
o_t = sigmoid(W_io x_t + b_io + W_ho h_(t-1) + b_ho)
c_t = f_t * c_(t-1) + i_t * g_t
h_t = o_t * tanh(c_t)]],
    source = 'Hochreiter and Schmidhuber 1997, "Long Short-Term Memory"',
    example = "ml.lstm_cell(ml.ones(1, 1), {ml.zeros(1, 1), ml.zeros(1, 1)}, ml.ones(4, 1), ml.ones(4, 1))",
    gives = [[
{{0.3696}}
Tensor (1, 1) float32
{{0.5568}}
Tensor (1, 1) float32]] },
  gru_cell = { [[One step of a gated recurrent unit (GRU) recurrent network. The gates r, z, n stand in this
order in the rows of the weights.]],
    args = step_arguments("the hidden states"),
    shapes = "x (n, features), hx (n, h), w_ih (3 * h, features), w_hh (3 * h, h), b_ih (3 * h), b_hh (3 * h) -> " ..
      "(n, h)",
    formula = [[
r_t = sigmoid(W_ir x_t + b_ir + W_hr h_(t-1) + b_hr)
z_t = sigmoid(W_iz x_t + b_iz + W_hz h_(t-1) + b_hz)
n_t = tanh(W_in x_t + b_in + r_t * (W_hn h_(t-1) + b_hn))
h_t = (1 - z_t) * n_t + z_t * h_(t-1)]],
    source = "Cho et al. 2014, arXiv:1406.1078",
    example = "ml.gru_cell(ml.ones(1, 1), ml.zeros(1, 1), ml.ones(3, 1), ml.ones(3, 1))",
    gives = [[
{{0.2048}}
Tensor (1, 1) float32]] },
  rnn_tanh_cell = { "One step of an Elman recurrent network with the hyperbolic tangent.",
    args = step_arguments("the hidden states"),
    shapes = "x (n, features), hx (n, h), w_ih (h, features), w_hh (h, h), b_ih (h), b_hh (h) -> (n, h)",
    formula = "h_t = tanh(W_ih x_t + b_ih + W_hh h_(t-1) + b_hh)",
    source = 'Elman 1990, "Finding Structure in Time"',
    example = "ml.rnn_tanh_cell(ml.ones(1, 1), ml.zeros(1, 1), ml.ones(1, 1), ml.ones(1, 1))",
    gives = [[
{{0.7616}}
Tensor (1, 1) float32]] },
  rnn_relu_cell = { "One step of an Elman recurrent network with the rectified linear unit.",
    args = step_arguments("the hidden states"),
    shapes = "x (n, features), hx (n, h), w_ih (h, features), w_hh (h, h), b_ih (h), b_hh (h) -> (n, h)",
    formula = "h_t = max(W_ih x_t + b_ih + W_hh h_(t-1) + b_hh, 0)",
    source = 'Le et al. 2015, "A Simple Way to Initialize Recurrent Networks of Rectified Linear Units"',
    example = "ml.rnn_relu_cell(ml.ones(1, 1), ml.zeros(1, 1), ml.ones(1, 1), ml.ones(1, 1))",
    gives = [[
{{1.}}
Tensor (1, 1) float32]] },
}

local function weights(gates, features, size, biases)
  local parts = { ("randn(%d, %d), randn(%d, %d)"):format(gates * size, features, gates * size, size) }
  if biases then parts[2] = ("randn(%d), randn(%d)"):format(gates * size, gates * size) end
  return table.concat(parts, ", ")
end

-- An op for whole sequences and one for packed ones, which share a name.
local function recurrent(name, gates, states)
  local single = states == "Tensor hx"
  local results = single and "(Tensor y, Tensor h_n)" or "(Tensor y, Tensor h_n, Tensor c_n)"
  local options = "bool has_biases, int num_layers, float dropout, bool train, bool bidirectional"
  local function state(count, n, size)
    local one = ("randn(%d, %d, %d)"):format(count, n, size)
    return single and one or ("{%s, %s}"):format(one, one)
  end
  local two_layers = { weights(gates, 2, 1), weights(gates, 2, 1), weights(gates, 2, 1), weights(gates, 2, 1) }
  op { ("%s(Tensor x, %s, Tensor[] params, %s, bool batch_first) -> %s"):format(name, states, options, results),
       kind = "composite", dtypes = "floating", method = false,
       check = { empty = "the sizes belong together" },
       doc = text[name],
       sample = { ("randn(3, 2, 3), %s, {%s}, true, 1, 0, false, false, false"):format(state(1, 2, 2),
                    weights(gates, 3, 2, true)),
                  ("randn(2, 3, 2), %s, {%s}, false, 2, 0.5, false, true, true"):format(state(4, 2, 1),
                    table.concat(two_layers, ", ")) } }
  op { ("%s_packed(Tensor data, Tensor batch_sizes, %s, Tensor[] params, %s) -> %s"):format(name, states, options,
         results),
       kind = "composite", dtypes = "floating", mixed = true, method = false, overload_of = name,
       check = { empty = "the sizes belong together", grad = "differences of batch_sizes, which are numbers",
                 gradgrad = "differences of batch_sizes, which are numbers" },
       doc = text[name .. "_packed"],
       sample = { ("randn(5, 3), tensor({2, 2, 1}), %s, {%s, %s}, true, 1, 0, false, true"):format(state(2, 2, 2),
                    weights(gates, 3, 2, true), weights(gates, 3, 2, true)) } }
end

recurrent("lstm", 4, "Tensor[] hx")
recurrent("gru", 3, "Tensor hx")
recurrent("rnn_tanh", 1, "Tensor hx")
recurrent("rnn_relu", 1, "Tensor hx")

local function cell(name, gates, states, results)
  local state = states == "Tensor hx" and "randn(3, 2)" or "{randn(3, 2), randn(3, 2)}"
  op { ("%s(Tensor x, %s, Tensor w_ih, Tensor w_hh, Tensor? b_ih=nil, Tensor? b_hh=nil) -> %s"):format(name, states,
         results),
       kind = "composite", autocast = { device = "lower_precision" }, dtypes = "floating", method = false,
       doc = text[name],
       sample = { ("randn(3, 4), %s, %s"):format(state, weights(gates, 4, 2, true)),
                  ("randn(3, 4), %s, %s"):format(state, weights(gates, 4, 2)) } }
end

cell("lstm_cell", 4, "Tensor[] hx", "(Tensor h, Tensor c)")
cell("gru_cell", 3, "Tensor hx", "Tensor")
cell("rnn_tanh_cell", 1, "Tensor hx", "Tensor")
cell("rnn_relu_cell", 1, "Tensor hx", "Tensor")
