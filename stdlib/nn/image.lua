-- stdlib/nn/image.lua: layers that resize images and rearrange their elements.

local layer = require "moonlet.nn.layer"

local layers = {}

local SIZES = "int>=1|int[]>=1? size=nil, number>0|number[]>0? scale_factor=nil"

--- Resizes sequences, images or volumes to a size or by a factor, by interpolation. Either `size`
--- or `scale_factor` must be given.
--- > ml.nn.Upsample { scale_factor = 2 }(ml.tensor { { { { 1, 2 }, { 3, 4 } } } })
---   {{{{1, 1, 2, 2},
---      {1, 1, 2, 2},
---      {3, 3, 4, 4},
---      {3, 3, 4, 4}}}}
---   Tensor (1, 1, 4, 4) int64
---@param size the output size: one number, or one for each dimension of space
---@param scale_factor what the sizes are multiplied by: one number, or one for each dimension
---@param mode "nearest", "linear" "nearest", "linear" (3-d input), "bilinear", "bicubic" (4-d) or
---   "trilinear" (5-d)
---@param align_corners whether the centres of the corner elements of input and output coincide
---@param recompute_scale_factor whether the factor is computed anew from the sizes
---@shape input (n, c, l), (n, c, h, w) or (n, c, d, h, w) -> the same with the new sizes
---@formula size_out = floor(size_in scale_factor)
layers.Upsample = layer.functional("Upsample", "interpolate", SIZES .. ', string mode="nearest", '
  .. "bool? align_corners=nil, bool? recompute_scale_factor=nil")
--- Resizes images by the nearest pixel. Either `size` or `scale_factor` must be given.
--- > ml.nn.UpsamplingNearest2d { scale_factor = 2 }(ml.tensor { { { { 1, 2 } } } })
---   {{{{1, 1, 2, 2},
---      {1, 1, 2, 2}}}}
---   Tensor (1, 1, 2, 4) int64
---@param size the output size: one number, or { height, width }
---@param scale_factor what the sizes are multiplied by: one number, or { height, width }
---@shape input (n, c, h, w) -> (n, c, h_out, w_out)
---@formula h_out = floor(h scale_factor), w_out = floor(w scale_factor)
layers.UpsamplingNearest2d = layer.functional("UpsamplingNearest2d", "upsample_nearest", SIZES)
--- Resizes images by bilinear interpolation with aligned corners. Either `size` or `scale_factor`
--- must be given.
--- > ml.nn.UpsamplingBilinear2d { size = { 1, 3 } }(ml.tensor { { { { 1.0, 2 } } } })
---   {{{{1.0000, 1.5000, 2.0000}}}}
---   Tensor (1, 1, 1, 3) float32
---@param size the output size: one number, or { height, width }
---@param scale_factor what the sizes are multiplied by: one number, or { height, width }
---@shape input (n, c, h, w) -> (n, c, h_out, w_out)
---@formula h_out = floor(h scale_factor), w_out = floor(w scale_factor)
layers.UpsamplingBilinear2d = layer.functional("UpsamplingBilinear2d", "upsample_bilinear", SIZES)
--- Rearranges channels into pixels: sub-pixel convolution with r = upscale_factor.
--- > ml.nn.PixelShuffle(2)(ml.tensor { { { 1 } }, { { 2 } }, { { 3 } }, { { 4 } } })
---   {{{1, 2},
---     {3, 4}}}
---   Tensor (1, 2, 2) int64
---@param upscale_factor the factor r by which height and width grow
---@shape input (*, c r^2, h, w) -> (*, c, h r, w r)
---@source Shi et al., 2016: Real-time single image and video super-resolution
layers.PixelShuffle = layer.functional("PixelShuffle", "pixel_shuffle", "int>=1 upscale_factor")
--- Rearranges pixels into channels, with r = downscale_factor: the inverse of `PixelShuffle`.
--- > ml.nn.PixelUnshuffle(2)(ml.tensor { { { 1, 2 }, { 3, 4 } } }).shape
---   (4, 1, 1)
---@param downscale_factor the factor r by which height and width shrink
---@shape input (*, c, h r, w r) -> (*, c r^2, h, w)
layers.PixelUnshuffle = layer.functional("PixelUnshuffle", "pixel_unshuffle",
  "int>=1 downscale_factor")
--- Shuffles channels between groups. Channels are seen as a matrix (groups, c / groups) and
--- transposed, so that a grouped convolution that follows sees channels of all groups.
--- > ml.nn.ChannelShuffle(2)(ml.tensor { { { 1 }, { 2 }, { 3 }, { 4 } } })
---   {{{1},
---     {3},
---     {2},
---     {4}}}
---   Tensor (1, 4, 1) int64
---@param groups how many groups; it must divide the number of channels
---@shape input (n, c, *) -> (n, c, *)
---@source Zhang et al., 2017: ShuffleNet
layers.ChannelShuffle = layer.functional("ChannelShuffle", "channel_shuffle", "int>=1 groups")

local WINDOWS = "int[2]>=1 kernel_size, int[2]>=1 dilation=1, int[2]>=0 padding=0, "
  .. "int[2]>=1 stride=1"

--- Extracts sliding windows of images as columns (im2col).
--- > ml.nn.Unfold(2)(ml.tensor { { { 1.0, 2, 3 }, { 4, 5, 6 } } })
---   {{1., 2.},
---    {2., 3.},
---    {4., 5.},
---    {5., 6.}}
---   Tensor (4, 2) float32
---@param kernel_size the size of a window: one number, or { height, width }
---@param dilation the distance between the elements of a window
---@param padding how many zeros stand around the image on every side
---@param stride the distance between windows
---@shape input (n, c, h, w) or (c, h, w) -> (n, c kh kw, windows) or (c kh kw, windows)
---@formula windows = windows_h windows_w
---@formula windows_d = floor((size_d + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1
layers.Unfold = layer.functional("Unfold", "unfold", WINDOWS)
--- Adds columns of sliding windows up to images (col2im). Where windows overlap, their elements are
--- summed: it is the adjoint of `Unfold`, not its inverse.
--- > ml.nn.Fold({ 2, 3 }, 2)(ml.ones(4, 2))
---   {{{1., 2., 1.},
---     {1., 2., 1.}}}
---   Tensor (1, 2, 3) float32
---@param output_size the size of the image: one number, or { height, width }
---@param kernel_size the size of a window: one number, or { height, width }
---@param dilation the distance between the elements of a window
---@param padding how many zeros stand around the image on every side
---@param stride the distance between windows
---@shape input (n, c kh kw, windows) or (c kh kw, windows) -> (n, c, h, w) or (c, h, w)
---@formula windows = windows_h windows_w
---@formula windows_d = floor((size_d + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1
layers.Fold = layer.functional("Fold", "fold", "int[2]>=1 output_size, " .. WINDOWS)

return layers
