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
     doc = [[Negative log likelihood loss: minus the log probability of each target class, weighted.
"mean" divides by the sum of the weights used. Targets equal to `ignore_index` take no part; a mean over
no target at all is NaN.]],
     args = { log_probs = "log probabilities, as `log_softmax` gives them",
              target = "the classes, from 1",
              weight = "a weight for each class",
              ignore_index = "the target that takes no part" },
     shapes = "log_probs (n, c, *), target (n, *), weight (c) -> () or (n, *)",
     formula = "loss_n = -weight_(t_n) * log_probs_(n, t_n)",
     errors = "a target that is no class",
     example = "ml.nll_loss(ml.tensor {{-0.5, -1}, {-2, -0.1}}, ml.tensor {1, 2})",
     gives = "0.3000  Tensor () float32",
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
     doc = [[Cross entropy loss of the logits of a linear layer: `cross_entropy` of `linear(x,
linear_weight, linear_bias)`.]],
     args = { x = "the inputs of the layer",
              linear_weight = "its matrix: a row for each class, or (c, *, features) for a target (n, *)",
              target = "the classes, from 1, or class probabilities",
              linear_bias = "a number for each class",
              weight = "a weight for each class",
              ignore_index = "the target that takes no part",
              label_smoothing = "the part of the uniform distribution in the target, from 0 to 1" },
     shapes = "x (n, features), linear_weight (c, features), target (n) -> () or (n)",
     example = "ml.linear_cross_entropy(ml.tensor {{1.0, 2}}, ml.eye(2), ml.tensor {2})",
     gives = "0.3133  Tensor () float32",
     sample = { "randn(3, 5), randn(4, 5), tensor({1, 4, 2})",
                'randn(3, 5), randn(4, 5), tensor({1, 4, 2}), randn(4), rand(4), "sum", 4, 0.1',
                "randn(2, 5), randn(3, 2, 5), tensor({{1, 3}, {2, 2}}), randn(3, 2)",
                "randn(3, 5), randn(4, 5), rand(3, 4)" } }

op { [[native_cross_entropy(Tensor x, Positions target, Tensor? weight, int reduction, int ignore_index,
                            float label_smoothing) -> (Tensor y, Tensor logsumexp, Tensor total_weight)]],
     constant = { "weight" },
     vmap = "native_cross_entropy", kind = "structured", autocast = "float32", dtypes = "floating", internal = true,
     nodiff = { "logsumexp", "total_weight" },
     grad = { x = "cross_entropy_grad_x(g_y, x, target, weight, logsumexp, total_weight, reduction, ignore_index, label_smoothing)" },
     check = { value = "cross_entropy is compared" },
     doc = [[`cross_entropy` of classes with what its gradient needs: of each entry the logarithm of the sum of
`exp(x)` over the classes, and the sum of the weights of the targets, both in the dtype that is computed in.
`reduction` is 0 for none, 1 for mean, 2 for sum.]],
     sample = { "randn(3, 4), tensor({1, 4, 2}), nil, 1, -100, 0", "randn(3, 4), tensor({1, 4, 2}), rand(4), 2, 4, 0.1",
                "randn(2, 3, 2), tensor({{1, 3}, {2, 2}}), rand(3), 0, -100, 0.2" } }

op { [[cross_entropy_grad_x(Tensor grad, Tensor x, Positions target, Tensor? weight, Tensor logsumexp,
                            Tensor total_weight, int reduction, int ignore_index,
                            float label_smoothing) -> Tensor]],
     constant = { "weight", "logsumexp", "total_weight" },
     vmap = "cross_entropy_grad_x", kind = "structured", dtypes = "floating", mixed = true, internal = true,
     grad = { ["grad, x"] = "cross_entropy_grad_x_grads(g, grad, x, target, weight, logsumexp, total_weight, reduction, ignore_index, label_smoothing)" },
     check = { value = "checked through what uses it", grad = "its sums move with x",
               gradgrad = "its sums move with x", empty = "its sums belong to x" },
     doc = [[The gradient of `cross_entropy` of classes with respect to `x`; `logsumexp` and `total_weight` are
those that `native_cross_entropy` gave.]],
     sample = { [[(function()
       local x, target = randn(3, 4), tensor({1, 4, 2})
       local y, sums, total = native_cross_entropy(x, target, nil, 0, 4, 0.1)
       return y + 1, x, target, nil, sums, total, 0, 4, 0.1
     end)()]] } }

