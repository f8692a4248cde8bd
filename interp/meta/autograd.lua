-- interp/meta/autograd.lua: nodes of the graph and the contexts of custom functions, for editors,
-- help() and the reference.

--- A node of the graph that the tape records: `x.grad_fn`, and those it leads to. `tostring(node)` is
--- its name, and nodes are equal when they are one. `node._saved_NAME` is what a node of an op saved
--- of the argument or result NAME, as `y.grad_fn._saved_x`: a tensor with its history, a number, or
--- of a list an array; a result is also `_saved_result`. Only what the wanted gradients use is saved,
--- and plain arguments, such as dimensions, cannot be read.
---@class moonlet.Node
---@field name string What it is called: "MulBackward" for what `ml.mul` recorded. A field; there is no method of that name.
---@field next_functions table[] Where its gradients go, by argument: `{ node, index }`, the outputs of that node counted from 1; `{ false, 0 }` for an argument that does not require grad.
---@field variable moonlet.Tensor? The leaf, of a node "AccumulateGrad".
---@field sequence integer Its number: a node is newer, and has a higher one, than those it leads to. Also under the name `_sequence_nr`.
---@field _sequence_nr integer Its number, as `sequence`.
---@field metadata table A table for whatever a script wants to keep with the node.
---@field saved_tensors table What a custom function saved by `ctx:save_for_backward`: an array with its length in `n`.
local Node = {}

--- Calls `f(grad_inputs, grad_outputs)` each time the node has run in a backward: arrays, with their
--- length in `n`, of the gradients that it passes on and of those that it got. An array that `f`
--- returns takes the place of the first. The hook lives as long as the node, and keeps what it refers
--- to: one that refers to the node or to what was computed from it is never freed before
--- `handle.remove()`.
--- > y = ml.ones(2, { requires_grad = true }) * 2
--- > handle = y.grad_fn:register_hook(function(inputs, outputs) print(outputs[1]) end)
---@param f fun(grad_inputs: table, grad_outputs: table): table?
---@return {remove: fun()} handle
---@see Tensor.register_hook
function Node:register_hook(f) end

--- Calls `f(grad_outputs)` each time before the node runs in a backward; an array that `f` returns
--- takes the place of these gradients.
---@param f fun(grad_outputs: table): table?
---@return {remove: fun()} handle
---@see Node.register_hook
function Node:register_prehook(f) end

--- What `forward`, `setup_context` and `backward` of an `ml.autograd.Function` share of one call. A
--- script may give it any further fields.
---@class moonlet.FunctionContext
---@field saved_tensors table What `save_for_backward` kept, in that order: an array with nil for what was nil, and its length in `n`. One that was changed in place since is an error.
---@field saved_for_forward table? What `save_for_forward` kept, until the call ends.
---@field needs_input_grad boolean[] For each argument of the call, whether it is a tensor that requires grad.
local FunctionContext = {}

--- Keeps tensors, or nil, for `backward`: arguments, results, or others. A second call replaces them.
---@param ... moonlet.Tensor?
---@see autograd.Function
function FunctionContext:save_for_backward(...) end

--- Keeps tensors, or nil, for `jvp`.
---@param ... moonlet.Tensor?
function FunctionContext:save_for_forward(...) end

--- Says that `forward` has changed these arguments in place. It must return them. The function is
--- then the history of their new values, as an op in place is.
---@param ... moonlet.Tensor
function FunctionContext:mark_dirty(...) end

--- Says that these results have no gradient. Those of dtypes without gradients need not be named.
---@param ... moonlet.Tensor
function FunctionContext:mark_non_differentiable(...) end

--- Whether `backward` gets zeros for results that no gradient has reached, as at first, or nil.
---@param on boolean
function FunctionContext:set_materialize_grads(on) end
