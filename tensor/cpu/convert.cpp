// tensor/cpu/convert.cpp: the table of converters.
#include "tensor/cpu/convert.h"

#include <array>
#include <cstring>
#include <tuple>
#include <utility>

namespace moonlet::cpu {

namespace {

using Types = std::tuple<bool, uint8_t, int8_t, int16_t, int32_t, int64_t, half, bfloat16, float,
                         double, complex64, complex128>;

template <class From, class To>
void convert_run(const char* from, int64_t from_stride, char* to, int64_t to_stride, int64_t n) {
  const bool dense_to = to_stride == static_cast<int64_t>(sizeof(To));
  if (dense_to && from_stride == static_cast<int64_t>(sizeof(From))) {
    if constexpr (std::is_same_v<From, To>) {
      std::memcpy(to, from, static_cast<size_t>(n) * sizeof(To));
      return;
    }
    const From* x = reinterpret_cast<const From*>(from);
    To* y = reinterpret_cast<To*>(to);
    for (int64_t i = 0; i < n; ++i) y[i] = convert<To>(x[i]);
    return;
  }
  if (from_stride == 0) {
    const To value = convert<To>(*reinterpret_cast<const From*>(from));
    for (int64_t i = 0; i < n; ++i) *reinterpret_cast<To*>(to + i * to_stride) = value;
    return;
  }
  if (dense_to) {
    To* y = reinterpret_cast<To*>(to);
    for (int64_t i = 0; i < n; ++i)
      y[i] = convert<To>(*reinterpret_cast<const From*>(from + i * from_stride));
    return;
  }
  for (int64_t i = 0; i < n; ++i)
    *reinterpret_cast<To*>(to + i * to_stride) =
        convert<To>(*reinterpret_cast<const From*>(from + i * from_stride));
}

template <size_t From, size_t... To>
constexpr std::array<Converter, kDTypeCount> row(std::index_sequence<To...>) {
  return {convert_run<std::tuple_element_t<From, Types>, std::tuple_element_t<To, Types>>...};
}
template <size_t... From>
constexpr std::array<std::array<Converter, kDTypeCount>, kDTypeCount> all_rows(
    std::index_sequence<From...>) {
  return {row<From>(std::make_index_sequence<kDTypeCount>())...};
}
constexpr auto table = all_rows(std::make_index_sequence<kDTypeCount>());

}  // namespace

Converter converter(DType from, DType to) {
  return table[static_cast<size_t>(from)][static_cast<size_t>(to)];
}

}  // namespace moonlet::cpu
