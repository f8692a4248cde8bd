-- tests/lua/autograd/graph_test.lua: the graph as scripts see it: nodes, their hooks and saved values, edges,
-- backward into some inputs, inference mode, and hooks of several tensors.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local test, expect = harness.test, harness.expect
local graph = ml.autograd.graph

local function leaf(values)
  return ml.tensor(values, { dtype = ml.float64, requires_grad = true })
end

local function list(t) return t:detach():tolist() end

test("a node knows its name, its number and where its gradients go", function()
  local a, b = leaf { 1, 2 }, leaf { 3, 4 }
  local y = (a * b):exp()
  local node = y.grad_fn
  expect.equal(tostring(node), "ExpBackward")
  expect.equal(node.name, "ExpBackward")
  expect.equal("of " .. node, "of ExpBackward")
  expect.truthy(node == y.grad_fn and rawequal(node, y.grad_fn))
  expect.falsy(node == (a * b).grad_fn)
  local product = node.next_functions[1]
  expect.equal(product[1].name, "MulBackward")
  expect.equal(product[2], 1)
  expect.truthy(node.sequence > product[1].sequence)
  expect.equal(node._sequence_nr, node.sequence)
  local left, right = table.unpack(product[1].next_functions)
  expect.equal(left[1].name, "AccumulateGrad")
  expect.truthy(left[1].variable == a and right[1].variable == b)
  expect.equal(#left[1].next_functions, 0)
  expect.equal((a * 2).grad_fn.next_functions[2], { false, 0 })
  expect.equal(a.grad_fn, nil)
  local _, second = ml.sort(a)
  local values = ml.sort(a)
  expect.equal(second.grad_fn, nil)
  expect.equal(values.grad_fn.name, "SortBackward")
end)

test("unknown fields and assignments are errors", function()
  local node = (leaf { 1 } * 2).grad_fn
  expect.error(function() return node.nam end, "did you mean 'name'")
  expect.error(function() node.name = "x" end, "cannot be assigned")
  expect.error(function() return node._saved_z end, "MulBackward has no '_saved_z'; it has _saved_other")
  expect.error(function() return node.saved_tensors end, "has no 'saved_tensors'")
  expect.error(function() node:register_hook(3) end, "a function is expected, got number")
end)

test("what a node saved can be read by the names of its op", function()
  local a, b = leaf { 1, 2 }, leaf { 3, 4 }
  local product = a * b
  expect.truthy(product.grad_fn._saved_x == a)
  expect.equal(list(product.grad_fn._saved_other), { 3, 4 })
  expect.equal((a * 2.5).grad_fn._saved_other, 2.5)
  local e = a:exp()
  expect.equal(list(e.grad_fn._saved_result), list(e))
  expect.equal(e.grad_fn._saved_result.grad_fn, e.grad_fn)
  expect.error(function() return e.grad_fn._saved_x end, "ExpBackward has no '_saved_x'")
  product:sum():backward()
  expect.error(function() return product.grad_fn._saved_x end, "freed already")
  local kept = (a * 1) * b
  kept.grad_fn.metadata.note = "here"
  expect.equal(kept.grad_fn.metadata, { note = "here" })
end)

test("hooks of a node see and change the gradients around it", function()
  local a = leaf { 1, 2 }
  local y = a * 3
  local seen = {}
  local handle = y.grad_fn:register_hook(function(inputs, outputs)
    seen[#seen + 1] = { list(inputs[1]), inputs[2], inputs.n, list(outputs[1]), outputs.n }
    return { inputs[1] * 10, nil }
  end)
  local before = y.grad_fn:register_prehook(function(outputs) return { outputs[1] * 2 } end)
  y:sum():backward(nil, { retain_graph = true })
  expect.equal(seen[1][1], { 6, 6 })
  expect.equal(seen[1][3], 2)
  expect.equal(seen[1][4], { 2, 2 })
  expect.equal(list(a.grad), { 60, 60 })
  before.remove()
  handle.remove()
  handle.remove()
  a.grad = nil
  y:sum():backward()
  expect.equal(list(a.grad), { 3, 3 })
  expect.equal(#seen, 1)
end)

test("errors of a node's hooks are the script's, and their results are checked", function()
  local a = leaf { 1, 2 }
  local y = a * 3
  local handle = y.grad_fn:register_prehook(function() error "in the hook" end)
  expect.error(function() y:sum():backward() end, "graph_test.lua:%d+: in the hook")
  handle.remove()
  handle = y.grad_fn:register_prehook(function() return { ml.ones(3) } end)
  expect.error(function() y:sum():backward() end, "a gradient of shape %(2,%)")
  handle.remove()
  handle = y.grad_fn:register_prehook(function() return {} end)
  a:exp().grad_fn.next_functions[1][1]:register_prehook(function() return { false } end)
  y:sum():backward(nil, { retain_graph = true })
  expect.equal(list(a.grad), { 0, 0 })
  handle.remove()
  y.grad_fn:register_hook(function() return { ml.ones(3), nil } end)
  expect.error(function() y:sum():backward() end, "gave a gradient of shape %(3,%)")
end)

test("a leaf's node has hooks too", function()
  local a = leaf { 1, 2 }
  local y = a:exp()
  local node = y.grad_fn.next_functions[1][1]
  local counts
  node:register_hook(function(inputs, outputs) counts = { inputs.n, outputs.n } end)
  y:sum():backward()
  expect.equal(counts, { 0, 1 })
end)

test("a hook and a node that nothing else holds are collected", function()
  local alive = setmetatable({}, { __mode = "k" })
  do
    local y = leaf { 1 } * 2
    local f = function() return nil end
    alive[f] = true
    y.grad_fn:register_hook(f)
  end
  for _ = 1, 4 do collectgarbage() end
  ml.ones(1):sum()
  local _ = leaf { 1 } * 2
  _.grad_fn:register_hook(print)
  collectgarbage()
  collectgarbage()
  expect.equal(next(alive), nil)
end)

test("backward over several tensors, and into some inputs only", function()
  local a, b = leaf { 1, 2 }, leaf { 3, 4 }
  local h = a * b
  ml.autograd.backward({ h:sum(), a:sum() })
  expect.equal(list(a.grad), { 4, 5 })
  a.grad, b.grad = nil, nil
  h = a * b
  ml.autograd.backward({ h, a }, { grad_tensors = { ml.ones_like(a) * 2, ml.ones_like(a) },
    retain_graph = true })
  expect.equal(list(a.grad), { 7, 9 })
  a.grad, b.grad = nil, nil
  h:exp():sum():backward { inputs = { a }, retain_graph = true }
  expect.equal(b.grad, nil)
  expect.near(list(a.grad), { 3 * math.exp(3), 4 * math.exp(8) }, 1e-12)
  h:square():sum():backward(nil, { inputs = { h, b } })
  expect.equal(list(h.grad), { 6, 16 })
  expect.equal(list(b.grad), { 6, 32 })
  expect.error(function() a:sum():backward { inputs = {} } end, "'inputs' is empty")
  expect.error(function() a:sum():backward { inputs = ml.ones(1) } end, "does not require grad")
  expect.error(function() ml.autograd.backward({ a }, { grad_tensor = a }) end, "grad_tensor")
  expect.error(function() ml.autograd.backward { a } end, "single%-element")
end)

test("grad: batches of gradients give what one after the other gives", function()
  ml.manual_seed(2)
  local Cube = ml.autograd.Function {
    forward = function(ctx, v)
      ctx:save_for_backward(v)
      return v * v * v
    end,
    backward = function(ctx, g) return g * ctx.saved_tensors[1] ^ 2 * 3 end,
  }
  local double = { dtype = ml.float64 }
  local x = ml.randn({ 3, 4 }, double):requires_grad_()
  local w = ml.randn({ 4, 2 }, double):requires_grad_()
  local h = Cube(x)
  local seen = {}
  h:register_hook(function(g)
    seen[#seen + 1] = tostring(g.shape)
    return g * 2
  end)
  local outputs = { ml.tanh(h:mm(w)), (x * x):sum(2), h:sum() }
  local starts = { ml.randn({ 5, 3, 2 }, double), ml.randn({ 5, 3 }, double), false }
  local got = { ml.grad(outputs, { x, w, h }, { grad_outputs = starts, is_grads_batched = true,
    retain_graph = true }) }
  expect.equal(seen, { "(3, 4)" })
  for k = 1, 5 do
    local want = { ml.grad(outputs, { x, w, h }, { grad_outputs = { starts[1][k], starts[2][k], false },
      retain_graph = true }) }
    for i, g in ipairs(want) do expect.truthy(ml.allclose(got[i][k], g), "input " .. i) end
  end
  -- What they are made of can be differentiated again, and is freed with the graph.
  local first = ml.grad((x * w:sum(2)):sin():sum(), x, { create_graph = true })
  local units = ml.eye(12, double):reshape(12, 3, 4)
  local hessian = ml.grad(first, x, { grad_outputs = units, is_grads_batched = true, create_graph = true })
  local rows = {}
  for k = 1, 12 do
    rows[k] = ml.grad(first, x, { grad_outputs = units[k], create_graph = true })
  end
  local by_batch = { ml.grad((hessian ^ 2):sum(), { x, w }, { retain_graph = true }) }
  local by_rows = { ml.grad((ml.stack(rows) ^ 2):sum(), { x, w }, { retain_graph = true }) }
  expect.truthy(ml.allclose(hessian, ml.stack(rows)))
  for i, g in ipairs(by_rows) do expect.truthy(ml.allclose(by_batch[i], g), "third derivative " .. i) end
  ml.grad(first, x, { grad_outputs = units, is_grads_batched = true })
  expect.error(function() ml.grad(first, x, { grad_outputs = units, is_grads_batched = true }) end,
    "freed already")
  local y = x * 2
  y:register_hook(function(g) return g:sum():item() end)
  expect.error(function() ml.grad(y, x, { grad_outputs = units, is_grads_batched = true }) end,
    "inside vmap")
  -- A hook may put what is the same for all in the place of what is not.
  y = x * 2
  y:register_hook(function() return ml.ones({ 3, 4 }, double) end)
  expect.truthy(ml.allclose(ml.grad(y:exp(), x, { grad_outputs = units, is_grads_batched = true }),
    ml.full({ 12, 3, 4 }, 2.0, double)))
end)

test("grad: zeros for unused inputs, batches of gradients, edges for tensors", function()
  local a, b = leaf { 1, 2 }, leaf { 3, 4 }
  local ga, gb = ml.autograd.grad((a * a):sum(), { a, b }, { materialize_grads = true })
  expect.equal(list(ga), { 2, 4 })
  expect.equal(list(gb), { 0, 0 })
  expect.error(function()
    ml.grad(a:sum(), b, { materialize_grads = true, allow_unused = false })
  end, "exclude each other")
  local rows = ml.eye(2, { dtype = ml.float64 })
  local jacobian, none = ml.grad(a * b, { a, leaf { 1 } }, { grad_outputs = rows,
    is_grads_batched = true, allow_unused = true })
  expect.equal(list(jacobian), { { 3, 0 }, { 0, 4 } })
  expect.equal(none, nil)
  local _, zeros = ml.grad(a * b, { a, leaf { 1, 1, 1 } }, { grad_outputs = rows,
    is_grads_batched = true, materialize_grads = true })
  expect.equal(list(zeros), { { 0, 0, 0 }, { 0, 0, 0 } })
  expect.error(function() ml.grad(a:sum(), a, { is_grads_batched = true }) end,
    "wants grad_outputs with a leading dimension")
  local h = a * b
  local edge = graph.get_gradient_edge(h)
  expect.equal(edge.node.name, "MulBackward")
  expect.equal(edge.output_nr, 1)
  expect.truthy(edge == graph.get_gradient_edge(h))
  local y = h:exp():sum()
  expect.near(list((ml.grad(y, edge, { retain_graph = true }))), { math.exp(3), math.exp(8) }, 1e-12)
  local from_edge = ml.grad(edge, a, { grad_outputs = ml.ones_like(a), retain_graph = true })
  expect.equal(list(from_edge), { 3, 4 })
  y:backward { inputs = { graph.get_gradient_edge(b) } }
  expect.equal(a.grad, nil)
  expect.near(list(b.grad), { math.exp(3), 2 * math.exp(8) }, 1e-12)
  expect.error(function() graph.get_gradient_edge(ml.ones(1)) end, "does not require grad")
end)

test("hooks of several tensors come once in a backward", function()
  local a, b, c = leaf { 1 }, leaf { 2 }, leaf { 3 }
  local seen, first = {}, 0
  local handle = graph.register_multi_grad_hook({ a, b, c }, function(grads)
    seen[#seen + 1] = { grads[1] and grads[1]:item(), grads[2] and grads[2]:item(),
      grads[3] and grads[3]:item(), grads.n }
  end)
  graph.register_multi_grad_hook({ a, b }, function(g)
    expect.truthy(ml.is_tensor(g))
    first = first + 1
  end, { mode = "any" })
  local y = (a * b + a):sum()
  y:backward()
  expect.equal(seen, { { 3, 1, nil, 3 } })
  expect.equal(first, 1)
  ml.grad((a * c):sum(), c)
  expect.equal(seen[2], { nil, nil, 1, 3 })
  handle.remove()
  a:mul(b):sum():backward()
  expect.equal(#seen, 2)
  expect.equal(first, 2)
  expect.error(function() graph.register_multi_grad_hook({ ml.ones(1) }, print) end,
    "tensor 1 does not require grad")
  expect.error(function() graph.register_multi_grad_hook({ a }, print, { mode = "each" }) end, "mode")
end)

test("a version can be raised by hand", function()
  local a = leaf { 1, 2 }
  local h = a * 1
  local y = (h * h):sum()
  graph.increment_version(h)
  expect.error(function() y:backward() end, "changed in place since, last by increment_version")
end)

test("trees and Graphviz show each node", function()
  local a = leaf { 1, 2 }
  local y = ((a * a):exp() + a):sum()
  expect.equal(graph.tree(y), table.concat({
    "SumBackward",
    "└─ AddBackward",
    "   ├─ ExpBackward",
    "   │  └─ MulBackward",
    "   │     ├─ AccumulateGrad (2,) float64 #1",
    "   │     └─ AccumulateGrad (2,) float64 #1, as above",
    "   └─ AccumulateGrad (2,) float64 #1, as above" }, "\n"))
  expect.equal(graph.tree(y, { depth = 1 }), "SumBackward\n└─ AddBackward\n   └─ ...")
  local dot = graph.to_dot(y.grad_fn)
  expect.equal(select(2, dot:gsub("AccumulateGrad", "")), 1)
  expect.equal(select(2, dot:gsub("%->", "")), 6)
  expect.error(function() graph.tree(3) end, "a tensor, a node or an edge is expected")
  expect.error(function() graph.tree(ml.ones(1)) end, "does not require grad")
end)

test("inference mode records nothing, and its tensors stay apart from the tape", function()
  local w = leaf { 1, 2 }
  local y, view = ml.inference_mode(function()
    expect.truthy(ml.is_inference_mode_enabled())
    expect.falsy(ml.is_grad_enabled())
    local made = w * 2
    made:add_(1)
    expect.falsy(ml.enable_grad(function() return (w * 2).requires_grad end))
    return made, w:view(-1)
  end)
  expect.falsy(ml.is_inference_mode_enabled())
  expect.truthy(ml.is_grad_enabled())
  expect.equal(list(y), { 3, 5 })
  expect.equal({ y:is_inference(), y:view(-1):is_inference(), view:is_inference(),
    y:clone():is_inference() }, { true, true, false, false })
  expect.error(function() return w * y end, "inference mode and cannot be saved")
  expect.equal((w + y).requires_grad, true)
  expect.error(function() y:add_(1) end, "cannot be changed in place; clone it first")
  expect.error(function() y:requires_grad_() end, "made in inference mode")
  expect.equal(list((ml.grad((w * y:clone()):sum(), w))), { 3, 5 })
  do
    local _ <close> = ml.autograd.inference_mode()
    expect.truthy(ml.ones(1):is_inference())
    ml.inference_mode(false, function()
      expect.truthy(ml.is_grad_enabled())
      expect.falsy(ml.ones(1):is_inference())
    end)
    local co = coroutine.wrap(function()
      local _ <close> = ml.inference_mode(false)
      coroutine.yield()
    end)
    co()
    expect.truthy(ml.ones(1):is_inference())
  end
  expect.falsy(ml.ones(1):is_inference())
  expect.error(function() ml.inference_mode(3) end, "inference_mode: use")
end)

test("set_grad_enabled takes a function, too", function()
  local w = leaf { 1 }
  expect.falsy(ml.set_grad_enabled(false, function(x) return (x * 2).requires_grad end, w))
  expect.truthy(ml.autograd.set_grad_enabled(true, function(x) return (x * 2).requires_grad end, w))
  expect.truthy(ml.is_grad_enabled())
end)

test("a hook of a node sees gradients in the shapes of what they belong to", function()
  local x = ml.ones(2, 3, { requires_grad = true })
  local factor = ml.tensor(2.0, { requires_grad = true })
  local y = x * factor
  local shapes
  y.grad_fn:register_hook(function(inputs) shapes = { inputs[1].shape, inputs[2].shape } end)
  y:sum():backward()
  expect.equal(#shapes[1], 2)
  expect.equal(#shapes[2], 0)
  expect.equal(factor.grad:item(), 6.0)
end)

test("functions that a backward calls when it has ended", function()
  local order = {}
  local w = leaf { 1, 2 }
  local y = w * w
  w:register_post_accumulate_grad_hook(function() order[#order + 1] = "gradient" end)
  y:register_hook(function()
    ml._after_backward(function()
      order[#order + 1] = "end"
      -- Another backward in it, and one more function.
      leaf({ 3, 4 }):backward(ml.ones(2, { dtype = ml.float64 }))
      ml._after_backward(function() order[#order + 1] = "last" end)
    end)
  end)
  y:sum():backward()
  expect.equal(order, { "gradient", "end", "last" })
  expect.error(function() ml._after_backward(print) end, "no backward runs")
  expect.error(function() ml._after_backward(3) end, "a function is expected")
  -- Its error is the backward's; after an error of a node it is not called.
  local z = w:exp()
  z:register_hook(function() ml._after_backward(function() error "at the end" end) end)
  expect.error(function() z:sum():backward() end, "at the end")
  local called = false
  local u, v = w:sin(), nil
  v = u:exp()
  v:register_hook(function() ml._after_backward(function() called = true end) end)
  u:register_hook(function() error "in a hook" end)
  expect.error(function() v:sum():backward() end, "in a hook")
  expect.falsy(called)
end)

harness.run()
