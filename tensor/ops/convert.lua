-- tensor/ops/convert.lua: other dtypes and devices.

op { "convert(Tensor x, DType? dtype, Device? device, MemoryFormat? memory_format) -> Tensor",
     kind = "structured", dtypes = "all", method = false, func = false,
     grad = { x = "to(g, std::nullopt, options_of_(x).device)" },
     doc = [[A copy of `x` with that dtype on that device: what `to` does when there is something to do.]] }

op { [[to(Tensor x, DType? dtype=nil, Device? device=nil,
          MemoryFormat? memory_format=nil) -> Tensor]],
     kind = "composite", dtypes = "all",
     doc = [[`x` as `dtype`, on `device` and in `memory_format`; `x` itself when it is all that already.
Without a format a copy keeps the order of x's strides. Floats outside the range of
int64 saturate and NaN becomes 0; narrower integers keep the low bits.]],
     sample = { "randn(3, 4), ml.float64" }, torch = "args[0].double()", check = { dtypes = "its result has a fixed dtype" } }
