-- tensor/ops/loss.lua: losses. A `reduction` is "mean", "sum" or "none".

op { [[native_nll_loss(Tensor log_probs, Positions target, Tensor? weight, int reduction,
                       int ignore_index) -> (Tensor y, Tensor total_weight)]],
     constant = { "weight" },
     kind = "structured", autocast = "float32", dtypes = "floating", internal = true,
     nodiff = { "total_weight" },
     grad = { log_probs = "nll_loss_grad_log_probs(g_y, target, weight, total_weight, sizes_of(log_probs), reduction, ignore_index)" },
     check = { value = "nll_loss is compared" },
     doc = [[`nll_loss` with the sum of the weights of the targets; `reduction` is 0 for none, 1 for mean, 2 for
sum.]],
     sample = { "randn(3, 4), tensor({1, 4, 2}), nil, 1, -100" } }

op { [[nll_loss_grad_log_probs(Tensor grad, Positions target, Tensor? weight, Tensor total_weight,
                               int[] size, int reduction, int ignore_index) -> Tensor]],
     kind = "structured", dtypes = "floating", internal = true,
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

local pointwise_losses = {
  { "mse_loss", "the squared difference" },
  { "l1_loss", "the absolute difference" },
}
for _, loss in ipairs(pointwise_losses) do
  op { loss[1] .. "(Tensor x, Tensor target, string reduction=\"mean\") -> Tensor",
       kind = "composite", autocast = "float32", dtypes = "floating",
       torch = ("F.%s(args[0], args[1], **({'reduction': args[2]} if len(args) > 2 else {}))"):format(loss[1]),
       doc = ("For each element %s of `x` and `target`; then the mean, the sum or all of them."):format(loss[2]),
       sample = { "randn(3, 4), randn(3, 4)", "randn(3, 4), randn(3, 4), \"sum\"" } }
end

op { "smooth_l1_loss(Tensor x, Tensor target, string reduction=\"mean\", float beta=1) -> Tensor",
     kind = "composite", autocast = "float32", dtypes = "floating",
     torch = "F.smooth_l1_loss(args[0], args[1])",
     doc = [[`d^2 / (2 beta)` where the difference d is below `beta`, `|d| - beta / 2` elsewhere. Girshick 2015,
"Fast R-CNN".]],
     sample = { "randn(3, 4), randn(3, 4)" } }

op { "huber_loss(Tensor x, Tensor target, string reduction=\"mean\", float delta=1) -> Tensor",
     kind = "composite", autocast = "float32", dtypes = "floating",
     torch = "F.huber_loss(args[0], args[1])",
     doc = [[`d^2 / 2` where the difference d is below `delta`, `delta (|d| - delta / 2)` elsewhere. Huber 1964,
"Robust Estimation of a Location Parameter".]],
     sample = { "randn(3, 4), randn(3, 4)" } }

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
