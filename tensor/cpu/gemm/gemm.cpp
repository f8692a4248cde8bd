// tensor/cpu/gemm/gemm.cpp: the product of two matrices: BLAS for float and complex types (or
// oneDNN for larger ones of float32, and tensor/cpu/gemm/gemm_small.cpp for small ones) or what
// stands for it (tensor/cpu/gemm/gemm_blocked.cpp), tensor/cpu/gemm/gemm_parts.cpp for other types,
// and plain loops without any of these and for an empty inner size.
#include "tensor/cpu/gemm/gemm.h"

#include <limits>

#include "moonlet_config.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/gemm/blas_call.h"
#include "tensor/cpu/gemm/gemm_blocked.h"
#include "tensor/cpu/gemm/gemm_onednn.h"
#include "tensor/cpu/gemm/gemm_parts.h"
#include "tensor/cpu/gemm/gemm_small.h"

#if MOONLET_OPENBLAS
#include <cblas.h>
#endif

namespace moonlet::cpu {

Matrix matrix_of(const Tensor& t) {
  return {t.raw(), t.size(-2), t.size(-1), t.stride(-2), t.stride(-1)};
}

Matrix transposed(const Matrix& m) { return {m.data, m.cols, m.rows, m.col_stride, m.row_stride}; }

namespace {

constexpr int64_t kBlasIntLimit = std::numeric_limits<int>::max();

template <class T>
T wrapping_fma(T a, T b, T c) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(uint64_t(U(a)) * uint64_t(U(b)) + uint64_t(U(c))));
  } else {
    return a * b + c;
  }
}

template <class T>
T& at(const Matrix& m, int64_t row, int64_t col) {
  return reinterpret_cast<T*>(m.data)[row * m.row_stride + col * m.col_stride];
}

// c = alpha * sum + beta * c for one element.
template <class T, class A>
void store(T& c, A sum, A alpha, A beta, bool read) {
  sum = wrapping_fma<A>(alpha, sum, A(0));
  c = static_cast<T>(read ? wrapping_fma<A>(beta, static_cast<A>(c), sum) : sum);
}

// Rows [begin, end) of c by plain loops: a row's sums stay in a buffer of kBlock columns.
template <class T>
void plain_rows(int64_t begin, int64_t end, sum_t<T> alpha, Matrix a, Matrix b, sum_t<T> beta,
                Matrix c, bool read) {
  using A = sum_t<T>;
  constexpr int64_t kBlock = thresholds::gemm::kPlainColumns;
  A sums[kBlock];
  for (int64_t j0 = 0; j0 < c.cols; j0 += kBlock) {
    if (j0 > 0) stop_if_requested();
    const int64_t width = std::min(kBlock, c.cols - j0);
    for (int64_t i = begin; i < end; ++i) {
      std::fill(sums, sums + width, A(0));
      serial_for(a.cols, width, [&](int64_t first, int64_t last) {
        for (int64_t p = first; p < last; ++p) {
          const A factor = static_cast<A>(at<T>(a, i, p));
          const T* row = &at<T>(b, p, j0);
          if (b.col_stride == 1)
            for (int64_t j = 0; j < width; ++j)
              sums[j] = wrapping_fma<A>(factor, A(row[j]), sums[j]);
          else
            for (int64_t j = 0; j < width; ++j)
              sums[j] = wrapping_fma<A>(factor, A(row[j * b.col_stride]), sums[j]);
        }
      });
      for (int64_t j = 0; j < width; ++j) store(at<T>(c, i, j0 + j), sums[j], alpha, beta, read);
    }
  }
}

template <class T>
void plain_gemm(const Scalar& alpha, const Matrix& a, const Matrix& b, const Scalar& beta,
                const Matrix& c) {
  using A = sum_t<T>;
  const A factor = alpha.to<A>(), keep = beta.to<A>();
  const bool read = keep != A(0);
  parallel_for(c.rows, grain_for(c.cols * a.cols), [&](int64_t begin, int64_t end) {
    plain_rows<T>(begin, end, factor, a, b, keep, c, read);
  });
}

#if MOONLET_OPENBLAS
// Whether BLAS can read m row by row (ld = row stride).
bool rows_fit(const Matrix& m) {
  return (m.col_stride == 1 || m.cols == 1) &&
         (m.rows == 1 || m.row_stride >= std::max<int64_t>(1, m.cols)) &&
         m.row_stride <= kBlasIntLimit;
}

struct BlasOperand {
  Matrix matrix;
  Tensor copy;  // keeps the packed elements alive
  CBLAS_TRANSPOSE transpose = CblasNoTrans;
  int stride = 1;
};

