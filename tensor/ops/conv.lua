-- tensor/ops/conv.lua: convolution and its gradients.

op { [[conv2d(Tensor x, Tensor weight, Tensor? bias=nil, int[2] stride={1, 1},
              int[2] padding={0, 0}, int[2] dilation={1, 1}, int groups=1) -> Tensor]],
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

op { [[conv2d_grad_x(Tensor grad, Tensor weight, int[] size, int[2] stride={1, 1},
                     int[2] padding={0, 0}, int[2] dilation={1, 1}, int groups=1) -> Tensor]],
     kind = "structured", dtypes = "floating", internal = true,
     grad = { grad = "conv2d(g, weight, Tensor(), stride, padding, dilation, groups)",
              weight = "conv2d_grad_weight(grad, g, sizes_of(weight), stride, padding, dilation, groups)" },
     torch = "torch.nn.grad.conv2d_input(args[2], args[1], args[0], *args[3:])",
     doc = [[The gradient of `conv2d` with respect to its input of sizes `size`, from `grad` (n, o, h2, w2);
also the transposed convolution.]],
     sample = { "randn(2, 4, 3, 3), randn(4, 3, 3, 3), {2, 3, 5, 5}" } }

op { [[conv2d_grad_weight(Tensor grad, Tensor x, int[] size, int[2] stride={1, 1},
                          int[2] padding={0, 0}, int[2] dilation={1, 1}, int groups=1) -> Tensor]],
     kind = "structured", dtypes = "floating", internal = true,
     grad = { grad = "conv2d(x, g, Tensor(), stride, padding, dilation, groups)",
              x = "conv2d_grad_x(grad, g, sizes_of(x), stride, padding, dilation, groups)" },
     torch = "torch.nn.grad.conv2d_weight(args[1], args[2], args[0], *args[3:])",
     doc = [[The gradient of `conv2d` with respect to its filters of sizes `size`, from `grad` (n, o, h2, w2)
and the input `x` (n, c, h, w).]],
     sample = { "randn(2, 4, 3, 3), randn(2, 3, 5, 5), {4, 3, 3, 3}" } }

op { [[conv1d(Tensor x, Tensor weight, Tensor? bias=nil, int stride=1, int padding=0,
              int dilation=1, int groups=1) -> Tensor]],
     kind = "composite", autocast = "lower_precision", dtypes = "floating",
     torch = "F.conv1d(*args)",
     doc = [[`conv2d` in one dimension: `x` (n, c, l), `weight` (o, c / groups, k), `bias` (o): (n, o, l2).]],
     sample = { "randn(2, 3, 7), randn(4, 3, 3), randn(4), 2, 1" } }
