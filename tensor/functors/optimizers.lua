-- tensor/functors/optimizers.lua: the optimisers that change each element of a parameter by those
-- of its gradient and of tensors kept for it: a row for each. The generator makes of a row the op
-- that steps many parameters at once, with its checks and the kernels of all devices, and the op
-- whose counts and rates are on the device (`capturable`); the standard library computes the same
-- expressions by ops, where a step is recorded (`differentiable`) or is of one parameter after the
-- other.
--
-- A row says
--   name       NAME_step is the op, NAME_capturable_step that of counts on the device
--   states     the tensors kept of each parameter: zeros at first, or what `initial` says; with
--              `option`, only where that option of a group is set
--   counts     the numbers kept of each parameter, after `step`, with their first values; false for
--              no `step` either
--   arguments  the numbers and flags of the op, after its lists of tensors, with their defaults
--   numbers    how arguments and counts follow, once for each step, from the options of a group and
--              the counts of before; `step` is that of this step. What is assigned nowhere is an
--              option or a count
--   options    the options in `numbers` that are no arguments, with numbers for the op's tests;
--              those that are tables by their entries, as `betas[1]`
--   update     what becomes of an element `x` and its states by the gradient `g`
--   sample     numbers for the tests of the op NAME_step
--
-- `numbers` and `update` are written in lines `NAME = EXPRESSION` and `local NAME = EXPRESSION`;
-- `update` also in `if NAME then`, `if NAME ~= NUMBER then`, `else` and `end`. Expressions have + -
-- * / and the functions of tensor/ops/gen/optimizers.lua, of which `ratio` divides by what is 0, an
-- infinity or from 2^-126 to 2^126. `if` asks for a flag, a number that is the same for all
-- elements, or whether a state with an `option` is there.

local optimizers = {}

-- What all steps begin with: `weight_decay` times the parameter is added to the gradient; the
-- parameter is multiplied by `keep` (1 - lr * weight_decay for a decay that is decoupled); with
-- `maximize` it goes up the gradient.
optimizers.common_arguments = { "weight_decay=0", "keep=1", "maximize=false" }
optimizers.common_update = [[
  if maximize then
    g = -g
  end
  if weight_decay ~= 0 then
    g = g + weight_decay * x
  end
  if keep ~= 1 then
    x = keep * x
  end
]]

local rows = {}
optimizers.rows = rows

