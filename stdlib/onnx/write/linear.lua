-- stdlib/onnx/write/linear.lua: products of matrices as ONNX nodes.

local write = {}

local function dtype_of(call) return call.results[1].dtype end

-- Of rows Gemm, with the weight as it is stored; else a product with the transposed weight.
function write.linear(g, a, call)
  local dtype = dtype_of(call)
  local x, weight = g:operand(a.x, dtype), g:operand(a.weight, dtype)
  if #a.x.shape == 2 and dtype ~= "int64" then
    local inputs = { x, weight }
    if a.bias then inputs[3] = g:operand(a.bias, dtype) end
    return g:node("Gemm", inputs, { transB = 1 })
  end
  local turned = g:cached("transposed " .. weight, function()
    return g:transpose(weight, { 1, 0 })
  end)
  local y = g:node("MatMul", { x, turned })
  return a.bias and g:node("Add", { y, g:operand(a.bias, dtype) }) or y
end

local function product(g, a, call)
  local dtype = dtype_of(call)
  local b = a.b or a.x or a.other
  return g:node("MatMul", { g:operand(a.a, dtype), g:operand(b, dtype) })
end
for name in ("matmul mm bmm mv dot"):gmatch "%S+" do write[name] = product end

local function scaled(g, name, factor, dtype)
  if factor == 1 then return name end
  return g:node("Mul", { name, g:operand(factor, dtype) })
end

-- beta * input + alpha * (a b); without `input` where beta is 0.
local function plus_product(g, a, call)
  local dtype = dtype_of(call)
  local y = scaled(g, g:node("MatMul", { g:operand(a.a, dtype), g:operand(a.b, dtype) }), a.alpha,
    dtype)
  if a.beta == 0 then return y end
  return g:node("Add", { scaled(g, g:operand(a.input, dtype), a.beta, dtype), y })
end
write.addmm, write.baddbmm = plus_product, plus_product

function write.outer(g, a, call)
  local dtype = dtype_of(call)
  return g:node(dtype == "bool" and "And" or "Mul", { g:unsqueeze(g:operand(a.a, dtype), { 1 }),
    g:unsqueeze(g:operand(a.b, dtype), { 0 }) })
end

function write.einsum(g, a, call)
  local dtype, names = dtype_of(call), {}
  for i, operand in ipairs(a.operands) do names[i] = g:operand(operand, dtype) end
  return g:node("Einsum", names, { equation = a.equation })
end

-- --- determinants -----------------------------------------------------------------------------

function write.det(g, a, call) return g:node("Det", { g:operand(a.A, dtype_of(call)) }) end

-- By the determinant of the rows divided by their largest elements, which stays among the numbers
-- that there are where that of the matrix would not; the logarithms are added again.
function write.slogdet(g, a, call)
  local dtype, rank = call.results[2].dtype, #a.A.shape
  local A = g:operand(a.A, dtype)
  local most = g:node("ReduceMax", { g:node("Abs", { A }) }, { axes = { rank - 1 }, keepdims = 1 })
  local zero = g:float(0, dtype)
  most = g:node("Where", { g:node("Equal", { most, zero }), g:float(1, dtype), most })
  local det = g:node("Det", { g:node("Div", { A, most }) })
  local logs = g:node("ReduceSum", { g:node("Log", { most }),
    g:constant({ rank - 2, rank - 1 }, "int64") }, { keepdims = 0 })
  return g:node("Sign", { det }), g:node("Add", { g:node("Log", { g:node("Abs", { det }) }), logs })
end

-- --- products and distances of rows -----------------------------------------------------------

function write.linalg_cross(g, a, call)
  local dtype, rank = dtype_of(call), #call.results[1].shape
  local axis = a.dim > 0 and a.dim - 1 or a.dim + rank
  local function turned(value, order)
    return g:node("Gather", { g:operand(value, dtype), g:constant(order, "int64") },
      { axis = axis - rank })
  end
  local up, down = { 1, 2, 0 }, { 2, 0, 1 }
  return g:node("Sub", { g:node("Mul", { turned(a.x, up), turned(a.other, down) }),
    g:node("Mul", { turned(a.x, down), turned(a.other, up) }) })
end

-- The p-norm of the last dimension.
local function length(g, far, p, dtype)
  if p == 1 or p == 2 then
    return g:node(p == 1 and "ReduceL1" or "ReduceL2", { far }, { axes = { -1 }, keepdims = 0 })
  end
  local size = g:node("Abs", { far })
  if p == math.huge then return g:node("ReduceMax", { size }, { axes = { -1 }, keepdims = 0 }) end
  local function sum(name)
    return g:node("ReduceSum", { name, g:constant({ -1 }, "int64") }, { keepdims = 0 })
  end
  if p == 0 then
    local there = g:node("Not", { g:node("Equal", { far, g:float(0, dtype) }) })
    return sum(g:cast(there, "bool", dtype))
  end
  return g:node("Pow", { sum(g:node("Pow", { size, g:float(p, dtype) })), g:float(1 / p, dtype) })
end

function write.native_cdist(g, a, call)
  local dtype, rank = dtype_of(call), #a.x1.shape
  local far = g:node("Sub", { g:unsqueeze(g:operand(a.x1, dtype), { rank - 1 }),
    g:unsqueeze(g:operand(a.x2, dtype), { rank - 2 }) })
  return length(g, far, a.p, dtype)
end

-- Each row and those behind it.
function write.native_pdist(g, a, call)
  local dtype, n = dtype_of(call), g:int(a.x.shape[1], "the number of rows")
  local firsts, seconds = {}, {}
  for i = 0, n - 2 do
    for k = i + 1, n - 1 do firsts[#firsts + 1], seconds[#seconds + 1] = i, k end
  end
  local x = g:operand(a.x, dtype)
  local far = g:node("Sub", { g:node("Gather", { x, g:constant(firsts, "int64") }, { axis = 0 }),
    g:node("Gather", { x, g:constant(seconds, "int64") }, { axis = 0 }) })
  return length(g, far, a.p, dtype)
end

return write
