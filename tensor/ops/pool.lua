-- tensor/ops/pool.lua: pooling over windows of images, and its gradients.

-- The meanings of the arguments: those of all windows and an op's own.
local function arguments(own)
  local out = {
    kernel_size = "the size of a window: one number, or one for each dimension",
    stride = "the step of the window; `kernel_size` where it is empty",
    ceil_mode = "whether sizes are rounded up, so that a last window may reach beyond the end",
  }
  for name, meaning in pairs(own) do out[name] = meaning end
  return out
end
local MAX = arguments {
  padding = "how much is added at each side, as minus infinity",
  dilation = "the spacing between the elements of a window" }
local ZEROS, COUNTED = "how many zeros are added at each side", "whether the zeros of the padding count"
local MEAN_1D = arguments { padding = ZEROS, count_include_pad = COUNTED }
local MEAN = arguments {
  padding = ZEROS, count_include_pad = COUNTED,
  divisor_override = "what the sums are divided by, instead of the number of elements" }
local ADAPTIVE = { output_size = "the sizes of the result: one number, or one for each dimension" }

op { [[max_pool2d_with_indices(Tensor x, int[2] kernel_size, int[] stride={},
                               int[2] padding={0, 0}, int[2] dilation={1, 1},
                               bool ceil_mode=false) -> (Tensor values, Tensor indices)]],
     vmap = "merge", kind = "structured", dtypes = "real",
     nodiff = { "indices" },
     grad = { x = "max_pool2d_grad_x(g_values, indices, sizes_of(x))" },
     torch = "max_pool2d_1based(*args)",
     doc = [[Max pooling of images in 2 dimensions: the largest element of each window and its index
(from 1) in the flattened plane. NaN wins.]],
     args = MAX,
     shapes = "x (*, h, w) -> values (*, h2, w2), indices (*, h2, w2)",
     formula = "h2 = floor((h + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1",
     example = "ml.max_pool2d_with_indices(ml.tensor {{{1.0, 3}, {2, 4}}}, 2)",
     gives = [[
{{{4.}}}
Tensor (1, 1, 1) float32
{{{4}}}
Tensor (1, 1, 1) int64]],
     sample = { "randperm(2 * 2 * 6 * 6):to(float32):reshape(2, 2, 6, 6), 2",
                "randperm(50):to(float32):reshape(1, 2, 5, 5), 3, {2}, 1" } }

op { [[max_pool2d(Tensor x, int[2] kernel_size, int[] stride={}, int[2] padding={0, 0},
                  int[2] dilation={1, 1}, bool ceil_mode=false) -> Tensor]],
     kind = "composite", dtypes = "real",
     torch = "F.max_pool2d(*args)",
     doc = "Max pooling of images in 2 dimensions: the largest element of each window. NaN wins.",
     args = MAX,
     shapes = "x (*, h, w) -> (*, h2, w2)",
     formula = "h2 = floor((h + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1",
     example = "ml.max_pool2d(ml.tensor {{{1.0, 3, 2, 4}, {5, 6, 8, 7}}}, 2)",
     gives = [[
{{{6., 8.}}}
Tensor (1, 1, 2) float32]],
     sample = { "randperm(2 * 2 * 6 * 6):to(float32):reshape(2, 2, 6, 6), 2" } }

op { "max_pool2d_grad_x(Tensor grad, Positions indices, int[] size) -> Tensor",
     vmap = "merge", kind = "structured", dtypes = "real", internal = true,
     grad = { grad = "max_pool2d_grad_x_grad_grad(g, indices)" },
     torch = "max_pool2d_grad_x_ref(*args)",
     doc = [[Adds each element of `grad` (..., h2, w2) at the index that `indices` holds in its plane of a tensor
of zeros of sizes `size` (..., h, w).]],
     sample = { "randn(1, 1, 2, 2), tensor({{{{1, 4}, {11, 16}}}}), {1, 1, 4, 4}" } }

