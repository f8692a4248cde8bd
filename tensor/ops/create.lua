-- tensor/ops/create.lua: new tensors: constants, ranges, diagonals.

op { "empty(int[] size, Options options) -> Tensor", out = true, kind = "composite",
     doc = "New tensor of the given size whose elements are not initialised: they hold whatever was in memory.",
     example = "ml.empty(2, 3).shape", gives = "(2, 3)",
     sample = { "3, 4" }, check = { value = "undefined contents", out = "undefined contents" } }
op { "empty_in_format(int[] size, MemoryFormat memory_format, Options options) -> Tensor",
     kind = "composite", overload_of = "empty",
     doc = "New tensor that is not initialised, with its elements in the order of a memory format.",
     example = 'ml.empty({2, 3, 4, 5}, "channels_last"):stride()', gives = "(60, 1, 15, 3)",
     sample = { "{2, 3, 4, 5}, \"channels_last\"" }, check = { value = "undefined contents" } }
op { "zeros(int[] size, Options options) -> Tensor", out = true, kind = "composite",
     doc = "New tensor of zeros.",
     example = "ml.zeros(2, 3)",
     gives = [[
{{0., 0., 0.},
 {0., 0., 0.}}
Tensor (2, 3) float32]],
     sample = { "3, 4" } }
op { "ones(int[] size, Options options) -> Tensor", out = true, kind = "composite",
     doc = "New tensor of ones.",
     example = "ml.ones(2, 3)",
     gives = [[
{{1., 1., 1.},
 {1., 1., 1.}}
Tensor (2, 3) float32]],
     sample = { "3, 4" } }
op { "full(int[] size, Scalar fill_value, Options options) -> Tensor", out = true, kind = "composite",
     doc = [[New tensor with every element equal to `fill_value`. Without a dtype it has that of the
value: int64 for an integer, bool for a boolean, else the default dtype.]],
     args = { fill_value = "the value of all elements, a number or a boolean" },
     example = "ml.full({2, 3}, 7)",
     gives = [[
{{7, 7, 7},
 {7, 7, 7}}
Tensor (2, 3) int64]],
     sample = { "{3, 4}, 2.5", "{2}, 7", "{2}, true" } }

-- Dense, in the order of x's strides unless a format is named.
op { [[empty_like(Tensor x, DType? dtype=nil, Device? device=nil,
                  MemoryFormat? memory_format=nil) -> Tensor]],
     kind = "composite", differentiable = false, makes = true,
     doc = "New tensor of the shape, dtype, device and stride order of `x`, not initialised.",
     args = { x = "the tensor whose properties are taken" },
     shapes = "x (*) -> (*)",
     example = "ml.empty_like(ml.zeros(2, 3)).shape", gives = "(2, 3)",
     sample = { "randn(3, 4)" },
     check = { value = "undefined contents", noncontiguous = "undefined contents", dtypes = "undefined contents",
               device = "undefined contents" } }
local constants_like = {
  zeros = { "New tensor of zeros with the shape, dtype, device and stride order of `x`.",
    args = { x = "the tensor whose properties are taken" },
    shapes = "x (*) -> (*)",
    example = "ml.zeros_like(ml.tensor {1, 2, 3})",
    gives = [[
{0, 0, 0}
Tensor (3,) int64]] },
  ones = { "New tensor of ones with the shape, dtype, device and stride order of `x`.",
    args = { x = "the tensor whose properties are taken" },
    shapes = "x (*) -> (*)",
    example = "ml.ones_like(ml.tensor {1, 2, 3})",
    gives = [[
{1, 1, 1}
Tensor (3,) int64]] },
}

for _, name in ipairs { "zeros", "ones" } do
  op { name .. "_like(Tensor x, DType? dtype=nil, Device? device=nil, MemoryFormat? memory_format=nil) -> Tensor",
       kind = "composite", differentiable = false, makes = true,
       doc = constants_like[name],
       sample = { "randn(3, 4)" } }
end
op { [[full_like(Tensor x, Scalar fill_value, DType? dtype=nil, Device? device=nil,
                 MemoryFormat? memory_format=nil) -> Tensor]],
     kind = "composite", differentiable = false, makes = true,
     doc = [[New tensor with every element equal to `fill_value` and the shape, dtype, device and stride
order of `x`.]],
     args = { x = "the tensor whose properties are taken",
              fill_value = "the value of all elements, converted to the dtype" },
     shapes = "x (*) -> (*)",
     example = "ml.full_like(ml.zeros(2, 2), 2.5)",
     gives = [[
{{2.5000, 2.5000},
 {2.5000, 2.5000}}
Tensor (2, 2) float32]],
     sample = { "randn(3, 4), 2.5" } }


