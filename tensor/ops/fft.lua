-- tensor/ops/fft.lua: discrete Fourier transforms. Three ops with kernels, of complex numbers, of
-- real ones, and back to real ones, and the functions of `ml.fft` that are made of them.

local complex = "view_as_complex(randn(%s, 2))"
local function z(sizes) return complex:format(sizes) end

op { "fft_c2c(Tensor x, Dim[] dims, bool forward, float scale) -> Tensor",
     vmap = "dims", linear = true, kind = "structured", dtypes = "complex", internal = true,
     grad = { x = "fft_c2c(g, dims, !forward, scale)" },
     doc = [[Discrete Fourier transform along each of `dims`, times `scale`; the inverse one, without its
factor, where not `forward`.]],
     torch = "torch._fft_c2c(args[0], args[1], 0, args[2]) * args[3]",
     sample = { z "3, 4" .. ", {2}, true, 1.0", z "6, 5" .. ", {1, 2}, false, 0.5",
                z "2, 67" .. ", {2}, true, 1.0", z "48, 3" .. ", {1}, true, 1.0" } }

op { "fft_r2c(Tensor x, Dim dim, float scale) -> Tensor",
     vmap = "dims", linear = true, kind = "structured", dtypes = "floating", internal = true,
     grad = { x = "fft_r2c_grad_x(g, sizes_of(x), dim, scale)" },
     doc = [[Discrete Fourier transform of real numbers along `dim`, times `scale`: the first `n / 2 + 1`
results, the others being their conjugates.]],
     torch = "torch._fft_r2c(args[0], [args[1]], 0, True) * args[2]",
     sample = { "randn(3, 8), 2, 1.0", "randn(3, 7), 2, 0.5", "randn(6, 3), 1, 1.0", "randn(2, 1), 2, 1.0",
                "randn(40, 12), 2, 1.0" },
     check = { dtypes = "16-bit floats are refused" } }

op { "fft_c2r(Tensor x, Dim dim, int n, float scale) -> Tensor",
     vmap = "dims", linear = true, kind = "structured", dtypes = "complex", internal = true,
     grad = { x = "fft_c2r_grad_x(g, dim, scale)" },
     doc = [[Inverse of `fft_r2c`, times `n` and `scale`: `n` real numbers along `dim` from the first
`n / 2 + 1` elements of a Hermitian spectrum. Imaginary parts of elements that are real by nature are
not read.]],
     torch = "torch._fft_c2r(args[0].contiguous(), [args[1]], 0, args[2]) * args[3]",
     sample = { z "3, 5" .. ", 2, 8, 1.0", z "3, 4" .. ", 2, 7, 0.5", z "4, 3" .. ", 1, 6, 1.0",
                z "2, 1" .. ", 2, 1, 1.0", z "40, 7" .. ", 2, 12, 1.0" } }

-- The meanings of the arguments of the transforms along one dimension and along several.
local NORM = '"backward" divides by the number of points in the inverse transforms, "forward" in the others, "ortho" by '
  .. "the square root of it in both"
local ONE = { dim = "the dimension that is transformed", norm = NORM,
              n = "the length of the transformed dimension, to which `x` is cut or padded with zeros" }
local INVERSE = { dim = "the dimension that is transformed", norm = NORM,
                  n = "the length of the result along `dim`; `2 * (size - 1)` unless given" }
local MANY = { dim = "the dimensions that are transformed", norm = NORM,
               s = "the lengths of the transformed dimensions, to which `x` is cut or padded with zeros; -1 keeps one" }

