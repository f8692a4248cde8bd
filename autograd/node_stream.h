// autograd/node_stream.h: the stream in which a node's op ran. Its number is in the low bits of the
// node's position in the order of all nodes, above which the positions count.
#pragma once

#include "autograd/node.h"
#include "tensor/runtime/streams.h"

namespace moonlet {

// Enough for all streams of a device.
inline constexpr int kStreamBits = 11;
inline constexpr uint64_t kStreamMask = (uint64_t{1} << kStreamBits) - 1;

// The stream that was current on the device of output 0 when it was recorded; the node runs there.
inline DeviceStream stream_of(const Node& node) {
  return {node.output(0).options.device.index,
          static_cast<uint16_t>(node.sequence() & kStreamMask)};
}

// The position alone: 1 for the first node.
inline uint64_t position_of(const Node& node) { return node.sequence() >> kStreamBits; }

}  // namespace moonlet
