-- tensor/ops/window.lua: window functions, and the transforms of a signal's windows.

local function window(name, arguments, text, samples)
  op { ("%s_window(int window_length, bool periodic=true%s, Options options) -> Tensor"):format(name, arguments),
       kind = "composite", out = true, doc = text, sample = samples }
end

-- The meanings of the arguments: those of all windows and one's own.
local function arguments(own)
  local out = {
    window_length = "how many numbers",
    periodic = "whether the window is the beginning of a symmetric one that is longer by one, as a spectrum wants it",
  }
  for name, meaning in pairs(own or {}) do out[name] = meaning end
  return out
end

window("hann", "", { "Hann window. `N` is `window_length`, or one more where `periodic`.",
    args = arguments(),
    shapes = "-> (window_length)",
    formula = "y_n = (1 - cos(2 * pi * (n - 1) / (N - 1))) / 2",
    source = 'Blackman and Tukey 1958, "The Measurement of Power Spectra"',
    example = "ml.hann_window(5, false)",
    gives = [[
{0.0000, 0.5000, 1.0000, 0.5000, 0.0000}
Tensor (5,) float32]] }, { "6", "7, false", "1", "0" })
window("hamming", ", float alpha=0.54, float beta=0.46", { "Hamming window. `N` is `window_length`, or one more where `periodic`.",
    args = arguments { alpha = "the constant term", beta = "the factor of the cosine" },
    shapes = "-> (window_length)",
    formula = "y_n = alpha - beta * cos(2 * pi * (n - 1) / (N - 1))",
    source = 'Blackman and Tukey 1958, "The Measurement of Power Spectra"',
    example = "ml.hamming_window(5, false)",
    gives = [[
{0.0800, 0.5400, 1.0000, 0.5400, 0.0800}
Tensor (5,) float32]] }, { "6", "7, false", "5, true, 0.5, 0.3" })
window("blackman", "", { "Blackman window. `N` is `window_length`, or one more where `periodic`.",
    args = arguments(),
    shapes = "-> (window_length)",
    formula = "y_n = 0.42 - 0.5 * cos(2 * pi * (n - 1) / (N - 1)) + 0.08 * cos(4 * pi * (n - 1) / (N - 1))",
    source = 'Blackman and Tukey 1958, "The Measurement of Power Spectra"',
    example = "ml.blackman_window(4):slice(1, 2, -1)",
    gives = [[
{0.3400, 1.0000, 0.3400}
Tensor (3,) float32]] }, { "6", "7, false" })
window("bartlett", "", { "Bartlett window: a triangle. `N` is `window_length`, or one more where `periodic`.",
    args = arguments(),
    shapes = "-> (window_length)",
    formula = "y_n = 1 - abs(2 * (n - 1) / (N - 1) - 1)",
    source = 'Bartlett 1950, "Periodogram Analysis and Continuous Spectra"',
    example = "ml.bartlett_window(5, false)",
    gives = [[
{0.0000, 0.5000, 1.0000, 0.5000, 0.0000}
Tensor (5,) float32]] }, { "6", "7, false", "2, false" })
window("kaiser", ", float beta=12", { "Kaiser window. `N` is `window_length`, or one more where `periodic`.",
    args = arguments { beta = "the shape: the larger, the narrower the window" },
    shapes = "-> (window_length)",
    formula = "y_n = I_0(beta * sqrt(1 - (2 * (n - 1) / (N - 1) - 1)^2)) / I_0(beta)",
    source = 'Kaiser and Schafer 1980, "On the Use of the I0-Sinh Window for Spectrum Analysis"',
    example = "ml.kaiser_window(5, false, 3)",
    gives = [[
{0.2049, 0.7269, 1.0000, 0.7269, 0.2049}
Tensor (5,) float32]] }, { "6", "7, false", "5, true, 3.5", "4, false, 0.0" })

