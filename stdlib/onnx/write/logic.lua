-- stdlib/onnx/write/logic.lua: comparisons and logic as ONNX nodes.

local dtypes = require "moonlet.onnx.dtypes"
local fail = require("moonlet.options").fail
local ml = require "moonlet"
local trace = require "moonlet.onnx.trace"

local write = {}

-- The dtype in which two operands are compared: a number takes the tensor's where it can.
local function common(a, b)
  local first, second = trace.is_value(a) and a.dtype, trace.is_value(b) and b.dtype
  if first and second then return tostring(ml.promote_types(first, second)) end
  local dtype, number = first or second, first and b or a
  if type(number) == "boolean" then return dtype end
  if dtype == "bool" then return math.type(number) == "float" and "float32" or "int64" end
  if dtypes.is_integer(dtype) and math.type(number) == "float" then return "float32" end
  return dtype
end

-- A change in place keeps the dtype of what is changed.
local function finish(g, name, call) return g:cast(name, "bool", call.results[1].dtype) end

local COMPARE = { eq = "Equal", lt = "Less", gt = "Greater", le = "LessOrEqual",
  ge = "GreaterOrEqual" }
for name, op in pairs(COMPARE) do
  write[name] = function(g, a, call)
    local dtype = common(a.x, a.other)
    if dtype == "bool" and name ~= "eq" then dtype = "int32" end
    return finish(g, g:node(op, { g:operand(a.x, dtype), g:operand(a.other, dtype) }), call)
  end
end

function write.ne(g, a, call)
  local dtype = common(a.x, a.other)
  local same = g:node("Equal", { g:operand(a.x, dtype), g:operand(a.other, dtype) })
  return finish(g, g:node("Not", { same }), call)
end

local LOGIC = { logical_and = "And", logical_or = "Or", logical_xor = "Xor" }
for name, op in pairs(LOGIC) do
  write[name] = function(g, a, call)
    return finish(g, g:node(op, { g:operand(a.x, "bool"), g:operand(a.other, "bool") }), call)
  end
end

function write.logical_not(g, a, call)
  return finish(g, g:node("Not", { g:operand(a.x, "bool") }), call)
end

-- Of truth values; ONNX has those of integers from opset 18 on.
local BITWISE = { bitwise_and = "And", bitwise_or = "Or", bitwise_xor = "Xor" }
for name, op in pairs(BITWISE) do
  write[name] = function(g, a, call)
    if call.results[1].dtype ~= "bool" then
      fail("onnx.export: %s of integers has no translation to ONNX (opset 17)%s", name, call.place)
    end
    return g:node(op, { g:operand(a.x, "bool"), g:operand(a.other, "bool") })
  end
end

function write.bitwise_not(g, a, call)
  local dtype = call.results[1].dtype
  local x = g:operand(a.x, dtype)
  if dtype == "bool" then return g:node("Not", { x }) end
  return g:node("Sub", { g:node("Neg", { x }), g:constant(1, dtype) })
end
write.bitwise_invert = write.bitwise_not

local function shift(direction)
  return function(g, a, call)
    local dtype = call.results[1].dtype
    if not dtype:find "^uint" then
      fail("onnx.export: %s of %s has no translation to ONNX%s", call.name, dtype, call.place)
    end
    return g:node("BitShift", { g:operand(a.x, dtype), g:operand(a.other, dtype) },
      { direction = direction })
  end
end
write.bitwise_left_shift, write.bitwise_right_shift = shift "LEFT", shift "RIGHT"

-- --- what a number is -------------------------------------------------------------------------

-- No integer is one of these.
local function float_test(of_float, of_integer)
  return function(g, a)
    local x, dtype = g:plain(a.x), a.x.dtype
    if dtypes.is_float(dtype) then return of_float(g, x) end
    local same = g:node("Equal", { x, x })
    return of_integer and same or g:node("Not", { same })
  end
end

write.isnan = float_test(function(g, x) return g:node("IsNaN", { x }) end, false)
write.isinf = float_test(function(g, x) return g:node("IsInf", { x }) end, false)
write.isfinite = float_test(function(g, x)
  return g:node("Not", { g:node("Or", { g:node("IsNaN", { x }), g:node("IsInf", { x }) }) })
end, true)
write.isposinf = float_test(function(g, x)
  return g:node("IsInf", { x }, { detect_negative = 0 })
end, false)
write.isneginf = float_test(function(g, x)
  return g:node("IsInf", { x }, { detect_positive = 0 })
end, false)

return write
