// tensor/core/device.h: where a tensor lives: the kind of device and its number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace moonlet {

// Batched: that of a tensor inside vmap, which has no memory of its own (tensor/runtime/batched.h).
enum class DeviceType : uint8_t { CPU, CUDA, Batched };
// The kinds that have memory and kernels.
inline constexpr int kDeviceTypeCount = static_cast<int>(DeviceType::CUDA) + 1;

struct Device {
  DeviceType type = DeviceType::CPU;
  int8_t index = 0;
  // Of a batched tensor: where its values are, and which vmaps it is batched by: bit 0 is the
  // outermost.
  DeviceType values_on = DeviceType::CPU;
  uint8_t levels = 0;
  bool operator==(const Device&) const = default;
  bool is_cpu() const { return type == DeviceType::CPU; }
  bool is_cuda() const { return type == DeviceType::CUDA; }
  bool is_batched() const { return type == DeviceType::Batched; }
  // Where the memory is.
  Device real() const {
    Device out = *this;
    if (is_batched()) out = Device{values_on, index};
    return out;
  }
};

// "cpu", "cuda:0": for scripts a batched tensor is where its values are.
std::string name(Device device);
// Parses "cpu", "cuda" (the first one) or "cuda:N"; throws Error on anything else.
Device device_from_name(std::string_view name);
void append(std::string& out, Device device);

}  // namespace moonlet
