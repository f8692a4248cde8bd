// tensor/runtime/random_generator.h: a source of random numbers: a seed and how many blocks of
// Philox were drawn.
#pragma once

#include <optional>

#include "tensor/core/device.h"
#include "tensor/functors/philox.h"

namespace moonlet {

// What a process starts with unless it is seeded; scripts give the same numbers every run.
inline constexpr uint64_t kDefaultSeed = 67280421310721u;

// The n-th of a family of seeds; the one at 0 is `first` itself. The same for each run.
uint64_t derived_seed(uint64_t first, uint64_t n);

class Generator {
 public:
  explicit Generator(uint64_t seed = kDefaultSeed, std::optional<Device> device = std::nullopt)
      : state_{seed, 0}, device_(device) {}

  void manual_seed(uint64_t seed) { state_ = {seed, 0}; }
  // The last seed that was set.
  uint64_t initial_seed() const { return state_.seed; }
  // Seeds with a number from the system that differs from call to call, and returns it. It has at
  // most 53 bits, so that a Lua float or a double of another program holds it exactly.
  uint64_t seed();
  Philox state() const { return state_; }
  void set_state(Philox state) { state_ = state; }
  // The device whose tensors it fills; nothing means any device: the numbers are the same on all.
  std::optional<Device> device() const { return device_; }
  // Throws, naming `op`, when it is bound to another device.
  void check_device(Device wanted, const char* op) const;
  // The numbers of an op with `n` elements, which uses at most one block for two of them; later ops
  // get others.
  Philox next(int64_t n) {
    const Philox now = state_;
    state_.offset += static_cast<uint64_t>(n) / 2 + 1;
    return now;
  }

 private:
  Philox state_;
  std::optional<Device> device_;
};

// The generator of the execution state: the running interpreter's, else this thread's own. Threads
// start with different seeds.
Generator& default_generator();

// The numbers of an op that was given that generator, or none.
inline Philox draw(Generator* generator, int64_t n) {
  return (generator ? *generator : default_generator()).next(n);
}

}  // namespace moonlet
