-- tests/lua/ops/define_rules_test.lua: derivatives, batches, casts and captures of ops that scripts
-- define, with rules and without, and ml.ops.check.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect
local vmap = ml.func.vmap

local count = 0
local function fresh(rest)
  count = count + 1
  return ("r%d%s"):format(count, rest), "r" .. count
end

local function equal(got, want) expect.truthy(ml.equal(got, want), tostring(got)) end
local function close(got, want)
  expect.truthy(ml.allclose(got, want), ("%s and %s"):format(tostring(got), tostring(want)))
end

local function define(rest, definition)
  local schema, name = fresh(rest)
  definition[1] = schema
  return ml.ops.define(definition), name
end

local function doubles(...) return ml.randn(...):to(ml.float64) end

test("without a rule derivatives go through the body", function()
  local f = define("(Tensor x, float a=1.0) -> Tensor",
    { forward = function(x, a) return x + (x * a):sin():square() / a end })
  local x = doubles(3):requires_grad_(true)
  expect.truthy(ml.autograd.gradcheck(f, { x, 2.0 }, { check_forward_ad = true }))
  expect.truthy(ml.autograd.gradgradcheck(f, { x, 2.0 }))
end)

-- A rule that is off by a factor tells that it is asked.
local function cube(definition)
  definition.forward = function(x) return x ^ 3 end
  return define("(Tensor x) -> Tensor", definition)
end

test("a backward of the script's own", function()
  local saw
  local f, name = cube {
    setup_context = function(ctx, inputs, outputs)
      expect.equal(inputs.n, 1)
      expect.equal(outputs.n, 1)
      ctx:save_for_backward(inputs[1])
    end,
    backward = function(ctx, g)
      saw = ctx.needs_input_grad[1]
      return g * ctx.saved_tensors[1] ^ 2 * 3
    end,
  }
  local x = ml.tensor({ 2.0 }, { dtype = ml.float64, requires_grad = true })
  local y = f(x)
  expect.truthy(tostring(y.grad_fn):find(name:upper() .. "Backward"), tostring(y.grad_fn))
  equal(ml.grad(y, x), ml.tensor({ 12.0 }, { dtype = ml.float64 }))
  expect.equal(saw, true)
  expect.truthy(ml.autograd.gradgradcheck(f, { x }))
  expect.falsy(f(x:detach()).requires_grad)
end)

test("a backward without setup_context finds arguments and results in order", function()
  local f = define("(Tensor x, float a, Tensor y) -> Tensor", {
    forward = function(x, a, y) return x * y * a end,
    backward = function(ctx, g)
      local x, y, result = ctx.saved_tensors[1], ctx.saved_tensors[3], ctx.saved_tensors[4]
      expect.equal(result.shape[1], 2)
      return g * y * ctx.arguments.a, nil, g * x * ctx.arguments.a
    end,
  })
  local x, y = doubles(2):requires_grad_(true), doubles(2):requires_grad_(true)
  expect.truthy(ml.autograd.gradcheck(f, { x, 3.0, y }))
end)

test("gradients as expressions, and as functions", function()
  local f = define("(Tensor x, Tensor w, float a=2.0) -> Tensor", {
    forward = function(x, w, a) return (x * w):exp() * a end,
    grad = { x = "g * y * w", w = function(g, v) return g * v.y * v.x end },
  })
  local x, w = doubles(2, 3):requires_grad_(true), doubles(3):requires_grad_(true)
  -- The gradient of w is summed down to its shape.
  expect.truthy(ml.autograd.gradcheck(f, { x, w, 0.5 }, { check_forward_ad = true }))
  expect.truthy(ml.autograd.gradgradcheck(f, { x, w }))
  local two = define("(Tensor x) -> (Tensor s, Tensor c)", {
    forward = function(z) return z:sin(), z:cos() end,
    grad = { x = "g_s * c - g_c * s" },
  })
  expect.truthy(ml.autograd.gradcheck(two, { x }))
  -- Only what the expressions name is kept.
  local kept = define("(Tensor x) -> Tensor", { forward = function(v) return v:exp() end,
    grad = { x = "g * y" } })
  local leaf = doubles(2):requires_grad_(true)
  local given = leaf * 1
  local y = kept(given)
  given:mul_(5)
  equal(ml.grad(y:sum(), leaf), y:detach())
end)

