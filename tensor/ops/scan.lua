-- tensor/ops/scan.lua: running sums and products.

op { "cumsum(Tensor x, Dim dim, DType? dtype=nil) -> Tensor",
     inplace = true, kind = "structured", autocast = { cuda = "float32" }, dtypes = "all",
     grad = { x = "flip(cumsum(flip(g, Dims{dim}), dim), Dims{dim})" },
     doc = [[Running sums along `dim`. Bools and integers are summed in int64.]],
     sample = { "randn(3, 4), 2", "randn(3, 4), 1" } }

op { "cumprod(Tensor x, Dim dim, DType? dtype=nil) -> Tensor",
     inplace = true, kind = "structured", autocast = { cuda = "float32" }, dtypes = "boolean+real",
     grad = { x = "cumprod_grad_x(g, x, dim)" },
     doc = [[Running products along `dim`.]],
     sample = { "randn(3, 4), 2", "randn(3, 4), 1" } }
