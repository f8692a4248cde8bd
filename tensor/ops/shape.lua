-- tensor/ops/shape.lua: rows of the ops that move or share elements without changing them: views,
-- reshaping, joining and splitting, padding, flipping.

-- Views: other sizes and strides on the same storage.

op { "view(Tensor x, int[] size) -> Tensor",
     vmap = "view", kind = "view",
     grad = { x = "reshape(g, sizes_of(x))" },
     doc = [[`x` seen with shape `size`, without a copy; one size may be -1 and is worked out from
the others. It is an error when the strides of `x` do not allow it; `reshape` then copies.]],
     sample = { "randn(3, 4), {2, 6}", "randn(3, 4), {2, -1}", "randn(6), {3, 1, 2}" },
     torch = "args[0].view(args[1])",
     check = { noncontiguous = "a view of some layouts does not exist" } }

op { "as_strided(Tensor x, int[] size, int[] stride, int? offset=nil) -> Tensor",
     kind = "composite", inplace = "view",
     doc = [[A view of the storage of `x` with the given sizes and strides, both in elements.
`offset` is how many elements of the storage come before the first (0 starts at its beginning); the
default is x's own `x:storage_offset()`. Elements outside `x` can be reached, not those outside the
storage. Windows may overlap: the gradient of an element of `x` is then the sum over all positions it
appears in, shared evenly among the elements of `x` that lie on it.]],
     sample = { "randn(3, 4), {2, 2}, {4, 1}, 1", "randn(6), {4, 3}, {1, 1}" },
     torch = "torch.as_strided(*args)",
     check = { noncontiguous = "it shows the storage, not the elements in order" } }

op { [[strided_view(Tensor x, int[] size, int[] stride, int offset, int[] x_stride,
                    int x_offset) -> Tensor]],
     vmap = "strided_view", kind = "view", method = false, func = false,
     grad = { x = "formulas::as_strided_grad_x(g, sizes_of(x), x_stride, x_offset, size, stride, offset)" },
     doc = [[What `as_strided` shows; the strides and the offset of `x` are kept for the derivative.]] }

op { "expand(Tensor x, int[] size) -> Tensor",
     vmap = "expand", kind = "view",
     grad = { x = "g" },
     doc = [[`x` with dimensions of size 1 repeated to `size`, without a copy. New dimensions may
come in front; -1 keeps a size. The repeated elements share memory: clone before writing to them.]],
     sample = { "randn(3, 1), {3, 4}", "randn(3, 1), {2, -1, 4}", "randn(4), {2, 4}" },
     torch = "args[0].expand(args[1])" }

op { "view_as_dtype(Tensor x, DType dtype) -> Tensor",
     vmap = "dims", kind = "view", overload_of = "view",
     doc = [[The memory of `x` read as `dtype`, without conversion. Where elements become smaller or
larger the last dimension grows or shrinks, which wants its elements side by side. Not
differentiable.]],
     sample = { "randn(3, 4), ml.int32", "randn(3, 4), ml.int16", "randn(2, 4), ml.complex64" },
     torch = "args[0].view(getattr(torch, args[1]))",
     check = { dtypes = "one dtype read as another", empty = "the last dimension must fit",
               noncontiguous = "elements must lie side by side" } }

op { "permute(Tensor x, Dim[] dims) -> Tensor",
     vmap = "permute", kind = "view",
     grad = { x = "formulas::permute_grad_x(g, dims)" },
     doc = [[The dimensions of `x` in another order: dimension `i` of the result is dimension
`dims[i]` of `x`. A view.]],
     sample = { "randn(2, 3, 4), {3, 1, 2}", "randn(2, 3), {-1, 1}" } }

op { "transpose(Tensor x, Dim dim0, Dim dim1) -> Tensor",
     vmap = "dims", kind = "view", inplace = "view",
     grad = { x = "transpose(g, dim0, dim1)" }, alias = { "swapaxes", "swapdims" },
     doc = [[`x` with two dimensions swapped. A view.]],
     sample = { "randn(3, 4), 1, 2", "randn(2, 3, 4), 1, -1" } }

