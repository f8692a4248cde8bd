-- stdlib/onnx/read/training.lua: a step of an optimiser, of ai.onnx.preview.training.

local common = require "moonlet.onnx.read.common"
local ml = require "moonlet"
local fail = common.fail

local read = {}

-- Calls f for each tensor that is optimised with what belongs to it, of `kinds` kinds, which stand
-- together by kind; the results stand so too.
local function each(kinds, results, f, ...)
  local given = table.pack(...)
  local count = given.n // kinds
  if given.n % kinds ~= 0 or count == 0 then
    fail("%d inputs behind the first two, expected %d for each tensor", given.n, kinds)
  end
  local out = {}
  for i = 1, count do
    local own = {}
    for k = 1, kinds do
      own[k] = given[(k - 1) * count + i] or fail("an input is missing")
    end
    local new = table.pack(f(table.unpack(own, 1, kinds)))
    for k = 1, results do out[(k - 1) * count + i] = new[k] end
  end
  return table.unpack(out, 1, results * count)
end

-- By the values as they are; what `y` does not depend on has zeros.
function read.Gradient(n, ...)
  local y, count = n.env[n.attributes.y], #(n.attributes.xs or {})
  local xs = { ... }
  for i = 1, count do
    if not ml.is_tensor(xs[i]) or not xs[i].requires_grad then
      fail("its input %d has no gradient", i)
    end
  end
  if not ml.is_tensor(y) then fail "its 'y' is no tensor" end
  if not y.requires_grad then y = nil end
  local out = {}
  if y and count > 0 then
    out = table.pack(ml.grad(y:sum(), table.move(xs, 1, count, 1, {}),
      { create_graph = true, allow_unused = true }))
  end
  for i = 1, count do out[i] = out[i] or ml.zeros_like(xs[i]) end
  return table.unpack(out, 1, count)
end

function read.Adagrad(n, rate, step, ...)
  local a = n.attributes
  local r = rate / (1 + step * (a.decay_factor or 0.0))
  return each(3, 2, function(x, g, h)
    local gradient = x * (a.norm_coefficient or 0.0) + g
    local sum = h + gradient * gradient
    return x - r * gradient / (sum:sqrt() + (a.epsilon or 1e-6)), sum
  end, ...)
end

function read.Adam(n, rate, step, ...)
  local a = n.attributes
  local alpha, beta = a.alpha or 0.9, a.beta or 0.999
  local t = common.number(step, "T")
  local r = t > 0 and rate * (1 - beta ^ t) ^ 0.5 / (1 - alpha ^ t) or rate
  return each(4, 3, function(x, g, v, h)
    local gradient = x * (a.norm_coefficient or 0.0) + g
    local mean = v * alpha + gradient * (1 - alpha)
    local square = h * beta + gradient * gradient * (1 - beta)
    local new = x - r * mean / (square:sqrt() + (a.epsilon or 1e-6))
    return new * (1 - (a.norm_coefficient_post or 0.0)), mean, square
  end, ...)
end

function read.Momentum(n, rate, step, ...)
  local a = n.attributes
  local alpha, mode = a.alpha or fail "it has no alpha", a.mode or "standard"
  local beta = common.number(step, "T") > 0 and (a.beta or fail "it has no beta") or 1
  if mode ~= "standard" and mode ~= "nesterov" then fail("there is no mode '%s'", mode) end
  return each(3, 2, function(x, g, v)
    local gradient = x * (a.norm_coefficient or 0.0) + g
    local new = v * alpha + gradient * beta
    return x - rate * (mode == "nesterov" and gradient + new * alpha or new), new
  end, ...)
end

return read
