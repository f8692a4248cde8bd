-- tensor/ops/convert.lua: other dtypes and devices.

op { "convert(Tensor x, DType? dtype, Device? device, MemoryFormat? memory_format) -> Tensor",
     vmap = "copied", linear = true, kind = "structured", dtypes = "any", method = false, func = false,
     grad = { x = "to(g, std::nullopt, options_of_(x).device)" },
     doc = [[A copy of `x` with that dtype on that device: what `to` does when there is something to do.]] }

op { [[to(Tensor x, DType? dtype=nil, Device? device=nil, MemoryFormat? memory_format=nil,
          bool copy=false, bool non_blocking=false) -> Tensor]],
     kind = "composite", dtypes = "any",
     doc = [[`x` as `dtype`, on `device` and in `memory_format`; `x` itself when it is all that already,
unless a `copy` is expected. Dtype and device may come in either order, and one of them without the
other: `x:to("cuda", "float16")`, `x:to "cuda"`; behind them `non_blocking` and `copy` may follow, as
PyTorch has it. Another tensor can stand for its dtype and device. Without a format a copy
keeps the order of x's strides. With `non_blocking` nobody waits for a copy from pinned memory to a
CUDA device; one to the CPU gives a pinned tensor, to be read after its stream was waited for. Floats
beyond int64 saturate and NaN becomes 0; narrower integers keep the low bits.]],
     sample = { "randn(3, 4), ml.float64", "randn(3, 4), {copy = true}" },
     torch = "args[0].double() if len(args) > 1 else args[0].clone()", check = { dtypes = "its result has a fixed dtype" } }

op { [[to_as(Tensor x, Tensor other, MemoryFormat? memory_format=nil, bool copy=false,
             bool non_blocking=false) -> Tensor]],
     kind = "composite", dtypes = "any", mixed = "device", overload_of = "to",
     doc = [[The same with the dtype and device of `other`.]],
     sample = { "randn(3, 4), zeros(2, {dtype = ml.float64})" }, torch = "args[0].to(args[1])",
     check = { dtypes = "its result has a fixed dtype", grad = "the second argument gives only its dtype",
               cuda = "the second argument gives only its device" } }

op { "type_as(Tensor x, Tensor other) -> Tensor",
     kind = "composite", dtypes = "any", mixed = "device", func = false,
     doc = [[`x` with the dtype of `other`, on its device.]],
     sample = { "randn(3, 4), zeros(2, {dtype = ml.float64})" }, torch = "args[0].type_as(args[1])",
     check = { dtypes = "its result has a fixed dtype", grad = "the second argument gives only its dtype",
               cuda = "the second argument gives only its device" } }