op { [[stft(Tensor x, int n_fft, int? hop_length=nil, int? win_length=nil, Tensor? window=nil,
            bool center=true, string pad_mode="reflect", bool normalized=false, bool? onesided=nil,
            bool? return_complex=nil) -> Tensor]],
     kind = "composite", autocast = { host = "float32" }, mixed = true, dtypes = "floating+complex",
     doc = "Short-time Fourier transform: the discrete Fourier transforms of the windows of a signal.",
     args = { x = "the signals",
              n_fft = "the length of the transforms",
              hop_length = "the step from one window to the next; a quarter of `n_fft` unless given",
              win_length = "the length of `window`, which stands in the middle of the `n_fft` points; `n_fft` " ..
                "unless given",
              window = "what each window is multiplied with; ones unless given",
              center = "whether `n_fft / 2` elements are added at both ends, so that window `i` is centred at " ..
                "element `1 + (i - 1) * hop_length`",
              pad_mode = "what is added, as the `mode` of `ml.pad`",
              normalized = "whether the results are divided by the square root of `n_fft`",
              onesided = "whether only the first `n_fft / 2 + 1` frequencies are returned; true for real signals " ..
                "unless given",
              return_complex = "whether the result is complex, else a last dimension holds both parts; must be " ..
                "given for a real signal" },
     shapes = "x (batch, length) -> (batch, frequencies, windows)",
     formula = "y_(k,m) = sum_n window_n * x_((m - 1) * hop_length + n) * exp(-2 * pi * i * (n - 1) * (k - 1) / " ..
       "n_fft)",
     source = 'Allen and Rabiner 1977, "A Unified Approach to Short-Time Fourier Analysis and Synthesis"',
     example = "ml.stft(ml.randn(1, 16), 8, {return_complex = true}).shape", gives = "(1, 5, 9)",
     sample = { "randn(2, 20), 8, nil, nil, nil, true, \"reflect\", false, nil, true",
                "randn(20), 8, 3, 6, hann_window(6), true, \"constant\", true, nil, false",
                "randn(2, 20), 7, 2, nil, hamming_window(7), false, \"reflect\", false, false, true",
                "view_as_complex(randn(20, 2)), 6, 3, 4, hann_window(4), true, \"replicate\"" },
     check = { dtypes = "16-bit floats are refused", empty = "a window must fit" },
     torch = "torch.stft(*args[:9], return_complex=args[9]) if len(args) > 9 else torch.stft(*args)" }

op { [[istft(Tensor x, int n_fft, int? hop_length=nil, int? win_length=nil, Tensor? window=nil,
             bool center=true, bool normalized=false, bool? onesided=nil, int? length=nil,
             bool return_complex=false) -> Tensor]],
     kind = "composite", mixed = true, dtypes = "complex",
     doc = [[Inverse short-time Fourier transform: the signal of which `stft` with the same arguments
gives `x`. The windows are overlapped, added and divided by the sum of the squares of `window`, which
must not vanish anywhere.]],
     args = { x = "the transforms, complex",
              n_fft = "the length of the transforms",
              hop_length = "the step from one window to the next; a quarter of `n_fft` unless given",
              win_length = "the length of `window`; `n_fft` unless given",
              window = "what each window was multiplied with; ones unless given",
              center = "whether `n_fft / 2` elements were added at both ends",
              normalized = "whether the transforms were divided by the square root of `n_fft`",
              onesided = "whether `x` has the first `n_fft / 2 + 1` frequencies only",
              length = "the length to which the signal is cut or padded with zeros",
              return_complex = "whether the signal is complex" },
     shapes = "x (batch, frequencies, windows) -> (batch, length)",
     errors = "windows whose squares sum to 0 somewhere",
     source = 'Griffin and Lim 1984, "Signal Estimation from Modified Short-Time Fourier Transform"',
     example = [[
x = ml.randn(16)
ml.allclose(ml.istft(ml.stft(x, 8, {return_complex = true}), 8), x, 1e-4, 1e-5)]],
     gives = "true",
     sample = { "stft(randn(2, 20), 8, nil, nil, nil, true, \"reflect\", false, nil, true), 8",
                "view_as_complex(randn(5, 6, 2)), 8, 3, 6, hamming_window(6), true, true, nil, 15",
                "view_as_complex(randn(2, 5, 4, 2)), 5, 2, nil, nil, false, false, false, nil, true",
                "view_as_complex(randn(6, 4, 2)), 6, 2, nil, nil, true, false, false",
                "view_as_complex(randn(5, 4, 2)), 8, 2, nil, nil, true, false, nil, 12" },
     check = { empty = "a window must be there", dtypes = "its windows fit one shape" },
     torch = "torch.istft(*args)" }
