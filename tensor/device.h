// tensor/device.h: where a tensor lives: the kind of device and its number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace moonlet {

enum class DeviceType : uint8_t { CPU, CUDA };
inline constexpr int kDeviceTypeCount = static_cast<int>(DeviceType::CUDA) + 1;

struct Device {
  DeviceType type = DeviceType::CPU;
  int8_t index = 0;
  bool operator==(const Device&) const = default;
  bool is_cpu() const { return type == DeviceType::CPU; }
  bool is_cuda() const { return type == DeviceType::CUDA; }
};

// "cpu", "cuda:0"
std::string name(Device device);
// Parses "cpu", "cuda" (the first one) or "cuda:N"; throws Error on anything else.
Device device_from_name(std::string_view name);
void append(std::string& out, Device device);

}  // namespace moonlet
