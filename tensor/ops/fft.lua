-- tensor/ops/fft.lua: discrete Fourier transforms. Three ops with kernels, of complex numbers, of
-- real ones, and back to real ones, and the functions of `ml.fft` that are made of them.

local complex = "view_as_complex(randn(%s, 2))"
local function z(sizes) return complex:format(sizes) end

op { "fft_c2c(Tensor x, Dim[] dims, bool forward, float scale) -> Tensor",
     vmap = "dims", linear = true, kind = "structured", dtypes = "complex", internal = true,
     grad = { x = "fft_c2c(g, dims, !forward, scale)" },
     doc = [[The sums of `x[j] exp(-2 pi i j k / n)` along each of `dims`, times `scale`; not `forward`,
of `x[j] exp(2 pi i j k / n)`.]],
     torch = "torch._fft_c2c(args[0], args[1], 0, args[2]) * args[3]",
     sample = { z "3, 4" .. ", {2}, true, 1.0", z "6, 5" .. ", {1, 2}, false, 0.5",
                z "2, 67" .. ", {2}, true, 1.0", z "48, 3" .. ", {1}, true, 1.0" } }

op { "fft_r2c(Tensor x, Dim dim, float scale) -> Tensor",
     vmap = "dims", linear = true, kind = "structured", dtypes = "floating", internal = true,
     grad = { x = "fft_r2c_grad_x(g, sizes_of(x), dim, scale)" },
     doc = [[The transform of real numbers along `dim`, times `scale`: the first `n / 2 + 1` of the sums,
the others being their conjugates.]],
     torch = "torch._fft_r2c(args[0], [args[1]], 0, True) * args[2]",
     sample = { "randn(3, 8), 2, 1.0", "randn(3, 7), 2, 0.5", "randn(6, 3), 1, 1.0", "randn(2, 1), 2, 1.0",
                "randn(40, 12), 2, 1.0" },
     check = { dtypes = "16-bit floats are refused" } }

op { "fft_c2r(Tensor x, Dim dim, int n, float scale) -> Tensor",
     vmap = "dims", linear = true, kind = "structured", dtypes = "complex", internal = true,
     grad = { x = "fft_c2r_grad_x(g, dim, scale)" },
     doc = [[What `fft_r2c` undoes, times `n` and `scale`: `n` real numbers along `dim`, of the first
`n / 2 + 1` sums. The imaginary parts of sums that are real by nature are not read.]],
     torch = "torch._fft_c2r(args[0].contiguous(), [args[1]], 0, args[2]) * args[3]",
     sample = { z "3, 5" .. ", 2, 8, 1.0", z "3, 4" .. ", 2, 7, 0.5", z "4, 3" .. ", 1, 6, 1.0",
                z "2, 1" .. ", 2, 1, 1.0", z "40, 7" .. ", 2, 12, 1.0" } }

local norms = [[`norm` "backward" divides by the number of points on the way back, "forward" on
the way there, "ortho" by its root on both.]]

local function transform(name, text, samples, extra)
  op { ("fft_%s(Tensor x, int? n=nil, Dim dim=-1, string norm=\"backward\") -> Tensor"):format(name),
       kind = "composite", autocast = { host = "float32" }, module = "fft", out = true, dtypes = extra or "all",
       torch = ("torch.fft.%s(*args)"):format(name), doc = text .. " " .. norms, sample = samples,
       check = { dtypes = "16-bit floats are refused" } }
end

local length = "Other lengths `n` cut `x` or add zeros to it."
transform("fft", "The discrete Fourier transform along `dim`: the sums of `x[j] exp(-2 pi i (j - 1) (k - 1) / n)`. " .. length,
  { "randn(3, 4)", z "3, 5" .. ", nil, 1", "randn(3, 4), 7, 2, \"ortho\"", "randn(6), 4, 1, \"forward\"",
    "tensor({1, 2, 3, 4})" })
transform("ifft", "The inverse of `ml.fft.fft`. " .. length,
  { z "3, 4", "randn(3, 4), 6, 1, \"ortho\"", z "5" .. ", 3, 1, \"forward\"" })
transform("rfft", "The first `n / 2 + 1` results of `ml.fft.fft` of a real `x`; the others are their conjugates. " .. length,
  { "randn(3, 4)", "randn(3, 5), nil, 1", "randn(3, 4), 7, 2, \"ortho\"", "tensor({1, 2, 3, 4})" },
  "boolean+real")
transform("irfft", [[The inverse of `ml.fft.rfft`: `n` real numbers, of the first `n / 2 + 1` sums. Without
`n`, twice the number of sums less 2.]],
  { z "3, 4", "randn(3, 4), 5", z "4, 3" .. ", 6, 1, \"ortho\"", z "4" .. ", 9" })
