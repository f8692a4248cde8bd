-- tensor/ops/complex.lua: the parts of complex numbers.

op { "conj(Tensor x) -> Tensor", kind = "composite", dtypes = "all",
     doc = "Complex conjugate of each element; a real tensor is returned as it is.",
     shapes = "x (*) -> (*)",
     formula = "y = conj(x)",
     example = "ml.conj(ml.complex(ml.tensor {1.0, 2}, ml.tensor {3.0, -4}))",
     gives = [[
{1.-3.i, 2.+4.i}
Tensor (2,) complex64]],
     sample = { "randn(3, 4)" } }
op { "conj_physical(Tensor x) -> Tensor",
     kind = "pointwise", functor = "Conj", dtypes = "all", grad = { x = "conj_physical(g)" },
     doc = "Complex conjugate of each element, always a copy.",
     formula = "y = conj(x)",
     example = "ml.conj_physical(ml.complex(ml.tensor {1.0, 2}, ml.tensor {3.0, -4}))",
     gives = [[
{1.-3.i, 2.+4.i}
Tensor (2,) complex64]],
     sample = { "view_as_complex(randn(3, 4, 2))", "randn(3, 4)" } }
op { "real(Tensor x) -> Tensor",
     kind = "composite", dtypes = "all",
     doc = "Real parts of a complex tensor, as a view; a real tensor is returned as it is.",
     shapes = "x (*) -> (*)",
     formula = "y = Re(x)",
     example = "ml.real(ml.complex(ml.tensor {1.0, 2}, ml.tensor {3.0, -4}))",
     gives = [[
{1., 2.}
Tensor (2,) float32]],
     sample = { "view_as_complex(randn(3, 4, 2))", "randn(3, 4)" } }
op { "imag(Tensor x) -> Tensor",
     kind = "composite", dtypes = "complex",
     doc = "Imaginary parts of a complex tensor, as a view.",
     args = { x = "a complex tensor" },
     shapes = "x (*) -> (*)",
     formula = "y = Im(x)",
     errors = "a real tensor",
     example = "ml.imag(ml.complex(ml.tensor {1.0, 2}, ml.tensor {3.0, -4}))",
     gives = [[
{ 3., -4.}
Tensor (2,) float32]],
     sample = { "view_as_complex(randn(3, 4, 2))" } }
op { "angle(Tensor x) -> Tensor",
     kind = "pointwise", dtypes = "floating + complex", int_to_float = true, result = "real", inplace = false,
     grad = { x = "angle_grad_x(g, x)" },
     doc = "Argument of each element in the complex plane, in radians from -pi to pi; of a real one 0 or pi.",
     formula = "y = atan2(Im(x), Re(x))",
     example = "ml.angle(ml.complex(ml.tensor {1.0, 0}, ml.tensor {1.0, 2}))",
     gives = [[
{0.7854, 1.5708}
Tensor (2,) float32]],
     sample = { "view_as_complex(randn(3, 4, 2))", "randn(3, 4)", "tensor({-2, 0, 3})" } }

op { "complex(Tensor real, Tensor imag) -> Tensor",
     out = true, kind = "composite", dtypes = "floating", method = false,
     doc = [[Complex tensor of a real and an imaginary part, both float32 or both float64; they
broadcast. Of two numbers it is a complex number, which stands wherever a number may.]],
     args = { real = "the real parts", imag = "the imaginary parts" },
     shapes = "real (*), imag (*) -> (*)",
     formula = "y = real + i * imag",
     example = "ml.complex(ml.tensor {1.0, 2}, ml.tensor {3.0, -4})",
     gives = [[
{1.+3.i, 2.-4.i}
Tensor (2,) complex64]],
     sample = { "randn(3, 4), randn(4)" }, check = { dtypes = "16-bit floats have no complex dtype",
                                                     device = "16-bit floats have no complex dtype" } }
op { "join_parts(Tensor x, Tensor y) -> Tensor",
     kind = "pointwise", dtypes = "floating", result = "complex", inplace = false, internal = true,
     grad = { x = "real(g)", y = "imag(g)" },
     doc = "What `complex` does with tensors: `x` as the real parts and `y` as the imaginary ones.",
     sample = { "randn(3, 4), randn(4)" }, torch = "torch.complex(*torch.broadcast_tensors(*args))" }
op { "complex_number(float real, float imag) -> Scalar",
     kind = "composite", overload_of = "complex", method = false,
     doc = [[Complex number of two numbers. It has `z.real`, `z.imag`, `z:abs()`, `z:angle()`,
`z:conj()`, and arithmetic with numbers and tensors.]],
     args = { real = "the real part", imag = "the imaginary part" },
     example = "ml.complex(1, 2) * ml.complex(0, 1)", gives = "-2+1i",
     sample = { "1.5, -2" }, torch = "torch.tensor(complex(*args))",
     check = { value = "a number, which tests/lua/ops/elementwise_test.lua looks at" } }
op { "polar(Tensor abs, Tensor angle) -> Tensor",
     out = true, kind = "composite", autocast = { host = "float32" }, dtypes = "floating", method = false,
     doc = "Complex tensor of moduli and angles, both float32 or both float64; they broadcast.",
     args = { abs = "the moduli", angle = "the angles, in radians" },
     shapes = "abs (*), angle (*) -> (*)",
     formula = "y = abs * (cos(angle) + i * sin(angle))",
     example = "ml.polar(ml.tensor {1.0, 2}, ml.tensor {0, math.pi / 3})",
     gives = [[
{1.0000+0.0000i, 1.0000+1.7321i}
Tensor (2,) complex64]],
     sample = { "rand(3, 4), randn(4)" }, check = { dtypes = "16-bit floats have no complex dtype",
                                                    device = "16-bit floats have no complex dtype" } }
