-- tests/lua/autograd/custom_function_test.lua: functions whose derivative a script writes: values, saved
-- tensors, changes in place, views, several results, errors and lifetimes.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local test, expect = harness.test, harness.expect

local Function = ml.autograd.Function

local function leaf(values)
  return ml.tensor(values, { dtype = ml.float64, requires_grad = true })
end

local function list(t) return t:detach():tolist() end

local Cube = Function {
  name = "Cube",
  forward = function(ctx, x)
    ctx:save_for_backward(x)
    return x * x * x
  end,
  backward = function(ctx, g)
    local x = ctx.saved_tensors[1]
    return g * x * x * 3
  end,
}

test("a function has its own gradient, and a second one when it is made of ops", function()
  local x = leaf { 1, 2, -3 }
  local y = Cube(x)
  expect.equal(y.grad_fn.name, "CubeBackward")
  expect.equal(list(y), { 1, 8, -27 })
  expect.truthy(y.grad_fn.saved_tensors[1] == x and y.grad_fn._saved_tensors.n == 1)
  local g = ml.grad(y:sum(), x, { create_graph = true })
  expect.equal(list(g), { 3, 12, 27 })
  expect.equal(list(ml.grad(g:sum(), x)), { 6, 12, -18 })
  Cube.apply(x):sum():backward()
  expect.equal(list(x.grad), { 3, 12, 27 })
  expect.equal(tostring(Cube), "autograd.Function Cube")
  expect.equal(Function { forward = function(_, t) return t * 1 end }(x).grad_fn.name,
    "FunctionBackward")
end)

