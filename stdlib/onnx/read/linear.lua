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
    fail("matrices are wanted, got %d and %d dimensions", a.ndim, b.ndim)
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

function read.ConvTranspose(n, x, weight, bias)
  local rank = rank_of(x)
  if n.attributes.output_shape or (n.attributes.auto_pad or "NOTSET"):find "^SAME" then
    fail "output_shape and auto_pad are not read"
  end
  local stride = spatial(n, "strides", rank, 1)
  local dilation = spatial(n, "dilations", rank, 1)
  local pads = n.attributes.pads or all(2 * rank, 0)
  local extra = n.attributes.output_padding or all(rank, 0)
  if #pads ~= 2 * rank or #extra ~= rank then fail("%d pads for %d dimensions", #pads, rank) end
  local padding = {}
  for d = 1, rank do
    if pads[d] ~= pads[d + rank] then fail "pads that differ between the sides are not read" end
    padding[d] = pads[d]
  end
  local groups = n.attributes.group or 1
  return TRANSPOSED[rank](x, weight, bias, stride, padding, extra, groups, dilation)
end

return read
