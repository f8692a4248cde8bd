-- tensor/ops/optim.lua: one step of an optimiser on one parameter, in one pass over its memory.
-- They change the parameter and the optimiser's state; `ml.optim` calls them.

op { [[sgd_step(Tensor! x, Tensor gradient, Tensor!? momentum_buffer, float lr, float momentum=0,
                float dampening=0, float weight_decay=0, bool nesterov=false,
                bool first=false) -> Tensor]],
     vmap = "all", kind = "update", clone = false, dtypes = "floating", internal = true,
     doc = [[A step of stochastic gradient descent: moves `x` against `gradient`, and updates
`momentum_buffer` (of the shape of `x`; wanted when `momentum` is not 0), which starts as the
gradient when `first`. Nesterov's form: Sutskever et al., 2013.]],
     sample = { "randn(3, 4), randn(3, 4), zeros(3, 4), 0.1, 0.9" },
     check = { value = "changes its arguments" } }

op { [[adam_step(Tensor! x, Tensor gradient, Tensor! exp_avg, Tensor! exp_avg_sq,
                 Tensor!? max_exp_avg_sq, int step, float lr=0.001, float beta1=0.9,
                 float beta2=0.999, float eps=1e-8, float weight_decay=0,
                 bool decoupled=false) -> Tensor]],
     vmap = "all", kind = "update", clone = false, dtypes = "floating", internal = true,
     doc = [[Step number `step` (from 1) of Adam (Kingma and Ba, 2015): moves `x` and updates the
moments `exp_avg` and `exp_avg_sq`. With `max_exp_avg_sq`, AMSGrad (Reddi et al., 2018); with
`decoupled`, the weight decay of AdamW (Loshchilov and Hutter, 2019).]],
     sample = { "randn(3, 4), randn(3, 4), zeros(3, 4), zeros(3, 4), zeros(3, 4), 1" },
     check = { value = "changes its arguments" } }