test("gradients of lists of tensors", function()
  local f = define("(Tensor[] xs, Tensor y) -> Tensor", {
    forward = function(xs, y) return xs[1] * xs[2] * y end,
    grad = { xs = function(g, v) return { g * v.xs[2] * v.y, g * v.xs[1] * v.y } end,
      y = "g * xs[1] * xs[2]" },
  })
  local a, b, c = doubles(2):requires_grad_(true), doubles(2):requires_grad_(true), doubles(2):requires_grad_(true)
  expect.truthy(ml.autograd.gradcheck(function(x, y, z) return f({ x, y }, z) end, { a, b, c }))
  local g = define("(Tensor[] xs) -> Tensor", {
    forward = function(xs) return xs[1] + xs[2] * 2 end,
    backward = function(_, grad) return { grad, grad * 2 } end,
  })
  expect.truthy(ml.autograd.gradcheck(function(x, y) return g { x, y } end, { a, b }))
end)

test("wrong gradients are errors that name the op and the argument", function()
  local f, name = define("(Tensor x) -> Tensor",
    { forward = function(x) return x * 2 end, grad = { x = function() return 3 end } })
  local x = ml.ones(1, { requires_grad = true })
  expect.error(function() ml.grad(f(x):sum(), x) end, name .. ": the gradient of 'x' must be a tensor, got number")
end)

test("a jvp of the script's own is asked", function()
  local asked = 0
  local f = cube {
    grad = { x = "g * x ^ 2 * 3" },
    jvp = function(ctx, t)
      asked = asked + 1
      return t * ctx.saved_for_forward[1] ^ 2 * 3 + ctx.saved_for_forward[2] * 0
    end,
  }
  local g = cube {
    setup_context = function(ctx, inputs)
      ctx:save_for_backward(inputs[1])
      ctx:save_for_forward(inputs[1])
    end,
    backward = function(ctx, grad) return grad * ctx.saved_tensors[1] ^ 2 * 3 end,
    jvp = function(ctx, t)
      asked = asked + 1
      return t * ctx.saved_for_forward[1] ^ 2 * 3
    end,
  }
  local x = ml.tensor({ 2.0 }, { dtype = ml.float64 })
  for i, each in ipairs { f, g } do
    local _, tangent = ml.func.jvp(each, { x }, { ml.ones_like(x) })
    expect.equal(asked, i)
    expect.equal(tangent:item(), 12)
  end
end)

test("vmap runs the body on batches, or the rule", function()
  local plain = define("(Tensor x, float a=2.0) -> Tensor", { forward = function(x, a) return (x * a):sum() end })
  local x = ml.randn(4, 3)
  close(vmap(plain)(x), (x * 2):sum(2))
  local asked = 0
  local rule = {
    forward = function(v) return v:sum() end,
    vmap = function(info, in_dims, v)
      asked = asked + 1
      expect.equal(info.batch_size, 4)
      return v:movedim(in_dims[1], 1):sum(2), 1
    end,
  }
  local f = define("(Tensor x) -> Tensor", rule)
  close(vmap(f)(x), x:sum(2))
  expect.equal(asked, 1)
  -- Where samples are differentiated by themselves, the body is.
  local per_sample = vmap(ml.func.grad(f))(x)
  equal(per_sample, ml.ones(4, 3))
  local g = cube { grad = { x = "g * x ^ 2 * 3" } }
  close(vmap(ml.func.grad(function(v) return g(v):sum() end))(x), 3 * x ^ 2)
  local outside = ml.randn(4, 3):requires_grad_(true)
  close(ml.grad(vmap(g)(outside):sum(), outside), 3 * outside ^ 2)
end)

test("an opaque op has no gradient but its own, and runs sample by sample", function()
  local calls = 0
  local function read_values(x)
    calls = calls + 1
    local values = x:tolist()
    for i, v in ipairs(values) do values[i] = v * v end
    return ml.tensor(values, { dtype = x.dtype })
  end
  local f, name = define("(Tensor x) -> Tensor", { forward = read_values, opaque = true })
  local x = ml.tensor { 1.0, 2 }
  equal(f(x), x * x)
  local leaf = x:clone():requires_grad_(true)
  local y = f(leaf)
  expect.truthy(y.requires_grad)
  expect.error(function() y:sum():backward() end, name:upper() .. ".*no backward")
  calls = 0
  equal(vmap(f)(ml.tensor { { 1.0, 2 }, { 3, 4 } }), ml.tensor { { 1.0, 4 }, { 9, 16 } })
  expect.equal(calls, 2)
  local g = define("(Tensor x) -> Tensor", { forward = read_values, opaque = true, grad = { x = "2 * g * x" } })
  equal(ml.grad(g(leaf):sum(), leaf), x * 2)
end)

