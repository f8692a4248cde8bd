// tensor/runtime/registered_backends.cpp: a row for each backend that is a plugin of Moonlet. What
// a program brings itself calls register_backend.
#include "tensor/runtime/registered_backends.h"

namespace moonlet {

std::span<const BackendInfo> registered_backends() {
  static constexpr BackendInfo kRows[] = {
      {.name = "cuda", .title = "CUDA", .open = open_plugin_backend},
  };
  return kRows;
}

}  // namespace moonlet
