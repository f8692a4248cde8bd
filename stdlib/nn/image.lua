-- stdlib/nn/image.lua: layers that resize images and rearrange their elements.

local layer = require "moonlet.nn.layer"

local layers = {}

local SIZES = "int>=1|int[]>=1? size=nil, number>0|number[]>0? scale_factor=nil"

--- Resizes (n, c, l), (n, c, h, w) or (n, c, d, h, w) to `size`, or by `scale_factor`: one number
--- or one for each dimension. `mode` is "nearest", "linear", "bilinear", "bicubic" or "trilinear";
--- with `align_corners` the centres of the corner elements stay where they are. With
--- `recompute_scale_factor` the factor is that of the sizes.
layers.Upsample = layer.functional("Upsample", "interpolate", SIZES .. ', string mode="nearest", '
  .. "bool? align_corners=nil, bool? recompute_scale_factor=nil")
--- Resizes images (n, c, h, w) to `size`, or by `scale_factor`, by the nearest element.
layers.UpsamplingNearest2d = layer.functional("UpsamplingNearest2d", "upsample_nearest", SIZES)
--- Resizes images (n, c, h, w) to `size`, or by `scale_factor`, between the nearest four elements;
--- the corners stay where they are.
layers.UpsamplingBilinear2d = layer.functional("UpsamplingBilinear2d", "upsample_bilinear", SIZES)
--- (..., c r^2, h, w) as (..., c, h r, w r) for `r = upscale_factor` (Shi et al., 2016).
layers.PixelShuffle = layer.functional("PixelShuffle", "pixel_shuffle", "int>=1 upscale_factor")
--- What undoes `PixelShuffle`.
layers.PixelUnshuffle = layer.functional("PixelUnshuffle", "pixel_unshuffle",
  "int>=1 downscale_factor")
--- (n, c, ...) with the channels of `groups` groups taken in turn (Zhang et al., 2017).
layers.ChannelShuffle = layer.functional("ChannelShuffle", "channel_shuffle", "int>=1 groups")

local WINDOWS = "int[2]>=1 kernel_size, int[2]>=1 dilation=1, int[2]>=0 padding=0, "
  .. "int[2]>=1 stride=1"

--- The windows of images (n, c, h, w), or (c, h, w), as columns: (n, c * kh * kw, windows).
layers.Unfold = layer.functional("Unfold", "unfold", WINDOWS)
--- Images of `output_size` to which columns (n, c * kh * kw, windows) are added, each to its
--- window.
layers.Fold = layer.functional("Fold", "fold", "int[2]>=1 output_size, " .. WINDOWS)

return layers
