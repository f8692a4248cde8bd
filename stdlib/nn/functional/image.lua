-- stdlib/nn/functional/image.lua: resizing, sampling and rearranging images under PyTorch's
-- arguments.

local declare = require "moonlet.nn.functional.declare"
local ml = require "moonlet"
local options = require "moonlet.options"

local images = {}

-- One value for each of `dims` dimensions from one or an array of them.
local function each_dim(where, value, dims)
  if type(value) ~= "table" then
    local out = {}
    for i = 1, dims do out[i] = value end
    return out
  end
  if #value ~= dims then
    options.fail("%s has %d numbers, the input has %d dimensions besides n and c", where, #value,
      dims)
  end
  return value
end

-- The size and, where it is to be used, the factors of a resizing.
local function resized(name, input, size, factor, recompute)
  local dims = input.ndim - 2
  if dims < 1 or dims > 3 then
    options.fail("%s: 'input' has shape %s, (n, c, l), (n, c, h, w) or (n, c, d, h, w) is expected",
      name, tostring(input.shape))
  end
  if (size == nil) == (factor == nil) then
    options.fail("%s: either 'size' or 'scale_factor' is expected", name)
  end
  if size then
    if recompute then
      options.fail("%s: 'recompute_scale_factor' has no meaning with 'size'", name)
    end
    return each_dim(name .. ": 'size'", size, dims), {}
  end
  factor = each_dim(name .. ": 'scale_factor'", factor, dims)
  size = {}
  for i = 1, dims do
    size[i] = math.tointeger(input.shape[2 + i] * factor[i] // 1)
    if not size[i] then
      options.fail("%s: 'scale_factor' %g makes size %d too large", name, factor[i],
        input.shape[2 + i])
    end
  end
  return size, recompute and {} or factor
end

local ALIGNING = { linear = true, bilinear = true, trilinear = true, bicubic = true,
  lanczos = true }

local function interpolate(name, input, size, factor, mode, align_corners, recompute, antialias)
  if align_corners ~= nil and not ALIGNING[mode] then
    options.fail("%s: 'align_corners' is for the modes that interpolate, got mode %q", name, mode)
  end
  local factors
  size, factors = resized(name, input, size, factor, recompute or mode == "area" and factor ~= nil)
  local first = 3 - #size
  return ml.interpolate(input, size, mode, align_corners or false, antialias, factors[1 - first],
    factors[2 - first], factors[3 - first])
end

local SIZES = "(Tensor input, int>=1|int[]>=1? size=nil, number>0|number[]>0? scale_factor=nil"
local read_interpolate = declare.reader("interpolate" .. SIZES .. ', string mode="nearest", '
  .. "bool? align_corners=nil, bool? recompute_scale_factor=nil, bool antialias=false)")

--- Resizes sequences, images or volumes to a size or by a factor, by interpolation. Either `size`
--- or `scale_factor` must be given.
--- > ml.nn.functional.interpolate(ml.tensor { { { 1.0, 2 } } }, { scale_factor = 2 })
---   {{{1., 1., 2., 2.}}}
---   Tensor (1, 1, 4) float32
---@param input the sequences, images or volumes
---@param size the output size: one number, or one for each dimension of space
---@param scale_factor what the sizes are multiplied by: one number, or one for each dimension
---@param mode "nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "lanczos"
---   "nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "lanczos" or "area"
---@param align_corners whether the centres of the corner elements of input and output coincide
---@param recompute_scale_factor whether the factor is computed anew from the sizes
---@param antialias whether the filter of "bilinear", "bicubic" and "lanczos" is widened where the
---   image shrinks
---@return Tensor
---@shape input (n, c, l), (n, c, h, w) or (n, c, d, h, w) -> the same with the new sizes
---@formula size_out = floor(size_in scale_factor)
function images.interpolate(...)
  return interpolate("interpolate", read_interpolate(...))
end

local read_upsample = declare.reader("upsample" .. SIZES
  .. ', string mode="nearest", bool? align_corners=nil)')

--- Resizes sequences, images or volumes: the older name of `interpolate`. Either `size` or
--- `scale_factor` must be given.
--- > ml.nn.functional.upsample(ml.tensor { { { 1.0, 2 } } }, { scale_factor = 2 })
---   {{{1., 1., 2., 2.}}}
---   Tensor (1, 1, 4) float32
---@param input the sequences, images or volumes
---@param size the output size: one number, or one for each dimension of space
---@param scale_factor what the sizes are multiplied by: one number, or one for each dimension
---@param mode "nearest", "linear" "nearest", "linear" (3-d input), "bilinear", "bicubic" (4-d) or
---   "trilinear" (5-d)
---@param align_corners whether the centres of the corner elements of input and output coincide
---@return Tensor
---@shape input (n, c, l), (n, c, h, w) or (n, c, d, h, w) -> the same with the new sizes
---@formula size_out = floor(size_in scale_factor)
function images.upsample(...)
  local input, size, factor, mode, align_corners = read_upsample(...)
  return interpolate("upsample", input, size, factor, mode, align_corners, nil, false)
end

local read_nearest = declare.reader("upsample_nearest" .. SIZES .. ")")

--- Resizes by the nearest element: `interpolate` with the mode "nearest". Either `size` or
--- `scale_factor` must be given.
--- > ml.nn.functional.upsample_nearest(ml.tensor { { { 1, 2 } } }, 4)
---   {{{1, 1, 2, 2}}}
---   Tensor (1, 1, 4) int64
---@param input the images
---@param size the output size: one number, or one for each dimension
---@param scale_factor what the sizes are multiplied by: one number, or one for each dimension
---@return Tensor
---@shape input (n, c, *) -> the same with the new sizes
---@formula h_out = floor(h scale_factor), w_out = floor(w scale_factor)
function images.upsample_nearest(...)
  local input, size, factor = read_nearest(...)
  return interpolate("upsample_nearest", input, size, factor, "nearest", nil, nil, false)
end

local read_bilinear = declare.reader("upsample_bilinear" .. SIZES .. ")")

--- Resizes images by bilinear interpolation with aligned corners. Either `size` or `scale_factor`
--- must be given.
--- > ml.nn.functional.upsample_bilinear(ml.tensor { { { { 1.0, 2 } } } }, { 1, 3 })
---   {{{{1.0000, 1.5000, 2.0000}}}}
---   Tensor (1, 1, 1, 3) float32
---@param input the images
---@param size the output size: one number, or { height, width }
---@param scale_factor what the sizes are multiplied by: one number, or { height, width }
---@return Tensor
---@shape input (n, c, h, w) -> (n, c, h_out, w_out)
---@formula h_out = floor(h scale_factor), w_out = floor(w scale_factor)
function images.upsample_bilinear(...)
  local input, size, factor = read_bilinear(...)
  return interpolate("upsample_bilinear", input, size, factor, "bilinear", true, nil, false)
end

--- Samples images or volumes at the points of a grid, as a spatial transformer does. Coordinates go
--- from -1 to 1, x (the width) first; they are points of the image, not indices.
--- > ml.nn.functional.grid_sample(ml.tensor { { { { 1.0, 2 } } } },
---   ml.tensor { { { { 0.0, 0 } } } })
---   {{{{1.5000}}}}
---   Tensor (1, 1, 1, 1) float32
---@param input the images or volumes
---@param grid the points (x, y) or (x, y, z) of each element of the output
---@param mode "bilinear" "bilinear" (of volumes trilinear), "nearest" or "bicubic"
---@param padding_mode what lies outside: "zeros", "border" or "reflection"
---@param align_corners whether -1 and 1 are the centres of the corner elements, or the outer edges
---@shape input (n, c, h, w), grid (n, h_out, w_out, 2) -> (n, c, h_out, w_out)
---@shape input (n, c, d, h, w), grid (n, d_out, h_out, w_out, 3) -> (n, c, d_out, h_out, w_out)
---@source Jaderberg et al., 2015: Spatial transformer networks
images.grid_sample = declare.op('grid_sample(Tensor input, Tensor grid, string mode="bilinear", '
  .. 'string padding_mode="zeros", bool align_corners=false)')
--- Grid of points for `grid_sample` that maps images by affine transformations.
--- > ml.nn.functional.affine_grid(ml.eye(2, 3):unsqueeze(1), { 1, 1, 1, 2 })
---   {{{{-0.5000,  0.0000},
---      { 0.5000,  0.0000}}}}
---   Tensor (1, 1, 2, 2) float32
---@param theta the matrices of the transformations, a row less than a column
---@param size the sizes of the output: { n, c, h, w } or { n, c, d, h, w }
---@param align_corners whether -1 and 1 are the centres of the corner elements, or the outer edges
---@shape theta (n, 2, 3) -> (n, h, w, 2)
---@shape theta (n, 3, 4) -> (n, d, h, w, 3)
---@formula grid = theta (x, y, 1)^T
---@source Jaderberg et al., 2015: Spatial transformer networks
images.affine_grid = declare.op(
  "affine_grid(Tensor theta, int[]>=1 size, bool align_corners=false)")

--- Rearranges channels into pixels: sub-pixel convolution with r = upscale_factor.
--- > ml.nn.functional.pixel_shuffle(ml.ones(4, 1, 1), 2).shape
---   (1, 2, 2)
---@param input the images
---@param upscale_factor the factor r by which height and width grow
---@shape input (*, c r^2, h, w) -> (*, c, h r, w r)
---@source Shi et al., 2016: Real-time single image and video super-resolution
images.pixel_shuffle = declare.op "pixel_shuffle(Tensor input, int>=1 upscale_factor)"
--- Rearranges pixels into channels, with r = downscale_factor: the inverse of `PixelShuffle`.
--- > ml.nn.functional.pixel_unshuffle(ml.ones(1, 2, 2), 2).shape
---   (4, 1, 1)
---@param input the images
---@param downscale_factor the factor r by which height and width shrink
---@shape input (*, c, h r, w r) -> (*, c r^2, h, w)
images.pixel_unshuffle = declare.op "pixel_unshuffle(Tensor input, int>=1 downscale_factor)"
--- Shuffles channels between groups. Channels are seen as a matrix (groups, c / groups) and
--- transposed, so that a grouped convolution that follows sees channels of all groups.
--- > ml.nn.functional.channel_shuffle(ml.tensor { { { 1 }, { 2 }, { 3 }, { 4 } } }, 2)
---   {{{1},
---     {3},
---     {2},
---     {4}}}
---   Tensor (1, 4, 1) int64
---@param input the tensor to compute from
---@param groups how many groups; it must divide the number of channels
---@shape input (n, c, *) -> (n, c, *)
---@source Zhang et al., 2017: ShuffleNet
images.channel_shuffle = declare.op "channel_shuffle(Tensor input, int>=1 groups)"
--- Shuffles channels between groups: another name of `channel_shuffle`.
--- > ml.nn.functional.native_channel_shuffle(ml.tensor { { { 1 }, { 2 }, { 3 }, { 4 } } }, 2)
---   {{{1},
---     {3},
---     {2},
---     {4}}}
---   Tensor (1, 4, 1) int64
---@param input the tensor to compute from
---@param groups how many groups; it must divide the number of channels
---@shape input (n, c, *) -> (n, c, *)
---@source Zhang et al., 2017: ShuffleNet
images.native_channel_shuffle = declare.op "native_channel_shuffle(Tensor input, int>=1 groups)"

local WINDOWS = "int[2]>=1 kernel_size, int[2]>=1 dilation=1, int[2]>=0 padding=0, "
  .. "int[2]>=1 stride=1)"
local read_unfold = declare.reader("unfold(Tensor input, " .. WINDOWS)

--- Extracts sliding windows of images as columns (im2col).
--- > ml.nn.functional.unfold(ml.tensor { { { 1.0, 2, 3 }, { 4, 5, 6 } } }, 2)
---   {{1., 2.},
---    {2., 3.},
---    {4., 5.},
---    {5., 6.}}
---   Tensor (4, 2) float32
---@param input the images
---@param kernel_size the size of a window: one number, or { height, width }
---@param dilation the distance between the elements of a window
---@param padding how many zeros stand around the image on every side
---@param stride the distance between windows
---@return Tensor
---@shape input (n, c, h, w) or (c, h, w) -> (n, c kh kw, windows) or (c kh kw, windows)
---@formula windows = windows_h windows_w
---@formula windows_d = floor((size_d + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1
function images.unfold(...) return ml.im2col(read_unfold(...)) end

local read_fold = declare.reader("fold(Tensor input, int[2]>=1 output_size, " .. WINDOWS)

--- Adds columns of sliding windows up to images (col2im). Where windows overlap, their elements are
--- summed: it is the adjoint of `Unfold`, not its inverse.
--- > ml.nn.functional.fold(ml.ones(4, 2), { 2, 3 }, 2)
---   {{{1., 2., 1.},
---     {1., 2., 1.}}}
---   Tensor (1, 2, 3) float32
---@param input the columns
---@param output_size the size of the image: one number, or { height, width }
---@param kernel_size the size of a window: one number, or { height, width }
---@param dilation the distance between the elements of a window
---@param padding how many zeros stand around the image on every side
---@param stride the distance between windows
---@return Tensor
---@shape input (n, c kh kw, windows) or (c kh kw, windows) -> (n, c, h, w) or (c, h, w)
---@formula windows = windows_h windows_w
---@formula windows_d = floor((size_d + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1
function images.fold(...) return ml.col2im(read_fold(...)) end

return images
