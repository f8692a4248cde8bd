// tensor/cpu/gemm/gemm_parts.cpp: the products of types that BLAS has not: integers in 64 bits,
// 16-bit floats in float.
#include "tensor/cpu/gemm/gemm_parts.h"

#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/copy/convert.h"
#include "tensor/cpu/gemm/gemm_onednn.h"
#include "tensor/cpu/gemm/gemm_simd.h"

namespace moonlet::cpu {

Matrix matrix_in(const Tensor& buffer, int64_t rows, int64_t cols) {
  return {buffer.raw(), rows, cols, cols, 1};
}

namespace {

// One of two matrices of different dtypes, in bytes.
struct Side {
  const Matrix& m;
  int64_t bytes;
  char* at(int64_t row, int64_t col) const {
    return m.data + (row * m.row_stride + col * m.col_stride) * bytes;
  }
  int64_t down() const { return m.row_stride * bytes; }
  int64_t along() const { return m.col_stride * bytes; }
};

}  // namespace

void convert_matrix(DType from_dtype, const Matrix& from, DType to_dtype, const Matrix& to) {
  if (from.cols == 1 && from.rows > 1)
    return convert_matrix(from_dtype, transposed(from), to_dtype, transposed(to));
  constexpr int64_t kRun = thresholds::gemm::kConvertedRows;
  const Converter convert = converter(from_dtype, to_dtype);
  const Side in{from, static_cast<int64_t>(size_of(from_dtype))};
  const Side out{to, static_cast<int64_t>(size_of(to_dtype))};
  const bool flipped = from.row_stride == 1 && from.col_stride != 1;
  const int64_t high = flipped ? kRun : 1;
  parallel_for((from.rows + high - 1) / high, grain_for(high * from.cols),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin * high; i < std::min(from.rows, end * high); i += high) {
                   const int64_t rows = std::min(high, from.rows - i);
                   serial_for(from.cols, rows, [&](int64_t first, int64_t last) {
                     if (!flipped)
                       return convert(in.at(i, first), in.along(), out.at(i, first), out.along(),
                                      last - first);
                     for (int64_t j = first; j < last; ++j)
                       convert(in.at(i, j), in.down(), out.at(i, j), out.down(), rows);
                   });
                 }
               });
}

Matrix converted_matrix(DType from_dtype, const Matrix& m, DType to_dtype, Tensor& buffer) {
  buffer = empty_plain({m.rows, m.cols}, {to_dtype, {}}, "matmul");
  const Matrix out = matrix_in(buffer, m.rows, m.cols);
  convert_matrix(from_dtype, m, to_dtype, out);
  return out;
}

namespace {

// --- 16-bit floats -------------------------------------------------------------------------------

template <class T>
T* elements(const Matrix& m) {
  return reinterpret_cast<T*>(m.data);
}

// c_i = alpha sum + beta c_i for sums(i).
template <class T, class Sums>
void store_column(const Matrix& c, int64_t begin, int64_t end, float alpha, float beta,
                  Sums&& sums) {
  for (int64_t i = begin; i < end; ++i) {
    T& y = elements<T>(c)[i * c.row_stride];
    const float sum = alpha * sums(i);
    y = static_cast<T>(beta == 0 ? sum : sum + beta * static_cast<float>(y));
  }
}

// The rows of a lie dense, and so does x.
template <class T>
void gemv_by_rows(const Matrix& a, const T* x, float alpha, float beta, const Matrix& c) {
  parallel_for(c.rows, grain_for(a.cols), [&](int64_t begin, int64_t end) {
    store_column<T>(c, begin, end, alpha, beta, [&](int64_t i) {
      float sum = 0;
      serial_for(a.cols, 1, [&](int64_t first, int64_t last) {
        sum += vector_dot(elements<T>(a) + i * a.row_stride + first, x + first, last - first);
      });
      return sum;
    });
  });
}

// The columns of a lie dense.
template <class T>
void gemv_by_columns(const Matrix& a, const T* x, float alpha, float beta, const Matrix& c) {
  const Tensor held = empty_plain({c.rows}, {}, "matmul");
  float* sums = held.elements<float>();
  parallel_for(c.rows, grain_for(a.cols), [&](int64_t begin, int64_t end) {
    std::fill(sums + begin, sums + end, 0.0f);
    for (int64_t p = 0; p < a.cols; ++p) {
      stop_if_requested();
      half_add_scaled(static_cast<float>(x[p]), elements<T>(a) + p * a.col_stride + begin,
                      sums + begin, end - begin);
    }
    store_column<T>(c, begin, end, alpha, beta, [&](int64_t i) { return sums[i]; });
  });
}

// c (m, 1) = alpha a x + beta c
template <class T>
void half_gemv(const Scalar& alpha, const Matrix& a, const Matrix& x, const Scalar& beta,
               const Matrix& c) {
  Tensor dense_a, dense_x;
  const DType dtype = dtype_of<T>;
  const Matrix vector =
      x.row_stride == 1 ? x : transposed(converted_matrix(dtype, transposed(x), dtype, dense_x));
  const auto factor = alpha.to<float>(), keep = beta.to<float>();
  const bool one_column = a.cols == 1 && a.row_stride == 1;
  if (!one_column && (a.col_stride == 1 || a.cols == 1 || a.row_stride != 1)) {
    const bool dense = a.col_stride == 1 || a.cols == 1;
    return gemv_by_rows<T>(dense ? a : converted_matrix(dtype, a, dtype, dense_a),
                           elements<T>(vector), factor, keep, c);
  }
  gemv_by_columns<T>(a, elements<T>(vector), factor, keep, c);
}

}  // namespace