template <class T>
BlasOperand blas_operand(const Matrix& m) {
  BlasOperand out{m, {}};
  if (rows_fit(m)) {
    out.stride = static_cast<int>(std::max({m.rows == 1 ? 1 : m.row_stride, m.cols, int64_t{1}}));
  } else if (rows_fit(transposed(m))) {
    out.transpose = CblasTrans;
    out.stride = static_cast<int>(std::max({m.cols == 1 ? 1 : m.col_stride, m.rows, int64_t{1}}));
  } else {
    out.copy = empty_plain({m.rows, m.cols}, {dtype_of<T>, {}}, "matmul");
    out.matrix = matrix_in(out.copy, m.rows, m.cols);
    convert_matrix(dtype_of<T>, m, dtype_of<T>, out.matrix);
    out.stride = static_cast<int>(std::max<int64_t>(1, m.cols));
  }
  return out;
}

template <class T>
void call_blas(const Product<T>& p) {
  const auto ta = p.flip_a ? CblasTrans : CblasNoTrans, tb = p.flip_b ? CblasTrans : CblasNoTrans;
  const int m = p.m, n = p.n, k = p.k, lda = p.lda, ldb = p.ldb, ldc = p.ldc;
  if constexpr (std::is_same_v<T, float>)
    cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, p.alpha, p.a, lda, p.b, ldb, p.beta, p.c, ldc);
  else if constexpr (std::is_same_v<T, double>)
    cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, p.alpha, p.a, lda, p.b, ldb, p.beta, p.c, ldc);
  else if constexpr (std::is_same_v<T, complex64>)
    cblas_cgemm(CblasRowMajor, ta, tb, m, n, k, &p.alpha, p.a, lda, p.b, ldb, &p.beta, p.c, ldc);
  else
    cblas_zgemm(CblasRowMajor, ta, tb, m, n, k, &p.alpha, p.a, lda, p.b, ldb, &p.beta, p.c, ldc);
}

template <class T>
void call_gemm(const BlasOperand& a, const BlasOperand& b, T alpha, T beta, const Matrix& c) {
  const Product<T> product{.flip_a = a.transpose == CblasTrans,
                           .flip_b = b.transpose == CblasTrans,
                           .m = c.rows,
                           .n = c.cols,
                           .k = a.matrix.cols,
                           .alpha = alpha,
                           .a = reinterpret_cast<const T*>(a.matrix.data),
                           .lda = a.stride,
                           .b = reinterpret_cast<const T*>(b.matrix.data),
                           .ldb = b.stride,
                           .beta = beta,
                           .c = reinterpret_cast<T*>(c.data),
                           .ldc = std::max({c.rows == 1 ? 1 : c.row_stride, c.cols, int64_t{1}})};
  if constexpr (std::is_same_v<T, float>)
    if (onednn_gemm(product)) return;
  const BlasCall call("matmul");
  // BLAS shares each tile among the threads.
  const Tiling tiling = tiling_for(product, 1);
  for (int64_t i = 0; i < tiling.count(); ++i) {
    if (i > 0) stop_if_requested();
    each_depth(product, tile_at(tiling, product.m, product.n, i), call_blas<T>);
  }
}

// c (m, 1) = alpha a x + beta c, of which BLAS computes rows and terms of the inner sums together;
// the strides of x and c are positive and fit an int.
template <class T>
void gemv_block(const BlasOperand& a, const Matrix& x, T alpha, T beta, const Matrix& c) {
  const bool flip = a.transpose == CblasTrans;
  const int rows = flip ? x.rows : c.rows, cols = flip ? c.rows : x.rows;
  auto* pa = reinterpret_cast<const T*>(a.matrix.data);
  auto* px = reinterpret_cast<const T*>(x.data);
  auto* pc = reinterpret_cast<T*>(c.data);
  const int lda = a.stride, incx = x.row_stride, incy = c.row_stride;
  // Some BLAS scale by beta with a multiplication even when it is 0, which keeps NaN.
  if (beta == T(0))
    for (int64_t i = 0; i < c.rows; ++i) pc[i * c.row_stride] = T(0);
  if constexpr (std::is_same_v<T, float>)
    cblas_sgemv(CblasRowMajor, a.transpose, rows, cols, alpha, pa, lda, px, incx, beta, pc, incy);
  else if constexpr (std::is_same_v<T, double>)
    cblas_dgemv(CblasRowMajor, a.transpose, rows, cols, alpha, pa, lda, px, incx, beta, pc, incy);
  else if constexpr (std::is_same_v<T, complex64>)
    cblas_cgemv(CblasRowMajor, a.transpose, rows, cols, &alpha, pa, lda, px, incx, &beta, pc, incy);
  else
    cblas_zgemv(CblasRowMajor, a.transpose, rows, cols, &alpha, pa, lda, px, incx, &beta, pc, incy);
}