op { "max_pool2d_grad_x_grad_grad(Tensor grad, Positions indices) -> Tensor",
     vmap = "merge", kind = "structured", dtypes = "real", internal = true,
     grad = { grad = "max_pool2d_grad_x(g, indices, sizes_of(grad))" },
     torch = "max_pool2d_grad_x_grad_grad_ref(*args)",
     doc = [[The gradient of `max_pool2d_grad_x` with respect to its `grad`: the elements of each plane of `grad`
(..., h, w) at the flat indices `indices` (..., h2, w2).]],
     sample = { "randn(1, 1, 4, 4), tensor({{{{1, 4}, {11, 16}}}})" } }

op { [[avg_pool2d(Tensor x, int[2] kernel_size, int[] stride={}, int[2] padding={0, 0},
                  bool ceil_mode=false, bool count_include_pad=true, int? divisor_override=nil) -> Tensor]],
     vmap = "merge", kind = "structured", dtypes = "real",
     grad = { x = [[avg_pool2d_grad_x(g, sizes_of(x), kernel_size, stride, padding, ceil_mode, count_include_pad,
                                      divisor_override)]] },
     torch = "F.avg_pool2d(*args)",
     doc = [[Average pooling of images in 2 dimensions: the mean of each window. Means of integers are
rounded towards 0.]],
     args = MEAN,
     shapes = "x (*, h, w) -> (*, h2, w2)",
     formula = "h2 = floor((h + 2 * padding - kernel_size) / stride) + 1",
     example = "ml.avg_pool2d(ml.tensor {{{1.0, 3, 2, 4}, {5, 6, 8, 7}}}, 2)",
     gives = [[
{{{3.7500, 5.2500}}}
Tensor (1, 1, 2) float32]],
     sample = { "randn(2, 2, 4, 6), 2", "randn(1, 2, 5, 5), 3, {2}, 1, false, false",
                "randn(2, 5, 6), {3, 2}, {2, 2}, {1, 0}, true, true, 4", "randn(1, 1, 5, 6), 2, {3}, 1, true, false" } }

op { [[avg_pool2d_grad_x(Tensor grad, int[] size, int[2] kernel_size, int[] stride={},
                         int[2] padding={0, 0}, bool ceil_mode=false,
                         bool count_include_pad=true, int? divisor_override=nil) -> Tensor]],
     vmap = "merge", kind = "structured", dtypes = "floating", internal = true,
     grad = { grad = "avg_pool2d(g, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)" },
     torch = "avg_pool2d_grad_x_ref(*args)",
     doc = [[The gradient of `avg_pool2d` with respect to its input of sizes `size`.]],
     sample = { "randn(1, 2, 2, 3), {1, 2, 4, 6}, 2", "randn(1, 2, 2), {1, 4, 4}, 2, {2}, 0, false, true, 3" } }

op { "adaptive_avg_pool2d(Tensor x, int[2] output_size) -> Tensor",
     vmap = "merge", kind = "structured", dtypes = "floating",
     grad = { x = "adaptive_avg_pool2d_grad_x(g, sizes_of(x))" },
     torch = "F.adaptive_avg_pool2d(*args)",
     doc = [[Adaptive average pooling of images in 2 dimensions: means of windows chosen so that the
result has a given size. Windows are as even as possible and may overlap.]],
     args = ADAPTIVE,
     shapes = "x (*, h, w) -> (*, output_size)",
     example = "ml.adaptive_avg_pool2d(ml.tensor {{{1.0, 2}, {3, 4}}}, 1)",
     gives = [[
{{{2.5000}}}
Tensor (1, 1, 1) float32]],
     sample = { "randn(2, 3, 5, 7), {1, 1}", "randn(1, 2, 5, 7), {2, 3}" } }

