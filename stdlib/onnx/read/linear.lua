-- stdlib/onnx/read/linear.lua: ONNX's products of matrices and convolutions.

local F = require "moonlet.nn.functional"
local common = require "moonlet.onnx.read.common"
local ml = require "moonlet"
local windows = require "moonlet.onnx.read.windows"
local fail = common.fail
local all, spatial, rank_of = windows.all, windows.spatial, windows.rank_of

local read = {}

function read.MatMul(_, a, b) return ml.matmul(a, b) end

function read.Gemm(n, a, b, c)
  local alpha, beta = n.attributes.alpha or 1.0, n.attributes.beta or 1.0
  if a.ndim ~= 2 or b.ndim ~= 2 then
    fail("matrices are expected, got %d and %d dimensions", a.ndim, b.ndim)
  end
  if n.attributes.transA == 1 then a = a:t() end
  -- The layout of nn.Linear.
  if n.attributes.transB == 1 and alpha == 1 and beta == 1 and (not c or c.ndim == 1) then
    return ml.linear(a, b, c)
  end
  if n.attributes.transB == 1 then b = b:t() end
  local y = ml.mm(a, b)
  if alpha ~= 1 then y = y * alpha end
  if not c then return y end
  return y + (beta ~= 1 and c * beta or c)
end

function read.Einsum(n, ...)
  local equation = n.attributes.equation or fail "it has no equation"
  return ml.einsum(equation:gsub("%s", ""), { ... })
end

function read.Det(_, x) return ml.linalg.det(x) end

-- --- convolutions -----------------------------------------------------------------------------

local CONV = { F.conv1d, F.conv2d, F.conv3d }

function read.Conv(n, x, weight, bias)
  local rank = rank_of(x)
  if weight.ndim ~= x.ndim then fail("a weight of %d dimensions", weight.ndim) end
  local kernel = {}
  for d = 1, rank do kernel[d] = weight.shape[d + 2] end
  local stride = spatial(n, "strides", rank, 1)
  local dilation = spatial(n, "dilations", rank, 1)
  local input, padding = windows.padded(x, windows.pads_of(n, x, kernel, stride, dilation))
  return CONV[rank](input, weight, bias, stride, padding, dilation, n.attributes.group or 1)
end

local TRANSPOSED = { F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d }

-- The sizes that SAME or output_shape want, and what is cut off at both sides for them.
local function transposed_pads(n, x, full, stride)
  local auto, shape = n.attributes.auto_pad or "NOTSET", n.attributes.output_shape
  local rank, before, behind = #full, {}, {}
  if shape and #shape == rank + 2 then shape = table.move(shape, 3, rank + 2, 1, {}) end
  if shape and #shape > 0 and #shape ~= rank then
    fail("output_shape has %d sizes, expected %d", #shape, rank)
  end
  if not shape or #shape == 0 then
    if not auto:find "^SAME" then
      local pads = auto ~= "VALID" and n.attributes.pads or all(2 * rank, 0)
      if #pads ~= 2 * rank then fail("%d pads for %d dimensions", #pads, rank) end
      return table.move(pads, 1, rank, 1, {}), table.move(pads, rank + 1, 2 * rank, 1, {})
    end
    shape = {}
    for d = 1, rank do shape[d] = x.shape[d + 2] * stride[d] end
  end
  for d = 1, rank do
    local total = full[d] - shape[d]
    local small = total // 2
    -- What is more than the whole stands behind it.
    before[d] = total < 0 and 0 or auto == "SAME_UPPER" and small or total - small
    behind[d] = total - before[d]
  end
  return before, behind
end

function read.ConvTranspose(n, x, weight, bias)
  local rank = rank_of(x)
  if weight.ndim ~= x.ndim then fail("a weight of %d dimensions", weight.ndim) end
  local stride = spatial(n, "strides", rank, 1)
  local dilation = spatial(n, "dilations", rank, 1)
  local extra = n.attributes.output_padding or all(rank, 0)
  if #extra ~= rank then fail("output_padding has %d numbers, expected %d", #extra, rank) end
  local full = {}
  for d = 1, rank do
    local reach = (weight.shape[d + 2] - 1) * dilation[d] + 1
    full[d] = stride[d] * (x.shape[d + 2] - 1) + reach + extra[d]
  end
  local before, behind = transposed_pads(n, x, full, stride)
  local groups, plain = n.attributes.group or 1, true
  for d = 1, rank do
    plain = plain and before[d] == behind[d] and before[d] >= 0
      and extra[d] < math.max(stride[d], dilation[d])
  end
  if plain then
    return TRANSPOSED[rank](x, weight, bias, stride, before, extra, groups, dilation)
  end
  -- The whole, cut: what lies outside of it is zero, and has the bias too.
  local none, cut = all(rank, 0), {}
  local y = TRANSPOSED[rank](x, weight, nil, stride, none, none, groups, dilation)
  for d = rank, 1, -1 do cut[#cut + 1], cut[#cut + 2] = -before[d], extra[d] - behind[d] end
  y = F.pad(y, cut)
  return bias and y + bias:reshape(-1, table.unpack(all(rank, 1))) or y
end

return read
