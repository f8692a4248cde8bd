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

--- `input` (n, c, l), (n, c, h, w) or (n, c, d, h, w) resized to `size`, or by `scale_factor`.
--- `mode` is "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "lanczos" or
--- "area". With `align_corners` the centres of the corner elements stay where they are. With
--- `recompute_scale_factor` the factor is that of the sizes. `antialias` widens the filter of
--- "bilinear", "bicubic" and "lanczos" where the image shrinks.
---@return Tensor
function images.interpolate(...)
  return interpolate("interpolate", read_interpolate(...))
end

local read_upsample = declare.reader("upsample" .. SIZES
  .. ', string mode="nearest", bool? align_corners=nil)')

--- `interpolate` under its older name.
---@return Tensor
function images.upsample(...)
  local input, size, factor, mode, align_corners = read_upsample(...)
  return interpolate("upsample", input, size, factor, mode, align_corners, nil, false)
end

local read_nearest = declare.reader("upsample_nearest" .. SIZES .. ")")

--- `interpolate` with mode "nearest".
---@return Tensor
function images.upsample_nearest(...)
  local input, size, factor = read_nearest(...)
  return interpolate("upsample_nearest", input, size, factor, "nearest", nil, nil, false)
end

local read_bilinear = declare.reader("upsample_bilinear" .. SIZES .. ")")

--- `interpolate` with mode "bilinear" and aligned corners.
---@return Tensor
function images.upsample_bilinear(...)
  local input, size, factor = read_bilinear(...)
  return interpolate("upsample_bilinear", input, size, factor, "bilinear", true, nil, false)
end

--- `input` (n, c, h, w) or (n, c, d, h, w) at the positions that `grid` names, from -1 to 1, the
--- width first. `mode` is "bilinear", "nearest" or "bicubic", `padding_mode` "zeros", "border" or
--- "reflection".
images.grid_sample = declare.op('grid_sample(Tensor input, Tensor grid, string mode="bilinear", '
  .. 'string padding_mode="zeros", bool align_corners=false)')
--- The grid with which `grid_sample` maps images of sizes `size` by the matrices `theta`.
images.affine_grid = declare.op(
  "affine_grid(Tensor theta, int[]>=1 size, bool align_corners=false)")

--- `input` (..., c r^2, h, w) as (..., c, h r, w r) for `r = upscale_factor`.
images.pixel_shuffle = declare.op "pixel_shuffle(Tensor input, int>=1 upscale_factor)"
--- What undoes `pixel_shuffle`.
images.pixel_unshuffle = declare.op "pixel_unshuffle(Tensor input, int>=1 downscale_factor)"
--- `input` (n, c, ...) with the channels of `groups` groups taken in turn.
images.channel_shuffle = declare.op "channel_shuffle(Tensor input, int>=1 groups)"
--- `channel_shuffle` under its other name.
images.native_channel_shuffle = declare.op "native_channel_shuffle(Tensor input, int>=1 groups)"

local WINDOWS = "int[2]>=1 kernel_size, int[2]>=1 dilation=1, int[2]>=0 padding=0, "
  .. "int[2]>=1 stride=1)"
local read_unfold = declare.reader("unfold(Tensor input, " .. WINDOWS)

--- The windows of images (n, c, h, w), or (c, h, w), as columns: (n, c * kh * kw, windows).
---@return Tensor
function images.unfold(...) return ml.im2col(read_unfold(...)) end

local read_fold = declare.reader("fold(Tensor input, int[2]>=1 output_size, " .. WINDOWS)

--- Images of `output_size` to which columns (n, c * kh * kw, windows) are added, each to its
--- window.
---@return Tensor
function images.fold(...) return ml.col2im(read_fold(...)) end

return images
