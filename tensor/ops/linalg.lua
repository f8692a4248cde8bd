-- tensor/ops/linalg.lua: products of matrices and vectors.

op { "mm(Tensor a, Tensor b) -> Tensor",
     kind = "structured", autocast = "lower_precision", dtypes = "real + complex",
     grad = { a = "mm(g, adjoint(b))", b = "mm(adjoint(a), g)" },
     doc = [[The matrix product of `a` (n, k) and `b` (k, m): (n, m). No broadcasting; see `matmul`.]],
     sample = { "randn(3, 4), randn(4, 2)", "randn(5, 3):t(), randn(5, 4)" } }

op { "bmm(Tensor a, Tensor b) -> Tensor",
     kind = "structured", autocast = "lower_precision", dtypes = "real + complex",
     grad = { a = "bmm(g, adjoint(b))", b = "bmm(adjoint(a), g)" },
     doc = [[One matrix product per batch entry: (b, n, k) times (b, k, m) gives (b, n, m).]],
     sample = { "randn(2, 3, 4), randn(2, 4, 2)" } }

op { "addmm(Tensor input, Tensor a, Tensor b, Scalar beta=1, Scalar alpha=1) -> Tensor",
     inplace = true, kind = "structured", autocast = "lower_precision", dtypes = "real + complex",
     grad = { input = "mul(g, beta)", a = "mul(mm(g, adjoint(b)), alpha)",
              b = "mul(mm(adjoint(a), g), alpha)" },
     doc = [[`beta * input + alpha * a b` for `a` (n, k), `b` (k, m) and an `input` that broadcasts to
(n, m). With `beta` 0 the contents of `input` are not read, so NaN in it does not spread.]],
     sample = { "randn(3, 2), randn(3, 4), randn(4, 2)", "randn(2), randn(3, 4), randn(4, 2)" } }

op { "baddbmm(Tensor input, Tensor a, Tensor b, Scalar beta=1, Scalar alpha=1) -> Tensor",
     inplace = true, kind = "structured", autocast = "lower_precision", dtypes = "real + complex",
     grad = { input = "mul(g, beta)", a = "mul(bmm(g, adjoint(b)), alpha)",
              b = "mul(bmm(adjoint(a), g), alpha)" },
     doc = [[`beta * input + alpha * a b` per batch entry, for `a` (b, n, k), `b` (b, k, m) and an
`input` that broadcasts to (b, n, m).]],
     sample = { "randn(2, 3, 2), randn(2, 3, 4), randn(2, 4, 2)" } }

op { "mv(Tensor a, Tensor x) -> Tensor",
     kind = "structured", autocast = { cuda = "lower_precision" }, dtypes = "real + complex",
     grad = { a = "outer(g, conjugate(x))", x = "mv(adjoint(a), g)" },
     doc = [[The product of a matrix (n, k) and a vector (k): (n).]],
     sample = { "randn(3, 4), randn(4)" } }

op { "dot(Tensor a, Tensor b) -> Tensor",
     kind = "structured", autocast = { cuda = "promote" }, dtypes = "real + complex",
     grad = { a = "mul(g, conjugate(b))", b = "mul(g, conjugate(a))" },
     doc = [[The sum of the products of two vectors of one size; 0-d. Complex values are not conjugated.]],
     sample = { "randn(5), randn(5)" } }

op { "outer(Tensor a, Tensor b) -> Tensor",
     kind = "structured", dtypes = "real + complex",
     grad = { a = "mv(g, conjugate(b))", b = "mv(transpose(g, 0, 1), conjugate(a))" },
     doc = [[All products of the elements of two vectors (n) and (m): (n, m).]],
     sample = { "randn(3), randn(4)" } }

op { "linear(Tensor x, Tensor weight, Tensor? bias=nil) -> Tensor",
     kind = "structured", autocast = "lower_precision", dtypes = "real + complex",
     grad = { x = "matmul(g, conjugate(weight))", weight = "linear_grad_weight(g, x)", bias = "g" },
     torch = "F.linear(*args)",
     doc = [[`x` times the transposed `weight`, plus `bias`: `x` (..., in), `weight` (out, in), `bias`
(out) give (..., out).]],
     sample = { "randn(3, 4), randn(2, 4), randn(2)", "randn(2, 3, 4), randn(5, 4)" } }

op { "matmul(Tensor a, Tensor b) -> Tensor",
     out = true, kind = "composite", autocast = "lower_precision", dtypes = "real + complex",
     doc = [[The product by rank: two vectors give their dot product (0-d); a matrix and a vector, or the
other way round, a vector; two matrices a matrix; with more dimensions the leading ones are a batch
and broadcast: (j, 1, n, k) times (b, k, m) gives (j, b, n, m).]],
     sample = { "randn(3, 4), randn(4, 2)", "randn(4), randn(4)", "randn(3, 4), randn(4)",
                "randn(4), randn(4, 2)", "randn(2, 3, 4), randn(4, 2)",
                "randn(2, 1, 3, 4), randn(2, 4, 2)", "randn(2, 3, 4), randn(4)",
                "randn(4), randn(2, 4, 3)" } }
