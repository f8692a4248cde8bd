// tensor/cpu/index/index_walk.h: what the kernels that read and write at positions share: positions
// checked and laid out, and a walk over element offsets in row order.
#pragma once

#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/reduce/reduce.h"
#include "tensor/shapes/index.h"

namespace moonlet::cpu {

// Whether all positions are in 1..size, or -size..-1 where kNegative: one number whose sign is set
// by any that is not, as vectors have no cheap comparison of int64.
template <bool kNegative>
bool all_inside(const int64_t* p, int64_t count, int64_t size) {
  const auto bound = static_cast<uint64_t>(size);
  uint64_t outside = 0;
  for (int64_t i = 0; i < count; ++i) {
    auto v = static_cast<uint64_t>(p[i]);
    if constexpr (kNegative) v = p[i] < 0 ? uint64_t{0} - v : v;
    outside |= (v - 1) | (bound - v);
  }
  return static_cast<int64_t>(outside) >= 0;
}

// Throws an error that names `op` unless all positions are in 1..size (or -size..-1 where
// `negative`).
inline void check_positions(const char* op, const int64_t* p, int64_t count, int64_t size,
                            bool negative = false) {
  if (negative ? all_inside<true>(p, count, size) : all_inside<false>(p, count, size)) [[likely]]
    return;
  const int64_t least = negative ? -size : 1;
  for (int64_t i = 0; i < count; ++i)
    if (p[i] < least || p[i] > size || p[i] == 0) shapes::fail_position(op, p[i], size);
}

// Contiguous int64 positions.
inline Tensor plain_positions(const Tensor& index) {
  if (index.dtype() == DType::Int64 && index.is_contiguous()) return index;
  Tensor out = empty_plain(index.sizes(), Options{DType::Int64, index.device()});
  copy_into(out, index);
  return out;
}

// The same, all of them checked.
inline Tensor checked_positions(const char* op, const Tensor& index, int64_t size,
                                bool negative = false) {
  const Tensor out = plain_positions(index);
  const int64_t* p = out.elements<int64_t>();
  serial_for(out.numel(), 1, [&](int64_t begin, int64_t end) {
    check_positions(op, p + begin, end - begin, size, negative);
  });
  return out;
}

// Visits the elements of a shape in row order, keeping N offsets, each with its own strides.
template <int N>
class Walk {
 public:
  Walk(const Dims& sizes, const Dims (&strides)[N], int64_t start = 0) : sizes_(sizes) {
    for (int k = 0; k < N; ++k) strides_[k] = strides[k];
    at_ = Dims::filled(sizes.size(), 0);
    for (int d = sizes.size() - 1; d >= 0; --d) {
      at_[d] = start % std::max<int64_t>(sizes[d], 1);
      start /= std::max<int64_t>(sizes[d], 1);
      for (int k = 0; k < N; ++k) offsets_[k] += at_[d] * strides_[k][d];
    }
  }
  int64_t offset(int k = 0) const { return offsets_[k]; }
  void next() {
    for (int d = sizes_.size() - 1; d >= 0; --d) {
      for (int k = 0; k < N; ++k) offsets_[k] += strides_[k][d];
      if (++at_[d] < sizes_[d]) return;
      for (int k = 0; k < N; ++k) offsets_[k] -= strides_[k][d] * sizes_[d];
      at_[d] = 0;
    }
  }

 private:
  Dims sizes_, at_, strides_[N];
  int64_t offsets_[N] = {};
};

// The dtypes sums are kept in.
inline constexpr DTypeSet kSummed = dtypes::all & ~dtypes::reduced_floating;

// Calls body(sums) with the contiguous tensor of summed_dtype that additions to x are made in: x
// itself where it is one, else a copy that is written back.
template <class Body>
void add_to(Tensor& x, Body&& body) {
  const DType dtype = sum_dtype(x.dtype());
  if (dtype == x.dtype() && x.is_contiguous()) return body(x);
  Tensor sums = empty_plain(x.sizes(), Options{dtype, x.device()});
  copy_into(sums, x);
  body(sums);
  copy_into(x, sums);
}

// Contiguous `source` in the dtype its elements are added up in.
inline Tensor summands(const Tensor& source) {
  return converted(source, sum_dtype(source.dtype()));
}

// a + b in T's own arithmetic: bools are or-ed, integers wrap.
template <class T>
T added(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return a || b;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}

}  // namespace moonlet::cpu
