-- tensor/ops/loss.lua: losses. A `reduction` is "mean", "sum" or "none".

op { [[native_nll_loss(Tensor log_probs, Positions target, Tensor? weight, int reduction,
                       int ignore_index) -> (Tensor y, Tensor total_weight)]],
     constant = { "weight" },
     vmap = "native_nll_loss", kind = "structured", autocast = "float32", dtypes = "floating", internal = true,
     nodiff = { "total_weight" },
     grad = { log_probs = "nll_loss_grad_log_probs(g_y, target, weight, total_weight, sizes_of(log_probs), reduction, ignore_index)" },
     check = { value = "nll_loss is compared" },
     doc = [[`nll_loss` with the sum of the weights of the targets; `reduction` is 0 for none, 1 for mean, 2 for
sum.]],
     sample = { "randn(3, 4), tensor({1, 4, 2}), nil, 1, -100" } }

op { [[nll_loss_grad_log_probs(Tensor grad, Positions target, Tensor? weight, Tensor total_weight,
                               int[] size, int reduction, int ignore_index) -> Tensor]],
     vmap = "nll_loss_grad_log_probs", kind = "structured", dtypes = "floating", internal = true,
     grad = { grad = "std::get<0>(native_nll_loss(g, target, weight, reduction, ignore_index))" },
     check = { value = "nll_loss is compared", grad = "total_weight belongs to the targets" },
     doc = [[The gradient of `nll_loss` with respect to its input of sizes `size`.]],
     sample = { "randn(3), tensor({1, 4, 2}), nil, tensor(3.0), {3, 4}, 0, -100" } }

op { [[nll_loss(Tensor log_probs, Positions target, Tensor? weight=nil, string reduction="mean",
                int ignore_index=-100) -> Tensor]],
     constant = { "weight" },
     kind = "composite", autocast = "float32", dtypes = "floating",
     torch = "F.nll_loss(args[0], args[1], *args[2:3], **({'reduction': args[3]} if len(args) > 3 else {}))",
     doc = [[The negative log likelihood: minus the element of `log_probs` (n, c, ...) that `target` (n, ...),
1-based classes, names, times the class's `weight` (c). "mean" divides by the sum of the weights used.
Targets equal to `ignore_index` take no part; a mean over no target at all is NaN.]],
     sample = { "randn(3, 4):log_softmax(2), tensor({1, 4, 2})",
                "randn(3, 4), tensor({1, 4, 2}), rand(4), \"sum\"",
                "randn(2, 3, 2), tensor({{1, 3}, {2, 2}}), nil, \"none\"" } }

op { [[linear_cross_entropy(Tensor x, Tensor linear_weight, Tensor target, Tensor? linear_bias=nil,
                            Tensor? weight=nil, string reduction="mean", int ignore_index=-100,
                            float label_smoothing=0) -> Tensor]],
     constant = { "weight" },
     kind = "composite", dtypes = "floating", mixed = true,
     torch = "linear_cross_entropy_1based(*args)",
     check = { dtypes = "positions and probabilities differ in dtype" },
     doc = [[`cross_entropy` of `linear(x, linear_weight, linear_bias)`: `x` (n, features), `linear_weight`
(c, features), or (c, ..., features) for a target (n, ...).]],
     sample = { "randn(3, 5), randn(4, 5), tensor({1, 4, 2})",
                'randn(3, 5), randn(4, 5), tensor({1, 4, 2}), randn(4), rand(4), "sum", 4, 0.1',
                "randn(2, 5), randn(3, 2, 5), tensor({{1, 3}, {2, 2}}), randn(3, 2)",
                "randn(3, 5), randn(4, 5), rand(3, 4)" } }

op { [[cross_entropy(Tensor x, Tensor target, Tensor? weight=nil, string reduction="mean",
                     int ignore_index=-100, float label_smoothing=0) -> Tensor]],
     constant = { "weight" },
     kind = "composite", autocast = "float32", dtypes = "floating", mixed = true,
     torch = "cross_entropy_1based(*args)", check = { dtypes = "positions and probabilities differ in dtype" },
     doc = [[`nll_loss` of `log_softmax(x)`: `x` (n, c, ...) are logits, `target` (n, ...) 1-based classes, or
class probabilities of the shape of `x`. `label_smoothing` mixes the target with the uniform distribution
(Szegedy et al. 2015, "Rethinking the Inception Architecture").]],
     sample = { "randn(3, 4), tensor({1, 4, 2})",
                "randn(3, 4), tensor({1, 4, 2}), rand(4), \"sum\", -100, 0.1",
                "randn(3, 4), rand(3, 4)" } }

