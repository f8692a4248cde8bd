-- tensor/ops/nn.lua: the ops of neural networks: convolution, pooling, softmax, normalisation,
-- attention.

op { "conv2d(Tensor x, Tensor weight, Tensor? bias=nil, int[2] stride={1, 1}, int[2] padding={0, 0}, int[2] dilation={1, 1}, int groups=1) -> Tensor",
     kind = "structured", autocast = "lower_precision", dtypes = "floating",
     grad = { x = "conv2d_grad_x(g, weight, sizes_of(x), stride, padding, dilation, groups)",
              weight = "conv2d_grad_weight(g, x, sizes_of(weight), stride, padding, dilation, groups)",
              bias = "channel_sum(g)" },
     torch = "F.conv2d(*args)",
     doc = [[Cross-correlation of images `x` (n, c, h, w) with filters `weight` (o, c / groups, kh, kw),
plus `bias` (o) per channel: (n, o, h2, w2) with `h2 = floor((h + 2 padding - dilation (kh - 1) - 1) /
stride) + 1`. With `groups`, each group of output channels sees its own group of input channels.]],
     sample = { "randn(2, 3, 5, 5), randn(4, 3, 3, 3), randn(4)",
                "randn(1, 2, 6, 5), randn(3, 2, 3, 2), nil, {2, 1}, {1, 0}",
                "randn(1, 4, 6, 6), randn(4, 2, 2, 2), randn(4), 1, 1, 2, 2" } }

op { "conv2d_grad_x(Tensor grad, Tensor weight, int[] size, int[2] stride={1, 1}, int[2] padding={0, 0}, int[2] dilation={1, 1}, int groups=1) -> Tensor",
     kind = "structured", dtypes = "floating", internal = true,
     grad = { grad = "conv2d(g, weight, Tensor(), stride, padding, dilation, groups)",
              weight = "conv2d_grad_weight(grad, g, sizes_of(weight), stride, padding, dilation, groups)" },
     torch = "torch.nn.grad.conv2d_input(args[2], args[1], args[0], *args[3:])",
     doc = [[The gradient of `conv2d` with respect to its input of sizes `size`, from `grad` (n, o, h2, w2);
also the transposed convolution.]],
     sample = { "randn(2, 4, 3, 3), randn(4, 3, 3, 3), {2, 3, 5, 5}" } }

op { "conv2d_grad_weight(Tensor grad, Tensor x, int[] size, int[2] stride={1, 1}, int[2] padding={0, 0}, int[2] dilation={1, 1}, int groups=1) -> Tensor",
     kind = "structured", dtypes = "floating", internal = true,
     grad = { grad = "conv2d(x, g, Tensor(), stride, padding, dilation, groups)",
              x = "conv2d_grad_x(grad, g, sizes_of(x), stride, padding, dilation, groups)" },
     torch = "torch.nn.grad.conv2d_weight(args[1], args[2], args[0], *args[3:])",
     doc = [[The gradient of `conv2d` with respect to its filters of sizes `size`, from `grad` (n, o, h2, w2)
and the input `x` (n, c, h, w).]],
     sample = { "randn(2, 4, 3, 3), randn(2, 3, 5, 5), {4, 3, 3, 3}" } }

op { "conv1d(Tensor x, Tensor weight, Tensor? bias=nil, int stride=1, int padding=0, int dilation=1, int groups=1) -> Tensor",
     kind = "composite", autocast = "lower_precision", dtypes = "floating",
     torch = "F.conv1d(*args)",
     doc = [[`conv2d` in one dimension: `x` (n, c, l), `weight` (o, c / groups, k), `bias` (o): (n, o, l2).]],
     sample = { "randn(2, 3, 7), randn(4, 3, 3), randn(4), 2, 1" } }

op { "max_pool2d_with_indices(Tensor x, int[2] kernel_size, int[] stride={}, int[2] padding={0, 0}, int[2] dilation={1, 1}, bool ceil_mode=false) -> (Tensor values, Tensor indices)",
     kind = "structured", dtypes = "real",
     nodiff = { "indices" },
     grad = { x = "max_pool2d_grad_x(g_values, indices, sizes_of(x))" },
     torch = "max_pool2d_1based(*args)",
     doc = [[The largest element of each window of `x` (..., h, w), and its 1-based position in the
flattened plane of h * w elements. An empty `stride` means `kernel_size`. NaN wins.]],
     sample = { "randperm(2 * 2 * 6 * 6):to(float32):reshape(2, 2, 6, 6), 2",
                "randperm(50):to(float32):reshape(1, 2, 5, 5), 3, {2}, 1" } }

