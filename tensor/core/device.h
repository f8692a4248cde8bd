// tensor/core/device.h: where a tensor lives: the kind of device and its number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#if __cplusplus >= 202002L
#include <span>
#endif

namespace moonlet {

// A kind of device by its number in this process. The CPU has 0; the others are those of the
// registered backends (tensor/runtime/backend.h). Batched: that of a tensor inside vmap, which has
// no memory of its own (tensor/runtime/batched.h).
enum class DeviceType : uint8_t { CPU, Batched = 255 };
// The most kinds that there may be with memory and kernels: their numbers are below.
inline constexpr int kMaxDeviceTypes = 4;

struct Device {
  DeviceType type = DeviceType::CPU;
  int8_t index = 0;
  // Of a batched tensor: where its values are, and which vmaps it is batched by: bit 0 is the
  // outermost.
  DeviceType values_on = DeviceType::CPU;
  uint8_t levels = 0;
  constexpr bool operator==(const Device& other) const {
    return type == other.type && index == other.index && values_on == other.values_on &&
           levels == other.levels;
  }
  constexpr bool operator!=(const Device& other) const { return !(*this == other); }
  bool is_cpu() const { return type == DeviceType::CPU; }
  bool is_batched() const { return type == DeviceType::Batched; }
  // Where the memory is.
  Device real() const {
    Device out = *this;
    if (is_batched()) out = Device{values_on, index};
    return out;
  }
};

#if __cplusplus >= 202002L
// All kinds that are registered, the CPU first. Not for hosts in C++17.
std::span<const DeviceType> device_types() noexcept;
#endif
// "cpu", or the name that a backend was registered with.
const char* name(DeviceType type);
// The kind of that name, or nothing.
std::optional<DeviceType> find_device_type(std::string_view name);
// The same; throws Error, naming those that there are.
DeviceType device_type_from_name(std::string_view name);

// "cpu", "cuda:0": for scripts a batched tensor is where its values are.
std::string name(Device device);
// Parses "cpu", "cuda" (the current one) or "cuda:N"; throws Error on anything else.
Device device_from_name(std::string_view name);
// Whether it is the name of a kind, or of a device of one, which need not exist.
bool names_device(std::string_view text);
void append(std::string& out, Device device);
void append(std::string& out, DeviceType type);

}  // namespace moonlet
