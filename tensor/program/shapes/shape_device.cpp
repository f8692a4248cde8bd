// tensor/program/shapes/shape_device.cpp: the backend of the device without memory.
#include "tensor/program/shapes/shape_device.h"

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "tensor/kernels.h"
#include "tensor/runtime/backend.h"

namespace moonlet::program {

namespace {

// Addresses that no memory has: tensors are told apart by them. Those of 64 bits are given out
// once, those of 32 anew when all have been, which is after more bytes than a graph has there.
char* next_address(size_t bytes) {
  constexpr bool kWide = sizeof(uintptr_t) > 4;
  constexpr auto kFirst = static_cast<uintptr_t>(uint64_t{1} << (kWide ? 54 : 31));
  constexpr auto kMost = static_cast<size_t>(uint64_t{1} << (kWide ? 62 : 30));
  static std::atomic<uintptr_t> next{kFirst};
  const uintptr_t step = (std::min(bytes, kMost) + 128) / 64 * 64;
  uintptr_t at = next.load(std::memory_order_relaxed), first = at;
  do {
    first = step <= UINTPTR_MAX - at ? at : kFirst;
  } while (!next.compare_exchange_weak(at, first + step, std::memory_order_relaxed));
  return reinterpret_cast<char*>(first);
}

class NoMemory final : public Allocator {
 public:
  void* allocate(size_t bytes, Device, void**) override { return next_address(bytes); }
  void deallocate(void*, size_t, Device, void*) noexcept override {}
};

class ShapeBackend final : public Backend {
 public:
  int device_count() override { return 0; }
  std::string device_name(int) override { return "shapes"; }
  const KernelTable& kernels() override { return shape_kernels(); }
  Allocator& allocator() override { return memory_; }
  void transfer(Tensor&, const Tensor&) override { fail_on_values(); }
  void synchronize(int) override {}

 private:
  NoMemory memory_;
};

Backend* open_shapes(DeviceType, std::string*) {
  static ShapeBackend& it = *new ShapeBackend;
  return &it;
}

}  // namespace

void fail_on_values() { fail("the sizes of its result depend on values"); }

Device shape_device() {
  static const DeviceType type = [] {
    const DeviceType made =
        register_backend({.name = "shapes", .title = "shapes", .open = open_shapes});
    backend_of(made);
    return made;
  }();
  return {type, 0};
}

Storage* shape_storage(size_t bytes) {
  return Storage::foreign(next_address(bytes), bytes, shape_device(), {});
}

}  // namespace moonlet::program
