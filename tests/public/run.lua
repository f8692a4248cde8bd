-- tests/public/run.lua: behaviour that people reported of PyTorch, Torch7, MLX and others, as cases of
-- our own. A case is a row of a file beside this one:
--
--   { source, right, reason, code }
--
-- The source is where the report is; `code` is an expression, or statements with a return, in an
-- environment that has `ml`, `nn`, `F`, `optim`, `func`, `inf`, `nan` and what `words` has below. Its
-- value must be `right`: a number, a boolean, a string, an array of these, or { error = "text" } for
-- an error with that text. Numbers agree to `tolerance` (1e-5), relative above 1. A new case is a line.
-- usage: moonlet run.lua [PART-OF-SOURCE]

local here = arg[0]:match "^(.*)/" or "."
package.path = here .. "/?.lua;" .. here .. "/../lua/?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"

local words = { ml = ml, nn = ml.nn, F = ml.nn.functional, optim = ml.optim, func = ml.func,
  inf = math.huge, nan = 0 / 0 }

--- A float64 tensor.
function words.double(values) return ml.tensor(values, { dtype = ml.float64 }) end

--- A leaf that requires grad, float32 unless a dtype is given.
function words.leaf(values, dtype)
  return ml.tensor(values, { dtype = dtype or ml.float32, requires_grad = true })
end

--- The gradient of f's sum at some values.
function words.gradient(f, values, dtype)
  local x = words.leaf(values, dtype)
  f(x):sum():backward()
  return x.grad
end

--- An SGD of one parameter.
function words.sgd(lr) return ml.optim.SGD({ ml.zeros(1):requires_grad_() }, { lr = lr }) end

--- The learning rates of some steps of a schedule, before each.
function words.rates(optimizer, schedule, count)
  local out = {}
  for i = 1, count do
    out[i] = optimizer.param_groups[1].lr
    optimizer:step()
    schedule:step()
  end
  return out
end

local function flat(value, out)
  if ml.is_tensor(value) then value = value:tolist() end
  if type(value) ~= "table" then
    out[#out + 1] = value
  else
    for _, item in ipairs(value) do flat(item, out) end
  end
  return out
end

local function agree(got, right, tolerance)
  if type(right) ~= "number" then return got == right end
  if type(got) ~= "number" then return false end
  if right ~= right then return got ~= got end
  return got == right or math.abs(got - right) <= tolerance * math.max(1, math.abs(right))
end

setmetatable(words, { __index = _G })

local function compile(code)
  local env = setmetatable({}, { __index = words })
  return load("return " .. code, "=code", "t", env) or assert(load(code, "=code", "t", env))
end

local function check(row)
  local f = compile(row[4])
  local right = row[2]
  ml.manual_seed(7)
  if type(right) == "table" and right.error then return harness.expect.error(f, right.error) end
  local got, expected = flat(f(), {}), flat(right, {})
  harness.expect.equal(#got, #expected, "elements")
  for i, number in ipairs(expected) do
    if not agree(got[i], number, row.tolerance or 1e-5) then
      error(("element %d is %s, expected %s (%s)"):format(i, tostring(got[i]), tostring(number), row[3]), 0)
    end
  end
end

local count = 0
for _, part in ipairs { "derivatives", "numbers", "layers", "training" } do
  for i, row in ipairs(require(part)) do
    assert(#row == 4 and row[3] ~= "", ("%s.lua: row %d needs a source, a right value, a reason and code")
      :format(part, i))
    count = count + 1
    harness.test(("%s: %s"):format(row[1], row[4]:gsub("%s+", " "):sub(1, 60)), function() check(row) end)
  end
end
assert(count > 0, "no cases")
harness.run()