op { "max_pool2d(Tensor x, int[2] kernel_size, int[] stride={}, int[2] padding={0, 0}, int[2] dilation={1, 1}, bool ceil_mode=false) -> Tensor",
     kind = "composite", dtypes = "real",
     torch = "F.max_pool2d(*args)",
     doc = [[The largest element of each window of `x` (..., h, w). An empty `stride` means `kernel_size`;
`padding` counts as minus infinity. NaN wins.]],
     sample = { "randperm(2 * 2 * 6 * 6):to(float32):reshape(2, 2, 6, 6), 2" } }

op { "max_pool2d_grad_x(Tensor grad, Positions indices, int[] size) -> Tensor",
     kind = "structured", dtypes = "real", internal = true,
     grad = { grad = "max_pool2d_grad_x_grad_grad(g, indices)" },
     torch = "max_pool2d_grad_x_ref(*args)",
     doc = [[The gradient of `max_pool2d`: adds each element of `grad` (..., h2, w2) to the position `indices`
names in its plane of a tensor of zeros of sizes `size` (..., h, w).]],
     sample = { "randn(1, 1, 2, 2), tensor({{{{1, 4}, {11, 16}}}}), {1, 1, 4, 4}" } }

op { "max_pool2d_grad_x_grad_grad(Tensor grad, Positions indices) -> Tensor",
     kind = "structured", dtypes = "real", internal = true,
     grad = { grad = "max_pool2d_grad_x(g, indices, sizes_of(grad))" },
     torch = "max_pool2d_grad_x_grad_grad_ref(*args)",
     doc = [[The gradient of `max_pool2d_grad_x` with respect to its `grad`: the elements of each plane of `grad`
(..., h, w) at the flat positions `indices` (..., h2, w2).]],
     sample = { "randn(1, 1, 4, 4), tensor({{{{1, 4}, {11, 16}}}})" } }

op { "avg_pool2d(Tensor x, int[2] kernel_size, int[] stride={}, int[2] padding={0, 0}, bool ceil_mode=false, bool count_include_pad=true) -> Tensor",
     kind = "structured", dtypes = "floating",
     grad = { x = "avg_pool2d_grad_x(g, sizes_of(x), kernel_size, stride, padding, ceil_mode, count_include_pad)" },
     torch = "F.avg_pool2d(*args)",
     doc = [[The mean of each window of `x` (..., h, w). An empty `stride` means `kernel_size`. Padding counts
as zeros, or not at all without `count_include_pad`.]],
     sample = { "randn(2, 2, 4, 6), 2", "randn(1, 2, 5, 5), 3, {2}, 1, false, false" } }

op { "avg_pool2d_grad_x(Tensor grad, int[] size, int[2] kernel_size, int[] stride={}, int[2] padding={0, 0}, bool ceil_mode=false, bool count_include_pad=true) -> Tensor",
     kind = "structured", dtypes = "floating", internal = true,
     grad = { grad = "avg_pool2d(g, kernel_size, stride, padding, ceil_mode, count_include_pad)" },
     torch = "avg_pool2d_grad_x_ref(*args)",
     doc = [[The gradient of `avg_pool2d` with respect to its input of sizes `size`.]],
     sample = { "randn(1, 2, 2, 3), {1, 2, 4, 6}, 2" } }

op { "adaptive_avg_pool2d(Tensor x, int[2] output_size) -> Tensor",
     kind = "structured", dtypes = "floating",
     grad = { x = "adaptive_avg_pool2d_grad_x(g, sizes_of(x))" },
     torch = "F.adaptive_avg_pool2d(*args)",
     doc = [[The means of windows chosen so that `x` (..., h, w) becomes (..., output_size).]],
     sample = { "randn(2, 3, 5, 7), {1, 1}", "randn(1, 2, 5, 7), {2, 3}" } }

op { "adaptive_avg_pool2d_grad_x(Tensor grad, int[] size) -> Tensor",
     kind = "structured", dtypes = "floating", internal = true,
     grad = { grad = "adaptive_avg_pool2d(g, plane_of(sizes_of(grad)))" },
     torch = "adaptive_avg_pool2d_grad_x_ref(*args)",
     doc = [[The gradient of `adaptive_avg_pool2d` with respect to its input of sizes `size`.]],
     sample = { "randn(1, 2, 2, 3), {1, 2, 5, 7}" } }

