-- tensor/ops/convert.lua: other dtypes and devices.

op { "convert(Tensor x, DType? dtype, Device? device, MemoryFormat? memory_format) -> Tensor",
     vmap = "copied", linear = true, kind = "structured", dtypes = "any", method = false, func = false,
     grad = { x = "to(g, std::nullopt, options_of_(x).device)" },
     doc = [[A copy of `x` with that dtype on that device: what `to` does when there is something to do.]] }

op { [[to(Tensor x, DType? dtype=nil, Device? device=nil, MemoryFormat? memory_format=nil,
          bool copy=false, bool non_blocking=false) -> Tensor]],
     kind = "composite", dtypes = "any",
     doc = [[`x` with another dtype, on another device or in another memory format; `x` itself when it
is all that already, unless `copy` is true. Dtype and device may come in either order and alone:
`x:to("cuda", "float16")`, `x:to "cuda"`; behind them `non_blocking` and `copy` may follow, as in
PyTorch. Another tensor can stand for its dtype and device. Floats beyond int64 saturate and NaN becomes
0; narrower integers keep the low bits.]],
     args = { dtype = "the dtype of the result; that of `x` unless given",
              device = "the device of the result; that of `x` unless given",
              memory_format = "the order of the elements of a copy; unless given that of the strides of `x`",
              copy = "whether to copy also where nothing changes",
              non_blocking = "whether not to wait for a copy between pinned memory and a CUDA device; a tensor on " ..
                "the CPU is to be read after its stream has been synchronized" },
     shapes = "x (*) -> (*)",
     example = "ml.tensor({1.7, -1.7}):to(ml.int64)",
     gives = [[
{ 1, -1}
Tensor (2,) int64]],
     sample = { "randn(3, 4), ml.float64", "randn(3, 4), {copy = true}" },
     torch = "args[0].double() if len(args) > 1 else args[0].clone()", check = { dtypes = "its result has a fixed dtype" } }

op { [[to_as(Tensor x, Tensor other, MemoryFormat? memory_format=nil, bool copy=false,
             bool non_blocking=false) -> Tensor]],
     kind = "composite", dtypes = "any", mixed = "device", overload_of = "to",
     doc = "`x` with the dtype and on the device of another tensor.",
     args = { other = "the tensor whose dtype and device are taken",
              memory_format = "the order of the elements of a copy",
              copy = "whether to copy also where nothing changes",
              non_blocking = "whether not to wait for a copy between pinned memory and a CUDA device" },
     shapes = "x (*), other (...) -> (*)",
     example = "ml.tensor({1, 2}):to(ml.zeros(1, {dtype = ml.float64})).dtype", gives = "float64",
     sample = { "randn(3, 4), zeros(2, {dtype = ml.float64})" }, torch = "args[0].to(args[1])",
     check = { dtypes = "its result has a fixed dtype", grad = "the second argument gives only its dtype",
               device = "the second argument gives only its device" } }

op { "type_as(Tensor x, Tensor other) -> Tensor",
     kind = "composite", dtypes = "any", mixed = "device", func = false,
     doc = "`x` with the dtype of `other`, on its device.",
     args = { other = "the tensor whose dtype and device are taken" },
     shapes = "x (*), other (...) -> (*)",
     example = "ml.tensor({1, 2}):type_as(ml.zeros(1))",
     gives = [[
{1., 2.}
Tensor (2,) float32]],
     sample = { "randn(3, 4), zeros(2, {dtype = ml.float64})" }, torch = "args[0].type_as(args[1])",
     check = { dtypes = "its result has a fixed dtype", grad = "the second argument gives only its dtype",
               device = "the second argument gives only its device" } }
