// interp/distributed/gloo_reduction.h: reductions over Gloo, whose parts are on their way while
// others are reduced.
#pragma once

#include <memory>
#include <vector>

#include <gloo/context.h>

#include "interp/distributed/transport.h"

namespace moonlet::distributed {

using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

// Gloo's own slots begin with smaller numbers.
inline constexpr uint64_t kExchangeSlot = uint64_t{0x20} << 56;
inline constexpr uint64_t kTransferSlot = uint64_t{0x40} << 56;
inline uint64_t slot_of(uint64_t first, uint32_t tag) { return first | (uint64_t{tag} << 16); }

// A reduction by parts: each rank gets the others' elements of its part, chunk by chunk, reduces
// them in the order of ranks and, in an all_reduce, sends all the result.
class PartReduction {
 public:
  PartReduction(gloo::Context& context, const Call& call, const std::vector<size_t>& counts,
                bool gathers, std::vector<char>& workspace);
  // `out`: where this rank's part goes.
  void run(char* out);

 private:
  // What the others have sent of a chunk, by ranks.
  struct Received {
    char* memory = nullptr;
    Buffer buffer{};
  };
  // The chunk of that number of a rank's part, in bytes; empty behind the last one.
  Part chunk_of(size_t rank, size_t number) const;
  void start(size_t number);
  void finish(size_t number, char* out);

  gloo::Context& context_;
  const Call& call_;
  const size_t self_, size_, width_, step_;
  const bool gathers_;
  const std::vector<Part> parts_;
  std::vector<Received> received_;
  Buffer in_, out_;
  int sends_ = 0, result_sends_ = 0, result_receives_ = 0;
};

}  // namespace moonlet::distributed
