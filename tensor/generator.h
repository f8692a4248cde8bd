// tensor/generator.h: the random state of a thread: a seed and how many numbers were drawn.
#pragma once

#include "tensor/philox.h"

namespace moonlet {

class Generator {
 public:
  void manual_seed(uint64_t seed) { state_ = {seed, 0}; }
  Philox state() const { return state_; }
  void set_state(Philox state) { state_ = state; }
  // The numbers of an op with `n` elements, which uses at most one block for two of them; later ops
  // get others.
  Philox next(int64_t n) {
    const Philox now = state_;
    state_.offset += static_cast<uint64_t>(n) / 2 + 1;
    return now;
  }

 private:
  Philox state_{67280421310721u, 0};
};

// This thread's generator.
Generator& default_generator();

// The numbers of an op that was given that generator, or none.
inline Philox draw(Generator* generator, int64_t n) {
  return (generator ? *generator : default_generator()).next(n);
}

}  // namespace moonlet
