// cuda/loops/loop_source.h: a loop as the source of two kernels in CUDA C++: the functors of its
// ops one after the other on one element, or on a pack of elements that are moved at once. Sizes,
// strides and numbers are the kernels' arguments, so loops that differ in these share a source.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tensor/program/fusion/loop.h"

namespace moonlet::cuda::loops {

// The most words of arguments: 4 KiB are what a kernel may be given.
inline constexpr int kMaxWords = 512;
inline constexpr unsigned kThreads = 256;  // of a block
inline constexpr const char* kElements = "loop_elements";
inline constexpr const char* kPacks = "loop_packs";

struct LoopSource {
  std::string text;
  int pack = 1;  // elements of a pack; 1: there is no kernel of packs
};
// None where an op has no functor for devices or may fail: what divides integers, and what computes
// complex numbers.
std::optional<LoopSource> loop_source(const program::Loop& loop);

// The arguments of a loop's kernels, all but the addresses.
struct LoopWords {
  // An operand's address.
  struct Address {
    int word, slot;
    int64_t offset, alignment;
  };
  std::vector<uint64_t> elements, packs;  // no packs: the shape has none of that size
  std::vector<Address> addresses;
  // Puts the addresses of a run among the words; false where packs are to be moved and one of them
  // is not aligned.
  bool fill(uint64_t* words, char* const* slots, bool in_packs) const;
};
LoopWords loop_words(const program::Loop& loop, int pack);

}  // namespace moonlet::cuda::loops
