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

op { "clone(Tensor x) -> Tensor",
     kind = "structured", dtypes = "all", grad = { x = "g" },
     doc = [[A contiguous copy of `x` with memory of its own.]], sample = { "randn(3, 4)" } }

op { "contiguous(Tensor x) -> Tensor",
     kind = "composite", dtypes = "all",
     doc = [[`x` itself when its elements lie one after another in row-major order, else a `clone`.]],
     sample = { "randn(3, 4)", "t(randn(3, 4))" }, torch = "args[0].contiguous()" }

op { "convert(Tensor x, DType? dtype, Device? device) -> Tensor",
     kind = "structured", dtypes = "all", method = false, func = false,
     grad = { x = "to(g, std::nullopt, options_of_(x).device)" },
     doc = [[A copy of `x` with that dtype on that device: what `to` does when there is something to do.]] }

op { "to(Tensor x, DType? dtype=nil, Device? device=nil) -> Tensor",
     kind = "composite", dtypes = "all",
     doc = [[`x` as `dtype` and on `device`; `x` itself when it is both already. Floats outside the range of
int64 saturate and NaN becomes 0; narrower integers keep the low bits.]],
     sample = { "randn(3, 4), ml.float64" }, torch = "args[0].double()", check = { dtypes = "its result has a fixed dtype" } }