op { [[cross_entropy(Tensor x, Tensor target, Tensor? weight=nil, string reduction="mean",
                     int ignore_index=-100, float label_smoothing=0) -> Tensor]],
     constant = { "weight" },
     kind = "composite", autocast = "float32", dtypes = "floating", mixed = true,
     torch = "cross_entropy_1based(*args)", check = { dtypes = "positions and probabilities differ in dtype" },
     doc = [[Cross entropy loss of logits: the negative log likelihood of the targets under the softmax
of `x`. For classes as targets "mean" divides by the sum of the weights used. With `label_smoothing` the
target is mixed with the uniform distribution.]],
     args = { x = "the logits",
              target = "the classes, from 1, or class probabilities of the shape of `x`",
              weight = "a weight for each class",
              ignore_index = "the target that takes no part",
              label_smoothing = "the part of the uniform distribution in the target, from 0 to 1" },
     shapes = "x (n, c, *), target (n, *), weight (c) -> () or (n, *)",
     formula = "loss_n = -weight_(t_n) * log(exp(x_(n, t_n)) / sum_c exp(x_nc))",
     errors = "a target that is no class",
     source = 'Szegedy et al. 2015, "Rethinking the Inception Architecture"',
     example = "ml.cross_entropy(ml.tensor {{1.0, 2, 3}}, ml.tensor {3})",
     gives = "0.4076  Tensor () float32",
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
       doc = ("`%s` of each element, without reduction."):format(loss), sample = { sample } }
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
  mse_loss = { [[Mean squared error loss: the squared differences of the elements, reduced. With `weight` each
is multiplied, and a mean divided by the sum of the weights.]],
    args = { x = "the predictions",
             target = "what they should be, of the shape of `x`",
             weight = "a weight for each element" },
    shapes = "x (*), target (*), weight (*) -> () or (*)",
    formula = "loss_i = weight_i * (x_i - target_i)^2",
    example = "ml.mse_loss(ml.tensor {1.0, 2}, ml.tensor {1.0, 4})", gives = "2.  Tensor () float32" },
  l1_loss = { [[Mean absolute error loss: the absolute differences of the elements, reduced. With `weight`
each is multiplied, and a mean divided by the sum of the weights.]],
    args = { x = "the predictions",
             target = "what they should be, of the shape of `x`",
             weight = "a weight for each element" },
    shapes = "x (*), target (*), weight (*) -> () or (*)",
    formula = "loss_i = weight_i * abs(x_i - target_i)",
    example = "ml.l1_loss(ml.tensor {1.0, 2}, ml.tensor {1.0, 4})", gives = "1.  Tensor () float32" },
}

for _, loss in ipairs { "mse_loss", "l1_loss" } do
  op { loss .. '(Tensor x, Tensor target, string reduction="mean", Tensor? weight=nil) -> Tensor',
       kind = "composite", autocast = "float32", dtypes = "floating",
       torch = by_name(loss, 2, { "reduction", "weight" }),
       doc = pointwise_losses[loss],
       sample = { "randn(3, 4), randn(3, 4)", 'randn(3, 4), randn(3, 4), "sum"',
                  'randn(3, 4), randn(3, 4), "none", rand(3, 4)',
                  'randn(3, 4), randn(3, 4), "mean", rand(3, 4)' } }
end

op { "smooth_l1_loss(Tensor x, Tensor target, string reduction=\"mean\", float beta=1) -> Tensor",
     kind = "composite", autocast = "float32", dtypes = "floating",
     torch = "F.smooth_l1_loss(args[0], args[1])",
     doc = "Smooth L1 loss: squared where the difference is below `beta`, absolute elsewhere.",
     args = { x = "the predictions",
              target = "what they should be, of the shape of `x`",
              beta = "the difference at which the two meet; 0 is `l1_loss`" },
     shapes = "x (*), target (*) -> () or (*)",
     formula = [[
loss_i = d_i^2 / (2 * beta) for d_i < beta, else d_i - beta / 2
d_i = abs(x_i - target_i)]],
     source = 'Girshick 2015, "Fast R-CNN"',
     example = 'ml.smooth_l1_loss(ml.tensor {1.0, 2}, ml.tensor {1.5, 4}, "none")',
     gives = [[
{0.1250, 1.5000}
Tensor (2,) float32]],
     sample = { "randn(3, 4), randn(3, 4)" } }

