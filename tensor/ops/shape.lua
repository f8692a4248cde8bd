-- tensor/ops/shape.lua: rows of the ops that move or share elements without changing them: views,
-- reshaping, joining and splitting, padding, flipping.

local text = require "tensor.ops.text.shape"

-- Views: other sizes and strides on the same storage.

op { "view(Tensor x, int[] size) -> Tensor",
     vmap = "view", kind = "view",
     grad = { x = "reshape(g, sizes_of(x))" },
     doc = text.view,
     sample = { "randn(3, 4), {2, 6}", "randn(3, 4), {2, -1}", "randn(6), {3, 1, 2}" },
     torch = "args[0].view(args[1])",
     check = { noncontiguous = "a view of some layouts does not exist" } }

op { "as_strided(Tensor x, int[] size, int[] stride, int? offset=nil) -> Tensor",
     kind = "composite", inplace = "view",
     doc = text.as_strided,
     sample = { "randn(3, 4), {2, 2}, {4, 1}, 1", "randn(6), {4, 3}, {1, 1}" },
     torch = "torch.as_strided(*args)",
     check = { noncontiguous = "it shows the storage, not the elements in order" } }

op { [[strided_view(Tensor x, int[] size, int[] stride, int offset, int[] x_stride,
                    int x_offset) -> Tensor]],
     vmap = "strided_view", kind = "view", method = false, func = false,
     grad = { x = "formulas::as_strided_grad_x(g, sizes_of(x), x_stride, x_offset, size, stride, offset)" },
     doc = [[The view of `as_strided`; the strides and the offset of `x` are kept for the derivative.]] }

op { "expand(Tensor x, int[] size) -> Tensor",
     vmap = "expand", kind = "view",
     grad = { x = "g" },
     doc = text.expand,
     sample = { "randn(3, 1), {3, 4}", "randn(3, 1), {2, -1, 4}", "randn(4), {2, 4}" },
     torch = "args[0].expand(args[1])" }

op { "view_as_dtype(Tensor x, DType dtype) -> Tensor",
     vmap = "dims", kind = "view", overload_of = "view",
     doc = text.view_as_dtype,
     sample = { "randn(3, 4), ml.int32", "randn(3, 4), ml.int16", "randn(2, 4), ml.complex64" },
     torch = "args[0].view(getattr(torch, args[1]))",
     check = { dtypes = "one dtype read as another", empty = "the last dimension must fit",
               noncontiguous = "elements must lie side by side" } }

op { "permute(Tensor x, Dim[] dims) -> Tensor",
     vmap = "permute", kind = "view",
     grad = { x = "formulas::permute_grad_x(g, dims)" },
     doc = text.permute,
     sample = { "randn(2, 3, 4), {3, 1, 2}", "randn(2, 3), {-1, 1}" } }

op { "transpose(Tensor x, Dim dim0, Dim dim1) -> Tensor",
     vmap = "dims", kind = "view", inplace = "view",
     grad = { x = "transpose(g, dim0, dim1)" }, alias = { "swapaxes", "swapdims" },
     doc = text.transpose,
     sample = { "randn(3, 4), 1, 2", "randn(2, 3, 4), 1, -1" } }

op { "t(Tensor x) -> Tensor",
     vmap = "t", kind = "view", inplace = "view",
     grad = { x = "t(g)" },
     doc = text.t,
     sample = { "randn(3, 4)", "randn(3)" } }

op { "adjoint(Tensor x) -> Tensor",
     kind = "composite", dtypes = "all",
     doc = text.adjoint,
     sample = { "randn(3, 4)", "randn(2, 3, 4)" } }

op { "squeeze(Tensor x, Dim[]? dim=nil) -> Tensor",
     vmap = "dims", kind = "view", inplace = "view",
     grad = { x = "reshape(g, sizes_of(x))" },
     doc = text.squeeze,
     sample = { "randn(3, 1, 4, 1)", "randn(3, 1, 4, 1), 2", "randn(3, 1, 4, 1), {1, -1}",
                "randn(3, 1), {}" } }

