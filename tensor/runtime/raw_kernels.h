// tensor/runtime/raw_kernels.h: kernels that scripts write in the language of a device, compiled at
// their first launch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace moonlet {

struct RawSource {
  std::string text;
  std::string name;                     // of the kernel
  std::vector<std::string> options;     // of the compiler
  std::vector<std::string> parameters;  // the type of each, as the source has it
};

struct RawLaunch {
  std::array<int64_t, 3> grid{1, 1, 1}, block{1, 1, 1};  // x, y, z
  int64_t shared_bytes = 0;                              // of dynamic shared memory
  std::vector<uint64_t> words;                           // an argument each, from its first byte on
};

class RawKernel {
 public:
  virtual ~RawKernel() = default;
  // Puts a launch into the current stream of its device. Throws where the device has not that many
  // blocks or threads, or not that much shared memory.
  virtual void launch(const RawLaunch& launch) const = 0;
};

class RawKernels {
 public:
  virtual ~RawKernels() = default;
  // The kernel on a device. Compiled once for each capability, also by later processes. Throws with
  // the compiler's messages. Thread-safe.
  virtual std::shared_ptr<const RawKernel> compile(const RawSource& source, int device) = 0;
};

}  // namespace moonlet