local text = {
  fft = { [[Discrete Fourier transform along a dimension, complex for real `x` too. Any length takes `n
log n` steps. Element 1 belongs to frequency 0; `ml.fft.fftfreq` gives all.]],
    args = ONE,
    shapes = "x (*, n, *) -> (*, n, *)",
    formula = "y_k = sum_j x_j * exp(-2 * pi * i * (j - 1) * (k - 1) / n)",
    source = 'Cooley and Tukey 1965, "An Algorithm for the Machine Calculation of Complex Fourier Series"',
    example = "ml.fft.fft(ml.tensor {1.0, 2, 3, 4})",
    gives = [[
{10.+0.i, -2.+2.i, -2.+0.i, -2.-2.i}
Tensor (4,) complex64]] },
  ifft = { "Inverse discrete Fourier transform along a dimension: `ml.fft.ifft(ml.fft.fft(x))` is `x`.",
    args = ONE,
    shapes = "x (*, n, *) -> (*, n, *)",
    formula = "y_j = 1 / n * sum_k x_k * exp(2 * pi * i * (j - 1) * (k - 1) / n)",
    example = "ml.fft.ifft(ml.fft.fft(ml.tensor {1.5, 2, 3})).real",
    gives = [[
{1.5000, 2.0000, 3.0000}
Tensor (3,) float32]] },
  rfft = { [[Discrete Fourier transform of real numbers along a dimension: the first `floor(n / 2) + 1`
results of `ml.fft.fft`; the others are their conjugates.]],
    args = ONE,
    shapes = "x (*, n, *) -> (*, floor(n / 2) + 1, *)",
    formula = "y_k = sum_j x_j * exp(-2 * pi * i * (j - 1) * (k - 1) / n)",
    example = "ml.fft.rfft(ml.tensor {1.0, 2, 3, 4})",
    gives = [[
{10.+0.i, -2.+2.i, -2.+0.i}
Tensor (3,) complex64]] },
  irfft = { [[Inverse of `ml.fft.rfft`: `n` real numbers from the first half of a Hermitian spectrum. An odd
`n` must be given. The imaginary parts of elements that are real by nature are not read.]],
    args = INVERSE,
    shapes = "x (*, m, *) -> (*, n, *)",
    example = "ml.fft.irfft(ml.fft.rfft(ml.tensor {1.5, 2, 3}), 3)",
    gives = [[
{1.5000, 2.0000, 3.0000}
Tensor (3,) float32]] },
  hfft = { [[Discrete Fourier transform of a Hermitian signal, of which `x` has the first half: `n` real
numbers. An odd `n` must be given.]],
    args = INVERSE,
    shapes = "x (*, m, *) -> (*, n, *)",
    example = "ml.fft.hfft(ml.tensor {1.0, 2, 3})",
    gives = [[
{ 8., -2.,  0., -2.}
Tensor (4,) float32]] },
  ihfft = { [[Inverse of `ml.fft.hfft`: the first `floor(n / 2) + 1` elements of a Hermitian signal, from
its real spectrum.]],
    args = ONE,
    shapes = "x (*, n, *) -> (*, floor(n / 2) + 1, *)",
    example = "ml.fft.ihfft(ml.tensor {8.0, -2, 0, -2})",
    gives = [[
{1.-0.i, 2.-0.i, 3.-0.i}
Tensor (3,) complex64]] },
  fft2 = { "Discrete Fourier transform along two dimensions, by default the last two.",
    args = MANY,
    shapes = "x (*, n, m) -> (*, n, m)",
    example = "ml.fft.fft2(ml.tensor {{1.0, 2}, {3, 4}}).real",
    gives = [[
{{10., -2.},
 {-4.,  0.}}
Tensor (2, 2) float32]] },
  fftn = { [[Discrete Fourier transform along several dimensions: `dim`, or without it as many of the last
ones as `s` has lengths, or all.]],
    args = MANY,
    shapes = "x (*, n, m) -> (*, n, m) for two dimensions",
    example = "ml.fft.fftn(ml.tensor {{1.0, 2}, {3, 4}}).real",
    gives = [[
{{10., -2.},
 {-4.,  0.}}
Tensor (2, 2) float32]] },
  ifft2 = { "Inverse discrete Fourier transform along two dimensions, by default the last two.",
    args = MANY,
    shapes = "x (*, n, m) -> (*, n, m)",
    example = "ml.fft.ifft2(ml.fft.fft2(ml.tensor {{1.0, 2}, {3, 4}})).real",
    gives = [[
{{1., 2.},
 {3., 4.}}
Tensor (2, 2) float32]] },
  ifftn = { [[Inverse discrete Fourier transform along several dimensions: `dim`, or without it as many of
the last ones as `s` has lengths, or all.]],
    args = MANY,
    shapes = "x (*, n, m) -> (*, n, m) for two dimensions",
    example = "ml.fft.ifftn(ml.fft.fftn(ml.tensor {{1.0, 2}, {3, 4}})).real",
    gives = [[
{{1., 2.},
 {3., 4.}}
Tensor (2, 2) float32]] },
  rfft2 = { [[Discrete Fourier transform of real numbers, of which the last transformed dimension has the
first half along two dimensions, by default the last two.]],
    args = MANY,
    shapes = "x (*, n, m) -> (*, n, floor(m / 2) + 1)",
    example = "ml.fft.rfft2(ml.zeros(4, 6)).shape", gives = "(4, 4)" },
  rfftn = { [[Discrete Fourier transform of real numbers, of which the last transformed dimension has the
first half along several dimensions: `dim`, or without it as many of the last ones as `s` has lengths,
or all.]],
    args = MANY,
    shapes = "x (*, n, m) -> (*, n, floor(m / 2) + 1) for two dimensions",
    example = "ml.fft.rfftn(ml.zeros(4, 6)).shape", gives = "(4, 4)" },
  irfft2 = { [[Inverse of `ml.fft.rfft2`: real numbers from half of a Hermitian spectrum along two
dimensions, by default the last two.]],
    args = MANY,
    shapes = "x (*, n, m) -> (*, n, 2 * (m - 1))",
    example = "ml.fft.irfft2(ml.fft.rfft2(ml.tensor {{1.0, 2}, {3, 4}}))",
    gives = [[
{{1., 2.},
 {3., 4.}}
Tensor (2, 2) float32]] },
  irfftn = { [[Inverse of `ml.fft.rfftn`: real numbers from half of a Hermitian spectrum along several
dimensions: `dim`, or without it as many of the last ones as `s` has lengths, or all.]],
    args = MANY,
    shapes = "x (*, n, m) -> (*, n, 2 * (m - 1)) for two dimensions",
    example = "ml.fft.irfftn(ml.fft.rfftn(ml.tensor {{1.0, 2}, {3, 4}}))",
    gives = [[
{{1., 2.},
 {3., 4.}}
Tensor (2, 2) float32]] },
  hfft2 = { [[Discrete Fourier transform of a signal that is Hermitian in the last transformed dimension, of
which `x` has the first half: real numbers along two dimensions, by default the last two.]],
    args = MANY,
    shapes = "x (*, n, m) -> (*, n, 2 * (m - 1))",
    example = "ml.fft.hfft2(ml.ones(2, 2))",
    gives = [[
{{4., 0.},
 {0., 0.}}
Tensor (2, 2) float32]] },
  hfftn = { [[Discrete Fourier transform of a signal that is Hermitian in the last transformed dimension, of
which `x` has the first half: real numbers along several dimensions: `dim`, or without it as many of the
last ones as `s` has lengths, or all.]],
    args = MANY,
    shapes = "x (*, n, m) -> (*, n, 2 * (m - 1)) for two dimensions",
    example = "ml.fft.hfftn(ml.ones(2, 2))",
    gives = [[
{{4., 0.},
 {0., 0.}}
Tensor (2, 2) float32]] },
  ihfft2 = { [[Inverse of `ml.fft.hfft2`: half of a Hermitian signal, from its real spectrum along two
dimensions, by default the last two.]],
    args = MANY,
    shapes = "x (*, n, m) -> (*, n, floor(m / 2) + 1)",
    example = "ml.fft.ihfft2(ml.ones(2, 2)).real",
    gives = [[
{{1., 0.},
 {0., 0.}}
Tensor (2, 2) float32]] },
  ihfftn = { [[Inverse of `ml.fft.hfftn`: half of a Hermitian signal, from its real spectrum along several
dimensions: `dim`, or without it as many of the last ones as `s` has lengths, or all.]],
    args = MANY,
    shapes = "x (*, n, m) -> (*, n, floor(m / 2) + 1) for two dimensions",
    example = "ml.fft.ihfftn(ml.ones(2, 2)).real",
    gives = [[
{{1., 0.},
 {0., 0.}}
Tensor (2, 2) float32]] },
}