-- PyTorch's function of that name, which takes the arguments after `first` by these names.
local function by_name(name, first, names)
  local quoted = {}
  for i, argument in ipairs(names) do quoted[i] = ("'%s'"):format(argument) end
  return ("F.%s(*args[:%d], **dict(zip((%s,), args[%d:])))"):format(name, first,
    table.concat(quoted, ", "), first)
end

-- The losses of single elements, and their gradients: one pass over memory each.
local ELEMENTS = "randn(3, 4), randn(3, 4)"
local PROBABILITIES = "rand(3, 4):mul(0.8):add(0.1), rand(3, 4)"

-- `number` is a parameter's name, `value` one for the samples; `fields` has the gradients of `each`, and
-- with `_grad` those of its gradient with respect to `x`.
local function each(loss, number, value, torch, fields)
  local last = number and (", Scalar %s"):format(number) or ""
  local sample = (fields.sample or ELEMENTS) .. (value and ", " .. value or "")
  op { ("%s_each(Tensor x, Tensor target%s) -> Tensor"):format(loss, last),
       kind = "pointwise", dtypes = "floating", inplace = false, internal = true,
       keeps_dtype = number and true, torch = torch, grad = { x = fields.x, target = fields.target },
       doc = ("What each element adds to `%s`."):format(loss), sample = { sample } }
  if not fields.grad_x then return end
  op { ("%s_each_grad_x(Tensor grad, Tensor x, Tensor target%s) -> Tensor"):format(loss, last),
       kind = "pointwise", dtypes = "floating", inplace = false, internal = true,
       keeps_dtype = number and true, torch = fields.torch_grad, grad = fields.grad_x,
       doc = ("The gradient of `%s_each` with respect to `x`."):format(loss),
       sample = { "randn(3, 4), " .. sample } }
end

each("mse_loss", nil, nil, 'F.mse_loss(*args, reduction="none")', {
  x = "mse_loss_each_grad_x(g, x, target)", target = "mse_loss_each_grad_x(g, target, x)",
  torch_grad = "torch.ops.aten.mse_loss_backward(*args, 0)",
  grad_x = { grad = "mse_loss_each_grad_x(g, x, target)", x = "mul(mul(g, grad), 2.0)",
             target = "mul(mul(g, grad), -2.0)" } })
each("l1_loss", nil, nil, 'F.l1_loss(*args, reduction="none")', {
  x = "l1_loss_each_grad_x(g, x, target)", target = "l1_loss_each_grad_x(g, target, x)",
  torch_grad = "args[0] * torch.sign(args[1] - args[2])",
  grad_x = { grad = "l1_loss_each_grad_x(g, x, target)", x = "zero", target = "zero" } })
each("smooth_l1_loss", "beta", 0.7, 'F.smooth_l1_loss(args[0], args[1], beta=args[2], reduction="none")', {
  x = "smooth_l1_loss_each_grad_x(g, x, target, beta)",
  target = "smooth_l1_loss_each_grad_x(g, target, x, beta)",
  torch_grad = "torch.ops.aten.smooth_l1_loss_backward(*args[:3], 0, args[3])",
  grad_x = { grad = "smooth_l1_loss_each_grad_x(g, x, target, beta)",
             ["x, target"] = "huber_backward_grads(div(mul(g, grad), beta), x, target, beta)" } })
each("huber_loss", "delta", 0.7, 'F.huber_loss(args[0], args[1], delta=args[2], reduction="none")', {
  x = "huber_loss_each_grad_x(g, x, target, delta)", target = "huber_loss_each_grad_x(g, target, x, delta)",
  torch_grad = "torch.ops.aten.huber_loss_backward(*args[:3], 0, args[3])",
  grad_x = { grad = "huber_loss_each_grad_x(g, x, target, delta)",
             ["x, target"] = "huber_backward_grads(mul(g, grad), x, target, delta)" } })
