-- tensor/ops/copy.lua: writing over the elements of a tensor: copies and fills.

op { "copy(Tensor! x, Tensor source) -> Tensor",
     vmap = "pointwise", kind = "update", clone = "empty", dtypes = "any", mixed = "device",
     grad = { x = "zero", source = "g" },
     doc = [[Copy of the elements of `source` into `x`: converted to its dtype, broadcast to its shape
and moved to its device. `copy_` writes over `x`; `copy` leaves it and returns a new tensor.]],
     args = { source = "a tensor that broadcasts to the shape of `x`" },
     shapes = "x (*), source (*) -> (*)",
     example = "x = ml.zeros(2, 2); x:copy_(ml.tensor {1, 2})",
     gives = [[
{{1., 2.},
 {1., 2.}}
Tensor (2, 2) float32]],
     sample = { "randn(3, 4), randn(3, 4)", "randn(3, 4), randn(4)" },
     torch = "args[0].clone().copy_(args[1])" }

op { "fill(Tensor! x, Scalar value) -> Tensor",
     vmap = "dims", kind = "update", clone = "empty", dtypes = "any",
     grad = { x = "zero" },
     doc = [[Tensor with every element set to `value`. `fill_` writes over `x`; `fill` returns a new
tensor of its shape.]],
     args = { value = "a number, converted to the dtype of `x`, or a tensor without dimensions" },
     shapes = "x (*) -> (*)",
     example = "ml.zeros(3):fill_(2.5)",
     gives = [[
{2.5000, 2.5000, 2.5000}
Tensor (3,) float32]],
     sample = { "randn(3, 4), 2.5" } }
op { "fill_tensor(Tensor x, Tensor value) -> Tensor",
     inplace = true, kind = "composite", dtypes = "any", overload_of = "fill",
     doc = "Tensor with every element set to the element of a 0-d tensor, on any device.",
     args = { value = "a tensor without dimensions" },
     shapes = "x (*), value () -> (*)",
     example = "ml.zeros(3):fill_(ml.tensor(2.5))",
     gives = [[
{2.5000, 2.5000, 2.5000}
Tensor (3,) float32]],
     torch = "torch.fill(*args)", sample = { "randn(3, 4), tensor(2.5)", "randint(0, 9, {3}), tensor(2.75)" },
     check = { empty = "the value has no dimensions" } }
