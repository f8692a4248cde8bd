// tensor/runtime/collective_call.h: what a process asks of the others of its group, whatever
// carries it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tensor/core/dtype.h"

namespace moonlet::distributed {

// Called some twenty times a second by what waits; what it throws ends the wait.
using Tick = std::function<void()>;

// Sums and the like of elements. Avg is a sum, of which the script's side takes the part.
enum class Reduction : uint8_t { Sum, Product, Min, Max, And, Or, Xor };
enum class Kind : uint8_t {
  AllReduce,
  ReduceScatter,
  Broadcast,
  Reduce,
  AllGather,
  Exchange,
  Barrier,
  Send,
  Receive
};

// What a rank computes together with the others of its group.
struct Call {
  Kind kind = Kind::Barrier;
  std::string what{};  // for messages: "all_reduce of float32 (3, 4) at train.lua:12"
  uint32_t tag = 0;    // only calls of equal tags meet
  Reduction reduction = Reduction::Sum;
  DType dtype = DType::UInt8;
  bool ordered = false;  // sums in the order of ranks
  int root = 0;          // or the rank that it is sent to, or comes from; -1: any
  // Elements; of an exchange and a ReduceScatter by ranks.
  size_t count = 0;
  std::vector<size_t> sent{}, received{};
  bool same_to_all = false;  // an exchange sends everyone the same
  char* in = nullptr;
  char* out = nullptr;
  std::shared_ptr<const void> memory{};  // keeps what these point to
};

}  // namespace moonlet::distributed
