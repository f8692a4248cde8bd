-- stdlib/autograd.lua: ml.autograd: automatic differentiation: custom functions with a backward of
-- their own, backward over several tensors, the recorded graph, checks of gradients, forward mode
-- and a profiler.

-- Each part is loaded when a name of it is first used.

local ml = require "moonlet"
local options = require "moonlet.options"

local autograd = {}

--- Computes the gradients of one or several tensors with respect to the leaves of their graph and
--- adds them to the leaves' `grad`, as `x:backward()` does for one. Options: `grad_tensors`, a
--- gradient, or false for 1, for each tensor; `retain_graph` (false), whether the graph is kept for
--- another backward; `create_graph` (false), whether gradients can be differentiated again;
--- `inputs`, tensors or edges of `graph.get_gradient_edge`, whose gradients alone are computed, of
--- results among them too.
--- > w = ml.tensor({ 1.0, 2.0 }, { requires_grad = true })
--- > ml.autograd.backward({ (w * w):sum(), w:sum() })
--- > w.grad
---   {3., 5.}
---   Tensor (2,) float32
---@param tensors moonlet.Tensor|moonlet.Tensor[] the tensors, each of one element where no
---   gradient is given for it
---@param options? table {grad_tensors, retain_graph=false, create_graph=false, inputs}
---@shape tensors (*), grad_tensors (*)
---@formula w.grad = w.grad + sum_i v_i^T dy_i/dw
---@see Tensor.backward
function autograd.backward(...) ml._backward(...) end

--- Gradients of `outputs` with respect to `inputs`, as results: `ml.grad` under the name it has in
--- PyTorch.
--- > w = ml.tensor({ 1.0, 2.0 }, { requires_grad = true })
--- > ml.autograd.grad((w * w):sum(), w)
---   {2., 4.}
---   Tensor (2,) float32
---@param outputs moonlet.Tensor|table a tensor, an edge, or an array of them
---@param inputs moonlet.Tensor|table a tensor, an edge, or an array of them
---@param options? table those of `ml.grad`
---@return moonlet.Tensor? ...
---@shape outputs (m), grad_outputs (m), inputs (n) -> (n)
---@formula g = v^T dy/dx
---@see grad
function autograd.grad(...) return ml.grad(...) end

--- `ml.no_grad` under the name it has in PyTorch: runs `f` without recording.
--- > w = ml.ones(2, { requires_grad = true })
--- > ml.autograd.no_grad(function() return (w * 2).requires_grad end)
---   false
---@param f? fun(...): ... the function to run; without it the result is held as a `<close>`
---   variable
---@param ... any what `f` gets
---@return any ...
---@see no_grad
function autograd.no_grad(...) return ml.no_grad(...) end

--- `ml.enable_grad` under the name it has in PyTorch: runs `f` with recording on.
--- > ml.autograd.enable_grad(ml.is_grad_enabled)
---   true
---@param f? fun(...): ... the function to run; without it the result is held as a `<close>`
---   variable
---@param ... any what `f` gets
---@return any ...
---@see enable_grad
function autograd.enable_grad(...) return ml.enable_grad(...) end

--- `ml.set_grad_enabled` under the name it has in PyTorch: turns recording on or off.
--- > ml.autograd.set_grad_enabled(false, ml.is_grad_enabled)
---   false
---@param on boolean whether ops are recorded
---@param f? fun(...): ... the function to run; without it the setting stays until the value
---   returned is closed
---@param ... any what `f` gets
---@return any ...
---@see set_grad_enabled
function autograd.set_grad_enabled(...) return ml.set_grad_enabled(...) end

--- `ml.inference_mode` under the name it has in PyTorch: runs `f` without recording and without
--- version counters.
--- > ml.autograd.inference_mode(function() return ml.ones(2):is_inference() end)
---   true
---@param f? fun(...): ... the function to run; without it the result is held as a `<close>`
---   variable
---@param ... any what `f` gets
---@return any ...
---@see inference_mode
function autograd.inference_mode(...) return ml.inference_mode(...) end

return options.namespace("autograd", autograd, options.late {
  ["autograd.function"] = { "Function", "once_differentiable" },
  ["autograd.graph"] = { "graph" },
  ["autograd.checks"] = { "gradcheck", "gradgradcheck" },
  ["autograd.functional"] = { "functional" },
  ["autograd.anomaly"] = { "detect_anomaly", "set_detect_anomaly", "is_anomaly_enabled",
    "is_anomaly_check_nan_enabled" },
  ["autograd.profiler"] = { "profiler" },
  ["autograd.forward_ad"] = { "forward_ad" },
})
