// interp/c/allocators.cpp: allocators of the host, and the devices that there are.
#include <memory>

#include "interp/c/calls.h"
#include "tensor/runtime/allocator.h"
#include "tensor/runtime/backend.h"

using namespace moonlet::c;

namespace {

class HostAllocator : public moonlet::Allocator {
 public:
  explicit HostAllocator(const moonlet_allocator& given) : given_(given) {}
  void* allocate(size_t bytes, moonlet::Device device, void** context) override {
    void* data = given_.allocate(given_.user, bytes, device.index, context);
    if (data == nullptr)
      throw moonlet::OutOfMemory(moonlet::text("out of memory: the host's allocator has no ", bytes,
                                               " bytes on ", device));
    return data;
  }
  void deallocate(void* data, size_t bytes, moonlet::Device device,
                  void* context) noexcept override {
    given_.deallocate(given_.user, data, bytes, device.index, context);
  }

 private:
  const moonlet_allocator given_;
};

}  // namespace

moonlet_status moonlet_set_allocator(const char* kind, const moonlet_allocator* allocator) {
  const char* function = __func__;
  return guarded([&] {
    const moonlet::DeviceType type =
        moonlet::device_type_from_name(text_in(kind, function, "kind"));
    if (allocator == nullptr) return moonlet::set_allocator(type, nullptr);
    if (allocator->size < sizeof *allocator)
      refuse(function, ": 'allocator': expected a size of ", sizeof *allocator, ", got ",
             allocator->size);
    if (allocator->allocate == nullptr) refuse_null(function, "allocate");
    if (allocator->deallocate == nullptr) refuse_null(function, "deallocate");
    // Storages keep the allocator that they were made with: it stays as long as the process.
    moonlet::set_allocator(type, new HostAllocator(*allocator));
  });
}

moonlet_status moonlet_device_count(const char* kind, int32_t* count) {
  const char* function = __func__;
  return guarded([&] {
    const moonlet::DeviceType type =
        moonlet::device_type_from_name(text_in(kind, function, "kind"));
    moonlet::Backend* backend =
        type == moonlet::DeviceType::CPU ? nullptr : moonlet::backend_of(type);
    give(count, type == moonlet::DeviceType::CPU ? 1
                : backend == nullptr             ? 0
                                                 : backend->device_count());
  });
}