op { "softmax(Tensor x, Dim dim) -> Tensor",
     kind = "structured", autocast = { cuda = "float32" }, dtypes = "floating",
     grad = { x = "softmax_grad_x(g, y, dim)" },
     doc = [[`exp(x)` along `dim`, divided by its sum; computed from `x - max(x)`, so it does not overflow.
A slice of minus infinities gives NaN.]],
     sample = { "randn(3, 4), 2", "randn(3, 4), 1", "randn(2, 3, 4), 2" } }

op { "softmax_grad_x(Tensor grad, Tensor result, Dim dim) -> Tensor",
     kind = "structured", dtypes = "floating", internal = true,
     grad = { grad = "softmax_grad_x(g, result, dim)",
              result = "softmax_grad_x_grad_result(g, grad, result, dim)" },
     torch = "args[1] * (args[0] - (args[0] * args[1]).sum(args[2], True))",
     doc = [[The gradient of `softmax` from its result: `result * (grad - sum(grad * result))`.]],
     sample = { "randn(3, 4), randn(3, 4), 2" } }

op { "log_softmax(Tensor x, Dim dim) -> Tensor",
     kind = "structured", autocast = { cuda = "float32" }, dtypes = "floating",
     grad = { x = "log_softmax_grad_x(g, y, dim)" },
     doc = [[The logarithm of `softmax`, computed without its loss of precision.]],
     sample = { "randn(3, 4), 2", "randn(3, 4), 1", "randn(2, 3, 4), 2" } }

op { "log_softmax_grad_x(Tensor grad, Tensor result, Dim dim) -> Tensor",
     kind = "structured", dtypes = "floating", internal = true,
     grad = { ["grad, result"] = "log_softmax_grad_x_grads(g, grad, result, dim)" },
     torch = "args[0] - args[1].exp() * args[0].sum(args[2], True)",
     doc = [[The gradient of `log_softmax` from its result: `grad - exp(result) * sum(grad)`.]],
     sample = { "randn(3, 4), randn(3, 4), 2" } }

op { "softmin(Tensor x, Dim dim) -> Tensor",
     kind = "composite", dtypes = "floating",
     torch = "F.softmin(args[0], args[1])",
     doc = [[`softmax(-x)` along `dim`.]],
     sample = { "randn(3, 4), 2" } }

op { "native_layer_norm(Tensor x, int[] normalized_shape, Tensor? weight=nil, Tensor? bias=nil, float eps=1e-5) -> (Tensor y, Tensor mean, Tensor rstd)",
     kind = "structured", autocast = { cuda = "float32" }, dtypes = "floating", internal = true,
     nodiff = { "mean", "rstd" },
     grad = { x = "layer_norm_grad_x(g_y, x, mean, rstd, weight, normalized_shape.size(), eps)",
              weight = "layer_norm_grad_weight(g_y, x, mean, rstd, normalized_shape.size(), eps)",
              bias = "g_y" },
     torch = "torch.native_layer_norm(*(list(args) + [None, None, 1e-5][len(args) - 2:]))",
     doc = [[`layer_norm` with what its gradient needs: the mean and the reciprocal standard deviation of
each normalised slice, with the normalised dimensions kept at size 1.]],
     sample = { "randn(3, 4), {4}, randn(4), randn(4)" } }

op { "layer_norm_grad_x(Tensor grad, Tensor x, Tensor mean, Tensor rstd, Tensor? weight, int dims, float eps) -> Tensor",
     kind = "structured", dtypes = "floating", internal = true,
     grad = { ["grad, x, weight"] = "layer_norm_grad_x_grads(g, grad, x, mean, rstd, weight, dims, eps)" },
     check = { value = "checked through what uses it", grad = "its statistics move with x",
               gradgrad = "its statistics move with x", empty = "its statistics belong to x" },
     doc = [[The gradient of `layer_norm` over the last `dims` dimensions with respect to `x`; `mean` and
`rstd` are those that `native_layer_norm` gave for this `x` and `eps`.]],
     sample = { [[(function()
       local x = randn(3, 4)
       local y, mean, rstd = native_layer_norm(x, {4})
       return y + 1, x, mean, rstd, randn(4), 1, 1e-5
     end)()]] } }

