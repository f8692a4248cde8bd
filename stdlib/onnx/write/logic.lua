-- stdlib/onnx/write/logic.lua: comparisons and logic as ONNX nodes.

local dtypes = require "moonlet.onnx.dtypes"
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
    local dtype = call.results[1].dtype
    if dtype ~= "bool" then
      g:needs(18, call.name .. " of integers")
      op = "Bitwise" .. BITWISE[name]
    end
    return g:node(op, { g:operand(a.x, dtype), g:operand(a.other, dtype) })
  end
end

function write.bitwise_not(g, a, call)
  local dtype = call.results[1].dtype
  local x = g:operand(a.x, dtype)
  if dtype == "bool" then return g:node("Not", { x }) end
  return g:node("Sub", { g:node("Neg", { x }), g:constant(1, dtype) })
end
write.bitwise_invert = write.bitwise_not

-- Of signed integers by powers of 2: to the right by the quotient, rounded down.
local function shift(direction)
  return function(g, a, call)
    local dtype = call.results[1].dtype
    local x, by = g:operand(a.x, dtype), g:operand(a.other, dtype)
    if dtype:find "^uint" then
      return g:node("BitShift", { x, by }, { direction = direction })
    end
    local power = g:node("Pow", { g:constant(2, dtype), by })
    if direction == "LEFT" then return g:node("Mul", { x, power }) end
    return g:node("Div", { g:node("Sub", { x, g:node("Mod", { x, power }) }), power })
  end
end
write.bitwise_left_shift, write.bitwise_right_shift = shift "LEFT", shift "RIGHT"

-- |x - y| <= atol + rtol |y|, and what is equal, such as infinities.
function write.is_near(g, a)
  local dtype = common(a.x, a.other)
  local x, y = g:operand(a.x, dtype), g:operand(a.other, dtype)
  local same = g:node("Equal", { x, y })
  if not dtypes.is_float(dtype) then
    x, y, dtype = g:cast(x, dtype, "float64"), g:cast(y, dtype, "float64"), "float64"
  end
  local far = g:node("Abs", { g:node("Sub", { x, y }) })
  local reach = g:node("Add", { g:float(a.atol, dtype),
    g:node("Mul", { g:float(a.rtol, dtype), g:node("Abs", { y }) }) })
  local finite = g:node("Not", { g:node("Or", { g:node("IsInf", { x }), g:node("IsInf", { y }) }) })
  return g:node("Or", { same, g:node("And", { finite, g:node("LessOrEqual", { far, reach }) }) })
end

-- Whether any of the tests is the element: each against all.
function write.isin(g, a)
  local dtype = common(a.elements, a.test_elements)
  local tests = g:node("Reshape", { g:operand(a.test_elements, dtype),
    g:constant({ -1 }, "int64") })
  local elements = g:unsqueeze(g:operand(a.elements, dtype), { -1 })
  local same = g:cast(g:node("Equal", { elements, tests }), "bool", "int32")
  local found = g:cast(g:node("ReduceSum", { same, g:constant({ -1 }, "int64") },
    { keepdims = 0 }), "int32", "bool")
  return a.invert and g:node("Not", { found }) or found
end

-- How many entries are less than each, or not greater: the places (from 0) in the sorted sequence.
-- NaN is behind all.
function write.searchsorted(g, a, call)
  local dtype = common(a.sorted_sequence, a.x)
  if dtype:find "^u?int8" or dtype == "int16" then dtype = "int32" end
  local sequence, x = g:operand(a.sorted_sequence, dtype), g:operand(a.x, dtype)
  if a.sorter then
    sequence = g:node("GatherElements", { sequence, g:index(a.sorter) }, { axis = -1 })
  end
  if #a.sorted_sequence.shape > 1 then
    sequence = g:unsqueeze(sequence, { #a.sorted_sequence.shape - 1 })
  end
  local each = g:unsqueeze(x, { -1 })
  local right = a.right or a.side == "right"
  local behind = g:node(right and "LessOrEqual" or "Less", { sequence, each })
  if dtypes.is_float(dtype) then
    local nan = g:node("IsNaN", { each })
    local other = g:node("IsNaN", { sequence })
    behind = g:node("Or", { behind, right and nan or g:node("And", { nan,
      g:node("Not", { other }) }) })
  end
  local count = g:node("ReduceSum", { g:cast(behind, "bool", "int64"),
    g:constant({ -1 }, "int64") }, { keepdims = 0 })
  return { zero = g:cast(count, "int64", call.results[1].dtype) }
end

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
