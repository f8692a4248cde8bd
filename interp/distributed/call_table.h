// interp/distributed/call_table.h: calls as scripts write them: tables of names.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "interp/distributed/engine.h"
#include "lua.hpp"
#include "tensor/core/tensor.h"

namespace moonlet::distributed {

// { kind, reduction, tag, root, count, sent, received, ordered, same_to_all, what, input, output },
// checked: what it reads and writes lies in its tensors, which are on the device of the stream, or
// on the host without one.
struct CallTensors {
  Tensor in, out;
};
Call call_at(lua_State* L, int index, size_t size, const std::optional<DeviceStream>& stream,
             CallTensors& tensors);

// The kind and reduction alone.
struct CallName {
  Kind kind;
  Reduction reduction;
};
CallName call_name_at(lua_State* L, int index);

std::vector<int64_t> integers_at(lua_State* L, int index);

}  // namespace moonlet::distributed
