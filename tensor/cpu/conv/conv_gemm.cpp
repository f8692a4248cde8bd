// tensor/cpu/conv/conv_gemm.cpp: convolution as a matrix product: the windows of an image are laid
// out as the columns of a matrix (im2col), of one image and group at a time and of as many
// positions as stay in the cache.
#include <algorithm>

#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/conv/conv.h"
#include "tensor/cpu/conv/conv_direct_simd.h"
#include "tensor/cpu/copy/copy.h"
#include "tensor/cpu/gemm/gemm.h"

namespace moonlet::cpu {
namespace {

using Axes = ConvShape::Axes;

int64_t group_in(const ConvShape& s) { return s.in_channels / s.groups; }
int64_t group_out(const ConvShape& s) { return s.out_channels / s.groups; }
int64_t taps(const ConvShape& s) { return group_in(s) * volume(s.kernel); }
int64_t positions(const ConvShape& s) { return volume(s.out); }

// Positions of the output, one after the other.
struct Piece {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

// How many positions are laid out at once: their columns take a quarter of a MiB, or more where
// that is too few of them for a product.
int64_t piece_size(const ConvShape& s, DType dtype) {
  constexpr int64_t kBytes = thresholds::conv::kColumnBytes,
                    kMostBytes = thresholds::conv::kMostColumnBytes,
                    kEnough = thresholds::conv::kEnoughPositions;
  const int64_t column = taps(s) * static_cast<int64_t>(size_of(dtype));
  const int64_t enough = std::clamp<int64_t>(kMostBytes / column, 1, kEnough);
  return std::min(positions(s), std::max(enough, kBytes / column));
}

int64_t piece_count(const ConvShape& s, DType dtype) {
  const int64_t size = piece_size(s, dtype);
  return (positions(s) + size - 1) / size;
}

// The tap of one row of the columns: its channel, what it adds to the position in the input, and
// the range of positions in a line that see the input through it.
struct Tap {
  int64_t channel;
  Axes shift;
  int64_t first, last;
};

Tap tap_of(const ConvShape& s, int64_t row) {
  Tap tap{};
  for (int i = ConvShape::kAxes - 1; i >= 0; --i) {
    tap.shift[i] = row % s.kernel[i] * s.dilation[i] - s.pad[i];
    row /= s.kernel[i];
  }
  tap.channel = row;
  const int64_t shift = tap.shift[2], step = s.stride[2];
  tap.first = shift >= 0 ? 0 : (-shift + step - 1) / step;
  tap.last = shift >= s.in[2] ? 0 : (s.in[2] - 1 - shift) / step + 1;
  return tap;
}

// Calls body(seen, before, count, after) for each line of a piece: `seen` is where the first of
// `count` positions sees the channel, `before` and `after` are positions that see nothing.
template <class Body>
void each_line(const ConvShape& s, const Tap& tap, const Piece& piece, Body&& body) {
  const int64_t width = s.out[2];
  int64_t ox = piece.begin % width, oy = piece.begin / width % s.out[1],
          oz = piece.begin / width / s.out[1];
  for (int64_t position = piece.begin; position < piece.end; ox = 0) {
    const int64_t end = std::min(width, ox + piece.end - position);
    const int64_t iz = oz * s.stride[0] + tap.shift[0], iy = oy * s.stride[1] + tap.shift[1];
    const bool inside = iz >= 0 && iz < s.in[0] && iy >= 0 && iy < s.in[1];
    const int64_t from = inside ? std::clamp(tap.first, ox, end) : end;
    const int64_t to = inside ? std::clamp(tap.last, from, end) : end;
    body((iz * s.in[1] + iy) * s.in[2] + from * s.stride[2] + tap.shift[2], from - ox, to - from,
         end - to);
    position += end - ox;
    if (++oy == s.out[1]) {
      oy = 0;
      ++oz;
    }
  }
}

// The channels of one group of one image to the columns (taps, positions) of a piece.
template <class T>
void to_columns(const ConvShape& s, const T* image, const Piece& piece, T* columns) {
  parallel_for(taps(s), grain_for(piece.size()), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const Tap tap = tap_of(s, row);
      const T* plane = image + tap.channel * volume(s.in);
      T* out = columns + row * piece.size();
      const int64_t step = s.stride[2];
      each_line(s, tap, piece, [&](int64_t seen, int64_t before, int64_t count, int64_t after) {
        out = std::fill_n(out, before, T(0));
        if (step == 1)
          std::copy_n(plane + (count > 0 ? seen : 0), count, out);
        else
          for (int64_t i = 0; i < count; ++i) out[i] = plane[seen + i * step];
        out = std::fill_n(out + count, after, T(0));
      });
    }
  });
}

// Adds the columns back to the positions of the image they came from.
template <class T>
void add_columns(const ConvShape& s, const T* columns, const Piece& piece, T* image) {
  const int64_t window = volume(s.kernel);
  parallel_for(group_in(s), grain_for(window * piece.size()), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin * window; row < end * window; ++row) {
      const Tap tap = tap_of(s, row);
      T* plane = image + tap.channel * volume(s.in);
      const T* in = columns + row * piece.size();
      const int64_t step = s.stride[2];
      each_line(s, tap, piece, [&](int64_t seen, int64_t before, int64_t count, int64_t after) {
        in += before;
        if (step == 1)
          for (int64_t i = 0; i < count; ++i) plane[seen + i] += in[i];
        else
          for (int64_t i = 0; i < count; ++i) plane[seen + i * step] += in[i];
        in += count + after;
      });
    }
  });
}

