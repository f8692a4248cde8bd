// tensor/runtime/batched.h: tensors inside vmap. A batched tensor looks like one sample and stands
// for a value with one dimension more; it has no memory of its own. Ops on it are calls on values
// (autograd/batching.h). Levels are vmaps inside one another; a value may be batched by outer ones.
#pragma once

#include <atomic>
#include <memory>

#include "tensor/core/tensor.h"
#include "tensor/memory/free_list.h"

namespace moonlet {

// What random ops do inside vmap: raise an error, draw for each sample, or once for all.
enum class Randomness : uint8_t { Error, Different, Same };

// One vmap that runs, or ran while tensors of it are there.
struct BatchLevel {
  BatchLevel();
  ~BatchLevel();
  BatchLevel(const BatchLevel&) = delete;
  BatchLevel& operator=(const BatchLevel&) = delete;

  uint64_t id = 0;
  int depth = 0;  // 0: the outermost
  int64_t size = 0;
  Randomness randomness = Randomness::Error;
  uint64_t outer = 0;  // the id of the next one outside, or 0
  std::atomic<bool> active{true};
};
using BatchLevelRef = std::shared_ptr<BatchLevel>;

inline constexpr int kMaxBatchLevels = 8;
inline constexpr int kNotBatched = -1;

// How many there are in the process: while there is none, ops have nothing to ask.
extern constinit std::atomic<int> batch_levels;
inline bool any_batch_level() noexcept { return batch_levels.load(std::memory_order_relaxed) != 0; }

// Begins a vmap on this thread, inside of the one that runs. Throws when they nest too deeply.
BatchLevelRef enter_batch_level(int64_t size, Randomness randomness);
// Ends it: its tensors cannot be used any more. May be called twice.
void leave_batch_level(BatchLevel& level) noexcept;
// The level of that id, or null when it has ended.
BatchLevelRef find_batch_level(uint64_t id);

// Makes the next outer vmap the innermost for a C++ scope.
class OutsideBatchLevel {
 public:
  explicit OutsideBatchLevel(const BatchLevel& level);
  ~OutsideBatchLevel();
  OutsideBatchLevel(const OutsideBatchLevel&) = delete;
  OutsideBatchLevel& operator=(const OutsideBatchLevel&) = delete;

 private:
  const uint64_t before_;
};

// What is known of the samples of a batch. Units: the value is an identity matrix.
enum class Samples : uint8_t { Any, Units };

// What a batched tensor stands for. `dim` is the dimension of `value` (from 0) that counts the
// samples, or kNotBatched: the same for all.
class Batched final : public StandIn {
 public:
  Batched(Tensor its_value, int its_dim, BatchLevelRef its_level, Samples what = Samples::Any)
      : value(std::move(its_value)), dim(its_dim), level(std::move(its_level)), what_(what) {}
  static void* operator new(size_t bytes) { return memory::SmallBlocks::get(bytes); }
  static void operator delete(void* it, size_t bytes) { memory::SmallBlocks::put(it, bytes); }
  const Tensor value;
  const int dim;
  const BatchLevelRef level;

  // Whether sample k still is unit vector k: its product with a matrix is a row or column of that.
  bool are_units() const {
    return what_ == Samples::Units && value.storage().version() == version_;
  }

 private:
  const Samples what_;
  const uint32_t version_ = value.storage().version();
};

// What x stands for, or null.
inline const Batched* batched(const Tensor& x) {
  if (!x.defined() || !x.device().is_batched()) [[likely]]
    return nullptr;
  return static_cast<const Batched*>(x.storage().stand_in());
}

// A sample of `value` at that level. Throws unless `dim` has the level's size.
Tensor make_batched(const Tensor& value, int dim, const BatchLevelRef& level,
                    Samples what = Samples::Any);
// New memory for each sample of the vmaps in `options.device.levels`.
Tensor empty_batched(const Dims& sizes, Options options, const char* op);

}  // namespace moonlet
