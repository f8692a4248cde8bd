-- tensor/ops/compare.lua: comparisons, tests of single elements, and choices by a mask.

local rows = require "tensor.ops.gen.pointwise_rows"

local function compare(name, symbol, words, alias)
  local any = name == "eq" or name == "ne"
  local samples = { "randn(3, 4), randn(3, 4)", "randn(3, 4), 0.5" }
  op { ("%s(Operand x, Operand other) -> Tensor"):format(name),
       kind = "pointwise", dtypes = any and "any" or "real + boolean",
       result = "bool", inplace = "stored", alias = alias,
       doc = ("`x %s other` for each element: a bool tensor, true where `x` is %s `other`."):format(symbol, words),
       sample = any and rows.with_complex(samples, "complex(ones(3), zeros(3)), complex(ones(3), tensor{0.0, 1, 2})")
         or samples }
end

compare("eq", "==", "equal to")
compare("ne", "~=", "not equal to", { "not_equal" })
compare("lt", "<", "less than", { "less" })
compare("le", "<=", "at most", { "less_equal" })
compare("gt", ">", "greater than", { "greater" })
compare("ge", ">=", "at least", { "greater_equal" })

local edges = { "randn(3, 4)", "tensor{1, 1 / 0, -1 / 0, 0 / 0, -0.0}" }
local complex_edges = rows.with_complex(edges,
  "complex(tensor{1, 1 / 0, -1 / 0, 0 / 0, 3e38}, tensor{0.0, 0 / 0, 1, 0, 3e38})")

local function test(name, text, samples, extra)
  local row = { ("%s(Tensor x) -> Tensor"):format(name),
    kind = "pointwise", dtypes = "floating + complex + storage_floating", int_to_float = true, result = "bool",
    inplace = false, doc = text, sample = samples }
  for key, value in pairs(extra or {}) do row[key] = value end
  op(row)
end

test("isnan", "True where an element is NaN.", complex_edges)
test("isinf", "True where an element is plus or minus infinity, or one part of it is.", complex_edges)
test("isfinite", "True where an element is neither infinite nor NaN, in both parts.", complex_edges)
test("isposinf", "True where an element is infinity.", edges, { dtypes = "floating", out = true })
test("isneginf", "True where an element is minus infinity.", edges, { dtypes = "floating", out = true })
test("signbit", "True where an element has a minus sign, which -0.0 has too.", { "randn(3, 4)", "tensor{1, -1 / 0, 0, -0.0}" },
  { dtypes = "real + boolean", int_to_float = false })
op { "isreal(Tensor x) -> Tensor", kind = "composite", differentiable = false, dtypes = "all",
     doc = "True where an element has no imaginary part.",
     sample = { "randn(3, 4)", "complex(ones(3), tensor{0.0, 1, 0 / 0})" } }
op { "isclose(Tensor x, Tensor other, float rtol=1e-5, float atol=1e-8, bool equal_nan=false) -> Tensor",
     kind = "composite", differentiable = false, dtypes = "all",
     doc = [[True where `|x - other|` is at most `atol + rtol * |other|`, and for equal infinities; with
`equal_nan` also where both are NaN. The dtypes must be equal.]],
     sample = { "tensor{1, 1.0001, 1 / 0, 0 / 0, 100}, tensor{1, 1, 1 / 0, 0 / 0, 100.0001}, 1e-5, 1e-8, true",
                "randint(0, 3, {3, 4}), randint(0, 3, {4})", "randn(3, 4), randn(3, 4), 0.5, 0.5" } }
op { "is_near(Tensor x, Tensor other, Scalar rtol, Scalar atol) -> Tensor",
     kind = "pointwise", dtypes = "floating", result = "bool", keeps_dtype = true, inplace = false, internal = true,
     doc = "What `isclose` does with floats, without `equal_nan`.",
     torch = "torch.isclose(*args)",
     sample = { "randn(3, 4), randn(4), 0.5, 0.5", "tensor{1, 1 / 0, -1 / 0, 0 / 0}, tensor{1.25, 1 / 0, 1, 0 / 0}, 0.5, 0.0" } }
op { "allclose(Tensor x, Tensor other, float rtol=1e-5, float atol=1e-8, bool equal_nan=false) -> bool",
     kind = "composite", differentiable = false, dtypes = "all",
     doc = "Whether `isclose` holds for all elements.",
     sample = { "ones(3), ones(3) + 1e-7", "ones(3), ones(3) + 1e-3" } }
