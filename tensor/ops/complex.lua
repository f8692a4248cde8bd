-- tensor/ops/complex.lua: the parts of complex numbers.

op { "conj(Tensor x) -> Tensor", kind = "composite", dtypes = "all",
     doc = "The complex conjugate; a real tensor is returned as it is.", sample = { "randn(3, 4)" } }
op { "conj_physical(Tensor x) -> Tensor",
     kind = "pointwise", functor = "Conj", dtypes = "complex", grad = { x = "conj_physical(g)" },
     doc = "The complex conjugate of a complex tensor.", sample = { "view_as_complex(randn(3, 4, 2))" } }
op { "real(Tensor x) -> Tensor",
     kind = "composite", dtypes = "all",
     doc = "The real parts of a complex tensor, as a view; a real tensor is returned as it is.",
     sample = { "view_as_complex(randn(3, 4, 2))", "randn(3, 4)" } }
op { "imag(Tensor x) -> Tensor",
     kind = "composite", dtypes = "complex",
     doc = "The imaginary parts of a complex tensor, as a view.", sample = { "view_as_complex(randn(3, 4, 2))" } }
op { "angle(Tensor x) -> Tensor",
     kind = "pointwise", dtypes = "floating + complex", int_to_float = true, result = "real", inplace = false,
     grad = { x = "angle_grad_x(g, x)" },
     doc = "The angle of each element in the complex plane, from -pi to pi: 0 or pi for a real one.",
     sample = { "view_as_complex(randn(3, 4, 2))", "randn(3, 4)", "tensor({-2, 0, 3})" } }
