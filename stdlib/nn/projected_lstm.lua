-- stdlib/nn/projected_lstm.lua: the LSTM whose hidden states are made smaller by a product after
-- each step (Sak et al., 2014), step by step.

local ml = require "moonlet"

local projected = {}

-- One step from `x` (n, features) with the weights of a layer and direction.
local function step(x, h, c, w)
  local gates = ml.linear(x, w.ih, w.b_ih) + ml.linear(h, w.hh, w.b_hh)
  local i, f, g, o = table.unpack(gates:chunk(4, 2))
  c = f:sigmoid() * c + i:sigmoid() * g:tanh()
  return ml.linear(o:sigmoid() * c:tanh(), w.hr), c
end

local function rows(x, first, last) return x:narrow(1, first, last - first + 1) end

-- The hidden states of all steps, an array of (n, features) where n does not grow, and the last
-- ones of all sequences. From the front sequences end; from the back they begin.
local function direction(steps, h0, c0, w, reverse)
  local out, ended = {}, {}
  local first = reverse and #steps or 1
  local h, c = rows(h0, 1, #steps[first]), rows(c0, 1, #steps[first])
  for k = 1, #steps do
    local at = reverse and #steps + 1 - k or k
    local n = #steps[at]
    if n > #h then
      h, c = ml.cat({ h, rows(h0, #h + 1, n) }), ml.cat({ c, rows(c0, #c + 1, n) })
    elseif n < #h then
      table.insert(ended, 1, { rows(h, n + 1, #h), rows(c, n + 1, #c) })
      h, c = rows(h, 1, n), rows(c, 1, n)
    end
    h, c = step(steps[at], h, c, w)
    out[at] = h
  end
  local hs, cs = { h }, { c }
  for i, entry in ipairs(ended) do hs[i + 1], cs[i + 1] = entry[1], entry[2] end
  return out, ml.cat(hs), ml.cat(cs)
end

-- The weights from position `at` of the list on, by name.
local function named(list, at, bias)
  local w = { ih = list[at], hh = list[at + 1] }
  if bias then w.b_ih, w.b_hh, at = list[at + 2], list[at + 3], at + 2 end
  w.hr = list[at + 2]
  return w, at + 3
end

local function all_layers(self, steps, states, weights)
  local at, last_h, last_c, state = 1, {}, {}, 1
  for number = 1, self.num_layers do
    local ways = {}
    for k = 1, self.bidirectional and 2 or 1 do
      local w
      w, at = named(weights, at, self.bias)
      ways[k], last_h[state], last_c[state] = direction(steps, states[1][state], states[2][state],
        w, k == 2)
      state = state + 1
    end
    local out = ways[1]
    for i = 1, #steps do
      if ways[2] then out[i] = ml.cat({ ways[1][i], ways[2][i] }, 2) end
      if self.dropout > 0 and number < self.num_layers then
        out[i] = ml.dropout(out[i], self.dropout, self.training)
      end
    end
    steps = out
  end
  return steps, { ml.stack(last_h, 1), ml.stack(last_c, 1) }
end

--- The network of an nn.LSTM with `proj_size` over `x`, or over packed rows with `batch_sizes`.
---@param self table
---@param x moonlet.Tensor
---@param batch_sizes? moonlet.Tensor
---@param states moonlet.Tensor[]
---@param weights moonlet.Tensor[]
---@return moonlet.Tensor y
---@return moonlet.Tensor[] states
function projected.run(self, x, batch_sizes, states, weights)
  local time = self.batch_first and not batch_sizes and 2 or 1
  local steps = batch_sizes and x:split(batch_sizes:tolist(), 1) or x:unbind(time)
  local out, left = all_layers(self, steps, states, weights)
  if batch_sizes then return ml.cat(out), left end
  return ml.stack(out, time), left
end

return projected