// Rows [from, from + count) of a vector.
template <class T>
Matrix rows_of(const Matrix& m, int64_t from, int64_t count) {
  Matrix out = m;
  out.data += from * m.row_stride * static_cast<int64_t>(sizeof(T));
  out.rows = count;
  return out;
}

// The same for any size, by blocks of a.
template <class T>
void call_gemv(const BlasOperand& a, const Matrix& x, T alpha, T beta, const Matrix& c) {
  constexpr int64_t kMaxElements = thresholds::gemm::kGemvElements;
  const int64_t terms = std::min(kMaxElements, x.rows),
                rows = std::max<int64_t>(1, kMaxElements / terms);
  const bool flip = a.transpose == CblasTrans;
  const BlasCall call("matmul");
  for (int64_t i = 0; i < c.rows; i += rows) {
    for (int64_t j = 0; j < x.rows; j += terms) {
      if (i + j > 0) stop_if_requested();
      const int64_t at = flip ? j * a.stride + i : i * a.stride + j;
      BlasOperand block = a;
      block.matrix.data += at * static_cast<int64_t>(sizeof(T));
      gemv_block<T>(block, rows_of<T>(x, j, std::min(terms, x.rows - j)), alpha,
                    j > 0 ? T(1) : beta, rows_of<T>(c, i, std::min(rows, c.rows - i)));
    }
  }
}

bool vector_fits(const Matrix& m) {
  return m.cols == 1 && m.row_stride >= 1 && m.row_stride <= kBlasIntLimit;
}

template <class T>
void blas_gemm(const Scalar& alpha, const Matrix& a, const Matrix& b, const Scalar& beta,
               const Matrix& c) {
  check(c.rows <= kBlasIntLimit && c.cols <= kBlasIntLimit && a.cols <= kBlasIntLimit,
        "matmul: sizes (", c.rows, ", ", a.cols, ") x (", a.cols, ", ", c.cols,
        ") are beyond what BLAS can count");
  const T factor = alpha.to<T>(), keep = beta.to<T>();
  if (vector_fits(b) && vector_fits(c)) return call_gemv<T>(blas_operand<T>(a), b, factor, keep, c);
  if (vector_fits(transposed(a)) && vector_fits(transposed(c)))
    return call_gemv<T>(blas_operand<T>(transposed(b)), transposed(a), factor, keep, transposed(c));
  if (rows_fit(c)) return call_gemm<T>(blas_operand<T>(a), blas_operand<T>(b), factor, keep, c);
  if (rows_fit(transposed(c)))
    return call_gemm<T>(blas_operand<T>(transposed(b)), blas_operand<T>(transposed(a)), factor,
                        keep, transposed(c));
  Tensor buffer = empty_plain({c.rows, c.cols}, {dtype_of<T>, {}}, "matmul");
  const Matrix whole = matrix_in(buffer, c.rows, c.cols);
  if (keep != T(0)) convert_matrix(dtype_of<T>, c, dtype_of<T>, whole);
  call_gemm<T>(blas_operand<T>(a), blas_operand<T>(b), factor, keep, whole);
  convert_matrix(dtype_of<T>, whole, dtype_of<T>, c);
}

template <class T>
constexpr bool in_blas = std::is_same_v<T, float> || std::is_same_v<T, double> || is_complex_v<T>;
#elif MOONLET_BUNDLED_BLAS
template <class T>
constexpr bool in_blas = std::is_same_v<T, float> || std::is_same_v<T, double> || is_complex_v<T>;
template <class T>
void blas_gemm(const Scalar& alpha, const Matrix& a, const Matrix& b, const Scalar& beta,
               const Matrix& c) {
  blocked_gemm(dtype_of<T>, alpha, a, b, beta, c);
}
#else
template <class T>
constexpr bool in_blas = false;
template <class T>
void blas_gemm(const Scalar&, const Matrix&, const Matrix&, const Scalar&, const Matrix&) {}
#endif

}  // namespace

void gemm(DType dtype, const Scalar& alpha, const Matrix& a, const Matrix& b, const Scalar& beta,
          const Matrix& c) {
  if (c.rows == 0 || c.cols == 0) return;
  if (a.cols > 0 && small_products(dtype, 1, alpha, {a}, {b}, beta, {c})) return;
  visit<dtypes::real | dtypes::complex>(dtype, [&]<class T>() {
    if (a.cols == 0) return plain_gemm<T>(alpha, a, b, beta, c);
    if constexpr (in_blas<T>)
      blas_gemm<T>(alpha, a, b, beta, c);
    else if constexpr (is_reduced_floating_v<T>)
      half_gemm(dtype, alpha, a, b, beta, c);
    else if constexpr (std::is_integral_v<T>)
      integer_gemm(dtype, alpha, a, b, beta, c);
    else
      plain_gemm<T>(alpha, a, b, beta, c);
  });
}

}  // namespace moonlet::cpu
