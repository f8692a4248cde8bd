// tensor/core/memory_overlap.cpp: exact answers about shared memory, for what spans leave open.
#include "tensor/core/memory_overlap.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace moonlet {

namespace {

// Dimensions of more than one position, by rising stride.
struct Walk {
  int count = 0;
  int64_t sizes[kMaxDims] = {}, strides[kMaxDims] = {};

  Walk(const Dims& all_sizes, const Dims& all_strides) {
    for (int d = 0; d < all_sizes.size(); ++d) {
      if (all_sizes[d] == 1) continue;
      int at = count++;
      for (; at > 0 && strides[at - 1] > all_strides[d]; --at) {
        sizes[at] = sizes[at - 1];
        strides[at] = strides[at - 1];
      }
      sizes[at] = all_sizes[d];
      strides[at] = all_strides[d];
    }
  }

  // The distance from the first place to the last of the first `dims` dimensions.
  int64_t reach(int dims) const {
    int64_t last = 0;
    for (int i = 0; i < dims; ++i) last += (sizes[i] - 1) * strides[i];
    return last;
  }

  // A dimension whose step passes everything inside it keeps its copies apart.
  void drop_outer_dims_that_step_clear() {
    while (count > 0 && strides[count - 1] > reach(count - 1)) --count;
  }

  // Whether i steps of one dimension are j of another.
  bool two_dims_meet() const {
    for (int a = 0; a < count; ++a) {
      for (int b = a + 1; b < count; ++b) {
        const int64_t common = std::gcd(strides[a], strides[b]);
        if (strides[b] / common < sizes[a] && strides[a] / common < sizes[b]) return true;
      }
    }
    return false;
  }

  // Calls f with every position, counted from the first, until it returns true; returns whether it
  // did.
  template <class F>
  bool any_position(F&& f) const {
    int64_t index[kMaxDims] = {};
    int64_t at = 0;
    while (true) {
      if (f(at)) return true;
      int d = 0;
      for (; d < count; ++d) {
        at += strides[d];
        if (++index[d] < sizes[d]) break;
        at -= sizes[d] * strides[d];
        index[d] = 0;
      }
      if (d == count) return false;
    }
  }
};

}  // namespace

bool overlap(const Tensor& a, const Tensor& b) {
  if (!may_overlap(a, b)) return false;
  if (a.is_contiguous() && b.is_contiguous()) return true;
  // The bytes that both spans have, marked by a's elements and looked up by b's.
  const ByteSpan s = byte_span(a), t = byte_span(b);
  const char* first = std::max(s.first, t.first);
  const int64_t common = std::min(s.last, t.last) - first;
  std::vector<bool> taken(static_cast<size_t>(common));
  const auto each_byte = [&](const Tensor& x, auto&& f) {
    const auto width = static_cast<int64_t>(size_of(x.dtype()));
    return Walk(x.sizes(), x.strides()).any_position([&](int64_t at) {
      const int64_t begin = x.raw() + at * width - first;
      for (int64_t i = std::max<int64_t>(begin, 0); i < std::min(begin + width, common); ++i)
        if (f(static_cast<size_t>(i))) return true;
      return false;
    });
  };
  each_byte(a, [&](size_t i) {
    taken[i] = true;
    return false;
  });
  return each_byte(b, [&](size_t i) -> bool { return taken[i]; });
}

bool same_elements(const Tensor& a, const Tensor& b) {
  if (a.raw() != b.raw() || a.dtype() != b.dtype() || a.device() != b.device() ||
      !(a.sizes() == b.sizes()))
    return false;
  for (int i = 0; i < a.dim(); ++i)
    if (a.size(i) > 1 && a.stride(i) != b.stride(i)) return false;
  return true;
}

bool overlaps_itself(const Dims& sizes, const Dims& strides) {
  if (sizes.contains(0)) return false;
  Walk walk(sizes, strides);
  walk.drop_outer_dims_that_step_clear();
  if (walk.count == 0) return false;
  if (walk.strides[0] == 0 || walk.two_dims_meet()) return true;
  std::vector<bool> taken(static_cast<size_t>(walk.reach(walk.count) + 1));
  return walk.any_position([&](int64_t at) {
    if (taken[static_cast<size_t>(at)]) return true;
    taken[static_cast<size_t>(at)] = true;
    return false;
  });
}

}  // namespace moonlet