rows[#rows + 1] = {
  name = "sgd",
  doc = [[A step of stochastic gradient descent: moves each of `x` against its `gradient` and
updates its `momentum_buffer` (`{}` where `momentum` is 0), which starts as the gradient when
`first`. Nesterov's form: Sutskever et al., 2013.]],
  states = { { "momentum_buffer", option = "momentum" } },
  counts = false,
  arguments = { "lr", "momentum=0", "dampening=0", "nesterov=false", "first=false" },
  numbers = "",
  update = [[
    if momentum_buffer then
      if first then
        momentum_buffer = detach(g)
      else
        momentum_buffer = momentum * momentum_buffer + (1 - dampening) * g
      end
      if nesterov then
        g = g + momentum * momentum_buffer
      else
        g = momentum_buffer
      end
    end
    x = x - lr * g
  ]],
  sample = "0.1, 0.9" }

rows[#rows + 1] = {
  name = "adam",
  doc = [[A step of Adam (Kingma and Ba, 2015): updates the moments `exp_avg` and `exp_avg_sq`
and moves by the first over the root of the second; with `max_exp_avg_sq` that of its maximum,
AMSGrad (Reddi et al., 2018), else that is `{}`. `rate` is lr / (1 - beta1^step), `correction`
1 / sqrt(1 - beta2^step).]],
  states = { { "exp_avg" }, { "exp_avg_sq" }, { "max_exp_avg_sq", option = "amsgrad" } },
  arguments = { "rate", "correction", "beta1=0.9", "beta2=0.999", "eps=1e-8" },
  numbers = [[
    beta1 = betas[1]
    beta2 = betas[2]
    rate = lr / (1 - pow(beta1, step))
    correction = 1 / sqrt(1 - pow(beta2, step))
  ]],
  options = { "lr=0.1", "betas[1]=0.9", "betas[2]=0.999" },
  update = [[
    exp_avg = lerp(exp_avg, g, 1 - beta1)
    exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g * g
    local square = exp_avg_sq
    if max_exp_avg_sq then
      max_exp_avg_sq = maximum(max_exp_avg_sq, exp_avg_sq)
      square = max_exp_avg_sq
    end
    x = x - ratio(rate * exp_avg, sqrt(square) * correction + eps)
  ]],
  sample = "0.1, 0.5" }

rows[#rows + 1] = {
  name = "adagrad",
  doc = [[A step of Adagrad (Duchi et al., 2011): adds the squared gradient to `sum` and moves by
the gradient over its root. `rate` is lr / (1 + (step - 1) * lr_decay).]],
  states = { { "sum", initial = "initial_accumulator_value" } },
  arguments = { "rate", "eps=1e-10" },
  numbers = "rate = lr / (1 + (step - 1) * lr_decay)",
  options = { "lr=0.1", "lr_decay=0.01" },
  update = [[
    sum = sum + g * g
    x = x - ratio(rate * g, sqrt(sum) + eps)
  ]],
  sample = "0.1" }

rows[#rows + 1] = {
  name = "adadelta",
  doc = [[A step of Adadelta (Zeiler, 2012): moves by the gradient times the root of `acc_delta`,
the mean of squared moves, over that of `square_avg`.]],
  states = { { "square_avg" }, { "acc_delta" } },
  arguments = { "lr", "rho=0.9", "eps=1e-6" },
  numbers = "",
  update = [[
    square_avg = rho * square_avg + (1 - rho) * g * g
    local delta = ratio(sqrt(acc_delta + eps), sqrt(square_avg + eps)) * g
    acc_delta = rho * acc_delta + (1 - rho) * delta * delta
    x = x - lr * delta
  ]],
  sample = "0.1" }

rows[#rows + 1] = {
  name = "adamax",
  doc = [[A step of Adamax (Kingma and Ba, 2015): Adam with the largest gradient, `exp_inf`, instead
of the second moment. `rate` is lr / (1 - beta1^step).]],
  states = { { "exp_avg" }, { "exp_inf" } },
  arguments = { "rate", "beta1=0.9", "beta2=0.999", "eps=1e-8" },
  numbers = [[
    beta1 = betas[1]
    beta2 = betas[2]
    rate = lr / (1 - pow(beta1, step))
  ]],
  options = { "lr=0.1", "betas[1]=0.9", "betas[2]=0.999" },
  update = [[
    exp_avg = lerp(exp_avg, g, 1 - beta1)
    exp_inf = maximum(beta2 * exp_inf, abs(g) + eps)
    x = x - rate * exp_avg / exp_inf
  ]],
  sample = "0.1" }

rows[#rows + 1] = {
  name = "asgd",
  doc = [[A step of averaged stochastic gradient descent (Polyak and Juditsky, 1992) with the
rate `eta` and the decay `lambd`; moves the mean `ax` by the part `mu` towards the parameter.]],
  states = { { "ax" } },
  counts = { { "eta", "lr" }, { "mu", 1.0 } },
  arguments = { "rate", "lambd=1e-4", "part=1" },
  -- Those that are counted are for the next step.
  numbers = [[
    rate = eta
    part = mu
    eta = lr / pow(1 + lambd * lr * step, alpha)
    mu = 1 / maximum(step - t0, 1)
  ]],
  options = { "lr=0.1", "alpha=0.75", "t0=1" },
  update = [[
    x = (1 - lambd * rate) * x - rate * g
    if part ~= 1 then
      ax = lerp(ax, x, part)
    else
      ax = x
    end
  ]],
  sample = "0.1, 0.01, 0.5" }

rows[#rows + 1] = {
  name = "nadam",
  doc = [[A step of NAdam (Dozat, 2016): Adam that moves by `rate` times the gradient and
`mean_rate` times the first moment. `correction` is 1 / sqrt(1 - beta2^step).]],
  states = { { "exp_avg" }, { "exp_avg_sq" } },
  counts = { { "mu_product", 1.0 } },
  arguments = { "rate", "mean_rate", "correction", "beta1=0.9", "beta2=0.999", "eps=1e-8" },
  numbers = [[
    beta1 = betas[1]
    beta2 = betas[2]
    local mu = beta1 * (1 - 0.5 * pow(0.96, step * momentum_decay))
    local next_mu = beta1 * (1 - 0.5 * pow(0.96, (step + 1) * momentum_decay))
    mu_product = mu_product * mu
    rate = lr * (1 - mu) / (1 - mu_product)
    mean_rate = lr * next_mu / (1 - mu_product * next_mu)
    correction = 1 / sqrt(1 - pow(beta2, step))
  ]],
  options = { "lr=0.1", "betas[1]=0.9", "betas[2]=0.999", "momentum_decay=0.004" },
  update = [[
    exp_avg = lerp(exp_avg, g, 1 - beta1)
    exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g * g
    x = x - ratio(rate * g + mean_rate * exp_avg, sqrt(exp_avg_sq) * correction + eps)
  ]],
  sample = "0.1, 0.2, 0.5" }

rows[#rows + 1] = {
  name = "radam",
  doc = [[A step of RAdam (Liu et al., 2020): moves by `rate` times the first moment, times
`scale` over the root of the second where that is not 0, which says that the variance cannot be
known yet.]],
  states = { { "exp_avg" }, { "exp_avg_sq" } },
  arguments = { "rate", "scale", "beta1=0.9", "beta2=0.999", "eps=1e-8" },
  -- `length` is that of the approximated simple moving average, `square` the square of the factor
  -- by which the variance is rectified.
  numbers = [[
    beta1 = betas[1]
    beta2 = betas[2]
    rate = lr / (1 - pow(beta1, step))
    local most = 2 / (1 - beta2) - 1
    local rest = 1 - pow(beta2, step)
    local length = most - step * 2 * pow(beta2, step) / rest
    local square = (length - 4) * (length - 2) * most / (length * ((most - 4) * (most - 2)))
    scale = where(gt(length, 5), sqrt(square * rest), 0)
  ]],
  options = { "lr=0.1", "betas[1]=0.9", "betas[2]=0.999" },
  update = [[
    exp_avg = lerp(exp_avg, g, 1 - beta1)
    exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g * g
    x = x - rate * exp_avg * where(gt(scale, 0), ratio(scale, sqrt(exp_avg_sq) + eps), 1)
  ]],
  sample = "0.1, 0.2" }

rows[#rows + 1] = {
  name = "rmsprop",
  doc = [[A step of RMSprop (Hinton's lectures, 2012): moves by the gradient over the root of
`square_avg`; with `grad_avg` (else `{}`) over the deviation (Graves, 2013). `momentum_buffer` is
expected where `momentum` is not 0.]],
  states = { { "square_avg" }, { "momentum_buffer", option = "momentum" },
    { "grad_avg", option = "centered" } },
  arguments = { "lr", "alpha=0.99", "eps=1e-8", "momentum=0" },
  numbers = "",
  update = [[
    square_avg = alpha * square_avg + (1 - alpha) * g * g
    local square = square_avg
    if grad_avg then
      grad_avg = lerp(grad_avg, g, 1 - alpha)
      square = square - grad_avg * grad_avg
    end
    local change = ratio(g, sqrt(square) + eps)
    if momentum_buffer then
      momentum_buffer = momentum * momentum_buffer + change
      change = momentum_buffer
    end
    x = x - lr * change
  ]],
  sample = "0.1, 0.5, 1e-8, 0.9" }

rows[#rows + 1] = {
  name = "rprop",
  doc = [[A step of resilient backpropagation (Riedmiller and Braun, 1993): `step_size`, from
`least` to `most`, is multiplied by `more` where the gradient has the sign of `prev`, the gradient
before (0 where the sign had changed), and by `less` where it has the other.]],
  states = { { "prev" }, { "step_size", initial = "lr" } },
  arguments = { "less", "more", "least", "most" },
  numbers = [[
    less = etas[1]
    more = etas[2]
    least = step_sizes[1]
    most = step_sizes[2]
  ]],
  options = { "etas[1]=0.5", "etas[2]=1.2", "step_sizes[1]=1e-6", "step_sizes[2]=50" },
  update = [[
    local turn = g * prev
    local larger = where(gt(turn, 0), more * step_size, step_size)
    step_size = clamp(where(lt(turn, 0), less * step_size, larger), least, most)
    prev = where(lt(turn, 0), 0, g)
    x = x - sign(prev) * step_size
  ]],
  sample = "0.5, 1.2, 1e-6, 50" }

rows[#rows + 1] = {
  name = "lion",
  doc = [[A step of Lion (Chen et al., 2023): moves by `lr` against the sign of a mean of the
gradient and `exp_avg`.]],
  states = { { "exp_avg" } },
  arguments = { "lr", "beta1=0.9", "beta2=0.99" },
  numbers = [[
    beta1 = betas[1]
    beta2 = betas[2]
  ]],
  options = { "betas[1]=0.9", "betas[2]=0.99" },
  update = [[
    x = x - lr * sign(lerp(exp_avg, g, 1 - beta1))
    exp_avg = lerp(exp_avg, g, 1 - beta2)
  ]],
  sample = "0.1" }

-- An argument or option as it is written: what C++ calls it, the option of a group and its entry
-- where that is a table, its default or number for tests, and whether it is a flag.
local function read(text)
  local name, default = text:match "^([^=]+)=?(.*)$"
  local option, entry = name:match "^([%a_][%w_]*)%[(%d+)%]$"
  return { name = (name:gsub("[%[%]]", "")), option = option or name, entry = tonumber(entry),
    default = default ~= "" and default or nil, flag = default == "true" or default == "false" }
end

--- The arguments of a row's op NAME_step after its lists of tensors.
---@param row table
---@return table[]
function optimizers.arguments(row)
  local out = {}
  for _, list in ipairs { row.arguments, optimizers.common_arguments } do
    for _, text in ipairs(list) do out[#out + 1] = read(text) end
  end
  return out
end

--- What the op NAME_capturable_step takes in their stead: what they follow from, `decoupled` for
--- `keep`. Each that is no flag may be on the device.
---@param row table
---@return table[]
function optimizers.given(row)
  local out, has_rate = {}, false
  for _, text in ipairs(row.options or {}) do
    out[#out + 1] = read(text)
    out[#out].wanted = true
  end
  local follows = { keep = true }
  for line in row.numbers:gmatch "[^\n]+" do
    follows[line:match "^%s*([%a_][%w_]*) = " or ""] = true
  end
  for _, arg in ipairs(optimizers.arguments(row)) do
    if not follows[arg.name] then out[#out + 1] = arg end
  end
  for _, arg in ipairs(out) do has_rate = has_rate or arg.name == "lr" end
  if has_rate then out[#out + 1] = read "decoupled=false" end
  return out
end

--- The names of what is counted of each parameter.
---@param row table
---@return string[]
function optimizers.counted(row)
  local out = row.counts == false and {} or { "step" }
  for _, count in ipairs(row.counts or {}) do out[#out + 1] = count[1] end
  return out
end

return optimizers
