-- interp/meta/autograd.lua: nodes of the graph and the contexts of custom functions, for editors,
-- help() and the reference.

--- A node of the graph that the tape records: `x.grad_fn`, and those it leads to. `tostring(node)`
--- is its name, and nodes are equal when they are one. `node._saved_NAME` is what a node of an op
--- saved of the argument or result NAME, as `y.grad_fn._saved_x`: a tensor with its history, a
--- number, or of a list an array; a result is also `_saved_result`. Only what the wanted gradients
--- use is saved, and plain arguments, such as dimensions, cannot be read.
--- > y = ml.ones(2, { requires_grad = true }):exp()
--- > y.grad_fn.name
---   ExpBackward
---@class moonlet.Node
---@field name string Its name: "MulBackward" for what `ml.mul` recorded. A field; there is no method of that name.
---@field next_functions table[] Where its gradients go, by argument: `{ node, index }`, the outputs of that node counted from 1; `{ false, 0 }` for an argument that does not require grad.
---@field variable moonlet.Tensor? The leaf, of a node "AccumulateGrad".
---@field sequence integer Its number: a node is newer, and has a higher one, than those it leads to. Also under the name `_sequence_nr`.
---@field _sequence_nr integer Its number, as `sequence`.
---@field metadata table A table for whatever a script wants to keep with the node.
---@field saved_tensors table What a custom function saved by `ctx:save_for_backward`: an array with its length in `n`.
local Node = {}

--- Registers a hook that is called as `f(grad_inputs, grad_outputs)` each time the node has run in
--- a backward, with arrays, with their length in `n`, of the gradients that it passes on and of
--- those that it got. An array that `f` returns takes the place of the first. The hook lives as
--- long as the node, and keeps what it refers to: one that refers to the node or to what was
--- computed from it is never freed before `handle.remove()`.
--- > y = ml.ones(2, { requires_grad = true }) * 2
--- > handle = y.grad_fn:register_hook(function(inputs, outputs) print(outputs[1]) end)
--- > y:sum():backward()
---   {1., 1.}
---   Tensor (2,) float32
---@param f fun(grad_inputs: table, grad_outputs: table): table? gets both arrays and returns an array or nil
---@return {remove: fun()} handle
---@see Tensor.register_hook
function Node:register_hook(f) end

--- Registers a hook that is called as `f(grad_outputs)` each time before the node runs in a
--- backward; an array that `f` returns takes the place of these gradients.
--- > x = ml.ones(2, { requires_grad = true })
--- > y = x * 2
--- > handle = y.grad_fn:register_prehook(function(outputs) return { outputs[1] * 10 } end)
--- > ml.grad(y:sum(), x)
---   {20., 20.}
---   Tensor (2,) float32
---@param f fun(grad_outputs: table): table? gets an array and returns an array or nil
---@return {remove: fun()} handle
---@see Node.register_hook
function Node:register_prehook(f) end

--- The context of one call of an `ml.autograd.Function`, which its `forward`, `setup_context` and
--- `backward` share. A script may give it any further fields.
--- > Square = ml.autograd.Function {
---     forward = function(ctx, x) ctx:save_for_backward(x) return x * x end,
---     backward = function(ctx, g) return 2 * g * ctx.saved_tensors[1] end,
---   }
--- > x = ml.tensor({ 3.0 }, { requires_grad = true })
--- > ml.grad(Square(x):sum(), x)
---   {6.}
---   Tensor (1,) float32
---@class moonlet.FunctionContext
---@field saved_tensors table What `save_for_backward` kept, in that order: an array with nil for what was nil, and its length in `n`. One that was changed in place since is an error.
---@field saved_for_forward table? What `save_for_forward` kept, until the call ends.
---@field needs_input_grad boolean[] For each argument of the call, whether it is a tensor that requires grad.
local FunctionContext = {}

--- Saves tensors for `backward`: arguments, results, or others. A second call replaces them.
--- > Square = ml.autograd.Function {
---     forward = function(ctx, x) ctx:save_for_backward(x) return x * x end,
---     backward = function(ctx, g) return 2 * g * ctx.saved_tensors[1] end,
---   }
--- > x = ml.tensor({ 3.0 }, { requires_grad = true })
--- > ml.grad(Square(x):sum(), x)
---   {6.}
---   Tensor (1,) float32
---@param ... moonlet.Tensor? the tensors; nil keeps a position free
---@see autograd.Function
function FunctionContext:save_for_backward(...) end

--- Saves tensors for `jvp`.
--- > Square = ml.autograd.Function {
---     forward = function(ctx, x) ctx:save_for_forward(x) return x * x end,
---     jvp = function(ctx, tangent) return 2 * tangent * ctx.saved_for_forward[1] end,
---   }
--- > y, tangent = ml.func.jvp(Square, { ml.tensor(3.0) }, { ml.tensor(1.0) })
--- > tangent
---   6.  Tensor () float32
---@param ... moonlet.Tensor? the tensors; nil keeps a position free
function FunctionContext:save_for_forward(...) end

--- Declares that `forward` has changed these arguments in place; it must return them. The function
--- is then the history of their new values, as an in-place op is.
--- > Double = ml.autograd.Function {
---     forward = function(ctx, x) ctx:mark_dirty(x) return x:mul_(2) end,
---     backward = function(ctx, g) return g * 2 end,
---   }
--- > x = ml.ones(2, { requires_grad = true })
--- > y = Double(x * 1)
--- > ml.grad(y:sum(), x)
---   {2., 2.}
---   Tensor (2,) float32
---@param ... moonlet.Tensor the changed arguments
function FunctionContext:mark_dirty(...) end

--- Declares that these results have no gradient. Those of dtypes without gradients need not be
--- named.
--- > Sign = ml.autograd.Function {
---     forward = function(ctx, x) local y = x:sign() ctx:mark_non_differentiable(y) return y end,
---     backward = function(ctx, g) return nil end,
---   }
--- > Sign(ml.ones(2, { requires_grad = true })).requires_grad
---   false
---@param ... moonlet.Tensor the results
function FunctionContext:mark_non_differentiable(...) end

--- Sets whether `backward` gets zeros, as at first, or nil for results that no gradient has
--- reached.
--- > First = ml.autograd.Function {
---     forward = function(ctx, x) ctx:set_materialize_grads(false) return x * 1, x * 2 end,
---     backward = function(ctx, g, h) print(h) return g end,
---   }
--- > x = ml.ones(2, { requires_grad = true })
--- > First(x):sum():backward()
---   nil
---@param on boolean true for zeros
function FunctionContext:set_materialize_grads(on) end