local function transform(name, samples, extra)
  op { ("fft_%s(Tensor x, int? n=nil, Dim dim=-1, string norm=\"backward\") -> Tensor"):format(name),
       kind = "composite", autocast = { host = "float32" }, module = "fft", out = true, dtypes = extra or "all",
       torch = ("torch.fft.%s(*args)"):format(name), doc = text[name], sample = samples,
       check = { dtypes = "16-bit floats are refused" } }
end

transform("fft",
  { "randn(3, 4)", z "3, 5" .. ", nil, 1", "randn(3, 4), 7, 2, \"ortho\"", "randn(6), 4, 1, \"forward\"",
    "tensor({1, 2, 3, 4})" })
transform("ifft",
  { z "3, 4", "randn(3, 4), 6, 1, \"ortho\"", z "5" .. ", 3, 1, \"forward\"" })
transform("rfft",
  { "randn(3, 4)", "randn(3, 5), nil, 1", "randn(3, 4), 7, 2, \"ortho\"", "tensor({1, 2, 3, 4})" },
  "boolean+real")
transform("irfft",
  { z "3, 4", "randn(3, 4), 5", z "4, 3" .. ", 6, 1, \"ortho\"", z "4" .. ", 9" })
transform("hfft",
  { z "3, 4", "randn(3, 4), 5", z "4, 3" .. ", 6, 1, \"ortho\"" })
transform("ihfft",
  { "randn(3, 4)", "randn(3, 5), nil, 1", "randn(3, 4), 7, 2, \"ortho\"" }, "boolean+real")

