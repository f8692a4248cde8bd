// tensor/cpu/copy/convert.cpp: the table of converters, and copies of another dtype or device.
#include "tensor/cpu/copy/convert.h"

#include <algorithm>
#include <array>

#include "tensor/core/dispatch.h"
#include "tensor/cpu/common/dense_copy.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/copy/copy.h"
#include "tensor/kernels_convert.h"
#include "tensor/kernels_copy.h"

namespace moonlet::cpu {

namespace {

constexpr int64_t kShortRun = thresholds::copy::kShortRun;
constexpr int64_t kLongRun = thresholds::copy::kEqualRun;

// Every second element, of which compilers make vectors: columns of pairs.
template <class T>
void copy_second(const T* __restrict from, T* __restrict to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = from[2 * i];
}

template <class From, class To>
void convert_run(const char* from, int64_t from_stride, char* to, int64_t to_stride, int64_t n) {
  const bool dense_to = to_stride == static_cast<int64_t>(sizeof(To)) && n >= kShortRun;
  if (dense_to && from_stride == static_cast<int64_t>(sizeof(From))) {
    if constexpr (std::is_same_v<From, To>) {
      copy_dense(to, from, static_cast<size_t>(n) * sizeof(To));
    } else {
      static const DenseConverter dense = dense_converter(dtype_of<From>, dtype_of<To>);
      dense(from, to, static_cast<size_t>(n));
    }
    return;
  }
  if constexpr (std::is_same_v<From, To>)
    if (dense_to && from_stride == 2 * static_cast<int64_t>(sizeof(From)))
      return copy_second(reinterpret_cast<const From*>(from), reinterpret_cast<To*>(to), n);
  if (from_stride == 0) {
    const To value = convert<To>(*reinterpret_cast<const From*>(from));
    if (dense_to && n >= kLongRun) return repeat(&value, sizeof(To), to, static_cast<size_t>(n));
    if (dense_to) return void(std::fill_n(reinterpret_cast<To*>(to), n, value));
    for (int64_t i = 0; i < n; ++i) *reinterpret_cast<To*>(to + i * to_stride) = value;
    return;
  }
  for (int64_t i = 0; i < n; ++i)
    *reinterpret_cast<To*>(to + i * to_stride) =
        convert<To>(*reinterpret_cast<const From*>(from + i * from_stride));
}

// By way of a third dtype, in blocks.
void convert_by_way(DType from, DType to, const char* x, int64_t x_stride, char* y,
                    int64_t y_stride, int64_t n) {
  constexpr int64_t kBlock = thresholds::copy::kConvertedBlock;
  const DType way = conversion_way(from, to);
  const auto width = static_cast<int64_t>(size_of(way));
  const Converter first = converter(from, way), second = converter(way, to);
  alignas(64) char between[kBlock * sizeof(double)];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = std::min(kBlock, n - i);
    first(x + i * x_stride, x_stride, between, width, count);
    second(between, width, y + i * y_stride, y_stride, count);
  }
}

template <DType kFrom, DType kTo>
void convert_run_by_way(const char* from, int64_t from_stride, char* to, int64_t to_stride,
                        int64_t n) {
  convert_by_way(kFrom, kTo, from, from_stride, to, to_stride, n);
}

template <class From, class To>
constexpr Converter run_of() {
  constexpr DType kFrom = dtype_of<From>, kTo = dtype_of<To>;
  if constexpr (conversion_way(kFrom, kTo) != kTo)
    return convert_run_by_way<kFrom, kTo>;
  else if constexpr (kFrom == kTo && sizeof(To) == 1)
    return convert_run<uint8_t, uint8_t>;
  else
    return convert_run<From, To>;
}

template <class From>
constexpr std::array<Converter, kDTypeCount> row() {
  return {
#define MOONLET_CONVERT(D, NAME, CODE, TYPE, ...) run_of<From, TYPE>(),
      MOONLET_DTYPES(MOONLET_CONVERT)
#undef MOONLET_CONVERT
  };
}
constexpr std::array<Converter, kDTypeCount> table[] = {
#define MOONLET_CONVERT_ROW(D, NAME, CODE, TYPE, ...) row<TYPE>(),
    MOONLET_DTYPES(MOONLET_CONVERT_ROW)
#undef MOONLET_CONVERT_ROW
};

}  // namespace

Converter converter(DType from, DType to) {
  return table[static_cast<size_t>(from)][static_cast<size_t>(to)];
}

void convert(const Tensor& x, std::optional<DType>, std::optional<Device>,
             std::optional<MemoryFormat>, Tensor& y) {
  if (!y.device().is_cpu()) return kernels_for(y.device().type, "to").copy->copy(y, x);
  copy_into(y, x);
}

}  // namespace moonlet::cpu
