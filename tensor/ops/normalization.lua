-- tensor/ops/normalization.lua: layer and batch normalisation, and scaling to length one.

op { [[native_layer_norm(Tensor x, int[] normalized_shape, Tensor? weight=nil, Tensor? bias=nil,
                         float eps=1e-5) -> (Tensor y, Tensor mean, Tensor rstd)]],
     vmap = "native_layer_norm", kind = "structured", autocast = { device = "float32" }, dtypes = "floating", mixed = true, internal = true,
     nodiff = { "mean", "rstd" },
     grad = { ["x, weight, bias"] = "layer_norm_backward(g_y, x, mean, rstd, weight, normalized_shape.size(), eps)" },
     torch = "torch.native_layer_norm(*(list(args) + [None, None, 1e-5][len(args) - 2:]))", check = { value = "layer_norm is compared" },
     doc = [[`layer_norm` with what its gradient needs: the mean and the reciprocal standard deviation of
each normalised slice, with the normalised dimensions kept at size 1, in float64.]],
     sample = { "randn(3, 4), {4}, randn(4), randn(4)" } }

op { [[layer_norm_grad_x(Tensor grad, Tensor x, Tensor mean, Tensor rstd, Tensor? weight,
                         int dims, float eps) -> Tensor]],
     vmap = "layer_norm_grad_x", kind = "structured", dtypes = "floating", mixed = true, internal = true,
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

op { [[layer_norm_grad_weight(Tensor grad, Tensor x, Tensor mean, Tensor rstd, int dims,
                              float eps) -> Tensor]],
     vmap = "layer_norm_grad_weight", kind = "structured", dtypes = "floating", mixed = true, internal = true,
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

op { [[layer_norm_grads(Tensor grad, Tensor x, Tensor mean, Tensor rstd, Tensor? weight, int dims)
     -> (Tensor grad_x, Tensor grad_weight, Tensor grad_bias)]],
     vmap = "layer_norm_grads", kind = "structured", dtypes = "floating", mixed = true, internal = true,
     cpu_only = "each gradient is an op of its own there",
     check = { value = "checked through what uses it", empty = "its statistics belong to x" },
     doc = [[All gradients of `layer_norm` over the last `dims` dimensions, in one pass over `x` and `grad`; `mean` and `rstd` are those
that `native_layer_norm` gave for this `x`.]],
     sample = { [[(function()
       local x = randn(3, 4)
       local y, mean, rstd = native_layer_norm(x, {4})
       return y + 1, x, mean, rstd, randn(4), 1
     end)()]] } }

op { [[layer_norm(Tensor x, int[] normalized_shape, Tensor? weight=nil, Tensor? bias=nil,
                  float eps=1e-5) -> Tensor]],
     kind = "composite", autocast = { device = "float32" }, dtypes = "floating", mixed = true,
     torch = "F.layer_norm(*args)",
     doc = [[Layer normalization: each slice of the last dimensions is shifted to mean 0 and scaled to
variance 1, then transformed by `weight` and `bias`, which may be float32 for an `x` of 16 bits. The
variance is the biased one.]],
     args = { normalized_shape = "the sizes of the last dimensions, over which mean and variance are taken",
              weight = "the factors",
              bias = "what is added",
              eps = "what is added to the variance, for numerical stability" },
     shapes = "x (*, normalized_shape), weight (normalized_shape), bias (normalized_shape) -> (*, normalized_shape)",
     formula = "y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias",
     source = 'Ba et al. 2016, "Layer Normalization"',
     example = "ml.layer_norm(ml.tensor {{1.0, 2, 3}}, {3})",
     gives = [[
{{-1.2247,  0.0000,  1.2247}}
Tensor (1, 3) float32]],
     sample = { "randn(3, 4), {4}, randn(4), randn(4)", "randn(2, 3, 4), {3, 4}" } }

op { [[native_batch_norm(Tensor x, Tensor? weight, Tensor? bias, Tensor!? running_mean,
                         Tensor!? running_var, float momentum=0.1,
                         float eps=1e-5) -> (Tensor y, Tensor mean, Tensor rstd)]],
     vmap = "native_batch_norm", kind = "structured", dtypes = "floating", mixed = true, internal = true,
     nodiff = { "mean", "rstd" },
     grad = { ["x, weight, bias"] = "batch_norm_backward(g_y, x, mean, rstd, weight, eps)" },
     check = { value = "batch_norm is compared", noncontiguous = "batch_norm is compared" },
     doc = [[`batch_norm` in training, with what its gradient needs: the mean and the reciprocal standard
deviation of each channel, (1, c, 1, ...), in float64. The running statistics, where given, move towards the batch's
by `momentum`.]],
     sample = { "randn(4, 3, 2, 2), randn(3), randn(3), nil, nil" } }

op { [[batch_norm_grad_x(Tensor grad, Tensor x, Tensor mean, Tensor rstd, Tensor? weight,
                         float eps) -> Tensor]],
     vmap = "channels", kind = "structured", dtypes = "floating", mixed = true, internal = true,
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

op { [[batch_norm_grad_weight(Tensor grad, Tensor x, Tensor mean, Tensor rstd,
                              float eps) -> Tensor]],
     vmap = "channels", kind = "structured", dtypes = "floating", mixed = true, internal = true,
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

op { [[batch_norm_grads(Tensor grad, Tensor x, Tensor mean, Tensor rstd, Tensor? weight)
     -> (Tensor grad_x, Tensor grad_weight, Tensor grad_bias)]],
     vmap = "channels", kind = "structured", dtypes = "floating", mixed = true, internal = true,
     check = { value = "checked through what uses it", empty = "its statistics belong to x" },
     doc = [[All gradients of `batch_norm` in training, in one pass over `x` and `grad`; `mean` and `rstd` are those
that `native_batch_norm` gave for this `x`.]],
     sample = { [[(function()
       local x = randn(3, 4)
       local mean, rstd = x:mean(1, true), 1 / (x:var(1, 0, true) + 1e-5):sqrt()
       return randn(3, 4), x, mean, rstd, randn(4)
     end)()]] } }

op { [[batch_norm(Tensor x, Tensor!? running_mean=nil, Tensor!? running_var=nil,
                  Tensor? weight=nil, Tensor? bias=nil, bool training=false, float momentum=0.1,
                  float eps=1e-5) -> Tensor]],
     kind = "composite", dtypes = "floating", mixed = true,
     torch = "F.batch_norm(*args)",
     doc = [[Batch normalization: each channel is shifted to mean 0 and scaled to variance 1. In
training mean and biased variance are those of the batch, and the running statistics move towards the
batch's (with the unbiased variance) in place; otherwise the running statistics are used. For an `x` of
16 bits the others may be float32.]],
     args = { running_mean = "the running mean of each channel",
              running_var = "the running variance of each channel",
              weight = "a factor for each channel",
              bias = "what is added to each channel",
              training = "whether the statistics are those of the batch",
              momentum = "the part of the batch's statistics in the new running ones",
              eps = "what is added to the variance, for numerical stability" },
     shapes = "x (n, c, *), running_mean (c), running_var (c), weight (c), bias (c) -> (n, c, *)",
     formula = "y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias",
     source = 'Ioffe and Szegedy 2015, "Batch Normalization"',
     example = "ml.batch_norm(ml.tensor {{1.0, 10}, {3, 30}}, nil, nil, nil, nil, true)",
     gives = [[
{{-1.0000, -1.0000},
 { 1.0000,  1.0000}}
Tensor (2, 2) float32]],
     sample = { "randn(4, 3, 2, 2), nil, nil, randn(3), randn(3), true",
                "randn(4, 3), randn(3), rand(3):add(0.5), randn(3), randn(3)" } }

op { [[native_group_norm(Tensor x, int num_groups, Tensor? weight, Tensor? bias,
                         float eps) -> (Tensor y, Tensor mean, Tensor rstd)]],
     vmap = "native_group_norm", kind = "structured", dtypes = "floating", mixed = true, internal = true,
     cpu_only = "group_norm is made of layer_norm there",
     nodiff = { "mean", "rstd" },
     grad = { ["x, weight, bias"] = "group_norm_backward(g_y, x, mean, rstd, weight, num_groups, eps)" },
     check = { value = "group_norm is compared" },
     doc = [[`group_norm` with what its gradient needs: the mean and the reciprocal standard deviation of each
group, (n, num_groups), in float64.]],
     sample = { "randn(2, 6, 3), 3, randn(6), randn(6), 1e-5", "randn(3, 4), 2, nil, randn(4), 1e-5" } }

op { [[group_norm_grad_x(Tensor grad, Tensor x, Tensor mean, Tensor rstd, Tensor? weight, int num_groups,
                         float eps) -> Tensor]],
     vmap = "group_norm_grad_x", kind = "structured", dtypes = "floating", mixed = true, internal = true,
     cpu_only = "group_norm is made of layer_norm there",
     grad = { ["grad, x, weight"] = "group_norm_grad_x_grads(g, grad, x, mean, rstd, weight, num_groups, eps)" },
     check = { value = "checked through what uses it", grad = "its statistics move with x",
               gradgrad = "its statistics move with x", empty = "its statistics belong to x" },
     doc = [[The gradient of `group_norm` with respect to `x`; `mean` and `rstd` are those that
`native_group_norm` gave for this `x` and `eps`.]],
     sample = { [[(function()
       local x = randn(2, 4, 3)
       local y, mean, rstd = native_group_norm(x, 2, nil, nil, 1e-5)
       return y + 1, x, mean, rstd, randn(4), 2, 1e-5
     end)()]] } }

op { [[group_norm_grad_weight(Tensor grad, Tensor x, Tensor mean, Tensor rstd, int num_groups,
                              float eps) -> Tensor]],
     vmap = "channels", kind = "structured", dtypes = "floating", mixed = true, internal = true,
     cpu_only = "group_norm is made of layer_norm there",
     grad = { ["grad, x"] = "group_norm_grad_weight_grads(g, grad, x, mean, rstd, num_groups, eps)" },
     check = { value = "checked through what uses it", grad = "its statistics move with x",
               gradgrad = "its statistics move with x", empty = "its statistics belong to x" },
     doc = [[The gradient of `group_norm` with respect to its weight; `mean` and `rstd` are those that
`native_group_norm` gave for this `x` and `eps`.]],
     sample = { [[(function()
       local x = randn(2, 4, 3)
       local y, mean, rstd = native_group_norm(x, 2, nil, nil, 1e-5)
       return y + 1, x, mean, rstd, 2, 1e-5
     end)()]] } }

op { [[group_norm_grads(Tensor grad, Tensor x, Tensor mean, Tensor rstd, Tensor? weight, int num_groups)
     -> (Tensor grad_x, Tensor grad_weight, Tensor grad_bias)]],
     vmap = "channels", kind = "structured", dtypes = "floating", mixed = true, internal = true,
     cpu_only = "each gradient is an op of its own there",
     check = { value = "checked through what uses it", empty = "its statistics belong to x" },
     doc = [[All gradients of `group_norm`, in one pass over `x` and `grad`; `mean` and `rstd` are those
that `native_group_norm` gave for this `x`.]],
     sample = { [[(function()
       local x = randn(2, 4, 3)
       local y, mean, rstd = native_group_norm(x, 2, nil, nil, 1e-5)
       return y + 1, x, mean, rstd, randn(4), 2
     end)()]] } }

op { [[group_norm(Tensor x, int num_groups, Tensor? weight=nil, Tensor? bias=nil,
                  float eps=1e-5) -> Tensor]],
     kind = "composite", autocast = { device = "float32" }, dtypes = "floating", mixed = true,
     torch = "F.group_norm(*args)",
     doc = [[Group normalization: each group of channels of each entry is shifted to mean 0 and scaled
to variance 1. The variance is the biased one.]],
     args = { num_groups = "the number of groups, which divides that of the channels",
              weight = "a factor for each channel",
              bias = "what is added to each channel",
              eps = "what is added to the variance, for numerical stability" },
     shapes = "x (n, c, *), weight (c), bias (c) -> (n, c, *)",
     formula = "y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias",
     source = 'Wu and He 2018, "Group Normalization"',
     example = "ml.group_norm(ml.tensor {{1.0, 3, 10, 30}}, 2)",
     gives = [[
{{-1.0000,  1.0000, -1.0000,  1.0000}}
Tensor (1, 4) float32]],
     sample = { "randn(2, 6, 3), 3, randn(6), randn(6)", "randn(3, 4), 2", "randn(2, 4, 2, 3), 1, randn(4), nil, 0.1",
                "randn(2, 4, 3), 4, nil, randn(4)" } }

op { [[instance_norm(Tensor x, Tensor!? running_mean=nil, Tensor!? running_var=nil, Tensor? weight=nil,
                     Tensor? bias=nil, bool use_input_stats=true, float momentum=0.1,
                     float eps=1e-5) -> Tensor]],
     kind = "composite", dtypes = "floating", mixed = true,
     torch = "F.instance_norm(*args)",
     doc = [[Instance normalization: each channel of each entry is shifted to mean 0 and scaled to
variance 1. The running statistics, where given, move towards the mean over the entries of each
channel's mean and unbiased variance, in place.]],
     args = { running_mean = "the running mean of each channel",
              running_var = "the running variance of each channel",
              weight = "a factor for each channel",
              bias = "what is added to each channel",
              use_input_stats = "whether the statistics are those of `x`, else the running ones",
              momentum = "the part of the new statistics in the running ones",
              eps = "what is added to the variance, for numerical stability" },
     shapes = "x (n, c, *), running_mean (c), running_var (c), weight (c), bias (c) -> (n, c, *)",
     formula = "y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias",
     source = 'Ulyanov et al. 2016, "Instance Normalization"',
     example = "ml.instance_norm(ml.tensor {{{1.0, 3}, {10, 30}}})",
     gives = [[
{{{-1.0000,  1.0000},
  {-1.0000,  1.0000}}}
Tensor (1, 2, 2) float32]],
     sample = { "randn(2, 3, 4), nil, nil, randn(3), randn(3)", "randn(2, 3, 2, 2)",
                "randn(2, 3, 4), randn(3), rand(3) + 0.5, randn(3), randn(3), false, 0.1, 0.01" } }

op { [[native_rms_norm(Tensor x, int[] normalized_shape, Tensor? weight,
                       float eps) -> (Tensor y, Tensor rstd)]],
     vmap = "native_rms_norm", kind = "structured", autocast = { device = "float32" }, dtypes = "floating", mixed = true, internal = true,
     nodiff = { "rstd" },
     grad = { x = "rms_norm_grad_x(g_y, x, rstd, weight, normalized_shape.size(), eps)",
              weight = "rms_norm_grad_weight(g_y, x, rstd, normalized_shape.size(), eps)" },
     check = { value = "rms_norm is compared" },
     doc = [[`rms_norm` with what its gradient needs: the reciprocal root mean square of each normalised slice,
with the normalised dimensions kept at size 1, in float64.]],
     sample = { "randn(3, 4), {4}, randn(4), 1e-5", "randn(2, 3, 4), {3, 4}, nil, 0.1" } }

op { [[rms_norm_grad_x(Tensor grad, Tensor x, Tensor rstd, Tensor? weight, int dims, float eps) -> Tensor]],
     vmap = "rms_norm_grad_x", kind = "structured", dtypes = "floating", mixed = true, internal = true,
     grad = { ["grad, x, weight"] = "rms_norm_grad_x_grads(g, grad, x, rstd, weight, dims, eps)" },
     check = { value = "checked through what uses it", grad = "its statistics move with x",
               gradgrad = "its statistics move with x", empty = "its statistics belong to x" },
     doc = [[The gradient of `rms_norm` over the last `dims` dimensions with respect to `x`; `rstd` is what
`native_rms_norm` gave for this `x` and `eps`.]],
     sample = { [[(function()
       local x = randn(3, 4)
       local y, rstd = native_rms_norm(x, {4}, nil, 1e-5)
       return y + 1, x, rstd, randn(4), 1, 1e-5
     end)()]] } }

op { [[rms_norm_grad_weight(Tensor grad, Tensor x, Tensor rstd, int dims, float eps) -> Tensor]],
     vmap = "rms_norm_grad_weight", kind = "structured", dtypes = "floating", mixed = true, internal = true,
     grad = { ["grad, x"] = "rms_norm_grad_weight_grads(g, grad, x, rstd, dims, eps)" },
     check = { value = "checked through what uses it", grad = "its statistics move with x",
               gradgrad = "its statistics move with x", empty = "its statistics belong to x" },
     doc = [[The gradient of `rms_norm` over the last `dims` dimensions with respect to its weight; `rstd` is
what `native_rms_norm` gave for this `x` and `eps`.]],
     sample = { [[(function()
       local x = randn(3, 4)
       local y, rstd = native_rms_norm(x, {4}, nil, 1e-5)
       return y + 1, x, rstd, 1, 1e-5
     end)()]] } }

op { "rms_norm(Tensor x, int[] normalized_shape, Tensor? weight=nil, float? eps=nil) -> Tensor",
     kind = "composite", autocast = { device = "float32" }, dtypes = "floating", mixed = true,
     torch = "F.rms_norm(*args)",
     doc = [[Root mean square layer normalization: each slice of the last dimensions is divided by its
root mean square.]],
     args = { normalized_shape = "the sizes of the last dimensions, over which the mean is taken",
              weight = "the factors",
              eps = "what is added to the mean of squares; the epsilon of the dtype unless given, float32's for " ..
                "one of 16 bits" },
     shapes = "x (*, normalized_shape), weight (normalized_shape) -> (*, normalized_shape)",
     formula = "y = x / sqrt(mean(x^2) + eps) * weight",
     source = 'Zhang and Sennrich 2019, "Root Mean Square Layer Normalization"',
     example = "ml.rms_norm(ml.tensor {{3.0, 4}}, {2})",
     gives = [[
{{0.8485, 1.1314}}
Tensor (1, 2) float32]],
     sample = { "randn(3, 4), {4}, randn(4)", "randn(2, 3, 4), {3, 4}, nil, 0.1", "randn(2, 5), {5}" } }

op { "local_response_norm(Tensor x, int size, float alpha=1e-4, float beta=0.75, float k=1) -> Tensor",
     kind = "composite", dtypes = "floating",
     torch = "F.local_response_norm(*args)",
     doc = "Local response normalization across neighbouring channels, zeros beyond the ends.",
     args = { size = "how many channels are neighbours",
              alpha = "the factor of the mean of squares",
              beta = "the exponent",
              k = "the constant that is added" },
     shapes = "x (n, c, *) -> (n, c, *)",
     formula = "y_c = x_c / (k + alpha / size * sum_(j near c) x_j^2)^beta",
     source = 'Krizhevsky et al. 2012, "ImageNet Classification with Deep Convolutional Neural Networks"',
     example = "ml.local_response_norm(ml.tensor {{{3.0}, {4}}}, 2, 1)",
     gives = [[
{{{0.8353},
  {0.5679}}}
Tensor (1, 2, 1) float32]],
     sample = { "randn(2, 5, 3), 3", "randn(2, 4, 2, 2), 2, 0.5, 0.6, 2", "randn(1, 3, 2), 7, 1" } }

op { "normalize(Tensor x, float p=2, Dim dim=1, float eps=1e-12) -> Tensor",
     kind = "composite", out = true, dtypes = "floating",
     torch = "F.normalize(*args)",
     doc = "Vectors scaled to norm 1 along a dimension.",
     args = { p = "the order of the norm",
              dim = "the dimension of the vectors",
              eps = "the least norm, which avoids division by 0" },
     shapes = "x (*) -> (*)",
     formula = "y = x / max(norm(x, p), eps)",
     example = "ml.normalize(ml.tensor {{3.0, 4}})",
     gives = [[
{{0.6000, 0.8000}}
Tensor (1, 2) float32]],
     sample = { "randn(3, 4)" } }
