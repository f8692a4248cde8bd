-- stdlib/onnx/read/resize.lua: ONNX's resizing, one dimension after another.

local common = require "moonlet.onnx.read.common"
local ml = require "moonlet"
local fail, single = common.fail, common.single

local read = {}

-- A number in a table, and in the tensor that is made of it.
local LIST_BYTES = 48
-- Neighbours that are added one by one; more are a product with a matrix.
local FEW = 16

-- --- places -----------------------------------------------------------------------------------

-- Where a new place lies among the old ones, both from 0. `r` has the sizes, the scale, and for
-- tf_crop_and_resize the part that is shown.
local COORDINATES = {
  half_pixel = function(i, r) return single((i + 0.5) / r.scale) - 0.5 end,
  half_pixel_symmetric = function(i, r)
    local share = single(r.to / single(r.scale * r.from))
    return single(single(r.from / 2 * single(1 - share)) + single((i + 0.5) / r.scale)) - 0.5
  end,
  pytorch_half_pixel = function(i, r)
    return r.to > 1 and single((i + 0.5) / r.scale) - 0.5 or 0
  end,
  asymmetric = function(i, r) return i / r.scale end,
  align_corners = function(i, r) return r.to > 1 and i * (r.from - 1) / (r.to - 1) or 0 end,
  tf_crop_and_resize = function(i, r)
    local last = r.from - 1
    if r.to == 1 then return 0.5 * (r.first + r.last) * last end
    return r.first * last + i * (r.last - r.first) * last / (r.to - 1)
  end,
  tf_half_pixel_for_nn = function(i, r) return (i + 0.5) / r.scale end,
}

local ROUND = {
  floor = function() return math.floor end,
  ceil = function() return math.ceil end,
  round_prefer_floor = function() return function(x) return math.ceil(x - 0.5) end end,
  round_prefer_ceil = function() return function(x) return math.floor(x + 0.5) end end,
  -- That of opset 10 and below.
  simple = function(r) return r.scale < 1 and math.ceil or math.floor end,
}

-- The weight of a neighbour at a distance (Keys, 1981).
local function cubic(d, a)
  d = math.abs(d)
  if d <= 1 then return ((a + 2) * d - (a + 3)) * d * d + 1 end
  if d < 2 then return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a end
  return 0
end

