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
  return g:node("Mul", { g:unsqueeze(g:operand(a.a, dtype), { 1 }),
    g:unsqueeze(g:operand(a.b, dtype), { 0 }) })
end

function write.einsum(g, a, call)
  local dtype, names = dtype_of(call), {}
  for i, operand in ipairs(a.operands) do names[i] = g:operand(operand, dtype) end
  return g:node("Einsum", names, { equation = a.equation })
end

return write