op { [[huber_loss(Tensor x, Tensor target, string reduction="mean", float delta=1,
                  Tensor? weight=nil) -> Tensor]],
     kind = "composite", autocast = "float32", dtypes = "floating",
     torch = "F.huber_loss(*args)",
     doc = "Huber loss: squared where the difference is below `delta`, linear elsewhere.",
     args = { x = "the predictions",
              target = "what they should be, of the shape of `x`",
              delta = "the difference at which the two meet, above 0",
              weight = "a weight for each element" },
     shapes = "x (*), target (*), weight (*) -> () or (*)",
     formula = [[
loss_i = d_i^2 / 2 for d_i < delta, else delta * (d_i - delta / 2)
d_i = abs(x_i - target_i)]],
     errors = "a `delta` that is not positive",
     source = 'Huber 1964, "Robust Estimation of a Location Parameter"',
     example = 'ml.huber_loss(ml.tensor {1.0, 2}, ml.tensor {1.5, 4}, "none")',
     gives = [[
{0.1250, 1.5000}
Tensor (2,) float32]],
     sample = { "randn(3, 4), randn(3, 4)", 'randn(3, 4), randn(3, 4), "mean", 0.7, rand(3, 4)',
                'randn(3, 4), randn(3, 4), "none", 0.7' } }

op { [[binary_cross_entropy(Tensor x, Tensor target, Tensor? weight=nil,
                            string reduction="mean") -> Tensor]],
     constant = { "weight" },
     kind = "composite", autocast = "float32", dtypes = "floating",
     torch = "F.binary_cross_entropy(args[0], args[1])",
     doc = [[Binary cross entropy loss of probabilities. The logarithms are not below -100, so the loss
is finite.]],
     args = { x = "probabilities, from 0 to 1",
              target = "the probabilities that they should be, of the shape of `x`",
              weight = "a weight for each element, which broadcasts" },
     shapes = "x (*), target (*), weight (*) -> () or (*)",
     formula = "loss_i = -weight_i * (target_i * log(x_i) + (1 - target_i) * log(1 - x_i))",
     example = "ml.binary_cross_entropy(ml.tensor {0.9, 0.2}, ml.tensor {1.0, 0})",
     gives = "0.1643  Tensor () float32",
     sample = { "rand(3, 4):mul(0.8):add(0.1), rand(3, 4)" } }

op { [[binary_cross_entropy_with_logits(Tensor x, Tensor target, Tensor? weight=nil,
                                        Tensor? pos_weight=nil, string reduction="mean") -> Tensor]],
     constant = { "weight" },
     kind = "composite", autocast = "float32", dtypes = "floating",
     torch = "F.binary_cross_entropy_with_logits(args[0], args[1])",
     doc = [[Binary cross entropy loss of logits: that of `sigmoid(x)`, computed without overflow or
loss of precision for large logits.]],
     args = { x = "the logits",
              target = "the probabilities that their sigmoids should be, of the shape of `x`",
              weight = "a weight for each element, which broadcasts",
              pos_weight = "a factor of the part of the positive targets, which broadcasts" },
     shapes = "x (*), target (*), weight (*), pos_weight (*) -> () or (*)",
     formula = "loss_i = -weight_i * (pos_weight_i * target_i * log(sigmoid(x_i)) + (1 - target_i) * log(1 - " ..
       "sigmoid(x_i)))",
     example = "ml.binary_cross_entropy_with_logits(ml.tensor {2.0, -1}, ml.tensor {1.0, 0})",
     gives = "0.2201  Tensor () float32",
     sample = { "randn(3, 4), rand(3, 4)" } }

