-- stdlib/onnx/write/conv.lua: convolutions as ONNX nodes.

local ml = require "moonlet"

local write = {}

-- What is not in a batch gets one of size 1 for the node.
local function batched(g, a, rank, call, make)
  local x = g:operand(a.x, call.results[1].dtype)
  if #a.x.shape == rank + 2 then return make(x) end
  return g:squeeze(make(g:unsqueeze(x, { 0 })), { 0 })
end

local function inputs_of(g, a, x, call)
  local dtype = call.results[1].dtype
  local inputs = { x, g:operand(a.weight, dtype) }
  if a.bias then inputs[3] = g:operand(a.bias, dtype) end
  return inputs
end

local function both_sides(padding)
  local pads = {}
  for i, p in ipairs(padding) do pads[i], pads[i + #padding] = p, p end
  return pads
end

-- "same" or "valid".
local function named_padding(a, rank)
  local pads = {}
  for d = 1, rank do
    pads[d], pads[d + rank] = 0, 0
    if a.padding == "same" then
      pads[d], pads[d + rank] = ml._same_padding(a.weight.shape[d + 2], a.dilation[d])
    end
  end
  return pads
end

local function kernel_of(a, rank)
  local kernel = {}
  for d = 1, rank do kernel[d] = a.weight.shape[d + 2] end
  return kernel
end

for rank = 1, 3 do
  local function conv(pads_of)
    return function(g, a, call)
      return batched(g, a, rank, call, function(x)
        return g:node("Conv", inputs_of(g, a, x, call), { kernel_shape = kernel_of(a, rank),
          strides = g:known(a.stride, "stride"), pads = pads_of(a, rank),
          dilations = g:known(a.dilation, "dilation"), group = a.groups })
      end)
    end
  end
  local name = ("conv%dd"):format(rank)
  write[name] = conv(function(a) return both_sides(a.padding) end)
  write[name .. "_padding"] = conv(named_padding)
  write[("conv_transpose%dd"):format(rank)] = function(g, a, call)
    return batched(g, a, rank, call, function(x)
      return g:node("ConvTranspose", inputs_of(g, a, x, call), { kernel_shape = kernel_of(a, rank),
        strides = a.stride, pads = both_sides(a.padding), dilations = a.dilation,
        output_padding = a.output_padding, group = a.groups })
    end)
  end
end

return write
