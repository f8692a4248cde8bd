// autograd/composite/fft.cpp: the functions of ml.fft: lengths, dims and norms read as PyTorch
// reads them, and the transforms done by the ops fft_c2c, fft_r2c and fft_c2r.
#include <cmath>

#include "autograd/uses_composite_fft.h"
#include "tensor/runtime/execution.h"

namespace moonlet {

namespace {

// x in a dtype that the transforms take: integers as the default dtype, and complex where asked.
Tensor promoted(const Tensor& x, bool complex, const char* op) {
  check(!is_reduced_floating(x.dtype()), op, ": dtype ", x.dtype(),
        "; float32, float64 or a complex one expected");
  const DType dtype = is_differentiable(x.dtype()) ? x.dtype() : execution.default_dtype;
  check(!is_reduced_floating(dtype), op, ": integers would be of the default dtype, ", dtype,
        "; float32 or float64 expected");
  return to(x, complex ? complex_of(dtype) : dtype);
}

Tensor real_input(const Tensor& x, const char* op) {
  check(!is_complex(x.dtype()), op, ": dtype ", x.dtype(), "; a real one expected");
  return promoted(x, false, op);
}

// The factor of a transform of so many points.
double scale_of(std::string_view norm, double points, bool forward, const char* op) {
  check(norm == "backward" || norm == "ortho" || norm == "forward", op, ": norm \"", norm,
        "\"; \"backward\", \"ortho\" or \"forward\" expected");
  if (norm == "ortho") return 1 / std::sqrt(points);
  return forward == (norm == "forward") ? 1 / points : 1;
}

// x with n positions along dim: cut, or with zeros behind.
Tensor resized(const Tensor& x, int dim, int64_t n, const char* op) {
  check(n >= 1, op, ": ", n, " points; 1 or more expected");
  const int64_t size = x.size(dim);
  if (size == n) return x;
  if (n < size) return narrow(x, dim, 0, n);
  std::vector<int64_t> pad(static_cast<size_t>(2 * (x.dim() - dim)), 0);
  pad.back() = n - size;
  return constant_pad(x, pad, int64_t{0});
}

// The dims of a transform along several and their lengths.
struct Extent {
  Dims dims, sizes;
  double points() const {
    double product = 1;
    for (const int64_t n : sizes) product *= static_cast<double>(n);
    return product;
  }
};

// What `s` and `dim` say, as the dims are, but for the last, for which `last` is what it is unless
// s says so.
Extent extent_of(const Tensor& x, const Dims& s, const OptionalDims& dim, const char* op) {
  Extent out;
  if (dim.given()) {
    out.dims = wrap_dims(dim, x.dim(), op);
  } else {
    check(s.size() <= x.dim(), op, ": ", s.size(), " lengths for shape ", x.sizes());
    const int count = s.empty() ? x.dim() : s.size();
    for (int i = x.dim() - count; i < x.dim(); ++i) out.dims.push_back(i);
  }
  check(s.empty() || s.size() == out.dims.size(), op, ": ", s.size(), " lengths for ",
        out.dims.size(), " dims");
  for (int i = 0; i < out.dims.size(); ++i) {
    const bool kept = s.empty() || s[i] == -1;
    out.sizes.push_back(kept ? x.size(static_cast<int>(out.dims[i])) : s[i]);
  }
  return out;
}

// The same where x has the sums of real numbers: without a length for the last dim it is twice the
// number of sums less 2.
Extent real_extent_of(const Tensor& x, const Dims& s, const OptionalDims& dim, const char* op) {
  Extent out = extent_of(x, s, dim, op);
  check(!out.dims.empty(), op, ": one dim or more expected");
  if (s.empty() || s.back() == -1) out.sizes.back() = 2 * (out.sizes.back() - 1);
  return out;
}

Tensor resized(Tensor x, const Extent& extent, const char* op) {
  for (int i = 0; i < extent.dims.size(); ++i)
    x = resized(x, static_cast<int>(extent.dims[i]), extent.sizes[i], op);
  return x;
}

// All dims but the last.
Dims leading(const Dims& dims) { return Dims(dims.data(), dims.size() - 1); }

Tensor complex_transform(const Tensor& given, const Dims& s, const OptionalDims& dim,
                         std::string_view norm, bool forward, const char* op) {
  const Tensor x = promoted(given, true, op);
  const Extent extent = extent_of(x, s, dim, op);
  const double scale = scale_of(norm, extent.points(), forward, op);
  const Tensor from = resized(x, extent, op);
  return extent.dims.empty() ? clone(from) : fft_c2c(from, extent.dims, forward, scale);
}

// Real numbers to the first half of their sums; not `forward`, their conjugates.
Tensor from_real(const Tensor& given, const Dims& s, const OptionalDims& dim, std::string_view norm,
                 bool forward, const char* op) {
  const Tensor x = real_input(given, op);
  const Extent extent = extent_of(x, s, dim, op);
  check(!extent.dims.empty(), op, ": one dim or more expected");
  const double scale = scale_of(norm, extent.points(), forward, op);
  Tensor sums = fft_r2c(resized(x, extent, op), extent.dims.back(), scale);
  if (!forward) conj_physical_(sums);
  const Dims others = leading(extent.dims);
  return others.empty() ? sums : fft_c2c(sums, others, forward, 1);
}

// The way back; `forward`, of the conjugates.
Tensor to_real(const Tensor& given, const Dims& s, const OptionalDims& dim, std::string_view norm,
               bool forward, const char* op) {
  const Tensor x = promoted(given, true, op);
  Extent extent = real_extent_of(x, s, dim, op);
  const int64_t n = extent.sizes.back();
  check(n >= 1, op, ": ", n, " points; 1 or more expected");
  const double scale = scale_of(norm, extent.points(), forward, op);
  extent.sizes.back() = n / 2 + 1;
  const Tensor from = resized(x, extent, op);
  const Dims others = leading(extent.dims);
  if (others.empty())
    return fft_c2r(forward ? conj_physical(from) : from, extent.dims.back(), n, scale);
  Tensor sums = fft_c2c(from, others, forward, 1);
  if (forward) conj_physical_(sums);
  return fft_c2r(sums, extent.dims.back(), n, scale);
}

// The length along one dim, which is no -1 here.
Dims length(std::optional<int64_t> n, const char* op) {
  check(!n || *n >= 1, op, ": ", n.value_or(0), " points; 1 or more expected");
  return n ? Dims{*n} : Dims{};
}

OptionalDims one_dim(const Tensor& x, int64_t dim, const char* op) {
  check(x.dim() > 0, op, ": shape () has no dim to transform");
  return OptionalDims{wrap_dim(dim, x.dim(), op)};
}

}  // namespace

Tensor fft_fft_composite(const Tensor& x, std::optional<int64_t> n, int64_t dim,
                         std::string_view norm) {
  return complex_transform(x, length(n, "fft.fft"), one_dim(x, dim, "fft.fft"), norm, true,
                           "fft.fft");
}
Tensor fft_fft2_composite(const Tensor& x, const Dims& s, const Dims& dim, std::string_view norm) {
  return complex_transform(x, s, OptionalDims(dim), norm, true, "fft.fft2");
}
Tensor fft_fftn_composite(const Tensor& x, const Dims& s, const OptionalDims& dim,
                          std::string_view norm) {
  return complex_transform(x, s, dim, norm, true, "fft.fftn");
}

Tensor fft_ifft_composite(const Tensor& x, std::optional<int64_t> n, int64_t dim,
                          std::string_view norm) {
  return complex_transform(x, length(n, "fft.ifft"), one_dim(x, dim, "fft.ifft"), norm, false,
                           "fft.ifft");
}
Tensor fft_ifft2_composite(const Tensor& x, const Dims& s, const Dims& dim, std::string_view norm) {
  return complex_transform(x, s, OptionalDims(dim), norm, false, "fft.ifft2");
}
Tensor fft_ifftn_composite(const Tensor& x, const Dims& s, const OptionalDims& dim,
                           std::string_view norm) {
  return complex_transform(x, s, dim, norm, false, "fft.ifftn");
}

Tensor fft_rfft_composite(const Tensor& x, std::optional<int64_t> n, int64_t dim,
                          std::string_view norm) {
  return from_real(x, length(n, "fft.rfft"), one_dim(x, dim, "fft.rfft"), norm, true, "fft.rfft");
}
Tensor fft_rfft2_composite(const Tensor& x, const Dims& s, const Dims& dim, std::string_view norm) {
  return from_real(x, s, OptionalDims(dim), norm, true, "fft.rfft2");
}
Tensor fft_rfftn_composite(const Tensor& x, const Dims& s, const OptionalDims& dim,
                           std::string_view norm) {
  return from_real(x, s, dim, norm, true, "fft.rfftn");
}

Tensor fft_ihfft_composite(const Tensor& x, std::optional<int64_t> n, int64_t dim,
                           std::string_view norm) {
  return from_real(x, length(n, "fft.ihfft"), one_dim(x, dim, "fft.ihfft"), norm, false,
                   "fft.ihfft");
}
Tensor fft_ihfft2_composite(const Tensor& x, const Dims& s, const Dims& dim,
                            std::string_view norm) {
  return from_real(x, s, OptionalDims(dim), norm, false, "fft.ihfft2");
}
Tensor fft_ihfftn_composite(const Tensor& x, const Dims& s, const OptionalDims& dim,
                            std::string_view norm) {
  return from_real(x, s, dim, norm, false, "fft.ihfftn");
}

Tensor fft_irfft_composite(const Tensor& x, std::optional<int64_t> n, int64_t dim,
                           std::string_view norm) {
  return to_real(x, length(n, "fft.irfft"), one_dim(x, dim, "fft.irfft"), norm, false, "fft.irfft");
}
Tensor fft_irfft2_composite(const Tensor& x, const Dims& s, const Dims& dim,
                            std::string_view norm) {
  return to_real(x, s, OptionalDims(dim), norm, false, "fft.irfft2");
}
Tensor fft_irfftn_composite(const Tensor& x, const Dims& s, const OptionalDims& dim,
                            std::string_view norm) {
  return to_real(x, s, dim, norm, false, "fft.irfftn");
}

Tensor fft_hfft_composite(const Tensor& x, std::optional<int64_t> n, int64_t dim,
                          std::string_view norm) {
  return to_real(x, length(n, "fft.hfft"), one_dim(x, dim, "fft.hfft"), norm, true, "fft.hfft");
}
Tensor fft_hfft2_composite(const Tensor& x, const Dims& s, const Dims& dim, std::string_view norm) {
  return to_real(x, s, OptionalDims(dim), norm, true, "fft.hfft2");
}
Tensor fft_hfftn_composite(const Tensor& x, const Dims& s, const OptionalDims& dim,
                           std::string_view norm) {
  return to_real(x, s, dim, norm, true, "fft.hfftn");
}

namespace {

void check_frequencies(int64_t n, double d, DType dtype, const char* op) {
  check(is_differentiable(dtype), op, ": dtype ", dtype, "; a floating or complex one expected");
  check(n >= 1, op, ": ", n, " points; 1 or more expected");
  check(d != 0, op, ": the points are at distance 0");
}

// The whole numbers from first to last, over n d.
Tensor frequencies(int64_t first, int64_t last, int64_t n, double d, Options options) {
  const Tensor whole = arange(first, last, int64_t{1}, options.dtype, options.device);
  return mul(whole, 1 / (static_cast<double>(n) * d));
}

// Position 1 of each dim moves by `half` or by what is left of the size.
Tensor shifted(const Tensor& x, const OptionalDims& given, bool up, const char* op) {
  const Dims dims = wrap_given_or_all(given, x.dim(), op);
  Dims shifts;
  for (const int64_t d : dims) {
    const int64_t n = x.size(static_cast<int>(d));
    shifts.push_back(up ? n / 2 : (n + 1) / 2);
  }
  return dims.empty() ? clone(x) : roll(x, shifts, dims);
}

}  // namespace

Tensor fft_fftfreq_composite(int64_t n, double d, Options options) {
  check_frequencies(n, d, options.dtype, "fft.fftfreq");
  if (n == 1) return frequencies(0, 0, n, d, options);
  return cat({frequencies(0, (n - 1) / 2, n, d, options), frequencies(-(n / 2), -1, n, d, options)},
             0);
}

Tensor fft_rfftfreq_composite(int64_t n, double d, Options options) {
  check_frequencies(n, d, options.dtype, "fft.rfftfreq");
  return frequencies(0, n / 2, n, d, options);
}

Tensor fft_fftshift_composite(const Tensor& x, const OptionalDims& dim) {
  return shifted(x, dim, true, "fft.fftshift");
}
Tensor fft_ifftshift_composite(const Tensor& x, const OptionalDims& dim) {
  return shifted(x, dim, false, "fft.ifftshift");
}

}  // namespace moonlet