each("binary_cross_entropy", nil, nil, 'F.binary_cross_entropy(*args, reduction="none")', {
  sample = PROBABILITIES, x = "binary_cross_entropy_each_grad_x(g, x, target)",
  target = "binary_cross_entropy_each_grad_target(g, x)",
  torch_grad = "torch.ops.aten.binary_cross_entropy_backward(*args, None, 0)",
  grad_x = { grad = "binary_cross_entropy_each_grad_x(g, x, target)",
             ["x, target"] = "binary_cross_entropy_grads(mul(g, grad), x, target)" } })
op { "binary_cross_entropy_each_grad_target(Tensor grad, Tensor x) -> Tensor",
     kind = "pointwise", dtypes = "floating", inplace = false, internal = true,
     torch = "args[0] * (torch.log1p(-args[1]) - torch.log(args[1]))",
     grad = { grad = "binary_cross_entropy_each_grad_target(g, x)",
              x = "neg(div(mul(g, grad), clamp_min(mul(x, sub(1.0, x)), 1e-12)))" },
     doc = "The gradient of `binary_cross_entropy_each` with respect to `target`.",
     sample = { "randn(3, 4), rand(3, 4):mul(0.8):add(0.1)" } }
each("binary_cross_entropy_with_logits", nil, nil, 'F.binary_cross_entropy_with_logits(*args, reduction="none")', {
  sample = "randn(3, 4), rand(3, 4)", x = "binary_cross_entropy_with_logits_each_grad_x(g, x, target)",
  target = "neg(mul(g, x))", torch_grad = "args[0] * (torch.sigmoid(args[1]) - args[2])",
  grad_x = { grad = "binary_cross_entropy_with_logits_each_grad_x(g, x, target)",
             x = "sigmoid_grad_x(mul(g, grad), sigmoid(x))", target = "neg(mul(g, grad))" } })
each("soft_margin_loss", nil, nil, 'F.soft_margin_loss(*args, reduction="none")', {
  x = "soft_margin_loss_each_grad_x(g, x, target)", target = "soft_margin_loss_each_grad_x(g, target, x)",
  torch_grad = "-args[0] * args[2] * torch.sigmoid(-args[1] * args[2])",
  grad_x = { grad = "soft_margin_loss_each_grad_x(g, x, target)",
             ["x, target"] = "soft_margin_grads(mul(g, grad), x, target)" } })
each("poisson_nll_loss", nil, nil, 'F.poisson_nll_loss(*args, reduction="none")', {
  x = "poisson_nll_loss_each_grad_x(g, x, target)", target = "neg(mul(g, x))",
  torch_grad = "args[0] * (torch.exp(args[1]) - args[2])",
  grad_x = { grad = "poisson_nll_loss_each_grad_x(g, x, target)", x = "mul(mul(g, grad), exp(x))",
             target = "neg(mul(g, grad))" } })
each("kl_div", nil, nil, 'F.kl_div(*args, reduction="none")', {
  sample = "randn(3, 4), rand(3, 4):add(0.1)", x = "neg(mul(g, target))",
  target = "mul(g, kl_div_target_grad(x, target))" })

local pointwise_losses = {
  { "mse_loss", "the squared difference" },
  { "l1_loss", "the absolute difference" },
}
for _, loss in ipairs(pointwise_losses) do
  op { loss[1] .. '(Tensor x, Tensor target, string reduction="mean", Tensor? weight=nil) -> Tensor',
       kind = "composite", autocast = "float32", dtypes = "floating",
       torch = by_name(loss[1], 2, { "reduction", "weight" }),
       doc = ("For each element %s of `x` and `target`; then the mean, the sum or all of them. With a "
         .. "`weight` of that shape each is multiplied, and a mean divided by the weights' sum."):format(loss[2]),
       sample = { "randn(3, 4), randn(3, 4)", 'randn(3, 4), randn(3, 4), "sum"',
                  'randn(3, 4), randn(3, 4), "none", rand(3, 4)',
                  'randn(3, 4), randn(3, 4), "mean", rand(3, 4)' } }
end

op { "smooth_l1_loss(Tensor x, Tensor target, string reduction=\"mean\", float beta=1) -> Tensor",
     kind = "composite", autocast = "float32", dtypes = "floating",
     torch = "F.smooth_l1_loss(args[0], args[1])",
     doc = [[`d^2 / (2 beta)` where the difference d is below `beta`, `|d| - beta / 2` elsewhere. Girshick 2015,
"Fast R-CNN".]],
     sample = { "randn(3, 4), randn(3, 4)" } }

