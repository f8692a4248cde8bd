-- tensor/ops/gen/pointwise_rows.lua: rows of pointwise ops of one and of two operands, which several
-- families have.

local pointwise_rows = {}

local function with(row, extra)
  for key, value in pairs(extra or {}) do row[key] = value end
  return row
end

-- The fields of an op in which half types lose too much: autocast widens them on devices, as PyTorch does
-- on CUDA.
function pointwise_rows.widened(extra) return with({ autocast = { device = "float32" } }, extra) end

-- Samples, one or a list, and behind them one of complex tensors.
function pointwise_rows.with_complex(samples, complex)
  if type(samples) ~= "table" then samples = { samples or "randn(3, 4)" } end
  local out = table.move(samples, 1, #samples, 1, {})
  out[#out + 1] = complex or "complex(randn(3, 4), randn(3, 4))"
  return out
end

-- A function of one tensor; integers compute in float32.
function pointwise_rows.unary(name, doc, grad, sample, extra)
  return with({ ("%s(Tensor x) -> Tensor"):format(name),
    kind = "pointwise", dtypes = "floating", int_to_float = true,
    grad = grad and { x = grad } or nil, doc = doc,
    sample = type(sample) == "table" and sample or { sample or "randn(3, 4)" } }, extra)
end

-- A function of two tensors or numbers that broadcast.
function pointwise_rows.binary(name, doc, grad, samples, extra)
  return with({ ("%s(Operand x, Operand other) -> Tensor"):format(name),
    kind = "pointwise", dtypes = "all", grad = grad, doc = doc, sample = samples }, extra)
end

return pointwise_rows
