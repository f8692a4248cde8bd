-- tensor/ops/pool.lua: pooling over windows of images, and its gradients.

op { [[max_pool2d_with_indices(Tensor x, int[2] kernel_size, int[] stride={},
                               int[2] padding={0, 0}, int[2] dilation={1, 1},
                               bool ceil_mode=false) -> (Tensor values, Tensor indices)]],
     kind = "structured", dtypes = "real",
     nodiff = { "indices" },
     grad = { x = "max_pool2d_grad_x(g_values, indices, sizes_of(x))" },
     torch = "max_pool2d_1based(*args)",
     doc = [[The largest element of each window of `x` (..., h, w), and its 1-based position in the
flattened plane of h * w elements. An empty `stride` means `kernel_size`. NaN wins.]],
     sample = { "randperm(2 * 2 * 6 * 6):to(float32):reshape(2, 2, 6, 6), 2",
                "randperm(50):to(float32):reshape(1, 2, 5, 5), 3, {2}, 1" } }

op { [[max_pool2d(Tensor x, int[2] kernel_size, int[] stride={}, int[2] padding={0, 0},
                  int[2] dilation={1, 1}, bool ceil_mode=false) -> Tensor]],
     kind = "composite", dtypes = "real",
     torch = "F.max_pool2d(*args)",
     doc = [[The largest element of each window of `x` (..., h, w). An empty `stride` means `kernel_size`;
`padding` counts as minus infinity. NaN wins.]],
     sample = { "randperm(2 * 2 * 6 * 6):to(float32):reshape(2, 2, 6, 6), 2" } }

op { "max_pool2d_grad_x(Tensor grad, Positions indices, int[] size) -> Tensor",
     kind = "structured", dtypes = "real", internal = true,
     grad = { grad = "max_pool2d_grad_x_grad_grad(g, indices)" },
     torch = "max_pool2d_grad_x_ref(*args)",
     doc = [[Adds each element of `grad` (..., h2, w2) to the position `indices` names in its plane of a tensor
of zeros of sizes `size` (..., h, w).]],
     sample = { "randn(1, 1, 2, 2), tensor({{{{1, 4}, {11, 16}}}}), {1, 1, 4, 4}" } }

op { "max_pool2d_grad_x_grad_grad(Tensor grad, Positions indices) -> Tensor",
     kind = "structured", dtypes = "real", internal = true,
     grad = { grad = "max_pool2d_grad_x(g, indices, sizes_of(grad))" },
     torch = "max_pool2d_grad_x_grad_grad_ref(*args)",
     doc = [[The gradient of `max_pool2d_grad_x` with respect to its `grad`: the elements of each plane of `grad`
(..., h, w) at the flat positions `indices` (..., h2, w2).]],
     sample = { "randn(1, 1, 4, 4), tensor({{{{1, 4}, {11, 16}}}})" } }

op { [[avg_pool2d(Tensor x, int[2] kernel_size, int[] stride={}, int[2] padding={0, 0},
                  bool ceil_mode=false, bool count_include_pad=true) -> Tensor]],
     kind = "structured", dtypes = "floating",
     grad = { x = "avg_pool2d_grad_x(g, sizes_of(x), kernel_size, stride, padding, ceil_mode, count_include_pad)" },
     torch = "F.avg_pool2d(*args)",
     doc = [[The mean of each window of `x` (..., h, w). An empty `stride` means `kernel_size`. Padding counts
as zeros, or not at all without `count_include_pad`.]],
     sample = { "randn(2, 2, 4, 6), 2", "randn(1, 2, 5, 5), 3, {2}, 1, false, false" } }

op { [[avg_pool2d_grad_x(Tensor grad, int[] size, int[2] kernel_size, int[] stride={},
                         int[2] padding={0, 0}, bool ceil_mode=false,
                         bool count_include_pad=true) -> Tensor]],
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