-- The old places that a new one is made of, from the first on, and their weights. Antialiasing
-- spreads the filter over all that one new place covers.
local function neighbours(o, r, at)
  local wide = o.mode == "cubic" and 2 or 1
  local scale = o.antialias and math.min(r.scale, 1) or 1
  local start = math.floor(-wide / scale) + 1
  local base, weights, sum = math.floor(at), {}, 0
  local t = at - base
  for k = start, 1 - start do
    local d = (k - t) * scale
    local weight = o.mode == "cubic" and cubic(d, o.coefficient) or math.max(1 - math.abs(d), 0)
    local place = base + k
    if o.exclude and (place < 0 or place >= r.from) then weight = 0 end
    weights[#weights + 1], sum = weight, sum + weight
  end
  if (o.antialias or o.exclude) and sum ~= 0 then
    for k, weight in ipairs(weights) do weights[k] = weight / sum end
  end
  return base + start, weights
end

-- For each neighbour the list of places, from 1, and that of weights.
local function table_of(n, o, r)
  local places, weights = {}, {}
  for i = 0, r.to - 1 do
    local at = single(r.coordinate(i, r))
    if at ~= at or math.abs(at) >= 1 << 40 then fail("a place of %s", tostring(at)) end
    local first, list
    if o.mode == "nearest" then
      first, list = math.floor(o.round(r)(at)), { 1 }
    else
      first, list = neighbours(o, r, at)
    end
    if i == 0 then common.check_room(n, r.to * #list, 2 * LIST_BYTES) end
    for k, weight in ipairs(list) do
      places[k], weights[k] = places[k] or {}, weights[k] or {}
      places[k][i + 1] = math.min(math.max(first + k - 1, 0), r.from - 1) + 1
      weights[k][i + 1] = weight + 0.0
    end
  end
  return places, weights
end

local function matrix_of(n, r, places, weights, x)
  common.check_room(n, r.from * r.to, LIST_BYTES)
  local rows = {}
  for i = 1, r.to do
    local row = {}
    for k = 1, r.from do row[k] = 0.0 end
    for k, list in ipairs(places) do row[list[i]] = row[list[i]] + weights[k][i] end
    rows[i] = row
  end
  return ml.tensor(rows, { dtype = x.dtype, device = x.device })
end

local function resized(n, o, r, x)
  local places, weights = table_of(n, o, r)
  if #places > FEW then
    local matrix = matrix_of(n, r, places, weights, x)
    return ml.matmul(x:transpose(r.dim, -1), matrix:t()):transpose(r.dim, -1)
  end
  local y
  for k, list in ipairs(places) do
    local part = x:index_select(r.dim, ml.tensor(list, { dtype = ml.int64, device = x.device }))
    if o.mode ~= "nearest" then
      local shape = {}
      for d = 1, x.ndim do shape[d] = d == r.dim and r.to or 1 end
      part = part * ml.tensor(weights[k], { dtype = x.dtype, device = x.device }):reshape(shape)
    end
    y = y and y + part or part
  end
  return y
end

-- What lies outside of the old tensor along one dimension.
local function outside(r, x)
  local list, shape = {}, {}
  for i = 0, r.to - 1 do
    local at = single(r.coordinate(i, r))
    list[i + 1] = at < 0 or at > r.from - 1
  end
  for d = 1, x.ndim do shape[d] = d == r.dim and r.to or 1 end
  return ml.tensor(list, { device = x.device }):reshape(shape)
end

-- --- sizes ------------------------------------------------------------------------------------

local function check_count(what, count, dims)
  if count ~= #dims then fail("%s for %d of %d dimensions", what, count, #dims) end
end

local POLICIES = { stretch = true, not_larger = math.min, not_smaller = math.max }

-- The new size and the scale of each of `dims`.
local function by_sizes(n, x, dims, sizes)
  local list, new, by = common.integers(sizes, "sizes"), {}, {}
  check_count("sizes", #list, dims)
  local name = n.attributes.keep_aspect_ratio_policy or "stretch"
  local pick = POLICIES[name] or fail("the keep_aspect_ratio_policy '%s'", name)
  local one
  for i, d in ipairs(dims) do
    local scale = single(list[i] / math.max(x.shape[d], 1))
    one = one and pick ~= true and pick(one, scale) or one or scale
    new[i], by[i] = list[i], scale
  end
  for i, d in ipairs(pick ~= true and dims or {}) do
    new[i], by[i] = math.floor(one * x.shape[d] + 0.5), one
  end
  return new, by
end

local function by_scales(x, dims, scales)
  if not scales:is_floating_point() then fail("scales are of %s, expected floats", scales.dtype) end
  check_count("scales", scales:numel(), dims)
  local new, by = {}, scales:flatten():tolist()
  for i, d in ipairs(dims) do
    local size = single(x.shape[d] * by[i])
    if not (by[i] > 0 and size < 1 << 31) then fail("a scale of %s", tostring(by[i])) end
    new[i] = math.floor(size)
  end
  return new, by
end

local function part_of(region, dims, i)
  if not region or region:numel() ~= 2 * #dims or not region:is_floating_point() then
    fail("the region has %d numbers, expected %d", region and region:numel() or 0, 2 * #dims)
  end
  local list = region:flatten():tolist()
  return list[i], list[i + #dims]
end

-- --- the ops ----------------------------------------------------------------------------------

local function options_of(n)
  local a = n.attributes
  local o = { mode = a.mode or "nearest", antialias = a.antialias == 1,
    exclude = a.exclude_outside == 1, coefficient = a.cubic_coeff_a or -0.75 }
  o.mode = ({ bilinear = "linear", trilinear = "linear", bicubic = "cubic" })[o.mode] or o.mode
  if o.mode ~= "nearest" and o.mode ~= "linear" and o.mode ~= "cubic" then
    fail("the mode '%s', expected nearest, linear or cubic", o.mode)
  end
  local round = a.nearest_mode or n.version < 11 and "simple" or "round_prefer_floor"
  o.round = ROUND[round] or fail("the nearest_mode '%s'", round)
  o.name = a.coordinate_transformation_mode or n.version < 11 and "asymmetric" or "half_pixel"
  o.coordinate = COORDINATES[o.name] or fail("the coordinate_transformation_mode '%s'", o.name)
  return o
end

-- The inputs are x and scales before opset 11, then x, a region, scales and sizes.
function read.Resize(n, x, region, scales, sizes)
  if n.version < 11 then scales, sizes, region = region, nil, nil end
  local o, dims = options_of(n), common.dims(n.attributes.axes, x.ndim)
  local new, by
  if sizes and sizes:numel() > 0 then
    new, by = by_sizes(n, x, dims, sizes)
  elseif scales then
    new, by = by_scales(x, dims, scales)
  else
    fail "it has neither scales nor sizes"
  end
  local dtype, hidden, total = x.dtype, nil, x:numel()
  for i, d in ipairs(dims) do
    total = total / math.max(x.shape[d], 1) * new[i]
    common.check_room(n, total, 4)
  end
  if o.mode ~= "nearest" and dtype ~= "float32" and dtype ~= "float64" then x = x:float() end
  for i, d in ipairs(dims) do
    local r = { dim = d, from = x.shape[d], to = new[i], scale = by[i], coordinate = o.coordinate }
    if r.to < 1 or r.to > 1 << 31 or r.from < 1 then
      fail("from %d to %d elements", r.from, r.to)
    end
    local crop = o.name == "tf_crop_and_resize"
    if crop then r.first, r.last = part_of(region, dims, i) end
    if r.to ~= r.from or r.scale ~= 1 or crop then
      if crop then
        local out = outside(r, x)
        hidden = hidden and hidden:logical_or(out) or out
      end
      x = resized(n, o, r, x)
    end
  end
  if hidden then x = x:masked_fill(hidden, n.attributes.extrapolation_value or 0.0) end
  return x:to(dtype)
end

function read.Upsample(n, x, scales)
  local given = scales or ml.tensor(n.attributes.scales or fail "it has no scales")
  local node = { attributes = { mode = n.attributes.mode }, version = 10, limit = n.limit }
  return read.Resize(node, x, given)
end

return read
