// tensor/core/layout.h: how the dimensions of a tensor lie in memory: named memory formats, and the
// dense strides of a result that follows the layout of its inputs.
#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/core/dims.h"

namespace moonlet {

// Preserve: as the input lies. Contiguous: row-major, the last dimension innermost. ChannelsLast:
// (N, C, H, W) with C innermost, as N, H, W, C lie; ChannelsLast3d: the same for (N, C, D, H, W).
enum class MemoryFormat : uint8_t { Preserve, Contiguous, ChannelsLast, ChannelsLast3d };
inline constexpr int kMemoryFormatCount = static_cast<int>(MemoryFormat::ChannelsLast3d) + 1;

// "channels_last"; the names scripts use.
std::string_view name(MemoryFormat format);
// The format of that name; throws when there is none, listing the names.
MemoryFormat memory_format_from_name(std::string_view name);

// The strides of a dense tensor in that format, which is not Preserve. Throws naming `op` when the
// format is for another number of dimensions.
Dims format_strides(MemoryFormat format, const Dims& sizes, const char* op);
// Whether the elements lie one after another in that format; false for another number of
// dimensions. Dimensions of size 1 may have any stride.
bool is_contiguous(const Dims& sizes, const Dims& strides, MemoryFormat format);
// Whether the elements fill their stretch of memory, each in a position of its own, in any order of
// the dimensions.
bool is_dense(const Dims& sizes, const Dims& strides);

// Dense strides for `sizes` whose dimensions lie in memory in the order of the operands' strides.
// `strides[i]` are those of an operand seen in shape `sizes`, 0 where it is broadcast. The first
// operand that tells two dimensions apart decides; what none decides lies row-major.
Dims followed_strides(const Dims& sizes, const Dims* strides, int count);
// The same for one operand; its own strides when they are dense already.
Dims dense_strides(const Dims& sizes, const Dims& strides);

}  // namespace moonlet
