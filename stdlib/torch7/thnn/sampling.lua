-- stdlib/torch7/thnn/sampling.lua: THNN's padding with what is inside, and its enlarging of images
-- and
-- volumes.

local base = require "moonlet.torch7.thnn.base"
local ml = require "moonlet"

local M, I, give, list, sizes = base.M, base.I, base.give, base.list, base.sizes

local out = {}

-- --- padding -------------------------------------------------------------------------------------

-- The position inside 1 to `size` that each position of the padded dimension shows.
local function replicated(at, size) return math.max(1, math.min(size, at)) end
local function reflected(at, size)
  if at < 1 then at = 2 - at end
  if at > size then at = 2 * size - at end
  return at
end

local function shown(rule, name, size, before, after)
  if rule == reflected and (before >= size or after >= size) then
    base.fail("%s: padding less than the size %d is expected, got %d and %d", name, size, before,
      after)
  end
  local at = {}
  for i = 1 - before, size + after do at[#at + 1] = rule(i, size) end
  if #at < 1 then base.fail("%s: nothing is left of a size of %d", name, size) end
  return ml.tensor(at, { dtype = "int64" })
end

-- pads: the amounts before and after of the last dimension, then of the one before, ...
local function define(name, rule, spatial)
  local function check(input)
    local dims = M.dim(input)
    if dims ~= spatial + 1 and dims ~= spatial + 2 then
      base.fail("%s: a tensor of %d or %d dimensions is expected, got %d", name, spatial + 1,
        spatial + 2, dims)
    end
    return dims
  end
  out[name .. "_updateOutput"] = function(input, output, ...)
    local pads, dims, y = list(...), check(input), input
    for i = 1, spatial do
      local dim = dims - i + 1
      local at = shown(rule, name, M.size(input, dim), pads[2 * i - 1], pads[2 * i])
      y = M.index_select(y, dim, at)
    end
    return give(output, y)
  end
  out[name .. "_updateGradInput"] = function(input, gradOutput, gradInput, ...)
    local pads, dims, g = list(...), check(input), gradOutput
    for i = 1, spatial do
      local dim = dims - i + 1
      local shape = sizes(g)
      shape[dim] = M.size(input, dim)
      local at = shown(rule, name, shape[dim], pads[2 * i - 1], pads[2 * i])
      g = M.index_add_(base.zeros(input, shape), dim, at, g)
    end
    return give(gradInput, g)
  end
end

define("SpatialReflectionPadding", reflected, 2)
define("SpatialReplicationPadding", replicated, 2)
define("VolumetricReplicationPadding", replicated, 3)

-- --- the nearest -------------------------------------------------------------------------------

-- x with a dimension of `count` behind each of the last `spatial` ones.
local function split(x, spatial, count)
  local shape = sizes(x)
  local rank = #shape
  local parts = { table.unpack(shape, 1, rank - spatial) }
  for i = rank - spatial + 1, rank do
    parts[#parts + 1] = shape[i] // count
    parts[#parts + 1] = count
  end
  return M.reshape(x, parts)
end

local function define_nearest(name, spatial)
  out[name .. "_updateOutput"] = function(input, output, scale)
    if base.whole(scale) == 1 then return give(output, M.clone(input)) end
    local x, added = base.batch(input, spatial + 2, name)
    local shape = { table.unpack(sizes(x), 3) }
    for i = 1, spatial do shape[i] = shape[i] * base.whole(scale) end
    return base.unbatch(output, M.interpolate(x, shape, "nearest"), added)
  end
  out[name .. "_updateGradInput"] = function(_, gradOutput, gradInput, scale)
    local g = split(gradOutput, spatial, base.whole(scale))
    local dims = {}
    for i = 0, spatial - 1 do dims[#dims + 1] = M.dim(g) - 2 * i end
    return give(gradInput, M.sum(g, dims))
  end
end

define_nearest("SpatialUpSamplingNearest", 2)
define_nearest("VolumetricUpSamplingNearest", 3)

-- --- linear --------------------------------------------------------------------------------------

-- Corners are aligned.
local function enlarged(x, shape, first)
  local step = sizes(x)
  for i = 1, #shape do
    step[first + i] = shape[i]
    x = I.resample(x, step, first + i, "linear", true)
  end
  return x
end

local function reduced(g, shape, first)
  local step = sizes(g)
  for i = #shape, 1, -1 do
    step[first + i] = shape[i]
    g = I.resample_grad_x(g, step, first + i, "linear", true)
  end
  return g
end

out.SpatialUpSamplingBilinear_updateOutput = function(input, output, height, width)
  local x, added = base.batch(input, 4, "SpatialUpSamplingBilinear")
  return base.unbatch(output, enlarged(x, list(height, width), 2), added)
end

out.SpatialUpSamplingBilinear_updateGradInput = function(gradOutput, gradInput, _, _, height, width)
  local g, added = base.batch(gradOutput, 4, "SpatialUpSamplingBilinear")
  return base.unbatch(gradInput, reduced(g, list(height, width), 2), added)
end

out.VolumetricUpSamplingTrilinear_updateOutput = function(input, output, depth, height, width)
  local x, added = base.batch(input, 5, "VolumetricUpSamplingTrilinear")
  return base.unbatch(output, enlarged(x, list(depth, height, width), 2), added)
end

out.VolumetricUpSamplingTrilinear_updateGradInput = function(gradOutput, gradInput, _, _, depth,
    height, width)
  local g, added = base.batch(gradOutput, 5, "VolumetricUpSamplingTrilinear")
  return base.unbatch(gradInput, reduced(g, list(depth, height, width), 2), added)
end

return out