op { "t(Tensor x) -> Tensor",
     vmap = "t", kind = "view", inplace = "view",
     grad = { x = "t(g)" },
     doc = [[The transpose of a matrix, as a view; tensors of 0 or 1 dimension stay as they are.]],
     sample = { "randn(3, 4)", "randn(3)" } }

op { "adjoint(Tensor x) -> Tensor",
     kind = "composite", dtypes = "all",
     doc = [[The last two dimensions swapped, and the conjugate of it where `x` is complex.]],
     sample = { "randn(3, 4)", "randn(2, 3, 4)" } }

op { "squeeze(Tensor x, Dim[]? dim=nil) -> Tensor",
     vmap = "dims", kind = "view", inplace = "view",
     grad = { x = "reshape(g, sizes_of(x))" },
     doc = [[`x` without its dimensions of size 1: all of them, or those among `dim`. A view.]],
     sample = { "randn(3, 1, 4, 1)", "randn(3, 1, 4, 1), 2", "randn(3, 1, 4, 1), {1, -1}",
                "randn(3, 1), {}" } }

op { "unsqueeze(Tensor x, NewDim dim) -> Tensor",
     vmap = "dims", kind = "view", inplace = "view",
     grad = { x = "reshape(g, sizes_of(x))" },
     doc = [[`x` with a dimension of size 1 put in as dimension `dim` of the result. A view.]],
     sample = { "randn(3, 4), 1", "randn(3, 4), 2", "randn(3, 4), -1" } }

op { "select(Tensor x, Dim dim, Index index) -> Tensor",
     vmap = "dims", kind = "view",
     grad = { x = "formulas::select_grad_x(so_far, g, sizes_of(x), dim, index)" },
     doc = [[Position `index` of dimension `dim`, without that dimension. A view; `x[i]` is
`x:select(1, i)`.]],
     sample = { "randn(3, 4), 1, 2", "randn(3, 4), 2, -1" } }

op { "slice(Tensor x, Dim dim, Index start, int stop, int step=1) -> Tensor",
     vmap = "dims", kind = "view",
     grad = { x = "formulas::slice_grad_x(so_far, g, sizes_of(x), dim, start, stop, step)" },
     doc = [[Positions `start` to `stop`, both included, of dimension `dim`, each `step`-th.
Negative ones count from the end, so `x:slice(1, 2, -1)` drops the first row. `stop = start - 1`
gives an empty tensor; positions outside the dimension are errors. A view. (In C++, `start` is
0-based and `stop` is the 0-based position after the last, which is the same number.)]],
     sample = { "randn(5, 4), 1, 2, 4", "randn(3, 7), 2, 2, 7, 2", "randn(5), 1, 3, 2" },
     torch = "args[0][(slice(None),) * args[1] + (slice(*args[2:]),)]" }

op { "diagonal(Tensor x, int offset=0, Dim dim1=0, Dim dim2=1) -> Tensor",
     vmap = "dims", kind = "view",
     grad = { x = "formulas::diagonal_grad_x(so_far, g, sizes_of(x), offset, dim1, dim2)" },
     doc = [[The diagonal over dimensions `dim1` and `dim2`, which become one dimension at the end.
A positive `offset` is that many columns to the right of the main diagonal, a negative one below
it. A view.]],
     sample = { "randn(3, 4)", "randn(3, 4), 1", "randn(3, 4), -1", "randn(2, 3, 4), 0, 1, 3" } }

