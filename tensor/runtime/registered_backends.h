// tensor/runtime/registered_backends.h: the backends that every program knows.
#pragma once

#include <span>

#include "tensor/runtime/backend.h"

namespace moonlet {

std::span<const BackendInfo> registered_backends();

}  // namespace moonlet