op { "adaptive_avg_pool2d_grad_x(Tensor grad, int[] size) -> Tensor",
     vmap = "merge", kind = "structured", dtypes = "floating", internal = true,
     grad = { grad = "adaptive_avg_pool2d(g, plane_of(sizes_of(grad)))" },
     torch = "adaptive_avg_pool2d_grad_x_ref(*args)",
     doc = [[The gradient of `adaptive_avg_pool2d` with respect to its input of sizes `size`.]],
     sample = { "randn(1, 2, 2, 3), {1, 2, 5, 7}" } }

op { "adaptive_max_pool2d(Tensor x, int[2] output_size) -> (Tensor values, Tensor indices)",
     vmap = "merge", kind = "structured", dtypes = "real",
     nodiff = { "indices" },
     grad = { x = "max_pool2d_grad_x(g_values, indices, sizes_of(x))" },
     torch = "positions(F.adaptive_max_pool2d(*args, return_indices=True))",
     doc = [[Adaptive max pooling of images in 2 dimensions: the largest elements of windows chosen so
that the result has a given size, and their indices (from 1) in the flattened plane. NaN wins.]],
     args = ADAPTIVE,
     shapes = "x (*, h, w) -> values (*, output_size), indices (*, output_size)",
     example = "ml.adaptive_max_pool2d(ml.tensor {{{1.0, 2}, {3, 4}}}, 1)",
     gives = [[
{{{4.}}}
Tensor (1, 1, 1) float32
{{{4}}}
Tensor (1, 1, 1) int64]],
     sample = { "randn(2, 3, 5, 7), {2, 3}", "randn(2, 4, 3), {1, 3}" } }

-- Pooling in one and three dimensions, by the ops in two.
local function in_dims(d, text) return (text:gsub("NAME", ("%dd"):format(d)):gsub("%[N%]", ("[%d]"):format(d))
  :gsub("ONES", d == 1 and "{1}" or "{1, 1, 1}"):gsub("ZEROS", d == 1 and "{0}" or "{0, 0, 0}")) end
local shuffled = "randperm(%s):to(float32):reshape(%s)"

