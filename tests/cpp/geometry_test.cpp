// tests/cpp/geometry_test.cpp: collapsed dimensions reach the same elements in the same order, in
// as few dimensions as there can be, from either end of the list.
#include "tests/cpp/catch2.h"

#include <algorithm>
#include <random>
#include <vector>

#include "tensor/core/dims.h"
#include "tensor/core/geometry.h"

using namespace moonlet;

namespace {

// Sizes and the strides of two operands, innermost last.
struct Walk {
  Dims sizes, a, b;

  bool operator==(const Walk&) const = default;
  Walk reversed() const {
    Walk out;
    for (int d = sizes.size() - 1; d >= 0; --d) {
      out.sizes.push_back(sizes[d]);
      out.a.push_back(a[d]);
      out.b.push_back(b[d]);
    }
    return out;
  }
};

template <Innermost kInnermost, bool kSorted>
Walk collapsed(Walk walk) {
  const auto each = [&](auto&& f) {
    f(&walk.a[0]);
    f(&walk.b[0]);
  };
  const int rank = walk.sizes.size();
  const int left = kSorted ? collapse_sorted_dims<kInnermost>(rank, &walk.sizes[0], each)
                           : collapse_dims<kInnermost>(rank, &walk.sizes[0], each);
  for (Dims* list : {&walk.sizes, &walk.a, &walk.b}) list->resize(left);
  return walk;
}

// Where both operands are, element after element.
std::vector<std::pair<int64_t, int64_t>> addresses(const Walk& walk) {
  std::vector<std::pair<int64_t, int64_t>> out{{0, 0}};
  for (int d = 0; d < walk.sizes.size(); ++d) {
    std::vector<std::pair<int64_t, int64_t>> next;
    for (const auto& [a, b] : out)
      for (int64_t i = 0; i < walk.sizes[d]; ++i)
        next.emplace_back(a + i * walk.a[d], b + i * walk.b[d]);
    out = next;
  }
  return out;
}

template <bool kSorted>
Walk last(const Walk& walk) {
  return collapsed<Innermost::Last, kSorted>(walk);
}

}  // namespace

TEST_CASE("dimensions that lie in a row for all operands become one", "[geometry]") {
  CHECK(last<false>({{2, 3, 4}, {12, 4, 1}, {12, 4, 1}}) == Walk{{24}, {1}, {1}});
  // One operand is broadcast along the first, so only the others join.
  CHECK(last<false>({{2, 3, 4}, {12, 4, 1}, {0, 4, 1}}) == Walk{{2, 12}, {12, 1}, {0, 1}});
  CHECK(last<false>({{2, 3}, {3, 1}, {0, 0}}) == Walk{{6}, {1}, {0}});
  // Strides of dimensions of one element do not matter.
  CHECK(last<false>({{1, 6, 1}, {99, 2, 7}, {0, 1, 0}}) == Walk{{6}, {2}, {1}});
  CHECK(last<false>({{1, 1}, {5, 5}, {1, 1}}) == Walk{});
  CHECK(last<false>({}) == Walk{});
  // Backwards, as a flip reads.
  CHECK(last<false>({{2, 3}, {3, 1}, {-3, -1}}) == Walk{{6}, {1}, {-1}});
  CHECK(last<false>({{2, 3}, {3, 1}, {3, -1}}) == Walk{{2, 3}, {3, 1}, {3, -1}});
}

TEST_CASE("sorted dimensions follow the memory of the first operand that tells", "[geometry]") {
  CHECK(last<true>({{2, 3, 4}, {1, 2, 6}, {1, 2, 6}}) == Walk{{24}, {1}, {1}});
  CHECK(last<true>({{2, 3}, {1, 2}, {3, 1}}) == Walk{{3, 2}, {2, 1}, {1, 3}});
  CHECK(last<true>({{2, 3}, {0, 0}, {1, 2}}) == Walk{{6}, {0}, {1}});
}

TEST_CASE("collapsed dimensions reach the same elements from either end", "[geometry]") {
  std::mt19937 random(7);
  int joined = 0;
  for (int round = 0; round < 2000; ++round) {
    const int rank = static_cast<int>(random() % 6);
    Walk walk;
    for (int d = 0; d < rank; ++d) walk.sizes.push_back(1 + random() % 3);
    for (Dims* strides : {&walk.a, &walk.b}) {
      *strides = contiguous_strides(walk.sizes);
      for (int d = 0; d < rank; ++d) {
        if (random() % 6 == 0) (*strides)[d] = 0;
        if (random() % 6 == 0) (*strides)[d] *= -2;
      }
      if (rank > 1 && random() % 3 == 0) std::swap((*strides)[0], (*strides)[1]);
    }
    const Walk few = last<false>(walk);
    joined += few.sizes.size() < walk.sizes.size();
    CHECK(addresses(few) == addresses(walk));
    CHECK(collapsed<Innermost::First, false>(walk.reversed()).reversed() == few);
    // Once more changes nothing: no two neighbours are left that could join.
    CHECK(last<false>(few) == few);
    // In another order the same pairs of elements.
    auto sorted = addresses(last<true>(walk)), all = addresses(walk);
    std::sort(sorted.begin(), sorted.end());
    std::sort(all.begin(), all.end());
    CHECK(sorted == all);
  }
  CHECK(joined > 500);
}