-- Of any size, with the dtype and device of x unless named.
local new = {
  empty = { "New tensor of the given size with the dtype and device of `x`, not initialised.",
    args = { x = "the tensor whose dtype and device are taken" },
    shapes = "x (...), size -> (size)",
    example = "ml.zeros(3, {dtype = ml.float64}):new_empty(2, 2).dtype", gives = "float64" },
  zeros = { "New tensor of zeros of the given size with the dtype and device of `x`.",
    args = { x = "the tensor whose dtype and device are taken" },
    shapes = "x (...), size -> (size)",
    example = "ml.tensor({1, 2, 3}):new_zeros(2, 2)",
    gives = [[
{{0, 0},
 {0, 0}}
Tensor (2, 2) int64]] },
  ones = { "New tensor of ones of the given size with the dtype and device of `x`.",
    args = { x = "the tensor whose dtype and device are taken" },
    shapes = "x (...), size -> (size)",
    example = "ml.tensor({1, 2, 3}):new_ones(2, 2)",
    gives = [[
{{1, 1},
 {1, 1}}
Tensor (2, 2) int64]] },
}

for _, name in ipairs { "empty", "zeros", "ones" } do
  op { ("new_%s(Tensor x, int[] size, DType? dtype=nil, Device? device=nil) -> Tensor"):format(name),
       kind = "composite", differentiable = false, func = false, makes = true,
       doc = new[name],
       sample = { "randn(3, 4), {2, 2}" },
       torch = ("args[0].new_%s(args[1])"):format(name),
       check = name == "empty" and { value = "undefined contents", noncontiguous = "undefined contents",
         dtypes = "undefined contents", device = "undefined contents" } or nil }
end
op { "new_full(Tensor x, int[] size, Scalar fill_value, DType? dtype=nil, Device? device=nil) -> Tensor",
     kind = "composite", differentiable = false, func = false, makes = true,
     doc = [[New tensor of the given size with every element equal to `fill_value` and the dtype and
device of `x`.]],
     args = { x = "the tensor whose dtype and device are taken",
              fill_value = "the value of all elements, converted to the dtype" },
     shapes = "x (...), size -> (size)",
     example = "ml.tensor({1, 2, 3}):new_full({2, 2}, 5)",
     gives = [[
{{5, 5},
 {5, 5}}
Tensor (2, 2) int64]],
     sample = { "randn(3, 4), {2, 2}, 2.5" }, torch = "args[0].new_full(args[1], args[2])" }