local text = {
  max_pool1d_with_indices = { [[Max pooling of signals in 1 dimension: the largest element of each window and its index (from
1) in the signal. NaN wins.]],
    args = MAX,
    shapes = "x (*, l) -> values (*, l2), indices (*, l2)",
    formula = "l2 = floor((l + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1",
    example = "ml.max_pool1d_with_indices(ml.tensor {{1.0, 3, 2, 4}}, 2)",
    gives = [[
{{3., 4.}}
Tensor (1, 2) float32
{{2, 4}}
Tensor (1, 2) int64]] },
  max_pool1d = { "Max pooling of signals in 1 dimension: the largest element of each window. NaN wins.",
    args = MAX,
    shapes = "x (*, l) -> (*, l2)",
    formula = "l2 = floor((l + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1",
    example = "ml.max_pool1d(ml.tensor {{1.0, 3, 2, 4}}, 2)",
    gives = [[
{{3., 4.}}
Tensor (1, 2) float32]] },
  avg_pool1d = { [[Average pooling of signals in 1 dimension: the mean of each window. Means of integers are
rounded towards 0.]],
    args = MEAN_1D,
    shapes = "x (*, l) -> (*, l2)",
    formula = "l2 = floor((l + 2 * padding - kernel_size) / stride) + 1",
    example = "ml.avg_pool1d(ml.tensor {{1.0, 3, 2, 4}}, 2)",
    gives = [[
{{2., 3.}}
Tensor (1, 2) float32]] },
  adaptive_avg_pool1d = { [[Adaptive average pooling of signals in 1 dimension: means of windows chosen so that the result
has a given size. Windows are as even as possible and may overlap.]],
    args = ADAPTIVE,
    shapes = "x (*, l) -> (*, output_size)",
    example = "ml.adaptive_avg_pool1d(ml.tensor {{1.0, 2, 3, 4, 5}}, 2)",
    gives = [[
{{2., 4.}}
Tensor (1, 2) float32]] },
  adaptive_max_pool1d = { [[Adaptive max pooling of signals in 1 dimension: the largest elements of windows chosen so that
the result has a given size, and their indices (from 1) in the signal. NaN wins.]],
    args = ADAPTIVE,
    shapes = "x (*, l) -> values (*, output_size), indices (*, output_size)",
    example = "ml.adaptive_max_pool1d(ml.tensor {{1.0, 2, 3, 4, 5}}, 2)",
    gives = [[
{{3., 5.}}
Tensor (1, 2) float32
{{3, 5}}
Tensor (1, 2) int64]] },
  max_pool3d_with_indices = { [[Max pooling of volumes in 3 dimensions: the largest element of each window and its index (from
1) in the flattened volume. NaN wins.]],
    args = MAX,
    shapes = "x (*, d, h, w) -> values (*, d2, h2, w2), indices (*, d2, h2, w2)",
    formula = "d2 = floor((d + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1",
    example = "ml.max_pool3d_with_indices(ml.arange(8):reshape(1, 2, 2, 2), 2)",
    gives = [[
{{{{8}}}}
Tensor (1, 1, 1, 1) int64
{{{{8}}}}
Tensor (1, 1, 1, 1) int64]] },
  max_pool3d = { "Max pooling of volumes in 3 dimensions: the largest element of each window. NaN wins.",
    args = MAX,
    shapes = "x (*, d, h, w) -> (*, d2, h2, w2)",
    formula = "d2 = floor((d + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1",
    example = "ml.max_pool3d(ml.randn(1, 4, 6, 8), 2).shape", gives = "(1, 2, 3, 4)" },
  avg_pool3d = { [[Average pooling of volumes in 3 dimensions: the mean of each window. Means of integers are
rounded towards 0.]],
    args = MEAN,
    shapes = "x (*, d, h, w) -> (*, d2, h2, w2)",
    formula = "d2 = floor((d + 2 * padding - kernel_size) / stride) + 1",
    example = "ml.avg_pool3d(ml.randn(1, 4, 6, 8), 2).shape", gives = "(1, 2, 3, 4)" },
  adaptive_avg_pool3d = { [[Adaptive average pooling of volumes in 3 dimensions: means of windows chosen so that the
result has a given size. Windows are as even as possible and may overlap.]],
    args = ADAPTIVE,
    shapes = "x (*, d, h, w) -> (*, output_size)",
    example = "ml.adaptive_avg_pool3d(ml.randn(1, 4, 6, 8), {1, 2, 2}).shape", gives = "(1, 1, 2, 2)" },
  adaptive_max_pool3d = { [[Adaptive max pooling of volumes in 3 dimensions: the largest elements of windows chosen so
that the result has a given size, and their indices (from 1) in the flattened volume. NaN wins.]],
    args = ADAPTIVE,
    shapes = "x (*, d, h, w) -> values (*, output_size), indices (*, output_size)",
    example = "ml.adaptive_max_pool3d(ml.arange(8):reshape(1, 2, 2, 2), 1)",
    gives = [[
{{{{8}}}}
Tensor (1, 1, 1, 1) int64
{{{{8}}}}
Tensor (1, 1, 1, 1) int64]] },
  lp_pool1d = { "Power-average pooling of signals in 1 dimension: the norm of each window.",
    args = arguments { norm_type = "the order of the norm" },
    shapes = "x (*, l) -> (*, l2)",
    formula = "y = (sum_i x_i^norm_type)^(1 / norm_type)",
    example = "ml.lp_pool1d(ml.tensor {{3.0, 4, 6, 8}}, 2, 2)",
    gives = [[
{{ 5., 10.}}
Tensor (1, 2) float32]] },
  max_unpool1d = { [[Max unpooling of signals in 1 dimension: zeros with the elements of `x` at the indices that a
max pooling gave; its partial inverse.]],
    args = { x = "the maxima",
             indices = "their indices, from 1, in the signal of the result",
             output_size = "the sizes of the result: one number, or one for each dimension" },
    shapes = "x (*, l), indices (*, l) -> (*, output_size)",
    example = "ml.max_unpool1d(ml.tensor {{5.0, 7}}, ml.tensor {{2, 3}}, 4)",
    gives = [[
{{0., 5., 7., 0.}}
Tensor (1, 4) float32]] },
  lp_pool2d = { "Power-average pooling of images in 2 dimensions: the norm of each window.",
    args = arguments { norm_type = "the order of the norm" },
    shapes = "x (*, h, w) -> (*, h2, w2)",
    formula = "y = (sum_i x_i^norm_type)^(1 / norm_type)",
    example = "ml.lp_pool2d(ml.tensor {{{3.0, 0}, {0, 4}}}, 2, 2)",
    gives = [[
{{{5.}}}
Tensor (1, 1, 1) float32]] },
  max_unpool2d = { [[Max unpooling of images in 2 dimensions: zeros with the elements of `x` at the indices that a
max pooling gave; its partial inverse.]],
    args = { x = "the maxima",
             indices = "their indices, from 1, in the flattened plane of the result",
             output_size = "the sizes of the result: one number, or one for each dimension" },
    shapes = "x (*, h, w), indices (*, h, w) -> (*, output_size)",
    example = "ml.max_unpool2d(ml.tensor {{{5.0}}}, ml.tensor {{{4}}}, 2)",
    gives = [[
{{{0., 0.},
  {0., 5.}}}
Tensor (1, 2, 2) float32]] },
  lp_pool3d = { "Power-average pooling of volumes in 3 dimensions: the norm of each window.",
    args = arguments { norm_type = "the order of the norm" },
    shapes = "x (*, d, h, w) -> (*, d2, h2, w2)",
    formula = "y = (sum_i x_i^norm_type)^(1 / norm_type)",
    example = "ml.lp_pool3d(ml.randn(1, 4, 6, 8), 2, 2).shape", gives = "(1, 2, 3, 4)" },
  max_unpool3d = { [[Max unpooling of volumes in 3 dimensions: zeros with the elements of `x` at the indices that a
max pooling gave; its partial inverse.]],
    args = { x = "the maxima",
             indices = "their indices, from 1, in the flattened volume of the result",
             output_size = "the sizes of the result: one number, or one for each dimension" },
    shapes = "x (*, d, h, w), indices (*, d, h, w) -> (*, output_size)",
    example = "ml.max_unpool3d(ml.tensor {{{{5.0}}}}, ml.tensor {{{{8}}}}, 2).shape", gives = "(1, 2, 2, 2)" },
  fractional_max_pool2d = { [[Fractional max pooling of images in 2 dimensions: the largest elements of windows that lie
pseudo-randomly so that the result has a given size, and their indices (from 1) in the flattened plane.]],
    args = { kernel_size = "the size of a window: one number, or one for each dimension",
             output_size = "the sizes of the result: one number, or one for each dimension",
             random_samples = "numbers from 0 to 1 that shift the windows of each channel, (n, c, 2)" },
    shapes = "x (n, c, h, w), random_samples (n, c, 2) -> values (n, c, output_size), indices (n, c, output_size)",
    source = 'Graham 2014, "Fractional Max-Pooling"',
    example = [[
x = ml.arange(9):reshape(1, 1, 3, 3):to(ml.float32)
ml.fractional_max_pool2d(x, 1, 2, ml.full({1, 1, 2}, 0.5))]],
    gives = [[
{{{{1., 3.},
   {7., 9.}}}}
Tensor (1, 1, 2, 2) float32
{{{{1, 3},
   {7, 9}}}}
Tensor (1, 1, 2, 2) int64]] },
  fractional_max_pool3d = { [[Fractional max pooling of volumes in 3 dimensions: the largest elements of windows that lie
pseudo-randomly so that the result has a given size, and their indices (from 1) in the flattened volume.]],
    args = { kernel_size = "the size of a window: one number, or one for each dimension",
             output_size = "the sizes of the result: one number, or one for each dimension",
             random_samples = "numbers from 0 to 1 that shift the windows of each channel, (n, c, 3)" },
    shapes = "x (n, c, d, h, w), random_samples (n, c, 3) -> values (n, c, output_size), indices (n, c, " ..
      "output_size)",
    source = 'Graham 2014, "Fractional Max-Pooling"',
    example = [[
x, samples = ml.randn(1, 2, 6, 6, 6), ml.rand(1, 2, 3)
values, indices = ml.fractional_max_pool3d(x, 2, 3, samples)
values.shape]],
    gives = "(1, 2, 3, 3, 3)" },
}

