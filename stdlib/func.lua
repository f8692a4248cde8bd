-- stdlib/func.lua: ml.func: transforms of functions: gradients, Jacobians, Hessians, and
-- vectorisation over a batch.

-- Each part is loaded when one of its names is first used.

local options = require "moonlet.options"

return options.namespace("func", {}, options.late {
  ["func.vmap"] = { "vmap" },
  ["func.derivatives"] = { "grad", "grad_and_value", "vjp", "jvp", "jacrev", "jacfwd", "hessian",
    "linearize" },
  ["func.modules"] = { "functional_call", "replace_all_batch_norm_modules_",
    "stack_module_state" },
})