op { [[huber_loss(Tensor x, Tensor target, string reduction="mean", float delta=1,
                  Tensor? weight=nil) -> Tensor]],
     kind = "composite", autocast = "float32", dtypes = "floating",
     torch = "F.huber_loss(*args)",
     doc = [[`d^2 / 2` where the difference d is below `delta`, `delta (|d| - delta / 2)` elsewhere, times the
`weight` of that shape where one is given. Huber 1964, "Robust Estimation of a Location Parameter".]],
     sample = { "randn(3, 4), randn(3, 4)", 'randn(3, 4), randn(3, 4), "mean", 0.7, rand(3, 4)',
                'randn(3, 4), randn(3, 4), "none", 0.7' } }

op { [[binary_cross_entropy(Tensor x, Tensor target, Tensor? weight=nil,
                            string reduction="mean") -> Tensor]],
     constant = { "weight" },
     kind = "composite", autocast = "float32", dtypes = "floating",
     torch = "F.binary_cross_entropy(args[0], args[1])",
     doc = [[`-(target log x + (1 - target) log(1 - x))` for probabilities `x`, the logarithms not below -100.]],
     sample = { "rand(3, 4):mul(0.8):add(0.1), rand(3, 4)" } }

op { [[binary_cross_entropy_with_logits(Tensor x, Tensor target, Tensor? weight=nil,
                                        Tensor? pos_weight=nil, string reduction="mean") -> Tensor]],
     constant = { "weight" },
     kind = "composite", autocast = "float32", dtypes = "floating",
     torch = "F.binary_cross_entropy_with_logits(args[0], args[1])",
     doc = [[`binary_cross_entropy` of `sigmoid(x)`, computed so that large logits neither overflow nor lose
precision. `pos_weight` multiplies the part of the positive targets.]],
     sample = { "randn(3, 4), rand(3, 4)" } }

op { "kl_div(Tensor x, Tensor target, string reduction=\"mean\", bool log_target=false) -> Tensor",
     kind = "composite", autocast = "float32", dtypes = "floating",
     torch = "F.kl_div(args[0], args[1], **({'reduction': args[2]} if len(args) > 2 else {}))",
     doc = [[The Kullback-Leibler divergence `target (log target - x)` for log probabilities `x`; `log_target`
says that `target` holds logarithms too. `reduction` may also be "batchmean", the sum divided by the first
size.]],
     sample = { "randn(3, 4), rand(3, 4):add(0.1)", "randn(3, 4), rand(3, 4):add(0.1), \"batchmean\"" } }

-- A loss whose PyTorch form takes the arguments after `first` by these names.
local function loss(signature, first, names, doc, samples, extra)
  local row = { signature .. " -> Tensor", kind = "composite", autocast = "float32", dtypes = "floating",
    mixed = true, doc = doc, sample = samples,
    torch = by_name(signature:match "^[%w_]+", first, names) }
  for key, value in pairs(extra or {}) do row[key] = value end
  row.autocast = row.autocast or nil
  op(row)
end

loss([[margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0,
                           string reduction="mean")]], 3, { "margin", "reduction" },
  [[`max(0, margin - target (input1 - input2))`: a `target` of 1 wants `input1` the greater, of -1
`input2`.]],
  { "randn(4), randn(4), randn(4):sign()", 'randn(2, 3), randn(2, 3), randn(2, 3):sign(), 0.4, "sum"',
    'randn(4), randn(4), randn(4):sign(), 0.2, "none"' })

loss([[hinge_embedding_loss(Tensor x, Tensor target, float margin=1, string reduction="mean")]], 2,
  { "margin", "reduction" },
  [[`x` where `target` is 1, `max(0, margin - x)` where it is -1: for distances `x` of pairs that are
alike or not.]],
  { "randn(3, 4), randn(3, 4):sign()", 'randn(3, 4), randn(4):sign(), 0.5, "none"' },
  { constant = { "target" } })

loss([[soft_margin_loss(Tensor x, Tensor target, string reduction="mean")]], 2, { "reduction" },
  "`log(1 + exp(-target x))` for targets of 1 and -1, without overflow.",
  { "randn(3, 4), randn(3, 4):sign()", 'randn(3, 4), randn(3, 4):sign(), "sum"' })