for _, d in ipairs { 1, 3 } do
  local function row(signature, fields)
    fields[1] = in_dims(d, signature)
    fields.kind = "composite"
    if d == 3 and not signature:find "_with_indices" then fields.autocast = { host = "float32" } end
    op(fields)
  end
  local input = shuffled:format(d == 1 and "2 * 3 * 8" or "2 * 2 * 3 * 5 * 4",
    d == 1 and "2, 3, 8" or "2, 2, 3, 5, 4")
  local single = shuffled:format(d == 1 and "3 * 7" or "2 * 4 * 4 * 3", d == 1 and "3, 7" or "2, 4, 4, 3")
  local window = d == 1 and "3, {2}, 1, 2, true" or "{2, 3, 2}, {2, 1, 2}, {1, 1, 0}, {1, 1, 2}, true"
  local function torch(name) return ("F.%s%dd(*args)"):format(name, d) end

  row([[max_poolNAME_with_indices(Tensor x, int[N] kernel_size, int[] stride={}, int[N] padding=ZEROS,
                                  int[N] dilation=ONES, bool ceil_mode=false) -> (Tensor values, Tensor indices)]],
    { dtypes = "real",
      torch = ("positions(F.max_pool%dd(*args, return_indices=True))"):format(d),
      doc = text["max_pool" .. d .. "d_with_indices"],
      sample = { input .. ", 2", single .. ", " .. window } })
  row([[max_poolNAME(Tensor x, int[N] kernel_size, int[] stride={}, int[N] padding=ZEROS,
                     int[N] dilation=ONES, bool ceil_mode=false) -> Tensor]],
    { dtypes = "real", torch = torch "max_pool",
      doc = text["max_pool" .. d .. "d"],
      sample = { input .. ", 2", single .. ", " .. window } })
  row([[avg_poolNAME(Tensor x, int[N] kernel_size, int[] stride={}, int[N] padding=ZEROS, bool ceil_mode=false,
                     bool count_include_pad=true]] .. (d == 3 and ", int? divisor_override=nil" or "") .. ") -> Tensor",
    { dtypes = "real", torch = torch "avg_pool",
      doc = text["avg_pool" .. d .. "d"],
      sample = d == 1 and { "randn(2, 3, 8), 3", "randn(3, 7), 3, {2}, 1, true", "randn(3, 7), 3, {2}, 1, true, false" }
        or { "randn(1, 2, 3, 4, 5), 2", "randn(2, 3, 4, 3), {2, 3, 2}, {2, 1, 1}, {1, 1, 0}, true, false",
             "randn(1, 3, 4, 3), 2, {2}, 1, true, true, 5" } })
  row("adaptive_avg_poolNAME(Tensor x, int[N] output_size) -> Tensor",
    { dtypes = "floating", torch = torch "adaptive_avg_pool",
      doc = text["adaptive_avg_pool" .. d .. "d"],
      sample = d == 1 and { "randn(2, 3, 7), 3", "randn(3, 4), 6" }
        or { "randn(2, 2, 3, 4, 5), {2, 3, 1}", "randn(2, 3, 4, 2), 2" } })
  row("adaptive_max_poolNAME(Tensor x, int[N] output_size) -> (Tensor values, Tensor indices)",
    { dtypes = "real", torch = ("positions(F.adaptive_max_pool%dd(*args, return_indices=True))"):format(d),
      doc = text["adaptive_max_pool" .. d .. "d"],
      sample = { input .. (d == 1 and ", 3" or ", {2, 3, 1}"), single .. ", 2" } })
end

for d = 1, 3 do
  local spatial = ({ "7", "5, 6", "3, 4, 5" })[d]
  op { in_dims(d, ([[lp_poolNAME(Tensor x, float norm_type, int[N] kernel_size, int[] stride={},
                                 bool ceil_mode=false) -> Tensor]])),
       kind = "composite", dtypes = "floating", torch = ("F.lp_pool%dd(*args)"):format(d),
       doc = text["lp_pool" .. d .. "d"],
       sample = { ("rand(2, 3, %s) + 0.1, 2, 2"):format(spatial), ("rand(1, 2, %s) + 0.1, 3, 3, {1}"):format(spatial) } }

  local plane = ({ "4", "2, 2", "1, 2, 2" })[d]
  op { ("max_unpool%dd(Tensor x, Positions indices, int[%d] output_size) -> Tensor"):format(d, d),
       kind = "composite", autocast = d > 1 and { host = "float32" } or nil, dtypes = "real",
       torch = ("max_unpool_ref(*args)"),
       doc = text["max_unpool" .. d .. "d"],
       sample = { ("randn(2, 1, %s), tensor({ 1, 4, 6, 7, 8, 3, 5, 2 }):reshape(2, 1, %s), %s"):format(plane, plane,
         ({ "9", "{3, 3}", "{2, 2, 3}" })[d]) },
       check = { empty = "the positions must fit" } }
end

op { [[native_fractional_max_pool(Tensor x, Tensor random_samples, int[] kernel_size, int[] output_size)
     -> (Tensor values, Tensor indices)]],
     vmap = "entries", kind = "structured", dtypes = "real", mixed = true, internal = true,
     cpu_only = "the windows are gathered there",
     torch = "[r.squeeze(0) for r in positions(getattr(F, f'fractional_max_pool{args[0].dim() - 1}d')("
       .. "args[0].unsqueeze(0), args[2], args[3], return_indices=True, _random_samples=args[1].unsqueeze(0)))]",
     doc = [[`fractional_max_pool2d` and `3d` of planes or volumes (n, ...), with `random_samples` (n, dims).]],
     sample = { shuffled:format("2 * 7 * 6", "2, 7, 6") .. ", rand(2, 2), {2, 3}, {3, 2}",
                shuffled:format("3 * 5 * 6 * 4", "3, 5, 6, 4") .. ", rand(3, 3), {2, 3, 1}, {3, 2, 3}" },
     check = { empty = "the windows must fit", dtypes = "random_samples are floating" } }

for d = 2, 3 do
  op { ([[fractional_max_pool%dd(Tensor x, int[%d] kernel_size, int[%d] output_size, Tensor random_samples)
          -> (Tensor values, Tensor indices)]]):format(d, d, d),
       kind = "composite", autocast = { host = "float32" }, dtypes = "floating", constant = { "random_samples" },
       torch = ("positions(F.fractional_max_pool%dd(args[0], args[1], args[2], return_indices=True, "
         .. "_random_samples=args[3]))"):format(d),
       doc = text["fractional_max_pool" .. d .. "d"],
       sample = d == 2 and { shuffled:format("2 * 3 * 7 * 6", "2, 3, 7, 6") .. ", {2, 3}, {3, 2}, rand(2, 3, 2)",
                             shuffled:format("2 * 5 * 6", "2, 5, 6") .. ", 2, {1, 4}, rand(1, 2, 2)" }
         or { shuffled:format("2 * 2 * 5 * 6 * 4", "2, 2, 5, 6, 4") .. " / 20, {2, 3, 1}, {3, 2, 3}, rand(2, 2, 3)" },
       check = { empty = "the windows must fit" } }
end
