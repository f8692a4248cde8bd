// tests/cpp/overlap_test.cpp: which tensors share memory, and ops whose inputs share it with what
// they write.
#include "tests/cpp/catch2.h"

#include <random>
#include <set>
#include <vector>

#include "tensor/core/memory_overlap.h"
#include "tensor/raw_arithmetic.h"
#include "tensor/raw_clone.h"
#include "tensor/raw_copy.h"
#include "tensor/raw_gather.h"
#include "tensor/raw_index.h"
#include "tensor/raw_optim.h"
#include "tensor/raw_scan.h"

using namespace moonlet;

namespace {

// All positions of a layout, in elements from the first.
std::vector<int64_t> positions(const Dims& sizes, const Dims& strides, int64_t offset) {
  std::vector<int64_t> out{offset};
  for (int d = 0; d < sizes.size(); ++d) {
    std::vector<int64_t> next;
    for (int64_t at : out)
      for (int64_t i = 0; i < sizes[d]; ++i) next.push_back(at + i * strides[d]);
    out = next;
  }
  return out;
}

struct Layout {
  Dims sizes, strides;
  int64_t offset;
};

Layout random_layout(std::mt19937& random) {
  const auto pick = [&](int most) { return static_cast<int64_t>(random() % (most + 1)); };
  Layout out{{}, {}, pick(6)};
  for (int64_t d = pick(3); d > 0; --d) {
    out.sizes.push_back(pick(9) == 0 ? 0 : 1 + pick(3));
    out.strides.push_back(pick(7));
  }
  return out;
}

}  // namespace

TEST_CASE("overlap of random layouts is exact", "[overlap]") {
  std::mt19937 random(5);
  const Tensor memory = empty_plain({64}, {});
  int inside = 0, between = 0;
  for (int round = 0; round < 3000; ++round) {
    const Layout a = random_layout(random), b = random_layout(random);
    const auto at = positions(a.sizes, a.strides, a.offset),
               bt = positions(b.sizes, b.strides, b.offset);
    const std::set<int64_t> once(at.begin(), at.end());
    const Tensor x = alias(memory, a.sizes, a.strides, a.offset);
    const Tensor y = alias(memory, b.sizes, b.strides, b.offset);
    const bool itself = once.size() != at.size();
    bool shared = false;
    for (int64_t position : bt) shared = shared || once.contains(position);
    REQUIRE(overlaps_itself(x) == itself);
    REQUIRE(overlap(x, y) == shared);
    REQUIRE(overlap(y, x) == shared);
    if (shared) {
      REQUIRE(may_overlap(x, y));
    }
    inside += itself;
    between += shared;
  }
  CHECK(inside > 300);
  CHECK(between > 300);
}

TEST_CASE("elements of different widths overlap in bytes", "[overlap]") {
  const Tensor bytes = empty_plain({16}, {DType::UInt8, {}});
  const Tensor wide = view_of(bytes.storage(), {2}, {1}, 1, DType::Int32);  // bytes 4 to 11
  const auto part = [&](int64_t first, int64_t count, int64_t step) {
    return alias(bytes, {count}, {step}, first);
  };
  CHECK(!overlap(wide, part(0, 4, 1)));
  CHECK(overlap(wide, part(0, 5, 1)));
  CHECK(overlap(wide, part(11, 1, 1)));
  CHECK(!overlap(wide, part(12, 4, 1)));
  CHECK(!overlap(wide, part(3, 2, 9)));
  CHECK(may_overlap(wide, part(3, 2, 9)));
  CHECK(!may_overlap(part(3, 0, 1), bytes));
  CHECK(needs_copy_before_writing(bytes, wide));
  CHECK(!needs_copy_before_writing(bytes, alias(bytes, {16}, {1}, 0)));
  CHECK(
      needs_copy_before_writing(alias(bytes, {4, 4}, {4, 1}, 0), alias(bytes, {4, 4}, {1, 4}, 0)));
}

TEST_CASE("a large layout that strides do not decide", "[overlap]") {
  CHECK(!overlaps_itself({1000, 1001}, {1001, 1000}));
  CHECK(overlaps_itself({1001, 1002}, {1001, 1000}));
  CHECK(overlaps_itself({3, 1 << 20, 3}, {1 << 30, 1, 1}));
}

TEST_CASE("two foreign buffers that overlap in part are read before they are written",
          "[overlap]") {
  float memory[6];
  const auto reset = [&] {
    for (int i = 0; i < 6; ++i) memory[i] = static_cast<float>(i + 1);
  };
  const auto now = [&] { return std::vector<float>(memory, memory + 6); };
  Tensor tail = from_blob(memory + 1, {5}, DType::Float32);
  const Tensor head = from_blob(memory, {5}, DType::Float32);
  REQUIRE(&tail.storage() != &head.storage());
  Tensor positions = empty_plain({5}, {DType::Int64, {}});
  for (int64_t i = 0; i < 5; ++i) positions.data<int64_t>()[i] = i + 1;

  reset();
  raw::copy_(tail, head);
  CHECK(now() == std::vector<float>{1, 1, 2, 3, 4, 5});
  reset();
  raw::add_(tail, head);
  CHECK(now() == std::vector<float>{1, 3, 5, 7, 9, 11});
  reset();
  raw::scatter_(tail, 0, positions, head);
  CHECK(now() == std::vector<float>{1, 1, 2, 3, 4, 5});
  reset();
  raw::index_add_(tail, 0, positions, head);
  CHECK(now() == std::vector<float>{1, 3, 5, 7, 9, 11});
  reset();
  raw::index_put_(tail, {positions}, head, true);
  CHECK(now() == std::vector<float>{1, 3, 5, 7, 9, 11});
  reset();
  raw::cumsum_out(tail, head, 0, std::nullopt);
  CHECK(now() == std::vector<float>{1, 1, 3, 6, 10, 15});
  reset();
  raw::mul_out(tail, head, 2.0);
  CHECK(now() == std::vector<float>{1, 2, 4, 6, 8, 10});
  reset();
  raw::sgd_step({tail}, {head}, {}, 1, 0, 0, false, false, 0, 1, false);
  CHECK(now() == std::vector<float>{1, 1, 1, 1, 1, 1});
  CHECK_THROWS_WITH(raw::sgd_step({tail}, {raw::clone(head, std::nullopt)}, {head}, 1, 0.5, 0,
                                  false, false, 0, 1, false),
                    ContainsSubstring("share memory"));
}