loss([[cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0,
                             string reduction="mean")]], 3, { "margin", "reduction" },
  [[`1 - cos` of the angle between `input1` and `input2`, (n, features), where `target` (n) is 1, and
`max(0, cos - margin)` where it is -1. Without n the target is 0-d.]],
  { "randn(3, 4), randn(3, 4), tensor({1, -1, 1})",
    'randn(3, 4), randn(3, 4), tensor({-1, -1, 1}), -0.3, "none"', "randn(4), randn(4), tensor(1)" },
  { constant = { "target" } })

loss([[triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1, float p=2,
                           float eps=1e-6, bool swap=false, string reduction="mean")]], 3,
  { "margin", "p", "eps", "swap", "reduction" },
  [[`max(0, d(anchor, positive) - d(anchor, negative) + margin)` with `pairwise_distance` d over the
last dimension. With `swap` the distance from `positive` to `negative` counts where it is smaller
(Balntas et al. 2016, "Learning shallow convolutional feature descriptors with triplet losses").]],
  { "randn(3, 4), randn(3, 4), randn(3, 4)",
    'randn(3, 4), randn(3, 4), randn(3, 4), 2.5, 1, 1e-6, true, "none"',
    'randn(4), randn(4), randn(4), 3, 3, 1e-6, false, "sum"' })