op { "kl_div(Tensor x, Tensor target, string reduction=\"mean\", bool log_target=false) -> Tensor",
     kind = "composite", autocast = "float32", dtypes = "floating",
     torch = "F.kl_div(args[0], args[1], **({'reduction': args[2]} if len(args) > 2 else {}))",
     doc = "Kullback-Leibler divergence loss of log probabilities.",
     args = { x = "log probabilities",
              target = "probabilities, or log probabilities, of the shape of `x`",
              reduction = '"mean" of all elements, "batchmean" (the sum divided by the size of the batch, which is the divergence), "sum" or "none"',
              log_target = "whether `target` holds log probabilities" },
     shapes = "x (*), target (*) -> () or (*)",
     formula = "loss_i = target_i * (log(target_i) - x_i)",
     source = 'Kullback and Leibler 1951, "On Information and Sufficiency"',
     example = 'ml.kl_div(ml.log(ml.tensor {{0.5, 0.5}}), ml.tensor {{0.9, 0.1}}, "batchmean")',
     gives = "0.3681  Tensor () float32",
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
  { [[Margin ranking loss: the first input should be the greater one where `target` is 1, the second
where it is -1.]],
    args = { input1 = "the first scores",
             input2 = "the second scores",
             target = "1 or -1",
             margin = "by how much the one should be greater" },
    shapes = "input1 (*), input2 (*), target (*) -> () or (*)",
    formula = "loss_i = max(0, margin - target_i * (input1_i - input2_i))",
    example = "ml.margin_ranking_loss(ml.tensor {2.0, 1}, ml.tensor {1.0, 3}, ml.tensor {1.0, 1})",
    gives = "1.  Tensor () float32" },
  { "randn(4), randn(4), randn(4):sign()", 'randn(2, 3), randn(2, 3), randn(2, 3):sign(), 0.4, "sum"',
    'randn(4), randn(4), randn(4):sign(), 0.2, "none"' })

loss([[hinge_embedding_loss(Tensor x, Tensor target, float margin=1, string reduction="mean")]], 2,
  { "margin", "reduction" },
  { "Hinge embedding loss for distances of pairs that are similar (`target` 1) or not (-1).",
    args = { x = "the distances",
             target = "1 or -1",
             margin = "the distance from which a dissimilar pair costs nothing" },
    shapes = "x (*), target (*) -> () or (*)",
    formula = "loss_i = x_i for target_i = 1, else max(0, margin - x_i)",
    example = "ml.hinge_embedding_loss(ml.tensor {0.5, 0.5}, ml.tensor {1.0, -1})",
    gives = "0.5000  Tensor () float32" },
  { "randn(3, 4), randn(3, 4):sign()", 'randn(3, 4), randn(4):sign(), 0.5, "none"' },
  { constant = { "target" } })

loss([[soft_margin_loss(Tensor x, Tensor target, string reduction="mean")]], 2, { "reduction" },
  { "Soft margin loss for two classes: logistic loss of `x` for targets of 1 and -1, without overflow.",
    args = { x = "the scores", target = "1 or -1" },
    shapes = "x (*), target (*) -> () or (*)",
    formula = "loss_i = log(1 + exp(-target_i * x_i))",
    example = "ml.soft_margin_loss(ml.tensor {2.0, -1}, ml.tensor {1.0, -1})",
    gives = "0.2201  Tensor () float32" },
  { "randn(3, 4), randn(3, 4):sign()", 'randn(3, 4), randn(3, 4):sign(), "sum"' })

loss([[cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0,
                             string reduction="mean")]], 3, { "margin", "reduction" },
  { "Cosine embedding loss for pairs of vectors that are similar (`target` 1) or not (-1).",
    args = { input1 = "the first vectors",
             input2 = "the second vectors",
             target = "1 or -1",
             margin = "the cosine up to which a dissimilar pair costs nothing" },
    shapes = "input1 (n, features), input2 (n, features), target (n) -> () or (n)",
    formula = "loss_n = 1 - cos(input1_n, input2_n) for target_n = 1, else max(0, cos(input1_n, input2_n) - margin)",
    example = "ml.cosine_embedding_loss(ml.tensor {{1.0, 0}}, ml.tensor {{1.0, 1}}, ml.tensor {1})",
    gives = "0.2929  Tensor () float32" },
  { "randn(3, 4), randn(3, 4), tensor({1, -1, 1})",
    'randn(3, 4), randn(3, 4), tensor({-1, -1, 1}), -0.3, "none"', "randn(4), randn(4), tensor(1)" },
  { constant = { "target" } })

