-- tensor/ops/conv.lua: convolution, the transposed one and the gradient of their weight.

-- What the three take in 1, 2 or 3 dimensions, one number of each list for each dimension.
local WINDOW = "int[] stride, int[] padding, int[] dilation, int groups"
-- The same in PyTorch, where the first is the position of these among `args`.
local function torch_window(first, transposed)
  return ("*args[%d:%d], %s, [0] * len(args[%d]), args[%d]"):format(first, first + 3,
    transposed and "True" or "False", first, first + 3)
end
local BACKWARD = "torch.ops.aten.convolution_backward"

op { "native_conv(Tensor x, Tensor weight, Tensor? bias, " .. WINDOW .. ") -> Tensor",
     vmap = "native_conv", linear = true, kind = "structured", dtypes = "floating", internal = true,
     grad = { x = "native_conv_transpose(g, weight, Tensor(), sizes_of(x), stride, padding, dilation, groups)",
              weight = "native_conv_grad_weight(g, x, sizes_of(weight), stride, padding, dilation, groups)",
              bias = "channel_sum(g)" },
     torch = "torch.convolution(*args[:3], " .. torch_window(3) .. ")",
     doc = [[`conv1d`, `conv2d` or `conv3d` of a batch of real inputs.]],
     sample = { "randn(2, 3, 5, 5), randn(4, 3, 3, 3), randn(4), {1, 1}, {0, 0}, {1, 1}, 1",
                "randn(1, 2, 6, 5), randn(3, 2, 3, 2), nil, {2, 1}, {1, 0}, {1, 1}, 1",
                "randn(1, 4, 6, 6), randn(4, 2, 2, 2), randn(4), {1, 1}, {1, 1}, {2, 2}, 2",
                "randn(2, 4, 7), randn(6, 2, 3), randn(6), {2}, {1}, {1}, 2",
                "randn(2, 2, 4, 5, 3), randn(3, 2, 2, 3, 2), randn(3), {1, 2, 1}, {1, 0, 1}, {2, 1, 1}, 1" } }

op { "native_conv_relu(Tensor x, Tensor weight, Tensor? bias, " .. WINDOW .. ") -> Tensor",
     vmap = "native_conv", kind = "structured", dtypes = "floating", internal = true,
     grad = { x = "native_conv_transpose(relu_grad_x(g, y), weight, Tensor(), sizes_of(x), stride, padding, dilation, "
                .. "groups)",
              weight = "native_conv_grad_weight(relu_grad_x(g, y), x, sizes_of(weight), stride, padding, dilation, "
                .. "groups)",
              bias = "channel_sum(relu_grad_x(g, y))" },
     torch = "torch.relu(torch.convolution(*args[:3], " .. torch_window(3) .. "))",
     doc = [[`relu` of `native_conv` in one: programs compute the two so where nothing else sees what the
convolution gives.]],
     sample = { "randn(2, 3, 5, 5), randn(4, 3, 3, 3), randn(4), {1, 1}, {0, 0}, {1, 1}, 1",
                "randn(1, 2, 6, 5), randn(3, 2, 3, 2), nil, {2, 1}, {1, 0}, {1, 1}, 1",
                "randn(1, 4, 6, 6), randn(4, 2, 2, 2), randn(4), {1, 1}, {1, 1}, {2, 2}, 2",
                "randn(2, 4, 7), randn(6, 2, 3), randn(6), {2}, {1}, {1}, 2",
                "randn(2, 2, 4, 5, 3), randn(3, 2, 2, 3, 2), randn(3), {1, 2, 1}, {1, 0, 1}, {2, 1, 1}, 1" } }

