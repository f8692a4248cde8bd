// tests/cpp/layout_test.cpp: dense strides, the order that results follow, and memory formats.
#include "tests/cpp/catch2.h"

#include "tensor/core/tensor.h"

using namespace moonlet;

TEST_CASE("dense layouts are told from others", "[layout]") {
  CHECK(is_dense({2, 3, 4}, {1, 8, 2}));
  CHECK(is_dense({2, 1, 4}, {4, 99, 1}));
  CHECK(is_dense({}, {}));
  CHECK_FALSE(is_dense({2, 3}, {6, 2}));
  CHECK_FALSE(is_dense({2, 3}, {0, 1}));
  // Overlapping elements over a span of the right length.
  CHECK_FALSE(is_dense({5, 3}, {2, 3}));
  CHECK(dense_strides({2, 3}, {1, 4}) == Dims{1, 2});
  CHECK(dense_strides({3, 2, 4}, {0, 1, 2}) == Dims{8, 1, 2});
  const Dims both[] = {{0, 0, 1}, {1, 2, 0}};
  CHECK(followed_strides({2, 3, 4}, both, 2) == Dims{4, 8, 1});
}

TEST_CASE("memory formats give strides and are recognised", "[layout]") {
  const Dims sizes{2, 3, 4, 5};
  const Dims last = format_strides(MemoryFormat::ChannelsLast, sizes, "test");
  CHECK(last == Dims{60, 1, 15, 3});
  CHECK(is_contiguous(sizes, last, MemoryFormat::ChannelsLast));
  CHECK_FALSE(is_contiguous(sizes, last));
  CHECK_FALSE(is_contiguous(sizes, contiguous_strides(sizes), MemoryFormat::ChannelsLast));
  CHECK_FALSE(is_contiguous({2, 3}, {3, 1}, MemoryFormat::ChannelsLast));
  // One channel, or planes of one element, lie in both formats.
  CHECK(is_contiguous({2, 1, 4, 5}, {20, 20, 5, 1}, MemoryFormat::ChannelsLast));
  CHECK(is_contiguous({2, 3, 1, 1}, {3, 1, 1, 1}, MemoryFormat::ChannelsLast));
  CHECK(format_strides(MemoryFormat::ChannelsLast3d, {2, 3, 4, 5, 6}, "test") ==
        Dims{360, 1, 90, 18, 3});
  CHECK_THROWS_WITH(format_strides(MemoryFormat::ChannelsLast, {2, 3}, "test"),
                    ContainsSubstring("channels_last wants 4 dimensions, got shape (2, 3)"));
  for (int i = 0; i < kMemoryFormatCount; ++i)
    CHECK(memory_format_from_name(name(static_cast<MemoryFormat>(i))) ==
          static_cast<MemoryFormat>(i));
  CHECK_THROWS_WITH(memory_format_from_name("nhwc"), ContainsSubstring("channels_last"));
}

TEST_CASE("empty tensors follow a layout", "[layout]") {
  const Tensor x = empty_strided({2, 3}, {1, 2}, {}, "test");
  CHECK_FALSE(x.is_contiguous());
  CHECK(empty_like_plain(x, MemoryFormat::Preserve, options_of(x), "test").strides() == Dims{1, 2});
  CHECK(empty_like_plain(x, MemoryFormat::Contiguous, options_of(x), "test").strides() ==
        Dims{3, 1});
}
