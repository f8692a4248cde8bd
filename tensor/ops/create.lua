-- tensor/ops/create.lua: new tensors: constants, ranges, diagonals.

op { "empty(int[] size, Options options) -> Tensor", out = true, kind = "composite",
     doc = [[A tensor whose contents are whatever was in memory.]],
     sample = { "3, 4" }, check = { value = "undefined contents", out = "undefined contents" } }
op { "empty_in_format(int[] size, MemoryFormat memory_format, Options options) -> Tensor",
     kind = "composite", overload_of = "empty",
     doc = [[The same with its elements in the order of `memory_format`.]],
     sample = { "{2, 3, 4, 5}, \"channels_last\"" }, check = { value = "undefined contents" } }
op { "zeros(int[] size, Options options) -> Tensor", out = true, kind = "composite",
     doc = [[A tensor of zeros.]], sample = { "3, 4" } }
op { "ones(int[] size, Options options) -> Tensor", out = true, kind = "composite",
     doc = [[A tensor of ones.]], sample = { "3, 4" } }
op { "full(int[] size, Scalar fill_value, Options options) -> Tensor", out = true, kind = "composite",
     dtype_of = "fill_value",
     doc = [[A tensor of that value everywhere. Unless given, its dtype is that of the value: int64 for an
integer, bool for a boolean, else the default one.]],
     sample = { "{3, 4}, 2.5", "{2}, 7", "{2}, true" } }

-- Dense, in the order of x's strides unless a format is named.
op { [[empty_like(Tensor x, DType? dtype=nil, Device? device=nil,
                  MemoryFormat? memory_format=nil) -> Tensor]],
     kind = "composite", differentiable = false, makes = true,
     doc = [[A tensor of the shape, dtype, device and order of strides of `x`; contents undefined.]],
     sample = { "randn(3, 4)" },
     check = { value = "undefined contents", noncontiguous = "undefined contents", dtypes = "undefined contents",
               cuda = "undefined contents" } }
for _, name in ipairs { "zeros", "ones" } do
  op { name .. "_like(Tensor x, DType? dtype=nil, Device? device=nil, MemoryFormat? memory_format=nil) -> Tensor",
       kind = "composite", differentiable = false, makes = true,
       doc = ("A tensor of %s with the shape, dtype, device and order of strides of `x`."):format(name),
       sample = { "randn(3, 4)" } }
end
op { [[full_like(Tensor x, Scalar fill_value, DType? dtype=nil, Device? device=nil,
                 MemoryFormat? memory_format=nil) -> Tensor]],
     kind = "composite", differentiable = false, makes = true,
     doc = [[A tensor of that value everywhere with the shape, dtype, device and order of strides of `x`.]],
     sample = { "randn(3, 4), 2.5" } }


-- Of any size, with the dtype and device of x unless named.
for _, pair in ipairs { { "empty", "undefined contents" }, { "zeros", "zeros" }, { "ones", "ones" } } do
  op { ("new_%s(Tensor x, int[] size, DType? dtype=nil, Device? device=nil) -> Tensor"):format(pair[1]),
       kind = "composite", differentiable = false, func = false, makes = true,
       doc = ("A tensor of shape `size` and %s with the dtype and device of `x`."):format(pair[2]),
       sample = { "randn(3, 4), {2, 2}" },
       torch = ("args[0].new_%s(args[1])"):format(pair[1]),
       check = pair[1] == "empty" and { value = "undefined contents", noncontiguous = "undefined contents",
         dtypes = "undefined contents", cuda = "undefined contents" } or nil }
end
op { "new_full(Tensor x, int[] size, Scalar fill_value, DType? dtype=nil, Device? device=nil) -> Tensor",
     kind = "composite", differentiable = false, func = false, makes = true,
     doc = [[A tensor of shape `size` with that value everywhere and the dtype and device of `x`.]],
     sample = { "randn(3, 4), {2, 2}, 2.5" }, torch = "args[0].new_full(args[1], args[2])" }

