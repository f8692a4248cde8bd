// tensor/runtime/batched.cpp: the vmaps that run, and the tensors inside them.
#include "tensor/runtime/batched.h"

#include <mutex>
#include <unordered_map>

#include "tensor/runtime/execution.h"

namespace moonlet {

constinit std::atomic<int> batch_levels{0};

namespace {

// All vmaps that run, by id. Never destroyed, as threads may outlive static objects.
struct Levels {
  std::mutex mutex;
  uint64_t last = 0;
  std::unordered_map<uint64_t, BatchLevelRef> running;
};
Levels& levels() {
  static Levels* const it = new Levels;
  return *it;
}

}  // namespace

BatchLevel::BatchLevel() {
  ++batch_levels;
  ++below_tape;
}
BatchLevel::~BatchLevel() {
  --batch_levels;
  --below_tape;
}

BatchLevelRef find_batch_level(uint64_t id) {
  if (id == 0) return nullptr;
  Levels& all = levels();
  const std::lock_guard lock(all.mutex);
  const auto found = all.running.find(id);
  return found == all.running.end() ? nullptr : found->second;
}

BatchLevelRef enter_batch_level(int64_t size, Randomness randomness) {
  const BatchLevelRef outer = find_batch_level(execution.vmap);
  const int depth = outer ? outer->depth + 1 : 0;
  check(depth < kMaxBatchLevels, "vmap: at most ", kMaxBatchLevels, " may be inside one another");
  check(size > 0, "vmap: a batch of at least one sample is expected, got ", size);
  auto level = std::make_shared<BatchLevel>();
  level->depth = depth;
  level->size = size;
  level->randomness = randomness;
  level->outer = outer ? outer->id : 0;
  Levels& all = levels();
  const std::lock_guard lock(all.mutex);
  level->id = ++all.last;
  all.running.emplace(level->id, level);
  execution.vmap = level->id;
  return level;
}

void leave_batch_level(BatchLevel& level) noexcept {
  if (!level.active.exchange(false)) return;
  if (execution.vmap == level.id) execution.vmap = level.outer;
  Levels& all = levels();
  const std::lock_guard lock(all.mutex);
  all.running.erase(level.id);
}

OutsideBatchLevel::OutsideBatchLevel(const BatchLevel& level) : before_(execution.vmap) {
  execution.vmap = level.outer;
}
OutsideBatchLevel::~OutsideBatchLevel() { execution.vmap = before_; }

namespace {

Device device_at(const Tensor& value, const BatchLevel& level) {
  const Device device = value.device();
  Device out = device;
  if (!device.is_batched()) {
    out.type = DeviceType::Batched;
    out.values_on = device.type;
  }
  out.levels = static_cast<uint8_t>(out.levels | 1u << level.depth);
  return out;
}

}  // namespace

Tensor make_batched(const Tensor& value, int dim, const BatchLevelRef& level, Samples what) {
  Dims sizes = value.sizes(), strides = value.strides();
  if (dim != kNotBatched) {
    check(dim < value.dim() && value.size(dim) == level->size, "vmap: dimension ", dim + 1,
          " of shape ", value.sizes(), " was to count ", level->size, " samples");
    sizes.erase(dim);
    strides.erase(dim);
  }
  check(what == Samples::Any || (value.dim() == 2 && dim == 0 && value.size(0) == value.size(1)),
        "vmap: unit vectors are the rows of a square matrix, got shape ", value.sizes());
  Storage* storage = Storage::standing_for(std::make_unique<Batched>(value, dim, level, what),
                                           device_at(value, *level), value.storage());
  return on_stand_in(storage, sizes, strides, value.dtype());
}

Tensor empty_batched(const Dims& sizes, Options options, const char* op) {
  std::vector<BatchLevelRef> wanted;  // the innermost first
  for (BatchLevelRef level = find_batch_level(execution.vmap); level;
       level = find_batch_level(level->outer))
    if ((options.device.levels >> level->depth & 1) != 0) wanted.push_back(level);
  Dims whole;
  for (auto level = wanted.rbegin(); level != wanted.rend(); ++level)
    whole.push_back((*level)->size);
  for (const int64_t size : sizes) whole.push_back(size);
  Tensor out = empty_plain(whole, {options.dtype, options.device.real()}, op);
  for (auto level = wanted.rbegin(); level != wanted.rend(); ++level)
    out = make_batched(out, 0, *level);
  return out;
}

}  // namespace moonlet