op { "layer_norm_grad_weight(Tensor grad, Tensor x, Tensor mean, Tensor rstd, int dims, float eps) -> Tensor",
     kind = "structured", dtypes = "floating", internal = true,
     grad = { ["grad, x"] = "layer_norm_grad_weight_grads(g, grad, x, mean, rstd, dims, eps)" },
     check = { value = "checked through what uses it", grad = "its statistics move with x",
               gradgrad = "its statistics move with x", empty = "its statistics belong to x" },
     doc = [[The gradient of `layer_norm` over the last `dims` dimensions with respect to its weight; `mean`
and `rstd` are those that `native_layer_norm` gave for this `x` and `eps`.]],
     sample = { [[(function()
       local x = randn(3, 4)
       local y, mean, rstd = native_layer_norm(x, {4})
       return y + 1, x, mean, rstd, 1, 1e-5
     end)()]] } }

op { "layer_norm(Tensor x, int[] normalized_shape, Tensor? weight=nil, Tensor? bias=nil, float eps=1e-5) -> Tensor",
     kind = "composite", autocast = { cuda = "float32" }, dtypes = "floating",
     torch = "F.layer_norm(*args)",
     doc = [[`(x - mean) / sqrt(var + eps) * weight + bias`, with mean and (biased) variance taken over the
last dimensions, whose sizes are `normalized_shape`, as those of `weight` and `bias`. Ba et al. 2016,
"Layer Normalization".]],
     sample = { "randn(3, 4), {4}, randn(4), randn(4)", "randn(2, 3, 4), {3, 4}" } }

op { "native_batch_norm(Tensor x, Tensor? weight, Tensor? bias, Tensor!? running_mean, Tensor!? running_var, float momentum=0.1, float eps=1e-5) -> (Tensor y, Tensor mean, Tensor rstd)",
     kind = "structured", dtypes = "floating", internal = true,
     nodiff = { "mean", "rstd" },
     grad = { x = "batch_norm_grad_x(g_y, x, mean, rstd, weight, eps)",
              weight = "batch_norm_grad_weight(g_y, x, mean, rstd, eps)",
              bias = "channel_sum(g_y)" },
     check = { value = "batch_norm is compared", noncontiguous = "batch_norm is compared" },
     doc = [[`batch_norm` in training, with what its gradient needs: the mean and the reciprocal standard
deviation of each channel, (1, c, 1, ...). The running statistics, where given, move towards the batch's
by `momentum`.]],
     sample = { "randn(4, 3, 2, 2), randn(3), randn(3), nil, nil" } }

op { "batch_norm_grad_x(Tensor grad, Tensor x, Tensor mean, Tensor rstd, Tensor? weight, float eps) -> Tensor",
     kind = "structured", dtypes = "floating", internal = true,
     grad = { ["grad, x, weight"] = "batch_norm_grad_x_grads(g, grad, x, mean, rstd, weight, eps)" },
     check = { value = "checked through what uses it", grad = "its statistics move with x",
               gradgrad = "its statistics move with x", empty = "its statistics belong to x" },
     doc = [[The gradient of `batch_norm` in training with respect to `x`; `mean` and `rstd` are those that
`native_batch_norm` gave for this `x` and `eps`.]],
     sample = { [[(function()
       local x = randn(3, 4)
       local mean, rstd = x:mean(1, true), 1 / (x:var(1, 0, true) + 1e-5):sqrt()
       return randn(3, 4), x, mean, rstd, randn(4), 1e-5
     end)()]] } }

op { "batch_norm_grad_weight(Tensor grad, Tensor x, Tensor mean, Tensor rstd, float eps) -> Tensor",
     kind = "structured", dtypes = "floating", internal = true,
     grad = { ["grad, x"] = "batch_norm_grad_weight_grads(g, grad, x, mean, rstd, eps)" },
     check = { value = "checked through what uses it", grad = "its statistics move with x",
               gradgrad = "its statistics move with x", empty = "its statistics belong to x" },
     doc = [[The gradient of `batch_norm` in training with respect to its weight; `mean` and `rstd` are those
that `native_batch_norm` gave for this `x` and `eps`.]],
     sample = { [[(function()
       local x = randn(3, 4)
       local mean, rstd = x:mean(1, true), 1 / (x:var(1, 0, true) + 1e-5):sqrt()
       return randn(3, 4), x, mean, rstd, 1e-5
     end)()]] } }