op { "native_conv_transpose(Tensor x, Tensor weight, Tensor? bias, int[] size, " .. WINDOW .. ") -> Tensor",
     vmap = "native_conv_transpose", linear = true, kind = "structured", dtypes = "floating", internal = true,
     grad = { x = "native_conv(g, weight, Tensor(), stride, padding, dilation, groups)",
              weight = "native_conv_grad_weight(x, g, sizes_of(weight), stride, padding, dilation, groups)",
              bias = "channel_sum(g)" },
     torch = "(" .. BACKWARD .. "(args[0], args[0].new_zeros(args[3]), args[1], None, " .. torch_window(4)
       .. ", [True, False, False])[0] + (0 if args[2] is None else args[2].view(-1, *[1] * len(args[4]))))",
     doc = [[The gradient of `native_conv` with respect to its input of sizes `size`, from that of its
result, `x`; also the transposed convolution, which adds `bias` (size[2]).]],
     sample = { "randn(2, 4, 3, 3), randn(4, 3, 3, 3), nil, {2, 3, 5, 5}, {1, 1}, {0, 0}, {1, 1}, 1",
                "randn(2, 4, 3), randn(4, 1, 3), randn(2), {2, 2, 6}, {2}, {1}, {1}, 2",
                "randn(1, 2, 2, 3, 2), randn(2, 3, 2, 3, 2), randn(3), {1, 3, 5, 5, 6}, {2, 1, 3}, {0, 0, 0}, {2, 1, 1}, 1" } }

op { "native_conv_grad_weight(Tensor grad, Tensor x, int[] size, " .. WINDOW .. ") -> Tensor",
     vmap = "native_conv_grad_weight", linear = true, kind = "structured", dtypes = "floating", internal = true,
     grad = { grad = "native_conv(x, g, Tensor(), stride, padding, dilation, groups)",
              x = "native_conv_transpose(grad, g, Tensor(), sizes_of(x), stride, padding, dilation, groups)" },
     torch = BACKWARD .. "(args[0], args[1], args[0].new_zeros(args[2]), None, " .. torch_window(3)
       .. ", [False, True, False])[1]",
     doc = [[The gradient of `native_conv` with respect to its filters of sizes `size`, from that of its
result, `grad`, and its input `x`.]],
     sample = { "randn(2, 4, 3, 3), randn(2, 3, 5, 5), {4, 3, 3, 3}, {1, 1}, {0, 0}, {1, 1}, 1",
                "randn(2, 4, 4), randn(2, 2, 7), {4, 1, 3}, {2}, {1}, {1}, 2",
                "randn(1, 3, 5, 3, 2), randn(1, 2, 4, 5, 2), {3, 2, 2, 3, 1}, {1, 1, 1}, {1, 0, 0}, {1, 1, 1}, 1" } }

local REAL_OR_COMPLEX = "real+complex"

-- Samples of a convolution in 1, 2 and 3 dimensions.
local CONV = {
  { sample = { "randn(2, 3, 7), randn(4, 3, 3), randn(4), 2, 1",
               "randn(4, 6), randn(6, 2, 2), nil, {1}, {1}, {2}, 2",
               "view_as_complex(randn(2, 2, 5, 2)), view_as_complex(randn(3, 2, 2, 2)), view_as_complex(randn(3, 2))" } },
  { sample = { "randn(2, 3, 5, 5), randn(4, 3, 3, 3), randn(4)",
               "randn(2, 6, 5), randn(3, 2, 3, 2), nil, {2, 1}, {1, 0}",
               "randn(1, 4, 6, 6), randn(4, 2, 2, 2), randn(4), 1, 1, 2, 2",
               "view_as_complex(randn(1, 2, 3, 4, 2)), view_as_complex(randn(2, 1, 2, 2, 2)), view_as_complex(randn(2, 2)), 1, 0, 1, 2" } },
  { sample = { "randn(2, 2, 3, 4, 3), randn(3, 2, 2, 3, 2), randn(3)",
               "randn(2, 5, 3, 4), randn(4, 1, 2, 2, 2), nil, {2, 1, 1}, {1, 0, 1}, {2, 1, 1}, 2",
               "view_as_complex(randn(1, 1, 2, 2, 2, 2)), view_as_complex(randn(2, 1, 2, 1, 2, 2))" } },
}

-- The meanings of the arguments: those of all convolutions and a form's own.
local function arguments(own)
  local out = {
    bias = "a number for each output channel",
    stride = "the step of the window: one number, or one for each dimension",
    padding = "how many zeros are added at both ends of each dimension",
    dilation = "the spacing between the elements of the window",
    groups = "the number of groups of channels; output channels are made of the input channels of their group",
  }
  for name, meaning in pairs(own) do out[name] = meaning end
  return out
