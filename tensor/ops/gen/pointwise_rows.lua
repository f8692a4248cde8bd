-- tensor/ops/gen/pointwise_rows.lua: rows of pointwise ops of one and of two operands, which several
-- families have.

local pointwise_rows = {}

-- Half types lose too much in these: autocast widens them on CUDA, as PyTorch does.
local widened = {}
for name in ("acos asin cosh exp expm1 log log10 log1p log2 pow reciprocal rsqrt sinh tan"):gmatch "%w+" do
  widened[name] = { cuda = "float32" }
end

local function with(row, extra)
  row.autocast = widened[row[1]:match "^%w+"]
  for key, value in pairs(extra or {}) do row[key] = value end
  return row
end

-- A function of one tensor; integers compute in float32.
function pointwise_rows.unary(name, doc, grad, sample, extra)
  return with({ ("%s(Tensor x) -> Tensor"):format(name),
    kind = "pointwise", dtypes = "floating", int_to_float = true,
    grad = grad and { x = grad } or nil, doc = doc, sample = { sample or "randn(3, 4)" } }, extra)
end

-- A function of two tensors or numbers that broadcast.
function pointwise_rows.binary(name, doc, grad, samples, extra)
  return with({ ("%s(Operand x, Operand other) -> Tensor"):format(name),
    kind = "pointwise", dtypes = "all", grad = grad, doc = doc, sample = samples }, extra)
end

return pointwise_rows
