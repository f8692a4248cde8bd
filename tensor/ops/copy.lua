-- tensor/ops/copy.lua: writing over the elements of a tensor: copies and fills.

op { "copy(Tensor! x, Tensor source) -> Tensor",
     vmap = "pointwise", kind = "update", clone = "empty", dtypes = "any", mixed = "device",
     grad = { x = "zero", source = "g" },
     doc = [[`copy_` writes `source` over `x`: converted to x's dtype, broadcast to its shape, and moved
to its device. `copy` does so on a copy of `x`.]],
     sample = { "randn(3, 4), randn(3, 4)", "randn(3, 4), randn(4)" },
     torch = "args[0].clone().copy_(args[1])" }

op { "fill(Tensor! x, Scalar value) -> Tensor",
     vmap = "dims", kind = "update", clone = "empty", dtypes = "any",
     grad = { x = "zero" },
     doc = [[`fill_` sets every element of `x` to `value`; `fill` gives such a tensor with x's shape.]],
     sample = { "randn(3, 4), 2.5" } }
op { "fill_tensor(Tensor x, Tensor value) -> Tensor",
     inplace = true, kind = "composite", dtypes = "any", overload_of = "fill",
     doc = "With the one element of a tensor of no dimensions, on any device, as the value.",
     torch = "torch.fill(*args)", sample = { "randn(3, 4), tensor(2.5)", "randint(0, 9, {3}), tensor(2.75)" },
     check = { empty = "the value has no dimensions" } }
