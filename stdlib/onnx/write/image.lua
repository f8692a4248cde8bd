-- stdlib/onnx/write/image.lua: borders, resizing and shuffled pixels as ONNX nodes.

local fail = require("moonlet.options").fail

local write = {}

-- Pairs from the last dimension on, as ONNX has them: all in front, then all behind.
local function pads_of(g, pad, rank)
  local pads = {}
  for i = 1, 2 * rank do pads[i] = 0 end
  for i = 1, #pad // 2 do
    local d = rank - i + 1
    pads[d], pads[d + rank] = pad[2 * i - 1], pad[2 * i]
  end
  return g:ints(pads)
end

local MODES = { constant = "constant", reflect = "reflect", replicate = "edge" }

-- A border of what stands at the other end, by slices.
local function circular(g, name, a, call)
  local rank = #a.x.shape
  for i = 1, #a.pad // 2 do
    local before = g:int(a.pad[2 * i - 1], "pad")
    local after = g:int(a.pad[2 * i], "pad")
    if before < 0 or after < 0 then
      fail("onnx.export: pad that cuts with mode 'circular' has no translation to ONNX%s",
        call.place)
    end
    local axes = g:constant({ rank - i }, "int64")
    local parts = {}
    local function part(from, to)
      parts[#parts + 1] = g:node("Slice", { name, g:constant({ from }, "int64"),
        g:constant({ to }, "int64"), axes })
    end
    if before > 0 then part(-before, math.maxinteger) end
    parts[#parts + 1] = name
    if after > 0 then part(0, after) end
    if #parts > 1 then name = g:node("Concat", parts, { axis = rank - i }) end
  end
  return name
end

function write.pad(g, a, call)
  local dtype = call.results[1].dtype
  local x = g:operand(a.x, dtype)
  if a.mode == "circular" then return g:node("Identity", { circular(g, x, a, call) }) end
  return g:node("Pad", { x, pads_of(g, a.pad, #a.x.shape), g:operand(a.value or 0, dtype) },
    { mode = MODES[a.mode or "constant"] })
end
write.constant_pad = write.pad

local RESIZE = { nearest = { mode = "nearest", nearest_mode = "floor",
    coordinate_transformation_mode = "asymmetric" },
  ["nearest-exact"] = { mode = "nearest", nearest_mode = "round_prefer_ceil",
    coordinate_transformation_mode = "half_pixel" },
  linear = { mode = "linear" }, bilinear = { mode = "linear" }, trilinear = { mode = "linear" },
  bicubic = { mode = "cubic", cubic_coeff_a = -0.75 } }
local ANTIALIASED = { bilinear = { mode = "linear", antialias = 1, exclude_outside = 1 },
  bicubic = { mode = "cubic", cubic_coeff_a = -0.5, antialias = 1, exclude_outside = 1 } }

-- By the factors where they were given, else to a size.
local function resize_target(g, a, call)
  local rank, scales = #a.x.shape, { 1.0, 1.0 }
  local named = {}
  for _, name in ipairs { "scale_d", "scale_h", "scale_w" } do
    if a[name] then named[#named + 1] = a[name] end
  end
  if #named == rank - 2 then
    table.move(named, 1, #named, 3, scales)
    return { "", g:constant(scales, "float32") }
  end
  return { "", "", g:ints(call.results[1].shape) }
end

function write.interpolate(g, a, call)
  local known = (a.antialias and ANTIALIASED or RESIZE)[a.mode]
  if not known then
    fail("onnx.export: interpolate with mode '%s'%s has no translation to ONNX%s", a.mode,
      a.antialias and " and antialias" or "", call.place)
  end
  if a.antialias then g:needs(18, "interpolate with antialias") end
  local given = {}
  for key, value in pairs(known) do given[key] = value end
  if not given.coordinate_transformation_mode then
    given.coordinate_transformation_mode = a.align_corners and "align_corners" or "half_pixel"
  end
  local inputs = { g:operand(a.x, call.results[1].dtype) }
  table.move(resize_target(g, a, call), 1, 3, 2, inputs)
  return g:node("Resize", inputs, given)
end

-- CRD: the channels come first, then the rows and columns of each block.
function write.pixel_shuffle(g, a, call)
  local x = g:operand(a.x, call.results[1].dtype)
  local rank = #a.x.shape
  if rank ~= 4 then
    x = rank == 3 and g:unsqueeze(x, { 0 }) or fail(
      "onnx.export: pixel_shuffle of %d dimensions has no translation to ONNX%s", rank, call.place)
  end
  local y = g:node("DepthToSpace", { x }, { blocksize = a.upscale_factor, mode = "CRD" })
  return rank == 3 and g:squeeze(y, { 0 }) or y
end

function write.grid_sample(g, a, call)
  local mode = ({ bilinear = "bilinear", nearest = "nearest", bicubic = "bicubic" })[a.mode]
  local dtype = call.results[1].dtype
  if #a.x.shape == 5 then g:needs(20, "grid_sample of volumes") end
  return g:node("GridSample", { g:operand(a.x, dtype), g:operand(a.grid, dtype) },
    { mode = mode, padding_mode = a.padding_mode, align_corners = a.align_corners and 1 or 0 })
end

-- --- windows as columns -------------------------------------------------------------------------

-- (kernel, count): the places of the windows' entries along a dimension with its border.
local function window_places(g, size, kernel, dilation, padding, stride)
  local reach, inside = dilation * (kernel - 1) + 1, {}
  for i = 1, kernel do inside[i] = (i - 1) * dilation end
  local space = g:node("Add", { g:size(size), g:constant({ 2 * padding - reach }, "int64") })
  local count = g:node("Add", { g:node("Div", { space, g:constant({ stride }, "int64") }),
    g:constant({ 1 }, "int64") })
  local firsts = g:node("Mul", { g:node("Range", { g:constant(0, "int64"),
    g:squeeze(count, { 0 }), g:constant(1, "int64") }), g:constant(stride, "int64") })
  return g:node("Add", { g:unsqueeze(g:constant(inside, "int64"), { 1 }), firsts })
end

function write.im2col(g, a, call)
  local dtype, rank, shape = call.results[1].dtype, #a.x.shape, a.x.shape
  local x = g:operand(a.x, dtype)
  if rank == 3 then x = g:unsqueeze(x, { 0 }) end
  local kernel, padding = g:known(a.kernel_size, "kernel_size"), g:known(a.padding, "padding")
  local dilation, stride = g:known(a.dilation, "dilation"), g:known(a.stride, "stride")
  if padding[1] > 0 or padding[2] > 0 then
    local h, w = table.unpack(padding)
    x = g:node("Pad", { x, g:constant({ 0, 0, h, w, 0, 0, h, w }, "int64"),
      g:constant(0, dtype) }, { mode = "constant" })
  end
  for d = 1, 2 do
    local places = window_places(g, shape[rank - 2 + d], kernel[d], dilation[d], padding[d],
      stride[d])
    x = g:node("Gather", { x, places }, { axis = 2 * d })
  end
  local rows = g:int(shape[rank - 2], "the number of channels") * kernel[1] * kernel[2]
  local y = g:node("Reshape", { g:transpose(x, { 0, 1, 2, 4, 3, 5 }),
    g:constant({ 0, rows, -1 }, "int64") })
  return rank == 3 and g:squeeze(y, { 0 }) or y
end

function write.col2im(g, a, call)
  g:needs(18)
  local x = g:operand(a.x, call.results[1].dtype)
  if #a.x.shape == 2 then x = g:unsqueeze(x, { 0 }) end
  local padding = g:known(a.padding, "padding")
  local y = g:node("Col2Im", { x, g:ints(a.output_size),
    g:constant(g:known(a.kernel_size, "kernel_size"), "int64") },
    { dilations = g:known(a.dilation, "dilation"), strides = g:known(a.stride, "stride"),
      pads = { padding[1], padding[2], padding[1], padding[2] } })
  return #a.x.shape == 2 and g:squeeze(y, { 0 }) or y
end

return write