op { "unsqueeze(Tensor x, NewDim dim) -> Tensor",
     vmap = "dims", kind = "view", inplace = "view",
     grad = { x = "reshape(g, sizes_of(x))" },
     doc = text.unsqueeze,
     sample = { "randn(3, 4), 1", "randn(3, 4), 2", "randn(3, 4), -1" } }

op { "select(Tensor x, Dim dim, Index index) -> Tensor",
     vmap = "dims", kind = "view",
     grad = { x = "formulas::select_grad_x(so_far, g, sizes_of(x), dim, index)" },
     doc = text.select,
     sample = { "randn(3, 4), 1, 2", "randn(3, 4), 2, -1" } }

op { "slice(Tensor x, Dim dim, Index start, int stop, int step=1) -> Tensor",
     vmap = "dims", kind = "view",
     grad = { x = "formulas::slice_grad_x(so_far, g, sizes_of(x), dim, start, stop, step)" },
     doc = text.slice,
     sample = { "randn(5, 4), 1, 2, 4", "randn(3, 7), 2, 2, 7, 2", "randn(5), 1, 3, 2" },
     torch = "args[0][(slice(None),) * args[1] + (slice(*args[2:]),)]" }

op { "diagonal(Tensor x, int offset=0, Dim dim1=0, Dim dim2=1) -> Tensor",
     vmap = "dims", kind = "view",
     grad = { x = "formulas::diagonal_grad_x(so_far, g, sizes_of(x), offset, dim1, dim2)" },
     doc = text.diagonal,
     sample = { "randn(3, 4)", "randn(3, 4), 1", "randn(3, 4), -1", "randn(2, 3, 4), 0, 1, 3" } }

op { "unfold(Tensor x, Dim dim, int size, int step) -> Tensor",
     vmap = "dims", kind = "view",
     grad = { x = "formulas::unfold_grad_x(g, sizes_of(x), dim, size, step)" },
     doc = text.unfold,
     sample = { "randn(7), 1, 3, 2", "randn(2, 5), 2, 3, 1", "randn(4, 2), 1, 2, 2" },
     torch = "args[0].unfold(*args[1:])",
     check = { empty = "windows must fit" } }

op { "view_as_real(Tensor x) -> Tensor",
     vmap = "dims", linear = true, kind = "view", dtypes = "complex",
     grad = { x = "view_as_complex(contiguous(g))" },
     doc = text.view_as_real,
     sample = { "view_as_complex(randn(3, 2))" } }

op { "view_as_complex(Tensor x) -> Tensor",
     vmap = "dims", linear = true, kind = "view", autocast = { host = "float32" }, dtypes = "floating",
     grad = { x = "view_as_real(g)" },
     doc = text.view_as_complex,
     sample = { "randn(3, 2)" },
     check = { noncontiguous = "the pairs must lie side by side",
               dtypes = "float16 and bfloat16 have no complex type" } }

-- What the gradients of views are made of: zeros with a tensor laid into the view.

op { "select_grad_x(Tensor grad, int[] size, NewDim dim, Index index) -> Tensor",
     vmap = "sized", linear = true, kind = "structured", dtypes = "any",
     grad = { grad = "select(g, dim, index)" }, internal = true,
     doc = [[Zeros of shape `size` with `grad` at index `index` of `dim`: the gradient of
`select`.]],
     sample = { "randn(4), {3, 4}, 1, 2", "randn(3), {3, 4}, 2, -1" },
     torch = "torch.ops.aten.select_backward(*args)",
     check = { empty = "the position must exist" } }

