// tensor/scatter_fold.h: how elements that meet at one position are joined, on all devices.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

#ifdef __CUDACC__
#define MOONLET_FOLD_HD __host__ __device__
#else
#define MOONLET_FOLD_HD
#endif

namespace moonlet {

enum class ScatterFold { Put, Add, Multiply, Max, Min };

inline ScatterFold scatter_fold_of(std::string_view reduce) {
  return reduce == "prod"   ? ScatterFold::Multiply
         : reduce == "amax" ? ScatterFold::Max
                            : ScatterFold::Min;
}

// a and b multiplied (integers wrap, bools are and-ed), or the larger or smaller of them; NaN wins.
template <ScatterFold kFold, class T>
MOONLET_FOLD_HD T folded(T a, T b) {
  if constexpr (kFold == ScatterFold::Multiply) {
    if constexpr (std::is_same_v<T, bool>)
      return a && b;
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
      return a * b;
  } else {
    if (a != a) return a;
    const bool better = kFold == ScatterFold::Max ? b > a : b < a;
    return better || b != b ? b : a;
  }
}

}  // namespace moonlet

#undef MOONLET_FOLD_HD