op { "batch_norm(Tensor x, Tensor!? running_mean=nil, Tensor!? running_var=nil, Tensor? weight=nil, Tensor? bias=nil, bool training=false, float momentum=0.1, float eps=1e-5) -> Tensor",
     kind = "composite", dtypes = "floating",
     torch = "F.batch_norm(*args)",
     doc = [[`(x - mean) / sqrt(var + eps) * weight + bias` per channel (the second dimension of `x`). In
training the mean and biased variance are the batch's, and the running statistics move towards the batch's
(with the unbiased variance) by `momentum`, in place; otherwise the running statistics are used. Ioffe and
Szegedy 2015, "Batch Normalization".]],
     sample = { "randn(4, 3, 2, 2), nil, nil, randn(3), randn(3), true",
                "randn(4, 3), randn(3), rand(3):add(0.5), randn(3), randn(3)" } }

op { "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=nil, float dropout_p=0, bool is_causal=false, float? scale=nil) -> Tensor",
     kind = "composite", autocast = "lower_precision", dtypes = "floating",
     torch = "F.scaled_dot_product_attention(*args)",
     doc = [[`softmax(query key^T * scale + mask) value`: `query` (..., l, e), `key` (..., s, e), `value`
(..., s, v): (..., l, v). A bool `attn_mask` says what may be seen, another one is added; `is_causal` lets
position i see positions up to i. A query that may see nothing gives zeros. `scale` defaults to `1 / sqrt(e)`. Vaswani et al. 2017, "Attention Is All
You Need".]],
     sample = { "randn(2, 3, 4), randn(2, 5, 4), randn(2, 5, 6)",
                "randn(2, 3, 4), randn(2, 3, 4), randn(2, 3, 4), nil, 0, true" } }

op { "native_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool is_causal, float scale) -> Tensor",
     kind = "composite", dtypes = "floating", internal = true,
     grad = { ["query, key, value, attn_mask"] = "attention_grads(g, query, key, value, attn_mask, is_causal, scale)" },
     torch = "F.scaled_dot_product_attention(*args[:4], 0.0, args[4], scale=args[5])",
     doc = [[`scaled_dot_product_attention` without dropout. Its derivative saves the arguments alone and computes
the (l, s) weights again.]],
     sample = { "randn(2, 3, 4), randn(2, 5, 4), randn(2, 5, 6), nil, false, 0.5",
                "randn(2, 3, 4), randn(2, 3, 4), randn(2, 3, 4), nil, true, 0.3",
                "randn(2, 3, 4), randn(2, 5, 4), randn(2, 5, 6), randn(3, 5), false, 0.5" } }

op { "dropout(Tensor x, float p=0.5, bool training=true) -> Tensor",
     kind = "composite", dtypes = "floating", random = true,
     doc = [[In training, zeroes each element with probability `p` and divides the others by `1 - p`; otherwise
`x` itself. Srivastava et al. 2014, "Dropout".]],
     sample = { "randn(3, 4), 0.5" } }

op { "glu(Tensor x, Dim dim=-1) -> Tensor",
     kind = "composite", dtypes = "floating",
     torch = "F.glu(*args)",
     doc = [[The first half of `x` along `dim` times the sigmoid of the second half. Dauphin et al. 2016,
"Language Modeling with Gated Convolutional Networks".]],
     sample = { "randn(3, 4)", "randn(4, 3), 1" } }

op { "normalize(Tensor x, float p=2, Dim dim=1, float eps=1e-12) -> Tensor",
     kind = "composite", dtypes = "floating",
     torch = "F.normalize(*args)",
     doc = [[`x` divided by its `p`-norm along `dim`, or by `eps` where the norm is smaller. The default `dim`
is the second.]],
     sample = { "randn(3, 4)" } }

op { "cosine_similarity(Tensor a, Tensor b, Dim dim=1, float eps=1e-8) -> Tensor",
     kind = "composite", autocast = { cuda = "float32" }, dtypes = "floating",
     torch = "F.cosine_similarity(*args)",
     doc = [[`sum(a * b) / (max(|a|, eps) * max(|b|, eps))` along `dim`; the default is the second.]],
     sample = { "randn(3, 4), randn(3, 4)" } }