void half_gemm(DType dtype, const Scalar& alpha, const Matrix& a, const Matrix& b,
               const Scalar& beta, const Matrix& c) {
  if (c.cols == 1 || c.rows == 1)
    return visit<dtypes::reduced_floating>(dtype, [&]<class T>() {
      if (c.cols == 1) return half_gemv<T>(alpha, a, b, beta, c);
      half_gemv<T>(alpha, transposed(b), transposed(a), beta, transposed(c));
    });
  if (dtype == DType::BFloat16 &&
      onednn_gemm_bfloat16(alpha.to_double(), a, b, beta.to_double(), c))
    return;
  Tensor wide_a, wide_b;
  const Tensor held = empty_plain({c.rows, c.cols}, {}, "matmul");
  const Matrix sums = matrix_in(held, c.rows, c.cols);
  if (beta.to_double() != 0) convert_matrix(dtype, c, DType::Float32, sums);
  gemm(DType::Float32, alpha, converted_matrix(dtype, a, DType::Float32, wide_a),
       converted_matrix(dtype, b, DType::Float32, wide_b), beta, sums);
  convert_matrix(DType::Float32, sums, dtype, c);
}

// --- integers ------------------------------------------------------------------------------------

namespace {

using U = uint64_t;

// The sums of row i of a times the one column of x, whose elements lie dense.
U dot_of(const U* a, const U* x, int64_t n) {
  U sum = 0;
  serial_for(n, 1, [&](int64_t first, int64_t last) {
    sum += integer_dot(a + first, x + first, last - first);
  });
  return sum;
}

// sums (n) = a x for x with `terms` elements, where the columns of a lie dense.
void add_columns(const U* a, int64_t column, const U* x, int64_t terms, U* sums, int64_t n) {
  std::fill(sums, sums + n, U(0));
  for (int64_t p = 0; p < terms; ++p) {
    stop_if_requested();
    integer_add_scaled(x[p], a + p * column, sums, n);
  }
}

// m as 64-bit integers in dense rows; itself where it is so.
Matrix as_int64(DType dtype, const Matrix& m, Tensor& buffer) {
  const bool dense = m.col_stride == 1 || m.cols == 1;
  return dtype == DType::Int64 && dense ? m : converted_matrix(dtype, m, DType::Int64, buffer);
}

}  // namespace

void integer_gemm(DType dtype, const Scalar& alpha, const Matrix& a, const Matrix& b,
                  const Scalar& beta, const Matrix& c) {
  if (c.rows == 1 && c.cols > 1)
    return integer_gemm(dtype, alpha, transposed(b), transposed(a), beta, transposed(c));
  Tensor wide_a, wide_b;
  const Tensor held = empty_plain({c.rows, c.cols}, {DType::Int64, {}}, "matmul");
  const bool by_columns = c.cols == 1 && dtype == DType::Int64 && a.row_stride == 1 &&
                          (a.col_stride != 1 || a.cols == 1);
  const Matrix left = by_columns ? a : as_int64(dtype, a, wide_a);
  const Matrix right =
      c.cols == 1 ? transposed(as_int64(dtype, transposed(b), wide_b)) : as_int64(dtype, b, wide_b);
  const U *pa = elements<U>(left), *pb = elements<U>(right);
  U* sums = reinterpret_cast<U*>(held.elements<int64_t>());
  const U factor = static_cast<U>(alpha.to<int64_t>()), keep = static_cast<U>(beta.to<int64_t>());
  const bool read = keep != 0;
  Matrix before = matrix_in(held, c.rows, c.cols);
  Tensor old;
  if (read) before = converted_matrix(dtype, c, DType::Int64, old);
  // Each piece packs b for itself.
  constexpr int64_t kPiece = thresholds::gemm::kIntegerRows;
  const auto rows = [&](int64_t begin, int64_t end) {
    U* out = sums + begin * c.cols;
    const int64_t count = (end - begin) * c.cols;
    if (by_columns) {
      add_columns(pa + begin, a.col_stride, pb, a.cols, out, count);
    } else if (c.cols == 1) {
      for (int64_t i = begin; i < end; ++i) sums[i] = dot_of(pa + i * left.row_stride, pb, a.cols);
    } else {
      std::fill(out, out + count, U(0));
      integer_product(end - begin, c.cols, a.cols, pa + begin * left.row_stride, left.row_stride,
                      pb, right.row_stride, out, c.cols);
    }
    if (factor != 1)
      for (int64_t i = 0; i < count; ++i) out[i] *= factor;
    if (read)
      for (int64_t i = 0; i < count; ++i) out[i] += keep * elements<U>(before)[begin * c.cols + i];
  };
  parallel_for((c.rows + kPiece - 1) / kPiece, grain_for(kPiece * c.cols * a.cols),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i)
                   rows(i * kPiece, std::min(c.rows, (i + 1) * kPiece));
               });
  convert_matrix(DType::Int64, matrix_in(held, c.rows, c.cols), dtype, c);
}

}  // namespace moonlet::cpu