loss([[multi_margin_loss(Tensor x, Positions target, int p=1, float margin=1, Tensor? weight=nil,
                         string reduction="mean")]], 2, { "p", "margin", "weight", "reduction" },
  [[The sum of `max(0, margin - x[target] + x[i])^p`, for the classes i other than the `target`, over the
number of classes: `x` (n, c) or (c), `target` (n) or (), the 1-based classes, `weight` (c) that of each
target's class. `p` is 1 or 2.]],
  { "randn(3, 4), tensor({1, 4, 2})", 'randn(3, 4), tensor({1, 4, 2}), 2, 0.7, rand(4), "none"',
    'randn(4), tensor(3), 1, 1.5, nil, "sum"' }, { constant = { "weight" } })

loss([[multilabel_margin_loss(Tensor x, Positions target, string reduction="mean")]], 2, { "reduction" },
  [[The sum of `max(0, 1 - x[label] + x[i])`, for each label and each class i that is none, over the number
of classes: `x` (n, c) or (c). A row of `target`, of that shape, begins with its labels, 1-based; an entry
below 1 ends them.]],
  { "randn(3, 4), tensor({{1, 4, -1, 2}, {2, -1, -1, -1}, {-1, 1, 1, 1}})",
    'randn(2, 3), tensor({{3, 2, 1}, {2, 2, -1}}), "none"', "randn(4), tensor({3, 1, -1, 2})" },
  { torch = "multilabel_margin_loss_1based(*args)" })

loss([[multilabel_soft_margin_loss(Tensor x, Tensor target, Tensor? weight=nil,
                                   string reduction="mean")]], 2, { "weight", "reduction" },
  [[The mean over the last dimension, the classes, of the binary cross entropy of each logit of `x` with its
`target`, 0 or 1, times its class's `weight`.]],
  { "randn(3, 4), rand(3, 4)", 'randn(3, 4), rand(3, 4), rand(4), "none"' }, { autocast = false })

loss([[poisson_nll_loss(Tensor x, Tensor target, bool log_input=true, bool full=false, float eps=1e-8,
                        string reduction="mean")]], 2, { "log_input", "full", "eps", "reduction" },
  [[`exp(x) - target x`, the negative log likelihood of counts under Poisson distributions of rates
`exp(x)`; `x - target log(x + eps)` for rates `x`, without `log_input`. `full` adds Stirling's approximation
of `log(target!)` for targets above 1.]],
  { "randn(3, 4), rand(3, 4) * 5", 'rand(3, 4), rand(3, 4) * 5, false, true, 1e-6, "none"' })

loss([[gaussian_nll_loss(Tensor x, Tensor target, Operand var, bool full=false, float eps=1e-6,
                         string reduction="mean")]], 3, { "full", "eps", "reduction" },
  [[`(log(var) + (x - target)^2 / var) / 2`, the negative log likelihood of `target` under normal
distributions of means `x` and variances `var`, which are at least `eps`. `var` has the shape of `x`, or of
`x` without its last dimension, or one with a single 1 in place of a size; or it is a number. `full` adds `log(2 pi) / 2`.
Nix and Weigend 1994, "Estimating the mean and variance of the target probability distribution".]],
  { "randn(3, 4), randn(3, 4), rand(3, 4) + 0.1", 'randn(3, 4), randn(3, 4), rand(3) + 0.1, true, 1e-6, "none"',
    'randn(3, 4), randn(3, 4), rand(1, 4) + 0.1, false, 0.01, "sum"', "randn(3, 4), randn(3, 4), 0.6" },
  { autocast = false })

op { [[native_ctc_loss(Tensor log_probs, Positions targets, int[*] input_lengths, int[*] target_lengths,
                       int blank) -> (Tensor y, Tensor log_alpha)]],
     vmap = "native_ctc_loss", kind = "structured", dtypes = "floating", internal = true, nodiff = { "log_alpha" },
     grad = { log_probs = "ctc_loss_grad_log_probs(g_y, log_probs, targets, input_lengths, target_lengths, y, log_alpha, blank)" },
     check = { value = "ctc_loss is compared", gradgrad = "there is no second derivative", empty = "the lengths are those of the sizes" },
     doc = [[`ctc_loss` of each entry, and what its gradient needs: the logarithms of the probabilities of the
paths to each position, (n, t, 2 s + 1), where s is the greatest of `target_lengths`. `blank` counts from 0.]],
     sample = { "randn(4, 2, 3):log_softmax(3), tensor({{2, 3}, {2, 2}}), {4, 3}, {2, 1}, 0" } }

op { [[ctc_loss_grad_log_probs(Tensor grad, Tensor log_probs, Positions targets, int[*] input_lengths,
                               int[*] target_lengths, Tensor result, Tensor log_alpha, int blank) -> Tensor]],
     vmap = "ctc_loss_grad_log_probs", kind = "structured", dtypes = "floating", mixed = true, internal = true,
     grad = { grad = "ctc_loss_along(g, grad, log_probs, targets, input_lengths, target_lengths, result, log_alpha, blank)",
              log_probs = "no_second_derivative(\"ctc_loss\")" },
     check = { value = "checked through what uses it", grad = "there is no second derivative",
               gradgrad = "there is no second derivative", empty = "the lengths are those of the sizes" },
     doc = [[The gradient of `ctc_loss` from what `native_ctc_loss` gave.]],
     sample = { [[(function()
       local x, targets = randn(4, 2, 3):log_softmax(3), tensor({{2, 3}, {2, 2}})
       local y, log_alpha = native_ctc_loss(x, targets, {4, 3}, {2, 1}, 0)
       return randn(2), x, targets, {4, 3}, {2, 1}, y, log_alpha, 0
     end)()]] } }

op { [[ctc_loss(Tensor log_probs, Positions targets, int[*] input_lengths, int[*] target_lengths,
                Index blank=0, string reduction="mean", bool zero_infinity=false) -> Tensor]],
     kind = "composite", autocast = "float32", dtypes = "floating",
     check = { gradgrad = "there is no second derivative", empty = "the lengths are those of the sizes" },
     torch = "ctc_loss_1based(*args)",
     doc = [[The connectionist temporal classification loss: minus the logarithm of the probability that a path
through `log_probs` (t, n, c), or (t, c), gives the classes of the target when repeated ones are merged and the
class `blank` is dropped. `targets` are 1-based classes, (n, s), or those of all entries one after the other;
`input_lengths` and `target_lengths` say how much of each entry counts. "mean" divides each loss by its target's
length first. `zero_infinity` makes the loss and gradient of targets that no path can give 0. The gradient is
that with respect to `log_probs` itself; behind `log_softmax` it is the same as PyTorch's. Graves et al. 2006,
"Connectionist Temporal Classification".]],
     sample = { "randn(5, 2, 4):log_softmax(3), tensor({{2, 3, 3}, {4, 2, 1}}), {5, 4}, {3, 2}",
                'randn(5, 2, 4):log_softmax(3), tensor({2, 1, 1, 3}), {5, 3}, {3, 1}, 4, "none"',
                'randn(6, 3):log_softmax(2), tensor({1, 1, 2}), {6}, {3}, 3, "sum"',
                'randn(3, 2, 4):log_softmax(3), tensor({{2, 2, 2}, {4, 2, 1}}), {3, 2}, {3, 0}, 1, "none", true' } }
