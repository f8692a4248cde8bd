-- tensor/ops/compare.lua: comparisons, tests of single elements, and choices by a mask.

local function compare(name, symbol, words)
  op { ("%s(Operand x, Operand other) -> Tensor"):format(name),
       kind = "pointwise", dtypes = (name == "eq" or name == "ne") and "all" or "real + boolean",
       result = "bool", inplace = "stored",
       doc = ("`x %s other` for each element: a bool tensor, true where `x` is %s `other`."):format(symbol, words),
       sample = { "randn(3, 4), randn(3, 4)", "randn(3, 4), 0.5" } }
end

compare("eq", "==", "equal to")
compare("ne", "~=", "not equal to")
compare("lt", "<", "less than")
compare("le", "<=", "at most")
compare("gt", ">", "greater than")
compare("ge", ">=", "at least")

local function test(name, text, torch_dtypes)
  op { ("%s(Tensor x) -> Tensor"):format(name),
       kind = "pointwise", dtypes = torch_dtypes, int_to_float = true, result = "bool", inplace = false,
       doc = text, sample = { "randn(3, 4)", "tensor{1, 1 / 0, -1 / 0, 0 / 0}" } }
end

test("isnan", "True where an element is NaN.", "floating + complex")
test("isinf", "True where an element is plus or minus infinity.", "floating")
test("isfinite", "True where an element is neither infinite nor NaN.", "floating")

op { "where(Mask mask, Operand x, Operand other) -> Tensor",
     kind = "pointwise", chooses = true, dtypes = "all", inplace = false, method = false,
     grad = { x = "where(mask, g, 0.0)", other = "where(mask, 0.0, g)" },
     doc = [[`x` where `mask` is true, else `other`; all three broadcast.]],
     sample = { "gt(randn(3, 4), 0), randn(3, 4), randn(4)", "gt(randn(3, 4), 0), randn(3, 4), 2.5" } }

op { "masked_fill(Tensor x, Mask mask, Scalar value) -> Tensor",
     kind = "pointwise", chooses = true, keeps_dtype = true, row_major = true, dtypes = "all",
     grad = { x = "masked_fill(g, mask, 0.0)" },
     doc = [[`x` with `value`, in the dtype of `x`, where `mask` is true.]],
     sample = { "randn(3, 4), gt(randn(3, 4), 0), 1.5" } }