op { "slice_grad_x(Tensor grad, int[] size, Dim dim, Index start, int stop, int step=1) -> Tensor",
     vmap = "sized", linear = true, kind = "structured", dtypes = "any",
     grad = { grad = "slice(g, dim, start, stop, step)" }, internal = true,
     doc = [[Zeros of shape `size` with `grad` at indices `start` to `stop` of `dim`, each
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
     doc = text.reshape,
     sample = { "randn(3, 4), {2, 6}", "randn(3, 4), {-1}", "randn(2, 3, 4), {4, -1}" } }

op { "flatten(Tensor x, Dim start_dim=0, Dim end_dim=-1) -> Tensor",
     kind = "composite",
     doc = text.flatten,
     sample = { "randn(2, 3, 4)", "randn(2, 3, 4), 2", "randn(2, 3, 4), 1, 2" } }

op { "unflatten(Tensor x, Dim dim, int[] sizes) -> Tensor",
     kind = "composite",
     doc = text.unflatten,
     sample = { "randn(6, 2), 1, {2, 3}", "randn(2, 6), -1, {-1, 2}" },
     check = { empty = "the sizes must fit" } }

op { "narrow(Tensor x, Dim dim, Index start, int length) -> Tensor",
     kind = "composite",
     doc = text.narrow,
     sample = { "randn(5, 3), 1, 2, 3", "randn(2, 4), 2, -2, 2" } }

op { "narrow_from(Tensor x, Dim dim, Positions start, int length) -> Tensor",
     kind = "composite", overload_of = "narrow",
     doc = text.narrow_from,
     sample = { "randn(5, 3), 1, tensor(2), 3" } , torch = "torch.narrow(*args)",
     check = { empty = "the positions must exist" } }

op { "narrow_copy(Tensor x, Dim dim, Index start, int length) -> Tensor",
     out = true, kind = "composite",
     doc = text.narrow_copy,
     sample = { "randn(5, 3), 1, 2, 3", "randn(2, 4), 2, -2, 2" } }

op { "movedim(Tensor x, Dim[] source, Dim[] destination) -> Tensor",
     kind = "composite", alias = { "moveaxis" },
     doc = text.movedim,
     sample = { "randn(2, 3, 4), 1, 3", "randn(2, 3, 4), {1, 2}, {3, 1}", "randn(2, 3), {}, {}" } }

op { "broadcast_to(Tensor x, int[] size) -> Tensor",
     kind = "composite",
     doc = text.broadcast_to,
     sample = { "randn(3, 1), {2, 3, 4}" } }

op { "expand_as(Tensor x, Tensor other) -> Tensor",
     kind = "composite",
     doc = text.expand_as,
     sample = { "randn(3, 1), randn(3, 4)" },
     torch = "args[0].expand_as(args[1])",
     check = { grad = "the second argument gives only its shape", gradgrad = "as grad" } }

op { "view_as(Tensor x, Tensor other) -> Tensor",
     kind = "composite",
     doc = text.view_as,
     sample = { "randn(3, 4), randn(2, 6)" },
     torch = "args[0].view_as(args[1])",
     check = { grad = "the second argument gives only its shape", gradgrad = "as grad",
               noncontiguous = "a view of some layouts does not exist" } }

op { "reshape_as(Tensor x, Tensor other) -> Tensor",
     kind = "composite",
     doc = text.reshape_as,
     sample = { "randn(3, 4), randn(2, 6)" },
     torch = "args[0].reshape_as(args[1])",
     check = { grad = "the second argument gives only its shape", gradgrad = "as grad" } }

-- Taking apart.

op { "split(Tensor x, int size, Dim dim=0) -> Tensor[]",
     kind = "composite",
     doc = text.split,
     sample = { "randn(5, 3), 2" },
     torch = "torch.split(*args)" }

op { "split_with_sizes(Tensor x, int[*] size, Dim dim=0) -> Tensor[]",
     kind = "composite", overload_of = "split",
     doc = text.split_with_sizes,
     sample = { "randn(3, 5), {1, 4}, 2", "randn(3, 2), {3}" },
     torch = "torch.split(*args)" }

op { "tensor_split(Tensor x, int indices_or_sections, Dim dim=0) -> Tensor[]",
     kind = "composite",
     doc = text.tensor_split,
     sample = { "randn(7, 2), 3", "randn(2, 3), 5, 2" } }

op { "tensor_split_at(Tensor x, Index[*] indices_or_sections, Dim dim=0) -> Tensor[]",
     kind = "composite", overload_of = "tensor_split",
     doc = text.tensor_split_at,
     sample = { "randn(7, 2), {2, 4}", "randn(2, 5), {2, -1, 20}, 2" },
     torch = "torch.tensor_split(*args)" }

op { "tensor_split_by(Tensor x, Positions indices_or_sections, Dim dim=0) -> Tensor[]",
     kind = "composite", overload_of = "tensor_split",
     doc = text.tensor_split_by,
     sample = { "randn(7, 2), tensor({2, 4})" },
     torch = "torch.tensor_split(*args)" }

for _, name in ipairs { "hsplit", "vsplit", "dsplit" } do
  op { name .. "(Tensor x, int indices_or_sections) -> Tensor[]",
       kind = "composite",
       doc = text[name],
       sample = { "randn(2, 4, 6), 2" } }
  op { name .. "_at(Tensor x, Index[*] indices_or_sections) -> Tensor[]",
       kind = "composite", overload_of = name, gather = false, doc = text[name .. "_at"],
       sample = { "randn(4, 4, 5), {2, 4}" },
       torch = ("torch.%s(*args)"):format(name) }
end

op { "chunk(Tensor x, int chunks, Dim dim=0) -> Tensor[]",
     kind = "composite",
     doc = text.chunk,
     sample = { "randn(5, 3), 2", "randn(3, 7), 3, 2" } }

op { "unbind(Tensor x, Dim dim=0) -> Tensor[]",
     kind = "composite",
     doc = text.unbind,
     sample = { "randn(3, 4)", "randn(3, 2), 2" } }

-- Putting together.

op { "cat(Tensor[] tensors, Dim dim=0) -> Tensor",
     vmap = "cat", linear = true, kind = "structured", dtypes = "any", autocast = { host = "promote" },
     grad = { tensors = "formulas::cat_grad_tensors(g, sizes_of(tensors), dim)" }, method = false,
     alias = { "concat", "concatenate" },
     doc = text.cat,
     sample = { "{randn(2, 3), randn(1, 3)}", "{randn(3, 2), randn(3, 1), randn(3, 3)}, 2",
                "{zeros(0), randn(2, 3), zeros(0)}" } }

op { "stack(Tensor[] tensors, NewDim dim=0) -> Tensor",
     out = true, kind = "composite", autocast = { host = "promote" }, method = false,
     doc = text.stack,
     sample = { "{randn(3), randn(3)}", "{randn(2, 3), randn(2, 3)}, -1" } }

op { "hstack(Tensor[] tensors) -> Tensor",
     out = true, kind = "composite", method = false,
     doc = text.hstack,
     sample = { "{randn(3, 2), randn(3, 1)}", "{randn(3), randn(2)}" } }

op { "vstack(Tensor[] tensors) -> Tensor",
     out = true, kind = "composite", method = false, alias = { "row_stack" },
     doc = text.vstack,
     sample = { "{randn(2, 3), randn(1, 3)}", "{randn(3), randn(3)}" } }

op { "dstack(Tensor[] tensors) -> Tensor",
     out = true, kind = "composite", method = false,
     doc = text.dstack,
     sample = { "{randn(2, 3), randn(2, 3)}", "{randn(3), randn(3)}", "{randn(2, 3, 1), randn(2, 3, 2)}" } }

op { "column_stack(Tensor[] tensors) -> Tensor",
     out = true, kind = "composite", method = false,
     doc = text.column_stack,
     sample = { "{randn(3), randn(3, 2)}", "{randn(2), randn(2)}" } }

op { "block_diag(Tensor[] tensors) -> Tensor",
     vmap = "block_diag", kind = "structured",
     grad = { tensors = "formulas::block_diag_grad_tensors(g, sizes_of(tensors))" }, method = false,
     doc = text.block_diag,
     sample = { "{randn(2, 3), randn(2), randn(3, 1)}", "{randn(2, 2), tensor(1.5)}" },
     torch = "torch.block_diag(*args[0])" }

op { "broadcast_tensors(Tensor[] tensors) -> Tensor[]",
     kind = "composite", method = false,
     doc = text.broadcast_tensors,
     sample = { "{randn(3, 1), randn(4)}", "{randn(2, 1, 3), randn(4, 1), tensor(0.5)}" },
     torch = "torch.broadcast_tensors(*args[0])" }

for rank = 1, 3 do
  local name = ("atleast_%dd"):format(rank)
  op { name .. "(Tensor[] tensors) -> Tensor[]",
       kind = "composite", method = false,
       doc = text[name],
       sample = { "{tensor(1.5), randn(3), randn(2, 3), randn(1, 2, 1, 2)}" },
       torch = ("torch.%s(*args[0])"):format(name) }
  op { name .. "_one(Tensor x) -> Tensor",
       kind = "composite", overload_of = name, doc = text[name .. "_one"],
       sample = { "randn(3)", "tensor(0.5)" }, torch = ("torch.%s(*args)"):format(name) }
end

op { "cartesian_prod(Tensor[] tensors) -> Tensor",
     kind = "composite", method = false,
     doc = text.cartesian_prod,
     sample = { "{randn(2), randn(3)}", "{randn(2), randn(1), randn(2)}", "{randn(3)}" },
     torch = "torch.cartesian_prod(*args[0])" }

op { "combinations(Tensor x, int r=2, bool with_replacement=false) -> Tensor",
     kind = "composite",
     doc = text.combinations,
     sample = { "randn(4)", "randn(4), 3", "randn(3), 2, true", "randn(2), 3", "randn(3), 0" } }

op { "meshgrid(Tensor[] tensors, string indexing=\"ij\") -> Tensor[]",
     kind = "composite", method = false,
     doc = text.meshgrid,
     sample = { "{randn(2), randn(3)}", "{randn(2), randn(3)}, \"xy\"" },
     torch = "torch.meshgrid(*args[0], indexing=args[1] if len(args) > 1 else 'ij')" }

op { "tile(Tensor x, int[] reps) -> Tensor",
     kind = "composite",
     doc = text.tile,
     sample = { "randn(2, 3), {2}", "randn(2, 3), {2, 1}", "randn(3), {2, 2}" } }

op { "repeat_interleave(Tensor x, int repeats, Dim? dim=nil, int? output_size=nil) -> Tensor",
     kind = "composite",
     doc = text.repeat_interleave,
     sample = { "randn(2, 3), 2", "randn(2, 3), 2, 1", "randn(2, 3), 3, 2" } }

op { [[repeat_interleave_each(Tensor x, Tensor repeats, Dim? dim=nil,
                              int? output_size=nil) -> Tensor]],
     kind = "composite", overload_of = "repeat_interleave", mixed = true,
     doc = text.repeat_interleave_each,
     sample = { "randn(2, 3), tensor({1, 0, 2, 1, 1, 3})", "randn(2, 3), tensor({2, 0}), 1",
                "randn(2, 3), tensor({2}), 2", "randn(2, 3), tensor({1, 0, 2}), 2, 3" },
     torch = "torch.repeat_interleave(*args[:3], **({'output_size': args[3]} if len(args) > 3 else {}))",
     check = { dtypes = "repeats are integers", empty = "repeats must fit" } }

op { "repeat_interleave_positions(Tensor repeats) -> Tensor",
     kind = "composite", overload_of = "repeat_interleave", dtypes = "integral",
     doc = text.repeat_interleave_positions,
     sample = { "tensor({1, 0, 3, 2})" },
     torch = "torch.repeat_interleave(*args) + 1" }

-- Padding, flipping, rolling.

op { "constant_pad(Tensor x, int[*] pad, Scalar value=0) -> Tensor",
     vmap = "dims", kind = "structured", dtypes = "any",
     grad = { x = "constant_pad(g, formulas::negated(pad), 0)" },
     doc = text.constant_pad,
     sample = { "randn(2, 3), {1, 2}", "randn(2, 3), {1, 0, -1, 2}, 0.5" },
     torch = "F.pad(args[0], args[1], 'constant', *args[2:])",
     check = { empty = "the cut must fit" } }

op { "pad(Tensor x, int[*] pad, string mode=\"constant\", Scalar value=0) -> Tensor",
     kind = "composite",
     doc = text.pad,
     sample = { "randn(2, 3), {1, 2}", "randn(2, 3, 4), {1, 2}, \"reflect\"",
                "randn(2, 3, 4), {1, 2}, \"replicate\"", "randn(2, 3, 4), {1, 2}, \"circular\"" },
     torch = "F.pad(*args)",
     check = { empty = "an edge must exist" } }

op { "flip(Tensor x, Dim[] dims) -> Tensor",
     vmap = "dims", linear = true, kind = "structured", dtypes = "any",
     grad = { x = "flip(g, dims)" },
     doc = text.flip,
     sample = { "randn(3, 4), 1", "randn(3, 4), {1, 2}", "randn(3, 4), {}" },
     torch = "torch.flip(args[0], args[1] if isinstance(args[1], (list, tuple)) else [args[1]])" }

op { "fliplr(Tensor x) -> Tensor",
     kind = "composite",
     doc = text.fliplr,
     sample = { "randn(2, 3)", "randn(2, 3, 2)" } }

op { "flipud(Tensor x) -> Tensor",
     kind = "composite",
     doc = text.flipud,
     sample = { "randn(3)", "randn(3, 2)" } }

op { "rot90(Tensor x, int k=1, Dim[] dims={0, 1}) -> Tensor",
     kind = "composite",
     doc = text.rot90,
     sample = { "randn(2, 3)", "randn(2, 3), 2", "randn(2, 3, 2), -1, {2, 3}", "randn(2, 3), 4", "randn(2, 3), 3, {2, 1}" } }

op { "roll(Tensor x, int[] shifts, Dim[] dims={}) -> Tensor",
     kind = "composite",
     doc = text.roll,
     sample = { "randn(3, 4), 2", "randn(3, 4), 1, 2", "randn(3, 4), {1, -1}, {1, 2}", "randn(3, 4), 2, {}" } }

-- A copy of x with another tensor laid into one of its views.

op { "select_scatter(Tensor x, Tensor src, Dim dim, Index index) -> Tensor",
     kind = "composite",
     doc = text.select_scatter,
     sample = { "randn(3, 4), randn(4), 1, 2", "randn(3, 4), randn(3), 2, -1" },
     check = { empty = "the position must exist" } }

op { [[slice_scatter(Tensor x, Tensor src, Dim dim=0, Index start=0, int? end=nil,
                     int step=1) -> Tensor]],
     kind = "composite",
     doc = text.slice_scatter,
     sample = { "randn(5, 2), randn(3, 2), 1, 2, 4", "randn(2, 7), randn(2, 3), 2, 2, 7, 2",
                "randn(3, 2), randn(3, 2)" },
     torch = "torch.slice_scatter(*args)",
     check = { empty = "the positions must exist" } }

op { "diagonal_scatter(Tensor x, Tensor src, int offset=0, Dim dim1=0, Dim dim2=1) -> Tensor",
     kind = "composite",
     doc = text.diagonal_scatter,
     sample = { "randn(3, 4), randn(3)", "randn(3, 4), randn(2), -1", "randn(2, 3, 4), randn(3, 2), 0, 1, 3" },
     check = { empty = "the shapes must agree" } }

op { [[as_strided_scatter(Tensor x, Tensor src, int[] size, int[] stride,
                          int? storage_offset=nil) -> Tensor]],
     kind = "composite",
     doc = text.as_strided_scatter,
     sample = { "randn(3, 4), randn(2, 2), {2, 2}, {4, 1}, 1", "randn(6), randn(3), {3}, {2}" },
     check = { empty = "the elements must exist" } }
