-- tensor/ops/text/shape.lua: the help of the rows in tensor/ops/shape.lua, which would grow too long with
-- it: a text for each op, as the field `doc` of a row takes it.

return {
  view = { [[View of `x` with another shape, without a copy. With a dtype, the same memory read as that dtype.]],
    args = { size = "the new shape; one size may be -1 and follows from the others" },
    shapes = "x (*) -> (size)",
    errors = "strides of `x` that do not allow the shape; `reshape` then copies",
    example = "ml.arange(6):view(2, -1)",
    gives = [[
{{1, 2, 3},
 {4, 5, 6}}
Tensor (2, 3) int64]] },
  as_strided = { [[View of the storage of `x` with any sizes and strides. It may show elements outside `x`, not
outside the storage. Where it shows an element of `x` several times, their gradients are added.]],
    args = { size = "the shape of the view",
             stride = "for each dimension, how many elements of the storage lie between neighbours",
             offset = "how many elements of the storage come before the first one; that of `x` unless given" },
    shapes = "x (*) -> (size)",
    example = "ml.arange(6):as_strided({2, 3}, {1, 2})",
    gives = [[
{{1, 3, 5},
 {2, 4, 6}}
Tensor (2, 3) int64]] },
  expand = { [[View of `x` with dimensions of size 1 repeated, without a copy. New dimensions may come in
front. The repeated elements share memory: clone before writing to them.]],
    args = { size = "the new shape; -1 keeps a size" },
    shapes = "x (*) -> (size)",
    example = "ml.tensor({{1}, {2}}):expand(2, 3)",
    gives = [[
{{1, 1, 1},
 {2, 2, 2}}
Tensor (2, 3) int64]] },
  view_as_dtype = { [[View of the memory of `x` as another dtype, without conversion. Where the elements become
smaller or larger the last dimension grows or shrinks; its elements must then lie side by side. Not
differentiable.]],
    args = { dtype = "the dtype of the view" },
    shapes = "x (*, n) -> (*, n * ratio of the element sizes)",
    example = "ml.tensor({1.0}):view(ml.int32)",
    gives = [[
{1065353216}
Tensor (1,) int32]] },
  permute = { [[View of `x` with its dimensions in another order: dimension `i` of the result is dimension
`dims[i]` of `x`.]],
    args = { dims = "the dimensions of `x`, each once" },
    shapes = "x (*) -> (x.shape in that order)",
    example = "ml.zeros(2, 3, 4):permute(3, 1, 2).shape", gives = "(4, 2, 3)" },
  transpose = { "View of `x` with two dimensions exchanged.",
    args = { dim0 = "one dimension", dim1 = "the other one" },
    shapes = "x (*, n, *, m, *) -> (*, m, *, n, *)",
    example = "ml.tensor({{1, 2, 3}, {4, 5, 6}}):transpose(1, 2)",
    gives = [[
{{1, 4},
 {2, 5},
 {3, 6}}
Tensor (3, 2) int64]] },
  t = { "Transpose of a matrix, as a view; a vector or a tensor without dimensions stays as it is.",
    shapes = "x (n, m) -> (m, n)",
    example = "ml.tensor({{1, 2, 3}, {4, 5, 6}}):t()",
    gives = [[
{{1, 4},
 {2, 5},
 {3, 6}}
Tensor (3, 2) int64]] },
  adjoint = { [[Conjugate transpose of each matrix of a batch: the last two dimensions exchanged, and the
conjugate where `x` is complex.]],
    shapes = "x (*, n, m) -> (*, m, n)",
    formula = "y = x^H",
    example = "ml.adjoint(ml.tensor {{1, 2}})",
    gives = [[
{{1},
 {2}}
Tensor (2, 1) int64]] },
  squeeze = { "View of `x` without dimensions of size 1: all of them, or those among `dim`.",
    args = { dim = "the dimensions that may go, one or a table" },
    shapes = "x (*) -> (x.shape without sizes of 1)",
    example = "ml.zeros(3, 1, 4, 1):squeeze().shape", gives = "(3, 4)" },
  unsqueeze = { "View of `x` with a new dimension of size 1.",
    args = { dim = "the number of the new dimension in the result; negative counts from the end" },
    shapes = "x (*) -> (x.shape with a 1)",
    example = "ml.tensor({1, 2}):unsqueeze(2)",
    gives = [[
{{1},
 {2}}
Tensor (2, 1) int64]] },
  select = { "View of one index of a dimension, without that dimension. `x[i]` is `x:select(1, i)`.",
    args = { index = "the index, from 1; negative counts from the end" },
    shapes = "x (*, n, *) -> (*, *)",
    errors = "an index out of range",
    example = "ml.tensor({{1, 2, 3}, {4, 5, 6}}):select(2, -1)",
    gives = [[
{3, 6}
Tensor (2,) int64]] },
  slice = { [[View of a range of a dimension, both ends included. `stop = start - 1` gives an empty tensor.]],
    args = { start = "the first index, from 1; negative counts from the end",
             stop = "the last index, included; negative counts from the end",
             step = "the distance of neighbours, at least 1" },
    shapes = "x (*, n, *) -> (*, floor((stop - start) / step) + 1, *)",
    errors = "an index outside the dimension",
    example = "ml.arange(7):slice(1, 2, -1, 2)",
    gives = [[
{2, 4, 6}
Tensor (3,) int64]] },
  diagonal = { "View of the diagonals over two dimensions, which become one dimension at the end.",
    args = { offset = "the number of the diagonal: 0 is the main one, 1 the next above it, -1 the next below",
             dim1 = "the dimension of the rows",
             dim2 = "the dimension of the columns" },
    shapes = "x (n, m, *) -> (*, k)",
    example = "ml.tensor({{1, 2}, {3, 4}}):diagonal()",
    gives = [[
{1, 4}
Tensor (2,) int64]] },
  unfold = { [[View of the sliding windows along a dimension, which then counts windows; a new last dimension
holds the elements of each window. Windows may overlap.]],
    args = { dim = "the dimension that the windows slide along",
             size = "how many elements a window has",
             step = "the step from one window to the next" },
    shapes = "x (*, n, *) -> (*, floor((n - size) / step) + 1, *, size)",
    example = "ml.arange(5):unfold(1, 3, 2)",
    gives = [[
{{1, 2, 3},
 {3, 4, 5}}
Tensor (2, 3) int64]] },
  view_as_real = { [[View of a complex tensor as a real one: a new last dimension of size 2 holds the real and the
imaginary part.]],
    args = { x = "a complex tensor" },
    shapes = "x (*) -> (*, 2)",
    example = "ml.view_as_real(ml.complex(ml.tensor {1.0, 2}, ml.tensor {3.0, 4}))",
    gives = [[
{{1., 3.},
 {2., 4.}}
Tensor (2, 2) float32]] },
  view_as_complex = { [[View of a float32 or float64 tensor as a complex one: the last dimension, of size 2, holds the
real and the imaginary part side by side.]],
    args = { x = "a tensor whose last dimension has size 2 and stride 1" },
    shapes = "x (*, 2) -> (*)",
    example = "ml.view_as_complex(ml.tensor {{1.0, 3}, {2, 4}})",
    gives = [[
{1.+3.i, 2.+4.i}
Tensor (2,) complex64]] },
  reshape = { [[The elements of `x` in row-major order with another shape: a view where the strides of `x`
allow one, else a copy.]],
    args = { size = "the new shape; one size may be -1 and follows from the others" },
    shapes = "x (*) -> (size)",
    example = "ml.arange(6):reshape(3, 2)",
    gives = [[
{{1, 2},
 {3, 4},
 {5, 6}}
Tensor (3, 2) int64]] },
  flatten = { "`x` with a range of dimensions made one: a view where the strides allow one, else a copy.",
    args = { start_dim = "the first dimension of the range", end_dim = "the last dimension of the range" },
    shapes = "x (*, a, ..., b, *) -> (*, a * ... * b, *)",
    example = "ml.zeros(2, 3, 4):flatten(2).shape", gives = "(2, 12)" },
  unflatten = { "View of `x` with one dimension split into several.",
    args = { dim = "the dimension that is split",
             sizes = "the sizes that it is split into; one may be -1 and follows from the others" },
    shapes = "x (*, n, *) -> (*, sizes, *)",
    example = "ml.zeros(6, 2):unflatten(1, {2, 3}).shape", gives = "(2, 3, 2)" },
  narrow = { "View of `length` indices of a dimension.",
    args = { start = "the first index, from 1; negative counts from the end. A number or a 0-d tensor",
             length = "how many indices" },
    shapes = "x (*, n, *) -> (*, length, *)",
    example = "ml.arange(5):narrow(1, 2, 3)",
    gives = [[
{2, 3, 4}
Tensor (3,) int64]] },
  narrow_from = { "View of `length` indices of a dimension from the one that a 0-d tensor holds.",
    args = { start = "the first index, from 1", length = "how many indices" },
    shapes = "x (*, n, *), start () -> (*, length, *)",
    example = "ml.arange(5):narrow(1, ml.tensor(2), 3)",
    gives = [[
{2, 3, 4}
Tensor (3,) int64]] },
  narrow_copy = { "Copy of `length` indices of a dimension, as `narrow` shows them.",
    args = { start = "the first index, from 1; negative counts from the end", length = "how many indices" },
    shapes = "x (*, n, *) -> (*, length, *)",
    example = "ml.arange(5):narrow_copy(1, 2, 3)",
    gives = [[
{2, 3, 4}
Tensor (3,) int64]] },
  movedim = { "View of `x` with some dimensions moved; the others keep their order.",
    args = { source = "the dimensions that move, one or a table",
             destination = "their numbers in the result" },
    shapes = "x (*) -> (x.shape in another order)",
    example = "ml.zeros(2, 3, 4):movedim(1, 3).shape", gives = "(3, 4, 2)" },
  broadcast_to = { "View of `x` broadcast to a shape: another name for `expand`.",
    args = { size = "the new shape; -1 keeps a size" },
    shapes = "x (*) -> (size)",
    example = "ml.broadcast_to(ml.tensor {1, 2}, {2, 2})",
    gives = [[
{{1, 2},
 {1, 2}}
Tensor (2, 2) int64]] },
  expand_as = { "View of `x` expanded to the shape of another tensor.",
    args = { other = "the tensor whose shape is taken" },
    shapes = "x (*), other (size) -> (size)",
    example = "ml.tensor({{1}, {2}}):expand_as(ml.zeros(2, 3))",
    gives = [[
{{1, 1, 1},
 {2, 2, 2}}
Tensor (2, 3) int64]] },
  view_as = { "View of `x` with the shape of another tensor.",
    args = { other = "the tensor whose shape is taken" },
    shapes = "x (*), other (size) -> (size)",
    example = "ml.arange(4):view_as(ml.zeros(2, 2))",
    gives = [[
{{1, 2},
 {3, 4}}
Tensor (2, 2) int64]] },
  reshape_as = { "`x` reshaped to the shape of another tensor: a view where the strides allow one, else a copy.",
    args = { other = "the tensor whose shape is taken" },
    shapes = "x (*), other (size) -> (size)",
    example = "ml.arange(4):reshape_as(ml.zeros(2, 2))",
    gives = [[
{{1, 2},
 {3, 4}}
Tensor (2, 2) int64]] },
  split = { [[Pieces of `x` along a dimension: of `size` indices each, the last perhaps shorter, or of the
listed sizes, which add up to the dimension. The pieces are views.]],
    args = { size = "the size of a piece, or a table of sizes" },
    shapes = "x (*, n, *) -> table of (*, size, *)",
    errors = "sizes that do not add up to the dimension",
    example = "a, b, c = table.unpack(ml.arange(5):split(2)); c",
    gives = [[
{5}
Tensor (1,) int64]] },
  split_with_sizes = { "Pieces of `x` of the listed sizes along a dimension. They are views.",
    args = { size = "the sizes of the pieces, which add up to the dimension" },
    shapes = "x (*, n, *) -> table of (*, size[i], *)",
    example = "a, b = table.unpack(ml.arange(5):split {1, 4}); b",
    gives = [[
{2, 3, 4, 5}
Tensor (4,) int64]] },
  tensor_split = { [[Pieces of `x` along a dimension: so many, whose sizes differ by at most 1, or cut before each
of the listed indices. (PyTorch counts these from 0.) The pieces are views.]],
    args = { indices_or_sections = "how many pieces, or the indices, from 1, where a new piece begins, as a table " ..
               "or a tensor" },
    shapes = "x (*, n, *) -> table of (*, k, *)",
    example = "a, b, c = table.unpack(ml.arange(7):tensor_split(3)); c",
    gives = [[
{6, 7}
Tensor (2,) int64]] },
  tensor_split_at = { "Pieces of `x` cut along a dimension before each of the listed indices. They are views.",
    args = { indices_or_sections = "the indices, from 1, where a new piece begins" },
    shapes = "x (*, n, *) -> table of (*, k, *)",
    example = "a, b = table.unpack(ml.arange(7):tensor_split {3}); b",
    gives = [[
{3, 4, 5, 6, 7}
Tensor (5,) int64]] },
  tensor_split_by = { [[Pieces of `x` as many as a 0-d tensor says, or cut before each of the indices of another. They
are views.]],
    args = { indices_or_sections = "a number of pieces, or the indices, from 1" },
    shapes = "x (*, n, *), indices_or_sections (k) -> table of (*, k, *)",
    example = "a, b = table.unpack(ml.arange(7):tensor_split(ml.tensor {3})); b",
    gives = [[
{3, 4, 5, 6, 7}
Tensor (5,) int64]] },
  hsplit = { [[Pieces of `x` along dimension 2 (1 where it is the only one): so many of equal size, or cut
before each of the listed indices. The pieces are views.]],
    args = { indices_or_sections = "how many pieces, or the indices, from 1, where a new piece begins" },
    shapes = "x (n, m, *) -> table of (n, k, *)",
    example = "a, b = table.unpack(ml.tensor({{1, 2, 3, 4}}):hsplit(2)); a, b",
    gives = [[
{{1, 2}}
Tensor (1, 2) int64
{{3, 4}}
Tensor (1, 2) int64]] },
  vsplit = { [[Pieces of `x` along dimension 1: so many of equal size, or cut before each of the listed
indices. The pieces are views.]],
    args = { indices_or_sections = "how many pieces, or the indices, from 1, where a new piece begins" },
    shapes = "x (n, m, *) -> table of (k, m, *)",
    example = "a, b = table.unpack(ml.tensor({{1, 2}, {3, 4}}):vsplit(2)); b",
    gives = [[
{{3, 4}}
Tensor (1, 2) int64]] },
  dsplit = { [[Pieces of `x` along dimension 3: so many of equal size, or cut before each of the listed
indices. The pieces are views.]],
    args = { indices_or_sections = "how many pieces, or the indices, from 1, where a new piece begins" },
    shapes = "x (n, m, d, *) -> table of (n, m, k, *)",
    example = "a, b = table.unpack(ml.zeros(2, 3, 4):dsplit(2)); a.shape", gives = "(2, 3, 2)" },
  hsplit_at = { [[Pieces of `x` cut along dimension 2 (1 where it is the only one) before each of the listed
indices. They are views.]],
    args = { indices_or_sections = "the indices, from 1, where a new piece begins" },
    shapes = "x (n, m, *) -> table of (n, k, *)",
    example = "a, b = table.unpack(ml.tensor({{1, 2, 3, 4}}):hsplit {2}); b",
    gives = [[
{{2, 3, 4}}
Tensor (1, 3) int64]] },
  vsplit_at = { "Pieces of `x` cut along dimension 1 before each of the listed indices. They are views.",
    args = { indices_or_sections = "the indices, from 1, where a new piece begins" },
    shapes = "x (n, m, *) -> table of (k, m, *)",
    example = "a, b = table.unpack(ml.tensor({{1, 2}, {3, 4}, {5, 6}}):vsplit {2}); a, b",
    gives = [[
{{1, 2}}
Tensor (1, 2) int64
{{3, 4},
 {5, 6}}
Tensor (2, 2) int64]] },
  dsplit_at = { "Pieces of `x` cut along dimension 3 before each of the listed indices. They are views.",
    args = { indices_or_sections = "the indices, from 1, where a new piece begins" },
    shapes = "x (n, m, d, *) -> table of (n, m, k, *)",
    example = "a, b = table.unpack(ml.zeros(2, 3, 4):dsplit {2}); a.shape, b.shape",
    gives = "(2, 3, 1)	(2, 3, 3)" },
  chunk = { [[Pieces of `x` along a dimension: at most so many of equal size, the last perhaps shorter. The
pieces are views.]],
    args = { chunks = "how many pieces at most" },
    shapes = "x (*, n, *) -> table of (*, ceil(n / chunks), *)",
    example = "a, b = table.unpack(ml.arange(5):chunk(2)); a, b",
    gives = [[
{1, 2, 3}
Tensor (3,) int64
{4, 5}
Tensor (2,) int64]] },
  unbind = { "Table of the slices of `x` along a dimension, each without it. The slices are views.",
    args = { dim = "the dimension that goes" },
    shapes = "x (*, n, *) -> table of n of (*, *)",
    example = "a, b = table.unpack(ml.tensor({{1, 2}, {3, 4}}):unbind()); b",
    gives = [[
{3, 4}
Tensor (2,) int64]] },
  cat = { [[Concatenation of tensors along a dimension. The other sizes must be equal, except for empty
tensors of one dimension, which add nothing; dtypes are promoted.]],
    args = { tensors = "the tensors, in order" },
    shapes = "tensors (*, n_i, *) -> (*, sum_i n_i, *)",
    errors = "other sizes that differ",
    example = "ml.cat({ml.tensor {{1, 2}}, ml.tensor {{3, 4}, {5, 6}}})",
    gives = [[
{{1, 2},
 {3, 4},
 {5, 6}}
Tensor (3, 2) int64]] },
  stack = { "Tensors of one shape side by side along a new dimension.",
    args = { tensors = "the tensors, in order", dim = "the number of the new dimension in the result" },
    shapes = "tensors (*) -> (count, *)",
    example = "ml.stack({ml.tensor {1, 2}, ml.tensor {3, 4}}, 2)",
    gives = [[
{{1, 3},
 {2, 4}}
Tensor (2, 2) int64]] },
  hstack = { "Horizontal concatenation: along dimension 2, or along dimension 1 where the tensors have only one.",
    args = { tensors = "the tensors, in order" },
    shapes = "tensors (n, m_i, *) -> (n, sum_i m_i, *)",
    example = "ml.hstack({ml.tensor {1, 2}, ml.tensor {3}})",
    gives = [[
{1, 2, 3}
Tensor (3,) int64]] },
  vstack = { "Vertical concatenation: along dimension 1; vectors are rows.",
    args = { tensors = "the tensors, in order" },
    shapes = "tensors (n_i, m, *) -> (sum_i n_i, m, *)",
    example = "ml.vstack({ml.tensor {1, 2}, ml.tensor {3, 4}})",
    gives = [[
{{1, 2},
 {3, 4}}
Tensor (2, 2) int64]] },
  dstack = { "Concatenation along dimension 3 of tensors that are made 3-dimensional as by `atleast_3d`.",
    args = { tensors = "the tensors, in order" },
    shapes = "tensors (n, m) -> (n, m, count)",
    example = "ml.dstack({ml.zeros(2, 3), ml.ones(2, 3)}).shape", gives = "(2, 3, 2)" },
  column_stack = { "Concatenation along dimension 2; vectors are columns.",
    args = { tensors = "the tensors, in order" },
    shapes = "tensors (n) -> (n, count)",
    example = "ml.column_stack({ml.tensor {1, 2}, ml.tensor {3, 4}})",
    gives = [[
{{1, 3},
 {2, 4}}
Tensor (2, 2) int64]] },
  block_diag = { "Block diagonal matrix of the given matrices, zeros elsewhere. Vectors and numbers are rows.",
    args = { tensors = "the blocks, in order" },
    shapes = "tensors (n_i, m_i) -> (sum_i n_i, sum_i m_i)",
    example = "ml.block_diag({ml.tensor {{1, 2}}, ml.tensor {{3}, {4}}})",
    gives = [[
{{1, 2, 0},
 {0, 0, 3},
 {0, 0, 4}}
Tensor (3, 3) int64]] },
  broadcast_tensors = { "Views of the tensors, expanded to the shape that all broadcast to.",
    args = { tensors = "the tensors" },
    shapes = "tensors (*) -> table of (size)",
    example = "a, b = table.unpack(ml.broadcast_tensors({ml.tensor {{1}, {2}}, ml.tensor {3, 4}})); a",
    gives = [[
{{1, 1},
 {2, 2}}
Tensor (2, 2) int64]] },
  atleast_1d = { [[Views of the tensors with at least 1 dimension: a number becomes a vector. A table for a table
or several tensors.]],
    args = { tensors = "the tensors" },
    shapes = "tensors () -> table of (1)",
    example = "a, b = table.unpack(ml.atleast_1d({ml.tensor(5), ml.tensor {1, 2}})); a",
    gives = [[
{5}
Tensor (1,) int64]] },
  atleast_2d = { [[Views of the tensors with at least 2 dimensions: new ones come in front, so a vector becomes a
row. A table for a table or several tensors.]],
    args = { tensors = "the tensors" },
    shapes = "tensors (n) -> table of (1, n)",
    example = "a, b = table.unpack(ml.atleast_2d({ml.tensor(5), ml.tensor {1, 2}})); b",
    gives = [[
{{1, 2}}
Tensor (1, 2) int64]] },
  atleast_3d = { [[Views of the tensors with at least 3 dimensions: a vector becomes (1, n, 1), a matrix (n, m,
1). A table for a table or several tensors.]],
    args = { tensors = "the tensors" },
    shapes = "tensors (n, m) -> table of (n, m, 1)",
    example = "a, b = table.unpack(ml.atleast_3d({ml.zeros(2), ml.zeros(2, 3)})); a.shape, b.shape",
    gives = "(1, 2, 1)	(2, 3, 1)" },
  atleast_1d_one = { "View of one tensor with at least 1 dimension.",
    shapes = "x () -> (1)",
    example = "ml.atleast_1d(ml.tensor(5))",
    gives = [[
{5}
Tensor (1,) int64]] },
  atleast_2d_one = { "View of one tensor with at least 2 dimensions.",
    shapes = "x (n) -> (1, n)",
    example = "ml.atleast_2d(ml.tensor {1, 2})",
    gives = [[
{{1, 2}}
Tensor (1, 2) int64]] },
  atleast_3d_one = { "View of one tensor with at least 3 dimensions.",
    shapes = "x (n, m) -> (n, m, 1)",
    example = "ml.atleast_3d(ml.zeros(2, 3)).shape", gives = "(2, 3, 1)" },
  cartesian_prod = { [[Cartesian product of vectors: all combinations of one element from each, as rows, the last
vector varying fastest. One vector alone is returned as it is.]],
    args = { tensors = "the vectors" },
    shapes = "tensors (n_i) -> (prod_i n_i, count)",
    example = "ml.cartesian_prod({ml.tensor {1, 2}, ml.tensor {3, 4}})",
    gives = [[
{{1, 3},
 {1, 4},
 {2, 3},
 {2, 4}}
Tensor (4, 2) int64]] },
  combinations = { "Combinations of `r` elements of a vector, as rows, each in the order of `x`.",
    args = { x = "a vector",
             r = "how many elements a combination has",
             with_replacement = "whether an element may come several times" },
    shapes = "x (n) -> (count, r)",
    example = "ml.combinations(ml.tensor {1, 2, 3})",
    gives = [[
{{1, 2},
 {1, 3},
 {2, 3}}
Tensor (3, 2) int64]] },
  meshgrid = { [[Coordinates of a grid: for vectors of sizes n1, n2, ... as many tensors of shape (n1, n2,
...), the i-th of which varies along dimension i. The results are views.]],
    args = { tensors = "the vectors",
             indexing = '"ij", or "xy", with which the first two dimensions are exchanged' },
    shapes = "tensors (n_i) -> table of (n1, n2, ...)",
    example = "a, b = table.unpack(ml.meshgrid({ml.tensor {1, 2}, ml.tensor {3, 4, 5}})); a, b",
    gives = [[
{{1, 1, 1},
 {2, 2, 2}}
Tensor (2, 3) int64
{{3, 4, 5},
 {3, 4, 5}}
Tensor (2, 3) int64]] },
  tile = { "`x` repeated along its dimensions, as a copy.",
    args = { reps = "how often each dimension is repeated; missing ones at the front count as 1, more than " ..
               "dimensions give new ones in front" },
    shapes = "x (n_i) -> (reps_i * n_i)",
    example = "ml.tile(ml.tensor {1, 2}, {2, 2})",
    gives = [[
{{1, 2, 1, 2},
 {1, 2, 1, 2}}
Tensor (2, 4) int64]] },
  repeat_interleave = { [[Elements of `x` repeated one after another: each index of `dim` `repeats` times, or each
element of flattened `x`. `repeat_interleave(repeats)` of a tensor alone gives the indices (from 1)
themselves.]],
    args = { repeats = "how often: a number for all, or a tensor with one for each index",
             dim = "the dimension whose indices are repeated; flattened `x` unless given",
             output_size = "the size of the result along `dim` where it is known, which spares reading the " ..
               "repeats back from a device" },
    shapes = "x (*, n, *) -> (*, n * repeats, *)",
    example = "ml.repeat_interleave(ml.tensor {1, 2}, 3)",
    gives = [[
{1, 1, 1, 2, 2, 2}
Tensor (6,) int64]] },
  repeat_interleave_each = { "Elements of `x` repeated one after another, each index as often as a tensor says.",
    args = { repeats = "an integer for each index, or one for all",
             dim = "the dimension whose indices are repeated; flattened `x` unless given",
             output_size = "the size of the result along `dim` where it is known" },
    shapes = "x (*, n, *), repeats (n) -> (*, sum_i repeats_i, *)",
    example = "ml.repeat_interleave(ml.tensor {5, 6}, ml.tensor {1, 2})",
    gives = [[
{5, 6, 6}
Tensor (3,) int64]] },
  repeat_interleave_positions = { "Indices (from 1), each as often as `repeats` says.",
    args = { repeats = "how often each index comes" },
    shapes = "repeats (n) -> (sum_i repeats_i)",
    example = "ml.repeat_interleave(ml.tensor {1, 0, 3})",
    gives = [[
{1, 3, 3, 3}
Tensor (4,) int64]] },
  constant_pad = { "`x` with a border of one value.",
    args = { pad = "pairs (before, after) for the last dimension, then the one before it, and so on; negative " ..
               "numbers cut instead",
             value = "the value of the border" },
    shapes = "x (*, n) -> (*, pad_1 + n + pad_2)",
    example = "ml.constant_pad(ml.tensor {1, 2, 3}, {1, 2}, 9)",
    gives = [[
{9, 1, 2, 3, 9, 9}
Tensor (6,) int64]] },
  pad = { "`x` with a border.",
    args = { pad = "pairs (before, after) for the last dimension, then the one before it, and so on; negative " ..
               "numbers cut instead",
             mode = 'what the border holds: "constant" `value`; "reflect" the elements mirrored at the edge, which is not repeated; "replicate" the edge; "circular" the elements of the other side',
             value = "the value of a constant border" },
    shapes = "x (*, n) -> (*, pad_1 + n + pad_2)",
    example = 'ml.pad(ml.tensor {{1, 2, 3}}, {2, 1}, "reflect")',
    gives = [[
{{3, 2, 1, 2, 3, 2}}
Tensor (1, 6) int64]] },
  flip = { "`x` with the order of the indices reversed along some dimensions, as a copy.",
    args = { dims = "the dimensions, one or a table" },
    shapes = "x (*) -> (*)",
    example = "ml.flip(ml.tensor {{1, 2, 3}}, 2)",
    gives = [[
{{3, 2, 1}}
Tensor (1, 3) int64]] },
  fliplr = { "`x` with its columns (dimension 2) in reverse order, as a copy.",
    args = { x = "a tensor of at least 2 dimensions" },
    shapes = "x (n, m, *) -> (n, m, *)",
    example = "ml.fliplr(ml.tensor {{1, 2, 3}})",
    gives = [[
{{3, 2, 1}}
Tensor (1, 3) int64]] },
  flipud = { "`x` with its rows (dimension 1) in reverse order, as a copy.",
    args = { x = "a tensor of at least 1 dimension" },
    shapes = "x (n, *) -> (n, *)",
    example = "ml.flipud(ml.tensor {1, 2, 3})",
    gives = [[
{3, 2, 1}
Tensor (3,) int64]] },
  rot90 = { [[`x` rotated by multiples of 90 degrees in the plane of two dimensions, from the first towards
the second, as a copy.]],
    args = { k = "how many times 90 degrees; negative in the other direction",
             dims = "the two dimensions of the plane" },
    shapes = "x (n, m, *) -> (m, n, *)",
    example = "ml.rot90(ml.tensor {{1, 2}, {3, 4}})",
    gives = [[
{{2, 4},
 {1, 3}}
Tensor (2, 2) int64]] },
  roll = { "`x` with its elements moved along some dimensions; those that leave at one end come back at the other.",
    args = { shifts = "by how many indices: one number, or one for each of `dims`",
             dims = "the dimensions; without them the flattened tensor is rolled" },
    shapes = "x (*) -> (*)",
    example = "ml.roll(ml.tensor {1, 2, 3, 4}, 1)",
    gives = [[
{4, 1, 2, 3}
Tensor (4,) int64]] },
  select_scatter = { "Copy of `x` with one index of a dimension replaced by `src`.",
    args = { src = "the new slice, without the dimension",
             index = "the index, from 1; negative counts from the end" },
    shapes = "x (*, n, *), src (*, *) -> (*, n, *)",
    example = "ml.select_scatter(ml.zeros(2, 2), ml.tensor {1.0, 2}, 1, 2)",
    gives = [[
{{0., 0.},
 {1., 2.}}
Tensor (2, 2) float32]] },
  slice_scatter = { "Copy of `x` with a range of a dimension, both ends included, replaced by `src`.",
    args = { src = "the new slice",
             start = "the first index, from 1; negative counts from the end",
             ["end"] = "the last index, included; the last of the dimension unless given",
             step = "the distance of neighbours" },
    shapes = "x (*, n, *), src (*, k, *) -> (*, n, *)",
    example = "ml.slice_scatter(ml.zeros(4), ml.tensor {1.0, 2}, 1, 2, 3)",
    gives = [[
{0., 1., 2., 0.}
Tensor (4,) float32]] },
  diagonal_scatter = { "Copy of `x` with a diagonal replaced by `src`.",
    args = { src = "the new diagonal, of the shape that `diagonal` shows",
             offset = "the number of the diagonal: 0 is the main one, 1 the next above it, -1 the next below",
             dim1 = "the dimension of the rows",
             dim2 = "the dimension of the columns" },
    shapes = "x (n, m, *), src (*, k) -> (n, m, *)",
    example = "ml.diagonal_scatter(ml.zeros(2, 2), ml.tensor {1.0, 2})",
    gives = [[
{{1., 0.},
 {0., 2.}}
Tensor (2, 2) float32]] },
  as_strided_scatter = { [[Copy of `x` with the elements that `as_strided` of that size and stride shows replaced by
`src`. Offsets count from the start of the copy, which is row-major.]],
    args = { src = "the new elements",
             size = "the shape of `src`",
             stride = "for each dimension, how many elements lie between neighbours",
             storage_offset = "how many elements come before the first one; 0 unless given" },
    shapes = "x (*), src (size) -> (*)",
    example = "ml.as_strided_scatter(ml.zeros(4), ml.tensor {1.0, 2}, {2}, {2})",
    gives = [[
{1., 0., 2., 0.}
Tensor (4,) float32]] },
}