test("ops that are not differentiable record nothing", function()
  local f = define("(Tensor x) -> Tensor", { forward = function(x) return x * 2 end, differentiable = false })
  expect.falsy(f(ml.ones(2, { requires_grad = true })).requires_grad)
end)

test("autocast casts by the policy, and what the op is made of runs without", function()
  local dtypes = {}
  local function definition(policy)
    return { autocast = policy, forward = function(x, w)
      dtypes[1] = x.dtype
      local y = x:matmul(w)
      dtypes[2] = y.dtype
      return y
    end }
  end
  local x, w = ml.randn(2, 2), ml.randn(2, 2)
  local low = define("(Tensor x, Tensor w) -> Tensor", definition "lower_precision")
  ml.autocast({ dtype = ml.bfloat16 }, low, x, w)
  expect.equal(dtypes[1], "bfloat16")
  local high = define("(Tensor x, Tensor w) -> Tensor", definition "float32")
  ml.autocast({ dtype = ml.bfloat16 }, high, x:bfloat16(), w:bfloat16())
  expect.equal(dtypes[1], "float32")
  expect.equal(dtypes[2], "float32")
  local device = define("(Tensor x, Tensor w) -> Tensor", definition { device = "float32" })
  ml.autocast({ dtype = ml.bfloat16 }, device, x, w)
  expect.equal(dtypes[1], "float32")
  expect.equal(dtypes[2], "bfloat16")
end)

