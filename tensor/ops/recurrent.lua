-- tensor/ops/recurrent.lua: recurrent networks: over whole sequences, one step, and what these are made of.

op { "lstm_step(Tensor gates, Tensor cell) -> (Tensor h, Tensor c)",
     vmap = "merge_rows", kind = "structured", dtypes = "floating", internal = true,
     grad = { ["gates, cell"] = "lstm_step_backward(g_h, g_c, gates, cell, c)" },
     check = { value = "lstm_cell is compared" },
     doc = [[The hidden state and the cell after a step, from the input, forget, cell and output gates before their
functions, (n, 4 size), and the cell (n, size).]],
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
state before their functions, (n, 3 size) each, and the hidden state (n, size).]],
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

local SHAPES = [[`x` is (steps, n, features), or (n, steps, features) with `batch_first`; `hx` (layers * directions, n,
size). `params` has for each layer and each direction the weights of the input (gates * size, features) and of the
hidden state (gates * size, size) and, with `has_biases`, their biases. With `bidirectional` a second network goes
through the steps from the last one, and the results stand side by side. `dropout` is between the layers, where
`train`. Gives the hidden states of the last layer, (steps, n, directions * size), and the last states of all.]]

local PACKED = [[The same of packed sequences: `data` (rows, features) has the rows of the first step of all sequences,
then those of the second, and so on, and `batch_sizes` says how many each step has; the longest sequence comes
first.]]

local function weights(gates, features, size, biases)
  local parts = { ("randn(%d, %d), randn(%d, %d)"):format(gates * size, features, gates * size, size) }
  if biases then parts[2] = ("randn(%d), randn(%d)"):format(gates * size, gates * size) end
  return table.concat(parts, ", ")
end

-- An op for whole sequences and one for packed ones, which share a name.
local function recurrent(name, gates, states, doc)
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
       doc = doc .. " " .. SHAPES,
       sample = { ("randn(3, 2, 3), %s, {%s}, true, 1, 0, false, false, false"):format(state(1, 2, 2),
                    weights(gates, 3, 2, true)),
                  ("randn(2, 3, 2), %s, {%s}, false, 2, 0.5, false, true, true"):format(state(4, 2, 1),
                    table.concat(two_layers, ", ")) } }
  op { ("%s_packed(Tensor data, Tensor batch_sizes, %s, Tensor[] params, %s) -> %s"):format(name, states, options,
         results),
       kind = "composite", dtypes = "floating", mixed = true, method = false, overload_of = name,
       check = { empty = "the sizes belong together", grad = "differences of batch_sizes, which are numbers",
                 gradgrad = "differences of batch_sizes, which are numbers" },
       doc = PACKED,
       sample = { ("randn(5, 3), tensor({2, 2, 1}), %s, {%s, %s}, true, 1, 0, false, true"):format(state(2, 2, 2),
                    weights(gates, 3, 2, true), weights(gates, 3, 2, true)) } }
end

recurrent("lstm", 4, "Tensor[] hx",
  [[A network of long short-term memory (Hochreiter and Schmidhuber 1997); `hx` is the hidden state and the cell.]])
recurrent("gru", 3, "Tensor hx", [[A network of gated recurrent units (Cho et al. 2014, arXiv:1406.1078).]])
recurrent("rnn_tanh", 1, "Tensor hx", [[A network of `tanh(w_ih x + b_ih + w_hh h + b_hh)` (Elman 1990).]])
recurrent("rnn_relu", 1, "Tensor hx", [[A network of `relu(w_ih x + b_ih + w_hh h + b_hh)`.]])

local function cell(name, gates, states, results, doc)
  local state = states == "Tensor hx" and "randn(3, 2)" or "{randn(3, 2), randn(3, 2)}"
  op { ("%s(Tensor x, %s, Tensor w_ih, Tensor w_hh, Tensor? b_ih=nil, Tensor? b_hh=nil) -> %s"):format(name, states,
         results),
       kind = "composite", autocast = { device = "lower_precision" }, dtypes = "floating", method = false,
       doc = doc .. [[ `x` is (n, features), a state (n, size), `w_ih` (gates * size, features), `w_hh` (gates * size,
size), a bias (gates * size).]],
       sample = { ("randn(3, 4), %s, %s"):format(state, weights(gates, 4, 2, true)),
                  ("randn(3, 4), %s, %s"):format(state, weights(gates, 4, 2)) } }
end

cell("lstm_cell", 4, "Tensor[] hx", "(Tensor h, Tensor c)", [[One step of `lstm`; `hx` is the hidden state and the cell.]])
cell("gru_cell", 3, "Tensor hx", "Tensor", [[One step of `gru`.]])
cell("rnn_tanh_cell", 1, "Tensor hx", "Tensor", [[One step of `rnn_tanh`.]])
cell("rnn_relu_cell", 1, "Tensor hx", "Tensor", [[One step of `rnn_relu`.]])
