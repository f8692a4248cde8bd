-- stdlib/onnx/read/detection.lua: ONNX's ops of detectors: boxes that overlap, and regions of
-- pictures in one size.

local common = require "moonlet.onnx.read.common"
local ml = require "moonlet"
local fail = common.fail

local read = {}

-- A number in a list of Lua.
local LIST_BYTES = 16

local function numbers_of(n, tensor)
  common.check_room(n, tensor:numel(), LIST_BYTES)
  return tensor:detach():double():flatten():tolist()
end

-- --- boxes ------------------------------------------------------------------------------------

-- Corners and areas of boxes: corners in any order, or with `center` a center and sizes.
local function boxes_of(n, boxes, center)
  local list, out = numbers_of(n, boxes), {}
  for i = 1, #list, 4 do
    local a, b, c, d = list[i], list[i + 1], list[i + 2], list[i + 3]
    if center then a, b, c, d = b - d / 2, a - c / 2, b + d / 2, a + c / 2 end
    local box = { math.min(a, c), math.min(b, d), math.max(a, c), math.max(b, d) }
    box[5] = (box[3] - box[1]) * (box[4] - box[2])
    out[#out + 1] = box
  end
  return out
end

local function overlaps(a, b, threshold)
  local height = math.min(a[3], b[3]) - math.max(a[1], b[1])
  local width = math.min(a[4], b[4]) - math.max(a[2], b[2])
  if height <= 0 or width <= 0 or a[5] <= 0 or b[5] <= 0 then return false end
  local both = height * width
  return both / (a[5] + b[5] - both) > threshold
end

-- The boxes of one class that stay, the best first; of equal scores the first box is the better.
local function kept_boxes(boxes, scores, limit)
  local order, out = {}, {}
  for i, score in ipairs(scores) do
    if not limit.score or score > limit.score then order[#order + 1] = i end
  end
  table.sort(order, function(a, b)
    if scores[a] ~= scores[b] then return scores[a] > scores[b] end
    return a < b
  end)
  for _, i in ipairs(order) do
    if #out >= limit.count then break end
    local alone = true
    for _, other in ipairs(out) do
      if overlaps(boxes[i], boxes[other], limit.overlap) then
        alone = false
        break
      end
    end
    if alone then out[#out + 1] = i end
  end
  return out
end

function read.NonMaxSuppression(n, boxes, scores, count, overlap, score)
  if boxes.ndim ~= 3 or scores.ndim ~= 3 or boxes.shape[3] ~= 4
      or boxes.shape[1] ~= scores.shape[1] or boxes.shape[2] ~= scores.shape[3] then
    fail("boxes of the shape %s and scores of the shape %s, expected (batch, boxes, 4) and "
      .. "(batch, classes, boxes)", tostring(boxes.shape), tostring(scores.shape))
  end
  local limit = { count = count and common.number(count, "max_output_boxes_per_class") or 0,
    overlap = overlap and common.number(overlap, "iou_threshold") or 0,
    score = score and common.number(score, "score_threshold") }
  local out = {}
  for batch = 1, limit.count > 0 and boxes.shape[1] or 0 do
    local places = boxes_of(n, boxes[batch], n.attributes.center_point_box == 1)
    for class = 1, scores.shape[2] do
      for _, i in ipairs(kept_boxes(places, numbers_of(n, scores[batch][class]), limit)) do
        out[#out + 1] = { batch - 1, class - 1, i - 1 }
      end
    end
  end
  if #out == 0 then return ml.empty({ 0, 3 }, { dtype = ml.int64, device = boxes.device }) end
  return ml.tensor(out, { dtype = ml.int64, device = boxes.device })
end

-- What a sample takes, with what is made of it.
local SAMPLE_BYTES = 1024
-- Samples of one region that are taken from pixels one by one; more are a product of matrices.
local FEW = 512

-- --- regions ----------------------------------------------------------------------------------

local function check_regions(x, rois, batches, columns)
  if x.ndim ~= 4 or rois.ndim ~= 2 or rois.shape[2] ~= columns
      or batches and batches:numel() ~= rois.shape[1] then
    fail("an input of the shape %s and regions of the shape %s", tostring(x.shape),
      tostring(rois.shape))
  end
end

local function picture(x, batch)
  batch = math.tointeger(batch)
  if not batch or batch < 0 or batch >= x.shape[1] then
    fail("a region of picture %s, there are %d (from 0)", tostring(batch), x.shape[1])
  end
  return x[batch + 1]
end

-- Samples of one side of a region: for each the two neighbours, from 1, and their weights. What is
-- more than one place outside has none.
local function samples_of(n, size, start, bin, bins, grid)
  local out = {}
  common.check_room(n, bins * grid, SAMPLE_BYTES)
  for i = 0, bins - 1 do
    for k = 0, grid - 1 do
      local at = start + i * bin + (k + 0.5) * bin / grid
      local sample = { 1, 1, 0, 0 }
      if at >= -1 and at <= size then
        at = math.max(at, 0)
        local low = math.floor(at)
        if low >= size - 1 then
          sample = { size, size, 1, 0 }
        else
          sample = { low + 1, low + 2, 1 - (at - low), at - low }
        end
      end
      out[#out + 1] = sample
    end
  end
  return out
end

-- The means of the samples as a matrix (bins, places), of the places that they are of: the first
-- and how many.
local function mean_matrix(n, samples, bins, grid, x)
  local first, last = math.huge, 1
  for _, s in ipairs(samples) do first, last = math.min(first, s[1]), math.max(last, s[2]) end
  local size, rows = last - first + 1, {}
  common.check_room(n, bins * size, LIST_BYTES)
  for i = 1, bins do
    local row = {}
    for k = 1, size do row[k] = 0.0 end
    for k = 1, grid do
      local s = samples[(i - 1) * grid + k]
      local low, high = s[1] - first + 1, s[2] - first + 1
      row[low] = row[low] + s[3] / grid
      row[high] = row[high] + s[4] / grid
    end
    rows[i] = row
  end
  return ml.tensor(rows, { dtype = x.dtype, device = x.device }), first, size
end

-- The means of few samples, each of four pixels: `flat` has a row of channels for each pixel.
local function gathered(flat, width, down, across, bins, grids)
  local places, weights = {}, {}
  local count = grids[1] * grids[2]
  for i = 0, bins[1] - 1 do
    for k = 0, bins[2] - 1 do
      for a = i * grids[1] + 1, (i + 1) * grids[1] do
        for b = k * grids[2] + 1, (k + 1) * grids[2] do
          local s, t = down[a], across[b]
          for p = 1, 2 do
            for q = 1, 2 do
              places[#places + 1] = (s[p] - 1) * width + t[q]
              weights[#weights + 1] = s[p + 2] * t[q + 2] / count
            end
          end
        end
      end
    end
  end
  local rows = flat:index_select(1, ml.tensor(places, { dtype = ml.int64, device = flat.device }))
  local by = ml.tensor(weights, { dtype = flat.dtype, device = flat.device })
  return ml.matmul(by:reshape(-1, 1, 4 * count), rows:reshape(-1, 4 * count, flat.shape[2]))
    :reshape(bins[1], bins[2], flat.shape[2]):permute(3, 1, 2)
end

local function column(samples, k, dtype, device)
  local out = {}
  for i, sample in ipairs(samples) do out[i] = sample[k] end
  return ml.tensor(out, { dtype = dtype, device = device })
end

-- The greatest of all neighbours times their weights: that is how the op is defined.
local function greatest(x, down, across, bins, grids)
  local best
  for i = 1, 2 do
    local rows = x:index_select(2, column(down, i, "int64", x.device))
    local by_row = column(down, i + 2, x.dtype, x.device):unsqueeze(2)
    for k = 1, 2 do
      local part = rows:index_select(3, column(across, k, "int64", x.device))
        * (by_row * column(across, k + 2, x.dtype, x.device))
      best = best and ml.maximum(best, part) or part
    end
  end
  return best:reshape(x.shape[1], bins[1], grids[1], bins[2], grids[2]):amax { 3, 5 }
end

local function aligned(n, x, flat, box, o)
  local start, bin, grid = {}, {}, {}
  for d = 1, 2 do
    local from, to = box[3 - d] * o.scale - o.offset, box[5 - d] * o.scale - o.offset
    local size = to - from
    if o.offset == 0 then size = math.max(size, 1) end
    start[d], bin[d] = from, size / o.bins[d]
    grid[d] = o.ratio > 0 and o.ratio or math.ceil(size / o.bins[d])
    common.check_room(n, grid[d], LIST_BYTES)
    if grid[d] <= 0 then
      return ml.zeros({ x.shape[1], o.bins[1], o.bins[2] }, { dtype = x.dtype, device = x.device })
    end
  end
  local down = samples_of(n, x.shape[2], start[1], bin[1], o.bins[1], grid[1])
  local across = samples_of(n, x.shape[3], start[2], bin[2], o.bins[2], grid[2])
  if o.mode == "max" then
    common.check_room(n, #down * #across * x.shape[1], 4)
    return greatest(x, down, across, o.bins, grid)
  end
  if #down * #across < FEW then
    return gathered(flat(), x.shape[3], down, across, o.bins, grid)
  end
  local left, top, rows = mean_matrix(n, down, o.bins[1], grid[1], x)
  local right, edge, columns = mean_matrix(n, across, o.bins[2], grid[2], x)
  local part = x:narrow(2, top, rows):narrow(3, edge, columns)
  return ml.matmul(ml.matmul(left, part), right:t())
end

local function stacked(out, x, height, width)
  if #out == 0 then
    return ml.zeros({ 0, x.shape[2], height, width }, { dtype = x.dtype, device = x.device })
  end
  return ml.stack(out, 1)
end

function read.RoiAlign(n, x, rois, batches)
  check_regions(x, rois, batches, 4)
  local a = n.attributes
  local mode = a.coordinate_transformation_mode
    or n.version < 16 and "output_half_pixel" or "half_pixel"
  if mode ~= "half_pixel" and mode ~= "output_half_pixel" then
    fail("the coordinate_transformation_mode '%s'", mode)
  end
  local o = { bins = { a.output_height or 1, a.output_width or 1 }, ratio = a.sampling_ratio or 0,
    scale = a.spatial_scale or 1.0, offset = mode == "half_pixel" and 0.5 or 0,
    mode = a.mode or "avg" }
  if o.mode ~= "avg" and o.mode ~= "max" then fail("the mode '%s'", o.mode) end
  if o.bins[1] < 1 or o.bins[2] < 1 or x:numel() == 0 then
    fail("%d x %d bins of an input of the shape %s", o.bins[1], o.bins[2], tostring(x.shape))
  end
  local boxes, places, out, rows = numbers_of(n, rois), numbers_of(n, batches), {}, {}
  for i, place in ipairs(places) do
    local box = table.move(boxes, 4 * i - 3, 4 * i, 1, {})
    local function flat()
      rows[place] = rows[place] or picture(x, place):flatten(2):t():contiguous()
      return rows[place]
    end
    out[i] = aligned(n, picture(x, place), flat, box, o)
  end
  return stacked(out, x, o.bins[1], o.bins[2])
end

local function round(x)
  local size = math.floor(math.abs(common.single(x)) + 0.5)
  return x < 0 and -size or size
end

-- Bins from and until whole places; those that are empty give 0.
local function pooled_region(x, box, bins, scale)
  local start, size, rows = {}, {}, {}
  for d = 1, 2 do
    local from, to = round(box[3 - d] * scale), round(box[5 - d] * scale)
    start[d], size[d] = from, math.max(to - from + 1, 1)
  end
  local function range(d, i)
    local bin = size[d] / bins[d]
    local from = math.floor((i - 1) * bin) + start[d]
    local to = math.ceil(i * bin) + start[d]
    local whole = x.shape[d + 1]
    from, to = math.min(math.max(from, 0), whole), math.min(math.max(to, 0), whole)
    return math.tointeger(from), math.tointeger(to)
  end
  for i = 1, bins[1] do
    local row, top, bottom = {}, range(1, i)
    for k = 1, bins[2] do
      local left, right = range(2, k)
      if bottom <= top or right <= left then
        row[k] = ml.zeros(x.shape[1], { dtype = x.dtype, device = x.device })
      else
        row[k] = x:narrow(2, top + 1, bottom - top):narrow(3, left + 1, right - left):amax { 2, 3 }
      end
    end
    rows[i] = ml.stack(row, 2)
  end
  return ml.stack(rows, 2)
end

function read.MaxRoiPool(n, x, rois)
  check_regions(x, rois, nil, 5)
  local bins = n.attributes.pooled_shape or fail "it has no pooled_shape"
  if #bins ~= 2 or bins[1] < 1 or bins[2] < 1 then fail "pooled_shape must be two sizes" end
  common.check_room(n, bins[1] * bins[2], 100)
  local list, out = numbers_of(n, rois), {}
  for i = 1, #list, 5 do
    local box = table.move(list, i + 1, i + 4, 1, {})
    local scale = n.attributes.spatial_scale or 1.0
    for _, at in ipairs(box) do
      at = at * scale
      if at ~= at or math.abs(at) >= 1 << 31 then fail("a region at %s", tostring(at)) end
    end
    out[#out + 1] = pooled_region(picture(x, list[i]), box, bins, scale)
  end
  return stacked(out, x, bins[1], bins[2])
end

-- --- onnxruntime's crops ----------------------------------------------------------------------

-- The place of each of `count` samples between two parts of a side, from 0.
local function crop_places(from, to, count, size)
  local out = {}
  for i = 0, count - 1 do
    out[i + 1] = count > 1 and from * (size - 1) + i * (to - from) * (size - 1) / (count - 1)
      or 0.5 * (from + to) * (size - 1)
  end
  return out
end

-- A matrix (count, size) of weights, and which samples lie inside.
local function crop_matrix(places, size, nearest, x)
  local rows, inside = {}, {}
  for i, at in ipairs(places) do
    local row = {}
    for k = 1, size do row[k] = 0.0 end
    inside[i] = at >= 0 and at <= size - 1
    if inside[i] then
      local low = nearest and math.floor(at + 0.5) or math.floor(at)
      local rest = nearest and 0 or at - low
      row[low + 1] = row[low + 1] + 1 - rest
      if rest > 0 then row[low + 2] = rest end
    end
    rows[i] = row
  end
  return ml.tensor(rows, { dtype = x.dtype, device = x.device }),
    ml.tensor(inside, { device = x.device })
end

function read._crop_and_resize(n, x, rois, batches, sizes)
  check_regions(x, rois, batches, 4)
  local size, mode = common.integers(sizes, "crop_size"), n.attributes.mode or "bilinear"
  if #size ~= 2 or size[1] < 1 or size[2] < 1 then fail "crop_size must be two sizes" end
  if mode ~= "bilinear" and mode ~= "nearest" then fail("the mode '%s'", mode) end
  common.check_room(n, size[1] * x.shape[3] + size[2] * x.shape[4], LIST_BYTES)
  local boxes, places, out = numbers_of(n, rois), numbers_of(n, batches), {}
  for i, place in ipairs(places) do
    local top, left, bottom, right = table.unpack(boxes, 4 * i - 3, 4 * i)
    local a, rows = crop_matrix(crop_places(top, bottom, size[1], x.shape[3]), x.shape[3],
      mode == "nearest", x)
    local b, columns = crop_matrix(crop_places(left, right, size[2], x.shape[4]), x.shape[4],
      mode == "nearest", x)
    local inside = rows:unsqueeze(2):logical_and(columns)
    out[i] = ml.where(inside, ml.matmul(ml.matmul(a, picture(x, place)), b:t()),
      n.attributes.extrapolation_value or 0.0)
  end
  return stacked(out, x, size[1], size[2])
end

return read