test("modes see one call, and the ops that it is made of", function()
  local f, name = define("(Tensor x, Dim dim=1) -> Tensor", { forward = function(x, dim) return (x + 1):sum(dim) end })
  local seen, dim = {}, nil
  local y = ml.override(function(op, arguments, call)
    seen[#seen + 1] = op.name
    if op.name == name then dim = arguments.dim end
    return call(arguments)
  end, f, ml.ones(2, 3), 2)
  expect.equal(table.concat(seen, " "), name .. " add sum")
  expect.equal(dim, 2)
  equal(y, ml.ones(2) * 6)
  -- A handler may change the arguments, or answer.
  y = ml.override(function(op, arguments, call)
    if op.name == name then arguments.dim = 1 end
    return call(arguments)
  end, f, ml.ones(2, 3), 2)
  equal(y, ml.ones(3) * 4)
  y = ml.override(function(op, arguments, call)
    if op.name == name then return ml.zeros(1) end
    return call(arguments)
  end, f, ml.ones(2, 3))
  equal(y, ml.zeros(1))
  expect.error(function()
    ml.override(function(op, arguments, call)
      if op.name == name then return 3 end
      return call(arguments)
    end, f, ml.ones(2, 3))
  end, name .. ": result must be a tensor")
  local events = ml.profile(function() f(ml.ones(2, 3)) end).events
  local found = 0
  for _, event in ipairs(events) do if event.name == name then found = found + event.count end end
  expect.equal(found, 1)
end)

test("compiled functions have the bits of eager ones, and watch the definition", function()
  local factor = 2
  local f, name = define("(Tensor x) -> Tensor", { forward = function(x) return (x * factor + 1):tanh() end })
  local function use(x) return ml[name](x) * 3 end
  local fast = ml.compile(use)
  local x = ml.randn(5)
  for _ = 1, 4 do equal(fast(x), use(x)) end
  expect.truthy(fast:explain():find "compiled", fast:explain())
  expect.truthy(fast:explain():find "4 ops", fast:explain())
  -- What the body reads is watched.
  factor = 5
  for _ = 1, 4 do equal(fast(x), (x * 5 + 1):tanh() * 3) end
  ml.ops.define { name .. "(Tensor x) -> Tensor", forward = function(v) return v - 1 end, replace = true }
  for _ = 1, 4 do equal(fast(x), (x - 1) * 3) end
  expect.truthy(f ~= nil)
end)

test("compiled training through a defined op", function()
  local f = define("(Tensor x) -> Tensor", { forward = function(x) return (x * 2):sigmoid() end })
  local function loss(x) return f(x):square():sum() end
  local fast = ml.compile(loss)
  for _ = 1, 4 do
    local a, b = ml.ones(3, { requires_grad = true }), ml.ones(3, { requires_grad = true })
    fast(a):backward()
    loss(b):backward()
    equal(a.grad, b.grad)
  end
  -- With a derivative of its own the function stays eager where it is recorded, and is right.
  local g = cube { grad = { x = "g * x ^ 2 * 3" } }
  local own = ml.compile(function(x) return g(x):sum() end)
  for _ = 1, 4 do
    local a = ml.tensor({ 2.0 }, { requires_grad = true })
    own(a):backward()
    equal(a.grad, ml.tensor { 12.0 })
  end
  local without = ml.compile(function(x) return g(x):sum() end)
  for _ = 1, 4 do equal(without(ml.tensor { 2.0 }), ml.tensor(8.0)) end
  expect.truthy(without:explain():find "ops? in", without:explain())
end)

test("programs hold the ops of the body", function()
  local f = define("(Tensor x) -> Tensor", { forward = function(x) return (x + 1):relu() end })
  local program = ml.export(f, { ml.randn(3) })
  local x = ml.randn(3)
  equal(program(x), f(x))
end)

test("changes in place have tangents, and are captured", function()
  local f, name = define("(Tensor x) -> Tensor", { inplace = true, out = true,
    forward = function(x) return x:sin() * 2 end })
  local change = ml[name .. "_"]
  local x, t = doubles(3), doubles(3)
  local function changed(v)
    local y = v * 1
    change(y)
    return y
  end
  local want, along = ml.func.jvp(f, { x }, { t })
  local got, tangent = ml.func.jvp(changed, { x }, { t })
  equal(got, want)
  close(tangent, along)
  expect.error(function()
    ml.func.jvp(function(v) return f(v, { out = ml.empty(3, { dtype = ml.float64 }) }) end, { x }, { t })
  end, name .. ": out= cannot be used with forward%-mode tangents")
  equal(vmap(changed)(ml.stack { x, t }), f(ml.stack { x, t }))
  expect.error(function() vmap(function(v) return f(v, { out = ml.empty(3) }) end)(ml.stack { x, t }) end,
    "out= cannot be used inside vmap")
  local fast = ml.compile(changed)
  for _ = 1, 4 do equal(fast(x), f(x)) end
  expect.truthy(fast:explain():find "ops in", fast:explain())
  local given = ml.compile(function(v)
    local out = ml.empty(3, { dtype = ml.float64 })
    f(v, { out = out })
    return out + 1
  end)
  for _ = 1, 4 do equal(given(x), f(x) + 1) end
end)

-- Texts made of what schemas are made of are refused, or are ops that can be called.
test("any schema and any expression is taken apart", function()
  ml.manual_seed(5)
  local parts = { "Tensor", "Tensor?", "Tensor[]", "int[2]", "Dim", " x", " y", "(", ")", "->", ",", "=", "1", "{1,2}",
    "\"s\"", "!", "?", "[]", ".", " ", "f", "nil", "\0", "\n", "\255", "float a=1", "Tensor x, " }
  local function random_text(list, most)
    local out = {}
    for i = 1, ml.randint(1, most, { 1 })[1]:item() do out[i] = list[ml.randint(1, #list, { 1 })[1]:item()] end
    return table.concat(out)
  end
  for i = 1, 3000 do
    local text = random_text(parts, 12)
    if i % 2 == 0 then text = ("fuzz.f%d(%s) -> Tensor"):format(i, text) end
    local ok, result = pcall(ml.ops.define, { text, forward = function(...) return (...) end })
    if ok then
      pcall(result, ml.ones(2), 1)
    else
      expect.truthy(tostring(result):find "ops.define", tostring(result))
    end
  end
  local words = { "g", "x", "y", "*", "+", "(", ")", "exp", ".shape", ":sum()", "[1]", "1.5", " and ", "function() end", "{",
    "}", "...", "=", ",", "return ", "--", "\n", "\"", "end " }
  for i = 1, 500 do
    local ok, result = pcall(ml.ops.define, { ("fuzz.e%d(Tensor x) -> Tensor"):format(i),
      forward = function(x) return x * 1 end, grad = { x = random_text(words, 8) } })
    if ok then
      local x = ml.ones(2, { requires_grad = true })
      pcall(function() result(x):sum():backward() end)
    else
      expect.truthy(tostring(result):find "ops.define", tostring(result))
    end
  end
end)

test("workers define ops of their own", function()
  local name = fresh ""
  ml.ops.define { name .. "(Tensor x) -> Tensor", forward = function(x) return x * 2 end }
  local loader = ml.data.DataLoader(ml.data.TensorDataset(ml.ones(4)), { batch_size = 2, num_workers = 1,
    collate_fn = function(batch)
      local own = require "moonlet"
      if not rawget(own, name) then
        own.ops.define { name .. "(Tensor x) -> Tensor", forward = function(x) return x * 10 end }
      end
      return own[name](batch[1][1])
    end })
  local count_of = 0
  for batch in loader:iter() do
    count_of = count_of + 1
    equal(batch, ml.tensor(10.0))
  end
  expect.equal(count_of, 2)
  equal(ml[name](ml.ones(1)), ml.tensor { 2.0 })
end)

test("checkpoints run the body again", function()
  local f = define("(Tensor x) -> Tensor", { forward = function(x) return x:sin():exp() end })
  local a = ml.ones(3, { requires_grad = true })
  ml.utils.checkpoint(f, a):sum():backward()
  local b = ml.ones(3, { requires_grad = true })
  f(b):sum():backward()
  equal(a.grad, b.grad)
end)

test("ops.check passes what is right", function()
  local f = define("(Tensor x, float a=1.0) -> Tensor", { inplace = true, out = true, method = true,
    dtypes = "floating", forward = function(x, a) return x + (x * a):sin():square() / a end })
  local outcomes = ml.ops.check(f, { { ml.randn(2, 3) }, { ml.randn(4), 2.0 } })
  for _, name in ipairs { "results", "interception", "gradient", "second_gradient", "noncontiguous", "empty",
    "dtypes", "in_place", "out", "vmap", "compiled" } do
    expect.equal(outcomes[name], "passed", name)
  end
  expect.equal(ml.ops.check(function(x) return x:sum() end, { { ml.randn(3) } }).gradient, "passed")
end)

test("ops.check finds what is wrong", function()
  local function wrong(check, definition, sample)
    local f, name = define("(Tensor x) -> Tensor", definition)
    local ok, message = pcall(ml.ops.check, f, { sample or { ml.randn(2, 3) } })
    expect.truthy(not ok and message:find(("ops.check: %s: %s: sample 1"):format(name, check)), tostring(message))
    local outcomes = ml.ops.check(f, { sample or { ml.randn(2, 3) } }, { raise_exception = false })
    expect.truthy(outcomes[check]:find "sample 1", outcomes[check])
    expect.falsy(ml.ops.check(f, { sample or { ml.randn(2, 3) } }, { raise_exception = false, skip = { check } })[check])
  end
  local calls = 0
  wrong("results", { forward = function(x)
    calls = calls + 1
    return x * calls
  end })
  wrong("gradient", { forward = function(x) return x * 2 end, grad = { x = "g * 3" } })
  wrong("gradient", { forward = function(x) return x:detach() * 2 end })
  wrong("second_gradient", { forward = function(x) return x ^ 3 end,
    backward = function(ctx, g) return g * ctx.saved_tensors[1]:detach() ^ 2 * 3 end })
  wrong("noncontiguous", { forward = function(x) return x * (x:is_contiguous() and 1 or 2) end })
  wrong("dtypes", { forward = function(x) return x * (x.dtype == ml.bfloat16 and 2 or 1) end })
  wrong("vmap", { forward = function(x) return x * 2 end, vmap = function(_, dims, x) return x * 3, dims[1] end })
  expect.error(function() ml.ops.check(3, { {} }) end, "ops.check: expected a function")
  expect.error(function() ml.ops.check("exp_", {}) end, "ops.check")
  expect.error(function() ml.ops.check(ml.exp, {}) end, "expected samples")
  expect.error(function() ml.ops.check(ml.exp, { { ml.ones(1) } }, { skip = { "grdient" } }) end,
    "did you mean 'gradient'")
end)

harness.run(arg[1])
