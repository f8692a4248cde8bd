-- tests/hostile/tape.lua: functions with a derivative of their own, hooks of nodes and of saved
-- tensors that free, fail, yield, recurse and outlive what they belong to.

return {
  -- Functions.
  { "yield inside a function's backward", [[
      local f = ml.autograd.Function { forward = function(_, x) return x * 2 end,
        backward = coroutine.yield }
      local w = ml.ones{1, requires_grad = true}
      return coroutine.wrap(function() f(w):sum():backward() end)() ]],
    fails = "attempt to yield across" },
  { "close a coroutine inside forward", [[
      local f = ml.autograd.Function { forward = function(_, x) coroutine.yield() return x end }
      local thread = coroutine.create(f.apply)
      coroutine.resume(thread, ml.ones{1, requires_grad = true})
      coroutine.close(thread)
      collect()
      return ml.is_grad_enabled() ]], gives = "true" },
  { "a function's backward frees its gradient", [[
      local f = ml.autograd.Function { forward = function(_, x) return x * 2 end,
        backward = function(_, g) g:free() return g end }
      f(ml.ones{1, requires_grad = true}):sum():backward() ]], fails = "gave freed Tensor" },
  { "forward frees its argument and its result", [[
      local w = ml.ones{1, requires_grad = true}
      local f = ml.autograd.Function {
        forward = function(ctx, x) ctx:save_for_backward(x) local y = x * 3 x:free() return y end,
        backward = function(ctx, g) return g * ctx.saved_tensors[1] end }
      local h = w * 2
      f(h):backward()
      local bad = ml.autograd.Function {
        forward = function(_, x) local y = x * 3 y:free() return y end }
      return w.grad:item(), (pcall(bad, w)) ]], gives = "4.0, false" },
  { "a backward that calls itself for ever", [[
      local f
      f = ml.autograd.Function { forward = function(_, x) return x * 2 end,
        backward = function(_, g)
          local _ <close> = ml.enable_grad()
          f(ml.ones{1, requires_grad = true}):backward()
          return g
        end }
      f(ml.ones{1, requires_grad = true}):backward() ]], fails = "overflow" },
  { "a backward that runs its own graph and frees it", [[
      local w, y, done = ml.ones{1, requires_grad = true}, nil, false
      local f = ml.autograd.Function {
        forward = function(ctx, x) ctx:save_for_backward(x) return x * 2 end,
        backward = function(ctx, g)
          if not done then done = true y:backward() collect() end
          return g * ctx.saved_tensors[1]
        end }
      y = f(w)
      y:backward() ]], fails = "freed already" },
  { "a context that outlives its graph", [[
      local kept
      local f = ml.autograd.Function {
        forward = function(ctx, x) kept = ctx ctx:save_for_backward(x) return x * 2 end,
        backward = function(_, g) return g end }
      f(ml.ones{1, requires_grad = true})
      collect()
      return kept.saved_tensors.n, (pcall(kept.save_for_backward, kept)) ]], gives = "0, false" },
  { "methods of a context with other values", [[
      local method
      local f = ml.autograd.Function { forward = function(ctx, x) method = ctx.mark_dirty return x end }
      f(ml.ones(1))
      return (pcall(method)), (pcall(method, 3)), (pcall(method, io.stdout)) ]],
    gives = "false, false, false" },
  { "a function that runs when the interpreter ends", [[
      local w = ml.ones{1, requires_grad = true}
      local f = ml.autograd.Function { forward = function(ctx, x) ctx.w = x return x * 2 end,
        backward = function(ctx, g) return g * ctx.w end }
      left = setmetatable({}, { __gc = function() f(w):backward() end })
      left_y = f(w)
      return 1 ]], gives = "1" },
  -- Nodes.
  { "hooks of a node that free what they get", [[
      local w = ml.ones{1, requires_grad = true}
      local y = w * 2
      y.grad_fn:register_hook(function(inputs, outputs) inputs[1]:free() outputs[1]:free() end)
      y:backward()
      return w.grad:item() ]], gives = "2.0" },
  { "hooks of a node that add and remove hooks", [[
      local w = ml.ones{1, requires_grad = true}
      local y = w * 2
      local handle
      handle = y.grad_fn:register_prehook(function()
        handle.remove()
        y.grad_fn:register_hook(print)
        y.grad_fn:register_prehook(print)
        collect()
      end)
      y:backward()
      return w.grad:item() ]], gives = "2.0" },
  { "a node that outlives its tensors", [[
      local node
      do
        local w = ml.ones{1, requires_grad = true}
        node = (w * ml.ones(1)):exp().grad_fn
      end
      collect()
      return tostring(node.next_functions[1][1].next_functions[1][1].variable.shape) ]],
    gives = "(1,)" },
  { "a node's method with other values", [[
      local node = (ml.ones{1, requires_grad = true} * 2).grad_fn
      return (pcall(node.register_hook, ml.ones(1), print)), (pcall(node.register_hook, node)) ]],
    gives = "false, false" },
  -- Saved tensors.
  { "pack frees its tensor and forgets it", [[
      local w = ml.ones{1, requires_grad = true}
      ml.autograd.graph.saved_tensors_hooks(function(t) t:free() end, function() return ml.ones(1) end,
        function() (w * w):backward() end)
      return w.grad:item() ]], gives = "2.0" },
  { "pack records and runs a graph of its own", [[
      local w = ml.ones{1, requires_grad = true}
      ml.autograd.graph.saved_tensors_hooks(function(t)
        local _ <close> = ml.enable_grad()
        local z = ml.ones{1, requires_grad = true}
        z:square():backward()
        return t
      end, function(t) return t end, function() (w * w):backward() end)
      return w.grad:item() ]], gives = "2.0" },
  { "unpack runs the graph that it is for", [[
      local w, y, done = ml.ones{1, requires_grad = true}, nil, false
      y = ml.autograd.graph.saved_tensors_hooks(function(t) return t end, function(t)
        if not done then done = true y:backward() collect() end
        return t
      end, function() return w * w end)
      y:backward() ]], fails = "freed already" },
  { "a checkpoint inside its own second run", [[
      local w = ml.ones{1, requires_grad = true}
      local function f(x, depth)
        if depth == 0 then return x:exp() end
        return ml.utils.checkpoint(f, x, depth - 1):sin()
      end
      f(w, 5):backward()
      return w.grad:item() ~= 0 ]], gives = "true" },
}