loss([[triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1, float p=2,
                           float eps=1e-6, bool swap=false, string reduction="mean")]], 3,
  { "margin", "p", "eps", "swap", "reduction" },
  { [[Triplet margin loss: the anchor should be nearer to the positive than to the negative vector,
by a margin.]],
    args = { anchor = "the anchors",
             positive = "vectors of the class of the anchors",
             negative = "vectors of another class",
             margin = "by how much the distance should be smaller",
             p = "the order of the norm of the distance",
             eps = "what is added to each difference, so that the gradient is finite",
             swap = "whether the distance from `positive` to `negative` counts where it is smaller" },
    shapes = "anchor (n, features), positive (n, features), negative (n, features) -> () or (n)",
    formula = "loss_n = max(0, d(anchor_n, positive_n) - d(anchor_n, negative_n) + margin)",
    source = 'Balntas et al. 2016, "Learning shallow convolutional feature descriptors with triplet losses"',
    example = "ml.triplet_margin_loss(ml.tensor {{0.0, 0}}, ml.tensor {{1.0, 0}}, ml.tensor {{0.0, 1.5}})",
    gives = "0.5000  Tensor () float32" },
  { "randn(3, 4), randn(3, 4), randn(3, 4)",
    'randn(3, 4), randn(3, 4), randn(3, 4), 2.5, 1, 1e-6, true, "none"',
    'randn(4), randn(4), randn(4), 3, 3, 1e-6, false, "sum"' })

loss([[multi_margin_loss(Tensor x, Positions target, int p=1, float margin=1, Tensor? weight=nil,
                         string reduction="mean")]], 2, { "p", "margin", "weight", "reduction" },
  { "Multi-class margin loss: the score of the target class should exceed the others by a margin.",
    args = { x = "the scores",
             target = "the classes, from 1",
             p = "the power of each violation, 1 or 2",
             margin = "by how much the score of the target should exceed the others",
             weight = "a weight for each class, that of a sample's target" },
    shapes = "x (n, c), target (n), weight (c) -> () or (n)",
    formula = "loss_n = sum_(i != t_n) (weight_(t_n) * max(0, margin - x_(n, t_n) + x_ni)^p) / c",
    example = "ml.multi_margin_loss(ml.tensor {{0.5, 0.2, 0.1}}, ml.tensor {1})",
    gives = "0.4333  Tensor () float32" },
  { "randn(3, 4), tensor({1, 4, 2})", 'randn(3, 4), tensor({1, 4, 2}), 2, 0.7, rand(4), "none"',
    'randn(4), tensor(3), 1, 1.5, nil, "sum"' }, { constant = { "weight" } })

loss([[multilabel_margin_loss(Tensor x, Positions target, string reduction="mean")]], 2, { "reduction" },
  { "Multi-label margin loss: the scores of a sample's labels should exceed the others by 1.",
    args = { x = "the scores",
             target = "rows that begin with the labels, from 1; an entry below 1 ends them" },
    shapes = "x (n, c), target (n, c) -> () or (n)",
    formula = "loss_n = sum_(j in labels) sum_(i not in labels) max(0, 1 - x_nj + x_ni) / c",
    example = "ml.multilabel_margin_loss(ml.tensor {{0.5, 0.2, 0.1}}, ml.tensor {{1, 3, -1}})",
    gives = "0.6000  Tensor () float32" },
  { "randn(3, 4), tensor({{1, 4, -1, 2}, {2, -1, -1, -1}, {-1, 1, 1, 1}})",
    'randn(2, 3), tensor({{3, 2, 1}, {2, 2, -1}}), "none"', "randn(4), tensor({3, 1, -1, 2})" },
  { torch = "multilabel_margin_loss_1based(*args)" })

