-- stdlib/onnx/read/windows.lua: strides, dilations and borders of ONNX's convolutions and pooling.

local F = require "moonlet.nn.functional"
local common = require "moonlet.onnx.read.common"
local fail = common.fail

local windows = {}

--- A list of `count` times one value.
function windows.all(count, value)
  local out = {}
  for i = 1, count do out[i] = value end
  return out
end

--- A list with a number, at least 1, for each spatial dimension.
function windows.spatial(n, name, rank, default)
  local list = n.attributes[name]
  if not list or #list == 0 then return windows.all(rank, default) end
  if #list ~= rank then fail("'%s' has %d numbers for %d dimensions", name, #list, rank) end
  for _, item in ipairs(list) do
    if item < 1 then fail("'%s' has a %d", name, item) end
  end
  return list
end

--- What stands before and behind each dimension: two lists.
function windows.pads_of(n, x, kernel, stride, dilation)
  local rank, before, behind = #kernel, {}, {}
  local auto = n.attributes.auto_pad or "NOTSET"
  if auto == "SAME_UPPER" or auto == "SAME_LOWER" then
    for d = 1, rank do
      local size, reach = x.shape[d + 2], (kernel[d] - 1) * dilation[d] + 1
      local out = (size + stride[d] - 1) // stride[d]
      local total = math.max((out - 1) * stride[d] + reach - size, 0)
      local small = total // 2
      before[d] = auto == "SAME_UPPER" and small or total - small
      behind[d] = total - before[d]
    end
    return before, behind
  end
  local pads = auto == "NOTSET" and n.attributes.pads or windows.all(2 * rank, 0)
  if #pads ~= 2 * rank then fail("%d pads for %d dimensions", #pads, rank) end
  for d = 1, rank do before[d], behind[d] = pads[d], pads[d + rank] end
  return before, behind
end

local function same(a, b)
  for i = 1, #a do
    if a[i] ~= b[i] or a[i] < 0 then return false end
  end
  return true
end

--- The input with its border, as far as it is not the same on both sides, and what is left to pad.
function windows.padded(x, before, behind, value)
  if same(before, behind) then return x, before end
  local pad = {}
  for d = #before, 1, -1 do
    pad[#pad + 1], pad[#pad + 2] = before[d], behind[d]
  end
  return F.pad(x, pad, "constant", value or 0), windows.all(#before, 0)
end

--- The number of spatial dimensions, 1 to 3.
function windows.rank_of(x)
  local rank = x.ndim - 2
  if rank < 1 or rank > 3 then fail("an input of %d dimensions", x.ndim) end
  return rank
end

return windows