end
local STEP = "the distance of the windows of neighbouring elements: one number, or one for each dimension"
local CUT = "how much is cut off at both ends of each dimension"
local ADDED = "how much is added at the end of each dimension, less than the stride or the dilation: tells sizes "
  .. "apart that the convolution maps to one"

local text = {
  conv1d = { [[Convolution of signals in 1 dimension, which as usual in networks is the cross-correlation
with the filters. The formula is that of stride 1 without padding.]],
    args = arguments { x = "a batch of signals, or one without `n`", weight = "the filters, (out, in / groups, *kernel_size)" },
    shapes = "x (n, in, l), weight (out, in / groups, *kernel_size), bias (out) -> (n, out, l_out)",
    formula = [[
y_(o,i) = bias_o + sum_(c,p) weight_(o,c,p) * x_(c,i + p - 1)
l_out = floor((l + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1]],
    source = 'Dumoulin and Visin 2016, "A guide to convolution arithmetic for deep learning"',
    example = "ml.conv1d(ml.tensor {{{1.0, 2, 3, 4}}}, ml.tensor {{{1.0, 0, -1}}})",
    gives = [[
{{{-2., -2.}}}
Tensor (1, 1, 2) float32]] },
  conv1d_padding = { [[Convolution of signals with padding by its name: "valid" is none; "same" is as much as keeps
the size, the odd one at the end.]],
    args = arguments { x = "a batch of signals, or one without `n`", weight = "the filters, (out, in / groups, *kernel_size)", padding = '"valid" or "same"' },
    shapes = "x (n, in, l), weight (out, in / groups, *kernel_size), bias (out) -> (n, out, l_out)",
    errors = '"same" with a stride other than 1',
    example = 'ml.conv1d(ml.ones(1, 1, 5), ml.ones(1, 1, 3), nil, 1, "same")',
    gives = [[
{{{2., 3., 3., 3., 2.}}}
Tensor (1, 1, 5) float32]] },
  conv_transpose1d = { [[Transposed convolution of signals in 1 dimension: the gradient of `conv1d` with respect to its
input, used to make signals larger. Each element adds its multiple of a filter to its window of the
result.]],
    args = arguments { x = "a batch of signals, or one without `n`", weight = "the filters, (in, out / groups, *kernel_size)", stride = STEP, padding = CUT, output_padding = ADDED },
    shapes = "x (n, in, l), weight (in, out / groups, *kernel_size), bias (out) -> (n, out, l_out)",
    formula = "l_out = (l - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1",
    source = 'Zeiler et al. 2010, "Deconvolutional Networks"',
    example = "ml.conv_transpose1d(ml.tensor {{{1.0, 2}}}, ml.tensor {{{1.0, 1, 1}}}, nil, 2)",
    gives = [[
{{{1., 1., 3., 2., 2.}}}
Tensor (1, 1, 5) float32]] },
  conv2d = { [[Convolution of images in 2 dimensions, which as usual in networks is the cross-correlation
with the filters. The formula is that of stride 1 without padding.]],
    args = arguments { x = "a batch of images, or one without `n`", weight = "the filters, (out, in / groups, *kernel_size)" },
    shapes = "x (n, in, h, w), weight (out, in / groups, *kernel_size), bias (out) -> (n, out, h_out, w_out)",
    formula = [[
y_(o,i,j) = bias_o + sum_(c,p,q) weight_(o,c,p,q) * x_(c,i + p - 1,j + q - 1)
h_out = floor((h + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1]],
    source = 'Dumoulin and Visin 2016, "A guide to convolution arithmetic for deep learning"',
    example = "ml.conv2d(ml.tensor {{{{1.0, 2, 3}, {4, 5, 6}, {7, 8, 9}}}}, ml.ones(1, 1, 2, 2))",
    gives = [[
{{{{12., 16.},
   {24., 28.}}}}
Tensor (1, 1, 2, 2) float32]] },
  conv2d_padding = { [[Convolution of images with padding by its name: "valid" is none; "same" is as much as keeps
the size, the odd one at the end.]],
    args = arguments { x = "a batch of images, or one without `n`", weight = "the filters, (out, in / groups, *kernel_size)", padding = '"valid" or "same"' },
    shapes = "x (n, in, h, w), weight (out, in / groups, *kernel_size), bias (out) -> (n, out, h_out, w_out)",
    errors = '"same" with a stride other than 1',
    example = 'ml.conv2d(ml.randn(1, 3, 8, 8), ml.randn(4, 3, 3, 3), nil, 1, "same").shape',
    gives = "(1, 4, 8, 8)" },
  conv_transpose2d = { [[Transposed convolution of images in 2 dimensions: the gradient of `conv2d` with respect to its
input, used to make images larger. Each element adds its multiple of a filter to its window of the
result.]],
    args = arguments { x = "a batch of images, or one without `n`", weight = "the filters, (in, out / groups, *kernel_size)", stride = STEP, padding = CUT, output_padding = ADDED },
    shapes = "x (n, in, h, w), weight (in, out / groups, *kernel_size), bias (out) -> (n, out, h_out, w_out)",
    formula = "h_out = (h - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1",
    source = 'Zeiler et al. 2010, "Deconvolutional Networks"',
    example = "ml.conv_transpose2d(ml.tensor {{{{1.0, 2}}}}, ml.ones(1, 1, 2, 2), nil, 2)",
    gives = [[
{{{{1., 1., 2., 2.},
   {1., 1., 2., 2.}}}}
Tensor (1, 1, 2, 4) float32]] },
  conv3d = { [[Convolution of volumes in 3 dimensions, which as usual in networks is the cross-correlation
with the filters. The formula is that of stride 1 without padding.]],
    args = arguments { x = "a batch of volumes, or one without `n`", weight = "the filters, (out, in / groups, *kernel_size)" },
    shapes = "x (n, in, d, h, w), weight (out, in / groups, *kernel_size), bias (out) -> (n, out, d_out, h_out, " ..
      "w_out)",
    formula = [[
y_(o,i,j,k) = bias_o + sum_(c,p,q,r) weight_(o,c,p,q,r) * x_(c,i + p - 1,j + q - 1,k + r - 1)
d_out = floor((d + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1]],
    source = 'Dumoulin and Visin 2016, "A guide to convolution arithmetic for deep learning"',
    example = "ml.conv3d(ml.randn(1, 2, 5, 6, 7), ml.randn(4, 2, 3, 3, 3)).shape", gives = "(1, 4, 3, 4, 5)" },
  conv3d_padding = { [[Convolution of volumes with padding by its name: "valid" is none; "same" is as much as keeps
the size, the odd one at the end.]],
    args = arguments { x = "a batch of volumes, or one without `n`", weight = "the filters, (out, in / groups, *kernel_size)", padding = '"valid" or "same"' },
    shapes = "x (n, in, d, h, w), weight (out, in / groups, *kernel_size), bias (out) -> (n, out, d_out, h_out, " ..
      "w_out)",
    errors = '"same" with a stride other than 1',
    example = 'ml.conv3d(ml.randn(1, 2, 5, 6, 7), ml.randn(4, 2, 3, 3, 3), nil, 1, "same").shape',
    gives = "(1, 4, 5, 6, 7)" },
  conv_transpose3d = { [[Transposed convolution of volumes in 3 dimensions: the gradient of `conv3d` with respect to
its input, used to make volumes larger. Each element adds its multiple of a filter to its window of the
result.]],
    args = arguments { x = "a batch of volumes, or one without `n`", weight = "the filters, (in, out / groups, *kernel_size)", stride = STEP, padding = CUT, output_padding = ADDED },
    shapes = "x (n, in, d, h, w), weight (in, out / groups, *kernel_size), bias (out) -> (n, out, d_out, h_out, " ..
      "w_out)",
    formula = "d_out = (d - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1",
    source = 'Zeiler et al. 2010, "Deconvolutional Networks"',
    example = "ml.conv_transpose3d(ml.randn(1, 4, 2, 2, 2), ml.randn(4, 3, 2, 2, 2), nil, 2).shape",
    gives = "(1, 3, 4, 4, 4)" },
}

for d, form in ipairs(CONV) do
  local name = ("conv%dd"):format(d)
  local ones, zeros = "{" .. ("1, "):rep(d - 1) .. "1}", "{" .. ("0, "):rep(d - 1) .. "0}"
  local function fill(signature)
    return (signature:gsub("NAME", name):gsub("%[N%]", ("[%d]"):format(d)):gsub("ONES", ones):gsub("ZEROS", zeros))
  end
  op { fill [[NAME(Tensor x, Tensor weight, Tensor? bias=nil, int[N] stride=ONES,
                   int[N] padding=ZEROS, int[N] dilation=ONES, int groups=1) -> Tensor]],
       kind = "composite", autocast = "lower_precision", dtypes = REAL_OR_COMPLEX,
       torch = ("F.%s(*args)"):format(name),
       doc = text[name],
       sample = form.sample }

  op { fill [[NAME_padding(Tensor x, Tensor weight, Tensor? bias=nil, int[N] stride=ONES,
                           string padding="valid", int[N] dilation=ONES, int groups=1) -> Tensor]],
       kind = "composite", autocast = "lower_precision", dtypes = REAL_OR_COMPLEX, overload_of = name,
       torch = ("F.%s(*args)"):format(name),
       doc = text[name .. "_padding"],
       sample = { form.sample[1]:match "^.-%), .-%), .-%)" .. ', 1, "same", 2',
                  form.sample[1]:match "^.-%), .-%), .-%)" .. ', 2, "valid"' } }

  local transposed = ("conv_transpose%dd"):format(d)
  op { (fill [[NAME(Tensor x, Tensor weight, Tensor? bias=nil, int[N] stride=ONES,
                    int[N] padding=ZEROS, int[N] output_padding=ZEROS, int groups=1,
                    int[N] dilation=ONES) -> Tensor]]):gsub(name, transposed),
       kind = "composite", autocast = "lower_precision", dtypes = REAL_OR_COMPLEX,
       torch = ("F.%s(*args)"):format(transposed),
       doc = text[transposed],
       sample = ({
         { "randn(2, 3, 4), randn(3, 2, 3), randn(2), 2, 1, 1", "randn(4, 3), randn(4, 2, 2), nil, 1, 0, 1, 2, 3",
           "view_as_complex(randn(1, 2, 3, 2)), view_as_complex(randn(2, 2, 2, 2)), view_as_complex(randn(2, 2))" },
         { "randn(2, 3, 3, 2), randn(3, 2, 3, 2), randn(2), {2, 3}, {1, 0}, {1, 2}",
           "randn(4, 3, 2), randn(4, 1, 2, 3), randn(2), 1, {1, 0}, {1, 0}, 2, {3, 1}" },
         { "randn(2, 2, 2, 3, 2), randn(2, 3, 2, 2, 3), randn(3), {2, 1, 2}, {1, 0, 1}, {1, 0, 0}",
           "randn(2, 3, 2, 2), randn(2, 1, 2, 2, 1), nil, 1, 0, {1, 0, 0}, 2, {2, 1, 1}" },
       })[d] }
end

op { "conv_tbc(Tensor x, Tensor weight, Tensor bias, int pad=0) -> Tensor",
     kind = "composite", autocast = "lower_precision", dtypes = "floating",
     doc = [[Convolution in 1 dimension of sequences with the time first, then the batch, then the
channels: `conv1d` in another layout.]],
     args = { x = "the sequences",
              weight = "the filters",
              bias = "a number for each output channel",
              pad = "how many zeros are added at both ends of the time" },
     shapes = "x (t, n, in), weight (k, in, out), bias (out) -> (t + 2 * pad - k + 1, n, out)",
     example = "ml.conv_tbc(ml.ones(4, 1, 2), ml.ones(3, 2, 1), ml.zeros(1)).shape", gives = "(2, 1, 1)",
     sample = { "randn(5, 2, 3), randn(2, 3, 4), randn(4)", "randn(4, 1, 2), randn(3, 2, 2), randn(2), 1" } }
