// tensor/cpu/conv_gemm.cpp: convolution as a matrix product: the windows of an image are laid out
// as the columns of a matrix (im2col), one image and group at a time.
#include "tensor/cpu/conv.h"
#include "tensor/cpu/copy.h"
#include "tensor/cpu/gemm.h"
#include "tensor/cpu/parallel.h"

namespace moonlet::cpu {
namespace {

int64_t group_in(const ConvShape& s) { return s.in_channels / s.groups; }
int64_t group_out(const ConvShape& s) { return s.out_channels / s.groups; }
int64_t taps(const ConvShape& s) { return group_in(s) * s.kernel_height * s.kernel_width; }
int64_t places(const ConvShape& s) { return s.out_height * s.out_width; }

// Calls body(input row or -1, kernel tap, output row) for each row of the column matrix of one
// channel: a tap's row holds what the tap sees at every output place.
template <class Body>
void each_row(const ConvShape& s, Body&& body) {
  for (int64_t ky = 0; ky < s.kernel_height; ++ky)
    for (int64_t kx = 0; kx < s.kernel_width; ++kx) {
      stop_if_requested();
      serial_for(s.out_height, s.out_width, [&](int64_t begin, int64_t end) {
        for (int64_t oy = begin; oy < end; ++oy) {
          const int64_t iy = oy * s.stride_y - s.pad_y + ky * s.dilation_y;
          body(iy >= 0 && iy < s.in_height ? iy : -1, ky * s.kernel_width + kx,
               kx * s.dilation_x - s.pad_x, oy);
        }
      });
    }
}

// The channels of one group of one image (c, h, w) to columns (c kh kw, oh ow).
template <class T>
void to_columns(const ConvShape& s, const T* image, T* columns) {
  for (int64_t c = 0; c < group_in(s); ++c) {
    const T* plane = image + c * s.in_height * s.in_width;
    T* block = columns + c * s.kernel_height * s.kernel_width * places(s);
    each_row(s, [&](int64_t iy, int64_t tap, int64_t shift, int64_t oy) {
      T* out = block + tap * places(s) + oy * s.out_width;
      if (iy < 0) {
        std::fill(out, out + s.out_width, T(0));
        return;
      }
      serial_for(s.out_width, 1, [&](int64_t begin, int64_t end) {
        for (int64_t ox = begin; ox < end; ++ox) {
          const int64_t ix = ox * s.stride_x + shift;
          out[ox] = ix >= 0 && ix < s.in_width ? plane[iy * s.in_width + ix] : T(0);
        }
      });
    });
  }
}

// Adds the columns back to the places of the image they came from.
template <class T>
void add_columns(const ConvShape& s, const T* columns, T* image) {
  for (int64_t c = 0; c < group_in(s); ++c) {
    T* plane = image + c * s.in_height * s.in_width;
    const T* block = columns + c * s.kernel_height * s.kernel_width * places(s);
    each_row(s, [&](int64_t iy, int64_t tap, int64_t shift, int64_t oy) {
      if (iy < 0) return;
      const T* in = block + tap * places(s) + oy * s.out_width;
      serial_for(s.out_width, 1, [&](int64_t begin, int64_t end) {
        for (int64_t ox = begin; ox < end; ++ox) {
          const int64_t ix = ox * s.stride_x + shift;
          if (ix >= 0 && ix < s.in_width) plane[iy * s.in_width + ix] += in[ox];
        }
      });
    });
  }
}

template <class T>
Matrix dense(const T* data, int64_t rows, int64_t cols) {
  return {const_cast<char*>(reinterpret_cast<const char*>(data)), rows, cols, cols, 1};
}

// The parts of the tensors that image n and group g use.
template <class T>
T* input_part(const ConvShape& s, const Tensor& t, int64_t n, int64_t g) {
  return t.elements<T>() + (n * s.in_channels + g * group_in(s)) * s.in_height * s.in_width;
}
template <class T>
T* output_part(const ConvShape& s, const Tensor& t, int64_t n, int64_t g) {
  return t.elements<T>() + (n * s.out_channels + g * group_out(s)) * places(s);
}
template <class T>
T* weight_part(const ConvShape& s, const Tensor& t, int64_t g) {
  return t.elements<T>() + g * group_out(s) * taps(s);
}

Tensor column_buffer(const ConvShape& s, DType dtype) {
  return empty_plain({taps(s), places(s)}, {dtype, {}}, "conv2d");
}

template <class T>
void forward(const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias,
             Tensor& y) {
  parallel_for(s.batch, 1, [&](int64_t begin, int64_t end) {
    Tensor buffer = column_buffer(s, y.dtype());
    const Matrix columns = dense(buffer.elements<T>(), taps(s), places(s));
    for (int64_t i = begin * s.groups; i < end * s.groups; ++i) {
      const int64_t n = i / s.groups, g = i % s.groups;
      T* out = output_part<T>(s, y, n, g);
      for (int64_t o = 0; bias.defined() && o < group_out(s); ++o)
        std::fill_n(out + o * places(s), places(s), bias.elements<T>()[g * group_out(s) + o]);
      to_columns(s, input_part<T>(s, x, n, g), buffer.elements<T>());
      gemm(y.dtype(), 1, dense(weight_part<T>(s, weight, g), group_out(s), taps(s)), columns,
           bias.defined() ? 1 : 0, dense(out, group_out(s), places(s)));
    }
  });
}

template <class T>
void input_grad(const ConvShape& s, const Tensor& grad, const Tensor& weight, Tensor& y) {
  zero_bytes(y.raw(), y.numel() * static_cast<int64_t>(sizeof(T)));
  parallel_for(s.batch, 1, [&](int64_t begin, int64_t end) {
    Tensor buffer = column_buffer(s, y.dtype());
    const Matrix columns = dense(buffer.elements<T>(), taps(s), places(s));
    for (int64_t i = begin * s.groups; i < end * s.groups; ++i) {
      const int64_t n = i / s.groups, g = i % s.groups;
      gemm(y.dtype(), 1, transposed(dense(weight_part<T>(s, weight, g), group_out(s), taps(s))),
           dense(output_part<T>(s, grad, n, g), group_out(s), places(s)), 0, columns);
      add_columns(s, buffer.elements<T>(), input_part<T>(s, y, n, g));
    }
  });
}

// Images are added one after another, so the sum does not depend on the number of threads.
template <class T>
void weight_grad(const ConvShape& s, const Tensor& grad, const Tensor& x, Tensor& y) {
  Tensor buffer = column_buffer(s, y.dtype());
  const Matrix columns = dense(buffer.elements<T>(), taps(s), places(s));
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t g = 0; g < s.groups; ++g) {
      to_columns(s, input_part<T>(s, x, n, g), buffer.elements<T>());
      gemm(y.dtype(), 1, dense(output_part<T>(s, grad, n, g), group_out(s), places(s)),
           transposed(columns), n == 0 ? 0 : 1,
           dense(weight_part<T>(s, y, g), group_out(s), taps(s)));
    }
}

constexpr DTypeSet kConvTypes = bit(DType::Float32) | bit(DType::Float64);

}  // namespace

void conv2d_gemm(const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 Tensor& y) {
  visit<kConvTypes>(y.dtype(), [&]<class T>() { forward<T>(s, x, weight, bias, y); });
}

void conv2d_grad_x_gemm(const ConvShape& s, const Tensor& grad, const Tensor& weight, Tensor& y) {
  visit<kConvTypes>(y.dtype(), [&]<class T>() { input_grad<T>(s, grad, weight, y); });
}

void conv2d_grad_weight_gemm(const ConvShape& s, const Tensor& grad, const Tensor& x, Tensor& y) {
  visit<kConvTypes>(y.dtype(), [&]<class T>() { weight_grad<T>(s, grad, x, y); });
}

}  // namespace moonlet::cpu
