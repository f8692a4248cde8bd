-- tensor/ops/clone.lua: copies in memory of their own.

op { "clone(Tensor x, MemoryFormat? memory_format=nil) -> Tensor",
     vmap = "copied", linear = true, kind = "structured", dtypes = "any", grad = { x = "g" },
     doc = [[A copy of `x` with dense memory of its own, in the order of x's strides or in
`memory_format`.]],
     sample = { "randn(3, 4)" } }

op { "contiguous(Tensor x, MemoryFormat? memory_format=nil) -> Tensor",
     kind = "composite", dtypes = "any",
     doc = [[`x` itself when its elements lie one after another in row-major order, or in the order of
`memory_format`; else a `clone` that does.]],
     sample = { "randn(3, 4)", "t(randn(3, 4))" }, torch = "args[0].contiguous()" }