template <class T>
Matrix matrix(const T* data, int64_t rows, int64_t cols, int64_t row_stride) {
  return {const_cast<char*>(reinterpret_cast<const char*>(data)), rows, cols, row_stride, 1};
}

// The parts of the tensors that image n and group g use.
template <class T>
T* input_part(const ConvShape& s, const Tensor& t, int64_t n, int64_t g) {
  return t.elements<T>() + (n * s.in_channels + g * group_in(s)) * volume(s.in);
}
template <class T>
Matrix output_part(const ConvShape& s, const Tensor& t, int64_t n, int64_t g, const Piece& piece) {
  const int64_t first = n * s.out_channels + g * group_out(s);
  return matrix(t.elements<T>() + first * positions(s) + piece.begin, group_out(s), piece.size(),
                positions(s));
}
template <class T>
Matrix weight_part(const ConvShape& s, const Tensor& t, int64_t g) {
  return matrix(t.elements<T>() + g * group_out(s) * taps(s), group_out(s), taps(s), taps(s));
}

// Memory for the columns of one piece; an image whose positions see themselves is its own columns.
class Columns {
 public:
  Columns(const ConvShape& s, DType dtype)
      : shape_(s), direct_(s.is_pointwise()), size_(piece_size(s, dtype)) {
    if (!direct_) buffer_ = empty_plain({taps(s), size_}, {dtype, {}}, "conv");
  }
  Piece piece(int64_t i) const { return {i * size_, std::min(positions(shape_), (i + 1) * size_)}; }

  // Those of a piece, to be written.
  template <class T>
  Matrix of(T* image, const Piece& piece) const {
    if (direct_) return matrix(image + piece.begin, taps(shape_), piece.size(), positions(shape_));
    return matrix(buffer_.elements<T>(), taps(shape_), piece.size(), piece.size());
  }
  // The same, with what the windows of the image hold.
  template <class T>
  Matrix filled(T* image, const Piece& piece) const {
    if (!direct_) to_columns<T>(shape_, image, piece, buffer_.elements<T>());
    return of(image, piece);
  }
  template <class T>
  void add_to(T* image, const Piece& piece) const {
    if (!direct_) add_columns<T>(shape_, buffer_.elements<T>(), piece, image);
  }

 private:
  const ConvShape& shape_;
  const bool direct_;
  const int64_t size_;
  Tensor buffer_;
};

