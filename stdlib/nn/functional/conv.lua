-- stdlib/nn/functional/conv.lua: convolutions under PyTorch's arguments.

local declare = require "moonlet.nn.functional.declare"

local convolutions = {}

local function convolution(dims)
  return declare.op((("convNd(Tensor input, Tensor weight, Tensor? bias=nil, int[N]>=1 stride=1, "
    .. "int[N]>=0|string padding=0, int[N]>=1 dilation=1, int>=1 groups=1)"):gsub("N", dims)))
end

local function transposed(dims)
  return declare.op((("conv_transposeNd(Tensor input, Tensor weight, Tensor? bias=nil, "
    .. "int[N]>=1 stride=1, int[N]>=0 padding=0, int[N]>=0 output_padding=0, int>=1 groups=1, "
    .. "int[N]>=1 dilation=1)"):gsub("N", dims)))
end

--- Cross-correlation of `input` (n, c, l) with filters `weight` (o, c / groups, k), plus `bias` (o)
--- per channel. `padding` may be "same" or "valid".
convolutions.conv1d = convolution(1)
--- Cross-correlation of images `input` (n, c, h, w) with filters `weight` (o, c / groups, kh, kw),
--- plus `bias` (o) per channel. `padding` may be "same" or "valid".
convolutions.conv2d = convolution(2)
--- Cross-correlation of `input` (n, c, d, h, w) with filters `weight` (o, c / groups, kd, kh, kw),
--- plus `bias` (o) per channel. `padding` may be "same" or "valid".
convolutions.conv3d = convolution(3)
--- The transposed convolution of `input` (n, c, l) with `weight` (c, o / groups, k): each element
--- adds its multiple of the filter to the result.
convolutions.conv_transpose1d = transposed(1)
--- The transposed convolution of images `input` (n, c, h, w) with `weight` (c, o / groups, kh, kw).
convolutions.conv_transpose2d = transposed(2)
--- The transposed convolution of `input` (n, c, d, h, w) with `weight` (c, o / groups, kd, kh, kw).
convolutions.conv_transpose3d = transposed(3)
--- `conv1d` with the time first: `input` (l, n, c), `weight` (k, c, o), `bias` (o).
convolutions.conv_tbc = declare.op(
  "conv_tbc(Tensor input, Tensor weight, Tensor bias, int>=0 pad=0)")

return convolutions