op { [[arange(Scalar start, Scalar? stop=nil, Scalar step=1, DType? dtype=nil,
              Device? device=nil) -> Tensor]],
     out = true, kind = "composite", makes = true,
     doc = [[`start, start + step, ...` up to and including `stop`, as Lua's `for` counts; `arange(n)`
is 1 to `n`. (PyTorch's starts at 0 and leaves the end out.) int64 when all numbers are integers.]],
     sample = { "5", "2, 8, 2", "1.0, 2.0, 0.25" },
     torch = "torch.arange(1, args[0] + 1) if len(args) == 1 else torch.arange(args[0], args[1] + args[2] / 2 if isinstance(args[2], float) else args[1] + 1, args[2])" }
op { "iota(Tensor! x, Scalar first, Scalar step=1) -> Tensor",
     vmap = "iota", kind = "update", clone = false, dtypes = "boolean+real", method = false, func = false,
     grad = { x = "zero" },
     doc = [[Fills `x`, in row order, with `first + i * step`.]] }
op { "linspace(Operand start, Operand stop, int steps, Options options) -> Tensor",
     out = true, kind = "composite", method = false,
     doc = [[`steps` numbers at equal distances from `start` to `stop`, both included. The ends may be
tensors of one element.]],
     sample = { "0, 1, 5", "tensor(0.5), -2, 4" }, check = { grad = "of numbers", noncontiguous = "of numbers", dtypes = "of numbers", cuda = "of numbers" } }
op { "logspace(Operand start, Operand stop, int steps, float base=10, Options options) -> Tensor",
     out = true, kind = "composite", method = false,
     doc = [[`base` raised to `steps` numbers at equal distances from `start` to `stop`.]],
     sample = { "0, 2, 5", "0, tensor(3.0), 4, 2" }, check = { grad = "of numbers", noncontiguous = "of numbers", dtypes = "of numbers", cuda = "of numbers" } }
op { "eye(int n, int? m=nil, Options options) -> Tensor", out = true, kind = "composite",
     doc = [[The `n` by `m` matrix (`n` by `n` without `m`) with ones on its diagonal.]],
     sample = { "3", "2, 4" } }

for _, pair in ipairs { { "tril", "below" }, { "triu", "above" } } do
  local name, what = pair[1], pair[2]
  op { name .. "(Tensor x, int diagonal=0) -> Tensor",
       inplace = true, vmap = "dims", linear = true, kind = "structured", dtypes = "any",
       grad = { x = name .. "(g, diagonal)" },
       doc = ([[The part of each matrix on and %s its diagonal number `diagonal` (0 the main one, 1 the
next above), zeros elsewhere.]]):format(what),
       sample = { "randn(3, 4)", "randn(2, 4, 4), 1", "randn(4, 3), -1" } }
end
for _, pair in ipairs { { "tril", "on and below" }, { "triu", "on and above" } } do
  local name, what = pair[1] .. "_indices", pair[2]
  op { name .. "(int row, int col, int offset=0, DType? dtype=nil, Device? device=nil) -> Tensor",
       kind = "composite",
       doc = ([[The positions (from 1) of the elements %s diagonal number `offset` of a matrix of `row` by
`col`, in row order: int64 of shape (2, count), rows before columns.]]):format(what),
       sample = { "3, 4", "4, 3, 1", "2, 5, -1", "2, 2, -5" },
       torch = ("torch.%s(*args) + 1"):format(name) }
end
op { "diag_embed(Tensor x, int offset=0, NewDim dim1=-2, NewDim dim2=-1) -> Tensor",
     kind = "composite", dtypes = "all",
     doc = [[Square matrices over dimensions `dim1` and `dim2` of the result, with the last dimension of
`x` on their diagonal number `offset`, zeros elsewhere.]],
     sample = { "randn(3)", "randn(3), 1", "randn(2, 3), -2", "randn(2, 3), 1, 1, 3", "randn(2, 3), 1, -1, 1" } }
op { "diagflat(Tensor x, int offset=0) -> Tensor",
     kind = "composite", dtypes = "all",
     doc = [[The matrix with the elements of `x`, in row order, on its diagonal number `offset`.]],
     sample = { "randn(3)", "randn(2, 2), 1", "tensor(2.5), -1" } }
op { "fill_diagonal(Tensor! x, Scalar fill_value, bool wrap=false) -> Tensor",
     vmap = "fill_diagonal", kind = "update", dtypes = "any", func = false, method = false,
     grad = { x = "fill_diagonal(g, 0, wrap)" },
     doc = [[Sets the main diagonal of `x` to `fill_value`: that of a matrix, or of a tensor of more
dimensions of one size. With `wrap` the diagonal of a tall matrix begins again below each block.]] }
op { "diag(Tensor x, int diagonal=0) -> Tensor", out = true, kind = "composite",
     doc = [[The diagonal of a matrix, or the matrix with the vector `x` on its diagonal.]],
     sample = { "randn(3)", "randn(3, 4), 1" } }
op { "vander(Tensor x, int? N=nil, bool increasing=false) -> Tensor", kind = "composite", dtypes = "boolean+real",
     doc = [[The powers of the 1-D `x` as columns: from power `N - 1` (by default the size of `x`, less 1)
down to 0, or rising (Vandermonde's matrix).]],
     sample = { "randn(3)", "randn(3), 5", "tensor({1, 2, 3}), 2, true" } }
op { "one_hot(Positions x, int num_classes=-1) -> Tensor", kind = "composite",
     doc = [[int64 rows of zeros with a 1 at the position in `x` (from 1): shape `(..., num_classes)`.
With -1, as many as the highest position.]],
     sample = { "tensor({1, 3, 2})", "tensor({1, 3, 2}), 4" },
     torch = "F.one_hot(args[0], args[1] if len(args) > 1 else -1)" }