test("forward runs without recording, backward with it only under create_graph", function()
  local modes = {}
  local f = Function {
    forward = function(_, x)
      modes[#modes + 1] = ml.is_grad_enabled()
      return x * 2
    end,
    backward = function(_, g)
      modes[#modes + 1] = ml.is_grad_enabled()
      return g * 2
    end,
  }
  local x = leaf { 1 }
  f(x):sum():backward()
  ml.grad(f(x):sum(), x, { create_graph = true })
  expect.equal(modes, { false, false, false, true })
  expect.equal(f(ml.ones(2)).grad_fn, nil)
  expect.equal(ml.no_grad(f.apply, x).requires_grad, false)
end)

test("arguments that are no tensors, and missing gradients", function()
  local needs
  local f = Function {
    name = "Scale",
    forward = function(ctx, x, factor, names, w)
      ctx.factor, ctx.names = factor, names
      needs = table.concat({ tostring(ctx.needs_input_grad[1]), tostring(ctx.needs_input_grad[2]),
        tostring(ctx.needs_input_grad[4]), #ctx.needs_input_grad }, " ")
      return x * factor + w
    end,
    backward = function(ctx, g) return g * ctx.factor end,
  }
  local x, w = leaf { 1, 2 }, ml.ones(2, { dtype = ml.float64 })
  f(x, 3, { "a" }, w):sum():backward()
  expect.equal(needs, "true false false 4")
  expect.equal(list(x.grad), { 3, 3 })
  local v = leaf { 1, 1 }
  local gx, gv = ml.grad(f(x, 2, nil, v):sum(), { x, v }, { allow_unused = true })
  expect.equal(list(gx), { 2, 2 })
  expect.equal(gv, nil)
end)

test("several results: gradients are materialised unless told not to", function()
  local seen
  local function make(materialize)
    return Function {
      forward = function(ctx, x)
        if materialize ~= nil then ctx:set_materialize_grads(materialize) end
        return x * 2, "text", x * 3, x:gt(0)
      end,
      backward = function(_, a, text, b, mask)
        seen = { a and list(a), text, b and list(b), mask and mask.dtype, n = 4 }
        return (a or 0) * 2 + (b and b * 3 or 0)
      end,
    }
  end
  local x = leaf { 1, -2 }
  local a, text, b, mask = make()(x)
  expect.equal(text, "text")
  expect.equal({ a.requires_grad, b.requires_grad, mask.requires_grad }, { true, true, false })
  a:sum():backward()
  expect.equal(seen, { { 1, 1 }, nil, { 0, 0 }, "bool", n = 4 })
  expect.equal(list(x.grad), { 2, 2 })
  a = make(false)(x)
  a:sum():backward()
  expect.equal(seen, { { 1, 1 }, nil, nil, nil, n = 4 })
  local c, _, d = make()(x)
  expect.equal(list((ml.grad((c * d):sum(), x))), { 12, -24 })
end)

test("results marked as not differentiable have no gradient", function()
  local f = Function {
    forward = function(ctx, x)
      local a, b = x * 2, x * 3
      ctx:mark_non_differentiable(b)
      return a, b, x
    end,
    backward = function(_, g, h, i) return g * 2 + h * 100 + i end,
  }
  local x = leaf { 1 }
  local a, b, same = f(x)
  expect.equal(b.requires_grad, false)
  expect.equal(b.is_leaf, true)
  expect.truthy(same ~= x and same.requires_grad and x.is_leaf)
  expect.equal(list((ml.grad((a + b + same):sum(), x))), { 3 })
end)

test("setup_context gets the arguments and results", function()
  local f = Function {
    name = "Power",
    forward = function(x, n) return x ^ n, n end,
    setup_context = function(ctx, inputs, outputs)
      ctx:save_for_backward(inputs[1], nil, outputs[1])
      ctx.n, ctx.counts = inputs[2], { inputs.n, outputs.n }
    end,
    backward = function(ctx, g)
      local saved = ctx.saved_tensors
      expect.equal({ saved.n, ctx.counts[1], ctx.counts[2] }, { 3, 2, 2 })
      expect.equal(saved[2], nil)
      return g * ctx.n * saved[3] / saved[1]
    end,
  }
  local x = leaf { 2, 3 }
  f(x, 3):sum():backward()
  expect.equal(list(x.grad), { 12, 27 })
end)

test("saved tensors have their history, their version is checked, and they are freed", function()
  local f = Function {
    name = "Exp",
    forward = function(ctx, x)
      local y = x:exp()
      ctx:save_for_backward(y)
      return y
    end,
    backward = function(ctx, g) return g * ctx.saved_tensors[1] end,
  }
  local x = leaf { 0.5 }
  local g = ml.grad(f(x), x, { create_graph = true })
  local h = ml.grad(g, x, { create_graph = true })
  expect.near(ml.grad(h, x):item(), math.exp(0.5), 1e-12)
  local a = x * 1
  local y = Cube(a)
  a:add_(1)
  expect.error(function() y:backward() end, "CubeBackward saved for its gradient was changed")
  y = Cube(x * 1)
  y:backward()
  local _, message = pcall(y.backward, y)
  expect.truthy(message:find("freed already", 1, true), message)
  y = Cube(x)
  y:backward(nil, { retain_graph = true })
  y:backward()
  local plain = Function { forward = function(_, t) return t * 2 end,
    backward = function(_, t) return t * 2 end }(x)
  plain:backward()
  plain:backward()
  expect.near(x.grad:item(), 3 * (1.5 ^ 2 * 0 + 0.25 * 3) + 4, 1e-12)
end)

local Double = Function {
  name = "Double",
  forward = function(ctx, x, k)
    ctx.k = k
    ctx:mark_dirty(x)
    return x:mul_(k)
  end,
  backward = function(ctx, g) return g * ctx.k end,
}

test("changes in place become the history of what was changed", function()
  local a = leaf { 1, 2, 3 }
  local b = a * a
  local c = Double(b, 5)
  expect.truthy(rawequal(b, c))
  expect.equal(b.grad_fn.name, "DoubleBackward")
  b:sum():backward()
  expect.equal(list(a.grad), { 10, 20, 30 })
  a.grad = nil
  b = a * a
  local v = b[{ { 1, 2 } }]
  Double(v, 5)
  expect.equal(b.grad_fn.name, "CopySlices")
  b:mul(ml.tensor({ 1.0, 10.0, 100.0 }, { dtype = ml.float64 })):sum():backward()
  expect.equal(list(a.grad), { 10, 200, 600 })
end)

test("a changed view may be any argument, and its new value may be saved", function()
  local f = Function {
    name = "ScaleBy",
    forward = function(ctx, w, x)
      x:mul_(w)
      ctx:mark_dirty(x)
      ctx:save_for_backward(x, w)
      return x
    end,
    backward = function(ctx, g)
      local x, w = table.unpack(ctx.saved_tensors)
      return (g * x / w):sum():reshape(1), g * w
    end,
  }
  local a, w = leaf { 1, 2, 3 }, leaf { 2 }
  local b = a * a
  f(w, b[{ { 1, 2 } }])
  b:square():sum():backward()
  expect.equal(list(b), { 2, 8, 9 })
  expect.equal(list(a.grad), { 16, 128, 108 })
  expect.equal(list(w.grad), { 68 })
end)

test("a view that is changed has its new history though it was looked at before", function()
  for _, view in ipairs { function(h) return h[1] end, function(h) return h:transpose(1, 2) end } do
    local f = Function {
      forward = function(ctx, t)
        ctx:mark_dirty(t)
        t:mul_(2)
        expect.truthy(t.requires_grad)
        return t
      end,
      backward = function(_, g) return g * 10 end,
    }
    local x = ml.ones(2, 2, { requires_grad = true })
    local h = x * 1
    local part = view(h)
    f(part)
    part:sum():backward()
    expect.equal(x.grad:sum():item(), part:numel() * 10)
  end
end)

test("what may not be changed in place is refused", function()
  local x = leaf { 1, 2 }
  expect.error(function() Double(x, 2) end, "a leaf that requires grad")
  local unreturned = Function {
    name = "Lost",
    forward = function(ctx, t)
      ctx:mark_dirty(t)
      return t:mul_(2) * 1
    end,
    backward = function(_, g) return g end,
  }
  expect.error(function() unreturned(x * 1) end, "Lost changes an argument in place and does not")
  local other = Function {
    name = "Other",
    forward = function(ctx, t)
      local y = t * 2
      ctx:mark_dirty(y)
      return y
    end,
    backward = function(_, g) return g end,
  }
  expect.error(function() other(x * 1) end, "a tensor that is no argument of it")
  local two = Function {
    name = "Two",
    forward = function(ctx, t)
      ctx:mark_dirty(t)
      return t:mul_(2), t * 1
    end,
    backward = function(_, g) return g end,
  }
  expect.error(function() two((x * 1)[{ { 1, 1 } }]) end, "may return no other tensor")
end)

test("a result that is a view or an argument cannot be changed in place", function()
  local f = Function {
    name = "Flat",
    forward = function(_, x) return x:view(-1), x end,
    backward = function(_, g, h) return g:view(2, 2) * 3 + h end,
  }
  local x = leaf { { 1, 2 }, { 3, 4 } }
  local h = x * 1
  local flat, same = f(h)
  expect.equal(list((ml.grad(flat:sum() + same:sum(), x))), { { 4, 4 }, { 4, 4 } })
  expect.error(function() flat:mul_(2) end, "returned by a custom function")
  expect.error(function() same:mul_(2) end, "returned by a custom function")
  expect.error(function() flat:view(2, 2):mul_(2) end, "returned by a custom function")
  h:mul_(2)
  expect.error(function() return flat * 2 end, "returned by a custom function")
end)

test("one tensor returned twice is two results", function()
  local f = Function {
    forward = function(_, x)
      local y = x * 1
      return y, y
    end,
    backward = function(_, g, h) return g + h * 10 end,
  }
  local x = leaf { 1 }
  local a, b = f(x)
  expect.equal(list((ml.grad((a * 2 + b * 3):sum(), x))), { 32 })
end)

test("errors name the lines of the script and where forward was called", function()
  local x = leaf { 1, 2 }
  local function failing(backward, ...)
    local y = Function { name = "Bad", forward = function(_, t) return t * 1 end,
      backward = backward }(x, ...)
    local _, message = pcall(function() y:sum():backward() end)
    return message
  end
  local line = debug.getinfo(1, "l").currentline + 1
  local message = failing(function() error "boom" end)
  local calls = "custom_function_test.lua:" .. (line - 6)
  expect.truthy(message:find(("custom_function_test.lua:%d: boom"):format(line), 1, true), message)
  expect.truthy(message:find("its forward was called at", 1, true)
    and message:find(calls, 1, true), message)
  message = failing(function() return ml.ones(3) end)
  expect.truthy(message:find("shape (3,) for argument 1, a tensor of shape (2,)", 1, true)
    and message:find(calls, 1, true), message)
  message = failing(function(_, g) return g, g, g end, 3)
  expect.truthy(message:find("argument 2, which is no tensor", 1, true), message)
  message = failing(function(_, g) return g, g end)
  expect.truthy(message:find("argument 2, and its forward took 1", 1, true), message)
  message = failing(function() return "text" end)
  expect.truthy(message:find("BadBackward gave string for argument 1", 1, true), message)
  message = failing(function() return ml.ones(2, { dtype = ml.int64 }) end)
  expect.truthy(message:find("a gradient of dtype int64", 1, true), message)
  message = failing()
  expect.truthy(message:find("Bad: it has no backward", 1, true), message)
  local thrown = { "a table" }
  expect.truthy(rawequal(failing(function() error(thrown) end), thrown))
end)

test("definitions and contexts refuse what they do not know", function()
  expect.error(function() Function { backward = print } end, "'forward' is missing")
  expect.error(function() Function { forward = print, backwards = print } end,
    "did you mean 'backward'")
  expect.error(function() Function { forward = print, vmap = 3 } end, "'vmap': a function is expected")
  expect.error(function() Function(print) end, "a table { forward =")
  expect.error(function() Function { forward = print, generate_vmap_rule = true } end,
    "needs the form with 'setup_context'")
  expect.error(function() Cube:apply(leaf { 1 }) end, "without a colon")
  local f = Function { forward = print, jvp = tostring, vmap = type }
  expect.truthy(f.jvp == tostring and f.vmap == type and f.forward == print)
  local ctx
  local keep = Function {
    forward = function(c, x)
      ctx = c
      expect.error(function() c:save_for_backward(3) end, "save_for_backward")
      expect.error(function() c.needs_input_grad = {} end, "cannot be assigned")
      expect.error(function() c:set_materialize_grads(1) end, "true or false is expected")
      expect.equal(c.nothing, nil)
      return x * 1
    end,
    backward = function(_, g) return g end,
  }
  keep(leaf { 1 })
  expect.error(function() ctx:save_for_backward(leaf { 1 }) end, "forward has ended")
  expect.error(function() ctx.save_for_backward(3) end)
end)

test("once_differentiable runs without recording and refuses a second derivative", function()
  local recorded
  local f = Function {
    name = "Once",
    forward = function(ctx, x)
      ctx:save_for_backward(x)
      return x * x
    end,
    backward = ml.autograd.once_differentiable(function(ctx, g)
      recorded = ml.is_grad_enabled()
      return g * ctx.saved_tensors[1] * 2
    end),
  }
  local x = leaf { 3 }
  expect.equal(list((ml.grad(f(x), x))), { 6 })
  local g = ml.grad((f(x) * x):sum(), x, { create_graph = true })
  expect.equal(recorded, false)
  expect.error(function() g:sum():backward() end, "cannot be differentiated again")
end)

test("functions inside functions, and backward inside backward", function()
  local x = leaf { 2 }
  local outer = Function {
    name = "Outer",
    forward = function(ctx, t)
      ctx:save_for_backward(t)
      return Cube(t)
    end,
    backward = function(ctx, g)
      local _ <close> = ml.enable_grad()
      local t = ctx.saved_tensors[1]:detach():requires_grad_(true)
      local inner = ml.grad(Cube(t):sum(), t)
      local other = leaf { 1 }
      Cube(other):backward()
      return g * inner
    end,
  }
  outer(x):backward()
  expect.equal(list(x.grad), { 12 })
end)

test("forward may yield, and coroutines keep their own calls", function()
  local f = Function {
    forward = function(ctx, x)
      ctx.k = coroutine.yield "asked"
      return x * ctx.k
    end,
    backward = function(ctx, g) return g * ctx.k end,
  }
  local x = leaf { 1 }
  local co = coroutine.create(f.apply)
  local _, asked = coroutine.resume(co, x)
  expect.equal(asked, "asked")
  expect.truthy(ml.is_grad_enabled())
  local _, y = coroutine.resume(co, 7)
  y:backward()
  expect.equal(list(x.grad), { 7 })
end)

test("contexts go with their graph, and stay while it may run", function()
  local alive = setmetatable({}, { __mode = "k" })
  local f
  local function collected()
    for _ = 1, 4 do
      collectgarbage()
      ml.no_grad(f.apply, ml.ones(1))  -- lets go of what the tape has dropped
    end
    return next(alive) == nil
  end
  f = Function {
    forward = function(ctx, x)
      ctx.big = {}
      alive[ctx.big] = x.requires_grad or nil
      return x * 2
    end,
    backward = function(ctx, g) return ctx.big and g * 2 end,
  }
  local x = leaf { 1 }
  f(x)
  expect.truthy(collected(), "a dropped graph")
  local y = f(x)
  expect.falsy(collected())
  y:backward(nil, { retain_graph = true })
  expect.falsy(collected())
  y:backward()
  expect.truthy(collected(), "a used graph")
  y = f(x) * 1
  expect.falsy(collected())
  expect.truthy(y.requires_grad)
  y = nil  -- luacheck: ignore
  expect.truthy(collected(), "a graph behind another result")
end)

harness.run()
