-- stdlib/autograd.lua: ml.autograd: functions with a derivative of their own, backward over several
-- tensors, the graph that the tape records, checks of derivatives, and forward mode. Each part is
-- loaded when a name of it is first used.

local ml = require "moonlet"
local options = require "moonlet.options"

local autograd = {}

--- Adds the gradients of several tensors to those of all leaves that lead to them, as `x:backward`
--- does for one. `grad_tensors` has a gradient, or false, for each. With `inputs`, tensors or edges
--- of `graph.get_gradient_edge`, only theirs are computed, and results among them get a `grad` too.
--- > w = ml.tensor({ 1.0, 2.0 }, { requires_grad = true })
--- > ml.autograd.backward({ (w * w):sum(), w:sum() })
---@param tensors moonlet.Tensor|moonlet.Tensor[]
---@param options? table {grad_tensors, retain_graph=false, create_graph=false, inputs}
---@see Tensor.backward
function autograd.backward(...) ml._backward(...) end

--- The gradients of `outputs` by `inputs`, as results: `ml.grad` under the name it has in PyTorch.
--- > w = ml.tensor({ 1.0, 2.0 }, { requires_grad = true })
--- > g = ml.autograd.grad((w * w):sum(), w)
---@param outputs moonlet.Tensor|table
---@param inputs moonlet.Tensor|table
---@param options? table those of `ml.grad`
---@return moonlet.Tensor? ...
---@see grad
function autograd.grad(...) return ml.grad(...) end

--- `ml.no_grad` under the name it has in PyTorch.
---@param f? fun(...): ...
---@param ... any what f gets
---@return any ...
---@see no_grad
function autograd.no_grad(...) return ml.no_grad(...) end

--- `ml.enable_grad` under the name it has in PyTorch.
---@param f? fun(...): ...
---@param ... any what f gets
---@return any ...
---@see enable_grad
function autograd.enable_grad(...) return ml.enable_grad(...) end

--- `ml.set_grad_enabled` under the name it has in PyTorch.
---@param on boolean
---@param f? fun(...): ...
---@param ... any what f gets
---@return any ...
---@see set_grad_enabled
function autograd.set_grad_enabled(...) return ml.set_grad_enabled(...) end

--- `ml.inference_mode` under the name it has in PyTorch.
---@param f? fun(...): ...
---@param ... any what f gets
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