for _, name in ipairs { "fft", "ifft", "rfft", "irfft", "hfft", "ihfft" } do
  local real = name == "rfft" or name == "ihfft"
  local accepted = real and "boolean+real" or "all"
  local x = real and "randn(2, 4, 5)" or z "2, 4, 5"
  -- PyTorch leaves these two alone.
  local autocast = name ~= "hfft" and name ~= "ihfft" and { host = "float32" } or nil
  op { ("fft_%s2(Tensor x, int[] s={}, Dim[] dim={-2, -1}, string norm=\"backward\") -> Tensor"):format(name),
       kind = "composite", autocast = autocast, module = "fft", out = true, gather = false, dtypes = accepted,
       torch = ("torch.fft.%s2(args[0], (args[1] or None) if len(args) > 1 else None, *args[2:])"):format(name),
       doc = text[name .. "2"],
       sample = { x, x .. ", {3, 6}", x .. ", {4, 4}, {1, 2}, \"ortho\"", "randn(3, 4), {}, {2, 1}" },
       check = { dtypes = "16-bit floats are refused" } }
  op { ("fft_%sn(Tensor x, int[] s={}, Dim[]? dim=nil, string norm=\"backward\") -> Tensor"):format(name),
       kind = "composite", autocast = autocast, module = "fft", out = true, gather = false, dtypes = accepted,
       torch = ("torch.fft.%sn(args[0], (args[1] or None) if len(args) > 1 else None, *args[2:])"):format(name),
       doc = text[name .. "n"],
       sample = { x, x .. ", {3, 6}", x .. ", {-1, 4, 3}", x .. ", {4}, {2}, \"forward\"", "randn(3, 4), {}, {2, 1}, \"ortho\"" },
       check = { dtypes = "16-bit floats are refused" } }
end

op { "fft_fftfreq(int n, float d=1, Options options) -> Tensor",
     kind = "composite", module = "fft", out = true,
     doc = [[Frequencies of the results of `ml.fft.fft`: 0, the positive ones, then the negative ones,
in cycles per unit of `d`.]],
     args = { n = "the length of the transform", d = "the distance of the samples" },
     shapes = "-> (n)",
     formula = "y_k = (k - 1) / (n * d) for k <= (n + 1) / 2, else (k - 1 - n) / (n * d)",
     example = "ml.fft.fftfreq(4)",
     gives = [[
{ 0.0000,  0.2500, -0.5000, -0.2500}
Tensor (4,) float32]],
     torch = "torch.fft.fftfreq(*args)", sample = { "5", "6, 0.25", "1" } }
op { "fft_rfftfreq(int n, float d=1, Options options) -> Tensor",
     kind = "composite", module = "fft", out = true,
     doc = "Frequencies of the results of `ml.fft.rfft`, in cycles per unit of `d`.",
     args = { n = "the length of the transform", d = "the distance of the samples" },
     shapes = "-> (floor(n / 2) + 1)",
     formula = "y_k = (k - 1) / (n * d)",
     example = "ml.fft.rfftfreq(4)",
     gives = [[
{0.0000, 0.2500, 0.5000}
Tensor (3,) float32]],
     torch = "torch.fft.rfftfreq(*args)", sample = { "5", "6, 0.25", "1" } }
op { "fft_fftshift(Tensor x, Dim[]? dim=nil) -> Tensor",
     kind = "composite", module = "fft",
     doc = "`x` with frequency 0 moved to the middle of each dimension.",
     args = { dim = "the dimensions, one or a table; all unless given" },
     shapes = "x (*) -> (*)",
     example = "ml.fft.fftshift(ml.fft.fftfreq(4))",
     gives = [[
{-0.5000, -0.2500,  0.0000,  0.2500}
Tensor (4,) float32]],
     torch = "torch.fft.fftshift(*args)", sample = { "randn(5)", "randn(4, 3)", "randn(4, 3), 2" } }
op { "fft_ifftshift(Tensor x, Dim[]? dim=nil) -> Tensor",
     kind = "composite", module = "fft",
     doc = "Inverse of `ml.fft.fftshift`: frequency 0 moved from the middle to the front of each dimension.",
     args = { dim = "the dimensions, one or a table; all unless given" },
     shapes = "x (*) -> (*)",
     example = "ml.fft.ifftshift(ml.tensor {-2, -1, 0, 1})",
     gives = [[
{ 0,  1, -2, -1}
Tensor (4,) int64]],
     torch = "torch.fft.ifftshift(*args)", sample = { "randn(5)", "randn(4, 3)", "randn(5, 3), 1" } }
