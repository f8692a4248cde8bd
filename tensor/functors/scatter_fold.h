// tensor/functors/scatter_fold.h: how elements that meet at one position are joined, on all
// devices.
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

// A mean is a sum until all that comes to a position is there.
enum class ScatterFold { Put, Add, Mean, Multiply, Max, Min };

inline ScatterFold scatter_fold_of(std::string_view reduce) {
  return reduce == "mean"   ? ScatterFold::Mean
         : reduce == "prod" ? ScatterFold::Multiply
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
    // Without branches, so that loops over rows become vectors.
    const bool better = kFold == ScatterFold::Max ? b > a : b < a;
    return ((better | (b != b)) & (a == a)) ? b : a;
  }
}

// The mean of so many elements, from their sum; of integers rounded down.
template <class T>
MOONLET_FOLD_HD T averaged(T total, int64_t count) {
  if constexpr (std::is_integral_v<T>) {
    const auto whole = static_cast<int64_t>(total);
    return static_cast<T>(whole / count - (whole % count < 0 ? 1 : 0));
  } else {
    return total / static_cast<T>(count);
  }
}

}  // namespace moonlet

#undef MOONLET_FOLD_HD
