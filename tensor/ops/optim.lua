-- tensor/ops/optim.lua: one step of an optimiser on all its parameters, in one pass over memory, by
-- numbers of the host or of the device, for each row of tensor/functors/optimizers.lua; `ml.optim`
-- calls them. Also what `nn.utils` limits the gradients of many parameters with.

local optimizers = require "tensor.ops.gen.optimizers"

-- The lists of parameters and gradients come first, then those of the states, then the numbers that
-- the standard library computes of the options and the number of the step.
for _, row in ipairs(optimizers.rows) do
  op(optimizers.op(row))
  op(optimizers.capturable_op(row))
end

local two = "{randn(3, 4), randn(5)}"

-- An op on a list of gradients, of one floating dtype on one device.
local function on_list(signature, fields)
  fields[1], fields.kind, fields.internal = signature, "structured", true
  fields.dtypes = "floating"
  fields.check = { value = "optim_test and cuda_kernels_test compare with the ops on each tensor" }
  op(fields)
end

on_list("list_norm(Tensor[] x, float p=2) -> Tensor", {
  vmap = "list_norm",
  doc = [[The `p`-norm of all tensors as one vector; `p` is above 0 and may be infinite.]],
  sample = { two, two .. ", 1", two .. ", 3.5" } })

on_list("list_limit_norm(Tensor[]! x, Tensor norm, float max_norm) -> ()", {
  mixed = true, vmap = "list_limit_norm",
  doc = [[Multiplies all tensors by max_norm / (norm + 1e-6) where that is below 1, or not a number.
`norm` has no dimension.]],
  sample = { two .. ", ones({}), 0.5" } })

on_list("list_clamp(Tensor[]! x, float min, float max) -> ()", {
  vmap = "all",
  doc = [[Limits every element of all tensors to `min` .. `max`.]],
  sample = { two .. ", -0.5, 0.5" } })