loss([[multilabel_soft_margin_loss(Tensor x, Tensor target, Tensor? weight=nil,
                                   string reduction="mean")]], 2, { "weight", "reduction" },
  { "Multi-label soft margin loss: the mean over the classes of the binary cross entropy of each logit.",
    args = { x = "the logits", target = "0 or 1 for each class", weight = "a weight for each class" },
    shapes = "x (*, c), target (*, c), weight (c) -> () or (*)",
    formula = "loss = -1 / c * sum_i weight_i * (target_i * log(sigmoid(x_i)) + (1 - target_i) * log(1 - " ..
      "sigmoid(x_i)))",
    example = "ml.multilabel_soft_margin_loss(ml.tensor {{2.0, -1}}, ml.tensor {{1.0, 0}})",
    gives = "0.2201  Tensor () float32" },
  { "randn(3, 4), rand(3, 4)", 'randn(3, 4), rand(3, 4), rand(4), "none"' }, { autocast = false })

loss([[poisson_nll_loss(Tensor x, Tensor target, bool log_input=true, bool full=false, float eps=1e-8,
                        string reduction="mean")]], 2, { "log_input", "full", "eps", "reduction" },
  { "Poisson negative log likelihood loss of counts, without the constant `log(target!)`.",
    args = { x = "the logarithms of the rates, or the rates",
             target = "the counts",
             log_input = "whether `x` holds the logarithms of the rates",
             full = "whether Stirling's approximation of the constant is added for targets above 1",
             eps = "what is added to a rate before its logarithm is taken" },
    shapes = "x (*), target (*) -> () or (*)",
    formula = "loss_i = exp(x_i) - target_i * x_i with log_input, else x_i - target_i * log(x_i + eps)",
    example = "ml.poisson_nll_loss(ml.tensor {0.0, 1}, ml.tensor {1.0, 2})",
    gives = "0.8591  Tensor () float32" },
  { "randn(3, 4), rand(3, 4) * 5", 'rand(3, 4), rand(3, 4) * 5, false, true, 1e-6, "none"' })

loss([[gaussian_nll_loss(Tensor x, Tensor target, Operand var, bool full=false, float eps=1e-6,
                         string reduction="mean")]], 3, { "full", "eps", "reduction" },
  { "Gaussian negative log likelihood loss of targets under normal distributions.",
    args = { x = "the means",
             target = "the samples",
             var = "the variances: of the shape of `x`, without its last dimension, with a 1 in place of one " ..
               "size, or a number",
             full = "whether the constant `log(2 pi) / 2` is added",
             eps = "the least variance" },
    shapes = "x (*), target (*), var (*) -> () or (*)",
    formula = "loss_i = (log(max(var_i, eps)) + (x_i - target_i)^2 / max(var_i, eps)) / 2",
    source = 'Nix and Weigend 1994, "Estimating the mean and variance of the target probability distribution"',
    example = "ml.gaussian_nll_loss(ml.tensor {1.0, 2}, ml.tensor {1.5, 2}, ml.tensor {1.0, 0.5})",
    gives = "-0.1108  Tensor () float32" },
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
     doc = [[Connectionist temporal classification loss: minus the logarithm of the probability of all
paths that give the target when repeated classes are merged and blanks dropped. "mean" divides each loss
by the length of its target first. The gradient is that with respect to `log_probs`; there is no second
one.]],
     args = { log_probs = "log probabilities of the classes at each time",
              targets = "the classes, from 1, of each entry, or of all entries one after the other",
              input_lengths = "how many times of each entry count",
              target_lengths = "how many classes each target has",
              blank = "the class, from 1, of the blank",
              zero_infinity = "whether the loss and gradient of targets that no path gives are 0, else infinite" },
     shapes = "log_probs (t, n, c), targets (n, s) -> () or (n)",
     source = 'Graves et al. 2006, "Connectionist Temporal Classification"',
     example = "ml.ctc_loss(ml.full({3, 1, 2}, math.log(0.5)), ml.tensor {{2}}, {3}, {1})",
     gives = "0.2877  Tensor () float32",
     sample = { "randn(5, 2, 4):log_softmax(3), tensor({{2, 3, 3}, {4, 2, 1}}), {5, 4}, {3, 2}",
                'randn(5, 2, 4):log_softmax(3), tensor({2, 1, 1, 3}), {5, 3}, {3, 1}, 4, "none"',
                'randn(6, 3):log_softmax(2), tensor({1, 1, 2}), {6}, {3}, 3, "sum"',
                'randn(3, 2, 4):log_softmax(3), tensor({{2, 2, 2}, {4, 2, 1}}), {3, 2}, {3, 0}, 1, "none", true' } }