transform("hfft", [[The transform of `x` that is the first half of a Hermitian signal: `n` real numbers.
Without `n`, twice the size of `x` less 2.]],
  { z "3, 4", "randn(3, 4), 5", z "4, 3" .. ", 6, 1, \"ortho\"" })
transform("ihfft", "The inverse of `ml.fft.hfft`: the first `n / 2 + 1` points of a Hermitian signal. " .. length,
  { "randn(3, 4)", "randn(3, 5), nil, 1", "randn(3, 4), 7, 2, \"ortho\"" }, "boolean+real")

local what = {
  fft = { "The discrete Fourier transform", "all" }, ifft = { "The inverse of `ml.fft.fft%s`", "all" },
  rfft = { "The transform of a real `x`, of which the last dim has the first `n / 2 + 1` sums,", "boolean+real" },
  irfft = { "The inverse of `ml.fft.rfft%s`: real numbers,", "all" },
  hfft = { "The transform of a signal that is Hermitian in the last dim, of which `x` has the first half: real numbers,", "all" },
  ihfft = { "The inverse of `ml.fft.hfft%s`,", "boolean+real" },
}
local sizes = "`s` has the lengths, -1 for a length as it is."
for _, name in ipairs { "fft", "ifft", "rfft", "irfft", "hfft", "ihfft" } do
  local text, accepted = what[name][1], what[name][2]
  local real = accepted == "boolean+real"
  local x = real and "randn(2, 4, 5)" or z "2, 4, 5"
  -- PyTorch leaves these two alone.
  local autocast = name ~= "hfft" and name ~= "ihfft" and { host = "float32" } or nil
  op { ("fft_%s2(Tensor x, int[] s={}, Dim[] dim={-2, -1}, string norm=\"backward\") -> Tensor"):format(name),
       kind = "composite", autocast = autocast, module = "fft", out = true, gather = false, dtypes = accepted,
       torch = ("torch.fft.%s2(args[0], (args[1] or None) if len(args) > 1 else None, *args[2:])"):format(name),
       doc = text:format "2" .. " along two dims, the last two unless others are named. " .. sizes .. " " .. norms,
       sample = { x, x .. ", {3, 6}", x .. ", {4, 4}, {1, 2}, \"ortho\"", "randn(3, 4), {}, {2, 1}" },
       check = { dtypes = "16-bit floats are refused" } }
  op { ("fft_%sn(Tensor x, int[] s={}, Dim[]? dim=nil, string norm=\"backward\") -> Tensor"):format(name),
       kind = "composite", autocast = autocast, module = "fft", out = true, gather = false, dtypes = accepted,
       torch = ("torch.fft.%sn(args[0], (args[1] or None) if len(args) > 1 else None, *args[2:])"):format(name),
       doc = text:format "n" .. " along `dim`: where none are named as many of the last dims as `s` has lengths, or all. "
         .. sizes .. " " .. norms,
       sample = { x, x .. ", {3, 6}", x .. ", {-1, 4, 3}", x .. ", {4}, {2}, \"forward\"", "randn(3, 4), {}, {2, 1}, \"ortho\"" },
       check = { dtypes = "16-bit floats are refused" } }
end

op { "fft_fftfreq(int n, float d=1, Options options) -> Tensor",
     kind = "composite", module = "fft", out = true,
     doc = [[The frequencies of the results of `ml.fft.fft` of `n` points at distances `d`: 0, the positive
ones, then the negative ones, in cycles for each unit of `d`.]],
     torch = "torch.fft.fftfreq(*args)", sample = { "5", "6, 0.25", "1" } }
op { "fft_rfftfreq(int n, float d=1, Options options) -> Tensor",
     kind = "composite", module = "fft", out = true,
     doc = [[The frequencies of the results of `ml.fft.rfft` of `n` points at distances `d`.]],
     torch = "torch.fft.rfftfreq(*args)", sample = { "5", "6, 0.25", "1" } }
op { "fft_fftshift(Tensor x, Dim[]? dim=nil) -> Tensor",
     kind = "composite", module = "fft",
     doc = [[Moves frequency 0 to the middle of each `dim`, all unless named.]],
     torch = "torch.fft.fftshift(*args)", sample = { "randn(5)", "randn(4, 3)", "randn(4, 3), 2" } }
op { "fft_ifftshift(Tensor x, Dim[]? dim=nil) -> Tensor",
     kind = "composite", module = "fft",
     doc = [[The inverse of `ml.fft.fftshift`.]],
     torch = "torch.fft.ifftshift(*args)", sample = { "randn(5)", "randn(4, 3)", "randn(5, 3), 1" } }
