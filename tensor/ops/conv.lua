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

-- What a convolution in 1, 2 or 3 dimensions is called by, and its samples.
local CONV = {
  { input = "`x` (n, c, l)", weight = "`weight` (o, c / groups, k)", result = "(n, o, l2)",
    axis = "l", taps = "k",
    sample = { "randn(2, 3, 7), randn(4, 3, 3), randn(4), 2, 1",
               "randn(4, 6), randn(6, 2, 2), nil, {1}, {1}, {2}, 2",
               "view_as_complex(randn(2, 2, 5, 2)), view_as_complex(randn(3, 2, 2, 2)), view_as_complex(randn(3, 2))" } },
  { input = "images `x` (n, c, h, w)", weight = "`weight` (o, c / groups, kh, kw)",
    result = "(n, o, h2, w2)", axis = "h", taps = "kh",
    sample = { "randn(2, 3, 5, 5), randn(4, 3, 3, 3), randn(4)",
               "randn(2, 6, 5), randn(3, 2, 3, 2), nil, {2, 1}, {1, 0}",
               "randn(1, 4, 6, 6), randn(4, 2, 2, 2), randn(4), 1, 1, 2, 2",
               "view_as_complex(randn(1, 2, 3, 4, 2)), view_as_complex(randn(2, 1, 2, 2, 2)), view_as_complex(randn(2, 2)), 1, 0, 1, 2" } },
  { input = "`x` (n, c, d, h, w)", weight = "`weight` (o, c / groups, kd, kh, kw)",
    result = "(n, o, d2, h2, w2)", axis = "d", taps = "kd",
    sample = { "randn(2, 2, 3, 4, 3), randn(3, 2, 2, 3, 2), randn(3)",
               "randn(2, 5, 3, 4), randn(4, 1, 2, 2, 2), nil, {2, 1, 1}, {1, 0, 1}, {2, 1, 1}, 2",
               "view_as_complex(randn(1, 1, 2, 2, 2, 2)), view_as_complex(randn(2, 1, 2, 1, 2, 2))" } },
}

for d, form in ipairs(CONV) do
  local name = ("conv%dd"):format(d)
  local ones, zeros = "{" .. ("1, "):rep(d - 1) .. "1}", "{" .. ("0, "):rep(d - 1) .. "0}"
  local function fill(text)
    return (text:gsub("NAME", name):gsub("%[N%]", ("[%d]"):format(d)):gsub("ONES", ones):gsub("ZEROS", zeros))
  end
  op { fill [[NAME(Tensor x, Tensor weight, Tensor? bias=nil, int[N] stride=ONES,
                   int[N] padding=ZEROS, int[N] dilation=ONES, int groups=1) -> Tensor]],
       kind = "composite", autocast = "lower_precision", dtypes = REAL_OR_COMPLEX,
       torch = ("F.%s(*args)"):format(name),
       doc = ([[Cross-correlation of %s with filters %s,
plus `bias` (o) per channel: %s with `%s2 = floor((%s + 2 padding - dilation (%s - 1) - 1) /
stride) + 1`. Without the n it is one input. With `groups`, each group of output channels sees its own
group of input channels.]]):format(form.input, form.weight, form.result, form.axis, form.axis, form.taps),
       sample = form.sample }

  op { fill [[NAME_padding(Tensor x, Tensor weight, Tensor? bias=nil, int[N] stride=ONES,
                           string padding="valid", int[N] dilation=ONES, int groups=1) -> Tensor]],
       kind = "composite", autocast = "lower_precision", dtypes = REAL_OR_COMPLEX, overload_of = name,
       torch = ("F.%s(*args)"):format(name),
       doc = [[With `padding` "valid" for none, or "same" for as much as keeps the size at stride 1,
the odd one at the end.]],
       sample = { form.sample[1]:match "^.-%), .-%), .-%)" .. ', 1, "same", 2',
                  form.sample[1]:match "^.-%), .-%), .-%)" .. ', 2, "valid"' } }

  local transposed = ("conv_transpose%dd"):format(d)
  op { (fill [[NAME(Tensor x, Tensor weight, Tensor? bias=nil, int[N] stride=ONES,
                    int[N] padding=ZEROS, int[N] output_padding=ZEROS, int groups=1,
                    int[N] dilation=ONES) -> Tensor]]):gsub(name, transposed),
       kind = "composite", autocast = "lower_precision", dtypes = REAL_OR_COMPLEX,
       torch = ("F.%s(*args)"):format(transposed),
       doc = ([[The transposed convolution of %s: each element adds its multiple of the filters, `weight`
of sizes (c, o / groups, ...), to its window of the result, with `%s2 = (%s - 1) stride - 2 padding + dilation
(%s - 1) + output_padding + 1`; plus `bias` (o).]]):format(form.input, form.axis, form.axis, form.taps),
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
     doc = [[`conv1d` of sequences with the time first: `x` (l, n, c), `weight` (k, c, o), `bias` (o): (l2, n, o).]],
     sample = { "randn(5, 2, 3), randn(2, 3, 4), randn(4)", "randn(4, 1, 2), randn(3, 2, 2), randn(2), 1" } }