template <class T>
void fill_rows(const Matrix& m, const T* values) {
  for (int64_t i = 0; i < m.rows; ++i)
    std::fill_n(reinterpret_cast<T*>(m.data) + i * m.row_stride, m.cols, values[i]);
}

template <class T>
void forward(const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias,
             Tensor& y) {
  const int64_t pieces = piece_count(s, y.dtype());
  parallel_for(s.batch * s.groups * pieces, 1, [&](int64_t begin, int64_t end) {
    const Columns columns(s, y.dtype());
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / pieces / s.groups, g = i / pieces % s.groups;
      const Piece piece = columns.piece(i % pieces);
      const Matrix out = output_part<T>(s, y, n, g, piece);
      if (bias.defined()) fill_rows(out, bias.elements<T>() + g * group_out(s));
      gemm(y.dtype(), 1, weight_part<T>(s, weight, g),
           columns.filled(input_part<T>(s, x, n, g), piece), bias.defined() ? 1 : 0, out);
      for (int64_t row = 0; s.relu && row < out.rows; ++row)
        clip_at_zero(reinterpret_cast<T*>(out.data) + row * out.row_stride, out.cols);
    }
  });
}

template <class T>
void transpose(const ConvShape& s, const Tensor& grad, const Tensor& weight, const Tensor& bias,
               Tensor& y) {
  const bool adds = !s.is_pointwise() || bias.defined();
  const int64_t pieces = piece_count(s, y.dtype());
  parallel_for(s.batch * s.groups, 1, [&](int64_t begin, int64_t end) {
    const Columns columns(s, y.dtype());
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / s.groups, g = i % s.groups;
      T* const image = input_part<T>(s, y, n, g);
      for (int64_t c = 0; adds && c < group_in(s); ++c)
        std::fill_n(image + c * volume(s.in), volume(s.in),
                    bias.defined() ? bias.elements<T>()[g * group_in(s) + c] : T(0));
      for (int64_t k = 0; k < pieces; ++k) {
        stop_if_requested();
        const Piece piece = columns.piece(k);
        gemm(y.dtype(), 1, transposed(weight_part<T>(s, weight, g)),
             output_part<T>(s, grad, n, g, piece), s.is_pointwise() && adds ? 1 : 0,
             columns.of(image, piece));
        columns.add_to(image, piece);
      }
    }
  });
}

// Images are added one after another, so the sum does not depend on the number of threads.
template <class T>
void weight_grad(const ConvShape& s, const Tensor& grad, const Tensor& x, Tensor& y) {
  const Columns columns(s, y.dtype());
  const int64_t pieces = piece_count(s, y.dtype());
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t g = 0; g < s.groups; ++g)
      for (int64_t k = 0; k < pieces; ++k) {
        stop_if_requested();
        const Piece piece = columns.piece(k);
        gemm(y.dtype(), 1, output_part<T>(s, grad, n, g, piece),
             transposed(columns.filled(input_part<T>(s, x, n, g), piece)), n + k == 0 ? 0 : 1,
             weight_part<T>(s, y, g));
      }
}

constexpr DTypeSet kConvTypes = bit(DType::Float32) | bit(DType::Float64);

}  // namespace

void conv_gemm(const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias,
               Tensor& y) {
  visit<kConvTypes>(y.dtype(), [&]<class T>() { forward<T>(s, x, weight, bias, y); });
}

void conv_transpose_gemm(const ConvShape& s, const Tensor& x, const Tensor& weight,
                         const Tensor& bias, Tensor& y) {
  visit<kConvTypes>(y.dtype(), [&]<class T>() { transpose<T>(s, x, weight, bias, y); });
}

void conv_grad_weight_gemm(const ConvShape& s, const Tensor& grad, const Tensor& x, Tensor& y) {
  visit<kConvTypes>(y.dtype(), [&]<class T>() { weight_grad<T>(s, grad, x, y); });
}

}  // namespace moonlet::cpu