op { [[arange(Scalar start, Scalar? stop=nil, Scalar step=1, DType? dtype=nil,
              Device? device=nil) -> Tensor]],
     out = true, kind = "composite", makes = true,
     doc = [[Arithmetic progression from `start` up to and including `stop`, as Lua's `for` counts;
`arange(n)` is 1 to `n`. (PyTorch's starts at 0 and leaves the end out.) int64 where all numbers are
integers, else the default dtype.]],
     args = { start = "the first number; alone it is the last one, and the first is 1",
              stop = "the number that is not passed",
              step = "the difference of neighbours, not 0; it may be negative" },
     shapes = "-> (floor((stop - start) / step) + 1)",
     formula = "y_i = start + (i - 1) * step",
     example = "ml.arange(2, 8, 2)",
     gives = [[
{2, 4, 6, 8}
Tensor (4,) int64]],
     sample = { "5", "2, 8, 2", "1.0, 2.0, 0.25" },
     torch = "torch.arange(1, args[0] + 1) if len(args) == 1 else torch.arange(args[0], args[1] + args[2] / 2 if isinstance(args[2], float) else args[1] + 1, args[2])" }
op { "iota(Tensor! x, Scalar first, Scalar step=1) -> Tensor",
     vmap = "iota", kind = "update", clone = false, dtypes = "boolean+real", method = false, func = false,
     grad = { x = "zero" },
     doc = "Fills `x`, in row-major order, with an arithmetic progression, in place.",
     args = { first = "the first number", step = "the difference of neighbours" },
     shapes = "x (*) -> (*)",
     formula = "y_i = first + (i - 1) * step",
     example = "ml.zeros(2, 2):iota_(3, 2)",
     gives = [[
{{3., 5.},
 {7., 9.}}
Tensor (2, 2) float32]] }
op { "linspace(Operand start, Operand stop, int steps, Options options) -> Tensor",
     out = true, kind = "composite", method = false,
     doc = "Numbers at equal distances from `start` to `stop`, both included.",
     args = { start = "the first number, or a tensor of one element",
              stop = "the last number, or a tensor of one element",
              steps = "how many numbers" },
     shapes = "-> (steps)",
     formula = "y_i = start + (i - 1) * (stop - start) / (steps - 1)",
     example = "ml.linspace(0, 1, 5)",
     gives = [[
{0.0000, 0.2500, 0.5000, 0.7500, 1.0000}
Tensor (5,) float32]],
     sample = { "0, 1, 5", "tensor(0.5), -2, 4" }, check = { grad = "of numbers", noncontiguous = "of numbers", dtypes = "of numbers", device = "of numbers" } }
op { "logspace(Operand start, Operand stop, int steps, float base=10, Options options) -> Tensor",
     out = true, kind = "composite", method = false,
     doc = [[Numbers at equal ratios: `base` raised to numbers at equal distances from `start` to
`stop`, both included.]],
     args = { start = "the first exponent, or a tensor of one element",
              stop = "the last exponent, or a tensor of one element",
              steps = "how many numbers",
              base = "what is raised" },
     shapes = "-> (steps)",
     formula = "y_i = base^(start + (i - 1) * (stop - start) / (steps - 1))",
     example = "ml.logspace(0, 1, 3)",
     gives = [[
{ 1.0000,  3.1623, 10.0000}
Tensor (3,) float32]],
     sample = { "0, 2, 5", "0, tensor(3.0), 4, 2" }, check = { grad = "of numbers", noncontiguous = "of numbers", dtypes = "of numbers", device = "of numbers" } }
op { "eye(int n, int? m=nil, Options options) -> Tensor", out = true, kind = "composite",
     doc = "Identity matrix: ones on the main diagonal, zeros elsewhere.",
     args = { n = "how many rows", m = "how many columns; `n` unless given" },
     shapes = "-> (n, m)",
     example = "ml.eye(2, 3)",
     gives = [[
{{1., 0., 0.},
 {0., 1., 0.}}
Tensor (2, 3) float32]],
     sample = { "3", "2, 4" } }

local triangles = {
  tril = { [[Lower triangular part of each matrix of a batch: the elements on and below a diagonal, zeros
elsewhere.]],
    args = { diagonal = "the number of the diagonal: 0 is the main one, 1 the next above it, -1 the next below" },
    shapes = "x (*, n, m) -> (*, n, m)",
    example = "ml.tril(ml.ones(3, 3))",
    gives = [[
{{1., 0., 0.},
 {1., 1., 0.},
 {1., 1., 1.}}
Tensor (3, 3) float32]] },
  triu = { [[Upper triangular part of each matrix of a batch: the elements on and above a diagonal, zeros
elsewhere.]],
    args = { diagonal = "the number of the diagonal: 0 is the main one, 1 the next above it, -1 the next below" },
    shapes = "x (*, n, m) -> (*, n, m)",
    example = "ml.triu(ml.ones(3, 3), 1)",
    gives = [[
{{0., 1., 1.},
 {0., 0., 1.},
 {0., 0., 0.}}
Tensor (3, 3) float32]] },
  tril_indices = { [[Indices (from 1) of the elements on and below a diagonal of a matrix, in row-major order: the
row numbers, then the column numbers, int64.]],
    args = { row = "how many rows the matrix has",
             col = "how many columns it has",
             offset = "the number of the diagonal: 0 is the main one, 1 the next above it" },
    shapes = "-> (2, count)",
    example = "ml.tril_indices(2, 3)",
    gives = [[
{{1, 2, 2},
 {1, 1, 2}}
Tensor (2, 3) int64]] },
  triu_indices = { [[Indices (from 1) of the elements on and above a diagonal of a matrix, in row-major order: the
row numbers, then the column numbers, int64.]],
    args = { row = "how many rows the matrix has",
             col = "how many columns it has",
             offset = "the number of the diagonal: 0 is the main one, 1 the next above it" },
    shapes = "-> (2, count)",
    example = "ml.triu_indices(2, 3)",
    gives = [[
{{1, 1, 1, 2, 2},
 {1, 2, 3, 2, 3}}
Tensor (2, 5) int64]] },
}

for _, name in ipairs { "tril", "triu" } do
  op { name .. "(Tensor x, int diagonal=0) -> Tensor",
       inplace = true, vmap = "dims", linear = true, kind = "structured", dtypes = "any",
       grad = { x = name .. "(g, diagonal)" },
       doc = triangles[name],
       sample = { "randn(3, 4)", "randn(2, 4, 4), 1", "randn(4, 3), -1" } }
end
for _, name in ipairs { "tril_indices", "triu_indices" } do
  op { name .. "(int row, int col, int offset=0, DType? dtype=nil, Device? device=nil) -> Tensor",
       kind = "composite",
       doc = triangles[name],
       sample = { "3, 4", "4, 3, 1", "2, 5, -1", "2, 2, -5" },
       torch = ("torch.%s(*args) + 1"):format(name) }
end
op { "diag_embed(Tensor x, int offset=0, NewDim dim1=-2, NewDim dim2=-1) -> Tensor",
     kind = "composite", dtypes = "all",
     doc = "Matrices with the vectors along the last dimension of `x` on a diagonal, zeros elsewhere.",
     args = { offset = "the number of the diagonal: 0 is the main one, 1 the next above it",
              dim1 = "the dimension of the result that holds the rows",
              dim2 = "the dimension of the result that holds the columns" },
     shapes = "x (*, n) -> (*, n + abs(offset), n + abs(offset))",
     example = "ml.diag_embed(ml.tensor {1, 2})",
     gives = [[
{{1, 0},
 {0, 2}}
Tensor (2, 2) int64]],
     sample = { "randn(3)", "randn(3), 1", "randn(2, 3), -2", "randn(2, 3), 1, 1, 3", "randn(2, 3), 1, -1, 1" } }
op { "diagflat(Tensor x, int offset=0) -> Tensor",
     kind = "composite", dtypes = "all",
     doc = "Matrix with all elements of `x`, in row-major order, on a diagonal, zeros elsewhere.",
     args = { offset = "the number of the diagonal: 0 is the main one, 1 the next above it" },
     shapes = "x (*) of n elements -> (n + abs(offset), n + abs(offset))",
     example = "ml.diagflat(ml.tensor {1, 2}, 1)",
     gives = [[
{{0, 1, 0},
 {0, 0, 2},
 {0, 0, 0}}
Tensor (3, 3) int64]],
     sample = { "randn(3)", "randn(2, 2), 1", "tensor(2.5), -1" } }
op { "fill_diagonal(Tensor! x, Scalar fill_value, bool wrap=false) -> Tensor",
     vmap = "fill_diagonal", kind = "update", dtypes = "any", func = false, method = false,
     grad = { x = "fill_diagonal(g, 0, wrap)" },
     doc = [[Sets the main diagonal of `x` to `fill_value`, in place. `x` is a matrix, or a tensor of
more dimensions that all have one size.]],
     args = { fill_value = "the number on the diagonal",
              wrap = "whether the diagonal of a matrix of more rows than columns begins again after each block of " ..
                "`m + 1` rows" },
     shapes = "x (n, m) -> (n, m)",
     example = "ml.zeros(3, 3):fill_diagonal_(5)",
     gives = [[
{{5., 0., 0.},
 {0., 5., 0.},
 {0., 0., 5.}}
Tensor (3, 3) float32]] }
op { "diag(Tensor x, int diagonal=0) -> Tensor", out = true, kind = "composite",
     doc = "Diagonal of a matrix, or matrix with a vector on its diagonal.",
     args = { x = "a matrix, or a vector",
              diagonal = "the number of the diagonal: 0 is the main one, 1 the next above it" },
     shapes = "x (n) -> (n + abs(diagonal), n + abs(diagonal)), or x (n, m) -> (k)",
     example = "ml.diag(ml.tensor {{1, 2}, {3, 4}})",
     gives = [[
{1, 4}
Tensor (2,) int64]],
     sample = { "randn(3)", "randn(3, 4), 1" } }
op { "vander(Tensor x, int? N=nil, bool increasing=false) -> Tensor", kind = "composite", dtypes = "boolean+real",
     doc = [[Vandermonde matrix: the powers of the elements of a vector as columns, from `N - 1` down to
0, or rising.]],
     args = { N = "how many columns; as many as `x` has elements unless given",
              increasing = "whether the powers rise from left to right" },
     shapes = "x (n) -> (n, N)",
     formula = "y_ij = x_i^(N - j)",
     example = "ml.vander(ml.tensor {1, 2, 3})",
     gives = [[
{{1, 1, 1},
 {4, 2, 1},
 {9, 3, 1}}
Tensor (3, 3) int64]],
     sample = { "randn(3)", "randn(3), 5", "tensor({1, 2, 3}), 2, true" } }
op { "one_hot(Positions x, int num_classes=-1) -> Tensor", kind = "composite",
     doc = "One-hot encoding: for each index a vector of zeros with a 1 at that index, int64.",
     args = { x = "the indices, from 1",
              num_classes = "the length of the vectors; -1 takes the largest index" },
     shapes = "x (*) -> (*, num_classes)",
     example = "ml.one_hot(ml.tensor {1, 3, 2})",
     gives = [[
{{1, 0, 0},
 {0, 0, 1},
 {0, 1, 0}}
Tensor (3, 3) int64]],
     sample = { "tensor({1, 3, 2})", "tensor({1, 3, 2}), 4" },
     torch = "F.one_hot(args[0], args[1] if len(args) > 1 else -1)" }
