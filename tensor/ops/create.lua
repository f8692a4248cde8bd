-- tensor/ops/create.lua: new tensors: constants, ranges, diagonals.

op { "empty(int[] size, Options options) -> Tensor", kind = "composite",
     doc = [[A tensor whose contents are whatever was in memory.]],
     sample = { "3, 4" }, check = { value = "undefined contents" } }
op { "empty_in_format(int[] size, MemoryFormat memory_format, Options options) -> Tensor",
     kind = "composite", overload_of = "empty",
     doc = [[The same with its elements in the order of `memory_format`.]],
     sample = { "{2, 3, 4, 5}, \"channels_last\"" }, check = { value = "undefined contents" } }
op { "zeros(int[] size, Options options) -> Tensor", out = true, kind = "composite",
     doc = [[A tensor of zeros.]], sample = { "3, 4" } }
op { "ones(int[] size, Options options) -> Tensor", out = true, kind = "composite",
     doc = [[A tensor of ones.]], sample = { "3, 4" } }
op { "full(int[] size, Scalar value, Options options) -> Tensor", out = true, kind = "composite",
     dtype_of = "value",
     doc = [[A tensor of that value everywhere. Unless given, its dtype is that of the value: int64 for an
integer, bool for a boolean, else the default one.]],
     sample = { "{3, 4}, 2.5", "{2}, 7", "{2}, true" } }

-- Dense, in the order of x's strides unless a format is named.
op { [[empty_like(Tensor x, DType? dtype=nil, Device? device=nil,
                  MemoryFormat? memory_format=nil) -> Tensor]],
     kind = "composite",
     doc = [[A tensor of the shape, dtype, device and order of strides of `x`; contents undefined.]],
     sample = { "randn(3, 4)" },
     check = { value = "undefined contents", noncontiguous = "undefined contents", dtypes = "undefined contents",
               cuda = "undefined contents" } }
for _, name in ipairs { "zeros", "ones" } do
  op { name .. "_like(Tensor x, DType? dtype=nil, Device? device=nil, MemoryFormat? memory_format=nil) -> Tensor",
       kind = "composite",
       doc = ("A tensor of %s with the shape, dtype, device and order of strides of `x`."):format(name),
       sample = { "randn(3, 4)" } }
end
op { [[full_like(Tensor x, Scalar value, DType? dtype=nil, Device? device=nil,
                 MemoryFormat? memory_format=nil) -> Tensor]],
     kind = "composite",
     doc = [[A tensor of that value everywhere with the shape, dtype, device and order of strides of `x`.]],
     sample = { "randn(3, 4), 2.5" } }

op { [[arange(Scalar start, Scalar? stop=nil, Scalar step=1, DType? dtype=nil,
              Device? device=nil) -> Tensor]],
     out = true, kind = "composite",
     doc = [[`start, start + step, ...` up to and including `stop`, as Lua's `for` counts; `arange(n)`
is 1 to `n`. (PyTorch's starts at 0 and leaves the end out.) int64 when all numbers are integers.]],
     sample = { "5", "2, 8, 2", "1.0, 2.0, 0.25" },
     torch = "torch.arange(1, args[0] + 1) if len(args) == 1 else torch.arange(args[0], args[1] + args[2] / 2 if isinstance(args[2], float) else args[1] + 1, args[2])" }
op { "iota(Tensor! x, Scalar first, Scalar step=1) -> Tensor",
     kind = "update", clone = false, dtypes = "boolean+real", method = false, func = false,
     grad = { x = "zero" },
     doc = [[Fills `x`, in row order, with `first + i * step`.]] }
op { "linspace(Scalar start, Scalar stop, int steps, Options options) -> Tensor",
     out = true, kind = "composite",
     doc = [[`steps` numbers at equal distances from `start` to `stop`, both included.]],
     sample = { "0, 1, 5" } }
op { "logspace(float start, float stop, int steps, float base=10, Options options) -> Tensor",
     out = true, kind = "composite",
     doc = [[`base` raised to `steps` numbers at equal distances from `start` to `stop`.]],
     sample = { "0, 2, 5" } }
op { "eye(int n, int? m=nil, Options options) -> Tensor", out = true, kind = "composite",
     doc = [[The `n` by `m` matrix (`n` by `n` without `m`) with ones on its diagonal.]],
     sample = { "3", "2, 4" } }

for _, pair in ipairs { { "tril", "below" }, { "triu", "above" } } do
  local name, what = pair[1], pair[2]
  op { name .. "(Tensor x, int diagonal=0) -> Tensor",
       inplace = true, kind = "structured", dtypes = "all",
       grad = { x = name .. "(g, diagonal)" },
       doc = ([[The part of each matrix on and %s its diagonal number `diagonal` (0 the main one, 1 the
next above), zeros elsewhere.]]):format(what),
       sample = { "randn(3, 4)", "randn(2, 4, 4), 1", "randn(4, 3), -1" } }
end
op { "diag_embed(Tensor x, int offset=0) -> Tensor",
     kind = "structured", dtypes = "all",
     grad = { x = "diagonal(g, offset, 0, 1)" },
     doc = [[The square matrix with the 1-D `x` on its diagonal number `offset`.]],
     sample = { "randn(3)", "randn(3), 1", "randn(3), -2" } }
op { "diag(Tensor x, int diagonal=0) -> Tensor", out = true, kind = "composite",
     doc = [[The diagonal of a matrix, or the matrix with the vector `x` on its diagonal.]],
     sample = { "randn(3)", "randn(3, 4), 1" } }
op { "one_hot(Positions x, int num_classes=0) -> Tensor", kind = "composite",
     doc = [[int64 rows of zeros with a 1 at the position in `x` (from 1): shape `(..., num_classes)`.
Without `num_classes`, as many as the highest position.]],
     sample = { "tensor({1, 3, 2})", "tensor({1, 3, 2}), 4" },
     torch = "F.one_hot(args[0], args[1] if len(args) > 1 else -1)" }
