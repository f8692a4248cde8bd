-- tensor/ops/complex.lua: the parts of complex numbers.

op { "conj(Tensor x) -> Tensor", kind = "composite", dtypes = "all",
     doc = "The complex conjugate; a real tensor is returned as it is.", sample = { "randn(3, 4)" } }
op { "conj_physical(Tensor x) -> Tensor",
     kind = "pointwise", functor = "Conj", dtypes = "all", grad = { x = "conj_physical(g)" },
     doc = "The complex conjugate; of real elements, a copy.",
     sample = { "view_as_complex(randn(3, 4, 2))", "randn(3, 4)" } }
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

op { "complex(Tensor real, Tensor imag) -> Tensor",
     out = true, kind = "composite", dtypes = "floating", method = false,
     doc = [[The complex tensor of these parts, both float32 or both float64; they broadcast. Of two
numbers it is the complex number, which stands wherever a number may.]],
     sample = { "randn(3, 4), randn(4)" }, check = { dtypes = "16-bit floats have no complex dtype",
                                                     device = "16-bit floats have no complex dtype" } }
op { "join_parts(Tensor x, Tensor y) -> Tensor",
     kind = "pointwise", dtypes = "floating", result = "complex", inplace = false, internal = true,
     grad = { x = "real(g)", y = "imag(g)" },
     doc = "What `complex` does with tensors: `x` as the real parts and `y` as the imaginary ones.",
     sample = { "randn(3, 4), randn(4)" }, torch = "torch.complex(*torch.broadcast_tensors(*args))" }
op { "complex_number(float real, float imag) -> Scalar",
     kind = "composite", overload_of = "complex", method = false,
     doc = [[A complex number: `z.real`, `z.imag`, `z:abs()`, `z:angle()`, `z:conj()`, and arithmetic with
numbers and tensors.]],
     sample = { "1.5, -2" }, torch = "torch.tensor(complex(*args))",
     check = { value = "a number, which tests/lua/ops/elementwise_test.lua looks at" } }
op { "polar(Tensor abs, Tensor angle) -> Tensor",
     out = true, kind = "composite", autocast = { host = "float32" }, dtypes = "floating", method = false,
     doc = "The complex tensor of that modulus and angle, both float32 or both float64; they broadcast.",
     sample = { "rand(3, 4), randn(4)" }, check = { dtypes = "16-bit floats have no complex dtype",
                                                    device = "16-bit floats have no complex dtype" } }