op { "unfold(Tensor x, Dim dim, int size, int step) -> Tensor",
     vmap = "dims", kind = "view",
     grad = { x = "formulas::unfold_grad_x(g, sizes_of(x), dim, size, step)" },
     doc = [[All windows of `size` positions along `dim`, `step` apart: dimension `dim` then counts
windows, and a new last dimension holds each window's elements. A view; windows may overlap.]],
     sample = { "randn(7), 1, 3, 2", "randn(2, 5), 2, 3, 1", "randn(4, 2), 1, 2, 2" },
     torch = "args[0].unfold(*args[1:])",
     check = { empty = "windows must fit" } }

op { "view_as_real(Tensor x) -> Tensor",
     vmap = "dims", linear = true, kind = "view", dtypes = "complex",
     grad = { x = "view_as_complex(contiguous(g))" },
     doc = [[A complex tensor seen as real: a new last dimension of size 2 holds the real and
imaginary parts.]],
     sample = { "view_as_complex(randn(3, 2))" } }

op { "view_as_complex(Tensor x) -> Tensor",
     vmap = "dims", linear = true, kind = "view", autocast = { cpu = "float32" }, dtypes = "floating",
     grad = { x = "view_as_real(g)" },
     doc = [[A float32 or float64 tensor whose last dimension has size 2 (real part, imaginary
part) seen as complex, without that dimension.]],
     sample = { "randn(3, 2)" },
     check = { noncontiguous = "the pairs must lie side by side",
               dtypes = "float16 and bfloat16 have no complex type" } }

-- What the gradients of views are made of: zeros with a tensor laid into the view.

op { "select_grad_x(Tensor grad, int[] size, NewDim dim, Index index) -> Tensor",
     vmap = "sized", linear = true, kind = "structured", dtypes = "any",
     grad = { grad = "select(g, dim, index)" }, internal = true,
     doc = [[Zeros of shape `size` with `grad` at position `index` of `dim`: the gradient of
`select`.]],
     sample = { "randn(4), {3, 4}, 1, 2", "randn(3), {3, 4}, 2, -1" },
     torch = "torch.ops.aten.select_backward(*args)",
     check = { empty = "the position must exist" } }

op { "slice_grad_x(Tensor grad, int[] size, Dim dim, Index start, int stop, int step=1) -> Tensor",
     vmap = "sized", linear = true, kind = "structured", dtypes = "any",
     grad = { grad = "slice(g, dim, start, stop, step)" }, internal = true,
     doc = [[Zeros of shape `size` with `grad` at positions `start` to `stop` of `dim`, each
`step`-th: the gradient of `slice`.]],
     sample = { "randn(3, 4), {5, 4}, 1, 2, 4", "randn(3, 3), {3, 7}, 2, 2, 7, 2" },
     torch = "torch.ops.aten.slice_backward(*args, *([1] if len(args) == 5 else []))",
     check = { empty = "the positions must exist" } }

op { "diagonal_grad_x(Tensor grad, int[] size, int offset, NewDim dim1, NewDim dim2) -> Tensor",
     vmap = "sized", linear = true, kind = "structured", dtypes = "any",
     grad = { grad = "diagonal(g, offset, dim1, dim2)" }, internal = true,
     doc = [[Zeros of shape `size` with `grad` on a diagonal: the gradient of `diagonal`.]],
     sample = { "randn(3), {3, 4}, 1, 1, 2", "randn(3, 2), {2, 3, 4}, 0, 1, 3" },
     torch = "torch.ops.aten.diagonal_backward(*args)",
     check = { empty = "the shapes must agree" } }

-- Reshaping: a view where the strides allow one, a copy otherwise.

op { "reshape(Tensor x, int[] size) -> Tensor",
     kind = "composite",
     doc = [[The elements of `x` in the same order with shape `size`; one size may be -1. A view of
`x` when the strides allow it, a copy otherwise.]],
     sample = { "randn(3, 4), {2, 6}", "randn(3, 4), {-1}", "randn(2, 3, 4), {4, -1}" } }

op { "flatten(Tensor x, Dim start_dim=0, Dim end_dim=-1) -> Tensor",
     kind = "composite",
     doc = [[`x` with dimensions `start_dim` to `end_dim` made one. A view where possible.]],
     sample = { "randn(2, 3, 4)", "randn(2, 3, 4), 2", "randn(2, 3, 4), 1, 2" } }

op { "unflatten(Tensor x, Dim dim, int[] sizes) -> Tensor",
     kind = "composite",
     doc = [[`x` with dimension `dim` split into dimensions of the given sizes; one may be -1. A
view.]],
     sample = { "randn(6, 2), 1, {2, 3}", "randn(2, 6), -1, {-1, 2}" },
     check = { empty = "the sizes must fit" } }

op { "narrow(Tensor x, Dim dim, Index start, int length) -> Tensor",
     kind = "composite",
     doc = [[`length` positions of dimension `dim` from `start` on. A view.]],
     sample = { "randn(5, 3), 1, 2, 3", "randn(2, 4), 2, -2, 2" } }

op { "narrow_from(Tensor x, Dim dim, Positions start, int length) -> Tensor",
     kind = "composite", overload_of = "narrow",
     doc = [[The same from the position that the 0-d tensor `start` holds.]],
     sample = { "randn(5, 3), 1, tensor(2), 3" } , torch = "torch.narrow(*args)",
     check = { empty = "the positions must exist" } }

op { "narrow_copy(Tensor x, Dim dim, Index start, int length) -> Tensor",
     out = true, kind = "composite",
     doc = [[A copy of what `narrow` shows.]],
     sample = { "randn(5, 3), 1, 2, 3", "randn(2, 4), 2, -2, 2" } }

op { "movedim(Tensor x, Dim[] source, Dim[] destination) -> Tensor",
     kind = "composite", alias = { "moveaxis" },
     doc = [[`x` with each dimension `source[i]` moved to position `destination[i]`; the others keep
their order. A view.]],
     sample = { "randn(2, 3, 4), 1, 3", "randn(2, 3, 4), {1, 2}, {3, 1}", "randn(2, 3), {}, {}" } }

op { "broadcast_to(Tensor x, int[] size) -> Tensor",
     kind = "composite",
     doc = [[Another name for `expand`.]],
     sample = { "randn(3, 1), {2, 3, 4}" } }

op { "expand_as(Tensor x, Tensor other) -> Tensor",
     kind = "composite",
     doc = [[`x` expanded to the shape of `other`. A view.]],
     sample = { "randn(3, 1), randn(3, 4)" },
     torch = "args[0].expand_as(args[1])",
     check = { grad = "the second argument gives only its shape", gradgrad = "as grad" } }

op { "view_as(Tensor x, Tensor other) -> Tensor",
     kind = "composite",
     doc = [[`x` seen with the shape of `other`. A view.]],
     sample = { "randn(3, 4), randn(2, 6)" },
     torch = "args[0].view_as(args[1])",
     check = { grad = "the second argument gives only its shape", gradgrad = "as grad",
               noncontiguous = "a view of some layouts does not exist" } }

op { "reshape_as(Tensor x, Tensor other) -> Tensor",
     kind = "composite",
     doc = [[`x` reshaped to the shape of `other`.]],
     sample = { "randn(3, 4), randn(2, 6)" },
     torch = "args[0].reshape_as(args[1])",
     check = { grad = "the second argument gives only its shape", gradgrad = "as grad" } }

-- Taking apart.

op { "split(Tensor x, int size, Dim dim=0) -> Tensor[]",
     kind = "composite",
     doc = [[`x` cut along `dim` into pieces of `size` positions (the last may be shorter), or into
pieces of the listed sizes, which must add up to the dimension. The pieces are views.]],
     sample = { "randn(5, 3), 2" },
     torch = "torch.split(*args)" }

op { "split_with_sizes(Tensor x, int[*] size, Dim dim=0) -> Tensor[]",
     kind = "composite", overload_of = "split",
     doc = [[The same into pieces of the listed sizes.]],
     sample = { "randn(3, 5), {1, 4}, 2", "randn(3, 2), {3}" },
     torch = "torch.split(*args)" }

op { "tensor_split(Tensor x, int indices_or_sections, Dim dim=0) -> Tensor[]",
     kind = "composite",
     doc = [[`x` cut along `dim` into so many pieces, whose sizes differ by 1 at most, larger ones
first; or before each of the listed positions (from 1), where a piece then begins. (PyTorch counts
them from 0.) The pieces are views.]],
     sample = { "randn(7, 2), 3", "randn(2, 3), 5, 2" } }

op { "tensor_split_at(Tensor x, Index[*] indices_or_sections, Dim dim=0) -> Tensor[]",
     kind = "composite", overload_of = "tensor_split",
     doc = [[The same before each of the positions.]],
     sample = { "randn(7, 2), {2, 4}", "randn(2, 5), {2, -1, 20}, 2" },
     torch = "torch.tensor_split(*args)" }

op { "tensor_split_by(Tensor x, Positions indices_or_sections, Dim dim=0) -> Tensor[]",
     kind = "composite", overload_of = "tensor_split",
     doc = [[The same as a tensor: a 0-d one is a number of pieces, another holds positions.]],
     sample = { "randn(7, 2), tensor({2, 4})" },
     torch = "torch.tensor_split(*args)" }

for _, split in ipairs { { "h", "2 (1, when there is only one)" }, { "v", "1" }, { "d", "3" } } do
  local name = split[1] .. "split"
  op { name .. "(Tensor x, int indices_or_sections) -> Tensor[]",
       kind = "composite",
       doc = ([[`x` cut along dimension %s into so many equal pieces, or before each of the listed positions
(from 1), as by `tensor_split`. The pieces are views.]]):format(split[2]),
       sample = { "randn(2, 4, 6), 2" } }
  op { name .. "_at(Tensor x, Index[*] indices_or_sections) -> Tensor[]",
       kind = "composite", overload_of = name, gather = false,
       doc = [[The same before each of the positions.]],
       sample = { "randn(4, 4, 5), {2, 4}" },
       torch = ("torch.%s(*args)"):format(name) }
end

op { "chunk(Tensor x, int chunks, Dim dim=0) -> Tensor[]",
     kind = "composite",
     doc = [[`x` cut along `dim` into at most `chunks` pieces of equal size; the last may be
shorter. The pieces are views.]],
     sample = { "randn(5, 3), 2", "randn(3, 7), 3, 2" } }

op { "unbind(Tensor x, Dim dim=0) -> Tensor[]",
     kind = "composite",
     doc = [[The positions of dimension `dim`, each as a tensor without it. They are views.]],
     sample = { "randn(3, 4)", "randn(3, 2), 2" } }

-- Putting together.

op { "cat(Tensor[] tensors, Dim dim=0) -> Tensor",
     vmap = "cat", linear = true, kind = "structured", dtypes = "any", autocast = { cpu = "promote" },
     grad = { tensors = "formulas::cat_grad_tensors(g, sizes_of(tensors), dim)" }, method = false,
     alias = { "concat", "concatenate" },
     doc = [[The tensors one after another along `dim`. Their other sizes must agree, but for empty
tensors of one dimension, which add nothing; their dtypes are promoted.]],
     sample = { "{randn(2, 3), randn(1, 3)}", "{randn(3, 2), randn(3, 1), randn(3, 3)}, 2",
                "{zeros(0), randn(2, 3), zeros(0)}" } }

op { "stack(Tensor[] tensors, NewDim dim=0) -> Tensor",
     out = true, kind = "composite", autocast = { cpu = "promote" }, method = false,
     doc = [[Tensors of one shape side by side along a new dimension `dim`.]],
     sample = { "{randn(3), randn(3)}", "{randn(2, 3), randn(2, 3)}, -1" } }

op { "hstack(Tensor[] tensors) -> Tensor",
     out = true, kind = "composite", method = false,
     doc = [[The tensors joined along dimension 2, or along dimension 1 when they have only one.]],
     sample = { "{randn(3, 2), randn(3, 1)}", "{randn(3), randn(2)}" } }

op { "vstack(Tensor[] tensors) -> Tensor",
     out = true, kind = "composite", method = false, alias = { "row_stack" },
     doc = [[The tensors joined along dimension 1; tensors of one dimension are rows.]],
     sample = { "{randn(2, 3), randn(1, 3)}", "{randn(3), randn(3)}" } }

op { "dstack(Tensor[] tensors) -> Tensor",
     out = true, kind = "composite", method = false,
     doc = [[The tensors, each made 3-dimensional as by `atleast_3d`, joined along dimension 3.]],
     sample = { "{randn(2, 3), randn(2, 3)}", "{randn(3), randn(3)}", "{randn(2, 3, 1), randn(2, 3, 2)}" } }

op { "column_stack(Tensor[] tensors) -> Tensor",
     out = true, kind = "composite", method = false,
     doc = [[The tensors joined along dimension 2; tensors of one dimension are columns.]],
     sample = { "{randn(3), randn(3, 2)}", "{randn(2), randn(2)}" } }

op { "block_diag(Tensor[] tensors) -> Tensor",
     vmap = "block_diag", kind = "structured",
     grad = { tensors = "formulas::block_diag_grad_tensors(g, sizes_of(tensors))" }, method = false,
     doc = [[The matrices along the diagonal of one matrix, zeros elsewhere. Tensors of one dimension
or none are rows.]],
     sample = { "{randn(2, 3), randn(2), randn(3, 1)}", "{randn(2, 2), tensor(1.5)}" },
     torch = "torch.block_diag(*args[0])" }

op { "broadcast_tensors(Tensor[] tensors) -> Tensor[]",
     kind = "composite", method = false,
     doc = [[The tensors expanded to the shape that all broadcast to. They are views.]],
     sample = { "{randn(3, 1), randn(4)}", "{randn(2, 1, 3), randn(4, 1), tensor(0.5)}" },
     torch = "torch.broadcast_tensors(*args[0])" }

for rank = 1, 3 do
  local name = ("atleast_%dd"):format(rank)
  local how = rank == 1 and "" or rank == 2 and ", new ones in front"
    or ", new ones in front, but at the end for a matrix"
  op { name .. "(Tensor[] tensors) -> Tensor[]",
       kind = "composite", method = false,
       doc = ([[The tensors with at least %d dimension%s%s: a table for a table or several, one
tensor for one. They are views.]]):format(rank, rank > 1 and "s" or "", how),
       sample = { "{tensor(1.5), randn(3), randn(2, 3), randn(1, 2, 1, 2)}" },
       torch = ("torch.%s(*args[0])"):format(name) }
  op { name .. "_one(Tensor x) -> Tensor",
       kind = "composite", overload_of = name,
       doc = [[The same of one tensor.]],
       sample = { "randn(3)", "tensor(0.5)" }, torch = ("torch.%s(*args)"):format(name) }
end

op { "cartesian_prod(Tensor[] tensors) -> Tensor",
     kind = "composite", method = false,
     doc = [[All combinations of one element from each of the 1-D tensors, as rows of shape (n1 * n2 *
..., count), the last tensor varying fastest. One tensor alone is given back.]],
     sample = { "{randn(2), randn(3)}", "{randn(2), randn(1), randn(2)}", "{randn(3)}" },
     torch = "torch.cartesian_prod(*args[0])" }

op { "combinations(Tensor x, int r=2, bool with_replacement=false) -> Tensor",
     kind = "composite",
     doc = [[The combinations of `r` elements of the 1-D `x`, as rows, each in the order of `x`;
`with_replacement` lets an element come several times.]],
     sample = { "randn(4)", "randn(4), 3", "randn(3), 2, true", "randn(2), 3", "randn(3), 0" } }

op { "meshgrid(Tensor[] tensors, string indexing=\"ij\") -> Tensor[]",
     kind = "composite", method = false,
     doc = [[The coordinates of a grid: for tensors of sizes n1, n2, ... as many tensors of shape
(n1, n2, ...), where the i-th varies along dimension i. With `indexing = "xy"` the first two
dimensions are swapped. The results are views.]],
     sample = { "{randn(2), randn(3)}", "{randn(2), randn(3)}, \"xy\"" },
     torch = "torch.meshgrid(*args[0], indexing=args[1] if len(args) > 1 else 'ij')" }

op { "tile(Tensor x, int[] reps) -> Tensor",
     kind = "composite",
     doc = [[`x` repeated `reps[i]` times along each dimension; missing ones at the front count as
1, and more of them than dimensions give new ones in front.]],
     sample = { "randn(2, 3), {2}", "randn(2, 3), {2, 1}", "randn(3), {2, 2}" } }

op { "repeat_interleave(Tensor x, int repeats, Dim? dim=nil, int? output_size=nil) -> Tensor",
     kind = "composite",
     doc = [[Each position of `dim` `repeats` times in a row; without `dim` each element of
flattened `x`. A tensor of repeats has one for each position, or one for all; alone,
`repeat_interleave(repeats)` gives the positions (from 1) themselves. `output_size` is the size of
the result along `dim`, where it is known: reading the repeats back is then spared.]],
     sample = { "randn(2, 3), 2", "randn(2, 3), 2, 1", "randn(2, 3), 3, 2" } }

op { [[repeat_interleave_each(Tensor x, Tensor repeats, Dim? dim=nil,
                              int? output_size=nil) -> Tensor]],
     kind = "composite", overload_of = "repeat_interleave", mixed = true,
     doc = [[The same with a number of repeats for each position.]],
     sample = { "randn(2, 3), tensor({1, 0, 2, 1, 1, 3})", "randn(2, 3), tensor({2, 0}), 1",
                "randn(2, 3), tensor({2}), 2", "randn(2, 3), tensor({1, 0, 2}), 2, 3" },
     torch = "torch.repeat_interleave(*args[:3], **({'output_size': args[3]} if len(args) > 3 else {}))",
     check = { dtypes = "repeats are integers", empty = "repeats must fit" } }

op { "repeat_interleave_positions(Tensor repeats) -> Tensor",
     kind = "composite", overload_of = "repeat_interleave", dtypes = "integral",
     doc = [[Each position (from 1) as often as `repeats` says.]],
     sample = { "tensor({1, 0, 3, 2})" },
     torch = "torch.repeat_interleave(*args) + 1" }

-- Padding, flipping, rolling.

op { "constant_pad(Tensor x, int[*] pad, Scalar value=0) -> Tensor",
     vmap = "dims", kind = "structured", dtypes = "any",
     grad = { x = "constant_pad(g, formulas::negated(pad), 0)" },
     doc = [[`x` with `value` around it: `pad` holds pairs (before, after) for the last dimension,
then the one before it, and so on. Negative numbers cut instead.]],
     sample = { "randn(2, 3), {1, 2}", "randn(2, 3), {1, 0, -1, 2}, 0.5" },
     torch = "F.pad(args[0], args[1], 'constant', *args[2:])",
     check = { empty = "the cut must fit" } }

op { "pad(Tensor x, int[*] pad, string mode=\"constant\", Scalar value=0) -> Tensor",
     kind = "composite",
     doc = [[`x` with a border. `pad` holds pairs (before, after) for the last dimension, then the
one before it, and so on; negative numbers cut instead. `mode` says what the border holds:
"constant" `value`, "reflect" the elements mirrored at the edge (which is not repeated),
"replicate" the edge, "circular" the elements from the other side.]],
     sample = { "randn(2, 3), {1, 2}", "randn(2, 3, 4), {1, 2}, \"reflect\"",
                "randn(2, 3, 4), {1, 2}, \"replicate\"", "randn(2, 3, 4), {1, 2}, \"circular\"" },
     torch = "F.pad(*args)",
     check = { empty = "an edge must exist" } }

op { "flip(Tensor x, Dim[] dims) -> Tensor",
     vmap = "dims", linear = true, kind = "structured", dtypes = "any",
     grad = { x = "flip(g, dims)" },
     doc = [[`x` with the order of positions reversed along `dims`. A copy.]],
     sample = { "randn(3, 4), 1", "randn(3, 4), {1, 2}", "randn(3, 4), {}" },
     torch = "torch.flip(args[0], args[1] if isinstance(args[1], (list, tuple)) else [args[1]])" }

op { "fliplr(Tensor x) -> Tensor",
     kind = "composite",
     doc = [[`x` with the columns (dimension 2) in reverse order. A copy.]],
     sample = { "randn(2, 3)", "randn(2, 3, 2)" } }

op { "flipud(Tensor x) -> Tensor",
     kind = "composite",
     doc = [[`x` with the rows (dimension 1) in reverse order. A copy.]],
     sample = { "randn(3)", "randn(3, 2)" } }

op { "rot90(Tensor x, int k=1, Dim[] dims={0, 1}) -> Tensor",
     kind = "composite",
     doc = [[`x` turned by `k` times 90 degrees in the plane of the two `dims`, from the first towards
the second. A copy.]],
     sample = { "randn(2, 3)", "randn(2, 3), 2", "randn(2, 3, 2), -1, {2, 3}", "randn(2, 3), 4", "randn(2, 3), 3, {2, 1}" } }

op { "roll(Tensor x, int[] shifts, Dim[] dims={}) -> Tensor",
     kind = "composite",
     doc = [[`x` with positions moved by `shifts[i]` along `dims[i]`; those that leave at one end
come back at the other. One shift without `dims` rolls the flattened tensor.]],
     sample = { "randn(3, 4), 2", "randn(3, 4), 1, 2", "randn(3, 4), {1, -1}, {1, 2}", "randn(3, 4), 2, {}" } }

-- A copy of x with another tensor laid into one of its views.

op { "select_scatter(Tensor x, Tensor src, Dim dim, Index index) -> Tensor",
     kind = "composite",
     doc = [[A copy of `x` with `src` at position `index` of `dim`.]],
     sample = { "randn(3, 4), randn(4), 1, 2", "randn(3, 4), randn(3), 2, -1" },
     check = { empty = "the position must exist" } }

op { [[slice_scatter(Tensor x, Tensor src, Dim dim=0, Index start=0, int? end=nil,
                     int step=1) -> Tensor]],
     kind = "composite",
     doc = [[A copy of `x` with `src` at positions `start` to `end`, both included, of `dim`, each
`step`-th.]],
     sample = { "randn(5, 2), randn(3, 2), 1, 2, 4", "randn(2, 7), randn(2, 3), 2, 2, 7, 2",
                "randn(3, 2), randn(3, 2)" },
     torch = "torch.slice_scatter(*args)",
     check = { empty = "the positions must exist" } }

op { "diagonal_scatter(Tensor x, Tensor src, int offset=0, Dim dim1=0, Dim dim2=1) -> Tensor",
     kind = "composite",
     doc = [[A copy of `x` with `src` on its diagonal, as `diagonal` shows it.]],
     sample = { "randn(3, 4), randn(3)", "randn(3, 4), randn(2), -1", "randn(2, 3, 4), randn(3, 2), 0, 1, 3" },
     check = { empty = "the shapes must agree" } }

op { [[as_strided_scatter(Tensor x, Tensor src, int[] size, int[] stride,
                          int? storage_offset=nil) -> Tensor]],
     kind = "composite",
     doc = [[A copy of `x` with `src` where `as_strided` of that size and stride shows it. Offsets
count from the start of the copy, which is row-major.]],
     sample = { "randn(3, 4), randn(2, 2), {2, 2}, {4, 1}, 1", "randn(6), randn(3), {3}, {2}" },
     check = { empty = "the elements must exist" } }
