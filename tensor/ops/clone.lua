-- tensor/ops/clone.lua: copies in memory of their own.

op { "clone(Tensor x, MemoryFormat? memory_format=nil) -> Tensor",
     vmap = "copied", linear = true, kind = "structured", dtypes = "any", grad = { x = "g" },
     doc = [[Copy of `x` in dense memory of its own, in the order of the strides of `x` or in
`memory_format`. Differentiable: the gradient goes to `x`.]],
     shapes = "x (*) -> (*)",
     example = "a = ml.tensor {1, 2}; b = a:clone(); b[1] = 9; a",
     gives = [[
{1, 2}
Tensor (2,) int64]],
     sample = { "randn(3, 4)" } }

op { "contiguous(Tensor x, MemoryFormat? memory_format=nil) -> Tensor",
     kind = "composite", dtypes = "any",
     doc = [[`x` itself where its elements lie one after another in row-major order, or in that of
`memory_format`; else a `clone` that does.]],
     shapes = "x (*) -> (*)",
     example = "ml.randn(2, 3):t():contiguous():stride()", gives = "(2, 1)",
     sample = { "randn(3, 4)", "t(randn(3, 4))" }, torch = "args[0].contiguous()" }
