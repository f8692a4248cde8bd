// tensor/runtime/random_generator.cpp: seeds, and the generator of each thread.
#include "tensor/runtime/random_generator.h"

#include <atomic>
#include <random>

#include "tensor/core/error.h"
#include "tensor/runtime/execution.h"

namespace moonlet {

// The output function of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
// generators", 2014), a bijection: different n never give the same seed.
uint64_t derived_seed(uint64_t first, uint64_t n) {
  if (n == 0) return first;
  uint64_t z = first + n * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

uint64_t Generator::seed() {
  std::random_device source;
  const uint64_t bits = (static_cast<uint64_t>(source()) << 32) | source();
  manual_seed(bits >> 11);
  return initial_seed();
}

void Generator::check_device(Device wanted, const char* op) const {
  if (device_ && *device_ != wanted)
    fail(op, ": the generator is for ", *device_, ", the tensor is on ", wanted);
}

Generator& default_generator() {
  if (execution.generator != nullptr) return *execution.generator;
  // A family apart from that of the interpreters, whose first has the default seed itself.
  static std::atomic<uint64_t> threads{0};
  thread_local Generator generator(derived_seed(~kDefaultSeed, threads.fetch_add(1)));
  return generator;
}

}  // namespace moonlet
