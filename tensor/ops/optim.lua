-- tensor/ops/optim.lua: one step of an optimiser on all its parameters, in one pass over memory. They
-- change the parameters and what the optimiser keeps of each; `ml.optim` calls them. Also what
-- `nn.utils` limits the gradients of many parameters with.

-- What scripts compute of the options and the number of the step arrives as numbers. All steps take
-- the lists of parameters and gradients first, then those of what is kept, and end with the same
-- three arguments: `weight_decay` times the parameter is added to the gradient, the parameter is
-- multiplied by `keep` before it moves (1 - lr * weight_decay for a decay that is decoupled), and
-- with `maximize` it goes up the gradient.
local function step(name, kept, numbers, sample, doc)
  op { ("%s_step(Tensor[]! x, Tensor[] gradient, %s, %s, float weight_decay=0, float keep=1, bool maximize=false) -> ()")
         :format(name, kept, numbers),
       vmap = "all", kind = "structured", dtypes = "floating", internal = true,
       doc = doc .. " All lists are as long as `x`, and each tensor is of the shape of its parameter.",
       sample = { sample },
       check = { value = "changes its arguments; optimizers_test compares ten steps with PyTorch" } }
end

local two = "{randn(3, 4), randn(5)}"
local zeros = "{zeros(3, 4), zeros(5)}"

step("sgd", "Tensor?[]! momentum_buffer",
  "float lr, float momentum=0, float dampening=0, bool nesterov=false, bool first=false",
  ("%s, %s, %s, 0.1, 0.9"):format(two, two, two), [[A step of stochastic gradient descent: moves
each of `x` against its `gradient` and updates its `momentum_buffer` (`{}` where `momentum` is 0),
which starts as the gradient when `first`. Nesterov's form: Sutskever et al., 2013.]])

step("adam", "Tensor[]! exp_avg, Tensor[]! exp_avg_sq, Tensor?[]! max_exp_avg_sq",
  "float rate, float correction, float beta1=0.9, float beta2=0.999, float eps=1e-8",
  ("%s, %s, %s, {ones(3, 4), ones(5)}, %s, 0.1, 0.5"):format(two, two, zeros, zeros), [[A step of
Adam (Kingma and Ba, 2015): updates the moments `exp_avg` and `exp_avg_sq` and moves by the first
over the root of the second; with `max_exp_avg_sq` that of its maximum, AMSGrad (Reddi et al.,
2018), else that is `{}`. `rate` is lr / (1 - beta1^step), `correction` sqrt(1 - beta2^step).]])

step("adagrad", "Tensor[]! sum", "float rate, float eps=1e-10",
  ("%s, %s, {ones(3, 4), ones(5)}, 0.1"):format(two, two), [[A step of Adagrad (Duchi et al., 2011):
adds the squared gradient to `sum` and moves by the gradient over its root.]])

step("adadelta", "Tensor[]! square_avg, Tensor[]! acc_delta", "float lr, float rho=0.9, float eps=1e-6",
  ("%s, %s, %s, %s, 0.1"):format(two, two, zeros, zeros), [[A step of Adadelta (Zeiler, 2012): moves
by the gradient times the root of `acc_delta`, the mean of squared moves, over that of `square_avg`.]])

step("adamax", "Tensor[]! exp_avg, Tensor[]! exp_inf",
  "float rate, float beta1=0.9, float beta2=0.999, float eps=1e-8",
  ("%s, %s, %s, %s, 0.1"):format(two, two, zeros, zeros), [[A step of Adamax (Kingma and Ba, 2015):
Adam with the largest gradient, `exp_inf`, in place of the second moment. `rate` is
lr / (1 - beta1^step).]])

step("asgd", "Tensor[]! ax", "float eta, float lambd=1e-4, float mu=1",
  ("%s, %s, %s, 0.1, 0.01, 0.5"):format(two, two, zeros), [[A step of averaged stochastic gradient
descent (Polyak and Juditsky, 1992) with the rate `eta` and the decay `lambd`; moves the mean `ax` by
the part `mu` towards the parameter.]])

step("nadam", "Tensor[]! exp_avg, Tensor[]! exp_avg_sq",
  "float rate, float mean_rate, float correction, float beta1=0.9, float beta2=0.999, float eps=1e-8",
  ("%s, %s, %s, %s, 0.1, 0.2, 0.5"):format(two, two, zeros, zeros), [[A step of NAdam (Dozat, 2016):
Adam that moves by `rate` times the gradient and `mean_rate` times the first moment. `correction` is
sqrt(1 - beta2^step).]])

step("radam", "Tensor[]! exp_avg, Tensor[]! exp_avg_sq",
  "float rate, float scale, float beta1=0.9, float beta2=0.999, float eps=1e-8",
  ("%s, %s, %s, %s, 0.1, 0.2"):format(two, two, zeros, zeros), [[A step of RAdam (Liu et al., 2020):
moves by `rate` times the first moment, times `scale` over the root of the second where that is not
0, which says that the variance cannot be known yet.]])

step("rmsprop", "Tensor[]! square_avg, Tensor?[]! momentum_buffer, Tensor?[]! grad_avg",
  "float lr, float alpha=0.99, float eps=1e-8, float momentum=0",
  ("%s, %s, {ones(3, 4), ones(5)}, %s, %s, 0.1, 0.5, 1e-8, 0.9"):format(two, two, zeros, zeros), [[A
step of RMSprop (Hinton's lectures, 2012): moves by the gradient over the root of `square_avg`; with
`grad_avg` (else `{}`) over the deviation (Graves, 2013). `momentum_buffer` is expected where `momentum`
is not 0.]])

step("rprop", "Tensor[]! prev, Tensor[]! step_size", "float less, float more, float least, float most",
  ("%s, %s, %s, {ones(3, 4), ones(5)}, 0.5, 1.2, 1e-6, 50"):format(two, two, two), [[A step of
resilient backpropagation (Riedmiller and Braun, 1993): `step_size`, from `least` to `most`, is
multiplied by `more` where the gradient has the sign of `prev` and by `less` where it has the other.]])

step("lion", "Tensor[]! exp_avg", "float lr, float beta1=0.9, float beta2=0.99",
  ("%s, %s, %s, 0.1"):format(two, two, two), [[A step of Lion (Chen et al., 2023): moves by `lr`
against the sign of a mean of the gradient and `exp_avg`.]])

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
