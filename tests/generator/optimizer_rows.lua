-- tests/generator/optimizer_rows.lua: what is made of an optimiser's row, and what is said of one that
-- is wrong.
-- usage: lua optimizer_rows.lua ROOT

local root = arg[1]
package.path = root .. "/?.lua;" .. package.path

local failures = 0
local function expect(got, wanted)
  if got == wanted then return end
  failures = failures + 1
  print(("got    %s\nwanted %s"):format(got, wanted))
end

-- The generator's module, as if these were the rows.
local function generator_of(rows)
  package.loaded["tensor.functors.optimizers"], package.loaded["tensor.ops.gen.optimizers"] = nil, nil
  local source = require "tensor.functors.optimizers"
  source.rows, source.common_arguments = rows, { "maximize=false" }
  source.common_update = "if maximize then\ng = -g\nend\n"
  return require "tensor.ops.gen.optimizers"
end

local function row(update, numbers)
  return { name = "toy", doc = "A step.", states = { { "mean" }, { "most", option = "largest" } },
    counts = { { "product", 1.0 } }, arguments = { "lr", "decay=0.5", "nesterov=false" },
    numbers = numbers or "", options = { "betas[1]=0.9", "power=2" }, update = update, sample = "0.1" }
end

local good = row [[
  mean = lerp(mean, g, 1 - decay)
  local change = 0.5 * mean
  if nesterov then
    change = change + g
  else
    if most then
      most = maximum(most, abs(g))
    end
  end
  if decay ~= 0 then
    x = x - where(gt(decay, 1), lr * change, -g)
  end
]]
expect(table.concat(generator_of { good }.update(good), "\n"), [[
if (maximize) {
  g = -g;
}
mean = lerp_value(mean, g, Number{1} - decay);
V change = Number{0.5} * mean;
if (nesterov) {
  change = change + g;
} else {
  if (c.has_most) {
    most = maximum_value(most, vabs(g));
  }
}
if (decay != Number{0}) {
  x = x - where_value<V>(gt_value<V>(decay, Number{1}), lr * change, -g);
}]])

local op = generator_of { good }.op(good)
expect(op[1], "toy_step(Tensor[]! x, Tensor[] gradient, Tensor[]! mean, Tensor?[]! most, float lr, "
  .. "float decay=0.5, bool nesterov=false, bool maximize=false) -> ()")

good.numbers = [[
  local rest = 1 - pow(betas[1], step)
  product = product * rest
  decay = maximum(where(gt(product, 2), sqrt(rest), 0.5), power)
]]
expect(table.concat(generator_of { good }.numbers(good), "\n"), [[
const double rest = 1.0 - fn::vpow(betas1, step);
product = product * rest;
decay = larger(fn::select(is_above(product, 2.0), fn::vsqrt(rest), 0.5), power);]])

op = generator_of { good }.capturable_op(good)
expect(op[1], "toy_capturable_step(Tensor[]! x, Tensor[] gradient, Tensor[]! mean, Tensor?[]! most, "
  .. "Tensor[]! step, Tensor[]! product, Tensor?[] given, float betas1, float power, float lr, "
  .. "bool nesterov=false, bool maximize=false, bool decoupled=false, Tensor? found_inf=nil) -> ()")

for numbers, wanted in pairs {
  ["decay = rate"] = "'rate' is no argument, state or local: rate",
  ["decay = cbrt(lr)"] = "there is no function 'cbrt': cbrt(lr)",
  ["decay = lr ^ 2"] = "cannot read '^' in: lr ^ 2",
  ["other = lr"] = "'other' is no argument or count: other = lr",
  ["decay, lr = 1, 2"] = "cannot read the line: decay, lr = 1, 2",
  ["decay = nesterov"] = "'nesterov' is no argument, state or local: nesterov",
} do
  local wrong = row("x = g", numbers)
  local ok, got = pcall(generator_of { wrong }.numbers, wrong)
  expect(ok and "no error" or got, "tensor/functors/optimizers.lua: toy: " .. wanted)
end

for update, wanted in pairs {
  ["x = x - rate * g"] = "'rate' is no argument, state or local: x - rate * g",
  ["x = x - cbrt(g)"] = "there is no function 'cbrt': x - cbrt(g)",
  ["x = x % g"] = "cannot read '%' in: x % g",
  ["x = x - .5 * g"] = "cannot read '.' in: x - .5 * g",
  ["lr = 1"] = "cannot read the line: lr = 1",
  ["y = x"] = "cannot read the line: y = x",
  ["if mean then\nx = g\nend"] = "cannot ask 'if mean'",
  ["if lr then\nx = g\nend"] = "cannot ask 'if lr'",
  ["if nesterov ~= 0 then\nx = g\nend"] = "cannot ask 'if nesterov ~= 0'",
  ["if nesterov then\nx = g"] = "an 'if' without its 'end'",
  ["x = g\nend"] = "an 'end' without its 'if'",
} do
  local wrong = row(update)
  local ok, got = pcall(generator_of { wrong }.update, wrong)
  expect(ok and "no error" or got, "tensor/functors/optimizers.lua: toy: " .. wanted)
end

print(failures == 0 and "optimizer rows: ok" or "optimizer rows: failed")
os.exit(failures == 0 and 0 or 1)
