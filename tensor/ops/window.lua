-- tensor/ops/window.lua: window functions, and the transforms of a signal's windows.

local function window(name, arguments, text, samples)
  op { ("%s_window(int window_length, bool periodic=true%s, Options options) -> Tensor"):format(name, arguments),
       kind = "composite", out = true,
       doc = text .. [[ `periodic` windows are the first `window_length` numbers of one that is longer by
one, as a spectrum wants them; others are symmetric.]],
       sample = samples }
end

window("hann", "", "`(1 - cos(2 pi n / (N - 1))) / 2` for `N` numbers.", { "6", "7, false", "1", "0" })
window("hamming", ", float alpha=0.54, float beta=0.46", "`alpha - beta cos(2 pi n / (N - 1))` for `N` numbers.",
  { "6", "7, false", "5, true, 0.5, 0.3" })
window("blackman", "", "`0.42 - 0.5 cos(2 pi n / (N - 1)) + 0.08 cos(4 pi n / (N - 1))` for `N` numbers.",
  { "6", "7, false" })
window("bartlett", "", "The triangle `1 - |2 n / (N - 1) - 1|` for `N` numbers.", { "6", "7, false", "2, false" })
window("kaiser", ", float beta=12", [[The Kaiser window: `I0(beta sqrt(1 - t^2)) / I0(beta)` at `N` positions `t` from -1
to 1 at equal distances, with the modified Bessel function `I0`.]],
  { "6", "7, false", "5, true, 3.5", "4, false, 0.0" })

op { [[stft(Tensor x, int n_fft, int? hop_length=nil, int? win_length=nil, Tensor? window=nil,
            bool center=true, string pad_mode="reflect", bool normalized=false, bool? onesided=nil,
            bool? return_complex=nil) -> Tensor]],
     kind = "composite", autocast = { host = "float32" }, mixed = true, dtypes = "floating+complex",
     doc = [[The short-time Fourier transform: of each window of `n_fft` points of a signal `x` (length) or
(batch, length), `hop_length` apart (a quarter of `n_fft` unless given), times `window`. The result is
(batch, frequencies, windows): `n_fft / 2 + 1` frequencies where `onesided`, which real signals are
unless it is false. A `window` of `win_length` numbers (`n_fft` unless given; ones without it) stands
in the middle of the points. `center` puts a border of `n_fft / 2` elements around the signal, in the
mode `pad_mode` of `ml.pad`, so that window `i` is about position `1 + (i - 1) hop_length`.
`normalized` divides by the root of `n_fft`. `return_complex`, which must be given for a real signal,
asks for complex numbers; else the last dim holds real and imaginary parts.]],
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
     doc = [[The signal of which `stft` with the same arguments gives `x`, (batch, frequencies, windows) or
(frequencies, windows), all of the frequencies where not `onesided`: the windows put together and divided by the sum of the squares of `window`,
which must not vanish anywhere. `length` cuts the signal or adds zeros to it.]],
     sample = { "stft(randn(2, 20), 8, nil, nil, nil, true, \"reflect\", false, nil, true), 8",
                "view_as_complex(randn(5, 6, 2)), 8, 3, 6, hamming_window(6), true, true, nil, 15",
                "view_as_complex(randn(2, 5, 4, 2)), 5, 2, nil, nil, false, false, false, nil, true",
                "view_as_complex(randn(6, 4, 2)), 6, 2, nil, nil, true, false, false",
                "view_as_complex(randn(5, 4, 2)), 8, 2, nil, nil, true, false, nil, 12" },
     check = { empty = "a window must be there", dtypes = "its windows fit one shape" },
     torch = "torch.istft(*args)" }
