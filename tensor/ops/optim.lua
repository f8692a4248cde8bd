-- tensor/ops/optim.lua: one step of an optimiser on all its parameters, in one pass over memory, by
-- numbers of the host or of the device, for each row of tensor/functors/optimizers.lua; `ml.optim`
-- calls them. Also what `nn.utils` limits the gradients of many parameters with, and what
-- `amp.GradScaler` does with them and its scale.

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
  fields.check = fields.check or { value = "optim_test and cuda_kernels_test compare with the ops on each tensor" }
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

on_list("list_unscale(Tensor[]! x, Tensor[]! found_inf, Tensor scale) -> ()", {
  mixed = true, vmap = "list_unscale", check = { value = "scaler_graph_test has it in every dtype and layout", dtypes = "the scale is a float32" },
  doc = [[Divides all tensors by `scale`, as products with 1 / scale in float32, and sets `found_inf` to 1
where an element was not finite before. Both are of one float32, `found_inf` in a list.]],
  sample = { two .. ", {zeros({})}, full({}, 4.0)" } })

op { "update_loss_scale(Tensor[]! scale, Tensor[]! growth_tracker, Tensor found_inf, float growth_factor, "
    .. "float backoff_factor, int growth_interval) -> ()",
  kind = "structured", internal = true, mixed = true, dtypes = "floating", vmap = "update_loss_scale",
  check = { value = "amp_test and scaler_graph_test compare with numbers of Lua", dtypes = "a float32 and an int32" },
  doc = [[Where `found_inf` is not 0, multiplies `scale` by `backoff_factor` and sets `growth_tracker`
to 0. Else counts in `growth_tracker`, and at `growth_interval` sets it to 0 and multiplies `scale` by
`growth_factor`, unless that is too large. `growth_tracker` is a list of one int32, the others are of
one float32, `scale` in a list.]],
  sample = { "{full({}, 4.0)}, {zeros({}, {dtype = ml.int32})}, zeros({}), 2, 0.5, 3" } }
