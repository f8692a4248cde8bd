-- tests/lua/nn/recurrent_test.lua: recurrent networks against their own cells, packed sequences against
-- single ones, dropout between layers, 16-bit floats, and errors.

local here = arg[0]:match("^(.*)/") or "."
package.path = here .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect

local GATES = { lstm = 4, gru = 3, rnn_tanh = 1, rnn_relu = 1 }

local function random(...) return ml.randn({ ... }, { dtype = ml.float64 }) end

-- Weights and biases of one layer and direction.
local function layer(name, features, size)
  local wide = GATES[name] * size
  return { random(wide, features), random(wide, size), random(wide), random(wide) }
end

local function joined(...)
  local out = {}
  for _, part in ipairs { ... } do
    for _, p in ipairs(part) do out[#out + 1] = p end
  end
  return out
end

-- The states as the op takes them, and as a list.
local function states(name, ...)
  local h = random(...)
  if name ~= "lstm" then return h, { h } end
  local c = random(...)
  return { h, c }, { h, c }
end

local function leaves(list)
  for _, x in ipairs(list) do x:requires_grad_(true) end
  return list
end

-- The hidden states of all steps, by the cell of that name.
local function by_cells(name, x, list, w, reverse)
  local steps, out = #x, {}
  local h, c = list[1][1], list[2] and list[2][1]
  for i = 1, steps do
    local at = reverse and steps + 1 - i or i
    if c then
      h, c = ml.lstm_cell(x[at], { h, c }, table.unpack(w))
    else
      h = ml[name .. "_cell"](x[at], h, table.unpack(w))
    end
    out[at] = h
  end
  return ml.stack(out), h
end

local function near(a, b, what)
  expect.equal(tostring(a.shape), tostring(b.shape), what)
  expect.near(a:detach():double():reshape(-1):totable(), b:detach():double():reshape(-1):totable(), 1e-9, what)
end

test("a network is its cell step by step, with the same gradients", function()
  for name in pairs(GATES) do
    ml.manual_seed(1)
    local x, w = random(7, 3, 5), leaves(layer(name, 5, 11))
    local hx, list = states(name, 1, 3, 11)
    leaves(list)
    x:requires_grad_(true)
    local inputs = joined({ x }, list, w)
    local g = random(7, 3, 11)
    local y, last = ml[name](x, hx, w, true, 1, 0, false, false, false)
    local wanted, wanted_last = by_cells(name, x, list, w)
    near(y, wanted, name)
    near(last[1], wanted_last, name)
    local got = { ml.grad((y * g):sum() + last:sum(), inputs) }
    for i, one in ipairs { ml.grad((wanted * g):sum() + wanted_last:sum(), inputs) } do
      near(got[i], one, name .. " gradient " .. i)
    end
  end
end)

test("the second direction goes back", function()
  for name in pairs(GATES) do
    local x, first, second = random(4, 2, 3), layer(name, 3, 2), layer(name, 3, 2)
    local hx, list = states(name, 2, 2, 2)
    local y = ml[name](x, hx, joined(first, second), true, 1, 0, false, true, false)
    near(y:narrow(3, 1, 2), (by_cells(name, x, list, first)), name)
    local back = {}
    for i, s in ipairs(list) do back[i] = s:narrow(1, 2, 1) end
    near(y:narrow(3, 3, 2), (by_cells(name, x, back, second, true)), name)
  end
end)

test("a batch of no sequences has no outputs and gradients of zero", function()
  for _, device in ipairs(ml.cuda.is_available() and { "cpu", "cuda" } or { "cpu" }) do
    for _, kind in ipairs { "LSTM", "GRU", "RNN" } do
      local net = ml.nn[kind](3, 4, { num_layers = 2, bidirectional = true, batch_first = true }):to(device)
      local x = ml.zeros(0, 9, 3, { device = device, requires_grad = true })
      local y, state = net(x)
      expect.equal(y.shape, { 0, 9, 8 })
      expect.equal((kind == "LSTM" and state[1] or state).shape, { 4, 0, 4 })
      y:sum():backward()
      expect.equal(x.grad.shape, { 0, 9, 3 })
      for name, p in net:named_parameters() do expect.equal(p.grad:abs():sum():item(), 0, name) end
    end
  end
end)

test("packed sequences are each as alone", function()
  for name in pairs(GATES) do
    -- Of lengths 4, 2 and 1.
    local data, sizes = random(7, 3), ml.tensor { 3, 2, 1, 1 }
    local w = leaves(joined(layer(name, 3, 2), layer(name, 3, 2)))
    local hx, list = states(name, 2, 3, 2)
    local y, last = ml[name](data, sizes, hx, w, true, 1, 0, false, true)
    local rows = { { 1, 4, 6, 7 }, { 2, 5 }, { 3 } }
    local total = 0
    for i, own in ipairs(rows) do
      local at = ml.tensor(own)
      local state = {}
      for k, s in ipairs(list) do state[k] = s:narrow(2, i, 1) end
      local alone, alone_last = ml[name](data:index_select(1, at):unsqueeze(2), state[2] and state or state[1], w,
        true, 1, 0, false, true, false)
      near(y:index_select(1, at), alone:squeeze(2), name .. i)
      near(last:narrow(2, i, 1), alone_last, name .. i)
      total = total + (alone * alone):sum() + alone_last:sum()
    end
    local got = { ml.grad((y * y):sum() + last:sum(), w) }
    for i, one in ipairs { ml.grad(total, w) } do near(got[i], one, name .. " gradient " .. i) end
  end
end)

test("dropout is between layers, in training", function()
  local x, w = random(3, 2, 4), joined(layer("gru", 4, 8), layer("gru", 8, 8))
  local hx = random(2, 2, 8)
  local function run(dropout, train) return (ml.gru(x, hx, w, true, 2, dropout, train, false, false)) end
  local plain = run(0, true)
  near(run(0.5, false), plain)
  expect.truthy((run(0.5, true) - plain):abs():max():item() > 0)
  local single = layer("gru", 4, 8)
  local h = random(1, 2, 8)
  near((ml.gru(x, h, single, true, 1, 0.5, true, false, false)), (ml.gru(x, h, single, true, 1, 0, true, false, false)))
end)

test("16-bit floats keep their dtype", function()
  local x, w = random(3, 2, 4), layer("lstm", 4, 8)
  local h, c = random(1, 2, 8), random(1, 2, 8)
  local exact = ml.lstm(x, { h, c }, w, true, 1, 0, false, false, false)
  for i, p in ipairs(w) do w[i] = p:to "bfloat16" end
  local y, _, last = ml.lstm(x:to "bfloat16", { h:to "bfloat16", c:to "bfloat16" }, w, true, 1, 0, false, false, false)
  expect.equal({ y.dtype, last.dtype }, { "bfloat16", "bfloat16" })
  expect.truthy((y:double() - exact):abs():max():item() < 0.1)
end)

test("what does not fit is named", function()
  local x, w, h = random(3, 2, 4), layer("gru", 4, 5), random(1, 2, 5)
  local function gru(...)
    local arguments = table.pack(...)
    return function() ml.gru(table.unpack(arguments, 1, arguments.n)) end
  end
  local rest = { true, 1, 0, false, false, false }
  expect.error(gru(x, random(1, 3, 5), w, table.unpack(rest)), "the state has shape %(1, 3, 5%)")
  expect.error(gru(x, h, { w[1] }, table.unpack(rest)), "1 params for 1 layers and directions, 4 each")
  expect.error(gru(x, random(1, 2, 6), w, table.unpack(rest)), "params 1 has shape %(15, 4%)")
  expect.error(gru(x[1], h, w, table.unpack(rest)), "x has shape %(2, 4%)")
  expect.error(gru(x, h, w, true, 0, 0, false, false, false), "num_layers is 0")
  expect.error(gru(x:narrow(1, 1, 0), h, w, table.unpack(rest)), "x has no steps")
  expect.error(function() ml.lstm(x, { h }, w, table.unpack(rest)) end, "hx has 1 tensors")
  local data = random(5, 4)
  expect.error(gru(data, ml.tensor { 2, 3 }, h, w, true, 1, 0, false, false), "batch size 3 after 2")
  expect.error(gru(data, ml.tensor { 6 }, h, w, true, 1, 0, false, false), "batch size 6 after 5")
  expect.error(gru(data, ml.tensor { 2, 2 }, h, w, true, 1, 0, false, false), "leave 1 of 5 rows")
  expect.error(gru(data, ml.tensor { 2, 2, 2 }, h, w, true, 1, 0, false, false), "more than the 5 rows")
  expect.error(function() ml.gru_cell(x[1], h[1], w[2], w[2]) end, "w_ih has shape %(15, 5%)")
  expect.error(function() ml.lstm_cell(x[1], { h[1], x[1] }, random(20, 4), random(20, 5)) end, "the states have shapes")
end)

test("the gates are kept where a gradient wants them, and nowhere else", function()
  local function run(requires_grad)
    return ml._internal.native_recurrent(ml.ones(5, 8), ml.ones(2, 2), ml.ones(2, 2),
      ml.ones { 8, 2, requires_grad = requires_grad }, nil, { 2, 2, 1 }, 0, false)
  end
  local y, _, _, _, sums = run(true)
  expect.equal(tostring(sums.shape), "(5, 8)")
  local same, _, _, _, none = run(false)
  expect.equal(tostring(none.shape), "(0,)")
  expect.equal(y:detach():totable(), same:totable())
end)

harness.run()
