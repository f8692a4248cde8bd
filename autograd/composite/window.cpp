// autograd/composite/window.cpp: window functions, and the transforms of a signal's windows.
#include <cmath>

#include "autograd/formulas.h"
#include "autograd/host_value.h"
#include "autograd/uses_composite_window.h"

namespace moonlet {

namespace {

constexpr double kPi = 3.14159265358979323846;

// A window of `length` numbers: make(n, points) gives those of n, which holds 0, 1, ... in float64,
// of a symmetric window of so many points.
template <class Make>
Tensor window_of(int64_t length, bool periodic, Options options, const char* op, Make&& make) {
  check(length >= 0, op, ": a window of ", length, " numbers; 0 or more expected");
  check(is_floating(options.dtype), op, ": dtype ", options.dtype, "; a floating one expected");
  if (length == 0) return empty_plain({0}, options, op);
  if (length == 1) return ones({1}, options);
  const Tensor n =
      arange(0.0, static_cast<double>(length - 1), 1.0, DType::Float64, options.device);
  return to(make(n, static_cast<double>(periodic ? length + 1 : length)), options.dtype);
}

Tensor cosine_window(const Tensor& n, double points, double constant, double first, double second) {
  const Tensor angle = mul(n, 2 * kPi / (points - 1));
  const Tensor y = add(mul(cos(angle), -first), constant);
  return second == 0 ? y : add(y, mul(cos(mul(angle, 2.0)), second));
}

}  // namespace

Tensor hann_window_composite(int64_t window_length, bool periodic, Options options) {
  return window_of(window_length, periodic, options, "hann_window",
                   [](const Tensor& n, double m) { return cosine_window(n, m, 0.5, 0.5, 0); });
}

Tensor hamming_window_composite(int64_t window_length, bool periodic, double alpha, double beta,
                                Options options) {
  return window_of(window_length, periodic, options, "hamming_window",
                   [=](const Tensor& n, double m) { return cosine_window(n, m, alpha, beta, 0); });
}

Tensor blackman_window_composite(int64_t window_length, bool periodic, Options options) {
  return window_of(window_length, periodic, options, "blackman_window",
                   [](const Tensor& n, double m) { return cosine_window(n, m, 0.42, 0.5, 0.08); });
}

Tensor bartlett_window_composite(int64_t window_length, bool periodic, Options options) {
  return window_of(
      window_length, periodic, options, "bartlett_window",
      [](const Tensor& n, double m) { return sub(1.0, abs(sub(mul(n, 2 / (m - 1)), 1.0))); });
}

Tensor kaiser_window_composite(int64_t window_length, bool periodic, double beta, Options options) {
  // Beyond, I0 leaves float64.
  check(std::abs(beta) <= 700, "kaiser_window: beta ", beta, "; -700 to 700 expected");
  return window_of(window_length, periodic, options, "kaiser_window",
                   [=](const Tensor& n, double m) {
                     const Tensor t = sub(mul(n, 2 / (m - 1)), 1.0);
                     const Tensor from = mul(sqrt(clamp_min(sub(1.0, square(t)), 0.0)), beta);
                     const Tensor most = full({}, beta, {DType::Float64, options.device});
                     return div(i0(from), i0(most));
                   });
}

namespace {

// How a signal is cut into windows.
struct Frames {
  const char* op;
  int64_t points, hop;
  Tensor window;  // `points` numbers, or undefined for ones
};

Frames frames_of(const char* op, const Tensor& x, int64_t n_fft, std::optional<int64_t> hop_length,
                 std::optional<int64_t> win_length, const Tensor& window) {
  check(n_fft >= 1, op, ": n_fft is ", n_fft, "; 1 or more expected");
  const int64_t hop = hop_length.value_or(n_fft / 4), wide = win_length.value_or(n_fft);
  check(hop >= 1, op, ": hop_length is ", hop, "; 1 or more expected");
  check(wide >= 1 && wide <= n_fft, op, ": win_length is ", wide, "; 1 to n_fft = ", n_fft,
        " expected");
  if (!window.defined()) {
    if (wide == n_fft) return {op, n_fft, hop, {}};
  } else {
    check(window.dim() == 1 && window.size(0) == wide, op, ": window has shape ", window.sizes(),
          "; (", wide, ",) expected");
  }
  const Tensor given = window.defined() ? window : ones({wide}, {real_of(x.dtype()), x.device()});
  const int64_t before = (n_fft - wide) / 2;
  return {op, n_fft, hop, constant_pad(given, {before, n_fft - wide - before}, int64_t{0})};
}

// The signal with n elements more at both ends.
Tensor with_border(const Tensor& x, int64_t n, std::string_view mode) {
  Dims sizes = x.sizes();
  while (sizes.size() < 3) sizes.insert(0, 1);
  const Tensor y = pad(reshape(x, sizes), {n, n}, mode);
  Dims wanted = x.sizes();
  wanted.back() = y.size(-1);
  return reshape(y, wanted);
}

}  // namespace

Tensor stft_composite(const Tensor& x, int64_t n_fft, std::optional<int64_t> hop_length,
                      std::optional<int64_t> win_length, const Tensor& window, bool center,
                      std::string_view pad_mode, bool normalized, std::optional<bool> onesided,
                      std::optional<bool> return_complex) {
  const char* op = "stft";
  check(x.dim() == 1 || x.dim() == 2, op, ": the signal has shape ", x.sizes(),
        "; (length) or (batch, length) expected");
  check(is_differentiable(x.dtype()), op, ": dtype ", x.dtype(),
        "; a floating or complex one expected");
  const Frames frames = frames_of(op, x, n_fft, hop_length, win_length, window);
  const bool complex = is_complex(x.dtype()) || (window.defined() && is_complex(window.dtype()));
  check(complex || return_complex, op, ": return_complex must be given for a real signal");
  const bool half = onesided.value_or(!complex);
  check(!half || !complex, op, ": onesided is for real signals and windows");
  const Tensor signal = center ? with_border(x, n_fft / 2, pad_mode) : x;
  check(n_fft <= signal.size(-1), op, ": n_fft is ", n_fft, ", and the signal has ",
        signal.size(-1), " elements");
  Tensor parts = moonlet::unfold(signal, -1, n_fft, frames.hop);
  if (frames.window.defined()) parts = mul(parts, frames.window);
  const std::string_view norm = normalized ? "ortho" : "backward";
  const Tensor sums =
      half ? fft_rfft(parts, std::nullopt, -1, norm) : fft_fft(parts, std::nullopt, -1, norm);
  const Tensor y = transpose(sums, -1, -2);
  return return_complex.value_or(true) ? y : view_as_real(y);
}

namespace {

// The windows (..., count, points) laid over one another `hop` apart, and added.
Tensor laid_over(const Tensor& parts, int64_t hop) {
  const int64_t count = parts.size(-2), points = parts.size(-1);
  Dims sizes(parts.sizes().data(), parts.dim() - 2);
  sizes.push_back(checked_add(points, checked_mul(hop, count - 1, "istft"), "istft"));
  return formulas::unfold_grad_x(parts, sizes, sizes.size() - 1, points, hop);
}

void check_spectrum(const Tensor& x, int64_t n_fft, bool half) {
  const char* op = "istft";
  check(x.dim() == 2 || x.dim() == 3, op, ": the spectrum has shape ", x.sizes(),
        "; (frequencies, windows) or (batch, frequencies, windows) expected");
  const int64_t wanted = half ? n_fft / 2 + 1 : n_fft;
  check(x.size(-2) == wanted, op, ": ", x.size(-2), " frequencies; ", wanted,
        " expected for n_fft = ", n_fft);
  check(x.size(-1) >= 1, op, ": the spectrum has no windows");
}

}  // namespace

Tensor istft_composite(const Tensor& x, int64_t n_fft, std::optional<int64_t> hop_length,
                       std::optional<int64_t> win_length, const Tensor& window, bool center,
                       bool normalized, std::optional<bool> onesided, std::optional<int64_t> length,
                       bool return_complex) {
  const char* op = "istft";
  check(is_complex(x.dtype()), op, ": dtype ", x.dtype(), "; a complex one expected");
  const Frames frames = frames_of(op, x, n_fft, hop_length, win_length, window);
  const bool half = onesided.value_or(x.dim() < 2 || x.size(-2) != n_fft);
  check(!half || !return_complex, op, ": onesided is for real signals");
  check(return_complex || !window.defined() || !is_complex(window.dtype()), op,
        ": a complex window needs return_complex");
  check(!length || *length >= 0, op, ": length is ", length.value_or(0));
  check_spectrum(x, n_fft, half);
  const std::string_view norm = normalized ? "ortho" : "backward";
  const Tensor sums = transpose(x, -1, -2);
  Tensor parts = return_complex ? fft_ifft(sums, std::nullopt, -1, norm)
                                : fft_irfft(narrow(sums, -1, 0, n_fft / 2 + 1), n_fft, -1, norm);
  Tensor weight =
      frames.window.defined() ? frames.window : ones({n_fft}, {real_of(x.dtype()), x.device()});
  if (frames.window.defined()) parts = mul(parts, weight);
  const Tensor whole = laid_over(parts, frames.hop);
  const Tensor weights = laid_over(expand(square(weight), {parts.size(-2), n_fft}), frames.hop);
  const int64_t reach = whole.size(-1), from = center ? n_fft / 2 : 0;
  const int64_t stop = length ? checked_add(from, *length, op) : reach - from;
  const int64_t there = std::min(stop, reach) - from;
  check(there >= 0, op, ": the windows are shorter than the border that center takes away");
  const Tensor used = narrow(weights, -1, from, there);
  if (there > 0)
    expect_all(gt(abs(used), 1e-11),
               text(op, ": the squares of the windows add up to 0 somewhere"));
  const Tensor y = div(narrow(whole, -1, from, there), used);
  return stop > reach ? constant_pad(y, {0, stop - reach}, int64_t{0}) : y;
}

}  // namespace moonlet
