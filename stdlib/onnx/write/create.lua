-- stdlib/onnx/write/create.lua: tensors that are made from sizes as ONNX nodes. Those of sizes that
-- are known are constants, and not written so.

local dtypes = require "moonlet.onnx.dtypes"
local sizes = require "moonlet.onnx.sizes"
local trace = require "moonlet.onnx.trace"

local write = {}

local function filled(g, value, call)
  local result = call.results[1]
  if #result.shape == 0 then return g:node("Identity", { g:operand(value, result.dtype) }) end
  return g:node("Expand", { g:operand(value, result.dtype), g:ints(result.shape) })
end

function write.full(g, a, call) return filled(g, a.fill_value, call) end
write.full_like, write.new_full = write.full, write.full

function write.fill(g, a, call) return filled(g, a.value, call) end

for name, value in pairs { zeros = 0, ones = 1, zeros_like = 0, ones_like = 1, empty = 0,
  empty_like = 0, empty_in_format = 0, zero = 0, new_empty = 0, new_zeros = 0, new_ones = 1 } do
  write[name] = function(g, _, call) return filled(g, value, call) end
end

-- `count` numbers from `first` on: the last one is left to the count, as the end may be inexact.
local function range(g, first, step, call)
  local result = call.results[1]
  local dtype = dtypes.is_float(result.dtype) and result.dtype or "int64"
  local count = g:ints(result.shape)
  local places = g:node("Range", { g:constant(0, "int64"), g:squeeze(count, { 0 }),
    g:constant(1, "int64") })
  local y = g:cast(places, "int64", dtype)
  if step ~= 1 then y = g:node("Mul", { y, g:operand(step, dtype) }) end
  if trace.is_value(first) or sizes.is_size(first) or first ~= 0 then
    y = g:node("Add", { y, g:operand(first, dtype) })
  end
  return g:cast(y, dtype, result.dtype)
end

-- With one argument it is the end, and the beginning 0.
function write.arange(g, a, call)
  local first = a.stop ~= nil and a.start or nil
  if first == nil then
    local value = call.results[1].tensor
    first = value:numel() > 0 and value:flatten()[1]:item() or 0
  end
  return range(g, first, a.step, call)
end

function write.iota(g, a, call) return range(g, a.first, a.step, call) end

function write.eye(g, _, call)
  local result = call.results[1]
  local zero = g:node("Expand", { g:constant(0, "float32"), g:ints(result.shape) })
  return g:node("EyeLike", { zero }, { dtype = dtypes.codes[result.dtype] })
end

return write