op { "equal(Tensor x, Tensor other) -> bool",
     kind = "composite", differentiable = false, dtypes = "all",
     doc = "Whether the two have the same shape and the same elements.",
     sample = { "ones(3), ones(3)", "ones(3), ones(1)", "ones(2, 2), tensor{{1, 1}, {1, 2.0}}" } }
op { "is_nonzero(Tensor x) -> bool",
     kind = "composite", differentiable = false, dtypes = "all",
     doc = "Whether the one element of `x` is not zero.", sample = { "tensor{0.5}", "tensor{0}" },
     check = { empty = "one element is expected" } }
op { "is_same_size(Tensor x, Tensor other) -> bool",
     kind = "composite", differentiable = false, dtypes = "all",
     doc = "Whether the two have the same shape.", sample = { "ones(3), zeros(3)", "ones(3), ones(1, 3)" },
     torch = "args[0].is_same_size(args[1])" }
op { "isin(Operand elements, Operand test_elements, bool assume_unique=false, bool invert=false) -> Tensor",
     kind = "composite", differentiable = false, dtypes = "real + boolean", method = false, out = true,
     torch = [[torch.isin(args[0], args[1], assume_unique=args[2] if len(args) > 2 else False,
invert=args[3] if len(args) > 3 else False)]],
     doc = [[True where an element is one of `test_elements`, or with `invert` none of them. With
`assume_unique` neither may hold an element twice, which saves work where there are many.]],
     sample = { "randint(0, 9, {3, 4}), tensor{1, 5, 7}", "randint(0, 9, {3, 4}), 5", "5, randint(0, 9, {3, 4})",
                "randint(0, 90, {3, 40}), randint(0, 90, {30})", "randint(0, 90, {3, 40}), randint(0, 90, {30}), false, true",
                "randperm(40), randperm(60) * 2, true", "tensor{0 / 0, 1.0}, tensor{0 / 0, 1.0}" } }

op { "heaviside(Tensor x, Tensor values) -> Tensor",
     kind = "pointwise", dtypes = "real + boolean",
     doc = "0 where `x` is negative or NaN, 1 where it is positive, and `values` where it is 0.",
     sample = { "tensor{-1.5, 0, 2, 0, 0 / 0}, tensor{1.0, 0.5, 1, 0 / 0, 3}", "randint(-2, 2, {3, 4}), randint(5, 9, {4})" } }

op { "where(Mask condition, Operand x, Operand other) -> Tensor",
     kind = "pointwise", chooses = true, byte_mask = true, dtypes = "any", inplace = false, method = false,
     grad = { x = "where(condition, g, 0.0)", other = "where(condition, 0.0, g)" },
     doc = [[`x` where `condition` is true, else `other`; all three broadcast. A condition of uint8 is true
where it is not 0.]],
     sample = { "gt(randn(3, 4), 0), randn(3, 4), randn(4)",
                'tensor({0, 2, 255, 0}, {dtype = "uint8"}), randn(3, 4), randn(4)', "gt(randn(3, 4), 0), randn(3, 4), 2.5" } }

op { "masked_fill(Tensor x, Mask mask, Scalar value) -> Tensor",
     kind = "pointwise", chooses = true, keeps_dtype = true, row_major = true, dtypes = "any",
     grad = { x = "masked_fill(g, mask, 0.0)" },
     doc = [[`x` with `value`, in the dtype of `x`, where `mask` is true.]],
     sample = { "randn(3, 4), gt(randn(3, 4), 0), 1.5" } }
op { "masked_fill_tensor(Tensor x, Mask mask, Tensor value) -> Tensor",
     inplace = true, out = true, kind = "composite", dtypes = "any", overload_of = "masked_fill",
     doc = "With the one element of a tensor of no dimensions, on any device, as the value.",
     torch = "torch.masked_fill(*args)", check = { empty = "the value has no dimensions" },
     sample = { "randn(3, 4), gt(randn(3, 4), 0), tensor(1.5)", "randint(0, 9, {3, 4}), gt(randn(4), 0), tensor(2.75)" } }
op { "where_nonzero(Tensor condition) -> Tensor[]",
     kind = "composite", dtypes = "all", overload_of = "where", method = false,
     doc = [[Of a condition alone: the positions (from 1) of what is not zero, a tensor of positions for each
dimension.]],
     torch = "[p + 1 for p in torch.where(*args)]",
     sample = { "tensor({{0, 1}, {2, 0}})", "gt(randn(3, 4, 2), 0)" } }
