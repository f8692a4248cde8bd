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

--- Convolution of sequences: cross-correlation with given kernels, which are not flipped. With
--- `groups`, each group of output channels sees its own group of input channels.
--- > ml.nn.functional.conv1d(ml.ones(1, 1, 3), ml.ones(1, 1, 2))
---   {{{2., 2.}}}
---   Tensor (1, 1, 2) float32
---@param input the tensor to compute from
---@param weight the kernels W
---@param bias b, one for each output channel
---@param stride the distance between the windows of neighbouring outputs
---@param padding how much to add at every side, "same" to keep the size (stride 1), or "valid" for
---   0
---@param dilation the distance between the elements of a kernel
---@param groups how many groups the channels are divided into
---@shape input (n, c, l), weight (o, c / groups, k), bias (o) -> (n, o, l_out); or input without n
---@formula y_o(i) = b_o + sum_c sum_k W_oc(k) x_c(stride i + dilation k - padding)
---@formula l_out = floor((l + 2 padding - dilation (k - 1) - 1) / stride) + 1
---@error the channels of the input are not `in_channels`, or the window is larger than the padded
---   input
convolutions.conv1d = convolution(1)
--- Convolution of images: cross-correlation with given kernels, which are not flipped. With
--- `groups`, each group of output channels sees its own group of input channels.
--- > ml.nn.functional.conv2d(ml.ones(1, 1, 3, 3), ml.ones(1, 1, 2, 2))
---   {{{{4., 4.},
---      {4., 4.}}}}
---   Tensor (1, 1, 2, 2) float32
---@param input the tensor to compute from
---@param weight the kernels W
---@param bias b, one for each output channel
---@param stride the distance between the windows of neighbouring outputs
---@param padding how much to add at every side, "same" to keep the size (stride 1), or "valid" for
---   0
---@param dilation the distance between the elements of a kernel
---@param groups how many groups the channels are divided into
---@shape input (n, c, h, w), weight (o, c / groups, kh, kw), bias (o) -> (n, o, h_out, w_out); or
---   input without n
---@formula y_o(i) = b_o + sum_c sum_k W_oc(k) x_c(stride i + dilation k - padding)
---@formula size_out = floor((size + 2 padding - dilation (k - 1) - 1) / stride) + 1
---@formula for each of h, w
---@error the channels of the input are not `in_channels`, or the window is larger than the padded
---   input
convolutions.conv2d = convolution(2)
--- Convolution of volumes: cross-correlation with given kernels, which are not flipped. With
--- `groups`, each group of output channels sees its own group of input channels.
--- > ml.nn.functional.conv3d(ml.ones(1, 1, 3, 3, 3), ml.ones(1, 1, 2, 2, 2))
---   {{{{{8., 8.},
---       {8., 8.}},
---
---      {{8., 8.},
---       {8., 8.}}}}}
---   Tensor (1, 1, 2, 2, 2) float32
---@param input the tensor to compute from
---@param weight the kernels W
---@param bias b, one for each output channel
---@param stride the distance between the windows of neighbouring outputs
---@param padding how much to add at every side, "same" to keep the size (stride 1), or "valid" for
---   0
---@param dilation the distance between the elements of a kernel
---@param groups how many groups the channels are divided into
---@shape input (n, c, d, h, w), weight (o, c / groups, kd, kh, kw), bias (o) -> (n, o, d_out,
---   h_out, w_out); or input without n
---@formula y_o(i) = b_o + sum_c sum_k W_oc(k) x_c(stride i + dilation k - padding)
---@formula size_out = floor((size + 2 padding - dilation (k - 1) - 1) / stride) + 1
---@formula for each of d, h, w
---@error the channels of the input are not `in_channels`, or the window is larger than the padded
---   input
convolutions.conv3d = convolution(3)
--- Transposed convolution of sequences with given kernels: the gradient of a convolution with
--- respect to its input. Each input element adds its multiple of the kernel to the output.
--- > ml.nn.functional.conv_transpose1d(ml.ones(1, 1, 2), ml.ones(1, 1, 2))
---   {{{1., 2., 1.}}}
---   Tensor (1, 1, 3) float32
---@param input the tensor to compute from
---@param weight the kernels
---@param bias one for each output channel
---@param stride the distance between the windows that neighbouring inputs write to
---@param padding how much is cut off the output at every side
---@param output_padding how much is added to the output at the end of each dimension
---@param groups how many groups the channels are divided into
---@param dilation the distance between the elements of a kernel
---@shape input (n, c, l), weight (c, o / groups, k), bias (o) -> (n, o, l_out); or input without n
---@formula l_out = (l - 1) stride - 2 padding + dilation (k - 1) + extra + 1
---@formula extra = output_padding
---@error `output_size` is not one that a convolution with these options maps to the size of the
---   input
---@source Zeiler et al., 2010: Deconvolutional networks
convolutions.conv_transpose1d = transposed(1)
--- Transposed convolution of images with given kernels: the gradient of a convolution with respect
--- to its input. Each input element adds its multiple of the kernel to the output.
--- > ml.nn.functional.conv_transpose2d(ml.ones(1, 1, 2, 2), ml.ones(1, 1, 2, 2))
---   {{{{1., 2., 1.},
---      {2., 4., 2.},
---      {1., 2., 1.}}}}
---   Tensor (1, 1, 3, 3) float32
---@param input the tensor to compute from
---@param weight the kernels
---@param bias one for each output channel
---@param stride the distance between the windows that neighbouring inputs write to
---@param padding how much is cut off the output at every side
---@param output_padding how much is added to the output at the end of each dimension
---@param groups how many groups the channels are divided into
---@param dilation the distance between the elements of a kernel
---@shape input (n, c, h, w), weight (c, o / groups, kh, kw), bias (o) -> (n, o, h_out, w_out); or
---   input without n
---@formula size_out = (size - 1) stride - 2 padding + dilation (k - 1) + extra + 1
---@formula for each of h, w
---@formula extra = output_padding
---@error `output_size` is not one that a convolution with these options maps to the size of the
---   input
---@source Zeiler et al., 2010: Deconvolutional networks
convolutions.conv_transpose2d = transposed(2)
--- Transposed convolution of volumes with given kernels: the gradient of a convolution with respect
--- to its input. Each input element adds its multiple of the kernel to the output.
--- > ml.nn.functional.conv_transpose3d(ml.ones(1, 1, 2, 2, 2), ml.ones(1, 1, 2, 2, 2))
---   {{{{{1., 2., 1.},
---       {2., 4., 2.},
---       {1., 2., 1.}},
---
---      {{2., 4., 2.},
---       {4., 8., 4.},
---       {2., 4., 2.}},
---
---      {{1., 2., 1.},
---       {2., 4., 2.},
---       {1., 2., 1.}}}}}
---   Tensor (1, 1, 3, 3, 3) float32
---@param input the tensor to compute from
---@param weight the kernels
---@param bias one for each output channel
---@param stride the distance between the windows that neighbouring inputs write to
---@param padding how much is cut off the output at every side
---@param output_padding how much is added to the output at the end of each dimension
---@param groups how many groups the channels are divided into
---@param dilation the distance between the elements of a kernel
---@shape input (n, c, d, h, w), weight (c, o / groups, kd, kh, kw), bias (o) -> (n, o, d_out,
---   h_out, w_out); or input without n
---@formula size_out = (size - 1) stride - 2 padding + dilation (k - 1) + extra + 1
---@formula for each of d, h, w
---@formula extra = output_padding
---@error `output_size` is not one that a convolution with these options maps to the size of the
---   input
---@source Zeiler et al., 2010: Deconvolutional networks
convolutions.conv_transpose3d = transposed(3)
--- Convolution of sequences with the time first, then the batch and the channels.
--- > ml.nn.functional.conv_tbc(ml.ones(4, 1, 2), ml.ones(3, 2, 1), ml.zeros(1)).shape
---   (2, 1, 1)
---@param input the sequences
---@param weight the kernels
---@param bias one for each output channel
---@param pad how many zeros to add at both ends
---@shape input (l, n, c), weight (k, c, o), bias (o) -> (l + 2 pad - k + 1, n, o)
convolutions.conv_tbc = declare.op(
  "conv_tbc(Tensor input, Tensor weight, Tensor bias, int>=0 pad=0)")

return convolutions
