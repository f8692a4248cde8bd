-- tensor/ops/conv.lua: convolution and its gradients.

op { [[native_conv2d(Tensor x, Tensor weight, Tensor? bias=nil, int[2] stride={1, 1},
                     int[2] padding={0, 0}, int[2] dilation={1, 1}, int groups=1) -> Tensor]],
     kind = "structured", dtypes = "floating", internal = true,
     grad = { x = "conv2d_grad_x(g, weight, sizes_of(x), stride, padding, dilation, groups)",
              weight = "conv2d_grad_weight(g, x, sizes_of(weight), stride, padding, dilation, groups)",
              bias = "channel_sum(g)" },
     torch = "F.conv2d(*args)",
     doc = [[`conv2d` of a batch of real images.]],
     sample = { "randn(2, 3, 5, 5), randn(4, 3, 3, 3), randn(4)",
                "randn(1, 2, 6, 5), randn(3, 2, 3, 2), nil, {2, 1}, {1, 0}",
                "randn(1, 4, 6, 6), randn(4, 2, 2, 2), randn(4), 1, 1, 2, 2" } }

op { [[conv2d_grad_x(Tensor grad, Tensor weight, int[] size, int[2] stride={1, 1},
                     int[2] padding={0, 0}, int[2] dilation={1, 1}, int groups=1) -> Tensor]],
     kind = "structured", dtypes = "floating", internal = true,
     grad = { grad = "native_conv2d(g, weight, Tensor(), stride, padding, dilation, groups)",
              weight = "conv2d_grad_weight(grad, g, sizes_of(weight), stride, padding, dilation, groups)" },
     torch = "torch.nn.grad.conv2d_input(args[2], args[1], args[0], *args[3:])",
     doc = [[The gradient of `conv2d` with respect to its input of sizes `size`, from `grad` (n, o, h2, w2);
also the transposed convolution.]],
     sample = { "randn(2, 4, 3, 3), randn(4, 3, 3, 3), {2, 3, 5, 5}" } }

op { [[conv2d_grad_weight(Tensor grad, Tensor x, int[] size, int[2] stride={1, 1},
                          int[2] padding={0, 0}, int[2] dilation={1, 1}, int groups=1) -> Tensor]],
     kind = "structured", dtypes = "floating", internal = true,
     grad = { grad = "native_conv2d(x, g, Tensor(), stride, padding, dilation, groups)",
              x = "conv2d_grad_x(grad, g, sizes_of(x), stride, padding, dilation, groups)" },
     torch = "torch.nn.grad.conv2d_weight(args[1], args[2], args[0], *args[3:])",
     doc = [[The gradient of `conv2d` with respect to its filters of sizes `size`, from `grad` (n, o, h2, w2)
and the input `x` (n, c, h, w).]],
     sample = { "randn(2, 4, 3, 3), randn(2, 3, 5, 5), {4, 3, 3, 3}" } }

local REAL_OR_COMPLEX = "floating+complex"

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
