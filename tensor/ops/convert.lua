-- tensor/ops/convert.lua: copying elements between tensors: dtypes, layouts, devices, fills.

op { "copy(Tensor! x, Tensor source) -> Tensor",
     kind = "update", dtypes = "all", mixed = "device",
     grad = { x = "zero", source = "g" },
     doc = [[`copy_` writes `source` over `x`: converted to x's dtype, broadcast to its shape, and moved
to its device. `copy` does so on a copy of `x`.]],
     sample = { "randn(3, 4), randn(3, 4)", "randn(3, 4), randn(4)" },
     torch = "args[0].clone().copy_(args[1])" }

op { "fill(Tensor! x, Scalar value) -> Tensor",
     kind = "update", dtypes = "all",
     grad = { x = "zero" },
     doc = [[`fill_` sets every element of `x` to `value`; `fill` gives such a tensor with x's shape.]],
     sample = { "randn(3, 4), 2.5" } }

op { "clone(Tensor x, MemoryFormat? memory_format=nil) -> Tensor",
     kind = "structured", dtypes = "all", grad = { x = "g" },
     doc = [[A copy of `x` with dense memory of its own, in the order of x's strides or in
`memory_format`.]],
     sample = { "randn(3, 4)" } }

op { "contiguous(Tensor x, MemoryFormat? memory_format=nil) -> Tensor",
     kind = "composite", dtypes = "all",
     doc = [[`x` itself when its elements lie one after another in row-major order, or in the order of
`memory_format`; else a `clone` that does.]],
     sample = { "randn(3, 4)", "t(randn(3, 4))" }, torch = "args[0].contiguous()" }

op { "convert(Tensor x, DType? dtype, Device? device, MemoryFormat? memory_format) -> Tensor",
     kind = "structured", dtypes = "all", method = false, func = false,
     grad = { x = "to(g, std::nullopt, options_of_(x).device)" },
     doc = [[A copy of `x` with that dtype on that device: what `to` does when there is something to do.]] }

op { "to(Tensor x, DType? dtype=nil, Device? device=nil, MemoryFormat? memory_format=nil) -> Tensor",
     kind = "composite", dtypes = "all",
     doc = [[`x` as `dtype`, on `device` and in `memory_format`; `x` itself when it is all that already.
Without a format a copy keeps the order of x's strides. Floats outside the range of
int64 saturate and NaN becomes 0; narrower integers keep the low bits.]],
     sample = { "randn(3, 4), ml.float64" }, torch = "args[0].double()", check = { dtypes = "its result has a fixed dtype" } }
